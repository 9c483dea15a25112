//! Experiments by the agents of a fleet, through a NATS server on loopback.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use results::{RunResult, Trial, TrialOutcome};
use testkit::{Folder, Output, Process, eventually, require};

use crate::harness::{Site, io, program, site};
use crate::judge;

/// A NATS server with agents, and the folder of an experiment.
struct Fleet {
    _nats: Process,
    url: String,
    folder: Folder,
    public_key: String,
    agents: BTreeMap<String, Process>,
}

impl Fleet {
    /// `None`: there is no nats-server.
    fn start(agents: &[(&str, &str)]) -> Option<Self> {
        let nats = require("nats-server")?;
        let folder = Folder::new();
        let ports = folder.folder("ports");
        let mut command = Command::new(nats);
        command.args(["--addr", "127.0.0.1", "--port", "-1"]);
        command.args(["--ports_file_dir", &ports]);
        let nats = Process::start(command);
        let port = || {
            let file = fs::read_dir(&ports).ok()?.next()?.ok()?.path();
            let ports: serde_json::Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
            let address = ports["nats"][0].as_str()?;
            Some(address.rsplit(':').next()?.to_owned())
        };
        let port = eventually(|| port().ok_or_else(|| "the NATS server listens".to_owned()));
        let key = Process::start(program(&["fleet", "key", &folder.file("fleet.key")])).finish();
        assert_eq!(key.code, Some(0), "{key:?}");
        let mut fleet = Self {
            _nats: nats,
            url: format!("nats://127.0.0.1:{port}"),
            folder,
            public_key: key.stdout.trim().to_owned(),
            agents: BTreeMap::new(),
        };
        for (name, place) in agents {
            fleet.start_agent(name, place);
        }
        Some(fleet)
    }

    /// Starts an agent, or starts one again that has ended.
    fn start_agent(&mut self, name: &str, place: &str) {
        let mut command = program(&["agent", "--nats", &self.url, "--trust", &self.public_key]);
        command.args(["--name", name, "--place", place]);
        self.agents.insert(name.to_owned(), Process::start(command));
    }

    fn start_sweep(&self, experiment: &str, arguments: &[&str]) -> Process {
        let plan = self.folder.file_with("plan.toml", experiment);
        let mut command = program(&["sweep", &plan, "--no-try", "--fleet", &self.url]);
        command.args(["--fleet-key", &self.folder.file("fleet.key")]);
        if !arguments.contains(&"--agents") {
            command.args(["--agents", &self.agents.len().to_string()]);
        }
        command.args(["--journal", &self.folder.file("journal")]);
        command.args(arguments);
        Process::start(command)
    }

    fn sweep(&self, experiment: &str, arguments: &[&str]) -> Output {
        self.start_sweep(experiment, arguments).finish()
    }

    fn results(&self) -> String {
        self.folder.file("results")
    }

    /// The trials in the order of their names.
    fn trials(&self) -> Vec<Trial> {
        let Ok(entries) = fs::read_dir(PathBuf::from(self.results()).join("trials")) else {
            return Vec::new();
        };
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|end| end == "json"));
        files.sort();
        let read = |path: PathBuf| judge::trial(&fs::read(path).unwrap());
        files.into_iter().map(read).collect()
    }
}

/// An experiment with one target. `head` and `more` are lines before and after.
fn experiment(site: &Site, head: &str, load: &str, more: &str) -> String {
    let io = io().map_or_else(String::new, |io| format!("io = {io:?}\n"));
    format!(
        "name = 'places'\nseed = 7\n{head}\n[load]\nthreads = 1\nconnections = 6\n{load}\n{io}\
         [[target]]\nname = 'origin'\nurl = '{}'\n{more}\n",
        site.url("/")
    )
}

const PLACES: &str = "[[place]]\nname = 'office'\n[[place]]\nname = 'rack/internal'\n";

fn result(trial: &Trial) -> &RunResult {
    match &trial.outcome {
        TrialOutcome::Finished(result) => result,
        TrialOutcome::Failed(reason) => panic!("{reason}"),
    }
}

/// Name and place of the agents of a result.
fn agents(result: &RunResult) -> Vec<(&str, &str)> {
    let agents = result.agents.iter();
    agents
        .map(|it| (it.id.as_str(), it.place.as_str()))
        .collect()
}

