//! How much of the latency the load generator caused itself.
//!
//! A request is sent late if the load generator did not run when it should have been sent, and its
//! response is read late if the load generator did not run when it arrived. A request that waits
//! for a connection behind such a request is late, too. So each connection carries how much earlier
//! it would have been free if the load generator had never been late:
//!
//! - `ideal = max(due, free - own)`: when the request would have been sent
//! - `own share = (sent - ideal) + (read - arrived)`, which is the connection's new `own`
//!
//! What is left of the latency is the server's and the network's. If the server has a queue of its
//! own, the burst after a pause of the load generator makes that queue longer, and the rule leaves
//! this to the server: then the rest is at most the server's.

use serde::{Deserialize, Serialize};

use crate::{Histogram, Recording};

/// How much of the latency the load generator caused itself, nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Attribution {
    /// The latency, as shown, of requests that the load generator delayed by
    /// [`Attribution::MIN_NS`] or more. The other requests are in no histogram here.
    pub shown: Histogram,
    /// The latency of the same requests without their own shares.
    pub corrected: Histogram,
    /// With a rate: the service time of those of the same requests whose response was read late.
    pub service_shown: Histogram,
    /// The same without the time that the responses waited to be read.
    pub service_corrected: Histogram,
    /// With a rate: requests that were due in the window and that the load generator did not send
    /// although a connection would have been free.
    pub unsent: u64,
    /// In a closed loop: how long connections were not used because of the load generator, summed
    /// over connections. 0 with a rate.
    pub idle_ns: u64,
    /// How long workers were in the script's functions, summed over workers.
    pub script_ns: u64,
    /// The times over 10 ms in which a worker did not run, in the order of time; of more than 1,000
    /// the longest. They do not overlap: what several workers have in common counts once.
    pub standstills: Vec<Standstill>,
    /// How long workers did not run for 10 ms or more at a stretch, summed over workers.
    pub standstill_ns: u64,
}

/// A time in which a worker did not run: it was stopped, or another program had its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Standstill {
    /// When it began, nanoseconds after the start of the window.
    pub start_ns: u64,
    /// How long it lasted within the window, nanoseconds.
    pub length_ns: u64,
}

impl Standstill {
    /// The part of it that lies within a span of time after the start of the window, nanoseconds.
    #[must_use]
    pub fn overlap_ns(&self, (from_ns, to_ns): (u64, u64)) -> u64 {
        let end_ns = self.start_ns.saturating_add(self.length_ns);
        end_ns.min(to_ns).saturating_sub(self.start_ns.max(from_ns))
    }
}

/// A percentile of the latency in parts, which add up to it, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyParts {
    /// The percentile as a number, such as 99 or 99.9; 0..=100.
    pub percent: f64,
    /// The percentile as shown.
    pub shown_ns: u64,
    /// The part of the server and the network.
    pub server_ns: u64,
    /// With a rate: the part in which requests waited for a connection because the server was slow.
    pub waiting_ns: u64,
    /// The part that the load generator caused.
    pub own_ns: u64,
}

impl Attribution {
    /// Smaller own shares are not recorded and disturb no percentile, nanoseconds. Waking up for a
    /// response takes some tens of microseconds even on an idle machine, and so does an interrupt.
    pub const MIN_NS: u64 = 100_000;

    /// A time without progress counts as a standstill from this length on, nanoseconds.
    pub const STANDSTILL_MIN_NS: u64 = 10_000_000;

    /// How many standstills are kept: the longest ones. Workers have most of them in common, and
    /// what they share is only known of those that are kept. So many make a result 50 kB larger.
    pub const STANDSTILLS_MAX: usize = 1_000;

