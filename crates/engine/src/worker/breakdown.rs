//! What the latency of single requests consists of: `Server-Timing` headers that are read, and what
//! the kernel tells of the paths of slow requests. Nothing of it happens in a run that does not ask
//! for it.

use super::WorkerSettings;
use super::accounting::Accounting;
use super::network::Network;
use crate::connection::Connection;
use crate::exchanges::Exchange;
use crate::slow_spans::SlowSpans;
use eventloop::{EventLoop, Token};
use protocol::{Captured, Session, Transport, server_timing};
use results::{BreakdownRecording, ServerTimes, SlowPath, SlowRequest, SlowSpan, TraceId};

/// The kernel is asked about the path of this share of the requests, the slowest ones, which costs
/// a system call each.
const ASKED_SHARE: f64 = 0.02;
/// How many requests are recorded between two looks at which latency that is.
const LOOK_EVERY: u64 = 1024;

/// What a worker keeps for the breakdown.
pub(super) struct Breakdown {
    reads_server_timing: bool,
    /// By key of the connection: what was known of its path before.
    paths: Vec<KnownPath>,
    /// The kernel is asked about the paths of requests with at least this latency.
    asked_from_ns: u64,
    recorded: u64,
    /// Set if the server is profiled.
    slow_spans: Option<SlowSpans>,
}

/// What was known of the path of a connection.
#[derive(Debug, Clone, Copy, Default)]
struct KnownPath {
    /// Of this socket.
    token: Option<Token>,
    resent: u64,
    min_round_trip_ns: u64,
}

/// A request that has ended, with its times.
pub(super) struct Ended<'a> {
    pub(super) exchange: &'a Exchange,
    pub(super) trace: u128,
    /// As in [`SlowRequest`].
    pub(super) status: u16,
    pub(super) own_ns: u64,
    pub(super) read_late_ns: u64,
    pub(super) at_ns: u64,
}

impl Breakdown {
    /// `None` if the plan does not ask for it.
    pub(super) fn new(settings: &WorkerSettings) -> Option<Box<Self>> {
        let plan = &settings.plan;
        plan.breaks_latency_down().then(|| {
            Box::new(Self {
                reads_server_timing: plan.tracing.server_timing,
                paths: vec![KnownPath::default(); settings.connections_total() as usize],
                asked_from_ns: 0,
                recorded: 0,
                slow_spans: plan.profile.is_some().then(SlowSpans::default),
            })
        })
    }

    /// When the slowest requests were in flight. The worker has ended.
    pub(super) fn take_spans(&mut self) -> Option<SlowSpans> {
        self.slow_spans.take()
    }

    fn server_times(&self, recording: &mut BreakdownRecording, response: &Captured) -> ServerTimes {
        let mut times = ServerTimes::default();
        if !self.reads_server_timing {
            return times;
        }
        for (name, value) in response.headers.iter() {
            if !name.eq_ignore_ascii_case(b"server-timing") {
                continue;
            }
            for (name, time_ns) in server_timing::metrics(value) {
                if let Some(metric) = recording.metric(name) {
                    times.set(metric, time_ns);
                }
            }
        }
        times
    }

    /// Looks now and then from which latency on the kernel is asked.
    fn look(&mut self, recording: &BreakdownRecording) {
        self.recorded += 1;
        if self.recorded.is_multiple_of(LOOK_EVERY) {
            let from_ns = recording.slowest_from_ns(ASKED_SHARE, 0);
            self.asked_from_ns = from_ns.unwrap_or(0);
        }
    }
}

impl Accounting {
    /// Records what the latency of a request consists of, which was due in the window.
    #[inline(never)]
    pub(super) fn break_down<L: EventLoop, S: Session>(
        &mut self,
        network: &mut Network<L, S>,
        key: u32,
        ended: &Ended<'_>,
        response: Option<&Captured>,
    ) {
        let Some(breakdown) = &mut self.breakdown else {
            return;
        };
        if let Some(spans) = &mut breakdown.slow_spans {
            spans.add(SlowSpan {
                due_ns: ended.exchange.due_ns.min(ended.exchange.sent_ns),
                sent_ns: ended.exchange.sent_ns,
                ended_ns: ended.at_ns,
            });
        }
        let mut request = request_of(&network.pool[key], ended, self.times.measure_ns);
        let known = &mut breakdown.paths[key as usize];
        request.path = if request.latency_ns() >= breakdown.asked_from_ns {
            path(network, key, known)
        } else {
            known_path(&network.pool[key], known)
        };
        let recorder = self.recorder.as_mut();
        if let Some(recording) = recorder.and_then(|it| it.breakdown()) {
            if let Some(response) = response {
                request.server_timing_ns = breakdown.server_times(recording, response);
                recording.note_server_times(&request.server_timing_ns);
            }
            recording.add(&request);
            breakdown.look(recording);
        }
    }

