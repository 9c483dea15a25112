//! `wrkbench search` and `wrkbench check` against servers whose capacity is known.

use std::process::Command;

use origin::Options;
use results::file::load_trial;
use results::{SearchEnd, SearchOutcome, SearchOver, SearchPhase, Trial, TrialOutcome};
use testkit::{Folder, Output, Process};

use crate::harness::{Call, Site, call, program, site, site_with};

fn command(folder: &Folder, name: &str, arguments: &[&str]) -> Command {
    let [results, journal] = ["results", "journal"].map(|name| folder.file(name));
    let mut command = program(&[name, "--results", &results, "--journal", &journal]);
    command
        .args(["-t1", "-c4", "-d1s", "--warmup=0s"])
        .args(arguments);
    command
}

fn made(folder: &Folder, name: &str, arguments: &[&str]) -> Output {
    Process::start(command(folder, name, arguments)).finish()
}

fn refused(folder: &Folder, name: &str, arguments: &[&str], expected: &str) {
    let output = Call::of(&command(folder, name, arguments)).finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains(expected), "{output:?}");
}

/// One request at a time, each of which takes this long: it carries 1000 / `ms` requests/s.
fn queue(ms: u32) -> (Site, String) {
    let site = site_with(Options {
        has_service_queue: true,
        ..Options::default()
    });
    let url = site.url(&format!("/?delay={ms}ms"));
    (site, url)
}

/// The steps in their order.
fn steps(folder: &Folder) -> Vec<Trial> {
    let files = std::fs::read_dir(folder.file("results/trials")).unwrap();
    let mut trials: Vec<Trial> = files
        .map(|file| load_trial(&std::fs::read(file.unwrap().path()).unwrap()).unwrap())
        .collect();
    trials.sort_by_key(|trial| trial.position);
    trials
}

/// How the search ended, as its last step has saved it.
fn outcome(folder: &Folder) -> SearchOutcome {
    let last = steps(folder).pop().unwrap();
    last.search.unwrap().outcome.unwrap()
}

/// The exit code of a search that ended so. What it finds in a short budget depends on the machine.
fn code(outcome: &SearchOutcome) -> Option<i32> {
    let is_undecided = outcome.end == SearchEnd::Undecided;
    Some(if is_undecided { 2 } else { 0 })
}

/// Waits until so many steps are saved.
fn await_steps(folder: &Folder, number: usize) {
    let trials = std::path::PathBuf::from(folder.file("results/trials"));
    testkit::eventually(|| match std::fs::read_dir(&trials).map(Iterator::count) {
        Ok(count) if count >= number => Ok(()),
        other => Err(format!("{other:?} trials")),
    });
}

