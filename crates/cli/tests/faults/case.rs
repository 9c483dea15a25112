//! A fault of the server as a row: what the server does, how wrkbench must count it, and how both
//! are compared.
//!
//! Each case is tried twice: with a server that affects every request, and with one that affects
//! every third. The first shows how the fault is counted, and that a run without a response reports
//! it; the second that it is counted once, and that the connection recovers: every unaffected
//! request gets a response.

use std::time::Duration;

use results::ErrorKind;
use testkit::{Folder, one_line};

use crate::adversary::{Adversary, Layer, Misbehavior, RIGHT, ServerStep, Tally, When, usual_tls};
use crate::client::{self, Finished};
use crate::row::{FaultRow, Pace, RowOutcome};

/// The requests of a run in which all are affected, and of one in which every third is.
const REQUESTS: u64 = 6;
const REQUESTS_MIXED: u64 = 24;
const ONE_OF: u64 = 3;
/// Low enough that requests do not overlap, and high enough to take little time.
const RATE_PER_SEC: u64 = 500;

/// The timeout of runs in which no timeout is expected, even on a busy machine.
const TIMEOUT_MS: u64 = 30_000;
/// The timeout where a timeout is expected.
pub(crate) const SHORT_TIMEOUT_MS: u64 = 60;
/// The duration of a run that sends nothing.
const DURATION_MS: u64 = 400;

/// How the program must count a fault.
#[derive(Debug, Clone)]
enum Expected {
    /// Each affected request fails once, with one of these kinds.
    Failure(Vec<ErrorKind>),
    /// No connection is established, which counts repeatedly as one of these kinds.
    NoConnection(Vec<ErrorKind>),
    /// No error: the response has this status.
    Response(u16),
    /// There is a response, followed by an event of one of these kinds, which may fail the next
    /// request if it is in flight then.
    ResponseThen(Vec<ErrorKind>),
}

/// A fault, before it is a row.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    id: &'static str,
    what: &'static str,
    when: When,
    steps: Vec<ServerStep>,
    options: Vec<String>,
    expected: Expected,
    layers: Vec<Layer>,
    patience_ms: u64,
    pace: Pace,
    is_slow_start: bool,
    requests: u64,
    /// The program sends at a constant rate.
    is_paced: bool,
}

/// What the server does instead of responding. The default is no failure.
pub(crate) fn asked(id: &'static str, what: &'static str, steps: &[ServerStep]) -> Case {
    Case {
        id,
        what,
        when: When::Asked,
        steps: steps.to_vec(),
        options: Vec::new(),
        expected: Expected::Response(200),
        layers: vec![Layer::Plain],
        patience_ms: TIMEOUT_MS,
        pace: Pace::Quick,
        is_slow_start: false,
        requests: REQUESTS,
        is_paced: false,
    }
}

/// What the server does to a new connection, below TLS.
pub(crate) fn connected(id: &'static str, what: &'static str, steps: &[ServerStep]) -> Case {
    Case {
        when: When::Connected,
        ..asked(id, what, steps)
    }
}

impl Case {
    pub(crate) fn fails(self, kind: ErrorKind) -> Self {
        self.fails_as(&[kind])
    }

    /// One of these kinds, depending on what the kernel reports first.
    pub(crate) fn fails_as(self, kinds: &[ErrorKind]) -> Self {
        Self {
            expected: Expected::Failure(kinds.to_vec()),
            patience_ms: if runs_out(kinds) {
                SHORT_TIMEOUT_MS
            } else {
                self.patience_ms
            },
            ..self
        }
    }

    /// No request can be sent.
    pub(crate) fn never_stands(self, kinds: &[ErrorKind]) -> Self {
        Self {
            expected: Expected::NoConnection(kinds.to_vec()),
            ..self
        }
    }

    pub(crate) fn with_status(self, status: u16) -> Self {
        Self {
            expected: Expected::Response(status),
            ..self
        }
    }

    pub(crate) fn then(self, kinds: &[ErrorKind]) -> Self {
        Self {
            expected: Expected::ResponseThen(kinds.to_vec()),
            ..self
        }
    }

    /// Options of the program. `BODY:N` is the path of a file of N bytes, `PEM:TEXT` that of a file
    /// with this text.
    pub(crate) fn with(self, options: &[&str]) -> Self {
        let options = options.iter().map(|&word| word.to_owned()).collect();
        Self { options, ..self }
    }

