//! Which functions of a server, and which waits of its threads, go with slow requests.
//!
//! Slow time is that in which at least one of the slow requests is in flight: those whose parts are
//! shown beside it ([`slowest_from_ns`]). Samples and times of threads in slow time are compared
//! with the others, within blocks of time.
//!
//! [`slowest_from_ns`]: results::parts::breakdown::slowest_from_ns

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use plan::readable::{count, time_ns};
use results::{
    FoldedStack, FunctionShare, Profile, ProfileComparison, ProfileDifference, ProfileSamples,
    ShareByTime, SlowSpan, SlowTime, ThreadState, ThreadTimes, TimeShare, latency_range,
};
use stats::{StateBlocks, StateComparison, StateDifference, TimeSpan, TimedSeries, covered};

/// Slow requests cover at most this share of the window: the rest is what they are compared with.
const SLOW_SHARE_MAX: f64 = 0.5;

/// With less time than this outside of slow requests there is nothing to compare them with.
const OTHER_SHARE_MIN: f64 = 0.05;

/// Fewer samples of either kind show nothing.
const SAMPLES_MIN: u64 = 20;

/// Fewer blocks with both kinds show no more than one episode.
const BLOCKS_MIN: usize = 5;

/// A window is cut into at least this many blocks.
const BLOCKS_OF_WINDOW: u64 = 8;

/// The shortest and the usual length of a block, nanoseconds.
const BLOCK_MIN_NS: u64 = 100_000_000;
const BLOCK_NS: u64 = 1_000_000_000;

/// A block is this many times as long as the median slow request, so that most blocks have both.
const BLOCK_SPANS: u64 = 4;

/// Functions with fewer samples, or a lower share, get no row and no test.
const ROW_SAMPLES_MIN: u32 = 5;
const ROW_SHARE_MIN: f64 = 0.005;

/// More functions are not tested: each makes the others harder to find.
const ROWS_MAX: usize = 150;

/// A larger part of the median slow request, one in so many, is worth a note if the clocks of the
/// machines are no better known.
const CLOCK_PART: u64 = 10;

/// Random shifts, and the work after which there are fewer: a second.
const DRAWS_MAX: u64 = 999;
const DRAWS_MIN: u64 = 99;
const WORK_MAX: u64 = 300_000_000;

/// The work for the time of a sample, in that of one of its functions.
const WORK_PER_TIME: u64 = 10;

/// Results have no more stacks, and no more functions in them: 300 kB.
const STACKS_MAX: usize = 1_000;
const STACK_FUNCTIONS_MAX: usize = 40_000;

/// Compares samples of a server with the time in which slow requests were in flight.
///
/// `slow` are the slow requests, and `window_ns` is the window, both on the clock of the samples.
#[must_use]
pub fn profile(samples: ProfileSamples, slow: &[SlowSpan], window_ns: (u64, u64)) -> Profile {
    let window = TimeSpan {
        start: window_ns.0,
        end: window_ns.1,
    };
    let slow = SlowSpans::of(slow, window);
    let seen = SeenSamples::of(&samples, &slow, window);
    let counts = FunctionCounts::of(&samples, &seen);
    let blocks = slow.blocks(window);
    let possible = possible(&slow, &seen, window);
    let (comparison, functions) = functions(&samples, &seen, &counts, &slow, blocks, possible);
    // A server that waits has no samples, but its threads have times.
    let has_both = !matches!(
        comparison,
        ProfileComparison::NoSlowRequests | ProfileComparison::AlwaysSlow
    );
    let folded = Folded::of(&samples, &seen);
    Profile {
        times: times(&samples.times, &slow, blocks, has_both),
        samples: seen.times.len() as u64,
        slow: SlowTime {
            requests: slow.requests,
            shortest_ns: slow.shortest_ns,
            time_ns: slow.time_ns(),
            samples: seen.slow_count(),
        },
        comparison,
        functions,
        stack_functions: folded.functions,
        stacks: folded.stacks,
        samples_left_out: folded.left_out,
        notes: with_notes(samples.notes, samples.clock_bound_ns, &slow),
        host: samples.host,
        clock_bound_ns: samples.clock_bound_ns,
        target: samples.target,
        processes: samples.processes,
        threads: samples.threads,
        samples_per_sec: samples.samples_per_sec,
        lost: samples.lost,
        dropped: samples.dropped,
        incomplete: samples.incomplete,
        cpu_ns: samples.cpu_ns,
        pressure_of: samples.pressure_of,
    }
}

