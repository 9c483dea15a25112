//! The verdict on a single run, and its most important numbers.

use analysis::Observation;
use judging::ThinPercentiles;
use judging::episodes::{self, Stall};
use judging::sentences::{self, verdict_details, verdict_headline};
use presentation::tables::finding;
use presentation::words::{capital, count, counted, duration_ns, number, percentile};
use presentation::{Block, Figure, Section, Tone, words};
use results::cells;
use results::metric;
use results::{AchievedRate, Finding, Histogram, Metric, Recording, RunResult, Verdict, Warning};

use super::{course, latency_name, latency_text, responses};
use crate::page::curves;
use crate::page::quantities::show;

/// Percentiles in large type.
const SHOWN: [f64; 2] = [50.0, 99.0];

pub(super) fn section(run: &Observation) -> Section {
    let (lead, blocks) = match run.result.as_deref() {
        Some(result) => of_result(run, result),
        None => of_values(run),
    };
    Section::new("verdict", "Verdict", lead, blocks)
}

/// Findings, the most serious first, then the numbers.
fn of_result(run: &Observation, result: &RunResult) -> (String, Vec<Block>) {
    let latency = result.recording.latency();
    let has_headline = has_headline(result);
    let mut blocks: Vec<Block> = Vec::new();
    // Other warnings say the same.
    if let Some(reason) = &run.failure
        && !result.window.interrupted
        && !has_headline
    {
        let text = format!("Excluded from comparisons: {reason}.");
        blocks.push(finding(Tone::Bad, text, vec![]));
    }
    blocks.extend(bad_statuses(result));
    let (tone, text) = judgement(result);
    // The order counts among findings of the same tone.
    let mut findings = vec![finding(tone, text, symptoms(result))];
    let at = if has_headline { 0 } else { findings.len() };
    findings.splice(at..at, warnings(result));
    blocks.extend(findings);
    let notes = [
        sentences::settled(result),
        sentences::shared_connections(result),
    ];
    blocks.extend(
        notes
            .into_iter()
            .flatten()
            .map(|note| finding(Tone::Neutral, words::sentence(&note), vec![])),
    );
    blocks.extend(course::finding_of(result, &latency));
    blocks.extend(failures(result));
    let mut figures = figures(result, &latency);
    if has_headline {
        without_praise(&mut blocks, &mut figures);
    }
    blocks.sort_by_key(urgency);
    blocks.push(Block::Figures { figures });
    let nothing_good = responses::nothing_good(result).unwrap_or_default();
    let lead = words::sentences([nothing_good.as_str(), &headline(result, &latency)]);
    (lead, blocks)
}

/// The verdict on a run of which only a report's numbers are known.
fn of_values(run: &Observation) -> (String, Vec<Block>) {
    let block = match &run.failure {
        Some(reason) => finding(Tone::Bad, format!("The run failed: {reason}."), vec![]),
        None => {
            let text = "Only the numbers of a report are known: no histogram, nothing over time, \
                        nothing about the load generator.";
            finding(Tone::Neutral, text, vec![format!("From {}", run.source)])
        }
    };
    let p50 = metric::percentile("latency", 50.0);
    let p99 = metric::percentile("latency", 99.0);
    let known = [
        (metric::REQUESTS_PER_SEC, "Requests/s"),
        (metric::LATENCY_MEAN_US, "Mean latency"),
        (&p50, "p50"),
        (&p99, "p99"),
        ("latency_max_us", "Slowest"),
        (metric::ERRORS, "Errors"),
        (metric::STATUSES_OVER_399, "Status above 399"),
        (metric::BYTES_PER_SEC, "Throughput"),
    ];
    let over_399 = run.values.get(metric::STATUSES_OVER_399);
    let has_bad_statuses = over_399.is_some_and(|responses| *responses > 0.0);
    let figure = |(name, label): (&str, &str)| {
        let value = *run.values.get(name)?;
        (name != metric::ERRORS || value > 0.0 || !has_bad_statuses).then_some(())?;
        let is_trouble = [metric::ERRORS, metric::STATUSES_OVER_399].contains(&name);
        let tone = match (is_trouble, value > 0.0) {
            (false, _) => Tone::Neutral,
            (true, true) => Tone::Bad,
            (true, false) => Tone::Good,
        };
        Some(Figure::new(label, show(name, value), "", tone))
    };
    let figures: Vec<Figure> = known.into_iter().filter_map(figure).collect();
    let shown = |name: &str| Some(show(name, *run.values.get(name)?));
    let parts = [
        shown(metric::REQUESTS_PER_SEC).map(|rate| format!("{rate} requests/s")),
        shown(&p50).map(|p50| format!("p50 {p50}")),
        shown(&p99).map(|p99| format!("p99 {p99}")),
    ];
    let headline = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let mut blocks = vec![block];
    if !figures.is_empty() {
        blocks.push(Block::Figures { figures });
    }
    (words::sentences([headline.as_str()]), blocks)
}

