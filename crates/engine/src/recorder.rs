//! Records the exchanges of one worker into its own `Recording`.

mod streams;

pub(crate) use streams::{ArrivedEvents, ArrivedTokens};

use crate::addresses::label_of;
use crate::good::GoodLimits;
use crate::records::{self, RecordSink};
use crate::snapshots::ProgressReport;
use crate::worker::{ScriptTime, standstill_within};
use results::snapshot::{self, Stage};
use results::{
    Attribution, BreakdownRecording, ConversationRecording, Counters, ErrorKind, EventRecording,
    GoodRecording, Histogram, Intervals, LlmRecording, NameRecording, PartRecordings,
    QuicRecording, Recording, SeriesRow,
};

/// A worker's recording and its window.
///
/// An exchange belongs to the window if its request was due in it. In a closed loop, that is when
/// it was sent. Latencies, statuses and errors are about these exchanges. What the server did in
/// the window (responses per second, bytes, series) includes responses to requests of the warm-up,
/// which have a separate counter. If the window is drained, what ends after it is recorded in the
/// same way, except for what the server did in the window.
pub(crate) struct Recorder {
    recording: Recording,
    /// Service times of responses that arrived in one piece, as most do. Their time to the first
    /// byte is the same, and the time from the first to the last byte is zero. They cost one sample
    /// instead of three; `finish` adds them to all three histograms.
    whole: Histogram,
    /// Samples since the last latency interval was closed. Closing an interval moves them to the
    /// recording.
    current: CurrentInterval,
    /// Whether the run has a fixed rate, so that there are response times.
    open: bool,
    /// Requests in flight, including those sent before the window.
    in_flight: u64,
    /// Start of the window, CLOCK_MONOTONIC.
    start_ns: u64,
    /// When the window ended, once it has.
    end_ns: u64,
    /// The window has ended. What is recorded from now on is about its requests, but not a part of
    /// its rates.
    is_over: bool,
    /// The current rate sample (wrk's "Req/Sec").
    sample_start_ns: u64,
    sample_answered: u64,
    /// Not part of the series yet.
    interval: SeriesInterval,
    /// By what each request is judged.
    good: Option<GoodLimits>,
    /// What has not been reported to the observer yet. `None` without an observer.
    unreported: Option<Box<Unreported>>,
    /// Set if each request has a record.
    records: Option<Box<RecordSink>>,
}

/// What happened since the last report to the observer.
struct Unreported {
    /// Latency and failures are collected here. The rest is the difference to `reported`, except in
    /// the warm-up, when nothing else is counted.
    last: snapshot::SnapshotInterval,
    given_up: Histogram,
    /// The totals at the last report.
    reported: Totals,
    /// In the warm-up: when the next report is due, and how often one is.
    next_ns: u64,
    every_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Totals {
    answered: u64,
    errors: u64,
    bytes: u64,
}

/// Samples of the current latency interval. Each sample is recorded only here at first: one
/// addition per response serves both totals and intervals.
#[derive(Default)]
struct CurrentInterval {
    whole: Histogram,
    /// Those like `whole` that the load generator read late in a closed loop, where most are if it
    /// is busy. They are also the samples of [`Attribution::shown`].
    late: Histogram,
    split: Histogram,
    response: Histogram,
    /// Of responses with tokens; only for what is over time.
    first_token: Histogram,
    end_ns: u64,
}

#[derive(Default)]
struct SeriesInterval {
    answered: u64,
    errors: u64,
    bytes: u64,
    events: u64,
    end_ns: u64,
}

/// A complete response, with its times and sizes.
pub(crate) struct CompletedResponse {
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) first_byte_ns: u64,
    pub(crate) completed_ns: u64,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    /// False for the responses of a batch of which only the last one is a sample.
    pub(crate) timed: bool,
    /// How much of the latency the load generator caused, and the part of it that is in the service
    /// time: the request waited in the event loop, or the response to be read.
    pub(crate) own_ns: u64,
    pub(crate) late_ns: u64,
    pub(crate) labels: Labels,
    /// In a replay: the status of the response in the log; 0 if it is not known.
    pub(crate) logged_status: u16,
}

/// When a request was due, sent and answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnsweredTimes {
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) completed_ns: u64,
}

