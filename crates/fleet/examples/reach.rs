//! How far a fleet reaches: sizes of its messages and results as they are encoded, and what they
//! add up to with 1,000 agents that make 10 million requests/s.
//!
//! `cargo run --release -p fleet --example reach`, or with `AGENTS RATE SECONDS` behind `--`.
#![allow(clippy::print_stdout, reason = "a program for people")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::error::Error;
use std::time::{Duration, Instant};

use cluster::agent::BEAT_NS;
use cluster::message::{
    Ask, Audience, Beat, Command, FromAgent, Hello, Order, Reply, Stage, ToAgent, encode,
};
use cluster::names::{AgentId, Random, RunId, Session};
use cluster::package::{BundledFile, Package};
use cluster::pieces::{CallBody, PIECE_BYTES, piece};
use cluster::signing::{SigningKey, TrustList};
use plan::{Arrivals, Pacing, RunPlan, Stop, Target, Weight};
use results::fleet::Merged;
use results::snapshot::{Snapshot, SnapshotInterval};
use results::{AgentOutcome, AgentResult, Environment, Histogram, Recording, RunResult};

/// Threads of each agent.
const THREADS: u32 = 8;
/// Agents whose results are made, for the memory and the time of each.
const SAMPLE: u64 = 100;
/// Clocks are read again by 8 exchanges every 5 s, and before the start by 15 on average.
const EXCHANGES_PER_S: f64 = 8.0 / 5.0;
const EXCHANGES_BEFORE: f64 = 15.0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().skip(1).map(|argument| argument.parse());
    let numbers: Vec<u64> = arguments.collect::<Result<_, _>>()?;
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (agents, rate, seconds) = (number(0, 1_000), number(1, 10_000_000), number(2, 60));
    println!("{agents} agents, {rate} requests/s, {seconds} s\n");
    let sizes = Sizes::measure(rate / agents, seconds)?;
    sizes.print();
    print_totals(&sizes, agents as f64);
    let costs = Costs::measure(rate / agents, seconds)?;
    costs.print(agents);
    Ok(())
}

/// Bytes of each kind of message.
struct Sizes {
    hello: usize,
    clock: (usize, usize),
    order: usize,
    prepare: usize,
    fetch: usize,
    package: usize,
    stage: usize,
    beat: usize,
    full_beat: usize,
    result: usize,
    result_piece: usize,
}

impl Sizes {
    fn measure(rate: u64, seconds: u64) -> Result<Self, Box<dyn Error>> {
        let mut random = numbers(1);
        let key = SigningKey::generate(&mut random);
        let run = RunId::random(&mut random);
        let session = Session::random(&mut random);
        let order = |audience: Audience, command: Command| {
            let order = Order {
                version: "0.1.0".into(),
                fleet: "default".parse().expect("a name"),
                run: run.clone(),
                audience,
                command,
            };
            let ask = Ask::Order(key.sign(&order));
            encode(&ToAgent { id: 123_456, ask }).len()
        };
        let to_one = || Audience::Agent {
            agent: agent(),
            session: session.clone(),
            number: 1_000,
            expires_ns: 123_456_789_012_345,
        };
        let package = package(rate, seconds)?.encode()?;
        let reply = |reply| {
            encode(&FromAgent {
                version: "0.1.0".into(),
                agent: agent(),
                id: 123_456,
                now_ns: 123_456_789_022_345,
                reply,
            })
            .len()
        };
        let beat = |progress| {
            encode(&Beat {
                agent: agent(),
                run: run.clone(),
                sequence: 1_000,
                now_ns: 123_456_789_012_345,
                stage: Stage::Running,
                progress,
            })
            .len()
        };
        let result = saved(&result(0, rate, seconds))?;
        Ok(Self {
            hello: reply(Reply::Hello(Box::new(hello(&session)))),
            clock: (
                encode(&ToAgent {
                    id: 123_456,
                    ask: Ask::Clock,
                })
                .len(),
                reply(Reply::Clock {
                    received_ns: 123_456_789_012_345,
                }),
            ),
            order: order(Audience::Run { sequence: 1_000 }, Command::Lease),
            prepare: order(
                to_one(),
                Command::Call {
                    call: 1,
                    body: CallBody::of_call(&package),
                },
            ),
            fetch: order(to_one(), Command::Fetch { call: 1, index: 0 }),
            package: package.len(),
            stage: reply(Reply::Stage {
                call: 1,
                stage: Stage::Running,
            }),
            beat: beat(None),
            full_beat: beat(Some(serde_json::to_value(snapshot(rate, seconds))?)),
            result: result.len(),
            result_piece: piece(&result, 0)
                .map_or(0, |piece| reply(Reply::Piece { call: 1, piece })),
        })
    }

