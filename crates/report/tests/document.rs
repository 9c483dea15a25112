//! The saved document against its schema and its description.

mod fixture;
#[path = "fixture/fleet.rs"]
mod fleet;

use std::collections::BTreeSet;
use std::time::Duration;

use jsonschema::Validator;
use judging::sentences::finding;
use plan::{
    AccessLog, AddressSpec, Alpn, Arrivals, AskedTokens, Body, ConnectionStage, Dialect, DnsUse,
    EventsFormat, EventsSpec, Load, Pacing, RequestFile, RequestOrder, RequestSpec, RunPlan,
    SourceRange, Stage, Stop, Target, TelemetrySpec, TlsSpec,
};
use report::{Format, TextOptions, render};
use results::{
    Cell, ErrorKind, EventRecording, Experiment, Finding, Generator, GoodRecording, HookOutput,
    LlmRecording, LocalServer, MachineUsage, Order, OwnShare, QuicRecording, Recording, RunResult,
    Setting, SlowStart, SocketMoment, SocketSummary, SocketTimeline, Spread, Standstill, Symptom,
    Telemetry, ThreadUsage, Trial, TrialOutcome, Verdict, Warning, WorkerLags, WorkerUsage,
};
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../docs/result.schema.json");
const DESCRIPTION: &str = include_str!("../../../docs/result-format.md");
const MEASURING: &str = include_str!("../../../docs/measuring.md");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).expect("the schema is JSON")
}

fn validator() -> Validator {
    jsonschema::draft202012::new(&schema()).expect("the schema is a schema")
}

fn document(result: &RunResult) -> Value {
    let options = TextOptions {
        percentiles: Some(vec![99.5]),
        ..TextOptions::default()
    };
    let mut bytes = Vec::new();
    render(result, Format::Json, &options, &mut bytes).expect("memory takes every write");
    serde_json::from_slice(&bytes).expect("the document is JSON")
}

/// One of each warning.
fn all_warnings() -> Vec<Finding<Warning>> {
    let all = vec![
        Warning::NothingAnswered { sent: 1 },
        Warning::OnlyBadStatuses {
            answered: 1,
            statuses: vec![404],
        },
        Warning::DatagramsDropped {
            dropped: 1,
            arrived: 2,
        },
        Warning::OnlyRedirects {
            answered: 2,
            statuses: vec![301, 302],
            location: Some("https://site/".to_owned()),
        },
        Warning::InterruptedEarly {
            sent: 1,
            in_warmup: false,
        },
        Warning::FewSamples {
            samples: 1,
            needed: 1000,
        },
        Warning::NoEvents { streams: 1 },
        Warning::CompressedStreams {
            compressed: 1,
            streams: 2,
        },
        Warning::NoTokens {
            streams: 1,
            malformed_events: 0,
        },
        Warning::WithoutTokens {
            without: 1,
            streams: 2,
        },
        Warning::CutOffStreams {
            cut_off: 1,
            streams: 2,
        },
        Warning::FewerTokens {
            early: 1,
            responses: 2,
            output_tokens: "128".to_owned(),
            ignore_eos: Some(false),
        },
        Warning::UnfinishedStreams {
            unfinished: 1,
            streams: 2,
            end_marker: "[DONE]".to_owned(),
        },
        Warning::SilentStreams {
            streams: 1,
            longest_ms: 2,
            largest_gap_ms: 1,
        },
        Warning::ConnectionsMissing {
            opened: 1,
            wanted: 2,
            connect_rate_per_sec: Some(1),
        },
        Warning::FileLimit { events: 1 },
        Warning::AddressesExhausted { events: 1 },
        Warning::ManyStaleConnections {
            events: 1,
            answered: 1,
        },
        Warning::ManyReconnects {
            reconnects: 1,
            answered: 1,
            window_ms: 1,
        },
        Warning::TimedOutRequests {
            requests: 1,
            timeout_ms: 1,
        },
        Warning::OverdueInFlight {
            requests: 1,
            oldest_ms: 1,
            timeout_ms: 1,
        },
        Warning::LongInFlight {
            requests: 1,
            oldest_ms: 1,
            slowest_ms: 1,
        },
        Warning::GaveUp {
            sent: 1,
            wanted: 2,
            is_refused: true,
        },
        Warning::PausedBeforeReconnect {
            requests: 1,
            longest_us: 1,
        },
        Warning::Outlasted {
            in_flight: 2,
            answered: 1,
        },
        Warning::RateNotReached {
            due: 2,
            unsent: 1,
            connect_rate_per_sec: Some(1),
        },
        Warning::ServerStalled {
            times_ms: vec![(1, 2)],
        },
        Warning::WarmupLimit {
            limit_ms: 30_000,
            is_known: true,
        },
        Warning::SlowAtFirst(SlowStart {
            first_ms: 1,
            first_responses: 1,
            rest_ms: 2,
            rest_responses: 4,
            first_due: Some(2),
            warmup_ms: 1,
        }),
        Warning::NotSettled(SlowStart {
            first_ms: 2,
            first_responses: 1,
            rest_ms: 1,
            rest_responses: 4,
            first_due: None,
            warmup_ms: 0,
        }),
        Warning::WaitedForConnection {
            percent: 99,
            waited_ms: 1,
            connect_rate_per_sec: Some(1),
        },
        Warning::RateNotSustained {
            due: 2,
            answered: 1,
            in_flight: 1,
        },
        Warning::AnswersOfWarmup {
            of_warmup: 2,
            answered: 1,
        },
        Warning::InconsistentSchedule {
            due: 2,
            expected: 1,
        },
        Warning::InconsistentConcurrency {
            in_flight_time_ns: 3,
            least_ns: 1,
            most_ns: 2,
            duration_ns: 1,
        },
        Warning::ScriptStuck {
            worker: 0,
            agent: Some("agent-1".to_owned()),
        },
        Warning::Partial {
            agents: 4,
            lost: 1,
            agent: "agent-3".to_owned(),
            after_ms: 1_500,
            reason: "no sign of life for 3 s".to_owned(),
            connections: 12,
        },
    ];
    all.into_iter().map(finding).collect()
}