/// What requests are counted by, besides all together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Labels {
    /// The number of the request's name.
    pub(crate) name: u32,
    /// The number of the connection's address.
    pub(crate) address: u32,
}

impl Labels {
    /// For what belongs to no request.
    pub(crate) fn of_address(address: u32) -> Self {
        Self {
            name: u32::MAX,
            address,
        }
    }
}

/// How often the observer gets a report: whenever a latency interval is closed.
pub(crate) const REPORT_NS: u64 = Intervals::DEFAULT_INTERVAL_MS * 1_000_000;

/// Length of a rate sample, as in wrk.
const RATE_SAMPLE_NS: u64 = 100_000_000;

impl Recorder {
    /// `open` is true at a fixed rate.
    pub(crate) fn new(start_ns: u64, open: bool) -> Self {
        let recording = Recording::new();
        let interval_ns = recording.series.interval_ms() * 1_000_000;
        let current = CurrentInterval {
            end_ns: start_ns + Intervals::DEFAULT_INTERVAL_MS * 1_000_000,
            ..CurrentInterval::default()
        };
        Self {
            recording,
            whole: Histogram::new(),
            current,
            open,
            in_flight: 0,
            start_ns,
            end_ns: 0,
            is_over: false,
            sample_start_ns: start_ns,
            sample_answered: 0,
            interval: SeriesInterval {
                end_ns: start_ns + interval_ns,
                ..SeriesInterval::default()
            },
            good: None,
            unreported: None,
            records: None,
        }
    }

    /// Judges each request by these limits.
    pub(crate) fn with_limits(mut self, limits: GoodLimits) -> Self {
        self.good = Some(limits);
        self.recording.parts.good = Some(GoodRecording {
            ended: Some(0),
            ..GoodRecording::default()
        });
        self
    }

    /// Counts requests by these names, too.
    pub(crate) fn with_names(mut self, names: &[String]) -> Self {
        let named = names.iter().map(|name| NameRecording::new(name));
        self.recording.parts.by_name = named.collect();
        self
    }

    /// Counts events of responses, too.
    /// `has_end_marker`: each stream must end with a marker that was given.
    pub(crate) fn with_events(mut self, has_end_marker: bool) -> Self {
        self.recording.parts.events = Some(EventRecording {
            has_end_marker,
            ..EventRecording::default()
        });
        self
    }

    /// Counts the tokens in the events, too.
    pub(crate) fn with_tokens(mut self) -> Self {
        self.recording.parts.llm = Some(LlmRecording::default());
        self
    }

    /// Counts the packets of QUIC, too.
    pub(crate) fn with_packets(mut self) -> Self {
        self.recording.parts.quic = Some(QuicRecording::default());
        self
    }

    /// Records what the latency consists of, too.
    pub(crate) fn with_breakdown(mut self) -> Self {
        self.recording.parts.breakdown = Some(BreakdownRecording::default());
        self
    }

    /// Makes a record of each request, too.
    pub(crate) fn with_records(mut self, records: RecordSink) -> Self {
        self.records = Some(Box::new(records));
        self
    }

    /// Counts by these addresses, too; those before have the same numbers.
    pub(crate) fn add_addresses(&mut self, labels: impl Iterator<Item = String>) {
        let by_address = &mut self.recording.parts.by_address;
        let new = labels.skip(by_address.len());
        by_address.extend(new.map(|label| NameRecording::new(&label)));
    }

    /// Whether requests are also counted by name or address.
    #[inline]
    fn has_labels(&self) -> bool {
        !self.recording.parts.by_name.is_empty() || !self.recording.parts.by_address.is_empty()
    }

    /// What is counted for these labels; nothing if requests are only counted together.
    fn labelled(&mut self, labels: Labels) -> impl Iterator<Item = &mut NameRecording> {
        let PartRecordings {
            by_name,
            by_address,
            ..
        } = &mut self.recording.parts;
        let of_name = by_name.get_mut(labels.name as usize);
        let of_address = by_address.get_mut(label_of(labels.address));
        of_name.into_iter().chain(of_address)
    }

