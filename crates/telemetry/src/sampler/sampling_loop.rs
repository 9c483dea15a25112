//! The loop that samples sockets, from before the window to its end. The source of sockets and the
//! clock are parameters.

use std::io;

use results::Telemetry;

use super::sample_writer::{SampleTime, SampleWriter};
use super::socket_stats::SocketStats;
use crate::counters::Counters;
use crate::sockets::Socket;

/// The measured window, on CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Start of the window, nanoseconds.
    pub begin_ns: u64,
    /// Its end unless it is ended earlier, nanoseconds; `u64::MAX` if it has no scheduled end.
    pub end_ns: u64,
}

/// Where sockets come from.
pub(super) trait SocketSource {
    /// All sockets that may match the filter in some state.
    fn dump_any_state(&mut self, sockets: &mut Vec<Socket>) -> io::Result<()>;
    /// The sockets that match the filter.
    fn dump(&mut self, sockets: &mut Vec<Socket>) -> io::Result<()>;
    /// Whether the filter matches this socket.
    fn takes(&self, socket: &Socket) -> bool;
    /// Appends the sockets that closed since the last call.
    fn closed(&mut self, sockets: &mut Vec<Socket>) -> io::Result<()>;
    /// Whether a closed socket counts that no sample has seen.
    fn counts_unseen(&self) -> bool;
    /// How often the kernel dropped closed sockets because its buffer was full.
    fn overflows(&self) -> u64;
}

/// Clocks, waits and counters.
pub(super) trait Clock {
    /// The time of CLOCK_MONOTONIC, nanoseconds.
    fn now_ns(&mut self) -> u64;
    /// Milliseconds since 1970 (UTC); informational.
    fn unix_ms(&mut self) -> i64;
    /// CPU time of this thread.
    fn cpu_ns(&mut self) -> Option<u64>;
    /// Waits until this time or the end of the window.
    fn wait(&mut self, until_ns: u64) -> Wake;
    /// Waits until this time, even if the window ends.
    fn settle(&mut self, until_ns: u64);
    /// The kernel counters now.
    fn counters(&mut self) -> Counters;
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// The time is reached.
    Due,
    /// The window was ended.
    Ended,
    /// Before the window: it was moved.
    Moved(Window),
}

/// A sampler before its window: what it samples, and where the samples go.
#[derive(Debug)]
pub(super) struct SamplingLoop<K> {
    /// The source of sockets, if they are wanted.
    pub(super) kernel: Option<K>,
    /// Time between samples, more than zero.
    pub(super) interval_ns: u64,
    /// Whether counters are wanted.
    pub(super) counters: bool,
    /// Where samples are written.
    pub(super) lines: SampleWriter,
    /// Notes from the preparation.
    pub(super) notes: Vec<String>,
}

/// Closed sockets are fetched at least this often: the kernel keeps a few thousand.
const FETCH_NS: u64 = 100_000_000;

/// The first sample is taken this long before the window: without a warm-up connections are opened
/// at its start, and what they did before the first sample would be missing.
const AHEAD_NS: u64 = 1_000_000;

/// At the end, the longest wait for reports of sockets that have just closed.
const SETTLE_NS: u64 = 30_000_000;
const SETTLE_STEP_NS: u64 = 5_000_000;

/// The state of the loop within one window.
struct WindowSampler<'a, K, C> {
    kernel: Option<K>,
    clock: &'a mut C,
    begin_ns: u64,
    end_ns: u64,
    interval_ns: u64,
    /// Intervals that had ended when the last sample was taken.
    passed: u64,
    stats: SocketStats,
    lines: SampleWriter,
    /// Reused to avoid allocations.
    sockets: Vec<Socket>,
    /// The state of the sockets before the window is recorded.
    has_begun: bool,
    samples: u64,
    failed_samples: u64,
    first_failure: Option<io::Error>,
    closed_failure: Option<io::Error>,
}

