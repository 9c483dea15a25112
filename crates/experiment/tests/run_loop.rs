//! The loop over trials on a simulated machine: the order of events, and what happens when anything
//! fails.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::cell::{Cell as Flag, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use experiment::fake::{Failure, Fake, Files};
use experiment::{
    CommandOutput, Conflicts, Event, ExperimentContext, ExperimentOutcome, ExperimentRun, Fixed,
    Left, Planned, Policy, PreparedExperiment, RemoteHosts, ResumeOptions, Schedule, Spec,
    StoppingRule, Transaction, restore, run,
};
use plan::{RunPlan, Target};
use results::{EXPERIMENT_SCHEMA_VERSION, RunResult, Setting, Trial, TrialOutcome, Window};

const JOURNALS: &str = "/var/lib/wrkbench/restore";
const RESULTS: &str = "/plans/testlogs";
const EXPERIMENT_FILE: &str = "/plans/testlogs/experiment.json";
const RMEM_MAX: &str = "/proc/sys/net/core/rmem_max";
const TCP_RMEM: &str = "/proc/sys/net/ipv4/tcp_rmem";
const CONF: &str = "/etc/server.conf";
const URL: &str = "http://h/";
const SEED: u64 = 7;

/// Two levels of a kernel setting, two of a file, and every hook.
const PLAN: &str = r#"
name = "everything"
rounds = 2
results = "testlogs"
order = "sequential"

[load]
duration = "10s"

[[target]]
name = "t"
url = "http://h/"

[[factor]]
name = "buffers"
sysctl = "net.core.rmem_max"
levels = [1000, 2000]

[[factor]]
name = "conf"
file = "/etc/server.conf"
template = "server.tmpl"
check = "check-it"
levels = ["a", "b"]

[hooks]
setup = "set-up"
restart = "restart-it"
ready = { within = "1s" }
settle = "3s"
before = "look-before"
after = "look-after"
teardown = "tear-down"
"#;

/// Two load options and no change to the machine.
const LOAD_ONLY: &str = r#"
name = "load only"
rounds = 2
results = "testlogs"
order = "sequential"
retries = 1

[load]
duration = "10s"

[[target]]
name = "t"
url = "http://h/"

[[factor]]
connections = [4, 8]

[hooks]
restart = "restart-it"
"#;

fn machine() -> Fake {
    let mut host = Fake::with(&[
        (RMEM_MAX, "212992\n"),
        (TCP_RMEM, "4096\t131072\t6291456\n"),
        (CONF, "original\n"),
        ("/plans/server.tmpl", "level {{level}}\n"),
    ]);
    // A service that reads the setting when it starts.
    host.on_command("restart-it", |files, _| {
        let now = files.get(Path::new(RMEM_MAX)).cloned().unwrap_or_default();
        files.insert("/made-up/service".into(), now);
        succeeded("restarted\n")
    });
    host
}

fn succeeded(stdout: &str) -> CommandOutput {
    CommandOutput {
        exit_code: Some(0),
        stdout: stdout.as_bytes().to_vec(),
        ..CommandOutput::default()
    }
}

fn failing(stderr: &str) -> CommandOutput {
    CommandOutput {
        exit_code: Some(1),
        stderr: stderr.as_bytes().to_vec(),
        ..CommandOutput::default()
    }
}

/// The result of a run; its numbers do not matter.
fn result() -> RunResult {
    let plan = RunPlan::new(Target::parse(URL).unwrap());
    RunResult::new(plan, Window::default())
}

fn blank_trial(planned: &Planned) -> Trial {
    Trial {
        schema_version: EXPERIMENT_SCHEMA_VERSION,
        experiment: String::new(),
        cell: planned.cell.clone(),
        round: planned.round,
        repeat: planned.repeat,
        position: planned.position,
        started_at: None,
        took_ms: None,
        search: planned.step.clone(),
        failed_attempts: Vec::new(),
        outcome: TrialOutcome::Finished(Box::new(result())),
        effective: BTreeMap::new(),
        environment_before: BTreeMap::new(),
        environment_after: BTreeMap::new(),
        hooks: Vec::new(),
        samples_file: None,
    }
}

/// A process that starts or resumes an experiment.
struct Session<'a> {
    plan: &'a str,
    resume: bool,
    /// Each level is tried first.
    tries: bool,
    /// The user interrupts after this many runs.
    ends_after: usize,
    /// Results of the runs in order; when none are left, each run succeeds.
    runs: RefCell<VecDeque<Result<RunResult, String>>>,
}

