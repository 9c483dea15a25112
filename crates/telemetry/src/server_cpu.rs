//! CPU time of a server's processes over the window of a run, read at its start and at its end by
//! a thread of its own.
//!
//! A control group counts the CPU time of all its processes, also of those that have ended. Of
//! other servers it is the sum over their processes and all descendants: `/proc/PID/stat` has the
//! time of a process and that of the children that have ended and that it has waited for (proc(5)).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use results::parts::server::ServerRecording;

use crate::clock::{self, monotonic_ns};
use crate::file::read;
use crate::procfs::process::Usage;
use crate::sampler::Window;
use crate::target::{AttachError, Target, numbers_in};

/// A server whose CPU time can be measured.
#[derive(Debug)]
struct Server {
    root: PathBuf,
    target: Target,
    tick_ns: u64,
}

/// Measures the CPU time of a server within a window. Dropping it ends it without a result.
#[derive(Debug)]
pub struct ServerCpuMeter {
    /// Sending starts the window, dropping ends it.
    window: Sender<Window>,
    thread: JoinHandle<Option<ServerRecording>>,
}

/// What one reading found.
#[derive(Debug, Default)]
struct Reading {
    at_ns: u64,
    /// CPU time of the control group, nanoseconds; `None` if the server is none.
    group_ns: Option<u64>,
    processes: BTreeMap<u32, Usage>,
}

impl Server {
    fn find(name: &str) -> Result<Self, AttachError> {
        let root = Path::new("/");
        let target = Target::find(root, name)?;
        if target.processes(root).is_empty() {
            return Err(AttachError::LoadGenerator(target.to_string()));
        }
        Ok(Self {
            target,
            root: root.to_owned(),
            tick_ns: clock::tick_ns().ok_or(AttachError::NoTick)?,
        })
    }

    fn reading(&self) -> Reading {
        let group_ns = match &self.target {
            Target::Group(folder) => read(&folder.join("cpu.stat")).as_deref().and_then(usage_ns),
            Target::Process(_) | Target::Name(_) => None,
        };
        let mut processes = self.target.processes(&self.root);
        let found = if group_ns.is_some() {
            let number = |process| (process, Usage::default());
            processes.into_iter().map(number).collect()
        } else {
            let all = usages(&self.root);
            add_descendants(&mut processes, &all);
            let of_server = all
                .into_iter()
                .filter(|(process, _)| processes.contains(process));
            of_server.collect()
        };
        Reading {
            at_ns: monotonic_ns().unwrap_or_default(),
            group_ns,
            processes: found,
        }
    }

    fn between(&self, begin: &Reading, end: &Reading) -> ServerRecording {
        let numbers: BTreeSet<&u32> = begin.processes.keys().chain(end.processes.keys()).collect();
        let of_group = begin.group_ns.zip(end.group_ns);
        let cpu_ns = of_group.map(|(begin, end)| end.saturating_sub(begin));
        let of_processes =
            || ticks_between(&begin.processes, &end.processes).saturating_mul(self.tick_ns);
        ServerRecording {
            elapsed_ns: end.at_ns.saturating_sub(begin.at_ns),
            cpu_ns: cpu_ns.unwrap_or_else(of_processes),
            processes: numbers.len() as u64,
        }
    }
}

impl ServerCpuMeter {
    /// Finds a server by the number of a process, a systemd unit, or the name of a program, and
    /// starts the thread, which waits for [`Self::begin`].
    ///
    /// # Errors
    /// If nothing has this name, or no thread can be started.
    pub fn start(name: &str) -> Result<Self, AttachError> {
        let server = Server::find(name)?;
        let (window, begun) = mpsc::channel();
        let thread = std::thread::Builder::new().name("server-cpu".to_owned());
        let thread = thread.spawn(move || {
            // Without a window the run never started.
            let mut window: Window = begun.recv().ok()?;
            while let Some(moved) = wait_until(window.begin_ns, &begun) {
                window = moved;
            }
            let begin = server.reading();
            wait_until(window.end_ns, &begun);
            Some(server.between(&begin, &server.reading()))
        });
        let thread = thread.map_err(AttachError::Thread)?;
        Ok(Self { window, thread })
    }

    /// Starts the window. Until it has begun, another call moves it.
    pub fn begin(&self, window: Window) {
        // If the thread has ended, there is no result.
        let _ = self.window.send(window);
    }

    /// Ends the window, unless it has already ended, and returns the result; `None` if there was no
    /// window.
    #[must_use]
    pub fn finish(self) -> Option<ServerRecording> {
        drop(self.window);
        self.thread.join().ok().flatten()
    }
}

