//! Access logs: which requests they have, and when those are due.

use std::io::{self, BufReader, Read};

use plan::Target;
use proptest::prelude::*;
use requests::{Defaults, LogOptions, LogSummary, RequestSet, load_log};

fn load(
    text: &[u8],
    format: Option<&str>,
    change: impl FnOnce(&mut LogOptions<'_>),
) -> Result<(RequestSet, LogSummary), String> {
    let target = Target::parse("http://h:8080/").expect("it is a URL");
    let headers = [("X-All".to_owned(), "1".to_owned())];
    let defaults = Defaults {
        target: Some(&target),
        headers: &headers,
        ..Defaults::default()
    };
    let mut options = LogOptions {
        format,
        all_methods: false,
        speed: 1.0,
    };
    change(&mut options);
    let mut input = text;
    load_log("log", &mut input, &defaults, &options).map_err(|error| error.to_string())
}

/// Milliseconds and request line of each request that is sent, with its status in the log.
fn sent(set: &RequestSet) -> Vec<(f64, String, u16)> {
    let recorded = set.recorded().expect("it is of a log");
    let due_ns = recorded.due_ns().iter();
    let one = |(number, due_ns): (u64, &u64)| {
        let (request, status) = recorded.nth(number);
        let bytes = &set.bytes()[set.fixed(request).expect("it has no templates")];
        let text = String::from_utf8(bytes.to_vec()).expect("it is text");
        let line = text.lines().next().expect("it has a line").to_owned();
        (*due_ns as f64 / 1e6, line, status)
    };
    (0..).zip(due_ns).map(one).collect()
}

fn text_of(set: &RequestSet, number: u64) -> String {
    let (request, _) = set.recorded().expect("it is of a log").nth(number);
    let bytes = &set.bytes()[set.fixed(request).expect("it has no templates")];
    String::from_utf8(bytes.to_vec()).expect("it is text")
}

const COMBINED: &str = concat!(
    r#"10.0.0.1 - - [23/Nov/2026:14:00:00 +0000] "GET /a?x=1 HTTP/1.1" 200 5 "http://r/" "#,
    r#""UA \"x\"""#,
    "\n10.0.0.2 - bob [23/Nov/2026:15:00:00 +0100] \"HEAD /b HTTP/2.0\" 304 - \"-\" \"-\"\n",
    "10.0.0.1 - - [23/Nov/2026:14:00:01 +0000] \"POST /c HTTP/1.1\" 201 5 \"-\" \"-\"\n",
);

#[test]
fn a_combined_log_is_recognised_and_its_seconds_are_spread() {
    let (set, summary) = load(COMBINED.as_bytes(), None, |_| ()).expect("it is a log");
    assert_eq!(
        sent(&set),
        [
            (0.0, "GET /a?x=1 HTTP/1.1".to_owned(), 200),
            (500.0, "HEAD /b HTTP/1.1".to_owned(), 304),
        ]
    );
    assert_eq!(
        text_of(&set, 0),
        "GET /a?x=1 HTTP/1.1\r\nHost: h:8080\r\nReferer: http://r/\r\nUser-Agent: UA \"x\"\r\n\
         X-All: 1\r\n\r\n"
    );
    let expected = LogSummary {
        lines: 3,
        requests: 2,
        unsafe_left_out: 1,
        in_seconds: true,
        ..LogSummary::default()
    };
    assert_eq!(summary, expected);
}

#[test]
fn requests_of_all_methods_are_sent_only_if_asked_for() {
    let all = |options: &mut LogOptions<'_>| options.all_methods = true;
    let (set, summary) = load(COMBINED.as_bytes(), None, all).expect("it is a log");
    assert_eq!(sent(&set)[2], (1000.0, "POST /c HTTP/1.1".to_owned(), 201));
    assert_eq!((summary.requests, summary.without_body), (3, 1));
    let only = r#"h - - [23/Nov/2026:14:00:01 +0000] "DELETE /c HTTP/1.1" 201 5"#;
    let error = load(only.as_bytes(), None, |_| ()).expect_err("nothing is left");
    assert_eq!(
        error,
        "log:1:1: all 1 requests may change something on the server; --all-methods sends them, \
         without bodies"
    );
}

#[test]
fn formats_of_nginx_and_apache_give_moments_targets_and_headers() {
    let cases: [(&str, &str, &str, &str); 9] = [
        (
            r#"$msec "$request" $status"#,
            "1700000000.250 \"GET /1 HTTP/1.1\" 200\n1700000000.000 \"GET /0 HTTP/1.1\" 200",
            "0 GET /0 | 250 GET /1",
            "Host: h:8080",
        ),
        (
            "$msec $request_time $request_method $request_uri",
            "1700000010.000 9.500 GET /slow\n1700000001.000 0.250 GET /fast",
            "0 GET /slow | 250 GET /fast",
            "X-All: 1",
        ),
        (
            "[$time_local] $request_time $request_method $uri$is_args$args",
            "[23/Nov/2026:14:00:05 +0000] 0.1 GET /b?c=1\n\
             [23/Nov/2026:14:00:05 +0000] 2.0 GET /a",
            "0 GET /a | 2000 GET /b?c=1",
            "X-All: 1",
        ),
        (
            r#"{"t":"$time_iso8601","r":"$request","h":"$host","l":"$http_accept_language"}"#,
            r#"{"t":"2026-11-23T14:00:00+00:00","r":"GET /\u0022 HTTP/1.1","h":"a.test","l":"de"}"#,
            "0 GET /\"",
            "accept-language: de",
        ),
        (
            r#"$time_iso8601 "$request" "$http_user_agent""#,
            r#"2026-11-23T14:00:00+00:00 "GET /x HTTP/1.0" "a\x22b""#,
            "0 GET /x",
            "user-agent: a\"b",
        ),
        (
            r#"%{sec}t.%{msec_frac}t %m %U%q %>s"#,
            "1700000000.999 GET /u?q 200\n1700000000.499 GET /v 200",
            "0 GET /v | 500 GET /u?q",
            "X-All: 1",
        ),
        (
            r#"%v %h %l %u %t \"%r\" %>s %b %D \"%{X-Id}i\""#,
            r#"www.test 1.2.3.4 - - [23/Nov/2026:14:00:00 -0500] "GET /x HTTP/1.1" 200 1 77 "7""#,
            "0 GET /x",
            "X-Id: 7",
        ),
        (
            "%{usec}t %r",
            "1700000000000250 GET /b HTTP/1.1\n1700000000000000 GET /a HTTP/1.1",
            "0 GET /a | 0.25 GET /b",
            "X-All: 1",
        ),
        (
            "common",
            "h - - [23/Nov/2026:14:00:00 +0000] \"GET http://other:1/p?q HTTP/1.1\" 200 1",
            "0 GET /p?q",
            "Host: h:8080",
        ),
    ];
    for (format, lines, expected, header) in cases {
        let (set, summary) = load(lines.as_bytes(), Some(format), |_| ())
            .unwrap_or_else(|error| panic!("{format}: {error}"));
        let found: Vec<String> = sent(&set)
            .iter()
            .map(|(ms, line, _)| format!("{ms} {}", line.trim_end_matches(" HTTP/1.1")))
            .collect();
        assert_eq!(found.join(" | "), expected, "{format}: {summary:?}");
        let text = text_of(&set, 0);
        assert!(
            text.contains(&format!("\r\n{header}\r\n")),
            "{format}: {text}"
        );
    }
}

#[test]
fn a_host_in_the_log_is_sent_as_the_host() {
    let line =
        r#"a.test:80 1.2.3.4 - - [23/Nov/2026:14:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-""#;
    let (set, _) = load(line.as_bytes(), None, |_| ()).expect("it is vhost_combined");
    assert!(text_of(&set, 0).starts_with("GET / HTTP/1.1\r\nHost: a.test\r\n"));
}

#[test]
fn fields_behind_a_well_known_format_are_skipped() {
    let line = r#"h - - [23/Nov/2026:14:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-" 0.123 "more""#;
    let (set, _) = load(line.as_bytes(), None, |_| ()).expect("it is combined");
    assert_eq!(sent(&set).len(), 1);
    let error = load(line.as_bytes(), Some("combined"), |_| ()).expect_err("it has more");
    assert!(error.contains("expected the end of the line"), "{error}");
}

#[test]
fn the_speed_divides_all_times() {
    let lines = "1700000000 GET /a\n1700000010 GET /b\n";
    let format = Some("$msec $request");
    let (set, _) = load(lines.as_bytes(), format, |options| options.speed = 4.0).expect("a log");
    assert_eq!(
        set.recorded().expect("it is of a log").due_ns()[1],
        2_500_000_000
    );
}

#[test]
fn equal_requests_are_kept_once() {
    let lines: String = (0..1000)
        .map(|n| format!("{n} GET /{} HTTP/1.1\n", n % 3))
        .collect();
    let (set, _) = load(lines.as_bytes(), Some("$msec $request"), |_| ()).expect("it is a log");
    assert_eq!((set.len(), sent(&set).len()), (3, 1000));
}

#[test]
fn lines_that_cannot_be_sent_are_counted_and_the_first_is_named() {
    let log = format!(
        "{COMBINED}# a comment\n\n\
         1.2.3.4 - - [23/Nov/2026:14:00:00 +0000] \"\\x16\\x03\" 400 0 \"-\" \"-\"\n\
         1.2.3.4 - - [23/Nov/2026:14:00:00 +0000] \"OPTIONS * HTTP/1.1\" 200 0 \"-\" \"-\"\n\
         1.2.3.4 - - [99/Nov/2026:14:00:00 +0000] \"GET / HTTP/1.1\" 200 0 \"-\" \"-\"\n"
    );
    let (_, summary) = load(log.as_bytes(), None, |_| ()).expect("most lines are good");
    assert_eq!((summary.lines, summary.unusable), (6, 3));
    let first = summary.first_unusable.expect("there is one").to_string();
    assert_eq!(
        first,
        "log:6:43: \"\\\\x16\\\\x03\" is not a request (expected like GET / HTTP/1.1)"
    );
}

#[test]
fn what_is_no_log_is_refused_with_its_position() {
    for (text, format, expected) in [
        ("", None, "log:1:1: the log is empty"),
        (
            "root:x:0:0:root\n",
            None,
            "log:1:1: expected \" \" in the rest of the line (1 of 1 lines are not in the format \
             combined; give it with --log-format)",
        ),
        (
            "1 GET /\n",
            Some("$request"),
            "--log-format:1:1: the format has no time ($time_local, $time_iso8601, $msec, or %t)",
        ),
        (
            "1 GET /\n",
            Some("$msec $status"),
            "--log-format:1:1: the format has no request ($request, $request_uri, %r, or %U)",
        ),
        (
            "x",
            Some("$msec$request"),
            "--log-format:1:6: two fields need text between them",
        ),
        (
            "x",
            Some("%{%s}t %r"),
            "--log-format:1:1: %{%s}t cannot be read (expected %t, or sec, msec, usec, msec_frac \
             or usec_frac in the braces)",
        ),
        (
            "x",
            Some("combine"),
            "--log-format:1:1: \"combine\" is not a format (expected combined, common, \
             vhost_combined, or the text of a log_format of nginx or a LogFormat of Apache)",
        ),
        (
            "1700000000 GET /x y HTTP/1.1\n",
            Some("$msec $request"),
            "log:1:12: \"GET /x y HTTP/1.1\" is not a request (expected like GET / HTTP/1.1) (1 of \
             1 lines are not in the format \"$msec $request\"; give it with --log-format)",
        ),
    ] {
        let error = load(text.as_bytes(), format, |_| ()).map(|_| ());
        assert_eq!(error, Err(expected.to_owned()));
    }
}

#[test]
fn a_request_file_is_no_log_unless_a_format_says_so() {
    let text = b"{\"path\":\"/\",\"at\":1}\n";
    let error = load(text, None, |_| ()).expect_err("it is no log");
    assert!(
        error.starts_with("log:1:1: this is JSON: --requests FILE"),
        "{error}"
    );
    let json = b"{\"t\":1.5,\"r\":\"GET / HTTP/1.1\"}\n";
    let format = "{\"t\":$msec,\"r\":\"$request\"}";
    assert!(load(json, Some(format), |_| ()).is_ok());
}

#[test]
fn a_log_is_read_to_its_end_or_not_used() {
    let target = Target::parse("http://h:8080/").expect("it is a URL");
    let defaults = Defaults {
        target: Some(&target),
        ..Defaults::default()
    };
    let options = LogOptions {
        format: None,
        all_methods: false,
        speed: 1.0,
    };
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk has failed"))
        }
    }
    let mut broken = BufReader::new(COMBINED.as_bytes().chain(Broken));
    let error = load_log("log", &mut broken, &defaults, &options).map(drop);
    let error = error.expect_err("it is not complete");
    assert_eq!(error.to_string(), "the disk has failed");

    let endless = COMBINED.as_bytes().chain(io::repeat(b'x'));
    let error = load_log("log", &mut BufReader::new(endless), &defaults, &options).map(drop);
    assert_eq!(
        error.expect_err("a line does not end").to_string(),
        "log:4:1: the line is longer than 1 MiB, so this is no access log"
    );

    struct Lines;
    impl Read for Lines {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let line = buffer.get_mut(..2).expect("buffers are longer");
            line.copy_from_slice(b"x\n");
            Ok(2)
        }
    }
    let error = load_log("log", &mut BufReader::new(Lines), &defaults, &options).map(drop);
    let said = error.expect_err("no line is one of a log").to_string();
    assert!(said.starts_with("log:1:1: "), "{said}");
    assert!(
        said.contains("(100000 of 100000 lines are not in the format"),
        "{said}"
    );
}

proptest! {
    #[test]
    fn any_text_is_a_log_or_is_refused_in_a_line(
        text in "[\\PC\n\"\\\\\\[\\] /:-]{0,200}",
        format in prop::option::of("[\\PC$%{}\" ]{0,40}"),
    ) {
        if let Err(error) = load(text.as_bytes(), format.as_deref(), |_| ()) {
            prop_assert_eq!(error.lines().count(), 1);
        }
    }
}
