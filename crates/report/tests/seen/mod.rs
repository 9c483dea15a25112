//! Pages as text, and what holds of every page.
#![allow(dead_code, reason = "not every test looks at everything")]

use std::collections::BTreeSet;
use std::path::Path;

use presentation::{Block, Chart, Mark, Page, Scale, Section, TableCell, Tone};

/// Points of a line, at most.
pub(crate) const POINTS_MAX: usize = 600;

/// A page as text; charts by their descriptions.
pub(crate) fn outline(page: &Page) -> String {
    let mut text = format!("{}\n", page.title);
    if page.answer != page.title {
        text += &format!("{}\n", page.answer);
    }
    text += &format!("{}\n", page.subtitle);
    for section in &page.sections {
        text += &format!("\n## {} ({})\n", section.title, section.id);
        if !section.lead.is_empty() {
            text += &format!("{}\n", section.lead);
        }
        for block in &section.blocks {
            text += &block_in_words(block);
        }
    }
    text
}

fn block_in_words(block: &Block) -> String {
    let mut text = String::new();
    match block {
        Block::Finding {
            tone,
            text: sentence,
            details,
        } => {
            text += &format!("- [{tone:?}] {sentence}\n");
            for detail in details {
                text += &format!("  - {detail}\n");
            }
        }
        Block::Figures { figures } => {
            for figure in figures {
                let (label, value, note) = (&figure.label, &figure.value, &figure.note);
                text += &format!("# {label}: {value} [{:?}] {note}\n", figure.tone);
            }
        }
        Block::Charts { charts } => {
            for chart in charts {
                text += &format!("~ {} ({}): {}\n", chart.title, chart.id, chart.description);
                for marks in &chart.marks {
                    let points = match marks.mark {
                        Mark::Span => marks.x.len(),
                        _ => marks.y.iter().flatten().count(),
                    };
                    text += &format!("  ~ {}: {:?}, {points} points\n", marks.name, marks.mark);
                }
            }
        }
        Block::Flames(graph) => {
            let boxes = graph.boxes.len();
            text += &format!("~ {}: {}, {boxes} boxes\n", graph.title, graph.description);
        }
        Block::Table(table) => {
            let heads: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
            text += &format!("{}\n| {} |\n", table.caption, heads.join(" | "));
            for row in &table.rows {
                let cells: Vec<String> = row.iter().map(cell_in_words).collect();
                text += &format!("| {} |\n", cells.join(" | "));
            }
        }
        Block::Facts { facts } => {
            for (name, value) in facts {
                text += &format!("{name}: {value}\n");
            }
        }
        Block::Code { label, text: code } => text += &format!("{label}:\n    {code}\n"),
    }
    text
}

fn cell_in_words(cell: &TableCell) -> String {
    match cell.tone {
        Tone::Neutral => cell.text.clone(),
        tone => format!("{} [{tone:?}]", cell.text),
    }
}

/// With `UPDATE_GOLDEN=1` the file is written.
#[track_caller]
#[allow(
    clippy::disallowed_methods,
    reason = "the environment says whether files are written"
)]
pub(crate) fn check_golden(page: &Page, name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(name);
    let actual = outline(page);
    if std::env::var("UPDATE_GOLDEN").is_ok() {
        std::fs::write(&path, &actual).expect("the file can be written");
    }
    let golden = std::fs::read_to_string(&path).expect("the file can be read");
    assert!(
        actual == golden,
        "the page says:\n{actual}\nexpected:\n{golden}"
    );
}

pub(crate) fn charts(page: &Page) -> impl Iterator<Item = &Chart> {
    let blocks = page.sections.iter().flat_map(|section| &section.blocks);
    blocks.flat_map(|block| match block {
        Block::Charts { charts } => charts.as_slice(),
        _ => &[],
    })
}

pub(crate) fn section<'a>(page: &'a Page, id: &str) -> Option<&'a Section> {
    page.sections.iter().find(|section| section.id == id)
}

