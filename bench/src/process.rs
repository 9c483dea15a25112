//! Child processes pinned to a core; killed when dropped.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{procfs, terminal};

/// Maximum output that is kept.
const OUTPUT_LIMIT_BYTES: u64 = 1 << 20;

/// Prefix of the names of wrkbench's worker threads.
const WORKER_NAME: &str = "worker-";

/// Core and limits of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    /// The core to pin it to, if any.
    pub(crate) core: Option<u32>,
    /// Limit of open files: wrk does not raise its soft limit itself.
    pub(crate) file_limit: Option<u64>,
}

/// Exit status, resource usage and output of a process.
#[derive(Debug)]
pub(crate) struct ProcessOutput {
    pub(crate) status: ExitStatus,
    /// User and system time in microseconds, with a resolution of 10 ms.
    pub(crate) cpu_us: u64,
    /// Peak resident memory in kB, as of the last poll before the end.
    pub(crate) peak_rss_kb: u64,
    /// CPU time in microseconds of all threads but the workers, as of the last look before the end;
    /// of a process on a terminal, where the kernel counts it.
    pub(crate) other_threads_us: Option<u64>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A running child; killed and waited for on drop.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    name: String,
    /// Output after an announcement.
    rest: Option<JoinHandle<String>>,
    /// The controlling end of the terminal on stderr.
    terminal: Option<File>,
}

