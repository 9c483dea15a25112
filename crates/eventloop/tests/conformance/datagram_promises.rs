//! Rules of datagram sockets.

use crate::backend::Backend;
use crate::client::{Client, WAIT_LIMIT_NS};
use crate::datagram_peer::{Answer, Batch, DatagramPeer};
use crate::peer::PeerStep;
use crate::promises::{assert_same, pattern};
use eventloop::{CloseMode, EventLoop, LoopOptions, Payload, SocketEvent, SocketOptions, Token};
use std::sync::atomic::{AtomicU8, Ordering};

/// The shortest packet that every path of QUIC carries.
const SEGMENT: usize = 1200;

/// The longest datagram over IPv4.
const LONGEST: usize = 65_507;

fn start<B: Backend>(answer: Answer) -> Option<(Client<B::Loop>, DatagramPeer)> {
    start_with::<B>(&LoopOptions::default(), answer)
}

fn with_and_without_offload() -> [LoopOptions; 2] {
    [true, false].map(|segmentation_offload| LoopOptions {
        segmentation_offload,
        ..LoopOptions::default()
    })
}

fn start_with<B: Backend>(
    options: &LoopOptions,
    answer: Answer,
) -> Option<(Client<B::Loop>, DatagramPeer)> {
    let (client, _, peer) = B::start_both(options, Vec::new(), answer)?;
    Some((client, peer))
}

/// A peer that does not listen yet, at an address that no other test uses.
fn deserted<B: Backend>() -> Option<(Client<B::Loop>, DatagramPeer)> {
    static HOSTS: AtomicU8 = AtomicU8::new(1);
    let host = [127, 98, 0, HOSTS.fetch_add(1, Ordering::Relaxed)];
    let (client, peer) = start::<B>(Answer::Echo)?;
    Some((client, peer.into_deserted(host.into())))
}

fn connected<L: EventLoop>(client: &mut Client<L>, peer: &DatagramPeer) -> Token {
    let token = client.connect_datagrams(1, peer.address);
    client.until("the socket", |client| client.socket(token).connected);
    token
}

/// Waits until the socket has received this many datagrams, and returns them.
fn await_datagrams<L: EventLoop>(
    client: &mut Client<L>,
    token: Token,
    count: usize,
) -> Vec<Vec<u8>> {
    client.until("the datagrams", |client| {
        client.socket(token).datagrams.len() >= count
    });
    client.socket(token).datagrams.clone()
}

fn assert_same_datagrams(got: &[Vec<u8>], expected: &[Vec<u8>]) {
    let lengths = |datagrams: &[Vec<u8>]| datagrams.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(got), lengths(expected));
    for (got, expected) in got.iter().zip(expected) {
        assert_same(got, expected);
    }
}

fn chunks(bytes: &[u8], segment: usize) -> Vec<Vec<u8>> {
    bytes.chunks(segment).map(<[u8]>::to_vec).collect()
}

/// Nothing is left half done: another socket works.
fn assert_echo_works<L: EventLoop>(client: &mut Client<L>, peer: &DatagramPeer) {
    let token = connected(client, peer);
    client.send_datagrams(token, *b"ping", 0);
    let datagrams = await_datagrams(client, token, 1);
    assert_eq!(datagrams, [b"ping"]);
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn datagrams_arrive_whole_and_in_order<B: Backend>() {
    const AT_ONCE: usize = 10;
    let Some((mut client, peer)) = start::<B>(Answer::Echo) else {
        return;
    };
    let token = connected(&mut client, &peer);
    let mut expected = Vec::new();
    for round in 0..20 {
        for number in 0..AT_ONCE {
            let length = 1 + (round * AT_ONCE + number) * 37 % 1_452;
            let mut datagram = pattern(length);
            datagram.rotate_left(number.min(length));
            client.send_datagrams(token, datagram.clone(), 0);
            expected.push(datagram);
        }
        await_datagrams(&mut client, token, expected.len());
    }
    assert_same_datagrams(&client.socket(token).datagrams, &expected);
    assert_same_datagrams(&peer.received(), &expected);
    assert_same_datagrams(&client.socket(token).sent, &expected);
    client.closed(token, CloseMode::Graceful);
}

/// Fifty datagrams, the last of them shorter.
fn burst() -> Batch {
    Batch {
        bytes: pattern(50 * SEGMENT - 500),
        segment: SEGMENT,
    }
}

pub(crate) fn a_burst_is_received_with_the_length_of_its_datagrams<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(Answer::Burst(burst())) else {
        return;
    };
    let token = connected(&mut client, &peer);
    client.send_datagrams(token, *b"go", 0);
    let datagrams = await_datagrams(&mut client, token, 50);
    assert_same_datagrams(&datagrams, &burst().datagrams());
    client.closed(token, CloseMode::Graceful);
}

