//! Sets up a run on the simulator, runs it, and keeps the records of both sides.

use crate::http::{HttpPeer, Served};
use engine::source::{Fixed, RequestSource};
use engine::{
    AddressBook, Observer, RunTimes, UsageProbe, WorkerParts, WorkerResult, WorkerSettings,
    run_here, run_together,
};
use eventloop::sim::{DatagramCounts, Peer, PeerLog, PeerLogEntry, Sim, SimOptions};
use eventloop::{Address, SocketOptions};
use plan::{Arrivals, Pacing, RunPlan, Target};
use protocol::h1::{H1, H1Context, Limits};
use protocol::{Session, StreamSpec, h2, h3, tls};
use results::snapshot::Snapshot;
use results::{ErrorKind, Recording, SeriesRow, ThreadUsage};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000_000_000;

pub(crate) const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: simulated\r\n\r\n";
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
pub(crate) const LAST_OK: &[u8] =
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

/// How long what arrives at this time waits for the end of a stall.
pub(crate) fn waits_ns(stall_ns: &Range<u64>, arrived_ns: u64) -> u64 {
    if stall_ns.contains(&arrived_ns) {
        stall_ns.end - arrived_ns
    } else {
        0
    }
}

/// A run to be simulated. The defaults are one connection for one second, without latency.
pub(crate) struct Simulation {
    pub(crate) sim: SimOptions,
    pub(crate) settings: WorkerSettings,
    pub(crate) times: RunTimes,
    pub(crate) source: Box<dyn RequestSource>,
    threads: Option<u32>,
    /// Whether pauses are stops of the program, and not other programs on its CPU.
    is_stopped: bool,
    snapshots: Option<Snapshots>,
}

/// Collects all snapshots of a run.
#[derive(Default)]
struct Snapshots(Vec<Snapshot>);

impl Observer for Snapshots {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.0.push(snapshot.clone());
    }
}

impl Simulation {
    pub(crate) fn new() -> Self {
        Self {
            sim: SimOptions::default(),
            settings: WorkerSettings {
                plan: RunPlan {
                    drain: Some(Duration::ZERO),
                    ..RunPlan::new(Target::parse("http://h/").expect("a URL"))
                },
                addresses: AddressBook::new(vec![Address::Tcp(([127, 0, 0, 1], 80).into())], false),
                options: SocketOptions::default(),
                connections: 1,
                pipeline: 1,
                requests_per_connection: u64::MAX,
                hosts: 1,
                idle_connections: 0,
                recorded_gap_ns: None,
                has_conversations: false,
                histories_max_bytes: engine::HISTORIES_MAX_BYTES,
                timeout_ns: 2 * S,
                requests: None,
                seed: 1,
                worker_base: 0,
                worker: 0,
                workers: 1,
                workers_elsewhere: 0,
                weighted: None,
                records: None,
            },
            times: RunTimes {
                start_ns: 0,
                measure_ns: 0,
                end_ns: S,
            },
            source: Box::new(Fixed::new(GET.to_vec())),
            threads: None,
            is_stopped: false,
            snapshots: None,
        }
    }

