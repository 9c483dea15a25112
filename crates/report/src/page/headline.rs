//! The answer of a page in one sentence: its heading and the title of its file.

use analysis::compare::{Comparison, Conclusions, Level, Metric, Outcome};
use analysis::{Observation, distinct, grouped};
use judging::sentences::UNDECIDED;
use plan::Pacing;
use presentation::words::{self, capital, counted, duration_ns, list, number};
use results::cells;
use results::metric::{self, Unit};
use results::{AchievedRate, RunResult, Verdict};

use super::names;
use super::quantities::show;
use super::runs::{Runs, is_of_files};
use super::sections::{is_failing, nothing_good, statuses_in_words};
use crate::comparison::{self, failed_phrase};
use crate::searches::search_headline;

/// More effects, metrics or levels than this are not listed: a heading is one line or two.
const LISTED_MAX: usize = 3;

/// The answer, without a full stop.
pub(super) fn of(runs: &Runs<'_>) -> String {
    if runs.all.is_empty() {
        return "No runs".to_owned();
    }
    if let [search] = runs.subject.searches {
        return capital(&search_headline(search));
    }
    if let Some(run) = runs.single() {
        return match run.result.as_deref() {
            Some(result) => of_result(result),
            None => of_values(run),
        };
    }
    if runs.counted().next().is_none() {
        return all_failed(runs);
    }
    match runs.subject.conclusions {
        Some(known) if !known.comparisons.is_empty() => of_comparisons(known),
        _ => not_compared(runs),
    }
}

/// `2,031 requests/s with p99 12.3 ms`, or what went wrong.
fn of_result(result: &RunResult) -> String {
    let failed = nothing_good(result).or_else(|| statuses_in_words(&result.recording));
    let counters = &result.recording.counters;
    let over_399 = result.recording.statuses.over_399();
    if let Some(failed) = failed.clone().filter(|_| over_399 * 2 > counters.answered) {
        return failed;
    }
    if counters.responses() == 0 {
        let window = duration_ns(result.window.duration_ns);
        return match &result.recording.parts.events {
            Some(events) if events.arrived > 0 => format!(
                "{} events/s, but no stream was complete in {window}",
                number(result.per_sec(events.arrived))
            ),
            _ => format!("No request was answered in {window}"),
        };
    }
    let lost = result.recording.errors.exchanges();
    let lost = is_failing(lost, counters.sent)
        .then(|| format!("{} of requests failed", words::share(lost, counters.sent)));
    let parts = [Some(speed_of(result)), failed, lost];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("; ")
}

/// The figures of a run with responses, and what limits them.
fn speed_of(result: &RunResult) -> String {
    let shown = |name: &str| {
        let known = Metric::named(name).of(result)?;
        Some(cells::measured(Some(known), |value| show(name, value)).text)
    };
    let first_token = || {
        let tokens = result.recording.parts.llm.as_ref()?;
        let percent = percentile_with_enough(tokens.first_token.count())?;
        let time = shown(&metric::percentile("first_token", percent))?;
        Some(format!("{} first token {time}", words::percentile(percent)))
    };
    let rate = number(result.requests_per_sec());
    let (speed, latency) = match shown(metric::OUTPUT_TOKENS_PER_SEC) {
        Some(tokens) => {
            let users = users_of(result).map_or_else(String::new, |users| format!(" for {users}"));
            (format!("{tokens} output tokens/s{users}"), first_token())
        }
        None => (
            match AchievedRate::of(result) {
                Some(rate_asked) => {
                    let asked = number(rate_asked.asked_per_sec);
                    format!("{rate} requests/s of {asked} requested")
                }
                None => format!("{rate} requests/s"),
            },
            latency_of(result),
        ),
    };
    let limits = match &result.generator.verdict {
        Verdict::Saturated { .. } => ", load generator saturated",
        Verdict::Disturbed { .. } => ", load generator disturbed",
        Verdict::Undisturbed | Verdict::Unknown => "",
    };
    let stopped = if result.window.interrupted {
        ", stopped early"
    } else {
        ""
    };
    let latency = latency.map_or_else(String::new, |latency| format!(" with {latency}"));
    format!("{speed}{latency}{limits}{stopped}")
}

