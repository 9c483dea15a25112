//! The published schema is the one generated from the types.

use std::fmt::Write as _;

use serde_json::Value;

const PUBLISHED: &str = include_str!("../../../docs/result.schema.json");

/// Maximum line length, so that a field that fits is on one line.
const COLUMNS_MAX: usize = 100;

/// Prints JSON with an object or a list on one line if it fits.
fn printed(value: &Value, indent: usize, used: usize, out: &mut String) {
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
        printed(item, indent + 2, name.len(), out);
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

#[test]
fn the_published_schema_is_the_one_of_the_types() {
    let mut text = String::new();
    printed(&results::schema::schema(), 0, 0, &mut text);
    text.push('\n');
    if std::env::var_os("WRKBENCH_WRITE_SCHEMA").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/result.schema.json");
        std::fs::write(path, &text).expect("the schema can be written");
        return;
    }
    assert!(
        text == PUBLISHED,
        "docs/result.schema.json does not match the types; run make schema"
    );
}
