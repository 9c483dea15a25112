//! Sets up a run on the simulator, carries it out, and keeps both sides' records of it.

use crate::http::{HttpPeer, Served};
use engine::source::{Fixed, RequestSource};
use engine::{Ended, Observer, Part, Schedule, Settings, run_here, run_together};
use eventloop::sim::{Peer, PeerLog, PeerLogEntry, Sim, SimOptions};
use eventloop::{Address, SocketOptions};
use plan::{Arrivals, Pacing};
use protocol::h1::{H1, Limits, Shared};
use results::snapshot::Snapshot;
use results::{ErrorKind, Recording};
use std::sync::{Arc, Mutex};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000_000_000;

pub(crate) const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: simulated\r\n\r\n";
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
pub(crate) const LAST_OK: &[u8] =
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

/// A run to be: the defaults are one connection for one second, without latency.
pub(crate) struct Rig {
    pub(crate) sim: SimOptions,
    pub(crate) settings: Settings,
    pub(crate) schedule: Schedule,
    pub(crate) source: Box<dyn RequestSource>,
    threads: Option<u32>,
    watched: Option<Watched>,
}

/// Keeps every snapshot it is shown.
#[derive(Default)]
struct Watched(Vec<Snapshot>);

impl Observer for Watched {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.0.push(snapshot.clone());
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self {
            sim: SimOptions::default(),
            settings: Settings {
                address: Address::Tcp(([127, 0, 0, 1], 80).into()),
                options: SocketOptions::default(),
                connections: 1,
                pipeline: 1,
                requests_per_connection: u64::MAX,
                timeout_ns: 2 * S,
                requests: None,
                seed: 1,
                pacing: Pacing::Closed,
                worker: 0,
                workers: 1,
                source: None,
                batch_latency: false,
            },
            schedule: Schedule {
                start_ns: 0,
                measure_ns: 0,
                end_ns: S,
            },
            source: Box::new(Fixed::new(GET.to_vec())),
            threads: None,
            watched: None,
        }
    }

    /// So many workers share the connections and the load. They all send the default request.
    pub(crate) fn threads(mut self, threads: u32) -> Self {
        self.threads = Some(threads);
        self
    }

    pub(crate) fn connections(mut self, connections: u32) -> Self {
        self.settings.connections = connections;
        self
    }

    pub(crate) fn pipeline(mut self, depth: u32) -> Self {
        self.settings.pipeline = depth;
        self
    }

    pub(crate) fn requests_per_connection(mut self, limit: u64) -> Self {
        self.settings.requests_per_connection = limit;
        self
    }

    pub(crate) fn timeout(mut self, timeout_ns: u64) -> Self {
        self.settings.timeout_ns = timeout_ns;
        self
    }

    /// Requests are due at this rate, in equal distances.
    pub(crate) fn rate(mut self, rate_per_sec: f64) -> Self {
        self.settings.pacing = Pacing::Constant {
            rate_per_sec,
            arrivals: Arrivals::Even,
            seed: 0,
        };
        self
    }

    /// Ends after so many requests instead of after a time.
    pub(crate) fn requests(mut self, requests: u64) -> Self {
        self.settings.requests = Some(requests);
        self.schedule.end_ns = u64::MAX;
        self
    }

    pub(crate) fn lasting(mut self, duration_ns: u64) -> Self {
        self.schedule.end_ns = self.schedule.measure_ns + duration_ns;
        self
    }

    /// Puts a time before the window.
    pub(crate) fn warmed_up(mut self, warmup_ns: u64) -> Self {
        self.schedule.measure_ns += warmup_ns;
        self.schedule.end_ns += warmup_ns;
        self
    }

    pub(crate) fn latency(mut self, latency_ns: u64) -> Self {
        self.sim.latency_ns = latency_ns;
        self
    }

    pub(crate) fn source(mut self, source: impl RequestSource + 'static) -> Self {
        self.source = Box::new(source);
        self
    }

    /// Somebody looks at it while it is on.
    pub(crate) fn watched(mut self) -> Self {
        self.watched = Some(Watched::default());
        self
    }

    /// Carries out the run and checks what must hold of every one.
    pub(crate) fn run(mut self, peer: HttpPeer) -> Run {
        let open = self.settings.pacing.is_open();
        let batch_latency = self.settings.batch_latency;
        let peer = Arc::new(Mutex::new(peer));
        let mut watched = self.watched.take();
        let observer = watched.as_mut().map(|it| it as &mut dyn Observer);
        let (ended, peer_log) = self.carry_out(Arc::clone(&peer), observer);
        let served = peer
            .lock()
            .expect("no panic under the lock")
            .served()
            .to_vec();
        let run = Run {
            recording: ended.recording,
            ended_ns: ended.ended_ns,
            failure: ended.failure,
            has_given_up: ended.has_given_up,
            served,
            peer_log,
            open,
            batch_latency,
            snapshots: watched.map(|it| it.0).unwrap_or_default(),
        };
        run.check_books();
        run
    }

    /// Carries out the run against any far end.
    pub(crate) fn run_with(self, peer: impl Peer) -> (Ended, PeerLog) {
        self.carry_out(peer, None)
    }

    fn carry_out(
        mut self,
        peer: impl Peer,
        observer: Option<&mut dyn Observer>,
    ) -> (Ended, PeerLog) {
        let io = Sim::new(self.sim.clone(), peer);
        let peer_log = io.peer_log();
        if let Some(threads) = self.threads {
            return (self.carry_out_together(io, threads), peer_log);
        }
        let source = std::mem::replace(&mut self.source, Box::new(Fixed::new(Vec::new())));
        let part = part(io, self.settings, source);
        let ended = run_here::<_, H1>(part, self.schedule, observer);
        (ended.expect("the worker can be set up"), peer_log)
    }

    /// Several workers with one far end. What they ended with is merged as a run does it.
    fn carry_out_together<P: Peer>(self, io: Sim<P>, threads: u32) -> Ended {
        let siblings: Vec<_> = (1..threads).map(|_| io.sibling()).collect();
        let parts = std::iter::once(io).chain(siblings).zip(0..threads);
        let share = |total: u64, worker: u32| {
            total / u64::from(threads) + u64::from(u64::from(worker) < total % u64::from(threads))
        };
        let parts = parts.map(|(io, worker)| {
            let mut settings = self.settings.clone();
            settings.connections = share(u64::from(settings.connections), worker) as u32;
            settings.seed = u64::from(worker);
            (settings.worker, settings.workers) = (worker, threads);
            if !settings.pacing.is_open() {
                settings.requests = settings.requests.map(|total| share(total, worker));
            }
            part(io, settings, Box::new(Fixed::new(GET.to_vec())))
        });
        let ended = run_together::<_, H1>(parts.collect(), self.schedule);
        let merge = |mut all: Ended, one: Ended| {
            all.recording.merge(&one.recording);
            all.ended_ns = all.ended_ns.max(one.ended_ns);
            all.failure = all.failure.or(one.failure);
            all.has_given_up |= one.has_given_up;
            all
        };
        let ended = ended.expect("the workers can be set up").into_iter();
        ended.reduce(merge).expect("there is a worker")
    }
}

