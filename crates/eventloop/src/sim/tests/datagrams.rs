//! Datagrams of the simulator: exact times, the same faults for the same seed, and whole datagrams.

use super::*;

/// Answers each datagram with these, and keeps what arrives.
struct DatagramPeer {
    answers: Vec<Vec<u8>>,
    received: Vec<(u64, Vec<u8>)>,
}

impl DatagramPeer {
    fn answering(answers: &[&[u8]]) -> Self {
        Self {
            answers: answers.iter().map(|answer| answer.to_vec()).collect(),
            received: Vec::new(),
        }
    }
}

impl Peer for DatagramPeer {
    fn on_bytes(&mut self, _: u32, _: &[u8], _: u64, _: &mut Actions) {}

    fn on_datagram(&mut self, _: u32, datagram: &[u8], now_ns: u64, actions: &mut Actions) {
        self.received.push((now_ns, datagram.to_vec()));
        for answer in &self.answers {
            actions.send_datagram(2 * MS, answer.clone());
        }
    }
}

fn open(sim: &mut Sim<DatagramPeer>) -> Token {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 443));
    sim.connect_datagrams(7, address, &SocketOptions::default())
}

fn send(sim: &mut Sim<DatagramPeer>, token: Token, buffer: &[u8], segment: u16) {
    let buffer = buffer.to_vec();
    sim.send(token, Payload::Datagrams { buffer, segment });
}

/// The datagrams that the client receives, with their times, until there are none for a second.
fn receive(sim: &mut Sim<DatagramPeer>) -> Vec<(u64, Vec<u8>)> {
    let mut received = Vec::new();
    let mut quiet_ns = 0;
    while quiet_ns < S {
        let until_ns = sim.now_ns() + S;
        sim.wait(Some(until_ns)).expect("the simulator works");
        quiet_ns = S;
        while let Some(completion) = sim.next() {
            quiet_ns = 0;
            let datagrams = sim
                .received_segment()
                .map(|length| sim.received().chunks(length));
            for datagram in datagrams.into_iter().flatten() {
                received.push((completion.at_ns, datagram.to_vec()));
            }
        }
    }
    received
}

#[test]
fn a_datagram_takes_exactly_the_latency_and_the_delay() {
    let options = SimOptions {
        latency_ns: 3 * MS,
        ..SimOptions::default()
    };
    let mut sim = Sim::new(options, DatagramPeer::answering(&[b"yes"]));
    let token = open(&mut sim);
    send(&mut sim, token, b"well?", 0);
    assert_eq!(receive(&mut sim), [(8 * MS, b"yes".to_vec())]);
    assert_eq!(sim.peer().received, [(3 * MS, b"well?".to_vec())]);
    let log = sim.peer_log().entries();
    let events = log.iter().map(|entry| entry.what);
    let expected = [PeerEvent::DatagramArrived(5), PeerEvent::DatagramSent(3)];
    assert_eq!(events.collect::<Vec<_>>(), expected);
}

const FAULTS: DatagramFaults = DatagramFaults {
    lost_ppm: 100_000,
    doubled_ppm: 50_000,
    late_ppm: 50_000,
    late_ns: 20 * MS,
};

/// Sends two thousand datagrams, one each 100 us, and echoes of them come back.
fn faulty_run(seed: u64, faults: DatagramFaults) -> (Vec<(u64, Vec<u8>)>, DatagramCounts) {
    let options = SimOptions {
        seed,
        latency_ns: MS,
        jitter_ns: MS,
        datagram_faults: faults,
        ..SimOptions::default()
    };
    let mut sim = Sim::new(options, DatagramPeer::answering(&[b"answer"]));
    let token = open(&mut sim);
    for number in 0..2_000_u32 {
        send(&mut sim, token, &number.to_be_bytes(), 0);
        let until_ns = u64::from(number + 1) * MS / 10;
        while sim.now_ns() < until_ns {
            sim.wait(Some(until_ns)).expect("the simulator works");
            while sim.next().is_some() {}
        }
    }
    receive(&mut sim);
    let received = sim.peer().received.clone();
    (received, sim.datagram_counts())
}

