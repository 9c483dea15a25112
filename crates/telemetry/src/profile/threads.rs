//! How long the threads of a server were on a CPU and waited for one, and the pressure on it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use results::ThreadTimes;

use super::record::Task;
use crate::file::read;
use crate::procfs::cgroup::{self, Version};
use crate::procfs::{pressure, schedstat};

/// Files of more threads are not read; their samples are still taken.
const THREADS_MAX: usize = 4096;

/// Threads whose files are read in one interval of the shortest length, which takes 2 % of it.
const THREADS_PER_INTERVAL: usize = 64;

/// Shortest time between two readings.
const INTERVAL_MIN_NS: u64 = 20_000_000;

/// Files are a few lines long.
const FILE_BYTES_MAX: usize = 512;

/// Intervals are joined by twos when there are more: half an hour of the shortest ones.
const INTERVALS_MAX: usize = 100_000;

/// The kinds of pressure, in the order of [`ThreadTimes::pressure_ns`].
const PRESSURES: [&str; 3] = ["cpu", "memory", "io"];

/// Reads the times of threads again and again.
#[derive(Debug)]
pub(crate) struct ThreadMeter {
    threads: BTreeMap<u32, Thread>,
    /// Threads that were ever seen.
    seen: u32,
    pressures: [Option<(File, u64)>; 3],
    pressure_of: String,
    last_ns: u64,
    interval_ns: u64,
    intervals: Vec<ThreadTimes>,
}

#[derive(Debug)]
struct Thread {
    file: File,
    cpu_ns: u64,
    wait_ns: u64,
    /// Intervals behind each other, up to the last one, in which it was on no CPU.
    idle_intervals: usize,
}

impl ThreadMeter {
    /// A meter without threads, for a server with this process.
    pub(crate) fn new(process: u32, now_ns: u64) -> Self {
        let (folder, pressure_of) = pressure_folder(process);
        let pressures = PRESSURES.map(|name| {
            let names = [name.to_owned(), format!("{name}.pressure")];
            let file = names
                .iter()
                .find_map(|name| File::open(folder.join(name)).ok())?;
            let total_ns = pressure_ns(&file)?;
            Some((file, total_ns))
        });
        Self {
            threads: BTreeMap::new(),
            seen: 0,
            pressures,
            pressure_of,
            last_ns: now_ns,
            interval_ns: INTERVAL_MIN_NS,
            intervals: Vec::new(),
        }
    }

    /// A thread that was there before: its time so far does not count.
    pub(crate) fn add(&mut self, task: Task) {
        self.insert(task, true);
    }

    /// A thread that has just been started.
    pub(crate) fn has_started(&mut self, task: Task) {
        self.insert(task, false);
    }

    fn insert(&mut self, task: Task, is_old: bool) {
        let Task { process, thread } = task;
        if self.threads.contains_key(&thread) {
            return;
        }
        self.seen = self.seen.saturating_add(1);
        if self.threads.len() >= THREADS_MAX {
            return;
        }
        let path = format!("/proc/{process}/task/{thread}/schedstat");
        let Ok(file) = File::open(path) else {
            return;
        };
        let times = times_ns(&file).filter(|_| is_old);
        let (cpu_ns, wait_ns) = times.unwrap_or_default();
        let thread_times = Thread {
            file,
            cpu_ns,
            wait_ns,
            idle_intervals: 0,
        };
        self.threads.insert(thread, thread_times);
    }

    /// A thread has ended.
    pub(crate) fn has_ended(&mut self, task: Task) {
        self.threads.remove(&task.thread);
    }

    /// Reads all times if it is time to.
    pub(crate) fn read(&mut self, now_ns: u64) {
        let shares = self.threads.len().div_ceil(THREADS_PER_INTERVAL).max(1);
        let interval_ns = self.interval_ns.saturating_mul(shares as u64);
        // Readings are due when the loop comes by, which is not exact.
        if now_ns.saturating_sub(self.last_ns) >= interval_ns * 9 / 10 {
            self.read_now(now_ns);
        }
    }

    fn read_now(&mut self, now_ns: u64) {
        let (mut cpu_ns, mut wait_ns) = (None, None);
        let length_ns = now_ns.saturating_sub(self.last_ns);
        for thread in self.threads.values_mut() {
            let Some((cpu, wait)) = times_ns(&thread.file) else {
                continue;
            };
            let own_cpu_ns = cpu.saturating_sub(thread.cpu_ns);
            let own_wait_ns = wait.saturating_sub(thread.wait_ns);
            let room_ns = length_ns.saturating_sub(own_cpu_ns);
            let earlier_ns = own_wait_ns.saturating_sub(room_ns);
            // A wait reaches back to the interval in which the thread was last on a CPU.
            let first = self
                .intervals
                .len()
                .saturating_sub(thread.idle_intervals + 1);
            let rest_ns = add_earlier_wait(&mut self.intervals[first..], earlier_ns);
            *cpu_ns.get_or_insert(0) += own_cpu_ns;
            *wait_ns.get_or_insert(0) += own_wait_ns - earlier_ns + rest_ns;
            thread.idle_intervals = match own_cpu_ns {
                0 => thread.idle_intervals + 1,
                _ => 0,
            };
            (thread.cpu_ns, thread.wait_ns) = (cpu, wait);
        }
        let mut pressures_ns = [None; 3];
        for (pressure, grown_ns) in self.pressures.iter_mut().zip(&mut pressures_ns) {
            if let Some((file, total_ns)) = pressure
                && let Some(now_ns) = pressure_ns(file)
            {
                *grown_ns = Some(now_ns.saturating_sub(*total_ns));
                *total_ns = now_ns;
            }
        }
        self.intervals.push(ThreadTimes {
            start_ns: self.last_ns,
            end_ns: now_ns,
            threads: u32::try_from(self.threads.len()).unwrap_or(u32::MAX),
            on_cpu_ns: cpu_ns,
            run_queue_wait_ns: wait_ns,
            pressure_ns: pressures_ns,
        });
        self.last_ns = now_ns;
        if self.intervals.len() >= INTERVALS_MAX {
            self.intervals = self.intervals.chunks(2).filter_map(joined).collect();
            self.interval_ns = self.interval_ns.saturating_mul(2);
            for thread in self.threads.values_mut() {
                thread.idle_intervals = 0;
            }
        }
    }

