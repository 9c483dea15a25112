//! `--http2` against the built-in server, in clear and over TLS.

use origin::{Http2Settings, Identity, Options, TlsSettings};
use plan::Protocol;
use report::{Format, TextOptions};
use results::{ErrorKind, TrialOutcome};
use testkit::Process;

use crate::harness::{Load, Run, Site, load, program, site, site_with};
use crate::judge;
use crate::styles::expect_text;

const WINDOW_BYTES: u32 = 1 << 20;

fn over_tls() -> Site {
    let identity = Identity::self_signed(&["localhost", "127.0.0.1"]).unwrap();
    site_with(Options {
        tls: Some(TlsSettings::new(identity).config().unwrap()),
        ..Options::default()
    })
}

fn allowing(streams_max: u32, window_bytes: u32) -> Site {
    site_with(Options {
        http2: Some(Http2Settings {
            streams_max,
            window_bytes,
        }),
        ..Options::default()
    })
}

/// Two connections with four streams.
fn http2(site: &Site) -> Load<'_> {
    load(site).connections(2).with(&["--http2", "-m4"])
}

fn warning_kinds(run: &Run<'_>) -> Vec<String> {
    let warnings = run.document["warnings"].as_array().unwrap();
    let kinds = warnings
        .iter()
        .filter_map(|warning| warning["kind"].as_str());
    kinds.map(str::to_owned).collect()
}

/// Responses of many kinds, with their statuses.
pub(crate) const TARGETS: [(&str, u16); 9] = [
    ("/", 200),
    ("/?size=0", 200),
    ("/?size=100k", 200),
    ("/?size=3M", 200),
    ("/?size=10k&chunked=999&trailers", 200),
    ("/?interim=2", 200),
    ("/?status=404&header=X-Note:a", 404),
    ("/?status=204", 204),
    ("/?delay=2ms&tail=2ms", 200),
];

/// The harness compares counts and bytes with the server's.
#[test]
fn responses_of_all_kinds_arrive_with_the_bytes_that_the_server_sent() {
    let long = format!("/?header=X-Long:{}", "a".repeat(20_000));
    for site in [site(), over_tls()] {
        let more = [("/?until-close&size=10k", 200), (&long, 200)];
        for (target, status) in TARGETS.into_iter().chain(more) {
            let requests = if target.contains("until-close") {
                8
            } else {
                64
            };
            let run = http2(&site).at(target).requests(requests).run();
            if target.contains("until-close") {
                // Each response is the last of its connection.
                assert_eq!(run.answered(), requests, "{}", run.story());
                continue;
            }
            let run = run.expect_answers(requests).expect_status(status);
            assert_eq!(run.result.plan.load.protocol, Protocol::Http2);
        }
        let head = http2(&site).at("/?size=5k").requests(40);
        head.with(&["-X", "HEAD"]).run().expect_answers(40);
    }
}

#[test]
fn a_closed_loop_keeps_every_stream_of_every_connection_busy() {
    let site = site();
    let run = load(&site).at("/?fault=hang").connections(3).for_ms(600);
    let run = run.with(&["--http2", "-m4"]).timeout_ms(60_000).run();
    let counters = &run.result.recording.counters;
    assert_eq!(
        (counters.sent, counters.in_flight),
        (12, 12),
        "{}",
        run.story()
    );
    assert_eq!(run.opened(), 3);
}

#[test]
fn a_lower_limit_of_the_server_holds_is_said_once_and_both_are_in_the_result() {
    let site = allowing(3, WINDOW_BYTES);
    let run = load(&site).at("/?fault=hang").connections(2).for_ms(600);
    let run = run.with(&["--http2", "-m8"]).timeout_ms(60_000).run();
    assert_eq!(
        run.result.recording.counters.in_flight,
        6,
        "{}",
        run.story()
    );
    assert_eq!(run.result.recording.streams_limit, Some(3));
    assert_eq!(run.result.plan.load.streams, 8);

    let run = load(&site).connections(2).requests(200);
    let run = run.with(&["--http2", "-m8"]).run().expect_answers(200);
    let said = run.stderr.matches("the server allows 3 streams").count();
    assert_eq!(said, 1, "{}", run.stderr);
    let kinds = warning_kinds(&run);
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| *kind == "streams_limited")
            .count(),
        1
    );
}

