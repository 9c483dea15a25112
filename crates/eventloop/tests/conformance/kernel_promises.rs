//! Rules that only backends on a real kernel can follow: Unix sockets, IPv6, local addresses,
//! listening.

use crate::backend::Kernel;
use crate::client::{Client, TIMESTAMP_ERROR_NS};
use crate::peer::{End, PeerStep, TestPeer};
use crate::promises::{assert_same, pattern};
use eventloop::{
    Acceptor, Address, CloseMode, EventLoop, LoopOptions, Payload, SocketEvent, SocketOptions,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;
use std::time::Duration;
use testkit::Folder;

fn open<K: Kernel>() -> Option<Client<K::Loop>> {
    K::open(&LoopOptions::default()).map(|io| Client::new(io, K::TIMESTAMPS))
}

/// Connects, and expects it to fail with this `errno`.
fn assert_connect_fails<L: EventLoop>(client: &mut Client<L>, address: &Address, errno: i32) {
    let token = client.connect(1, address);
    client.until("the failure", |client| {
        assert!(!client.socket(token).connected);
        client.socket(token).connect_failed.is_some()
    });
    assert_eq!(client.socket(token).connect_failed, Some(errno));
}

fn assert_echo_works<L: EventLoop>(client: &mut Client<L>, peer: &TestPeer) {
    let token = client.connected(1, &peer.address);
    client.send_owned(token, pattern(100_000));
    client.until("the response", |client| {
        client.received(token).len() >= 50_000
    });
    assert_same(client.received(token), &pattern(50_000));
    client.closed(token, CloseMode::Graceful);
    let report = peer.report(client);
    assert_same(&report.received, &pattern(100_000));
    assert_eq!(report.end, End::Fin);
}

fn answering_script() -> Vec<PeerStep> {
    vec![
        PeerStep::Read(100_000),
        PeerStep::Write(pattern(50_000)),
        PeerStep::ReadToEnd,
    ]
}

pub(crate) fn a_socket_taken_over_receives_and_wakes_a_loop_that_waits<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let (mut near, far) = UnixStream::pair().expect("a pair");
    let token = client.io.adopt(7, far.into()).expect("a socket is taken");
    let writer = std::thread::spawn(move || {
        near.write_all(b"ring").expect("room for four bytes");
        near
    });
    // Without a deadline, nothing else ends this wait.
    client.io.wait(None).expect("the loop works");
    let completion = client.io.next().expect("something has happened");
    assert_eq!((completion.key, completion.token), (7, token));
    assert!(matches!(completion.event, SocketEvent::Received(4)));
    assert_eq!(client.io.received(), b"ring");
    drop(writer.join().expect("the writer"));
}

pub(crate) fn what_is_submitted_behind_a_send_does_not_wait_for_its_completion<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let (mut near, far) = UnixStream::pair().expect("a pair");
    near.set_nonblocking(true).expect("an open socket");
    let token = client.io.adopt(7, far.into()).expect("a socket is taken");
    // No completion is taken in between.
    for bytes in [b"one ", b"two ", b"six "] {
        client.io.send(token, Payload::Owned(bytes.to_vec()));
        client.io.submit();
    }
    let mut received = [0; 20];
    let length = near.read(&mut received).expect("the bytes were sent");
    assert_eq!(&received[..length], b"one two six ");
    let mut sent = 0;
    let now_ns = client.io.now_ns();
    client.io.wait(Some(now_ns)).expect("the loop works");
    while let Some(completion) = client.io.next() {
        sent += usize::from(matches!(completion.event, SocketEvent::Sent(_)));
    }
    assert_eq!(sent, 3);
}

pub(crate) fn what_is_sent_after_a_wait_was_not_found_by_it<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let (mut near, far) = UnixStream::pair().expect("a pair");
    near.write_all(b"x").expect("there is room");
    let token = client.io.adopt(7, far.into()).expect("a socket is taken");
    let give_up_ns = client.io.now_ns() + crate::client::WAIT_LIMIT_NS;
    client.io.wait(Some(give_up_ns)).expect("the loop works");
    assert_eq!(client.io.found(), 1);
    client.io.send(token, Payload::Owned(b"one ".to_vec()));
    client.io.submit();
    assert_eq!(client.io.found(), 1);
    let (mut received, mut sent) = (0, 0);
    while let Some(completion) = client.io.next() {
        let was_found = client.io.was_found(&completion.event);
        match completion.event {
            SocketEvent::Received(_) => received += usize::from(was_found),
            SocketEvent::Sent(_) => sent += usize::from(!was_found),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((received, sent), (1, 1));
}

pub(crate) fn a_loop_that_is_dropped_delivers_what_was_closed_gracefully<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let peer = TestPeer::tcp("127.0.0.1:0", vec![vec![PeerStep::ReadToEnd]; 20]);
    let peer = peer.expect("a listener");
    let tokens: Vec<_> = (0..20)
        .map(|key| client.connected(key, &peer.address))
        .collect();
    for token in tokens {
        client.send_owned(token, *b"the first and ");
        client.send_owned(token, *b"the last");
        client.close(token, CloseMode::Graceful);
    }
    drop(client);
    let mut other = open::<K>().expect("the kernel allowed it before");
    for report in peer.reports(&mut other, 20) {
        assert_eq!(report.received, b"the first and the last");
        assert_eq!(report.end, End::Fin);
    }
}