impl<K: SocketSource> SamplingLoop<K> {
    /// Samples until the window has ended.
    pub(super) fn run(self, window: Window, clock: &mut impl Clock) -> Telemetry {
        let mut sampler = WindowSampler {
            kernel: self.kernel,
            begin_ns: window.begin_ns,
            end_ns: window.end_ns,
            interval_ns: self.interval_ns,
            passed: 0,
            stats: SocketStats::default(),
            lines: self.lines,
            sockets: Vec::new(),
            has_begun: false,
            samples: 0,
            failed_samples: 0,
            first_failure: None,
            closed_failure: None,
            clock,
        };
        let wake = sampler.warm_up();
        let counters = self.counters.then(|| sampler.clock.counters());
        let cpu_ns = sampler.clock.cpu_ns();
        sampler.begin();
        if wake == Wake::Due {
            sampler.watch();
        }
        // Read before the sockets, which take longer.
        let growth = counters.map(|begin| sampler.clock.counters().growth_since(&begin));
        sampler.end();
        let cpu_ns = sampler
            .clock
            .cpu_ns()
            .zip(cpu_ns)
            .map(|(end, begin)| end.saturating_sub(begin));
        let mut notes = self.notes;
        notes.extend(sampler.notes());
        let has_sockets = sampler.kernel.is_some();
        Telemetry {
            interval_ns: self.interval_ns,
            samples: sampler.samples,
            cpu_ns,
            sockets: has_sockets.then(|| sampler.stats.summary()),
            counters: growth.unwrap_or_default(),
            timeline: has_sockets.then(|| sampler.stats.timeline(self.interval_ns)),
            notes,
        }
    }
}

