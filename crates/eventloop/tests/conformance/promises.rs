//! Rules that every backend follows, including the simulator.

use crate::backend::Backend;
use crate::client::{Client, Socket, WAIT_LIMIT_NS};
use crate::peer::{End, PeerStep, Report, Script, TestPeer};
use eventloop::{Address, CloseMode, EventLoop, LoopOptions, SocketEvent, SocketOptions, Token};

/// More than a kernel buffers for one socket.
const MIB_16: usize = 16 * 1024 * 1024;

/// Bytes that reveal a lost, doubled or exchanged piece: the period is prime.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// Compares long contents without printing them.
pub(crate) fn assert_same(got: &[u8], expected: &[u8]) {
    let differs = got.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "first difference");
    assert_eq!(got.len(), expected.len(), "length");
}

fn start<B: Backend>(scripts: Vec<Script>) -> Option<(Client<B::Loop>, TestPeer)> {
    B::start(&LoopOptions::default(), scripts)
}

fn report(received: impl Into<Vec<u8>>, end: End) -> Report {
    Report {
        number: 0,
        received: received.into(),
        end,
    }
}

/// Nothing is left half done: another exchange works, and the client would notice a late completion
/// of an older socket during it.
fn assert_exchange_works<L: EventLoop>(client: &mut Client<L>, peer: &TestPeer) {
    let token = client.connected(999, &peer.address);
    client.send_owned(token, *b"ping");
    client.until("the response", |client| client.received(token) == b"pong");
    client.closed(token, CloseMode::Graceful);
}

/// Closes each socket when it is `done`, in whatever order that happens.
fn close_all_when<L: EventLoop>(
    client: &mut Client<L>,
    mut tokens: Vec<Token>,
    done: impl Fn(&Socket) -> bool,
) {
    let give_up_ns = client.io.now_ns() + WAIT_LIMIT_NS;
    while !tokens.is_empty() {
        assert!(client.io.now_ns() < give_up_ns, "{} not done", tokens.len());
        client.turn(give_up_ns);
        tokens.retain(|token| {
            let is_done = done(client.socket(*token));
            if is_done {
                client.close(*token, CloseMode::Graceful);
            }
            !is_done
        });
    }
}

fn exchange() -> Script {
    vec![
        PeerStep::Read(4),
        PeerStep::Write(b"pong".to_vec()),
        PeerStep::ReadToEnd,
    ]
}

pub(crate) fn bytes_are_sent_and_received<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![exchange()]) else {
        return;
    };
    let token = client.connected(7, &peer.address);
    client.send_owned(token, *b"ping");
    client.until("the response", |client| client.received(token) == b"pong");
    client.closed(token, CloseMode::Graceful);
    assert_eq!(peer.report(&mut client), report(*b"ping", End::Fin));
}

pub(crate) fn a_refused_connection_fails_with_econnrefused<B: Backend>() {
    let Some((mut client, address)) = B::start_deserted() else {
        return;
    };
    let tokens: Vec<_> = (0..20).map(|key| client.connect(key, &address)).collect();
    for token in tokens {
        assert_eq!(client.connect_error(token), Some(libc::ECONNREFUSED));
    }
}

pub(crate) fn a_failed_connection_leaves_the_loop_usable<B: Backend>() {
    let Some((mut client, address)) = B::start_deserted() else {
        return;
    };
    let mut last: Option<Token> = None;
    for round in 0..100 {
        let token = client.connect(round, &address);
        assert_ne!(last.replace(token), Some(token), "tokens are used once");
        client.connect_error(token);
    }
    // Dead tokens need no close, and report nothing.
    let token = last.expect("at least one round");
    client.io.close(token, CloseMode::Graceful);
    client.turn_at_once();
    assert!(!client.socket(token).closed);
}

pub(crate) fn a_reset_by_the_peer_ends_receiving_with_an_error<B: Backend>() {
    let scripts = vec![vec![PeerStep::Reset], exchange()];
    let Some((mut client, peer)) = start::<B>(scripts) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    client.send_owned(token, *b"to nowhere");
    assert_eq!(client.receive_error(token), Some(libc::ECONNRESET));
    client.closed(token, CloseMode::Graceful);
    assert_exchange_works(&mut client, &peer);
}