    /// Whether the load generator delayed no request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
            && self.unsent == 0
            && self.idle_ns == 0
            && self.script_ns == 0
            && self.standstills.is_empty()
            && self.standstill_ns == 0
    }

    /// Adds requests whose latency is `shown_ns`, of which the load generator caused `own_ns`.
    pub fn delayed(&mut self, requests: u64, shown_ns: u64, own_ns: u64) {
        self.shown.record_n(shown_ns, requests);
        let corrected_ns = shown_ns.saturating_sub(own_ns);
        self.corrected.record_n(corrected_ns, requests);
    }

    /// Adds a standstill of one worker.
    pub fn add_standstill(&mut self, standstill: Standstill) {
        self.standstill_ns = self.standstill_ns.saturating_add(standstill.length_ns);
        self.keep_standstill(standstill);
    }

    /// Keeps a standstill, joined with those that it overlaps, if it is one of the longest.
    fn keep_standstill(&mut self, standstill: Standstill) {
        let end_ns = |it: &Standstill| it.start_ns.saturating_add(it.length_ns);
        let mut joined = standstill;
        self.standstills.retain(|other| {
            let overlaps = other.start_ns <= end_ns(&joined) && joined.start_ns <= end_ns(other);
            if overlaps {
                let start_ns = joined.start_ns.min(other.start_ns);
                joined = Standstill {
                    start_ns,
                    length_ns: end_ns(&joined).max(end_ns(other)) - start_ns,
                };
            }
            !overlaps
        });
        self.standstills.push(joined);
        if self.standstills.len() > Self::STANDSTILLS_MAX {
            // Of several with this length the earliest, so that the order of merging does not
            // matter.
            let all = self.standstills.iter().enumerate();
            let shortest = all.min_by_key(|(_, it)| (it.length_ns, it.start_ns));
            if let Some((shortest, _)) = shortest {
                self.standstills.remove(shortest);
            }
        }
        self.standstills.sort_by_key(|it| it.start_ns);
    }

    /// Adds what another worker or machine recorded.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            shown,
            corrected,
            service_shown,
            service_corrected,
            unsent,
            idle_ns,
            script_ns,
            standstills,
            standstill_ns,
        } = other;
        self.shown.merge(shown);
        self.corrected.merge(corrected);
        self.service_shown.merge(service_shown);
        self.service_corrected.merge(service_corrected);
        self.unsent = self.unsent.saturating_add(*unsent);
        self.idle_ns = self.idle_ns.saturating_add(*idle_ns);
        self.script_ns = self.script_ns.saturating_add(*script_ns);
        self.standstill_ns = self.standstill_ns.saturating_add(*standstill_ns);
        for standstill in standstills {
            self.keep_standstill(*standstill);
        }
    }
}

impl Recording {
    /// [`Self::latency`] without the own shares of the load generator.
    #[must_use]
    pub fn corrected_latency(&self) -> Histogram {
        let attribution = &self.attribution;
        self.latency()
            .exchanged(&attribution.shown, &attribution.corrected)
    }

    /// [`Self::uncorrected`] without the time that responses waited to be read.
    #[must_use]
    pub(crate) fn corrected_service_time(&self) -> Histogram {
        let attribution = &self.attribution;
        self.uncorrected()
            .exchanged(&attribution.service_shown, &attribution.service_corrected)
    }

