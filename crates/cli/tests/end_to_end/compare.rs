//! Whether runs differ: input, exit codes, formats, what cannot be compared.

use std::fs;

use testkit::{Folder, Output};

use crate::harness::{call, load, site};

/// Reports of wrk with these rates, as people keep them in notes.
fn notes(rates: &[f64]) -> String {
    let report = |rate: &f64| {
        format!(
            "Running 10s test @ http://localhost/\n  2 threads and 10 connections\n  Thread \
             Stats   Avg      \
             Stdev     Max   +/- Stdev\n    Latency     1.00ms    0.10ms   3.00ms   80.00%\n    \
             Req/Sec     \
             5.00k   100.00     6.00k    70.00%\n  {:.0} requests in 10.00s, 1.00MB \
             read\nRequests/sec: \
             {rate:9.2}\nTransfer/sec:    102.40KB\n\n",
            rate * 10.0
        )
    };
    rates.iter().map(report).collect()
}

/// Slightly different rates around a value.
fn around(middle: f64) -> [f64; 6] {
    [0.0, 1.0, -1.0, 2.0, -2.0, 3.0].map(|step| middle + step)
}

/// Compares files of the folder.
fn compare(folder: &Folder, arguments: &[&str]) -> Output {
    let in_folder = |names: &str| {
        let paths: Vec<String> = names.split(',').map(|name| folder.file(name)).collect();
        paths.join(",")
    };
    let arguments = arguments.iter().map(|&it| match it {
        names if names.contains(".txt") || names.contains(".json") => in_folder(names),
        other => other.to_owned(),
    });
    let arguments: Vec<String> = arguments.collect();
    call(&["compare"]).with(&arguments).finish()
}

fn folder_with(files: &[(&str, &[f64])]) -> Folder {
    let folder = Folder::new();
    for (name, rates) in files {
        fs::write(folder.file(name), notes(rates)).unwrap();
    }
    folder
}

