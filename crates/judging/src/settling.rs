//! Whether a run was slower at first: it had no warm-up, or one that was too short.
//!
//! The rate alone tells it, and it must be the server's: what the load generator may have caused,
//! the opening of connections and the first responses are left out.

use plan::Pacing;
use results::{RunResult, SlowStart, Symptom, Warning};
use stats::{SETTLING_BATCH_S, Settling, settling};

use crate::episodes::{self, Course, CourseStep};

/// The load generator ran for at least this share of a batch. A lower share would make a difference
/// like those that are looked for.
const SHOWN_MIN: f64 = 0.95;

/// At least this share of the batches is not hidden.
const BATCHES_KEPT_MIN: f64 = 0.5;

/// What is slower by less is not reported.
const SLOWER_MIN: f64 = 0.05;

/// The steps before the first responses are left out if these came later than this, seconds: with
/// less, a batch is hardly changed.
const LATE_MIN_S: f64 = SETTLING_BATCH_S / 20.0;

/// The warning about a slow beginning; `None` if there was none, or the run cannot tell.
pub(crate) fn slow_start(result: &RunResult) -> Option<Warning> {
    let per_sec = steady_load(result)?.rate_per_sec;
    let course = Course::of(result);
    let batches = batches(result, &course, per_sec)?;
    let values: Vec<f64> = batches.iter().map(|batch| batch.value).collect();
    let (count, has_settled) = match settling(&values) {
        Settling::Unknown | Settling::Settled => return None,
        Settling::SlowAtFirst { batches } => (batches, true),
        Settling::NotSettled { batches } => (batches, false),
    };
    let first_steps = batches.get(count.checked_sub(1)?)?.end;
    let start = parts(result, &course, first_steps, per_sec)?;
    is_of_server(result, &start).then_some(if has_settled {
        Warning::SlowAtFirst(start)
    } else {
        Warning::NotSettled(start)
    })
}

/// A load that is the same all the time.
struct SteadyLoad {
    /// The rate; `None` in a closed loop.
    rate_per_sec: Option<f64>,
}

/// `None` if the load changes by plan, which changes the rate of responses.
fn steady_load(result: &RunResult) -> Option<SteadyLoad> {
    let rate_per_sec = match result.plan.pacing {
        Pacing::Closed | Pacing::Users => None,
        Pacing::Constant { rate_per_sec, .. } => Some(rate_per_sec),
        Pacing::Stages { .. } | Pacing::Recorded { .. } => return None,
    };
    let is_steady = result.plan.load.connection_stages.is_empty();
    is_steady.then_some(SteadyLoad { rate_per_sec })
}

/// A batch that tells something.
struct Batch {
    /// Responses per step; with a rate no more than were due, since a backlog is answered faster.
    value: f64,
    /// The step of the course after its last one.
    end: usize,
}

/// The batches from the first response on. Those in which the load generator did not always run are
/// left out, and so are those with a stall of a batch or more, which has a warning of its own. But
/// a server that answers nothing at first is slow at first.
fn batches(result: &RunResult, course: &Course<'_>, per_sec: Option<f64>) -> Option<Vec<Batch>> {
    let most = per_sec.map_or(f64::INFINITY, |rate| rate * course.step_s);
    let per_batch = (SETTLING_BATCH_S / course.step_s).round().max(1.0) as usize;
    let begin = match first_response_s(result) {
        late_s if late_s > LATE_MIN_S => (late_s / course.step_s).ceil() as usize,
        _ => 0,
    };
    let mut stalls = episodes::stalls_of(result);
    let began_s = (begin + 1) as f64 * course.step_s;
    stalls.retain(|it| it.begin_s >= began_s && it.end_s - it.begin_s >= SETTLING_BATCH_S);
    let is_stalled = |begin: usize, end: usize| {
        let (begin_s, end_s) = (begin as f64 * course.step_s, end as f64 * course.step_s);
        let later = stalls.iter().filter(|it| it.begin_s >= course.step_s);
        later
            .map(|it| it.share_of(begin_s, end_s))
            .any(|it| it > 0.0)
    };
    let of_batch = |number: usize| {
        let end = (number + 1) * per_batch;
        let begin = begin.max(number * per_batch);
        let steps = course.steps.get(begin..end)?;
        let count = steps.len() as f64;
        let shown = steps.iter().map(|step| step.shown).sum::<f64>() / count;
        let is_known = steps.len() * 2 > per_batch && shown >= SHOWN_MIN;
        (is_known && !is_stalled(begin, end)).then(|| Batch {
            value: (answered(steps) as f64 / count).min(most),
            end,
        })
    };
    let all = begin / per_batch..course.steps.len() / per_batch;
    let least = (all.len() as f64 * BATCHES_KEPT_MIN).ceil() as usize;
    let kept: Vec<Batch> = all.filter_map(of_batch).collect();
    (kept.len() >= least).then_some(kept)
}

