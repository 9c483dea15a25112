//! What the client sends.

use protocol::h3::ClientSettings;
use protocol::h3::frame::{self, setting, stream_type};
use protocol::{Event, ExchangeId, Session};
use quinn_proto::{Dir, Side, StreamId, TransportConfig, VarInt};

use crate::link::{GET, Peer, Weather, client_settings};
use crate::server::{Settings, bidi, response};

#[test]
fn a_get_has_the_pseudo_fields_first_and_none_of_the_connection() {
    let mut peer = Peer::ready(4);
    peer.request(
        "GET /a?b HTTP/1.1\r\nHost: test.example\r\nConnection: keep-alive\r\nX-A: 1\r\n\
         TE: gzip\r\nUser-Agent: wrkbench\r\n\r\n",
    );
    let [request] = &peer.server.requests[..] else {
        panic!("{:?}", peer.server.requests);
    };
    assert_eq!(request.stream, bidi(0));
    let fields: Vec<_> = request
        .fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let expected = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "test.example"),
        (":path", "/a?b"),
        ("x-a", "1"),
        ("user-agent", "wrkbench"),
    ];
    assert_eq!(fields, expected);
}

#[test]
fn the_control_stream_begins_with_settings_and_there_are_no_streams_for_qpack() {
    let mut peer = Peer::ready(4);
    peer.run();
    let streams: Vec<_> = peer.server.client_streams.iter().collect();
    let control = StreamId::new(Side::Client, Dir::Uni, 0);
    assert_eq!(streams, [(&control, &control_stream())]);
}

#[test]
fn requests_that_are_started_together_share_a_datagram() {
    let mut peer = Peer::ready(32);
    let before = peer.sent;
    for _ in 0..16 {
        peer.start(GET);
    }
    assert_eq!(peer.session.capacity(), 16);
    peer.run();
    assert_eq!(peer.server.requests.len(), 16);
    // One with the requests, and those that acknowledge what the server sends of its own.
    assert!(peer.sent - before <= 3, "{}", peer.sent - before);
}

fn post(length: usize) -> (String, Vec<u8>) {
    let body: Vec<u8> = (0..length).map(|at| b'a' + (at % 26) as u8).collect();
    let text = String::from_utf8(body.clone()).expect("it is ASCII");
    let head = format!("POST / HTTP/1.1\r\nHost: test.example\r\nContent-Length: {length}\r\n\r\n");
    (head + &text, body)
}

#[test]
fn a_body_larger_than_every_window_of_the_server_arrives_whole() {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(10_000))
        .receive_window(VarInt::from_u32(15_000));
    let settings = Settings {
        transport,
        ..Settings::default()
    };
    let mut peer = Peer::ready_with(client_settings(4), settings);
    peer.server.answer = Some(|request| response("200", request.body.len().to_string().as_bytes()));
    let (text, body) = post(300_000);
    for _ in 0..2 {
        peer.start(&text);
    }
    peer.run_for(5_000_000_000);
    let finished = peer.finished();
    assert_eq!(finished.len(), 2);
    assert!(
        peer.server
            .requests
            .iter()
            .all(|request| request.body == body)
    );
    assert_eq!(peer.error, None);
}

#[test]
fn a_body_larger_than_what_is_kept_for_acknowledgement_arrives_whole() {
    let mut peer = Peer::ready(1);
    peer.server.answer = Some(|_| response("204", b""));
    let (text, body) = post(10 << 20);
    peer.start(&text);
    peer.run_for(20_000_000_000);
    assert_eq!(peer.finished().len(), 1);
    assert!(peer.server.requests[0].body == body);
}

#[test]
fn a_hundred_requests_at_once_are_each_answered_once() {
    answered_once(Weather::default());
}

#[test]
fn with_loss_and_reordering_and_duplicates_each_request_is_answered_once() {
    let peer = answered_once(Weather {
        lost_percent: 5,
        jitter_ns: 3_000_000,
        doubled_percent: 5,
    });
    let statistics = peer.session.statistics().expect("it has begun");
    assert!(statistics.packets_lost > 0, "{statistics:?}");
}