fn all_symptoms() -> Vec<Finding<Symptom>> {
    let all = vec![
        Symptom::WorkerBusy {
            worker: 0,
            cpu_ns: 1,
            elapsed_ns: 1,
            busy_threads: 1,
            threads: 1,
            cpus: Some(2),
        },
        Symptom::RunQueueWait {
            worker: 0,
            run_queue_wait_ns: 1,
            elapsed_ns: 1,
            threads: 1,
            cpus: None,
        },
        Symptom::CgroupThrottled {
            throttled_periods: 1,
            throttled_ns: 1,
            elapsed_ns: 1,
        },
        Symptom::Steal {
            steal_ns: 1,
            elapsed_ns: 1,
            cpus: 1,
        },
        Symptom::SharedCpus {
            server_ns: Some(1),
            generator_ns: 1,
            busy_ns: 2,
            elapsed_ns: 2,
            cpus: 1,
        },
        Symptom::Paused {
            standstills: vec![Standstill {
                start_ns: 1,
                length_ns: 2,
            }],
            pauses: 1,
            paused_ns: 2,
        },
        Symptom::SlowScript {
            script_ns: 1,
            elapsed_ns: 2,
            calls: 3,
        },
        Symptom::Idle {
            idle_ns: 1,
            elapsed_ns: 2,
        },
        Symptom::PortsExhausted {
            events: 1,
            connects: 2,
        },
        Symptom::FilesExhausted {
            events: 1,
            connects: 2,
        },
        Symptom::DatagramsDropped {
            dropped: 1,
            arrived: 2,
        },
        Symptom::RateMissed { due: 2, unsent: 1 },
        Symptom::Bursts {
            late_ns: 1,
            service_ns: 2,
        },
        Symptom::Other,
    ];
    all.into_iter().map(finding).collect()
}

