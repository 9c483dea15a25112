//! The thread that sends, and the queue before it. Whoever follows the run only puts into the
//! queue, so a server that is slow, hangs or refuses holds up nothing.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use plan::readable::counted;
use prost::Message as _;
use results::exchange::ReceivedResponse;

use super::messages::{ExportResponse, LogsRequest, MetricsRequest, Status};

/// Items that wait. Metrics of one run are at most two, so these are runs that ended and events,
/// far more than a server leaves waiting that takes any at all.
const ITEMS_MAX: usize = 256;

/// Attempts to send what cannot be replaced by something newer.
const ATTEMPTS_MAX: u32 = 6;

/// The wait after the first failure. It doubles with each further one.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// How long the end of the program waits for what is left.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// Characters of a server's message that are shown.
const MESSAGE_CHARS_MAX: usize = 200;

/// What is sent to one of the two paths.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Request {
    Metrics(MetricsRequest),
    Events(LogsRequest),
}

impl Request {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Metrics(request) => request.encode_to_vec(),
            Self::Events(request) => request.encode_to_vec(),
        }
    }

    fn is_metrics(&self) -> bool {
        matches!(self, Self::Metrics(_))
    }
}

/// A request that waits to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ExportItem {
    /// The number of the run.
    pub(super) run: u64,
    /// The totals at the end of the run, or an event. Other metrics have all that is in earlier
    /// ones of the same run, and take their place.
    pub(super) is_final: bool,
    pub(super) request: Request,
}

/// What is missing without an item.
#[derive(Debug, Clone, Copy)]
enum ItemKind {
    Second,
    Totals,
    Event,
}

impl ExportItem {
    fn kind(&self) -> ItemKind {
        match (&self.request, self.is_final) {
            (Request::Events(_), _) => ItemKind::Event,
            (Request::Metrics(_), true) => ItemKind::Totals,
            (Request::Metrics(_), false) => ItemKind::Second,
        }
    }

    fn replaces(&self, earlier: &Self) -> bool {
        self.run == earlier.run
            && self.request.is_metrics()
            && earlier.request.is_metrics()
            && !earlier.is_final
    }
}

/// Sends a request, encoded, and returns its response. The first argument is whether it is one of
/// metrics. The error is why there is no response, in one line.
pub(super) type Post = dyn FnMut(bool, &[u8]) -> Result<ReceivedResponse, String> + Send;

/// How far things are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Nothing more comes.
    Closing,
    /// Nobody waits any more.
    Abandoned,
}

#[derive(Debug)]
struct ExportQueue {
    items: VecDeque<ExportItem>,
    /// Of the item that is being sent.
    sending: Option<ItemKind>,
    phase: Phase,
    tally: Tally,
}

/// What was sent and what was not.
#[derive(Debug, Clone, Default)]
struct Tally {
    sent: u64,
    /// Metrics of which later ones took the place.
    replaced: u64,
    lost_totals: u64,
    lost_events: u64,
    /// Points and events that the server did not take, of requests that it took.
    rejected: u64,
    /// Why something was not sent, the latest time.
    reason: Option<String>,
}

#[derive(Debug)]
struct SharedExportQueue {
    state: Mutex<ExportQueue>,
    changed: Condvar,
}

impl SharedExportQueue {
    fn lock(&self) -> MutexGuard<'_, ExportQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends items in the background.
#[derive(Debug)]
pub(super) struct Exporter {
    shared: Arc<SharedExportQueue>,
    /// Is disconnected when the thread has ended.
    ended: mpsc::Receiver<()>,
    flush_limit: Duration,
}

impl Exporter {
    /// # Errors
    /// If the system cannot create the thread.
    pub(super) fn start(post: Box<Post>) -> io::Result<Self> {
        Self::start_with(post, FLUSH_LIMIT, BACKOFF_MIN)
    }

    fn start_with(
        mut post: Box<Post>,
        flush_limit: Duration,
        backoff_min: Duration,
    ) -> io::Result<Self> {
        let shared = Arc::new(SharedExportQueue {
            state: Mutex::new(ExportQueue {
                items: VecDeque::new(),
                sending: None,
                phase: Phase::Running,
                tally: Tally::default(),
            }),
            changed: Condvar::new(),
        });
        let (sender, ended) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("otlp".to_owned());
        thread.spawn(move || {
            Sender::new(&of_thread, backoff_min).run(&mut *post);
            drop(sender);
        })?;
        Ok(Self {
            shared,
            ended,
            flush_limit,
        })
    }

