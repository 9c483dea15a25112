//! A network namespace with a server, sweeps to be killed, and the state of the kernel.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use testkit::{Folder, WAIT_MAX, eventually, is_root, send_signal};

/// The content that the file factor replaces. It is not UTF-8.
const CONFIGURATION: &[u8] = b"# old\n\xff\x00no line feed at the end";

/// The namespace and a folder.
pub(crate) struct Lab {
    pub(crate) place: Folder,
    /// The process that keeps the namespace, and the server.
    keeper: Child,
    server: Child,
    url: String,
    _keeper_stdin: ChildStdin,
}

impl Lab {
    /// `None`: the test is skipped.
    pub(crate) fn new() -> Option<Self> {
        let root = is_root().then_some(());
        testkit::require_ok(
            "root",
            root.ok_or("only root has a network namespace with settings to change"),
        )?;
        let place = Folder::for_all_users();
        place.folder("conf");
        place.file_with("conf/server.conf", CONFIGURATION);
        place.file_with("server.tmpl", "# a template\nsize = {{level}}\n");
        let mut keeper = Command::new("unshare")
            .args([
                "--net",
                "sh",
                "-c",
                "ip link set lo up && echo up && exec cat",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        if first_line(&mut keeper) != "up" {
            let _ = keeper.kill();
            let _ = keeper.wait();
            testkit::skip(
                "namespaces",
                "unshare --net makes no network namespace here",
            );
            return None;
        }
        let keeper_stdin = keeper.stdin.take().unwrap();
        let mut server = inside(&keeper, env!("CARGO_BIN_EXE_wrkbench"))
            .args(["serve", "--listen", "127.0.0.1:0", "--io", "epoll"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let line = first_line(&mut server);
        let url = line.strip_prefix("serving ").unwrap().to_owned();
        Some(Self {
            place,
            keeper,
            server,
            url,
            _keeper_stdin: keeper_stdin,
        })
    }

    /// A program in the namespace.
    pub(crate) fn inside(&self, program: &str) -> Command {
        inside(&self.keeper, program)
    }

    /// Runs a program in the namespace to its end.
    pub(crate) fn output(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = self.inside(program);
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = await_in_thread(move || child.wait_with_output().unwrap());
        await_event(&said, program)
    }

    /// Runs wrkbench in the namespace to its end: exit code, stdout, stderr.
    pub(crate) fn wrkbench(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.output(env!("CARGO_BIN_EXE_wrkbench"), arguments);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        (code, text(output.stdout), text(output.stderr))
    }

    /// `wrkbench restore` with these options.
    pub(crate) fn restore(&self, options: &[&str]) -> (i32, String, String) {
        let journal = self.place.file("journal");
        let arguments = [&["restore", "--journal", &journal], options].concat();
        self.wrkbench(&arguments)
    }

    /// An experiment that changes network settings, a file, and the interface by commands. It has
    /// more trials than a test can make.
    pub(crate) fn plan(&self, hooks: &str) -> String {
        let at = self.place.file("");
        let url = &self.url;
        self.place.file_with(
            "plan.toml",
            format!(
                r#"
name = "to be killed"
rounds = 500
seed = 7
results = "{at}/results"
[load]
threads = 1
connections = 1
requests = 1
[[target]]
name = "server"
url = "{url}"
[[factor]]
name = "rmem"
sysctl = "net.ipv4.tcp_rmem"
levels = ["4096 16384 65536", "8192 262144 4194304"]
[[factor]]
name = "queues"
sysctl = ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"]
levels = [64, 1024]
[[factor]]
name = "waiting"
sysctl = "net.ipv4.neigh.lo.unres_qlen"
levels = [50, 300]
[[factor]]
name = "wmem"
levels = [
{{name="small", "net.ipv4.tcp_wmem"="4096 4096 65536", "net.ipv4.tcp_slow_start_after_idle"=0}},
{{name="large", "net.ipv4.tcp_wmem"="4096 65536 1048576", "net.ipv4.tcp_slow_start_after_idle"=1}},
]
[[factor]]
name = "file"
file = "{at}/conf/server.conf"
template = "{at}/server.tmpl"
levels = [1, 2]
[[factor]]
name = "mtu"
apply = "ip link set lo mtu $LEVEL"
restore = "ip link set lo mtu 65536"
levels = [1400, 9000]
{hooks}
"#
            ),
        )
    }

    /// The arguments of a sweep of the plan.
    pub(crate) fn sweep_arguments(&self, plan: &str) -> [String; 6] {
        let journal = self.place.file("journal");
        ["sweep", "--quiet", "--no-try", "--journal", &journal, plan].map(ToOwned::to_owned)
    }

    /// Starts a sweep, as the leader of a process group.
    pub(crate) fn sweep(&self, plan: &str) -> Sweep {
        let mut child = self
            .inside(env!("CARGO_BIN_EXE_wrkbench"))
            .args(self.sweep_arguments(plan))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let said = await_in_thread(move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        let lock = self.place.file("journal/lock");
        Sweep { child, said, lock }
    }

    /// Everything that could have been changed: all settings of the network, the file with its
    /// mode, the other files of its folder, and the interface.
    pub(crate) fn state(&self) -> BTreeMap<String, Vec<u8>> {
        // Some settings cannot be read, some are counters.
        let listing = self.output(
            "sh",
            &[
                "-c",
                "cd /proc/sys/net && grep -ars '' . | grep -v _count:; ip -o link show lo",
            ],
        );
        let mut state = BTreeMap::new();
        for line in listing.stdout.split(|&byte| byte == b'\n') {
            let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
            let lines: &mut Vec<u8> = state
                .entry(String::from_utf8_lossy(name).into_owned())
                .or_default();
            lines.extend_from_slice(line);
            lines.push(b'\n');
        }
        assert!(state.len() > 100, "{} settings", state.len());
        assert!(state.contains_key("./ipv4/tcp_rmem"));
        for entry in fs::read_dir(self.place.file("conf")).unwrap() {
            let path = entry.unwrap().path();
            let mode = fs::metadata(&path).unwrap().mode();
            let mut content = format!("{mode:o} ").into_bytes();
            content.extend(fs::read(&path).unwrap());
            state.insert(path.display().to_string(), content);
        }
        state
    }

    /// What differs from the earlier state.
    pub(crate) fn differences(&self, before: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
        let now = self.state();
        let names = before.keys().chain(now.keys());
        let mut differences: Vec<_> = names
            .filter(|name| before.get(*name) != now.get(*name))
            .map(|name| {
                let shown = |state: &BTreeMap<String, Vec<u8>>| {
                    state
                        .get(name)
                        .map(|value| String::from_utf8_lossy(value).into_owned())
                };
                format!("{name}: was {:?}, is {:?}", shown(before), shown(&now))
            })
            .collect();
        differences.sort();
        differences.dedup();
        differences
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.keeper] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A program in the namespace that a process keeps. nsenter becomes the program, with its process
/// ID.
fn inside(keeper: &Child, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{}/ns/net", keeper.id()));
    command.arg("--").arg(program);
    command
}

fn first_line(child: &mut Child) -> String {
    let stdout = child.stdout.take().unwrap();
    let line = await_in_thread(move || {
        let mut line = String::new();
        let mut reader = BufReader::new(stdout);
        let _ = reader.read_line(&mut line);
        // Kept open, so that further output does not end the process.
        (line, reader)
    });
    let (line, reader) = await_event(&line, "the first line");
    std::mem::forget(reader);
    line.trim_end().to_owned()
}

/// A sweep that was started here.
pub(crate) struct Sweep {
    pub(crate) child: Child,
    /// The output of it and its guardian, when both have ended.
    said: Receiver<String>,
    /// The lock file of the journal.
    lock: String,
}

impl Sweep {
    /// Sends a signal to it, or to its group.
    pub(crate) fn signal(&mut self, signal: &str, to: SignalTarget) {
        // It was not waited for yet, so the process ID is still its own.
        let pid = self.child.id();
        match to {
            SignalTarget::Process => send(signal, &pid.to_string()),
            SignalTarget::Group => send(signal, &format!("-{pid}")),
        }
    }

    /// The process ID of the guardian, if there is one.
    pub(crate) fn guardian(&self) -> Option<String> {
        let parent = self.child.id().to_string();
        fs::read_dir("/proc").unwrap().find_map(|entry| {
            let path = entry.unwrap().path();
            let pid = path.file_name()?.to_str()?.to_owned();
            let stat = fs::read_to_string(path.join("stat")).ok()?;
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
            let state = fields.next()?;
            let is_child = fields.next()? == parent && state != "Z";
            let command = fs::read_to_string(path.join("cmdline")).ok()?;
            (is_child && command.split('\0').nth(1) == Some("guardian")).then_some(pid)
        })
    }

    /// Waits for an event that comes while it runs.
    #[track_caller]
    pub(crate) fn await_event<T>(&self, event: &Receiver<T>, what: &str) -> T {
        const LOOK: Duration = Duration::from_millis(50);
        for _ in 0..WAIT_MAX.as_millis() / LOOK.as_millis() {
            if let Ok(event) = event.recv_timeout(LOOK) {
                return event;
            }
            if let Ok(said) = self.said.try_recv() {
                panic!("{what} does not come, the sweep has ended: {said}");
            }
        }
        panic!("{what} does not come");
    }

    /// Waits until it and its guardian have ended. Returns their output.
    pub(crate) fn end(mut self) -> String {
        let said = await_event(&self.said, "the end of sweep and guardian");
        self.child.wait().unwrap();
        // The kernel closes the files of a process one after the other: the lock may be held for a
        // moment after stderr was closed.
        eventually(|| match fs::File::open(&self.lock) {
            Ok(lock) => lock.try_lock().map_err(|error| error.to_string()),
            Err(_) => Ok(()),
        });
        said
    }
}

/// The target of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalTarget {
    Process,
    Group,
}

/// Sends a signal as kill(1) does.
pub(crate) fn send(signal: &str, to: &str) {
    assert!(send_signal(signal, to), "kill -{signal} {to}");
}

/// Waits for an event in another thread.
pub(crate) fn await_in_thread<T: Send + 'static>(
    event: impl FnOnce() -> T + Send + 'static,
) -> Receiver<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let _ = sender.send(event());
    });
    receiver
}

/// Waits for an event of another thread.
#[track_caller]
pub(crate) fn await_event<T>(event: &Receiver<T>, what: &str) -> T {
    event
        .recv_timeout(WAIT_MAX)
        .unwrap_or_else(|error| panic!("{what} does not come: {error}"))
}
