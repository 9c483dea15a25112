//! Reports as text: what the tools print, and what people save of it.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::path::Path;

use analysis::table::{TableOptions, table};
use analysis::{Observation, Reading};

const WRK: &str = include_str!("../../report/tests/captured/wrk.txt");
const WRK2: &str = include_str!("../../report/tests/captured/wrk2.txt");
const CMM: &str = include_str!("../../report/tests/captured/cmm.txt");
const WITH_JSON: &str = include_str!("data/cmm_style_with_json.txt");
const NOT_FOUND: &str = include_str!("data/wrk_404.txt");
const NOTES: &str = include_str!("data/notes.md");
/// Notes with places, profiles, rounds and targets, and the summary that their author made from
/// them.
const PLACES: &str = include_str!("data/places.txt");
/// Tables as people publish them.
const PUBLISHED: &str = include_str!("data/published.md");

/// wrkbench's own texts, from the tests of the report.
const OURS: [&str; 7] = [
    include_str!("../../report/tests/golden/latency.txt"),
    include_str!("../../report/tests/golden/errors.txt"),
    include_str!("../../report/tests/golden/percentiles.txt"),
    include_str!("../../report/tests/golden/cmm.txt"),
    include_str!("../../report/tests/golden/cmm_https.txt"),
    include_str!("../../report/tests/golden/wrk2.txt"),
    include_str!("../../report/tests/golden/wrk2_uncorrected.txt"),
];

fn reading(text: &str) -> Reading {
    Reading::of_bytes(text.as_bytes(), Path::new("notes.md")).unwrap()
}

fn runs(text: &str) -> Vec<Observation> {
    let runs = Reading::of_bytes(text.as_bytes(), Path::new("notes.md"));
    runs.map(|reading| reading.observations).unwrap_or_default()
}

