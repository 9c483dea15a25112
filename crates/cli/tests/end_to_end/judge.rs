//! What must hold of every run: the document, the report and the server do not contradict each
//! other.

use std::sync::LazyLock;

use jsonschema::Validator;
use origin::Counts;
use report::{Format, TextOptions};
use results::{ErrorKind, Legacy, RunResult, Trial, Warning};
use serde_json::Value;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../docs/result.schema.json");
    serde_json::from_str(text).unwrap()
});

static RESULT: LazyLock<Validator> = LazyLock::new(|| validator(&SCHEMA));

static TRIAL: LazyLock<Validator> = LazyLock::new(|| {
    let defs = &SCHEMA["$defs"];
    validator(&serde_json::json!({"$ref": "#/$defs/Trial", "$defs": defs}))
});

fn validator(schema: &Value) -> Validator {
    jsonschema::draft202012::new(schema).unwrap()
}

fn check_schema(validator: &Validator, bytes: &[u8]) {
    let value: Value = serde_json::from_slice(bytes).unwrap();
    let faults: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path))
        .collect();
    assert_eq!(faults, [""; 0]);
}

/// Reads a trial of a sweep, which must match the schema.
pub(crate) fn trial(bytes: &[u8]) -> Trial {
    check_schema(&TRIAL, bytes);
    results::file::load_trial(bytes).unwrap()
}

/// Reads a saved document, which must match the schema and be consistent.
pub(crate) fn document(bytes: &[u8]) -> RunResult {
    check_schema(&RESULT, bytes);
    let result = results::file::load(bytes).unwrap();
    assert_eq!(results::check(&result), Ok(()));
    check_phases(&result);
    check_series(&result);
    check_window(&result);
    check_ways_of_counting(&result);
    if let Some(io) = crate::harness::io() {
        let expected = if io == "uring" { "io_uring" } else { &io };
        assert_eq!(result.backend.name, expected);
    }
    result
}

fn check_phases(result: &RunResult) {
    let recording = &result.recording;
    let (counters, phases) = (&recording.counters, &recording.phases);
    assert_eq!(phases.connect.count(), counters.connections_opened);
    let handshakes = counters.tls_full + counters.tls_resumed;
    assert_eq!(phases.tls.count(), handshakes);
    // Each response is measured, or the last one of each batch.
    let samples = recording.service_time.count();
    if !result.plan.load.batch_latency {
        assert_eq!(samples, counters.answered);
    }
    assert_eq!(phases.first_byte.count(), samples);
    assert_eq!(phases.last_byte.count(), samples);
}

fn check_series(result: &RunResult) {
    let recording = &result.recording;
    let rows = recording.series.rows();
    let bytes: u64 = rows.iter().map(|row| row.bytes).sum();
    assert_eq!(bytes, recording.counters.bytes);
    let errors: u64 = rows.iter().map(|row| row.errors).sum();
    match result.window.drained_ns {
        None => assert_eq!(errors, recording.errors.events()),
        // Those after the window are in no row.
        Some(_) => assert!(errors <= recording.errors.events()),
    }
}

fn check_window(result: &RunResult) {
    let Some(duration) = result.plan.stop.duration else {
        return;
    };
    let (is, wanted) = (u128::from(result.window.duration_ns), duration.as_nanos());
    assert!(is <= wanted, "{is} > {wanted}");
    let may_end_early = result.window.interrupted
        || result.plan.stop.requests.is_some()
        || result.plan.request.script.is_some();
    assert!(is == wanted || may_end_early, "{is} < {wanted}");
}

/// No run says that wrkbench has a bug.
fn check_ways_of_counting(result: &RunResult) {
    let contradicts = |warning: &Warning| {
        matches!(
            warning,
            Warning::InconsistentConcurrency { .. } | Warning::InconsistentSchedule { .. }
        )
    };
    let mut warnings = result.warnings.iter();
    let found = warnings.find(|warning| contradicts(&warning.data));
    assert_eq!(found, None);
}

