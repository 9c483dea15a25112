//! Logs of scripts that measure several variants several times, in generated forms: runs of
//! different sections and of different loads are never averaged, whatever the lines look like.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::collections::BTreeSet;
use std::path::Path;

use analysis::table::{TableOptions, table};
use analysis::{Observation, Reading};

/// Lines that begin a section; `{}` is the name of the variant.
const SECTIONS: [&str; 12] = [
    "Testing {}...",
    "{}",
    "[{}]",
    ">>> {}",
    "{}:",
    "2024-05-01 12:00:00 {}",
    "+ ./server --{}",
    "=== {} ===",
    "## {}",
    "**{}**",
    "INFO: now with {}",
    "$ ./server --{}",
];

/// Lines above each run; `{}` is its number.
const RUNS: [&str; 11] = [
    "Run {}/2",
    "run {}",
    "iteration {}",
    "round {}",
    "INFO: Run {} of 2",
    "=== Run {} ===",
    "Warming up",
    "sleeping 5s",
    "",
    "#{}",
    "{}",
];

/// How many of them are known as the numbers of runs, or are the same each time.
const RUNS_KNOWN: usize = 9;

/// A log with reports, as far as it is written.
#[derive(Default)]
struct Log {
    text: String,
    reports: usize,
}

impl Log {
    /// Adds a line, unless it is empty, with its placeholder filled in.
    fn line(&mut self, form: &str, name: &str) {
        if !form.is_empty() {
            self.text += &form.replace("{}", name);
            self.text.push('\n');
        }
    }

    /// Adds a report that says in its rate which variant it is of.
    fn report(&mut self, variant: usize) {
        self.reports += 1;
        let rate = variant * 10_000 + self.reports * 100;
        self.text += &report(rate, WRK);
    }
}

/// What the tools print between the numbers of threads and of requests.
const WRK: &str = "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n";
const WRK2: &str = "  Thread calibration: mean lat.: 1.157ms, rate sampling interval: 10ms\n  \
                    Thread Stats   Avg      Stdev     Max   +/- Stdev\n";
const CMM: &str = "  Thread Stats   Avg     Stdev       Max       Min   +/- Stdev\n";

fn report(rate: usize, table: &str) -> String {
    let minimum = if table == CMM { "   1.00us" } else { "" };
    format!(
        "Running 10s test @ http://localhost:8080/\n  2 threads and 10 connections\n{table}    \
         Latency     1.04ms    0.{:02}ms   6.81ms{minimum}   89.87%\n  {}0 requests in 10.00s, \
         3.71MB read\nRequests/sec:   {rate}.00\nTransfer/sec:    292.80KB\n\n",
        rate / 100 % 100,
        rate,
    )
}

const VARIANTS: [&str; 3] = ["", "baseline", "patched"];

/// The variants in each row of the table of a text.
fn rows(text: &str) -> Vec<Vec<usize>> {
    let read = Reading::of_bytes(text.as_bytes(), Path::new("bench.log")).unwrap();
    let runs = Reading::join(vec![("bench.log".into(), read)]).observations;
    // A run that failed has no rate and is of no variant.
    let rate = |run: &Observation| run.value("requests_per_sec").unwrap_or_default() as usize;
    let cells = table(&runs, &TableOptions::default()).unwrap().cells;
    let variants = cells.iter().map(|cell| {
        let of = |source: &str| runs.iter().find(|run| run.source == source).unwrap();
        let runs = cell.runs.iter();
        runs.map(|run| rate(of(&run.source)) / 10_000).collect()
    });
    variants.collect()
}

fn assert_unmixed(rows: &[Vec<usize>], text: &str) {
    for row in rows {
        let variants: BTreeSet<&usize> = row.iter().collect();
        assert_eq!(variants.len(), 1, "{rows:?} of\n{text}");
    }
}