fn assert_a_batch_arrives<B: Backend>(options: &LoopOptions) {
    let Some((mut client, peer)) = start_with::<B>(options, Answer::Nothing) else {
        return;
    };
    let token = connected(&mut client, &peer);
    let bytes = pattern(20 * SEGMENT);
    client.send_datagrams(token, bytes.clone(), SEGMENT);
    let received = peer.await_received(&mut client, 20);
    assert_same_datagrams(&received, &chunks(&bytes, SEGMENT));
    client.until("the buffer", |client| client.socket(token).sent.len() == 1);
    assert_same(&client.socket(token).sent[0], &bytes);
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn a_batch_of_twenty_datagrams_arrives_as_twenty_datagrams<B: Backend>() {
    assert_a_batch_arrives::<B>(&LoopOptions::default());
}

pub(crate) fn a_batch_arrives_the_same_without_segmentation_offload<B: Backend>() {
    assert_a_batch_arrives::<B>(&LoopOptions {
        segmentation_offload: false,
        ..LoopOptions::default()
    });
}

pub(crate) fn batches_of_one_socket_leave_in_order<B: Backend>() {
    for options in with_and_without_offload() {
        let Some((mut client, peer)) = start_with::<B>(&options, Answer::Nothing) else {
            return;
        };
        let token = connected(&mut client, &peer);
        let mut expected = Vec::new();
        let mut buffers = Vec::new();
        for number in 0..10 {
            let segment = 100 + number;
            let bytes = vec![number as u8; 7 * segment + 3];
            expected.extend(chunks(&bytes, segment));
            client.send_datagrams(token, bytes.clone(), segment);
            buffers.push(bytes);
        }
        let received = peer.await_received(&mut client, expected.len());
        assert_same_datagrams(&received, &expected);
        client.until("the buffers", |client| {
            client.socket(token).sent.len() == buffers.len()
        });
        assert_same_datagrams(&client.socket(token).sent, &buffers);
        client.closed(token, CloseMode::Graceful);
    }
}

pub(crate) fn a_buffer_without_a_segment_is_one_datagram<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(Answer::Nothing) else {
        return;
    };
    let token = connected(&mut client, &peer);
    for segment in [0, 5_000, 65_535] {
        client.send_datagrams(token, pattern(5_000), segment);
    }
    let received = peer.await_received(&mut client, 3);
    assert_same_datagrams(&received, &vec![pattern(5_000); 3]);
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn an_empty_datagram_is_no_end_and_is_not_reported<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(Answer::EmptyAndEcho) else {
        return;
    };
    let token = connected(&mut client, &peer);
    for count in 1..=5 {
        client.send_datagrams(token, [count as u8], 0);
        // The client fails if the empty one before it is reported.
        await_datagrams(&mut client, token, count);
    }
    assert_eq!(
        client.socket(token).datagrams,
        [[1], [2], [3], [4], [5]].map(Vec::from)
    );
    // An empty buffer is returned in its turn, and nothing is sent.
    client.send_datagrams(token, [], 0);
    client.send_datagrams(token, *b"last", 0);
    assert_eq!(peer.await_received(&mut client, 6)[5], b"last");
    client.until("the buffers", |client| client.socket(token).sent.len() == 7);
    assert!(client.socket(token).sent[5].is_empty());
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn the_largest_datagram_arrives_whole<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(Answer::Echo) else {
        return;
    };
    let token = connected(&mut client, &peer);
    client.send_datagrams(token, pattern(LONGEST), 0);
    let datagrams = await_datagrams(&mut client, token, 1);
    assert_same_datagrams(&datagrams, &[pattern(LONGEST)]);
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn a_datagram_that_is_too_long_is_lost_and_the_next_one_arrives<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(Answer::Echo) else {
        return;
    };
    let token = connected(&mut client, &peer);
    client.send_datagrams(token, pattern(LONGEST + 1), 0);
    // In a buffer with others, only the one that is too long is lost.
    client.send_datagrams(token, pattern(LONGEST + 1 + 5), LONGEST + 1);
    client.send_datagrams(token, *b"short", 0);
    let datagrams = await_datagrams(&mut client, token, 2);
    let rest = pattern(LONGEST + 1 + 5)[LONGEST + 1..].to_vec();
    assert_same_datagrams(&datagrams, &[rest, b"short".to_vec()]);
    assert_eq!(client.socket(token).sent.len(), 3);
    assert!(client.socket(token).refusals.is_empty());
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn a_refused_datagram_is_reported_and_the_socket_goes_on<B: Backend>() {
    let Some((mut client, peer)) = deserted::<B>() else {
        return;
    };
    let token = connected(&mut client, &peer);
    send_until_refused(&mut client, token);
    let refusals = client.socket(token).refusals.clone();
    let sent = client.socket(token).sent.len();
    assert!(refusals.len() <= sent, "one for each datagram at most");
    peer.listen();
    client.send_datagrams(token, *b"and now?", 0);
    let datagrams = await_datagrams(&mut client, token, 1);
    assert_eq!(datagrams, [b"and now?"]);
    assert_eq!(client.socket(token).refusals, refusals, "none for this one");
    client.closed(token, CloseMode::Graceful);
}

/// Sends datagrams, one after another, until one of them is refused. Hosts limit how many refusals
/// they send, so the first datagrams may have none.
fn send_until_refused<L: EventLoop>(client: &mut Client<L>, token: Token) {
    let give_up_ns = client.io.now_ns() + WAIT_LIMIT_NS;
    let mut sent = client.socket(token).sent.len();
    while client.socket(token).refusals.is_empty() {
        let now_ns = client.io.now_ns();
        assert!(now_ns < give_up_ns, "there was no refusal");
        client.send_datagrams(token, *b"anybody there?", 0);
        sent += 1;
        // Until then, every answer to it has come.
        let until_ns = now_ns + 1_000_000;
        while client.io.now_ns() < until_ns {
            client.turn(until_ns);
        }
    }
    client.until("the buffers", |client| {
        client.socket(token).sent.len() == sent
    });
    let refusals = &client.socket(token).refusals;
    assert!(refusals.iter().all(|errno| *errno == libc::ECONNREFUSED));
}

pub(crate) fn refusals_cost_no_datagram_and_every_buffer_comes_back<B: Backend>() {
    let Some((mut client, peer)) = deserted::<B>() else {
        return;
    };
    let token = connected(&mut client, &peer);
    // Sends learn of the refusals of the sends before them.
    for number in 0..8_u8 {
        client.send_datagrams(token, vec![number; 3 * 10], 10);
    }
    client.until("the buffers", |client| client.socket(token).sent.len() == 8);
    send_until_refused(&mut client, token);
    // The next one may learn of it too, and is sent all the same.
    client.send_datagrams(token, *b"in vain", 0);
    peer.listen();
    client.send_datagrams(token, *b"at last", 0);
    client.until("the answer", |client| {
        let datagrams = &client.socket(token).datagrams;
        datagrams.last().is_some_and(|last| last == b"at last")
    });
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn a_datagram_socket_with_everything_in_flight_ends_with_one_closed<B: Backend>() {
    for mode in [CloseMode::Graceful, CloseMode::Abort] {
        for options in with_and_without_offload() {
            let Some((mut client, peer)) = start_with::<B>(&options, Answer::Echo) else {
                return;
            };
            let token = connected(&mut client, &peer);
            for _ in 0..10 {
                client.send_datagrams(token, pattern(10 * SEGMENT), SEGMENT);
            }
            client.until("some datagrams", |client| {
                !client.socket(token).datagrams.is_empty()
            });
            for _ in 0..10 {
                client.send_datagrams(token, pattern(10 * SEGMENT), SEGMENT);
            }
            // Completions that have not been taken yet must not be reported after the close.
            let now_ns = client.io.now_ns();
            client.io.wait(Some(now_ns)).expect("the loop works");
            client.closed(token, mode);
            assert_echo_works(&mut client, &peer);
        }
    }
}

pub(crate) fn datagrams_before_a_graceful_close_are_sent<B: Backend>() {
    for options in with_and_without_offload() {
        let Some((mut client, peer)) = start_with::<B>(&options, Answer::Nothing) else {
            return;
        };
        let token = connected(&mut client, &peer);
        let bytes = pattern(5 * SEGMENT + 7);
        client.send_datagrams(token, bytes.clone(), SEGMENT);
        client.send_datagrams(token, [], 0);
        client.send_datagrams(token, *b"goodbye", 0);
        client.closed(token, CloseMode::Graceful);
        let mut expected = chunks(&bytes, SEGMENT);
        expected.push(b"goodbye".to_vec());
        let received = peer.await_received(&mut client, expected.len());
        assert_same_datagrams(&received, &expected);
    }
}

pub(crate) fn a_closed_datagram_socket_takes_no_calls<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(Answer::Echo) else {
        return;
    };
    let first = client.connect_datagrams(1, peer.address);
    // Before it is known to be connected.
    client.closed(first, CloseMode::Graceful);
    assert!(!client.socket(first).connected);
    let second = connected(&mut client, &peer);
    client.closed(second, CloseMode::Abort);
    for token in [first, second] {
        client.send_datagrams(token, *b"too late", 0);
        client.io.shutdown_send(token);
        client.io.close(token, CloseMode::Graceful);
    }
    assert_echo_works(&mut client, &peer);
    assert_eq!(peer.received(), [b"ping"]);
}

pub(crate) fn ending_and_discarding_do_nothing_to_a_datagram_socket<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(Answer::Echo) else {
        return;
    };
    let token = connected(&mut client, &peer);
    client.io.discard(token, 1_000);
    client.io.shutdown_send(token);
    for count in 1..=10 {
        client.send_datagrams(token, *b"still here", 0);
        await_datagrams(&mut client, token, count);
    }
    client.closed(token, CloseMode::Graceful);
}

