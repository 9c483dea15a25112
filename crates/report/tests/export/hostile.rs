//! Labels that try to break out of each format: quotes, line ends, markup, formulas, very long
//! ones.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Observation;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use proptest::prelude::*;
use report::export::ExportFormat;
use results::Setting;

use crate::runs::{self, Set};
use crate::{fixture, grammar};

/// What people and programs have put into names to see what happens.
const NASTY: [&str; 22] = [
    "\u{1b}[2J\u{9b}31m\u{7}\u{202e}a\u{2067}b\u{200f}\u{61c}\u{2029}c\rd\te",
    "",
    " ",
    "a\nb\r\nc",
    "\",\"x\r\n",
    "=1+1",
    "=cmd|'/c calc'!A0",
    "-t12 -c400",
    "@SUM(A1)",
    "</script><script>alert(1)</script>",
    "]]><x a=\"'&amp;\">",
    "\u{202e}gpj.exe\u{2066}",
    "a|b\\|c`d`*e*[f](g)<img src=x>",
    "::error::x%0A::set-env name=a::b",
    "\\n\\\"\\",
    "Tag=a,1,2,3",
    "net.ipv4.tcp_rmem",
    "le",
    "run",
    "\u{0}\u{1}\u{b}\u{1f}\u{7f}\u{85}\u{2028}\u{feff}\u{fffe}\u{ffff}",
    "php-2",
    "a/b c=d",
];

fn label() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(NASTY.as_slice()).prop_map(str::to_owned),
        2 => any::<String>(),
        1 => (prop::sample::select(NASTY.as_slice()), 300..3_000_usize)
            .prop_map(|(part, length)| format!("x{part}").repeat(length / (part.len() + 1))),
    ]
}

/// Runs of two cells that differ in one level only.
fn set(factor: &str, levels: [&str; 2], target: &str) -> Set {
    let mut result = fixture::result(fixture::answered(&[1_000_000, 2_000_000], 200, 1));
    result.environment.hostname = Some(target.to_owned());
    result.environment.cpu_model = Some(target.to_owned());
    result.plan.target.url = target.to_owned();
    let runs: Vec<Observation> = levels
        .iter()
        .zip(1..)
        .map(|(level, run)| Observation {
            source: target.to_owned(),
            settings: vec![Setting {
                factor: factor.to_owned(),
                level: (*level).to_owned(),
            }],
            profile: Some(factor.to_owned()),
            target: Some(target.to_owned()),
            run,
            values: results::metric::values(&result),
            result: Some(Box::new(result.clone())),
            ..Observation::default()
        })
        .chain([Observation {
            source: levels[0].to_owned(),
            failure: Some(levels[1].to_owned()),
            run: 3,
            ..Observation::default()
        }])
        .collect();
    Set::of(runs).judged_by("p50>1ms")
}

fn shown(set: &Set, format: ExportFormat) -> String {
    set.shown(format).unwrap()
}

/// Text of spreadsheets gets an apostrophe where it would be a formula.
fn is_csv_of(field: &str, text: &str) -> bool {
    let text = &*plan::printable(text);
    field == text || field.strip_prefix('\'') == Some(text)
}

/// The first character that may not be shown, lines and tabs aside.
fn unprintable(text: &str) -> Option<char> {
    // Lines of CSV end like this (RFC 4180).
    let text = text.replace("\r\n", "\n");
    let mut all = text.chars();
    all.find(|c| !plan::is_printable(*c) && !matches!(c, '\n' | '\t'))
}