/// The report on stdout agrees with the document: rendering the document again gives the same text
/// from the totals on. The four error counters of wrk are checked separately.
pub(crate) fn report(result: &RunResult, stdout: &str) {
    let mut text = Vec::new();
    report::render(result, Format::Wrk, &TextOptions::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let totals = totals_of(&text);
    assert!(stdout.contains(totals), "no {totals:?} in {stdout:?}");

    let errors = &result.recording.errors;
    let count = |counter| errors.legacy(counter);
    let line = format!(
        "  Socket errors: connect {}, read {}, write {}, timeout {}\n",
        count(Legacy::Connect),
        count(Legacy::Read),
        count(Legacy::Write),
        count(Legacy::Timeout)
    );
    assert_eq!(stdout.contains(&line), errors.events() > 0, "{stdout}");
    let is_strange = |line: &str| {
        // The last line of a percentile spectrum intentionally divides by zero.
        line.contains("NaN") || line.contains("inf") && !line.contains(" 1.000000 ")
    };
    assert!(!stdout.lines().any(is_strange), "{stdout}");
}

/// The report from the line `  N requests in ...` on.
fn totals_of(report: &str) -> &str {
    let at = report.find(" requests in ").unwrap();
    let begin = report[..at].rfind('\n').unwrap();
    &report[begin..]
}

/// The counts of all clients of one server.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Connections with which runs check first whether anybody listens. A packet of QUIC does the
    /// same without one.
    probes: u64,
    sent: u64,
    responses: u64,
    /// Without bytes of TLS records that a client without TLS received: the server does not count
    /// them as HTTP.
    bytes: u64,
    opened: u64,
    /// Requests were sent that no run counts: warm-up.
    has_uncounted: bool,
    /// Bytes may have been sent that the other side did not receive.
    has_loose_ends: bool,
    /// Connections may have been opened that the server stopped before accepting.
    has_outage: bool,
}

impl Claims {
    pub(crate) fn add(&mut self, result: &RunResult) {
        let recording = &result.recording;
        let counters = &recording.counters;
        self.probes += u64::from(!result.plan.load.protocol.is_http3());
        self.sent += counters.sent;
        self.responses += counters.answered + counters.answered_of_warmup;
        let has_foreign_bytes = recording.errors.count(ErrorKind::TlsOnPlain).events > 0;
        if !has_foreign_bytes {
            self.bytes += counters.bytes;
        }
        self.opened += counters.connections_opened;
        self.has_uncounted |= result.window.warmup_ns > 0;
        self.has_loose_ends |= counters.in_flight > 0 || recording.errors.events() > 0;
        // Bytes that arrive after the window are not counted.
        self.has_loose_ends |= counters.answered_in_drain > 0;
    }

    pub(crate) fn note_outage(&mut self) {
        self.has_outage = true;
    }

    /// What holds as soon as the server has counted everything.
    pub(crate) fn agree_with(&self, server: &Counts) -> Result<(), String> {
        let connections = if self.has_outage {
            u64::MAX
        } else {
            server.connections
        };
        let at_least = [
            (
                "responses",
                server.responses + server.refused,
                self.responses,
            ),
            ("bytes", server.bytes_out, self.bytes),
            ("connections", connections, self.opened + self.probes),
        ];
        for (what, served, claimed) in at_least {
            if served < claimed {
                return Err(format!("{what}: {claimed}, and the server: {served}"));
            }
        }
        Ok(())
    }

    /// What holds at any time.
    pub(crate) fn hold_against(&self, server: &Counts) {
        assert_eq!(self.agree_with(server), Ok(()));
        if self.has_uncounted {
            return;
        }
        assert!(server.requests <= self.sent, "{server:?} {self:?}");
        if !self.has_loose_ends {
            let (ours, theirs) = ((self.sent, self.bytes), (server.requests, server.bytes_out));
            assert_eq!(ours, theirs, "requests and bytes; {server:?} {self:?}");
        }
    }
}