    /// The window begins at another time, which has not come yet, nor has that of before.
    pub(crate) fn move_window(&mut self, start_ns: u64) {
        let sooner_ns = self.start_ns.saturating_sub(start_ns);
        let ends_ns = [&mut self.interval.end_ns, &mut self.current.end_ns];
        for time_ns in ends_ns.into_iter().chain([&mut self.sample_start_ns]) {
            *time_ns = time_ns.saturating_sub(sooner_ns);
        }
        self.start_ns = start_ns;
        if let Some(records) = &mut self.records {
            records.move_window(start_ns);
        }
    }

    /// Ends reports to the observer.
    pub(crate) fn disable_reports(&mut self) {
        self.unreported = None;
    }

    /// Enables reports to an observer, from `start_ns` on, which may be the start of a warm-up, in
    /// which they are made every `every_ns`.
    pub(crate) fn enable_reports(&mut self, start_ns: u64, every_ns: u64) {
        self.unreported = Some(Box::new(Unreported {
            last: snapshot::SnapshotInterval::default(),
            given_up: Histogram::new(),
            reported: Totals::default(),
            next_ns: start_ns + every_ns,
            every_ns,
        }));
    }

    /// Whether a request that was due or sent at this time is one of the window.
    #[inline]
    pub(crate) fn measures(&self, at_ns: u64) -> bool {
        at_ns >= self.start_ns
    }

    /// Whether something that happens at this time happens within the window.
    #[inline]
    pub(crate) fn is_in_window(&self, at_ns: u64) -> bool {
        at_ns >= self.start_ns && !self.is_over
    }

    #[inline]
    pub(crate) fn sent(&mut self, requests: u64, address: u32) {
        self.recording.counters.sent += requests;
        if let Some(of_address) = self.recording.parts.by_address.get_mut(label_of(address)) {
            of_address.sent += requests;
        }
    }

    /// One of the requests of [`Self::sent`] has this name.
    #[inline]
    pub(crate) fn sent_by_name(&mut self, name: u32) {
        if let Some(named) = self.recording.parts.by_name.get_mut(name as usize) {
            named.sent += 1;
        }
    }

    #[inline]
    pub(crate) fn answered(&mut self, response: &CompletedResponse) {
        if self.is_over {
            return self.answered_in_drain(response);
        }
        self.recording.counters.answered += 1;
        self.recording.statuses.add(response.status);
        self.sample_answered += 1;
        self.interval.answered += 1;
        self.bytes(response.bytes, response.labels);
        if response.timed {
            self.time(response);
        }
        if self.has_labels() || response.logged_status > 0 {
            self.answered_labelled(response);
        }
    }

    /// As [`Self::answered`], after the window.
    #[cold]
    fn answered_in_drain(&mut self, response: &CompletedResponse) {
        let counters = &mut self.recording.counters;
        counters.answered += 1;
        counters.answered_in_drain += 1;
        self.recording.statuses.add(response.status);
        if response.timed {
            self.time(response);
        }
        self.answered_labelled(response);
    }

    /// Compares a response with the log, and counts it by name and address. Apart from
    /// [`Self::answered`], so that other runs do not pay for it.
    #[inline(never)]
    fn answered_labelled(&mut self, response: &CompletedResponse) {
        if response.logged_status > 0 {
            let compared = self
                .recording
                .parts
                .compared_with_log
                .get_or_insert_default();
            compared.responses += 1;
            compared.other_status += u64::from(response.logged_status != response.status);
        }
        let from_ns = if self.open {
            response.due_ns
        } else {
            response.sent_ns
        };
        let is_over = self.is_over;
        for named in self.labelled(response.labels) {
            named.answered += 1;
            named.answered_in_drain += u64::from(is_over);
            named.statuses.add(response.status);
            named
                .latency
                .record(response.completed_ns.saturating_sub(from_ns));
        }
    }

    #[inline]
    fn time(&mut self, response: &CompletedResponse) {
        let service_ns = response.completed_ns.saturating_sub(response.sent_ns);
        let is_delayed = response.own_ns >= Attribution::MIN_NS;
        if response.first_byte_ns == response.completed_ns {
            if is_delayed && !self.open {
                self.current.late.record(service_ns)
            } else {
                self.current.whole.record(service_ns)
            }
        } else {
            self.current.split.record(service_ns);
            let phases = &mut self.recording.phases;
            let first_byte_ns = response.first_byte_ns.saturating_sub(response.sent_ns);
            phases.first_byte.record(first_byte_ns);
            let last_byte_ns = response.completed_ns.saturating_sub(response.first_byte_ns);
            phases.last_byte.record(last_byte_ns);
        }
        if self.open {
            let response_ns = response.completed_ns.saturating_sub(response.due_ns);
            self.current.response.record(response_ns);
        }
        if is_delayed {
            self.own_share(response, service_ns);
        }
    }