/// The runs as tables and as comparisons in each form, with how they were read.
fn tables(set: &Set) -> Vec<String> {
    use report::table::{self, Format};
    type Write<'a> = &'a dyn Fn(&mut Vec<u8>) -> std::io::Result<()>;
    let written = |write: Write<'_>| {
        let mut bytes = Vec::new();
        write(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let options = analysis::table::TableOptions::default();
    let of_runs = analysis::table::table(&set.runs, &options).unwrap();
    let formats = [Format::Markdown, Format::Csv, Format::Json];
    let mut texts: Vec<String> = formats
        .iter()
        .map(|format| written(&|output| table::render(&of_runs, *format, output)))
        .collect();
    texts.push(written(&|output| table::render_summary(&of_runs, output)));
    texts.push(written(&|output| {
        table::render_explanation(&set.runs, output)
    }));
    if let Some(conclusions) = set.conclusions() {
        texts.push(written(&|output| {
            report::comparison::render(conclusions, output)
        }));
        texts.push(written(&|output| {
            report::comparison::render_json(conclusions, output)
        }));
    }
    texts
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..ProptestConfig::default()
    })]

    #[test]
    fn csv_contains_every_label_and_no_formula(
        factor in label(), first in label(), second in label(), target in label()
    ) {
        let records = grammar::csv(&shown(&set(&factor, [&first, &second], &target), ExportFormat::Csv));
        let columns = records[0].len();
        let distinct: BTreeSet<&String> = records[0].iter().collect();
        prop_assert_eq!(distinct.len(), columns);
        for record in &records {
            prop_assert_eq!(record.len(), columns);
            for field in record {
                let is_formula = field.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
                prop_assert!(!is_formula || field.parse::<f64>().is_ok(), "{:?}", field);
            }
        }
        prop_assert!(is_csv_of(&records[1][0], &target));
        prop_assert!(is_csv_of(&records[1][1], &first));
        let last = records.last().unwrap();
        prop_assert!(is_csv_of(&last[0], &first));
        prop_assert!(is_csv_of(&last[6], &second));
        prop_assert_eq!(&last[7..], &["", "", "", ""]);
    }

    #[test]
    fn json_contains_every_label(
        factor in label(), first in label(), second in label(), target in label()
    ) {
        let text = shown(&set(&factor, [&first, &second], &target), ExportFormat::Json);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(document["runs"][0]["settings"][&factor].as_str(), Some(first.as_str()));
        prop_assert_eq!(document["runs"][1]["target"].as_str(), Some(target.as_str()));
        prop_assert_eq!(document["runs"][2]["failure"].as_str(), Some(second.as_str()));
    }

    #[test]
    fn markdown_keeps_its_rows_and_has_no_markup_of_others(
        factor in label(), first in label(), second in label(), target in label()
    ) {
        let text = shown(&set(&factor, [&first, &second], &target), ExportFormat::Markdown);
        prop_assert!(!text.contains('<'), "{}", text);
        for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
            let columns = |line: &str| {
                let unescaped = line.replace("\\\\", "").replace("\\|", "");
                unescaped.matches('|').count()
            };
            let lines: Vec<&str> = table.lines().collect();
            for line in &lines {
                prop_assert_eq!(columns(line), columns(lines[0]), "{}", line);
            }
        }
        for line in text.lines() {
            let begins = ["|", "- ", "## ", "### ", "3 runs"];
            let is_known = line.is_empty() || begins.iter().any(|begin| line.starts_with(begin));
            prop_assert!(is_known, "{}", line);
            prop_assert!(line.chars().all(plan::is_printable), "{:?}", line);
        }
    }

    #[test]
    fn no_format_has_what_could_control_a_terminal_or_the_direction_of_text(
        factor in label(), first in label(), second in label(), target in label()
    ) {
        let set = set(&factor, [&first, &second], &target);
        for format in ExportFormat::ALL {
            if *format != ExportFormat::Hgrm {
                prop_assert_eq!(unprintable(&shown(&set, *format)), None, "{:?}", format);
            }
        }
        for text in tables(&set) {
            prop_assert_eq!(unprintable(&text), None, "{}", text);
        }
    }

    #[test]
    fn a_log_has_every_interval_under_the_tag_of_its_run(
        factor in label(), first in label(), second in label(), target in label()
    ) {
        let text = shown(&set(&factor, [&first, &second], &target), ExportFormat::Hlog);
        let mut tags = BTreeSet::new();
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            if let LogEntry::Interval(histogram) = entry.unwrap() {
                tags.insert(histogram.tag().unwrap().to_string());
            }
        }
        prop_assert_eq!(tags.len(), 2);
        for line in text.lines().filter(|line| !line.starts_with(['#', '"'])) {
            prop_assert_eq!(line.split(',').count(), 5);
            prop_assert!(!line.contains(' '));
        }
    }

    #[test]
    fn junit_is_xml_and_contains_every_label(
        factor in label(), first in label(), second in label(), target in label()
    ) {
        let elements = grammar::junit(&shown(&set(&factor, [&first, &second], &target), ExportFormat::Junit));
        let plain = |text: &str| {
            plan::printable(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
        };
        let errors: Vec<_> = elements.iter().filter(|(name, _)| name == "error").collect();
        prop_assert_eq!(errors.len(), 1);
        prop_assert_eq!(&errors[0].1["message"], &plain(&second));
        let is_target = |attributes: &BTreeMap<String, String>| {
            attributes["name"] == "target" && attributes["value"] == plain(&target)
        };
        let has_target = elements
            .iter()
            .any(|(name, attributes)| name == "property" && is_target(attributes));
        prop_assert!(has_target);
    }

    #[test]
    fn annotations_are_one_line_each(
        factor in label(), first in label(), second in label(), target in label()
    ) {
        let text = shown(&set(&factor, [&first, &second], &target), ExportFormat::Github);
        let annotations: Vec<_> = text.split_terminator('\n').map(grammar::github).collect();
        let titles: Vec<&str> = annotations
            .iter()
            .filter(|(command, ..)| command == "error")
            .map(|(_, title, _)| title.as_str())
            .collect();
        prop_assert_eq!(titles, ["p50>1ms", "Run failed"]);
    }
}