/// The notes, with one about slow requests that do not count, and one about the clocks if their
/// error is a notable part of a slow request.
fn with_notes(
    mut notes: Vec<String>,
    clock_bound_ns: Option<u64>,
    slow: &SlowSpans,
) -> Vec<String> {
    if slow.left_out > 0 {
        notes.push(format!(
            "of the {} slowest requests, {} count as slow: with all of them, less than half of the \
             time would be left to compare with",
            count(slow.requests + slow.left_out),
            count(slow.requests)
        ));
    }
    let bound_ns = clock_bound_ns.unwrap_or_default();
    if slow.median_ns > 0 && bound_ns > slow.median_ns / CLOCK_PART {
        notes.push(format!(
            "the clocks of the machines are known to within {}, and half of the slow requests take \
             less than {}: samples near the ends of these requests may count for the wrong time",
            time_ns(bound_ns),
            time_ns(slow.median_ns)
        ));
    }
    notes
}

/// The slow requests that count, and the time that they cover.
struct SlowSpans {
    requests: u64,
    /// Slow requests that do not count, so that enough of the window is left.
    left_out: u64,
    shortest_ns: u64,
    median_ns: u64,
    /// Sorted, without overlaps.
    time: Vec<TimeSpan>,
}

impl SlowSpans {
    /// All slow requests; if they leave too little of the window, the slowest of them. Requests of
    /// equal latency are taken together: if some of them were in the other time, that would have
    /// what goes with them.
    fn of(slow: &[SlowSpan], window: TimeSpan) -> Self {
        let mut all: Vec<(SlowSpan, TimeSpan)> = slow
            .iter()
            .map(|span| {
                let in_flight = TimeSpan {
                    start: span.sent_ns,
                    end: span.ended_ns,
                };
                (*span, in_flight)
            })
            .filter(|(_, span)| span.end > window.start && span.start < window.end)
            .collect();
        all.sort_by_key(|(span, _)| std::cmp::Reverse(span.latency_ns()));
        let (all, mut spans): (Vec<SlowSpan>, Vec<TimeSpan>) = all.into_iter().unzip();
        let most = (window.length() as f64 * SLOW_SHARE_MAX) as u64;
        let length = |count: usize| -> u64 {
            let time = covered(&spans[..count], window);
            time.iter().map(|span| span.length()).sum()
        };
        // How many requests are left behind each of the ranges of latency.
        let equal = |one: &SlowSpan, other: &SlowSpan| {
            latency_range(one.latency_ns()) == latency_range(other.latency_ns())
        };
        let counts = all.chunk_by(equal).scan(0, |count, range| {
            *count += range.len();
            Some(*count)
        });
        let counts: Vec<usize> = counts.collect();
        // The time grows with the number. The slowest ones always count.
        let enough = counts.partition_point(|count| length(*count) <= most);
        let requests = counts.get(enough.saturating_sub(1)).copied().unwrap_or(0);
        spans.truncate(requests);
        let mut lengths: Vec<u64> = spans.iter().map(|span| span.length()).collect();
        lengths.sort_unstable();
        Self {
            requests: requests as u64,
            left_out: (all.len() - requests) as u64,
            shortest_ns: lengths.first().copied().unwrap_or(0),
            median_ns: lengths.get(requests / 2).copied().unwrap_or(0),
            time: covered(&spans, window),
        }
    }

    fn time_ns(&self) -> u64 {
        self.time.iter().map(|span| span.length()).sum()
    }

    fn has(&self, at_ns: u64) -> bool {
        let behind = self.time.partition_point(|span| span.start <= at_ns);
        behind
            .checked_sub(1)
            .is_some_and(|last| at_ns < self.time[last].end)
    }

