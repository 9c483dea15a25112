//! Experiments: trials run, the machine is restored, results are saved.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use results::{Trial, TrialOutcome};
use testkit::{Output, Process, eventually};

use crate::harness::{Call, Site, io, program, site};
use crate::judge;

/// An experiment in its own folder that varies a load option and a file.
struct Experiment<'a> {
    site: &'a Site,
    folder: PathBuf,
}

const ORIGINAL: &str = "as it was\n";

impl<'a> Experiment<'a> {
    fn new(site: &'a Site) -> Self {
        let folder = PathBuf::from(site.folder.file("plan"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("server.conf"), ORIGINAL).unwrap();
        fs::write(folder.join("server.tmpl"), "level {{level}}\n").unwrap();
        Self { site, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The experiment file with more lines. `{...}` are the folder and the server.
    fn plan(&self, more: &str) -> String {
        let load = io().map_or_else(String::new, |io| format!("io = {io:?}\n"));
        let folder = self.folder.display();
        format!(
            "name = 'try'\nseed = 7\nrounds = 2\nresults = 'results'\n\
             [load]\nthreads = 1\nrequests = 200\n{load}\
             [[target]]\nname = 'origin'\nurl = '{}'\n\
             [[factor]]\nconnections = [2, 4]\n\
             [[factor]]\nname = 'conf'\nfile = '{folder}/server.conf'\n\
             template = 'server.tmpl'\nlevels = ['a', 'b']\n{more}\n",
            self.site.url("/")
        )
    }

    /// A sweep of the plan with these arguments, which starts with its first trial.
    fn start(&self, plan: &str, arguments: &[&str]) -> Process {
        self.start_with_tries(plan, &[&["--no-try"], arguments].concat())
    }

    fn start_with_tries(&self, plan: &str, arguments: &[&str]) -> Process {
        Process::start(self.command(plan, arguments))
    }

    /// What starts no trial, without a process.
    fn call(&self, plan: &str, arguments: &[&str]) -> Output {
        Call::of(&self.command(plan, arguments)).finish()
    }

    fn command(&self, plan: &str, arguments: &[&str]) -> Command {
        let path = self.path("plan.toml");
        fs::write(&path, plan).unwrap();
        let mut command = program(&["sweep", path.to_str().unwrap()]);
        if !arguments.contains(&"--journal") {
            command.arg("--journal").arg(self.path("journal"));
        }
        command.args(arguments);
        command
    }

    fn run(&self, plan: &str, arguments: &[&str]) -> Output {
        self.start(plan, arguments).finish()
    }

    fn trial_files(&self) -> BTreeMap<String, Vec<u8>> {
        let Ok(entries) = fs::read_dir(self.path("results/trials")) else {
            return BTreeMap::new();
        };
        let files = entries.map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        files
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "json")
            })
            .filter(|path| !name(path).starts_with('.'))
            .map(|path| (name(&path), fs::read(&path).unwrap()))
            .collect()
    }

    fn trials(&self) -> Vec<Trial> {
        let files = self.trial_files().into_values();
        files.map(|document| judge::trial(&document)).collect()
    }

    /// Waits until this number of trials is saved.
    fn await_trials(&self, count: usize) {
        eventually(|| match self.trial_files().len() {
            kept if kept >= count => Ok(()),
            kept => Err(format!("{kept} trials of {count}")),
        });
    }

    /// Waits until another process has restored everything.
    fn await_restored(&self) {
        eventually(|| {
            let conf = self.text("server.conf");
            let is_left = self.path("journal/journal").exists();
            if conf == ORIGINAL && !is_left {
                Ok(())
            } else {
                Err(format!("{conf:?}, journal: {is_left}"))
            }
        });
    }
}

/// The names of trials of the plan above.
const NAMES: [&str; 8] = [
    "r01-c001-2-a.json",
    "r01-c002-2-b.json",
    "r01-c003-4-a.json",
    "r01-c004-4-b.json",
    "r02-c001-2-a.json",
    "r02-c002-2-b.json",
    "r02-c003-4-a.json",
    "r02-c004-4-b.json",
];