fn only(text: &str) -> Observation {
    let mut runs = runs(text);
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

fn assert_values(run: &Observation, expected: &[(&str, f64)]) {
    for (name, value) in expected {
        let found = run
            .value(name)
            .unwrap_or_else(|| panic!("{name} is missing"));
        let near = (found - value).abs() <= value.abs() * 1e-12;
        assert!(near, "{name} is {found}, not {value}");
    }
}

#[test]
fn a_captured_report_of_wrk_cmm_is_read_completely() {
    let run = only(CMM);
    assert_eq!(run.failure, None);
    assert_eq!(run.target.as_deref(), Some("http://127.0.0.1:18471/"));
    assert_eq!(run.profile.as_deref(), Some("-t2 -c10"));
    assert_values(
        &run,
        &[
            ("latency_mean_us", 723.19),
            ("latency_stdev_us", 1_630.0),
            ("latency_max_us", 20_760.0),
            ("latency_min_us", 7.0),
            ("latency_within_stdev_percent", 89.10),
            ("connect_mean_us", 28.5),
            ("first_byte_mean_us", 721.9),
            ("last_byte_max_us", 83.0),
            ("last_byte_min_us", 0.0),
            ("thread_rate_mean", 83_020.0),
            ("thread_rate_min", 4_690.0),
            ("latency_p50_us", 24.0),
            ("latency_p95_us", 3_610.0),
            ("latency_p99.99_us", 20_210.0),
            ("requests", 329_708.0),
            ("duration_in_microseconds", 2_020_000.0),
            ("bytes", 45.91 * 1_048_576.0),
            ("requests_per_sec", 162_965.96),
            ("bytes_transfer_per_sec", 22.69 * 1_048_576.0),
            ("errors", 0.0),
            ("errors_timeout", 0.0),
            ("statuses_over_399", 0.0),
        ],
    );
}

#[test]
fn every_line_of_reports_by_wrkbench_and_the_other_tools_is_understood() {
    for text in OURS.iter().chain(&[WRK, WRK2, CMM, NOT_FOUND, WITH_JSON]) {
        let reading = reading(text);
        assert_eq!(reading.notes, [""; 0], "{text}");
        assert_eq!(reading.observations.len(), 1, "{text}");
        let run = &reading.observations[0];
        assert_eq!(run.failure, None, "{text}");
        for name in [
            "requests",
            "requests_per_sec",
            "latency_mean_us",
            "thread_rate_mean",
        ] {
            assert!(run.values.contains_key(name), "{name} of {text}");
        }
    }
}

#[test]
fn both_distributions_of_wrk2_are_read_and_its_spectrum_is_not() {
    let text = "Running 13s test @ http://h/\n  2 threads and 10 connections\n  Thread \
         calibration: mean lat.: 1.157ms, rate sampling interval: 10ms\n  Thread \
         Stats   Avg      Stdev     Max   +/- \
         Stdev\n    Latency     1.04ms    0.85ms   6.81ms   89.87%\n    Req/Sec     1.05k   159.78     1.67k    85.29%\n  Latency \
         Distribution (HdrHistogram - Recorded Latency)\n 50.000%    0.89ms\n \
         99.000%    5.06ms\n100.000%    6.82ms\n\n  Detailed Percentile \
         spectrum:\n       Value   Percentile   TotalCount \
         1/(1-Percentile)\n\n       0.067     0.000000            1         1.00\n       0.341     0.100000          594         1.11\n       0.887     0.500000         2970         2.00\n       6.815     0.999854         5930      6826.67\n       6.815     1.000000         5930          inf\n#[Mean    =        1.044, \
         StdDeviation   =        0.854]\n#[Max     =        6.812, Total \
         count    =         5930]\n#[Buckets =           27, \
         SubBuckets     =         2048]\n----------------------------------------------------------\n\n  Latency \
         Distribution (HdrHistogram - Uncorrected Latency (measured without taking delayed starts \
         into account))\n 50.000%  107.00us\n#[Mean    =        0.165, \
         StdDeviation   =        0.330]\n----------------------------------------------------------\n  25968 \
         requests in 12.99s, 3.71MB read\nRequests/sec:   1998.88\nTransfer/sec:    292.80KB\n";
    let reading = reading(text);
    assert_eq!(reading.notes, [""; 0]);
    let run = &reading.observations[0];
    assert_values(
        run,
        &[
            ("latency_mean_us", 1_040.0),
            ("latency_stdev_us", 850.0),
            ("latency_max_us", 6_810.0),
            ("latency_p50_us", 890.0),
            ("latency_p99_us", 5_060.0),
            ("latency_p100_us", 6_820.0),
            ("service_time_p50_us", 107.0),
            ("thread_rate_stdev", 159.78),
        ],
    );
    for name in ["latency_p10_us", "service_time_mean_us"] {
        assert_eq!(run.value(name), None, "{name}");
    }
}

#[test]
fn values_that_were_not_measured_are_absent() {
    let empty = "Running 2s test @ http://h/\n  1 threads and 4 connections\n  Thread \
         Stats   Avg      Stdev     Max   +/- \
         Stdev\n    Latency     0.00us    0.00us   0.00us    -nan%\n    Req/Sec     0.00      0.00     0.00      -nan%\n  Latency \
         Distribution\n     50%    0.00us\n  0 requests in 2.01s, 0.00B \
         read\nRequests/sec:      0.00\nTransfer/sec:       0.00B\n";
    let run = only(empty);
    assert_eq!(run.failure.as_deref(), Some("nothing was answered"));
    assert!(run.values.keys().all(|name| !name.starts_with("latency")));
    let short = WRK2.replace("Req/Sec", "Ignored");
    assert!(reading(&short).notes[0].contains("not understood"));
    let without_rates = "Running 2s test @ http://h/\n  1 threads and 4 connections\n  Thread \
         Stats   Avg      Stdev     Max   +/- \
         Stdev\n    Latency     1.00ms    1.00ms   5.00ms   90.00%\n    Req/Sec       -nan      -nan   0.00      0.00%\n  20 \
         requests in 2.01s, 100.00B read\nRequests/sec:     10.00\nTransfer/sec:      50.00B\n";
    let run = only(without_rates);
    assert_eq!(run.value("thread_rate_mean"), None);
    assert_eq!(run.value("thread_rate_max"), None);
    assert_eq!(run.value("latency_p50_us"), None);
}

#[test]
fn a_cell_that_is_cut_off_is_left_out_with_a_note() {
    let cut = CMM.replace("  723.19us    1.63ms", "1000.00m    1.63ms");
    let reading = reading(&cut);
    assert_eq!(reading.observations[0].value("latency_mean_us"), None);
    assert!(reading.observations[0].failure.is_none());
    assert_eq!(reading.notes, ["notes.md: line 4: not understood, skipped"]);
}

#[test]
fn the_object_of_json_lua_belongs_to_the_report_above_it() {
    let run = only(WITH_JSON);
    assert_values(
        &run,
        &[
            ("bytes", 20_572_422.0),
            ("latency_p99.999_us", 3_385.0),
            ("connect_mean_us", 471.64),
        ],
    );
    let of_another = WITH_JSON.replace("\"requests\": 140907", "\"requests\": 140908");
    let reading = reading(&of_another);
    assert_eq!(reading.observations.len(), 1);
    assert!(
        reading.notes[0].contains("another number of requests"),
        "{:?}",
        reading.notes
    );
}

#[test]
fn an_object_of_something_else_is_no_result_that_was_skipped() {
    let sockets = "{\n  \"state\": \"ESTAB\",\n  \"cwnd\": \"10\"\n}\n";
    let whole = reading(&format!("{WRK}\n{sockets}"));
    assert!(!whole.has_skipped_lines, "{:?}", whole.notes);
    assert_eq!((whole.observations.len(), whole.notes.len()), (1, 0));
    let cut = reading(&format!("{WRK}\n{{\n  \"bytes\": 17\n}}\n"));
    assert!(cut.has_skipped_lines, "{:?}", cut.notes);
}

#[test]
fn notes_name_their_runs() {
    let reading = reading(NOTES);
    let shown: Vec<String> = reading
        .observations
        .iter()
        .map(|run| {
            let settings = run
                .settings
                .iter()
                .map(|s| format!(" {}={}", s.factor, s.level));
            format!(
                "{} | {} |{} | {} | {} | {}",
                run.target.as_deref().unwrap_or("-"),
                run.profile.as_deref().unwrap_or("-"),
                settings.collect::<String>(),
                run.run,
                run.value("latency_mean_us").unwrap_or(f64::NAN),
                run.failure.as_deref().unwrap_or("-"),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "x86_64 | -t12 -c400 | heading=Basic | 1 | 573060 | -",
            "x86_64 | -t12 -c400 | heading=Basic | 2 | 582820 | -",
            "arm64 | -t12 -c400 | heading=Basic | 1 | 871200 | -",
            "Focused | -t8 -c96 | buffers=262144 somaxconn=4096 | 1 | 180060 | -",
            "Focused | -t8 -c96 | buffers=262144 somaxconn=4096 net.core.rmem_max=524288 | 1 | NaN \
             | the report is cut off",
        ]
    );
    assert_eq!(
        reading.notes,
        [
            "notes.md: line 54: belongs to no report, skipped",
            "notes.md: line 60: not understood, skipped",
            "notes.md: line 61: not understood, skipped",
            "notes.md: line 73: not understood, skipped",
        ]
    );
    assert_eq!(reading.observations[0].value("errors_timeout"), Some(121.0));
    assert_eq!(
        reading.observations[2].value("statuses_over_399"),
        Some(17.0)
    );
    let positions: Vec<_> = reading
        .observations
        .iter()
        .map(|run| run.position)
        .collect();
    assert_eq!(positions, [Some(1), Some(2), Some(3), Some(4), Some(5)]);
}

#[test]
fn a_report_faster_than_the_rate_of_a_command_does_not_belong_to_it() {
    let notes = format!("$ wrk2 -R2000\n{WRK2}\n# without a rate\n\n{CMM}");
    let runs = runs(&notes);
    assert_eq!(runs[0].value("rate"), Some(2_000.0));
    assert_eq!(runs[1].value("rate"), None);
    let profile = runs[1].profile.as_deref().unwrap();
    assert!(!profile.contains("-R"), "{profile}");
}

#[test]
fn carriage_returns_indentation_and_quotes_change_nothing() {
    let whole = only(CMM).values;
    for text in [
        CMM.replace('\n', "\r\n"),
        CMM.lines().map(|line| format!("    {line}\n")).collect(),
        CMM.lines().map(|line| format!("> {line}\n")).collect(),
        format!("\u{feff}```\n{CMM}```"),
        format!("\u{feff}{CMM}"),
        CMM.trim_end().to_owned(),
    ] {
        assert_eq!(only(&text).values, whole, "{text}");
    }
}

#[test]
fn a_text_that_is_cut_off_anywhere_gives_only_values_of_the_whole_text() {
    let mut texts: Vec<&str> = OURS.to_vec();
    texts.extend([WRK, WRK2, CMM, NOT_FOUND, WITH_JSON, NOTES]);
    for text in texts {
        let whole = runs(text);
        // Without the object the same values are known less exactly.
        let report_only = runs(text.split("JSON Output").next().unwrap());
        // The middle of a long text is a spectrum with similar rows.
        let is_tried = |end: &usize| {
            let is_alike = *end > 1_000 && end + 1_000 < text.len();
            text.is_char_boundary(*end) && (!is_alike || end.is_multiple_of(41))
        };
        for end in (0..text.len()).filter(is_tried) {
            for (at, run) in runs(&text[..end]).iter().enumerate() {
                if run.failure.is_some() {
                    continue;
                }
                for (name, value) in &run.values {
                    let known = [&whole, &report_only].map(|runs| runs[at].values.get(name));
                    assert!(
                        known.contains(&Some(value)),
                        "cut at {end}: {name} is {value}"
                    );
                }
                // Headings above all runs are left out, and with fewer runs more headings are above
                // all.
                let levels = |run: &Observation| -> Vec<String> {
                    let settings = run
                        .settings
                        .iter()
                        .filter(|s| !s.factor.starts_with("heading"));
                    settings
                        .map(|s| format!("{}={}", s.factor, s.level))
                        .collect()
                };
                assert_eq!(levels(&whole[at]), levels(run), "cut at {end}");
            }
        }
    }
}

#[test]
fn hostile_texts_are_read_quickly_and_without_a_panic() {
    let nested = "{\"a\":[\n".repeat(50_000);
    let objects = format!("{{\"a\":[\n{}", "{},\n".repeat(50_000));
    let first_lines = "Running 1s test @ http://h/\n".repeat(50_000);
    let headings = "# x\n## y\n".repeat(50_000);
    let settings: String = (0..50_000).map(|n| format!("k{n}={n}\n")).collect();
    let one_line = "Latency ".repeat(200_000);
    let labels = "x:\n".repeat(50_000);
    let rounds: String = (0..50_000).map(|n| format!("Run {n}:\nk{n}=1\n")).collect();
    let bars = "|".repeat(200_000);
    let table = format!("a,requests\n{}", "b,5\n".repeat(20_000));
    let wide = format!("{}\n|--|\n", "| requests ".repeat(50_000));
    let empty_tables = "| target | rps |\n|---|---|\n\n".repeat(50_000);
    let stamps = "12:00:00 ".repeat(200_000);
    let escapes = "\u{1b}]".repeat(200_000);
    let continued = "x \\\n".repeat(200_000);
    let paths: String = (0..11_000)
        .map(|n| WRK.replace("http://127.0.0.1:18471/", &format!("http://h/{n}")))
        .collect();
    for text in [
        nested,
        objects,
        first_lines,
        headings,
        settings,
        one_line,
        labels,
        rounds,
        bars,
        table,
        wide,
        empty_tables,
        stamps,
        escapes,
        continued,
        paths,
    ] {
        let text = format!("{text}\n{CMM}");
        let reading = Reading::of_bytes(text.as_bytes(), Path::new("x")).unwrap();
        assert!(reading.notes.len() < 50);
        assert!(reading.observations.len() <= 10_001);
    }
    for bytes in [
        &b"\xff\xfe\x00Running "[..],
        b"Running  test @ ",
        b"{",
        b"\0\0\0",
    ] {
        assert!(
            Reading::of_bytes(bytes, Path::new("x")).map_or(true, |reading| reading
                .observations
                .iter()
                .all(|run| run.failure.is_some()))
        );
    }
}

/// The name and the figures of a run.
fn named(runs: &[Observation]) -> Vec<String> {
    let shown = |run: &Observation| {
        let settings = run.settings.iter();
        let settings: Vec<String> = settings
            .map(|setting| format!("{}={}", setting.factor, setting.level))
            .collect();
        format!(
            "{} | {} | {} | {} | {:?}",
            settings.join(" "),
            run.profile.as_deref().unwrap_or("-"),
            run.target.as_deref().unwrap_or("-"),
            run.run,
            run.values,
        )
    };
    runs.iter().map(shown).collect()
}

/// The pairs of a summary as it prints them: `blue: 282.38ms, 314.55ms / 1531.50, 1592.25`.
fn own_summary() -> Vec<String> {
    let (_, summary) = PLACES.split_once("\nSummary:\n=======\n").unwrap();
    let (summary, _) = summary.split_once("\nConclusion:").unwrap();
    let lines = summary
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let line = words
                .join(" ")
                .replace("Latency ", "")
                .replace(" Requests/sec: ", " / ");
            line.trim_end_matches(':').to_owned()
        })
        .collect()
}