#[test]
fn rate_stages_and_warm_up_determine_what_is_due() {
    let site = site();
    for (options, due) in [
        (&["-d400ms", "-R500"][..], 200),
        (&["--stages", "100:200ms,0:100ms,500:200ms"], 120),
        (&["-d400ms", "-R500", "--warmup", "200ms"], 200),
    ] {
        let run = http2(&site).with(options).run().expect_answered_only();
        assert_eq!(run.result.recording.counters.due, due, "{}", run.story());
    }
}

#[test]
fn a_timeout_costs_its_stream_and_not_the_connection() {
    let site = site();
    let run = load(&site).at("/?fault=hang").connections(1).requests(4);
    let run = run.with(&["--http2", "-m4"]).timeout_ms(80).run();
    let run = run.expect_only(ErrorKind::Timeout);
    assert_eq!(run.events(ErrorKind::Timeout), 4, "{}", run.story());
    assert_eq!((run.failed(ErrorKind::Timeout), run.opened()), (4, 1));

    let run = load(&site).at("/?mix=10%:hang").connections(1).requests(60);
    let run = run.with(&["--http2", "-m4"]).timeout_ms(300).run();
    let run = run.expect_only(ErrorKind::Timeout);
    let failed = run.failed(ErrorKind::Timeout);
    assert_eq!(run.answered() + failed, 60, "{}", run.story());
}

#[test]
fn connections_end_after_their_requests_at_either_end() {
    let site = site();
    let run = http2(&site).requests(40);
    let run = run.with(&["--requests-per-connection", "5"]).run();
    let run = run.expect_answers(40);
    assert!(run.opened() >= 8, "{}", run.story());

    // The server announces the end (GOAWAY), and processes what came before.
    let site = site_with(Options {
        keepalive_requests: Some(5),
        ..Options::default()
    });
    let run = http2(&site).requests(60).run();
    let unprocessed = run.failed(ErrorKind::GoawayUnprocessed);
    assert_eq!(run.answered() + unprocessed, 60, "{}", run.story());
    assert_eq!(run.result.recording.errors.exchanges(), unprocessed);
    assert!(run.opened() > 2, "{}", run.story());
}

#[test]
fn scripts_make_requests_read_responses_and_delay() {
    for site in [site(), over_tls()] {
        let run = http2(&site).requests(60).script(
            "local n = 0
             function request()
                n = n + 1
                return wrk.format('POST', '/?echo&n=' .. n, {['X-N'] = n}, 'body ' .. n)
             end
             function response(status, headers, body)
                assert(status == 200 and headers['server'] == 'wrkbench')
                assert(body:match('^body %d+$'), body)
             end
             function delay() return n % 3 end",
        );
        run.run().expect_answers(60);
    }
}

#[test]
fn requests_have_method_path_fields_and_body() {
    let site = site_with(Options {
        record_requests: 1,
        ..Options::default()
    });
    let options = ["-X", "PUT", "-H", "X-Two: 2", "--body", "hello"];
    let run = http2(&site).at("/a?b=c").requests(1).with(&options).run();
    run.expect_answers(1);
    let authority = site.authority().to_owned();
    let recorded = String::from_utf8(site.stop().recorded.remove(0)).unwrap();
    let (head, body) = recorded.split_once("\r\n\r\n").unwrap();
    let lines: Vec<&str> = head.lines().collect();
    assert_eq!(
        lines[..4],
        [
            ":method: PUT",
            ":scheme: http",
            &format!(":authority: {authority}"),
            ":path: /a?b=c"
        ]
    );
    assert!(lines.contains(&"x-two: 2") && lines.contains(&"content-length: 5"));
    assert_eq!(body, "hello");
}

