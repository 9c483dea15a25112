//! Whether values differ between two states that take turns over time.

use fastrand::Rng;

use crate::bootstrap::ConfidenceInterval;
use crate::student::student_t_quantile;

/// A stretch of time, in the caller's unit. It is a moment if both ends are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan {
    /// Its start.
    pub start: u64,
    /// Its end, not included.
    pub end: u64,
}

impl TimeSpan {
    /// How long it is; 0 if it ends before it starts.
    #[must_use]
    pub fn length(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// The time that these spans cover: sorted, without overlaps, and within `window`.
#[must_use]
pub fn covered(spans: &[TimeSpan], window: TimeSpan) -> Vec<TimeSpan> {
    let mut sorted: Vec<TimeSpan> = spans
        .iter()
        .map(|span| TimeSpan {
            start: span.start.clamp(window.start, window.end),
            end: span.end.clamp(window.start, window.end),
        })
        .filter(|span| span.start < span.end)
        .collect();
    sorted.sort_unstable();
    let mut joined: Vec<TimeSpan> = Vec::with_capacity(sorted.len());
    for span in sorted {
        match joined.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => joined.push(span),
        }
    }
    joined
}

/// Values over time: when they were taken, and several series of them.
#[derive(Debug, Clone, Copy)]
pub struct TimedSeries<'a> {
    /// The times of all values, in order. Those of a length are values per unit of time.
    pub times: &'a [TimeSpan],
    /// For each series, the values that are not 0, with the index of their time.
    pub series: &'a [Vec<(u32, f64)>],
}

/// How states are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateBlocks {
    /// The time that is compared.
    pub window: TimeSpan,
    /// Length of a block, more than zero: much more than the time over which values are correlated.
    pub block: u64,
    /// Number of random shifts. The resolution of the p-values is its inverse.
    pub draws: u32,
    /// Seed of the random numbers: the same seed gives the same p-values.
    pub seed: u64,
}

/// How a series differs between the states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StateDifference {
    /// Value in the state minus value out of it, compared within each block.
    pub difference: f64,
    /// Its 95 % confidence interval.
    pub interval: ConfidenceInterval,
    /// Two-sided, corrected for the number of series.
    pub adjusted_p_value: f64,
}

/// The states of all series, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct StateComparison {
    /// Number of blocks with values in both states.
    pub blocks: usize,
    /// In the order of the series.
    pub differences: Vec<StateDifference>,
    /// A difference of this size or more is found, with an adjusted p-value below 5 % and a
    /// probability of 80 %, in a series of values that are 0 or 1.
    pub shows: f64,
}

impl StateBlocks {
    /// Compares each series between the state, which `spans` covers, and the rest of the time. A
    /// value whose time is partly in the state counts in proportion.
    ///
    /// The difference is the slope of the values over the share of their time in the state, with a
    /// mean of its own for each block: what changes slowly, such as the load, is no difference
    /// between the states. For moments it is the risk difference of Mantel and Haenszel with blocks
    /// as strata (Greenland and Robins, "Estimation of a Common Effect Parameter from Sparse
    /// Follow-Up Data", 1985). The interval is that of standard errors that are robust to
    /// correlation within blocks (Liang and Zeger, "Longitudinal Data Analysis Using Generalized
    /// Linear Models", 1986).
    ///
    /// The p-values come from random shifts of the state within each block, around its end, which
    /// keep the correlation of neighbouring values (Besag and Diggle, "Simple Monte Carlo Tests for
    /// Spatial Pattern", 1977), and from the largest standardized difference of all series in each
    /// shift (Westfall and Young, "Resampling-Based Multiple Testing", 1993).
    ///
    /// `None` if fewer than two blocks have values in both states.
    #[must_use]
    pub fn compare(&self, spans: &[TimeSpan], values: TimedSeries<'_>) -> Option<StateComparison> {
        let cut = CutSeries::of(self, spans, values);
        let observed = cut.sums(|_| 0);
        let blocks = observed.blocks.iter().filter(|sums| sums.xx > 0.0).count();
        if blocks < 2 {
            return None;
        }
        let quantile = student_t_quantile(0.975, (blocks - 1) as f64)?;
        let slopes: Vec<f64> = observed.slopes().collect();
        let (adjusted, null) = self.adjusted_p_values(&cut, &slopes);
        let differences = slopes.iter().zip(adjusted).enumerate();
        let differences = differences.map(|(series, (slope, adjusted_p_value))| {
            let distance = quantile * observed.standard_error(series, *slope, blocks);
            StateDifference {
                difference: *slope,
                interval: ConfidenceInterval {
                    low: slope - distance,
                    high: slope + distance,
                },
                adjusted_p_value,
            }
        });
        // Of values that are 0 or 1 those that are half of the time 1 scatter most, with a standard
        // deviation of one half. They scatter more if neighbours are alike.
        let all: f64 = observed.blocks.iter().map(|sums| sums.xx).sum();
        let deviation = null.deviation.max(0.5 / all.sqrt());
        Some(StateComparison {
            blocks,
            differences: differences.collect(),
            shows: (null.distance + NORMAL_80) * deviation,
        })
    }

