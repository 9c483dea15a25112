//! Tables: generate-table.sh's text for what buffertest leaves, and the other formats.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::path::Path;

use analysis::table::{TableOptions, table};
use analysis::{Observation, Reading};
use report::table::{Format, render, render_explanation, render_names, render_summary};
use results::{ErrorKind, Recording, Setting};

#[allow(dead_code, reason = "other tests use the rest")]
mod fixture;

/// Runs that buffertest's author has published: size, run, then the values of the object. One of
/// them is left out.
const RUNS: &str = include_str!("fixture/buffertest_runs.txt");

const PLACES: &str = include_str!("../../analysis/tests/data/places.txt");
const NOTES: &str = include_str!("../../analysis/tests/data/notes.md");
const EXPLAINED: &str = include_str!("golden/table_explained.txt");

const MARKDOWN: &str = include_str!("golden/table_buffertest.md");

fn buffertest_runs() -> Vec<Observation> {
    let one = |line: &str| {
        let [
            size,
            run,
            requests,
            duration,
            bytes,
            rate,
            transfer,
            p50,
            p75,
            p90,
            p99,
            p99999,
        ] = line
            .split_whitespace()
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        let object = format!(
            r#"{{"requests": {requests}, "duration_in_microseconds": {duration}, "bytes": {bytes},
            "requests_per_sec": {rate}, "bytes_transfer_per_sec": {transfer},
            "latency_distribution": [
            {{"percentile": 50, "latency_in_microseconds": {p50}}},
            {{"percentile": 75, "latency_in_microseconds": {p75}}},
            {{"percentile": 90, "latency_in_microseconds": {p90}}},
            {{"percentile": 99, "latency_in_microseconds": {p99}}},
            {{"percentile": 99.999, "latency_in_microseconds": {p99999}}}]}}"#
        );
        let name = format!("logs-of-may/buffertest-rmem_max-{size}-wmem_max-{size}-{run}.json");
        let reading = Reading::of_bytes(object.as_bytes(), Path::new(&name)).unwrap();
        reading.observations.into_iter().next().unwrap()
    };
    RUNS.lines().map(one).collect()
}

fn shown(runs: &[Observation], options: &TableOptions, format: Format) -> String {
    let mut output = Vec::new();
    render(&table(runs, options).unwrap(), format, &mut output).unwrap();
    String::from_utf8(output).unwrap()
}

fn row(text: &str, begin: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("no row {begin} in {text}"));
    line.trim_matches('|')
        .split('|')
        .map(|cell| cell.trim().to_owned())
        .collect()
}

/// Responses with latencies of 1 ms, 2 ms and so on.
fn recording(samples: u64) -> Recording {
    let mut recording = Recording::new();
    for sample in 1..=samples {
        recording.service_time.record(sample * 1_000_000);
        recording.statuses.add(200);
    }
    recording.counters.answered = samples;
    recording
}

fn saved_run(samples: u64, target: &str, run: u32) -> Observation {
    let result = fixture::result(recording(samples));
    Observation {
        target: Some(target.to_owned()),
        run,
        values: results::metric::values(&result),
        result: Some(Box::new(result)),
        ..Observation::default()
    }
}

fn named_run(file: &str, run: u32, names: &[(&str, u64)]) -> Observation {
    let result = fixture::result(fixture::named(names));
    Observation {
        settings: vec![Setting {
            factor: "file".to_owned(),
            level: file.to_owned(),
        }],
        source: format!("{file}-{run}.json"),
        run,
        values: results::metric::values(&result),
        result: Some(Box::new(result)),
        ..Observation::default()
    }
}