fn session(plan: &str) -> Session<'_> {
    Session {
        plan,
        resume: false,
        tries: false,
        ends_after: usize::MAX,
        runs: RefCell::default(),
    }
}

/// How a process ended, and its events.
struct SessionEnd {
    outcome: ExperimentOutcome,
    told: Vec<String>,
    /// Names of the trials that it had to make.
    begun: usize,
}

impl Session<'_> {
    /// # Errors
    /// When nothing was started.
    fn run(&self, host: &mut Fake) -> Result<SessionEnd, String> {
        let spec = Spec::parse(self.plan, Path::new("/plans/plan.toml")).unwrap();
        let options = ResumeOptions {
            resume: self.resume,
            seed: Some(SEED),
            ..ResumeOptions::default()
        };
        let prepared =
            PreparedExperiment::new(spec, options, host).map_err(|error| error.to_string())?;
        let transaction = Transaction::begin(host, Path::new(JOURNALS), &prepared.spec.name)
            .map_err(|error| error.to_string())?;
        if let Err(error) = prepared.begin(host) {
            let _ = transaction.restore_all(host);
            return Err(error.to_string());
        }
        let left = &prepared.remaining;
        let tries = if self.tries {
            prepared.tries()
        } else {
            Vec::new()
        };
        let mut told = left.notes.clone();
        let made = Flag::new(0);
        let outcome = run(
            ExperimentRun {
                spec: &prepared.spec,
                experiment: &prepared.experiment,
                done: prepared.done(),
                deadline_ns: None,
                tries: &tries,
                sysctls: &["net.ipv4.tcp_rmem"],
                nominal: &|_| Duration::from_secs(10),
                keeps_samples: true,
            },
            &mut Fixed::new(&left.trials),
            transaction,
            ExperimentContext {
                host,
                others: &mut RemoteHosts::new(),
                store: &prepared.store,
                run_one: &mut |_| {
                    made.set(made.get() + 1);
                    let next = self.runs.borrow_mut().pop_front();
                    Ok(next.unwrap_or_else(|| Ok(result()))?)
                },
                observer: &mut |event| told.push(line(&event)),
                is_interrupted: &|| made.get() >= self.ends_after,
                was_suspended: &|| false,
            },
        );
        Ok(SessionEnd {
            outcome,
            told,
            begun: left.trials.len(),
        })
    }
}

/// A line for each event.
fn line(event: &Event<'_>) -> String {
    match event {
        Event::Begins {
            planned, attempt, ..
        } => format!("trial {} attempt {attempt}", planned.position),
        Event::Finished {
            trial, progress, ..
        } => format!(
            "trial {} finished, {} of {}",
            trial.position,
            progress.done(),
            progress.total()
        ),
        Event::Failed {
            planned,
            failure,
            again,
            ..
        } => {
            let next = if *again { ", again" } else { "" };
            let said: String = failure
                .said
                .iter()
                .map(|line| format!(" | {line}"))
                .collect();
            format!(
                "trial {} failed: {}{next}{said}",
                planned.position, failure.reason
            )
        }
        Event::Tries {
            planned,
            number,
            of,
        } => {
            format!("try {number} of {of}: {:?}", planned.cell.settings)
        }
        Event::TryFailed {
            number, failure, ..
        } => format!("try {number} failed: {}", failure.reason),
        Event::Note(text) => text.clone(),
    }
}

/// The saved trials, by name.
fn kept(host: &Fake) -> BTreeMap<String, Trial> {
    let trials = Path::new(RESULTS).join("trials");
    let files = host
        .files
        .iter()
        .filter(|(path, _)| path.starts_with(&trials));
    files
        .filter_map(|(path, content)| {
            let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
            // The temporary file of an interrupted replacement begins with a dot, and is not a
            // trial.
            (!name.starts_with('.'))
                .then(|| (name.to_owned(), results::file::load_trial(content).unwrap()))
        })
        .collect()
}

fn finished(host: &Fake) -> BTreeSet<String> {
    let is_finished =
        |(_, trial): &(String, Trial)| matches!(trial.outcome, TrialOutcome::Finished(_));
    let finished = kept(host).into_iter().filter(is_finished);
    finished.map(|(name, _)| name).collect()
}

/// The state of everything that the experiment may change.
fn state(host: &Fake) -> Files {
    let of_interest = |path: &PathBuf| path.starts_with("/proc") || path.starts_with("/etc");
    let files = host.files.iter().filter(|(path, _)| of_interest(path));
    files
        .map(|(path, content)| (path.clone(), content.clone()))
        .collect()
}

