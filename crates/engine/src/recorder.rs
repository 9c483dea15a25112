//! What one worker writes down while it runs: exchanges into a `Recording`, unshared.

use crate::snapshots::Share;
use results::snapshot::{self, Stage};
use results::{Counters, ErrorKind, Histogram, Intervals, Recording};

/// A worker's recording and the window it is about.
///
/// An exchange belongs to the window in which its request was due, which in a closed loop is when it was
/// sent; what was due during warm-up is in no total of the recording, so that all speak of the same requests, but
/// in one of its own.
pub(crate) struct Recorder {
    recording: Recording,
    /// Service times of answers that came in one piece, which most do: the time to the first byte is
    /// the same then, and none passes until the last. One sample instead of three; `finish` puts
    /// them where they belong.
    whole: Histogram,
    /// What came since the last latency interval was closed; then it moves to the recording.
    fresh: Fresh,
    /// Whether requests are due by a schedule, so that there are response times.
    open: bool,
    /// Requests that began and have not left, those from before the window included.
    in_flight: u64,
    /// Begin of the window, CLOCK_MONOTONIC.
    start_ns: u64,
    /// The rate sample that is being gathered (wrk's "Req/Sec").
    sample_start_ns: u64,
    sample_answered: u64,
    /// Not yet added to the series.
    interval: Interval,
    /// What is told to somebody who watches the run; `None` without anybody.
    untold: Option<Box<Untold>>,
}

/// What happened since it was told last.
struct Untold {
    /// Latency and failures are gathered here; the rest is the difference to `told`, but in the warm-up,
    /// when nothing else is counted.
    last: snapshot::Interval,
    given_up: Histogram,
    /// What the totals were when they were told last.
    told: Totals,
    /// In the warm-up: when to tell next.
    next_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Totals {
    answered: u64,
    errors: u64,
    bytes: u64,
}

/// Samples of the latency interval that is being gathered. They are the only place where a sample is
/// first recorded: one addition per answer gives totals and intervals both.
#[derive(Default)]
struct Fresh {
    whole: Histogram,
    split: Histogram,
    response: Histogram,
    end_ns: u64,
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
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) first_byte_ns: u64,
    pub(crate) completed_ns: u64,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    /// False for those of a batch whose last answer alone is a sample.
    pub(crate) timed: bool,
}

/// How often it is told what happened: when an interval of latency is closed.
const TELL_NS: u64 = Intervals::DEFAULT_INTERVAL_MS * 1_000_000;

/// Length of a rate sample, as in wrk.
const RATE_SAMPLE_NS: u64 = 100_000_000;

impl Recorder {
    /// `open` when requests are due by a schedule.
    pub(crate) fn new(start_ns: u64, open: bool) -> Self {
        let recording = Recording::new();
        let interval_ns = recording.series.interval_ms() * 1_000_000;
        let fresh = Fresh {
            end_ns: start_ns + Intervals::DEFAULT_INTERVAL_MS * 1_000_000,
            ..Fresh::default()
        };
        Self {
            recording,
            whole: Histogram::new(),
            fresh,
            open,
            in_flight: 0,
            start_ns,
            sample_start_ns: start_ns,
            sample_answered: 0,
            interval: Interval {
                end_ns: start_ns + interval_ns,
                ..Interval::default()
            },
            untold: None,
        }
    }

    /// Somebody watches, also during a warm-up that begins at `begin_ns`.
    pub(crate) fn watched(&mut self, begin_ns: u64) {
        self.untold = Some(Box::new(Untold {
            last: snapshot::Interval::default(),
            given_up: Histogram::new(),
            told: Totals::default(),
            next_ns: begin_ns + TELL_NS,
        }));
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
        self.recording.counters.answered += 1;
        self.recording.statuses.add(answer.status);
        self.sample_answered += 1;
        self.interval.answered += 1;
        self.bytes(answer.bytes);
        if answer.timed {
            self.time(answer);
        }
    }

    #[inline]
    fn time(&mut self, answer: &Answer) {
        let service_ns = answer.completed_ns.saturating_sub(answer.sent_ns);
        if answer.first_byte_ns == answer.completed_ns {
            self.fresh.whole.record(service_ns);
        } else {
            self.fresh.split.record(service_ns);
            let phases = &mut self.recording.phases;
            let first_byte_ns = answer.first_byte_ns.saturating_sub(answer.sent_ns);
            phases.first_byte.record(first_byte_ns);
            let last_byte_ns = answer.completed_ns.saturating_sub(answer.first_byte_ns);
            phases.last_byte.record(last_byte_ns);
        }
        if self.open {
            let response_ns = answer.completed_ns.saturating_sub(answer.due_ns);
            self.fresh.response.record(response_ns);
        }
    }