    /// This many workers share the connections and the load. All but the first one send the default
    /// request.
    pub(crate) fn threads(mut self, threads: u32) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The program is stopped in pauses, so that the kernel does not count them as waits for a CPU.
    pub(crate) fn stopped(mut self) -> Self {
        self.is_stopped = true;
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

    /// After the window, responses are read for at most this long.
    pub(crate) fn drained(mut self, drain_ns: u64) -> Self {
        self.settings.plan.drain = Some(Duration::from_nanos(drain_ns));
        self
    }

    pub(crate) fn timeout(mut self, timeout_ns: u64) -> Self {
        self.settings.timeout_ns = timeout_ns;
        self
    }

    /// Requests are due at this rate, evenly spaced.
    pub(crate) fn rate(mut self, rate_per_sec: f64) -> Self {
        self.settings.plan.pacing = Pacing::Constant {
            rate_per_sec,
            arrivals: Arrivals::Even,
            seed: 0,
        };
        self
    }

    /// Ends after this many requests instead of after a time.
    pub(crate) fn requests(mut self, requests: u64) -> Self {
        self.settings.requests = Some(requests);
        self.times.end_ns = u64::MAX;
        self
    }

    pub(crate) fn lasting(mut self, duration_ns: u64) -> Self {
        self.times.end_ns = self.times.measure_ns + duration_ns;
        self
    }

    /// Adds a warm-up before the window.
    pub(crate) fn warmed_up(mut self, warmup_ns: u64) -> Self {
        self.times.measure_ns += warmup_ns;
        self.times.end_ns += warmup_ns;
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

    /// Observes the run, so that it has snapshots.
    pub(crate) fn observed(mut self) -> Self {
        self.snapshots = Some(Snapshots::default());
        self
    }

    /// Runs the simulation and checks what must hold for every run.
    pub(crate) fn run(mut self, peer: HttpPeer) -> Run {
        let open = self.settings.plan.pacing.is_open();
        let batch_latency = self.settings.plan.load.batch_latency;
        let peer = Arc::new(Mutex::new(peer));
        let mut snapshots = self.snapshots.take();
        let observer = snapshots.as_mut().map(|it| it as &mut dyn Observer);
        let (ended, peer_log) = self.simulate(Arc::clone(&peer), observer);
        let served = peer
            .lock()
            .expect("no panic under the lock")
            .served()
            .to_vec();
        let run = Run {
            recording: ended.recording,
            ended_ns: ended.ended_ns,
            drained_ns: ended.drained_ns,
            failure: ended.failure,
            has_given_up: ended.has_given_up,
            served,
            peer_log,
            snapshots: snapshots.map(|it| it.0).unwrap_or_default(),
        };
        check_consistency(&run.recording, open, batch_latency);
        run
    }

    /// Runs the simulation with any peer.
    pub(crate) fn run_with(self, peer: impl Peer) -> (WorkerResult, PeerLog) {
        self.simulate(peer, None)
    }

    /// Runs the simulation over HTTP/2, with this many streams per connection.
    pub(crate) fn run_multiplexed(
        mut self,
        streams: u32,
        peer: impl Peer,
    ) -> (WorkerResult, PeerLog) {
        let io = Sim::new(self.sim.clone(), peer);
        let peer_log = io.peer_log();
        self.settings.pipeline = streams;
        if !self.settings.plan.load.protocol.has_streams() {
            self.settings.plan.load.protocol = plan::Protocol::Http2;
        }
        let context = h2::H2Context::new(h2::ClientSettings {
            streams_max: streams,
            scheme: "http",
            calls: self.settings.plan.load.protocol == plan::Protocol::Grpc,
            capture: false,
            captured_body_bytes_max: 0,
        });
        let parts = WorkerParts {
            usage_probe: (!self.is_stopped).then(|| CpuTimes::of(&io)),
            io,
            context,
            settings: self.settings,
            source: self.source,
        };
        let ended = run_here::<_, h2::H2>(parts, self.times, None);
        (ended.expect("the worker is set up"), peer_log)
    }

    /// Runs the simulation over HTTP/3, with this many streams per connection, and checks what must
    /// hold for every run.
    #[expect(
        clippy::disallowed_methods,
        reason = "any moment; from there on the time is simulated"
    )]
    pub(crate) fn run_over_quic(
        mut self,
        streams: u32,
        peer: impl Peer,
    ) -> (WorkerResult, DatagramCounts) {
        let io = Sim::new(self.sim.clone(), peer);
        let counts = io.sibling();
        self.settings.pipeline = streams;
        self.settings.plan.load.protocol = plan::Protocol::Http3;
        let is_open = self.settings.plan.pacing.is_open();
        let (base, seed) = (Instant::now(), self.sim.seed);
        let options = tls::Options {
            alpn: &[h3::ALPN],
            ..tls::Options::default()
        };
        let tls = tls::config(&options).expect("the default is good");
        let client = h3::ClientSettings {
            streams_max: streams,
            idle_timeout_ms: 30_000,
            discovers_mtu: true,
            capture: false,
            captured_body_bytes_max: 0,
            calls: false,
        };
        let threads = self.threads.unwrap_or(1);
        let ended = self.simulate_together::<_, h3::H3>(io, threads, |settings| {
            let name = tls::server_name("simulated").expect("it is one");
            let seed = seed.wrapping_add(u64::from(settings.worker) << 32);
            let context = h3::H3Context::new(client.clone(), &tls, name, base, seed);
            context.expect("the settings are good")
        });
        check_consistency(&ended.recording, is_open, false);
        (ended, counts.datagram_counts())
    }

