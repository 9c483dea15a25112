//! Runs with a source that is called for every batch: delays, changing requests, stopping and
//! failing.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, OK, S, Simulation};
use engine::source::{Batch, Captured, RequestSource, SourceError};
use eventloop::Address;
use std::sync::{Arc, Mutex};

/// A configurable source, in place of a script.
#[derive(Default)]
pub(crate) struct Scripted {
    delay_ns: u64,
    wants_responses: bool,
    seen: Arc<Mutex<Vec<Captured>>>,
    asked: u64,
    /// Fails at the call with this number.
    fails_at: Option<u64>,
    /// Asks to stop after this many calls.
    stops_at: Option<u64>,
    /// Changes the address after this many requests.
    moves_to: Option<(u64, Address)>,
    /// The batches in turn, in place of different requests.
    batches: Vec<Batch>,
}

impl Scripted {
    /// Waits this long before each request.
    pub(crate) fn thinking(delay_ns: u64) -> Self {
        Self {
            delay_ns,
            ..Self::default()
        }
    }
}

impl RequestSource for Scripted {
    fn next(&mut self, connection: u32, output: &mut Batch) -> Result<(), SourceError> {
        let number = self.asked;
        self.asked += 1;
        if self.fails_at == Some(number) {
            return Err(SourceError {
                message: "test.lua:3: on purpose (in request)".to_owned(),
            });
        }
        if !self.batches.is_empty() {
            let batch = &self.batches[number as usize % self.batches.len()];
            output.extend_from_slice(batch);
            return Ok(());
        }
        let text = format!("GET /{connection}/{number} HTTP/1.1\r\nHost: simulated\r\n\r\n");
        output.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn wants_delay(&self) -> bool {
        self.delay_ns > 0
    }

    fn delay_ns(&mut self) -> Result<u64, SourceError> {
        Ok(self.delay_ns)
    }

    fn wants_responses(&self) -> bool {
        self.wants_responses
    }

    fn response(&mut self, response: &Captured) -> Result<(), SourceError> {
        let seen = response.clone();
        self.seen
            .lock()
            .expect("no panic under the lock")
            .push(seen);
        Ok(())
    }

    fn take_address(&mut self) -> Option<Address> {
        let (_, address) = self.moves_to.take_if(|(after, _)| self.asked >= *after)?;
        Some(address)
    }

    fn stopped(&self) -> bool {
        self.stops_at.is_some_and(|limit| self.asked >= limit)
    }
}

#[test]
fn delays_are_between_requests_and_not_part_of_the_service_time() {
    let source = Scripted {
        delay_ns: 8 * MS,
        ..Scripted::default()
    };
    let run = Simulation::new()
        .source(source)
        .run(HttpPeer::new(|_| Reply::after(2 * MS, OK)));
    assert_eq!(run.service_ns(), (Some(2 * MS), Some(2 * MS)));
    // Sent at 8, 18, 28 ... 998 ms.
    let sent: Vec<_> = run
        .served
        .iter()
        .map(|served| served.arrived_ns / MS)
        .collect();
    assert_eq!(
        sent,
        (0..100).map(|round| 8 + 10 * round).collect::<Vec<_>>()
    );
    assert_eq!(run.answered(), 99);
}

#[test]
fn a_connection_closed_by_the_server_during_a_delay_is_not_an_error() {
    let source = Scripted {
        delay_ns: 10 * MS,
        ..Scripted::default()
    };
    let peer = HttpPeer::new(|request| match request.number_on_connection {
        4 => Reply::after(MS, OK).then_close(5 * MS),
        _ => Reply::after(MS, OK),
    });
    let run = Simulation::new().source(source).run(peer);
    run.assert_only_errors(&[]);
    assert!(
        run.recording.counters.reconnects >= 15,
        "{:?}",
        run.recording.counters
    );
    assert!(run.answered() >= 80, "{}", run.answered());
}

#[test]
fn delays_longer_than_the_servers_idle_timeout_still_send_requests() {
    let source = Scripted {
        delay_ns: 50 * MS,
        ..Scripted::default()
    };
    let peer = HttpPeer::new(|_| Reply::after(MS, OK)).closing_idle_after(20 * MS);
    let run = Simulation::new().source(source).lasting(10 * S).run(peer);
    run.assert_only_errors(&[]);
    assert!(run.answered() > 100, "{} in 10 s", run.answered());
}

#[test]
fn every_connection_calls_the_source_with_its_own_number_even_after_reconnects() {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&paths);
    let peer = HttpPeer::new(move |request| {
        let text = String::from_utf8_lossy(request.bytes).into_owned();
        let number = text
            .split('/')
            .nth(1)
            .and_then(|part| part.parse::<u32>().ok());
        noted.lock().expect("no panic under the lock").push(number);
        Reply::after(MS, OK)
    });
    let simulation = Simulation::new()
        .connections(4)
        .requests_per_connection(3)
        .source(Scripted::default());
    let run = simulation.run(peer);
    let paths = paths.lock().expect("no panic under the lock");
    assert_eq!(paths.len(), run.served.len());
    for connection in 0..4 {
        let count = paths
            .iter()
            .filter(|number| **number == Some(connection))
            .count();
        assert_eq!(count, 1_000, "connection {connection}");
    }
}

