//! What to write instead of an unknown or misplaced key.

use plan::find_option;
use results::nearest;

/// The message for an unknown key of a table whose keys are `known`.
pub(super) fn unknown(key: &str, table: &str, known: &[&str]) -> String {
    let shown_key = shown(key);
    if let Some((_, home)) = HOMES
        .iter()
        .find(|(known, home)| *known == key && *home != table)
    {
        return format!("{shown_key} does not belong in {table} but in {home}");
    }
    if find_option(&key.replace('_', "-")).is_some() {
        return match table {
            "[[factor]]" => format!(
                "{shown_key} in [[factor]] takes a list of levels, like {key} = [4, 8]; a value \
                 for every run belongs in [load]"
            ),
            _ => format!(
                "{shown_key} does not belong in {table} but in [load]; to vary it, write \
                 {key} = [...] below [[factor]]"
            ),
        };
    }
    match nearest(key, known.iter().copied()) {
        Some(near) => format!("unknown key {shown_key} in {table} (did you mean {near}?)"),
        None => format!(
            "unknown key {shown_key} in {table} (known: {})",
            known.join(", ")
        ),
    }
}

/// The message for a key among load options that belongs in another table.
pub(super) fn misplaced(key: &str) -> Option<String> {
    let (_, home) = HOMES.iter().find(|(known, _)| *known == key)?;
    let before = match *home {
        TOP_OF_FILE => ", before its first [table]",
        _ => "",
    };
    Some(format!(
        "{} is not a load option; it belongs in {home}{before}",
        shown(key)
    ))
}

pub(super) const TOP_OF_FILE: &str = "the top level";

/// Keys that are often written in the wrong table, and where they belong.
const HOMES: [(&str, &str); 21] = [
    ("settle", "[hooks]"),
    ("restart", "[hooks]"),
    ("ready", "[hooks]"),
    ("setup", "[hooks]"),
    ("teardown", "[hooks]"),
    ("sockets", "[telemetry]"),
    ("counters", "[telemetry]"),
    ("url", "[[target]]"),
    ("before", "[hooks]"),
    ("after", "[hooks]"),
    ("rounds", TOP_OF_FILE),
    ("results", TOP_OF_FILE),
    ("order", TOP_OF_FILE),
    ("retries", TOP_OF_FILE),
    ("max_failures", TOP_OF_FILE),
    ("threshold", TOP_OF_FILE),
    ("judge", TOP_OF_FILE),
    ("places", TOP_OF_FILE),
    ("exclude", TOP_OF_FILE),
    ("baseline", TOP_OF_FILE),
    ("levels", "[[factor]]"),
];

/// The most characters of the file that a message quotes.
const LONGEST_SHOWN: usize = 80;

/// A text of the file in a message: quoted, on one line, shortened.
pub(super) fn shown(text: &str) -> String {
    let mut cut: String = text.chars().take(LONGEST_SHOWN).collect();
    if cut.len() < text.len() {
        cut.push_str("...");
    }
    format!("{cut:?}")
}
