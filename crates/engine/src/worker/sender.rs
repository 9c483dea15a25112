//! What a worker sends, and when.

use super::WorkerSettings;
use super::conversations::{ConversationSettings, Conversations};
use super::guarded_source::GuardedSource;
use super::refills::Refills;
use super::response_poll::ResponsePoll;
use super::slots::Slots;
use super::stretch::Stretch;
use super::traces::{Trace, Traces};
use super::writer::RequestWriter;
use crate::control::RunTimes;
use crate::cookies::{CookieJar, CookieSite};
use crate::exchanges::Exchange;
use crate::pacing::{Pacer, PacingWindow};
use crate::shared_schedule::{Claim, ScheduleShare};
use eventloop::EventLoop;
use plan::Pacing;
use protocol::{ExchangeId, Response, Session};
use results::ErrorKind;
use std::sync::Arc;

/// What a worker sends: where its requests come from, when they are due, and how they are written.
///
/// It is a value of its own because the next request follows from the source and the schedule, not
/// from what was measured: a load generator that is led by its own measurements follows the server.
/// What is sent gets its connection from the [`Network`](super::network::Network), and
/// [`Worker`](super::Worker) has it counted.
pub(super) struct RequestSender<S: Session> {
    pub(super) source: GuardedSource,
    pub(super) writer: RequestWriter<S>,
    /// Set if connections keep cookies.
    pub(super) cookies: Option<Cookies>,
    /// Whether requests depend on the responses that a client got before: on their cookies, or on
    /// values that were captured.
    pub(super) per_client: bool,
    /// Set if some requests are sent with a trace.
    pub(super) traces: Option<Box<Traces>>,
    /// Whether requests are written as text one by one, or some of them: those of clients, and
    /// those with a trace.
    pub(super) writes_text: bool,
    /// Set if requests go to several hosts.
    pub(super) slots: Option<Slots>,
    /// Set if requests are turns of conversations.
    pub(super) conversations: Option<Box<Conversations>>,
    /// When requests are due. `None` in a closed loop.
    pub(super) share: Option<ScheduleShare>,
    /// In a closed loop: requests still to be sent within the window.
    pub(super) budget: u64,
    /// Whether the run has a number of requests.
    is_limited: bool,
    /// Whether a user has been asked to wait, so that some may still wait.
    pub(super) has_pauses: bool,
    /// Batches or streams in flight per connection.
    pub(super) pipeline: u32,
    pub(super) response_poll: ResponsePoll,
    /// For how long requests are sent without reading responses.
    pub(super) stretch: Stretch,
    pub(super) refills: Refills,
}

/// The cookies of all connections of a worker.
pub(super) struct Cookies {
    pub(super) site: CookieSite,
    /// By key of the connection.
    pub(super) jars: Vec<CookieJar>,
}

impl<S: Session> RequestSender<S> {
    pub(super) fn new(
        source: GuardedSource,
        writer: RequestWriter<S>,
        share: Option<ScheduleShare>,
        settings: &WorkerSettings,
    ) -> Self {
        let conversations = conversations(&writer, settings);
        let per_client = settings.cookies().is_some() || writer.has_captures();
        let traces = Traces::new(settings);
        Self {
            source,
            writer,
            cookies: Cookies::new(settings),
            per_client,
            writes_text: per_client || traces.is_some(),
            traces,
            slots: Slots::new(settings.connections, settings.hosts),
            conversations,
            stretch: Stretch::new(share.is_some()),
            share,
            budget: settings.budget(),
            has_pauses: false,
            is_limited: settings.requests.is_some(),
            pipeline: settings.pipeline,
            response_poll: ResponsePoll::new(settings.response_poll_max_ns()),
            refills: Refills::new(),
        }
    }
}

impl<S: Session> RequestSender<S> {
    /// Prepares a run with these times.
    pub(super) fn begin(&mut self, times: RunTimes, settings: &WorkerSettings) {
        let window = PacingWindow {
            origin_ns: times.start_ns,
            measure_ns: times.measure_ns,
            requests: settings.requests,
        };
        let numbers = settings.request_numbers();
        let pacer = match self.writer.recorded() {
            Some(recorded) => {
                let due_ns = Arc::clone(recorded.due_ns());
                Some(Pacer::recorded(due_ns, numbers, window))
            }
            None => Pacer::new(&settings.plan.pacing, numbers, window),
        };
        let pacer = if settings.plan.warmup_auto {
            pacer.map(|pacer| pacer.with_movable_window(&settings.plan.pacing))
        } else {
            pacer
        };
        if let Some((share, pacer)) = self.share.as_ref().zip(pacer) {
            share.begin(pacer);
        }
        if let Some(conversations) = &mut self.conversations {
            conversations.set_times(times);
            if conversations.has_users() {
                let connections = u64::from(settings.connections_for_requests());
                self.add_users(connections * u64::from(settings.pipeline));
            } else if let Some(per_sec) = settings.plan.pacing.first_per_sec() {
                self.add_earlier(per_sec, (settings.number(), settings.workers_total()));
            }
        }
    }

