//! Episodes of a run: when it stalled, when it was slow, and when requests failed.
//!
//! A steady run has no episodes: an episode lies far outside of the scatter of counts of its size.

use std::time::Duration;

use results::{EventRecording, Histogram, Interval, RunResult};
use stats::{TimeSpan, covered};

use crate::verdict::server_unsent;

#[cfg(test)]
mod tests;

/// A deviation of this many standard deviations is not chance, even in a run with thousands of
/// steps.
const DEVIATIONS_MIN: f64 = 6.0;

/// The standard deviation of a normal distribution whose median absolute deviation is 1.
const DEVIATION_OF_MAD: f64 = 1.4826;

/// The fewest steps that show a usual rate.
const STEPS_MIN: usize = 10;

/// More than any series has. Only a file edited by hand has a longer window.
const STEPS_MAX: u64 = 8192;

/// Steps are merged until they usually have this many responses.
const RESPONSES_MIN: f64 = 8.0;

/// A step with less than this share of its usual responses may be part of a stall.
const LOW: f64 = 0.5;

/// A stall has at most this share of its usual responses, including its first and last step, which
/// are only partly in it.
const STALLED: f64 = 0.35;

/// Between these, at most this share arrives: a server that is only slower has not stalled.
const STALLED_WITHIN: f64 = 0.1;

/// Shorter stalls are visible in percentiles only, seconds.
const STALL_MIN_S: f64 = 0.15;

/// A load generator that waits for a CPU still runs for at least this share of the time.
const RUNS_MIN: f64 = 0.05;

/// Streams are silent for this many times the usual time until the first event of a response, and
/// this many times the usual time between events, without a stall.
const SILENT_FIRST: f64 = 2.0;
const SILENT_GAPS: f64 = 4.0;

/// With a rate, at least so many streams are open on average: the probability that by chance there
/// is none is 0.03 %.
const STREAMS_MIN: f64 = 8.0;

/// In a closed loop, this share of all streams is open on average: none waits to be sent.
const STREAMS_SHARE_MIN: f64 = 0.8;

/// A step says nothing about the server if the load generator hides all of it but this part of what
/// it usually shows.
const SHOWN_MIN: f64 = 0.1;

/// Steps of which it shows at least this share tell what is usual, if there are enough.
const SHOWN_WELL: f64 = 0.75;

/// Steps with errors that are at most this many steps apart form one burst.
const BURST_GAP_STEPS: usize = 5;

/// The first and the last step of a burst have at least one error for this many of its worst step.
const BURST_EDGE: u64 = 10;

/// Errors are this many times as frequent in a burst as outside of it.
const BURST_RATIO: f64 = 5.0;

/// At least this share of the run is outside of a burst.
const OUTSIDE_MIN: f64 = 0.1;

/// Requests that take more than this many times the usual median are slow.
const SLOW_RATIO: f64 = 3.0;

/// A slow interval has at least this share of slow requests.
const SLOW_SHARE_MIN: f64 = 0.05;

/// The fewest intervals that show a usual latency.
const INTERVALS_MIN: usize = 5;

/// Intervals with fewer samples are ignored.
const SAMPLES_MIN: u64 = 20;

/// A notable part of a run. Times are seconds since the start of the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Episode {
    /// Far fewer responses than usual arrived although requests were waiting or due.
    Stall(Stall),
    /// Many more requests than usual were slow.
    Slow {
        /// Start, with the resolution of an interval.
        begin_s: f64,
        /// End, with the resolution of an interval.
        end_s: f64,
        /// Requests above this latency (microseconds) are slow.
        above_us: f64,
        /// Share of slow requests within the episode, 0 to 1.
        share: f64,
        /// Share of slow requests outside of it.
        usual_share: f64,
    },
    /// Errors were far more frequent than in the rest of the run.
    Errors {
        /// Start, with the resolution of a step.
        begin_s: f64,
        /// End, with the resolution of a step.
        end_s: f64,
        /// Number of errors within it.
        errors: u64,
        /// Number of requests answered within it.
        answered: u64,
    },
}

impl Episode {
    /// Start of the episode, seconds since the start of the window.
    #[must_use]
    pub fn begin_s(&self) -> f64 {
        match self {
            Self::Stall(stall) => stall.begin_s,
            Self::Slow { begin_s, .. } | Self::Errors { begin_s, .. } => *begin_s,
        }
    }
}