#[test]
fn the_list_of_names_says_what_each_kind_of_error_is() {
    let mut bytes = Vec::new();
    render_names(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    for kind in ErrorKind::ALL {
        let mut lines = text.lines().map(|line| line.split_whitespace());
        let mut words = lines
            .find(|words| words.clone().next() == Some(kind.name()))
            .unwrap();
        assert_eq!(words.nth(1), Some(kind.legacy().name()), "{kind}");
        assert_eq!(words.collect::<Vec<_>>().join(" "), kind.describe());
    }
}

fn by_name() -> TableOptions {
    TableOptions {
        columns: Some(vec!["requests".to_owned()]),
        by_name: true,
        ..TableOptions::default()
    }
}

#[test]
fn each_name_of_a_file_has_a_row_below_the_table() {
    let runs = [
        named_run("a", 1, &[("list", 302), ("buy | now", 9)]),
        named_run("b", 1, &[("list", 604)]),
    ];
    let text = shown(&runs, &by_name(), Format::Markdown);
    let (_, names) = text.split_once("\n\nBy name:\n").unwrap();
    assert_eq!(
        names,
        "| file | name | run | requests_per_sec | 50% latency | 99% latency | errors |\n\
         |------|------|-----|-----------------|-------------|-------------|--------|\n\
         | a | list | 1 | 100.00 | 1000.45 | 1000.45 | 1 |\n\
         | a | buy \\| now | 1 | 2.98 | 1000.45 | >= 2000000 | 1 |\n\
         | b | list | 1 | 200.00 | 1000.45 | 1000.45 | 1 |\n"
    );
    let without = TableOptions {
        by_name: false,
        ..by_name()
    };
    assert!(text.starts_with(&shown(&runs, &without, Format::Markdown)));
}

#[test]
fn names_of_several_runs_are_averaged_and_follow_the_percentiles_asked_for() {
    let mut runs = [
        named_run("a", 1, &[("list", 302)]),
        named_run("a", 2, &[("list", 604), ("buy", 302)]),
        named_run("a", 3, &[("list", 999)]),
    ];
    runs[2].failure = Some("refused".to_owned());
    let options = TableOptions {
        percentiles: Some(vec![90.0]),
        ..by_name()
    };
    let text = shown(&runs, &options, Format::Markdown);
    let (_, names) = text.split_once("\n\nBy name:\n").unwrap();
    let list = row(names, "| a | list | avg");
    assert_eq!(
        list[3..],
        ["150.00", "1000.45", "1000.45", "1.00", "2 of 3 runs"]
    );
    assert_eq!(row(names, "| a | buy | avg")[3], "100.00");
    let document: serde_json::Value =
        serde_json::from_str(&shown(&runs, &options, Format::Json)).unwrap();
    assert_eq!(document["cells"].as_array().unwrap().len(), 1);
    let buy = &document["by_name"]["cells"][1];
    assert_eq!(buy["settings"]["name"], "buy");
    assert_eq!(buy["runs"][0]["values"]["requests_per_sec"], 100.0);
    assert_eq!(buy["averages"]["errors"], 1.0);
    let csv = shown(&runs, &options, Format::Csv);
    let (_, names) = csv.split_once("\r\n\r\n").unwrap();
    assert!(
        names.starts_with("file,name,run,requests_per_sec,latency_p90_us,errors,"),
        "{csv}"
    );
    assert!(names.contains("\r\na,buy,2,100,"), "{csv}");
}

#[test]
fn runs_of_buffertest_give_the_text_of_generate_table_with_true_averages_by_key() {
    assert_eq!(
        shown(
            &buffertest_runs(),
            &TableOptions::default(),
            Format::Markdown
        ),
        MARKDOWN
    );
}

#[test]
fn a_run_that_failed_has_its_reason_and_is_in_no_average() {
    let mut runs = buffertest_runs();
    runs[0].failure = Some("no | answer\nat all".to_owned());
    let text = shown(&runs, &TableOptions::default(), Format::Markdown);
    let failed = row(&text, "| 262144 | 262144 | 1 |");
    assert_eq!(failed[3], "");
    assert!(text.contains("| no \\| answer at all |"), "{text}");
    let average = row(&text, "| 262144 | 262144 | avg |");
    assert_eq!(average[3], "96339.50");
    assert_eq!(average[13], "4 of 5 runs");
    let others = row(&text, "| 16777216 | 16777216 | avg |");
    assert_eq!(others[13], "");
}

#[test]
fn missing_values_are_empty_and_left_out_of_averages() {
    let mut runs = buffertest_runs();
    runs[0].values.remove("bytes");
    for run in &mut runs {
        run.values.remove("latency_p99_us");
    }
    let text = shown(&runs, &TableOptions::default(), Format::Markdown);
    assert_eq!(row(&text, "| 262144 | 262144 | 1 |")[5], "");
    assert_eq!(row(&text, "| 262144 | 262144 | avg |")[5], "22543443.00");
    assert_eq!(row(&text, "| 262144 | 262144 | avg |")[11], "");
    let document: serde_json::Value =
        serde_json::from_str(&shown(&runs, &TableOptions::default(), Format::Json)).unwrap();
    let cell = &document["cells"][0];
    assert_eq!(cell["runs"][0]["values"]["bytes"], serde_json::Value::Null);
    assert_eq!(cell["averages"]["bytes"], 22_543_443.0);
    assert_eq!(cell["averages"]["latency_p99_us"], serde_json::Value::Null);
    assert_eq!(cell["settings"]["rmem_max"], "262144");
    assert_eq!(document["cells"][1]["runs"][3]["run"], 5);
}

#[test]
fn the_spread_of_a_cell_is_shown_on_request() {
    let options = TableOptions {
        spread: true,
        columns: Some(vec!["requests".to_owned()]),
        ..TableOptions::default()
    };
    let text = shown(&buffertest_runs(), &options, Format::Markdown);
    for (name, value) in [
        ("min", "63551.00"),
        ("median", "96732.00"),
        ("max", "97954.00"),
        ("stdev", "14753.80"),
        ("cv %", "16.43"),
    ] {
        assert_eq!(
            row(&text, &format!("| 262144 | 262144 | {name} |"))[3],
            value,
            "{name}"
        );
    }
    let of_one = shown(&buffertest_runs()[..1], &options, Format::Markdown);
    assert_eq!(row(&of_one, "| 262144 | 262144 | stdev |")[3], "");
}

#[test]
fn percentiles_of_all_samples_are_next_to_averaged_ones() {
    let runs = [saved_run(100, "a", 1), saved_run(3, "a", 2)];
    let options = TableOptions {
        columns: Some(vec!["requests".to_owned()]),
        percentiles: Some(vec![90.0]),
        ..TableOptions::default()
    };
    let text = shown(&runs, &options, Format::Markdown);
    let (_, averages) = text.split_once("Averages only:\n").unwrap();
    let titles = row(averages, "| run");
    assert_eq!(
        titles[2..],
        ["avg of 90% latency", "90% latency of all samples"]
    );
    let mut pool = runs[0].result.as_ref().unwrap().recording.latency();
    pool.merge(&runs[1].result.as_ref().unwrap().recording.latency());
    let expected = format!("{:.2}", pool.value_at_percentile(90.0) as f64 / 1e3);
    let average = row(averages, "| avg");
    assert_eq!(average[3], expected);
    assert_ne!(average[2], expected);
}

#[test]
fn statuses_and_errors_that_did_not_occur_are_zero_where_that_is_known() {
    let mut runs = [
        saved_run(10, "a", 1),
        saved_run(10, "a", 2),
        saved_run(10, "a", 3),
    ];
    let result = runs[0].result.as_mut().unwrap();
    result.recording.statuses.add(503);
    runs[0].values = results::metric::values(runs[0].result.as_ref().unwrap());
    runs[2].result = None;
    let options = TableOptions {
        columns: Some(vec!["status_503".to_owned()]),
        ..TableOptions::default()
    };
    let text = shown(&runs, &options, Format::Markdown);
    let cells: Vec<String> = (1..=3)
        .map(|run| row(&text, &format!("| {run} |"))[1].clone())
        .collect();
    assert_eq!(cells, ["1", "0", ""]);
}

#[test]
fn telemetry_shows_the_main_counters() {
    let mut runs = [saved_run(10, "a", 1), saved_run(10, "a", 2)];
    let result = runs[0].result.as_mut().unwrap();
    result.telemetry = Some(results::Telemetry {
        counters: [("TcpExt.ListenDrops", 7), ("TcpExt.TCPPureAcks", 9)]
            .map(|(name, growth)| (name.to_owned(), growth))
            .into(),
        sockets: Some(results::SocketSummary {
            segments_sent: Some(200),
            segments_retransmitted: 1,
            ..results::SocketSummary::default()
        }),
        ..results::Telemetry::default()
    });
    runs[0].values = results::metric::values(result);
    let options = TableOptions {
        columns: Some(vec!["requests".to_owned()]),
        telemetry: true,
        ..TableOptions::default()
    };
    let text = shown(&runs, &options, Format::Markdown);
    let titles = ["sockets_retransmitted_percent", "TcpExt.ListenDrops"];
    assert_eq!(row(&text, "| run")[2..], titles);
    assert_eq!(row(&text, "| 1 ")[2..], ["0.5000", "7"]);
    assert_eq!(row(&text, "| 2 ")[2..], ["", ""]);
}

#[test]
fn a_column_that_no_run_has_is_refused_and_a_known_one_is_empty() {
    let options = |name: &str| TableOptions {
        columns: Some(vec![name.to_owned()]),
        ..TableOptions::default()
    };
    let message = table(&buffertest_runs(), &options("speed"))
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with("no run has \"speed\" (there are: bytes, "),
        "{message}"
    );
    let text = shown(&buffertest_runs(), &options("errors"), Format::Markdown);
    assert_eq!(row(&text, "| 262144 | 262144 | avg |")[3], "");
}

