//! Experiments that change other machines: what is changed where, and that every machine is as
//! before, however the experiment ends.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use experiment::fake::{Fake, Files};
use experiment::{
    Abort, Change, CommandOutput, Conflicts, Effective, ExperimentContext, ExperimentOutcome,
    ExperimentRun, Fixed, HostCall, HostFacts, HostFailure, HostResult, HostReturn, HostSession,
    Link, LinkLost, PreparedExperiment, RemoteHost, RemoteHosts, ResumeOptions, Spec, Store,
    Transaction, begin_on_all, restore, run,
};
use plan::{RunPlan, Target};
use results::{RunResult, Trial, Window};

const JOURNALS: &str = "/var/lib/wrkbench/restore";
const RMEM_MAX: &str = "/proc/sys/net/core/rmem_max";
const CONF: &str = "/etc/server.conf";

/// Two levels of each kind of factor on another machine, and a hook of each kind.
const PLAN: &str = r#"
name = "the server's side"
rounds = 1
results = "testlogs"
order = "sequential"
retries = 0

[[target]]
name = "t"
url = "http://h/"

[[factor]]
name = "buffers"
host = "db1"
sysctl = "net.core.rmem_max"
levels = [4000, 8000]

[[factor]]
name = "conf"
host = "db1"
file = "/etc/server.conf"
template = "server.tmpl"
check = "check-it"
levels = ["a", "b"]

[[factor]]
name = "mtu"
host = "db1"
apply = "set-mtu"
restore = "reset-mtu"
levels = [9000]

[hooks]
setup = { run = "set-up", host = "db1" }
restart = { run = "restart-it", host = "db1" }
before = "look-here"
after = { run = "look-there", host = "db1" }
"#;

fn other_machine() -> Fake {
    let mut host = Fake::with(&[
        (RMEM_MAX, "212992\n"),
        (CONF, "original\n"),
        ("/made-up/mtu", "1500"),
        ("/proc/loadavg", "0.50 0.40 0.30 2/345 6789\n"),
    ]);
    host.host_name = "beta".to_owned();
    host.on_command("set-mtu", |files, environment| {
        files.insert("/made-up/mtu".into(), environment["LEVEL"].clone().into());
        succeeded()
    });
    host.on_command("reset-mtu", |files, _| {
        files.insert("/made-up/mtu".into(), b"1500".to_vec());
        succeeded()
    });
    // A service that reads the setting when it starts.
    host.on_command("restart-it", |files, _| {
        let now = files.get(Path::new(RMEM_MAX)).cloned().unwrap_or_default();
        files.insert("/made-up/service".into(), now);
        succeeded()
    });
    host
}

fn succeeded() -> CommandOutput {
    CommandOutput {
        exit_code: Some(0),
        ..CommandOutput::default()
    }
}

fn this_machine() -> Fake {
    Fake::with(&[
        ("/plans/server.tmpl", "level {{level}}\n"),
        (RMEM_MAX, "5\n"),
    ])
}

/// When a link dies.
#[derive(Clone, Copy, Default)]
struct Death {
    /// The number of the call, from 0.
    at: Option<usize>,
    /// The call was carried out, but its reply is lost.
    is_after: bool,
}

/// A machine elsewhere. All that is said goes through JSON.
struct Wire {
    machine: Rc<RefCell<Fake>>,
    session: HostSession,
    calls: Rc<Cell<usize>>,
    death: Death,
    is_dead: bool,
}

impl Link for Wire {
    fn call(&mut self, call: &HostCall, _: &mut dyn FnMut()) -> Result<HostResult, LinkLost> {
        let number = self.calls.replace(self.calls.get() + 1);
        let dies = self.death.at == Some(number);
        if self.is_dead || dies && !self.death.is_after {
            self.is_dead = true;
            return Err(LinkLost::new("the link is lost"));
        }
        let call = serde_json::from_slice(&serde_json::to_vec(call).unwrap()).unwrap();
        let result = self
            .session
            .carry_out(&mut *self.machine.borrow_mut(), call);
        if dies {
            self.is_dead = true;
            return Err(LinkLost::new("the link is lost"));
        }
        Ok(serde_json::from_slice(&serde_json::to_vec(&result).unwrap()).unwrap())
    }