pub(crate) fn received_datagrams_stay_until_the_next_completion_is_asked_for<B: Backend>() {
    let Some((mut client, peer)) = start::<B>(Answer::Echo) else {
        return;
    };
    let token = connected(&mut client, &peer);
    client.send_datagrams(token, *b"keep me", 0);
    let give_up_ns = client.io.now_ns() + WAIT_LIMIT_NS;
    loop {
        assert!(client.io.now_ns() < give_up_ns, "no datagram");
        match client.io.next().map(|completion| completion.event) {
            Some(SocketEvent::Received(_)) => break,
            Some(_) => {}
            None => client.io.wait(Some(give_up_ns)).expect("the loop works"),
        }
        assert!(client.io.received().is_empty(), "nothing is lent");
        assert_eq!(client.io.received_segment(), None);
    }
    // None of these ends the loan.
    client.send_datagrams(token, *b"thank you", 0);
    let other = client.connect_datagrams(2, peer.address);
    client.io.close(other, CloseMode::Abort);
    client.io.close(token, CloseMode::Graceful);
    assert_eq!(client.io.received(), b"keep me");
    assert_eq!(client.io.received_segment(), Some(7));
    let now_ns = client.io.now_ns();
    client.io.wait(Some(now_ns)).expect("the loop works");
    assert!(client.io.received().is_empty(), "nothing is lent");
    assert_eq!(client.io.received_segment(), None);
}

