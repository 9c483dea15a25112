//! Runs by several agents of this machine: what is dealt out, merged, refused and lost.
//!
//! - `load_processes`: scripts that never return, processes that are killed
//! - `sweep`: experiments: places, lost agents, resuming
//! - `visits`: runs whose coordinator is gone

mod load_processes;
mod sweep;
mod visits;

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use results::{AgentOutcome, RunResult, Warning};
use testkit::{Folder, Output, Process, eventually, one_line, require_any, send_signal};

use crate::harness::{load, program, site};
use visits::started;

/// The document of a run is checked, by `judge`, to be exactly the sum of its parts.
pub(crate) fn parts(result: &RunResult) -> Vec<u64> {
    let parts = result.agents.iter().filter_map(|agent| agent.result());
    parts.map(|part| part.recording.counters.sent).collect()
}

fn nats_server() -> Option<String> {
    let path = require_any(&["nats-server"])?;
    Some(path.to_string_lossy().into_owned())
}

#[test]
fn an_agent_without_a_hub_says_so_and_not_that_it_waits_for_orders() {
    let folder = Folder::new();
    let key = Process::start(program(&["fleet", "key", &folder.file("fleet.key")])).finish();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = format!("nats://{}", free.local_addr().unwrap());
    drop(free);
    let mut command = program(&["agent", "--nats", &servers, "--trust", key.stdout.trim()]);
    command.args(["--name", "a1", "--place", "eu", "--until-eof"]);
    let output = Process::start(command).finish();
    assert_eq!(
        one_line(&output.stderr),
        format!(
            "wrkbench: agent a1 at eu has no connection to {servers}: Connection refused (os \
             error 111); it tries again every 500 ms"
        )
    );
    assert_eq!(output.code, Some(0));
}

/// A NATS server, a key, and agents that trust it.
pub(crate) struct Fleet {
    // Dropped before the server.
    pub(crate) agents: Vec<Process>,
    _server: Process,
    folder: Folder,
    pub(crate) servers: String,
    /// The path of the private key.
    pub(crate) key: String,
}

impl Fleet {
    /// With agents that have these names and places.
    pub(crate) fn of(agents: &[(&str, &str)]) -> Option<Self> {
        let mut fleet = Self::start()?;
        for (name, place) in agents {
            fleet.agent(name, place, &[]);
        }
        Some(fleet)
    }

    pub(crate) fn start() -> Option<Self> {
        let program_path = nats_server()?;
        let folder = Folder::new();
        let mut command = Command::new(program_path);
        command.args(["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir"]);
        command.arg(folder.path());
        let server = Process::start(command);
        let ports = format!("nats-server_{}.ports", server.id());
        let ports = folder.path().join(ports);
        let mut servers = String::new();
        eventually(|| {
            let text = fs::read(&ports).map_err(|error| error.to_string())?;
            let ports: serde_json::Value =
                serde_json::from_slice(&text).map_err(|error| error.to_string())?;
            servers = ports["nats"][0].as_str().unwrap().to_owned();
            Ok(())
        });
        let fleet = Self {
            agents: Vec::new(),
            _server: server,
            servers,
            key: folder.file("fleet.key"),
            folder,
        };
        fleet.public_key();
        Some(fleet)
    }

    fn public_key(&self) -> String {
        let output = Process::start(program(&["fleet", "key", &self.key])).finish();
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output.stdout.trim().to_owned()
    }

    /// Starts an agent and waits until it is there.
    pub(crate) fn agent(&mut self, name: &str, place: &str, more: &[&str]) {
        let trust = self.public_key();
        let mut command = program(&["agent", "--nats", &self.servers, "--trust", &trust]);
        command.args(["--name", name, "--place", place]).args(more);
        // Its files are not those of the coordinator.
        command.current_dir("/");
        let agent = Process::start(command);
        self.agents.push(agent);
        let wanted = self.agents.len().to_string();
        let mut status = program(&["fleet", "status", "--nats", &self.servers]);
        status.args(["--agents", &wanted]);
        let status = Process::start(status).finish();
        assert_eq!(status.code, Some(0), "{}", status.stderr);
        assert!(
            status.stdout.lines().any(|line| line.starts_with(name)),
            "{}",
            status.stdout
        );
    }