    /// The number of requests to a server that affects all.
    pub(crate) fn requests(self, requests: u64) -> Self {
        Self { requests, ..self }
    }

    pub(crate) fn patience_ms(self, patience_ms: u64) -> Self {
        Self {
            patience_ms,
            ..self
        }
    }

    /// Also inside TLS, with the same outcome.
    pub(crate) fn and_in_tls(self) -> Self {
        self.over(&[Layer::Plain, usual_tls()])
    }

    pub(crate) fn over(self, layers: &[Layer]) -> Self {
        Self {
            layers: layers.to_vec(),
            ..self
        }
    }

    /// Leaves Nagle's algorithm on at the server.
    pub(crate) fn with_nagle(self) -> Self {
        Self {
            is_slow_start: true,
            ..self
        }
    }

    pub(crate) fn slow(self) -> Self {
        Self {
            pace: Pace::Slow,
            ..self
        }
    }

    /// A row for each layer, and one at a constant rate.
    pub(crate) fn rows(self) -> Vec<FaultRow> {
        let mut rows: Vec<FaultRow> = self.layers.iter().map(|layer| self.row(layer)).collect();
        if self.when == When::Asked && !matches!(self.expected, Expected::NoConnection(_)) {
            let mut at_a_rate = self.clone();
            at_a_rate.is_paced = true;
            rows.push(at_a_rate.row(&self.layers[0]).slow());
        }
        rows
    }

    fn row(&self, layer: &Layer) -> FaultRow {
        let of_layer = match layer {
            Layer::Plain => "",
            Layer::Tls(_) => ", https",
            Layer::SlicedTls(_) => ", https byte for byte",
        };
        let of_rate = if self.is_paced { ", at a rate" } else { "" };
        let what = format!("{}{of_layer}{of_rate}", self.what);
        let (case, layer) = (self.clone(), layer.clone());
        let row = FaultRow::new(self.id, what, self.expected(), move || case.check(&layer));
        match self.pace {
            Pace::Quick => row,
            Pace::Slow => row.slow(),
            Pace::Alone => row.alone(),
        }
    }

    fn expected(&self) -> String {
        let names = |kinds: &[ErrorKind]| {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            names.join(" or ")
        };
        match &self.expected {
            Expected::Failure(kinds) | Expected::NoConnection(kinds) => names(kinds),
            Expected::Response(status) => format!("a response, {status}"),
            Expected::ResponseThen(kinds) => format!("a response, then {}", names(kinds)),
        }
    }

    fn check(&self, layer: &Layer) -> RowOutcome {
        let all = self.try_against(layer, 1);
        if matches!(self.expected, Expected::NoConnection(_)) {
            return RowOutcome::Held(all);
        }
        let some = self.try_against(layer, ONE_OF);
        RowOutcome::Held(format!("{all}; of some: {some}"))
    }

    /// One run against a server that affects one of `every` requests.
    fn try_against(&self, layer: &Layer, every: u64) -> String {
        let server = Adversary::start(Misbehavior {
            when: self.when,
            steps: self.steps.clone(),
            every,
            layer: layer.clone(),
            http2: None,
            is_slow_start: self.is_slow_start,
        });
        let is_without_session = self.when == When::Connected && layer.is_tls() && every == 1;
        let has_no_session =
            is_without_session || matches!(self.expected, Expected::NoConnection(_));
        let mut arguments = vec!["-t1".to_owned(), "-c2".to_owned()];
        arguments.push(format!("-T{}ms", self.patience_ms));
        arguments.push(match (has_no_session, every) {
            (true, _) => format!("-d{DURATION_MS}ms"),
            (false, 1) => format!("-n{}", self.requests),
            (false, _) => format!("-n{REQUESTS_MIXED}"),
        });
        if self.is_paced {
            arguments.push(format!("-R{RATE_PER_SEC}"));
        }
        if self.when == When::Connected && every > 1 {
            arguments.push("--no-keepalive".to_owned());
        }
        let folder = Folder::new();
        arguments.extend(self.options.iter().map(|word| filled(word, &folder)));
        let requests = if every == 1 {
            self.requests
        } else {
            REQUESTS_MIXED
        };
        let allowed = Duration::from_millis(DURATION_MS + self.longest_ms(requests));
        let run = client::run(&arguments, &server.url(), allowed);
        if is_without_session {
            assert_eq!((run.sent(), run.failed()), (0, 0), "{}", run.story());
        }
        match (&self.expected, has_no_session) {
            (Expected::Failure(kinds), true) | (Expected::NoConnection(kinds), _) => {
                no_connection_stood(&run, kinds)
            }
            (Expected::Failure(kinds), false) if every == 1 => {
                each_failed(&run, kinds, self.when, requests)
            }
            (Expected::Failure(kinds), false) => {
                some_failed(&run, kinds, self.when, server.tally())
            }
            (Expected::Response(status), _) => {
                answered(&run, *status, requests, server.tally());
                self.check_bytes(&run, server.tally());
            }
            (Expected::ResponseThen(kinds), _) => {
                answered_then(&run, kinds, requests, server.tally())
            }
        }
        run.errors()
    }