    fn print(&self) {
        let Self {
            hello,
            clock,
            order,
            prepare,
            fetch,
            package,
            stage,
            beat,
            full_beat,
            ..
        } = self;
        println!("bytes of");
        for (what, bytes) in [
            ("a hello", hello),
            ("a question about the clock", &clock.0),
            ("its reply", &clock.1),
            ("a lease (a signed order)", order),
            ("a plan with a script of 2 kB", package),
            ("an order to prepare, with the plan", prepare),
            ("an order to send a piece of the result", fetch),
            ("a reply with the state", stage),
            ("a beat", beat),
            ("a beat with a snapshot", full_beat),
            ("the result of an agent", &self.result),
            ("its first piece", &self.result_piece),
        ] {
            println!("  {bytes:>10}  {what}");
        }
    }

    /// A result in messages: base64 in JSON.
    fn fetched_bytes(&self) -> f64 {
        self.result as f64 * 4.0 / 3.0
    }
}

/// What the coordinator does with each agent.
struct Costs {
    sign: Duration,
    verify: Duration,
    read_beat: Duration,
    decode: Duration,
    merge: Duration,
    memory_bytes: u64,
}

impl Costs {
    fn measure(rate: u64, seconds: u64) -> Result<Self, Box<dyn Error>> {
        let mut random = numbers(2);
        let key = SigningKey::generate(&mut random);
        let order = Order {
            version: "0.1.0".into(),
            fleet: "default".parse()?,
            run: RunId::random(&mut random),
            audience: Audience::Run { sequence: 1 },
            command: Command::Lease,
        };
        let signed = key.sign(&order);
        let trust = TrustList::new(vec![key.public()]);
        let sign = time_of(200, || drop(key.sign(&order)));
        let verify = time_of(200, || drop(trust.open::<Order>(&signed)));
        let snapshot = serde_json::to_vec(&snapshot(rate, seconds))?;
        let read_beat = time_of(200, || {
            let value: Result<serde_json::Value, _> = serde_json::from_slice(&snapshot);
            drop(value.map(serde_json::from_value::<Snapshot>));
        });
        let saved: Vec<Vec<u8>> = (0..SAMPLE)
            .map(|number| saved(&result(number, rate, seconds)))
            .collect::<Result<_, _>>()?;
        let before = resident_bytes()?;
        let (mut decode, mut merge) = (Duration::ZERO, Duration::ZERO);
        let mut merged = Merged::of(saved.len());
        for (number, bytes) in (0_u32..).zip(&saved) {
            let began = Instant::now();
            let result = results::file::load(bytes)?;
            decode += began.elapsed() / SAMPLE as u32;
            let began = Instant::now();
            merged.add(AgentResult {
                id: format!("agent-{number}"),
                place: "here".to_owned(),
                worker_base: number * THREADS,
                weight: Weight::default(),
                clock_bound_ns: None,
                start_late_ns: None,
                early: None,
                outcome: AgentOutcome::Delivered(Box::new(result)),
            });
            merge += began.elapsed() / SAMPLE as u32;
        }
        let memory_bytes = resident_bytes()?.saturating_sub(before) / SAMPLE;
        let merged = merged.finish(&plan(rate * SAMPLE, seconds)?, Environment::default());
        results::check(&merged)?;
        Ok(Self {
            sign,
            verify,
            read_beat,
            decode,
            merge,
            memory_bytes,
        })
    }