#[test]
fn faults_are_the_same_for_the_same_seed_and_others_for_another() {
    let first = faulty_run(1, FAULTS);
    assert_eq!(first, faulty_run(1, FAULTS));
    assert_ne!(first, faulty_run(2, FAULTS));
}

#[test]
fn the_counts_of_faulty_datagrams_add_up() {
    let (received, counts) = faulty_run(3, FAULTS);
    assert_eq!(counts.sent + counts.doubled, counts.lost + counts.arrived);
    // An answer for each of them.
    assert_eq!(counts.sent, 2_000 + received.len() as u64);
    let share = |part: u64| part as f64 / counts.sent as f64;
    assert!((0.07..0.13).contains(&share(counts.lost)), "{counts:?}");
    assert!((0.03..0.07).contains(&share(counts.doubled)), "{counts:?}");
    assert!((0.03..0.07).contains(&share(counts.late)), "{counts:?}");
    let numbers: Vec<_> = received.into_iter().map(|(_, datagram)| datagram).collect();
    assert!(!numbers.is_sorted(), "some were overtaken");
    let mut distinct = numbers.clone();
    distinct.sort();
    distinct.dedup();
    assert!(distinct.len() < numbers.len(), "some came twice");
    assert!(numbers.iter().all(|number| number.len() == 4), "all whole");
}

#[test]
fn without_faults_datagrams_arrive_once_and_in_order_whatever_the_jitter() {
    let (received, counts) = faulty_run(4, DatagramFaults::default());
    let numbers: Vec<_> = received.into_iter().map(|(_, datagram)| datagram).collect();
    let expected: Vec<_> = (0..2_000_u32).map(|number| number.to_be_bytes()).collect();
    assert_eq!(numbers, expected);
    let expected = DatagramCounts {
        sent: 4_000,
        arrived: 4_000,
        ..DatagramCounts::default()
    };
    assert_eq!(counts, expected);
}

#[test]
fn datagrams_that_nobody_has_taken_yet_are_joined_up_to_a_shorter_one() {
    let answers: [&[u8]; 6] = [b"aaaa", b"bbbb", b"cc", b"dddd", b"eeeee", b"f"];
    let mut sim = Sim::new(SimOptions::default(), DatagramPeer::answering(&answers));
    let token = open(&mut sim);
    send(&mut sim, token, b"all", 0);
    let mut received = Vec::new();
    while received.len() < 3 {
        sim.wait(Some(S)).expect("the simulator works");
        while let Some(completion) = sim.next() {
            if matches!(completion.event, SocketEvent::Received(_)) {
                let text = String::from_utf8_lossy(sim.received()).into_owned();
                received.push((text, sim.received_segment()));
            }
        }
    }
    let expected = [("aaaabbbbcc", 4), ("dddd", 4), ("eeeeef", 5)];
    let expected = expected.map(|(text, segment)| (text.to_owned(), Some(segment)));
    assert_eq!(received, expected);
}

#[test]
fn a_full_send_buffer_holds_whole_datagrams_back() {
    let options = SimOptions {
        uplink_bytes_per_s: NonZeroU64::new(1_000_000),
        send_buffer_bytes: 2_500,
        ..SimOptions::default()
    };
    let mut sim = Sim::new(options, DatagramPeer::answering(&[]));
    let token = open(&mut sim);
    send(&mut sim, token, &[1; 5_000], 1_000);
    send(&mut sim, token, &[2; 4_000], 0);
    let seen = run_until(&mut sim, S);
    let sent: Vec<_> = seen
        .iter()
        .filter(|(_, _, what)| what.starts_with("Sent"))
        .map(|(at_ns, _, _)| *at_ns)
        .collect();
    // There is room for the fifth datagram when three have left, and for the long one when all
    // have.
    assert_eq!(sent, [3 * MS, 5 * MS]);
    let received = sim.peer().received.clone();
    let lengths: Vec<_> = received
        .iter()
        .map(|(_, datagram)| datagram.len())
        .collect();
    assert_eq!(lengths, [1_000, 1_000, 1_000, 1_000, 1_000, 4_000]);
    assert_eq!(received[5].0, 9 * MS);
}