    fn lost(&self) -> Option<LinkLost> {
        self.is_dead.then(|| LinkLost::new("the link is lost"))
    }
}

struct Lab {
    here: Fake,
    there: BTreeMap<&'static str, Rc<RefCell<Fake>>>,
    calls: Rc<Cell<usize>>,
    death: Death,
}

impl Lab {
    fn new(names: &[&'static str]) -> Self {
        let machine = |name: &&'static str| (*name, Rc::new(RefCell::new(other_machine())));
        Self {
            here: this_machine(),
            there: names.iter().map(machine).collect(),
            calls: Rc::default(),
            death: Death::default(),
        }
    }

    fn hosts(&self) -> RemoteHosts {
        let hosts = self.there.iter().map(|(name, machine)| {
            let wire = Wire {
                machine: Rc::clone(machine),
                session: HostSession::new(JOURNALS.into()),
                calls: Rc::clone(&self.calls),
                death: self.death,
                is_dead: false,
            };
            let host = RemoteHost::new(name, Box::new(wire));
            ((*name).to_owned(), host.expect("it says what it is"))
        });
        hosts.collect()
    }

    /// Runs an experiment; `during` is called in each run.
    fn run(&mut self, plan: &str, during: &mut dyn FnMut(usize)) -> ExperimentOutcome {
        let spec = Spec::parse(plan, Path::new("/plans/plan.toml")).unwrap();
        let options = ResumeOptions {
            seed: Some(7),
            ..ResumeOptions::default()
        };
        let mut others = self.hosts();
        let prepared = PreparedExperiment::new(spec, options, &self.here).unwrap();
        let host = &mut self.here;
        let transaction = Transaction::begin(host, JOURNALS.as_ref(), &prepared.spec.name).unwrap();
        let begun = begin_on_all(&mut others, &prepared.spec.name);
        if let Err(error) = begun {
            let restored = transaction.restore_all(host);
            return ExperimentOutcome {
                finished: 0,
                failed: 0,
                left: 0,
                is_interrupted: false,
                is_out_of_time: false,
                abort: Some(Abort::Safety(error)),
                restored,
                restored_elsewhere: BTreeMap::new(),
                teardown_failure: None,
            };
        }
        prepared.begin(host).unwrap();
        let made = Cell::new(0);
        run(
            ExperimentRun {
                spec: &prepared.spec,
                experiment: &prepared.experiment,
                done: prepared.done(),
                deadline_ns: None,
                tries: &[],
                sysctls: &[],
                nominal: &|_| Duration::from_secs(10),
                keeps_samples: true,
            },
            &mut Fixed::new(&prepared.remaining.trials),
            transaction,
            ExperimentContext {
                host,
                others: &mut others,
                store: &prepared.store,
                run_one: &mut |_| {
                    made.set(made.get() + 1);
                    during(made.get());
                    Ok(result())
                },
                observer: &mut |_| {},
                is_interrupted: &|| false,
                was_suspended: &|| false,
            },
        )
    }

    fn there(&self, name: &str) -> std::cell::RefMut<'_, Fake> {
        self.there[name].borrow_mut()
    }

    fn trials(&self) -> Vec<Trial> {
        let store = Store::at("/plans/testlogs");
        let names = self.here.files.keys().filter_map(|path| {
            let name = path.strip_prefix(store.trials_folder()).ok()?.to_str()?;
            name.strip_suffix(".json").map(str::to_owned)
        });
        names
            .map(|name| store.trial(&self.here, &name).unwrap().unwrap())
            .collect()
    }
}

fn result() -> RunResult {
    let plan = RunPlan::new(Target::parse("http://h/").unwrap());
    RunResult::new(plan, Window::default())
}