#[test]
fn sections_of_a_log_are_never_averaged_together_and_their_runs_are() {
    let mut count = 0;
    for section in SECTIONS {
        for (at, run) in RUNS.iter().enumerate() {
            let mut log = Log::default();
            for variant in [1, 2] {
                log.line(section, VARIANTS[variant]);
                for number in ["1", "2"] {
                    log.line(run, number);
                    log.report(variant);
                }
            }
            let rows = rows(&log.text);
            assert_unmixed(&rows, &log.text);
            if at < RUNS_KNOWN {
                assert_eq!(rows, [[1, 1], [2, 2]], "{}", log.text);
            }
            count += 1;
        }
    }
    assert_eq!(count, 132);
}

/// In which order a script goes through variants and runs.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// Each line is followed by an empty one, and each run has a time stamp.
    Spaced,
    /// The first variant is measured again at the end.
    ThereAndBack,
    /// All variants in each round.
    Rounds,
    /// The line of the run is above that of the section.
    RunFirst,
}

fn log(order: Order, section: &str, run: &str) -> String {
    let mut log = Log::default();
    let visits: &[usize] = match order {
        Order::ThereAndBack => &[1, 2, 1],
        _ => &[1, 2],
    };
    if matches!(order, Order::Rounds) {
        for number in ["1", "2"] {
            log.line(run, number);
            for variant in [1, 2] {
                log.line(section, VARIANTS[variant]);
                log.report(variant);
            }
        }
        return log.text;
    }
    for variant in visits {
        let name = VARIANTS[*variant];
        if !matches!(order, Order::RunFirst) {
            log.line(section, name);
        }
        for number in ["1", "2"] {
            log.line(run, number);
            if matches!(order, Order::RunFirst) {
                log.line(section, name);
            }
            log.report(*variant);
        }
    }
    match order {
        Order::Spaced => log.text.replace('\n', "\n\n"),
        _ => log.text,
    }
}

#[test]
fn sections_are_apart_in_whatever_order_a_script_measures() {
    let orders = [
        Order::Spaced,
        Order::ThereAndBack,
        Order::Rounds,
        Order::RunFirst,
    ];
    let mut count = 0;
    for order in orders {
        for section in &SECTIONS[..8] {
            for run in ["Run {}/2", "round {}", "Warming up", "", "#{}", "{}"] {
                let text = log(order, section, run);
                let rows = rows(&text);
                assert_unmixed(&rows, &text);
                if matches!(order, Order::Spaced | Order::Rounds) && run.len() > 3 {
                    assert_eq!(rows, [[1, 1], [2, 2]], "{order:?} of\n{text}");
                }
                count += 1;
            }
        }
    }
    assert_eq!(count, 192);
}

#[test]
fn a_heading_that_a_script_prints_before_some_runs_ends_no_section() {
    for section in ["Testing {}...", "{}:", "variant={}", "variant = {}"] {
        for heading in ["=== warm ===", "## warm"] {
            let mut log = Log::default();
            for variant in [1, 2] {
                log.line(section, VARIANTS[variant]);
                log.report(variant);
                log.line(heading, "");
                log.report(variant);
            }
            assert_unmixed(&rows(&log.text), &log.text);
            let mut log = Log::default();
            for variant in [1, 2, 1, 2] {
                log.line(section, VARIANTS[variant]);
                log.line(heading, "");
                log.report(variant);
            }
            assert_unmixed(&rows(&log.text), &log.text);
        }
    }
}

#[test]
fn a_section_below_a_report_that_is_cut_off_is_another_one() {
    let cut = report(10_200, WRK);
    let cut = &cut[..cut.find("Requests/sec").unwrap()];
    let first = format!(
        "Testing baseline...\nRun 1/2\n{}Run 2/2\n{cut}",
        report(10_100, WRK)
    );
    let second = format!("Testing patched...\nRun 1/2\n{}", report(20_100, WRK));
    let text = format!("{first}{second}Run 2/2\n{}", report(20_200, WRK));
    let read = Reading::of_bytes(text.as_bytes(), Path::new("bench.log")).unwrap();
    let names = read.observations.iter().map(|run| run.level_of("text"));
    let names: Vec<Option<&str>> = names.collect();
    let [baseline, patched] = [Some("Testing baseline..."), Some("Testing patched...")];
    assert_eq!(names, [baseline, baseline, patched, patched]);
}