#[test]
fn the_source_gets_complete_responses_in_order() {
    let source = Scripted {
        wants_responses: true,
        ..Scripted::default()
    };
    let seen = Arc::clone(&source.seen);
    let peer = HttpPeer::new(|request| {
        let body = format!("answer {}", request.number);
        let length = body.len();
        Reply::after(
            MS,
            format!("HTTP/1.1 202 Ok\r\nContent-Length: {length}\r\n\r\n"),
        )
        .then(MS, body)
    });
    let run = Simulation::new().source(source).requests(20).run(peer);
    assert_eq!(run.answered(), 20);
    let seen = seen.lock().expect("no panic under the lock");
    assert_eq!(seen.len(), 20);
    for (number, response) in seen.iter().enumerate() {
        assert_eq!(response.status, 202);
        assert_eq!(response.body, format!("answer {number}").into_bytes());
    }
}

/// A batch that is not parsed again must be the one before: responses to HEAD have no body, and the
/// number of responses is that of the requests.
#[test]
fn repeated_and_changed_batches_are_answered_alike() {
    let get = b"GET / HTTP/1.1\r\nHost: simulated\r\n\r\n".to_vec();
    let head = b"HEAD / HTTP/1.1\r\nHost: simulated\r\n\r\n".to_vec();
    let source = Scripted {
        batches: vec![
            get.clone(),
            get.clone(),
            head.clone(),
            head.clone(),
            get.repeat(3),
            get.repeat(3),
            [head, get].concat(),
        ],
        ..Scripted::default()
    };
    let peer = HttpPeer::new(|request| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        if request.bytes.starts_with(b"HEAD") {
            Reply::after(MS, head)
        } else {
            Reply::after(MS, format!("{head}ok"))
        }
    });
    let run = Simulation::new().source(source).requests(120).run(peer);
    run.assert_only_errors(&[]);
    assert_eq!(run.answered(), 120);
    assert_eq!(run.served.len(), 120);
}

#[test]
fn a_source_that_stops_ends_the_run_with_everything_measured_so_far() {
    let source = Scripted {
        stops_at: Some(11),
        ..Scripted::default()
    };
    let run = Simulation::new()
        .source(source)
        .run(HttpPeer::new(|_| Reply::after(10 * MS, OK)));
    assert_eq!(run.failure, None);
    assert_eq!(run.answered(), 10);
    assert_eq!(run.ended_ns, 100 * MS);
}

#[test]
fn a_failing_source_ends_the_run_with_its_message_and_the_numbers_so_far() {
    let source = Scripted {
        fails_at: Some(10),
        ..Scripted::default()
    };
    let run = Simulation::new()
        .source(source)
        .run(HttpPeer::new(|_| Reply::after(10 * MS, OK)));
    assert_eq!(
        run.failure.as_deref(),
        Some("test.lua:3: on purpose (in request)")
    );
    assert_eq!(run.answered(), 10);
}