/// A time with far fewer responses than usual, in seconds since the start of the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    /// Start, with the resolution of a step.
    pub begin_s: f64,
    /// End, with the resolution of a step.
    pub end_s: f64,
    /// Number of responses within it, or of events in a run with streaming responses.
    pub arrived: u64,
    /// What `arrived` counts.
    pub what: Arrived,
    /// When requests stopped being slow after it, if that took longer than an interval.
    pub slow_until_s: Option<f64>,
}

impl Stall {
    /// The share of a span of time that lies within the stall, 0 to 1.
    #[must_use]
    pub fn share_of(&self, begin_s: f64, end_s: f64) -> f64 {
        let common_s = self.end_s.min(end_s) - self.begin_s.max(begin_s);
        (common_s / (end_s - begin_s)).clamp(0.0, 1.0)
    }
}

/// By what a stall is seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Arrived {
    /// Complete responses.
    #[default]
    Responses,
    /// Events of streaming responses: between two complete responses, a server sends many.
    Events,
}

/// What happened within one step of a run: a short time, as long as every other step. Episodes are
/// found by comparing steps with what is usual.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CourseStep {
    /// Number of responses that arrived in the step.
    pub answered: u64,
    /// Number of responses, or of events in a run with streaming responses.
    pub arrived: u64,
    /// Number of error events in the step.
    pub errors: u64,
    /// How many requests were due, in any unit; the same in all steps of a closed loop, whose
    /// connections always have a request in flight. 0 if nothing can be expected.
    pub asked: f64,
    /// The share of the step in which responses could arrive as far as the load generator is
    /// concerned, 0 to 1: it ran, and it had run when it was to send their requests.
    pub shown: f64,
}

/// A run over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Course<'a> {
    /// Length of a step, seconds.
    pub step_s: f64,
    /// Steps from the start of the window, without gaps.
    pub steps: Vec<CourseStep>,
    /// What arrives in them.
    pub what: Arrived,
    /// Whether it usually comes in bursts: steps without any tell what is usual, too.
    pub comes_in_bursts: bool,
    /// A time without arrivals that is shorter is no stall, seconds.
    pub stall_min_s: f64,
    /// Length of an interval of latency, seconds.
    pub interval_s: f64,
    /// Latencies of the responses that arrived in each interval.
    pub intervals: &'a [Interval],
}

impl<'a> Course<'a> {
    /// The course of a run. An incomplete step at the end is left out.
    #[must_use]
    pub fn of(result: &'a RunResult) -> Self {
        let series = &result.recording.series;
        let step_ms = series.interval_ms();
        let step_s = step_ms as f64 / 1e3;
        let whole = (result.window.duration_ns / 1_000_000 / step_ms).min(STEPS_MAX);
        let rows = series.rows();
        let asked = result.plan.pacing.rate_curve(Duration::ZERO);
        let hidden = hidden(result);
        let expected = Expected::of(result);
        let steps = (0..whole).map(|at| {
            let row = usize::try_from(at).ok().and_then(|at| rows.get(at));
            let middle_s = (at as f64 + 0.5) * step_s;
            let asked = if middle_s >= expected.from_s {
                asked.as_ref().map_or(1.0, |curve| curve.rate_at(middle_s))
            } else {
                0.0
            };
            let step = TimeSpan {
                start: at * step_ms * 1_000_000,
                end: (at + 1) * step_ms * 1_000_000,
            };
            let hidden_ns: u64 = covered(&hidden, step).iter().map(|it| it.length()).sum();
            CourseStep {
                answered: row.map_or(0, |row| row.answered),
                arrived: row.map_or(0, |row| match expected.what {
                    Arrived::Responses => row.answered,
                    Arrived::Events => row.events,
                }),
                errors: row.map_or(0, |row| row.errors),
                asked,
                shown: 1.0 - hidden_ns as f64 / step.length() as f64,
            }
        });
        let intervals = &result.recording.intervals;
        Self {
            step_s,
            // A run without responses has no rows, and no usual rate.
            steps: if rows.is_empty() {
                Vec::new()
            } else {
                steps.collect()
            },
            what: expected.what,
            comes_in_bursts: expected.comes_in_bursts,
            stall_min_s: expected.stall_min_s,
            interval_s: intervals.interval_ms() as f64 / 1e3,
            intervals: intervals.rows(),
        }
    }
}