#[test]
fn runs_whose_output_goes_to_different_places_are_never_averaged() {
    for output in ["| tee {}.txt", "2>&1 | tee -a {}.log", "--json {}.json"] {
        let run = |name: &str, rate| {
            let output = output.replace("{}", name);
            let report = report(rate, WRK);
            format!("$ wrk -t2 -c10 http://localhost:8080/ {output}\n{report}")
        };
        let text = run("baseline", 10_100) + &run("patched", 20_100);
        assert_eq!(rows(&text), [[1], [2]], "{text}");
    }
}

#[test]
fn objects_name_sections() {
    let section = |variant: usize| {
        let run = |number: usize| report(variant * 10_000 + number * 100, WRK);
        let name = VARIANTS[variant];
        format!("{{\"variant\": \"{name}\"}}\n{}{}", run(1), run(2))
    };
    let text = section(1) + &section(2);
    assert_eq!(rows(&text), [[1, 1], [2, 2]], "{text}");
}

#[test]
fn reports_of_different_loads_are_never_averaged() {
    let first = report(10_100, WRK);
    let again = report(10_200, WRK);
    assert_eq!(rows(&format!("{first}{again}")), [[1, 1]]);
    for other in [
        report(20_200, WRK2),
        report(20_200, CMM),
        report(20_200, WRK).replace("2 threads", "4 threads"),
        report(20_200, WRK).replace("10 connections", "20 connections"),
        report(20_200, WRK).replace("Running 10s", "Running 20s"),
        report(20_200, WRK).replace(":8080/", ":8080/other"),
        format!(
            "$ wrk2 -t2 -c10 -R20200 http://localhost:8080/\n{}",
            report(20_200, WRK)
        ),
        format!(
            "$ wrkbench -t2 -c10 http://localhost:8080/\n{}",
            report(20_200, WRK)
        ),
    ] {
        let text = format!("{first}{other}");
        assert_eq!(rows(&text), [[1], [2]], "{text}");
    }
    let with_script = |name: &str, rate| {
        let report = report(rate, WRK);
        format!("$ wrk -t2 -c10 -s {name} http://localhost:8080/\n{report}")
    };
    let text = with_script("get.lua", 10_100) + &with_script("post.lua", 20_200);
    assert_eq!(rows(&text), [[1], [2]], "{text}");
}

#[test]
fn runs_of_several_files_with_other_options_are_never_averaged() {
    let of_file = |name: &str, options: &str, rate| {
        let command = format!("$ wrk -t2 -c10 {options} http://localhost:8080/");
        let text = format!("{command}\n{}", report(rate, WRK));
        let read = Reading::of_bytes(text.as_bytes(), Path::new(name)).unwrap();
        (name.into(), read)
    };
    let joined = Reading::join(vec![
        of_file("new-1.txt", "-H 'Connection: close'", 10_100),
        of_file("new-2.txt", "", 10_200),
        of_file("new-3.txt", "", 10_300),
    ]);
    let profiles = joined.observations.iter();
    let profiles: Vec<_> = profiles.flat_map(|run| run.profile.as_deref()).collect();
    let plain = "-t2 -c10";
    assert_eq!(
        profiles,
        ["-t2 -c10 -H \"Connection: close\"", plain, plain]
    );
}