pub(crate) fn an_unbound_unix_path_fails_with_enoent<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let folder = Folder::new();
    let nowhere = Address::Unix(folder.join("no-listener"));
    assert_connect_fails(&mut client, &nowhere, libc::ENOENT);
}

pub(crate) fn a_unix_path_that_is_too_long_fails_with_enametoolong<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    for length in [108, 109, 5_000] {
        let address = Address::Unix("x".repeat(length).into());
        assert_connect_fails(&mut client, &address, libc::ENAMETOOLONG);
    }
    // The longest path that fits is a path like any other (unix(7): 108 bytes with the final NUL).
    let address = Address::Unix("x".repeat(107).into());
    assert_connect_fails(&mut client, &address, libc::ENOENT);
}

pub(crate) fn a_unix_socket_whose_listener_is_gone_is_refused<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let folder = Folder::new();
    let path = folder.join("socket");
    drop(UnixListener::bind(&path).expect("a listener"));
    assert_connect_fails(&mut client, &Address::Unix(path), libc::ECONNREFUSED);
}

pub(crate) fn bytes_are_sent_and_received_over_unix_sockets<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let peer = TestPeer::unix(vec![answering_script()]).expect("a unix listener");
    assert_echo_works(&mut client, &peer);
}

pub(crate) fn a_connection_on_loopback_is_reported_with_the_time_it_was_established<K: Kernel>() {
    const SOCKETS: usize = 64;
    let Some(mut io) = K::open(&LoopOptions::default()) else {
        return;
    };
    let peer = TestPeer::tcp("127.0.0.1:0", vec![vec![PeerStep::ReadToEnd]; SOCKETS]);
    let peer = peer.expect("a listener");
    let calls: Vec<_> = (0..SOCKETS as u32)
        .map(|key| {
            let begun_ns = io.now_ns();
            io.connect(key, &peer.address, &SocketOptions::default());
            begun_ns..=io.now_ns()
        })
        .collect();
    let mut timestamps = vec![None; SOCKETS];
    while timestamps.contains(&None) {
        io.wait(None).expect("the loop works");
        while let Some(completion) = io.next() {
            assert!(matches!(completion.event, SocketEvent::Connected));
            timestamps[completion.key as usize] = Some(completion.at_ns);
        }
    }
    // On a busy machine, the kernel may occasionally defer the handshake.
    let within = timestamps.iter().zip(&calls);
    let within = within
        .filter(|(timestamp, call)| timestamp.is_some_and(|timestamp| call.contains(&timestamp)));
    let within = within.count();
    assert!(within > SOCKETS / 2, "{within} of {SOCKETS}");
}

pub(crate) fn a_unix_socket_hands_out_bytes_that_it_cannot_discard<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let script = vec![PeerStep::Write(pattern(300_000)), PeerStep::ReadToEnd];
    let peer = TestPeer::unix(vec![script]).expect("a unix listener");
    let token = client.connected(1, &peer.address);
    let unwanted = vec![10..200_000, 200_100..250_000];
    client.discard(token, unwanted, pattern(300_000));
    client.until("the bytes", |client| client.socket(token).seen == 300_000);
    assert_same(client.received(token), &pattern(300_000));
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn discarded_bytes_have_timestamps_too<K: Kernel>() {
    const MESSAGES: usize = 1_000;
    const LENGTH: usize = 100_000;
    let Some(mut client) = open::<K>() else {
        return;
    };
    let message = [PeerStep::Read(1), PeerStep::Write(pattern(LENGTH))];
    let mut script = vec![message; MESSAGES].concat();
    script.push(PeerStep::ReadToEnd);
    let peer = TestPeer::tcp("127.0.0.1:0", vec![script]).expect("a listener");
    let options = SocketOptions {
        timestamps: true,
        ..SocketOptions::default()
    };
    let token = client.connected_with(1, &peer.address, &options);
    let unwanted = (0..MESSAGES).map(|number| number * LENGTH + 1..(number + 1) * LENGTH);
    let stream = vec![pattern(LENGTH); MESSAGES].concat();
    client.discard(token, unwanted.collect(), stream);
    // The first packets after timestamps were enabled may have none.
    for number in 1..=MESSAGES {
        client.send_owned(token, *b"x");
        client.until("the message", |client| {
            client.socket(token).seen == number * LENGTH
        });
        if client.socket(token).discard_timestamps > 10 {
            break;
        }
    }
    assert!(
        client.socket(token).discard_timestamps > 10,
        "no timestamps"
    );
    client.closed(token, CloseMode::Abort);
}