#[test]
fn notes_give_the_same_summary_as_their_author_made() {
    let parts = vec![("places.txt".into(), reading(PLACES))];
    let reading = Reading::join(parts);
    let table = table(&reading.observations, &TableOptions::default()).unwrap();
    let mut shown = Vec::new();
    let mut section = None;
    for group in &table.groups {
        if group.section != section {
            section.clone_from(&group.section);
            shown.extend(group.section.clone());
        }
        shown.push(match group.title.as_str() {
            "Wide test -t6 -c200" => "6 threads and 200 connections".to_owned(),
            "Narrow test -t2 -c20" => "2 threads and 20 connections".to_owned(),
            other => panic!("{other}"),
        });
        for line in &group.lines {
            let list = |values: &[Option<f64>], unit: &str, factor: f64| {
                let values = values.iter().map(|value| value.unwrap() / factor);
                let shown: Vec<String> = values.map(|value| format!("{value:.2}{unit}")).collect();
                shown.join(", ")
            };
            shown.push(format!(
                "{}: {} / {}",
                line.target.strip_suffix(" server").unwrap(),
                list(&line.latencies_us, "ms", 1e3),
                list(&line.requests_per_sec, "", 1.0),
            ));
        }
    }
    assert_eq!(shown, own_summary());
    assert_eq!(
        reading.notes,
        [
            "notes.md: line 196: belongs to no report, skipped",
            "notes.md: line 197: belongs to no report, skipped",
            "notes.md:54 and notes.md:76: not averaged: path /list / /lists/list",
        ]
    );
    // The round with another path is shown next to the first one, and is not averaged with it.
    let of_green = table.cells.iter().filter(|cell| {
        cell.target.as_deref() == Some("green server")
            && cell.settings[0].level == "Run the tests from office"
            && cell.profile.as_deref().unwrap().starts_with("Wide")
    });
    let runs: Vec<usize> = of_green.map(|cell| cell.runs.len()).collect();
    assert_eq!(runs, [1, 1]);
}

