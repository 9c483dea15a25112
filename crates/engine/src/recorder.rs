//! What one worker writes down while it runs: exchanges into a `Recording`, unshared.

use results::{ErrorKind, Histogram, Recording};

/// A worker's recording and the window it is about.
///
/// An exchange belongs to the window in which its request was sent; what was sent during warm-up is
/// not counted at all, so that every total of the recording speaks of the same requests.
pub(crate) struct Recorder {
    recording: Recording,
    /// Service times of answers that came in one piece, which most do: the time to the first byte is
    /// the same then, and none passes until the last. One sample instead of three; `finish` puts
    /// them where they belong.
    whole: Histogram,
    /// Begin of the window, CLOCK_MONOTONIC.
    start_ns: u64,
    /// The rate sample that is being gathered (wrk's "Req/Sec").
    sample_start_ns: u64,
    sample_answered: u64,
    /// Not yet added to the series.
    interval: Interval,
}

#[derive(Default)]
struct Interval {
    answered: u64,
    errors: u64,
    bytes: u64,
    end_ns: u64,
}

/// A complete answer.
pub(crate) struct Answer {
    pub(crate) sent_ns: u64,
    pub(crate) first_byte_ns: u64,
    pub(crate) completed_ns: u64,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
}

/// Length of a rate sample, as in wrk.
const RATE_SAMPLE_NS: u64 = 100_000_000;

impl Recorder {
    pub(crate) fn new(start_ns: u64) -> Self {
        let recording = Recording::new();
        let interval_ns = recording.series.interval_ms() * 1_000_000;
        Self {
            recording,
            whole: Histogram::new(),
            start_ns,
            sample_start_ns: start_ns,
            sample_answered: 0,
            interval: Interval {
                end_ns: start_ns + interval_ns,
                ..Interval::default()
            },
        }
    }

    /// Whether what happens now, or was sent then, belongs to the window.
    #[inline]
    pub(crate) fn measures(&self, at_ns: u64) -> bool {
        at_ns >= self.start_ns
    }

    #[inline]
    pub(crate) fn sent(&mut self, requests: u64) {
        self.recording.counters.sent += requests;
    }

    #[inline]
    pub(crate) fn answered(&mut self, answer: &Answer) {
        let Recording {
            counters,
            statuses,
            service_time,
            phases,
            ..
        } = &mut self.recording;
        counters.answered += 1;
        statuses.add(answer.status);
        let service_ns = answer.completed_ns.saturating_sub(answer.sent_ns);
        if answer.first_byte_ns == answer.completed_ns {
            self.whole.record(service_ns);
        } else {
            service_time.record(service_ns);
            let first_byte_ns = answer.first_byte_ns.saturating_sub(answer.sent_ns);
            phases.first_byte.record(first_byte_ns);
            let last_byte_ns = answer.completed_ns.saturating_sub(answer.first_byte_ns);
            phases.last_byte.record(last_byte_ns);
        }
        self.sample_answered += 1;
        self.interval.answered += 1;
        self.bytes(answer.bytes);
    }

    /// Bytes of answers, whole ones and such as were never finished.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: u64) {
        self.recording.counters.bytes += bytes;
        self.interval.bytes += bytes;
    }

    pub(crate) fn failed(&mut self, kind: ErrorKind, exchanges: u64) {
        self.recording.errors.add(kind, exchanges);
        if kind.legacy().is_some() {
            self.interval.errors += 1;
        }
    }

    pub(crate) fn timed_out(&mut self, age_ns: u64) {
        self.recording.timed_out.record(age_ns);
    }

    pub(crate) fn connected(&mut self, took_ns: u64) {
        self.recording.counters.connections_opened += 1;
        self.recording.phases.connect.record(took_ns);
    }

    pub(crate) fn handshaken(&mut self, took_ns: u64, resumed: bool) {
        let counters = &mut self.recording.counters;
        if resumed {
            counters.tls_resumed += 1;
        } else {
            counters.tls_full += 1;
        }
        self.recording.phases.tls.record(took_ns);
    }

    pub(crate) fn reconnect(&mut self) {
        self.recording.counters.reconnects += 1;
    }

    /// Requests still unanswered at the end, the oldest sent at `oldest_sent_ns`.
    pub(crate) fn in_flight(&mut self, requests: u64, oldest_age_ns: u64) {
        let counters = &mut self.recording.counters;
        counters.in_flight += requests;
        counters.oldest_in_flight_ns = counters.oldest_in_flight_ns.max(oldest_age_ns);
    }

    /// Closes rate samples and intervals that are over. Called every few milliseconds.
    #[inline]
    pub(crate) fn tick(&mut self, now_ns: u64) {
        if now_ns >= self.interval.end_ns {
            self.close_interval(now_ns);
        }
        if now_ns.saturating_sub(self.sample_start_ns) >= RATE_SAMPLE_NS && self.sample_answered > 0
        {
            self.close_rate_sample(now_ns);
        }
    }

    /// Ends the recording. A run too short for any rate sample gets the one it began.
    pub(crate) fn finish(mut self, now_ns: u64) -> Recording {
        self.close_interval(now_ns);
        let none = self.recording.rates.count() == 0;
        if none && self.sample_answered > 0 && now_ns > self.sample_start_ns {
            self.close_rate_sample(now_ns);
        }
        let Recording {
            service_time,
            phases,
            ..
        } = &mut self.recording;
        service_time.merge(&self.whole);
        phases.first_byte.merge(&self.whole);
        phases.last_byte.record_n(0, self.whole.count());
        self.recording
    }

    /// Requests that were sent and are neither answered nor failed: what is in flight, known even
    /// when the connections cannot be asked any more.
    pub(crate) fn outstanding(&self) -> u64 {
        let counters = &self.recording.counters;
        counters.sent - counters.answered - self.recording.errors.exchanges()
    }

    fn close_interval(&mut self, now_ns: u64) {
        let interval_ns = self.recording.series.interval_ms() * 1_000_000;
        // The interval that just ended; a loop that was held up for longer adds to its first one.
        let at_ms = (self.interval.end_ns - interval_ns).saturating_sub(self.start_ns) / 1_000_000;
        let Interval {
            answered,
            errors,
            bytes,
            ..
        } = self.interval;
        self.recording.series.add(at_ms, answered, errors, bytes);
        let interval_ns = self.recording.series.interval_ms() * 1_000_000;
        let elapsed = now_ns.saturating_sub(self.start_ns) / interval_ns;
        let end_ns = self.start_ns + (elapsed + 1) * interval_ns;
        self.interval = Interval {
            end_ns,
            ..Interval::default()
        };
    }

    fn close_rate_sample(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns - self.sample_start_ns;
        let rate = u128::from(self.sample_answered) * 1_000_000_000 / u128::from(elapsed_ns);
        self.recording
            .rates
            .add(u64::try_from(rate).unwrap_or(u64::MAX));
        self.sample_start_ns = now_ns;
        self.sample_answered = 0;
    }
}
