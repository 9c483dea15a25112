//! Where the commands of a document run: a folder in its own namespaces.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use testkit::{Folder, send_signal};

use crate::script::DocumentStep;
use crate::{root, shorten};

/// Far more than the commands of a document take, even on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(900);

/// Restarts the server that replaces nginx and php-fpm. Other services do not exist here.
const SYSTEMCTL: &str = r#"#!/bin/sh
case $1 in
show) echo loaded && exit 0 ;;
list-units) echo php8.2-fpm.service loaded active running && exit 0 ;;
esac
case " $* " in *" nginx"*) ;; *) exit 0 ;; esac
[ ! -f "$OUT/nginx.pid" ] || kill -9 "$(cat "$OUT/nginx.pid")" || :
rm -f "$OUT/nginx.pid"
[ "$1" != stop ] || exit 0
# The port may be taken until the one that was killed is quite gone.
while :; do
    : >"$OUT/nginx"
    wrkbench serve --listen 127.0.0.1:80 --answer 'size=2k&delay=exp:1ms' \
        >>"$OUT/nginx" 2>&1 </dev/null &
    echo $! >"$OUT/nginx.pid"
    until grep -q . "$OUT/nginx"; do sleep 0.01; done
    ! grep -q '^serving ' "$OUT/nginx" || exit 0
done
"#;

/// Ignores the CPUs, since those in a document may not exist here.
const TASKSET: &str = "#!/bin/sh\nshift 2\nexec \"$@\"\n";

/// Reads its input and prints nothing: for a program that is not installed.
const SILENT: &str = "#!/bin/sh\ncat >/dev/null\n";

pub(crate) struct Sandbox {
    folder: Folder,
    /// The arguments of unshare.
    unshare: Vec<&'static str>,
}

impl Sandbox {
    /// A sandbox for these commands. A program that prints nothing replaces missing tools.
    /// `None`: the test is skipped.
    pub(crate) fn new(commands: &str) -> Option<Self> {
        let unshare = unshare().ok_or("neither root nor allowed to make user namespaces");
        let sandbox = Self {
            unshare: testkit::require_ok("namespaces", unshare)?,
            folder: Folder::new(),
        };
        for name in ["bin", "out", "work", "home"] {
            sandbox.folder.folder(name);
        }
        let work = sandbox.path("work");
        copy(&root().join("examples"), &work.join("examples"));
        copy(&root().join("docs/data"), &work.join("docs/data"));
        // Under the names of the tools it prints their reports, with the shortened durations.
        for name in ["wrkbench", "wrk", "wrk2", "wrk-cmm"] {
            let link = sandbox.path("bin").join(name);
            symlink(env!("CARGO_BIN_EXE_wrkbench"), link).unwrap();
        }
        sandbox.program("systemctl", SYSTEMCTL);
        sandbox.program("taskset", TASKSET);
        sandbox.program("sudo", "#!/bin/sh\nexec \"$@\"\n");
        if commands.contains("nats-server") {
            let server = testkit::require("nats-server")?;
            symlink(server, sandbox.path("bin/nats-server")).unwrap();
        }
        for tool in ["jq", "curl"] {
            if commands.contains(tool) && testkit::require(tool).is_none() {
                sandbox.program(tool, SILENT);
            }
        }
        Some(sandbox)
    }

    fn program(&self, name: &str, content: &str) {
        self.folder.program(&format!("bin/{name}"), content);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the script to its end. All other processes in the namespaces end with it.
    pub(crate) fn run(&self, script: &str, steps: &[DocumentStep], document: &str) {
        let mut path = std::env::var_os("PATH")
            .unwrap_or_default()
            .into_string()
            .unwrap_or_default();
        path.insert_str(0, &format!("{}:", self.path("bin").display()));
        let log = fs::File::create(self.path("out/script")).unwrap();
        let child = Command::new("unshare")
            .args(&self.unshare)
            .args(["sh", "-c", script])
            .current_dir(self.path("work"))
            .env("OUT", self.path("out"))
            .env("HOME", self.path("home"))
            .env("PATH", path)
            .env_remove("XDG_STATE_HOME")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let pid = child.id().to_string();
        let (sender, receiver) = channel();
        std::thread::spawn(move || sender.send(child.wait_with_output()));
        let Ok(output) = receiver.recv_timeout(WAIT_MAX) else {
            let _ = send_signal("KILL", &pid);
            panic!(
                "{document}: not done after {WAIT_MAX:?}, {}",
                self.reached(steps)
            );
        };
        let status = output.unwrap().status;
        assert!(
            status.success(),
            "{document}: {status}, {}",
            self.reached(steps)
        );
    }

    /// The step that was started last, for the message.
    fn reached(&self, steps: &[DocumentStep]) -> String {
        let said = fs::read_to_string(self.path("out/script")).unwrap_or_default();
        let at = fs::read_to_string(self.path("out/at")).unwrap_or_default();
        match at
            .trim()
            .parse::<usize>()
            .ok()
            .and_then(|index| Some((index, steps.get(index)?)))
        {
            Some((index, step)) => format!(
                "in the block of line {}:\n{}\nit printed:\n{}\n{said}",
                step.line,
                step.text,
                self.printed(index)
            ),
            None => format!("before its first command:\n{said}"),
        }
    }

    /// The output of a step, both streams.
    pub(crate) fn printed(&self, step: usize) -> String {
        let path = self.path("out").join(step.to_string());
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }
}

/// Arguments of unshare that work: as root, or as root of a user namespace.
fn unshare() -> Option<Vec<&'static str>> {
    let ways: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];
    let spaces = [
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ];
    ways.into_iter().find_map(|way| {
        let arguments = [way, &spaces].concat();
        let mut trial = Command::new("unshare");
        trial.args(&arguments).args(["ip", "link", "show", "lo"]);
        let works = trial.output().is_ok_and(|output| output.status.success());
        works.then_some(arguments)
    })
}

/// Copies a folder. Experiment files get short durations.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if entry
            .path()
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            fs::write(
                &target,
                shorten::plan(&fs::read_to_string(entry.path()).unwrap()),
            )
            .unwrap();
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}