    /// The client has counted the bytes that the server sent.
    fn check_bytes(&self, run: &Finished, server: &Tally) {
        let of_steps = self.steps.iter().map(|step| match step {
            ServerStep::Send(bytes)
            | ServerStep::EachByte(bytes)
            | ServerStep::CutAnywhere(bytes) => bytes.len(),
            ServerStep::Drip(bytes, _) => bytes.len(),
            _ => 0,
        });
        let is_head = self.options.iter().any(|word| word == "HEAD");
        let right = RIGHT.len() - if is_head { b"right".len() } else { 0 };
        let usual = server.requests() - server.wrong();
        let sent = server.wrong() * of_steps.sum::<usize>() as u64 + usual * right as u64;
        let bytes = run.result.recording.counters.bytes;
        assert_eq!(bytes, sent, "bytes\n{}", run.story());
    }

    /// The longest correct duration of a run, one connection after the other.
    fn longest_ms(&self, requests: u64) -> u64 {
        let runs_out = self.patience_ms < TIMEOUT_MS;
        let waits = if runs_out { self.patience_ms } else { 0 };
        let paused: u64 = self
            .steps
            .iter()
            .map(|step| match step {
                ServerStep::Pause(pause_ms) => *pause_ms,
                ServerStep::Drip(bytes, pause_ms) => bytes.len() as u64 * pause_ms,
                _ => 0,
            })
            .sum();
        requests * (waits + paused)
    }
}

/// The kinds of errors of a timeout.
const TIMEOUTS: [ErrorKind; 2] = [ErrorKind::Timeout, ErrorKind::ConnectTimeout];

fn runs_out(kinds: &[ErrorKind]) -> bool {
    TIMEOUTS.iter().any(|timeout| kinds.contains(timeout))
}

fn assert_kinds(run: &Finished, kinds: &[ErrorKind], or_stale: bool) {
    let found = run.kinds();
    assert!(!found.is_empty(), "no error\n{}", run.story());
    let is_known = |kind: &ErrorKind| {
        kinds.contains(kind)
            || (or_stale && *kind == ErrorKind::Stale)
            || (runs_out(kinds) && TIMEOUTS.contains(kind))
    };
    assert!(
        found.iter().all(is_known),
        "{}\n{}",
        run.errors(),
        run.story()
    );
}

/// There was no response: one line says so with the most frequent kind, and the exit code is 1.
fn assert_said(run: &Finished, kinds: &[ErrorKind]) {
    assert_eq!(run.output.code, Some(1), "exit code\n{}", run.story());
    let line = one_line(&run.output.stderr);
    let is_said = kinds.iter().any(|kind| {
        let begin = format!("wrkbench: no request succeeded: {}", kind.describe());
        line.starts_with(&begin)
    });
    assert!(is_said, "{line}");
}

/// With TLS 1.3 the server may refuse a connection after the client has begun to use it (RFC 8446
/// section 4.4.2.4), so that requests may have been sent.
fn no_connection_stood(run: &Finished, kinds: &[ErrorKind]) {
    assert_kinds(run, kinds, false);
    assert_eq!(run.answered(), 0, "{}", run.story());
    assert_said(run, kinds);
}