#[test]
fn a_changed_address_applies_to_later_connections() {
    use eventloop::sim::{Actions, Attempt, ConnectReaction, Peer};
    /// Counts the attempts for each port.
    struct Ports(HttpPeer, Arc<Mutex<Vec<String>>>);
    impl Peer for Ports {
        fn on_connect(&mut self, attempt: &Attempt<'_>, now_ns: u64) -> ConnectReaction {
            let address = format!("{:?}", attempt.address);
            self.1
                .lock()
                .expect("no panic under the lock")
                .push(address);
            self.0.on_connect(attempt, now_ns)
        }
        fn on_bytes(&mut self, connection: u32, bytes: &[u8], now_ns: u64, to: &mut Actions) {
            self.0.on_bytes(connection, bytes, now_ns, to);
        }
    }
    let there = Address::Tcp(([127, 0, 0, 2], 8080).into());
    let source = Scripted {
        moves_to: Some((12, there.clone())),
        ..Scripted::default()
    };
    let asked = Arc::new(Mutex::new(Vec::new()));
    let peer = Ports(HttpPeer::new(|_| Reply::after(MS, OK)), Arc::clone(&asked));
    let simulation = Simulation::new().requests_per_connection(5).source(source);
    let here = Address::Tcp(([127, 0, 0, 1], 80).into());
    simulation.run_with(peer);
    let asked = asked.lock().expect("no panic under the lock");
    assert!(asked.len() > 100);
    // The twelfth request is on the third connection.
    let (first, rest) = asked.split_at(3);
    assert!(first.iter().all(|address| *address == format!("{here:?}")));
    assert!(rest.iter().all(|address| *address == format!("{there:?}")));
}

#[test]
fn connections_move_when_the_addresses_of_a_name_change() {
    use engine::AddressBook;
    use eventloop::sim::{Actions, Attempt, ConnectReaction, Peer};
    /// Changes the addresses after a number of requests, and notes those that are connected to.
    struct Moving {
        peer: HttpPeer,
        book: AddressBook,
        requests: u32,
        connects: Arc<Mutex<Vec<String>>>,
    }
    impl Peer for Moving {
        fn on_connect(&mut self, attempt: &Attempt<'_>, now_ns: u64) -> ConnectReaction {
            let address = format!("{:?}", attempt.address);
            let mut connects = self.connects.lock().expect("no panic under the lock");
            connects.push(address);
            self.peer.on_connect(attempt, now_ns)
        }
        fn on_bytes(&mut self, connection: u32, bytes: &[u8], now_ns: u64, to: &mut Actions) {
            self.requests += 1;
            if self.requests == 100 {
                let is_new = self.book.replace(addresses(&[2, 3]));
                assert!(is_new, "the first address is gone, and the third is new");
            }
            self.peer.on_bytes(connection, bytes, now_ns, to);
        }
    }
    fn addresses(hosts: &[u8]) -> Vec<Address> {
        let address = |host: &u8| Address::Tcp(([127, 0, 0, *host], 80).into());
        hosts.iter().map(address).collect()
    }
    for rate in [None, Some(1000.0)] {
        let mut simulation = Simulation::new().connections(4).warmed_up(10 * MS);
        if let Some(rate) = rate {
            simulation = simulation.rate(rate);
        }
        let book = AddressBook::new(addresses(&[1, 2]), true);
        simulation.settings.addresses = book.clone();
        let connects = Arc::new(Mutex::new(Vec::new()));
        let run = simulation.run_with(Moving {
            peer: HttpPeer::new(|_| Reply::after(MS, OK)),
            book,
            requests: 0,
            connects: Arc::clone(&connects),
        });
        let mut connects = connects.lock().expect("no panic under the lock").clone();
        connects.sort();
        let count = |host: u8| {
            let address = format!("{:?}", addresses(&[host])[0]);
            connects.iter().filter(|it| **it == address).count()
        };
        // Two of four go to each; the two to the first address are replaced.
        assert_eq!((count(1), count(2) + count(3)), (2, 4), "{connects:?}");
        assert!(count(3) >= 1, "{connects:?}");
        let recording = &run.0.recording;
        assert_eq!(recording.errors.events(), 0, "{:?}", recording.errors);
        assert_eq!(recording.counters.reconnects, 0);
        let labels: Vec<&str> = recording
            .parts
            .by_address
            .iter()
            .map(|it| &*it.name)
            .collect();
        assert_eq!(labels, ["127.0.0.1:80", "127.0.0.2:80", "127.0.0.3:80"]);
        let answered: u64 = recording
            .parts
            .by_address
            .iter()
            .map(|it| it.answered)
            .sum();
        assert_eq!(answered, recording.counters.answered);
        let responses: u64 = recording
            .parts
            .by_address
            .iter()
            .map(|it| it.responses())
            .sum();
        assert_eq!(responses, recording.counters.responses());
        let bytes: u64 = recording.parts.by_address.iter().map(|it| it.bytes).sum();
        assert_eq!(bytes, recording.counters.bytes);
        assert!(recording.parts.by_address[0].answered < 110);
        assert!(recording.parts.by_address.iter().all(|it| it.answered > 0));
    }
}
