//! The load of an agent is made by a process, which ends with the run.

use std::fs;

use testkit::{Output, Process, eventually, send_signal};

use super::Fleet;
use crate::harness::{Running, Site, load, program, site};

/// A script whose request `number`, counted from 1, does this first. The first one is only to see
/// what the script returns.
fn script_that(does: &str, number: u32) -> String {
    format!(
        "local calls = 0
        function request()
            calls = calls + 1
            if calls == {number} then {does} end
            return wrk.format('GET', '/')
        end"
    )
}

const RUNS_AWAY: &str = "while true do end";

/// Ends with its shell only if somebody ends both.
const RUNS_A_PROGRAM: &str = "os.execute('sleep 4321; true')";

/// The processes whose parent or process group this is: numbers of /proc/PID/stat, from 1.
const PARENT: usize = 4;
const GROUP: usize = 5;

/// The processes that are not dead and have this number there.
fn processes_with(field: usize, number: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let is_one = |stat: &str| {
        // The name of a program is in brackets and may have spaces.
        let behind_name = stat.rsplit_once(") ").unwrap().1;
        let fields: Vec<&str> = behind_name.split(' ').collect();
        fields[0] != "Z" && fields[field - 3] == number.to_string()
    };
    let ids = processes.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        // It may have ended meanwhile.
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        is_one(&stat).then_some(id)
    });
    ids.collect()
}

/// The load process of an agent, once it has one.
fn load_process(fleet: &Fleet, agent: usize) -> u32 {
    let agent = fleet.agents[agent].id();
    eventually(|| match processes_with(PARENT, agent)[..] {
        [process] => Ok(process),
        ref others => Err(format!("one process: {others:?}")),
    })
}

/// Starts a load whose script never becomes ready.
fn never_ready<'a>(site: &'a Site, fleet: &Fleet) -> Running<'a> {
    let load = load(site).with(&fleet.options());
    load.script("function init() while true do end end").start()
}

/// Starts a load whose script does this in its sixth call of `request`.
fn load_that_gets_stuck<'a>(
    site: &'a Site,
    fleet: &Fleet,
    does: &str,
    duration_ms: u64,
) -> Running<'a> {
    load(site)
        .with(&fleet.options())
        .threads(1)
        .connections(2)
        .script(&script_that(does, 6))
        .for_ms(duration_ms)
        .start()
}

fn await_end_of_group(process: u32) {
    eventually(|| match &processes_with(GROUP, process)[..] {
        [] => Ok(()),
        left => Err(format!("the end of {left:?}")),
    });
}

fn kill(process: u32) {
    assert!(send_signal("KILL", &process.to_string()));
}

#[test]
fn a_script_that_never_returns_ends_with_its_run_and_the_next_run_is_whole() {
    let Some(fleet) = Fleet::of(&[("a1", "here")]) else {
        return;
    };
    let site = site();
    for does in [RUNS_AWAY, RUNS_A_PROGRAM] {
        let stuck = load_that_gets_stuck(&site, &fleet, does, 300);
        let process = load_process(&fleet, 0);
        let stuck = stuck.finish();
        let why = "the script of thread 0 of agent a1 did not return before the end of the run";
        assert!(stuck.stderr.contains(why), "{}", stuck.story());
        assert_eq!(stuck.sent(), 4, "{}", stuck.story());
        await_end_of_group(process);
        assert!(processes_with(PARENT, fleet.agents[0].id()).is_empty());

        let next = load(&site).with(&fleet.options()).requests(50).run();
        let next = next.expect_answers(50);
        assert!(!next.stderr.contains("script"), "{}", next.story());
    }
}

#[test]
fn a_script_that_never_returns_stays_in_no_local_agent_either() {
    let site = site();
    let script = script_that(RUNS_AWAY, 6);
    for path in ["PATH=$PATH", "PATH=/nonexistent"] {
        let stuck = load(&site)
            .with(&["--local", "2"])
            .connections(4)
            .script(&script)
            .for_ms(300)
            .in_shell_after(path)
            .start()
            .finish();
        for (thread, agent) in ["local-1", "local-2"].iter().enumerate() {
            let why = format!("the script of thread {thread} of agent {agent} did not return");
            assert!(stuck.stderr.contains(&why), "{}", stuck.story());
        }
        assert_eq!(stuck.sent(), 8, "{}", stuck.story());
    }
}