/// The events that may have failed requests. A connection that fails before it is established has
/// none.
fn ends_of_requests(run: &Finished) -> u64 {
    let errors = &run.result.recording.errors;
    let without = [ErrorKind::ConnectTimeout, ErrorKind::ConnectReset];
    run.events()
        - without
            .map(|kind| errors.count(kind).events)
            .iter()
            .sum::<u64>()
}

fn each_failed(run: &Finished, kinds: &[ErrorKind], when: When, requests: u64) {
    assert_kinds(run, kinds, false);
    let counts = (run.sent(), run.answered(), run.failed());
    assert_eq!(counts, (requests, 0, requests), "{}", run.story());
    // A connection that ends before it is used fails no request.
    let events = ends_of_requests(run);
    let is_once = match when {
        When::Asked => events == requests,
        When::Connected => events >= requests,
    };
    assert!(is_once, "{events} events\n{}", run.story());
    assert_said(run, kinds);
}

fn some_failed(run: &Finished, kinds: &[ErrorKind], when: When, server: &Tally) {
    // Without a byte of a response it may look like the end of an idle connection.
    let is_silent = kinds
        .iter()
        .any(|kind| matches!(kind, ErrorKind::Reset | ErrorKind::ClosedEarly));
    assert_kinds(run, kinds, is_silent);
    assert_eq!(run.output.code, Some(0), "exit code\n{}", run.story());
    let counts = (run.sent(), run.answered() + run.failed());
    assert_eq!(counts, (REQUESTS_MIXED, REQUESTS_MIXED), "{}", run.story());
    if when == When::Asked {
        let (failed, wrong) = (run.failed(), server.wrong());
        let events = ends_of_requests(run);
        assert_eq!(failed, events, "failed, events\n{}", run.story());
        if runs_out(kinds) {
            // On a busy machine, a request may also time out that would have got a response.
            assert!(failed >= wrong, "{wrong}\n{}", run.story());
        } else {
            let counts = (failed, server.requests());
            assert_eq!(
                counts,
                (wrong, REQUESTS_MIXED),
                "the server's\n{}",
                run.story()
            );
        }
    }
    assert!(
        run.answered() > 0,
        "no connection recovered\n{}",
        run.story()
    );
}

fn answered(run: &Finished, status: u16, requests: u64, server: &Tally) {
    assert_eq!(run.output.code, Some(0), "exit code\n{}", run.story());
    assert_eq!(run.kinds(), [], "{}\n{}", run.errors(), run.story());
    assert_eq!(
        (run.sent(), run.answered()),
        (requests, requests),
        "{}",
        run.story()
    );
    assert_eq!(server.requests(), requests, "the server's\n{}", run.story());
    let so = run.result.recording.statuses.count(status);
    // Those that are treated well get 200.
    let expected = if status == 200 {
        requests
    } else {
        server.wrong()
    };
    assert_eq!(so, expected, "responses with {status}\n{}", run.story());
}

fn answered_then(run: &Finished, kinds: &[ErrorKind], requests: u64, server: &Tally) {
    assert_eq!(run.output.code, Some(0), "exit code\n{}", run.story());
    assert_eq!(run.answered() + run.failed(), requests, "{}", run.story());
    let is_known = |kind: &ErrorKind| kinds.contains(kind);
    assert!(
        run.kinds().iter().all(is_known),
        "{}\n{}",
        run.errors(),
        run.story()
    );
    // Each such response costs at most the request that follows it on its connection.
    assert!(run.answered() >= requests / 2, "{}", run.story());
    assert!(run.events() <= server.wrong(), "{}", run.story());
    // What comes in the same piece as the response is always seen.
    if kinds == [ErrorKind::Unsolicited] {
        let counts = (run.failed(), run.events());
        assert_eq!(
            counts,
            (0, server.wrong()),
            "failed, events\n{}",
            run.story()
        );
    }
}

/// A word of the options with the file that it stands for.
fn filled(word: &str, folder: &Folder) -> String {
    match word.split_once(':') {
        Some(("BODY", bytes)) => folder.file_with("body", vec![b'x'; bytes.parse().unwrap()]),
        Some(("PEM", text)) => {
            let name = if text.contains("PRIVATE KEY") {
                "key.pem"
            } else {
                "certificate.pem"
            };
            folder.file_with(name, text)
        }
        _ => word.to_owned(),
    }
}