    /// A batch of requests was sent at `sent_ns`; with a schedule it was due at `due_ns`, and a
    /// connection for it was free at `free_ns`.
    #[inline]
    pub(crate) fn lagged(&mut self, requests: u64, due_ns: u64, free_ns: u64, sent_ns: u64) {
        let lags = &mut self.recording.lags;
        lags.send.record_n(sent_ns.saturating_sub(due_ns), requests);
        let own_ns = sent_ns.saturating_sub(due_ns.max(free_ns));
        lags.own.record_n(own_ns, requests);
    }

    /// So much of the time that requests waited was a pause between two attempts to connect.
    pub(crate) fn paused(&mut self, requests: u64, pause_ns: u64) {
        self.recording.lags.reconnect.record_n(pause_ns, requests);
    }

    /// The event loop came back so much later than it was asked to.
    #[inline]
    pub(crate) fn woke_late(&mut self, late_ns: u64) {
        self.recording.lags.wakeup.record(late_ns);
    }

    /// Bytes lay so long in the kernel before they were read.
    pub(crate) fn received_after(&mut self, delay_ns: u64) {
        self.recording.lags.receive.record(delay_ns);
    }

    /// So many requests are in flight from now on. The integral of their number over the window is the
    /// sum of the moments at which they left less the sum of those at which they began, in whatever
    /// order these are told; until all have left it is no figure, and may wrap.
    #[inline]
    pub(crate) fn began(&mut self, requests: u64, at_ns: u64) {
        let moments_ns = requests.wrapping_mul(at_ns.saturating_sub(self.start_ns));
        let total = &mut self.recording.counters.in_flight_time_ns;
        *total = total.wrapping_sub(moments_ns);
        self.in_flight += requests;
    }

    /// So many requests are in flight no more.
    #[inline]
    pub(crate) fn left(&mut self, requests: u64, at_ns: u64) {
        let moments_ns = requests.wrapping_mul(at_ns.saturating_sub(self.start_ns));
        let total = &mut self.recording.counters.in_flight_time_ns;
        *total = total.wrapping_add(moments_ns);
        self.in_flight -= requests;
    }

