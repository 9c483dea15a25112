//! Each misbehaviour of the server, and the kind of error it is counted as.

use origin::{Greeting, Options};
use results::{ErrorKind, Legacy};

use crate::harness::{ENDS_BEHIND_AN_ANSWER, Run, load, one_line, site, site_with};

/// What the server does wrong, and what that is.
const FAULTS: &[(&str, ErrorKind)] = &[
    ("fault=reset", ErrorKind::Reset),
    ("fault=reset-after-head", ErrorKind::Reset),
    ("size=10k&fault=reset-mid-body", ErrorKind::Reset),
    ("fault=fin-before", ErrorKind::ClosedEarly),
    ("fault=no-head-crlf", ErrorKind::Truncated),
    ("fault=truncate", ErrorKind::Truncated),
    ("size=1M&fault=truncate", ErrorKind::Truncated),
    ("chunked&fault=truncate", ErrorKind::Truncated),
    ("fault=endless-head", ErrorKind::HeaderTooLarge),
    ("fault=garbage", ErrorKind::BadStatusLine),
    ("fault=http09", ErrorKind::BadStatusLine),
    ("fault=bad-version", ErrorKind::BadVersion),
    ("fault=tls-on-plain", ErrorKind::TlsOnPlain),
    ("fault=big-head", ErrorKind::HeaderTooLarge),
    ("fault=many-headers:300", ErrorKind::TooManyHeaders),
    ("fault=bad-chunk", ErrorKind::BadChunk),
    ("fault=bad-chunk:empty", ErrorKind::BadChunk),
    ("fault=bad-chunk:negative", ErrorKind::BadChunk),
    ("fault=bad-chunk:overflow", ErrorKind::BadChunk),
    ("fault=bad-chunk:no-crlf", ErrorKind::BadChunk),
    ("fault=bad-chunk:eof", ErrorKind::Truncated),
    ("fault=bad-chunk:no-end", ErrorKind::Truncated),
    ("fault=chunk-extension:100k", ErrorKind::BadChunk),
    ("fault=cl-te", ErrorKind::ConflictingFraming),
    ("fault=dup-cl", ErrorKind::BadContentLength),
    ("fault=bad-length", ErrorKind::BadContentLength),
    ("fault=bad-length:%2B5", ErrorKind::BadContentLength),
    ("fault=bad-length:0x5", ErrorKind::BadContentLength),
    (
        "fault=bad-length:99999999999999999999",
        ErrorKind::BadContentLength,
    ),
    (
        "fault=transfer-encoding:chunked,chunked",
        ErrorKind::BadTransferEncoding,
    ),
    ("interim=65", ErrorKind::TooManyInterim),
    ("status=101", ErrorKind::UnexpectedUpgrade),
    ("fault=hang", ErrorKind::Timeout),
    ("fault=hang-after-head", ErrorKind::Timeout),
    ("fault=hang-mid-body", ErrorKind::Timeout),
];

/// Short only where the end of patience is what is looked at: the machine may be busy.
fn patience_ms(kind: ErrorKind) -> u64 {
    if kind == ErrorKind::Timeout {
        60
    } else {
        30_000
    }
}

/// The same as one of several things that may happen (`mix=`).
fn as_mix(options: &str, probability: &str) -> Option<String> {
    let (before, fault) = options.split_once("fault=")?;
    Some(format!("/?{before}mix={probability}:{fault}"))
}

fn legacy_line(run: &Run<'_>) -> [u64; 4] {
    let (_, line) = run.stdout.split_once("  Socket errors: ").unwrap();
    let line = line.lines().next().unwrap();
    let mut counts = line
        .split(", ")
        .zip(["connect ", "read ", "write ", "timeout "]);
    std::array::from_fn(|_| {
        let (part, name) = counts.next().unwrap();
        part.strip_prefix(name).unwrap().parse().unwrap()
    })
}