fn answered_once(weather: Weather) -> Peer {
    const REQUESTS: usize = 500;
    let mut peer = Peer::ready(100);
    peer.weather = weather;
    peer.server.answer = Some(|request| {
        let mut content = vec![b'x'; 10_000];
        content.extend_from_slice(&request.body);
        response("200", &content)
    });
    let mut answered = Vec::new();
    assert_eq!(peer.session.capacity(), 100);
    let mut started = 0;
    while started < REQUESTS {
        // A server may save up a few streams before it allows them again.
        assert!(peer.session.capacity() > 80);
        while peer.session.capacity() > 0 && started < REQUESTS {
            match started % 4 {
                0 => peer.start(&post(3000).0),
                _ => peer.start(GET),
            };
            started += 1;
        }
        peer.run_for(20_000_000_000);
        answered.extend(peer.finished());
        assert_eq!(answered.len(), started);
    }
    let mut exchanges: Vec<_> = answered.iter().map(|(exchange, _)| *exchange).collect();
    exchanges.sort_unstable();
    let all: Vec<_> = (0..REQUESTS as u32).map(ExchangeId).collect();
    assert_eq!(exchanges, all);
    assert_eq!(peer.server.requests.len(), REQUESTS);
    let sizes = answered.iter().map(|(_, response)| response.bytes);
    assert!(sizes.into_iter().all(|bytes| bytes > 10_000));
    assert_eq!(peer.error, None);
    peer
}

#[test]
fn a_cancelled_exchange_is_silent_and_the_server_learns_of_it() {
    let mut peer = Peer::ready(4);
    let cancelled = peer.request(GET);
    peer.respond(0, &response("200", b"abc")[..5], false);
    let mut was_open = None;
    peer.call(|session, shared, output, _| {
        was_open = Some(session.cancel(shared, cancelled, output)?);
        Ok(())
    });
    assert_eq!(was_open, Some(true));
    peer.run();
    // H3_REQUEST_CANCELLED.
    assert_eq!(peer.server.stops, [(bidi(0), 0x10c)]);
    peer.events.clear();
    let next = peer.request(GET);
    peer.respond(1, &response("200", b"abc"), true);
    let finished = peer.finished();
    assert_eq!(finished.len(), 1);
    assert_eq!(finished[0].0, next);
    let mut was_open = None;
    peer.call(|session, shared, output, _| {
        was_open = Some(session.cancel(shared, next, output)?);
        Ok(())
    });
    assert_eq!(was_open, Some(false), "it has ended");
}

#[test]
fn a_cancelled_upload_is_reset() {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(1000));
    let settings = Settings {
        transport,
        ..Settings::default()
    };
    let mut peer = Peer::ready_with(client_settings(4), settings);
    // The server reads nothing beyond its window as long as no time passes.
    let exchange = peer.start(&post(1 << 20).0);
    peer.call(|session, shared, output, _| session.flush(shared, output));
    peer.call(|session, shared, output, _| {
        assert_eq!(session.cancel(shared, exchange, output), Ok(true));
        Ok(())
    });
    peer.run();
    assert_eq!(peer.server.resets, [(bidi(0), 0x10c)]);
}

#[test]
fn the_server_may_allow_no_stream_and_then_one_and_then_more() {
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
    let settings = Settings {
        transport,
        ..Settings::default()
    };
    let mut peer = Peer::ready_with(client_settings(10), settings);
    assert_eq!(peer.session.capacity(), 0);
    assert!(
        peer.session
            .awaits()
            .is_some_and(|what| what.contains("MAX_STREAMS"))
    );
    peer.server.answer = Some(|_| response("200", b"abc"));
    for (allowed, expected) in [(1, 1), (3, 3), (50, 10)] {
        peer.server.allow_streams(Dir::Bi, allowed);
        peer.run();
        assert_eq!(peer.session.capacity(), expected, "{allowed}");
        for _ in 0..expected {
            peer.start(GET);
        }
        assert_eq!(peer.session.capacity(), 0);
        peer.run();
        assert_eq!(peer.finished().len(), expected as usize);
        assert_eq!(peer.session.capacity(), expected);
    }
}