#[test]
fn additions_of_terminals_and_editors_change_nothing() {
    let each = |text: &str, change: &dyn Fn(usize, &str) -> String| -> String {
        let lines = text.lines().enumerate();
        lines
            .map(|(number, line)| change(number, line) + "\n")
            .collect()
    };
    for text in [PLACES, NOTES, WITH_JSON, WRK2] {
        let plain = named(&runs(text));
        let utf_16 = |unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
            let units = "\u{feff}".encode_utf16().chain(text.encode_utf16());
            units.flat_map(unit).collect()
        };
        for (what, bytes) in [
            (
                "colours",
                each(text, &|_, line| format!("\u{1b}[32m{line}\u{1b}[0m")).into_bytes(),
            ),
            (
                "docker",
                each(text, &|_, line| {
                    format!("2024-05-01T12:00:00.123456789Z {line}")
                })
                .into_bytes(),
            ),
            (
                "seconds",
                each(text, &|number, line| {
                    format!("[12:00:{:02}] {line}", number % 60)
                })
                .into_bytes(),
            ),
            ("Windows", text.replace('\n', "\r\n").into_bytes()),
            ("UTF-16, low byte first", utf_16(u16::to_le_bytes)),
            ("UTF-16, high byte first", utf_16(u16::to_be_bytes)),
        ] {
            let read = Reading::of_bytes(&bytes, Path::new("notes.md"));
            let read = read.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(named(&read.observations), plain, "{what}");
        }
    }
}