    fn blocks(&self, window: TimeSpan) -> StateBlocks {
        let wanted_ns = BLOCK_NS.max(self.median_ns.saturating_mul(BLOCK_SPANS));
        let most_ns = (window.length() / BLOCKS_OF_WINDOW).max(BLOCK_MIN_NS);
        StateBlocks {
            window,
            block: wanted_ns.min(most_ns),
            draws: 0,
            seed: 1,
        }
    }
}

/// The samples within the window.
struct SeenSamples {
    /// When they were taken.
    times: Vec<TimeSpan>,
    /// The number of the stack of each.
    stacks: Vec<u32>,
    is_slow: Vec<bool>,
}

impl SeenSamples {
    fn of(samples: &ProfileSamples, slow: &SlowSpans, window: TimeSpan) -> Self {
        let within = samples.samples.iter().filter(|sample| {
            let is_known = (sample.stack as usize) < samples.stacks.len();
            is_known && (window.start..window.end).contains(&sample.at_ns)
        });
        let mut seen = Self {
            times: Vec::new(),
            stacks: Vec::new(),
            is_slow: Vec::new(),
        };
        for sample in within {
            seen.times.push(TimeSpan {
                start: sample.at_ns,
                end: sample.at_ns,
            });
            seen.stacks.push(sample.stack);
            seen.is_slow.push(slow.has(sample.at_ns));
        }
        seen
    }

    fn slow_count(&self) -> u64 {
        self.is_slow.iter().filter(|is_slow| **is_slow).count() as u64
    }

    fn other_count(&self) -> u64 {
        self.is_slow.len() as u64 - self.slow_count()
    }
}

/// In how many samples each function was, slow ones and others.
struct FunctionCounts {
    own: Vec<[u32; 2]>,
    total: Vec<[u32; 2]>,
}

impl FunctionCounts {
    fn of(samples: &ProfileSamples, seen: &SeenSamples) -> Self {
        let mut counts = Self {
            own: vec![[0; 2]; samples.functions.len()],
            total: vec![[0; 2]; samples.functions.len()],
        };
        let mut by_stack = vec![[0_u32; 2]; samples.stacks.len()];
        for (stack, is_slow) in seen.stacks.iter().zip(&seen.is_slow) {
            by_stack[*stack as usize][usize::from(!is_slow)] += 1;
        }
        for (stack, count) in samples.stacks.iter().zip(&by_stack) {
            let add = |to: &mut [u32; 2]| {
                for (to, count) in to.iter_mut().zip(count) {
                    *to += count;
                }
            };
            if let Some(own) = stack.last().and_then(|at| counts.own.get_mut(*at as usize)) {
                add(own);
            }
            for function in each_once(stack) {
                if let Some(total) = counts.total.get_mut(function as usize) {
                    add(total);
                }
            }
        }
        counts
    }
}

/// The functions of a stack; one that calls itself is there once.
fn each_once(stack: &[u32]) -> Vec<u32> {
    let mut functions = stack.to_vec();
    functions.sort_unstable();
    functions.dedup();
    functions
}

/// Why nothing can be compared; `None` if that is not known before it is tried.
fn possible(
    slow: &SlowSpans,
    seen: &SeenSamples,
    window: TimeSpan,
) -> Result<(), ProfileComparison> {
    if slow.time.is_empty() {
        return Err(ProfileComparison::NoSlowRequests);
    }
    let other_ns = window.length().saturating_sub(slow.time_ns());
    if (other_ns as f64) < window.length() as f64 * OTHER_SHARE_MIN {
        return Err(ProfileComparison::AlwaysSlow);
    }
    if seen.slow_count() < SAMPLES_MIN || seen.other_count() < SAMPLES_MIN {
        Err(ProfileComparison::TooFew {
            slow_samples: seen.slow_count(),
            blocks: 0,
        })
    } else {
        Ok(())
    }
}