    /// The p-values, and how far differences are from none by chance.
    fn adjusted_p_values(&self, cut: &CutSeries<'_>, observed: &[f64]) -> (Vec<f64>, Chance) {
        let mut random = Rng::with_seed(self.seed);
        let shifted: Vec<Vec<f64>> = (0..self.draws)
            .map(|_| cut.sums(|length| random.u64(0..length)).slopes().collect())
            .collect();
        let series = cut.values.series.iter().enumerate();
        let scales: Vec<(f64, f64)> = series
            .map(|(series, points)| {
                let of_shifts = shifted.iter().map(|slopes| slopes[series]);
                let (mean, deviation) = mean_and_deviation(of_shifts);
                let largest = points.iter().map(|(_, value)| value.abs());
                // Values that are all the same differ by errors of rounding only.
                let rounding = ROUNDING * largest.fold(0.0, f64::max);
                (mean, if deviation > rounding { deviation } else { 0.0 })
            })
            .collect();
        let standardized = |slopes: &[f64]| -> Vec<f64> {
            let pairs = slopes.iter().zip(&scales);
            pairs
                .map(|(slope, (mean, deviation))| {
                    if *deviation > 0.0 {
                        (slope - mean).abs() / deviation
                    } else {
                        0.0
                    }
                })
                .collect()
        };
        let mut largest: Vec<f64> = shifted
            .iter()
            .map(|slopes| standardized(slopes).into_iter().fold(0.0, f64::max))
            .collect();
        largest.sort_unstable_by(f64::total_cmp);
        let p_value = |distance: f64| {
            // The same sums in another order may differ in the last bits.
            let below = largest.partition_point(|it| *it < distance * (1.0 - 1e-9));
            (largest.len() - below + 1) as f64 / (largest.len() + 1) as f64
        };
        let rank = (largest.len() as f64 * (1.0 - SIGNIFICANT)) as usize;
        let chance = Chance {
            distance: largest.get(rank).copied().unwrap_or(f64::INFINITY),
            deviation: scales.iter().map(|(_, it)| *it).fold(0.0, f64::max),
        };
        let p_values = standardized(observed).into_iter().map(p_value).collect();
        (p_values, chance)
    }
}

/// The adjusted p-value below which a difference is found.
const SIGNIFICANT: f64 = 0.05;

/// The quantile of the standard normal distribution for a probability of 80 %.
const NORMAL_80: f64 = 0.8416;

/// How far differences are from none by chance.
struct Chance {
    /// The largest of all series is within this distance in 95 % of the shifts, in standard
    /// deviations.
    distance: f64,
    /// The standard deviation of the series that scatters most.
    deviation: f64,
}

/// Errors of sums, as a part of the largest value.
const ROUNDING: f64 = 1e-9;

fn mean_and_deviation(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / count).sqrt())
}

/// A block with both states: its values, and its part of the state.
struct CutBlock {
    span: TimeSpan,
    /// Indices of its times.
    times: std::ops::Range<usize>,
    /// The state within the block, and the time that it covers before each span.
    state: Vec<(TimeSpan, u64)>,
    /// Time in the state.
    covered: u64,
}