pub(crate) fn a_reset_with_sends_in_flight_is_reported<B: Backend>() {
    let scripts = vec![vec![PeerStep::Reset], exchange()];
    let Some((mut client, peer)) = start::<B>(scripts) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let shared = client.io.share(pattern(MIB_16));
    client.send_shared(token, shared, 0..MIB_16);
    client.send_owned(token, pattern(MIB_16));
    client.until("the reset", |client| client.socket(token).broken());
    client.closed(token, CloseMode::Abort);
    assert!(client.socket(token).sent.is_empty());
    assert_exchange_works(&mut client, &peer);
}

pub(crate) fn after_half_close_by_the_peer_we_can_still_send<B: Backend>() {
    let script = vec![
        PeerStep::Write(b"farewell".to_vec()),
        PeerStep::Finish,
        PeerStep::ReadToEnd,
    ];
    let Some((mut client, peer)) = start::<B>(vec![script]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    client.until("the end of the stream", |client| {
        client.socket(token).end_of_stream
    });
    assert_eq!(client.received(token), b"farewell");
    client.send_owned(token, *b"heard you");
    client.until("the send", |client| client.socket(token).sent.len() == 1);
    client.closed(token, CloseMode::Graceful);
    assert_eq!(peer.report(&mut client), report(*b"heard you", End::Fin));
}

pub(crate) fn sixteen_mib_in_an_owned_buffer_arrive_whole_and_in_order<B: Backend>() {
    // The gate ensures that the socket is full before anything is read.
    let script = vec![PeerStep::Gate, PeerStep::ReadToEndSlowly];
    let Some((mut client, peer)) = start::<B>(vec![script]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    client.send_owned(token, pattern(MIB_16));
    client.turn_at_once();
    assert!(
        client.socket(token).sent.is_empty(),
        "no kernel accepts all of it"
    );
    peer.open_gate();
    client.until("the send", |client| client.socket(token).sent.len() == 1);
    assert_same(&client.socket(token).sent[0], &pattern(MIB_16));
    client.io.shutdown_send(token);
    let report = peer.report(&mut client);
    assert_same(&report.received, &pattern(MIB_16));
    assert_eq!(report.end, End::Fin);
}

pub(crate) fn sixteen_mib_of_shared_bytes_arrive_whole_and_in_order<B: Backend>() {
    let script = vec![PeerStep::Gate, PeerStep::ReadToEndSlowly];
    let Some((mut client, peer)) = start::<B>(vec![script]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let shared = client.io.share(pattern(MIB_16));
    client.send_shared(token, shared, 0..MIB_16);
    client.io.shutdown_send(token);
    client.turn_at_once();
    peer.open_gate();
    let report = peer.report(&mut client);
    assert_same(&report.received, &pattern(MIB_16));
    assert_eq!(report.end, End::Fin);
}

pub(crate) fn queued_sends_keep_their_order_when_the_socket_is_full<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::Gate, PeerStep::ReadToEnd]])
    else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let shared = client.io.share(pattern(3_000_017));
    let mut expected = Vec::new();
    let mut owned = 0;
    for round in 0..30_usize {
        if round % 3 == 0 {
            let bytes = vec![round as u8; 200_003 + round];
            expected.extend_from_slice(&bytes);
            client.send_owned(token, bytes);
            owned += 1;
        } else {
            let range = round * 1_009..round * 50_021 + 70_000;
            expected.extend_from_slice(&pattern(3_000_017)[range.clone()]);
            client.send_shared(token, shared, range);
        }
    }
    client.io.shutdown_send(token);
    client.turn_at_once();
    peer.open_gate();
    let report = peer.report(&mut client);
    assert_same(&report.received, &expected);
    client.until("the buffers", |client| {
        client.socket(token).sent.len() == owned
    });
}

pub(crate) fn many_small_sends_in_one_go_keep_their_order<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::ReadToEnd]]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let shared = client.io.share(pattern(1_000));
    let mut expected = Vec::new();
    // More than any submission queue holds.
    for round in 0..3_000_usize {
        let range = round % 900..round % 900 + 1 + round % 97;
        expected.extend_from_slice(&pattern(1_000)[range.clone()]);
        client.send_shared(token, shared, range);
    }
    client.io.shutdown_send(token);
    assert_same(&peer.report(&mut client).received, &expected);
}