#[test]
fn a_sweep_runs_and_restores_everything() {
    let site = site();
    let experiment = Experiment::new(&site);
    let folder = experiment.folder.display();
    let plan = experiment.plan(&format!(
        "[hooks]\nrestart = 'cat {folder}/server.conf >> {folder}/log'\n\
         before = 'echo $WRKBENCH_CONF $WRKBENCH_CONNECTIONS'\n\
         ready = {{ within = '10s' }}\n[telemetry]\nsockets = true\ninterval = '10ms'\ncounters = \
         true"
    ));
    let output = experiment.run(&plan, &[]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let files = experiment.trial_files();
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        NAMES.iter().collect::<Vec<_>>()
    );
    for trial in experiment.trials() {
        let TrialOutcome::Finished(result) = &trial.outcome else {
            panic!("{trial:?}");
        };
        let [connections, conf] = [0, 1].map(|at| trial.cell.settings[at].level.as_str());
        assert_eq!(result.plan.load.connections.to_string(), connections);
        assert_eq!(result.recording.counters.answered, 200);
        assert!(result.telemetry.is_some());
        let before = trial
            .hooks
            .iter()
            .find(|hook| hook.hook == "before")
            .unwrap();
        assert_eq!(before.stdout, format!("{conf} {connections}\n"));
        let samples = trial.samples_file.unwrap();
        let samples = experiment.path("results/trials").join(samples);
        let lines = zstd::stream::decode_all(fs::File::open(samples).unwrap()).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        assert!(
            lines.starts_with("{\"time\":\"") && lines.ends_with("}\n"),
            "{lines}"
        );
        assert!(trial.environment_before.contains_key("net.core.somaxconn"));
    }
    // Everybody may read results, as usual for files of the user.
    let mode = |name: &str| {
        let metadata = fs::metadata(experiment.path(name)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode("results/trials"), mode("."));
    assert_eq!(mode("results/experiment.json"), mode("plan.toml"));
    assert_eq!(mode("results/trials/r01-c001-2-a.json"), mode("plan.toml"));
    let announced = output
        .stderr
        .matches(" note: the samples of this run take ");
    assert_eq!(announced.count(), 1, "{}", output.stderr);
    // A row for each run, and a sentence for each factor.
    let has_table = |line: &str| line.starts_with("connections  n  requests/s");
    assert!(output.stdout.lines().any(has_table), "{}", output.stdout);
    assert!(
        output.stdout.contains("\nEvery run: wrkbench table "),
        "{}",
        output.stdout
    );
    let says = |factor: &str| output.stdout.lines().any(|line| line.starts_with(factor));
    assert!(says("connections: ") && says("conf: "), "{}", output.stdout);
    // Each restart found its level; the last one found the original value.
    let log = experiment.text("log");
    assert!(
        log.lines()
            .all(|line| ["level a", "level b", "as it was"].contains(&line))
    );
    assert_eq!(log.lines().last(), Some("as it was"));
    assert_eq!(experiment.text("server.conf"), ORIGINAL);
    for line in [
        "experiment: try",
        "[1/8] round 1/2, connections ",
        "[8/8] round 2/2, ",
        "restored",
    ] {
        assert!(output.stderr.contains(line), "{line}: {}", output.stderr);
    }
}

#[test]
fn a_dry_run_prints_the_plan_and_changes_nothing() {
    let site = site();
    let experiment = Experiment::new(&site);
    let plan = experiment.plan("[hooks]\nrestart = 'touch restarted'");
    let output = experiment.call(&plan, &["--dry-run", "--seed", "5"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    for line in [
        "8 (4 cells x 2 rounds)",
        "seed 5",
        "round 2: cells ",
        "touch restarted",
    ] {
        assert!(output.stdout.contains(line), "{line}: {}", output.stdout);
    }
    assert_eq!(experiment.text("server.conf"), ORIGINAL);
    let mut names: Vec<_> = fs::read_dir(&experiment.folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["plan.toml", "server.conf", "server.tmpl"]);
}

#[test]
fn all_mistakes_are_reported_at_once_and_nothing_starts() {
    let site = site();
    let experiment = Experiment::new(&site);
    let plan = experiment
        .plan("[hooks]\nrestart = 'no-such-program-anywhere'")
        .replace("threads = 1", "threads = 1\ntimeout = 'soon'")
        .replace("'server.tmpl'", "'nowhere.tmpl'");
    let output = experiment.call(&plan, &["-q"]);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(1), ""),
        "{output:?}"
    );
    for reason in ["--timeout", "no-such-program-anywhere", "nowhere.tmpl"] {
        let lines = output.stderr.lines().filter(|line| line.contains(reason));
        assert_eq!(lines.count(), 1, "{reason}: {}", output.stderr);
    }
    assert!(!experiment.path("results").exists() && !experiment.path("journal/journal").exists());
    let output = experiment.call("name = 'x'\nround = 3\n", &[]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("plan.toml:2: "), "{}", output.stderr);
}

#[test]
fn a_killed_sweep_is_restored_by_another_process_and_resumed() {
    let site = site();
    let experiment = Experiment::new(&site);
    // From the third run on the hook waits.
    let folder = experiment.folder.display();
    let plan = experiment.plan(&format!(
        "[hooks]\nbefore = 'echo x >> {folder}/count; \
         test $(wc -l < {folder}/count) -lt 3 || test -e {folder}/go || sleep 60'"
    ));
    let process = experiment.start(&plan, &[]);
    experiment.await_trials(2);
    eventually(|| match experiment.text("count").lines().count() {
        3 => Ok(()),
        count => Err(format!("{count} hooks")),
    });
    assert_ne!(experiment.text("server.conf"), ORIGINAL);
    process.signal("KILL");
    assert_eq!(process.finish().code, None);
    experiment.await_restored();
    let before = experiment.trial_files();
    assert_eq!(before.len(), 2);
    // What a kill while writing would leave.
    let torn = experiment.path("results/trials/.r02-c001-2-a.json.wrkbench-new");
    fs::write(torn, "{").unwrap();
    fs::write(experiment.path("go"), "").unwrap();

    let refused = experiment.run(&plan, &["-q"]);
    assert!(refused.only_line().contains("--resume"), "{refused:?}");
    let output = experiment.run(&plan, &["--resume"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let after = experiment.trial_files();
    assert_eq!(
        after.keys().collect::<Vec<_>>(),
        NAMES.iter().collect::<Vec<_>>()
    );
    assert!(before.iter().all(|(name, content)| after[name] == *content));
    assert_eq!(experiment.text("server.conf"), ORIGINAL);
    // Nothing is left to do, and that is no failure: nothing is changed, and the table is
    // shown.
    let hooks = experiment.text("count");
    let output = experiment.run(&plan, &["--resume"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("\nconnections  n  "), "{output:?}");
    assert_eq!(experiment.text("count"), hooks);
}

#[test]
fn a_signal_ends_the_current_run_and_everything_is_restored() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let site = site();
        let experiment = Experiment::new(&site);
        let plan = experiment
            .plan("")
            .replace("requests = 200", "duration = '30s'")
            .replace("rounds = 2", "rounds = 1");
        let process = experiment.start(&plan, &[]);
        site.await_counts("the load has begun", |counts| counts.requests > 100);
        process.signal(signal);
        let output = process.finish();
        assert_eq!(output.code, Some(code), "{output:?}");
        assert!(
            output
                .stderr
                .contains("4 trials are left; resume with `wrkbench sweep "),
            "{}",
            output.stderr
        );
        assert_eq!(experiment.text("server.conf"), ORIGINAL);
        assert_eq!(experiment.trial_files().len(), 0);
    }
}

/// The text of an experiment, and its sweep, which waits in a hook.
fn waiting_in_hook(experiment: &Experiment<'_>) -> (String, Process) {
    let folder = experiment.folder.display();
    let plan = experiment.plan(&format!(
        "[hooks]\nbefore = 'touch {folder}/waiting; sleep 60'"
    ));
    let sweep = experiment.start(&plan, &[]);
    eventually(|| {
        let is_there = experiment.path("waiting").exists();
        is_there.then_some(()).ok_or_else(|| "no hook".to_owned())
    });
    (plan, sweep)
}

#[test]
fn a_second_signal_ends_the_sweep_and_another_process_restores() {
    let site = site();
    let experiment = Experiment::new(&site);
    let (_, process) = waiting_in_hook(&experiment);
    process.signal("INT");
    process.signal("INT");
    // The two signals may have been merged.
    process.signal("INT");
    assert_eq!(process.finish().code, Some(130));
    experiment.await_restored();
}

#[test]
fn failed_trials_are_saved_with_reasons_and_retried() {
    let site = site();
    let experiment = Experiment::new(&site);
    let folder = experiment.folder.display();
    let plan = experiment.plan(&format!(
        "[hooks]\nbefore = 'test -e {folder}/good || test $WRKBENCH_CONF = a || \
         {{ echo no good >&2; exit 3; }}'"
    ));
    // Three failures in a row would end the sweep.
    let output = experiment.run(&plan, &["--max-failures", "0"]);
    assert_eq!(output.code, Some(4), "{output:?}");
    let failed = output.stderr.matches("FAILED: before: ").count();
    assert_eq!(failed, 8, "each of four twice: {}", output.stderr);
    for trial in experiment.trials() {
        match &trial.outcome {
            TrialOutcome::Finished(_) => assert_eq!(trial.cell.settings[1].level, "a"),
            TrialOutcome::Failed(reason) => {
                assert!(
                    reason.ends_with("failed with exit code 3: no good"),
                    "{reason}"
                );
                assert_eq!(trial.failed_attempts.len(), 1);
            }
        }
    }
    fs::write(experiment.path("good"), "").unwrap();
    let output = experiment.run(&plan, &["--resume"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let is_finished = |trial: &Trial| matches!(trial.outcome, TrialOutcome::Finished(_));
    assert!(experiment.trials().iter().all(is_finished));
}

#[test]
fn a_level_that_cannot_work_is_found_before_anything_is_measured() {
    let site = site();
    let experiment = Experiment::new(&site);
    let plan = experiment.plan("[hooks]\nbefore = 'echo $WRKBENCH_TRIAL; test $WRKBENCH_CONF = a'");
    let output = experiment.start_with_tries(&plan, &[]).finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output
            .stderr
            .contains("[try 2/2] connections 4, conf b, origin: FAILED: before: "),
        "{output:?}"
    );
    assert!(
        output
            .stderr
            .contains("sweep aborted: 1 first try failed, so nothing was measured"),
        "{output:?}"
    );
    assert!(experiment.trial_files().is_empty());
    assert_eq!(experiment.text("server.conf"), ORIGINAL);
    // The same levels, skipped.
    let output = experiment
        .start_with_tries(&plan, &["--resume", "--no-try"])
        .finish();
    assert_eq!(output.code, Some(4), "{output:?}");
}

#[test]
fn a_server_that_is_not_ready_fails_its_trial() {
    let site = site();
    let experiment = Experiment::new(&site);
    let url = site.url("/?status=503");
    // The setup hook may start the server, so it may be down before.
    let plan = experiment
        .plan(&format!(
            "[hooks]\nsetup = 'true'\nready = {{ url = '{url}', within = '100ms' }}"
        ))
        .replace("rounds = 2", "rounds = 1\nretries = 0");
    let output = experiment.run(&plan, &["--max-failures", "0"]);
    assert_eq!(output.code, Some(4), "{output:?}");
    assert!(
        output.stderr.contains("not ready within 100ms: status 503"),
        "{}",
        output.stderr
    );
    assert_eq!(experiment.text("server.conf"), ORIGINAL);
}

#[test]
fn two_sweeps_do_not_overlap() {
    let site = site();
    let experiment = Experiment::new(&site);
    let (plan, first) = waiting_in_hook(&experiment);
    let other = experiment.path("other").display().to_string();
    let output = experiment.run(&plan, &["-q", "--results", &other]);
    assert!(
        output.only_line().contains("another sweep is running"),
        "{output:?}"
    );
    // That is known before anything begins.
    let output = experiment.run(&plan, &["-q", "--results", &other, "--dry-run"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stderr.contains("another sweep is running"),
        "{output:?}"
    );
    // Even with different journals they would share their results.
    let journal = experiment.path("journal2").display().to_string();
    let output = experiment.run(&plan, &["-q", "--resume", "--journal", &journal]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output
            .only_line()
            .contains("results: in use by another sweep"),
        "{output:?}"
    );
    first.signal("KILL");
    assert_eq!(first.finish().code, None);
    experiment.await_restored();
}

#[test]
fn an_experiment_that_changes_nothing_runs_beside_a_sweep_or_waits_for_it() {
    let site = site();
    let experiment = Experiment::new(&site);
    let (_, first) = waiting_in_hook(&experiment);
    let start = |results: &str, more: &[&str]| {
        // Its lines on stderr are read one by one.
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "exec \"$0\" \"$@\" 2>&1",
            env!("CARGO_BIN_EXE_wrkbench"),
        ]);
        command.args([
            "sweep",
            "-t1",
            "-n200",
            "-L",
            "connections",
            "2,4",
            "--no-try",
        ]);
        command.arg("--journal").arg(experiment.path("journal"));
        command.arg("--results").arg(experiment.path(results));
        Process::start({
            command.args(more).arg(site.url("/"));
            command
        })
    };
    let holder = format!("(sweep of \"try\", pid {}, since ", first.id());
    let beside = start("beside", &[]).finish();
    assert_eq!(beside.code, Some(0), "{beside:?}");
    let note = format!("note: another experiment is running on this machine {holder}");
    assert!(beside.stdout.contains(&note), "{beside:?}");
    let mut waiting = start("after", &["--wait"]);
    let note = format!("note: waiting until another experiment has ended {holder}");
    waiting.await_line(|line| line.contains(&note));
    assert!(!experiment.path("after").exists());
    first.signal("KILL");
    assert_eq!(first.finish().code, None);
    let after = waiting.finish();
    assert_eq!(after.code, Some(0), "{after:?}");
    assert!(experiment.path("after/experiment.json").exists());
    experiment.await_restored();
}

#[test]
fn a_dry_run_shows_what_is_left_of_a_started_sweep() {
    let site = site();
    let experiment = Experiment::new(&site);
    let plan = experiment.plan("");
    let output = experiment.run(&plan, &["--dry-run"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(!output.stdout.contains("remaining ("), "{}", output.stdout);
    let output = experiment.run(&plan, &["-q"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    fs::remove_file(experiment.path("results/trials").join(NAMES[6])).unwrap();
    let output = experiment.run(&plan, &["--resume", "--dry-run"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output
            .stdout
            .ends_with("\nremaining (1 of 8 trials):\n  round 2: cells 3\n"),
        "{}",
        output.stdout
    );
    assert_eq!(experiment.trial_files().len(), 7);
}

#[test]
fn a_hopeless_command_is_given_up_on_request() {
    let site = site();
    let experiment = Experiment::new(&site);
    let plan = experiment.plan("[hooks]\nrestart = 'exit 7'");
    let output = experiment.run(&plan, &["--rounds", "1"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    // It is known before the sweep starts again.
    let output = experiment.run(&plan, &["-q", "--resume", "--dry-run"]);
    let journal = experiment.path("journal").display().to_string();
    let hint = format!("run `wrkbench restore --journal {journal}` first");
    assert!(output.stderr.contains(&hint), "{output:?}");
    let restore = |arguments: &[&str]| {
        let mut command = program(&["restore"]);
        command.arg("--journal").arg(experiment.path("journal"));
        command.args(arguments);
        Process::start(command).finish()
    };
    let output = restore(&["--dry-run"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output.stdout.contains("restart hook: would run `exit 7`"),
        "{output:?}"
    );
    let output = restore(&[]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let hint = format!("`wrkbench restore --journal {journal} --keep`");
    assert!(output.stdout.contains(&hint), "{output:?}");
    assert!(output.stdout.contains("restart hook: FAILED"), "{output:?}");
    let output = restore(&["--keep"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output.stdout.contains("(it is forgotten): `exit 7`"),
        "{output:?}"
    );
    assert!(
        !output.stdout.contains("\neverything is restored"),
        "{output:?}"
    );
    experiment.await_restored();
}

#[test]
fn commands_of_a_factor_find_the_folder_of_the_experiment_file() {
    let site = site();
    let experiment = Experiment::new(&site);
    let plan = experiment.plan(
        "[[factor]]\nname = 'link'\nlevels = ['up']\n\
         apply = 'echo $LEVEL >\"$WRKBENCH_PLAN_DIR/applied\"'\n\
         restore = 'mv \"$WRKBENCH_PLAN_DIR/applied\" \"$WRKBENCH_PLAN_DIR/restored\"'",
    );
    let output = experiment.run(&plan, &["--rounds", "1"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(
        fs::read_to_string(experiment.path("restored")).unwrap(),
        "up\n"
    );
}

#[test]
fn hints_are_commands_that_resume_this_sweep() {
    let site = site();
    let experiment = Experiment::new(&site);
    let plan = experiment.plan("[hooks]\nbefore = 'false'\nafter = 'true'");
    let results = experiment.path("other results").display().to_string();
    let at = |name: &str| experiment.path(name).display().to_string();
    let options = ["-q", "--results", &results, "--journal", &at("journal")];
    // There is nothing to resume yet, and starting a new sweep was not requested.
    let refused = experiment.run(&plan, &[&options[..], &["--resume"]].concat());
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.only_line().contains("no sweep to resume in"),
        "{refused:?}"
    );
    assert!(!experiment.path("other results").exists());
    let failed = experiment.run(&plan, &options);
    assert_ne!(failed.code, Some(0), "{failed:?}");
    let hint = format!(
        "`wrkbench sweep {} --resume --results '{results}' --journal {}`",
        at("plan.toml"),
        at("journal")
    );
    assert!(failed.stderr.contains(&hint), "{failed:?}");
    let refused = experiment.run(&plan, &options);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.only_line().ends_with(&hint), "{refused:?}");
}

#[test]
fn a_sweep_in_which_everything_fails_ends_and_says_why() {
    let site = site();
    let experiment = Experiment::new(&site);
    let broken = "[hooks]\nbefore = 'echo looking; echo one >&2; echo two >&2; exit 3'";
    let output = experiment.run(&experiment.plan(broken), &["-q", "--max-failures", "2"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(experiment.trial_files().len(), 2);
    for line in [
        "failed with exit code 3: two",
        "    stderr: one\n    stderr: two\n    stdout: looking\n",
        "sweep aborted: 2 trials failed in a row",
        "6 trials are left, and 2 failed; resume with `wrkbench sweep ",
    ] {
        assert!(output.stderr.contains(line), "{line}: {output:?}");
    }
    experiment.await_restored();
}

#[test]
fn after_a_signal_the_awaited_command_is_named() {
    let site = site();
    let experiment = Experiment::new(&site);
    let folder = experiment.folder.display();
    // The hook ends after that message.
    let hooks = format!(
        "[hooks]\nbefore = ': >{folder}/begun; until grep -q \"a second signal\" {folder}/stderr; \
         do sleep 0.05; done'"
    );
    let path = experiment.path("plan.toml");
    fs::write(&path, experiment.plan(&hooks)).unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$@\" 2>\"$0\""])
        .arg(experiment.path("stderr"))
        .arg(env!("CARGO_BIN_EXE_wrkbench"))
        .args(["sweep", "-q", path.to_str().unwrap(), "--journal"])
        .arg(experiment.path("journal"));
    let sweep = Process::start(command);
    eventually(|| {
        if experiment.path("begun").exists() {
            Ok(())
        } else {
            Err("the hook has not begun".to_owned())
        }
    });
    sweep.signal("INT");
    let output = sweep.finish();
    assert_eq!(output.code, Some(130), "{output:?}");
    let said = experiment.text("stderr");
    assert!(said.contains("waiting for `: >"), "{said}");
    assert!(said.contains(" s of at most 1m)"), "{said}");
    experiment.await_restored();
}

#[test]
fn a_table_that_cannot_be_printed_is_reported_and_results_are_kept() {
    let site = site();
    let experiment = Experiment::new(&site);
    let path = experiment.path("plan.toml");
    fs::write(&path, experiment.plan("")).unwrap();
    let mut command = program(&["sweep", path.to_str().unwrap(), "-q", "--journal"]);
    command.arg(experiment.path("journal"));
    command.stdout(
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap(),
    );
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("the results cannot be written to stdout"),
        "{stderr}"
    );
    assert_eq!(experiment.trial_files().len(), 8);
    assert_eq!(experiment.text("server.conf"), ORIGINAL);
}

#[test]
fn a_link_of_another_user_does_not_decide_where_results_are_written() {
    if !testkit::is_root() {
        return testkit::skip("root", "links of other users");
    }
    let site = site();
    let experiment = Experiment::new(&site);
    let elsewhere = site.folder.folder("elsewhere");
    let link = experiment.path("results");
    symlink(&elsewhere, &link).unwrap();
    lchown(&link, Some(1000), Some(1000)).unwrap();
    let output = experiment.run(&experiment.plan(""), &[]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let said = "results: is a symbolic link of user 1000, which can lead anywhere, so no results \
                are written to ";
    assert!(output.stderr.contains(said), "{output:?}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert_eq!(experiment.text("server.conf"), ORIGINAL);
    fs::remove_file(&link).unwrap();
    symlink(&elsewhere, &link).unwrap();
    let output = experiment.run(&experiment.plan(""), &[]);
    assert_eq!(output.code, Some(0), "{output:?}");
}