fn failure(host: &Fake, name: &str) -> (Vec<String>, String) {
    let trial = &kept(host)[name];
    match &trial.outcome {
        TrialOutcome::Failed(reason) => (trial.failed_attempts.clone(), reason.clone()),
        TrialOutcome::Finished(_) => panic!("{name} has finished"),
    }
}

/// The log without the journal and without the parts of a write.
fn story(host: &Fake) -> Vec<String> {
    let lines = host.log.iter().filter(|line| !line.contains(JOURNALS));
    lines
        .map(|line| {
            let words = line.split(' ').filter(|word| !word.contains('='));
            words.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[test]
fn the_steps_of_a_trial_happen_in_order() {
    let mut host = machine();
    let plan = PLAN.replace("rounds = 2", "rounds = 1");
    let ended = session(&plan).run(&mut host).unwrap();
    assert_eq!((ended.outcome.finished, ended.outcome.left), (4, 0));
    let (conf, restart) = ("replace /etc/server.conf", "run restart-it");
    // From the file of the second factor to the saved trial.
    let trial = |name: &str| {
        let save = format!("replace {RESULTS}/trials/{name}.json");
        let (ask, begin, end) = ("ask http://h/", "run look-before", "run look-after");
        [conf, "run check-it", restart, ask, begin, end, &save].join("\n")
    };
    let set = |value: &str| format!("write {RMEM_MAX} {:?}", format!("{value}\n").as_bytes());
    // The order is sequential here: the last factor changes fastest.
    let expected = [
        &format!("make_folder {RESULTS}/trials"),
        &format!("replace {RESULTS}/experiment.json"),
        "run set-up",
        "keep_guardian",
        // The present value first, to show that the kernel takes it.
        "keep_guardian",
        &set("212992"),
        &set("1000"),
        "keep_guardian",
        &trial("r01-c001-1000-a"),
        "keep_guardian",
        &trial("r01-c002-1000-b"),
        "keep_guardian",
        &set("2000"),
        "keep_guardian",
        &trial("r01-c003-2000-a"),
        "keep_guardian",
        &trial("r01-c004-2000-b"),
        // Restored in reverse order, then the restart and the teardown.
        "discard_replacement /etc/server.conf",
        conf,
        &set("212992"),
        restart,
        "run tear-down",
    ]
    .join("\n");
    let expected: Vec<_> = expected.lines().collect();
    let told = story(&host);
    let mut pairs = told.iter().zip(&expected);
    let different = pairs.position(|(is, wanted)| is != wanted);
    assert_eq!(told, expected, "first difference: {different:?}");
    assert_eq!(state(&host), state(&machine()));
    // The service runs with the old value as well.
    assert_eq!(host.text("/made-up/service").as_deref(), Some("212992\n"));
}

#[test]
fn only_resources_of_the_experiment_are_ever_written() {
    let mut host = machine();
    session(PLAN).run(&mut host).unwrap();
    let own = [JOURNALS, RESULTS];
    let named = [RMEM_MAX, CONF];
    for line in &host.log {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        let path = rest.split(' ').next().unwrap();
        let is_known = match what {
            "write"
            | "replace"
            | "discard_replacement"
            | "append"
            | "remove"
            | "make_folder"
            | "lock" => named.contains(&path) || own.iter().any(|folder| path.starts_with(folder)),
            "run" | "ask" | "keep_guardian" => true,
            _ => false,
        };
        assert!(is_known, "{line}");
    }
    let written = |path: &str| host.log.iter().any(|line| line.contains(path));
    assert!(written(RMEM_MAX) && written(CONF) && !written(TCP_RMEM));
}

#[test]
fn a_trial_is_saved_with_its_settings_and_its_result() {
    let mut host = machine();
    // This kernel takes at most 1500.
    host.on_setting(RMEM_MAX, |value| {
        let wished: u64 = value.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(if wished == 2000 { 1500 } else { wished }.to_string())
    });
    let ended = session(PLAN).run(&mut host).unwrap();
    let trial = &kept(&host)["r01-c003-2000-a"];
    let value = |of: &BTreeMap<String, String>, key: &str| of.get(key).cloned();
    let wanted = Some("1500".to_owned());
    assert_eq!(value(&trial.effective, "net.core.rmem_max"), wanted);
    assert_eq!(
        value(&trial.environment_before, "net.core.rmem_max"),
        wanted
    );
    assert_eq!(value(&trial.environment_after, "net.core.rmem_max"), wanted);
    assert_eq!(
        value(&trial.environment_before, "net.ipv4.tcp_rmem").as_deref(),
        Some("4096 131072 6291456")
    );
    let hooks: Vec<_> = trial.hooks.iter().map(|hook| hook.hook.as_str()).collect();
    assert_eq!(hooks, ["check of conf", "restart", "before", "after"]);
    assert_eq!(trial.hooks[1].stdout, "restarted\n");
    let clamped = "buffers: net.core.rmem_max was set to 2000, but the kernel changed it to 1500";
    assert!(
        ended.told.iter().any(|line| line == clamped),
        "{:?}",
        ended.told
    );
}

#[test]
fn servers_are_restarted_only_after_a_change_to_the_machine() {
    let mut host = machine();
    let ended = session(LOAD_ONLY).run(&mut host).unwrap();
    assert_eq!(ended.outcome.finished, 4);
    assert!(!host.log.iter().any(|line| line.contains("restart-it")));
    // Three equal levels in a row are set once.
    let mut host = machine();
    let plan = PLAN
        .replace("[\"a\", \"b\"]", "[\"a\"]")
        .replace("[1000, 2000]", "[1000]");
    let ended = session(&plan.replace("rounds = 2", "rounds = 3")).run(&mut host);
    assert_eq!(ended.unwrap().outcome.finished, 3);
    let restarts = host.log.iter().filter(|line| line.contains("restart-it"));
    assert_eq!(restarts.count(), 2, "once, and once at the end");
}

#[test]
fn a_failing_run_is_tried_once_more_with_a_fresh_server() {
    let mut host = machine();
    let mut session = session(LOAD_ONLY);
    session.runs = RefCell::new(VecDeque::from([
        Err("refused".to_owned()),
        Ok(result()),
        Err("reset".to_owned()),
        Err("silent".to_owned()),
    ]));
    let ended = session.run(&mut host).unwrap();
    assert_eq!((ended.outcome.finished, ended.outcome.failed), (3, 1));
    assert_eq!(
        ended.told[..6],
        [
            "trial 1 attempt 1",
            "trial 1 failed: refused, again",
            "trial 1 attempt 2",
            "trial 1 finished, 1 of 4",
            "trial 2 attempt 1",
            "trial 2 failed: reset, again",
        ]
    );
    assert_eq!(kept(&host)["r01-c001-4"].failed_attempts, ["refused"]);
    assert_eq!(
        failure(&host, "r01-c002-8"),
        (vec!["reset".to_owned()], "silent".to_owned())
    );
    let restarts = host.log.iter().filter(|line| line.contains("restart-it"));
    assert_eq!(restarts.count(), 3);
}

#[test]
fn whatever_fails_around_a_run_is_the_reason_for_its_failure() {
    /// The trial that fails, what breaks it, and the recorded reason.
    type Case = (&'static str, fn(&mut Fake), &'static str);
    let cases: [Case; 7] = [
        (
            "r01-c001-1000-a",
            |host| host.on_command("restart-it", |_, _| failing("no unit\n")),
            "restart: `restart-it` failed with exit code 1: no unit",
        ),
        (
            "r01-c001-1000-a",
            |host| host.on_command("look-before", |_, _| failing("")),
            "before: `look-before` failed with exit code 1",
        ),
        (
            "r01-c001-1000-a",
            |host| host.on_command("look-after", |_, _| failing("")),
            "after: `look-after` failed with exit code 1",
        ),
        (
            "r01-c001-1000-a",
            |host| host.on_command("check-it", |_, _| failing("unknown directive\n")),
            "check of conf: `check-it` failed with exit code 1: unknown directive",
        ),
        (
            "r01-c001-1000-a",
            |host| {
                let silent = |_| Err(io::ErrorKind::ConnectionRefused.into());
                host.responses
                    .insert(URL.to_owned(), (0..9999).map(silent).collect());
            },
            "http://h/ not ready within 1s: connection refused, although the restart hook has run",
        ),
        (
            "r01-c003-2000-a",
            |host| {
                host.on_setting(RMEM_MAX, |value| match value {
                    "2000" => Err(io::ErrorKind::InvalidInput.into()),
                    other => Ok(other.to_owned()),
                });
            },
            "net.core.rmem_max: the kernel refuses 2000 (invalid input parameter)",
        ),
        (
            "r01-c001-1000-a",
            |host| {
                host.files.remove(Path::new("/plans/server.tmpl"));
            },
            "/plans/server.tmpl: cannot read the template (entity not found)",
        ),
    ];
    for (name, breaks, expected) in cases {
        let mut host = machine();
        breaks(&mut host);
        let ended = session(PLAN).run(&mut host).unwrap();
        let (first, reason) = failure(&host, name);
        assert_eq!(reason, expected);
        assert_eq!(first, [expected]);
        // If everything fails, the other trials are not tried.
        let outcome = &ended.outcome;
        if outcome.finished > 0 {
            assert_eq!(outcome.finished + outcome.failed, 8, "{expected}");
            assert!(outcome.abort.is_none(), "{outcome:?}");
        } else {
            assert_eq!((outcome.failed, outcome.left), (3, 5), "{expected}");
            let abort = outcome.abort.as_ref().map(ToString::to_string);
            let abort = abort.unwrap_or_default();
            assert!(abort.starts_with("3 trials failed in a row"), "{abort}");
        }
        assert_eq!(state(&host), state(&machine_after(breaks)), "{expected}");
    }
}

fn machine_after(breaks: fn(&mut Fake)) -> Fake {
    let mut host = machine();
    breaks(&mut host);
    host
}

#[test]
fn a_setting_that_someone_else_changes_spoils_the_trial() {
    let mut host = machine();
    let mut looks = 0;
    host.on_command("look-before", move |files, _| {
        looks += 1;
        if looks == 3 {
            files.insert(RMEM_MAX.into(), b"4711\n".to_vec());
        }
        succeeded("")
    });
    let ended = session(PLAN).run(&mut host).unwrap();
    assert!(ended.outcome.failed > 0);
    let (first, _) = failure(&host, "r01-c003-2000-a");
    assert_eq!(
        first,
        [
            "net.core.rmem_max is 4711, but was 2000 when the level was set: something else \
             changes it"
        ]
    );
    // Not overwritten, but reported.
    assert!(!ended.outcome.restored.is_complete());
    assert_eq!(host.text(RMEM_MAX).as_deref(), Some("4711\n"));
}

#[test]
fn a_setting_that_another_sweep_has_claimed_ends_the_sweep() {
    let mut host = machine();
    let before = state(&host);
    host.claimed = Some(RMEM_MAX.into());
    let ended = session(PLAN).run(&mut host).unwrap();
    let abort = ended.outcome.abort.unwrap().to_string();
    assert_eq!(
        abort,
        "net.core.rmem_max: in use by another sweep: wait until that has ended"
    );
    assert_eq!((ended.outcome.failed, ended.outcome.left), (0, 8));
    assert!(ended.outcome.restored.is_complete());
    assert_eq!(state(&host), before);
}

#[test]
fn the_limit_of_failures_ends_a_sweep_which_can_be_resumed() {
    let with = |most: u32| format!("max_failures = {most}\n{PLAN}");
    for (most, failed) in [(1, 1), (5, 5), (0, 8)] {
        let mut host = machine();
        host.on_command("restart-it", |_, _| failing("stopping\nno unit\n"));
        let ended = session(&with(most)).run(&mut host).unwrap();
        assert_eq!(ended.outcome.failed, failed, "{:?}", ended.told);
        assert_eq!(ended.outcome.left, 8 - failed);
        assert_eq!(ended.outcome.abort.is_some(), failed < 8);
        let lines = " | stderr: stopping | stderr: no unit";
        assert!(
            ended.told.iter().any(|line| line.ends_with(lines)),
            "{:?}",
            ended.told
        );
        let resumed = Session {
            resume: true,
            ..session(PLAN)
        };
        host.on_command("restart-it", |_, _| succeeded(""));
        restore(&mut host, Path::new(JOURNALS), Conflicts::Report).unwrap();
        let ended = resumed.run(&mut host).unwrap();
        assert_eq!((ended.outcome.finished, ended.outcome.left), (8, 0));
    }
}

#[test]
fn every_level_is_tried_once_before_the_first_trial() {
    let mut host = machine();
    let end = Session {
        tries: true,
        ..session(PLAN)
    }
    .run(&mut host)
    .unwrap();
    let levels = |buffers: &str, conf: &str| {
        let set = |factor: &str, level: &str| Setting {
            factor: factor.to_owned(),
            level: level.to_owned(),
        };
        vec![set("buffers", buffers), set("conf", conf)]
    };
    let expected = [
        format!("try 1 of 2: {:?}", levels("1000", "a")),
        format!("try 2 of 2: {:?}", levels("2000", "b")),
        "trial 1 attempt 1".to_owned(),
    ];
    assert_eq!(end.told[..3], expected);
    assert_eq!((end.outcome.finished, kept(&host).len()), (8, 8));
}

#[test]
fn a_level_that_fails_its_try_ends_the_sweep_before_anything_is_measured() {
    let mut host = machine();
    let before = state(&host);
    let end = Session {
        tries: true,
        runs: RefCell::new([Err("no response".to_owned())].into()),
        ..session(PLAN)
    }
    .run(&mut host)
    .unwrap();
    assert!(
        end.told.contains(&"try 1 failed: no response".to_owned()),
        "{:?}",
        end.told
    );
    // The other one was tried all the same.
    assert!(end.told.iter().any(|line| line.starts_with("try 2 of 2")));
    let abort = end.outcome.abort.unwrap().to_string();
    assert!(abort.starts_with("1 first try failed"), "{abort}");
    assert_eq!((end.outcome.finished, end.outcome.left), (0, 8));
    assert!(kept(&host).is_empty());
    assert_eq!(state(&host), before);
}

#[test]
fn a_resumed_sweep_tries_nothing_again() {
    let mut host = machine();
    let interrupted = Session {
        ends_after: 3,
        ..session(PLAN)
    };
    interrupted.run(&mut host).unwrap();
    let end = Session {
        tries: true,
        resume: true,
        ..session(PLAN)
    }
    .run(&mut host)
    .unwrap();
    assert!(end.told.iter().all(|line| !line.starts_with("try")));
}

#[test]
fn a_fixed_design_ends_after_the_first_round_that_meets_its_rule() {
    /// Met by this number of trials.
    struct After(usize, Vec<u32>);
    impl StoppingRule for After {
        fn record(&mut self, trial: &Trial) {
            self.1.push(trial.position);
        }
        fn is_met(&self) -> bool {
            self.1.len() >= self.0
        }
    }
    let spec = Spec::parse(
        &LOAD_ONLY.replace("rounds = 2", "rounds = 9"),
        Path::new("/plans/plan.toml"),
    );
    let trials = Schedule::new(&spec.unwrap(), SEED).trials;
    // The rule is met in the middle of round 3, which is completed.
    let mut rule = After(5, Vec::new());
    let mut policy = Fixed::new(&trials).until(&mut rule);
    let mut made = 0;
    while let Some(planned) = policy.next() {
        assert_eq!(policy.next(), Some(planned.clone()));
        policy.record(&mut blank_trial(&planned));
        made += 1;
    }
    assert_eq!(made, 6);
    assert_eq!(policy.left(&|_| Duration::from_secs(1)), Left::default());
    assert_eq!(rule.1, (1..=6).collect::<Vec<u32>>());
}

#[test]
fn a_rule_limits_the_time_that_is_left_of_a_fixed_design() {
    /// Needs this number of further rounds, and has this budget, seconds.
    struct Needs(Option<usize>, Option<u64>);
    impl StoppingRule for Needs {
        fn record(&mut self, _: &Trial) {}
        fn is_met(&self) -> bool {
            false
        }
        fn rounds_left(&self) -> Option<usize> {
            self.0
        }
        fn budget_left(&self) -> Option<Duration> {
            self.1.map(Duration::from_secs)
        }
    }
    let spec = Spec::parse(
        &LOAD_ONLY.replace("rounds = 2", "rounds = 9"),
        Path::new("/plans/plan.toml"),
    );
    // Two trials in each of nine rounds, of 10 s each.
    let trials = Schedule::new(&spec.unwrap(), SEED).trials;
    for (needed, made, time, round) in [
        (None, 0, 180, 20),
        (None, 3, 150, 10),
        (Some(1), 0, 20, 20),
        (Some(3), 0, 60, 20),
        (Some(0), 2, 20, 20),
        (Some(1), 2, 20, 20),
        (Some(2), 3, 50, 10),
        (Some(99), 3, 150, 10),
    ] {
        let mut rule = Needs(needed, Some(70));
        let mut policy = Fixed::new(&trials).until(&mut rule);
        for _ in 0..made {
            let planned = policy.next().expect("it is not over");
            policy.record(&mut blank_trial(&planned));
        }
        let left = policy.left(&|_| Duration::from_secs(10));
        let limit = left.limit.expect("it may end early");
        let found = (left.time.as_secs(), limit.round.as_secs());
        assert_eq!(found, (time, round), "{needed:?} after {made}");
        assert_eq!(limit.budget, Some(Duration::from_secs(70)));
        assert_eq!(left.trials, 18 - made);
    }
    let without_rule = Fixed::new(&trials).left(&|_| Duration::from_secs(10));
    assert_eq!(
        (without_rule.time.as_secs(), without_rule.limit),
        (180, None)
    );
}

#[test]
fn a_setup_that_fails_ends_it_before_anything_is_changed() {
    let mut host = machine();
    host.on_command("set-up", |_, _| failing("no disk\n"));
    let ended = session(PLAN).run(&mut host).unwrap();
    let abort = ended.outcome.abort.unwrap().to_string();
    assert_eq!(abort, "setup: `set-up` failed with exit code 1: no disk");
    assert_eq!((ended.outcome.left, ended.outcome.finished), (8, 0));
    assert!(!host.log.iter().any(|line| line.starts_with("write ")));
    assert!(
        host.log
            .iter()
            .any(|line| line.starts_with("run tear-down"))
    );
}

#[test]
fn a_resumed_sweep_runs_what_is_left_and_nothing_twice() {
    let mut whole = machine();
    session(PLAN).run(&mut whole).unwrap();
    let all = finished(&whole);
    assert_eq!(all.len(), 8);
    for boundary in 0..=8 {
        let mut host = machine();
        let mut first = session(PLAN);
        first.ends_after = boundary;
        let ended = first.run(&mut host).unwrap();
        let made = u32::try_from(boundary).unwrap();
        assert_eq!(
            (ended.outcome.finished, ended.outcome.left),
            (made, 8 - made)
        );
        assert_eq!(ended.outcome.is_interrupted, boundary < 8);
        assert_eq!(state(&host), state(&machine()), "after {boundary}");
        let mut second = session(PLAN);
        second.resume = true;
        let ended = second.run(&mut host).unwrap();
        assert_eq!(ended.begun, 8 - boundary);
        assert_eq!(finished(&host), all, "after {boundary}");
        assert_eq!(state(&host), state(&machine()));
    }
}

#[test]
fn an_interrupted_run_is_not_a_trial() {
    let mut host = machine();
    let mut session = session(LOAD_ONLY);
    let mut cut = result();
    cut.window.interrupted = true;
    session.runs = RefCell::new(VecDeque::from([Ok(result()), Ok(cut)]));
    session.ends_after = 2;
    let ended = session.run(&mut host).unwrap();
    assert_eq!((ended.outcome.finished, ended.outcome.left), (1, 3));
    assert!(ended.outcome.is_interrupted);
    assert_eq!(kept(&host).len(), 1);
}

#[test]
fn failed_trials_and_damaged_files_are_repeated() {
    let mut host = machine();
    let mut first = session(LOAD_ONLY);
    let fail = || Err("refused".to_owned());
    first.runs = RefCell::new(VecDeque::from([fail(), fail()]));
    assert_eq!(first.run(&mut host).unwrap().outcome.failed, 1);
    let trial = |name: &str| PathBuf::from(format!("{RESULTS}/trials/{name}.json"));
    let whole = host.files[&trial("r01-c002-8")].clone();
    host.files
        .insert(trial("r01-c002-8"), whole[..whole.len() / 2].to_vec());
    let other = host.files[&trial("r02-c001-4")].clone();
    host.files.insert(trial("r02-c002-8"), other);
    let mut second = session(LOAD_ONLY);
    second.resume = true;
    let ended = second.run(&mut host).unwrap();
    assert_eq!((ended.begun, ended.outcome.finished), (3, 3));
    assert!(
        ended.told[0].contains("r01-c002-8.json: not a trial of a sweep"),
        "{:?}",
        ended.told
    );
    assert_eq!(
        ended.told[1],
        "trial r02-c002-8 belongs to another experiment; it will be repeated"
    );
    assert_eq!(finished(&host).len(), 4);
}

#[test]
fn a_folder_with_another_sweep_or_another_plan_is_left_alone() {
    let mut host = machine();
    session(LOAD_ONLY).run(&mut host).unwrap();
    let before = host.files.clone();
    let refusal = session(LOAD_ONLY).run(&mut host).err().unwrap();
    assert!(
        refusal.starts_with("/plans/testlogs holds results of \"load only\""),
        "{refusal}"
    );
    let changed = LOAD_ONLY.replace("[4, 8]", "[4, 9]");
    let mut other = session(&changed);
    other.resume = true;
    let refusal = other.run(&mut host).err().unwrap();
    assert!(
        refusal.ends_with("started: factor.1.connections: was [4, 8], is [4, 9]"),
        "{refusal}"
    );
    let fewer = LOAD_ONLY.replace("rounds = 2", "rounds = 1");
    let mut other = session(&fewer);
    other.resume = true;
    let refusal = other.run(&mut host).err().unwrap();
    assert!(refusal.contains("rounds: were 2, are 1"), "{refusal}");
    assert_eq!(host.files, before);
    // More rounds do not make it another experiment.
    let more = LOAD_ONLY.replace("rounds = 2", "rounds = 3");
    let mut other = session(&more);
    other.resume = true;
    assert_eq!(other.run(&mut host).unwrap().begun, 2);
    assert_eq!(finished(&host).len(), 6);
    // A file that cannot be understood must not be replaced.
    host.files
        .insert(format!("{RESULTS}/experiment.json").into(), b"{".to_vec());
    let refusal = session(LOAD_ONLY).run(&mut host).err().unwrap();
    assert!(
        refusal.contains("experiment.json: not a sweep"),
        "{refusal}"
    );
}

#[test]
fn if_results_cannot_be_saved_the_sweep_ends_and_restores_everything() {
    let mut host = machine();
    let trial = format!("{RESULTS}/trials/r01-c002-1000-b.json");
    host.read_only.insert(trial.clone().into());
    let ended = session(PLAN).run(&mut host).unwrap();
    let abort = ended.outcome.abort.unwrap().to_string();
    assert_eq!(abort, format!("cannot write {trial}: permission denied"));
    assert_eq!((ended.outcome.finished, ended.outcome.left), (1, 7));
    assert_eq!(state(&host), state(&machine()));
}

/// Two trials, to limit the number of moments.
fn short_plan() -> String {
    PLAN.replace("rounds = 2", "rounds = 1")
        .replace("[\"a\", \"b\"]", "[\"a\"]")
}

/// Counts the operations of an undisturbed sweep.
fn operations(plan: &str) -> usize {
    let mut host = machine();
    host.fail_at(usize::MAX, Failure::KilledBefore);
    session(plan).run(&mut host).unwrap();
    host.operations()
}

#[test]
fn whatever_operation_fails_the_machine_is_restored() {
    let plan = short_plan();
    for operation in 0..operations(&plan) {
        let mut host = machine();
        host.fail_at(operation, Failure::Error(io::ErrorKind::PermissionDenied));
        let Ok(ended) = session(&plan).run(&mut host) else {
            assert_eq!(state(&host), state(&machine()), "operation {operation}");
            continue;
        };
        let ExperimentOutcome {
            finished: made,
            failed,
            left,
            restored,
            abort,
            ..
        } = ended.outcome;
        assert_eq!(made + failed + left, 2, "operation {operation}");
        // A failure spoils one attempt, and the next one succeeds; or the sweep ends.
        assert!(failed == 0, "operation {operation}: {:?}", ended.told);
        assert_eq!(left > 0, abort.is_some(), "operation {operation}");
        assert_eq!(finished(&host).len(), usize::try_from(made).unwrap());
        if !restored.is_complete() {
            restore(&mut host, Path::new(JOURNALS), Conflicts::Report).unwrap();
        }
        assert_eq!(state(&host), state(&machine()), "operation {operation}");
    }
}

#[test]
fn killed_at_any_moment_it_is_restored_and_resumed_and_has_every_trial_once() {
    let plan = short_plan();
    let mut whole = machine();
    session(&plan).run(&mut whole).unwrap();
    for operation in 0..operations(&plan) {
        for failure in [Failure::KilledBefore, Failure::KilledWithin(500)] {
            let mut host = machine();
            host.fail_at(operation, failure);
            let _ = session(&plan).run(&mut host);
            host.revive();
            restore(&mut host, Path::new(JOURNALS), Conflicts::Report).unwrap();
            assert_eq!(state(&host), state(&machine()), "operation {operation}");
            let mut second = session(&plan);
            second.resume = host.files.contains_key(Path::new(EXPERIMENT_FILE));
            let ended = second.run(&mut host).unwrap();
            assert_eq!(
                ended.outcome.failed + ended.outcome.left,
                0,
                "operation {operation}"
            );
            assert_eq!(finished(&host), finished(&whole), "operation {operation}");
            assert_eq!(state(&host), state(&machine()), "operation {operation}");
        }
    }
}
