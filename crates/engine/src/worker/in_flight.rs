//! Requests that have no response at the end of a run.
//!
//! Sent on time, such a request would have been older at the end, or answered. Which of these it is
//! depends on how long the server takes for it, of which only a lower limit is known: its age. So
//! it is expected to take as long as the fastest tenth of the requests that took longer.

use super::accounting::Accounting;
use super::pool::ConnectionPool;
use super::read_late::ReadLate;
use super::records::EndedWithout;
use crate::exchanges::Exchange;
use crate::recorder::{Labels, Recorder};
use results::Attribution;
use results::records::{RequestRecord, WithoutResponse};

/// A server without any response for this long may have stopped.
const SILENT_NS: u64 = 50_000_000;

/// The service times of a run.
struct ServiceTimes {
    /// Different times, ascending, each with the number of requests that took no longer.
    up_to: Vec<(u64, u64)>,
}

impl ServiceTimes {
    fn of(recorder: &Recorder) -> Self {
        let mut all = 0;
        let times = recorder.corrected_service_time();
        let up_to = times.distinct().map(|(time_ns, requests)| {
            all += requests;
            (time_ns, all)
        });
        Self {
            up_to: up_to.collect(),
        }
    }

    /// The time that a tenth of those that are longer than this do not exceed; `None` if there are
    /// none. So the load generator is not excused by a few that took very long.
    fn usual_beyond(&self, age_ns: u64) -> Option<u64> {
        let first = self
            .up_to
            .partition_point(|(time_ns, _)| *time_ns <= age_ns);
        let shorter = first.checked_sub(1).map_or(0, |last| self.up_to[last].1);
        let (_, all) = self.up_to.last()?;
        let rank = shorter + (all - shorter).div_ceil(10);
        let longer = &self.up_to[first..];
        let tenth = longer.partition_point(|(_, up_to)| *up_to < rank);
        longer.get(tenth).map(|(time_ns, _)| *time_ns)
    }

    /// How much of a request's age the load generator caused by sending it `delay_ns` late. The
    /// server has had the request for `age_ns`.
    fn own_ns(&self, delay_ns: u64, age_ns: u64) -> u64 {
        // A server that takes longer for it than for any other has probably stopped, and would have
        // answered a request on time. Those that would have waited as well are known to
        // [`super::silence`].
        let service_ns = self.usual_beyond(age_ns).unwrap_or(age_ns);
        delay_ns.saturating_sub(service_ns.saturating_sub(age_ns))
    }
}

impl Accounting {
    /// Counts the requests without a response at the end of the run.
    pub(super) fn count_in_flight<S>(&mut self, pool: &mut ConnectionPool<S>, ended_ns: u64) {
        self.end_silence_at(pool, ended_ns);
        // A server that has stopped would have answered before, if the request had been on time.
        let silent_ns = ended_ns.saturating_sub(self.last_arrival_ns(pool));
        let may_take_long = self.is_paced && silent_ns < SILENT_NS;
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let mut service_times = None;
        for (key, connection) in (0..).zip(&pool.connections) {
            let mut read_late = ReadLate::at_end(connection.arrived_ns, ended_ns);
            let labels = |exchange: &Exchange| Labels {
                name: exchange.name,
                address: connection.address,
            };
            for (exchange, tokens, trace) in connection.exchanges.iter_with_all() {
                recorder.stream_is_open(exchange.event_ns, ended_ns);
                let read_late_ns = read_late.of(exchange.submitted_ns());
                if recorder.measures(exchange.due_ns) {
                    let requests = u64::from(exchange.requests);
                    let age_due_ns = ended_ns.saturating_sub(exchange.due_ns);
                    let age_ns = ended_ns.saturating_sub(exchange.sent_ns);
                    recorder.in_flight(requests, age_ns, age_due_ns);
                    let late_ns = (exchange.queued_ns + read_late_ns).min(age_ns);
                    let mut own_ns = exchange.own_ns + late_ns;
                    // Of one that was not read, it is known when it was answered.
                    if may_take_long && read_late_ns == 0 && own_ns >= Attribution::MIN_NS {
                        let times = service_times.get_or_insert_with(|| ServiceTimes::of(recorder));
                        own_ns = times.own_ns(own_ns, age_ns - late_ns);
                    }
                    recorder.own_share_of_unanswered(requests, age_due_ns, own_ns);
                    recorder.in_flight_labelled(requests, age_due_ns, labels(exchange));
                    recorder.in_flight_in_stream((exchange, &tokens), age_due_ns);
                    let ended = EndedWithout {
                        reason: WithoutResponse::InFlight,
                        at_ns: ended_ns,
                        own_ns,
                        bytes: RequestRecord::UNKNOWN,
                    };
                    let (of, by) = ((exchange, &tokens), (key, trace));
                    recorder.record_without(of, by, exchange.requests, ended);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_expected_to_take_as_long_as_the_others_that_took_longer_than_its_age() {
        let times = ServiceTimes {
            up_to: vec![(10, 90), (100, 95), (200, 98)],
        };
        let beyond = |age_ns| times.usual_beyond(age_ns);
        assert_eq!(
            [0, 9, 10, 99].map(beyond),
            [Some(10), Some(10), Some(100), Some(100)]
        );
        assert_eq!([100, 200].map(beyond), [Some(200), None]);
        // Sent 50 earlier, it would have been answered after 10; after 100, it would have waited.
        assert_eq!(
            [(50, 5), (50, 20), (50, 60)].map(|(delay_ns, age_ns)| times.own_ns(delay_ns, age_ns)),
            [45, 0, 10]
        );
        assert_eq!(times.own_ns(50, 250), 50);
        assert_eq!(ServiceTimes { up_to: vec![] }.own_ns(50, 5), 50);
    }
}