    /// Percentiles (0..=100) of [`Self::latency`] in parts.
    #[must_use]
    pub fn latency_parts_at(&self, percents: &[f64]) -> Vec<LatencyParts> {
        let shown = self.latency().values_at_percentiles(percents);
        if self.attribution.shown.is_empty() && self.counters.due == 0 {
            let all_of_server = |(&percent, &shown_ns): (&f64, &u64)| LatencyParts {
                percent,
                shown_ns,
                server_ns: shown_ns,
                waiting_ns: 0,
                own_ns: 0,
            };
            return percents.iter().zip(&shown).map(all_of_server).collect();
        }
        let corrected = self.corrected_latency().values_at_percentiles(percents);
        let service = match self.counters.due {
            0 => corrected.clone(),
            _ => self
                .corrected_service_time()
                .values_at_percentiles(percents),
        };
        let parts = percents.iter().zip(&shown).zip(corrected).zip(service);
        let part =
            |(((&percent, &shown_ns), corrected_ns), service_ns): (((&f64, &u64), u64), u64)| {
                let corrected_ns = corrected_ns.min(shown_ns);
                let server_ns = service_ns.min(corrected_ns);
                LatencyParts {
                    percent,
                    shown_ns,
                    server_ns,
                    waiting_ns: corrected_ns - server_ns,
                    own_ns: shown_ns - corrected_ns,
                }
            };
        parts.map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// 1,000 requests with a rate that took 1 ms each. The load generator delayed the last 100.
    fn disturbed() -> Recording {
        let mut recording = Recording::new();
        recording.counters.due = 1000;
        for number in 0..1000_u64 {
            let own_ns = number.saturating_sub(900) * MS;
            recording.response_time.record(MS + own_ns);
            recording.service_time.record(MS);
            if own_ns > 0 {
                recording.attribution.shown.record(MS + own_ns);
                recording.attribution.corrected.record(MS);
            }
        }
        recording
    }

    fn is_about(seen_ns: u64, truth_ns: u64) -> bool {
        seen_ns.abs_diff(truth_ns) <= truth_ns / 512
    }

    #[test]
    fn the_corrected_latency_is_that_of_a_run_without_delays_of_the_generator() {
        let recording = disturbed();
        let corrected = recording.corrected_latency();
        assert_eq!(corrected.count(), 1000);
        for percent in [1.0, 50.0, 99.0, 100.0] {
            assert!(is_about(corrected.value_at_percentile(percent), MS));
        }
    }

    #[test]
    fn the_parts_of_a_percentile_add_up_to_it() {
        let mut recording = disturbed();
        // The server let 300 other requests wait for a connection.
        for _ in 0..300 {
            recording.response_time.record(21 * MS);
            recording.service_time.record(MS);
        }
        recording.counters.due = 1300;
        let percents = [10.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0];
        for (parts, percent) in recording.latency_parts_at(&percents).iter().zip(percents) {
            let sum_ns = parts.server_ns + parts.waiting_ns + parts.own_ns;
            assert_eq!(sum_ns, parts.shown_ns, "p{percent}");
            let shown_ns = recording.latency().value_at_percentile(percent);
            assert_eq!(parts.shown_ns, shown_ns, "p{percent}");
        }
        let p99 = recording.latency_parts_at(&[99.0])[0];
        assert!(is_about(p99.server_ns, MS), "{p99:?}");
        assert!(is_about(p99.waiting_ns, 20 * MS), "{p99:?}");
        assert!(p99.own_ns > 60 * MS, "{p99:?}");
    }

    #[test]
    fn without_delays_everything_is_the_server_and_the_wait_for_it() {
        let mut recording = Recording::new();
        recording.service_time.record_n(5 * MS, 10);
        let parts = recording.latency_parts_at(&[50.0])[0];
        assert_eq!((parts.waiting_ns, parts.own_ns), (0, 0));
        assert_eq!(parts.server_ns, parts.shown_ns);
    }

    #[test]
    fn a_standstill_that_several_workers_have_in_common_counts_once() {
        let mut attribution = Attribution::default();
        for (start_ms, length_ms) in [(100, 50), (300, 20), (120, 60), (90, 15)] {
            attribution.add_standstill(Standstill {
                start_ns: start_ms * MS,
                length_ns: length_ms * MS,
            });
        }
        let in_ms = |it: &Standstill| (it.start_ns / MS, it.length_ns / MS);
        let found: Vec<_> = attribution.standstills.iter().map(in_ms).collect();
        assert_eq!(found, [(90, 90), (300, 20)]);
        // Of each worker it is a part of its time.
        assert_eq!(attribution.standstill_ns, 145 * MS);
    }

    #[test]
    fn the_pauses_of_a_process_are_counted_once_whatever_the_number_of_its_workers() {
        let mut all = Attribution::default();
        for worker in 0..4 {
            let mut own = Attribution::default();
            for number in 0..50 {
                own.add_standstill(Standstill {
                    start_ns: number * 100 * MS + worker,
                    length_ns: (20 + (number * 7 + worker) % 13) * MS,
                });
            }
            all.merge(&own);
        }
        assert_eq!(all.standstills.len(), 50);
        let per_worker_ms = all.standstill_ns / 4 / MS;
        assert!((1_200..1_400).contains(&per_worker_ms), "{per_worker_ms}");
    }

    #[test]
    fn recordings_merge_in_any_order() {
        let (one, mut other) = (disturbed().attribution, Attribution::default());
        for number in 0..1_500 {
            other.add_standstill(Standstill {
                start_ns: (1_500 - number) * 100 * MS,
                length_ns: (10 + number % 6) * MS,
            });
        }
        let mut forwards = one.clone();
        forwards.merge(&other);
        let mut backwards = other.clone();
        backwards.merge(&one);
        assert_eq!(forwards, backwards);
        assert_eq!(forwards.standstills.len(), Attribution::STANDSTILLS_MAX);
        let starts: Vec<u64> = forwards.standstills.iter().map(|it| it.start_ns).collect();
        assert!(starts.is_sorted(), "{starts:?}");
        let shortest = forwards.standstills.iter().map(|it| it.length_ns).min();
        assert!(shortest >= Some(12 * MS), "the longest are kept");
    }
}
