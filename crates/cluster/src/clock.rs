//! The offset between the clocks of two machines, and its uncertainty.
//!
//! Both clocks are CLOCK_MONOTONIC, which nobody sets. An exchange has four timestamps, as in NTP
//! (RFC 5905, section 8). Where the two directions take different times, the offset is wrong by at
//! most half of the round trip, so the exchange with the shortest one decides.

use serde::{Deserialize, Serialize};

/// The most exchanges before a run.
pub const EXCHANGES: usize = 50;

/// Reading a clock ends after this number of exchanges without a much shorter round trip.
pub const VAIN_EXCHANGES: usize = 10;

/// If the bound is larger than this, synchronized wall clocks may be better.
pub const GOOD_BOUND_NS: u64 = 5_000_000;

/// A question about the time and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// When the question was sent, on this clock.
    pub sent_ns: u64,
    /// When the question arrived, on the other clock.
    pub received_ns: u64,
    /// When the reply was sent, on the other clock.
    pub replied_ns: u64,
    /// When the reply arrived, on this clock.
    pub returned_ns: u64,
}

impl Exchange {
    /// Time on the way, both directions together. `None` if the timestamps contradict each other.
    #[must_use]
    pub fn round_trip_ns(&self) -> Option<u64> {
        let total = self.returned_ns.checked_sub(self.sent_ns)?;
        total.checked_sub(self.replied_ns.checked_sub(self.received_ns)?)
    }

    /// How far the other clock is ahead if both directions take the same time.
    #[must_use]
    pub fn offset_ns(&self) -> Option<i64> {
        let there = i128::from(self.received_ns) + i128::from(self.replied_ns);
        let here = i128::from(self.sent_ns) + i128::from(self.returned_ns);
        i64::try_from((there - here).div_euclid(2)).ok()
    }
}

/// Where an offset comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// It was computed from exchanges of messages.
    Exchanges,
    /// It was computed from the wall clocks of both machines, which their kernels keep
    /// synchronized.
    WallClocks,
}

/// How far another clock is ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// The other clock minus this one.
    pub offset_ns: i64,
    /// The largest possible error of the offset, nanoseconds.
    pub bound_ns: u64,
    /// When it was measured, on this clock.
    pub at_ns: u64,
    /// The shortest round trip.
    pub round_trip_ns: u64,
    /// Where the offset comes from.
    pub source: ClockSource,
}

impl Offset {
    /// A time of this clock on the other one. `None` if the other one has no such time.
    #[must_use]
    pub fn there(&self, here_ns: u64) -> Option<u64> {
        here_ns.checked_add_signed(self.offset_ns)
    }
}

/// The offset by the exchange with the shortest round trip. `None` without a valid one.
#[must_use]
pub fn offset(exchanges: &[Exchange]) -> Option<Offset> {
    let valid = exchanges.iter().filter_map(|exchange| {
        Some(Offset {
            offset_ns: exchange.offset_ns()?,
            bound_ns: exchange.round_trip_ns()?.div_ceil(2),
            at_ns: exchange.returned_ns,
            round_trip_ns: exchange.round_trip_ns()?,
            source: ClockSource::Exchanges,
        })
    });
    valid.min_by_key(|offset| offset.round_trip_ns)
}

/// Whether more exchanges would hardly make the bound smaller: at least [`VAIN_EXCHANGES`] have
/// come since the first one whose round trip is within a tenth of the shortest.
#[must_use]
pub fn are_enough(exchanges: &[Exchange]) -> bool {
    let round_trip_ns = |exchange: &Exchange| exchange.round_trip_ns().unwrap_or(u64::MAX);
    let shortest_ns = exchanges.iter().map(round_trip_ns).min();
    let limit_ns = shortest_ns.map(|shortest_ns| shortest_ns.saturating_add(shortest_ns / 10));
    let since = exchanges
        .iter()
        .skip_while(|exchange| Some(round_trip_ns(exchange)) > limit_ns);
    exchanges.len() >= EXCHANGES || since.count() > VAIN_EXCHANGES
}

/// How much faster the other clock runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// Nanoseconds per second; negative if the other clock is slower.
    pub ns_per_sec: i64,
    /// The largest possible error of the drift, nanoseconds per second.
    pub bound_ns_per_sec: u64,
}

/// The drift between two measurements of the offset. `None` if no time lies between them.
#[must_use]
pub fn drift(first: &Offset, last: &Offset) -> Option<Drift> {
    const NS_PER_SEC: i128 = 1_000_000_000;
    let time_ns = i128::from(last.at_ns.checked_sub(first.at_ns)?);
    let moved = i128::from(last.offset_ns) - i128::from(first.offset_ns);
    let bound = i128::from(first.bound_ns) + i128::from(last.bound_ns);
    Some(Drift {
        ns_per_sec: i64::try_from((moved * NS_PER_SEC).checked_div(time_ns)?).ok()?,
        bound_ns_per_sec: u64::try_from((bound * NS_PER_SEC).checked_div(time_ns)?).ok()?,
    })
}