/// When responses usually come, seconds since the start of the window. In a closed loop requests
/// wait for all connections. With a rate, responses of all lengths only come together once the
/// slower ones have come.
fn first_response_s(result: &RunResult) -> f64 {
    if result.window.warmup_ns > 0 {
        return 0.0;
    }
    let recording = &result.recording;
    let connections = u64::from(result.plan.load.connections).max(1);
    let percent = if result.plan.pacing.is_open() {
        99.0
    } else {
        50.0
    };
    let opening_ns = recording.counters.opening_ns / connections;
    let usual_ns = recording.service_time.value_at_percentile(percent);
    opening_ns.saturating_add(usual_ns) as f64 / 1e9
}

/// What was counted in the first steps and in the others, if the first ones are slower.
fn parts(
    result: &RunResult,
    course: &Course<'_>,
    first_steps: usize,
    per_sec: Option<f64>,
) -> Option<SlowStart> {
    let (first, rest) = course.steps.split_at_checked(first_steps)?;
    let length_ms =
        |steps: &[CourseStep]| (steps.len() as f64 * course.step_s * 1e3).round() as u64;
    let first_ms = length_ms(first);
    let due = per_sec.map(|rate| (rate * first_ms as f64 / 1e3).round() as u64);
    let start = SlowStart {
        first_ms,
        first_responses: answered(first),
        rest_ms: length_ms(rest),
        rest_responses: answered(rest),
        first_due: due,
        warmup_ms: result.window.warmup_ns / 1_000_000,
    };
    (start.slower_by() > SLOWER_MIN).then_some(start)
}

fn answered(steps: &[CourseStep]) -> u64 {
    steps.iter().map(|step| step.answered).sum()
}

/// Whether the load generator and its machine cannot have made the first part slower: no other
/// program is known to have taken the CPU of what ran there, and the part is slower even if all of
/// the time for which connections waited for the load generator was in it. With a rate, it is not
/// known when it was late.
fn is_of_server(result: &RunResult, start: &SlowStart) -> bool {
    let verdict = &result.generator.verdict;
    let symptoms = verdict.evidence().0.iter().map(|finding| &finding.data);
    if symptoms.into_iter().any(is_of_busy_machine) {
        return false;
    }
    if result.plan.pacing.is_open() {
        return !verdict.is_saturated();
    }
    let (idle_ns, all_ns) = result.connections_idle_ns();
    let window_ms = start.first_ms.saturating_add(start.rest_ms) as f64;
    let own = idle_ns as f64 / all_ns.max(1) as f64 * window_ms / start.first_ms.max(1) as f64;
    let first = 1.0 - start.slower_by();
    own < 1.0 && first / (1.0 - own) < 1.0 - SLOWER_MIN
}

/// Whether CPU time was scarce on the machine, for a server there as well. When, is not known.
fn is_of_busy_machine(symptom: &Symptom) -> bool {
    matches!(
        symptom,
        Symptom::RunQueueWait { .. }
            | Symptom::SharedCpus { .. }
            | Symptom::CgroupThrottled { .. }
            | Symptom::Steal { .. }
    )
}