/// The verdict on the load generator in one sentence.
pub(super) fn judgement(result: &RunResult) -> (Tone, String) {
    let verdict = &result.generator.verdict;
    let tone = match verdict {
        // Without responses there are no numbers to trust.
        Verdict::Undisturbed if result.has_answers() => Tone::Good,
        verdict => super::tone_of(verdict),
    };
    (tone, format!("{}.", capital(&verdict_headline(verdict))))
}

fn symptoms(result: &RunResult) -> Vec<String> {
    let verdict = &result.generator.verdict;
    let remedy = verdict.evidence().1;
    let details = verdict_details(verdict).into_iter();
    details
        .chain((!remedy.is_empty()).then(|| remedy.to_owned()))
        .map(|detail| capital(&detail))
        .collect()
}

fn has_headline(result: &RunResult) -> bool {
    result
        .warnings
        .iter()
        .any(|warning| warning.data.is_headline())
}

fn urgency(block: &Block) -> u8 {
    match block {
        Block::Finding { tone, .. } => match tone {
            Tone::Bad | Tone::Worse => 0,
            Tone::Warning => 1,
            Tone::Neutral | Tone::Same | Tone::Undecided => 2,
            Tone::Good | Tone::Better => 3,
        },
        _ => 4,
    }
}

/// Removes the mark of good numbers from the page of a run without a successful response.
fn without_praise(blocks: &mut [Block], figures: &mut [Figure]) {
    let tones = blocks.iter_mut().filter_map(|block| match block {
        Block::Finding { tone, .. } => Some(tone),
        _ => None,
    });
    let tones = tones.chain(figures.iter_mut().map(|figure| &mut figure.tone));
    for tone in tones.filter(|tone| **tone == Tone::Good) {
        *tone = Tone::Neutral;
    }
}

/// `2,031 requests/s over 3 s; p50 5.45 ms, p99 1.39 s, slowest 1.5 s.`
fn headline(result: &RunResult, latency: &Histogram) -> String {
    let window = duration_ns(result.window.duration_ns);
    if result.recording.counters.responses() == 0 {
        return match &result.recording.parts.events {
            Some(events) if events.arrived > 0 => format!(
                "{} events/s over {window}; no stream was complete.",
                number(result.per_sec(events.arrived))
            ),
            _ => format!("No request was answered in {window}."),
        };
    }
    let rate = number(result.requests_per_sec());
    let speed = match AchievedRate::of(result) {
        Some(achieved) => format!(
            "{rate} requests/s over {window}, of {} requested",
            number(achieved.asked_per_sec)
        ),
        None => format!("{rate} requests/s over {window}"),
    };
    if latency.is_empty() {
        return format!("{speed}.");
    }
    let samples = result.recording.latency_samples();
    let value = |percent| latency_text(samples.percentile(percent));
    let shown = SHOWN.map(|percent| format!("{} {}", percentile(percent), value(percent)));
    let slowest = value(100.0);
    format!("{speed}; {}, slowest {slowest}.", shown.join(", "))
}

/// The warnings about a run, and percentiles with too few samples.
pub(super) fn warnings(result: &RunResult) -> Vec<Block> {
    let tone = |warning: &Warning| match warning {
        warning if warning.is_headline() => Tone::Bad,
        Warning::InconsistentSchedule { .. } | Warning::InconsistentConcurrency { .. } => Tone::Bad,
        _ => Tone::Warning,
    };
    let warnings = result.warnings.iter();
    let mut blocks: Vec<Block> = warnings
        .map(|warning| finding(tone(&warning.data), words::sentence(&warning.text), vec![]))
        .collect();
    if result.window.interrupted {
        let text = "The run was stopped early by Ctrl-C: its window is shorter than planned, and \
                    it is excluded from comparisons.";
        blocks.push(finding(Tone::Warning, text, vec![]));
    }
    if result.window.is_hopeless {
        let text = "The search ended the run early because it was certain to miss the conditions \
                    by far: its window is shorter than planned.";
        blocks.push(finding(Tone::Neutral, text, vec![]));
    }
    let says_few = |warning: &Finding<Warning>| matches!(warning.data, Warning::FewSamples { .. });
    let samples = result.recording.latency().count();
    if let Some(thin) = ThinPercentiles::among(&SHOWN, samples)
        && !result.warnings.iter().any(says_few)
    {
        blocks.push(finding(
            Tone::Warning,
            words::sentence(&thin.to_string()),
            vec![],
        ));
    }
    blocks
}