/// The rows of the functions, and whether they could be compared.
fn functions(
    samples: &ProfileSamples,
    seen: &SeenSamples,
    counts: &FunctionCounts,
    slow: &SlowSpans,
    blocks: StateBlocks,
    possible: Result<(), ProfileComparison>,
) -> (ProfileComparison, Vec<FunctionShare>) {
    let rows = rows(counts, seen.times.len());
    let compared = possible.and_then(|()| {
        let series = series(samples, seen, &rows);
        let work: u64 = series.iter().map(|series| series.len() as u64).sum();
        let work = work + seen.times.len() as u64 * WORK_PER_TIME;
        let draws = (WORK_MAX / work.max(1)).clamp(DRAWS_MIN, DRAWS_MAX);
        let blocks = StateBlocks {
            draws: u32::try_from(draws).unwrap_or(u32::MAX),
            ..blocks
        };
        let values = TimedSeries {
            times: &seen.times,
            series: &series,
        };
        let found = blocks.compare(&slow.time, values);
        enough_blocks(found, seen.slow_count())
    });
    let differences = compared.as_ref().map_or(&[][..], |it| &it.differences);
    let share = |counts: &[u32; 2], difference: Option<&StateDifference>| {
        let part = |count: u32, of: u64| (of > 0).then(|| f64::from(count) / of as f64);
        ShareByTime {
            slow: part(counts[0], seen.slow_count()),
            other: part(counts[1], seen.other_count()),
            difference: difference.map(difference_of).map(within_shares),
        }
    };
    let shares = rows.iter().enumerate().map(|(at, function)| {
        let function = *function as usize;
        FunctionShare {
            name: samples.functions[function].clone(),
            own: share(&counts.own[function], differences.get(at * 2)),
            total: share(&counts.total[function], differences.get(at * 2 + 1)),
        }
    });
    let mut shares: Vec<FunctionShare> = shares.collect();
    shares.sort_by(|one, other| {
        rank(other)
            .partial_cmp(&rank(one))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let comparison = match compared {
        Ok(compared) => ProfileComparison::Compared {
            blocks: compared.blocks as u64,
            block_ns: blocks.block,
            shows: Some(compared.shows),
        },
        Err(why_not) => why_not,
    };
    (comparison, shares)
}

fn enough_blocks(
    found: Option<StateComparison>,
    slow_samples: u64,
) -> Result<StateComparison, ProfileComparison> {
    let blocks = found.as_ref().map_or(0, |found| found.blocks);
    found
        .filter(|found| found.blocks >= BLOCKS_MIN)
        .ok_or(ProfileComparison::TooFew {
            slow_samples,
            blocks: blocks as u64,
        })
}

/// No share differs by more than all samples.
fn within_shares(found: ProfileDifference) -> ProfileDifference {
    ProfileDifference {
        low: found.low.max(-1.0),
        high: found.high.min(1.0),
        ..found
    }
}

fn difference_of(found: &StateDifference) -> ProfileDifference {
    ProfileDifference {
        difference: found.difference,
        low: found.interval.low,
        high: found.interval.high,
        p_value: found.adjusted_p_value,
    }
}

/// What is in more samples while requests are slow comes first, then what is in fewer, then where
/// most time is spent. A function that calls another has at least its total, so both the function
/// itself and its total count: that where the time is spent is before those that lead there.
fn rank(row: &FunctionShare) -> (u8, f64) {
    let both = [row.own, row.total];
    let found = both.iter().filter_map(ShareByTime::found);
    let found: f64 = found.map(|found| found.difference).sum();
    if found != 0.0 {
        let kind = if found > 0.0 { 2 } else { 1 };
        return (kind, found.abs());
    }
    let shares = both.iter().flat_map(|share| [share.slow, share.other]);
    (0, shares.flatten().sum())
}

/// The functions that are worth a row, those in most samples first.
fn rows(counts: &FunctionCounts, samples: usize) -> Vec<u32> {
    let all = |count: &[u32; 2]| count[0].saturating_add(count[1]);
    let least = (samples as f64 * ROW_SHARE_MIN).ceil() as u32;
    let least = least.max(ROW_SAMPLES_MIN);
    let counted = (0..).zip(counts.total.iter().map(all));
    let mut rows: Vec<(u32, u32)> = counted.filter(|(_, count)| *count >= least).collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    rows.truncate(ROWS_MAX);
    rows.into_iter().map(|(function, _)| function).collect()
}

/// Two series for each row: 1 for each sample in the function itself, and 1 for each in what it
/// calls or itself.
fn series(samples: &ProfileSamples, seen: &SeenSamples, rows: &[u32]) -> Vec<Vec<(u32, f64)>> {
    let mut row_of = vec![None; samples.functions.len()];
    for (row, function) in rows.iter().enumerate() {
        row_of[*function as usize] = Some(row);
    }
    let row_of = |function: u32| row_of.get(function as usize).copied().flatten();
    // The rows of each stack, once.
    let stacks = samples.stacks.iter().map(|stack| {
        let own = stack.last().and_then(|function| row_of(*function));
        let total = each_once(stack).into_iter().filter_map(row_of);
        (own, total.collect::<Vec<usize>>())
    });
    let stacks: Vec<(Option<usize>, Vec<usize>)> = stacks.collect();
    let mut series = vec![Vec::new(); rows.len() * 2];
    for (at, stack) in (0..).zip(&seen.stacks) {
        let (own, total) = &stacks[*stack as usize];
        if let Some(row) = own {
            series[row * 2].push((at, 1.0));
        }
        for row in total {
            series[row * 2 + 1].push((at, 1.0));
        }
    }
    series
}

/// Seconds per second in an interval; `None` if they are not known.
type PerTime = fn(&ThreadTimes) -> Option<f64>;

/// What threads did, in the order of the rows.
const STATES: [(ThreadState, PerTime); 6] = [
    (ThreadState::OnCpu, |it| per_time(it, it.on_cpu_ns)),
    (ThreadState::RunQueueWait, |it| {
        per_time(it, it.run_queue_wait_ns)
    }),
    (ThreadState::NotOnCpu, |it| {
        let busy = per_time(it, it.on_cpu_ns)? + per_time(it, it.run_queue_wait_ns)?;
        // Both are read one after the other, so their sum may be a little too high.
        Some((f64::from(it.threads) - busy).max(0.0))
    }),
    (ThreadState::CpuPressure, |it| {
        per_time(it, it.pressure_ns[0])
    }),
    (ThreadState::MemoryPressure, |it| {
        per_time(it, it.pressure_ns[1])
    }),
    (ThreadState::IoPressure, |it| {
        per_time(it, it.pressure_ns[2])
    }),
];

fn per_time(times: &ThreadTimes, part_ns: Option<u64>) -> Option<f64> {
    let length_ns = times.end_ns.saturating_sub(times.start_ns);
    (length_ns > 0).then_some(part_ns? as f64 / length_ns as f64)
}

fn times(
    all: &[ThreadTimes],
    slow: &SlowSpans,
    blocks: StateBlocks,
    has_both: bool,
) -> Vec<TimeShare> {
    let window = blocks.window;
    let within = |it: &&ThreadTimes| it.start_ns >= window.start && it.end_ns <= window.end;
    let known = STATES.iter().filter_map(|(what, value)| {
        let values: Vec<(TimeSpan, f64)> = all
            .iter()
            .filter(within)
            .filter_map(|times| {
                let span = TimeSpan {
                    start: times.start_ns,
                    end: times.end_ns,
                };
                Some((span, value(times)?))
            })
            .collect();
        (!values.is_empty()).then_some((*what, values))
    });
    let known: Vec<(ThreadState, Vec<(TimeSpan, f64)>)> = known.collect();
    let rows = known.iter().map(|(what, values)| TimeShare {
        what: *what,
        per_sec: per_sec(values, slow, blocks, has_both, known.len()),
    });
    rows.collect()
}

fn per_sec(
    values: &[(TimeSpan, f64)],
    slow: &SlowSpans,
    blocks: StateBlocks,
    has_both: bool,
    tests: usize,
) -> ShareByTime {
    let times: Vec<TimeSpan> = values.iter().map(|(span, _)| *span).collect();
    let series = [(0..)
        .zip(values)
        .map(|(at, (_, value))| (at, *value))
        .collect()];
    let values_over_time = TimedSeries {
        times: &times,
        series: &series,
    };
    let blocks = StateBlocks {
        draws: u32::try_from(DRAWS_MAX).unwrap_or(u32::MAX),
        ..blocks
    };
    let found = has_both.then(|| blocks.compare(&slow.time, values_over_time));
    let found = found.flatten().filter(|found| found.blocks >= BLOCKS_MIN);
    let found = found.and_then(|found| found.differences.first().copied());
    let slow_share = |span: &TimeSpan| {
        let own = covered(&slow_within(&slow.time, *span), *span);
        own.iter().map(|it| it.length()).sum::<u64>() as f64
    };
    let mean = |weight: &dyn Fn(&TimeSpan) -> f64| {
        let weights: f64 = times.iter().map(weight).sum();
        let sum: f64 = values
            .iter()
            .map(|(span, value)| weight(span) * value)
            .sum();
        (weights > 0.0).then(|| sum / weights)
    };
    match found {
        None => ShareByTime {
            slow: mean(&slow_share),
            other: mean(&|span| span.length() as f64 - slow_share(span)),
            difference: None,
        },
        // Intervals are longer than many slow requests, so those with slow time have other time
        // too. The difference knows, and the two means follow from it.
        Some(found) => {
            let all = mean(&|span| span.length() as f64).unwrap_or_default();
            let lengths: u64 = times.iter().map(|span| span.length()).sum();
            let slow_ns: f64 = times.iter().map(slow_share).sum();
            let other = all - found.difference * slow_ns / lengths.max(1) as f64;
            let mut difference = difference_of(&found);
            // Bonferroni's correction: each row was tested alone.
            difference.p_value = (difference.p_value * tests as f64).min(1.0);
            ShareByTime {
                slow: Some((other + found.difference).max(0.0)),
                other: Some(other.max(0.0)),
                difference: Some(difference),
            }
        }
    }
}

/// The spans that may overlap with another one.
fn slow_within(sorted: &[TimeSpan], span: TimeSpan) -> Vec<TimeSpan> {
    let first = sorted.partition_point(|it| it.end <= span.start);
    let last = sorted.partition_point(|it| it.start < span.end);
    sorted.get(first..last).unwrap_or_default().to_vec()
}

/// Stacks of names with their samples, bounded.
#[derive(Default)]
struct Folded {
    functions: Vec<String>,
    stacks: Vec<FoldedStack>,
    left_out: u64,
}

impl Folded {
    fn of(samples: &ProfileSamples, seen: &SeenSamples) -> Self {
        let mut counts: HashMap<&[u32], [u64; 2]> = HashMap::new();
        for (stack, is_slow) in seen.stacks.iter().zip(&seen.is_slow) {
            let functions = samples.stacks[*stack as usize].as_slice();
            counts.entry(functions).or_default()[usize::from(!is_slow)] += 1;
        }
        let mut counts: Vec<(&[u32], [u64; 2])> = counts.into_iter().collect();
        counts.sort_by_key(|(stack, [slow, other])| (std::cmp::Reverse(slow + other), *stack));
        let mut folded = Self::default();
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut functions_left = STACK_FUNCTIONS_MAX;
        for (stack, [slow, other]) in counts {
            if folded.stacks.len() == STACKS_MAX || stack.len() > functions_left {
                folded.left_out += slow + other;
                continue;
            }
            functions_left -= stack.len();
            let functions = stack.iter().map(|function| {
                *numbers.entry(*function).or_insert_with(|| {
                    let name = samples.functions.get(*function as usize);
                    folded.functions.push(name.cloned().unwrap_or_default());
                    u32::try_from(folded.functions.len() - 1).unwrap_or(u32::MAX)
                })
            });
            let functions = functions.collect();
            folded.stacks.push(FoldedStack {
                functions,
                slow,
                other,
            });
        }
        folded
    }
}
