//! A sweep changes another machine through an agent there, and that machine is restored however
//! the sweep, the agent or the connection ends.

use std::path::Path;
use std::time::{Duration, Instant};

use results::file::load_trial;
use testkit::{Output, Process, send_signal};

use crate::harness::{Agent, Lab, Setting, await_true, run};

const SETTING: &str = "/proc/sys/net/ipv4/tcp_rmem";
const OLD: &str = "4096 131072 6291456";
const LOW: &str = "4096 16384 65536";
const HIGH: &str = "8192 262144 4194304";

/// A fleet of one agent, and the machine of the server, whose clock is a day ahead.
struct Changes {
    lab: Lab,
    db1: Agent,
}

impl Changes {
    /// `None`: the test is skipped.
    fn new() -> Option<Self> {
        let lab = Lab::new(&[Setting {
            name: "a0",
            place: "east",
            ahead_s: 0,
            options: &[],
        }])?;
        let journal = lab.network.folder.file("journal");
        let db1 = lab.agent(
            env!("CARGO_BIN_EXE_wrkbench"),
            &Setting {
                name: "db1",
                place: "server",
                ahead_s: 86_400,
                options: &["--allow-changes", "--journal", &journal],
            },
        );
        let changes = Self { lab, db1 };
        let write = format!("echo '{OLD}' >{SETTING}");
        run(changes.db1.machine.inside("sh").args(["-c", &write]));
        Some(changes)
    }

    /// Starts the agent on the machine of the server again.
    fn restart_agent(&mut self) {
        let journal = self.lab.network.folder.file("journal");
        let mut command = self.db1.machine.wrkbench(&[
            "agent",
            "--nats=nats://10.77.0.1:4222",
            "--name=db1",
            "--allow-changes",
        ]);
        command.args(["--journal", &journal, "--trust", &self.lab.trust]);
        self.db1.process = Process::start(command);
    }

    /// An experiment with two levels of the setting on that machine.
    fn experiment(&self, duration: &str, more: &str) -> String {
        let folder = &self.lab.network.folder;
        let url = &self.lab.target.url;
        let results = folder.file("results");
        folder.file_with(
            "experiment.toml",
            format!(
                r#"
name = "the server's side"
rounds = 2
seed = 1
retries = 0
results = "{results}"
[load]
threads = 1
connections = 2
rate = "200"
duration = "{duration}"
[[target]]
name = "server"
url = "{url}"
[[factor]]
name = "rmem"
host = "db1"
sysctl = "net.ipv4.tcp_rmem"
levels = ["{LOW}", "{HIGH}"]
{more}
"#
            ),
        )
    }

    /// Begins a sweep on the machine of the coordinator.
    fn sweep(&self, experiment: &str, options: &[&str]) -> Process {
        let own = self.lab.network.folder.file("own-journal");
        let mut command =
            self.lab
                .coordinator
                .wrkbench(&["sweep", experiment, "--no-try", "--journal", &own]);
        command.args(self.lab.fleet_options()).args(options);
        Process::start(command)
    }

    /// A sweep within its first run.
    fn begun(&self, more: &str) -> Process {
        let sweep = self.sweep(&self.experiment("60s", more), &[]);
        self.lab.await_arrivals(100);
        assert_ne!(self.value(), OLD);
        sweep
    }