/// `32 users`: those who wait for a response or think. `None` at a rate of single requests, which
/// says nothing of users.
fn users_of(result: &RunResult) -> Option<String> {
    let load = &result.plan.load;
    let in_flight = u64::from(load.in_flight_per_connection());
    let users = u64::from(load.connections).saturating_mul(in_flight);
    match result.plan.pacing {
        // With stages, the number changes.
        Pacing::Closed | Pacing::Users => load
            .connection_stages
            .is_empty()
            .then(|| counted(users, "user")),
        _ => {
            let conversations = result.recording.parts.conversations.as_ref()?;
            let (live, _) = conversations.users_mean(result.window.duration_ns)?;
            Some(format!("{} users", number(live)))
        }
    }
}

/// `p99 12.3 ms`; a lower percentile with few samples, `None` with fewer.
fn latency_of(result: &RunResult) -> Option<String> {
    let samples = result.recording.latency_samples();
    let percent = percentile_with_enough(samples.all().count())?;
    let known = samples.percentile(percent)?;
    let text = cells::measured(Some(known), words::time_us).text;
    Some(format!("{} {text}", words::percentile(percent)))
}

/// The percentile that a heading has: the highest one with enough of the samples above it.
fn percentile_with_enough(samples: u64) -> Option<f64> {
    let mut percents = [99.0, 90.0, 50.0].into_iter();
    percents.find(|percent| results::enough_samples(*percent, samples))
}

/// Of a run of which only a report's numbers are known.
fn of_values(run: &Observation) -> String {
    if let Some(reason) = &run.failure {
        return format!("The run failed: {reason}");
    }
    let shown = |name: &str| Some(show(name, *run.values.get(name)?));
    let p99 = shown(&metric::percentile("latency", 99.0)).map(|p99| format!("p99 {p99}"));
    let mean = || shown(metric::LATENCY_MEAN_US).map(|mean| format!("mean latency {mean}"));
    let rate = shown(metric::REQUESTS_PER_SEC).map(|rate| format!("{rate} requests/s"));
    let known: Vec<String> = rate.into_iter().chain(p99.or_else(mean)).collect();
    let count = |name: &str| run.values.get(name).map_or(0, |count| *count as u64);
    let (over_399, requests) = (count(metric::STATUSES_OVER_399), count(metric::REQUESTS));
    let share = words::share(over_399, requests);
    let failed = is_failing(over_399, requests)
        .then(|| format!("{share} of responses had a status above 399; "));
    if known.is_empty() {
        run.source.clone()
    } else {
        failed.unwrap_or_default() + &known.join(" with ")
    }
}

fn all_failed(runs: &Runs<'_>) -> String {
    let (all, total) = (runs.subject.searches, runs.total());
    if !all.is_empty() {
        return format!("No rate found by {} searches", all.len());
    }
    let reasons = distinct(runs.failed().filter_map(|run| run.failure.as_deref()));
    match reasons.as_slice() {
        [reason] => format!("All {} failed: {reason}", counted(total, "run")),
        _ => format!("All {} failed", counted(total, "run")),
    }
}

/// Of runs that repeat one measurement, or that cannot be compared.
fn not_compared(runs: &Runs<'_>) -> String {
    let number_of = match runs.subject.searches {
        [] => counted(runs.counted().count() as u64, "run"),
        searches => format!("{} searches", searches.len()),
    };
    let [group] = runs.groups.as_slice() else {
        return format!("{number_of} in {} groups, not compared", runs.groups.len());
    };
    let shown = runs.metrics.iter().filter_map(|metric| {
        let values = group
            .runs
            .iter()
            .filter_map(|run| run.run.value(&metric.name));
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        Some(with_label(metric, analysis::median(&values)?))
    });
    let shown: Vec<String> = shown.take(2).collect();
    let failed = group.recording().and_then(statuses_in_words);
    let failed = failed.map_or_else(String::new, |failed| format!("{failed}; "));
    if shown.is_empty() {
        format!("{failed}{number_of}")
    } else {
        format!("{failed}{}, median of {number_of}", shown.join(" with "))
    }
}