    fn simulate(
        mut self,
        peer: impl Peer,
        observer: Option<&mut dyn Observer>,
    ) -> (WorkerResult, PeerLog) {
        let io = Sim::new(self.sim.clone(), peer);
        let peer_log = io.peer_log();
        if let Some(threads) = self.threads {
            let ended = self.simulate_together::<_, H1>(io, threads, |settings| {
                h1_context(settings, &Fixed::new(GET.to_vec()))
            });
            return (ended, peer_log);
        }
        let source = std::mem::replace(&mut self.source, Box::new(Fixed::new(Vec::new())));
        let usage_probe = (!self.is_stopped).then(|| CpuTimes::of(&io));
        let mut part = part(io, self.settings, source);
        part.usage_probe = usage_probe;
        let ended = run_here::<_, H1>(part, self.times, observer);
        (ended.expect("the worker is set up"), peer_log)
    }

    /// Several workers with one peer. Their results are merged as in a real run.
    fn simulate_together<P: Peer, S: Session>(
        self,
        io: Sim<P>,
        threads: u32,
        context: impl Fn(&WorkerSettings) -> S::Context,
    ) -> WorkerResult {
        let siblings: Vec<_> = (1..threads).map(|_| io.sibling()).collect();
        let parts = std::iter::once(io).chain(siblings).zip(0..threads);
        let share = |total: u64, worker: u32| {
            total / u64::from(threads) + u64::from(u64::from(worker) < total % u64::from(threads))
        };
        let mut source = Some(self.source);
        let parts = parts.map(|(io, worker)| {
            let mut settings = self.settings.clone();
            settings.connections = share(u64::from(settings.connections), worker) as u32;
            settings.seed = u64::from(worker);
            (settings.worker, settings.workers) = (worker, threads);
            if !settings.plan.pacing.is_open() {
                settings.requests = settings.requests.map(|total| share(total, worker));
            }
            WorkerParts {
                usage_probe: (!self.is_stopped).then(|| CpuTimes::of(&io)),
                io,
                context: context(&settings),
                settings,
                source: source
                    .take()
                    .unwrap_or_else(|| Box::new(Fixed::new(GET.to_vec()))),
            }
        });
        let ended = run_together::<_, S>(parts.collect(), self.times);
        let merge = |mut all: WorkerResult, one: WorkerResult| {
            all.recording.merge(&one.recording);
            all.ended_ns = all.ended_ns.max(one.ended_ns);
            all.drained_ns = all.drained_ns.max(one.drained_ns);
            all.failure = all.failure.or(one.failure);
            all.has_given_up |= one.has_given_up;
            all
        };
        let ended = ended.expect("the workers are set up").into_iter();
        ended.reduce(merge).expect("there is a worker")
    }
}

fn part<P: Peer>(
    io: Sim<P>,
    settings: WorkerSettings,
    source: Box<dyn RequestSource>,
) -> WorkerParts<Sim<P>, H1> {
    WorkerParts {
        io,
        context: h1_context(&settings, &*source),
        settings,
        source,
        usage_probe: None,
    }
}

fn h1_context(settings: &WorkerSettings, source: &dyn RequestSource) -> H1Context {
    let stream = settings.plan.events.as_ref().map(|events| StreamSpec {
        format: events.format,
        end_marker: events.end_marker().as_bytes().into(),
        dialect: events.dialect,
        keeps_answers: settings.has_conversations,
    });
    let mut context = H1Context::new(Limits::default(), source.wants_responses());
    if settings.plan.tracing.server_timing {
        context = context.with_heads_only();
    }
    context.with_stream(stream)
}