#[test]
fn uploads_keep_to_small_windows() {
    let site = allowing(100, 1_000);
    let path = site.folder.file_with("small", vec![b'x'; 300_000]);
    let run = http2(&site).at("/?echo").requests(8);
    let run = run.with(&["--body-file", &path]).run().expect_answers(8);
    assert!(run.result.recording.counters.bytes > 8 * 300_000);

    let site = allowing(100, 65_535);
    let path = site.folder.file_with("large", vec![b'x'; 100_000_000]);
    let run = load(&site).connections(1).requests(1).timeout_ms(120_000);
    let run = run.with(&["--http2", "--body-file", &path]).run();
    run.expect_answers(1);
    assert!(site.counts().bytes_in > 100_000_000);
}

#[test]
fn conditions_and_texts_are_those_of_any_run() {
    let site = site();
    let run = http2(&site).requests(40);
    let run = run.with(&["--fail-if", "p50<1h"]).start().finish();
    assert_eq!(run.code, Some(2), "{}", run.story());

    let plain = TextOptions::default();
    let latency = TextOptions {
        latency: true,
        ..plain.clone()
    };
    let breakout = TextOptions {
        breakout: true,
        ..plain.clone()
    };
    for (options, format, text) in [
        (&["-L"][..], Format::Wrk, &latency),
        (&["-R2k", "-L"], Format::Wrk2, &latency),
        (&["--breakout"], Format::Cmm, &breakout),
    ] {
        let run = http2(&site).requests(100).with(options).run();
        expect_text(&run.expect_answers(100), format, text);
    }
}

#[test]
fn a_server_without_http2_is_one_kind_of_error() {
    let site = site_with(Options {
        http2: None,
        ..Options::default()
    });
    let run = http2(&site).for_ms(300).run();
    run.expect_only(ErrorKind::NotHttp2);
}

#[test]
fn protocol_and_streams_are_factors_of_a_sweep() {
    let site = site();
    let folder = site.folder.file("sweep");
    std::fs::create_dir(&folder).unwrap();
    let io = crate::harness::io().map_or_else(String::new, |io| format!("io = {io:?}\n"));
    let path = format!("{folder}/plan.toml");
    let plan = format!(
        "name = 'h2'\nrounds = 1\nresults = '{folder}/results'\n\
         exclude = [{{ http2 = false, streams = 4 }}]\n\
         [load]\nthreads = 1\nconnections = 2\nrequests = 100\n{io}\
         [[target]]\nname = 'origin'\nurl = '{}'\n\
         [[factor]]\nhttp2 = [true, false]\n[[factor]]\nstreams = [1, 4]\n",
        site.url("/")
    );
    std::fs::write(&path, plan).unwrap();
    let journal = format!("{folder}/journal");
    let output = Process::start(program(&["sweep", &path, "--journal", &journal])).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let mut loads: Vec<_> = std::fs::read_dir(format!("{folder}/results/trials"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "json"))
        .map(|path| judge::trial(&std::fs::read(path).unwrap()))
        .map(|trial| match trial.outcome {
            TrialOutcome::Finished(result) => {
                assert_eq!(result.recording.counters.answered, 100);
                (
                    format!("{:?}", result.plan.load.protocol),
                    result.plan.load.streams,
                )
            }
            TrialOutcome::Failed(why) => panic!("{why}"),
        })
        .collect();
    loads.sort();
    let expected = [("Http1", 1), ("Http2", 1), ("Http2", 4)];
    let found: Vec<_> = loads
        .iter()
        .map(|(name, streams)| (name.as_str(), *streams))
        .collect();
    assert_eq!(found, expected);
}