pub(crate) fn sends_of_two_waits_keep_their_order_behind_a_full_socket<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::Gate, PeerStep::ReadToEnd]])
    else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let shared = client.io.share(pattern(8_000_000));
    let mut expected = Vec::new();
    for turn in 0..4_usize {
        let range = turn * 7..7_999_000 + turn;
        expected.extend_from_slice(&pattern(8_000_000)[range.clone()]);
        client.send_shared(token, shared, range);
        expected.extend_from_slice(&[turn as u8; 3]);
        client.send_owned(token, [turn as u8; 3]);
        client.turn_at_once();
    }
    client.io.shutdown_send(token);
    peer.open_gate();
    assert_same(&peer.report(&mut client).received, &expected);
}

pub(crate) fn a_flood_of_other_operations_does_not_change_the_order<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::Gate, PeerStep::ReadToEnd]])
    else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let shared = client.io.share(pattern(MIB_16));
    client.send_shared(token, shared, 0..MIB_16);
    // More than fit into a submission queue, so that a part of them is submitted early.
    let nowhere = Address::Unix("/nonexistent/socket".into());
    for key in 0..3_000 {
        client.connect(key, &nowhere);
    }
    client.send_shared(token, shared, 0..1_000);
    client.io.shutdown_send(token);
    client.turn_at_once();
    peer.open_gate();
    let expected = [pattern(MIB_16), pattern(1_000)].concat();
    assert_same(&peer.report(&mut client).received, &expected);
}

pub(crate) fn sends_between_waits_without_taking_completions_keep_their_order<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::Gate, PeerStep::ReadToEnd]])
    else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let shared = client.io.share(pattern(MIB_16));
    client.send_shared(token, shared, 0..MIB_16);
    for _ in 0..3 {
        let now_ns = client.io.now_ns();
        client.io.wait(Some(now_ns)).expect("the loop works");
        client.send_shared(token, shared, 0..1_000);
    }
    client.io.shutdown_send(token);
    client.turn_at_once();
    peer.open_gate();
    let expected = [pattern(MIB_16), pattern(1_000).repeat(3)].concat();
    assert_same(&peer.report(&mut client).received, &expected);
}

pub(crate) fn sends_before_the_connection_is_established_are_delivered<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::ReadToEnd]]) else {
        return;
    };
    let token = client.connect(1, &peer.address);
    let shared = client.io.share(b"0123456789".to_vec());
    client.send_shared(token, shared, 0..5);
    client.send_owned(token, *b"abc");
    client.send_shared(token, shared, 5..10);
    client.io.shutdown_send(token);
    assert_eq!(
        peer.report(&mut client),
        report(*b"01234abc56789", End::Fin)
    );
    client.until("the buffer", |client| client.socket(token).sent.len() == 1);
}

pub(crate) fn data_before_the_peers_close_comes_first<B: Backend>() {
    let length = 3 * 1024 * 1024 + 5;
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::Write(pattern(length))]]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    client.until("the end of the stream", |client| {
        client.socket(token).end_of_stream
    });
    assert_same(client.received(token), &pattern(length));
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn a_close_with_everything_in_flight_yields_one_closed_and_nothing_more<B: Backend>() {
    for mode in [CloseMode::Graceful, CloseMode::Abort] {
        let busy = vec![
            PeerStep::Write(pattern(64 * 1024)),
            PeerStep::Gate,
            PeerStep::ReadToEnd,
        ];
        let Some((mut client, peer)) = start::<B>(vec![busy, exchange()]) else {
            return;
        };
        let token = client.connected(1, &peer.address);
        client.send_owned(token, pattern(MIB_16));
        client.send_owned(token, *b"behind it");
        client.until("some data", |client| !client.received(token).is_empty());
        // Completions that have not been taken yet must not be reported after the close.
        let now_ns = client.io.now_ns();
        client.io.wait(Some(now_ns)).expect("the loop works");
        client.closed(token, mode);
        peer.open_gate();
        assert_exchange_works(&mut client, &peer);
    }
}

pub(crate) fn a_close_during_connect_ends_the_token_once<B: Backend>() {
    for mode in [CloseMode::Graceful, CloseMode::Abort] {
        // The first connection may or may not reach the peer.
        let scripts = vec![vec![PeerStep::ReadToEnd], exchange(), exchange()];
        let Some((mut client, peer)) = start::<B>(scripts) else {
            return;
        };
        let token = client.connect(1, &peer.address);
        client.send_owned(token, *b"too early");
        client.closed(token, mode);
        assert!(!client.socket(token).connected);
        let again = client.connected(1, &peer.address);
        client.closed(again, CloseMode::Abort);
    }
    // A connection that would fail ends as closed or as failed, but only once.
    let Some((mut client, address)) = B::start_deserted() else {
        return;
    };
    for key in 0..100 {
        let token = client.connect(key, &address);
        client.close(token, CloseMode::Graceful);
        client.until("the end", |client| {
            client.socket(token).closed || client.socket(token).connect_failed.is_some()
        });
    }
}