#[test]
fn requests_that_differ_only_in_secrets_are_no_repetitions_and_show_none() {
    let report_of = |rate, path: &str| {
        let url = format!("http://localhost:8080/{path}");
        report(rate, WRK).replace("http://localhost:8080/", &url)
    };
    let of_token = |token: &str, rate| report_of(rate, &format!("?token={token}"));
    let of_cookie = |cookie: &str, rate| {
        let command = "$ wrk -t2 -c10 -H 'Cookie: session=";
        format!(
            "{command}{cookie}' http://localhost:8080/\n{}",
            report_of(rate, "")
        )
    };
    for text in [
        of_token("abcdefgh12345678", 10_100) + &of_token("bbcdefgh12345678", 20_200),
        of_cookie("abcdefgh12345678", 10_100) + &of_cookie("bbcdefgh12345678", 20_200),
    ] {
        assert_eq!(rows(&text), [[1], [2]], "{text}");
        let read = Reading::of_bytes(text.as_bytes(), Path::new("notes.log")).unwrap();
        let shown = format!("{:?}", read.notes)
            + &read
                .observations
                .iter()
                .map(|run| format!("{:?} {:?}", run.profile, run.target))
                .collect::<String>();
        assert!(!shown.contains("bcdefgh12345678"), "{shown}");
    }
}

#[test]
fn runs_that_text_keeps_apart_are_joined_by_the_parts_that_are_named() {
    let log = |order| {
        let text = log(order, "{}", "#{}");
        let read = Reading::of_bytes(text.as_bytes(), Path::new("bench.log")).unwrap();
        Reading::join(vec![("bench.log".into(), read)])
    };
    let mut reading = log(Order::Spaced);
    let said = reading.apart.clone().unwrap();
    assert!(
        said.starts_with("4 runs are named by the text above"),
        "{said}"
    );
    reading.group_by(&["target".to_owned()]).unwrap();
    let numbers: Vec<u32> = reading.observations.iter().map(|run| run.run).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert!(
        reading
            .observations
            .iter()
            .all(|run| run.settings.is_empty())
    );
    assert_eq!(
        (reading.apart, reading.repetitions.as_deref()),
        (
            None,
            Some("4 runs are grouped into 1 row: by target and their loads")
        )
    );
    let problem = log(Order::Spaced).group_by(&["colour".to_owned()]);
    let expected = "\"colour\" is no part of these runs' names (they have: target, text)";
    assert_eq!(problem.unwrap_err().to_string(), expected);
}

#[test]
fn runs_that_are_grouped_by_their_names_still_need_the_same_load() {
    let text = format!("a\n{}b\n{}", report(10_100, WRK), report(20_200, WRK2));
    let read = Reading::of_bytes(text.as_bytes(), Path::new("bench.log")).unwrap();
    let mut reading = Reading::join(vec![("bench.log".into(), read)]);
    reading.group_by(&["target".to_owned()]).unwrap();
    let profiles = reading
        .observations
        .iter()
        .map(|run| run.profile.as_deref());
    let profiles: Vec<_> = profiles.flatten().collect();
    assert_eq!(profiles, ["-t2 -c10 wrk", "-t2 -c10 wrk2"]);
}

/// Notes with two variants, each measured once. `{}` is the name of the variant.
fn two_variants(form: &str) -> String {
    let of = |variant: usize| {
        let text = form.replace("{}", ["a", "b"][variant - 1]);
        text.replace("REPORT\n", &report(variant * 10_000 + 100, WRK))
    };
    of(1) + &of(2)
}