#[test]
fn fewer_streams_than_wanted_are_told() {
    for (allowed, told) in [(3, Some(3)), (10, None), (100, None)] {
        let mut transport = TransportConfig::default();
        transport.max_concurrent_bidi_streams(VarInt::from_u32(allowed));
        let settings = Settings {
            transport,
            ..Settings::default()
        };
        let peer = Peer::ready_with(client_settings(10), settings);
        assert_eq!(
            <protocol::h3::H3 as Session>::streams_limit(&peer.shared),
            told
        );
    }
}

#[test]
fn statistics_have_the_handshake_and_the_packets_of_both_ways() {
    let mut peer = Peer::ready(4);
    peer.server.answer = Some(|_| response("200", &[b'x'; 50_000]));
    peer.request(GET);
    assert_eq!(peer.finished().len(), 1);
    let statistics = peer.session.statistics().expect("it has begun");
    // One round trip, of 2 ms.
    assert_eq!(statistics.handshake_ns, Some(2_000_000));
    assert!(!statistics.retried);
    assert_eq!(statistics.datagrams_sent, peer.sent as u64);
    assert_eq!(statistics.batches_sent, peer.batches as u64);
    assert!(statistics.datagrams_received > 30, "{statistics:?}");
    assert!(statistics.bytes_received > 50_000, "{statistics:?}");
    assert!(
        (1_900_000..30_000_000).contains(&statistics.smoothed_rtt_ns),
        "{statistics:?}"
    );
    assert!(statistics.least_rtt_ns >= 2_000_000, "{statistics:?}");
    assert_eq!(statistics.packets_lost, 0);
    assert!(statistics.congestion_window_bytes > 10_000);
    assert!(statistics.mtu_bytes >= 1200);
}

#[test]
fn the_mtu_is_discovered_if_the_settings_say_so() {
    for (discovers_mtu, mtu_bytes) in [(true, 1452), (false, 1200)] {
        let client = ClientSettings {
            discovers_mtu,
            ..client_settings(1)
        };
        let mut peer = Peer::ready_with(client, Settings::default());
        peer.run();
        let statistics = peer.session.statistics().expect("it has begun");
        assert_eq!(statistics.mtu_bytes, mtu_bytes);
    }
}

#[test]
fn one_value_serves_connection_after_connection() {
    let mut peer = Peer::with(
        ClientSettings {
            streams_max: 2,
            ..client_settings(2)
        },
        Settings::default(),
    );
    for _ in 0..3 {
        peer.server.restart();
        peer.call(|session, shared, output, _| session.begin(shared, output));
        peer.server.answer = Some(|_| response("200", b"abc"));
        peer.run();
        assert!(
            matches!(peer.events[..], [Event::Ready(_)]),
            "{:?}",
            peer.events
        );
        peer.events.clear();
        peer.request(GET);
        assert_eq!(peer.finished().len(), 1);
    }
}

#[test]
fn settings_are_sent_once_the_server_allows_it() {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(2));
    let settings = Settings {
        transport,
        ..Settings::default()
    };
    let mut peer = Peer::ready_with(client_settings(1), settings);
    peer.run();
    assert!(peer.server.client_streams.is_empty());
    peer.server.allow_streams(Dir::Uni, 3);
    peer.run();
    let streams: Vec<_> = peer.server.client_streams.values().collect();
    assert_eq!(streams, [&control_stream()]);
}

/// What the client sends on its control stream.
fn control_stream() -> Vec<u8> {
    let mut expected = vec![stream_type::CONTROL as u8];
    frame::append_settings(
        &[(setting::MAX_FIELD_SECTION_SIZE, 80 * 1024)],
        &mut expected,
    );
    expected
}