impl Process {
    /// Starts a program through `prlimit` and `taskset` (util-linux). Both exec it, so the child's
    /// process ID is the program's.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start<A: AsRef<OsStr>>(
        program: &Path,
        arguments: &[A],
        placement: Placement,
    ) -> anyhow::Result<Self> {
        Self::start_with(program, arguments, placement, Stdio::piped(), None)
    }

    /// The same with a pseudo-terminal as stderr.
    ///
    /// # Errors
    /// When it cannot be started, or no pseudo-terminal is available.
    pub(crate) fn start_on_terminal<A: AsRef<OsStr>>(
        program: &Path,
        arguments: &[A],
        placement: Placement,
    ) -> anyhow::Result<Self> {
        let (ours, theirs) = terminal::open().context("no terminal can be made")?;
        Self::start_with(program, arguments, placement, theirs.into(), Some(ours))
    }

    fn start_with<A: AsRef<OsStr>>(
        program: &Path,
        arguments: &[A],
        placement: Placement,
        stderr: Stdio,
        terminal: Option<File>,
    ) -> anyhow::Result<Self> {
        let mut words: Vec<String> = Vec::new();
        if let Some(limit) = placement.file_limit {
            words.extend(["prlimit".to_owned(), format!("--nofile={limit}:{limit}")]);
        }
        if let Some(core) = placement.core {
            words.extend(["taskset".to_owned(), "-c".to_owned(), core.to_string()]);
        }
        words.push(program.display().to_string());
        let child = Command::new(&words[0])
            .args(&words[1..])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .envs(terminal.as_ref().map(|_| ("TERM", terminal::KIND)))
            .spawn()
            .with_context(|| format!("cannot start {}", words.join(" ")))?;
        Ok(Self {
            child,
            name: program.display().to_string(),
            rest: None,
            terminal,
        })
    }

    /// The first line of stdout that `pick` accepts; later lines are the output of
    /// [`Self::watch`].
    ///
    /// # Errors
    /// When the child closes its output first.
    pub(crate) fn announced<T>(&mut self, pick: impl Fn(&str) -> Option<T>) -> anyhow::Result<T> {
        let stdout: ChildStdout = self
            .child
            .stdout
            .take()
            .context("output is already taken")?;
        let mut reader = BufReader::new(stdout.take(OUTPUT_LIMIT_BYTES));
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 {
            if let Some(found) = pick(&line) {
                let buffered = reader.buffer().to_vec();
                let rest = Cursor::new(buffered).chain(reader.into_inner().into_inner());
                self.rest = Some(collect(rest));
                return Ok(found);
            }
            line.clear();
        }
        let mut stderr = String::new();
        if let Some(pipe) = self.child.stderr.take() {
            pipe.take(OUTPUT_LIMIT_BYTES).read_to_string(&mut stderr)?;
        }
        bail!(
            "{} ended without printing its address: {}",
            self.name,
            stderr.trim()
        );
    }

    /// User and system time used so far, in microseconds.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub(crate) fn cpu_us(&self) -> anyhow::Result<u64> {
        Ok(self.stat()?.cpu_us)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot send a signal to {}", self.name))
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// When no shell can be started to send it.
    pub(crate) fn terminate(&self) -> anyhow::Result<()> {
        let script = format!("kill -TERM {}", self.child.id());
        let status = Command::new("/bin/sh").args(["-c", &script]).status()?;
        if !status.success() {
            bail!("cannot end {}", self.name);
        }
        Ok(())
    }

    /// Waits for the end of the child, polling every `poll`: memory and CPU time can only be read
    /// while it has not been reaped.
    ///
    /// # Errors
    /// When it does not end within `limit`, or `interrupted` is set; it is killed then.
    pub(crate) fn watch(
        mut self,
        limit: Duration,
        poll: Duration,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<ProcessOutput> {
        let mut other_threads = self.terminal.is_some().then(BTreeMap::new);
        let stdout = self.rest.take();
        let stdout = stdout.or_else(|| self.child.stdout.take().map(collect));
        let stderr = self.child.stderr.take().map(collect);
        let stderr = stderr.or_else(|| self.terminal.take().map(collect));
        let mut peak_rss_kb = 0;
        let mut polls_left = limit.as_millis() / poll.as_millis().max(1);
        let cpu_us = loop {
            let stat = self.stat()?;
            if stat.state == 'Z' {
                break stat.cpu_us;
            }
            if let Some(kb) = procfs::parse_peak_rss_kb(&self.proc_file("status")?) {
                peak_rss_kb = peak_rss_kb.max(kb);
            }
            if let Some(other_threads) = &mut other_threads {
                self.poll_other_threads(other_threads);
            }
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            if polls_left == 0 {
                bail!("{} did not end within {} s", self.name, limit.as_secs());
            }
            polls_left -= 1;
            thread::park_timeout(poll);
        };
        let status = self.child.wait()?;
        Ok(ProcessOutput {
            status,
            cpu_us,
            peak_rss_kb,
            other_threads_us: other_threads
                .filter(|threads| !threads.is_empty())
                .map(|threads| threads.values().sum()),
            stdout: joined(stdout),
            stderr: joined(stderr),
        })
    }

    /// Records the CPU time of each thread that is not a worker, in microseconds. A thread that
    /// ended keeps its last value.
    fn poll_other_threads(&self, run_us: &mut BTreeMap<OsString, u64>) {
        let tasks = format!("/proc/{}/task", self.child.id());
        for task in fs::read_dir(tasks).into_iter().flatten().flatten() {
            let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
            // The thread has just ended, or the kernel does not count.
            let Some(name) = read("comm").filter(|name| !name.starts_with(WORKER_NAME)) else {
                continue;
            };
            let run = read("schedstat").and_then(|text| procfs::parse_run_time_us(&text));
            if let Some(run) = run.filter(|_| !name.is_empty()) {
                run_us.insert(task.file_name(), run);
            }
        }
    }

    fn stat(&self) -> anyhow::Result<procfs::Stat> {
        let text = self.proc_file("stat")?;
        procfs::parse_stat(&text)
            .with_context(|| format!("cannot understand /proc/<pid>/stat: {text}"))
    }

    fn proc_file(&self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{file}", self.child.id());
        let bytes = fs::read(&path).with_context(|| format!("cannot read {path}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the child has already been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a pipe to its end on a separate thread, so that the child never blocks on it.
fn collect(pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut limited = pipe.take(OUTPUT_LIMIT_BYTES);
        // Keep what was read before an error.
        let _ = limited.read_to_end(&mut bytes);
        let _ = std::io::copy(&mut limited.into_inner(), &mut std::io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn joined(reader: Option<JoinHandle<String>>) -> String {
    reader
        .and_then(|reader| reader.join().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Duration = Duration::from_millis(10);

    const ANYWHERE: Placement = Placement {
        core: None,
        file_limit: None,
    };

    fn shell(script: &str) -> Process {
        Process::start(Path::new("/bin/sh"), &["-c", script], ANYWHERE).unwrap()
    }

    fn limit() -> Duration {
        Duration::from_secs(60)
    }

    #[test]
    fn a_process_is_watched_to_its_end_with_output_and_cpu_time() {
        let busy =
            "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo out; echo err >&2; exit 3";
        let ended = shell(busy)
            .watch(limit(), POLL, &AtomicBool::new(false))
            .unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(
            (ended.stdout.as_str(), ended.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert!(ended.cpu_us >= procfs::TICK_US, "{}", ended.cpu_us);
        assert!(ended.peak_rss_kb > 100, "{}", ended.peak_rss_kb);
    }

    #[test]
    fn a_process_on_a_terminal_has_one_behind_standard_error() {
        let script = "test -t 2 && stty size <&2 && echo $TERM && echo seen >&2";
        let arguments = ["-c", script];
        let process = Process::start_on_terminal(Path::new("/bin/sh"), &arguments, ANYWHERE);
        let ended = process
            .unwrap()
            .watch(limit(), POLL, &AtomicBool::new(false));
        let ended = ended.unwrap();
        assert_eq!(ended.stdout, "40 120\nxterm-256color\n");
        assert_eq!(ended.stderr, "seen\r\n");
    }

    #[test]
    fn the_time_of_threads_that_are_no_workers_is_known_of_a_process_on_a_terminal() {
        let arguments = ["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"];
        let shell = Path::new("/bin/sh");
        let other_threads_us = |process: anyhow::Result<Process>| {
            let ended = process
                .unwrap()
                .watch(limit(), POLL, &AtomicBool::new(false));
            ended.unwrap().other_threads_us
        };
        let watched = other_threads_us(Process::start_on_terminal(shell, &arguments, ANYWHERE));
        assert!(watched.is_none_or(|us| us > 1_000), "{watched:?}");
        assert_eq!(
            watched.is_some(),
            Path::new("/proc/self/schedstat").exists()
        );
        assert_eq!(
            other_threads_us(Process::start(shell, &arguments, ANYWHERE)),
            None
        );
    }

    #[test]
    fn an_interrupted_watch_leaves_no_process_behind() {
        let process = shell("while :; do :; done");
        let pid = process.child.id();
        let error = process
            .watch(limit(), POLL, &AtomicBool::new(true))
            .unwrap_err();
        assert_eq!(error.to_string(), "interrupted");
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_process_that_does_not_end_is_given_up_and_killed() {
        let process = shell("while :; do :; done");
        let pid = process.child.id();
        let error = process
            .watch(Duration::ZERO, POLL, &AtomicBool::new(false))
            .unwrap_err();
        assert!(error.to_string().contains("did not end"), "{error}");
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn the_announcement_is_found_among_other_lines() {
        let mut process = shell("echo hello; echo port 42; exec cat /dev/zero");
        let port = process.announced(|line| line.trim().strip_prefix("port ")?.parse::<u16>().ok());
        assert_eq!(port.unwrap(), 42);
        assert!(process.is_running());
    }

    #[test]
    fn what_is_printed_behind_the_announcement_is_kept_until_the_end() {
        let script =
            "trap 'echo bye; exit 0' TERM; printf 'port 42\\nmore\\n'; while :; do :; done";
        let mut process = shell(script);
        let pick = |line: &str| line.starts_with("port").then_some(());
        process.announced(pick).unwrap();
        process.terminate().unwrap();
        let ended = process
            .watch(limit(), POLL, &AtomicBool::new(false))
            .unwrap();
        assert!(ended.status.success());
        assert_eq!(ended.stdout, "more\nbye\n");
    }

    #[test]
    fn a_server_that_fails_is_reported_with_its_own_words() {
        let error = shell("echo no port >&2; exit 1")
            .announced(|_| None::<u16>)
            .unwrap_err();
        assert!(error.to_string().ends_with("no port"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let error = Process::start(Path::new("/nonexistent/tool"), &["x"], ANYWHERE).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/tool"), "{error}");
    }
}