pub(crate) fn only_datagram_sockets_with_timestamps_enabled_get_them<B: Backend>() {
    const ROUNDS: usize = 5_000;
    let Some((mut client, peer)) = start::<B>(Answer::Echo) else {
        return;
    };
    let [timestamped, plain] = [true, false].map(|timestamps| {
        let options = SocketOptions {
            timestamps,
            ..SocketOptions::default()
        };
        client.connect_datagrams_with(1, peer.address, &options)
    });
    // The first packets after timestamps were enabled may have none.
    for round in 1..=ROUNDS {
        for token in [timestamped, plain] {
            client.send_datagrams(token, *b"ping", 0);
            await_datagrams(&mut client, token, round);
        }
        if client.socket(timestamped).timestamps.len() > 10 {
            break;
        }
        let in_a_while_ns = client.io.now_ns() + 1_000_000;
        client.turn(in_a_while_ns);
    }
    let timestamps = client.socket(timestamped).timestamps.len();
    assert!(timestamps > 10, "no timestamps");
    assert!(client.socket(plain).timestamps.is_empty());
    for token in [timestamped, plain] {
        client.closed(token, CloseMode::Abort);
    }
}

pub(crate) fn streams_and_datagrams_share_a_loop<B: Backend>() {
    const ROUNDS: usize = 20;
    let mut script = vec![[PeerStep::Read(4), PeerStep::Write(pattern(10_000))]; ROUNDS].concat();
    script.push(PeerStep::ReadToEnd);
    let options = LoopOptions::default();
    let Some((mut client, streams, datagrams)) =
        B::start_both(&options, vec![script], Answer::Echo)
    else {
        return;
    };
    let stream = client.connected(1, &streams.address);
    let sockets = [(); 3].map(|()| connected(&mut client, &datagrams));
    for round in 1..=ROUNDS {
        client.send_owned(stream, *b"ping");
        for token in sockets {
            client.send_datagrams(token, pattern(3 * SEGMENT), SEGMENT);
        }
        client.until("the answers", |client| {
            let are_there = |token: &Token| client.socket(*token).datagrams.len() >= 3 * round;
            client.received(stream).len() >= 10_000 * round && sockets.iter().all(are_there)
        });
    }
    assert_same(client.received(stream), &pattern(10_000).repeat(ROUNDS));
    for token in sockets {
        let expected = vec![chunks(&pattern(3 * SEGMENT), SEGMENT); ROUNDS].concat();
        assert_same_datagrams(&client.socket(token).datagrams, &expected);
        client.closed(token, CloseMode::Graceful);
    }
    client.closed_after_sending(stream);
}

