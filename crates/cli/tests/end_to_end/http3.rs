//! `--http3` against the built-in server.

use origin::{Http2Settings, Http3Settings, Identity, Options, TlsSettings};
use plan::Protocol;
use results::ErrorKind;

use crate::harness::{Load, Site, load, site_with};
use crate::http2::TARGETS;

/// A server with HTTP/3.
pub(crate) fn options() -> Options {
    let identity = Identity::self_signed(&["localhost", "127.0.0.1"]).unwrap();
    Options {
        tls: Some(TlsSettings::new(identity).config().unwrap()),
        http3: Some(Http3Settings::default()),
        ..Options::default()
    }
}

fn site() -> Site {
    site_with(options())
}

/// Two connections with four streams.
fn http3(site: &Site) -> Load<'_> {
    load(site).connections(2).with(&["--http3", "-m4"])
}

/// The harness compares counts and bytes with the server's.
#[test]
fn responses_of_all_kinds_arrive_with_the_bytes_that_the_server_sent() {
    let site = site();
    let long = format!("/?header=X-Long:{}", "a".repeat(10_000));
    for (target, status) in TARGETS.into_iter().chain([(&*long, 200)]) {
        let run = http3(&site)
            .at(target)
            .requests(64)
            .timeout_ms(60_000)
            .run();
        let run = run.expect_answers(64).expect_status(status);
        assert_eq!(run.result.plan.load.protocol, Protocol::Http3);
    }
    let head = http3(&site).at("/?size=5k").requests(40);
    head.with(&["-X", "HEAD"]).run().expect_answers(40);
}

#[test]
fn every_protocol_is_served_at_the_same_port() {
    let site = site();
    for options in [&[][..], &["--http2"], &["--http3"]] {
        load(&site)
            .requests(40)
            .with(options)
            .run()
            .expect_answers(40);
    }
}

#[test]
fn rates_and_streams_of_many_connections_are_answered() {
    let site = site_with(Options {
        threads: 2,
        ..options()
    });
    let run = load(&site).connections(50).with(&["--http3", "-m10"]);
    run.requests(5_000).run().expect_answers(5_000);
    let run = http3(&site).with(&["-d400ms", "-R500"]).run();
    let run = run.expect_answered_only();
    assert_eq!(run.result.recording.counters.due, 200, "{}", run.story());
}

#[test]
fn large_responses_of_several_connections_share_the_socket() {
    let site = site();
    let run = load(&site).connections(4).with(&["--http3", "-m8"]);
    let run = run.at("/?size=1M").requests(100).timeout_ms(60_000).run();
    run.expect_answers(100);
}

#[test]
fn uploads_keep_to_small_windows() {
    let site = site_with(Options {
        http2: Some(Http2Settings {
            streams_max: 3,
            window_bytes: 1_000,
        }),
        ..options()
    });
    let path = site.folder.file_with("body", vec![b'x'; 300_000]);
    let run = http3(&site).at("/?echo").requests(8).timeout_ms(60_000);
    let run = run.with(&["--body-file", &path]).run().expect_answers(8);
    assert!(run.result.recording.counters.bytes > 8 * 300_000);
    assert_eq!(run.result.recording.streams_limit, Some(3));
}

#[test]
fn events_of_a_generation_are_counted() {
    let site = site_with(options().with_defaults("llm=openai&tokens=5").unwrap());
    let run = http3(&site).requests(20).with(&["--events", "llm"]).run();
    run.expect_answers(20);
    assert_eq!(site.counts().tokens_sent, 100);
}

#[test]
fn a_timeout_costs_its_stream_and_not_the_connection() {
    let site = site();
    let run = load(&site).at("/?fault=hang").connections(1).requests(4);
    let run = run.with(&["--http3", "-m4"]).timeout_ms(80).run();
    let run = run.expect_only(ErrorKind::Timeout);
    assert_eq!((run.failed(ErrorKind::Timeout), run.opened()), (4, 1));
}

#[test]
fn connections_end_after_their_requests_at_either_end() {
    let site = site();
    let run = http3(&site).requests(40);
    let run = run.with(&["--requests-per-connection", "5"]).run();
    let run = run.expect_answers(40);
    assert!(run.opened() >= 8, "{}", run.story());

    // The server announces the end (GOAWAY), and processes what came before.
    let site = site_with(Options {
        keepalive_requests: Some(5),
        ..options()
    });
    let run = http3(&site).requests(60).run();
    let unprocessed = run.failed(ErrorKind::GoawayUnprocessed);
    assert_eq!(run.answered() + unprocessed, 60, "{}", run.story());
    assert!(run.opened() > 2, "{}", run.story());
}