    pub(crate) fn options(&self) -> [&str; 4] {
        ["--fleet", &self.servers, "--fleet-key", &self.key]
    }
}

#[test]
fn two_local_agents_send_exactly_the_requests_of_the_plan() {
    let site = site();
    let run = load(&site).with(&["--local", "2"]).requests(403).run();
    let run = run.expect_answers(403);
    let sent = parts(&run.result);
    assert_eq!(sent.iter().sum::<u64>(), 403, "{}", run.story());
    assert_eq!(sent.len(), 2);
    assert_eq!(run.opened(), 4);
    assert!(
        run.stdout.contains("  2 threads and 4 connections\n"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("\n  local-2  local "), "{}", run.stdout);
    assert!(run.result.places.len() == 1 && !run.result.is_partial());
}

#[test]
fn the_events_of_streams_are_those_of_all_agents() {
    let site = site();
    let path = "/?events=10&first=5ms&gap=1ms";
    for agents in ["1", "3"] {
        let options = ["--local", agents, "--events", "sse", "-T60s"];
        let run = load(&site).at(path).requests(60).with(&options).run();
        let run = run.expect_answers(60);
        let parts = &run.result.recording.parts;
        let of_all = parts.events.as_ref().expect("it has events");
        assert_eq!((of_all.streams, of_all.arrived), (60, 600));
        assert_eq!((of_all.unfinished, of_all.empty), (0, 0));
        let per_response = &of_all.per_response;
        assert_eq!(per_response.count(), 60);
        assert_eq!(
            (per_response.min_ns(), per_response.max_ns()),
            (Some(10), Some(10))
        );
        assert_eq!(
            (of_all.first_event.count(), of_all.gap.count()),
            (60, 9 * 60)
        );
        let parts = run.result.agents.iter().map(|agent| {
            let part = agent.result().expect("no agent is lost");
            let events = part.recording.parts.events.as_ref().expect("it has events");
            let answered = part.recording.counters.answered;
            assert_eq!(events.first_event.count(), answered);
            (answered, events.arrived)
        });
        let parts: Vec<_> = parts.collect();
        assert_eq!(parts.len().to_string(), agents);
        assert!(parts.iter().all(|part| *part == parts[0]), "{parts:?}");
        assert_eq!(run.document["summary"]["events"]["per_response_mean"], 10.0);
        assert!(run.stdout.contains("\n  600 events, 60 complete streams\n"));
    }
}

#[test]
fn without_a_nats_server_the_agents_of_one_machine_are_threads() {
    let site = site();
    let run = load(&site)
        .with(&["--local", "3", "-R2k"])
        .requests(300)
        .in_shell_after("PATH=/nonexistent")
        .run();
    assert!(
        run.stderr
            .contains("messages go through this process (nats-server is not installed)"),
        "{}",
        run.story()
    );
    let run = run.expect_answers(300);
    assert_eq!(parts(&run.result), [100, 100, 100]);
}

#[test]
fn a_fleet_of_one_has_the_figures_of_a_local_run() {
    let site = site();
    let alone = load(&site).requests(100).run().expect_answers(100);
    let fleet = load(&site)
        .with(&["--local", "1"])
        .requests(100)
        .run()
        .expect_answers(100);
    assert_eq!(alone.result.plan, fleet.result.plan);
    assert_eq!(alone.opened(), fleet.opened());
    assert_eq!(
        alone.result.recording.counters.bytes,
        fleet.result.recording.counters.bytes
    );
    assert_eq!(
        alone.result.recording.statuses,
        fleet.result.recording.statuses
    );
    let agent = fleet.result.agents[0].result().unwrap();
    assert_eq!(agent.recording, fleet.result.recording);
    assert_eq!(agent.window, fleet.result.window);
    let first = |text: &str| text.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(first(&alone.stdout), first(&fleet.stdout));
}

#[test]
fn a_script_and_its_modules_travel_and_done_runs_once_with_the_figures_of_all() {
    let Some(fleet) = Fleet::of(&[("a1", "here"), ("a2", "there")]) else {
        return;
    };
    let site = site();
    site.folder
        .file_with("paths.lua", "return { '/from-module' }");
    let folder = site.folder.path().to_string_lossy().into_owned();
    let script = format!(
        "package.path = package.path .. ';{folder}/?.lua'
         local paths = require('paths')
         function setup(thread) thread:set('number', wrk.thread and 0 or 7) end
         function init(args) assert(number == 7 and args[1] == 'argument') end
         function request() return wrk.format('GET', paths[1]) end
         function done(summary, latency, requests)
           print('done: ' .. summary.requests .. ' of ' .. #latency)
         end"
    );
    let run = load(&site)
        .with(&fleet.options())
        .requests(40)
        .script(&script)
        .script_arguments(&["argument"])
        .run();
    let lines = run.stdout.lines().filter(|line| line.starts_with("done: "));
    let lines: Vec<_> = lines.collect();
    assert!(
        lines.len() == 1 && lines[0].starts_with("done: 40 of "),
        "{}",
        run.story()
    );
    let run = run.expect_answers(40);
    assert_eq!(run.result.places.len(), 2);
    let saved = run.result.plan.request.script.as_ref().unwrap();
    assert!(saved.starts_with(site.folder.path()), "{}", saved.display());
}

#[test]
fn a_place_has_its_own_address_of_the_target() {
    let Some(fleet) = Fleet::of(&[("a1", "outside"), ("a2", "inside")]) else {
        return;
    };
    let site = site();
    let inside = format!("inside={}", site.url("/inside"));
    let run = load(&site)
        .at("/outside")
        .with(&fleet.options())
        .with(&["--at", &inside])
        .requests(40)
        .run()
        .expect_answers(40);
    let paths: Vec<_> = run
        .result
        .places
        .iter()
        .map(|place| {
            let result = place.result.as_ref().unwrap();
            (
                place.place.as_str(),
                result.plan.target.path.as_str(),
                result.recording.counters.sent,
            )
        })
        .collect();
    assert_eq!(
        paths,
        [("outside", "/outside", 20), ("inside", "/inside", 20)]
    );
    let one = load(&site)
        .with(&fleet.options())
        .with(&["--only-place", "inside"])
        .requests(10)
        .run();
    assert_eq!(one.result.agents.len(), 1);
    let nobody = load(&site)
        .with(&fleet.options())
        .with(&["--only-place", "moon"])
        .output();
    assert_eq!(
        (nobody.code, nobody.only_line()),
        (
            Some(1),
            "wrkbench: no agent is at the place \"moon\"; there are agents at inside, outside"
        )
    );
}

#[test]
fn a_killed_agent_makes_the_result_partial_and_loses_nothing_else() {
    let Some(fleet) = Fleet::of(&[("a1", "here"), ("a2", "here")]) else {
        return;
    };
    let site = site();
    let running = started(&fleet, &site, 6_000, &[]);
    // So that it has been heard within the window.
    site.await_counts("the load goes on", |counts| counts.requests > 300);
    fleet.agents[1].signal("KILL");
    let Output {
        code,
        stdout,
        stderr,
    } = running.process.finish();
    assert_eq!(code, Some(6), "{stdout}{stderr}");
    assert!(
        stderr.contains("partial result: agent a2 (1 of 2) was lost after "),
        "{stderr}"
    );
    let share = "; its share of the load (2 connections) was not sent by others";
    assert!(stderr.contains(share), "{stderr}");
    assert!(!stderr.contains("established"), "{stderr}");
    let of_a2 = stdout.lines().find(|line| line.starts_with("  a2 "));
    let is_lost = of_a2.is_some_and(|line| line.contains(" lost after "));
    assert!(is_lost, "{stdout}");
}

#[test]
fn orders_of_another_key_and_forbidden_plans_are_refused_in_one_line() {
    let Some(mut fleet) = Fleet::start() else {
        return;
    };
    fleet.agent("a1", "here", &["--no-scripts", "--targets", "10.0.0.0/8"]);
    let site = site();
    let other = fleet.folder.file("other.key");
    let made = Process::start(program(&["fleet", "key", &other])).finish();
    let other_public = made.stdout.trim();
    for (key, options, expected) in [
        (
            &other,
            Vec::new(),
            format!(
                "the key {other_public} is not trusted; start the agent with --trust {other_public}"
            ),
        ),
        (
            &fleet.key,
            Vec::new(),
            "the target 127.0.0.1 is not one that the agent may send to (--targets 10.0.0.0/8)"
                .to_owned(),
        ),
        (
            &fleet.key,
            vec!["-s".to_owned(), site.folder.file_with("x.lua", "")],
            "the agent was started with --no-scripts, and the plan has a script".to_owned(),
        ),
    ] {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let refused = load(&site)
            .with(&["--fleet", &fleet.servers, "--fleet-key", key])
            .with(&options)
            .output();
        assert_eq!(
            (refused.code, refused.only_line()),
            (Some(1), format!("wrkbench: agent a1: {expected}").as_str())
        );
    }
    assert_eq!(site.counts().requests, 0);
}

#[test]
fn a_plan_beyond_the_limits_of_one_agent_is_refused_and_no_agent_sends_anything() {
    let Some(mut fleet) = Fleet::start() else {
        return;
    };
    let limits = [
        "--max-rate",
        "100",
        "--max-connections",
        "4",
        "--max-duration",
        "1m",
    ];
    fleet.agent("a1", "here", &limits);
    fleet.agent("a2", "there", &[]);
    let site = site();
    let options = fleet.options();
    let run = |options_of_run: &[&str]| {
        let load = load(&site).with(&options).with(&["-t1", "-c4", "-d200ms"]);
        load.with(options_of_run).output()
    };
    for (of_run, asked, permitted) in [
        (
            &["-R201"][..],
            "100.5 requests/s",
            "100 requests/s (--max-rate)",
        ),
        (&[], "a load without a rate", "100 requests/s (--max-rate)"),
        (
            &["-R20", "-c10"],
            "5 connections",
            "4 connections (--max-connections)",
        ),
        (
            &["-R20", "-d61s"],
            "a load of 1m1s",
            "a load of 1m (--max-duration)",
        ),
    ] {
        let refused = run(of_run);
        let expected = format!(
            "wrkbench: agent a1: the plan has {asked} for this agent, which permits at most \
             {permitted}"
        );
        assert_eq!(
            (refused.code, refused.only_line()),
            (Some(1), expected.as_str())
        );
    }
    assert_eq!(site.counts().requests, 0);
    let permitted = run(&["-R200"]);
    assert_eq!(permitted.code, Some(0), "{permitted:?}");
    assert!(site.counts().requests > 0);
}

#[test]
fn agents_have_parts_of_the_load_in_proportion_to_their_weights() {
    let Some(mut fleet) = Fleet::of(&[("a1", "here")]) else {
        return;
    };
    fleet.agent("a2", "there", &["--weight", "3"]);
    fleet.agent("a3", "there", &["--weight", "1000"]);
    let status = Process::start(program(&["fleet", "status", "--nats", &fleet.servers])).finish();
    let columns = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[0].to_owned(), words[5].to_owned())
    };
    let weights: Vec<_> = status.stdout.lines().map(columns).collect();
    let expected = [
        ("agent", "weight"),
        ("a1", "1"),
        ("a2", "3"),
        ("a3", "1000"),
    ];
    assert_eq!(
        weights,
        expected.map(|(a, b)| (a.to_owned(), b.to_owned())),
        "{status:?}"
    );
    let site = site();
    let options = fleet.options();
    let run = |agents: &str, more: &[&str]| {
        let load = load(&site)
            .with(&options)
            .with(&["--agents", agents, "-t1", "-c40"]);
        load.with(more).requests(400)
    };
    for (pacing, rates) in [(&[][..], None), (&["-R800"], Some([200.0, 600.0]))] {
        let run = run("a1,a2", pacing).run().expect_answers(400);
        assert_eq!(parts(&run.result), [100, 300]);
        assert!(
            run.stdout.contains("\n  2 threads and 40 connections\n"),
            "{}",
            run.stdout
        );
        let agents = run.result.agents.iter().map(|agent| {
            let result = agent.result().expect("no agent is lost");
            let curve = result.plan.pacing.rate_curve(Duration::ZERO);
            let load = &result.plan.load;
            let weight = u32::from(agent.weight);
            (
                weight,
                load.threads,
                load.connections,
                curve.map(|it| it.max_rate()),
            )
        });
        let rate = |of: usize| rates.map(|rates: [f64; 2]| rates[of]);
        let expected = [(1, 1, 10, rate(0)), (3, 1, 30, rate(1))];
        assert_eq!(agents.collect::<Vec<_>>(), expected);
        assert!(
            run.stdout.contains("  Agent  Place  Weight  Requests/s "),
            "{}",
            run.stdout
        );
    }
    let before = site.counts().requests;
    let refused = run("a1,a3", &[]).output();
    assert_eq!(
        (refused.code, refused.only_line()),
        (
            Some(1),
            "wrkbench: connections 40: a thread of agent 1 of 2, which has weight 1, would have \
             none; use at least 1001 connections, or weights that differ less"
        )
    );
    assert_eq!(site.counts().requests, before);
}