impl CutBlock {
    /// Time in the state from the start of the block to this time, at most one block later: behind
    /// its end the block begins again.
    fn covered_until(&self, time: u64) -> u64 {
        let length = self.span.length();
        let (around, time) = match time.checked_sub(length) {
            Some(rest) if time > length => (self.covered, rest),
            _ => (0, time),
        };
        let time = self.span.start + time;
        let next = self.state.partition_point(|(span, _)| span.start < time);
        let within = next.checked_sub(1).map_or(0, |last| {
            let (span, before) = self.state[last];
            before + time.min(span.end).saturating_sub(span.start)
        });
        around + within
    }

    /// Share of a time that is in the state, which has been shifted back.
    fn share(&self, time: TimeSpan, shift: u64) -> f64 {
        let length = self.span.length();
        let start = (time.start - self.span.start + shift) % length;
        // A moment is a unit of time.
        let extent = time.length().clamp(1, length);
        let covered = self.covered_until(start + extent) - self.covered_until(start);
        covered as f64 / extent as f64
    }
}

/// Values and state, cut into the blocks with both states.
struct CutSeries<'a> {
    values: TimedSeries<'a>,
    blocks: Vec<CutBlock>,
    /// For each series and block, the range of its values.
    ranges: Vec<Vec<std::ops::Range<usize>>>,
}

/// Sums of squares and products of a block, and of each series in it.
struct BlockSums {
    xx: f64,
    xy: Vec<f64>,
}

struct Sums {
    blocks: Vec<BlockSums>,
    series: usize,
}

impl<'a> CutSeries<'a> {
    fn of(cut: &StateBlocks, spans: &[TimeSpan], values: TimedSeries<'a>) -> Self {
        let state = covered(spans, cut.window);
        let mut blocks = Vec::new();
        let mut start = cut.window.start;
        while start < cut.window.end {
            // A short rest belongs to the last block.
            let left = cut.window.end - start;
            let length = if left < cut.block.saturating_mul(2) {
                left
            } else {
                cut.block
            };
            let span = TimeSpan {
                start,
                end: start + length,
            };
            start = span.end;
            blocks.extend(block(span, &state, values.times));
        }
        let range = |points: &[(u32, f64)], times: &std::ops::Range<usize>| {
            let at = |time: usize| points.partition_point(|(index, _)| (*index as usize) < time);
            at(times.start)..at(times.end)
        };
        let ranges = values.series.iter().map(|points| {
            let ranges = blocks.iter().map(|block| range(points, &block.times));
            ranges.collect()
        });
        Self {
            ranges: ranges.collect(),
            values,
            blocks,
        }
    }

    /// The sums with the state shifted in each block by what `shift` gives for its length.
    fn sums(&self, mut shift: impl FnMut(u64) -> u64) -> Sums {
        let mut shares: Vec<f64> = Vec::new();
        let blocks = self.blocks.iter().enumerate().map(|(at, block)| {
            let shift = shift(block.span.length());
            shares.clear();
            let times = &self.values.times[block.times.clone()];
            shares.extend(times.iter().map(|time| block.share(*time, shift)));
            let count = shares.len().max(1) as f64;
            let mean = shares.iter().sum::<f64>() / count;
            let xx = shares.iter().map(|share| (share - mean).powi(2)).sum();
            let all = self.values.series.iter().zip(&self.ranges);
            let xy = all.map(|(points, ranges)| {
                let points = points[ranges[at].clone()].iter();
                points
                    .map(|(index, value)| {
                        value * (shares[*index as usize - block.times.start] - mean)
                    })
                    .sum()
            });
            BlockSums {
                xx,
                xy: xy.collect(),
            }
        });
        Sums {
            blocks: blocks.collect(),
            series: self.values.series.len(),
        }
    }
}

/// The block of this span; `None` if it is in one state only, or without values.
fn block(span: TimeSpan, state: &[TimeSpan], times: &[TimeSpan]) -> Option<CutBlock> {
    let first = times.partition_point(|time| time.start < span.start);
    let last = times.partition_point(|time| time.start < span.end);
    let from = state.partition_point(|it| it.end <= span.start);
    let to = state.partition_point(|it| it.start < span.end);
    let mut covered = 0;
    let own = state.get(from..to)?.iter().map(|it| {
        let own = TimeSpan {
            start: it.start.max(span.start),
            end: it.end.min(span.end),
        };
        let before = covered;
        covered += own.length();
        (own, before)
    });
    let state = own.collect();
    (first < last && covered > 0 && covered < span.length()).then_some(CutBlock {
        span,
        times: first..last,
        state,
        covered,
    })
}