    /// The setting on the machine of the server.
    fn value(&self) -> String {
        let output = run(self.db1.machine.inside("cat").arg(SETTING));
        output
            .stdout
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Waits until the machine is as before, and nothing is left there.
    fn await_restored(&self, within: Duration) {
        let began = Instant::now();
        let journal = self.lab.network.folder.join("journal/journal");
        await_true(
            "the setting has its old value, and the journal is gone",
            || self.value() == OLD && !journal.exists(),
        );
        assert!(began.elapsed() < within, "{:?}", began.elapsed());
    }
}

#[test]
#[ignore = "needs root; make fleet"]
fn a_sweep_sets_each_level_on_the_other_machine_and_restores_it() {
    let Some(changes) = Changes::new() else {
        return;
    };
    let seen = changes.lab.network.folder.file("seen");
    let hooks = format!(
        "[hooks]\nbefore = {{ run = 'cat {SETTING} >>{seen}', host = 'db1' }}\n\
         restart = {{ run = 'echo restarted >>{seen}', host = 'db1' }}\n"
    );
    let experiment = changes.experiment("1s", &hooks);
    let output = changes.sweep(&experiment, &[]).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(changes.value(), OLD);
    let restored = format!("db1: net.ipv4.tcp_rmem is {OLD} again");
    for line in [restored.as_str(), "db1: restart hook: has run"] {
        assert!(output.stderr.contains(line), "{line}: {output:?}");
    }
    let lines = std::fs::read_to_string(&seen).unwrap();
    let lines: Vec<String> = lines
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines.iter().filter(|line| *line == LOW).count(),
        2,
        "{lines:?}"
    );
    assert_eq!(
        lines.iter().filter(|line| *line == HIGH).count(),
        2,
        "{lines:?}"
    );
    assert_eq!(lines.last().map(String::as_str), Some("restarted"));
    let trials = changes.lab.network.folder.join("results/trials");
    let mut checked = 0;
    for trial in std::fs::read_dir(trials).unwrap() {
        let trial = load_trial(&std::fs::read(trial.unwrap().path()).unwrap()).unwrap();
        let level = &trial.cell.settings[0].level;
        assert_eq!(&trial.effective["db1:net.ipv4.tcp_rmem"], level);
        assert_eq!(&trial.environment_after["db1:net.ipv4.tcp_rmem"], level);
        assert!(trial.environment_before.contains_key("db1:load_1m"));
        checked += 1;
    }
    assert_eq!(checked, 4);
}

#[test]
#[ignore = "needs root; make fleet"]
fn a_dry_run_shows_the_other_machine_and_changes_nothing() {
    let Some(changes) = Changes::new() else {
        return;
    };
    let status = ["fleet", "status", "--nats", "nats://10.77.0.1:4222"];
    let status = run(&mut changes.lab.coordinator.wrkbench(&status));
    let row = status.stdout.lines().find(|line| line.starts_with("db1 "));
    let words: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert_eq!(words[1], "server");
    assert_eq!(&words[words.len() - 2..], ["ready", "load"]);
    let experiment = changes.experiment("1s", "");
    let output = changes.sweep(&experiment, &["--dry-run"]).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let line = format!("db1: net.ipv4.tcp_rmem: now \"{OLD}\", levels");
    assert!(output.stdout.contains(&line), "{output:?}");
    assert_eq!(changes.value(), OLD);
    assert!(!changes.lab.network.folder.join("journal").exists());
}

#[test]
#[ignore = "needs root; make fleet"]
fn a_killed_coordinator_leaves_the_other_machine_to_its_guardian() {
    let Some(changes) = Changes::new() else {
        return;
    };
    let sweep = changes.begun("");
    sweep.signal("KILL");
    changes.await_restored(Duration::from_secs(15));
    // The next sweep finds nothing left.
    let experiment = changes.experiment("1s", "");
    std::fs::remove_dir_all(changes.lab.network.folder.file("results")).unwrap();
    let output = changes.sweep(&experiment, &[]).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[test]
#[ignore = "needs root; make fleet"]
fn a_killed_agent_leaves_the_machine_to_its_guardian_and_ends_the_sweep() {
    let Some(changes) = Changes::new() else {
        return;
    };
    let sweep = changes.begun("");
    changes.db1.process.signal("KILL");
    changes.await_restored(Duration::from_secs(5));
    expect_lost(&sweep.finish());
}

#[test]
#[ignore = "needs root; make fleet"]
fn a_command_that_runs_when_the_agent_is_killed_is_ended_before_anything_is_restored() {
    let Some(changes) = Changes::new() else {
        return;
    };
    let folder = &changes.lab.network.folder;
    let (running, late) = (folder.file("running"), folder.file("late"));
    let hook = format!(
        "[hooks]\nbefore = {{ run = 'echo $$ >{running}; sleep 4; echo late >{late}', \
         host = 'db1' }}\n"
    );
    let sweep = changes.sweep(&changes.experiment("1s", &hook), &[]);
    await_true("the hook runs", || {
        std::fs::read_to_string(&running).is_ok_and(|id| id.ends_with('\n'))
    });
    assert_ne!(changes.value(), OLD);
    changes.db1.process.signal("KILL");
    changes.await_restored(Duration::from_secs(5));
    let id = std::fs::read_to_string(&running).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim()));
    // Whoever inherits it may not have waited for it yet.
    let is_dead = stat.as_ref().map_or(true, |stat| stat.contains(") Z "));
    assert!(is_dead, "{stat:?}");
    expect_lost(&sweep.finish());
    assert!(!Path::new(&late).exists());
}