#[test]
fn a_killed_load_process_is_named_with_its_agent_and_costs_only_its_share() {
    let Some(fleet) = Fleet::of(&[("a1", "here"), ("a2", "here")]) else {
        return;
    };
    {
        let site = site();
        let running = load(&site)
            .with(&fleet.options())
            .with(&["-R200"])
            .connections(6)
            .for_ms(2_000)
            .start();
        site.await_counts("the load has started", |counts| counts.requests > 20);
        kill(load_process(&fleet, 1));
        let Output { code, stderr, .. } = running.process.finish();
        assert_eq!(code, Some(6), "{stderr}");
        let lost = "partial result: agent a2 (1 of 2) was lost after ";
        let why = ": its load process ended unexpectedly (signal: 9 (SIGKILL)); its share of the \
                   load (3 connections) was not sent by others, and what it measured is missing\n";
        assert!(stderr.contains(lost) && stderr.contains(why), "{stderr}");
        assert!(!stderr.contains("established"), "{stderr}");
    }
    let site = site();
    let next = load(&site).with(&fleet.options()).requests(40).run();
    let next = next.expect_answers(40);
    assert!(!next.result.is_partial());
}

#[test]
fn a_load_process_that_dies_before_the_start_prevents_the_run() {
    let Some(fleet) = Fleet::of(&[("a1", "here")]) else {
        return;
    };
    let site = site();
    let running = never_ready(&site, &fleet);
    kill(load_process(&fleet, 0));
    assert_eq!(
        running.process.finish().only_line(),
        "wrkbench: agent a1: its load process ended unexpectedly (signal: 9 (SIGKILL))"
    );
    load(&site).with(&fleet.options()).requests(10).run();
}

#[test]
fn a_script_that_never_becomes_ready_ends_with_the_lease_of_its_run() {
    let Some(fleet) = Fleet::of(&[("a1", "here")]) else {
        return;
    };
    let site = site();
    let running = never_ready(&site, &fleet);
    let process = load_process(&fleet, 0);
    // The agent drops the run because its coordinator is dead, 10 s later.
    running.process.signal("KILL");
    await_end_of_group(process);
    load(&site).with(&fleet.options()).requests(10).run();
}

#[test]
fn a_second_coordinator_is_told_who_uses_the_fleet_and_until_when() {
    let Some(fleet) = Fleet::of(&[("a1", "here")]) else {
        return;
    };
    let site = site();
    let status = |fleet: &Fleet| {
        let status = ["fleet", "status", "--nats", &fleet.servers, "--agents", "1"];
        Process::start(program(&status)).finish().stdout
    };
    assert_eq!(status(&fleet).lines().count(), 2);
    let first = load(&site)
        .with(&fleet.options())
        .at("/secret?token=1")
        .for_ms(60_000)
        .start();
    site.await_counts("the load has started", |counts| counts.requests > 0);
    let second = load(&site).with(&fleet.options()).output();
    let told = second.only_line();
    let authority = site.authority();
    for expected in [
        "wrkbench: agent a1 is busy with the run ",
        &format!(", http://{authority}), which began "),
        " s ago and is planned to end in ",
        " s; wait for its end or choose other agents (wrkbench fleet status --nats ... lists them)",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    assert!(!told.contains("token"), "{told}");
    // The same run, for everybody who looks.
    let begins = told.find("the run ").unwrap();
    let run = &told[begins..told.find(", which began").unwrap()];
    let shown = status(&fleet);
    let line = shown.lines().last().unwrap();
    assert!(
        line.starts_with(&format!("a1 makes {run}, which began ")),
        "{shown}"
    );
    first.process.signal("INT");
    let first = first.finish();
    assert_eq!(first.code, Some(0), "{}", first.story());
}

#[test]
fn nothing_of_the_load_outlives_a_killed_agent() {
    let Some(mut fleet) = Fleet::of(&[("a1", "here")]) else {
        return;
    };
    let site = site();
    for does in [RUNS_AWAY, RUNS_A_PROGRAM] {
        let before = site.counts().requests;
        let running = load_that_gets_stuck(&site, &fleet, does, 60_000);
        let process = load_process(&fleet, 0);
        // The fourth request stays in the queue if the script is called again within its turn.
        site.await_counts("the script is stuck", |counts| {
            counts.requests >= before + 3
        });
        fleet.agents[0].signal("KILL");
        await_end_of_group(process);
        running.process.signal("KILL");
        fleet.agents.clear();
        fleet.agent("a1", "here", &[]);
    }
}
