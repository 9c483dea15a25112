//! F36, F38: unexpected responses, and missing responses to pipelined requests.

use std::time::Duration;

use results::ErrorKind;
use testkit::{Folder, one_line};

use crate::adversary::{Adversary, Layer, Misbehavior, RIGHT, ServerStep, When, send, usual_tls};
use crate::client::{self, Finished};
use crate::row::{FaultRow, RowOutcome};

const TIMED_OUT: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

pub(crate) fn rows() -> Vec<FaultRow> {
    let mut rows = Vec::new();
    for (layer, suffix) in [(Layer::Plain, ""), (usual_tls(), ", https")] {
        rows.extend(idle(&layer, suffix));
        rows.extend(pipelined(&layer, suffix));
    }
    rows
}

fn misbehavior(layer: &Layer, when: When, every: u64, steps: &[ServerStep]) -> Misbehavior {
    Misbehavior {
        when,
        steps: steps.to_vec(),
        every,
        layer: layer.clone(),
        http2: None,
        is_slow_start: false,
    }
}

/// A run with a time limit.
fn run(misbehavior: Misbehavior, arguments: &[&str], allowed_ms: u64) -> Finished {
    let server = Adversary::start(misbehavior);
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    client::run(&arguments, &server.url(), Duration::from_millis(allowed_ms))
}

fn idle(layer: &Layer, suffix: &str) -> Vec<FaultRow> {
    let of_idle =
        |what: &str, expected: &str, steps: &[ServerStep], kinds: &'static [ErrorKind]| {
            let misbehavior = misbehavior(layer, When::Asked, 1, steps);
            FaultRow::new("F36", format!("{what}{suffix}"), expected, move || {
                let folder = Folder::new();
                // The pause is so long that unexpected bytes find the connection idle.
                let script = folder.file_with("s.lua", "function delay() return 100 end");
                let arguments = ["-t1", "-c2", "-n6", "-T30s", "-s", &script];
                let run = run(misbehavior.clone(), &arguments, 1000);
                assert_eq!(run.output.code, Some(0), "{}", run.story());
                // Every request is answered, since bytes between responses fail none.
                assert_eq!((run.answered(), run.failed()), (6, 0), "{}", run.story());
                let kinds_seen = run.kinds();
                assert!(
                    kinds_seen.iter().all(|kind| kinds.contains(kind)),
                    "{}",
                    run.story()
                );
                assert_eq!(kinds_seen.is_empty(), kinds.is_empty(), "{}", run.story());
                let reconnects = run.result.recording.counters.reconnects;
                assert!(reconnects > 0 || !kinds.is_empty(), "{}", run.story());
                RowOutcome::Held(run.errors())
            })
        };
    let answer_and = |more: &[u8]| {
        [
            send(RIGHT),
            ServerStep::Pause(10),
            send(more),
            ServerStep::Fin,
        ]
    };
    vec![
        of_idle(
            "408 on an idle connection",
            "unsolicited; no request is lost",
            &answer_and(TIMED_OUT),
            &[ErrorKind::Unsolicited],
        ),
        of_idle(
            "garbage on an idle connection",
            "unsolicited; no request is lost",
            &answer_and(b"garbage"),
            &[ErrorKind::Unsolicited],
        ),
        of_idle(
            "FIN on an idle connection",
            "a reconnect and no error",
            &[send(RIGHT), ServerStep::Pause(10), ServerStep::Fin],
            &[],
        ),
        of_idle(
            "RST on an idle connection",
            "a reconnect and no error",
            &[send(RIGHT), ServerStep::Pause(10), ServerStep::Reset],
            &[],
        ),
    ]
}