    /// Puts an item into the queue. If it is full, the oldest one is left out.
    pub(super) fn put(&self, item: ExportItem) {
        let mut state = self.shared.lock();
        if let Some(replaced) = state.items.iter().position(|it| item.replaces(it)) {
            state.items.remove(replaced);
            state.tally.replaced += 1;
        }
        if state.items.len() == ITEMS_MAX
            && let Some(oldest) = state.items.pop_front()
        {
            state.tally.lose(oldest.kind());
        }
        state.items.push_back(item);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until all is sent, but no longer than the limit. Returns what was not, in one line.
    pub(super) fn close(self) -> Option<String> {
        self.enter(Phase::Closing);
        if self.ended.recv_timeout(self.flush_limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            let mut state = self.shared.lock();
            let left = std::mem::take(&mut state.items);
            let left = left
                .iter()
                .map(ExportItem::kind)
                .chain(state.sending.take());
            left.for_each(|kind| state.tally.lose(kind));
            (state.tally.reason).get_or_insert_with(|| "no response in time".to_owned());
            drop(state);
            self.enter(Phase::Abandoned);
        }
        self.shared.lock().tally.problem()
    }

    fn enter(&self, phase: Phase) {
        self.shared.lock().phase = phase;
        self.shared.changed.notify_all();
    }
}

impl Tally {
    /// Counts an item that is not sent.
    fn lose(&mut self, kind: ItemKind) {
        match kind {
            ItemKind::Event => self.lost_events += 1,
            ItemKind::Totals => self.lost_totals += 1,
            ItemKind::Second => self.replaced += 1,
        }
    }

    /// What was not sent and why; `None` if everything was.
    fn problem(&self) -> Option<String> {
        let Self {
            sent,
            replaced,
            lost_totals,
            lost_events,
            rejected,
            reason,
        } = self;
        let missing = [
            (
                lost_totals,
                "total at the end is missing",
                "totals at the end are missing",
            ),
            (lost_events, "event is missing", "events are missing"),
            (
                rejected,
                "point or event was rejected",
                "points or events were rejected",
            ),
            (
                replaced,
                "second is missing between others",
                "seconds are missing between others",
            ),
        ];
        let missing: Vec<String> = missing
            .iter()
            .filter(|(count, ..)| **count > 0)
            .map(|(count, one, many)| match count {
                1 => format!("1 {one}"),
                _ => format!("{count} {many}"),
            })
            .collect();
        if missing.is_empty() {
            return None;
        }
        let reason = reason.as_deref().unwrap_or("the server is slow");
        Some(match sent {
            0 => format!(
                "nothing was exported: {reason} (expected a collector that takes OTLP over HTTP, \
                 usually on port 4318)"
            ),
            _ => format!(
                "{}: {reason} ({} sent)",
                missing.join(", "),
                counted(*sent, "request")
            ),
        })
    }
}

/// What came of an attempt.
#[derive(Debug, PartialEq)]
enum Outcome {
    Taken,
    /// Some of it was not taken.
    Partly(u64, String),
    /// It may be taken later, but not before this time has passed.
    Later(Option<Duration>, String),
    /// There is no response.
    Silent(String),
    /// It is never taken.
    Refused(String),
    /// The server does not take events, as Prometheus does not. That is no failure.
    NoEvents,
}

/// The side of the thread.
struct Sender<'s> {
    shared: &'s SharedExportQueue,
    backoff_min: Duration,
    /// Failures since the latest success.
    failures: u32,
    takes_events: bool,
}

impl<'s> Sender<'s> {
    fn new(shared: &'s SharedExportQueue, backoff_min: Duration) -> Self {
        Self {
            shared,
            backoff_min,
            failures: 0,
            takes_events: true,
        }
    }

    /// Sends until the queue is closed and empty.
    fn run(&mut self, post: &mut Post) {
        while let Some(item) = self.next() {
            let mut attempts = 0;
            while let Some(pause) = self.attempt(&item, post, attempts) {
                attempts += 1;
                self.wait(pause);
                if self.is_replaced(&item) {
                    self.shared.lock().tally.lose(item.kind());
                    break;
                }
            }
        }
    }