pub(crate) fn a_loop_is_dropped_with_datagrams_in_flight<B: Backend>() {
    let options = LoopOptions {
        segmentation_offload: false,
        ..LoopOptions::default()
    };
    let Some((mut client, peer)) = start_with::<B>(&options, Answer::Echo) else {
        return;
    };
    for key in 0..20 {
        let token = client.connect_datagrams(key, peer.address);
        client.io.send(
            token,
            Payload::Datagrams {
                buffer: pattern(3 * SEGMENT),
                segment: SEGMENT as u16,
            },
        );
        if key % 3 == 0 {
            client.close(token, CloseMode::Graceful);
        }
    }
    let now_ns = client.io.now_ns();
    client.io.wait(Some(now_ns)).expect("the loop works");
    drop(client);
}

/// Rules that only backends on a real kernel can follow.
pub(crate) mod kernel {
    use super::*;
    use crate::backend::Kernel;
    use eventloop::Acceptor;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

    pub(crate) fn a_burst_is_received_in_fewer_calls_than_datagrams<K: Kernel>() {
        let Some((mut client, peer)) = start::<K>(Answer::Burst(burst())) else {
            return;
        };
        let token = connected(&mut client, &peer);
        client.send_datagrams(token, *b"go", 0);
        await_datagrams(&mut client, token, 50);
        // The kernel hands a burst from this machine over as it was sent.
        assert_eq!(client.socket(token).receives, 1);
        client.closed(token, CloseMode::Graceful);
    }