/// What is expected to arrive, and when.
struct Expected {
    what: Arrived,
    comes_in_bursts: bool,
    /// Nothing is expected before, seconds since the start of the window.
    from_s: f64,
    stall_min_s: f64,
}

impl Expected {
    fn of(result: &RunResult) -> Self {
        match &result.recording.parts.events {
            Some(events) => Self::events(result, events),
            None => Self::responses(result),
        }
    }

    /// The first responses arrive a usual response time after the connections are there. In a
    /// closed loop, the requests that were sent together then are answered together, again and
    /// again. So are those of a rate that is too high for its connections.
    fn responses(result: &RunResult) -> Self {
        let usual_s = usual_s(&result.recording.service_time);
        let phases = &result.recording.phases;
        let opening_ns = [&phases.connect, &phases.proxy, &phases.tls].map(Histogram::max_ns);
        let opening_s = opening_ns.into_iter().flatten().sum::<u64>() as f64 / 1e9;
        let step_s = result.recording.series.interval_ms() as f64 / 1e3;
        let waits_for_responses = !result.plan.pacing.is_open() || server_unsent(result).is_some();
        Self {
            what: Arrived::Responses,
            comes_in_bursts: waits_for_responses && usual_s > step_s,
            from_s: if result.window.warmup_ns == 0 {
                opening_s + usual_s
            } else {
                0.0
            },
            stall_min_s: by_generator_s(result),
        }
    }

    /// A run with streaming responses is expected to have events, if enough streams are always
    /// open. Streams that began together are silent together until their first events, and servers
    /// may send events at long intervals.
    fn events(result: &RunResult, events: &EventRecording) -> Self {
        let recording = &result.recording;
        let first_s = usual_s(&events.first_event) * SILENT_FIRST;
        let window_ns = result.window.duration_ns.max(1) as f64;
        let open = recording.counters.in_flight_time_ns as f64 / window_ns;
        let load = &result.plan.load;
        let most = f64::from(load.connections) * f64::from(load.in_flight_per_connection());
        let is_open_loop = result.plan.pacing.is_open();
        let open_min = if is_open_loop {
            STREAMS_MIN
        } else {
            most * STREAMS_SHARE_MIN
        };
        let has_events = recording.series.rows().iter().any(|row| row.events > 0);
        Self {
            what: Arrived::Events,
            comes_in_bursts: true,
            from_s: if has_events && open >= open_min {
                first_s
            } else {
                f64::INFINITY
            },
            stall_min_s: first_s
                .max(usual_s(&events.gap) * SILENT_GAPS)
                .max(by_generator_s(result)),
        }
    }
}

/// A shorter time without arrivals may be the load generator's, seconds. While its threads wait for
/// a CPU, they read nothing, also where each wait is too short for a standstill: in a stall, they
/// run for [`STALL_MIN_S`] at least. A slow script may be called for all requests that can be in
/// flight, one after another, before the next response is read.
fn by_generator_s(result: &RunResult) -> f64 {
    let workers = &result.generator.workers;
    let elapsed_ns: f64 = workers.iter().map(|it| it.elapsed_ns as f64).sum();
    let waits_ns = workers.iter().filter_map(|it| it.usage.run_queue_wait_ns);
    let waited_ns: f64 = waits_ns.map(|it| it as f64).sum();
    let runs = 1.0 - waited_ns / elapsed_ns.max(1.0);
    let recording = &result.recording;
    let script_s = recording.attribution.script_ns as f64 / 1e9;
    let load = &result.plan.load;
    let in_flight = f64::from(load.connections) * f64::from(load.in_flight_per_connection());
    let in_flight_per_thread = in_flight / f64::from(load.threads.max(1));
    let in_a_row_s = script_s / recording.counters.sent.max(1) as f64 * in_flight_per_thread;
    (STALL_MIN_S / runs.max(RUNS_MIN)).max(in_a_row_s)
}

fn usual_s(times: &Histogram) -> f64 {
    times.value_at_percentile(50.0) as f64 / 1e9
}

/// The times in which no response could arrive because of the load generator, nanoseconds since
/// the start of the window: it did not run, or it had not run a usual response time before, so that
/// there was no request to respond to.
fn hidden(result: &RunResult) -> Vec<TimeSpan> {
    let usual_ns = result.recording.service_time.value_at_percentile(50.0);
    let standstills = result.recording.attribution.standstills.iter();
    let hidden = standstills.flat_map(|it| {
        [0, usual_ns].map(|later_ns| {
            let start = it.start_ns.saturating_add(later_ns);
            TimeSpan {
                start,
                end: start.saturating_add(it.length_ns),
            }
        })
    });
    hidden.collect()
}