/// `2,031 requests/s`, `p99 latency 12.3 ms`
fn with_label(metric: &Metric, value: f64) -> String {
    let shown = show(&metric.name, value);
    if is_number(metric) {
        format!("{shown} {}", metric.label)
    } else {
        format!("{} {shown}", metric.label)
    }
}

/// Whether the metric counts things, of which there are more or fewer.
fn is_number(metric: &Metric) -> bool {
    matches!(
        metric.unit,
        Unit::RequestsPerSec | Unit::ConnectsPerSec | Unit::EventsPerSec | Unit::TokensPerSec
    ) && metric.name != metric::MAX_RATE
}

/// The largest effect, or why there is none.
fn of_comparisons(known: &Conclusions) -> String {
    let comparisons: Vec<Comparison> = known.comparisons.iter().map(with_short_names).collect();
    let all = comparisons.iter();
    let groups = grouped(all.map(|one| ((one.factor.clone(), one.place.clone()), one)));
    let groups: Vec<Vec<&Comparison>> = groups.into_iter().map(|(_, group)| group).collect();
    let effects = groups.iter().filter_map(|group| effect_of(group));
    match (
        effects.max_by(|a, b| a.0.total_cmp(&b.0)),
        groups.as_slice(),
    ) {
        (Some((_, sentence)), _) => sentence,
        (None, [group]) => without_effect(group),
        (None, _) => {
            let count = |is: fn(Outcome) -> bool| {
                let all = known.comparisons.iter();
                all.filter(|one| is(one.outcome)).count()
            };
            let parts = [
                (count(is_undecided), UNDECIDED),
                (count(|it| it == Outcome::Same), "the same"),
                (
                    count(|it| matches!(it, Outcome::TooFewRuns { .. })),
                    "with too few runs",
                ),
                (count(|it| it == Outcome::Failing), "with failed requests"),
            ];
            let parts = parts.iter().filter(|(count, _)| *count > 0);
            let parts: Vec<String> = parts
                .map(|(count, what)| format!("{count} {what}"))
                .collect();
            let of = counted(known.comparisons.len() as u64, "comparison");
            if parts.is_empty() {
                format!("No effect found in {of}")
            } else {
                format!("No effect found in {of}: {}", list(&parts))
            }
        }
    }
}

/// Levels that are URLs of one server are named by what follows its name.
fn with_short_names(comparison: &Comparison) -> Comparison {
    let mut short = comparison.clone();
    let names = comparison
        .levels
        .iter()
        .map(|level| Some(level.name.as_str()));
    let server = names::same_server(names);
    for level in &mut short.levels {
        level.name = level.name[server.len()..].to_owned();
    }
    short
}

fn is_undecided(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Undecided { .. } | Outcome::LowerBounds)
}

/// Of the comparisons of one factor in one place by several metrics: the size of the first effect,
/// and the effects in a sentence; `None` without an effect.
fn effect_of(group: &[&Comparison]) -> Option<(f64, String)> {
    let is_effect = |it: &&&Comparison| {
        let outcome = it.outcome;
        matches!(
            outcome,
            Outcome::Better { .. } | Outcome::Worse { .. } | Outcome::Changed { .. }
        )
    };
    let first = group.iter().find(is_effect)?;
    let index = first.outcome.level()?;
    let [reference, level] = [first.levels.first()?, first.levels.get(index)?];
    let size = level.difference.and_then(|it| it.ratio);
    let size = size.map_or(0.0, |ratio| ratio.ln().abs());
    let effects = group.iter().filter_map(|one| of_level(one, &level.name));
    let effects: Vec<String> = effects.take(LISTED_MAX).collect();
    let effects = if effects.is_empty() {
        vec![format!("other {}", first.metric.label)]
    } else {
        effects
    };
    let open = group.iter().filter(|one| is_undecided(one.outcome));
    let open: Vec<String> = open.map(|one| one.metric.label.clone()).collect();
    let open = if open.is_empty() {
        String::new()
    } else {
        format!("; {} {UNDECIDED}", metrics_in_words(open))
    };
    let doubt = first
        .measured_first()
        .map_or("", |_| "; perhaps the machine");
    let subject = subject(first, &level.name);
    let sentence = format!(
        "{}{subject}: {} than {}{}{open}{doubt}",
        failing(first),
        list(&effects),
        reference.name,
        limited(first)
    );
    Some((size, sentence))
}

