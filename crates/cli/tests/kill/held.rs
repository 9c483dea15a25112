//! A sweep that is stopped within a trial, with everything changed, and what can happen to it
//! there.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::lab::{Lab, SignalTarget, Sweep, await_in_thread, send};

/// The lab, its original state, and the sweep that is held.
struct HeldSweep {
    lab: Lab,
    before: BTreeMap<String, Vec<u8>>,
    sweep: Sweep,
    /// The process of its hook.
    hook: String,
}

/// Holds a sweep in a new lab.
fn held() -> Option<HeldSweep> {
    Lab::new().map(|lab| hold(lab, ""))
}

/// Holds a sweep before its first run: its hook reports that it runs, and waits.
fn hold(lab: Lab, more_hooks: &str) -> HeldSweep {
    let (up, go) = (lab.place.file("up"), lab.place.file("go"));
    let made = Command::new("mkfifo").args([&up, &go]).status().unwrap();
    assert!(made.success());
    let plan = lab.plan(&format!(
        "[hooks]\nbefore = \"echo $$ >{up}; read x <{go}\"\n{more_hooks}"
    ));
    let before = lab.state();
    let sweep = lab.sweep(&plan);
    let mut held = HeldSweep {
        lab,
        before,
        sweep,
        hook: String::new(),
    };
    held.hook = held.await_hook();
    let differences = held.lab.differences(&held.before);
    assert!(
        differences.len() >= 4,
        "not all is changed: {differences:#?}"
    );
    held
}

impl HeldSweep {
    /// Waits until the hook runs. Returns its process.
    fn await_hook(&self) -> String {
        let up = self.lab.place.file("up");
        let came = await_in_thread(move || fs::read_to_string(up).unwrap());
        self.sweep.await_event(&came, "the hook").trim().to_owned()
    }

    /// Lets the hook go on.
    fn release(&self) {
        let go = self.lab.place.file("go");
        let gone = await_in_thread(move || fs::write(go, "\n").unwrap());
        self.sweep.await_event(&gone, "the end of the hook");
    }

    fn guardian(&self) -> String {
        self.sweep.guardian().expect("there is a guardian")
    }

    /// Kills the sweep. Returns the output of it and its guardian, and what has changed.
    fn kill(mut self, to: SignalTarget) -> (Lab, String, Vec<String>) {
        self.sweep.signal("KILL", to);
        let said = self.sweep.end();
        let differences = self.lab.differences(&self.before);
        (self.lab, said, differences)
    }

    /// Kills the sweep, after which everything must be restored.
    fn kill_and_check(self, to: SignalTarget) -> String {
        let (lab, said, differences) = self.kill(to);
        assert!(differences.is_empty(), "{differences:#?}\n{said}");
        let (code, stdout, _) = lab.restore(&[]);
        assert_eq!((code, stdout.starts_with("nothing")), (0, true), "{stdout}");
        said
    }
}

/// Tries another sweep of the same plan: exit code, stdout, stderr.
fn other_sweep(lab: &Lab) -> (i32, String, String) {
    let arguments = lab.sweep_arguments(&lab.place.file("plan.toml"));
    let others = lab.place.file("others");
    let arguments = arguments.iter().map(String::as_str);
    let arguments: Vec<_> = arguments.chain(["--results", &others]).collect();
    lab.wrkbench(&arguments)
}

/// Whether a process runs. A zombie does not.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

#[test]
fn a_sweep_killed_during_a_hook_ends_the_hook_and_restores_everything() {
    for to in [SignalTarget::Process, SignalTarget::Group] {
        let Some(held) = held() else {
            return;
        };
        held.release();
        let hook = held.await_hook();
        assert!(runs(&hook));
        let said = held.kill_and_check(to);
        assert!(said.contains("everything is restored"), "{said}");
        assert!(!runs(&hook));
    }
}

#[test]
fn a_terminated_sweep_restores_everything_itself() {
    for signal in ["TERM", "INT", "HUP"] {
        let Some(mut held) = held() else {
            return;
        };
        held.sweep.signal(signal, SignalTarget::Group);
        held.release();
        let said = held.sweep.end();
        let differences = held.lab.differences(&held.before);
        assert!(differences.is_empty(), "{signal}: {differences:#?}\n{said}");
        // A sweep that waits for its hook says what a second signal would have the guardian do.
        let mut lines = said.lines();
        assert!(
            lines.all(|it| it.starts_with("wrkbench: waiting for") || !it.contains("guardian")),
            "{signal}: {said}"
        );
        let (code, stdout, _) = held.lab.restore(&[]);
        assert_eq!((code, stdout.starts_with("nothing")), (0, true), "{stdout}");
    }
}

#[test]
fn ps_shows_the_guardian_by_its_name() {
    let Some(held) = held() else {
        return;
    };
    let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", held.guardian())).unwrap();
    assert_eq!(of("comm"), "wrkbench-guard\n");
    assert!(
        of("cmdline").starts_with("wrkbench\0guardian\0/"),
        "{:?}",
        of("cmdline")
    );
    held.kill_and_check(SignalTarget::Process);
}

#[test]
fn signals_for_the_guardian_do_not_end_it() {
    let Some(held) = held() else {
        return;
    };
    let guardian = held.guardian();
    for signal in ["INT", "TERM", "HUP", "QUIT", "USR1", "ALRM", "PIPE"] {
        send(signal, &guardian);
    }
    held.kill_and_check(SignalTarget::Group);
}

