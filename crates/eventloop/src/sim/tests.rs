//! Tests of the simulator: exact times, exact order, and no hangs.

mod datagrams;
mod scripted;

use super::*;
use scripted::Scripted;
use std::net::{Ipv4Addr, SocketAddr};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const QUESTION: &[u8] = b"how much is two and two?";

fn address() -> Address {
    Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 80)))
}

fn connect<P: Peer>(sim: &mut Sim<P>, key: u32) -> Token {
    sim.connect(key, &address(), &SocketOptions::default())
}

/// What happened, with received bytes, until the loop has nothing to report before `until_ns`.
fn run_until<P: Peer>(sim: &mut Sim<P>, until_ns: u64) -> Vec<(u64, u32, String)> {
    let mut seen = Vec::new();
    loop {
        sim.wait(Some(until_ns)).expect("the simulator works");
        let before = seen.len();
        while let Some(completion) = sim.next() {
            let what = match completion.event {
                SocketEvent::Received(_) => String::from_utf8_lossy(sim.received()).into_owned(),
                event => format!("{event:?}"),
            };
            seen.push((completion.at_ns, completion.key, what));
        }
        if seen.len() == before {
            return seen;
        }
    }
}

fn entry(at_ns: u64, key: u32, what: &str) -> (u64, u32, String) {
    (at_ns, key, what.to_owned())
}

#[test]
fn an_exchange_takes_exactly_the_latency_and_the_delay() {
    let options = SimOptions {
        latency_ns: 3 * MS,
        ..SimOptions::default()
    };
    let peer = Scripted::answering(2 * MS, "yes");
    let mut sim = Sim::new(options, peer);
    let token = connect(&mut sim, 7);
    assert_eq!(
        run_until(&mut sim, 10 * MS),
        [entry(6 * MS, 7, "Connected")]
    );
    sim.send(token, Payload::Owned(QUESTION.to_vec()));
    let seen = run_until(&mut sim, 30 * MS);
    assert_eq!(
        seen[0].0,
        10 * MS,
        "a buffer with room takes the bytes at once"
    );
    assert_eq!(seen[1], entry(18 * MS, 7, "yes"));
    assert_eq!(sim.peer().answered_ns(), [(13 * MS, 15 * MS)]);
}

#[test]
fn the_receive_delay_is_the_configured_delay_plus_the_time_the_caller_was_busy() {
    let options = SimOptions {
        latency_ns: 3 * MS,
        receive_delay_ns: 500,
        ..SimOptions::default()
    };
    let mut sim = Sim::new(options.clone(), Scripted::answering(0, "yes"));
    let timestamped = SocketOptions {
        timestamps: true,
        ..SocketOptions::default()
    };
    let token = sim.connect(1, &address(), &timestamped);
    let plain = connect(&mut sim, 2);
    run_until(&mut sim, 10 * MS);
    sim.send(token, Payload::Owned(QUESTION.to_vec()));
    sim.send(plain, Payload::Owned(QUESTION.to_vec()));
    // The responses arrive at 16 ms, while the caller is busy until 20 ms.
    sim.world.borrow_mut().clock_ns = 20 * MS;
    assert_eq!(sim.receive_delay_ns(), None);
    sim.wait(Some(30 * MS)).unwrap();
    let mut delays_ns = Vec::new();
    while let Some(completion) = sim.next() {
        if matches!(completion.event, SocketEvent::Received(_)) {
            delays_ns.push((completion.key, sim.receive_delay_ns()));
        }
    }
    assert_eq!(delays_ns, [(1, Some(4 * MS + 500)), (2, None)]);
    assert_eq!(sim.receive_delay_ns(), None);
}

#[test]
fn a_wait_ends_exactly_at_its_deadline_or_at_once_if_that_has_passed() {
    let mut sim = Sim::new(SimOptions::default(), Scripted::silent());
    sim.wait(Some(5 * MS)).unwrap();
    assert_eq!(sim.now_ns(), 5 * MS);
    sim.wait(Some(MS)).unwrap();
    assert_eq!(sim.now_ns(), 5 * MS);
}

#[test]
fn reading_the_clock_costs_the_configured_time() {
    let options = SimOptions {
        clock_cost_ns: 10,
        start_ns: 100,
        ..SimOptions::default()
    };
    let sim = Sim::new(options, Scripted::silent());
    assert_eq!([sim.now_ns(), sim.now_ns(), sim.now_ns()], [110, 120, 130]);
}

#[test]
fn a_wait_without_events_and_without_a_deadline_fails() {
    let mut sim = Sim::new(SimOptions::default(), Scripted::silent());
    let error = sim.wait(None).unwrap_err().to_string();
    assert!(error.contains("nothing can happen"), "{error}");
    let peer = Scripted::silent().admitting(|_| ConnectReaction::Ignore);
    let mut sim = Sim::new(SimOptions::default(), peer);
    connect(&mut sim, 0);
    assert!(sim.wait(None).is_err());
}