pub(crate) fn a_reset_on_a_unix_socket_is_reported<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let peer = TestPeer::unix(vec![vec![PeerStep::Reset]]).expect("a unix listener");
    let token = client.connected(1, &peer.address);
    client.send_owned(token, *b"to nowhere");
    assert_eq!(client.receive_error(token), Some(libc::ECONNRESET));
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn bytes_are_sent_and_received_over_ipv6<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0));
    if testkit::require_ok("ipv6", listener).is_none() {
        return;
    }
    let peer = TestPeer::tcp("[::1]:0", vec![answering_script()]).expect("a listener");
    assert_echo_works(&mut client, &peer);
}

pub(crate) fn the_source_address_is_used<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
    let address = Address::Tcp(listener.local_addr().expect("it is bound"));
    let source = Ipv4Addr::new(127, 0, 0, 77);
    let options = SocketOptions {
        source: Some(source.into()),
        timestamps: K::TIMESTAMPS,
        path: false,
    };
    let token = client.connected_with(1, &address, &options);
    let (_, from) = listener.accept().expect("a connection");
    assert_eq!(from.ip(), source);
    client.closed(token, CloseMode::Abort);
}

pub(crate) fn binding_to_an_address_of_another_machine_fails<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let address = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    // TEST-NET-1 (RFC 5737) is not assigned to any host.
    let options = SocketOptions {
        source: Some(Ipv4Addr::new(192, 0, 2, 1).into()),
        timestamps: K::TIMESTAMPS,
        path: false,
    };
    let token = client.connect_with(1, &address, &options);
    assert_eq!(client.connect_error(token), Some(libc::EADDRNOTAVAIL));
}

pub(crate) fn a_wait_after_a_close_lasts_until_its_deadline<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let peer =
        TestPeer::tcp("127.0.0.1:0", vec![vec![PeerStep::ReadToEnd]; 3]).expect("a listener");
    for mode in [CloseMode::Graceful, CloseMode::Abort, CloseMode::Graceful] {
        let token = client.connected(1, &peer.address);
        client.closed(token, mode);
        // The kernel's reports of cancelled operations are not passed on to the caller.
        let until_ns = client.io.now_ns() + 20_000_000;
        client.io.wait(Some(until_ns)).expect("the loop works");
        let early = client.io.now_ns() < until_ns;
        assert!(client.io.next().is_none(), "nothing has happened");
        assert!(!early, "returned before the deadline with nothing to take");
        let until_ns = client.io.now_ns() + 5_000_000;
        client.io.wait_roughly(until_ns).expect("the loop works");
        let early = client.io.now_ns() < until_ns;
        assert!(!early, "returned before the rough deadline");
    }
}

const TIMESTAMPED: SocketOptions = SocketOptions {
    source: None,
    timestamps: true,
    path: false,
};

pub(crate) fn a_unix_socket_gives_no_timestamps_and_no_error<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let script = vec![PeerStep::Write(pattern(10_000)), PeerStep::ReadToEnd];
    let peer = TestPeer::unix(vec![script]).expect("a unix listener");
    let token = client.connected_with(1, &peer.address, &TIMESTAMPED);
    client.until("the bytes", |client| client.received(token).len() == 10_000);
    assert_same(client.received(token), &pattern(10_000));
    assert!(client.socket(token).timestamps.is_empty());
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn the_path_of_a_tcp_socket_is_known_until_it_is_closed<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let script = vec![PeerStep::Write(pattern(10)), PeerStep::ReadToEnd];
    let peer = TestPeer::tcp("127.0.0.1:0", vec![script.clone()]).expect("a listener");
    let options = SocketOptions {
        path: true,
        ..SocketOptions::default()
    };
    let token = client.connected_with(1, &peer.address, &options);
    client.until("the bytes", |client| client.received(token).len() == 10);
    let path = client.io.tcp_path(token).expect("the kernel has tcp_info");
    assert_eq!((path.retransmitted, path.out_of_order), (0, 0));
    // The handshake was a round trip.
    assert!(
        path.min_round_trip_us.is_some_and(|us| us < 1_000_000),
        "{path:?}"
    );
    client.closed(token, CloseMode::Graceful);
    assert_eq!(client.io.tcp_path(token), None);
    let peer = TestPeer::unix(vec![script]).expect("a unix listener");
    let token = client.connected_with(2, &peer.address, &options);
    assert_eq!(client.io.tcp_path(token), None);
    client.closed(token, CloseMode::Graceful);
}