    /// The next item; `None` at the end.
    fn next(&self) -> Option<ExportItem> {
        let waits =
            |state: &mut ExportQueue| state.items.is_empty() && state.phase == Phase::Running;
        let state = self.shared.changed.wait_while(self.shared.lock(), waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let item = state.items.pop_front();
        state.sending = item.as_ref().map(ExportItem::kind);
        item
    }

    /// Sends an item. Returns how long to wait before the next attempt, if there is one.
    fn attempt(&mut self, item: &ExportItem, post: &mut Post, attempts: u32) -> Option<Duration> {
        let is_metrics = item.request.is_metrics();
        if !is_metrics && !self.takes_events {
            return None;
        }
        let outcome = match post(is_metrics, &item.request.encode()) {
            Ok(response) => outcome(&response, is_metrics),
            Err(reason) => Outcome::Silent(reason),
        };
        let mut guard = self.shared.lock();
        let ExportQueue {
            items,
            sending,
            phase,
            tally,
        } = &mut *guard;
        *sending = None;
        let (asked, reason) = match outcome {
            Outcome::Taken => {
                tally.sent += 1;
                self.failures = 0;
                return None;
            }
            Outcome::NoEvents => {
                self.takes_events = false;
                return None;
            }
            Outcome::Partly(rejected, reason) => {
                tally.sent += 1;
                tally.rejected += rejected;
                tally.reason = Some(reason);
                return None;
            }
            Outcome::Refused(reason) => {
                tally.reason = Some(reason);
                tally.lose(item.kind());
                drop(guard);
                // What follows will hardly fare better.
                let pause = self.backoff();
                self.wait(pause);
                return None;
            }
            Outcome::Silent(reason) if tally.sent == 0 && *phase != Phase::Running => {
                // It was never there: trying further would only delay the end.
                tally.reason = Some(reason);
                tally.lose(item.kind());
                items.drain(..).for_each(|left| tally.lose(left.kind()));
                return None;
            }
            Outcome::Silent(reason) => (None, reason),
            Outcome::Later(asked, reason) => (asked, reason),
        };
        tally.reason = Some(reason);
        if attempts + 1 >= ATTEMPTS_MAX || *phase == Phase::Abandoned {
            tally.lose(item.kind());
            return None;
        }
        *sending = Some(item.kind());
        drop(guard);
        Some(
            self.backoff()
                .max(asked.unwrap_or_default())
                .min(BACKOFF_MAX),
        )
    }

    /// The wait after another failure, between half and all of what the doubling gives, so that
    /// several programs do not come at the same moment.
    fn backoff(&mut self) -> Duration {
        let doubled = self.backoff_min.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        doubled
            .min(BACKOFF_MAX)
            .mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Waits for this time, or until the queue is closed, or nobody waits any more.
    fn wait(&self, pause: Duration) {
        let state = self.shared.lock();
        let phase = state.phase;
        let is_same = |state: &mut ExportQueue| state.phase == phase;
        drop(
            self.shared
                .changed
                .wait_timeout_while(state, pause, is_same),
        );
    }

    fn is_replaced(&self, item: &ExportItem) -> bool {
        let state = self.shared.lock();
        !item.is_final && state.items.iter().any(|later| later.replaces(item))
    }
}

/// What a response means (OTLP 1.x, "OTLP/HTTP Response").
fn outcome(response: &ReceivedResponse, is_metrics: bool) -> Outcome {
    let ReceivedResponse { status, body, .. } = response;
    match (status, is_metrics) {
        (200..=299, _) => match ExportResponse::decode(&body[..]) {
            Err(_) => Outcome::Refused("its response is not one of OTLP".to_owned()),
            Ok(response) => match response.partial_success {
                Some(partial) if partial.rejected > 0 => Outcome::Partly(
                    partial.rejected.unsigned_abs(),
                    shown(&partial.error_message),
                ),
                _ => Outcome::Taken,
            },
        },
        (404, false) => Outcome::NoEvents,
        (429 | 502 | 503 | 504, _) => {
            let seconds = response.header("retry-after");
            let seconds = seconds.and_then(|text| text.trim().parse().ok());
            Outcome::Later(seconds.map(Duration::from_secs), answer(*status, body))
        }
        _ => Outcome::Refused(answer(*status, body)),
    }
}

fn answer(status: u16, body: &[u8]) -> String {
    let message = match Status::decode(body) {
        Ok(status) => status.message,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    match shown(&message) {
        message if message.is_empty() => format!("it answered {status}"),
        message => format!("it answered {status}: {message}"),
    }
}

/// The first line of a server's message, as far as it can be shown.
fn shown(message: &str) -> String {
    let line = message.trim().lines().next().unwrap_or_default();
    let printable = line.chars().filter(|it| plan::is_printable(*it));
    printable.take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

    use super::super::messages::PartialSuccess;
    use super::*;

    fn response(status: u16, body: &[u8]) -> ReceivedResponse {
        ReceivedResponse {
            status,
            body: body.to_vec(),
            ..ReceivedResponse::default()
        }
    }

    fn metrics(run: u64, is_final: bool) -> ExportItem {
        ExportItem {
            run,
            is_final,
            request: Request::Metrics(MetricsRequest::default()),
        }
    }

    fn event(run: u64) -> ExportItem {
        ExportItem {
            run,
            is_final: true,
            request: Request::Events(LogsRequest::default()),
        }
    }

    /// A server that answers each request with what the test sends it next. Tells which requests it
    /// got: whether they are metrics.
    struct Server {
        exporter: Exporter,
        requests: Receiver<bool>,
        answers: SyncSender<Result<ReceivedResponse, String>>,
    }

    impl Server {
        fn start(flush_limit: Duration) -> Self {
            let (sender, requests) = channel();
            let (answers, next) = sync_channel(100);
            let post = move |is_metrics, _: &[u8]| {
                sender.send(is_metrics).expect("the test goes on");
                let gone = || Err("the test is over".to_owned());
                next.recv().unwrap_or_else(|_| gone())
            };
            Self {
                exporter: Exporter::start_with(
                    Box::new(post),
                    flush_limit,
                    Duration::from_millis(1),
                )
                .expect("a thread can be started"),
                requests,
                answers,
            }
        }

        fn answer(&self, answer: Result<ReceivedResponse, &str>) {
            let answer = answer.map_err(str::to_owned);
            self.answers.send(answer).expect("it waits for answers");
        }

        fn close(self) -> (Option<String>, Vec<bool>) {
            let problem = self.exporter.close();
            (problem, self.requests.try_iter().collect())
        }
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn everything_that_is_taken_is_no_problem() {
        let server = Server::start(LONG);
        for item in [event(1), metrics(1, true), event(1)] {
            server.exporter.put(item);
            server.answer(Ok(response(200, b"")));
        }
        let (problem, requests) = server.close();
        assert_eq!(problem, None);
        assert_eq!(requests, [false, true, false]);
    }

    #[test]
    fn while_the_server_is_busy_later_metrics_replace_earlier_ones_of_their_run_only() {
        let server = Server::start(LONG);
        server.exporter.put(metrics(1, false));
        assert_eq!(server.requests.recv(), Ok(true));
        for item in [
            metrics(1, false),
            metrics(1, false),
            metrics(1, true),
            event(1),
            metrics(2, false),
            metrics(3, true),
        ] {
            server.exporter.put(item);
        }
        (0..5).for_each(|_| server.answer(Ok(response(200, b""))));
        let (problem, requests) = server.close();
        let problem = problem.expect("not each second was sent");
        assert!(problem.starts_with("2 seconds are missing"), "{problem}");
        assert_eq!(requests, [true, false, true, true]);
    }

    #[test]
    fn what_is_refused_for_now_is_sent_again() {
        for status in [429, 502, 503, 504] {
            let server = Server::start(LONG);
            server.exporter.put(event(1));
            server.exporter.put(metrics(1, true));
            server.answer(Ok(response(200, b"")));
            server.answer(Ok(response(status, b"")));
            server.answer(Err("unable to connect"));
            server.answer(Ok(response(200, b"")));
            let (problem, requests) = server.close();
            assert_eq!(problem, None, "{status}");
            assert_eq!(requests, [false, true, true, true], "{status}");
        }
    }

    #[test]
    fn what_is_refused_for_good_is_sent_once_and_named_once() {
        let server = Server::start(LONG);
        server.exporter.put(metrics(1, true));
        server.exporter.put(event(1));
        server.answer(Ok(response(401, b"no such key\nsecond line")));
        server.answer(Ok(response(200, b"")));
        let (problem, requests) = server.close();
        assert_eq!(
            problem.as_deref(),
            Some("1 total at the end is missing: it answered 401: no such key (1 request sent)")
        );
        assert_eq!(requests, [true, false]);
    }

    #[test]
    fn a_server_without_a_path_for_events_is_not_asked_again_and_no_problem() {
        let server = Server::start(LONG);
        for item in [event(1), event(1), metrics(1, true), event(1)] {
            server.exporter.put(item);
        }
        server.answer(Ok(response(404, b"page not found")));
        server.answer(Ok(response(200, b"")));
        assert_eq!(server.close(), (None, vec![false, true]));
    }

    #[test]
    fn a_server_that_hangs_holds_up_neither_the_run_nor_its_end() {
        let server = Server::start(Duration::from_millis(50));
        for _ in 0..1000 {
            server.exporter.put(metrics(1, false));
        }
        server.exporter.put(metrics(1, true));
        let (problem, _) = server.close();
        let problem = problem.expect("nothing was sent");
        assert!(
            problem.starts_with("nothing was exported: no response in time"),
            "{problem}"
        );
    }

    #[test]
    fn what_a_server_does_not_answer_at_the_end_is_missing() {
        let server = Server::start(Duration::from_millis(50));
        server.exporter.put(metrics(1, false));
        server.answer(Ok(response(200, b"")));
        server.requests.recv().expect("it is sent");
        server.exporter.put(metrics(1, true));
        server.requests.recv().expect("it is sent");
        let (problem, _) = server.close();
        let problem = problem.expect("the server is silent");
        assert!(
            problem.starts_with("1 total at the end is missing: no response in time"),
            "{problem}"
        );
    }

    #[test]
    fn a_server_that_was_never_there_is_not_waited_for_at_the_end() {
        let server = Server::start(LONG);
        for item in [event(1), metrics(1, true), event(1)] {
            server.exporter.put(item);
        }
        // Before the end it may still come.
        server.answer(Err("unable to connect"));
        server.requests.recv().expect("the first attempt");
        server.answer(Err("unable to connect"));
        server.answer(Err("unable to connect"));
        let (problem, requests) = server.close();
        let problem = problem.expect("nothing was sent");
        assert!(
            problem.starts_with("nothing was exported: unable to connect"),
            "{problem}"
        );
        assert!(requests.len() <= 2, "{requests:?}");
    }

    #[test]
    fn the_queue_has_a_limit_and_what_falls_out_is_counted() {
        let server = Server::start(LONG);
        server.exporter.put(event(0));
        server.requests.recv().expect("it is sent");
        for run in 0..ITEMS_MAX as u64 + 3 {
            server.exporter.put(event(run));
        }
        let Server {
            exporter, answers, ..
        } = server;
        std::thread::spawn(
            move || {
                while answers.send(Ok(response(200, b""))).is_ok() {}
            },
        );
        let problem = exporter.close().expect("some are missing");
        assert!(problem.starts_with("3 events are missing"), "{problem}");
    }

    #[test]
    fn rejected_points_and_rubbish_are_problems() {
        let partial = ExportResponse {
            partial_success: Some(PartialSuccess {
                rejected: 2,
                error_message: "too old".to_owned(),
            }),
        };
        let refused = |text: &str| Outcome::Refused(text.to_owned());
        for (response, expected) in [
            (
                response(200, &partial.encode_to_vec()),
                Outcome::Partly(2, "too old".to_owned()),
            ),
            (response(204, b""), Outcome::Taken),
            (
                response(200, b"<html>"),
                refused("its response is not one of OTLP"),
            ),
            (response(400, b""), refused("it answered 400")),
            (
                response(404, b"\x1b[31m\n"),
                refused("it answered 404: [31m"),
            ),
            (
                response(301, &[0xff; 3]),
                refused("it answered 301: \u{fffd}\u{fffd}\u{fffd}"),
            ),
        ] {
            assert_eq!(outcome(&response, true), expected);
        }
        let later = ReceivedResponse {
            headers: vec![("Retry-After".to_owned(), "7".to_owned())],
            ..response(503, b"")
        };
        let expected = Outcome::Later(Some(Duration::from_secs(7)), "it answered 503".to_owned());
        assert_eq!(outcome(&later, true), expected);
        // A date is not read.
        let date = "Fri, 31 Dec 1999 23:59:59 GMT";
        let dated = ReceivedResponse {
            headers: vec![("Retry-After".to_owned(), date.to_owned())],
            ..response(503, b"")
        };
        let expected = Outcome::Later(None, "it answered 503".to_owned());
        assert_eq!(outcome(&dated, true), expected);
    }
}