pub(crate) fn a_closed_token_takes_no_calls_and_reports_nothing<B: Backend>() {
    let scripts = vec![exchange(), exchange()];
    let Some((mut client, peer)) = start::<B>(scripts) else {
        return;
    };
    let old = client.connected(1, &peer.address);
    client.closed(old, CloseMode::Graceful);
    // The new socket may have the index of the old one. Completions of the old one must not reach
    // it.
    let new = client.connected(1, &peer.address);
    assert_ne!(old, new);
    let shared = client.io.share(b"stray".to_vec());
    client.send_owned(old, *b"stray");
    client.send_shared(old, shared, 0..5);
    client.io.shutdown_send(old);
    client.io.close(old, CloseMode::Abort);
    client.send_owned(new, *b"ping");
    client.until("the response", |client| client.received(new) == b"pong");
    client.closed(new, CloseMode::Graceful);
    let reports = peer.reports(&mut client, 2);
    assert_eq!(reports[1].received, b"ping");
}

pub(crate) fn the_same_key_reconnects_at_once_a_thousand_times<B: Backend>() {
    const ROUNDS: usize = 1_000;
    let script = vec![PeerStep::Write(pattern(4_096)), PeerStep::ReadToEnd];
    let Some((mut client, peer)) = start::<B>(vec![script; ROUNDS]) else {
        return;
    };
    let shared = client.io.share(pattern(512));
    let mut tokens = vec![client.connected(1, &peer.address)];
    while tokens.len() < ROUNDS {
        let old = *tokens.last().expect("there is one");
        // Everything is in flight when the socket is closed and its successor is started.
        client.send_shared(old, shared, 0..512);
        client.send_owned(old, *b"late");
        if tokens.len().is_multiple_of(3) {
            client.until("some data", |client| !client.received(old).is_empty());
        }
        let mode = match tokens.len() % 2 {
            0 => CloseMode::Graceful,
            _ => CloseMode::Abort,
        };
        client.close(old, mode);
        let new = client.connected(1, &peer.address);
        assert_eq!(client.socket(new).key, 1);
        tokens.push(new);
    }
    let last = tokens[ROUNDS - 1];
    client.until("the last data", |client| {
        client.received(last).len() == 4_096
    });
    assert_same(client.received(last), &pattern(4_096));
    client.closed(last, CloseMode::Graceful);
    client.until("every close", |client| {
        tokens.iter().all(|token| client.socket(*token).closed)
    });
    assert_eq!(peer.reports(&mut client, ROUNDS).len(), ROUNDS);
}

pub(crate) fn more_data_than_receive_buffers_arrives_completely<B: Backend>() {
    const SOCKETS: usize = 200;
    let length = 40_000;
    // The fewest and smallest buffers that a loop accepts.
    let options = LoopOptions {
        sockets: 1,
        receive_buffer_bytes: 64,
        ..LoopOptions::default()
    };
    let script = vec![
        PeerStep::Read(1),
        PeerStep::Write(pattern(length)),
        PeerStep::ReadToEnd,
    ];
    let Some((mut client, peer)) = B::start(&options, vec![script; SOCKETS]) else {
        return;
    };
    let tokens: Vec<_> = (0..SOCKETS as u32)
        .map(|key| client.connect(key, &peer.address))
        .collect();
    for token in &tokens {
        client.send_owned(*token, *b"x");
    }
    close_all_when(&mut client, tokens, |socket| {
        assert_eq!(socket.connect_failed, None);
        if socket.received.len() >= length {
            assert_same(&socket.received, &pattern(length));
        }
        socket.received.len() >= length
    });
    assert_eq!(peer.reports(&mut client, SOCKETS).len(), SOCKETS);
}