#[test]
#[ignore = "needs root; make fleet"]
fn a_cut_link_leaves_the_machine_to_its_guardian_and_ends_the_sweep() {
    let Some(changes) = Changes::new() else {
        return;
    };
    let sweep = changes.begun("");
    let began = Instant::now();
    changes.lab.network.set_link(&changes.db1.machine, false);
    changes.await_restored(Duration::from_secs(15));
    expect_lost(&sweep.finish());
    // The run of a minute does not go on.
    assert!(began.elapsed() < Duration::from_secs(40));
    changes.lab.network.set_link(&changes.db1.machine, true);
}

#[test]
#[ignore = "needs root; make fleet"]
fn a_dead_nats_server_leaves_the_machine_to_its_guardian_and_ends_the_sweep() {
    let Some(changes) = Changes::new() else {
        return;
    };
    let sweep = changes.begun("");
    changes.lab.hub.process.signal("KILL");
    changes.await_restored(Duration::from_secs(15));
    let output = sweep.finish();
    assert_eq!(output.code, Some(1), "{output:?}");
}

/// The sweep says which machine it has lost, and has no trial of it.
fn expect_lost(output: &Output) {
    assert_eq!(output.code, Some(1), "{output:?}");
    for expected in [
        "sweep aborted: db1: ",
        "db1: NOT restored",
        "settings of db1 may not be restored yet; `wrkbench restore --journal",
        "4 trials are left",
    ] {
        assert!(output.stderr.contains(expected), "{expected}: {output:?}");
    }
}

#[test]
#[ignore = "needs root; make fleet"]
fn an_interrupted_sweep_restores_the_other_machine_itself() {
    let Some(changes) = Changes::new() else {
        return;
    };
    let sweep = changes.begun("");
    sweep.signal("INT");
    let output = sweep.finish();
    assert_eq!(output.code, Some(130), "{output:?}");
    let restored = format!("db1: net.ipv4.tcp_rmem is {OLD} again");
    assert!(output.stderr.contains(&restored), "{output:?}");
    changes.await_restored(Duration::from_secs(5));
}

#[test]
#[ignore = "needs root; make fleet"]
fn changes_that_nobody_has_restored_are_refused_and_can_be_restored_by_hand() {
    let Some(mut changes) = Changes::new() else {
        return;
    };
    let sweep = changes.begun("");
    // Guardian and agent at once, as when the power fails; the process between them follows.
    let journal = changes.lab.network.folder.file("journal");
    let pattern = format!("wrkbench guardian {journal}");
    for process in processes(&pattern) {
        assert!(send_signal("KILL", &process));
    }
    changes.db1.process.signal("KILL");
    assert_eq!(sweep.finish().code, Some(1));
    assert_ne!(changes.value(), OLD);
    changes.restart_agent();
    let changed = changes.value();
    std::fs::remove_dir_all(changes.lab.network.folder.file("results")).unwrap();
    let again = changes.sweep(&changes.experiment("1s", ""), &[]).finish();
    assert_eq!(again.code, Some(1), "{again:?}");
    let expected = "db1: an earlier sweep of \"the server's side\"";
    assert!(again.stderr.contains(expected), "{again:?}");
    let command = format!("run `wrkbench restore --journal {journal}` first");
    assert!(again.stderr.contains(&command), "{again:?}");
    assert_eq!(changes.value(), changed);
    let machine = &changes.db1.machine;
    run(&mut machine.wrkbench(&["restore", "--journal", &journal]));
    assert_eq!(changes.value(), OLD);
}