    pub(crate) fn more_datagrams_than_receive_buffers_arrive<K: Kernel>() {
        // More than any loop has buffers.
        const SOCKETS: usize = 100;
        let Some((mut client, peer)) = start::<K>(Answer::Echo) else {
            return;
        };
        let sockets = [(); SOCKETS].map(|()| connected(&mut client, &peer));
        for token in sockets {
            client.send_datagrams(token, *b"ping", 0);
        }
        let now_ns = client.io.now_ns();
        client.io.wait(Some(now_ns)).expect("the loop works");
        // The loop takes nothing before all of them are there.
        let give_up_ns = now_ns + WAIT_LIMIT_NS;
        while peer.received().len() < SOCKETS {
            let now_ns = client.io.now_ns();
            assert!(now_ns < give_up_ns, "the datagrams never arrived");
            std::thread::yield_now();
        }
        for token in sockets {
            assert_eq!(await_datagrams(&mut client, token, 1), [b"ping"]);
        }
        for token in sockets {
            client.closed(token, CloseMode::Graceful);
        }
    }

    pub(crate) fn datagrams_behind_others_are_sent_before_completions_are_taken<K: Kernel>() {
        let Some((mut client, peer)) = start::<K>(Answer::Nothing) else {
            return;
        };
        let token = connected(&mut client, &peer);
        for sent in 1..=5 {
            client.send_datagrams(token, *b"next", 0);
            client.io.submit();
            let give_up_ns = client.io.now_ns() + WAIT_LIMIT_NS;
            while peer.received().len() < sent {
                assert!(client.io.now_ns() < give_up_ns, "{sent} never arrived");
                std::thread::yield_now();
            }
        }
        client.closed(token, CloseMode::Graceful);
    }

