//! Any bytes as a file of another tool: it is refused with one line, or its runs have finite values
//! and every table of them can be rendered.

#![no_main]

#[path = "../given.rs"]
mod given;

use std::path::Path;

use analysis::Reading;
use analysis::table::{TableOptions, table};
use libfuzzer_sys::fuzz_target;
use report::table::{Format, render, render_explanation, render_summary};

/// Reports with prose between them.
const NOTES: &str = concat!(
    include_str!("../../crates/analysis/tests/data/notes.md"),
    include_str!("../../crates/analysis/tests/data/cmm_style_with_json.txt"),
    include_str!("../../crates/report/tests/captured/wrk2.txt"),
    include_str!("../../crates/analysis/tests/data/published.md"),
    "run,requests,latency_p99_us,failure,source\r\n1,5,7.5,,\"a,b\"\r\navg,5,7.5,,\r\n",
    "2024-05-01T12:00:00Z \u{1b}[1mFirst round:\u{1b}[0m\n@@ -1 +1 @@\n+> kept\n-gone\n",
    include_str!("../../crates/analysis/tests/data/places.txt"),
);

/// File names with and without a meaning.
const NAMES: [&str; 3] = [
    "notes.md",
    "b-rmem_max-262144-1.json",
    "b-rmem_max-262144-1.log",
];

fuzz_target!(|data: &[u8]| {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let text = match how % 2 {
        0 => rest.to_vec(),
        _ => given::with_pieces_replaced(NOTES.as_bytes(), rest),
    };
    let name = NAMES[usize::from(how / 2) % NAMES.len()];
    match Reading::of_bytes(&text, Path::new(name)) {
        Ok(reading) => check(&Reading::join(vec![(name.into(), reading)])),
        Err(error) => given::one_line(&error.to_string()),
    }
});

fn check(reading: &Reading) {
    reading.notes.iter().for_each(|note| given::one_line(note));
    for run in &reading.observations {
        run.failure
            .iter()
            .for_each(|reason| given::one_line(reason));
        assert!(run.run >= 1);
        for (name, value) in &run.values {
            assert!(value.is_finite() && *value >= 0.0, "{name} is {value}");
        }
    }
    let options = TableOptions {
        spread: true,
        errors: true,
        statuses: true,
        ..TableOptions::default()
    };
    let table = table(&reading.observations, &options).expect("no column was named");
    let mut output = Vec::new();
    for format in [Format::Markdown, Format::Csv, Format::Json] {
        render(&table, format, &mut output).expect("memory takes every write");
    }
    render_summary(&table, &mut output).expect("memory takes every write");
    render_explanation(&reading.observations, &mut output).expect("memory takes every write");
}