#[test]
fn runs_that_no_duration_ends_have_their_first_line() {
    for length in ["500 requests ", ""] {
        let text = WRK.replacen("Running 2s ", &format!("Running {length}"), 1);
        assert_ne!(text, WRK, "{length}");
        let run = only(&text);
        assert_eq!(run.source, "notes.md:1", "{length}");
        assert_eq!(run.target.as_deref(), Some("http://127.0.0.1:18471/"));
    }
}

#[test]
fn a_report_with_text_before_its_lines_is_skipped_with_a_note() {
    for prefix in ["wrk-1  | ", "May  1 12:00:00 host wrk[17]: ", "+"] {
        let lines = WRK2.lines().map(|line| format!("{prefix}{line}\n"));
        let prefixed: String = lines.collect();
        let read = |text: &str| Reading::of_bytes(text.as_bytes(), Path::new("notes.md"));
        let before = prefix.trim_end();
        let note =
            format!("a report with {before:?} before it, skipped (remove this from its lines)");
        let alone = read(&prefixed).unwrap_err().to_string();
        assert!(alone.ends_with(&note), "{alone}");
        let below = read(&format!("{WRK2}\n{prefixed}")).unwrap();
        assert_eq!(below.observations.len(), runs(WRK2).len());
        assert!(below.has_skipped_lines);
        assert!(below.notes[0].ends_with(&note), "{:?}", below.notes);
    }
}