#[test]
fn a_server_that_only_misbehaves_gives_its_kind_of_error_once_for_each_request() {
    for &(options, kind) in FAULTS {
        let site = site();
        let run = load(&site).at(&format!("/?{options}")).requests(6);
        let run = run.timeout_ms(patience_ms(kind)).run().expect_only(kind);
        assert_eq!((run.sent(), run.answered()), (6, 0), "{}", run.story());
        assert_eq!(
            (run.events(kind), run.failed(kind)),
            (6, 6),
            "{}",
            run.story()
        );
        let mut expected = [0; 4];
        expected[match kind.legacy().unwrap() {
            Legacy::Connect => 0,
            Legacy::Read => 1,
            Legacy::Write => 2,
            Legacy::Timeout => 3,
        }] = 6;
        assert_eq!(legacy_line(&run), expected, "{}", run.story());
        // Nothing succeeded: that is said, and is the exit code.
        let line = one_line(&run.stderr);
        assert_eq!(
            line,
            format!(
                "wrkbench: no request succeeded: {} (6 times)",
                kind.describe()
            )
        );
        let timed_out = if kind == ErrorKind::Timeout { 6 } else { 0 };
        assert_eq!(run.result.recording.timed_out.count(), timed_out);
    }
}

#[test]
fn after_a_fault_the_next_requests_are_answered() {
    for &(options, kind) in FAULTS {
        let Some(target) = as_mix(options, "30%") else {
            continue;
        };
        let site = site();
        // A connection for each request, since on one that has served before a close without a byte
        // may be that of an idle connection.
        let run = load(&site).at(&target).requests(60);
        let run = run
            .timeout_ms(patience_ms(kind))
            .with(&["--no-keepalive"])
            .run()
            .expect_only(kind);
        assert_eq!(run.sent(), 60, "{}", run.story());
        assert_eq!(run.answered() + run.failed(kind), 60, "{}", run.story());
        assert_eq!(run.events(kind), run.failed(kind), "{}", run.story());
        let (events, phrase) = (run.events(kind), kind.describe());
        let note = format!("wrkbench: note: {events} x {kind}: {phrase}, {events} requests lost\n");
        assert!(run.stderr.contains(&note), "{note}{}", run.story());
        assert!(run.answered() > 0, "{}", run.story());
    }
}

#[test]
fn faults_on_kept_connections_are_counted_once_and_the_connections_replaced() {
    for &(options, kind) in FAULTS {
        let Some(target) = as_mix(options, "10%") else {
            continue;
        };
        let site = site();
        let run = load(&site)
            .at(&target)
            .requests(200)
            .timeout_ms(patience_ms(kind))
            .run();
        let failed = run.failed(kind) + run.failed(ErrorKind::Stale);
        assert_eq!(run.sent(), 200);
        assert_eq!(run.answered() + failed, 200, "{target}\n{}", run.story());
        assert!(
            failed > 0 && run.answered() > 0,
            "{target}\n{}",
            run.story()
        );
        // Stale is what cannot be told from the end of an idle connection: no byte of an answer.
        let may_be_stale = ["mix=10%:reset", "mix=10%:fin-before"]
            .iter()
            .any(|end| target.ends_with(end));
        assert!(
            may_be_stale || run.failed(ErrorKind::Stale) == 0,
            "{target}\n{}",
            run.story()
        );
    }
}

#[test]
fn a_lost_connection_ends_all_its_pipelined_requests_in_one_event() {
    let site = site();
    let run = load(&site).at("/?fault=hang").connections(1).requests(8);
    let run = run.timeout_ms(60).with(&["--pipeline", "8"]).run();
    let run = run.expect_only(ErrorKind::Timeout);
    assert_eq!(
        (
            run.events(ErrorKind::Timeout),
            run.failed(ErrorKind::Timeout)
        ),
        (1, 8)
    );
    assert_eq!(run.result.recording.timed_out.count(), 8);
}

#[test]
fn bytes_that_nobody_asked_for_are_an_event_and_end_no_request() {
    for target in ["/?fault=two-answers", "/?fault=surplus"] {
        let site = site();
        let run = load(&site).at(target).requests(40).run();
        let run = run.expect_only(ErrorKind::Unsolicited);
        assert_eq!((run.sent(), run.answered()), (40, 40), "{}", run.story());
        assert_eq!(run.failed(ErrorKind::Unsolicited), 0);
        assert_eq!(run.events(ErrorKind::Unsolicited), 40, "{}", run.story());
    }
}