/// The episodes of a run, ordered by their start; a steady run has none.
#[must_use]
pub fn episodes(course: &Course<'_>) -> Vec<Episode> {
    let mut stalls = stalls(course);
    let mut episodes = Vec::new();
    for (begin_s, end_s, slow) in slow_stretches(course) {
        // Requests that waited for the end of a stall are part of it.
        let cause = stalls
            .iter_mut()
            .find(|stall| begin_s <= stall.end_s + course.interval_s && end_s >= stall.begin_s);
        match cause {
            Some(stall) if end_s > stall.end_s + course.interval_s => {
                stall.slow_until_s = Some(end_s);
            }
            Some(_) => {}
            None => episodes.push(slow),
        }
    }
    episodes.extend(stalls.into_iter().map(Episode::Stall));
    episodes.extend(bursts(&course.steps, course.step_s));
    episodes.sort_by(|a, b| a.begin_s().total_cmp(&b.begin_s()));
    episodes
}

/// The stalls of a run.
#[must_use]
pub fn stalls_of(result: &RunResult) -> Vec<Stall> {
    stalls(&Course::of(result))
}

/// What is usual in a run.
struct Usual {
    /// Arrived for each request that was due.
    ratio: f64,
    /// By how many arrivals steps differ from that.
    scatter: f64,
    /// The share of these steps that the load generator does not hide.
    shown: f64,
}

impl Usual {
    /// Medians over the steps with responses that the load generator does not hide, if these are
    /// enough; otherwise over all. A load generator that is always disturbed may send less, so that
    /// less is usual. If arrivals usually come in bursts, steps without any count, too.
    fn of(steps: &[CourseStep], comes_in_bursts: bool) -> Option<Self> {
        let of = |shown_min: f64| -> Vec<&CourseStep> {
            let seen = |step: &&CourseStep| {
                let counts = step.arrived > 0 || comes_in_bursts;
                counts && step.asked > 0.0 && step.shown >= shown_min
            };
            steps.iter().filter(seen).collect()
        };
        let well = of(SHOWN_WELL);
        let seen = if well.len() >= STEPS_MIN {
            well
        } else {
            of(0.0)
        };
        let ratio = median(seen.iter().map(|it| it.arrived as f64 / it.asked))?;
        let off = |it: &&CourseStep| (it.arrived as f64 - ratio * it.asked).abs();
        let scatter = DEVIATION_OF_MAD * median(seen.iter().map(off)).unwrap_or(0.0);
        Some(Self {
            ratio,
            scatter,
            shown: median(seen.iter().map(|it| it.shown))?,
        })
    }

    /// How much of what is usual a step shows, 0 to 1.
    fn shown(&self, step: &CourseStep) -> f64 {
        let shown = step.shown / self.shown.max(f64::MIN_POSITIVE);
        if shown >= SHOWN_MIN {
            shown.min(1.0)
        } else {
            0.0
        }
    }

    /// The least that a step is expected to have: what would usually arrive in the part of it that
    /// the load generator does not hide.
    fn expected(&self, step: &CourseStep) -> f64 {
        self.ratio * step.asked * self.shown(step)
    }

    fn variance(&self, step: &CourseStep) -> f64 {
        let scatter = self.scatter * self.shown(step);
        self.expected(step).max(scatter * scatter)
    }

