//! The counters of all threads of a server, and their rings.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::perf_event::{Counter, Ring};
use crate::file::read;
use crate::procfs::process::cpu_list;
use crate::target::numbers_in;

/// One counter for each thread and CPU, and one ring for each CPU.
#[derive(Debug)]
pub(crate) struct Counters {
    cpus: Vec<u32>,
    /// In the order of `cpus`; `None` before the first counter.
    pub(crate) rings: Vec<Option<Ring>>,
    counters: Vec<Counter>,
    /// In the order of `cpus`: the counter that has the ring, by its index.
    first: Vec<Option<usize>>,
    /// How many of `counters` are on.
    enabled: usize,
    /// Whether functions of the kernel are sampled.
    pub(crate) with_kernel: bool,
}

/// Why threads cannot be sampled.
#[derive(Debug)]
pub(crate) struct CounterError {
    error: io::Error,
    counters: usize,
    threads: usize,
    cpus: usize,
}

/// Files of a process that has used up what it may open.
const NO_MORE_FILES: [i32; 2] = [libc::EMFILE, libc::ENFILE];

impl Counters {
    /// No counters yet.
    pub(crate) fn new() -> Self {
        let online = read(Path::new("/sys/devices/system/cpu/online")).unwrap_or_default();
        let cpus: Vec<u32> = match cpu_list(&online) {
            Some(cpus) => cpus.into_iter().collect(),
            None => vec![0],
        };
        Self {
            rings: cpus.iter().map(|_| None).collect(),
            first: vec![None; cpus.len()],
            counters: Vec::new(),
            enabled: 0,
            with_kernel: true,
            cpus,
        }
    }

    /// Adds the threads of a process; `of_thread` gets each. Threads that end meanwhile are left
    /// out.
    ///
    /// # Errors
    /// If this user may not sample the process, or has too many files open.
    pub(crate) fn add(
        &mut self,
        process: u32,
        mut of_thread: impl FnMut(u32),
    ) -> Result<(), CounterError> {
        let threads: Vec<u32> =
            numbers_in(&PathBuf::from(format!("/proc/{process}/task"))).collect();
        for thread in &threads {
            of_thread(*thread);
            for at in 0..self.cpus.len() {
                match self.add_counter(*thread, at) {
                    Ok(()) => {}
                    // It has ended.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => break,
                    Err(error) => {
                        return Err(CounterError {
                            error,
                            counters: self.counters.len(),
                            threads: threads.len(),
                            cpus: self.cpus.len(),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    fn add_counter(&mut self, thread: u32, at: usize) -> io::Result<()> {
        let counter = match Counter::open(thread, self.cpus[at], self.with_kernel) {
            Err(error)
                if self.with_kernel
                    && self.counters.is_empty()
                    && error.kind() == io::ErrorKind::PermissionDenied =>
            {
                // Without privileges only programs can be sampled.
                self.with_kernel = false;
                Counter::open(thread, self.cpus[at], false)?
            }
            other => other?,
        };
        match self.first[at] {
            Some(first) => counter.write_to(&self.counters[first])?,
            None => {
                self.rings[at] = Some(Ring::of(&counter)?);
                self.first[at] = Some(self.counters.len());
            }
        }
        self.counters.push(counter);
        Ok(())
    }

    /// Whether there is no counter.
    pub(crate) fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// Turns on the counters that were added.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub(crate) fn enable(&mut self) -> Result<(), CounterError> {
        for counter in &self.counters[self.enabled..] {
            counter.enable().map_err(|error| CounterError {
                error,
                counters: self.counters.len(),
                threads: 0,
                cpus: self.cpus.len(),
            })?;
        }
        self.enabled = self.counters.len();
        Ok(())
    }
}

impl fmt::Display for CounterError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paranoid = read(Path::new("/proc/sys/kernel/perf_event_paranoid"));
        let paranoid = paranoid.as_deref().map_or("unknown", str::trim);
        match self.error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => write!(
                formatter,
                "not permitted: {} (kernel.perf_event_paranoid is {paranoid}; run as the user of \
                 the server with sysctl kernel.perf_event_paranoid=2 or lower, or with the \
                 capability CAP_PERFMON; containers also need a seccomp profile that permits \
                 perf_event_open)",
                self.error
            ),
            Some(libc::ENOSYS) => write!(
                formatter,
                "this kernel or container has no perf_event_open: {}",
                self.error
            ),
            Some(code) if NO_MORE_FILES.contains(&code) => write!(
                formatter,
                "too many open files after {} counters: {} threads on {} CPUs need one for each \
                 thread and CPU (raise the limit with ulimit -n, or profile one process)",
                self.counters, self.threads, self.cpus
            ),
            _ => write!(formatter, "{}", self.error),
        }
    }
}
