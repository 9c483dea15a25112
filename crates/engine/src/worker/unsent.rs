//! Requests that were due at the end of a run and never sent: which of them would have been sent if
//! the load generator had never been late.
//!
//! A pause of the load generator can fill all connections, so that at a rate near the server's
//! limit requests are still waiting at the end, long after the pause. Each connection carries how
//! much earlier it would have been free ([`results::Attribution`]). From there on, the rest of the
//! schedule is played through with the service times of the run, until the server stopped if it
//! did.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Worker;
use super::accounting::Accounting;
use super::pool::ConnectionPool;
use super::read_late::ReadLate;
use crate::connection::Connection;
use crate::recorder::Recorder;
use eventloop::EventLoop;
use protocol::Session;

/// A request in flight for longer than the service time at this percentile waits for a server that
/// has stopped, whenever it was sent.
const UNUSUAL_PERCENT: f64 = 99.0;

/// The number of quantiles that stand for the distribution of the service time.
const QUANTILES: usize = 200;
/// Each request takes the quantile this many after that of the request before, so that short and
/// long times alternate. It has no common factor with [`QUANTILES`], so all of them are used.
const QUANTILE_STEP: usize = 123;

/// When connections would be free, and how long requests take.
#[derive(Debug)]
struct Ideal {
    free_ns: BinaryHeap<Reverse<u64>>,
    /// Quantiles of the service time. One for all would leave out slow requests: with 3 % of them
    /// and most of the schedule unsent, no percentile would have any.
    services_ns: Vec<u64>,
    /// Requests that were sent.
    sent: usize,
    /// The server has responded to nothing since then. `u64::MAX` if it did.
    stopped_ns: u64,
    ended_ns: u64,
}

impl Ideal {
    /// No connection would have been free before the end.
    fn is_over(&self) -> bool {
        let first = self.free_ns.peek();
        first.is_none_or(|Reverse(free_ns)| *free_ns >= self.ended_ns)
    }

    /// Sends a request that was due at this time. Returns when it would have been answered, and
    /// `None` if it would not have been sent before the end, or not answered.
    fn send(&mut self, due_ns: u64) -> Option<u64> {
        let Reverse(free_ns) = *self.free_ns.peek()?;
        let sent_ns = free_ns.max(due_ns);
        if sent_ns >= self.ended_ns {
            return None;
        }
        let at = self.sent * QUANTILE_STEP % self.services_ns.len().max(1);
        let service_ns = self.services_ns.get(at).copied().unwrap_or(0);
        let answered_ns = sent_ns.saturating_add(service_ns);
        self.sent += 1;
        self.free_ns.pop();
        if answered_ns > self.stopped_ns {
            // It would have waited as well.
            return None;
        }
        self.free_ns.push(Reverse(answered_ns));
        Some(answered_ns)
    }
}

/// Quantiles of the service time of the requests so far, in ascending order.
fn quantiles_ns(recorder: &Recorder) -> Vec<u64> {
    let percent = |number: usize| 100.0 * (number as f64 + 0.5) / QUANTILES as f64;
    let percents: Vec<f64> = (0..QUANTILES).map(percent).collect();
    let times = recorder.corrected_service_time();
    times.values_at_percentiles(&percents)
}

/// The usual and an unusually long service time of the requests so far.
struct UsualTimes {
    usual_ns: u64,
    unusual_ns: u64,
}

impl UsualTimes {
    fn of(recorder: &Recorder) -> Self {
        let times = recorder.corrected_service_time();
        let at = times.values_at_percentiles(&[50.0, UNUSUAL_PERCENT]);
        Self {
            usual_ns: at[0],
            unusual_ns: at[1],
        }
    }
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// What the share of the schedule still contains at the end was due but never sent.
    pub(super) fn count_unsent(&mut self, ended_ns: u64) {
        let ideal = self.ideal_connections(ended_ns);
        let sender = &mut self.sender;
        let both = sender.share.as_mut().zip(self.accounting.recorder.as_mut());
        let Some((share, recorder)) = both else {
            return;
        };
        if let Some(conversations) = &sender.conversations {
            let unsent = conversations.unsent(ended_ns);
            unsent.for_each(|due_ns| recorder.unsent((due_ns, 1), ended_ns, None));
        }
        if let Some(slots) = &mut sender.slots {
            slots.give_up(|due_ns| recorder.unsent((due_ns, 1), ended_ns, None));
        }
        let Some(mut ideal) = ideal else {
            return share.close(ended_ns, |due_ns, requests| {
                recorder.unsent((due_ns, requests), ended_ns, None);
            });
        };
        share.close(ended_ns, |due_ns, requests| {
            for sent in 0..requests {
                if ideal.is_over() {
                    return recorder.unsent((due_ns, requests - sent), ended_ns, None);
                }
                recorder.unsent((due_ns, 1), ended_ns, ideal.send(due_ns));
            }
        });
    }