#[test]
fn names_of_a_hundred_thousand_letters_break_no_format() {
    let long = format!("{}\"\n|<", "x".repeat(100_000));
    let other = format!("{long}y");
    let mut set = set(&long, [&long, &other], &long);
    for run in &mut set.runs {
        // Each of them is a line with all names in it.
        run.values
            .retain(|name, _| ["requests", "latency_mean_us"].contains(&name.as_str()));
    }
    let text = |format| shown(&set, format);
    assert_eq!(
        grammar::csv(&text(ExportFormat::Csv))[1][1],
        plan::printable(&long)
    );
    assert!(!grammar::junit(&text(ExportFormat::Junit)).is_empty());
    for line in text(ExportFormat::Github).lines() {
        grammar::github(line);
        assert!(line.len() < 4_000, "{}", line.len());
    }
    for line in text(ExportFormat::Hlog).lines().skip(6) {
        assert_eq!(line.split(',').count(), 5);
    }
    for format in [
        ExportFormat::Markdown,
        ExportFormat::Json,
        ExportFormat::Html,
    ] {
        assert!(text(format).contains(&"x".repeat(190)));
    }
}

#[test]
fn values_that_a_text_report_lacks_are_left_out() {
    let mut set = runs::texts();
    for run in &mut set.runs {
        run.values
            .retain(|name, _| ["requests", "latency_mean_us"].contains(&name.as_str()));
    }
    for record in &grammar::csv(&shown(&set, ExportFormat::Csv))[1..] {
        let metric = &record[record.len() - 4];
        assert!(["requests", "latency_mean_us"].contains(&metric.as_str()));
    }
}

#[test]
fn a_lower_bound_is_marked_in_every_format_that_has_a_mark() {
    let set = runs::hung();
    let markdown = shown(&set, ExportFormat::Markdown);
    assert!(markdown.contains("| >= 500 ms |"), "{markdown}");
    let html = shown(&set, ExportFormat::Html);
    assert!(html.contains("\u{2265} 500 ms"), "the page has no mark");
    let csv = shown(&set, ExportFormat::Csv);
    let records = grammar::csv(&csv);
    let at = |title: &str| records[0].iter().position(|it| it == title).unwrap();
    let (metric, value, bound) = (at("metric"), at("value"), at("lower_bound"));
    for record in &records[1..] {
        let is_marked = record[bound] == "true";
        let is_mean =
            ["latency_mean_us", "service_time_mean_us"].contains(&record[metric].as_str());
        let is_p99 = ["latency_p99_us", "service_time_p99_us"].contains(&record[metric].as_str());
        assert!(is_marked || !is_p99 && !is_mean, "{record:?}");
        let is_timeout = record[value].starts_with("500");
        assert!(!is_marked || is_timeout || is_mean, "{record:?}");
    }
    let xml = shown(&set, ExportFormat::Junit);
    let property = "<property name=\"latency_p99_us_is_lower_bound\" value=\"true\"";
    assert!(xml.contains(property), "{xml}");
    let json = shown(&set, ExportFormat::Json);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let bounds = json["runs"][0]["lower_bounds"].as_array().unwrap();
    assert!(bounds.contains(&"latency_p99_us".into()), "{bounds:?}");
}

#[test]
fn lower_bounds_in_tables_are_marked_and_read_back() {
    let runs = runs::hung().runs;
    let options = analysis::table::TableOptions::default();
    let table = analysis::table::table(&runs, &options).unwrap();
    for format in [report::table::Format::Markdown, report::table::Format::Csv] {
        let mut written = Vec::new();
        report::table::render(&table, format, &mut written).unwrap();
        let text = String::from_utf8_lossy(&written);
        let mark = match format {
            report::table::Format::Csv => "latency_p99_us latency_p99.999_us",
            _ => "| >= 500",
        };
        assert!(text.contains(mark), "{text}");
        let reading = analysis::Reading::of_bytes(&written, std::path::Path::new("t")).unwrap();
        for run in &reading.observations {
            let p99 = run.measured("latency_p99_us").unwrap();
            assert!(
                p99.is_lower_bound && p99.value >= 500e3,
                "{p99:?} of {text}"
            );
            let p50 = run.measured("latency_p50_us").unwrap();
            assert!(!p50.is_lower_bound);
        }
        assert_eq!(reading.observations.len(), 2, "{text}");
    }
}