fn part<P: Peer>(
    io: Sim<P>,
    settings: Settings,
    source: Box<dyn RequestSource>,
) -> Part<Sim<P>, H1> {
    Part {
        io,
        shared: Shared::new(Limits::default(), source.wants_responses()),
        settings,
        source,
    }
}

/// What came of a run, as the worker tells it and as the server knows it.
pub(crate) struct Run {
    pub(crate) recording: Recording,
    pub(crate) ended_ns: u64,
    pub(crate) failure: Option<String>,
    pub(crate) has_given_up: bool,
    /// The server's truth about each request.
    pub(crate) served: Vec<Served>,
    /// What was seen meanwhile, if somebody looked.
    pub(crate) snapshots: Vec<Snapshot>,
    peer_log: PeerLog,
    open: bool,
    batch_latency: bool,
}

impl Run {
    /// Everything the far end saw and did.
    pub(crate) fn peer_log(&self) -> Vec<PeerLogEntry> {
        self.peer_log.entries()
    }

    pub(crate) fn answered(&self) -> u64 {
        self.recording.counters.answered
    }

    pub(crate) fn sent(&self) -> u64 {
        self.recording.counters.sent
    }

    /// Events and exchanges of one kind of error.
    pub(crate) fn errors(&self, kind: ErrorKind) -> (u64, u64) {
        let count = self.recording.errors.count(kind);
        (count.events, count.exchanges)
    }

    /// The only error there was.
    pub(crate) fn assert_only_errors(&self, expected: &[ErrorKind]) {
        let seen: Vec<_> = self.recording.errors.iter().map(|(kind, _)| kind).collect();
        assert_eq!(seen, expected, "{:?}", self.recording.errors);
    }

    /// Each service time once, with how many exchanges had it; exact only where all samples are
    /// equal or few.
    pub(crate) fn service_ns(&self) -> (Option<u64>, Option<u64>) {
        let times = &self.recording.service_time;
        (times.min_ns(), times.max_ns())
    }

    /// Nothing is counted twice, and nothing is lost.
    fn check_books(&self) {
        let Recording {
            counters,
            statuses,
            errors,
            service_time,
            timed_out,
            phases,
            series,
            response_time,
            unanswered,
            intervals,
            lags,
            ..
        } = &self.recording;
        let found = counters.answered + errors.exchanges() + counters.in_flight;
        assert_eq!(counters.sent, found, "{counters:?} {errors:?}");
        let timed = service_time.count();
        assert!(timed == counters.answered || self.batch_latency && timed < counters.answered);
        assert_eq!(phases.first_byte.count(), timed);
        assert_eq!(phases.last_byte.count(), timed);
        assert_eq!(phases.connect.count(), counters.connections_opened);
        assert_eq!(statuses.total(), counters.answered);
        let parts_ns = phases.first_byte.sum_ns() + phases.last_byte.sum_ns();
        assert_eq!(service_time.sum_ns(), parts_ns, "the phases make the whole");
        let given_up = errors.count(ErrorKind::Timeout).exchanges;
        assert_eq!(timed_out.count(), given_up);
        assert_eq!(counters.in_flight == 0, counters.oldest_in_flight_ns == 0);
        let in_rows: u64 = series.rows().iter().map(|row| row.answered).sum();
        assert_eq!(in_rows, counters.answered, "the series adds up");
        let samples = intervals.rows().iter().flat_map(|row| &row.samples);
        let in_intervals: u64 = samples.map(|(_, count)| count).sum();
        assert_eq!(in_intervals, timed, "the intervals add up");
        if self.open {
            assert_eq!(counters.due, counters.sent + counters.unsent);
            assert_eq!(response_time.count(), timed);
            let without = given_up + counters.in_flight + counters.unsent;
            assert_eq!(unanswered.count(), without);
            assert_eq!(lags.send.count(), counters.sent);
            assert_eq!(lags.own.count(), counters.sent);
            assert!(response_time.sum_ns() >= service_time.sum_ns());
        } else {
            assert_eq!((counters.due, counters.unsent), (0, 0));
            assert!(response_time.is_empty() && unanswered.is_empty() && lags.send.is_empty());
        }
    }
}