/// The settings and files that an experiment changes.
fn state(machine: &Fake) -> Files {
    let mut files = machine.files.clone();
    files.retain(|path, _| path != Path::new("/made-up/service") && !path.ends_with("lock"));
    files
}

#[test]
fn a_factor_changes_the_machine_that_it_names_and_no_other() {
    let mut lab = Lab::new(&["db1"]);
    let machine = Rc::clone(&lab.there["db1"]);
    let before = state(&machine.borrow());
    let mut seen = Vec::new();
    let outcome = lab.run(PLAN, &mut |_| {
        let machine = machine.borrow();
        seen.push((
            machine.text(RMEM_MAX).unwrap().trim().to_owned(),
            machine.text(CONF).unwrap().trim().to_owned(),
            machine.text("/made-up/mtu").unwrap(),
            machine.text("/made-up/service").unwrap().trim().to_owned(),
        ));
    });
    assert!(outcome.abort.is_none(), "{:?}", outcome.abort);
    assert_eq!((outcome.finished, outcome.failed), (4, 0));
    let expected = |rmem: &str, conf: &str| {
        let level = format!("level {conf}");
        (rmem.to_owned(), level, "9000".to_owned(), rmem.to_owned())
    };
    assert_eq!(
        seen,
        [
            expected("4000", "a"),
            expected("4000", "b"),
            expected("8000", "a"),
            expected("8000", "b"),
        ]
    );
    assert_eq!(lab.here.text(RMEM_MAX).as_deref(), Some("5\n"));
    let there = lab.there("db1");
    assert_eq!(state(&there), before);
    assert!(!there.has_guardian && !there.is_locked);
    // The service was restarted with the old setting.
    assert_eq!(there.text("/made-up/service").as_deref(), Some("212992\n"));
    assert!(outcome.restored.steps.is_empty());
    let steps: Vec<String> = outcome.restored_elsewhere["db1"]
        .steps
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        steps,
        [
            "db1: command \"mtu\": restored",
            "db1: /etc/server.conf: restored",
            "db1: net.core.rmem_max is 212992 again",
            "db1: restart hook: has run",
        ]
    );
}

#[test]
fn values_of_another_machine_are_saved_with_its_name() {
    let mut lab = Lab::new(&["db1"]);
    let outcome = lab.run(PLAN, &mut |_| {});
    assert_eq!(outcome.finished, 4);
    let trials = lab.trials();
    let trial = trials.last().unwrap();
    assert_eq!(trial.effective["db1:net.core.rmem_max"], "8000");
    assert_eq!(trial.environment_before["db1:load_1m"], "0.50");
    assert_eq!(trial.environment_before["db1:net.core.rmem_max"], "8000");
    let hooks: Vec<&str> = trials[0]
        .hooks
        .iter()
        .map(|hook| hook.hook.as_str())
        .collect();
    assert_eq!(
        hooks,
        [
            "check of conf on db1",
            "apply",
            "restart on db1",
            "before",
            "after on db1"
        ]
    );
    let there = lab.there("db1");
    let after = there.log.iter().find(|line| line.contains("look-there"));
    let after = after.unwrap();
    // The folder of the experiment file is not on that machine.
    assert!(!after.contains("WRKBENCH_PLAN_DIR"), "{after}");
    assert!(after.contains("WRKBENCH_BUFFERS=4000"), "{after}");
    let here = lab.here.log.iter().find(|line| line.contains("look-here"));
    assert!(here.unwrap().contains("WRKBENCH_PLAN_DIR"));
}

const SAME_SETTING: &str = r#"
name = "two machines"
rounds = 1
results = "testlogs"
order = "sequential"

[[target]]
name = "t"
url = "http://h/"

[[factor]]
name = "here"
sysctl = "net.core.rmem_max"
levels = [10, 20]

[[factor]]
name = "first"
host = "db1"
sysctl = "net.core.rmem_max"
levels = [100]