    /// Whether steps have far fewer responses than usual. A step that the load generator hides is
    /// like those around it, if these are alike.
    fn are_low(&self, steps: &[CourseStep]) -> Vec<bool> {
        let is_known = |step: &CourseStep| step.asked == 0.0 || self.shown(step) > 0.0;
        let is_low = |step: &CourseStep| (step.arrived as f64) < LOW * self.expected(step);
        let mut low: Vec<bool> = steps.iter().map(is_low).collect();
        let mut at = 0;
        for hidden in steps.chunk_by(|a, b| is_known(a) == is_known(b)) {
            let (begin, end) = (at, at + hidden.len());
            at = end;
            let is_hidden = !hidden.first().is_some_and(is_known);
            let before = begin.checked_sub(1).and_then(|before| low.get(before));
            if is_hidden && before == Some(&true) && low.get(end) == Some(&true) {
                low[begin..end].fill(true);
            }
        }
        low
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    stats::median(&values)
}

/// Merges pairs of steps; an odd one at the end is dropped.
fn doubled(steps: &[CourseStep]) -> Vec<CourseStep> {
    let join = |pair: &[CourseStep]| CourseStep {
        answered: pair.iter().map(|step| step.answered).sum(),
        arrived: pair.iter().map(|step| step.arrived).sum(),
        errors: pair.iter().map(|step| step.errors).sum(),
        asked: pair.iter().map(|step| step.asked).sum(),
        shown: pair.iter().map(|step| step.shown).sum::<f64>() / pair.len() as f64,
    };
    steps.chunks_exact(2).map(join).collect()
}

fn stalls(course: &Course<'_>) -> Vec<Stall> {
    let (mut steps, mut step_s) = (course.steps.clone(), course.step_s);
    let few = |steps: &[CourseStep]| {
        let arrived = steps.iter().map(|step| step.arrived as f64);
        median(arrived.filter(|arrived| *arrived > 0.0)).is_some_and(|it| it < RESPONSES_MIN)
    };
    while few(&steps) && steps.len() >= 2 * STEPS_MIN {
        steps = doubled(&steps);
        step_s *= 2.0;
    }
    let usual = Usual::of(&steps, course.comes_in_bursts);
    let Some(usual) = usual.filter(|_| steps.len() >= STEPS_MIN) else {
        return Vec::new();
    };
    let expected = |step: &CourseStep| usual.expected(step);
    let low = usual.are_low(&steps);
    let mut stalls = Vec::new();
    let mut at = 0;
    for alike in low.chunk_by(|a, b| a == b) {
        let (begin, end) = (at, at + alike.len());
        at = end;
        let run = &steps[begin..end];
        if !alike.first().is_some_and(|is_low| *is_low) {
            continue;
        }
        let wanted: f64 = run.iter().map(expected).sum();
        let arrived: u64 = run.iter().map(|step| step.arrived).sum();
        let missing = wanted - arrived as f64;
        let variance: f64 = run.iter().map(|step| usual.variance(step)).sum();
        let missing_s = missing / wanted * run.len() as f64 * step_s;
        let within = run.get(1..run.len() - 1).unwrap_or_default();
        let within_wanted: f64 = within.iter().map(expected).sum();
        let within_arrived: u64 = within.iter().map(|step| step.arrived).sum();
        if arrived as f64 > STALLED * wanted
            || within_arrived as f64 > STALLED_WITHIN * within_wanted
            || missing < DEVIATIONS_MIN * variance.sqrt()
            || missing_s < course.stall_min_s
        {
            continue;
        }
        // Responses in the first step came before the stall.
        let before = run
            .first()
            .map_or(0.0, |step| step.arrived as f64 / expected(step));
        stalls.push(Stall {
            begin_s: ((begin as f64 + before) * step_s * 1e3).round() / 1e3,
            end_s: end as f64 * step_s,
            arrived: run.iter().skip(1).map(|step| step.arrived).sum(),
            what: course.what,
            slow_until_s: None,
        });
    }
    stalls
}

/// Share of failed requests among all that ended.
fn error_share(errors: u64, answered: u64) -> f64 {
    match errors + answered {
        0 => 0.0,
        ended => errors as f64 / ended as f64,
    }
}

fn bursts(steps: &[CourseStep], step_s: f64) -> Vec<Episode> {
    let mut clusters: Vec<(usize, usize)> = Vec::new();
    for (at, _) in steps.iter().enumerate().filter(|(_, step)| step.errors > 0) {
        match clusters.last_mut() {
            Some((_, last)) if at - *last <= BURST_GAP_STEPS => *last = at,
            _ => clusters.push((at, at)),
        }
    }
    let sums = |steps: &[CourseStep]| {
        let errors: u64 = steps.iter().map(|step| step.errors).sum();
        let answered: u64 = steps.iter().map(|step| step.answered).sum();
        (errors, answered)
    };
    let (all_errors, all_answered) = sums(steps);
    let burst = |(first, last): (usize, usize)| {
        // Single errors before and after a burst are near it by chance.
        let most = steps[first..=last].iter().map(|step| step.errors).max()?;
        let is_of_it = |at: &usize| steps[*at].errors * BURST_EDGE >= most;
        let first = (first..=last).find(is_of_it)?;
        let last = (first..=last).rev().find(is_of_it)?;
        let inside = &steps[first..=last];
        let (errors, answered) = sums(inside);
        let outside = 1.0 - inside.len() as f64 / steps.len() as f64;
        let usual = error_share(all_errors - errors, all_answered - answered);
        let by_chance = usual * (errors + answered) as f64;
        let deviation = (by_chance + 1.0).sqrt();
        (errors as f64 - by_chance >= DEVIATIONS_MIN * deviation
            && outside >= OUTSIDE_MIN
            && error_share(errors, answered) >= BURST_RATIO * usual)
            .then_some(Episode::Errors {
                begin_s: first as f64 * step_s,
                end_s: (last + 1) as f64 * step_s,
                errors,
                answered,
            })
    };
    clusters.into_iter().filter_map(burst).collect()
}

/// The samples of an interval, and how many of them are slow.
#[derive(Debug, Clone, Copy)]
struct SlowCount {
    samples: u64,
    slow: u64,
}

impl SlowCount {
    fn of(interval: &Interval, above_ns: f64) -> Self {
        let is_slow = |(value_ns, _): &&(u64, u64)| *value_ns as f64 > above_ns;
        let slow = interval.samples.iter().filter(is_slow);
        Self {
            samples: interval.samples.iter().map(|(_, count)| count).sum(),
            slow: slow.map(|(_, count)| count).sum(),
        }
    }