    /// All requests of a connection have timed out.
    pub(super) fn break_down_timed_out<L: EventLoop, S: Session>(
        &mut self,
        network: &mut Network<L, S>,
        key: u32,
        at_ns: u64,
    ) {
        let exchanges = network.pool[key].exchanges.iter_with_traces();
        let unanswered: Vec<(Exchange, u128)> = exchanges
            .map(|(exchange, trace)| (*exchange, trace))
            .collect();
        for (exchange, trace) in unanswered {
            for request in 0..exchange.requests {
                // A trace is that of the first request of an exchange.
                let trace = if request == 0 { trace } else { 0 };
                self.break_down_unanswered(network, key, (&exchange, trace), at_ns);
            }
        }
    }

    /// A request has timed out.
    pub(super) fn break_down_unanswered<L: EventLoop, S: Session>(
        &mut self,
        network: &mut Network<L, S>,
        key: u32,
        (exchange, trace): (&Exchange, u128),
        at_ns: u64,
    ) {
        if !self.recorder().measures(exchange.due_ns) {
            return;
        }
        let ended = Ended {
            // What had arrived of the response is no part of an answer.
            exchange: &Exchange {
                began_ns: None,
                ..*exchange
            },
            trace,
            status: 0,
            own_ns: exchange.own_ns,
            read_late_ns: 0,
            at_ns,
        };
        self.break_down(network, key, &ended, None);
    }

    /// A request with a trace was sent in the window.
    pub(super) fn count_trace(&mut self) {
        if let Some(recording) = self.recorder().breakdown() {
            recording.traced += 1;
        }
    }
}

fn request_of<S>(connection: &Connection<S>, ended: &Ended<'_>, measure_ns: u64) -> SlowRequest {
    let Exchange {
        due_ns,
        sent_ns,
        began_ns,
        ..
    } = *ended.exchange;
    let opened_ns = connection.since_ns.min(sent_ns);
    let first_byte_ns = began_ns.unwrap_or(ended.at_ns);
    SlowRequest {
        due_ns: due_ns.saturating_sub(measure_ns),
        waited_ns: sent_ns.saturating_sub(due_ns),
        connecting_ns: opened_ns.saturating_sub(connection.tried_ns.max(due_ns)),
        own_ns: ended.own_ns,
        read_late_ns: ended.read_late_ns,
        first_byte_ns: first_byte_ns.saturating_sub(sent_ns),
        last_byte_ns: ended.at_ns.saturating_sub(first_byte_ns),
        status: ended.status,
        path: None,
        trace_id: (ended.trace != 0).then_some(TraceId(ended.trace)),
        server_timing_ns: ServerTimes::default(),
    }
}

/// What the last answer of the kernel says about the path of a request that took no longer than
/// most.
fn known_path<S>(connection: &Connection<S>, known: &KnownPath) -> Option<SlowPath> {
    let is_same = known.token.is_some() && known.token == connection.token;
    is_same.then_some(SlowPath {
        retransmitted: 0,
        min_round_trip_ns: known.min_round_trip_ns,
    })
}

/// What is known of the path of a connection, and how that differs from what was known.
fn path<L: EventLoop, S: Session>(
    network: &mut Network<L, S>,
    key: u32,
    known: &mut KnownPath,
) -> Option<SlowPath> {
    let connection = &network.pool[key];
    let token = connection.token?;
    let (resent, min_round_trip_ns) = match S::TRANSPORT {
        Transport::Stream => {
            let path = network.io.tcp_path(token)?;
            let resent = u64::from(path.retransmitted) + u64::from(path.out_of_order);
            let round_trip_us = u64::from(path.min_round_trip_us.unwrap_or(0));
            (resent, round_trip_us * 1_000)
        }
        Transport::Datagrams => {
            let statistics = connection.session.statistics()?;
            (statistics.packets_lost, statistics.least_rtt_ns)
        }
    };
    if known.token != Some(token) {
        // Another connection, whose counts began at zero.
        *known = KnownPath {
            token: Some(token),
            ..KnownPath::default()
        };
    }
    let new = resent.saturating_sub(known.resent);
    (known.resent, known.min_round_trip_ns) = (resent, min_round_trip_ns);
    Some(SlowPath {
        retransmitted: u32::try_from(new).unwrap_or(u32::MAX),
        min_round_trip_ns,
    })
}