#[test]
fn a_regression_beyond_the_limit_ends_with_exit_code_3() {
    let folder = folder_with(&[
        ("old.txt", &around(1_000.0)),
        ("new.txt", &around(900.0)),
        ("few.txt", &[1_000.0]),
    ]);
    let metric = ["--metric", "requests/s", "--fail-on-regression"];
    for (files, limit, code, said) in [
        (
            ["old.txt", "new.txt"],
            "5%",
            3,
            "new.txt is worse than old.txt",
        ),
        (
            ["old.txt", "new.txt"],
            "20%",
            0,
            "new.txt is worse than old.txt",
        ),
        (
            ["new.txt", "old.txt"],
            "5%",
            0,
            "old.txt beats new.txt by 11 %",
        ),
        (
            ["old.txt", "old.txt"],
            "5",
            0,
            "requests/s is the same within 2 %",
        ),
        (["few.txt", "new.txt"], "5%", 1, "cannot be compared"),
    ] {
        let arguments = [&files[..], &metric, &[limit]].concat();
        let output = compare(&folder, &arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
        assert!(output.stdout.contains(said), "{arguments:?}: {output:?}");
        let told = output.stderr.contains("--fail-on-regression: ");
        assert_eq!(told, code != 0, "{arguments:?}: {output:?}");
    }
    let output = compare(&folder, &["old.txt", "new.txt", "--metric", "requests/s"]);
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[test]
fn a_condition_about_the_baseline_ends_with_exit_code_3() {
    let folder = folder_with(&[
        ("old.txt", &around(1_000.0)),
        ("new.txt", &around(900.0)),
        ("few.txt", &[1_000.0]),
    ]);
    for (files, conditions, code, said) in [
        (
            ["old.txt", "new.txt"],
            &["requests/s < baseline - 5 %"][..],
            3,
            "--fail-if requests/s<baseline-5%: new.txt is worse than old.txt",
        ),
        (["old.txt", "new.txt"], &["rps < baseline - 20%"], 0, ""),
        (["old.txt", "new.txt"], &["rps > baseline"], 0, ""),
        (
            ["new.txt", "old.txt"],
            &["rps < baseline", "rps > baseline + 5%"],
            3,
            "--fail-if rps>baseline+5%: ",
        ),
        (
            ["few.txt", "new.txt"],
            &["rps < baseline - 5%"],
            1,
            "--fail-if rps<baseline-5%: ",
        ),
        (
            ["old.txt", "new.txt"],
            &["rps<900"],
            1,
            "\"rps<900\" is not a comparison with the baseline",
        ),
    ] {
        let arguments = [&files[..], &["--fail-if"], conditions].concat();
        let output = compare(&folder, &arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
        assert!(output.stderr.contains(said), "{arguments:?}: {output:?}");
        let is_silent = !output.stderr.contains("--fail-if");
        assert_eq!(is_silent, code == 0, "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_regression_is_larger_than_the_threshold_and_the_limit_lowers_the_usual_one() {
    let folder = folder_with(&[
        ("old.txt", &around(100_000.0)),
        ("new.txt", &around(98_500.0)),
    ]);
    for (more, code, said) in [
        (&["--fail-on-regression", "1%"][..], 3, "is worse than"),
        (&["--fail-on-regression", "2%"], 0, "is the same within 2 %"),
        (
            &["--fail-on-regression", "1%", "--threshold", "1.8%"],
            0,
            "is the same within 1.8 %",
        ),
        (
            &["--fail-on-regression", "3%", "--threshold", "1.2%"],
            0,
            "is worse than",
        ),
    ] {
        let arguments = [&["old.txt", "new.txt", "--metric", "requests/s"], more].concat();
        let output = compare(&folder, &arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
        assert!(output.stdout.contains(said), "{arguments:?}: {output:?}");
    }
}

#[test]
fn each_named_metric_is_compared() {
    let folder = folder_with(&[("old.txt", &around(1_000.0)), ("new.txt", &around(1_100.0))]);
    for metrics in [
        &["--metric", "requests/s", "--metric", "latency_mean_us"][..],
        &["--metric", "requests/s,latency_mean_us"],
    ] {
        let output = compare(&folder, &[&["old.txt", "new.txt"], metrics].concat());
        let said = |phrase: &str| output.stdout.contains(phrase);
        assert!(
            said("% in requests/s (") && said("mean latency is the same within 2 %"),
            "{output:?}"
        );
    }
}

#[test]
fn several_files_form_one_side_by_commas_or_a_pattern() {
    let (old, new) = (around(1_000.0), around(1_100.0));
    let folder = folder_with(&[
        ("old-1.txt", &old[..3]),
        ("old-2.txt", &old[3..]),
        ("new-1.txt", &new[..3]),
        ("new-2.txt", &new[3..]),
    ]);
    for (base, fresh) in [
        ("old-1.txt,old-2.txt", "new-1.txt,new-2.txt"),
        ("old-*.txt", "new-?.txt"),
    ] {
        let output = compare(
            &folder,
            &[
                base,
                fresh,
                "--metric",
                "requests_per_sec",
                "--format",
                "json",
            ],
        );
        assert_eq!(output.code, Some(0), "{output:?}");
        let document: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let comparison = &document["comparisons"][0];
        assert_eq!(comparison["levels"][0]["runs"], 6, "{document:#}");
        assert_eq!(comparison["levels"][1]["runs"], 6, "{document:#}");
        assert_eq!(comparison["outcome"]["is"], "better", "{document:#}");
    }
}

#[test]
fn requests_are_compared_by_name_after_the_runs() {
    let site = site();
    let folder = folder_with(&[("plain.txt", &around(1_000.0))]);
    for (side, name) in [("old", "buy"), ("new", "sell")] {
        let mix = format!(
            "{{\"path\":\"/a\",\"name\":\"list\"}}\n{{\"path\":\"/b\",\"name\":\"{name}\"}}\n"
        );
        let mix = folder.file_with(&format!("{side}.jsonl"), mix);
        for number in 1..=4 {
            let run = load(&site).requests(200).with(&["--requests", &mix]).run();
            let document = run.document.to_string();
            folder.file_with(&format!("{side}-{number}.json"), document);
        }
    }
    let sides = ["old-*.json", "new-*.json"];
    let usual = compare(&folder, &sides);
    let output = compare(&folder, &[&sides[..], &["--by-name"]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let names = output.stdout.strip_prefix(&usual.stdout);
    let (_, names) = names
        .and_then(|text| text.split_once("By name:\n\n"))
        .unwrap();
    assert_eq!(names.matches("\nlist: ").count() + 1, 3, "{names}");
    let ending = "Not compared: only old-*.json has buy; only new-*.json has sell\n";
    assert!(names.ends_with(ending), "{names}");
    let json = [&sides[..], &["--by-name", "--format", "json"]].concat();
    let json = compare(&folder, &json);
    let document: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let p50 = &document["by_name"]["comparisons"][1];
    assert_eq!(p50["place"][0], "list");
    assert_eq!(p50["metric"]["name"], "latency_p50_us");
    assert_eq!(p50["levels"][1]["runs"], 4);
    assert!(p50["levels"][1]["difference"]["low"].is_f64(), "{p50:#}");
    for (arguments, said) in [
        (
            &["plain.txt", "old-*.json", "--by-name"][..],
            "--by-name: requests have no names in plain.txt",
        ),
        (&["old-1.json", "--by-name"], "--by-name needs NEW"),
    ] {
        let output = compare(&folder, arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""));
        assert!(output.stderr.contains(said), "{output:?}");
    }
}

#[test]
fn sides_with_other_arrivals_are_said_to_be_other_loads() {
    let site = site();
    let folder = Folder::new();
    for (name, shape) in [("one", "0.5"), ("other", "4")] {
        for number in 0..4 {
            let json = folder.file(&format!("{name}{number}.json"));
            let arrivals = format!("--arrivals=gamma:{shape}");
            let run = load(&site).connections(8).for_ms(150);
            let output = run.with(&["-R200", &arrivals, "--json", &json]).output();
            assert_eq!(output.code, Some(0), "{output:?}");
        }
    }
    let side = |name: &str| [0, 1, 2, 3].map(|it| format!("{name}{it}.json")).join(",");
    let output = compare(&folder, &[&side("one"), &side("other")]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let said = "different loads: arrivals gamma:0.5 / gamma:4";
    assert!(output.stderr.contains(said), "{output:?}");
}

#[test]
fn what_cannot_be_compared_is_one_line_and_exit_code_1() {
    let folder = folder_with(&[("old.txt", &around(1_000.0)), ("empty.txt", &[])]);
    fs::write(folder.file("cut.json"), b"{\"schema_version\":1,\"pl").unwrap();
    for (arguments, said) in [
        (&["old.txt", "missing.txt"][..], "missing.txt"),
        (&["old.txt", "empty.txt"], "empty.txt"),
        (&["old.txt", "cut.json"], "cut.json"),
        (&["old.txt", "new-*.txt"], "no file matches this pattern"),
        (
            &["old.txt", "old.txt", "--metric", "p99.9"],
            "latency_p99.9_us: no run has it",
        ),
        (
            &["old.txt", "old.txt", "--threshold", "0"],
            "--threshold: \"0\" is not a percentage",
        ),
        (
            &["old.txt", "old.txt", "--fail-on-regression", "x"],
            "is not a percentage",
        ),
        (
            &["old.txt", "old.txt", "--format", "xml"],
            "expected one of",
        ),
        (&[], "BASE"),
    ] {
        let output = compare(&folder, arguments);
        assert_eq!(output.code, Some(1), "{arguments:?}: {output:?}");
        assert!(output.stderr.contains(said), "{arguments:?}: {output:?}");
        assert_eq!(
            output.stderr.lines().count(),
            1,
            "{arguments:?}: {output:?}"
        );
        assert_eq!(output.stdout, "", "{arguments:?}: {output:?}");
    }
}