    /// When the connections would be free if the load generator had never been late. `None` if
    /// nothing is left to send, and with several hosts, where it is not known.
    fn ideal_connections(&mut self, ended_ns: u64) -> Option<Ideal> {
        let unopened = self
            .network
            .ideal_free_of_unopened(ended_ns, &mut self.accounting.usage);
        let (share, recorder) = self
            .sender
            .share
            .as_ref()
            .zip(self.accounting.recorder.as_ref())?;
        // The service times are not needed without unsent requests, and take 0.3 ms.
        if share.next_due_ns() >= ended_ns || self.sender.slots.is_some() {
            return None;
        }
        let times = UsualTimes::of(recorder);
        let pipeline = self.settings.pipeline;
        let connections = || self.network.pool.connections.iter();
        let seen_ns = self.accounting.watch.looked_ns().min(ended_ns);
        let in_flight = || connections().flat_map(|it| in_flight(it, &times, (seen_ns, ended_ns)));
        let last_ns = self.accounting.last_arrival_ns(&self.network.pool);
        let stopped_ns = stopped_ns(in_flight(), &times, last_ns);
        let free = connections().flat_map(|it| {
            let (free_ns, room) = if it.offered {
                (it.ideal_free_ns(), it.room(pipeline, 1))
            } else if it.is_opening() {
                (it.tried_ns.saturating_sub(it.own_ns), pipeline)
            } else {
                (0, 0)
            };
            std::iter::repeat_n(free_ns, room as usize)
        });
        let later_free = in_flight().filter_map(|it| it.ideal_free_ns(&times, stopped_ns));
        Some(Ideal {
            free_ns: free
                .chain(later_free)
                .chain(unopened)
                .map(Reverse)
                .collect(),
            // The slow requests of a stall are those that were in flight then. It does not recur.
            services_ns: if self.accounting.has_been_silent() {
                vec![times.usual_ns]
            } else {
                quantiles_ns(recorder)
            },
            sent: 0,
            stopped_ns,
            ended_ns,
        })
    }
}

impl Accounting {
    /// When the last response arrived, also if it was not read.
    pub(super) fn last_arrival_ns<S>(&self, pool: &ConnectionPool<S>) -> u64 {
        let unread_ns = pool.connections.iter().filter_map(|it| it.arrived_ns);
        unread_ns.fold(self.silence.last_arrival_ns(), u64::max)
    }
}

/// A request that is in flight at the end.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    sent_ns: u64,
    own_ns: u64,
    /// When its response will be there. `None` if it waits for a server that has stopped.
    answered_ns: Option<u64>,
}

impl InFlight {
    /// When its connection would be free if the load generator had never been late.
    fn ideal_free_ns(&self, times: &UsualTimes, stopped_ns: u64) -> Option<u64> {
        match self.answered_ns {
            Some(answered_ns) => Some(answered_ns.saturating_sub(self.own_ns)),
            None => {
                let usual_ns = self.sent_ns.saturating_add(times.usual_ns);
                let ideal_ns = usual_ns.saturating_sub(self.own_ns);
                // It would have been sent before the server stopped.
                (ideal_ns < stopped_ns && stopped_ns < u64::MAX).then_some(ideal_ns)
            }
        }
    }
}