pub(crate) fn a_deadline_passes_when_nothing_happens<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::ReadToEnd]]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    for wait_ns in [1_000, 50_000, 1_000_000, 20_000_000] {
        let until_ns = client.io.now_ns() + wait_ns;
        client.io.wait(Some(until_ns)).expect("the loop works");
        assert!(
            client.io.now_ns() >= until_ns,
            "returned before the deadline"
        );
        assert!(client.io.next().is_none(), "nothing has happened");
    }
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn a_deadline_in_the_past_returns_at_once<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::ReadToEnd]]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    // Enough that a wait of any length would be noticed as a test that does not end.
    for _ in 0..10_000 {
        let now_ns = client.io.now_ns();
        client.io.wait(Some(now_ns)).expect("the loop works");
        client.io.wait(Some(now_ns / 2)).expect("the loop works");
        client.io.wait(Some(0)).expect("the loop works");
        assert!(client.io.next().is_none());
    }
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn received_bytes_stay_until_the_next_completion_is_asked_for<B: Backend>() {
    // It waits for a byte. Otherwise its own byte could arrive together with the handshake.
    let scripts = vec![
        vec![
            PeerStep::Read(1),
            PeerStep::Write(b"keep me".to_vec()),
            PeerStep::ReadToEnd,
        ],
        vec![PeerStep::Write(b"another".to_vec()), PeerStep::ReadToEnd],
    ];
    let Some((mut client, peer)) = start::<B>(scripts) else {
        return;
    };
    let first = client.connected(1, &peer.address);
    let byte = client.io.share(b"x".to_vec());
    client.send_shared(first, byte, 0..1);
    let mut got = Vec::new();
    let give_up_ns = client.io.now_ns() + WAIT_LIMIT_NS;
    while got.len() < 7 {
        assert!(client.io.now_ns() < give_up_ns, "no data");
        if let Some(completion) = client.io.next() {
            assert!(matches!(completion.event, SocketEvent::Received(_)));
            got.extend_from_slice(client.io.received());
            let lent = client.io.received().to_vec();
            let delay_ns = client.io.receive_delay_ns();
            // None of these ends the loan.
            client.send_owned(first, *b"thank you");
            let second = client.connect(2, &peer.address);
            client.io.now_ns();
            assert_eq!(client.io.received(), lent);
            client.io.close(second, CloseMode::Abort);
            client.io.close(first, CloseMode::Graceful);
            assert_eq!(client.io.received(), lent, "not even closing its socket");
            assert_eq!(client.io.receive_delay_ns(), delay_ns);
            assert!(b"keep me".starts_with(&lent));
            break;
        }
        assert!(client.io.received().is_empty(), "nothing is lent");
        assert_eq!(client.io.receive_delay_ns(), None);
        client.io.wait(Some(give_up_ns)).expect("the loop works");
        assert!(client.io.received().is_empty(), "nothing is lent");
    }
    assert!(!got.is_empty());
}

pub(crate) fn only_sockets_with_timestamps_enabled_get_them<B: Backend>() {
    const ROUNDS: usize = 5_000;
    let rounds = vec![exchange()[..2].to_vec(); ROUNDS].concat();
    let Some((mut client, peer)) = start::<B>(vec![rounds.clone(), rounds]) else {
        return;
    };
    let [timestamped, plain] = [true, false].map(|timestamps| {
        let options = SocketOptions {
            timestamps,
            ..SocketOptions::default()
        };
        client.connected_with(1, &peer.address, &options)
    });
    // The first packets after timestamps were enabled may have none.
    for round in 1..=ROUNDS {
        for token in [timestamped, plain] {
            client.send_owned(token, *b"ping");
            client.until("the response", |client| {
                client.received(token).len() == 4 * round
            });
        }
        if client.socket(timestamped).timestamps.len() > 10 {
            break;
        }
        let in_a_while_ns = client.io.now_ns() + 1_000_000;
        client.turn(in_a_while_ns);
    }
    assert!(
        client.socket(timestamped).timestamps.len() > 10,
        "no timestamps"
    );
    assert!(client.socket(plain).timestamps.is_empty());
    for token in [timestamped, plain] {
        client.closed(token, CloseMode::Abort);
    }
}

/// Length of a message whose beginning and end are wanted.
const LONG_MESSAGE: usize = 300_000;

/// A stream of `count` long messages, and the parts of it that are not wanted.
fn long_messages(count: usize) -> (Vec<u8>, Vec<std::ops::Range<usize>>) {
    let starts = (0..count).map(|number| number * LONG_MESSAGE);
    let unwanted = starts.map(|start| start + 100..start + LONG_MESSAGE - 7);
    (pattern(count * LONG_MESSAGE), unwanted.collect())
}

/// Every byte was seen once, and no wanted byte was discarded. The client has checked the rest.
fn assert_all_seen(socket: &Socket, length: usize) {
    let discarded: usize = socket.discarded.iter().map(std::ops::Range::len).sum();
    assert_eq!(socket.received.len() + discarded, length);
}