#[test]
fn an_answer_to_an_idle_connection_is_an_event_and_ends_no_request() {
    let site = site();
    let run = load(&site).at("/?fault=unsolicited:2ms").requests(8);
    let run = run.script("function delay() return 200 end").run();
    assert_eq!((run.sent(), run.answered()), (8, 8), "{}", run.story());
    let run = run.expect_only(ErrorKind::Unsolicited);
    assert_eq!(run.failed(ErrorKind::Unsolicited), 0);
}

#[test]
fn a_body_where_none_may_be_costs_the_connection() {
    let site = site();
    let run = load(&site).at("/?fault=body204").requests(40).run();
    // The body comes with the head, or it is taken for the beginning of the next answer.
    assert!(
        run.kinds()
            .iter()
            .all(|kind| matches!(kind, ErrorKind::Unsolicited | ErrorKind::BadStatusLine)),
        "{}",
        run.story()
    );
    assert!(
        run.answered() > 0 && !run.kinds().is_empty(),
        "{}",
        run.story()
    );
}

#[test]
fn a_server_that_ends_the_connection_behind_an_answer_costs_at_most_the_request_on_its_way() {
    for target in ENDS_BEHIND_AN_ANSWER {
        let site = site();
        let run = load(&site).at(target).requests(60).run();
        run.expect_ends_behind_answers(60, 30);
    }
}

#[test]
fn an_endless_body_is_neither_kept_nor_waited_for() {
    for target in ["/?fault=endless-body", "/?fault=endless-body:length"] {
        let site = site();
        let run = load(&site).at(target).connections(1).requests(2);
        let run = run.timeout_ms(100).run().expect_only(ErrorKind::Timeout);
        assert_eq!(run.failed(ErrorKind::Timeout), 2);
        assert!(run.result.recording.counters.bytes > 0);
    }
}

#[test]
fn a_coding_that_is_unknown_leaves_the_end_to_the_close() {
    let site = site();
    let run = load(&site)
        .at("/?fault=transfer-encoding&close")
        .requests(20);
    run.run().expect_answers(20);
}

#[test]
fn what_a_server_does_to_new_connections_is_counted_as_what_it_is() {
    for (greeting, kinds) in [
        (
            Greeting::Reset,
            &[
                ErrorKind::Reset,
                ErrorKind::ConnectReset,
                ErrorKind::BrokenPipe,
            ][..],
        ),
        (
            Greeting::Fin,
            &[
                ErrorKind::ClosedEarly,
                ErrorKind::BrokenPipe,
                ErrorKind::Reset,
            ],
        ),
        (Greeting::Stall, &[ErrorKind::Timeout]),
        (Greeting::Alert, &[ErrorKind::TlsOnPlain]),
        (Greeting::Garbage, &[ErrorKind::BadStatusLine]),
    ] {
        let site = site_with(Options {
            greeting,
            ..Options::default()
        });
        let run = load(&site).for_ms(200).timeout_ms(60).run();
        assert_eq!(run.answered(), 0);
        let found = run.kinds();
        assert!(!found.is_empty(), "{greeting:?}\n{}", run.story());
        assert!(
            found.iter().all(|kind| kinds.contains(kind)),
            "{greeting:?}\n{}",
            run.story()
        );
        assert!(one_line(&run.stderr).starts_with("wrkbench: no request succeeded: "));
    }
}

#[test]
fn failures_in_a_row_slow_down_to_a_bounded_number_of_attempts() {
    let site = site_with(Options {
        greeting: Greeting::Reset,
        ..Options::default()
    });
    let run = load(&site).connections(1).for_ms(500).run();
    // Two at once, then after 1, 2, 4 ... ms, each cut to half at most: within t ms that are
    // log2(2 t + 1) pauses and one under way.
    let most = 2 + (2.0_f64 * 500.0 + 1.0).log2().ceil() as u64 + 1;
    assert!(
        site.counts().connections <= most + 1,
        "{most}\n{}",
        run.story()
    );
}