[[factor]]
name = "second"
host = "db2"
sysctl = "net.core.rmem_max"
levels = [1000]

[hooks]
restart = "restart-here"
"#;

#[test]
fn the_same_setting_on_several_machines_has_several_values() {
    let mut lab = Lab::new(&["db1", "db2"]);
    let outcome = lab.run(SAME_SETTING, &mut |_| {});
    assert_eq!((outcome.finished, outcome.failed), (2, 0));
    let trials = lab.trials();
    let effective: Vec<_> = trials[1].effective.iter().collect();
    let text = |text: &str| text.to_owned();
    assert_eq!(
        effective,
        [
            (&text("db1:net.core.rmem_max"), &text("100")),
            (&text("db2:net.core.rmem_max"), &text("1000")),
            (&text("net.core.rmem_max"), &text("20")),
        ]
    );
    assert_eq!(lab.here.text(RMEM_MAX).as_deref(), Some("5\n"));
    for name in ["db1", "db2"] {
        assert_eq!(lab.there(name).text(RMEM_MAX).as_deref(), Some("212992\n"));
    }
}

#[test]
fn a_restart_hook_here_runs_after_the_other_machines_are_restored() {
    let mut lab = Lab::new(&["db1"]);
    let plan = SAME_SETTING
        .replace(
            "[[factor]]\nname = \"here\"",
            "[[factor]]\nname = \"here\"\nhost = \"db1\"",
        )
        .replace(
            "net.core.rmem_max\"\nlevels = [10, 20]",
            "net.core.wmem_max\"\nlevels = [10, 20]",
        )
        .replace("db2", "db1")
        .replace(
            "\"net.core.rmem_max\"\nlevels = [1000]",
            "\"net.core.optmem_max\"\nlevels = [9]",
        );
    for path in ["wmem_max", "optmem_max"] {
        let path = Path::new("/proc/sys/net/core").join(path);
        lab.there("db1").files.insert(path, b"7\n".to_vec());
    }
    let outcome = lab.run(&plan, &mut |_| {});
    assert_eq!((outcome.finished, outcome.failed), (2, 0));
    let last = lab.here.log.last().map(String::as_str).unwrap_or_default();
    assert!(last.starts_with("run restart-here"), "{last}");
    let steps: Vec<String> = outcome
        .restored
        .steps
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(steps, ["restart hook: has run"]);
}

/// What the guardian of the other machine does when the coordinator or the link has died.
fn guardian_restores(machine: &mut Fake) {
    machine.revive();
    restore(machine, Path::new(JOURNALS), Conflicts::Report).unwrap();
}

#[test]
fn a_link_that_dies_in_any_call_leaves_the_machine_as_it_was() {
    let calls = {
        let mut lab = Lab::new(&["db1"]);
        lab.run(PLAN, &mut |_| {});
        lab.calls.get()
    };
    assert!(calls > 20, "{calls}");
    // The first call is that of `RemoteHost::new`.
    for at in 1..calls {
        for is_after in [false, true] {
            let mut lab = Lab::new(&["db1"]);
            lab.death = Death {
                at: Some(at),
                is_after,
            };
            let before = state(&lab.there("db1"));
            let outcome = lab.run(PLAN, &mut |_| {});
            let complete = outcome.restored_elsewhere.get("db1");
            if at + 1 < calls {
                let abort = outcome.abort.as_ref().map(ToString::to_string);
                let is_said = abort
                    .as_deref()
                    .is_some_and(|it| it.contains("the link is lost"));
                let is_restoring = complete.is_some_and(|report| !report.is_complete());
                assert!(is_said || is_restoring, "call {at}: {abort:?}");
            }
            let mut there = lab.there("db1");
            guardian_restores(&mut there);
            assert_eq!(state(&there), before, "call {at}, after: {is_after}");
        }
    }
}