#[test]
fn a_stopped_sweep_keeps_its_lock() {
    let Some(mut held) = held() else {
        return;
    };
    held.sweep.signal("STOP", SignalTarget::Process);
    let pid = format!("pid {}", held.sweep.child.id());
    let (code, stdout, stderr) = held.lab.restore(&["--force"]);
    assert_eq!(code, 1, "{stdout}{stderr}");
    assert!(
        stderr.contains("another sweep is running") && stderr.contains(&pid),
        "{stderr}"
    );
    let (code, stdout, stderr) = other_sweep(&held.lab);
    assert_eq!(code, 1, "{stdout}{stderr}");
    assert!(
        stderr.contains("another sweep is running") && stderr.contains(&pid),
        "{stderr}"
    );
    assert!(
        held.lab.differences(&held.before).len() >= 4,
        "nothing was restored"
    );
    held.kill_and_check(SignalTarget::Process);
}

#[test]
fn restore_works_when_the_guardian_was_killed_too() {
    let Some(held) = held() else {
        return;
    };
    send("KILL", &held.guardian());
    let (before, hook) = (held.before.clone(), held.hook.clone());
    let (lab, _, differences) = held.kill(SignalTarget::Group);
    // No process is left to end it.
    send("KILL", &hook);
    assert!(differences.len() >= 4, "{differences:#?}");
    let (code, _, stderr) = other_sweep(&lab);
    assert_eq!(code, 1, "{stderr}");
    let hint = format!(
        "run `wrkbench restore --journal {}`",
        lab.place.file("journal")
    );
    assert!(stderr.contains(&hint), "{stderr}");
    let changed = lab.state();
    let (code, stdout, stderr) = lab.restore(&["--dry-run"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.contains(": would be restored"), "{stdout}");
    assert_eq!(lab.differences(&changed), Vec::<String>::new());
    let (code, stdout, stderr) = lab.restore(&[]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.ends_with("everything is restored\n"), "{stdout}");
    let differences = lab.differences(&before);
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn a_guardian_that_was_killed_is_replaced_before_the_next_change() {
    let Some(held) = held() else {
        return;
    };
    let first = held.guardian();
    send("KILL", &first);
    held.release();
    held.await_hook();
    assert_ne!(held.guardian(), first);
    held.kill_and_check(SignalTarget::Group);
}

#[test]
fn changes_by_others_are_kept_and_reported() {
    let Some(held) = held() else {
        return;
    };
    let set = held
        .lab
        .output("sh", &["-c", "echo 333 >/proc/sys/net/core/somaxconn"]);
    assert!(set.status.success());
    let before = held.before.clone();
    let (lab, said, differences) = held.kill(SignalTarget::Process);
    assert_eq!(differences.len(), 1, "{differences:#?}");
    assert!(
        said.contains("net.core.somaxconn: changed by someone else"),
        "{said}"
    );
    let (code, stdout, _) = lab.restore(&[]);
    assert_eq!(code, 1, "{stdout}");
    assert!(stdout.contains("is 333, was"), "{stdout}");
    assert_eq!(lab.differences(&before).len(), 1);
    let (code, stdout, _) = lab.restore(&["--force"]);
    assert_eq!(code, 0, "{stdout}");
    assert!(lab.differences(&before).is_empty());
}

#[test]
fn servers_started_by_a_hook_hold_neither_guardian_nor_lock() {
    let Some(lab) = Lab::new() else {
        return;
    };
    let at = lab.place.file("");
    lab.place.file_with(
        "nginx.conf",
        format!(
            "pid {at}/nginx.pid;\nerror_log stderr;\nevents {{}}\nhttp {{ access_log off; \
             server {{ listen unix:{at}/nginx.sock; }} }}\n"
        ),
    );
    let restart = lab.place.file_with(
        "restart.sh",
        format!(
            "ls -l /proc/$$/fd >{at}/descriptors\n\
             [ -e {at}/pid ] || {{ sleep 1000 & echo $! >{at}/pid; }}\n\
             command -v nginx || exit 0\n\
             [ -e {at}/nginx.pid ] || nginx -e stderr -p {at} -c {at}/nginx.conf\n"
        ),
    );
    let held = hold(lab, &format!("restart = \"sh {restart}\"\n"));
    let place = |name: &str| held.lab.place.read(name).trim().to_owned();
    let descriptors = place("descriptors");
    for kept in ["socket:", "journal", "lock", "results"] {
        assert!(!descriptors.contains(kept), "{descriptors}");
    }
    let mut servers = vec![place("pid")];
    if fs::exists(held.lab.place.file("nginx.pid")).unwrap() {
        servers.push(place("nginx.pid"));
    } else {
        eprintln!("kill-servers: nginx is missing, only a sleeping process is the server");
    }
    // Ends only if no other process holds the other end of its socket.
    let (lab, said, differences) = held.kill(SignalTarget::Group);
    let running: Vec<_> = servers.iter().map(|pid| runs(pid)).collect();
    for pid in servers.iter().filter(|pid| runs(pid)) {
        send("TERM", pid);
    }
    assert!(differences.is_empty(), "{differences:#?}\n{said}");
    assert!(running.iter().all(|runs| *runs), "they serve on: {said}");
    let (code, stdout, _) = lab.restore(&[]);
    assert_eq!(code, 0, "{stdout}");
}