/// Turns times of another clock into times of this one, by its offset before and after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversion {
    first: Offset,
    /// A later one, from the same source.
    last: Option<Offset>,
}

impl Conversion {
    /// A clock with these offsets. Between them it drifts evenly; a clock that was measured by
    /// synchronized wall clocks does not drift.
    #[must_use]
    pub fn new(first: Offset, last: Option<Offset>) -> Self {
        let is_later = |last: &Offset| last.source == first.source && last.at_ns > first.at_ns;
        Self {
            first,
            last: last.filter(is_later),
        }
    }

    /// A time of the other clock on this one. `None` if this one has no such time.
    #[must_use]
    pub fn here(&self, there_ns: u64) -> Option<u64> {
        // Offsets change by less than a thousandth of the time that passes, so the time by the
        // first offset tells well enough between which offsets it is.
        let about_ns = i128::from(there_ns) - i128::from(self.first.offset_ns);
        let offset_ns = self.offset_ns_at(about_ns);
        u64::try_from(i128::from(there_ns) - offset_ns).ok()
    }

    /// The largest possible error of a converted time, nanoseconds, if the clock drifts evenly.
    #[must_use]
    pub fn bound_ns(&self) -> u64 {
        let last_ns = self.last.map_or(0, |last| last.bound_ns);
        self.first.bound_ns.max(last_ns)
    }

    fn offset_ns_at(&self, here_ns: i128) -> i128 {
        let first_ns = i128::from(self.first.offset_ns);
        let Some(last) = self.last else {
            return first_ns;
        };
        let whole_ns = i128::from(last.at_ns) - i128::from(self.first.at_ns);
        let passed_ns = (here_ns - i128::from(self.first.at_ns)).clamp(0, whole_ns);
        let moved_ns = i128::from(last.offset_ns) - first_ns;
        first_ns + moved_ns * passed_ns / whole_ns
    }
}

/// A wall clock whose kernel says that it is synchronized (`adjtimex(2)`), and the monotonic clock
/// at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallClock {
    /// Nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
    /// CLOCK_MONOTONIC at that moment, nanoseconds.
    pub monotonic_ns: u64,
    /// The kernel's bound of the error of the wall clock, nanoseconds.
    pub bound_ns: u64,
}