impl<K: SocketSource, C: Clock> WindowSampler<'_, K, C> {
    /// Waits until just before the window. Sockets that close earlier do not matter, but their
    /// reports fill the kernel's buffer.
    fn warm_up(&mut self) -> Wake {
        loop {
            let ready_ns = self.begin_ns.saturating_sub(AHEAD_NS);
            let now_ns = self.clock.now_ns();
            if now_ns >= ready_ns {
                return Wake::Due;
            }
            let until_ns = ready_ns.min(self.next_fetch(now_ns));
            match self.clock.wait(until_ns) {
                Wake::Due => {}
                Wake::Ended => return Wake::Ended,
                Wake::Moved(window) => {
                    (self.begin_ns, self.end_ns) = (window.begin_ns, window.end_ns);
                }
            }
            self.fetch_closed();
        }
    }

    fn begin(&mut self) {
        self.fetch_closed();
        let moment = self.moment();
        let Some(kernel) = &mut self.kernel else {
            return;
        };
        let outcome = kernel.dump_any_state(&mut self.sockets);
        if outcome.is_ok() {
            self.stats
                .begin(&self.sockets, |socket| kernel.takes(socket));
            self.sockets.retain(|socket| kernel.takes(socket));
            self.has_begun = true;
        }
        self.note_sample(moment, outcome);
        // Reports may be late, so the end of an unknown socket belongs to the time before.
        self.take_closed(false);
    }

    /// Samples until the window ends, by time or because it is ended.
    fn watch(&mut self) {
        let Self {
            begin_ns,
            end_ns,
            interval_ns,
            ..
        } = *self;
        let mut sample_ns = match self.kernel {
            Some(_) => begin_ns.saturating_add(interval_ns),
            None => u64::MAX,
        };
        loop {
            let now_ns = self.clock.now_ns();
            let until_ns = end_ns.min(sample_ns).min(self.next_fetch(now_ns));
            if self.clock.wait(until_ns) == Wake::Ended {
                return;
            }
            let now_ns = self.clock.now_ns();
            if now_ns >= end_ns {
                return;
            }
            if now_ns >= sample_ns {
                // The sample belongs to the interval that has just ended.
                self.advance((now_ns - begin_ns) / interval_ns - 1);
                self.sample();
                // Missed samples are not made up for.
                self.passed = self.clock.now_ns().saturating_sub(begin_ns) / interval_ns;
                self.advance(self.passed);
                sample_ns = begin_ns.saturating_add((self.passed + 1).saturating_mul(interval_ns));
            }
            self.take_closed_if_wanted();
        }
    }

    /// Takes the last sample. Sockets are closing at this moment, and their activity since the last
    /// sample is only known from their final values.
    fn end(&mut self) {
        let now_ns = self.clock.now_ns();
        let since_begin_ns = now_ns.saturating_sub(self.begin_ns);
        self.advance(since_begin_ns.div_ceil(self.interval_ns).saturating_sub(1));
        self.sample();
        self.take_closed_if_wanted();
        let now_ns = self.clock.now_ns();
        let mut until_ns = now_ns;
        while self.stats.has_missing() && until_ns < now_ns.saturating_add(SETTLE_NS) {
            until_ns = until_ns.saturating_add(SETTLE_STEP_NS);
            self.clock.settle(until_ns);
            self.take_closed_if_wanted();
        }
    }

    /// What follows belongs to this interval, but not to one after the window.
    fn advance(&mut self, interval: u64) {
        let window_ns = self.end_ns.saturating_sub(self.begin_ns);
        let last = window_ns.div_ceil(self.interval_ns).saturating_sub(1);
        self.stats.advance(interval.max(self.passed).min(last));
    }

    /// `u64::MAX` if there is nothing to fetch.
    fn next_fetch(&self, now_ns: u64) -> u64 {
        match self.kernel {
            Some(_) => now_ns.saturating_add(FETCH_NS),
            None => u64::MAX,
        }
    }

    fn sample(&mut self) {
        if !self.has_begun {
            return self.begin();
        }
        let moment = self.moment();
        let Some(kernel) = &mut self.kernel else {
            return;
        };
        let outcome = kernel.dump(&mut self.sockets);
        // After an error the dump is incomplete: missing sockets would count as gone.
        if outcome.is_ok() {
            self.stats.sample(&self.sockets);
        }
        self.note_sample(moment, outcome);
    }

    fn note_sample(&mut self, moment: SampleTime, outcome: io::Result<()>) {
        match outcome {
            Ok(()) => {
                self.samples += 1;
                self.lines.sample(moment, &self.sockets);
            }
            Err(error) => {
                self.failed_samples += 1;
                self.first_failure.get_or_insert(error);
            }
        }
    }

    fn take_closed_if_wanted(&mut self) {
        let may_be_new = self
            .kernel
            .as_ref()
            .is_some_and(SocketSource::counts_unseen);
        self.take_closed(may_be_new);
    }

    fn take_closed(&mut self, may_be_new: bool) {
        self.fetch_closed();
        self.stats.close(&mut self.sockets, may_be_new);
        if !self.sockets.is_empty() {
            let moment = self.moment();
            self.lines.closed(moment, &self.sockets);
        }
    }

    fn fetch_closed(&mut self) {
        self.sockets.clear();
        if let Some(kernel) = &mut self.kernel
            && let Err(error) = kernel.closed(&mut self.sockets)
        {
            self.closed_failure.get_or_insert(error);
        }
    }

    fn moment(&mut self) -> SampleTime {
        const NS_PER_MS: u64 = 1_000_000;
        let since_begin_ns = self.clock.now_ns().saturating_sub(self.begin_ns);
        SampleTime {
            unix_ms: self.clock.unix_ms(),
            at_ms: since_begin_ns / NS_PER_MS,
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(error) = &self.first_failure {
            let (failed, asked) = (self.failed_samples, self.failed_samples + self.samples);
            notes.push(format!(
                "{failed} of {asked} samples of the sockets failed: {error}"
            ));
        }
        if let Some(error) = &self.closed_failure {
            notes.push(format!(
                "final values of closed sockets are missing: {error}"
            ));
        }
        let overflows = self.kernel.as_ref().map_or(0, SocketSource::overflows);
        if overflows > 0 {
            notes.push(format!(
                "the kernel's queue of closed sockets was full ({overflows}x): some final values \
                 are missing"
            ));
        }
        if let Some(error) = self.lines.failure() {
            notes.push(format!("writing samples failed: {error}"));
        }
        notes
    }
}

#[cfg(test)]
mod tests;