#[test]
fn a_run_during_which_the_link_was_lost_does_not_count() {
    let mut lab = Lab::new(&["db1"]);
    // The calls before the end of the first run.
    let before_end = Rc::new(Cell::new(0));
    let (noted, calls) = (Rc::clone(&before_end), Rc::clone(&lab.calls));
    lab.run(PLAN, &mut |run| {
        if run == 1 {
            noted.set(calls.get());
        }
    });
    let mut lab = Lab::new(&["db1"]);
    lab.death.at = Some(before_end.get());
    let outcome = lab.run(PLAN, &mut |_| {});
    assert_eq!((outcome.finished, outcome.failed), (0, 0));
    assert_eq!(outcome.left, 4);
    let abort = outcome.abort.unwrap().to_string();
    assert_eq!(abort, "db1: the link is lost");
    let step = outcome.restored_elsewhere["db1"].steps[0].to_string();
    assert_eq!(step, "db1: NOT restored: the link is lost");
}

#[test]
fn an_unfinished_sweep_there_is_refused_before_anything_is_changed() {
    let mut lab = Lab::new(&["db1", "db2"]);
    let mut earlier = Lab::new(&["db2"]);
    earlier.death.at = Some(12);
    earlier.there = BTreeMap::from([("db1", Rc::clone(&lab.there["db2"]))]);
    earlier.run(PLAN, &mut |_| {});
    lab.there("db2").revive();
    let changed = state(&lab.there("db2"));
    let outcome = lab.run(SAME_SETTING, &mut |_| {});
    let abort = outcome.abort.unwrap().to_string();
    assert!(
        abort.starts_with("db2: an earlier sweep of \"the server's side\" (")
            && abort.ends_with("run `wrkbench restore --journal /var/lib/wrkbench/restore` first"),
        "{abort}"
    );
    assert_eq!(state(&lab.there("db2")), changed);
    assert!(!lab.there("db1").is_locked);
    assert_eq!(lab.there("db1").text(RMEM_MAX).as_deref(), Some("212992\n"));
}

fn problems(plan: &str, mut lab: Lab) -> (Vec<String>, String) {
    let spec = Spec::parse(plan, Path::new("/plans/plan.toml")).unwrap();
    let options = ResumeOptions {
        seed: Some(7),
        ..ResumeOptions::default()
    };
    let mut others = lab.hosts();
    let prepared = PreparedExperiment::new(spec, options, &lab.here).unwrap();
    let found = prepared.preflight(&mut lab.here, &mut others, None, &mut |_| {
        Ok(RunPlan::new(Target::parse("http://h/").unwrap()))
    });
    (found.problems, found.text)
}

#[test]
fn the_description_says_what_is_changed_where() {
    let (problems, text) = problems(PLAN, Lab::new(&["db1"]));
    assert_eq!(problems, Vec::<String>::new());
    for line in [
        "db1: net.core.rmem_max: now 212992, levels 4000, 8000",
        "db1: /etc/server.conf: now 9 bytes, made from /plans/server.tmpl, levels a, b",
        "db1: mtu: by its command, levels 9000",
        "db1: restart: restart-it   (after a level was changed",
        "db1: mtu, apply: set-mtu",
        "before: look-here",
    ] {
        assert!(text.contains(&format!("\n  {line}")), "{line}:\n{text}");
    }
}

#[test]
fn problems_name_the_machine_that_has_them() {
    let plan = PLAN
        .replace("[4000, 8000]", "[4000, 1]")
        .replace("set-mtu", "nothing");
    let lab = Lab::new(&["db1"]);
    lab.there("db1")
        .missing_programs
        .insert("nothing".to_owned());
    lab.there("db1").root = false;
    let (problems, _) = problems(&plan, lab);
    assert_eq!(
        problems,
        [
            "/plans/plan.toml:12: db1: net.core.rmem_max: only root may set it: start the agent \
             there as root",
            "/plans/plan.toml:16: db1: net.core.rmem_max: 1 is below the kernel's minimum of 2048",
            "/plans/plan.toml:26: db1: apply of mtu: program nothing not found",
        ]
    );
}

