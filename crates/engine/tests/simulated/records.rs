//! A record for each request of the window: its times are those of the histograms, and none is
//! missing.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, OK, Run, S, Simulation};
use crate::tokens;
use engine::{RecordLimits, RecordMessage, RecordSender, WorkerResult};
use results::records::{RequestRecord, WithoutResponse};
use results::{ErrorKind, Recording};
use std::sync::mpsc::Receiver;

/// The run with its records, and how many of these were lost.
fn recorded(
    mut simulation: Simulation,
    peer: HttpPeer,
    limits: RecordLimits,
) -> (Run, Vec<RequestRecord>, u64) {
    let (sender, receiver) = RecordSender::new(limits);
    simulation.settings.records = Some(sender);
    let run = simulation.run(peer);
    let (records, lost) = received(&receiver);
    (run, records, lost)
}

/// What a run has sent, and how many records were lost.
fn received(receiver: &Receiver<RecordMessage>) -> (Vec<RequestRecord>, u64) {
    let (mut records, mut lost) = (Vec::new(), 0);
    for message in receiver.try_iter() {
        if let RecordMessage::Batch(batch) = message {
            records.extend_from_slice(&batch.records);
            lost += batch.lost;
            batch.give_back();
        }
    }
    (records, lost)
}

/// The records of a run over streams of one connection, which are as many as its requests and have
/// its times.
pub(crate) fn of_streams(
    mut simulation: Simulation,
    run: impl FnOnce(Simulation) -> WorkerResult,
) -> Vec<RequestRecord> {
    let (sender, receiver) = RecordSender::new(RecordLimits::default());
    simulation.settings.records = Some(sender);
    let ended = run(simulation);
    let (records, lost) = received(&receiver);
    assert_eq!(lost, 0);
    check_counts(&ended.recording, &records);
    let service_ns: u128 = answered(&records)
        .map(|it| u128::from(it.ended_ns - it.sent_ns))
        .sum();
    assert_eq!(service_ns, ended.recording.service_time.sum_ns());
    assert!(records.iter().all(|it| it.connection == 0), "{records:?}");
    records
}

pub(crate) fn all(simulation: Simulation, peer: HttpPeer) -> (Run, Vec<RequestRecord>) {
    let (run, records, lost) = recorded(simulation, peer, RecordLimits::default());
    assert_eq!(lost, 0);
    check_counts(&run.recording, &records);
    (run, records)
}

/// Each request of the run has exactly one record.
fn check_counts(recording: &Recording, records: &[RequestRecord]) {
    let counters = &recording.counters;
    let count = |reason: Option<WithoutResponse>| {
        let same = records.iter().filter(|it| it.without_response == reason);
        same.count() as u64
    };
    assert_eq!(count(None), counters.answered);
    assert_eq!(count(Some(WithoutResponse::InFlight)), counters.in_flight);
    assert_eq!(count(Some(WithoutResponse::Unsent)), counters.unsent);
    for kind in ErrorKind::ALL {
        let failed = count(Some(WithoutResponse::Failed(*kind)));
        assert_eq!(failed, recording.errors.count(*kind).exchanges, "{kind}");
    }
}

fn answered(records: &[RequestRecord]) -> impl Iterator<Item = &RequestRecord> {
    records.iter().filter(|it| it.without_response.is_none())
}

#[test]
fn the_times_of_records_are_those_of_the_histograms() {
    let (head, body) = OK.split_at(OK.len() - 2);
    let peer = HttpPeer::new(move |request| {
        let after_ns = (request.number * 7_919) % (5 * MS);
        Reply::after(after_ns, head).then(after_ns / 3, body)
    });
    let simulation = Simulation::new().connections(20).latency(MS).rate(900.0);
    let (run, records) = all(simulation.lasting(3 * S), peer);
    let recording = &run.recording;
    let sum = |from: fn(&RequestRecord) -> u64, to: fn(&RequestRecord) -> u64| {
        let times = answered(&records).map(|it| u128::from(to(it) - from(it)));
        times.sum::<u128>()
    };
    let service_ns = sum(|it| it.sent_ns, |it| it.ended_ns);
    assert_eq!(service_ns, recording.service_time.sum_ns());
    let response_ns = sum(|it| it.due_ns, |it| it.ended_ns);
    assert_eq!(response_ns, recording.response_time.sum_ns());
    let first_byte_ns = sum(|it| it.sent_ns, |it| it.first_byte_ns);
    assert_eq!(first_byte_ns, recording.phases.first_byte.sum_ns());
    let bytes: u64 = answered(&records).map(|it| it.bytes).sum();
    assert_eq!(bytes, recording.counters.bytes);
    assert!(answered(&records).all(|it| it.status == 200 && it.connection < 20));
}

#[test]
fn requests_without_a_response_have_records_with_the_reason() {
    let peer = HttpPeer::new(|request| match request.number % 5 {
        2 => Reply::after(MS, &OK[..20]).then_close(MS),
        4 => Reply::silence(),
        _ => Reply::after(MS, OK),
    });
    let simulation = Simulation::new().latency(MS).timeout(50 * MS);
    let (_, records) = all(simulation.connections(3), peer);
    let of = |kind| Some(WithoutResponse::Failed(kind));
    let timed_out = records
        .iter()
        .filter(|it| it.without_response == of(ErrorKind::Timeout));
    for record in timed_out {
        assert_eq!(record.ended_ns - record.sent_ns, 50 * MS);
        assert_eq!((record.first_byte_ns, record.status), (0, 0));
    }
    let cut_off = records
        .iter()
        .find(|it| it.without_response == of(ErrorKind::Truncated));
    let cut_off = cut_off.expect("the server closes in every fifth response");
    assert_eq!(cut_off.first_byte_ns - cut_off.sent_ns, 3 * MS);
    assert_eq!(cut_off.ended_ns - cut_off.sent_ns, 4 * MS);
}