#[test]
fn a_caller_that_spins_gets_an_error() {
    let mut sim = Sim::new(SimOptions::default(), Scripted::silent());
    let error = (0..=WAITS_WITHOUT_PROGRESS_MAX).find_map(|_| sim.wait(Some(0)).err());
    let error = error.expect("the spinning is detected").to_string();
    assert!(error.contains("does not advance its deadline"), "{error}");
}

#[test]
fn exchanges_that_take_no_time_fail() {
    let mut sim = Sim::new(SimOptions::default(), Scripted::answering(0, "x"));
    let token = connect(&mut sim, 0);
    let error = (0..=WAITS_WITHOUT_PROGRESS_MAX).find_map(|_| {
        while sim.next().is_some() {}
        sim.send(token, Payload::Owned(QUESTION.to_vec()));
        sim.wait(None).err()
    });
    let error = error.expect("the endless loop is detected").to_string();
    assert!(error.contains("take no time"), "{error}");
}

#[test]
fn a_peer_that_answers_itself_makes_the_wait_fail() {
    struct Restless;
    impl Peer for Restless {
        fn on_open(&mut self, _: u32, _: u64, actions: &mut Actions) {
            actions.wake(0);
        }
        fn on_bytes(&mut self, _: u32, _: &[u8], _: u64, _: &mut Actions) {}
        fn on_wake(&mut self, _: u32, _: u64, actions: &mut Actions) {
            actions.wake(0);
        }
    }
    let mut sim = Sim::new(SimOptions::default(), Restless);
    connect(&mut sim, 0);
    let error = (0..2).find_map(|_| {
        while sim.next().is_some() {}
        sim.wait(Some(S)).err()
    });
    assert!(
        error
            .expect("the endless loop is detected")
            .to_string()
            .contains("answer itself")
    );
}

#[test]
fn answers_due_during_a_stall_of_the_server_leave_at_its_end() {
    let stall = S..2 * S;
    let peer = Scripted::new(move |_, asked_ns| {
        let waits_ns = if stall.contains(&asked_ns) {
            stall.end - asked_ns
        } else {
            0
        };
        Some((waits_ns + 2 * MS, "x".to_owned()))
    });
    let mut sim = Sim::new(SimOptions::default(), peer);
    let mut answers = Vec::new();
    for sent_ms in [0, 998, 1_000, 1_500, 2_000] {
        answers.extend(run_until(&mut sim, sent_ms * MS));
        let token = connect(&mut sim, sent_ms as u32);
        sim.wait(None).unwrap();
        assert!(matches!(sim.next().unwrap().event, SocketEvent::Connected));
        sim.send(token, Payload::Owned(QUESTION.to_vec()));
    }
    answers.extend(run_until(&mut sim, 3 * S));
    answers.retain(|(_, _, what)| what == "x");
    let ends_ns = answers
        .iter()
        .map(|(at_ns, sent_ms, _)| (*sent_ms, *at_ns / MS));
    let truth = [
        (0, 2),
        (998, 1_000),
        (1_000, 2_002),
        (1_500, 2_002),
        (2_000, 2_002),
    ];
    assert_eq!(ends_ns.collect::<Vec<_>>(), truth);
}

#[test]
fn answers_keep_the_order_of_their_questions() {
    let delays_ms = [5, 1, 3];
    let peer = Scripted::new(move |number, _| Some((delays_ms[number] * MS, number.to_string())));
    let mut sim = Sim::new(SimOptions::default(), peer);
    let token = connect(&mut sim, 0);
    run_until(&mut sim, 0);
    sim.send(token, Payload::Owned(QUESTION.repeat(3)));
    let answers = run_until(&mut sim, S);
    let answers: Vec<_> = answers[1..]
        .iter()
        .map(|(at_ns, _, what)| (*at_ns, &**what))
        .collect();
    assert_eq!(answers, [(5 * MS, "0"), (5 * MS, "1"), (5 * MS, "2")]);
}

#[test]
fn a_peer_can_refuse_connections_for_a_while() {
    let peer = Scripted::silent().admitting(|now_ns| {
        if now_ns < S / 2 {
            ConnectReaction::refuse()
        } else {
            ConnectReaction::Accept { after_ns: MS }
        }
    });
    let mut sim = Sim::new(SimOptions::default(), peer);
    connect(&mut sim, 1);
    let refused = format!("ConnectFailed({})", libc::ECONNREFUSED);
    assert_eq!(run_until(&mut sim, S / 2), [entry(0, 1, &refused)]);
    assert_eq!(sim.open_sockets(), 0);
    connect(&mut sim, 2);
    assert_eq!(run_until(&mut sim, S), [entry(S / 2 + MS, 2, "Connected")]);
}