    pub(crate) fn datagrams_are_sent_and_received_over_ipv6<K: Kernel>() {
        let Some((mut client, _)) = start::<K>(Answer::Nothing) else {
            return;
        };
        let socket = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0));
        if testkit::require_ok("ipv6", socket).is_none() {
            return;
        }
        let peer = DatagramPeer::on_loopback("::1", Answer::Echo).expect("a socket");
        let token = connected(&mut client, &peer);
        client.send_datagrams(token, pattern(20 * SEGMENT), SEGMENT);
        let datagrams = await_datagrams(&mut client, token, 20);
        assert_same_datagrams(&datagrams, &chunks(&pattern(20 * SEGMENT), SEGMENT));
        client.closed(token, CloseMode::Graceful);
    }

    pub(crate) fn datagrams_without_room_in_the_socket_are_counted<K: Kernel>() {
        // Twice as many bytes as any socket has asked for.
        const BURST: u32 = 16_000;
        let Some((mut client, _)) = start::<K>(Answer::Nothing) else {
            return;
        };
        let server = UdpSocket::bind("127.0.0.1:0").expect("loopback works");
        let address = server.local_addr().expect("it is bound");
        let token = client.connect_datagrams(1, address);
        client.send_datagrams(token, *b"here", 0);
        client.until("the send", |client| client.socket(token).sent.len() == 1);
        let (_, to) = server.recv_from(&mut [0; 16]).expect("a datagram");
        let send = |number: u32| {
            let mut datagram = [0; SEGMENT];
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            server.send_to(&datagram, to).expect("loopback works");
        };
        let last = |client: &Client<K::Loop>| {
            let last = client.socket(token).datagrams.last();
            last.map(|it| u32::from_be_bytes(*it.first_chunk().expect("it has a number")))
        };
        // The loop takes nothing until all are there.
        (0..BURST).for_each(send);
        // One that arrives after there is room again tells.
        let mut number = BURST;
        client.until("a later datagram", |client| {
            let has_room = last(client).is_some_and(|last| last >= BURST);
            if !has_room {
                send(number);
                number += 1;
            }
            has_room
        });
        let socket = client.socket(token);
        let received = socket.datagrams.len() as u32;
        assert!(socket.drops > 0, "{received} received");
        assert_eq!(last(&client), Some(received + socket.drops - 1));
        client.closed(token, CloseMode::Graceful);
    }

    pub(crate) fn the_source_address_of_datagrams_is_used<K: Kernel>() {
        let Some((mut client, _)) = start::<K>(Answer::Nothing) else {
            return;
        };
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback works");
        let address = socket.local_addr().expect("it is bound");
        let source = Ipv4Addr::new(127, 0, 0, 78);
        let options = SocketOptions {
            source: Some(source.into()),
            timestamps: K::TIMESTAMPS,
            path: false,
        };
        let token = client.connect_datagrams_with(1, address, &options);
        client.send_datagrams(token, *b"from there", 0);
        client.until("the send", |client| client.socket(token).sent.len() == 1);
        let (_, from) = socket.recv_from(&mut [0; 16]).expect("a datagram");
        assert_eq!(from.ip(), source);
        client.closed(token, CloseMode::Abort);
    }

    pub(crate) fn a_datagram_socket_with_an_address_of_another_machine_fails<K: Kernel>() {
        let Some((mut client, peer)) = start::<K>(Answer::Nothing) else {
            return;
        };
        // TEST-NET-1 (RFC 5737) is not assigned to any host.
        let options = SocketOptions {
            source: Some(Ipv4Addr::new(192, 0, 2, 1).into()),
            timestamps: K::TIMESTAMPS,
            path: false,
        };
        let token = client.connect_datagrams_with(1, peer.address, &options);
        assert_eq!(client.connect_error(token), Some(libc::EADDRNOTAVAIL));
    }

    /// A loop with a datagram listener, which answers each datagram with itself.
    struct Listening<L> {
        io: L,
        token: Token,
        address: SocketAddr,
        /// What has arrived: the sender, and the datagrams of one receive.
        arrived: Vec<(SocketAddr, Vec<Vec<u8>>)>,
        returned: Vec<Vec<u8>>,
    }

    fn listening<K: Kernel>(host: IpAddr) -> Option<Listening<K::Loop>> {
        let mut io = K::open(&LoopOptions::default())?;
        let socket = UdpSocket::bind((host, 0)).expect("loopback works");
        let address = socket.local_addr().expect("it is bound");
        let token = io.listen_datagrams(7, socket.into());
        Some(Listening {
            token: token.expect("the socket is taken"),
            io,
            address,
            arrived: Vec::new(),
            returned: Vec::new(),
        })
    }

    impl<L: Acceptor> Listening<L> {
        /// Answers until this many buffers have come back.
        fn answer(&mut self, count: usize) {
            let give_up_ns = self.io.now_ns() + WAIT_LIMIT_NS;
            while self.returned.len() < count {
                assert!(self.io.now_ns() < give_up_ns, "the datagrams never came");
                self.io.wait(Some(give_up_ns)).expect("the loop works");
                while let Some(completion) = self.io.next() {
                    assert_eq!((completion.key, completion.token), (7, self.token));
                    self.take(completion.event);
                }
            }
        }

        fn take(&mut self, event: SocketEvent) {
            match event {
                SocketEvent::Received(length) => {
                    let bytes = self.io.received().to_vec();
                    assert_eq!(bytes.len(), length);
                    let segment = self.io.received_segment().expect("datagrams");
                    let from = self.io.received_from().expect("a sender");
                    self.arrived.push((from, chunks(&bytes, segment)));
                    let segment = u16::try_from(segment).expect("it is short");
                    self.io.send_to(self.token, from, bytes, segment);
                }
                SocketEvent::Sent(buffer) => {
                    assert_eq!(self.io.received_from(), None, "nothing is lent");
                    self.returned.push(buffer);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn caller(host: IpAddr, to: SocketAddr) -> UdpSocket {
        let socket = UdpSocket::bind((host, 0)).expect("loopback works");
        let limit = std::time::Duration::from_nanos(WAIT_LIMIT_NS);
        socket.set_read_timeout(Some(limit)).expect("it can be set");
        socket.connect(to).expect("loopback works");
        socket
    }

    fn assert_each_gets_its_own<K: Kernel>(host: IpAddr) {
        const CALLERS: usize = 20;
        let Some(mut listening) = listening::<K>(host) else {
            return;
        };
        let callers = [(); CALLERS].map(|()| caller(host, listening.address));
        for (number, caller) in callers.iter().enumerate() {
            let sent = caller.send(format!("caller {number}").as_bytes());
            sent.expect("loopback works");
        }
        listening.answer(CALLERS);
        let mut senders: Vec<_> = listening.arrived.iter().map(|(from, _)| *from).collect();
        senders.sort_unstable();
        let mut expected = callers.each_ref().map(|it| it.local_addr().expect("bound"));
        expected.sort_unstable();
        assert_eq!(senders, expected);
        for (number, caller) in callers.iter().enumerate() {
            let mut buffer = [0; 100];
            let length = caller.recv(&mut buffer).expect("the answer");
            assert_eq!(buffer[..length], *format!("caller {number}").as_bytes());
        }
    }

    pub(crate) fn a_listener_answers_each_sender_of_datagrams<K: Kernel>() {
        assert_each_gets_its_own::<K>(Ipv4Addr::LOCALHOST.into());
    }

    pub(crate) fn a_listener_answers_each_sender_of_datagrams_over_ipv6<K: Kernel>() {
        let local = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0));
        if testkit::require_ok("ipv6", local).is_some() {
            assert_each_gets_its_own::<K>(Ipv6Addr::LOCALHOST.into());
        }
    }

    pub(crate) fn a_listener_receives_and_sends_bursts<K: Kernel>() {
        let host = Ipv4Addr::LOCALHOST.into();
        let Some(mut listening) = listening::<K>(host) else {
            return;
        };
        let Some(mut client) = K::open(&LoopOptions::default()).map(|io| Client::new(io, false))
        else {
            return;
        };
        let token = client.connect_datagrams(1, listening.address);
        client.until("the socket", |client| client.socket(token).connected);
        client.send_datagrams(token, burst().bytes, SEGMENT);
        client.until("the buffer", |client| client.socket(token).sent.len() == 1);
        listening.answer(1);
        let datagrams = await_datagrams(&mut client, token, 50);
        assert_same_datagrams(&datagrams, &burst().datagrams());
        let arrived: Vec<_> = listening.arrived.iter().map(|(_, it)| it.clone()).collect();
        assert_same_datagrams(&arrived.concat(), &burst().datagrams());
    }

    pub(crate) fn a_closed_listener_of_datagrams_reports_nothing_but_that<K: Kernel>() {
        let host = Ipv4Addr::LOCALHOST.into();
        let Some(mut listening) = listening::<K>(host) else {
            return;
        };
        let caller = caller(host, listening.address);
        caller.send(b"first").expect("loopback works");
        listening.answer(1);
        let (from, _) = listening.arrived[0].clone();
        let Listening { io, token, .. } = &mut listening;
        for _ in 0..10 {
            io.send_to(*token, from, pattern(SEGMENT), 0);
        }
        caller.send(b"second").expect("loopback works");
        io.close(*token, CloseMode::Abort);
        io.send_to(*token, from, pattern(SEGMENT), 0);
        io.wait(Some(io.now_ns() + WAIT_LIMIT_NS))
            .expect("it works");
        let mut events = Vec::new();
        while let Some(completion) = io.next() {
            events.push(completion.event);
        }
        assert!(matches!(events[..], [SocketEvent::Closed]), "{events:?}");
    }
}
