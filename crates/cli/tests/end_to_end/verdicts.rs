//! `--fail-if` and `--strict`: which exit code, and what is said.

use crate::harness::{Load, Run, load, site};

/// Lines of stderr that begin so, without it.
fn lines<'a>(run: &'a Run<'_>, begin: &str) -> Vec<&'a str> {
    let begin = format!("wrkbench: {begin}: ");
    run.stderr
        .lines()
        .filter_map(|line| line.strip_prefix(&begin))
        .collect()
}

fn judged<'a>(load: Load<'a>, conditions: &[&str]) -> Run<'a> {
    load.with(&["--fail-if"]).with(conditions).finish()
}

#[test]
fn passed_conditions_leave_exit_code_0() {
    let site = site();
    let conditions = ["p99>1h", "max>1h", "errors>0", "status>0%", "rps<0.001"];
    let run = judged(load(&site).requests(1000), &conditions);
    assert_eq!(run.code, Some(0), "{}", run.story());
    assert_eq!(lines(&run, "failed"), [""; 0]);
    let run = judged(load(&site).requests(1000).with(&["-R5k"]), &["rate<100%"]);
    assert_eq!(run.code, Some(0), "{}", run.story());
}

/// One request in five is answered with an error.
const SOME_ERRORS: &str = "
    local sent = 0
    function request()
        sent = sent + 1
        return wrk.format('GET', sent % 5 == 0 and '/?status=503' or '/')
    end";

#[test]
fn each_failed_condition_is_printed_and_the_exit_code_is_2() {
    let site = site();
    let run = load(&site).script(SOME_ERRORS).requests(1000);
    let run = judged(
        run,
        &["p99>1ns", "max>1h", "status>10%,requests==1000", "errors>0"],
    );
    assert_eq!(run.code, Some(2), "{}", run.story());
    let told = lines(&run, "failed");
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[0].starts_with("p99 is ") && told[0].ends_with("s, limit p99>1ns"),
        "{told:?}"
    );
    assert!(
        told[1].ends_with(" of 1,000), limit status>10%"),
        "{told:?}"
    );
    assert_eq!(told[2], "requests is 1,000, limit requests==1000");
    // The report and the document are there all the same: the harness has looked at them.
    assert!(run.stdout.contains("Requests/sec:"));
}

#[test]
fn no_condition_passes_if_each_response_is_an_error() {
    let site = site();
    let run = load(&site).at("/?status=500").requests(100);
    let run = judged(run, &["p50>50ms", "errors>0.1%", "failed>0.1%"]);
    assert_eq!(run.code, Some(2), "{}", run.story());
    let reason = "is not known: no request succeeded, so no condition passes, limit";
    assert_eq!(
        lines(&run, "failed"),
        [
            format!("p50 {reason} p50>50ms"),
            format!("errors {reason} errors>0.1%"),
            "failed is 100 % (100 of 100), limit failed>0.1%".to_owned()
        ]
    );
    assert_eq!(lines(&run, "passed"), [""; 0]);
}

#[test]
fn a_condition_without_its_numbers_counts_as_failed() {
    let site = site();
    let run = judged(load(&site).requests(100), &["p99.9>1h"]);
    assert_eq!(run.code, Some(2), "{}", run.story());
    assert_eq!(
        lines(&run, "failed"),
        ["p99.9 is not known: 100 samples are too few for it, limit p99.9>1h"]
    );
}

#[test]
fn conditions_take_the_names_of_comparisons_and_say_what_was_not_measured() {
    let site = site();
    let conditions = [
        "connect_p50>1h",
        "service_time_max>1h",
        "failures>0",
        "errors_read>0%",
    ];
    let run = judged(load(&site).requests(1000).connections(20), &conditions);
    assert_eq!(run.code, Some(0), "{}", run.story());
    let conditions = ["first_event_p99>1s", "unfinished_streams>50%"];
    let run = judged(load(&site).requests(100), &conditions);
    assert_eq!(run.code, Some(2), "{}", run.story());
    let reason = "is not known: events were not measured (--events), limit";
    assert_eq!(
        lines(&run, "failed"),
        [
            format!("first_event_p99 {reason} first_event_p99>1s"),
            format!("unfinished_streams {reason} unfinished_streams>50%")
        ]
    );
}