    /// The load generator delayed this request.
    #[cold]
    fn own_share(&mut self, response: &CompletedResponse, service_ns: u64) {
        let CompletedResponse {
            due_ns,
            first_byte_ns,
            completed_ns,
            own_ns,
            late_ns,
            ..
        } = *response;
        let attribution = &mut self.recording.attribution;
        let service_corrected_ns = service_ns.saturating_sub(late_ns);
        if !self.open {
            // The others are in `late`.
            if first_byte_ns != completed_ns {
                attribution.shown.record(service_ns);
            }
            attribution.corrected.record(service_corrected_ns);
            if !self.is_over {
                attribution.idle_ns = attribution.idle_ns.saturating_add(late_ns);
            }
            return;
        }
        attribution.delayed(1, completed_ns.saturating_sub(due_ns), own_ns);
        if late_ns > 0 {
            attribution.service_shown.record(service_ns);
            attribution.service_corrected.record(service_corrected_ns);
        }
    }

    /// The response to this request, which has been recorded, was read late.
    #[cold]
    pub(crate) fn was_read_late(&mut self, answered: &AnsweredTimes, late_ns: u64) {
        let AnsweredTimes {
            due_ns,
            sent_ns,
            completed_ns,
        } = *answered;
        let service_ns = completed_ns.saturating_sub(sent_ns);
        let late_ns = late_ns.min(service_ns);
        let attribution = &mut self.recording.attribution;
        if self.open {
            attribution.delayed(1, completed_ns.saturating_sub(due_ns), late_ns);
            let corrected_ns = service_ns - late_ns;
            attribution.service_shown.record(service_ns);
            attribution.service_corrected.record(corrected_ns);
        } else {
            attribution.delayed(1, service_ns, late_ns);
            if !self.is_over {
                attribution.idle_ns = attribution.idle_ns.saturating_add(late_ns);
            }
        }
    }

    /// The load generator delayed requests by `own_ns` that have no response and whose age, since
    /// they were due, is in the latency.
    pub(crate) fn own_share_of_unanswered(&mut self, requests: u64, age_due_ns: u64, own_ns: u64) {
        if self.open && own_ns >= Attribution::MIN_NS {
            self.recording
                .attribution
                .delayed(requests, age_due_ns, own_ns);
        }
    }

    /// A script made requests, in which time a connection of a closed loop was not used.
    pub(crate) fn script_took(&mut self, time: ScriptTime) {
        let open = self.open;
        let attribution = &mut self.recording.attribution;
        attribution.script_ns = attribution.script_ns.saturating_add(time.took_ns);
        if !open {
            attribution.idle_ns = attribution.idle_ns.saturating_add(time.idle_ns);
        }
    }

    /// A worker did not run from the first to the second time.
    #[cold]
    pub(crate) fn stood_still(&mut self, gap_ns: (u64, u64), end_ns: u64) {
        if let Some(standstill) = standstill_within(gap_ns, self.start_ns, end_ns) {
            self.recording.attribution.add_standstill(standstill);
        }
    }

    /// A batch of requests was sent at `sent_ns`. It was due at `due_ns`, and a connection for it
    /// was free at `free_ns`.
    #[inline]
    pub(crate) fn record_send_lag(
        &mut self,
        requests: u64,
        due_ns: u64,
        free_ns: u64,
        sent_ns: u64,
    ) {
        let lags = &mut self.recording.lags;
        lags.send.record_n(sent_ns.saturating_sub(due_ns), requests);
        let own_ns = sent_ns.saturating_sub(due_ns.max(free_ns));
        lags.own.record_n(own_ns, requests);
    }

    /// This part of the time that requests waited was a pause between two attempts to connect.
    pub(crate) fn paused(&mut self, requests: u64, pause_ns: u64) {
        self.recording.lags.reconnect.record_n(pause_ns, requests);
    }