pub(crate) fn unwanted_bytes_are_discarded_and_all_others_received<B: Backend>() {
    const MESSAGES: usize = 8;
    let (stream, unwanted) = long_messages(MESSAGES);
    let mut script = Vec::new();
    for message in stream.chunks(LONG_MESSAGE) {
        script.extend([PeerStep::Read(1), PeerStep::Write(message.to_vec())]);
    }
    script.push(PeerStep::ReadToEnd);
    let Some((mut client, peer)) = start::<B>(vec![script]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let length = stream.len();
    client.discard(token, unwanted, stream);
    for message in 1..=MESSAGES {
        client.send_owned(token, *b"x");
        client.until("the message", |client| {
            client.socket(token).seen >= message * LONG_MESSAGE
        });
    }
    let socket = client.socket(token);
    assert_all_seen(socket, length);
    assert!(
        socket.received.len() < length / 2,
        "received {} of {length}: most of it is not wanted",
        socket.received.len()
    );
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn discarding_ends_where_the_unwanted_bytes_end<B: Backend>() {
    // All at once: what follows the unwanted bytes has already arrived.
    let (stream, unwanted) = long_messages(5);
    let script = vec![
        PeerStep::Read(1),
        PeerStep::Write(stream.clone()),
        PeerStep::ReadToEnd,
    ];
    let Some((mut client, peer)) = start::<B>(vec![script]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let length = stream.len();
    client.discard(token, unwanted, stream);
    client.send_owned(token, *b"x");
    client.until("the stream", |client| client.socket(token).seen >= length);
    assert_all_seen(client.socket(token), length);
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn a_short_message_after_a_discarded_one_is_received<B: Backend>() {
    let (mut stream, unwanted) = long_messages(1);
    let mut script = vec![PeerStep::Read(1), PeerStep::Write(stream.clone())];
    let lengths = [1, 5, 2_000, 3_000, 90_000, 4, 70_000, 2_048, 2_049];
    for length in lengths {
        script.extend([PeerStep::Read(1), PeerStep::Write(pattern(length))]);
        stream.extend(pattern(length));
    }
    script.push(PeerStep::ReadToEnd);
    let Some((mut client, peer)) = start::<B>(vec![script]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    client.discard(token, unwanted, stream);
    let mut until = 0;
    for length in [LONG_MESSAGE].into_iter().chain(lengths) {
        until += length;
        client.send_owned(token, *b"x");
        client.until("the message", |client| client.socket(token).seen == until);
    }
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn the_end_of_the_stream_within_unwanted_bytes_is_reported<B: Backend>() {
    let (stream, unwanted) = long_messages(1);
    let script = vec![
        PeerStep::Read(1),
        PeerStep::Write(stream[..200_000].to_vec()),
    ];
    let Some((mut client, peer)) = start::<B>(vec![script, exchange()]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    client.discard(token, unwanted, stream);
    client.send_owned(token, *b"x");
    client.until("the end of the stream", |client| {
        client.socket(token).end_of_stream
    });
    assert_all_seen(client.socket(token), 200_000);
    client.closed(token, CloseMode::Graceful);
    assert_exchange_works(&mut client, &peer);
}

pub(crate) fn a_socket_that_discards_can_be_closed_at_any_time<B: Backend>() {
    const SOCKETS: usize = 60;
    let (stream, unwanted) = long_messages(1);
    let script = vec![
        PeerStep::Read(1),
        PeerStep::Write(stream[..200_000].to_vec()),
        PeerStep::ReadToEnd,
    ];
    let mut scripts = vec![script; SOCKETS];
    scripts.push(exchange());
    let Some((mut client, peer)) = start::<B>(scripts) else {
        return;
    };
    for number in 0..SOCKETS {
        let token = client.connected(1, &peer.address);
        client.discard(token, unwanted.clone(), stream.clone());
        client.send_owned(token, *b"x");
        let enough = 3_000 * number;
        client.until("some bytes", |client| client.socket(token).seen > enough);
        let mode = match number % 2 {
            0 => CloseMode::Abort,
            _ => CloseMode::Graceful,
        };
        client.closed(token, mode);
    }
    assert_exchange_works(&mut client, &peer);
}

pub(crate) fn the_requested_parts_of_shared_bytes_are_sent<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::ReadToEnd]]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let letters = client.io.share(b"abcdefghij".to_vec());
    let digits = client.io.share(b"0123456789".to_vec());
    for range in [0..1, 9..10, 3..7, 0..10] {
        client.send_shared(token, letters, range.clone());
        client.send_shared(token, digits, range);
    }
    client.closed_after_sending(token);
    let expected = *b"a0j9defg3456abcdefghij0123456789";
    let report_ = peer.report(&mut client);
    assert_eq!(report_, report(expected, End::Fin));
}

pub(crate) fn empty_payloads_are_harmless<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::ReadToEnd]]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let shared = client.io.share(b"x".to_vec());
    client.send_owned(token, Vec::new());
    client.send_shared(token, shared, 1..1);
    client.send_owned(token, *b"a");
    client.send_shared(token, shared, 0..0);
    client.send_owned(token, Vec::new());
    client.send_owned(token, *b"b");
    client.until("the buffers", |client| client.socket(token).sent.len() == 4);
    client.closed_after_sending(token);
    assert_eq!(peer.report(&mut client), report(*b"ab", End::Fin));
}

pub(crate) fn a_thousand_sockets_work_at_once<B: Backend>() {
    const SOCKETS: usize = 1_000;
    let options = LoopOptions {
        sockets: SOCKETS as u32,
        receive_buffer_bytes: 4_096,
        ..LoopOptions::default()
    };
    let Some((mut client, peer)) = B::start(&options, vec![exchange(); SOCKETS]) else {
        return;
    };
    let tokens: Vec<_> = (0..SOCKETS as u32)
        .map(|key| client.connect(key, &peer.address))
        .collect();
    client.until("every connection", |client| {
        tokens.iter().all(|token| client.socket(*token).connected)
    });
    let indexes: std::collections::HashSet<_> = tokens.iter().map(|token| token.index).collect();
    assert_eq!(
        indexes.len(),
        SOCKETS,
        "open sockets have indexes of their own"
    );
    assert!(
        indexes.iter().all(|index| (*index as usize) < 2 * SOCKETS),
        "indexes are dense"
    );
    for token in &tokens {
        client.send_owned(*token, *b"ping");
    }
    close_all_when(&mut client, tokens, |socket| socket.received == b"pong");
    let reports = peer.reports(&mut client, SOCKETS);
    assert!(reports.iter().all(|report| report.received == b"ping"));
}

pub(crate) fn an_abort_sends_reset<B: Backend>() {
    let script = vec![
        PeerStep::Read(4),
        PeerStep::Write(b"go".to_vec()),
        PeerStep::ReadToEnd,
    ];
    let Some((mut client, peer)) = start::<B>(vec![script]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    client.send_owned(token, *b"ping");
    client.until("the response", |client| client.received(token) == b"go");
    client.closed(token, CloseMode::Abort);
    assert_eq!(peer.report(&mut client), report(*b"ping", End::Reset));
}

pub(crate) fn a_graceful_close_delivers_what_was_sent<B: Backend>() {
    let scripts = vec![vec![PeerStep::ReadToEnd]; 2];
    let Some((mut client, peer)) = start::<B>(scripts) else {
        return;
    };
    let shared = client.io.share(pattern(4_000));
    let first = client.connected(1, &peer.address);
    client.send_shared(first, shared, 0..4_000);
    client.closed(first, CloseMode::Graceful);
    let second = client.connected(1, &peer.address);
    client.send_owned(second, pattern(4_000));
    client.until("the send", |client| client.socket(second).sent.len() == 1);
    client.closed(second, CloseMode::Graceful);
    for report in peer.reports(&mut client, 2) {
        assert_same(&report.received, &pattern(4_000));
        assert_eq!(report.end, End::Fin);
    }
}

pub(crate) fn a_graceful_close_delivers_what_is_queued_behind_other_sends<B: Backend>() {
    let scripts = vec![vec![PeerStep::ReadToEnd]; 4];
    let Some((mut client, peer)) = start::<B>(scripts) else {
        return;
    };
    let shared = client.io.share(pattern(4_000));
    for shared_first in [false, true] {
        for waits in [false, true] {
            let token = client.connected(1, &peer.address);
            if shared_first {
                client.send_shared(token, shared, 0..1_000);
            } else {
                client.send_owned(token, &pattern(4_000)[..1_000]);
            }
            if waits {
                // Submits the send. Its result is not taken.
                let now_ns = client.io.now_ns();
                client.io.wait(Some(now_ns)).expect("the loop works");
            }
            client.send_owned(token, &pattern(4_000)[1_000..2_000]);
            client.send_shared(token, shared, 2_000..3_000);
            client.send_owned(token, &pattern(4_000)[3_000..]);
            client.closed(token, CloseMode::Graceful);
        }
    }
    for report in peer.reports(&mut client, 4) {
        assert_same(&report.received, &pattern(4_000));
        assert_eq!(report.end, End::Fin);
    }
}

pub(crate) fn an_abort_behind_queued_sends_resets<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::ReadToEnd]]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    client.send_owned(token, *b"first");
    client.send_owned(token, *b"second");
    client.closed(token, CloseMode::Abort);
    assert_eq!(peer.report(&mut client).end, End::Reset);
}