#[test]
fn published_tables_are_read_row_by_row() {
    let reading = reading(PUBLISHED);
    let shown: Vec<String> = named(&reading.observations);
    assert_eq!(
        shown,
        [
            "table=Small responses | - | nginx | 1 | {\"latency_p50_us\": 1100.0, \
             \"latency_p99_us\": 4250.0, \"requests_per_sec\": 51234.5}",
            "table=Small responses | - | caddy | 1 | {\"latency_p50_us\": 1700.0, \
             \"latency_p99_us\": 12000.0, \"requests_per_sec\": 33900.0}",
            "table=By connections connections=10 | - | - | 1 | {\"latency_mean_us\": 310.0, \
             \"requests_per_sec\": 9800.0}",
            "table=By connections connections=100 | - | - | 1 | {\"latency_mean_us\": 2450.0, \
             \"requests_per_sec\": 40100.0}",
        ]
    );
    assert_eq!(
        reading.notes,
        ["notes.md: line 22: the column \"Avg latency\" is not understood, skipped"]
    );
    let table = |run: &Observation| {
        let of_table = run.origins.iter().find(|it| it.part == "table");
        of_table.map(|origin| origin.from.clone())
    };
    assert!(reading.observations.iter().all(|run| table(run).is_some()));
}

/// The report of wrk with another rate, so that it is another run.
fn of_rate(rate: &str) -> String {
    let (before, rest) = WRK.split_once("Requests/sec:").unwrap();
    let (_, after) = rest.split_once('\n').unwrap();
    format!("{before}Requests/sec: {rate}\n{after}")
}