#[test]
fn each_request_of_a_failed_pipeline_has_a_record() {
    let peer = HttpPeer::new(|request| match request.number % 7 {
        6 => Reply::silence(),
        _ => Reply::after(MS, OK),
    });
    let simulation = Simulation::new().latency(MS).timeout(50 * MS).pipeline(4);
    let (run, _) = all(simulation, peer);
    assert!(run.errors(ErrorKind::Timeout).1 > run.errors(ErrorKind::Timeout).0);
}

#[test]
fn requests_that_were_never_sent_have_records_with_the_time_they_were_due() {
    let peer = HttpPeer::new(|_| Reply::after(100 * MS, OK));
    let (run, records) = all(Simulation::new().latency(MS).rate(100.0), peer);
    assert_eq!(run.recording.counters.due, records.len() as u64);
    let unsent = records
        .iter()
        .filter(|it| it.without_response == Some(WithoutResponse::Unsent));
    let mut due_ns: Vec<u64> = unsent.map(|it| it.due_ns).collect();
    due_ns.dedup();
    assert_eq!(due_ns.len() as u64, run.recording.counters.unsent);
    assert!(due_ns.len() > 80);
}

#[test]
fn requests_of_the_warmup_have_no_records_and_those_of_the_drain_have() {
    let peer = HttpPeer::new(|_| Reply::after(40 * MS, OK));
    let simulation = Simulation::new().latency(MS).warmed_up(S).drained(S);
    let (run, records) = all(simulation, peer);
    assert!(records.iter().all(|it| it.due_ns >= S));
    assert!(run.recording.counters.answered_of_warmup > 0);
    assert_eq!(run.recording.counters.answered_in_drain, 1);
    assert_eq!(
        records.iter().map(|it| it.ended_ns).max(),
        records.last().map(|it| it.ended_ns)
    );
}

#[test]
fn what_a_pause_of_the_load_generator_adds_is_its_own_share() {
    let pause_ns = (300 * MS, 400 * MS);
    let mut simulation = Simulation::new().latency(MS).connections(50).rate(1_000.0);
    simulation.sim.pauses_ns = vec![pause_ns];
    let (run, records) = all(simulation, HttpPeer::new(|_| Reply::after(MS, OK)));
    let own_ns: u64 = answered(&records).map(|it| it.own_ns).sum();
    // Requests due in the pause waited for its end, 50 ms on average.
    assert!(own_ns > 4 * S, "{own_ns}");
    for record in answered(&records) {
        let response_ns = record.ended_ns - record.due_ns;
        assert!(record.own_ns <= response_ns, "{record:?}");
        let is_in_pause = (pause_ns.0 + 3 * MS..pause_ns.1 - MS).contains(&record.due_ns);
        if is_in_pause {
            assert!(response_ns - record.own_ns <= 4 * MS, "{record:?}");
        }
    }
    let delayed = answered(&records).filter(|it| it.own_ns >= results::Attribution::MIN_NS);
    let attribution = &run.recording.attribution;
    assert_eq!(attribution.shown.count(), delayed.count() as u64);
}

#[test]
fn records_have_the_first_token_and_the_tokens_that_the_server_counted() {
    let peer = HttpPeer::new(|_| tokens::answer(50 * MS, 10 * MS, 4));
    let (run, records) = all(tokens::simulation().latency(MS), peer);
    let first_token = &tokens::llm(&run).first_token;
    let times = answered(&records).map(|it| u128::from(it.first_token_ns - it.sent_ns));
    assert_eq!(times.sum::<u128>(), first_token.sum_ns());
    for record in answered(&records) {
        assert_eq!((record.tokens_in, record.tokens_out), (7, 4));
        assert!(record.first_byte_ns < record.first_token_ns);
    }
}

#[test]
fn a_buffer_that_is_too_small_loses_records_and_counts_them() {
    let limits = RecordLimits {
        chunk_records: 8,
        chunks_max: 2,
        chunks_at_end_max: 2,
    };
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let (run, records, lost) = recorded(Simulation::new().latency(MS), peer, limits);
    assert_eq!(records.len(), 16);
    let counters = &run.recording.counters;
    assert_eq!(records.len() as u64 + lost, counters.sent);
}

#[test]
fn the_workers_of_a_run_send_records_with_their_numbers() {
    let (sender, receiver) = RecordSender::new(RecordLimits::default());
    let mut simulation = Simulation::new().latency(MS).threads(3).connections(6);
    simulation.settings.records = Some(sender);
    let run = simulation.run(HttpPeer::new(|_| Reply::after(MS, OK)));
    let mut of_worker = [0; 3];
    for message in receiver.try_iter() {
        if let RecordMessage::Batch(batch) = message {
            of_worker[batch.worker as usize] += batch.records.len() as u64;
        }
    }
    assert!(of_worker.iter().all(|records| *records > 0));
    assert_eq!(of_worker.iter().sum::<u64>(), run.sent());
}