/// `4.6 % fewer requests/s`: the effect of a level by the metric of a comparison, if there is one.
fn of_level(comparison: &Comparison, name: &str) -> Option<String> {
    let level = comparison.levels.iter().find(|level| level.name == name)?;
    let difference = level.difference?;
    let ratio = difference.ratio?;
    let is_judged = !matches!(comparison.outcome, Outcome::SetByRate);
    (is_judged && difference.is_found() && comparison.matters(&difference)).then_some(())?;
    let which = match (is_number(&comparison.metric), ratio < 1.0) {
        (true, true) => "fewer",
        (true, false) => "more",
        (false, true) => "lower",
        (false, false) => "higher",
    };
    let size = comparison::percent((ratio - 1.0).abs());
    Some(format!("{size} % {which} {}", comparison.metric.label))
}

/// Of comparisons of one factor in one place without an effect.
fn without_effect(group: &[&Comparison]) -> String {
    let Some(first) = group.first() else {
        return String::new();
    };
    let labels = |is: fn(Outcome) -> bool| {
        let wanted = group.iter().filter(|one| is(one.outcome));
        let labels: Vec<String> = wanted.map(|one| one.metric.label.clone()).collect();
        (!labels.is_empty()).then(|| (labels.len(), metrics_in_words(labels)))
    };
    let levels = levels_in_words(first);
    let same = labels(|it| it == Outcome::Same).map(|(number, metrics)| {
        let verb = if number == 1 { "is" } else { "are" };
        let within = comparison::percent(first.threshold);
        format!("{metrics} {verb} the same within {within} %")
    });
    let open = labels(is_undecided).map(|(number, metrics)| {
        let verb = if number == 1 { "differs" } else { "differ" };
        format!("{UNDECIDED} whether {metrics} {verb} between {levels}")
    });
    let limited = limited(first);
    let found = match (open, same) {
        (Some(open), Some(same)) => format!("{open}{limited}; {same}"),
        (Some(open), None) => format!("{open}{limited}"),
        (None, Some(same)) => format!("{same} between {levels}{limited}"),
        (None, None) if group.iter().any(|one| one.outcome == Outcome::Failing) => {
            format!("no comparison between {levels}")
        }
        (None, None) => match first.outcome {
            Outcome::SetByRate => format!("{} was set by the rate", first.metric.label),
            _ => format!("too few runs to compare {levels}"),
        },
    };
    let place = match first.place.as_slice() {
        [] => String::new(),
        place => format!("{}: ", place.join(", ")),
    };
    match place + &failing(first) {
        names if names.is_empty() => capital(&found),
        names => names + &found,
    }
}

fn limited(comparison: &Comparison) -> &'static str {
    if comparison.is_generator_saturated() {
        ", load generator saturated"
    } else {
        ""
    }
}

/// `bad failed 100 % of its requests; `
fn failing(comparison: &Comparison) -> String {
    let failing: Vec<_> = comparison
        .failing()
        .map(|level| (&level.name, level.failed))
        .collect();
    if failing.is_empty() {
        String::new()
    } else {
        failed_phrase(failing) + "; "
    }
}

/// `php, backlog 4096`
fn subject(comparison: &Comparison, level: &str) -> String {
    let level = match factor_of(comparison) {
        Some(factor) => format!("{factor} {level}"),
        None => level.to_owned(),
    };
    let parts = comparison.place.iter().cloned().chain([level]);
    parts.collect::<Vec<_>>().join(", ")
}

/// The factor, unless its levels are names that say enough.
fn factor_of(comparison: &Comparison) -> Option<&str> {
    let factor = comparison.factor.as_deref();
    factor.filter(|factor| !is_of_files(factor) && *factor != super::runs::TARGET)
}