/// The requests of a connection that are in flight at the end. What arrived before the first of the
/// two times was seen, and the second one is the end.
fn in_flight<S: Session>(
    connection: &Connection<S>,
    times: &UsualTimes,
    (seen_ns, ended_ns): (u64, u64),
) -> impl Iterator<Item = InFlight> {
    let mut read_late = ReadLate::at_end(connection.arrived_ns, ended_ns);
    connection.exchanges.iter().map(move |exchange| {
        let sent_ns = exchange.submitted_ns();
        let late_ns = read_late.of(sent_ns);
        let is_overdue = seen_ns.saturating_sub(sent_ns) > times.unusual_ns;
        InFlight {
            sent_ns,
            own_ns: exchange.own_ns + exchange.queued_ns,
            answered_ns: match late_ns {
                0 if is_overdue => None,
                0 => Some(seen_ns.max(sent_ns.saturating_add(times.usual_ns))),
                // Its response was not read any more.
                _ => Some(ended_ns.saturating_sub(late_ns)),
            },
        }
    })
}

/// When the server stopped, if it did: before the first overdue response would have arrived, and no
/// other one has arrived much later.
fn stopped_ns(
    in_flight: impl Iterator<Item = InFlight>,
    times: &UsualTimes,
    last_arrival_ns: u64,
) -> u64 {
    let overdue = in_flight.filter(|it| it.answered_ns.is_none());
    let first_ns = overdue.map(|it| it.sent_ns).min().unwrap_or(u64::MAX);
    if last_arrival_ns > first_ns.saturating_add(times.unusual_ns) {
        // Single requests wait.
        u64::MAX
    } else {
        first_ns.saturating_add(times.usual_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_schedule_is_sent_as_connections_become_free() {
        let mut ideal = Ideal {
            free_ns: [Reverse(50), Reverse(70)].into(),
            services_ns: vec![30],
            sent: 0,
            stopped_ns: u64::MAX,
            ended_ns: 100,
        };
        let due_ns = [10, 20, 75, 90, 95];
        let answered_ns = due_ns.map(|due_ns| ideal.send(due_ns));
        // The fourth is sent at 100, which is too late.
        assert_eq!(answered_ns, [Some(80), Some(100), Some(110), None, None]);
    }

    #[test]
    fn unsent_requests_are_slow_as_often_as_the_others() {
        let mut services_ns = vec![10; QUANTILES];
        services_ns[QUANTILES - 6..].fill(1_000);
        let mut ideal = Ideal {
            free_ns: [Reverse(0); QUANTILES].into(),
            services_ns,
            sent: 0,
            stopped_ns: u64::MAX,
            ended_ns: 100,
        };
        let answered_ns: Vec<_> = (0..QUANTILES).map(|_| ideal.send(0)).collect();
        let slow = |answered_ns: &[Option<u64>]| {
            answered_ns.iter().filter(|it| **it == Some(1_000)).count()
        };
        assert_eq!(slow(&answered_ns), 6);
        // They do not come one after another.
        assert!(answered_ns.windows(2).all(|two| slow(two) < 2));
    }

    #[test]
    fn nothing_is_answered_after_the_server_has_stopped() {
        let mut ideal = Ideal {
            free_ns: [Reverse(10), Reverse(20)].into(),
            services_ns: vec![30],
            sent: 0,
            stopped_ns: 65,
            ended_ns: 100,
        };
        let answered_ns = [5, 6, 7, 8].map(|due_ns| ideal.send(due_ns));
        assert_eq!(answered_ns, [Some(40), Some(50), None, None]);
    }

    #[test]
    fn a_server_has_stopped_if_nothing_arrived_after_the_first_overdue_request() {
        let times = UsualTimes {
            usual_ns: 10,
            unusual_ns: 20,
        };
        let overdue = |sent_ns| InFlight {
            sent_ns,
            own_ns: 0,
            answered_ns: None,
        };
        let in_flight = [overdue(130), overdue(120)];
        assert_eq!(stopped_ns(in_flight.into_iter(), &times, 125), 130);
        assert_eq!(stopped_ns(in_flight.into_iter(), &times, 200), u64::MAX);
        assert_eq!(stopped_ns([].into_iter(), &times, 125), u64::MAX);
        // Sent 50 earlier, one of them would have been answered.
        let late = InFlight {
            own_ns: 50,
            ..overdue(120)
        };
        assert_eq!(late.ideal_free_ns(&times, 130), Some(80));
        assert_eq!(overdue(120).ideal_free_ns(&times, 130), None);
        assert_eq!(late.ideal_free_ns(&times, u64::MAX), None);
    }
}