#[test]
fn a_machine_that_nobody_serves_is_a_problem() {
    let (problems, text) = problems(PLAN, Lab::new(&[]));
    assert_eq!(
        problems,
        [
            "/plans/plan.toml:12: host db1: needs an agent on that machine: give --fleet \
             nats://HOST (docs/fleet.md)"
        ]
    );
    assert!(
        text.contains("db1: net.core.rmem_max: now unknown"),
        "{text}"
    );
}

/// A machine that says what could control a terminal.
struct Forged;

impl Link for Forged {
    fn call(&mut self, call: &HostCall, _: &mut dyn FnMut()) -> Result<HostResult, LinkLost> {
        let evil = "a\x1b[2J\nb".to_owned();
        Ok(match call {
            HostCall::Facts => Ok(HostReturn::Facts(HostFacts {
                is_root: true,
                restore: evil,
            })),
            HostCall::Change { .. } => Ok(HostReturn::Changed(Effective {
                value: Some(evil),
                output: None,
            })),
            HostCall::Observe { .. } => Ok(HostReturn::Observed([(evil.clone(), evil)].into())),
            _ => Err(HostFailure::Refused {
                text: evil,
                ends_sweep: false,
            }),
        })
    }

    fn lost(&self) -> Option<LinkLost> {
        None
    }
}

#[test]
fn what_another_machine_says_cannot_control_the_terminal() {
    let mut host = RemoteHost::new("db1", Box::new(Forged)).unwrap();
    let change = Change::Sysctl {
        key: "net.core.rmem_max".to_owned(),
        value: "1".to_owned(),
    };
    let facts = host.facts().clone();
    let observed = host.observe(Vec::new());
    let report = host.restore_all();
    let mut said = vec![facts.restore];
    said.extend(observed.into_iter().flat_map(|(name, value)| [name, value]));
    said.extend(report.steps.iter().map(ToString::to_string));
    said.extend(host.change(&change).unwrap().value);
    said.push(host.begin("x").unwrap_err().to_string());
    assert_eq!(said.len(), 6);
    for text in said {
        assert!(text.contains("a?[2J b"), "{text:?}");
    }
}

#[test]
fn a_factor_without_a_name_is_called_after_its_machine_and_what_it_sets() {
    let text = "name = 'n'\n[[target]]\nname = 't'\nurl = 'http://h/'\n[[factor]]\n\
                sysctl = 'net.core.rmem_max'\nlevels = [1, 2]\n[[factor]]\nhost = 'db1'\n\
                sysctl = 'net.core.rmem_max'\nlevels = [1, 2]\n";
    let spec = Spec::parse(text, Path::new("/plans/p.toml")).unwrap();
    let names: Vec<&str> = spec.factors.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["net.core.rmem_max", "db1:net.core.rmem_max"]);
}

#[test]
fn a_host_is_refused_where_it_makes_no_sense() {
    let parse = |factor: &str| {
        let text = format!(
            "name = 'n'\n[[target]]\nname = 't'\nurl = 'http://h/'\n[[factor]]\n{factor}\n"
        );
        Spec::parse(&text, Path::new("/plans/p.toml"))
            .unwrap_err()
            .to_string()
    };
    for (factor, expected) in [
        (
            "name = 'c'\nhost = 'db1'\noption = 'connections'\nlevels = [1, 2]",
            "[[factor]] c: an option of the load has no host: the agents make the load",
        ),
        (
            "name = 'c'\nhost = 'db1'\nfile = 'a.conf'\ntemplate = 'a.tmpl'\nlevels = [1, 2]",
            "[[factor]] c: file must be an absolute path: it is on another machine",
        ),
        (
            "name = 'c'\nhost = 'db.1'\nsysctl = 'net.core.rmem_max'\nlevels = [1, 2]",
            "\"db.1\" is not the name of an agent (at most 64 letters, digits, - and _)",
        ),
    ] {
        let said = parse(factor);
        assert!(said.contains(expected), "{said}");
    }
}