    fn share(self) -> f64 {
        self.slow as f64 / self.samples.max(1) as f64
    }
}

/// The median sample of an interval, nanoseconds.
fn median_ns(interval: &Interval) -> u64 {
    let total: u64 = interval.samples.iter().map(|(_, count)| count).sum();
    let mut left = total / 2;
    for (value_ns, count) in &interval.samples {
        if left < *count {
            return *value_ns;
        }
        left -= count;
    }
    0
}

/// Consecutive intervals with far more slow requests than usual: start, end and episode.
fn slow_stretches(course: &Course<'_>) -> Vec<(f64, f64, Episode)> {
    let is_known = |interval: &&Interval| SlowCount::of(interval, 0.0).samples >= SAMPLES_MIN;
    let known = course.intervals.iter().filter(is_known);
    let medians_ns: Vec<f64> = known.map(|interval| median_ns(interval) as f64).collect();
    let Some(usual_ns) = median(medians_ns.iter().copied()) else {
        return Vec::new();
    };
    if medians_ns.len() < INTERVALS_MIN {
        return Vec::new();
    }
    let above_ns = usual_ns * SLOW_RATIO;
    let intervals = course.intervals.iter();
    let counted: Vec<SlowCount> = intervals
        .map(|interval| SlowCount::of(interval, above_ns))
        .collect();
    let is_known = |counted: &&SlowCount| counted.samples >= SAMPLES_MIN;
    let shares = || {
        counted
            .iter()
            .filter(is_known)
            .map(|counted| counted.share())
    };
    let usual = median(shares()).unwrap_or(0.0);
    let scatter =
        DEVIATION_OF_MAD * median(shares().map(|share| (share - usual).abs())).unwrap_or(0.0);
    let is_slow = |counted: &SlowCount| {
        let samples = counted.samples as f64;
        // One more, so that a single slow request does not count where there usually are none.
        let deviation = (samples * usual * (1.0 - usual) + 1.0).sqrt();
        counted.samples >= SAMPLES_MIN
            && counted.share() >= SLOW_SHARE_MIN.max(SLOW_RATIO * usual)
            && counted.slow as f64 - usual * samples >= DEVIATIONS_MIN * deviation
            && counted.share() - usual >= DEVIATIONS_MIN * scatter
    };
    let mut stretches = Vec::new();
    let mut at = 0;
    for run in counted.chunk_by(|a, b| is_slow(a) == is_slow(b)) {
        let begin_s = at as f64 * course.interval_s;
        at += run.len();
        let end_s = at as f64 * course.interval_s;
        if run.first().is_some_and(is_slow) {
            let sum = |of: fn(&SlowCount) -> u64| run.iter().map(of).sum();
            let together = SlowCount {
                samples: sum(|counted| counted.samples),
                slow: sum(|counted| counted.slow),
            };
            let episode = Episode::Slow {
                begin_s,
                end_s,
                above_us: above_ns / 1e3,
                share: together.share(),
                usual_share: usual,
            };
            stretches.push((begin_s, end_s, episode));
        }
    }
    stretches
}
