//! Resource usage of a thread.

use std::fs::File;
use std::os::unix::fs::FileExt;

use results::ThreadUsage;

use crate::clock;
use crate::procfs::schedstat;

/// Reads the usage of the calling thread. A meter belongs to the first thread that calls it.
#[derive(Debug, Default)]
pub struct ThreadMeter {
    schedstat: Schedstat,
}

/// Kept open because opening takes several times as long as reading.
#[derive(Debug, Default)]
enum Schedstat {
    #[default]
    NotOpened,
    Missing,
    Open(File),
}

/// Three numbers of at most 20 digits.
const SCHEDSTAT_BYTES_MAX: usize = 80;

impl ThreadMeter {
    /// A meter that no thread has used yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The usage of this thread since its start; `None` if the system does not tell.
    pub fn usage(&mut self) -> Option<ThreadUsage> {
        let cpu_ns = clock::thread_cpu_ns()?;
        let waits = self.waits();
        Some(ThreadUsage {
            cpu_ns,
            run_queue_wait_ns: waits.map(|waits| waits.run_queue_wait_ns),
            timeslices: waits.map(|waits| waits.timeslices),
        })
    }

    /// The CPU time of this thread since its start, nanoseconds; `None` if the system does not
    /// tell. It takes one system call.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        clock::thread_cpu_ns()
    }

    /// How long this thread could run and waited for a CPU since its start, nanoseconds; `None` if
    /// the system does not tell. It takes one system call.
    pub fn run_queue_wait_ns(&mut self) -> Option<u64> {
        Some(self.waits()?.run_queue_wait_ns)
    }

    /// How often this thread has slept since its start; `None` if the system does not tell. It
    /// takes one system call.
    #[must_use]
    pub fn sleeps(&self) -> Option<u64> {
        clock::thread_sleeps()
    }

    fn waits(&mut self) -> Option<schedstat::Waits> {
        if matches!(self.schedstat, Schedstat::NotOpened) {
            // The link refers to the opening thread, and the open file keeps referring to it.
            self.schedstat = match File::open("/proc/thread-self/schedstat") {
                Ok(file) => Schedstat::Open(file),
                Err(_) => Schedstat::Missing,
            };
        }
        let Schedstat::Open(file) = &self.schedstat else {
            return None;
        };
        let mut bytes = [0; SCHEDSTAT_BYTES_MAX];
        let length = file.read_at(&mut bytes, 0).ok()?;
        schedstat::parse(str::from_utf8(bytes.get(..length)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses the CPU until the thread has used this much CPU time.
    fn use_cpu(until_ns: u64) {
        let mut number = 1_u64;
        while clock::thread_cpu_ns().unwrap() < until_ns {
            for _ in 0..1000 {
                number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005));
            }
        }
    }

    #[test]
    fn work_counts_as_cpu_time_of_its_thread() {
        let mut meter = ThreadMeter::new();
        let before = meter.usage().unwrap();
        use_cpu(before.cpu_ns + 2_000_000);
        let used = meter.usage().unwrap().since(&before);
        assert!(used.cpu_ns >= 2_000_000, "{used:?}");
    }

    #[test]
    fn the_work_of_another_thread_is_not_counted() {
        let mut meter = ThreadMeter::new();
        let before = meter.usage().unwrap();
        let other = std::thread::spawn(|| use_cpu(50_000_000));
        other.join().unwrap();
        let used = meter.usage().unwrap().since(&before);
        assert!(used.cpu_ns < 50_000_000, "{used:?}");
    }

    #[test]
    fn a_thread_that_waits_for_another_one_sleeps_and_one_that_works_does_not() {
        let meter = ThreadMeter::new();
        let sleeps = || meter.sleeps().unwrap();
        // The other thread may end before this one waits for it.
        let sleeps_in_join = |_| {
            let before = sleeps();
            let other = std::thread::spawn(|| use_cpu(5_000_000));
            other.join().unwrap();
            sleeps() > before
        };
        assert!((0..100).any(sleeps_in_join));
        assert!((0..100).any(|_| sleeps() == sleeps()));
    }

    #[test]
    fn waits_never_fall_and_are_read_from_the_same_open_file() {
        let mut meter = ThreadMeter::new();
        let before = meter.usage().unwrap();
        if before.timeslices.is_none() {
            // Without scheduler statistics the waits are unknown.
            assert_eq!(before.run_queue_wait_ns, None);
            return;
        }
        assert!(matches!(meter.schedstat, Schedstat::Open(_)));
        let after = meter.usage().unwrap();
        assert!(after.timeslices >= before.timeslices);
        assert!(after.run_queue_wait_ns >= before.run_queue_wait_ns);
    }

    #[test]
    fn without_the_file_the_cpu_time_is_still_known() {
        let mut meter = ThreadMeter {
            schedstat: Schedstat::Missing,
        };
        let usage = meter.usage().unwrap();
        assert!(usage.cpu_ns > 0);
        assert_eq!((usage.run_queue_wait_ns, usage.timeslices), (None, None));
    }
}