pub(crate) fn chart<'a>(page: &'a Page, id: &str) -> &'a Chart {
    charts(page)
        .find(|chart| chart.id == id)
        .unwrap_or_else(|| panic!("no chart {id}"))
}

/// What holds of every page.
#[track_caller]
pub(crate) fn check_page(page: &Page) {
    let mut ids = BTreeSet::new();
    let is_id =
        |id: &str| !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    assert!(!page.title.is_empty());
    for section in &page.sections {
        let id = &section.id;
        assert!(is_id(id) && ids.insert(id), "{id}");
        assert!(
            !section.title.is_empty() && !section.blocks.is_empty(),
            "{id}"
        );
        section.blocks.iter().for_each(check_block);
    }
    for chart in charts(page) {
        let id = &chart.id;
        assert!(is_id(id) && ids.insert(id), "{id}");
        assert!(
            !chart.description.is_empty() && !chart.marks.is_empty(),
            "{id}"
        );
        check_marks(chart);
    }
}

fn check_block(block: &Block) {
    match block {
        Block::Table(table) => {
            assert!(!table.columns.is_empty(), "{}", table.caption);
            for row in &table.rows {
                assert_eq!(row.len(), table.columns.len(), "{}", table.caption);
                let mut values = row.iter().filter_map(|cell| cell.value);
                assert!(values.all(f64::is_finite), "{}", table.caption);
            }
        }
        Block::Figures { figures } => assert!(!figures.is_empty()),
        Block::Finding { text, .. } => assert!(!text.is_empty()),
        Block::Charts { charts } => assert!(!charts.is_empty()),
        Block::Flames(graph) => {
            assert!(!graph.boxes.is_empty(), "{}", graph.title);
            for it in &graph.boxes {
                assert!(
                    it.row < graph.rows && it.x + it.width < 100.001,
                    "{}",
                    it.tip
                );
            }
        }
        Block::Facts { facts } => assert!(!facts.is_empty()),
        Block::Code { text, .. } => assert!(!text.is_empty()),
    }
}

#[track_caller]
pub(crate) fn check_marks(chart: &Chart) {
    let mut names = BTreeSet::new();
    for marks in &chart.marks {
        let id = format!("{}: {}", chart.id, marks.name);
        // One entry of the legend may be many lines, if their points say which.
        let is_new = names.insert(&marks.name);
        let tells = is_new || !marks.labels.is_empty();
        assert!(tells, "{id} is twice in the legend");
        assert_eq!(marks.x.len(), marks.y.len(), "{id}");
        assert!(marks.x.len() <= POINTS_MAX, "{id} has {}", marks.x.len());
        assert!(marks.x.iter().all(|x| x.is_finite()), "{id}");
        let ascends = marks.x.is_sorted_by(|a, b| a < b);
        assert!(ascends || marks.mark == Mark::Path, "{id} does not ascend");
        for ends in [&marks.low, &marks.high] {
            let is_interval = matches!(marks.mark, Mark::Interval | Mark::Band | Mark::Path);
            let expected = if is_interval { marks.x.len() } else { 0 };
            assert_eq!(ends.len(), expected, "{id}");
        }
        let spans = if marks.mark == Mark::Span {
            marks.x.len()
        } else {
            0
        };
        assert_eq!(marks.until.len(), spans, "{id}");
        let mut ends = marks.x.iter().zip(&marks.until);
        assert!(ends.all(|(from, until)| from < until), "{id}");
        assert!([0, marks.x.len()].contains(&marks.labels.len()), "{id}");
        assert!([0, marks.x.len()].contains(&marks.texts.len()), "{id}");
        for values in [&marks.y, &marks.low, &marks.high] {
            assert!(values.iter().flatten().all(|y| y.is_finite()), "{id}");
            if chart.y.scale == Scale::Log {
                let mut shown = values.iter().flatten();
                assert!(shown.all(|y| *y > 0.0), "{id} on a log axis");
            }
        }
        if chart.x.scale == Scale::Nines {
            let mut percents = marks.x.iter();
            assert!(percents.all(|x| (0.0..=100.0).contains(x)), "{id}");
        }
    }
}
