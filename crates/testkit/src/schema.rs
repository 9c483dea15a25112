//! Published JSON Schemas: files that are generated from types.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

/// Checks that a published file has this schema. With WRKBENCH_WRITE_SCHEMA set, it is written
/// (`make schema`).
///
/// # Panics
/// When the file has another one, or cannot be read or written.
pub fn check_published(path: &Path, schema: &Value) {
    // Whether an object keeps the order of its fields depends on which crates are compiled.
    let mut schema = schema.clone();
    schema.sort_all_objects();
    let mut text = String::new();
    print(&schema, 0, 0, &mut text);
    text.push('\n');
    if std::env::var_os("WRKBENCH_WRITE_SCHEMA").is_some() {
        std::fs::write(path, &text).expect("the schema can be written");
        return;
    }
    let published = std::fs::read_to_string(path).expect("the schema is published");
    assert!(
        text == published,
        "{} does not match the types; run make schema",
        path.display()
    );
}

/// Maximum line length, so that a field that fits is on one line.
const COLUMNS_MAX: usize = 100;

/// Prints JSON with an object or a list on one line if it fits.
fn print(value: &Value, indent: usize, used: usize, out: &mut String) {
    let line = one_line(value);
    if indent + used + line.len() < COLUMNS_MAX {
        out.push_str(&line);
        return;
    }
    let (items, ends): (Vec<(Option<&String>, &Value)>, _) = match value {
        Value::Object(fields) => (fields.iter().map(|(k, v)| (Some(k), v)).collect(), "{}"),
        Value::Array(items) => (items.iter().map(|item| (None, item)).collect(), "[]"),
        _ => return out.push_str(&line),
    };
    out.push_str(&ends[..1]);
    let last = items.len() - 1;
    for (at, (name, item)) in items.into_iter().enumerate() {
        let name = name.map_or_else(String::new, |name| format!("\"{name}\": "));
        let _ = write!(out, "\n{:1$}{name}", "", indent + 2);
        print(item, indent + 2, name.len(), out);
        if at < last {
            out.push(',');
        }
    }
    let _ = write!(out, "\n{:indent$}{}", "", &ends[1..]);
}

fn one_line(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("\"{name}\": {}", one_line(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(one_line).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}
