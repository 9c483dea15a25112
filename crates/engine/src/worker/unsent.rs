//! Requests that were due at the end of a run and never sent: which of them would have been sent if
//! the load generator had never been late.
//!
//! A pause of the load generator can fill all connections, so that at a rate near the server's
//! limit requests are still waiting at the end, long after the pause. Each connection carries how
//! much earlier it would have been free ([`results::Attribution`]). From there on, the rest of the
//! schedule is played through with the usual service time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Worker;
use crate::connection::Connection;
use crate::recorder::Recorder;
use eventloop::EventLoop;
use protocol::Session;

/// A request in flight for longer than the service time at this percentile waits for a server that
/// has stopped, whenever it was sent.
const UNUSUAL_PERCENT: f64 = 99.0;

/// When connections would be free, and how long requests usually take.
#[derive(Debug)]
struct Ideal {
    free_ns: BinaryHeap<Reverse<u64>>,
    service_ns: u64,
    ended_ns: u64,
}

impl Ideal {
    /// Sends a request that was due at this time. Returns when it would have been answered, and
    /// `None` if it would not have been sent before the end.
    fn send(&mut self, due_ns: u64) -> Option<u64> {
        let Reverse(free_ns) = *self.free_ns.peek()?;
        let sent_ns = free_ns.max(due_ns);
        if sent_ns >= self.ended_ns {
            return None;
        }
        let answered_ns = sent_ns.saturating_add(self.service_ns);
        self.free_ns.pop();
        self.free_ns.push(Reverse(answered_ns));
        Some(answered_ns)
    }
}

/// The usual and an unusually long service time of the requests so far.
struct ServiceTimes {
    usual_ns: u64,
    unusual_ns: u64,
}

impl ServiceTimes {
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
        let Self {
            share: Some(share),
            recorder: Some(recorder),
            slots,
            ..
        } = self
        else {
            return;
        };
        if let Some(slots) = slots {
            slots.give_up(|due_ns| recorder.unsent((due_ns, 1), ended_ns, None));
        }
        let Some(mut ideal) = ideal else {
            return share.close(ended_ns, |due_ns, requests| {
                recorder.unsent((due_ns, requests), ended_ns, None);
            });
        };
        share.close(ended_ns, |due_ns, requests| {
            for sent in 0..requests {
                let Some(answered_ns) = ideal.send(due_ns) else {
                    return recorder.unsent((due_ns, requests - sent), ended_ns, None);
                };
                recorder.unsent((due_ns, 1), ended_ns, Some(answered_ns));
            }
        });
    }

    /// When the connections would be free if the load generator had never been late. `None` in a
    /// closed loop, and with several hosts, where it is not known.
    fn ideal_connections(&self, ended_ns: u64) -> Option<Ideal> {
        let recorder = self.recorder.as_ref()?;
        if !self.is_paced() || self.slots.is_some() {
            return None;
        }
        let times = ServiceTimes::of(recorder);
        let pipeline = self.settings.pipeline;
        let connections = self.pool.connections.iter();
        let free_ns = connections.flat_map(|it| free_times(it, &times, pipeline, ended_ns));
        Some(Ideal {
            free_ns: free_ns.map(Reverse).collect(),
            service_ns: times.usual_ns,
            ended_ns,
        })
    }
}

/// When this connection would have had room for one further request each.
fn free_times<S: Session>(
    connection: &Connection<S>,
    times: &ServiceTimes,
    pipeline: u32,
    ended_ns: u64,
) -> Vec<u64> {
    let mut free_ns = Vec::new();
    if connection.offered {
        let room = connection.room(pipeline, 1) as usize;
        free_ns.resize(room, connection.ideal_free_ns());
    }
    let mut arrived_ns = connection.arrived_ns;
    for exchange in connection.exchanges.iter() {
        let own_ns = exchange.own_ns + exchange.queued_ns;
        let answered_ns = match arrived_ns.take() {
            // Its response was not read any more.
            Some(arrived_ns) => arrived_ns,
            None if ended_ns.saturating_sub(exchange.sent_ns) > times.unusual_ns => continue,
            None => ended_ns.max(exchange.sent_ns.saturating_add(times.usual_ns)),
        };
        free_ns.push(answered_ns.saturating_sub(own_ns));
    }
    free_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_schedule_is_sent_as_connections_become_free() {
        let mut ideal = Ideal {
            free_ns: [Reverse(50), Reverse(70)].into(),
            service_ns: 30,
            ended_ns: 100,
        };
        let due_ns = [10, 20, 75, 90, 95];
        let answered_ns = due_ns.map(|due_ns| ideal.send(due_ns));
        // The fourth is sent at 100, which is too late.
        assert_eq!(answered_ns, [Some(80), Some(100), Some(110), None, None]);
    }
}