    fn print(&self, agents: u64) {
        println!("\ntime and memory for each agent, and for all");
        for (what, time) in [
            ("to sign an order", self.sign),
            ("to verify it", self.verify),
            ("to read a snapshot, each second", self.read_beat),
            ("to decode its result", self.decode),
            ("to merge it", self.merge),
        ] {
            println!("  {time:>12.1?}  {:>12.1?}  {what}", time * agents as u32);
        }
        let mb = |bytes: u64| bytes as f64 / 1e6;
        println!(
            "  {:>9.2} MB  {:>9.0} MB  of memory for its merged result",
            mb(self.memory_bytes),
            mb(self.memory_bytes * agents)
        );
    }
}

/// Messages and bytes in a second, at the hub and at the coordinator.
fn print_totals(sizes: &Sizes, agents: f64) {
    let beats_per_s = 1e9 / BEAT_NS as f64;
    // One beat in a second has a snapshot.
    let beat_bytes = sizes.full_beat as f64 + (beats_per_s - 1.0) * sizes.beat as f64;
    let asks = EXCHANGES_PER_S * agents;
    let from_agents = (
        beats_per_s * agents + asks,
        beat_bytes * agents + asks * sizes.clock.1 as f64,
    );
    let from_coordinator = (1.0 + asks, sizes.order as f64 + asks * sizes.clock.0 as f64);
    let to_agents = (
        agents + asks,
        sizes.order as f64 * agents + asks * sizes.clock.0 as f64,
    );
    println!("\nduring the load, in a second: messages, bytes");
    let print = |what: &str, (messages, bytes): (f64, f64)| {
        println!("  {messages:>10.0}  {bytes:>12.0}  {what}");
    };
    print(
        "hub, received",
        (
            from_agents.0 + from_coordinator.0,
            from_agents.1 + from_coordinator.1,
        ),
    );
    print(
        "hub, sent",
        (from_agents.0 + to_agents.0, from_agents.1 + to_agents.1),
    );
    print("coordinator, received", from_agents);
    print("coordinator, sent", from_coordinator);
    println!("\nin all: messages, bytes of the coordinator");
    // The plan is small enough to travel within the order.
    print(
        "before the start: orders to prepare and to start, clocks, and their replies",
        (
            agents * (2.0 * 2.0 + 2.0 * EXCHANGES_BEFORE),
            agents
                * ((sizes.prepare + sizes.fetch + 2 * sizes.stage) as f64
                    + EXCHANGES_BEFORE * (sizes.clock.0 + sizes.clock.1) as f64),
        ),
    );
    let result_pieces = sizes.result.div_ceil(PIECE_BYTES) as f64;
    let fetched = agents * (sizes.fetched_bytes() + result_pieces * sizes.fetch as f64);
    print(
        "after the end: results",
        (agents * 2.0 * result_pieces, fetched),
    );
    println!(
        "  {:>9.1} s  to fetch the results at 1 Gbit/s",
        fetched * 8.0 / 1e9
    );
}

fn agent() -> AgentId {
    "load-generator-0123".parse().expect("a name")
}

fn hello(session: &Session) -> Hello {
    Hello {
        kept: Vec::new(),
        session: session.clone(),
        place: "eu-central/internal".into(),
        machine: "load-generator-0123".into(),
        cores: THREADS,
        kernel: "Linux 6.1.0-25-amd64".into(),
        busy: None,
        scripts: true,
        weight: Weight::default(),
        targets: Vec::new(),
        limits: Vec::new(),
        wall: None,
    }
}

fn plan(rate: u64, seconds: u64) -> Result<RunPlan, Box<dyn Error>> {
    let mut plan = RunPlan::new(Target::parse("http://target.example:8080/path")?);
    plan.load.threads = THREADS;
    plan.load.connections = 100;
    plan.pacing = Pacing::Constant {
        rate_per_sec: rate as f64,
        arrivals: Arrivals::Even,
        seed: 1,
    };
    plan.stop = Stop {
        duration: Some(Duration::from_secs(seconds)),
        requests: None,
    };
    Ok(plan)
}