/// Returns at this time, or when the other end of the channel is gone, or with a window from it.
fn wait_until(until_ns: u64, end: &Receiver<Window>) -> Option<Window> {
    loop {
        let now_ns = monotonic_ns().unwrap_or(u64::MAX);
        let left = Duration::from_nanos(until_ns.saturating_sub(now_ns));
        if left.is_zero() {
            return None;
        }
        match end.recv_timeout(left) {
            Ok(window) => return Some(window),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// The CPU time of a control group (`usage_usec` of `cpu.stat`,
/// Documentation/admin-guide/cgroup-v2.rst), nanoseconds.
fn usage_ns(stat: &str) -> Option<u64> {
    let line = stat
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "));
    line?.trim().parse::<u64>().ok()?.checked_mul(1_000)
}

/// All processes of this machine.
fn usages(root: &Path) -> BTreeMap<u32, Usage> {
    let proc = root.join("proc");
    let usage = |process: u32| {
        let stat = read(&proc.join(process.to_string()).join("stat"))?;
        Some((process, Usage::of_stat(&stat)?))
    };
    numbers_in(&proc).filter_map(usage).collect()
}

/// Adds all descendants of processes, but not this one, which a shell may have started beside the
/// server.
fn add_descendants(processes: &mut BTreeSet<u32>, all: &BTreeMap<u32, Usage>) {
    let own = std::process::id();
    loop {
        let children = all.iter().filter(|(process, usage)| {
            **process != own && processes.contains(&usage.parent) && !processes.contains(process)
        });
        let children: Vec<u32> = children.map(|(process, _)| *process).collect();
        if children.is_empty() {
            return;
        }
        processes.extend(children);
    }
}

/// CPU time between two readings. The time of a process that has ended is that of its parent, which
/// gets all of it, also what was before the first reading.
fn ticks_between(begin: &BTreeMap<u32, Usage>, end: &BTreeMap<u32, Usage>) -> u64 {
    let total = |usage: &Usage| usage.own_ticks.saturating_add(usage.children_ticks);
    let used = end.iter().map(|(process, now)| {
        let before = begin.get(process).map_or(0, total);
        total(now).saturating_sub(before)
    });
    let used = used.fold(0, u64::saturating_add);
    let ended = begin
        .iter()
        .filter(|(process, _)| !end.contains_key(process));
    let handed_on = ended.filter(|(_, usage)| end.contains_key(&usage.parent));
    let before = handed_on.map(|(_, usage)| total(usage));
    used.saturating_sub(before.fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use testkit::Folder;

    use super::*;

    /// A process with its parent, its own ticks, and those of its children that have ended.
    fn process(folder: &Folder, id: u32, parent: u32, own: u64, children: u64) {
        let stat =
            format!("{id} (a (b) c) S {parent} 1 1 0 -1 0 1 2 3 4 {own} 0 {children} 0 20\n");
        folder.file_with(&format!("proc/{id}/stat"), &stat);
        folder.file_with(&format!("proc/{id}/comm"), "server\n");
    }

    fn server(folder: &Folder, target: Target) -> Server {
        Server {
            root: folder.path().to_owned(),
            target,
            tick_ns: 10_000_000,
        }
    }

    fn cpu_ticks(server: &Server, begin: &Reading) -> (u64, u64) {
        let found = server.between(begin, &server.reading());
        (found.cpu_ns / 10_000_000, found.processes)
    }

    #[test]
    fn children_that_are_started_and_end_within_the_window_count() {
        let folder = Folder::new();
        process(&folder, 10, 1, 100, 50);
        process(&folder, 11, 10, 40, 0);
        process(&folder, 99, 1, 7, 0);
        let server = server(&folder, Target::Process(10));
        let begin = server.reading();
        // 11 has ended with 60 ticks, 20 of them in the window; 12 was started; a child that was
        // never seen has used 5.
        fs::remove_dir_all(folder.join("proc/11")).expect("it is there");
        process(&folder, 10, 1, 130, 50 + 60 + 5);
        process(&folder, 12, 10, 8, 0);
        process(&folder, 99, 1, 9_000, 0);
        assert_eq!(cpu_ticks(&server, &begin), (30 + 20 + 5 + 8, 3));
    }

    #[test]
    fn a_process_whose_parent_is_no_server_takes_its_time_with_it() {
        let folder = Folder::new();
        process(&folder, 10, 1, 100, 0);
        process(&folder, 11, 1, 40, 0);
        let server = server(&folder, Target::Name("server".to_owned()));
        let begin = server.reading();
        fs::remove_dir_all(folder.join("proc/11")).expect("it is there");
        process(&folder, 10, 1, 130, 0);
        assert_eq!(cpu_ticks(&server, &begin), (30, 2));
    }

    #[test]
    fn a_control_group_counts_its_own_time() {
        let folder = Folder::new();
        let group = folder.join("sys/fs/cgroup/a.service");
        let stat = |usec: u64| {
            let text = format!("usage_usec {usec}\nuser_usec 1\nsystem_usec 2\n");
            folder.file_with("sys/fs/cgroup/a.service/cpu.stat", &text);
        };
        folder.file_with("sys/fs/cgroup/a.service/cgroup.procs", "12\n13\n");
        stat(1_000_000);
        let server = server(&folder, Target::Group(group));
        let begin = server.reading();
        stat(1_250_000);
        assert_eq!(cpu_ticks(&server, &begin), (25, 2));
    }

    #[test]
    fn other_texts_are_no_time_of_a_group() {
        for stat in ["", "usage_usec x", "usage_usec 99999999999999999999"] {
            assert_eq!(usage_ns(stat), None, "{stat:?}");
        }
    }

    #[test]
    fn a_process_that_waits_is_found_and_uses_no_time() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("there is sleep");
        let meter = ServerCpuMeter::start(&child.id().to_string()).expect("it runs");
        let now_ns = monotonic_ns().expect("there is a clock");
        meter.begin(Window {
            begin_ns: now_ns,
            end_ns: now_ns + 1,
        });
        let found = meter.finish().expect("there was a window");
        child
            .kill()
            .and_then(|()| child.wait().map(drop))
            .expect("it ends");
        assert_eq!((found.cpu_ns, found.processes), (0, 1));
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let error = ServerCpuMeter::start("no such server")
            .expect_err("it is not there")
            .to_string();
        assert!(error.contains("\"no such server\""), "{error}");
        let own = std::process::id().to_string();
        let error = ServerCpuMeter::start(&own)
            .expect_err("it makes the load")
            .to_string();
        assert!(error.contains("is this program"), "{error}");
    }

    #[test]
    fn without_a_run_no_thread_is_left() {
        let parent = std::os::unix::process::parent_id().to_string();
        let meter = ServerCpuMeter::start(&parent).expect("it runs");
        assert_eq!(meter.finish(), None);
    }
}