#[test]
fn a_peer_is_woken_at_the_requested_time() {
    struct Sleeper;
    impl Peer for Sleeper {
        fn on_open(&mut self, connection: u32, _: u64, actions: &mut Actions) {
            actions.wake(u64::from(connection + 1) * 10 * MS);
        }
        fn on_bytes(&mut self, _: u32, _: &[u8], _: u64, _: &mut Actions) {}
        fn on_wake(&mut self, _: u32, _: u64, actions: &mut Actions) {
            actions.close(0);
        }
    }
    let mut sim = Sim::new(SimOptions::default(), Sleeper);
    connect(&mut sim, 1);
    connect(&mut sim, 2);
    let seen = run_until(&mut sim, S);
    let closed = [
        entry(10 * MS, 1, "EndOfStream"),
        entry(20 * MS, 2, "EndOfStream"),
    ];
    assert_eq!(seen[2..], closed);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let run = |seed| {
        let options = SimOptions {
            seed,
            latency_ns: MS,
            jitter_ns: MS,
            random_cuts: true,
            ..SimOptions::default()
        };
        let peer = Scripted::answering(MS, &"0123456789".repeat(10));
        let mut sim = Sim::new(options, peer);
        let token = connect(&mut sim, 0);
        run_until(&mut sim, 10 * MS);
        sim.send(token, Payload::Owned(QUESTION.to_vec()));
        run_until(&mut sim, S)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let whole: String = run(3)
        .into_iter()
        .skip(1)
        .map(|(_, _, what)| what)
        .collect();
    assert_eq!(
        whole,
        "0123456789".repeat(10),
        "splitting and jitter keep the order"
    );
}

#[test]
fn an_owned_buffer_comes_back_when_its_last_byte_is_in_the_send_buffer() {
    let options = SimOptions {
        uplink_bytes_per_s: NonZeroU64::new(1_000_000),
        send_buffer_bytes: 1_000,
        segment_bytes: 1_000,
        ..SimOptions::default()
    };
    let mut sim = Sim::new(options, Scripted::silent());
    let peer_log = sim.peer_log();
    let token = connect(&mut sim, 0);
    run_until(&mut sim, 0);
    sim.send(token, Payload::Owned(vec![b'a'; 5_000]));
    let seen = run_until(&mut sim, S);
    assert_eq!(seen.len(), 1);
    assert_eq!(
        seen[0].0,
        4 * MS,
        "four parts have left when the fifth is in the buffer"
    );
    let arrivals: Vec<_> = peer_log
        .entries()
        .into_iter()
        .filter_map(|entry| match entry.what {
            PeerEvent::Arrived(bytes) => Some((entry.at_ns, bytes)),
            _ => None,
        })
        .collect();
    assert_eq!(arrivals, [1, 2, 3, 4, 5].map(|ms| (ms * MS, 1_000)));
}

#[test]
fn sockets_beyond_the_limit_fail_with_emfile_until_one_is_closed() {
    let options = SimOptions {
        sockets_max: 1,
        ..SimOptions::default()
    };
    let mut sim = Sim::new(options, Scripted::silent());
    let first = connect(&mut sim, 1);
    connect(&mut sim, 2);
    let full = format!("ConnectFailed({})", libc::EMFILE);
    assert_eq!(
        run_until(&mut sim, 0),
        [entry(0, 2, &full), entry(0, 1, "Connected")]
    );
    sim.close(first, CloseMode::Graceful);
    assert_eq!(run_until(&mut sim, MS), [entry(0, 1, "Closed")]);
    connect(&mut sim, 3);
    assert_eq!(run_until(&mut sim, 2 * MS), [entry(MS, 3, "Connected")]);
}

#[test]
fn the_peer_log_has_what_the_peer_saw_and_did() {
    struct Rude;
    impl Peer for Rude {
        fn on_bytes(&mut self, _: u32, _: &[u8], _: u64, actions: &mut Actions) {
            actions.send(MS, "xy");
            actions.reset(2 * MS);
        }
    }
    let options = SimOptions {
        latency_ns: MS,
        ..SimOptions::default()
    };
    let mut sim = Sim::new(options, Rude);
    let peer_log = sim.peer_log();
    let token = connect(&mut sim, 9);
    run_until(&mut sim, 2 * MS);
    sim.send(token, Payload::Owned(QUESTION.to_vec()));
    run_until(&mut sim, S);
    let told: Vec<_> = peer_log
        .entries()
        .iter()
        .map(|entry| (entry.at_ns, entry.what))
        .collect();
    assert_eq!(
        told,
        [
            (MS, PeerEvent::Attempted(9)),
            (MS, PeerEvent::Established),
            (3 * MS, PeerEvent::Arrived(QUESTION.len())),
            (4 * MS, PeerEvent::Sent(2)),
            (5 * MS, PeerEvent::Aborted),
        ]
    );
}

#[test]
fn a_flood_of_answers_makes_the_wait_fail() {
    struct Talkative;
    impl Peer for Talkative {
        fn on_bytes(&mut self, _: u32, _: &[u8], _: u64, actions: &mut Actions) {
            for _ in 0..100_000 {
                actions.send(S, "x");
            }
        }
    }
    let mut sim = Sim::new(SimOptions::default(), Talkative);
    let token = connect(&mut sim, 0);
    run_until(&mut sim, 0);
    let error = (0..12).find_map(|_| {
        sim.send(token, Payload::Owned(b"?".to_vec()));
        let now_ns = sim.now_ns();
        while sim.next().is_some() {}
        sim.wait(Some(now_ns)).err()
    });
    let error = error.expect("the flood is detected").to_string();
    assert!(error.contains("are scheduled"), "{error}");
}