    /// The window begins at another time, which has not come yet.
    pub(super) fn move_window(&mut self, times: RunTimes, settings: &WorkerSettings) {
        if let Some(share) = &self.share {
            share.move_window(&settings.plan.pacing, times.measure_ns);
        }
        if let Some(conversations) = &mut self.conversations {
            conversations.set_times(times);
        }
    }

    /// Whether the run has a fixed rate.
    #[inline]
    pub(super) fn is_paced(&self) -> bool {
        self.share.is_some()
    }

    /// Number of requests that are still to be sent: `u64::MAX` without a limit. At a fixed rate,
    /// it is the number of the whole run, because any worker may send them.
    pub(super) fn remaining(&self) -> u64 {
        match &self.share {
            Some(_) if !self.is_limited => u64::MAX,
            Some(_) if self.has_users() => {
                self.conversations.as_ref().map_or(0, |it| it.remaining())
            }
            Some(share) => share.remaining(),
            None => self.budget,
        }
    }

    /// Whether users have conversations one after the other.
    fn has_users(&self) -> bool {
        self.conversations.as_ref().is_some_and(|it| it.has_users())
    }

    /// The next request of the schedule, if it is due.
    #[inline]
    pub(super) fn claim(&mut self, now_ns: u64) -> Option<Claim> {
        self.share.as_mut()?.claim(now_ns)
    }

    /// Requests of the window were sent in a closed loop.
    #[inline]
    pub(super) fn use_budget(&mut self, requests: u32) {
        if self.is_limited {
            self.budget = self.budget.saturating_sub(u64::from(requests));
        }
    }

    /// A request was sent. Polls for its response, if that is worth it.
    #[inline]
    pub(super) fn poll_for_response(&self, io: &mut impl EventLoop, sent_ns: u64) {
        if self.response_poll.is_possible()
            && let Some(poll_ns) = self.response_poll.poll_ns(io.sleep_error_ns())
        {
            io.poll_until(sent_ns.saturating_add(poll_ns));
        }
    }

    /// A response that took `service_ns` was read at `at_ns`.
    #[inline]
    pub(super) fn note_response(&mut self, at_ns: u64, service_ns: u64) {
        if self.response_poll.is_possible() {
            self.response_poll.note_response(service_ns);
        }
        if self.refills_together() {
            self.refills.note_response(at_ns, service_ns);
        }
    }

    /// Gives a response to its client, which keeps its cookies and the values that are captured.
    /// Returns the failure if a response without an error status lacks such a value.
    pub(super) fn receive(
        &mut self,
        (key, client): (u32, u32),
        (id, exchange): (ExchangeId, &Exchange),
        response: &Response,
    ) -> Option<ErrorKind> {
        let captured = response.captured.as_deref()?;
        if let Some(Cookies { jars, .. }) = &mut self.cookies {
            jars[key as usize].receive(id, &captured.headers, exchange.requests == 0);
        }
        let has_all = self.writer.receive(client, captured);
        (!has_all && response.status < 400).then_some(ErrorKind::MissingValue)
    }

    /// An exchange has failed, so its response brings no cookies and its conversation ends.
    pub(super) fn forget(&mut self, key: u32, exchange: ExchangeId, at_ns: u64) {
        self.turn_failed((key, exchange), at_ns);
        if let Some(Cookies { jars, .. }) = &mut self.cookies {
            jars[key as usize].forget(exchange);
        }
    }

    /// The trace of the next request, if it has one.
    #[inline]
    pub(super) fn next_trace(&mut self) -> Option<Trace> {
        self.traces.as_mut()?.next()
    }

    /// A connection was closed.
    pub(super) fn disconnect(&mut self, key: u32, at_ns: u64) {
        self.turns_abandoned(key, at_ns);
        let cookies = self.cookies.as_mut();
        if let Some(jar) = cookies.and_then(|it| it.jars.get_mut(key as usize)) {
            jar.disconnect();
        }
    }
}

/// The conversations of a file; `None` if its requests are none.
fn conversations<S: Session>(
    writer: &RequestWriter<S>,
    settings: &WorkerSettings,
) -> Option<Box<Conversations>> {
    let (set, seed) = writer.conversations()?;
    let has_users = settings.plan.pacing == Pacing::Users;
    Some(Box::new(Conversations::new(ConversationSettings {
        set,
        users: has_users.then(|| settings.budget()),
        seed,
        number: settings.number(),
        bytes_max: settings.histories_max_bytes / settings.workers.max(1) as usize,
    })))
}

impl Cookies {
    /// `None` if connections keep none.
    fn new(settings: &WorkerSettings) -> Option<Self> {
        let connections = settings.connections_for_requests() as usize;
        Some(Self {
            site: settings.cookies()?,
            jars: std::iter::repeat_with(CookieJar::default)
                .take(connections)
                .collect(),
        })
    }
}