fn package(rate: u64, seconds: u64) -> Result<Package, Box<dyn Error>> {
    Ok(Package {
        share: plan(rate, seconds)?.deal(&[THREADS])?.remove(0),
        title: "laptop, http://target.example:8080".into(),
        details: serde_json::json!({"command_line": ["wrkbench", "-R10M", "-d60s"]}),
        files: vec![BundledFile {
            name: "s/script.lua".to_owned().try_into()?,
            data: vec![b'-'; 2_000],
        }],
    })
}

/// Latencies around 1 ms with a long tail: logarithms are roughly normal.
fn latency_ns(random: &mut impl FnMut() -> f64) -> u64 {
    let normal: f64 = (0..12).map(|_| random()).sum::<f64>() - 6.0;
    (1e6 * (0.5 * normal).exp()) as u64
}

fn uniform(seed: u64) -> impl FnMut() -> f64 {
    let mut random = numbers(seed);
    move || {
        let mut bytes = [0; 8];
        random(&mut bytes);
        (u64::from_le_bytes(bytes) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn numbers(mut state: u64) -> Random {
    Box::new(move |bytes| {
        for byte in bytes {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *byte = (mixed >> 56) as u8;
        }
    })
}

/// A result of this many requests per second.
fn result(number: u64, rate: u64, seconds: u64) -> RunResult {
    let mut random = uniform(number);
    let mut recording = Recording::new();
    for second in 0..seconds {
        let mut interval = Histogram::new();
        for _ in 0..rate {
            let service_ns = latency_ns(&mut random);
            let lag_ns = (random() * 50_000.0) as u64;
            recording.service_time.record(service_ns);
            recording.phases.first_byte.record(service_ns - 1_000);
            recording.phases.last_byte.record(1_000);
            recording.response_time.record(service_ns + lag_ns);
            recording.lags.send.record(lag_ns);
            recording.lags.own.record(lag_ns);
            recording.lags.wakeup.record(lag_ns);
            recording.statuses.add(200);
            interval.record(service_ns + lag_ns);
        }
        recording.series.add(1_000 * second, rate, 0, 145 * rate);
        recording.intervals.add(1_000 * second, &interval);
        for _ in 0..THREADS {
            recording.rates.add(rate / u64::from(THREADS));
        }
    }
    for _ in 0..100 {
        recording.phases.connect.record(latency_ns(&mut random));
    }
    recording.counters.due = rate * seconds;
    recording.counters.sent = rate * seconds;
    recording.counters.answered = rate * seconds;
    recording.counters.bytes = 145 * rate * seconds;
    recording.counters.connections_opened = 100;
    recording.counters.in_flight_time_ns = recording.service_time.sum_ns() as u64;
    let window = results::Window {
        duration_ns: seconds * 1_000_000_000,
        ..results::Window::default()
    };
    RunResult {
        backend: results::Backend {
            name: "io_uring".to_owned(),
            reason: "default".to_owned(),
        },
        recording,
        ..RunResult::new(plan(rate, seconds).expect("the plan is valid"), window)
    }
}

fn saved(result: &RunResult) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    results::file::save(result, &[], &mut bytes)?;
    Ok(bytes)
}

/// The state at the end of such a run.
fn snapshot(rate: u64, seconds: u64) -> Snapshot {
    let Recording {
        counters,
        statuses,
        response_time,
        ..
    } = result(0, rate, seconds).recording;
    let last = result(1, rate, 1).recording.response_time;
    Snapshot {
        elapsed_ns: seconds * 1_000_000_000,
        counters,
        statuses,
        latency: response_time,
        open_connections: 100,
        last: SnapshotInterval {
            duration_ns: 1_000_000_000,
            answered: rate,
            errors: 0,
            bytes: 145 * rate,
            latency: last,
            ..SnapshotInterval::default()
        },
        busiest_worker: Some(0.512_345),
        ..Snapshot::default()
    }
}

fn time_of(times: u32, mut act: impl FnMut()) -> Duration {
    let began = Instant::now();
    (0..times).for_each(|_| act());
    began.elapsed() / times
}

/// The memory that this process uses (proc(5), `statm`), in pages of 4 KiB.
fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .ok_or("statm has no second field")?
        .parse()?;
    Ok(4_096 * pages)
}