#[test]
fn a_stall_of_the_server_is_in_the_latency() {
    let site = site_with(Options {
        stall: Some(origin::parse_stall("100ms", "300ms").unwrap()),
        ..options()
    });
    let run = http3(&site).for_ms(600).run().expect_answered_only();
    let slowest_ns = run.result.recording.service_time.max_ns();
    assert!(slowest_ns >= Some(200_000_000), "{slowest_ns:?}");
}

#[test]
fn a_retry_is_answered() {
    let site = site_with(Options {
        http3: Some(Http3Settings {
            has_retry: true,
            ..Http3Settings::default()
        }),
        ..options()
    });
    http3(&site).requests(40).run().expect_answers(40);
}

#[test]
fn requests_on_a_connection_that_the_server_has_forgotten_fail_with_a_stateless_reset() {
    let site = site();
    let run = load(&site).at("/?fault=stateless-reset:3").requests(20);
    let run = run.with(&["--http3"]).connections(2).run();
    let run = run.expect_only(ErrorKind::StatelessReset);
    // Three are answered on each connection, and the next one is not.
    let resets = run.failed(ErrorKind::StatelessReset);
    assert_eq!(run.answered() + resets, 20, "{}", run.story());
    assert!((4..=5).contains(&resets), "{}", run.story());
}

#[test]
fn a_head_with_an_entry_of_the_dynamic_table_cannot_be_decoded() {
    let site = site();
    let run = http3(&site).at("/?fault=dynamic-entry").requests(8).run();
    let run = run.expect_only(ErrorKind::Compression);
    assert_eq!(run.failed(ErrorKind::Compression), 8, "{}", run.story());
    assert!(run.stderr.contains("dynamic table"), "{}", run.story());
}

#[test]
fn faults_of_http3_are_refused_over_other_protocols() {
    let site = site();
    for fault in ["fault=stateless-reset", "mix=1%:dynamic-entry"] {
        for options in [&[][..], &["--http2"]] {
            let run = load(&site).at(&format!("/?{fault}")).requests(4);
            run.with(options).run().expect_status(400);
        }
    }
}

#[test]
fn a_response_cut_at_every_byte_arrives_whole() {
    let site = site();
    let run = http3(&site).at("/?size=5&fault=split").requests(20).run();
    let run = run.expect_answers(20);
    let parts = &run.result.recording.parts;
    let quic = parts.quic.as_ref().expect("it is HTTP/3");
    // A datagram has one byte of a response, or several if some waited for the window.
    let bytes = run.result.recording.counters.bytes;
    assert!(quic.datagrams_received > bytes / 2, "{}", run.story());
    // More than the server keeps for a stream that waits.
    let run = http3(&site).at("/?size=23k&fault=split").requests(1);
    run.timeout_ms(60_000).run().expect_answers(1);
}

#[test]
fn what_means_nothing_is_ignored() {
    let site = site_with(Options {
        http3: Some(Http3Settings {
            has_grease: true,
            ..Http3Settings::default()
        }),
        ..options()
    });
    for target in ["/", "/?size=100k", "/?size=0", "/?interim=2&trailers"] {
        http3(&site)
            .at(target)
            .requests(40)
            .run()
            .expect_answers(40);
    }
    // Connections end with a reserved code instead of H3_NO_ERROR.
    let run = load(&site).at("/?close=silent").requests(10);
    let run = run.connections(1).with(&["--http3"]).run();
    run.expect_ends_behind_answers(10, 5);
}

#[test]
fn responses_are_complete_despite_loss_at_the_server() {
    let site = site_with(Options {
        http3: Some(Http3Settings {
            loss: 0.05,
            ..Http3Settings::default()
        }),
        ..options()
    });
    let run = http3(&site).at("/?size=10k").requests(200);
    let run = run.timeout_ms(60_000).run().expect_answers(200);
    let parts = &run.result.recording.parts;
    let quic = parts.quic.as_ref().expect("it is HTTP/3");
    assert!(quic.packets_lost > 0, "{}", run.story());
}

#[test]
fn requests_wait_until_the_server_allows_streams() {
    let site = site_with(Options {
        http3: Some(Http3Settings {
            streams_delay_ns: 200_000_000,
            ..Http3Settings::default()
        }),
        ..options()
    });
    http3(&site).requests(40).run().expect_answers(40);
    // With a rate, the wait is part of the latency.
    let run = http3(&site).with(&["-d500ms", "-R100"]).run();
    let run = run.expect_answered_only();
    let slowest_ns = run.result.recording.response_time.max_ns();
    assert!(slowest_ns >= Some(150_000_000), "{slowest_ns:?}");
}