impl Sums {
    fn slopes(&self) -> impl Iterator<Item = f64> {
        let all: f64 = self.blocks.iter().map(|sums| sums.xx).sum();
        (0..self.series).map(move |series| {
            let products: f64 = self.blocks.iter().map(|sums| sums.xy[series]).sum();
            if all > 0.0 { products / all } else { 0.0 }
        })
    }

    /// Standard error of a slope, from what each block adds to it, with the usual factor for the
    /// number of blocks.
    fn standard_error(&self, series: usize, slope: f64, blocks: usize) -> f64 {
        let all: f64 = self.blocks.iter().map(|sums| sums.xx).sum();
        let rests = self
            .blocks
            .iter()
            .map(|sums| sums.xy[series] - slope * sums.xx);
        let squares: f64 = rests.map(|rest| rest.powi(2)).sum();
        let count = blocks as f64;
        (squares * count / (count - 1.0)).sqrt() / all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn span(start: u64, end: u64) -> TimeSpan {
        TimeSpan { start, end }
    }

    fn blocks(seconds: u64) -> StateBlocks {
        StateBlocks {
            window: span(0, seconds * SECOND),
            block: SECOND,
            draws: 199,
            seed: 1,
        }
    }

    /// Moments every 10 ms, and three spans of 50 ms in each second at random places.
    fn world(seconds: u64, random: &mut Rng) -> (Vec<TimeSpan>, Vec<TimeSpan>) {
        let times = (0..seconds * 100).map(|at| span(at * SECOND / 100, at * SECOND / 100));
        let spans = (0..seconds * 3).map(|at| {
            let start = at * SECOND / 3 + random.u64(0..SECOND / 3);
            span(start, start + SECOND / 20)
        });
        (times.collect(), spans.collect())
    }

    fn is_in(spans: &[TimeSpan], time: u64) -> bool {
        spans.iter().any(|it| it.start <= time && time < it.end)
    }

    /// Each moment has the value 1 with the probability of its state.
    fn values(
        (times, spans): &(Vec<TimeSpan>, Vec<TimeSpan>),
        chances: [f64; 2],
        random: &mut Rng,
    ) -> Vec<(u32, f64)> {
        let drawn = (0..).zip(times).filter_map(|(at, time)| {
            let chance = chances[usize::from(is_in(spans, time.start))];
            (random.f64() < chance).then_some((at, 1.0))
        });
        drawn.collect()
    }

    #[test]
    fn overlapping_spans_are_joined_and_cut_to_the_window() {
        let spans = [
            span(5, 7),
            span(1, 3),
            span(2, 4),
            span(90, 200),
            span(8, 8),
        ];
        let joined = covered(&spans, span(2, 100));
        assert_eq!(joined, [span(2, 4), span(5, 7), span(90, 100)]);
    }

    /// What is found in a window of so many seconds.
    fn compared(
        seconds: u64,
        (times, spans): (&[TimeSpan], &[TimeSpan]),
        series: &[Vec<(u32, f64)>],
    ) -> StateComparison {
        let compared = blocks(seconds).compare(spans, TimedSeries { times, series });
        compared.expect("it can be compared")
    }

    #[test]
    fn a_planted_difference_is_found_and_its_interval_has_the_true_size_in_19_of_20_worlds() {
        let (mut found, mut covered) = (0, 0);
        for seed in 0..100 {
            let mut random = Rng::with_seed(seed);
            let world = world(20, &mut random);
            let series = [values(&world, [0.1, 0.6], &mut random)];
            let compared = compared(20, (&world.0, &world.1), &series);
            assert_eq!(compared.blocks, 20);
            let planted = compared.differences[0];
            found += u32::from(planted.adjusted_p_value < 0.05);
            let interval = planted.interval;
            covered += u32::from(interval.low < 0.5 && 0.5 < interval.high);
        }
        assert_eq!(found, 100);
        // Fewer than 89 of 100 at 95 % has a probability of 1 %.
        assert!(covered >= 89, "{covered} of 100");
    }

    #[test]
    fn without_a_difference_one_of_many_series_is_significant_in_at_most_one_world_in_twenty() {
        let mut wrong = 0;
        for seed in 0..100 {
            let mut random = Rng::with_seed(seed);
            let world = world(10, &mut random);
            let series: Vec<_> = (1..=20)
                .map(|at| values(&world, [f64::from(at) / 40.0; 2], &mut random))
                .collect();
            let found = compared(10, (&world.0, &world.1), &series);
            let least = found.differences.iter().map(|it| it.adjusted_p_value);
            wrong += u32::from(least.fold(1.0, f64::min) < 0.05);
        }
        // More than 10 of 100 at 5 % has a probability of 1 %.
        assert!(wrong <= 10, "{wrong} of 100");
    }

    /// Both the values and the state come in bursts, at random times of their own.
    #[test]
    fn bursts_of_values_are_no_evidence() {
        let mut wrong = 0;
        for seed in 0..100 {
            let mut random = Rng::with_seed(seed);
            let (times, spans) = world(10, &mut random);
            let (_, bursts) = world(10, &mut random);
            let points = (0..)
                .zip(&times)
                .filter(|(_, time)| is_in(&bursts, time.start));
            let series = [points.map(|(at, _)| (at, 1.0)).collect()];
            let found = compared(10, (&times, &spans), &series);
            wrong += u32::from(found.differences[0].adjusted_p_value < 0.05);
        }
        assert!(wrong <= 10, "{wrong} of 100");
    }

    /// The values and the share of the state both rise over the window.
    #[test]
    fn a_common_trend_is_no_difference() {
        let times: Vec<_> = (0..2000).map(|at| span(at * 10_000, at * 10_000)).collect();
        let spans: Vec<_> = (0..20)
            .map(|at| span(at * SECOND, at * SECOND + SECOND * (at + 1) / 22))
            .collect();
        let mut random = Rng::with_seed(1);
        let points = (0..2000_u32).filter(|at| random.f64() < f64::from(*at) / 2000.0);
        let series = [points.map(|at| (at, 1.0)).collect()];
        let found = compared(20, (&times, &spans), &series);
        assert!(found.differences[0].adjusted_p_value > 0.05, "{found:?}");
    }

    /// Intervals of 20 ms, of which the state covers parts.
    #[test]
    fn a_rate_over_intervals_is_that_of_the_state_though_it_covers_only_parts_of_them() {
        let mut random = Rng::with_seed(9);
        let (_, spans) = world(10, &mut random);
        let joined = covered(&spans, span(0, 10 * SECOND));
        let times: Vec<_> = (0..500)
            .map(|at| span(at * 20_000, at * 20_000 + 20_000))
            .collect();
        let share = |time: &TimeSpan| {
            let own = covered(&joined, *time);
            own.iter().map(|it| it.length()).sum::<u64>() as f64 / time.length() as f64
        };
        let points = (0..)
            .zip(&times)
            .map(|(at, time)| (at, 1.0 - 0.75 * share(time)));
        let series = [points.collect()];
        let found = compared(10, (&times, &joined), &series);
        let found = found.differences[0];
        assert!((found.difference + 0.75).abs() < 1e-9, "{found:?}");
        assert!(found.adjusted_p_value < 0.05, "{found:?}");
    }

    #[test]
    fn a_constant_is_no_difference() {
        let mut random = Rng::with_seed(5);
        let (times, spans) = world(20, &mut random);
        let series = [(0..2000).map(|at| (at, 0.1)).collect()];
        let found = compared(20, (&times, &spans), &series);
        assert_eq!(found.differences[0].adjusted_p_value, 1.0);
    }

    #[test]
    fn a_state_that_never_or_always_is_cannot_be_compared() {
        let times: Vec<_> = (0..100)
            .map(|at| span(at * 100_000, at * 100_000))
            .collect();
        let series = [vec![(0, 1.0)]];
        let series = TimedSeries {
            times: &times,
            series: &series,
        };
        let always = [span(0, 100 * SECOND)];
        let once = [span(100, 200_000)];
        for spans in [&[][..], &always, &once] {
            assert_eq!(blocks(10).compare(spans, series), None);
        }
        let nothing = TimedSeries {
            times: &[],
            series: &[],
        };
        assert_eq!(blocks(10).compare(&[span(100, 200_000)], nothing), None);
    }
}