/// `8 requests failed (0.04 % of those sent)`; `None` without any.
pub(crate) fn lost_requests(recording: &Recording) -> Option<String> {
    let lost = recording.errors.exchanges();
    let share = words::share(lost, recording.counters.sent);
    (lost > 0).then(|| {
        format!(
            "{} failed ({share} of those sent)",
            counted(lost, "request")
        )
    })
}

/// That a notable share of the responses had a bad status, unless a warning says that all had.
fn bad_statuses(result: &RunResult) -> Option<Block> {
    let text = responses::statuses_in_words(&result.recording)?;
    let counts = vec![crate::text::counts_by_status(result)];
    let has_headline = has_headline(result);
    (!has_headline).then(|| finding(Tone::Bad, format!("{text}."), counts))
}

/// Failed requests and bad statuses, or that there were none.
fn failures(result: &RunResult) -> Option<Block> {
    let recording = &result.recording;
    let counters = &recording.counters;
    if counters.answered == 0 && recording.errors.events() == 0 {
        return None;
    }
    let details = crate::text::error_notes(result);
    let over_399 = recording.statuses.over_399();
    let mut found = Vec::new();
    if let Some(lost) = lost_requests(recording) {
        found.push(lost);
    } else if !details.is_empty() {
        let errors = counted(recording.errors.events(), "error");
        found.push(format!("{errors} without a lost request"));
    }
    let has_headline = has_headline(result);
    let is_said = has_headline || responses::statuses_in_words(recording).is_some();
    if over_399 > 0 && !is_said {
        let share = words::share(over_399, counters.answered);
        let responses = counted(over_399, "response");
        found.push(format!("{responses} had a status above 399 ({share})"));
    }
    if !found.is_empty() {
        let text = capital(&format!("{}.", words::list(&found)));
        return Some(finding(Tone::Warning, text, details));
    }
    let responses = counted(counters.answered, "response");
    let text = format!("No request failed: all {responses} had a status below 400.");
    (!is_said).then(|| finding(Tone::Good, text, vec![]))
}

/// The metrics of tokens, and the share of good requests.
fn of_tokens(result: &RunResult) -> impl Iterator<Item = Figure> {
    metric::of_tokens().into_iter().filter_map(|name| {
        let of = Metric::named(&name);
        let known = of.of(result)?;
        let text = cells::measured(Some(known), |value| show(&name, value)).text;
        let tone = if known.enough_samples {
            Tone::Neutral
        } else {
            Tone::Warning
        };
        let limits = result
            .plan
            .good
            .as_ref()
            .filter(|_| name == metric::GOODPUT);
        let limits = limits.map_or_else(String::new, ToString::to_string);
        Some(Figure::new(capital(&of.label), text, limits, tone))
    })
}

fn figures(result: &RunResult, latency: &Histogram) -> Vec<Figure> {
    let stalls = episodes::stalls_of(result);
    let sparks = Sparks::of(result, &stalls);
    let recording = &result.recording;
    let counters = &recording.counters;
    let responses = counted(counters.responses(), "response");
    let mut figures = vec![Figure {
        spark: sparks.requests.clone(),
        ..Figure::new(
            "Requests/s",
            number(result.requests_per_sec()),
            format!("{responses} in {}", duration_ns(result.window.duration_ns)),
            Tone::Neutral,
        )
    }];
    figures.extend(AchievedRate::of(result).map(|achieved| achieved_figure(result, achieved)));
    figures.extend(of_tokens(result));
    for percent in SHOWN {
        figures.push(Figure {
            spark: sparks.of_percentile(percent),
            ..percentile_figure(result, latency, percent)
        });
    }
    let slowest = latency_text(recording.latency_samples().percentile(100.0));
    let samples = match latency.count() {
        0 => "no samples".to_owned(),
        samples => format!("of {}", counted(samples, "sample")),
    };
    figures.push(Figure::new("Slowest", slowest, samples, Tone::Neutral));
    let statuses = status_figure(recording);
    figures.extend(lost_figure(recording, statuses.is_some()));
    match responses::statuses_in_words(recording) {
        Some(_) => figures.splice(0..0, statuses).for_each(drop),
        None => figures.extend(statuses),
    }
    let bytes = counters.bytes as f64;
    let note = match counters.responses() {
        0 => words::bytes(bytes),
        responses => format!(
            "{} per response on average",
            words::bytes(bytes / responses as f64)
        ),
    };
    let throughput = words::bytes_per_sec(result.bytes_per_sec());
    figures.push(Figure::new("Throughput", throughput, note, Tone::Neutral));
    figures
}