#[test]
fn ctrl_c_in_the_terminal_of_a_local_fleet_loses_nothing() {
    let site = site();
    for path in ["PATH=$PATH", "PATH=/nonexistent"] {
        let json = site.folder.file("interrupted.json");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{path}; exec \"$0\" \"$@\"")]);
        command.arg(env!("CARGO_BIN_EXE_wrkbench"));
        command.args(["--local", "2", "-t1", "-c4", "-R500", "-d10m"]);
        command.args(["--json", &json, &site.url("/")]);
        // A terminal sends the signal to all processes of the group.
        let running = Process::start({
            command.process_group(0);
            command
        });
        let before = site.counts().requests;
        site.await_counts("the load has started", |counts| {
            counts.requests > before + 50
        });
        let group = format!("-{}", running.id());
        assert!(send_signal("INT", &group));
        let output = running.finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        let result = results::file::load(&fs::read(&json).unwrap()).unwrap();
        assert!(result.window.interrupted && !result.is_partial());
        assert_eq!(parts(&result).len(), 2);
    }
}

#[test]
fn ctrl_c_at_the_coordinator_ends_all_agents_and_reports_what_there_is() {
    let Some(fleet) = Fleet::of(&[("a1", "here"), ("a2", "here")]) else {
        return;
    };
    let site = site();
    let running = load(&site)
        .with(&fleet.options())
        .with(&["-R500"])
        .for_ms(600_000)
        .start();
    site.await_counts("the load has started", |counts| counts.requests > 50);
    running.process.signal("INT");
    let run = running.finish();
    assert_eq!(run.code, Some(0), "{}", run.story());
    assert!(run.result.window.interrupted && !run.result.is_partial());
    assert!(run.result.agents.iter().all(|agent| {
        matches!(&agent.outcome, AgentOutcome::Delivered(result) if result.window.interrupted)
    }));
    let partial = |warning: &Warning| matches!(warning, Warning::EndedEarly { .. });
    assert!(
        !run.result
            .warnings
            .iter()
            .any(|warning| partial(&warning.data))
    );
}