    /// The event loop returned this much later than requested.
    #[inline]
    pub(crate) fn record_late_wakeup(&mut self, late_ns: u64) {
        self.recording.lags.wakeup.record(late_ns);
    }

    /// Bytes were in the kernel for this long before they were read.
    pub(crate) fn record_receive_delay(&mut self, delay_ns: u64) {
        self.recording.lags.receive.record(delay_ns);
    }

    /// These requests are in flight from now on. The integral of the number in flight over the
    /// window is the sum of the times at which requests left minus the sum of the times at which
    /// they began, in any order. Until all have left, the value has no meaning and may wrap.
    #[inline]
    pub(crate) fn began(&mut self, requests: u64, at_ns: u64) {
        let moments_ns = requests.wrapping_mul(at_ns.saturating_sub(self.start_ns));
        let total = &mut self.recording.counters.in_flight_time_ns;
        *total = total.wrapping_sub(moments_ns);
        self.in_flight += requests;
    }

    /// These requests are no longer in flight.
    #[inline]
    pub(crate) fn left(&mut self, requests: u64, at_ns: u64) {
        if self.is_over {
            return self.left_in_drain(requests, at_ns);
        }
        let moments_ns = requests.wrapping_mul(at_ns.saturating_sub(self.start_ns));
        let total = &mut self.recording.counters.in_flight_time_ns;
        *total = total.wrapping_add(moments_ns);
        self.in_flight -= requests;
    }

    /// As [`Self::left`], after the window: these requests were in flight until its end.
    #[cold]
    fn left_in_drain(&mut self, requests: u64, at_ns: u64) {
        let window_ns = self.end_ns.saturating_sub(self.start_ns);
        let drained_ns = at_ns.saturating_sub(self.end_ns);
        let counters = &mut self.recording.counters;
        let total = &mut counters.in_flight_time_ns;
        *total = total.wrapping_add(requests.wrapping_mul(window_ns));
        let drained = &mut counters.drained_time_ns;
        *drained = drained.saturating_add(requests.saturating_mul(drained_ns));
        self.in_flight -= requests;
    }