/// A plan with something in every field that may be absent.
fn full_plan() -> RunPlan {
    let path = |name: &str| Some(name.into());
    RunPlan {
        target: Target {
            unix_socket: path("/run/app.sock"),
            port: None,
            ..fixture::plan().target
        },
        load: Load {
            connection_stages: ConnectionStage::parse_list("1-9:1s").expect("it is a list"),
            requests_per_connection: Some(100),
            source: SourceRange::parse("127.0.0.0/29").ok(),
            ..fixture::plan().load
        },
        pacing: Pacing::Stages {
            stages: vec![Stage {
                from_per_sec: 0.5,
                to_per_sec: 200.0,
                duration: Duration::from_secs(3),
            }],
            arrivals: Arrivals::Poisson,
            seed: 7,
        },
        stop: Stop {
            duration: None,
            requests: Some(20_000),
        },
        request: RequestSpec {
            method: Some("POST".to_owned()),
            headers: vec![("Accept".to_owned(), "*/*".to_owned())],
            body: Some(Body::Inline(b"{}".to_vec())),
            schema: None,
            file: Some(RequestFile {
                path: "mix.jsonl".into(),
                order: Some(RequestOrder::Weighted),
                seed: 9,
                own_hosts: true,
                log: Some(AccessLog {
                    log_format: Some("combined".to_owned()),
                    all_methods: true,
                }),
                asked: Some(AskedTokens {
                    prompt_tokens: Some("512".to_owned()),
                    output_tokens: Some("exp:100".to_owned()),
                    ignore_eos: Some(true),
                }),
            }),
            script: path("post.lua"),
            script_args: vec!["one".to_owned()],
        },
        addresses: AddressSpec {
            dns: DnsUse::All,
            resolve: vec!["h:80:127.0.0.1".to_owned()],
            connect_to: vec!["::h:".to_owned()],
            resolve_every: Some(Duration::from_secs(30)),
        },
        events: Some(EventsSpec {
            format: EventsFormat::Llm,
            end_marker: Some("END".to_owned()),
            dialect: Some(Dialect::Anthropic),
        }),
        good: Some("first_token<300ms".parse().expect("it is a limit")),
        tls: TlsSpec {
            verify: true,
            alpn: vec![Alpn::Http2, Alpn::Http1],
            cacert: path("ca.pem"),
            cert: path("cert.pem"),
            key: path("key.pem"),
            full_handshakes: true,
            early_data: true,
        },
        telemetry: Some(TelemetrySpec {
            sockets: Some("sport = :80".to_owned()),
            interval: Duration::from_secs(1),
            counters: true,
        }),
        ..fixture::plan()
    }
}

/// With something in every field that may be absent.
fn full_generator() -> Generator {
    Generator {
        workers: vec![WorkerUsage {
            worker: 0,
            elapsed_ns: 3_020_000_000,
            usage: ThreadUsage {
                cpu_ns: 1_000_000_000,
                run_queue_wait_ns: Some(1_000_000),
                timeslices: Some(40_000),
            },
        }],
        lags: vec![WorkerLags::default()],
        machine: Some(MachineUsage {
            elapsed_ns: 3_020_000_000,
            cpus: 2,
            busy_ns: 2_000_000_000,
            steal_ns: 10_000_000,
            throttled_periods: Some(1),
            throttled_ns: Some(1_000_000),
            cpu_pressure_ns: Some(1_000_000),
        }),
        server: Some(LocalServer {
            processes: 1,
            cpu_ns: Some(2),
            shares_cpus: true,
        }),
        verdict: Verdict::Saturated {
            percentiles: vec![OwnShare {
                percent: 99.0,
                shown_ns: 2,
                own_ns: 1,
                is_lower_bound: true,
            }],
            symptoms: all_symptoms(),
            remedy: "use more threads (-t)".to_owned(),
        },
    }
}

fn full_telemetry() -> Telemetry {
    let spread = Some(Spread {
        min: 1.0,
        p50: 2.0,
        p90: 3.0,
        p99: 4.0,
        max: 5.5,
    });
    Telemetry {
        interval_ns: 1_000_000_000,
        samples: 4,
        cpu_ns: Some(2_000_000),
        sockets: Some(SocketSummary {
            sockets: 300,
            closed: 1,
            bytes_sent: Some(1),
            bytes_retransmitted: Some(1),
            bytes_received: Some(1),
            segments_sent: Some(1),
            segments_retransmitted: 1,
            rtt_us: spread,
            cwnd: spread,
            busy_us: Some(3),
            rwnd_limited_us: Some(2),
            sndbuf_limited_us: Some(1),
            listen_drops: Some(1),
            listen_queue_max: Some(u64::MAX),
        }),
        counters: [
            ("TcpExt.ListenDrops".to_owned(), 1),
            ("Tcp.CurrEstab".to_owned(), -3),
        ]
        .into(),
        timeline: Some(SocketTimeline {
            interval_ms: 1_000,
            rows: vec![
                SocketMoment {
                    start_ms: 0,
                    sockets: Some(300),
                    rtt_p50_us: Some(41.0),
                    rtt_p99_us: Some(730.5),
                    cwnd_p50: Some(10.0),
                    delivery_rate_p50_bytes_per_sec: Some(1.25e9),
                    segments_retransmitted: Some(1),
                    bytes_sent: Some(1),
                    bytes_received: Some(1),
                    listen_queue_max: Some(u64::MAX),
                },
                SocketMoment {
                    start_ms: 1_000,
                    ..SocketMoment::default()
                },
            ],
        }),
        notes: vec!["1 of 4 samples of the sockets failed: out of memory".to_owned()],
    }
}