fn pipelined(layer: &Layer, suffix: &str) -> Vec<FaultRow> {
    /// Requests in flight at a time, on one connection.
    const DEPTH: u64 = 4;
    let arguments = |timeout: &'static str| ["-t1", "-c1", "-n8", "--pipeline", "4", timeout];
    let lost =
        |what: &str, kind: ErrorKind, every: u64, steps: &[ServerStep], timeout: &'static str| {
            let misbehavior = misbehavior(layer, When::Asked, every, steps);
            let answered_of_each = every - 1;
            let expected = format!("{kind} once for the connection, with all requests it had");
            FaultRow::new("F38", format!("{what}{suffix}"), expected, move || {
                let run = run(misbehavior.clone(), &arguments(timeout), 500);
                let kinds = run.kinds();
                // After a response the end may look like that of an idle connection.
                let or_stale = |found: &ErrorKind| *found == kind || *found == ErrorKind::Stale;
                assert!(
                    !kinds.is_empty() && kinds.iter().all(or_stale),
                    "{}",
                    run.story()
                );
                assert_eq!(run.sent(), 8, "{}", run.story());
                // Two connections carry all of them when each has its depth in one piece.
                assert!(
                    run.events() <= 8 && run.events() <= run.failed(),
                    "{}",
                    run.story()
                );
                let answers_max = run.events() * answered_of_each;
                assert!(
                    run.answered() <= answers_max.max(8 - DEPTH),
                    "{}",
                    run.story()
                );
                assert_eq!(run.answered() + run.failed(), 8, "{}", run.story());
                let code = i32::from(run.answered() == 0);
                assert_eq!(run.output.code, Some(code), "{}", run.story());
                if code == 1 {
                    one_line(&run.output.stderr);
                }
                RowOutcome::Held(format!("{} lost in {}", run.failed(), run.errors()))
            })
        };
    let half = [RIGHT, &RIGHT[..10]].concat();
    vec![
        lost(
            "a pipeline without any response",
            ErrorKind::Timeout,
            1,
            &[ServerStep::Hang],
            "-T60ms",
        ),
        lost(
            "a pipeline that ends without a response",
            ErrorKind::ClosedEarly,
            1,
            &[ServerStep::Fin],
            "-T30s",
        ),
        lost(
            "a pipeline with one response, and silence",
            ErrorKind::Timeout,
            2,
            &[ServerStep::Hang],
            "-T60ms",
        ),
        lost(
            "a pipeline with one response, and FIN",
            ErrorKind::ClosedEarly,
            2,
            &[ServerStep::Fin],
            "-T30s",
        ),
        lost(
            "a pipeline that ends within a response",
            ErrorKind::Truncated,
            2,
            &[send(&RIGHT[..10]), ServerStep::Fin],
            "-T30s",
        ),
        lost(
            "a pipeline with a wrong response",
            ErrorKind::BadStatusLine,
            2,
            &[send("garbage\r\n\r\n"), ServerStep::Fin],
            "-T30s",
        ),
        {
            // More in one piece than may be on their way: fewer could all meet requests that
            // were sent meanwhile, and nobody could tell.
            let too_many = RIGHT.repeat(DEPTH as usize + 1);
            let misbehavior = misbehavior(layer, When::Asked, 1, &[send(too_many)]);
            let what = format!("a pipeline with more responses at once than requests{suffix}");
            // The responses cannot be matched to requests, but there are too many.
            FaultRow::new("F38", what, "unsolicited, and nothing hangs", move || {
                let run = run(misbehavior.clone(), &arguments("-T30s"), 0);
                assert_eq!(run.output.code, Some(0), "{}", run.story());
                assert_eq!(run.answered() + run.failed(), 8, "{}", run.story());
                assert!(
                    run.kinds().contains(&ErrorKind::Unsolicited),
                    "{}",
                    run.story()
                );
                RowOutcome::Held(run.errors())
            })
        },
        {
            let misbehavior = misbehavior(layer, When::Asked, 1, &[send(half), ServerStep::Fin]);
            let what = format!("a response and half of one more{suffix}");
            FaultRow::new("F38", what, "a response, then truncated", move || {
                let arguments = ["-t1", "-c1", "-n8", "--pipeline", "2", "-T30s"];
                let run = run(misbehavior.clone(), &arguments, 0);
                assert_eq!(run.output.code, Some(0), "{}", run.story());
                // A complete response makes room for a request, which may be in flight by then.
                assert!((2..=4).contains(&run.answered()), "{}", run.story());
                assert_eq!(run.answered() + run.failed(), 8, "{}", run.story());
                // If no further request was in flight, the half belongs to none.
                let known = [ErrorKind::Truncated, ErrorKind::Unsolicited];
                assert!(
                    run.kinds().iter().all(|kind| known.contains(kind)),
                    "{}",
                    run.story()
                );
                assert!(
                    run.kinds().contains(&ErrorKind::Truncated),
                    "{}",
                    run.story()
                );
                RowOutcome::Held(run.errors())
            })
        },
    ]
}
