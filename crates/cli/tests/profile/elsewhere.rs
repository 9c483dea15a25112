//! `--profile` of runs by several agents, and through an agent on the server's machine.

use std::fs;
use std::process::Command;

use results::{Profile, ProfileComparison, RunResult};
use testkit::{Folder, Output, Process, eventually, one_line, require, skip};

use crate::{Program, profile, wrkbench};

/// A NATS server, a key, two agents that make load, and one that samples servers.
struct Fleet {
    // Dropped before the server.
    host: Option<Process>,
    _agents: Vec<Process>,
    _server: Process,
    folder: Folder,
    url: String,
    key: String,
}

impl Fleet {
    fn start() -> Option<Self> {
        let program = require("nats-server")?;
        let folder = Folder::new();
        let mut command = Command::new(program);
        command.args(["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir"]);
        command.arg(folder.path());
        let server = Process::start(command);
        let ports = folder.join(&format!("nats-server_{}.ports", server.id()));
        let url = eventually(|| {
            let text = fs::read(&ports).map_err(|error| error.to_string())?;
            let ports: serde_json::Value =
                serde_json::from_slice(&text).map_err(|error| error.to_string())?;
            let url = ports["nats"][0].as_str().map(str::to_owned);
            url.ok_or_else(|| "no address".to_owned())
        });
        let key = folder.file("fleet.key");
        assert_eq!(wrkbench(&["fleet", "key", &key]).code, Some(0));
        let mut fleet = Self {
            host: None,
            _agents: Vec::new(),
            _server: server,
            folder,
            url,
            key,
        };
        fleet._agents = ["a1", "a2"].map(|name| fleet.agent(name, &[])).into();
        let journal = fleet.folder.file("journal");
        fleet.host = Some(fleet.agent("web1", &["--allow-changes", "--journal", &journal]));
        eventually(|| {
            let status = wrkbench(&["fleet", "status", "--nats", &fleet.url]);
            if ["a1", "a2", "web1"]
                .iter()
                .all(|it| status.stdout.contains(it))
            {
                Ok(())
            } else {
                Err(status.stdout)
            }
        });
        Some(fleet)
    }

    fn agent(&self, name: &str, more: &[&str]) -> Process {
        let trust = wrkbench(&["fleet", "key", &self.key]).stdout;
        let mut command = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
        command.args(["agent", "--nats", &self.url, "--trust", trust.trim()]);
        command.args(["--name", name]).args(more);
        Process::start(command)
    }

    /// Begins a run by both agents. The document goes to a file.
    fn load(&self, server: &str, more: &[&str], url: &str) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
        command.args(["--fleet", &self.url, "--fleet-key", &self.key]);
        command.args(["-t1", "-c2", "--profile", server]);
        command.args(["--json", &self.folder.file("run.json")]);
        command.args(more).arg(url);
        Process::start(command)
    }

    fn result(&self) -> RunResult {
        let document = fs::read(self.folder.join("run.json")).unwrap();
        let result = results::file::load(&document).unwrap();
        assert_eq!(results::check(&result), Ok(()));
        result
    }

    /// Ends the host, and returns what it told.
    fn end_host(&mut self) -> Output {
        let host = self.host.take().unwrap();
        host.signal("INT");
        host.finish()
    }

    /// The processes that sample for the host.
    fn deputies(&self) -> Vec<String> {
        let host = self.host.as_ref().unwrap().id();
        let children = format!("/proc/{host}/task/{host}/children");
        let children = fs::read_to_string(children).unwrap_or_default();
        children.split_whitespace().map(str::to_owned).collect()
    }
}

/// A server that has printed its port, its process, and its URL.
fn server(program: &Program) -> (Process, String, String) {
    let mut server = program.start("slow");
    let port = server.next_line().unwrap();
    let id = server.id().to_string();
    (server, id, format!("http://127.0.0.1:{}/", port.trim_end()))
}

/// Whether the machine does not let anybody sample.
fn is_forbidden(output: &Output) -> bool {
    let is_it = output.stderr.contains("not permitted");
    if is_it {
        skip("--profile", &output.stderr);
    }
    is_it
}

fn assert_slow_leads(profile: &Profile) {
    let first = &profile.functions[0];
    assert_eq!(first.name, "slow", "{:?}", profile.functions);
    let difference = first.total.found().unwrap();
    assert!(difference.difference > 0.5, "{difference:?}");
}

#[test]
fn a_host_samples_the_server_of_a_run_by_other_agents() {
    let (Some(mut fleet), Some(program)) = (Fleet::start(), Program::compiled()) else {
        return;
    };
    let (_server, id, url) = server(&program);
    let output = fleet
        .load(&format!("host=web1:{id}"), &["-d10"], &url)
        .finish();
    if is_forbidden(&output) {
        return;
    }
    assert_eq!(output.code, Some(0), "{output:?}");
    let result = fleet.result();
    assert_eq!(result.agents.len(), 2);
    let profile = profile(&result);
    assert_slow_leads(profile);
    assert_eq!(profile.host.as_deref(), Some("web1"));
    // Everything is on one machine.
    let bound_ns = profile.clock_bound_ns.unwrap();
    assert!((1..4_000_000).contains(&bound_ns), "{bound_ns}");
    let line = "server profile: host web1 (clock known to within ";
    assert!(output.stderr.contains(line), "{}", output.stderr);
    let page = fleet.folder.file("run.html");
    let report = wrkbench(&["report", &fleet.folder.file("run.json"), "-o", &page]);
    assert_eq!(report.code, Some(0), "{report:?}");
    assert!(
        fleet
            .folder
            .read("run.html")
            .contains("Host web1 (clock known to")
    );
    let told = fleet.end_host();
    assert!(told.stderr.contains("the session has ended"), "{told:?}");
}