#[test]
fn each_place_makes_the_runs_by_itself_at_its_own_address() {
    let agents_at = [
        ("desk", "office"),
        ("rack-1", "rack/internal"),
        ("rack-2", "rack/internal"),
    ];
    let Some(fleet) = Fleet::start(&agents_at) else {
        return;
    };
    let (outside, inside) = (site(), site());
    let places = format!("{PLACES}url = '{}'\n", inside.url("/"));
    let hooks = "[hooks]\nready = { within = '10s' }\nbefore = 'echo $WRKBENCH_PLACE'\n\
                 [telemetry]\nsockets = true\n";
    let plan = experiment(
        &outside,
        "rounds = 2",
        "requests = 300",
        &format!("{places}{hooks}"),
    );
    let shown = fleet.sweep(&plan, &["--dry-run"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let own = format!(" rack-2 with {} cores), {}", cores(), inside.url("/"));
    for line in ["\nplaces, in turn:\n  office: 1 agent (desk with ", &own] {
        assert!(shown.stdout.contains(line), "{line}: {}", shown.stdout);
    }
    let output = fleet.sweep(&plan, &[]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let trials = fleet.trials();
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        let place = trial.cell.place().unwrap();
        let result = result(trial);
        let expected: Vec<_> = agents_at.into_iter().filter(|it| it.1 == place).collect();
        assert_eq!(agents(result), expected);
        assert_eq!(result.recording.counters.answered, 300);
        assert_eq!(result.plan.load.threads, expected.len() as u32);
        assert_eq!(result.plan.load.connections, 6);
        let url = &result.plan.target.url;
        let site = if place == "office" { &outside } else { &inside };
        assert!(url.starts_with(&site.url("/")), "{place}: {url}");
        assert_eq!(trial.hooks[0].stdout, format!("{place}\n"));
        // Samples stay with the agents; the result has their summary.
        assert_eq!(trial.samples_file, None);
        let mut parts = result.agents.iter().filter_map(|agent| agent.result());
        assert!(parts.all(|part| part.telemetry.is_some()), "{place}");
    }
    assert_eq!(inside.counts().requests, 600);
    // Two runs, and a request for each `ready` and each check before a start.
    let outside = outside.counts().requests;
    assert!((600..620).contains(&outside), "{outside}");
    assert!(
        output.stderr.contains("[1/4] round 1/2, place "),
        "{output:?}"
    );
    shown_everywhere(&fleet);
}

fn cores() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// The results as a summary, a comparison and pages.
fn shown_everywhere(fleet: &Fleet) {
    let results = fleet.results();
    let run = |arguments: &[&str]| Process::start(program(arguments)).finish();
    let summary = run(&["table", &results, "--summary"]);
    let lines: Vec<&str> = summary.stdout.lines().collect();
    assert_eq!(lines[0], "office:", "{summary:?}");
    let rounds = lines
        .iter()
        .filter(|line| line.starts_with("origin: Latency "));
    assert_eq!(rounds.clone().count(), 2);
    for line in rounds {
        assert_eq!(
            line.matches(", ").count(),
            2,
            "two rounds side by side: {line}"
        );
    }
    assert!(lines.contains(&"rack/internal:"), "{summary:?}");
    let table = run(&["table", &results, "--format", "csv"]);
    // Trials of two agents at one place are one row each.
    assert_eq!(table.stdout.lines().count(), 1 + 4 + 2, "{}", table.stdout);
    let page = fleet.folder.file("page.html");
    let report = run(&["report", &results, "-o", &page]);
    assert_eq!(report.code, Some(0), "{report:?}");
    assert!(fleet.folder.read("page.html").contains("rack/internal"));
    let trials = PathBuf::from(&results).join("trials");
    let mut trials: Vec<_> = fs::read_dir(trials)
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .filter(|name| name.contains("rack_internal"))
        .collect();
    trials.sort();
    let report = run(&["report", &trials[0], "-o", &page]);
    assert_eq!(report.code, Some(0), "{report:?}");
    let text = fleet.folder.read("page.html");
    assert!(text.contains("rack-1") && text.contains("rack-2"));
    let compared = run(&["compare", &trials[0], &trials[1]]);
    assert_eq!(compared.code, Some(0), "{compared:?}");
}

#[test]
fn places_together_make_each_run_and_a_sweep_is_resumed_by_the_same_fleet() {
    let Some(fleet) = Fleet::start(&[("desk", "office"), ("rack-1", "rack/internal")]) else {
        return;
    };
    let site = site();
    let plan = experiment(&site, "places = 'together'", "duration = '30s'", PLACES);
    let sweep = fleet.start_sweep(&plan, &["-q"]);
    site.await_counts("the load has begun", |counts| counts.requests > 100);
    sweep.signal("INT");
    let ended = sweep.finish();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let resume = format!("--resume --journal {}", fleet.folder.file("journal"));
    assert!(ended.stderr.contains(&resume), "{ended:?}");
    let words = format!("--fleet={} --fleet-key=", fleet.url);
    assert!(ended.stderr.contains(&words), "{ended:?}");
    assert_eq!(fleet.trials().len(), 0);
    // Another experiment, which a second sweep continues with one more round.
    fs::remove_dir_all(fleet.results()).unwrap();
    let plan = plan.replace("duration = '30s'", "requests = 300");
    let output = fleet.sweep(&plan, &["-q"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.stderr, "");
    let plan = plan.replace("seed = 7", "seed = 7\nrounds = 2");
    let output = fleet.sweep(&plan, &["--resume"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let trials = fleet.trials();
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        let result = result(trial);
        assert_eq!(result.recording.counters.answered, 300);
        let names: Vec<&str> = result.places.iter().map(|it| it.place.as_str()).collect();
        assert_eq!(names, ["office", "rack/internal"]);
        assert_eq!(trial.cell.place(), None);
    }
    let summary = Process::start(program(&["table", &fleet.results(), "--summary"])).finish();
    let sections = ["all places:", "office:", "rack/internal:"];
    let lines = summary
        .stdout
        .lines()
        .filter(|line| sections.contains(line));
    assert_eq!(lines.collect::<Vec<_>>(), sections, "{}", summary.stdout);
}

#[test]
fn a_lost_agent_fails_the_attempt_and_takes_part_again_when_it_is_back() {
    let Some(mut fleet) = Fleet::start(&[("desk", "office"), ("lamp", "office")]) else {
        return;
    };
    let site = site();
    let load = "rate = 200\nduration = '5s'";
    let plan = experiment(&site, "", load, "[[place]]\nname = 'office'\n");
    let sweep = fleet.start_sweep(&plan, &["--on-lost", "abort"]);
    site.await_counts("the load has begun", |counts| counts.requests > 20);
    // It comes back under its name.
    fleet.agents["lamp"].signal("KILL");
    fleet.start_agent("lamp", "office");
    let output = sweep.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let trials = fleet.trials();
    let [trial] = trials.as_slice() else {
        panic!("{trials:?}");
    };
    let [failed] = trial.failed_attempts.as_slice() else {
        panic!("{trial:?}");
    };
    assert!(
        failed.starts_with("partial result: ") && failed.contains("lamp"),
        "{failed}"
    );
    assert!(output.stderr.contains("; trying again"), "{output:?}");
    let names = ["desk", "lamp"].map(|name| (name, "office"));
    assert_eq!(agents(result(trial)), names);
    // The whole schedule; the last one may be due at the very end.
    let sent = result(trial).recording.counters.sent;
    assert!((998..=1_000).contains(&sent), "{sent}");
}

#[test]
fn an_agent_that_stays_away_is_named() {
    let Some(mut fleet) = Fleet::start(&[("desk", "office"), ("lamp", "office")]) else {
        return;
    };
    let site = site();
    let wait = format!(
        "[hooks]\nbefore = 'touch {0}/waits; until test -e {0}/go; do sleep 0.02; done'",
        fleet.folder.path().display()
    );
    let plan = experiment(&site, "retries = 0", "requests = 300", &wait);
    let sweep = fleet.start_sweep(&plan, &[]);
    eventually(|| {
        if fleet.folder.path().join("waits").exists() {
            Ok(())
        } else {
            Err("the hook runs".to_owned())
        }
    });
    let lamp = fleet.agents.remove("lamp").unwrap();
    lamp.signal("TERM");
    let _ = lamp.finish();
    // Somebody else does not take its part.
    fleet.start_agent("couch", "office");
    fleet.folder.file_with("go", "");
    let output = sweep.finish();
    assert_eq!(output.code, Some(4), "{output:?}");
    let trials = fleet.trials();
    let TrialOutcome::Failed(reason) = &trials[0].outcome else {
        panic!("{trials:?}");
    };
    assert_eq!(reason, "no response from agent lamp of the fleet default");
}

#[test]
fn only_the_agents_at_a_place_make_the_runs_and_one_without_agents_is_refused() {
    let Some(fleet) = Fleet::start(&[("desk", "office"), ("rack-1", "rack/internal")]) else {
        return;
    };
    let site = site();
    let plan = experiment(&site, "", "requests = 300", "");
    let output = fleet.sweep(&plan, &["--only-place", "moon"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(
        output.only_line(),
        "wrkbench: no agent is at the place \"moon\"; there are agents at office, rack/internal"
    );
    let output = fleet.sweep(&plan, &["--only-place", "office", "--agents", "1"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(agents(result(&fleet.trials()[0])), [("desk", "office")]);
}

#[test]
fn what_does_not_fit_is_refused_in_one_line() {
    let site = site();
    let folder = Folder::new();
    let plan = experiment(&site, "", "requests = 10", PLACES);
    let plan = folder.file_with("plan.toml", plan);
    let refused = |arguments: &[&str]| {
        let mut command = program(&["sweep", &plan, "-q", "--journal", &folder.file("journal")]);
        command.args(arguments);
        let output = Process::start(command).finish();
        assert_eq!(output.code, Some(1), "{output:?}");
        output.only_line().to_owned()
    };
    let text = refused(&[]);
    assert!(
        text.contains("[[place]] needs the agents of a fleet: give --fleet nats://"),
        "{text}"
    );
    // These need no connection.
    let fleet = ["--fleet", "nats://127.0.0.1:1"];
    let text = refused(&[&fleet[..], &["--only-place", "office"]].concat());
    assert!(
        text.contains("--only-place: the experiment has its places"),
        "{text}"
    );
    let at = format!("office={}", site.url("/"));
    let text = refused(&[&fleet[..], &["--at", &at]].concat());
    assert!(
        text.contains("--at: the experiment has its places, with their URLs"),
        "{text}"
    );
    let text = refused(&["--agents", "2"]);
    assert!(text.contains("--agents: needs a fleet"), "{text}");
}

/// An experiment that changes a file on the machine `db1`, with a hook that shows it.
fn of_another_machine(fleet: &Fleet, site: &Site, load: &str) -> String {
    let file = |name: &str| fleet.folder.file(name);
    fleet.folder.file_with("server.tmpl", "level {{level}}\n");
    let more = format!(
        "[[factor]]\nname = 'conf'\nhost = 'db1'\nfile = '{}'\ntemplate = 'server.tmpl'\n\
         levels = ['a', 'b']\n\
         [hooks]\nbefore = {{ run = 'cat {} >>{}', host = 'db1' }}\n",
        file("server.conf"),
        file("server.conf"),
        file("seen")
    );
    experiment(
        site,
        "rounds = 1\nretries = 0\norder = 'sequential'",
        load,
        &more,
    )
}

fn agent_with_changes(fleet: &Fleet) -> Process {
    let mut command = program(&["agent", "--nats", &fleet.url, "--trust", &fleet.public_key]);
    command.args(["--name", "db1", "--allow-changes"]);
    command.args(["--journal", &fleet.folder.file("journal-of-db1")]);
    Process::start(command)
}

#[test]
fn a_file_of_another_machine_is_changed_there_and_restored() {
    let Some(fleet) = Fleet::start(&[("desk", "office")]) else {
        return;
    };
    let site = site();
    let conf = fleet.folder.file_with("server.conf", b"# old\xff\n");
    let agent = agent_with_changes(&fleet);
    let plan = of_another_machine(&fleet, &site, "requests = 50");
    let output = fleet.sweep(&plan, &[]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(fleet.folder.read("seen"), "level a\nlevel b\n");
    assert_eq!(fs::read(&conf).unwrap(), b"# old\xff\n");
    let restored = format!("db1: {conf}: restored");
    assert!(output.stderr.contains(&restored), "{output:?}");
    agent.signal("INT");
    let told = agent.finish();
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(
        told.stderr.contains("a session begins, by the key U"),
        "{told:?}"
    );
    assert!(told.stderr.contains("the session has ended"), "{told:?}");
}

#[test]
fn a_machine_whose_agent_is_killed_restores_itself_and_the_sweep_ends() {
    let Some(fleet) = Fleet::start(&[("desk", "office")]) else {
        return;
    };
    let site = site();
    let conf = fleet.folder.file_with("server.conf", "# old\n");
    let agent = agent_with_changes(&fleet);
    let plan = of_another_machine(&fleet, &site, "duration = '100s'\nrate = '20'");
    let sweep = fleet.start_sweep(&plan, &[]);
    eventually(|| match fs::read(fleet.folder.join("seen")) {
        Ok(seen) if seen == b"level a\n" => Ok(()),
        seen => Err(format!("the hook has run: {seen:?}")),
    });
    agent.signal("KILL");
    let journal = fleet.folder.join("journal-of-db1/journal");
    eventually(|| match fs::read(&conf) {
        Ok(now) if now == b"# old\n" && !journal.exists() => Ok(()),
        now => Err(format!("the file is restored: {now:?}")),
    });
    let output = sweep.finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    let lost = "sweep aborted: db1: the link is lost: nothing was heard from the agent for 10 s";
    assert!(output.stderr.contains(lost), "{output:?}");
    assert!(fleet.trials().is_empty());
}
