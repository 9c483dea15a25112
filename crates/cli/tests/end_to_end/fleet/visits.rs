//! Runs whose coordinator is gone: `wrkbench fleet fetch` and `wrkbench fleet stop`.

use std::fs;

use results::RunResult;
use testkit::{Output, Process, eventually};

use super::{Fleet, parts};
use crate::harness::{Running, Site, load, program, site};

/// `wrkbench fleet` with these arguments.
fn order(fleet: &Fleet, arguments: &[&str]) -> Output {
    let mut command = program(&["fleet"]);
    command.args(arguments).args(["--nats", &fleet.servers]);
    command.args(["--fleet-key", &fleet.key]);
    Process::start(command).finish()
}

/// The name of the run that `wrkbench fleet status` lists with these words, once it does.
fn run_that_agents(fleet: &Fleet, does: &str) -> String {
    eventually(|| {
        let status = order(fleet, &["status"]);
        let mut lines = status.stdout.lines();
        let line = lines.find_map(|line| line.strip_prefix("a1, a2 ")?.strip_prefix(does));
        let name = line.and_then(|rest| rest.split_whitespace().next());
        name.map(str::to_owned).ok_or_else(|| status.stdout.clone())
    })
}

const MAKE: &str = "make the run ";
const KEEP: &str = "keep the result of the run ";

fn two_agents() -> Option<Fleet> {
    Fleet::of(&[("a1", "here"), ("a2", "there")])
}

/// Starts a load of 200 requests/s.
pub(crate) fn started<'a>(
    fleet: &Fleet,
    site: &'a Site,
    duration_ms: u64,
    more: &[&str],
) -> Running<'a> {
    let load = load(site).with(&fleet.options()).with(&["-R200"]);
    let running = load.with(more).for_ms(duration_ms).start();
    site.await_counts("the load has started", |counts| counts.requests > 20);
    running
}

/// The result that `wrkbench fleet fetch` writes to stdout.
fn fetched(fleet: &Fleet, run: &str) -> (RunResult, Output) {
    let output = order(fleet, &["fetch", run, "--json", "-"]);
    let result = results::file::load(output.stdout.as_bytes());
    let result = result.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (result, output)
}

#[test]
fn the_results_of_a_run_whose_coordinator_was_killed_are_fetched() {
    let Some(fleet) = two_agents() else {
        return;
    };
    let site = site();
    let running = started(&fleet, &site, 3_000, &[]);
    let run = run_that_agents(&fleet, MAKE);
    running.process.signal("KILL");
    assert_eq!(running.process.finish().code, None);
    let early = order(&fleet, &["fetch", &run]);
    if early.code != Some(0) {
        let expected = format!(" is busy with the run {run} (");
        assert!(early.only_line().contains(&expected), "{early:?}");
    }
    assert_eq!(run_that_agents(&fleet, KEEP), run);
    let (result, output) = fetched(&fleet, &run);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(!result.is_partial());
    assert_eq!(parts(&result).iter().sum::<u64>(), site.counts().requests);
    assert_eq!(result.places.len(), 2);
    assert!(
        result
            .environment
            .command_line
            .contains(&"-R200".to_owned()),
        "{:?}",
        result.environment.command_line
    );
    // Again, as a report and as a file.
    let json = site.folder.file("fetched.json");
    let again = order(&fleet, &["fetch", &run, "--json", &json]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stdout.starts_with("Running 3s test @ "), "{again:?}");
    assert!(again.stdout.contains("Requests/sec: "), "{again:?}");
    let saved = results::file::load(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(saved, result);
}

#[test]
fn an_agent_that_was_killed_meanwhile_is_missing_in_what_is_fetched() {
    let Some(fleet) = two_agents() else {
        return;
    };
    let site = site();
    let script = site
        .folder
        .file_with("done.lua", "function done() print('done') end");
    let running = started(&fleet, &site, 3_000, &["-s", &script]);
    running.process.signal("KILL");
    drop(running);
    let run = run_that_agents(&fleet, KEEP);
    fleet.agents[1].signal("KILL");
    let output = order(&fleet, &["fetch", &run]);
    assert_eq!(output.code, Some(6), "{output:?}");
    let lost = "partial result: agent a2 (1 of 2) was lost: it is not there any more; its share of \
                the load (2 connections) was not sent by others";
    assert!(output.stderr.contains(lost), "{output:?}");
    let note = "note: the script's done() is not called for results that are fetched\n";
    assert!(output.stderr.contains(note), "{output:?}");
    assert!(
        output
            .stdout
            .contains("lost; nothing is known of its requests"),
        "{output:?}"
    );
}

#[test]
fn a_load_is_ended_from_elsewhere_and_its_coordinator_reports_what_there_is() {
    let Some(fleet) = two_agents() else {
        return;
    };
    let site = site();
    let running = started(&fleet, &site, 600_000, &[]);
    let run = run_that_agents(&fleet, MAKE);
    let stopped = order(&fleet, &["stop", &run]);
    assert_eq!(
        (stopped.code, stopped.stdout.as_str()),
        (Some(0), "stopped: a1, a2\n"),
        "{stopped:?}"
    );
    let ended = running.finish();
    assert_eq!(ended.code, Some(6), "{}", ended.story());
    let told = "2 of 2 agents ended early, ";
    assert!(ended.stderr.contains(told), "{}", ended.story());
    let why = ": it was told to stop before the planned end\n";
    assert!(ended.stderr.contains(why), "{}", ended.story());
    assert_eq!(
        parts(&ended.result).iter().sum::<u64>(),
        site.counts().requests
    );
}

#[test]
fn the_load_of_a_dead_coordinator_is_ended_and_its_results_are_fetched() {
    let Some(fleet) = two_agents() else {
        return;
    };
    let site = site();
    let running = started(&fleet, &site, 600_000, &[]);
    let run = run_that_agents(&fleet, MAKE);
    running.process.signal("KILL");
    drop(running);
    let stopped = order(&fleet, &["stop", &run]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let sent = site.counts().requests;
    let again = order(&fleet, &["stop", &run]);
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (Some(0), "had ended before: a1, a2\n"),
        "{again:?}"
    );
    let (result, output) = fetched(&fleet, &run);
    assert_eq!(output.code, Some(6), "{output:?}");
    assert!(result.is_partial());
    assert_eq!(parts(&result).iter().sum::<u64>(), sent);
}

#[test]
fn a_run_that_no_agent_knows_and_one_of_another_key_are_refused_in_one_line() {
    let Some(fleet) = two_agents() else {
        return;
    };
    for what in ["fetch", "stop"] {
        let refused = order(&fleet, &[what, "0af3"]);
        let line = refused.only_line();
        let expected = "wrkbench: no agent of the fleet default knows the run 0af3 (";
        assert!(line.starts_with(expected), "{line}");
        assert_eq!(refused.code, Some(1));
    }
    let site = site();
    let running = started(&fleet, &site, 600_000, &[]);
    let run = run_that_agents(&fleet, MAKE);
    let other = site.folder.file("other.key");
    let made = Process::start(program(&["fleet", "key", &other])).finish();
    let public = made.stdout.trim();
    let mut command = program(&["fleet", "stop", &run, "--nats", &fleet.servers]);
    command.args(["--fleet-key", &other]);
    let refused = Process::start(command).finish();
    let line = refused.only_line();
    let expected = format!("wrkbench: agent a1: the key {public} is not trusted");
    assert!(line.starts_with(&expected), "{line}");
    running.process.signal("INT");
    assert_eq!(running.finish().code, Some(0));
}