#[test]
fn agents_of_this_machine_make_the_load_of_a_profiled_server() {
    let Some(program) = Program::compiled() else {
        return;
    };
    let (_server, id, url) = server(&program);
    let json = program.folder.file("run.json");
    let run = ["-t1", "-c2", "-d10", "--local", "2", "--profile", &id];
    let output = wrkbench(&[&run[..], &["--json", &json, &url]].concat());
    if is_forbidden(&output) {
        return;
    }
    assert_eq!(output.code, Some(0), "{output:?}");
    let result = results::file::load(&fs::read(&json).unwrap()).unwrap();
    assert_slow_leads(profile(&result));
    assert_eq!(profile(&result).host, None);
}

#[test]
fn what_a_host_cannot_sample_ends_the_run_before_it_begins() {
    let Some(fleet) = Fleet::start() else {
        return;
    };
    for (server, part) in [
        ("host=web1:no-such-server", "no process is called"),
        (
            "host=web1:no-such.service",
            "no process belongs to the unit",
        ),
        ("host=web1:4294967295", "no process has the number"),
        (
            "host=web2:nginx",
            "no agent with --allow-changes has this name",
        ),
        // An agent that makes load.
        (
            "host=a1:nginx",
            "no agent with --allow-changes has this name",
        ),
        ("host=a b:nginx", "host=a b:nginx"),
    ] {
        let output = fleet.load(server, &["-d1"], "http://127.0.0.1:9/").finish();
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        let line = one_line(&output.stderr);
        let begin = format!("--profile {server}: ");
        assert!(line.contains(&begin) && line.contains(part), "{line}");
    }
}

#[test]
fn a_machine_goes_with_a_fleet_and_a_fleet_with_a_machine() {
    let fleet = ["--fleet", "nats://127.0.0.1:9"];
    for (options, server, part) in [
        (&[][..], "host=web1:nginx", "give --fleet nats://HOST"),
        (
            &["--local", "2"],
            "host=web1:nginx",
            "give --fleet nats://HOST",
        ),
        (&fleet, "nginx", "--profile host=NAME:nginx"),
        (&fleet, "host=web1", "must be host=NAME:SERVER"),
        (&[], "host=:nginx", "must be host=NAME:SERVER"),
        (&fleet, "host=web1:", "must be a process ID"),
        (
            &fleet,
            "host=web1:/bin/nginx",
            "must be a name without a folder",
        ),
    ] {
        let run = ["-d1", "--profile", server, "http://127.0.0.1:9/"];
        let output = wrkbench(&[options, &run].concat());
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        let line = one_line(&output.stderr);
        assert!(line.contains("profile") && line.contains(part), "{line}");
    }
}

/// Begins a run and waits until it has responses of two seconds. `None` where sampling is not
/// permitted.
fn sampled(fleet: &Fleet, program: &Program, duration: &str) -> Option<(Process, Process)> {
    let (server, id, url) = server(program);
    let more = [duration, "--stream", "-"];
    let mut run = fleet.load(&format!("host=web1:{id}"), &more, &url);
    let mut seconds = 0;
    while let Some(line) = run.next_line() {
        seconds += u32::from(line.contains("\"second\""));
        if seconds == 2 {
            assert_eq!(fleet.deputies().len(), 1);
            return Some((server, run));
        }
    }
    let output = run.finish();
    assert!(is_forbidden(&output), "{output:?}");
    None
}

#[test]
fn a_run_whose_host_is_lost_keeps_its_numbers_and_says_why_there_is_no_profile() {
    let (Some(fleet), Some(program)) = (Fleet::start(), Program::compiled()) else {
        return;
    };
    let Some((_server, run)) = sampled(&fleet, &program, "-d12") else {
        return;
    };
    // It does not say farewell.
    fleet.host.as_ref().unwrap().signal("KILL");
    let output = run.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let result = fleet.result();
    assert!(result.recording.counters.answered > 0);
    let profile = result.profile.as_ref().unwrap();
    assert_eq!((profile.samples, profile.notes.len()), (0, 1));
    let notes = output.stderr.matches("server profile: ").count();
    assert_eq!(notes, 1, "{}", output.stderr);
    let why = "server profile: no profile: host web1: the link is lost";
    assert!(output.stderr.contains(why), "{}", output.stderr);
}

#[test]
fn nothing_samples_after_the_coordinator_was_killed() {
    let (Some(mut fleet), Some(program)) = (Fleet::start(), Program::compiled()) else {
        return;
    };
    let Some((_server, run)) = sampled(&fleet, &program, "-d12") else {
        return;
    };
    let deputies = fleet.deputies();
    run.signal("KILL");
    eventually(|| {
        let is_there = |id: &&String| fs::exists(format!("/proc/{id}")).unwrap_or(true);
        match deputies.iter().find(is_there) {
            Some(id) => Err(format!("{id} goes on")),
            None => Ok(()),
        }
    });
    let told = fleet.end_host();
    let ended = "the session was ended: nothing was heard from the coordinator";
    assert!(told.stderr.contains(ended), "{told:?}");
}

#[test]
fn an_interrupted_run_keeps_what_was_sampled() {
    let (Some(fleet), Some(program)) = (Fleet::start(), Program::compiled()) else {
        return;
    };
    let Some((_server, run)) = sampled(&fleet, &program, "-d100") else {
        return;
    };
    run.signal("INT");
    let output = run.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let result = fleet.result();
    assert!(result.window.interrupted);
    let profile = result.profile.as_ref().unwrap();
    assert!(profile.samples > 0, "{profile:?}");
    assert!(profile.comparison != ProfileComparison::NoSlowRequests);
}
