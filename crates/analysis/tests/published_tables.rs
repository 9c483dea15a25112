//! Tables that people publish: a row is a run, or is reported; rows of different things are never
//! averaged.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::path::Path;

use analysis::Reading;
use analysis::table::{TableOptions, table};

fn reading(text: &str) -> Reading {
    let read = Reading::of_bytes(text.as_bytes(), Path::new("table.md")).unwrap();
    Reading::join(vec![("table.md".into(), read)])
}

/// The rates of the runs in each row of the table that is made from a text.
fn rates(text: &str) -> Vec<Vec<f64>> {
    let runs = reading(text).observations;
    let cells = table(&runs, &TableOptions::default()).unwrap().cells;
    let rates = cells.iter().map(|cell| {
        let of = |source: &str| runs.iter().find(|run| run.source == source).unwrap();
        let runs = cell.runs.iter().map(|run| of(&run.source));
        runs.filter_map(|run| run.value("requests_per_sec"))
            .collect()
    });
    rates.collect()
}

#[test]
fn rows_below_a_malformed_row_are_read_or_reported() {
    for (titles, row, rows, read, notes) in [
        ("target,rps", "a,1", "b,2,3\nc,4", 2, 1),
        ("target,rps", "a,1", "b\nc,4", 1, 1),
        ("target,rps", "a,1", "\nb,2\nc,4", 1, 2),
        ("target,rps", "a,1", "a remark\nb,2\nc,4", 1, 2),
        ("target,rps", "a,1", "# b, another build\nb,2", 1, 1),
        ("|target|rps|\n|--|--|", "|a|1|", "|b|2|3|\n|c|4|", 2, 1),
        ("|target|rps|\n|--|--|", "|a|1|", "|b|\n|c|4|", 2, 1),
        ("|target|rps|\n|--|--|", "|a|1|", "\n|b|2|\n|c|4|", 1, 2),
        ("|target|rps|\n|--|--|", "|a|1|", "a remark\n|b|2|", 1, 1),
        ("|target|rps|\n|-|-|", "|a|1|", "| |2|\n|\"|3|", 1, 2),
        ("|target|rps|\n|-|-|", "|a|1|", "|min|2|\n|max|3|", 1, 2),
        ("|target|rps|rps|\n|-|-|-|", "|a|1||", "|b|2|3|", 1, 1),
        ("target, rps", "a, 1", "b, 1,200, 6\nc, 4", 2, 1),
        ("target,rps", "a,1", "\"b,2\nc,4", 2, 1),
    ] {
        let text = format!("{titles}\n{row}\n{rows}\n");
        for text in [&text, &text.replace(',', "\t")] {
            let reading = reading(text);
            let found = (reading.observations.len(), reading.notes.len());
            assert_eq!(found, (read, notes), "{text}: {:?}", reading.notes);
            assert!(reading.has_skipped_lines, "{text}");
        }
    }
}

#[test]
fn a_table_directly_below_another_one_is_read_without_a_note() {
    let text = "| target | rps |\n|---|---|\n| a | 1 |\n| target | rps | errors |\n|---|---|---|\n\
                | b | 2 | 0 |\n";
    let reading = reading(text);
    assert_eq!(reading.observations.len(), 2);
    assert_eq!(reading.notes, Vec::<String>::new());
}

#[test]
fn whatever_tells_two_rows_apart_keeps_them_apart() {
    for (titles, one, other) in [
        ("host | framework", "h | a", "h | b"),
        ("framework | host", "a | h", "b | h"),
        ("target | net.core.somaxconn", "t | 128", "t | 4096"),
        ("target | Node.js", "t | 20", "t | 22"),
        ("target", "a", "a*"),
        ("run | source", "1 | a", "1 | b"),
        ("run | position", "1 | a", "1 | b"),
        ("target | lower_bounds", "t | a", "t | b"),
        ("target | failure", "t | 0", "t | 50"),
        ("target | failure | kernel", "t | none | 5", "t | no | 6"),
    ] {
        let rule = "|---".repeat(titles.split('|').count() + 1);
        let text = format!("| {titles} | rps |\n{rule}|\n| {one} | 100 |\n| {other} | 200 |\n");
        assert_eq!(rates(&text), [[100.0], [200.0]], "{text}");
    }
}

#[test]
fn rows_and_runs_of_one_name_are_apart() {
    let object = "{\"requests\": 5000, \"requests_per_sec\": 500}";
    let text = format!("|target|rps|\n|--|--|\n|a|100|\n\n## a\n{object}\n## b\n{object}\n");
    let rates = rates(&text);
    assert!(rates.contains(&vec![100.0]), "{rates:?}");
}

#[test]
fn rows_of_several_files_below_other_headings_are_apart() {
    let of = |name: &str, heading: &str, rate| {
        let text = format!("## {heading}\n|target|rps|\n|--|--|\n|a|{rate}|\n");
        let read = Reading::of_bytes(text.as_bytes(), Path::new(name)).unwrap();
        (name.into(), read)
    };
    let joined = Reading::join(vec![of("run-1.md", "old", 1), of("run-2.md", "new", 2)]);
    let profiles = joined.observations.iter().map(|run| run.profile.as_deref());
    assert_eq!(
        profiles.collect::<Vec<_>>(),
        [Some("(## old)"), Some("(## new)")]
    );
}

#[test]
fn a_run_is_a_number_in_the_listed_forms() {
    let read = |cell: &str| {
        let text = format!("| t | run | rps |\n|---|---|---|\n| a | {cell} | 5 |\n");
        let read = Reading::of_bytes(text.as_bytes(), Path::new("table.md"));
        read.ok()
            .and_then(|read| Some(read.observations.first()?.run))
    };
    for cell in ["2", "#2", "run 2", "Run #2", "2/3", "2 of 3"] {
        assert_eq!(read(cell), Some(2), "{cell}");
    }
    for cell in ["nginx v2", "2.5", "0", "x", ""] {
        assert_eq!(read(cell), None, "{cell}");
    }
}

#[test]
fn counters_of_the_kernel_are_values_under_their_names() {
    let names = [
        "TcpExt.ListenDrops",
        "softnet.dropped",
        "pressure.cpu.some_us",
    ];
    let text = format!(
        "| rps | {} |\n|---|---|---|---|\n| 1 | 2 | 3 | 4 |\n",
        names.join(" | ")
    );
    let run = &reading(&text).observations[0];
    assert_eq!(names.map(|name| run.value(name)), [2.0, 3.0, 4.0].map(Some));
}