#[test]
fn a_search_says_what_a_server_carries_and_saves_each_of_its_steps() {
    let folder = Folder::new();
    // 500 requests/s at most; how much is found depends on the machine.
    let (_site, url) = queue(2);
    let arguments = [
        "--slo",
        "p50<10ms",
        "errors<1%",
        "--budget=15s",
        "--precision=30%",
        &url,
    ];
    let output = made(&folder, "search", &arguments);
    assert_eq!(output.code, code(&outcome(&folder)), "{output:?}");
    let said = output.stdout.lines().next().unwrap_or_default();
    let conditions = " with p50<10ms, errors<1% and status<0.1%";
    assert!(said.contains(conditions), "{output:?}");
    assert!(output.stdout.contains("\n  closed loop: "), "{output:?}");
    let steps = steps(&folder);
    let phases: Vec<SearchPhase> = steps
        .iter()
        .map(|trial| trial.search.as_ref().unwrap().phase)
        .collect();
    assert_eq!(
        phases[..2],
        [SearchPhase::Ceiling; 2],
        "with more connections"
    );
    assert!(phases.contains(&SearchPhase::Bracket), "{phases:?}");
    let outcome = outcome(&folder);
    assert!(outcome.rate_per_sec < Some(700.0), "{outcome:?}");
    // The experiment file is only for --dry-run, and the page is there.
    assert!(!output.stderr.contains("[search]"), "{output:?}");
    assert!(output.stdout.contains("\nPage: "), "{output:?}");
    assert!(std::fs::exists(folder.file("results/report.html")).unwrap());
    let before_last = &steps[..steps.len() - 1];
    let mut before_last = before_last
        .iter()
        .map(|trial| trial.search.as_ref().unwrap());
    assert!(before_last.clone().all(|step| step.outcome.is_none()));
    // On a machine that disturbs all runs, nothing is known before the last step.
    let is_known =
        before_last.any(|step| step.carried_per_sec.or(step.not_carried_per_sec).is_some());
    let says_range = output.stderr.contains("\n  so far ");
    assert_eq!(says_range, is_known, "{output:?}");
    // Nothing is left to do: the result is shown again.
    let again = made(&folder, "search", &[&["--resume"], &arguments[..]].concat());
    assert_eq!((again.code, again.stdout), (output.code, output.stdout));
    // The page has its runs over the rate.
    let (results, page) = (folder.file("results"), folder.file("page.html"));
    let report = call(&["report", &results, "-o", &page]).finish();
    assert_eq!(report.code, Some(0), "{report:?}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("Highest rate") && page.contains("search-0"));
    // A rate that is too low for somebody.
    let failed = made(
        &folder,
        "search",
        &[&["--resume", "--fail-if", "max_rate<1000"], &arguments[..]].concat(),
    );
    assert_eq!(failed.code, Some(2), "{failed:?}");
    assert!(
        failed.stderr.contains("--fail-if: max_rate<1000: "),
        "{failed:?}"
    );
}

#[test]
fn a_check_tells_whether_a_rate_is_carried() {
    // 200 requests/s at most.
    let (_site, url) = queue(5);
    let folder = Folder::new();
    let output = made(&folder, "check", &["--slo", "errors<50%", "-R100", &url]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let said = "100 requests/s are carried with errors<50% and status<0.1% (";
    assert!(output.stdout.starts_with(said), "{output:?}");
    assert_eq!(outcome(&folder).end, SearchEnd::Carried);
    // On a machine on which the load generator cannot make this rate, it is undecided.
    let folder = Folder::new();
    let output = made(&folder, "check", &["--slo", "errors<50%", "-R900", &url]);
    assert_eq!(output.code, Some(2), "{output:?}");
    let end = outcome(&folder).end;
    assert!(
        [SearchEnd::NotCarried, SearchEnd::Undecided].contains(&end),
        "{output:?}"
    );
}

#[test]
fn a_server_that_stops_in_a_search_ends_it_and_the_search_can_be_resumed() {
    let folder = Folder::new();
    let (site, url) = queue(2);
    let arguments = ["--slo", "p50<10ms", "--budget=60s", "--precision=30%", &url];
    let process = Process::start(command(&folder, "search", &arguments));
    await_steps(&folder, 2);
    drop(site);
    let output = process.finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("failed in a row"), "{output:?}");
    assert!(
        output.stderr.contains("resume with `wrkbench search "),
        "{output:?}"
    );
}

#[test]
fn a_server_that_only_fails_has_no_rate() {
    let site = site();
    let folder = Folder::new();
    let url = site.url("/?status=500");
    let output = made(
        &folder,
        "search",
        &["--slo=p99<1s", "--budget=20s", "--fail-if=max_rate<1", &url],
    );
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(
        output.stdout.starts_with("undecided with p99<1s"),
        "{output:?}"
    );
    let why = "the closed loop had no good response";
    assert!(output.stdout.contains(why), "{output:?}");
    let undecided = "max_rate<1: undecided: the search has found no rate";
    assert!(output.stderr.contains(undecided), "{output:?}");
    assert_eq!(outcome(&folder).rate_per_sec, None);
    let table = call(&["table", &folder.file("results"), "--format=csv"]).finish();
    assert!(!table.stdout.contains("max_rate"), "{table:?}");
}

#[test]
fn connections_that_limit_the_rate_are_raised_or_named() {
    // 20 ms for each request, however many there are: 4 connections make 200/s, 40 make 2,000/s.
    let site = site();
    let folder = Folder::new();
    let url = site.url("/?delay=20ms");
    let output = made(
        &folder,
        "search",
        &["--slo=p99<500ms", "--budget=90s", "--precision=20%", &url],
    );
    let steps = steps(&folder);
    let connections: Vec<Option<u32>> = steps
        .iter()
        .map(|trial| trial.search.as_ref().unwrap().connections)
        .collect();
    assert_eq!(connections[..2], [Some(4), Some(8)], "{output:?}");
    assert_eq!(connections[connections.len() - 1], Some(40), "{output:?}");
    let said = output.stdout.lines().next().unwrap_or_default();
    assert!(!said.contains("95 % interval"), "{output:?}");
}

#[test]
fn a_run_that_misses_the_condition_by_far_ends_early() {
    let site = site();
    let folder = Folder::new();
    let url = site.url("/?delay=30ms");
    let output = made(
        &folder,
        "search",
        &["--slo=p99<10ms", "--budget=25s", "-d3s", &url],
    );
    let of_bracket = |trial: &Trial| {
        let step = trial.search.as_ref().unwrap();
        (step.phase == SearchPhase::Bracket).then_some(step.duration_ms * 1_000_000)
    };
    let mut hopeless = None;
    for trial in steps(&folder) {
        let Some(planned_ns) = of_bracket(&trial) else {
            continue;
        };
        let TrialOutcome::Finished(result) = &trial.outcome else {
            panic!("{:?}", trial.outcome);
        };
        let window = result.window;
        assert!(window.is_hopeless && !window.interrupted, "{window:?}");
        assert!(window.duration_ns < planned_ns, "{window:?}");
        hopeless = Some(result.clone());
    }
    assert_eq!(outcome(&folder).end, SearchEnd::NotEven, "{output:?}");
    assert!(hopeless.is_some(), "{output:?}");
    // The page of such a run says why it is short.
    let (trial, page) = (folder.file("trial.json"), folder.file("page.html"));
    std::fs::write(&trial, serde_json::to_string(&hopeless).unwrap()).unwrap();
    let report = call(&["report", &trial, "-o", &page]).finish();
    assert_eq!(report.code, Some(0), "{report:?}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("it was certain to miss the conditions"));
}

#[test]
fn an_interrupted_search_goes_on_where_it_was() {
    let folder = Folder::new();
    let (_site, url) = queue(2);
    let arguments = ["--slo", "p50<10ms", "--budget=12s", "--precision=40%", &url];
    let process = Process::start(command(&folder, "search", &arguments));
    await_steps(&folder, 2);
    process.signal("INT");
    let output = process.finish();
    assert_eq!(output.code, Some(130), "{output:?}");
    let before = steps(&folder);
    let output = made(&folder, "search", &[&["--resume"], &arguments[..]].concat());
    assert_eq!(output.code, code(&outcome(&folder)), "{output:?}");
    let after = steps(&folder);
    assert!(after.len() > before.len(), "{output:?}");
    let begun = |trials: &[Trial]| -> Vec<_> {
        let moments = trials.iter().map(|trial| trial.started_at.clone());
        moments.take(before.len()).collect()
    };
    assert_eq!(begun(&after), begun(&before), "a step was made again");
}

#[test]
fn what_cannot_be_searched_is_refused_in_one_line() {
    let site = site();
    let (folder, url) = (Folder::new(), site.url("/"));
    for (name, arguments, expected) in [
        (
            "search",
            &["--slo", "p99<1s", "-R5", &url][..],
            "-R: a search finds the rate",
        ),
        ("search", &["--slo", "p99", &url], "has no comparison"),
        (
            "search",
            &["--slo", "p99<1s", "--fail-if=p99>1s", &url],
            "not a condition on the rate",
        ),
        (
            "check",
            &["--slo", "p99<1s", &url],
            "the rate is missing: add -R",
        ),
    ] {
        refused(&folder, name, arguments, expected);
    }
}

#[test]
fn a_sweep_of_searches_makes_one_for_each_cell_in_each_round() {
    let folder = Folder::new();
    let [slow, fast] = [4, 1].map(queue);
    let experiment = format!(
        "name = 'capacity'\nrounds = 2\n\
         [load]\nthreads = 1\nconnections = 4\n\
         [search]\nslo = ['p50<10ms']\nprecision = '40%'\nbudget = '4s'\nrun = '1s'\n\
         [[target]]\nname = 'slow'\nurl = '{}'\n[[target]]\nname = 'fast'\nurl = '{}'\n",
        slow.1, fast.1
    );
    let plan = folder.file_with("plan.toml", experiment);
    let mut command = program(&["sweep", &plan, "-q"]);
    command.args(["--journal", &folder.file("journal")]);
    let output = Process::start(command).finish();
    assert!(
        [Some(0), Some(2), Some(4)].contains(&output.code),
        "{output:?}"
    );
    // A line for each search, and then what differs.
    for name in ["slow, round 1: ", "fast, round 2: "] {
        assert!(
            output.stdout.lines().any(|line| line.starts_with(name)),
            "{output:?}"
        );
    }
}

#[test]
fn a_condition_about_requests_that_the_file_does_not_have_starts_nothing() {
    let site = site();
    let file = site
        .folder
        .file_with("a.jsonl", r#"{"path":"/","name":"buy"}"#);
    let url = site.url("/");
    for (slo, options, expected) in [
        (
            "bye.p99<1s",
            &["--requests", &file][..],
            "--slo bye.p99<1s: no request in the file is named \"bye\"",
        ),
        (
            "buy.p99<1s",
            &[],
            "--slo buy.p99<1s: only requests of a file have names (--requests FILE)",
        ),
    ] {
        let arguments = [&["--slo", slo, &url], options].concat();
        refused(&site.folder, "search", &arguments, expected);
    }
    let results = site.folder.join("results");
    assert!(!results.exists(), "no step was made");
}

/// A server whose time per token is 5 ms for one user, and 5 ms more for every further two: with
/// less than 14 ms, four users are served.
const BATCH: &str = "llm=openai&tokens=8&finish=length&gap=5ms&batch=2";

/// The steps of a search over connections: each is a closed loop, with no more threads than
/// connections.
fn assert_connections_are_tried(steps: &[Trial]) {
    for trial in steps {
        let step = trial.search.as_ref().unwrap();
        let connections = step.connections.unwrap();
        assert_eq!(
            (step.over, step.rate_per_sec),
            (SearchOver::Connections, None)
        );
        let TrialOutcome::Finished(result) = &trial.outcome else {
            panic!("{:?}", trial.outcome);
        };
        let load = &result.plan.load;
        assert_eq!(result.plan.pacing, plan::Pacing::Closed);
        assert_eq!(
            (load.connections, load.threads),
            (connections, 2.min(connections))
        );
    }
}

#[test]
fn a_search_over_connections_says_how_many_users_are_served() {
    let site = site();
    let folder = Folder::new();
    let url = site.url(&format!("/?{BATCH}"));
    let arguments = [
        "--over=connections",
        "--slo=goodput>95%",
        "--events=llm",
        "--good=time_per_token<14ms",
        "--budget=20s",
        "-t2",
        "-c2",
        "--max-connections=12",
        &url,
    ];
    let output = made(&folder, "search", &arguments);
    let steps = steps(&folder);
    assert_connections_are_tried(&steps);
    let tried: Vec<_> = steps
        .iter()
        .map(|it| it.search.as_ref().unwrap().connections)
        .collect();
    assert_eq!(tried[0], Some(2), "{output:?}");
    assert!(!output.stdout.contains("requests/s"), "{output:?}");
    assert!(
        output.stdout.contains("goodput>95% and failed<0.1%"),
        "{output:?}"
    );
    let outcome = outcome(&folder);
    assert_eq!(output.code, code(&outcome), "{output:?}");
    assert!(outcome.rate_per_sec.is_none() && outcome.connections <= Some(12));
    let page = std::fs::read_to_string(folder.file("results/report.html")).unwrap();
    assert!(page.contains("Most connections") && !page.contains("Highest rate"));
    // Nothing is left to do: the result is shown again, and a limit is judged.
    let more = [
        &["--resume", "--fail-if=max_connections<13"],
        &arguments[..],
    ]
    .concat();
    let again = made(&folder, "search", &more);
    assert_eq!((again.code, &again.stdout), (Some(2), &output.stdout));
    assert!(
        again.stderr.contains("--fail-if: max_connections<13: "),
        "{again:?}"
    );
}

#[test]
fn llm_makes_a_search_over_connections_with_its_prompts_in_one_line() {
    let site = site_with(Options {
        defaults: origin::Recipe::from_text(BATCH).unwrap(),
        ..Options::default()
    });
    let folder = Folder::new();
    let url = site.url("/");
    let arguments = [
        &url,
        "--model=m",
        "--prompt-words=7",
        "--output-tokens=8",
        "--search",
        "goodput>95%",
        "errors<1%",
        "--good=time_per_token<14ms",
        "--budget=10s",
        "--max-connections=8",
    ];
    let output = made(&folder, "llm", &arguments);
    assert_eq!(output.code, code(&outcome(&folder)), "{output:?}");
    let conditions = "with goodput>95%, errors<1% and status<0.1%";
    assert!(output.stdout.contains(conditions), "{output:?}");
    let requests = std::fs::read_to_string(folder.file("results/requests.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(requests.lines().next().unwrap()).unwrap();
    assert_eq!(first["path"], "/v1/chat/completions");
    assert!(requests.contains("max_tokens"), "{first}");
    for trial in steps(&folder) {
        let TrialOutcome::Finished(result) = &trial.outcome else {
            panic!("{:?}", trial.outcome);
        };
        assert_eq!(result.plan.timeout.as_secs(), 600);
        assert!(result.recording.parts.good.is_some(), "{:?}", result.plan);
    }
    let again = made(&folder, "llm", &[&["--resume"], &arguments[..]].concat());
    assert_eq!(
        (again.code, &again.stdout),
        (output.code, &output.stdout),
        "{again:?}"
    );
}

#[test]
fn a_search_over_connections_that_cannot_be_made_is_refused_and_leaves_no_folder() {
    let site = site();
    let (folder, url) = (Folder::new(), site.url("/"));
    for (name, arguments, expected) in [
        ("search", &["--over=potatoes"][..], "potatoes"),
        (
            "search",
            &["--over=connections", "-R5"],
            "-R: --over connections sends again as soon as there is a response",
        ),
        (
            "search",
            &["--over=connections", "--connection-stages=1,5"],
            "--connection-stages: ",
        ),
        (
            "search",
            &["--max-connections=5"],
            "--max-connections: needs --over connections",
        ),
        (
            "search",
            &["--over=connections", "--max-connections=0"],
            "must be from 1 to",
        ),
        (
            "search",
            &["--over=connections", "--fail-if=max_rate<5"],
            "not a condition on the number of connections",
        ),
        ("llm", &["--search=p99<1s"], "no model"),
        (
            "llm",
            &["--search=p99<1s", "--model=m", "-R5"],
            "-R: --over connections",
        ),
        (
            "llm",
            &["--search=p99<1s", "--model=m", "--body=x"],
            "--body: cannot be used with wrkbench llm",
        ),
        (
            "llm",
            &["--search=nothing", "--model=m"],
            "has no comparison",
        ),
    ] {
        let slo = if name == "search" {
            &["--slo=p99<1s"][..]
        } else {
            &[]
        };
        let arguments = [arguments, slo, &[&url]].concat();
        refused(&folder, name, &arguments, expected);
        assert!(!folder.join("results").exists(), "{arguments:?}");
    }
}