    /// The intervals, whose pressure it is, and the number of threads that were seen.
    pub(crate) fn finish(mut self, now_ns: u64) -> (Vec<ThreadTimes>, String, u32) {
        self.read_now(now_ns);
        (self.intervals, self.pressure_of, self.seen)
    }
}

/// The kernel counts a wait for a CPU when it is over. Adds it to the intervals in which it was,
/// the last ones first, and returns what did not fit.
fn add_earlier_wait(intervals: &mut [ThreadTimes], wait_ns: u64) -> u64 {
    let mut left_ns = wait_ns;
    for interval in intervals.iter_mut().rev() {
        let own_ns = left_ns.min(interval.end_ns.saturating_sub(interval.start_ns));
        if own_ns > 0 {
            *interval.run_queue_wait_ns.get_or_insert(0) += own_ns;
        }
        left_ns -= own_ns;
    }
    left_ns
}

/// Two intervals behind each other as one.
fn joined(intervals: &[ThreadTimes]) -> Option<ThreadTimes> {
    let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
    intervals
        .iter()
        .copied()
        .reduce(|first, second| ThreadTimes {
            start_ns: first.start_ns,
            end_ns: second.end_ns,
            threads: first.threads.max(second.threads),
            on_cpu_ns: sum(first.on_cpu_ns, second.on_cpu_ns),
            run_queue_wait_ns: sum(first.run_queue_wait_ns, second.run_queue_wait_ns),
            pressure_ns: [0, 1, 2].map(|at| sum(first.pressure_ns[at], second.pressure_ns[at])),
        })
}

/// Where the pressure on a process is: in its control group if it has one of its own.
fn pressure_folder(process: u32) -> (PathBuf, String) {
    let memberships = read(&PathBuf::from(format!("/proc/{process}/cgroup"))).unwrap_or_default();
    let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    // The last one is the mount itself, whose pressure is that of the machine.
    let mut folders = cgroup::folders(Version::V2, &memberships, &mounts);
    folders.pop();
    let own = folders.into_iter().next();
    match own.filter(|folder| folder.join("cpu.pressure").exists()) {
        Some(folder) => {
            let name = folder.file_name().unwrap_or_default();
            let name = format!("the control group {}", name.display());
            (folder, name)
        }
        None => (PathBuf::from("/proc/pressure"), "the machine".to_owned()),
    }
}

fn text<T>(file: &File, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let mut bytes = [0; FILE_BYTES_MAX];
    let length = file.read_at(&mut bytes, 0).ok()?;
    read(str::from_utf8(bytes.get(..length)?).ok()?)
}

fn times_ns(file: &File) -> Option<(u64, u64)> {
    let waits = text(file, schedstat::parse)?;
    Some((waits.cpu_ns, waits.run_queue_wait_ns))
}

fn pressure_ns(file: &File) -> Option<u64> {
    text(file, pressure::some_total_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_intervals_have_the_sum_of_what_is_known_of_both() {
        let interval = |start_ns, on_cpu_ns, cpu| ThreadTimes {
            start_ns,
            end_ns: start_ns + 20,
            threads: 2,
            on_cpu_ns,
            run_queue_wait_ns: Some(1),
            pressure_ns: [cpu, Some(5), None],
        };
        let both = joined(&[interval(0, Some(3), Some(1)), interval(20, None, Some(2))]);
        let expected = ThreadTimes {
            start_ns: 0,
            end_ns: 40,
            threads: 2,
            on_cpu_ns: None,
            run_queue_wait_ns: Some(2),
            pressure_ns: [Some(3), Some(10), None],
        };
        assert_eq!(both, Some(expected));
    }

    #[test]
    fn a_wait_counts_in_the_intervals_in_which_it_was() {
        let interval = |at: u64, wait_ns| ThreadTimes {
            start_ns: at * 20,
            end_ns: at * 20 + 20,
            run_queue_wait_ns: wait_ns,
            ..ThreadTimes::default()
        };
        let mut intervals = [
            interval(0, Some(1)),
            interval(1, None),
            interval(2, Some(3)),
        ];
        assert_eq!(add_earlier_wait(&mut intervals, 25), 0);
        let waits = intervals.map(|it| it.run_queue_wait_ns);
        assert_eq!(waits, [Some(1), Some(5), Some(23)]);
        assert_eq!(add_earlier_wait(&mut intervals[1..], 50), 10);
        assert_eq!(add_earlier_wait(&mut [], 5), 5);
    }

    #[test]
    fn the_time_of_a_thread_counts_from_when_it_is_known() {
        let process = std::process::id();
        let now_ns = || crate::clock::monotonic_ns().expect("this system has the clock");
        let mut meter = ThreadMeter::new(process, now_ns());
        let thread = crate::target::numbers_in(Path::new("/proc/self/task")).next();
        let thread = thread.expect("this process has threads");
        meter.add(Task { process, thread });
        let (intervals, _, seen) = meter.finish(now_ns());
        assert_eq!((intervals.len(), seen), (1, 1));
        assert_eq!(intervals[0].threads, 1);
    }
}