pub(crate) fn a_close_behind_a_full_socket_does_not_wait_and_sends_nothing_out_of_order<
    B: Backend,
>() {
    let script = vec![PeerStep::Gate, PeerStep::ReadToEnd];
    let Some((mut client, peer)) = start::<B>(vec![script]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    client.send_owned(token, pattern(MIB_16));
    client.turn_at_once();
    client.send_owned(token, *b"behind");
    client.closed(token, CloseMode::Graceful);
    // The second turn lets a loop end what the first has begun.
    for _ in 0..2 {
        client.turn_at_once();
    }
    peer.open_gate();
    let report = peer.report(&mut client);
    assert!(report.received.len() < MIB_16);
    assert_same(&report.received, &pattern(MIB_16)[..report.received.len()]);
}

pub(crate) fn owned_buffers_come_back_unchanged_and_once<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(vec![vec![PeerStep::ReadToEnd]]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let mut places = Vec::new();
    for number in 0..50_u8 {
        let mut buffer = Vec::with_capacity(10_000);
        buffer.resize(5_000, number);
        places.push(buffer.as_ptr());
        client.send_owned(token, buffer);
    }
    client.until("the buffers", |client| {
        client.socket(token).sent.len() >= 50
    });
    client.closed_after_sending(token);
    peer.report(&mut client);
    let sent = &client.socket(token).sent;
    assert_eq!(sent.len(), 50);
    for (number, (buffer, place)) in sent.iter().zip(places).enumerate() {
        assert_eq!(buffer.as_ptr(), place, "the same memory");
        assert!(buffer.capacity() >= 10_000, "with its room");
        assert_same(buffer, &[number as u8; 5_000]);
    }
}

pub(crate) fn ending_the_sending_side_delivers_what_was_queued_first<B: Backend>() {
    let script = vec![
        PeerStep::Gate,
        PeerStep::ReadToEnd,
        PeerStep::Write(b"all heard".to_vec()),
    ];
    let Some((mut client, peer)) = start::<B>(vec![script]) else {
        return;
    };
    let token = client.connected(1, &peer.address);
    let shared = client.io.share(pattern(1_000));
    client.send_owned(token, pattern(MIB_16));
    client.send_shared(token, shared, 0..1_000);
    client.io.shutdown_send(token);
    client.turn_at_once();
    peer.open_gate();
    // The socket still receives after it has sent FIN.
    client.until("the end of the stream", |client| {
        client.socket(token).end_of_stream
    });
    assert_eq!(client.received(token), b"all heard");
    let report = peer.report(&mut client);
    let expected = [pattern(MIB_16), pattern(1_000)].concat();
    assert_same(&report.received, &expected);
    assert_eq!(report.end, End::Fin);
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn a_loop_is_dropped_with_operations_in_flight<B: Backend>() {
    const SOCKETS: usize = 10;
    let script = vec![
        PeerStep::Read(1),
        PeerStep::Write(pattern(64 * 1024)),
        PeerStep::Gate,
        PeerStep::ReadToEnd,
    ];
    let Some((mut client, peer)) = start::<B>(vec![script; SOCKETS]) else {
        return;
    };
    let tokens: Vec<_> = (0..SOCKETS as u32)
        .map(|key| client.connected(key, &peer.address))
        .collect();
    let shared = client.io.share(pattern(MIB_16));
    for token in &tokens {
        client.send_shared(*token, shared, 0..MIB_16);
        client.send_owned(*token, pattern(100_000));
    }
    client.until("some data", |client| {
        tokens
            .iter()
            .all(|token| !client.received(*token).is_empty())
    });
    // One socket is closing and one is connecting when the loop is dropped.
    client.close(tokens[0], CloseMode::Graceful);
    client.connect(99, &peer.address);
    drop(client);
    peer.open_gate();
    drop(peer);
}