#[test]
fn whatever_tells_two_variants_apart_keeps_their_runs_apart() {
    const OPTIONS: &str = "-t2 -c10 http://localhost:8080/";
    for form in [
        "```{}\nREPORT\n```\n".to_owned(),
        "~~~ {} ~~~\nREPORT\n".to_owned(),
        "wrkbench: {}\nREPORT\n".to_owned(),
        "wrkbench: {} with the patch\nREPORT\n".to_owned(),
        "Running {} test @ 10:00\nREPORT\n".to_owned(),
        "Latency Distribution {}\nREPORT\n".to_owned(),
        "Requests/sec: {}\nREPORT\n".to_owned(),
        "{}: REPORT\n".to_owned(),
        "me@{}:~$ sysctl -w net.core.somaxconn=128\nREPORT\n".to_owned(),
        "[client]\nsize = {}\n[server]\nsize = 1\nREPORT\n".to_owned(),
        "== client ==\nsize={}\n== server ==\nsize=1\nREPORT\n".to_owned(),
        "client:\nsize={}\nserver:\nsize=1\nREPORT\n".to_owned(),
        "role=client size={}\nrole=server size=1\nREPORT\n".to_owned(),
        "root@{}:~# sysctl -w x=1\nroot@db:~# sysctl -w y=1\nREPORT\n".to_owned(),
        "# sysctl -w x={}\nREPORT\n# systemctl restart nginx\nREPORT\n".to_owned(),
        "-{} run 1\nREPORT\n".to_owned(),
        "\u{feff}{}\n\u{feff}REPORT\n".to_owned(),
        format!("$ /opt/{{}}/wrk {OPTIONS}\nREPORT\n"),
        format!("$ wrk -R$RATE_{{}} {OPTIONS}\nREPORT\n"),
        "$ wrk -t2 -c10 -H 'X: {}' http://$HOST/\nREPORT\n".to_owned(),
        "$ wrk -t2 -c10 -H 'X: {}' http://other/\nREPORT\n".to_owned(),
        "$ wrkbench serve --name {} -t2\nREPORT\n".to_owned(),
    ] {
        let text = two_variants(&form);
        let rows = rows(&text);
        assert_unmixed(&rows, &text);
    }
    let url = |url: &str| two_variants("REPORT\n").replace("http://localhost:8080/", url);
    let one = url("http://localhost:8080/");
    for (from, to) in [
        ("//localhost", "//user@localhost"),
        ("8080/", "8080/a\nlong-name"),
    ] {
        let (first, second) = one.split_at(one.len() / 2);
        let text = format!("{first}{}", second.replace(from, to));
        assert_eq!(rows(&text), [[1], [2]], "{text}");
    }
}

#[test]
fn runs_without_a_command_are_apart_from_those_with_other_options() {
    let text = two_variants("REPORT\n");
    let (first, second) = text.split_at(text.len() / 2);
    let command = "$ wrk -t2 -c10 -T5s http://localhost:8080/";
    let text = format!("{first}{command}\n{second}");
    assert_eq!(rows(&text), [[1], [2]], "{text}");
}

#[test]
fn headings_prompts_and_durations_that_differ_in_little_are_different() {
    let of = |one: &str, other: &str| {
        let report = |variant: usize| report(variant * 10_000 + 100, WRK);
        format!("{one}\n{}{other}\n{}", report(1), report(2))
    };
    let command = "wrk -t2 -c10 -d10s http://localhost:8080/";
    for (one, other) in [
        ("## C", "## C#"),
        ("== F ==", "== F# =="),
        ("## nginx", "## nginx --"),
        ("-keepalive run 1", "keepalive run 2"),
        (
            &format!("$ {command}"),
            &format!("Now with the patch: $ {command}"),
        ),
        (&format!("$ {command}"), &format!("root@new:~# {command}")),
    ] {
        let text = of(one, other);
        assert_eq!(rows(&text), [[1], [2]], "{text}");
    }
    let object = |duration: &str, rate| {
        let values = format!("\"requests\": {rate}0, \"requests_per_sec\": {rate}");
        format!("$ wrk -t2 -c10 -d{duration} http://localhost:8080/\n{{{values}}}\n")
    };
    let text = object("10s", 10_100) + &object("60s", 20_100);
    assert_eq!(rows(&text), [[1], [2]], "{text}");
}