fn quic() -> QuicRecording {
    let mut quic = QuicRecording {
        packets_sent: 3,
        packets_lost: 1,
        congestion_events: 1,
        datagrams_sent: 2,
        bytes_sent: 2_400,
        batches_sent: 1,
        datagrams_received: 2,
        bytes_received: 2_400,
        batches_received: 2,
        datagrams_dropped: 1,
        retries: 1,
        ..QuicRecording::default()
    };
    quic.rtt.record(2_000);
    quic.min_rtt.record(1_000);
    quic.cwnd.record(14_720);
    quic.mtu.record(1_452);
    quic
}

/// Every field, every kind of error and every warning at once.
fn crowded() -> RunResult {
    let mut recording = fixture::failing_recording();
    for &kind in ErrorKind::ALL {
        recording.errors.add(kind, 0);
    }
    recording.redirect_location = Some("https://site/".to_owned());
    recording.phases.tls.record(1_000_000);
    recording.counters.due = recording.counters.sent;
    for lag in [
        &mut recording.lags.send,
        &mut recording.lags.own,
        &mut recording.lags.wakeup,
        &mut recording.lags.receive,
        &mut recording.response_time,
        &mut recording.unanswered,
    ] {
        lag.record(5_000);
    }
    recording.intervals.add(0, &recording.response_time);
    let mut events = EventRecording {
        arrived: 2,
        streams: 1,
        ..EventRecording::default()
    };
    events.first_event.record(1_000_000);
    events.gap.record(2_000_000);
    events.since_last_event.record(3_000_000);
    events.has_end_marker = true;
    events.per_response.record(2);
    recording.parts.events = Some(events);
    let mut llm = LlmRecording {
        responses: 1,
        output_tokens: 2,
        ..LlmRecording::default()
    };
    llm.first_token.record(1_000_000);
    llm.first_text.record(2_000_000);
    llm.token_gap.record(1_000_000);
    llm.time_per_token.record(1_000_000);
    llm.output_per_response.record(2);
    llm.input_per_response.record(7);
    llm.finish.stop = 1;
    recording.parts.llm = Some(llm);
    recording.parts.quic = Some(quic());
    recording.parts.good = Some(GoodRecording {
        good: 1,
        bad: 1,
        undecided: 1,
        ..GoodRecording::default()
    });
    let mut result = fixture::result(recording);
    result.plan = full_plan();
    result.generator = full_generator();
    result.telemetry = Some(full_telemetry());
    result.warnings = all_warnings();
    result
}

fn documents() -> Vec<Value> {
    [
        fixture::result(fixture::ordinary_recording()),
        fixture::result(fixture::failing_recording()),
        fixture::result(fixture::answered(&[1, 0, u64::MAX], 503, u64::MAX / 4)),
        fixture::result(Recording::new()),
        fixture::stalled_result(),
        crowded(),
        RunResult {
            telemetry: Some(Telemetry {
                sockets: Some(SocketSummary::default()),
                ..Telemetry::default()
            }),
            ..fixture::stalled_result()
        },
        RunResult {
            telemetry: Some(Telemetry::default()),
            ..fixture::stalled_result()
        },
    ]
    .iter()
    .map(document)
    .collect()
}

