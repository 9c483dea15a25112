//! The places and agents of a fleet below the text and on the page.

#[allow(dead_code, reason = "other tests use more of it")]
mod fixture;
#[path = "fixture/fleet.rs"]
mod fleet;

use std::path::Path;

use analysis::Reading;
use fleet::fleet;
use presentation::{Block, TableBlock};
use report::page::{PageSubject, build};
use report::{Format, TextOptions, render};
use results::RunResult;

fn shown(result: &RunResult, format: Format) -> String {
    let mut bytes = Vec::new();
    render(result, format, &TextOptions::default(), &mut bytes).expect("memory takes every write");
    String::from_utf8(bytes).expect("the report is UTF-8")
}

#[test]
fn places_and_agents_follow_the_text_of_the_whole_after_an_empty_line() {
    let merged = fleet(4);
    let mut alone = merged.clone();
    alone.agents.clear();
    alone.places.clear();
    for format in [Format::Wrk, Format::Wrk2, Format::Cmm] {
        let (text, of_whole) = (shown(&merged, format), shown(&alone, format));
        let below = text
            .strip_prefix(&of_whole)
            .expect("the text of the whole comes first");
        let expected = include_str!("golden/fleet.txt");
        assert!(
            below == expected,
            "printed:\n{below}\nexpected:\n{expected}"
        );
    }
}

#[test]
fn the_weights_of_agents_are_shown_if_they_are_not_all_equal() {
    let equal = fleet::weighted(4, |_| 7);
    assert_eq!(shown(&equal, Format::Wrk), shown(&fleet(4), Format::Wrk));
    let unequal = fleet::weighted(4, |number| if number == 3 { 2 } else { 1 });
    let text = shown(&unequal, Format::Wrk);
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("  Agent "));
    let words = |line: &str| {
        let words = line.split_whitespace().take(3);
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let rows: Vec<_> = rows.map(words).collect();
    let expected = [
        ["Agent", "Place", "Weight"],
        ["agent-1", "office", "1"],
        ["agent-2", "office", "1"],
        ["agent-3", "rack", "2"],
        ["agent-4", "rack", "1"],
    ];
    assert_eq!(rows, expected, "{text}");
    for table in tables(&unequal) {
        let has_weight = table.columns.iter().any(|column| column.name == "Weight");
        assert_eq!(has_weight, table.caption == "Agents");
        for row in &table.rows {
            assert_eq!(row.len(), table.columns.len(), "{}", table.caption);
        }
    }
}

#[test]
fn of_a_large_fleet_the_lost_and_the_saturated_agents_are_listed_first() {
    let text = shown(&fleet(200), Format::Wrk);
    let (_, agents) = text.split_once("  Agent ").expect("there is a table");
    let mut names = agents
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    assert_eq!(names.next(), Some("agent-3"));
    assert_eq!(names.next(), Some("agent-2"));
    assert_eq!(names.next(), Some("agent-1"));
    assert!(text.ends_with("\n  and 168 agents more\n"), "{text}");
}

/// The tables of the section about the fleet.
fn tables(result: &RunResult) -> Vec<TableBlock> {
    let mut bytes = Vec::new();
    render(result, Format::Json, &TextOptions::default(), &mut bytes)
        .expect("memory takes every write");
    let reading = Reading::of_bytes(&bytes, Path::new("run.json")).expect("it is a document");
    let page = build(&PageSubject {
        observations: &reading.observations,
        ..PageSubject::default()
    });
    let sections = page
        .sections
        .into_iter()
        .filter(|section| section.id == "fleet");
    let blocks = sections.flat_map(|section| section.blocks);
    blocks
        .filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
        .collect()
}

#[test]
fn the_page_of_a_fleet_has_a_table_of_its_places_and_one_of_its_agents() {
    let tables = tables(&fleet(4));
    let [places, agents] = &tables[..] else {
        panic!("two tables: {tables:?}");
    };
    let texts = |table: &TableBlock, row: usize| {
        let cells = table.rows[row].iter().map(|cell| cell.text.clone());
        cells.collect::<Vec<_>>()
    };
    assert_eq!(texts(places, 0)[..2], ["office", "2 agents"]);
    assert_eq!(texts(places, 0)[6], "saturated");
    assert_eq!(agents.rows.len(), 4);
    for table in &tables {
        for row in &table.rows {
            assert_eq!(row.len(), table.columns.len(), "{}", table.caption);
        }
    }
    let lost = texts(agents, 2);
    assert_eq!(lost[..2], ["agent-3", "rack"]);
    assert!(lost[6].starts_with("lost after 1.5 s"), "{lost:?}");
    assert_eq!(texts(agents, 0)[7..], ["45 us", "120 us"]);
}

#[test]
fn the_page_of_one_machine_has_no_such_section() {
    let tables = tables(&fixture::result(fixture::ordinary_recording()));
    assert!(tables.is_empty());
}
