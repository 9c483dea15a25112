//! What a worker counts and times.

use super::WorkerSettings;
use super::breakdown::Breakdown;
use super::connections::Abandoned;
use super::denial::DenialDetector;
use super::packets::PacketsBefore;
use super::pool::ConnectionPool;
use super::read_late::ReadLate;
use super::reporting::ProgressReporter;
use super::silence::Silence;
use super::stall::StallDetector;
use super::usage::UsageMeter;
use super::watch::Watch;
use crate::UsageProbe;
use crate::control::RunTimes;
use crate::good::GoodLimits;
use crate::recorder::{AnsweredTimes, Labels, REPORT_NS, Recorder};
use crate::warmup::BATCH_NS;
use protocol::{Session, Transport};
use results::{Attribution, ErrorKind};

/// What a worker counts and times: responses, errors, and whose delay each time contains.
///
/// It is a value of its own so that measuring cannot change the load: its functions get the
/// connections that they are about as arguments and may note there whose delay a time contains, but
/// they neither open a connection nor send a request. An optional measurement is a field that is
/// `None` when it is off, here or in the [`Recorder`].
pub(super) struct Accounting {
    /// The times of the run, once they are known.
    pub(super) times: RunTimes,
    /// Whether the run has a fixed rate.
    pub(super) is_paced: bool,
    /// Whether only the last response of a batch is timed.
    pub(super) batch_latency: bool,
    /// Whether streams are expected to have an end marker.
    pub(super) has_end_marker: bool,
    /// Absent only while a script runs, see [`StuckGuard`](crate::control::StuckGuard).
    pub(super) recorder: Option<Box<Recorder>>,
    /// Set if it is recorded what the latency consists of.
    pub(super) breakdown: Option<Box<Breakdown>>,
    /// When bytes arrived, and when the worker did not run.
    pub(super) watch: Watch,
    /// Requests that were answered after the last wait, with their connections. A timestamp may
    /// still show that their responses were read late.
    pub(super) doubtful: Vec<(u32, AnsweredTimes)>,
    /// How long the bytes of the current completion waited to be read.
    pub(super) read_late: ReadLate,
    /// Whether anything was postponed in this run. Only then can a connection have bytes that wait.
    pub(super) has_postponed: bool,
    /// The shortest known time from a request to the arrival of its response; `u64::MAX` if none
    /// is known.
    pub(super) fastest_ns: u64,
    /// Pauses after which the server has not responded yet.
    pub(super) silence: Silence,
    pub(super) stall: StallDetector,
    /// Whether each response is judged, has a record, belongs to a conversation, or may be one of a
    /// server that refuses all requests. Most runs have none of it.
    pub(super) has_extras: bool,
    /// Whether the server refuses the requests from the start.
    pub(super) denial: DenialDetector,
    pub(super) usage: UsageMeter,
    /// Set if there is an observer.
    pub(super) reporter: Option<ProgressReporter>,
    pub(super) first_error_detail: Option<(ErrorKind, String)>,
    /// Over datagrams: what was counted before the window.
    pub(super) packets_before: PacketsBefore,
}

impl Accounting {
    /// `has_unstamped`: some connections have no timestamps.
    pub(super) fn new(
        settings: &WorkerSettings,
        is_paced: bool,
        has_unstamped: bool,
        usage_probe: Option<Box<dyn UsageProbe>>,
    ) -> Self {
        Self {
            times: RunTimes::default(),
            is_paced,
            batch_latency: settings.plan.load.batch_latency,
            has_end_marker: settings.has_end_marker(),
            recorder: None,
            breakdown: Breakdown::new(settings),
            watch: Watch::new(has_unstamped),
            doubtful: Vec::new(),
            read_late: ReadLate::default(),
            has_postponed: false,
            fastest_ns: u64::MAX,
            silence: Silence::default(),
            stall: StallDetector::new(0, 0),
            has_extras: false,
            denial: DenialDetector::new(false, 0),
            usage: UsageMeter::new(usage_probe),
            reporter: None,
            first_error_detail: None,
            packets_before: PacketsBefore::default(),
        }
    }