/// How long the bytes are in the kernel before the loop reads them.
const KEPT_NS: u64 = 3_000_000;

pub(crate) fn a_timestamp_is_when_the_kernel_received_the_bytes<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
    let address = Address::Tcp(listener.local_addr().expect("it is bound"));
    let token = client.connected_with(1, &address, &TIMESTAMPED);
    let (mut far, _) = listener.accept().expect("a connection");
    let give_up_ns = client.io.now_ns() + crate::client::WAIT_LIMIT_NS;
    // The first packets after timestamps were enabled may have none.
    while client.socket(token).timestamps.is_empty() {
        let before_ns = client.io.now_ns();
        assert!(before_ns < give_up_ns, "there was never a timestamp");
        far.write_all(b"now").expect("there is room");
        let after_ns = client.io.now_ns();
        while client.io.now_ns() < after_ns + KEPT_NS {
            std::hint::spin_loop();
        }
        let length = client.received(token).len() + 3;
        client.until("the bytes", |client| client.received(token).len() == length);
        for (timestamp_ns, at_ns) in &client.socket(token).timestamps {
            let written_ns = before_ns - TIMESTAMP_ERROR_NS..=after_ns + TIMESTAMP_ERROR_NS;
            assert!(
                written_ns.contains(timestamp_ns),
                "{timestamp_ns}: {written_ns:?}"
            );
            assert!(
                *at_ns >= after_ns + KEPT_NS,
                "noticed before the loop was asked"
            );
        }
    }
    client.closed(token, CloseMode::Abort);
}

pub(crate) fn timestamps_stay_enabled_between_connections<K: Kernel>() {
    const BEFORE_MAX: usize = 5_000;
    const AFTER: usize = 100;
    let Some(mut client) = open::<K>() else {
        return;
    };
    let script = vec![PeerStep::Write(b"hello".to_vec()), PeerStep::ReadToEnd];
    let scripts = vec![script; BEFORE_MAX + AFTER];
    let peer = TestPeer::tcp("127.0.0.1:0", scripts).expect("a listener");
    let mut is_timestamped = || {
        let token = client.connected_with(1, &peer.address, &TIMESTAMPED);
        client.until("the bytes", |client| client.received(token).len() == 5);
        let is_timestamped = !client.socket(token).timestamps.is_empty();
        client.closed(token, CloseMode::Graceful);
        // The kernel enables timestamps after a delay, and also disables them after a delay.
        let in_a_while_ns = client.io.now_ns() + 1_000_000;
        client.turn(in_a_while_ns);
        is_timestamped
    };
    assert!(
        (0..BEFORE_MAX).any(|_| is_timestamped()),
        "there was never a timestamp"
    );
    let timestamped = (0..AFTER).filter(|_| is_timestamped()).count();
    // A disturbed reading of the clocks costs a timestamp.
    assert!(
        timestamped > AFTER / 2,
        "only {timestamped} of the next {AFTER} had a timestamp"
    );
}

/// Connects from `count` threads, sends a 4-byte number on each connection, and expects it back
/// reversed.
fn start_callers(address: SocketAddr, count: u32) -> Vec<JoinHandle<[u8; 4]>> {
    let call = move |number: u32| {
        let mut stream = TcpStream::connect(address).expect("there is a listener");
        let timeout = Some(Duration::from_secs(30));
        stream.set_read_timeout(timeout).expect("a timeout");
        stream.write_all(&number.to_be_bytes()).expect("a request");
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).expect("an answer");
        answer
    };
    (0..count)
        .map(|number| std::thread::spawn(move || call(number)))
        .collect()
}

/// Answers on every accepted socket that has a whole request, and records the sockets.
fn answer_requests<L: EventLoop>(client: &mut Client<L>, answered: &mut Vec<eventloop::Token>) {
    for token in client.accepted().to_vec() {
        if client.received(token).len() == 4 && !answered.contains(&token) {
            let mut answer = client.received(token).to_vec();
            answer.reverse();
            client.send_owned(token, answer);
            answered.push(token);
        }
    }
}