#[test]
fn csv_quotes_what_would_break_a_row() {
    let mut runs = buffertest_runs();
    runs[0].settings[0].level = "a,\"b\"\r\nc".to_owned();
    let options = TableOptions {
        columns: Some(vec!["requests_per_sec".to_owned()]),
        ..TableOptions::default()
    };
    let text = shown(&runs, &options, Format::Csv);
    assert!(
        text.starts_with(
            "rmem_max,wmem_max,run,requests_per_sec,failure,source,lower_bounds\r\n\
             \"a,\"\"b\"\"  c\",262144,1,21173.4,,logs-of-may/"
        ),
        "{text}"
    );
    assert!(
        text.contains("\r\n16777216,16777216,avg,32142.6375,"),
        "{text}"
    );
}

#[test]
fn rounds_of_each_target_are_side_by_side() {
    let run = |target: &str, profile: &str, latency_us: f64, rate: f64| Observation {
        target: Some(target.to_owned()),
        profile: Some(profile.to_owned()),
        run: 1,
        values: [("latency_mean_us", latency_us), ("requests_per_sec", rate)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        ..Observation::default()
    };
    let mut runs = vec![
        run("x86_64", "basic", 573_060.0, 534.55),
        run("arm64", "basic", 871_200.0, 332.73),
        run("x86_64", "basic", 582_820.0, 534.29),
        run("x86_64", "focused", 180_060.0, 530.0),
        run("arm64", "basic", 1.0, 1.0),
    ];
    runs[4].failure = Some("refused".to_owned());
    runs[3].settings = vec![Setting {
        factor: "buffers".to_owned(),
        level: "16M".to_owned(),
    }];
    let expected = "basic:\n\
                    x86_64: Latency 573.06ms, 582.82ms  Requests/sec: 534.55, 534.29\n\
                    arm64: Latency 871.20ms  Requests/sec: 332.73  1 run failed\n\n\
                    focused buffers=16M:\n\
                    x86_64: Latency 180.06ms  Requests/sec: 530.00\n";
    let mut output = Vec::new();
    render_summary(
        &table(&runs, &TableOptions::default()).unwrap(),
        &mut output,
    )
    .unwrap();
    assert_eq!(String::from_utf8(output).unwrap(), expected);
    let below_the_table = shown(&runs, &TableOptions::default(), Format::Markdown);
    assert!(
        below_the_table.ends_with(&format!("|\n\n{expected}")),
        "{below_the_table}"
    );
}

#[test]
fn cells_keep_the_order_of_the_experiment_and_runs_that_of_their_numbers() {
    let mut runs = buffertest_runs();
    runs.reverse();
    for run in &mut runs {
        run.cell = Some(if run.settings[0].level == "262144" {
            1
        } else {
            2
        });
    }
    assert_eq!(
        shown(&runs, &TableOptions::default(), Format::Markdown),
        MARKDOWN
    );
}

fn read_as(name: &str, text: &str) -> Vec<Observation> {
    let reading = Reading::of_bytes(text.as_bytes(), Path::new(name)).unwrap();
    Reading::join(vec![(name.into(), reading)]).observations
}

#[test]
fn tables_are_read_back_as_they_were_written() {
    let failed = Observation {
        values: Default::default(),
        failure: Some("nobody | listened".to_owned()),
        ..buffertest_runs().remove(0)
    };
    let with_failure = [buffertest_runs(), vec![Observation { run: 9, ..failed }]].concat();
    let options = TableOptions {
        spread: true,
        errors: true,
        ..TableOptions::default()
    };
    let rows = |runs: &[Observation]| -> Vec<String> {
        let text = shown(runs, &options, Format::Markdown);
        let rows = text.lines().filter(|line| line.starts_with('|'));
        rows.map(str::to_owned).collect()
    };
    for runs in [with_failure, read_as("places.txt", PLACES)] {
        let expected = rows(&runs);
        for (name, format) in [("t.md", Format::Markdown), ("t.csv", Format::Csv)] {
            let written = shown(&runs, &options, format);
            let read = read_as(name, &written);
            assert_eq!(rows(&read), expected, "{name}");
        }
    }
}

#[test]
fn the_name_of_each_run_is_explained_with_the_lines_that_gave_it() {
    let mut output = Vec::new();
    render_explanation(&read_as("notes.md", NOTES), &mut output).unwrap();
    let output = String::from_utf8(output).unwrap();
    assert_eq!(output, EXPLAINED);
}