    /// A connection was closed that has left this.
    pub(super) fn abandoned(&mut self, abandoned: &Abandoned, at_ns: u64) {
        if abandoned.requests > 0 {
            self.stall.settled_ns = at_ns;
        }
        let recorder = self.recorder();
        recorder.left(abandoned.requests, at_ns);
        if let Some((bytes, labels)) = abandoned.partial
            && recorder.is_in_window(at_ns)
        {
            recorder.bytes(bytes, labels);
        }
    }

    /// Prepares the recorder of a run with these times.
    pub(super) fn begin(
        &mut self,
        times: RunTimes,
        settings: &WorkerSettings,
        names: &[String],
        transport: Transport,
    ) {
        let mut recorder = Recorder::new(times.measure_ns, self.is_paced).with_names(names);
        if let Some(events) = &settings.plan.events {
            let is_llm = events.format == plan::EventsFormat::Llm;
            // Each format of a language model's events has an end.
            let has_end = (events.end_marker.is_some() || is_llm) && self.has_end_marker;
            recorder = recorder.with_events(has_end);
            if is_llm {
                recorder = recorder.with_tokens();
            }
        }
        if let Some(good) = &settings.plan.good {
            recorder = recorder.with_limits(GoodLimits::of(good));
        }
        if transport == Transport::Datagrams {
            recorder = recorder.with_packets();
        }
        if self.breakdown.is_some() {
            recorder = recorder.with_breakdown();
        }
        if let Some(records) = settings.records.clone() {
            let sink = records.of_worker(settings.number(), times.measure_ns);
            recorder = recorder.with_records(sink);
        }
        if self.reporter.is_some() {
            let every_ns = if settings.plan.warmup_auto {
                BATCH_NS
            } else {
                REPORT_NS
            };
            recorder.enable_reports(times.start_ns, every_ns);
        }
        self.recorder = Some(Box::new(recorder));
        self.stall = StallDetector::new(times.start_ns, times.measure_ns);
        self.denial = DenialDetector::new(settings.plan.stops_if_denied, times.start_ns);
        self.has_extras = settings.plan.good.is_some()
            || settings.plan.stops_if_denied
            || settings.records.is_some()
            || settings.has_conversations;
        self.times = times;
    }

    /// The window begins at another time, which has not come yet.
    pub(super) fn move_window(&mut self, times: RunTimes) {
        self.recorder().move_window(times.measure_ns);
        self.times = times;
    }

    /// The window has begun: ends the reports that are only about the warm-up.
    pub(super) fn end_warmup_reports(&mut self) {
        if self
            .reporter
            .as_ref()
            .is_some_and(ProgressReporter::ends_with_warmup)
        {
            self.reporter = None;
            self.recorder().disable_reports();
        }
    }

    /// A completion that the wait has found is taken at this time. Returns a standstill that is
    /// noticed now.
    #[inline]
    pub(super) fn note_found(&mut self, at_ns: u64) -> Option<(u64, u64)> {
        let (late_ns, gap_ns) = self.watch.completed(at_ns, &mut self.usage);
        if late_ns >= Attribution::MIN_NS {
            self.read_late = ReadLate::since(late_ns);
        }
        gap_ns
    }

    #[cold]
    pub(super) fn report(&mut self, open_connections: u64, now_ns: u64) {
        if let (Some(reporter), Some(recorder)) = (&mut self.reporter, &mut self.recorder) {
            reporter.report(recorder, &mut self.usage, open_connections, now_ns);
        }
    }

    /// Counts the bytes of responses that are not complete, and the connections that have not sent
    /// anything, at the end of the window.
    pub(super) fn count_partial<S: Session>(
        &mut self,
        pool: &mut ConnectionPool<S>,
        ended_ns: u64,
    ) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if !self.is_paced {
            let all = (0..).zip(&pool.connections);
            let unused = all.filter(|(key, it)| !it.has_sent && !pool.is_idle(*key));
            recorder.unused_until(ended_ns, unused.count() as u64);
        }
        if !recorder.measures(ended_ns) {
            return;
        }
        for connection in &mut pool.connections {
            let oldest = connection.exchanges.oldest().map(|oldest| Labels {
                name: oldest.name,
                address: connection.address,
            });
            if let Some(labels) = oldest {
                let partial = connection.session.partial_bytes();
                recorder.bytes(connection.since_window(partial), labels);
            }
        }
    }

    #[inline]
    pub(super) fn recorder(&mut self) -> &mut Recorder {
        self.recorder
            .as_mut()
            .expect("a recorder is parked only while the script runs")
    }
}