    /// Bytes of answers, whole ones and such as were never finished.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: u64) {
        self.recording.counters.bytes += bytes;
        self.interval.bytes += bytes;
    }

    /// An answer to a request of the warm-up. While that lasts only those get to know who watch the run; later it
    /// is counted, so that nobody takes the rate for all that the server did.
    #[inline]
    pub(crate) fn answered_early(&mut self, due_ns: u64, completed_ns: u64, bytes: u64) {
        if completed_ns >= self.start_ns {
            self.recording.counters.answered_of_warmup += 1;
        } else if let Some(untold) = &mut self.untold {
            untold.last.answered += 1;
            untold.last.bytes += bytes;
            // In a closed loop it was due when it was sent.
            untold
                .last
                .latency
                .record(completed_ns.saturating_sub(due_ns));
        }
    }

    /// A failure during the warm-up, likewise.
    pub(crate) fn failed_early(&mut self, at_ns: u64) {
        if let Some(untold) = &mut self.untold
            && at_ns < self.start_ns
        {
            untold.last.errors += 1;
        }
    }

    pub(crate) fn failed(&mut self, kind: ErrorKind, exchanges: u64) {
        self.recording.errors.add(kind, exchanges);
        self.interval.errors += 1;
    }

    /// A request was given up `age_ns` after it was sent and `age_due_ns` after it was due.
    pub(crate) fn timed_out(&mut self, age_ns: u64, age_due_ns: u64) {
        self.recording.timed_out.record(age_ns);
        self.unanswered(1, age_due_ns);
        if let Some(untold) = &mut self.untold {
            let age_ns = if self.open { age_due_ns } else { age_ns };
            untold.given_up.record(age_ns);
        }
    }

    /// The response times of these requests are not known, only that they are longer.
    fn unanswered(&mut self, requests: u64, age_due_ns: u64) {
        if self.open {
            self.recording.unanswered.record_n(age_due_ns, requests);
        }
    }

    /// Requests that were due at `due_ns` and not sent by `ended_ns`.
    pub(crate) fn unsent(&mut self, due_ns: u64, requests: u64, ended_ns: u64) {
        if self.measures(due_ns) {
            self.recording.counters.unsent += requests;
            self.unanswered(requests, ended_ns.saturating_sub(due_ns));
        }
    }

    pub(crate) fn connected(&mut self, took_ns: u64) {
        self.recording.counters.connections_opened += 1;
        self.recording.phases.connect.record(took_ns);
    }

    /// So many connections were there when the window began.
    pub(crate) fn stood_at_start(&mut self, connections: u64) {
        self.recording.counters.connections_at_start = connections;
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

    /// Requests still unanswered at the end, sent and due so long ago.
    pub(crate) fn in_flight(&mut self, requests: u64, age_ns: u64, age_due_ns: u64) {
        let counters = &mut self.recording.counters;
        counters.in_flight += requests;
        counters.oldest_in_flight_ns = counters.oldest_in_flight_ns.max(age_ns);
        self.unanswered(requests, age_due_ns);
    }

    /// Closes rate samples and intervals that are over. Called every few milliseconds. Whether it is time to
    /// tell what happened, if somebody watches.
    #[inline]
    pub(crate) fn tick(&mut self, now_ns: u64) -> bool {
        if now_ns >= self.interval.end_ns {
            self.close_interval(now_ns);
        }
        let is_closed = now_ns >= self.fresh.end_ns;
        if is_closed {
            self.close_fresh(now_ns);
        }
        if now_ns.saturating_sub(self.sample_start_ns) >= RATE_SAMPLE_NS && self.sample_answered > 0
        {
            self.close_rate_sample(now_ns);
        }
        let untold = self.untold.as_ref();
        untold.is_some_and(|it| is_closed || now_ns < self.start_ns && now_ns >= it.next_ns)
    }

    /// What happened since it was told last, without what only the worker knows; `None` when nobody
    /// watches. Answers that stand in no closed interval yet are told of the next time.
    pub(crate) fn tell(&mut self, now_ns: u64) -> Option<Share> {
        let stage = match self.measures(now_ns) {
            true => Stage::Measuring,
            false => Stage::WarmingUp,
        };
        let in_flight = self.outstanding();
        let Recording {
            counters,
            statuses,
            errors,
            ..
        } = &self.recording;
        let untold = self.untold.as_mut()?;
        let mut last = std::mem::take(&mut untold.last);
        if stage == Stage::Measuring {
            let totals = Totals {
                answered: counters.answered,
                errors: errors.events(),
                bytes: counters.bytes,
            };
            let told = std::mem::replace(&mut untold.told, totals);
            last.answered = totals.answered - told.answered;
            last.errors = totals.errors - told.errors;
            last.bytes = totals.bytes - told.bytes;
        }
        untold.next_ns = now_ns + TELL_NS;
        Some(Share {
            worker: 0,
            stage,
            at_ns: now_ns,
            counters: Counters {
                in_flight,
                // No figure before the end.
                in_flight_time_ns: 0,
                ..*counters
            },
            statuses: statuses.clone(),
            errors: errors.clone(),
            last,
            given_up: std::mem::take(&mut untold.given_up),
            open_connections: 0,
            busy: None,
            is_last: false,
        })
    }

    /// The last of a worker: closes the interval that is open.
    pub(crate) fn tell_last(&mut self, now_ns: u64) -> Option<Share> {
        self.untold.as_ref()?;
        if self.measures(now_ns) {
            self.close_fresh(now_ns);
        }
        self.tell(now_ns)
    }

    /// Ends the recording. A run too short for any rate sample gets the one it began.
    pub(crate) fn finish(mut self, now_ns: u64) -> Recording {
        self.left(self.in_flight, now_ns);
        self.close_interval(now_ns);
        self.close_fresh(now_ns);
        let none = self.recording.rates.count() == 0;
        if none && self.sample_answered > 0 && now_ns > self.sample_start_ns {
            self.close_rate_sample(now_ns);
        }
        let Recording {
            counters,
            service_time,
            phases,
            ..
        } = &mut self.recording;
        if self.open {
            counters.due = counters.sent + counters.unsent;
        }
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

    /// Moves the latency interval that just ended to the recording. It walks over histograms, so it
    /// happens once a second and not per answer.
    fn close_fresh(&mut self, now_ns: u64) {
        let interval_ns = Intervals::DEFAULT_INTERVAL_MS * 1_000_000;
        let at_ns = (self.fresh.end_ns - interval_ns).saturating_sub(self.start_ns);
        let at_ms = at_ns / 1_000_000;
        let Self {
            recording,
            whole,
            fresh,
            untold,
            ..
        } = self;
        if let Some(untold) = untold
            && fresh.end_ns == self.start_ns + interval_ns
        {
            // The first of the window: what is there is of the warm-up.
            untold.last = snapshot::Interval::default();
        }
        let intervals = &mut recording.intervals;
        if self.open {
            intervals.add(at_ms, &fresh.response);
        } else {
            intervals.add(at_ms, &fresh.whole);
            intervals.add(at_ms, &fresh.split);
        }
        for (total, samples, is_told) in [
            (whole, &mut fresh.whole, !self.open),
            (&mut recording.service_time, &mut fresh.split, !self.open),
            (&mut recording.response_time, &mut fresh.response, self.open),
        ] {
            if samples.is_empty() {
                continue;
            }
            total.merge(samples);
            match untold {
                Some(untold) if is_told => untold.last.latency.absorb(std::mem::take(samples)),
                _ => samples.clear(),
            }
        }
        let elapsed = now_ns.saturating_sub(self.start_ns) / interval_ns;
        fresh.end_ns = self.start_ns + (elapsed + 1) * interval_ns;
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