pub(crate) fn a_listener_takes_many_connections<K: Kernel>() {
    const CALLERS: u32 = 200;
    let Some(mut client) = open::<K>() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
    let address = listener.local_addr().expect("it is bound");
    let listened = client.io.listen(42, OwnedFd::from(listener));
    listened.expect("the listener is taken");
    let callers = start_callers(address, CALLERS);
    let mut answered = Vec::new();
    let give_up_ns = client.io.now_ns() + crate::client::WAIT_LIMIT_NS;
    while answered.len() < CALLERS as usize {
        assert!(
            client.io.now_ns() < give_up_ns,
            "some requests never arrived"
        );
        client.turn(give_up_ns);
        answer_requests(&mut client, &mut answered);
    }
    for token in &answered {
        assert_eq!(client.socket(*token).key, 42);
        client.until("the caller's close", |client| {
            client.socket(*token).end_of_stream
        });
        client.closed(*token, CloseMode::Graceful);
    }
    for (number, caller) in callers.into_iter().enumerate() {
        let answer = caller.join().expect("the caller was served");
        assert_eq!(u32::from_le_bytes(answer), number as u32);
    }
}

pub(crate) fn what_had_arrived_and_is_not_found_by_a_wait_is_announced<K: Kernel>() {
    // More than the loop has receive buffers, and more than the kernel reports in one call.
    const SOCKETS: usize = 150;
    let options = LoopOptions {
        sockets: 1,
        ..LoopOptions::default()
    };
    let Some(io) = K::open(&options) else {
        return;
    };
    let mut client = Client::new(io, K::TIMESTAMPS);
    let folder = Folder::new();
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).expect("a unix listener");
    let address = Address::Unix(path);
    let mut far = Vec::new();
    let tokens: Vec<_> = (0..SOCKETS as u32)
        .map(|key| {
            let token = client.connected(key, &address);
            far.push(listener.accept().expect("it is connected").0);
            token
        })
        .collect();
    for stream in &mut far {
        stream.write_all(b"early").expect("there is room");
    }
    let is_heard = |client: &Client<K::Loop>, token| client.received(token) == b"early";
    // Nothing is taken, so the buffers run out.
    for _ in 0..20 {
        let now_ns = client.io.now_ns();
        client.io.wait(Some(now_ns)).expect("the loop works");
    }
    client.turn_at_once();
    while !tokens.iter().all(|token| is_heard(&client, *token)) {
        assert!(client.io.has_more(), "the next wait might sleep");
        client.turn_at_once();
    }
    assert!(!client.io.has_more());
}

pub(crate) fn an_accepted_connection_that_was_closed_at_once_is_reported<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
    let address = listener.local_addr().expect("it is bound");
    let listened = client.io.listen(1, OwnedFd::from(listener));
    listened.expect("the listener is taken");
    // Data and FIN arrive before the loop looks for the first time.
    let mut stream = TcpStream::connect(address).expect("there is a listener");
    stream.write_all(b"bye").expect("there is room");
    drop(stream);
    client.until("the end of the stream", |client| {
        let first = client.accepted().first();
        first.is_some_and(|token| client.socket(*token).end_of_stream)
    });
    let token = client.accepted()[0];
    assert_eq!(client.received(token), b"bye");
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn each_of_two_listeners_reports_its_own_key<K: Kernel>() {
    let Some(mut client) = open::<K>() else {
        return;
    };
    let folder = Folder::new();
    let path = folder.join("socket");
    let unix = UnixListener::bind(&path).expect("a unix listener");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback works");
    let address = Address::Tcp(tcp.local_addr().expect("it is bound"));
    client.io.listen(1, OwnedFd::from(tcp)).expect("taken");
    client.io.listen(2, OwnedFd::from(unix)).expect("taken");
    // The loop is both ends here.
    for (key, address) in [(1, address), (2, Address::Unix(path))] {
        let near = client.connected(100, &address);
        client.until("the other end", |client| {
            client.accepted().len() == key as usize
        });
        let far = *client.accepted().last().expect("it was accepted");
        assert_eq!(client.socket(far).key, key);
        client.send_owned(near, *b"there");
        client.until("one way", |client| client.received(far) == b"there");
        client.send_owned(far, *b"and back");
        client.until("the other", |client| client.received(near) == b"and back");
        client.closed(far, CloseMode::Graceful);
        client.until("the end of the stream", |client| {
            client.socket(near).end_of_stream
        });
        client.closed(near, CloseMode::Graceful);
    }
}