/// The better of two ways: exchanges, unless their bound is above [`GOOD_BOUND_NS`] and both wall
/// clocks are synchronized with a smaller one.
#[must_use]
pub fn better(exchanged: Offset, here: Option<WallClock>, there: Option<WallClock>) -> Offset {
    let by_wall_clocks = || {
        let (here, there) = (here?, there?);
        // What each machine's monotonic clock showed at the beginning of 1970.
        let zero = |clock: WallClock| i128::from(clock.monotonic_ns) - i128::from(clock.unix_ns);
        Some(Offset {
            offset_ns: i64::try_from(zero(there) - zero(here)).ok()?,
            bound_ns: here.bound_ns.checked_add(there.bound_ns)?,
            source: ClockSource::WallClocks,
            ..exchanged
        })
    };
    match by_wall_clocks() {
        Some(wall) if exchanged.bound_ns > GOOD_BOUND_NS && wall.bound_ns < exchanged.bound_ns => {
            wall
        }
        _ => exchanged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const HOUR: u64 = 3_600_000 * MS;

    /// An exchange with a clock that is `ahead_ns` ahead, with these times on the way.
    fn exchange(
        at_ns: u64,
        ahead_ns: i64,
        there_ns: u64,
        inside_ns: u64,
        back_ns: u64,
    ) -> Exchange {
        let received_ns = (at_ns + there_ns).saturating_add_signed(ahead_ns);
        Exchange {
            sent_ns: at_ns,
            received_ns,
            replied_ns: received_ns + inside_ns,
            returned_ns: at_ns + there_ns + inside_ns + back_ns,
        }
    }

    #[test]
    fn the_exchange_with_the_shortest_round_trip_decides() {
        let ahead = 5 * HOUR as i64;
        let exchanges = [
            exchange(10 * HOUR, ahead, 9 * MS, MS, 100),
            exchange(10 * HOUR + MS, ahead, 41_000, 3 * MS, 39_000),
            exchange(10 * HOUR + 2 * MS, ahead, 100, MS, 700 * MS),
        ];
        let offset = offset(&exchanges).expect("they are valid");
        assert_eq!(offset.round_trip_ns, 80_000);
        assert_eq!(offset.bound_ns, 40_000);
        assert_eq!(offset.offset_ns, ahead + 1_000);
        assert_eq!(offset.there(7), Some(5 * HOUR + 1_007));
    }

    /// An offset that was measured at this time.
    fn measured(at_ns: u64, offset_ns: i64, bound_ns: u64) -> Offset {
        Offset {
            offset_ns,
            bound_ns,
            at_ns,
            round_trip_ns: 2 * bound_ns,
            source: ClockSource::Exchanges,
        }
    }

    #[test]
    fn times_of_a_clock_that_drifts_are_converted_by_the_offset_between_two_measurements() {
        let ahead = 5 * HOUR as i64;
        let first = measured(10 * HOUR, ahead, 40);
        let last = measured(11 * HOUR, ahead + 36 * MS as i64, 90);
        let conversion = Conversion::new(first, Some(last));
        assert_eq!(conversion.bound_ns(), 90);
        for (here_ns, moved_ns) in [
            (10 * HOUR, 0),
            (10 * HOUR + HOUR / 2, 18 * MS),
            (11 * HOUR, 36 * MS),
        ] {
            let there_ns = here_ns + 5 * HOUR + moved_ns;
            let converted = conversion.here(there_ns).expect("there is such a time");
            // It drifts by 10 us per second, and the first guess is off by up to 36 ms.
            assert!(converted.abs_diff(here_ns) <= 400, "{converted} {here_ns}");
        }
        // Outside, the nearest measurement counts.
        assert_eq!(conversion.here(6 * HOUR), Some(HOUR));
        let outside = conversion.here(20 * HOUR + 36 * MS);
        assert_eq!(outside, Some(15 * HOUR));
    }

    #[test]
    fn a_measurement_from_another_source_or_an_earlier_one_says_nothing_about_the_drift() {
        let first = measured(10 * HOUR, 7, 40);
        let earlier = measured(9 * HOUR, 1_000, 1_000);
        let other = Offset {
            source: ClockSource::WallClocks,
            ..measured(11 * HOUR, 1_000, 1_000)
        };
        for last in [None, Some(first), Some(earlier), Some(other)] {
            let conversion = Conversion::new(first, last);
            assert_eq!(conversion.here(HOUR), Some(HOUR - 7), "{last:?}");
            assert_eq!(conversion.bound_ns(), 40);
        }
    }

    #[test]
    fn a_time_that_this_clock_does_not_have_is_none() {
        for (offset_ns, there_ns) in [(i64::MAX, 5), (i64::MIN, u64::MAX), (1, 0)] {
            let one = measured(HOUR, offset_ns, 0);
            let last = measured(u64::MAX, i64::MIN, 0);
            assert_eq!(Conversion::new(one, None).here(there_ns), None);
            // No value overflows on the way.
            let _ = Conversion::new(one, Some(last)).here(there_ns);
        }
    }

    #[test]
    fn contradicting_timestamps_are_no_exchange() {
        let good = exchange(HOUR, 0, 10, 10, 10);
        for bad in [
            Exchange {
                returned_ns: good.sent_ns - 1,
                ..good
            },
            Exchange {
                replied_ns: good.received_ns - 1,
                ..good
            },
            Exchange {
                replied_ns: good.replied_ns + HOUR,
                ..good
            },
            Exchange {
                received_ns: 0,
                replied_ns: u64::MAX,
                ..good
            },
        ] {
            assert_eq!(offset(&[bad]), None, "{bad:?}");
        }
        assert_eq!(offset(&[]), None);
    }

    #[test]
    fn drift_is_the_change_of_the_offset_over_time() {
        let first = offset(&[exchange(HOUR, 1000, 10, 0, 10)]).expect("valid");
        let later = HOUR + 10_000 * MS;
        let last = offset(&[exchange(later, 1000 - 50_000, 10, 0, 10)]).expect("valid");
        let drift_of = drift(&first, &last).expect("ten seconds lie between them");
        assert_eq!(drift_of.ns_per_sec, -5_000);
        assert_eq!(drift_of.bound_ns_per_sec, 2);
        assert_eq!(drift(&first, &first), None);
        assert_eq!(drift(&last, &first), None);
    }

    #[test]
    fn wall_clocks_are_used_only_if_both_are_synchronized_and_better() {
        let wall = |ahead_ns: u64, bound_ns| WallClock {
            unix_ns: 500 * HOUR,
            monotonic_ns: 3 * HOUR + ahead_ns,
            bound_ns,
        };
        let (here, there) = (Some(wall(0, MS)), Some(wall(HOUR, 2 * MS)));
        let slow = offset(&[exchange(3 * HOUR, HOUR as i64, 40 * MS, 0, 20 * MS)]).expect("valid");
        assert_eq!(slow.bound_ns, 30 * MS);
        let chosen = better(slow, here, there);
        assert_eq!(chosen.source, ClockSource::WallClocks);
        assert_eq!((chosen.offset_ns, chosen.bound_ns), (HOUR as i64, 3 * MS));
        let worse = Some(wall(HOUR, 40 * MS));
        for (here, there) in [(None, there), (here, None), (here, worse)] {
            assert_eq!(better(slow, here, there), slow);
        }
        let fast = offset(&[exchange(3 * HOUR, HOUR as i64, 5 * MS, 0, 5 * MS)]).expect("valid");
        assert_eq!(better(fast, Some(wall(0, 1)), Some(wall(HOUR, 1))), fast);
    }

    /// A busy link: each direction takes 40 µs, often a bit longer, and sometimes far longer.
    fn busy_link(seed: u64) -> impl Iterator<Item = Exchange> {
        let mut state = seed;
        let mut uniform = move || {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        };
        (1..).map(move |number: u64| {
            let mut way_ns = || {
                let wait_ns = -(1.0 - uniform()).ln() * 20_000.0;
                let is_stuck = uniform() < 0.1;
                40_000
                    + wait_ns as u64
                    + if is_stuck {
                        (uniform() * 5e6) as u64
                    } else {
                        0
                    }
            };
            let (there_ns, back_ns) = (way_ns(), way_ns());
            exchange(number * 10 * MS, HOUR as i64, there_ns, 1_000, back_ns)
        })
    }

    #[test]
    fn reading_ends_early_and_costs_hardly_any_accuracy() {
        let (mut read, mut early_ns, mut full_ns) = (0, 0, 0);
        let mut worst_ns = 0;
        for seed in 0..2_000 {
            let all: Vec<Exchange> = busy_link(seed).take(EXCHANGES).collect();
            let length = (1..=EXCHANGES).find(|length| are_enough(&all[..*length]));
            let length = length.expect("the most are enough");
            let early = offset(&all[..length]).expect("they are valid");
            let full = offset(&all).expect("they are valid");
            assert!(
                early.offset_ns.abs_diff(HOUR as i64) <= early.bound_ns,
                "seed {seed}"
            );
            read += length;
            early_ns += early.bound_ns;
            full_ns += full.bound_ns;
            worst_ns = worst_ns.max(early.bound_ns - full.bound_ns);
        }
        assert!(read < 2_000 * 20, "{read}");
        assert!(early_ns < full_ns * 11 / 10, "{early_ns} {full_ns}");
        assert!(worst_ns < 30_000, "{worst_ns}");
    }

    #[test]
    fn a_clock_is_read_on_while_round_trips_become_shorter() {
        let all: Vec<Exchange> = (1..=60)
            .map(|number| exchange(number * HOUR, 0, (70 - number) * MS, 0, 0))
            .collect();
        assert!(!are_enough(&[]));
        assert!(!are_enough(&all[..EXCHANGES - 1]));
        assert!(are_enough(&all[..EXCHANGES]));
        let alike: Vec<Exchange> = (1..=60)
            .map(|at| exchange(at * HOUR, 0, MS, 0, 0))
            .collect();
        assert!(!are_enough(&alike[..VAIN_EXCHANGES]));
        assert!(are_enough(&alike[..=VAIN_EXCHANGES]));
    }

    proptest! {
        #[test]
        fn the_truth_lies_within_the_bound(
            ahead in -(HOUR as i64)..HOUR as i64,
            ways in proptest::collection::vec((0..50 * MS, 0..MS, 0..50 * MS), 1..20),
        ) {
            let exchanges: Vec<Exchange> = (2..)
                .zip(&ways)
                .map(|(at, (there, inside, back))| {
                    exchange(at * HOUR, ahead, *there, *inside, *back)
                })
                .collect();
            let offset = offset(&exchanges).expect("they are valid");
            prop_assert!(offset.offset_ns.abs_diff(ahead) <= offset.bound_ns);
        }

        #[test]
        fn no_timestamps_make_it_panic(times in any::<[u64; 8]>(), bounds in any::<[u64; 2]>()) {
            let [a, b, c, d, e, f, g, h] = times;
            let one = Exchange { sent_ns: a, received_ns: b, replied_ns: c, returned_ns: d };
            let other = Exchange { sent_ns: e, received_ns: f, replied_ns: g, returned_ns: h };
            let wall = |unix_ns, monotonic_ns, bound_ns| {
                Some(WallClock { unix_ns, monotonic_ns, bound_ns })
            };
            if let (Some(one), Some(other)) = (offset(&[one]), offset(&[other])) {
                let _ = (drift(&one, &other), one.there(h));
                let _ = better(one, wall(a, b, bounds[0]), wall(c, d, bounds[1]));
            }
        }
    }
}