#[test]
fn every_document_is_valid() {
    let validator = validator();
    for document in documents() {
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
}

#[test]
fn the_document_of_a_fleet_is_valid_and_an_unknown_field_is_refused_in_every_part() {
    let validator = validator();
    let document = document(&fleet::fleet(4));
    let errors: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    for pointer in [
        "",
        "/agents/0",
        "/agents/0/outcome",
        "/agents/0/outcome/delivered",
        "/agents/0/outcome/delivered/summary",
        "/agents/2/outcome/lost",
        "/agents/2/outcome/lost/plan",
        "/places/0",
        "/places/0/result",
    ] {
        let mut changed = document.clone();
        let object = changed.pointer_mut(pointer).and_then(Value::as_object_mut);
        object
            .unwrap_or_else(|| panic!("{pointer} is an object"))
            .insert("colour".to_owned(), Value::from(1));
        assert!(!validator.is_valid(&changed), "{pointer}");
    }
}

#[test]
fn bodies_of_every_form_are_valid() {
    let validator = validator();
    for body in [
        Body::Inline(b"text".to_vec()),
        Body::Inline(vec![0xff, 0x00]),
        Body::File("body.bin".into()),
    ] {
        let mut result = fixture::result(Recording::new());
        result.plan.request.body = Some(body);
        assert!(
            validator.is_valid(&document(&result)),
            "{:?}",
            result.plan.request.body
        );
    }
}

/// Paths of all objects with named fields, as JSON pointers. Objects that are maps are left out.
fn objects(value: &Value, pointer: &str, found: &mut Vec<String>) {
    const MAPS: [&str; 4] = [
        "/statuses",
        "/errors",
        "/environment/sysctls",
        "/telemetry/counters",
    ];
    match value {
        Value::Object(fields) => {
            if !MAPS.contains(&pointer) {
                found.push(pointer.to_owned());
            }
            for (name, field) in fields {
                objects(field, &format!("{pointer}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (item, index) in items.iter().zip(0..) {
                objects(item, &format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// A document with everything in it, but few rows.
fn small_crowded() -> Value {
    let mut result = crowded();
    result.recording.series = results::Series::default();
    result.recording.series.add(0, 20_000, 0, 0);
    result.recording.rates = results::Rates::default();
    result.recording.rates.add(5);
    document(&result)
}

#[test]
fn an_unknown_field_is_refused_anywhere() {
    let validator = validator();
    let document = small_crowded();
    let mut pointers = Vec::new();
    objects(&document, "", &mut pointers);
    assert!(pointers.len() > 40, "{pointers:?}");
    for pointer in pointers {
        let mut changed = document.clone();
        let object = changed.pointer_mut(&pointer).and_then(Value::as_object_mut);
        object
            .expect("it was found there")
            .insert("colour".to_owned(), Value::from(1));
        assert!(!validator.is_valid(&changed), "{pointer}");
    }
}

/// A field by its object, whichever of a list that is, and by the kind that the object says it is
/// of.
fn place(document: &Value, pointer: &str) -> String {
    let is_index = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = pointer.split('/').skip(1);
    let parts = parts.map(|part| if is_index(part) { "/*" } else { part });
    let kind = document
        .pointer(pointer)
        .and_then(|object| object.get("kind"));
    format!(
        "{} {}",
        parts.collect::<Vec<_>>().join("/"),
        kind.unwrap_or(&Value::Null)
    )
}

/// Objects of a document by their places, with the names of their fields.
fn fields_by_place(document: &Value) -> Vec<(String, BTreeSet<String>)> {
    let mut pointers = Vec::new();
    objects(document, "", &mut pointers);
    let object = |pointer: &String| {
        let fields = document.pointer(pointer)?.as_object()?;
        Some((place(document, pointer), fields.keys().cloned().collect()))
    };
    pointers.iter().filter_map(object).collect()
}

/// A document in which as little as can be is known.
fn sparse() -> Value {
    let mut result = fixture::result(fixture::ordinary_recording());
    let mut symptoms = all_symptoms();
    symptoms.push(finding(Symptom::WorkerBusy {
        worker: 0,
        cpu_ns: 1,
        elapsed_ns: 1,
        busy_threads: 1,
        threads: 1,
        cpus: None,
    }));
    symptoms.push(finding(Symptom::SharedCpus {
        server_ns: None,
        generator_ns: 1,
        busy_ns: 2,
        elapsed_ns: 2,
        cpus: 1,
    }));
    result.generator = Generator {
        workers: vec![WorkerUsage::default()],
        lags: vec![WorkerLags::default()],
        machine: Some(MachineUsage::default()),
        server: Some(LocalServer::default()),
        verdict: Verdict::Saturated {
            percentiles: Vec::new(),
            symptoms,
            remedy: "use more threads (-t)".to_owned(),
        },
    };
    result.plan.target.port = None;
    result.plan.request.file = Some(RequestFile {
        log: Some(AccessLog::default()),
        asked: Some(AskedTokens {
            output_tokens: Some("5".to_owned()),
            ignore_eos: Some(true),
            ..AskedTokens::default()
        }),
        ..RequestFile::new("requests.jsonl".into())
    });
    result.plan.addresses = AddressSpec {
        dns: DnsUse::All,
        ..AddressSpec::default()
    };
    result.plan.events = Some(EventsSpec {
        format: EventsFormat::Lines,
        end_marker: None,
        dialect: None,
    });
    result.plan.stop = Stop {
        duration: None,
        requests: None,
    };
    result.plan.telemetry = Some(TelemetrySpec {
        sockets: None,
        interval: Duration::from_secs(1),
        counters: true,
    });
    result.recording.parts.events = Some(EventRecording::default());
    result.recording.parts.llm = Some(LlmRecording::default());
    result.environment = results::Environment::default();
    result.window.duration_ns = 0;
    result.warnings = vec![
        finding(Warning::OnlyRedirects {
            answered: 2,
            statuses: vec![301],
            location: None,
        }),
        finding(Warning::ScriptStuck {
            worker: 0,
            agent: None,
        }),
        finding(Warning::GaveUp {
            sent: 1,
            wanted: 2,
            is_refused: false,
        }),
        finding(Warning::RateNotReached {
            due: 2,
            unsent: 1,
            connect_rate_per_sec: None,
        }),
        finding(Warning::WaitedForConnection {
            percent: 99,
            waited_ms: 1,
            connect_rate_per_sec: None,
        }),
    ];
    document(&result)
}

#[test]
fn fields_that_are_always_written_are_required() {
    let validator = validator();
    let full = small_crowded();
    let mut others = documents();
    let mut nothing_due = fixture::stalled_result();
    nothing_due.recording.counters.due = 0;
    nothing_due.plan.request.file = Some(RequestFile::new("requests.http".into()));
    let mut messages = fixture::stalled_result();
    messages.plan.request.file = Some(RequestFile {
        asked: Some(AskedTokens {
            output_tokens: Some("5".to_owned()),
            ..AskedTokens::default()
        }),
        ..RequestFile::new("llm-0".into())
    });
    let mut prompts = fixture::stalled_result();
    prompts.plan.request.file = Some(RequestFile {
        asked: Some(AskedTokens {
            prompt_tokens: Some("5".to_owned()),
            ..AskedTokens::default()
        }),
        ..RequestFile::new("llm-1".into())
    });
    let fewer_tokens = Warning::FewerTokens {
        early: 5,
        responses: 5,
        output_tokens: "5".to_owned(),
        ignore_eos: None,
    };
    messages.warnings.push(finding(fewer_tokens));
    let slow_at_first = Warning::SlowAtFirst(SlowStart {
        first_ms: 1,
        first_responses: 1,
        rest_ms: 2,
        rest_responses: 4,
        first_due: None,
        warmup_ms: 0,
    });
    messages.warnings.push(finding(slow_at_first));
    others.extend([
        sparse(),
        document(&nothing_due),
        document(&messages),
        document(&prompts),
        full.clone(),
    ]);
    assert!(validator.is_valid(&sparse()));
    let others: Vec<_> = others.iter().flat_map(fields_by_place).collect();
    let is_sometimes_left_out = |place: &str, name: &str| {
        let mut of_place = others.iter().filter(|(other, _)| other == place);
        of_place.any(|(_, fields)| !fields.contains(name))
    };
    let mut optional = 0;
    let mut pointers = Vec::new();
    objects(&full, "", &mut pointers);
    for pointer in pointers {
        let place = place(&full, &pointer);
        let object = full.pointer(&pointer).and_then(Value::as_object);
        for name in object.into_iter().flat_map(|object| object.keys()) {
            let mut changed = full.clone();
            let object = changed.pointer_mut(&pointer).and_then(Value::as_object_mut);
            object.expect("it was found there").remove(name);
            let may_be_missing = validator.is_valid(&changed);
            optional += usize::from(may_be_missing);
            assert!(
                !may_be_missing || is_sometimes_left_out(&place, name),
                "{pointer}/{name}"
            );
        }
    }
    assert!(optional > 40, "{optional}");
}

#[test]
fn a_distribution_has_all_of_its_fields() {
    let validator = validator();
    let full = small_crowded();
    for pointer in ["/summary/latency", "/service_time", "/intervals/rows/0"] {
        let object = full.pointer(pointer).and_then(Value::as_object);
        let names: Vec<String> = object
            .into_iter()
            .flat_map(|it| it.keys().cloned())
            .collect();
        assert!(names.len() > 2, "{pointer}");
        // Asked for with --percentiles.
        for name in names.iter().filter(|name| *name != "p99_5_ms") {
            let mut changed = full.clone();
            let object = changed.pointer_mut(pointer).and_then(Value::as_object_mut);
            object.expect("it was found there").remove(name);
            assert!(!validator.is_valid(&changed), "{pointer}/{name}");
        }
    }
}

#[test]
fn an_unknown_kind_of_error_warning_or_symptom_is_refused() {
    let validator = validator();
    let full = small_crowded();
    for pointer in [
        "/warnings/0/kind",
        "/generator/verdict/kind",
        "/generator/verdict/evidence/0/kind",
        "/plan/pacing/kind",
    ] {
        let mut changed = full.clone();
        *changed.pointer_mut(pointer).expect(pointer) = Value::from("colour");
        assert!(!validator.is_valid(&changed), "{pointer}");
    }
    let mut changed = full;
    let errors = changed["errors"].as_object_mut().expect("errors are a map");
    let (_, count) = errors.iter().next().expect("every kind is there");
    let count = count.clone();
    errors.insert("colour".to_owned(), count);
    assert!(!validator.is_valid(&changed));
}

#[test]
fn documents_of_a_sweep_are_valid_and_an_unknown_field_is_refused() {
    let cell = Cell {
        number: 1,
        settings: vec![Setting {
            factor: "rmem_max".to_owned(),
            level: "262144".to_owned(),
        }],
        profile: Some("heavy".to_owned()),
        target: "front".to_owned(),
        is_baseline: true,
    };
    let trial = |outcome| Trial {
        schema_version: results::EXPERIMENT_SCHEMA_VERSION,
        experiment: "buffers".to_owned(),
        cell: cell.clone(),
        round: 1,
        repeat: 1,
        position: 1,
        started_at: Some("2026-11-20T20:00:00Z".to_owned()),
        took_ms: None,
        search: None,
        failed_attempts: vec!["no response".to_owned()],
        outcome,
        effective: [("net.core.rmem_max".to_owned(), "262144".to_owned())].into(),
        environment_before: [("load".to_owned(), "0.1".to_owned())].into(),
        environment_after: [("load".to_owned(), "1.9".to_owned())].into(),
        hooks: vec![HookOutput {
            hook: "before".to_owned(),
            command: "sync".to_owned(),
            exit_code: Some(0),
            ..HookOutput::default()
        }],
        samples_file: Some("1.samples.jsonl.zst".to_owned()),
    };
    let saved = |save: &dyn Fn(&mut Vec<u8>)| -> Value {
        let mut bytes = Vec::new();
        save(&mut bytes);
        serde_json::from_slice(&bytes).expect("the document is JSON")
    };
    let outcomes = [
        TrialOutcome::Finished(Box::new(crowded())),
        TrialOutcome::Finished(Box::new(fixture::result(Recording::new()))),
        TrialOutcome::Failed("the server did not start".to_owned()),
    ];
    let trials = outcomes.map(|outcome| {
        let save = |bytes: &mut Vec<u8>| results::file::save_trial(&trial(outcome.clone()), bytes);
        (
            "Trial",
            saved(&|bytes| save(bytes).expect("memory takes every write")),
        )
    });
    let experiment = Experiment {
        schema_version: results::EXPERIMENT_SCHEMA_VERSION,
        name: "buffers".to_owned(),
        plan_toml: "rounds = 1".to_owned(),
        seed: u64::MAX,
        order: Order::Shuffled,
        rounds: 1,
        stopping: None,
        threshold: None,
        judge: Vec::new(),
        slo: None,
        cells: vec![cell.clone()],
        started_at: None,
    };
    let experiment = saved(&|bytes| {
        results::file::save_experiment(&experiment, bytes).expect("memory takes every write");
    });
    for (name, document) in trials.into_iter().chain([("Experiment", experiment)]) {
        let schema = serde_json::json!({
            "$ref": format!("#/$defs/{name}"),
            "$defs": schema()["$defs"],
        });
        let validator = jsonschema::draft202012::new(&schema).expect("the schema is a schema");
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
        let mut changed = document;
        changed["colour"] = Value::from(1);
        assert!(!validator.is_valid(&changed), "{name}");
    }
}

#[test]
fn the_descriptions_mention_every_section_every_evidence_and_every_warning() {
    let document = small_crowded();
    let keys = |pointer: &str| -> Vec<String> {
        let object = document.pointer(pointer).and_then(Value::as_object);
        object.expect(pointer).keys().cloned().collect()
    };
    let kinds = |pointer: &str| -> Vec<String> {
        let list = document.pointer(pointer).and_then(Value::as_array);
        let kinds = list.expect(pointer).iter();
        kinds
            .filter_map(|one| one["kind"].as_str().map(str::to_owned))
            .collect()
    };
    let sections = [keys(""), keys("/plan"), keys("/window"), keys("/summary")].concat();
    let warnings = kinds("/warnings");
    let evidence = kinds("/generator/verdict/evidence");
    for (file, text, mut names) in [
        (
            "result-format.md",
            DESCRIPTION,
            [sections, warnings].concat(),
        ),
        ("measuring.md", MEASURING, evidence),
    ] {
        assert!(names.len() > 10, "{names:?}");
        names.retain(|name| !text.contains(&format!("`{name}`")));
        assert!(names.is_empty(), "docs/{file} does not mention {names:?}");
    }
}

#[test]
fn names_of_numbers_have_their_unit() {
    // What counts things, or is a percentage, a version or a number of a thread, says so itself.
    const UNITLESS: &[&str] = &[
        "schema_version",
        "processes",
        "unsent",
        "threads",
        "connections",
        "from_connections",
        "to_connections",
        "pipeline",
        "requests_per_connection",
        "seed",
        "requests",
        "cores",
        "sent",
        "answered",
        "answered_of_warmup",
        "of_warmup",
        "in_flight",
        "connections_opened",
        "connections_at_start",
        "connects",
        "reconnects",
        "tls_full",
        "tls_resumed",
        "due",
        "unsent",
        "mean_in_flight",
        "timeslices",
        "cpus",
        "throttled_periods",
        "count",
        "events",
        "exchanges",
        "errors",
        "failed",
        "samples",
        "needed",
        "expected",
        "busy_threads",
        "opened",
        "wanted",
        "worker",
        "agents",
        "lost",
        "connect",
        "read",
        "write",
        "timeout",
        "statuses_over_399",
        "sockets",
        "closed",
        "segments_sent",
        "segments_retransmitted",
        "listen_drops",
        "listen_queue_max",
        "cwnd_p50",
        "arrived",
        "streams",
        "unfinished",
        "empty",
        "per_response_mean",
        "good",
        "bad",
        "undecided",
        "without",
        "cut_off",
        "compressed",
        "early",
        "responses",
        "first_responses",
        "rest_responses",
        "first_due",
        "counted_as_events",
        "without_tokens",
        "stop",
        "length",
        "tool_calls",
        "content_filter",
        "other",
        "none",
        "malformed_events",
        "output_tokens",
        "input_tokens",
        "cached_tokens",
        "reasoning_tokens",
        "output_per_response_mean",
        "input_per_response_mean",
        "per_response_min",
        "per_response_max",
        "pauses",
        "calls",
        "retries",
        "early_accepted",
        "early_rejected",
        "datagrams_sent",
        "datagrams_received",
        "batches_sent",
        "batches_received",
        "datagrams_dropped",
        "dropped",
        "packets_sent",
        "packets_lost",
        "congestion_events",
        // Of a spread, whose own name has the unit.
        "min",
        "p50",
        "p90",
        "p99",
        "max",
    ];
    const UNITS: &[&str] = &["_ns", "_us", "_ms", "_per_sec", "percent", "bytes"];
    let document = small_crowded();
    let mut pointers = Vec::new();
    objects(&document, "", &mut pointers);
    for object in pointers
        .iter()
        .filter_map(|pointer| document.pointer(pointer)?.as_object())
    {
        for (name, value) in object.iter().filter(|(_, value)| value.is_number()) {
            let said = UNITLESS.contains(&name.as_str())
                || UNITS.iter().any(|unit| name.ends_with(unit))
                || name.starts_with("bytes_");
            assert!(said, "{name}: {value}");
        }
    }
}

#[test]
fn the_document_has_measured_samples_even_if_the_text_is_corrected() {
    let result = fixture::result(fixture::failing_recording());
    let bytes = |wrk_correction| {
        let options = TextOptions {
            wrk_correction,
            ..TextOptions::default()
        };
        let mut bytes = Vec::new();
        render(&result, Format::Json, &options, &mut bytes).expect("memory takes every write");
        bytes
    };
    assert_eq!(bytes(true), bytes(false));
    assert_eq!(results::file::load(&bytes(false)), Ok(result.clone()));
}

#[test]
fn the_fixtures_do_not_contradict_themselves() {
    assert_eq!(
        results::check(&fixture::result(fixture::ordinary_recording())),
        Ok(())
    );
    assert_eq!(results::check(&fixture::result(Recording::new())), Ok(()));
    assert_eq!(results::check(&fixture::stalled_result()), Ok(()));
    assert_eq!(
        results::check(&fixture::result(fixture::failing_recording())),
        Ok(())
    );
}