    /// Bytes of a response, complete or not, that arrived within the window. Its request has these
    /// labels.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: u64, labels: Labels) {
        if self.is_over {
            return;
        }
        self.recording.counters.bytes += bytes;
        self.interval.bytes += bytes;
        if self.has_labels() {
            for named in self.labelled(labels) {
                named.bytes += bytes;
            }
        }
    }

    /// A response to a request of the warm-up. During the warm-up, it is only reported to the
    /// observer. In the window, it is part of the rate and of nothing else; `bytes` are then those
    /// that arrived within the window. After the window, it is part of nothing.
    #[inline]
    pub(crate) fn answered_early(
        &mut self,
        due_ns: u64,
        completed_ns: u64,
        bytes: u64,
        labels: Labels,
    ) {
        if self.is_in_window(completed_ns) {
            self.recording.counters.answered_of_warmup += 1;
            self.sample_answered += 1;
            self.interval.answered += 1;
            self.bytes(bytes, labels);
            for named in self.labelled(labels) {
                named.answered_of_warmup += 1;
            }
        } else if let Some(unreported) = &mut self.unreported
            && !self.is_over
        {
            unreported.last.answered += 1;
            unreported.last.bytes += bytes;
            // In a closed loop, it was due when it was sent.
            unreported
                .last
                .latency
                .record(completed_ns.saturating_sub(due_ns));
        }
    }

    /// A failure during the warm-up, which is only reported to the observer.
    pub(crate) fn failed_early(&mut self, at_ns: u64) {
        if let Some(unreported) = &mut self.unreported
            && at_ns < self.start_ns
        {
            unreported.last.errors += 1;
        }
    }

    pub(crate) fn failed(&mut self, kind: ErrorKind, exchanges: u64) {
        self.recording.errors.add(kind, exchanges);
        self.interval.errors += u64::from(!self.is_over);
        if let Some(counted) = &mut self.recording.parts.good {
            counted.bad += exchanges;
        }
    }

    /// Requests with these labels are among those that an error has ended.
    pub(crate) fn failed_labelled(&mut self, kind: ErrorKind, requests: u64, labels: Labels) {
        for named in self.labelled(labels) {
            named.errors.add(kind, requests);
        }
    }

    /// A request with these labels was given up `age_ns` after it was sent and `age_due_ns` after
    /// it was due.
    pub(crate) fn timed_out(&mut self, age_ns: u64, age_due_ns: u64, labels: Labels) {
        self.recording.timed_out.record(age_ns);
        self.unanswered(1, age_due_ns);
        let latency_ns = if self.open { age_due_ns } else { age_ns };
        for named in self.labelled(labels) {
            named.unanswered.record(latency_ns);
        }
        if let Some(unreported) = &mut self.unreported {
            let age_ns = if self.open { age_due_ns } else { age_ns };
            unreported.given_up.record(age_ns);
        }
    }

    /// The response times of these requests are not known. These are lower bounds.
    fn unanswered(&mut self, requests: u64, age_due_ns: u64) {
        if self.open {
            self.recording.unanswered.record_n(age_due_ns, requests);
        }
    }

    /// These requests were due at this time and not sent by `ended_ns`. If the load generator had
    /// never been late, they would have been answered at `answered_ns`; `None` if they would not
    /// have been sent either.
    pub(crate) fn unsent(
        &mut self,
        (due_ns, requests): (u64, u64),
        ended_ns: u64,
        answered_ns: Option<u64>,
    ) {
        if self.measures(due_ns) {
            self.recording.counters.unsent += requests;
            let age_due_ns = ended_ns.saturating_sub(due_ns);
            if answered_ns.is_some() {
                self.recording.attribution.unsent += requests;
            }
            let own_ns = ended_ns.saturating_sub(answered_ns.unwrap_or(ended_ns));
            self.own_share_of_unanswered(requests, age_due_ns, own_ns);
            self.unanswered(requests, age_due_ns);
            self.no_event(requests, age_due_ns);
            self.no_token(requests, age_due_ns);
            self.judge_unanswered(None, requests, age_due_ns);
            if let Some(records) = &mut self.records {
                let record = records::unsent(due_ns, ended_ns, own_ns);
                (0..requests).for_each(|_| records.add(record));
            }
        }
    }

    /// In a closed loop, this many connections had not sent a request before.
    pub(crate) fn unused_until(&mut self, at_ns: u64, connections: u64) {
        let unused_ns = at_ns.saturating_sub(self.start_ns);
        let opening_ns = &mut self.recording.counters.opening_ns;
        *opening_ns = opening_ns.saturating_add(unused_ns.saturating_mul(connections));
    }

    pub(crate) fn connected(&mut self, took_ns: u64, address: u32) {
        self.recording.counters.connections_opened += 1;
        if let Some(of_address) = self.recording.parts.by_address.get_mut(label_of(address)) {
            of_address.connections_opened += 1;
        }
        self.recording.phases.connect.record(took_ns);
    }

    /// Number of connections that were established when the window started.
    pub(crate) fn established_at_start(&mut self, connections: u64) {
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

    /// Where the packets of QUIC are counted.
    pub(crate) fn quic(&mut self) -> Option<&mut QuicRecording> {
        self.recording.parts.quic.as_mut()
    }

    /// Where it is recorded what the latency consists of.
    pub(crate) fn breakdown(&mut self) -> Option<&mut BreakdownRecording> {
        self.recording.parts.breakdown.as_mut()
    }

    /// Where each request gets a record.
    #[inline]
    pub(crate) fn records(&mut self) -> Option<&mut RecordSink> {
        self.records.as_deref_mut()
    }

    /// The conversations so far had these numbers.
    pub(crate) fn note_conversations(&mut self, counts: ConversationRecording) {
        self.recording.parts.conversations = Some(counts);
    }

    /// Whether each request gets a record.
    #[inline]
    pub(crate) fn makes_records(&self) -> bool {
        self.records.is_some()
    }

    /// A proxy has opened a connection to the target.
    pub(crate) fn proxied(&mut self, took_ns: u64) {
        self.recording.phases.proxy.record(took_ns);
    }

    pub(crate) fn reconnect(&mut self) {
        self.recording.counters.reconnects += 1;
    }

    /// Requests with these labels are in flight at the end.
    pub(crate) fn in_flight_labelled(&mut self, requests: u64, age_due_ns: u64, labels: Labels) {
        let open = self.open;
        for named in self.labelled(labels) {
            named.in_flight += requests;
            if open {
                named.unanswered.record_n(age_due_ns, requests);
            }
        }
    }

    /// Requests that are in flight at the end, with the time since they were sent and since they
    /// were due.
    pub(crate) fn in_flight(&mut self, requests: u64, age_ns: u64, age_due_ns: u64) {
        let counters = &mut self.recording.counters;
        counters.in_flight += requests;
        counters.oldest_in_flight_ns = counters.oldest_in_flight_ns.max(age_ns);
        self.unanswered(requests, age_due_ns);
    }

    /// Closes rate samples and intervals that are over. Called every few milliseconds. Returns
    /// whether a report to the observer is due.
    #[inline]
    pub(crate) fn tick(&mut self, now_ns: u64) -> bool {
        if now_ns >= self.interval.end_ns {
            self.close_series_interval(now_ns);
        }
        let is_closed = now_ns >= self.current.end_ns;
        if is_closed {
            self.close_latency_interval(now_ns);
            if let Some(records) = &mut self.records {
                records.hand_over();
            }
        }
        if now_ns.saturating_sub(self.sample_start_ns) >= RATE_SAMPLE_NS && self.sample_answered > 0
        {
            self.close_rate_sample(now_ns);
        }
        let unreported = self.unreported.as_ref();
        unreported.is_some_and(|it| is_closed || now_ns < self.start_ns && now_ns >= it.next_ns)
    }

    /// What happened since the last report, without what only the worker knows. `None` without an
    /// observer. Responses of an interval that is not closed yet are part of the next report.
    pub(crate) fn report(&mut self, now_ns: u64) -> Option<ProgressReport> {
        let stage = if self.measures(now_ns) {
            Stage::Measuring
        } else {
            Stage::WarmingUp
        };
        let in_flight = self.outstanding();
        let Recording {
            counters,
            statuses,
            errors,
            lags,
            parts,
            ..
        } = &self.recording;
        let unreported = self.unreported.as_mut()?;
        let mut last = std::mem::take(&mut unreported.last);
        if stage == Stage::Measuring {
            let totals = Totals {
                answered: counters.responses(),
                errors: errors.events(),
                bytes: counters.bytes,
            };
            let reported = std::mem::replace(&mut unreported.reported, totals);
            last.answered = totals.answered - reported.answered;
            last.errors = totals.errors - reported.errors;
            last.bytes = totals.bytes - reported.bytes;
        }
        unreported.next_ns = now_ns + unreported.every_ns;
        Some(ProgressReport {
            worker: 0,
            stage,
            at_ns: now_ns,
            counters: Counters {
                in_flight,
                // Has no meaning before the end.
                in_flight_time_ns: 0,
                ..*counters
            },
            statuses: statuses.clone(),
            errors: errors.clone(),
            send_lag: lags.send.clone(),
            parts: parts.so_far(),
            last,
            given_up: std::mem::take(&mut unreported.given_up),
            open_connections: 0,
            busy: None,
            is_last: false,
        })
    }

    /// The last report of a worker, which includes the current interval.
    pub(crate) fn report_last(&mut self, now_ns: u64) -> Option<ProgressReport> {
        self.unreported.as_ref()?;
        if self.measures(now_ns) {
            self.close_latency_interval(now_ns);
        }
        self.report(now_ns)
    }

    /// The window ends. A run too short for a rate sample gets the one that it started.
    pub(crate) fn end_window(&mut self, end_ns: u64) {
        if self.is_over {
            return;
        }
        self.close_series_interval(end_ns);
        self.close_latency_interval(end_ns);
        let none = self.recording.rates.count() == 0;
        if none && self.sample_answered > 0 && end_ns > self.sample_start_ns {
            self.close_rate_sample(end_ns);
        }
        self.end_ns = end_ns;
        self.is_over = true;
        if let Some(records) = &mut self.records {
            records.hand_over();
        }
    }

    /// Completes the recording. If the window has not ended before, it ends now.
    pub(crate) fn finish(mut self, now_ns: u64) -> Recording {
        self.end_window(now_ns);
        self.left(self.in_flight, now_ns);
        self.keep_current();
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

    /// Whether there was a whole response in the window.
    pub(crate) fn has_responses(&self) -> bool {
        self.recording.counters.responses() > 0
    }

    /// The service times so far, without what the load generator added.
    pub(crate) fn corrected_service_time(&self) -> Histogram {
        let mut times = self.recording.service_time.clone();
        for more in [&self.whole, &self.current.whole, &self.current.split] {
            times.merge(more);
        }
        let attribution = &self.recording.attribution;
        times.exchanged(&attribution.service_shown, &attribution.service_corrected)
    }

    /// Requests that were sent but neither answered nor failed: the number in flight, known even if
    /// the connections are not accessible.
    pub(crate) fn outstanding(&self) -> u64 {
        let counters = &self.recording.counters;
        counters.sent - counters.answered - self.recording.errors.exchanges()
    }

    fn close_series_interval(&mut self, now_ns: u64) {
        let interval_ns = self.recording.series.interval_ms() * 1_000_000;
        // The interval that has just ended. If the loop was held up for several intervals,
        // everything is added to the first one.
        let at_ms = (self.interval.end_ns - interval_ns).saturating_sub(self.start_ns) / 1_000_000;
        let SeriesInterval {
            answered,
            errors,
            bytes,
            events,
            ..
        } = self.interval;
        self.recording.series.add_row(&SeriesRow {
            start_ms: at_ms,
            answered,
            errors,
            bytes,
            events,
        });
        let interval_ns = self.recording.series.interval_ms() * 1_000_000;
        let elapsed = now_ns.saturating_sub(self.start_ns) / interval_ns;
        let end_ns = self.start_ns + (elapsed + 1) * interval_ns;
        self.interval = SeriesInterval {
            end_ns,
            ..SeriesInterval::default()
        };
    }

    /// Moves the latency interval that has just ended to the recording. It iterates over
    /// histograms, so it is done once a second and not per response.
    fn close_latency_interval(&mut self, now_ns: u64) {
        let interval_ns = Intervals::DEFAULT_INTERVAL_MS * 1_000_000;
        let at_ns = (self.current.end_ns - interval_ns).saturating_sub(self.start_ns);
        let at_ms = at_ns / 1_000_000;
        let Self {
            recording,
            current,
            unreported,
            ..
        } = self;
        if let Some(unreported) = unreported
            && current.end_ns == self.start_ns + interval_ns
        {
            // The first one of the window: what has been collected so far belongs to the warm-up.
            unreported.last = snapshot::SnapshotInterval::default();
        }
        let intervals = &mut recording.intervals;
        if self.open {
            intervals.add(at_ms, &current.response);
        } else {
            intervals.add(at_ms, &current.whole);
            intervals.add(at_ms, &current.late);
            intervals.add(at_ms, &current.split);
        }
        if let Some(llm) = &mut recording.parts.llm {
            llm.first_token_over_time.add(at_ms, &current.first_token);
            current.first_token.clear();
        }
        self.keep_current();
        let elapsed = now_ns.saturating_sub(self.start_ns) / interval_ns;
        self.current.end_ns = self.start_ns + (elapsed + 1) * interval_ns;
    }

    /// Moves the samples of the current latency interval to the totals.
    fn keep_current(&mut self) {
        let Self {
            recording,
            whole,
            current,
            unreported,
            ..
        } = self;
        if !self.open {
            recording.attribution.shown.merge(&current.late);
        }
        let mut close = |total: &mut Histogram, samples: &mut Histogram, is_reported: bool| {
            if samples.is_empty() {
                return;
            }
            total.merge(samples);
            match unreported {
                Some(unreported) if is_reported => {
                    unreported.last.latency.absorb(std::mem::take(samples));
                }
                _ => samples.clear(),
            }
        };
        let is_closed_loop = !self.open;
        close(whole, &mut current.whole, is_closed_loop);
        close(whole, &mut current.late, is_closed_loop);
        let service_time = &mut recording.service_time;
        close(service_time, &mut current.split, is_closed_loop);
        let response_time = &mut recording.response_time;
        close(response_time, &mut current.response, self.open);
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