#[test]
fn lines_below_a_report_that_is_cut_off_are_no_part_of_its_url() {
    let cut = "Running 10s test @ http://localhost:8080/\n";
    for below in ["^C\npatched\n", "#[patched]\n"] {
        let (first, second) = (report(10_100, WRK), report(20_100, WRK));
        let text = format!("{first}{cut}{below}{second}");
        let rows = rows(&text);
        assert!(
            rows.contains(&vec![1]) && rows.contains(&vec![2]),
            "{text}{rows:?}"
        );
    }
}

#[test]
fn texts_in_and_after_objects_name_their_runs() {
    let object = |name: &str, rate: usize| {
        let values = format!("\"requests\": {rate}0, \"requests_per_sec\": {rate}");
        format!("{{\"variant\": \"{name}\", {values}}}")
    };
    let named = format!("{}\n{}\n", object("old", 10_100), object("new", 20_100));
    let followed = format!("{} old\n{} new\n", object("", 10_100), object("", 20_100));
    let on_one_line = format!("{} {}\n", object("a", 10_100), object("b", 20_100));
    let below = |name: &str, rate: usize| report(rate, WRK) + &object(name, rate) + "\n";
    let below_reports = below("old", 10_100) + &below("new", 20_100);
    for text in [named, followed, on_one_line, below_reports] {
        let read = Reading::of_bytes(text.as_bytes(), Path::new("bench.log")).unwrap();
        assert_eq!(read.observations.len(), 2, "{text}");
        assert_unmixed(&rows(&text), &text);
    }
}

#[test]
fn an_object_with_another_rate_is_not_of_the_report_above() {
    let object = "{\"requests\": 101000, \"requests_per_sec\": 10090}\n";
    let text = format!("old:\n{}new:\n{object}", report(10_100, WRK));
    let read = Reading::of_bytes(text.as_bytes(), Path::new("bench.log")).unwrap();
    assert_eq!(
        read.observations[0].value("requests_per_sec"),
        Some(10_100.0)
    );
    assert!(read.notes[0].contains("another rate"), "{:?}", read.notes);
}

#[test]
fn different_bytes_that_are_not_utf_8_are_different_names() {
    let text = two_variants("caf{}\nREPORT\n");
    let bytes = text.replace("cafa", "caf\u{1}").replace("cafb", "caf\u{2}");
    let bytes = bytes.bytes().map(|byte| match byte {
        1 => 0xe8,
        2 => 0xe9,
        byte => byte,
    });
    let bytes: Vec<u8> = bytes.collect();
    let read = Reading::of_bytes(&bytes, Path::new("bench.log")).unwrap();
    let names = read.observations.iter().map(|run| run.level_of("text"));
    assert_eq!(
        names.collect::<Vec<_>>(),
        [Some("caf\u{e8}"), Some("caf\u{e9}")]
    );
}

#[test]
fn a_number_below_the_last_one_begins_another_group() {
    let run = |number: usize, variant: usize| {
        let report = report(variant * 10_000 + 100 * number, WRK);
        format!("Run {number}\n{report}")
    };
    let text = format!("Run 1\nno answer\n{}{}{}", run(2, 1), run(1, 2), run(2, 2));
    assert_eq!(rows(&text), [vec![1], vec![2, 2]], "{text}");
}

#[test]
fn passes_with_a_table_between_their_runs_or_of_very_many_lines_are_not_united() {
    let pass = |between: &str| {
        let pass = |from: usize| {
            let first = report(from * 10_000 + 100, WRK);
            let second = report((from + 1) * 10_000 + 100, WRK);
            format!(
                "old\n{first}{}new\n{second}",
                between.replace("{}", &from.to_string())
            )
        };
        pass(1) + &pass(3)
    };
    assert_eq!(rows(&pass("")), [[1, 3], [2, 4]], "the passes repeat");
    let lines: String = (0..300).map(|line| format!("line {line}\n")).collect();
    for between in [
        "{}\n| target | rps |\n|---|---|\n\n",
        &format!("{{}}\n{lines}"),
    ] {
        assert_eq!(rows(&pass(between)), [[1], [2], [3], [4]], "{between}");
    }
}