/// Tells how long the simulated program has worked, and how long it has waited for a CPU.
struct CpuTimes {
    worked_ns: Arc<AtomicU64>,
    waited_ns: Arc<AtomicU64>,
}

impl CpuTimes {
    fn of<P: Peer>(io: &Sim<P>) -> Box<dyn UsageProbe> {
        Box::new(Self {
            worked_ns: io.worked_ns(),
            waited_ns: io.run_queue_wait_ns(),
        })
    }
}

impl UsageProbe for CpuTimes {
    fn usage(&mut self) -> Option<ThreadUsage> {
        None
    }

    /// Only a script takes time.
    fn cpu_ns(&mut self) -> Option<u64> {
        Some(self.worked_ns.load(Ordering::Relaxed))
    }

    fn run_queue_wait_ns(&mut self) -> Option<u64> {
        Some(self.waited_ns.load(Ordering::Relaxed))
    }
}

/// The result of a run: what the worker recorded, and what the server knows.
pub(crate) struct Run {
    pub(crate) recording: Recording,
    pub(crate) ended_ns: u64,
    pub(crate) drained_ns: Option<u64>,
    pub(crate) failure: Option<String>,
    pub(crate) has_given_up: bool,
    /// The server's truth about each request.
    pub(crate) served: Vec<Served>,
    /// The snapshots of the observer, if there was one.
    pub(crate) snapshots: Vec<Snapshot>,
    peer_log: PeerLog,
}

impl Run {
    /// Everything that the peer saw and did.
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

    /// Expects errors of this kind only.
    pub(crate) fn assert_only_errors(&self, expected: &[ErrorKind]) {
        let seen: Vec<_> = self.recording.errors.iter().map(|(kind, _)| kind).collect();
        assert_eq!(seen, expected, "{:?}", self.recording.errors);
    }

    /// The distinct service times with their numbers of exchanges. Exact only if all samples are
    /// equal or few.
    pub(crate) fn service_ns(&self) -> (Option<u64>, Option<u64>) {
        let times = &self.recording.service_time;
        (times.min_ns(), times.max_ns())
    }
}

/// Nothing is counted twice, and nothing is lost.
fn check_consistency(recording: &Recording, is_open: bool, batch_latency: bool) {
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
        parts: results::PartRecordings { events, .. },
        ..
    } = recording;
    let found = counters.answered + errors.exchanges() + counters.in_flight;
    assert_eq!(counters.sent, found, "{counters:?} {errors:?}");
    let timed = service_time.count();
    assert!(timed == counters.answered || batch_latency && timed < counters.answered);
    assert_eq!(phases.first_byte.count(), timed);
    assert_eq!(phases.last_byte.count(), timed);
    assert_eq!(phases.connect.count(), counters.connections_opened);
    assert_eq!(statuses.total(), counters.answered);
    let parts_ns = phases.first_byte.sum_ns() + phases.last_byte.sum_ns();
    assert_eq!(service_time.sum_ns(), parts_ns, "the phases add up");
    let given_up = errors.count(ErrorKind::Timeout).exchanges;
    assert_eq!(timed_out.count(), given_up);
    assert_eq!(counters.in_flight == 0, counters.oldest_in_flight_ns == 0);
    let in_rows = |of: fn(&SeriesRow) -> u64| series.rows().iter().map(of).sum::<u64>();
    assert_eq!(in_rows(|row| row.answered), counters.responses());
    assert_eq!(in_rows(|row| row.bytes), counters.bytes);
    let arrived = events.as_ref().map_or(0, |events| events.arrived);
    assert_eq!(in_rows(|row| row.events), arrived);
    let samples = intervals.rows().iter().flat_map(|row| &row.samples);
    let in_intervals: u64 = samples.map(|(_, count)| count).sum();
    let drained = counters.answered_in_drain;
    assert_eq!(in_intervals + drained, timed, "the intervals add up");
    if is_open {
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