/// `a and b`, or `7 levels of buffers`
fn levels_in_words(comparison: &Comparison) -> String {
    let levels = &comparison.levels;
    let names: Vec<String> = levels
        .iter()
        .map(|level: &Level| level.name.clone())
        .collect();
    match factor_of(comparison) {
        Some(factor) if names.len() > LISTED_MAX => format!("{} levels of {factor}", names.len()),
        Some(factor) => format!("{factor} {}", list(&names)),
        None if names.len() > LISTED_MAX => format!("{} groups", names.len()),
        None => list(&names),
    }
}

fn metrics_in_words(labels: Vec<String>) -> String {
    match labels.len() {
        0..=LISTED_MAX => list(&labels),
        number => format!("{number} metrics"),
    }
}

#[cfg(test)]
mod tests {
    use analysis::compare::{Difference, FailedShare};

    use super::*;

    fn level(name: &str, ratio: Option<f64>) -> Level {
        Level {
            name: name.to_owned(),
            difference: ratio.map(|ratio| Difference {
                ratio: Some(ratio),
                low: Some(ratio * 0.99),
                high: Some(ratio * 1.01),
                p_value: 0.001,
                adjusted_p_value: 0.001,
                is_same: false,
            }),
            runs: 5,
            median: Some(100.0),
            min: None,
            max: None,
            saturated: 0,
            idle_share: None,
            lower_bounds: 0,
            failed: FailedShare::default(),
            without_own: None,
            explained: None,
        }
    }

    fn comparison(metric: &str, outcome: Outcome, ratio: f64) -> Comparison {
        Comparison {
            factor: Some("target".to_owned()),
            place: Vec::new(),
            metric: Metric::named(metric),
            levels: vec![level("http://h/a", None), level("http://h/b", Some(ratio))],
            p_value: None,
            test: None,
            is_relative: false,
            has_rounds: true,
            timing: None,
            is_sequential: false,
            runs: 5,
            threshold: 0.02,
            detectable: None,
            runs_needed: None,
            fixed_rate: None,
            disagrees: false,
            left_out: Vec::new(),
            outcome,
        }
    }

    fn heading(comparisons: Vec<Comparison>) -> String {
        of_comparisons(&Conclusions {
            comparisons,
            ..Conclusions::default()
        })
    }

    #[test]
    fn a_heading_has_no_percentile_with_too_few_samples_above_it() {
        for (samples, expected) in [
            (1_000, Some(99.0)),
            (999, Some(90.0)),
            (99, Some(50.0)),
            (19, None),
        ] {
            assert_eq!(percentile_with_enough(samples), expected, "{samples}");
        }
    }

    #[test]
    fn an_effect_is_its_level_its_size_and_what_is_left_open() {
        let rate = comparison("requests/s", Outcome::Worse { level: 1 }, 0.954);
        let open = Outcome::Undecided { level: None };
        let p99 = comparison("p99", open, 1.0);
        assert_eq!(
            heading(vec![rate.clone(), p99]),
            "/b: 4.6 % fewer requests/s than /a; p99 latency undecided"
        );
        let slower = comparison("p99", Outcome::Worse { level: 1 }, 1.12);
        assert_eq!(
            heading(vec![rate, slower]),
            "/b: 4.6 % fewer requests/s and 12 % higher p99 latency than /a"
        );
    }

    #[test]
    fn an_undecided_comparison_names_no_winner() {
        let open = Outcome::Undecided { level: Some(1) };
        assert_eq!(
            heading(vec![comparison("requests/s", open, 1.03)]),
            "Undecided whether requests/s differs between /a and /b"
        );
        assert_eq!(
            heading(vec![comparison("requests/s", Outcome::Same, 1.0)]),
            "requests/s is the same within 2 % between /a and /b"
        );
        let few = Outcome::TooFewRuns { needed: 4 };
        assert_eq!(
            heading(vec![comparison("requests/s", few, 1.03)]),
            "Too few runs to compare /a and /b"
        );
    }
}