/// The number of failed requests. There is none to praise if other requests had a bad status.
fn lost_figure(recording: &Recording, has_bad_statuses: bool) -> Option<Figure> {
    let (lost, events) = (recording.errors.exchanges(), recording.errors.events());
    let sent = recording.counters.sent;
    let note = match events {
        0 => format!("of {} sent", count(sent)),
        _ => {
            let share = words::share(lost, sent);
            format!("{share} of those sent, {}", counted(events, "error"))
        }
    };
    let tone = match (lost, events) {
        (0, 0) if has_bad_statuses => return None,
        (0, 0) => Tone::Good,
        (0, _) => Tone::Warning,
        _ => Tone::Bad,
    };
    Some(Figure::new("Failed requests", count(lost), note, tone))
}

fn status_figure(recording: &Recording) -> Option<Figure> {
    let over_399 = recording.statuses.over_399();
    let share = words::share(over_399, recording.counters.answered);
    let note = format!("{share} of the responses");
    let figure = Figure::new("Status above 399", count(over_399), note, Tone::Bad);
    (over_399 > 0).then_some(figure)
}

/// Values over the window for the small lines below large numbers.
struct Sparks {
    requests: Vec<Option<f64>>,
    p50: Vec<Option<f64>>,
    /// The highest percentile for which most steps have enough samples.
    high: Option<(f64, Vec<Option<f64>>)>,
}

impl Sparks {
    const POINTS_MAX: usize = 60;

    fn of(result: &RunResult, stalls: &[Stall]) -> Self {
        let latency = curves::latencies(result, stalls, Self::POINTS_MAX);
        let rates = curves::rates(result, Self::POINTS_MAX as u64);
        Self {
            requests: rates.requests_per_sec.y,
            p50: latency.p50.y,
            high: latency.high.map(|(percent, curve)| (percent, curve.y)),
        }
    }

    fn of_percentile(&self, percent: f64) -> Vec<Option<f64>> {
        match &self.high {
            _ if percent == 50.0 => self.p50.clone(),
            Some((high, values)) if *high == percent => values.clone(),
            _ => Vec::new(),
        }
    }
}

fn achieved_figure(result: &RunResult, achieved: AchievedRate) -> Figure {
    let AchievedRate {
        asked_per_sec,
        sent_per_sec,
        sent_percent,
        ..
    } = achieved;
    let sent = sent_percent.map_or_else(
        || "no request was due".to_owned(),
        |percent| {
            format!(
                "{} of the due requests were sent",
                words::percent(percent / 100.0)
            )
        },
    );
    let note = format!("target {}; {sent}", number(asked_per_sec));
    let tone = match result.recording.counters.unsent {
        0 => Tone::Good,
        _ if sent_percent.is_some_and(|percent| percent < 99.0) => Tone::Bad,
        _ => Tone::Neutral,
    };
    Figure::new("Sent/s", number(sent_per_sec), note, tone)
}

fn percentile_figure(result: &RunResult, latency: &Histogram, percent: f64) -> Figure {
    let kind = latency_name(result);
    let thin = ThinPercentiles::among(&[percent], latency.count());
    let (note, tone) = match thin.as_ref().and_then(|thin| thin.rows.first()) {
        Some((_, above)) => (
            format!("{kind}; only {} above it", counted(*above, "sample")),
            Tone::Warning,
        ),
        None => (kind.to_owned(), Tone::Neutral),
    };
    let samples = result.recording.latency_samples();
    let value = latency_text(samples.percentile(percent));
    Figure::new(percentile(percent), value, note, tone)
}