#[test]
fn too_few_samples_decide_what_all_of_them_show() {
    let site = site();
    let load = load(&site).at("/?delay=5ms").requests(400);
    let run = judged(load, &["p99>1ms"]);
    assert_eq!(run.code, Some(2), "{}", run.story());
    let told = lines(&run, "failed");
    assert!(told[0].starts_with("p99 is "), "{told:?}");
}

#[test]
fn quiet_hides_notes_and_not_failed_conditions() {
    let site = site();
    let run = load(&site)
        .at("/?mix=20%:reset")
        .requests(500)
        .with(&["-q"]);
    let run = judged(run, &["errors>1%"]);
    assert_eq!(run.code, Some(2), "{}", run.story());
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert_eq!(lines(&run, "failed").len(), 1, "{}", run.stderr);
}

#[test]
fn a_run_without_a_success_is_no_failed_condition() {
    let site = site();
    let run = load(&site).at("/?fault=reset").requests(5);
    let run = judged(run, &["errors>0"]);
    assert_eq!(run.code, Some(1), "{}", run.story());
    assert_eq!(lines(&run, "failed"), [""; 0]);
}

#[test]
fn an_interrupted_run_is_judged_by_what_was_measured() {
    let site = site();
    for (condition, expected) in [("requests>0", 2), ("requests<1", 0)] {
        let run = load(&site).with(&["-d1h", "--fail-if", condition]);
        let run = run.interrupted();
        assert!(run.result.window.interrupted);
        assert_eq!(run.code, Some(expected), "{}", run.story());
    }
}

/// Each request costs the script a millisecond or more: the worker has no time for anything else.
const EXPENSIVE: &str = "
    function request()
        local sum = 0
        for i = 1, 3e5 do sum = sum + i % 7 end
        return wrk.format('GET', '/?note=' .. sum)
    end";

#[test]
fn a_saturated_generator_is_a_note_and_with_strict_exit_code_5() {
    let site = site();
    let load = || load(&site).for_ms(500).script(EXPENSIVE);
    let run = load().run();
    let told = lines(&run, "note").join("\n");
    assert!(
        told.contains("load generator saturated: the server may be faster than shown"),
        "{}",
        run.story()
    );
    let verdict = &run.document["generator"]["verdict"]["kind"];
    assert_eq!(verdict, "generator_limited");

    let run = load().with(&["--strict", "--quiet"]).finish();
    assert_eq!(run.code, Some(5), "{}", run.story());
    let told = lines(&run, "failed").join("\n");
    assert!(
        told.starts_with("load generator saturated: the server may be faster than shown"),
        "{}",
        run.story()
    );
}

#[test]
fn a_strict_and_failed_run_ends_with_5_and_prints_both() {
    let site = site();
    let run = load(&site)
        .for_ms(500)
        .script(EXPENSIVE)
        .with(&["--strict"]);
    let run = judged(run, &["min>1ns"]);
    assert_eq!(run.code, Some(5), "{}", run.story());
    let told = lines(&run, "failed");
    assert!(told.last().unwrap().ends_with("limit min>1ns"), "{told:?}");
}

#[test]
fn strict_ends_with_5_exactly_if_the_generator_was_disturbed_or_saturated() {
    let site = site();
    let run = load(&site)
        .for_ms(300)
        .with(&["-R100", "--strict"])
        .finish();
    let verdict = &run.document["generator"]["verdict"]["kind"];
    let is_refused = verdict == "generator_limited" || verdict == "disturbed";
    let expected = if is_refused { 5 } else { 0 };
    assert_eq!(run.code, Some(expected), "{}", run.story());
}