/// The IDs of processes with this command line.
fn processes(command_line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let words: Vec<_> = text.split(|byte| *byte == 0).collect();
        let text = words.join(&b' ');
        if text.trim_ascii() == command_line.as_bytes() {
            found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    assert!(!found.is_empty(), "{command_line}");
    found
}

/// Whom a test kills.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Coordinator,
    Agent,
    Deputy,
}

#[test]
#[ignore = "needs root; make fleet"]
fn everything_is_restored_after_kills_at_random_moments() {
    const SEED: u64 = 20_261;
    let Some(mut changes) = Changes::new() else {
        return;
    };
    let folder = changes.lab.network.folder.file("");
    let conf = changes
        .lab
        .network
        .folder
        .file_with("server.conf", b"# old\n\xff\x00no line feed");
    changes
        .lab
        .network
        .folder
        .file_with("server.tmpl", "size = {{level}}\n");
    let more = format!(
        "[[factor]]\nname = 'conf'\nhost = 'db1'\nfile = '{conf}'\n\
         template = '{folder}/server.tmpl'\nlevels = [1, 2]\n\
         [[factor]]\nname = 'mtu'\nhost = 'db1'\napply = 'ip link set lo mtu $LEVEL'\n\
         restore = 'ip link set lo mtu 65536'\nlevels = [1400, 9000]\n"
    );
    let state = |changes: &Changes| {
        let settings = "grep -ars '' /proc/sys/net | grep -v _count:; ip -o link show lo";
        let settings = run(changes.db1.machine.inside("sh").args(["-c", settings]));
        (settings.stdout, std::fs::read(&conf).unwrap())
    };
    let before = state(&changes);
    let mut lots = fastrand::Rng::with_seed(SEED);
    for (number, victim) in [
        Victim::Agent,
        Victim::Deputy,
        Victim::Coordinator,
        Victim::Agent,
        Victim::Deputy,
        Victim::Coordinator,
    ]
    .into_iter()
    .enumerate()
    {
        let moment = Duration::from_millis(lots.u64(0..4_000));
        let when = format!("moment {number} of seed {SEED}: {victim:?} after {moment:?}");
        let _ = std::fs::remove_dir_all(changes.lab.network.folder.file("results"));
        let sweep = changes.sweep(&changes.experiment("200ms", &more), &[]);
        let journal = changes.lab.network.folder.join("journal/journal");
        await_true("something was changed", || journal.exists());
        std::thread::sleep(moment);
        match victim {
            Victim::Coordinator => sweep.signal("KILL"),
            Victim::Agent => changes.db1.process.signal("KILL"),
            Victim::Deputy => {
                let folder = changes.lab.network.folder.file("journal");
                for process in processes(&format!("/proc/self/exe host-deputy {folder}")) {
                    assert!(send_signal("KILL", &process));
                }
            }
        }
        await_true("the journal is gone", || !journal.exists());
        assert!(state(&changes) == before, "{when}");
        if !matches!(victim, Victim::Coordinator) {
            assert_eq!(sweep.finish().code, Some(1), "{when}");
        }
        if matches!(victim, Victim::Agent) {
            changes.restart_agent();
        }
    }
}

#[test]
#[ignore = "needs root; make fleet"]
fn machines_that_cannot_be_changed_are_refused_before_anything_is_done() {
    let Some(changes) = Changes::new() else {
        return;
    };
    let experiment = changes.experiment("1s", "");
    let text = std::fs::read_to_string(&experiment).unwrap();
    let other = changes
        .lab
        .network
        .folder
        .file_with("other.toml", text.replace("db1", "db2"));
    let output = changes.sweep(&other, &[]).finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    let expected = "host db2: no agent with --allow-changes has this name in the fleet default";
    assert!(output.stderr.contains(expected), "{output:?}");
    // Without the option.
    let mut plain = changes
        .lab
        .coordinator
        .wrkbench(&["sweep", "--dry-run", &experiment]);
    plain
        .arg("--journal")
        .arg(changes.lab.network.folder.file("own"));
    let output = Process::start(plain).finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    let expected = "host db1: needs an agent on that machine: give --fleet nats://HOST";
    assert!(output.stderr.contains(expected), "{output:?}");
    assert_eq!(changes.value(), OLD);
    assert!(!changes.lab.network.folder.join("journal").exists());
}