#[test]
fn text_that_may_name_a_run_becomes_part_of_its_name() {
    let notes = format!(
        "java -jar one.jar\n\n{}\njava -jar two.jar\n\n{}\n200: 17\n{}\n",
        of_rate("1.00"),
        of_rate("2.00"),
        of_rate("3.00"),
    );
    let reading = Reading::join(vec![("notes.md".into(), reading(&notes))]);
    let names: Vec<String> = reading
        .observations
        .iter()
        .map(|run| {
            let settings = run.settings.iter();
            let settings: Vec<String> = settings
                .map(|setting| format!("{}={}", setting.factor, setting.level))
                .collect();
            settings.join(" ")
        })
        .collect();
    assert_eq!(
        names,
        [
            "text=java -jar one.jar",
            "text=java -jar two.jar",
            "text=200: 17",
        ]
    );
    assert_eq!((reading.notes.len(), reading.repetitions), (0, None));
}

#[test]
fn runs_that_are_averaged_are_counted() {
    let notes = format!(
        "old, first round:\n\n{}\nold, second round:\n\n{}\nnew:\n\n{}{}",
        of_rate("1.00"),
        of_rate("2.00"),
        of_rate("3.00"),
        of_rate("4.00"),
    );
    let reading = Reading::join(vec![("notes.md".into(), reading(&notes))]);
    assert_eq!(
        reading.repetitions.as_deref(),
        Some("4 runs are grouped into 2 rows (table --explain names each)")
    );
    let averaged = |run: &Observation| run.origins.iter().any(|it| it.part == "averaged");
    let averaged: Vec<bool> = reading.observations.iter().map(averaged).collect();
    assert_eq!(averaged, [false, true, false, true]);
}

#[test]
fn a_run_that_ended_early_is_not_a_repetition_of_complete_ones() {
    let ended = WRK
        .replace("Running 2s", "Running 30s")
        .replace("in 2.00s", "in 12.05s");
    let whole = WRK
        .replace("Running 2s", "Running 30s")
        .replace("in 2.00s", "in 30.05s");
    let again = whole.replace("in 30.05s", "in 30.06s");
    let parts = vec![("n".into(), reading(&format!("{whole}{ended}{again}")))];
    let joined = Reading::join(parts);
    let profiles: Vec<_> = joined
        .observations
        .iter()
        .map(|run| run.profile.as_deref().unwrap())
        .collect();
    assert_eq!(
        profiles,
        ["-t2 -c10", "-t2 -c10 (ended after 40 %)", "-t2 -c10"]
    );
    assert!(
        joined.notes[0].ends_with("not averaged: length whole / ended after 40 %"),
        "{:?}",
        joined.notes
    );
}

#[test]
fn no_prefix_of_a_text_and_no_changed_byte_makes_the_reader_panic() {
    let mut random = fastrand::Rng::with_seed(5);
    for text in [PLACES, NOTES, PUBLISHED, WITH_JSON, WRK2] {
        for end in (0..text.len()).step_by(37) {
            let _ = Reading::of_bytes(&text.as_bytes()[..end], Path::new("x"));
        }
        for _ in 0..200 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..random.usize(1..20) {
                let at = random.usize(..bytes.len());
                bytes[at] = *random.choice(b"\0\x1b\r\n|,:=#+- 09aZ\xff\xfe").unwrap();
            }
            if let Ok(reading) = Reading::of_bytes(&bytes, Path::new("x")) {
                let joined = Reading::join(vec![("x".into(), reading)]);
                table(&joined.observations, &TableOptions::default()).unwrap();
                assert!(joined.notes.iter().all(|note| !note.contains('\n')));
            }
        }
    }
}
