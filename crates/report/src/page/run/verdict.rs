//! What is to be thought of a run, and its numbers that matter most.

use analysis::Observation;
use analysis::story::Stall;
use judging::ThinPercentiles;
use results::{AchievedRate, Finding, Histogram, Recording, RunResult, Warning};

use super::{generator, outcome, story};
use crate::page::curves;
use crate::page::tables::finding;
use crate::page::{Block, Figure, Section, Tone, words};

/// Of the percentiles that are shown in large type.
const SHOWN: [f64; 2] = [50.0, 99.0];

/// First the sentence, then what speaks against it, then the numbers.
pub(super) fn section(run: &Observation, result: &RunResult, stalls: &[Stall]) -> Section {
    let latency = result.recording.latency();
    let has_headline = result
        .warnings
        .iter()
        .any(|warning| warning.data.is_headline());
    let mut blocks: Vec<Block> = run
        .failure
        .iter()
        // A warning of its own says these.
        .filter(|_| !result.window.interrupted && !has_headline)
        .map(|reason| {
            finding(
                Tone::Bad,
                format!("No comparison counts this run: {reason}."),
                vec![],
            )
        })
        .collect();
    // What was not measured matters more than who was the limit of it.
    if has_headline {
        blocks.extend(warnings(result));
        blocks.push(generator::finding_of(result));
    } else {
        blocks.push(generator::finding_of(result));
        blocks.extend(warnings(result));
    }
    blocks.extend(story::finding_of(result, &latency));
    blocks.extend(failures(result));
    let mut figures = figures(result, &latency, stalls);
    if has_headline {
        without_praise(&mut blocks, &mut figures);
    }
    blocks.sort_by_key(urgency);
    blocks.push(Block::Figures { figures });
    Section {
        id: "verdict".to_owned(),
        title: "Verdict".to_owned(),
        lead: words::sentences([
            outcome::nothing_good(result).as_deref().unwrap_or_default(),
            &headline(result, &latency),
        ]),
        blocks,
        is_folded: false,
    }
}

/// What is bad stands first; what is alike keeps its order.
fn urgency(block: &Block) -> u8 {
    match block {
        Block::Finding { tone, .. } => match tone {
            Tone::Bad | Tone::Worse => 0,
            Tone::Warning => 1,
            Tone::Neutral | Tone::Same | Tone::NoEffect => 2,
            Tone::Good | Tone::Better => 3,
        },
        _ => 4,
    }
}

/// Nothing about a run is praised in which no request had what it asked for.
fn without_praise(blocks: &mut [Block], figures: &mut [Figure]) {
    let tones = blocks
        .iter_mut()
        .filter_map(|block| match block {
            Block::Finding { tone, .. } => Some(tone),
            _ => None,
        })
        .chain(figures.iter_mut().map(|figure| &mut figure.tone));
    for tone in tones.filter(|tone| **tone == Tone::Good) {
        *tone = Tone::Neutral;
    }
}

/// The run in two sentences.
fn headline(result: &RunResult, latency: &Histogram) -> String {
    let window = words::duration_ns(result.window.duration_ns);
    let rate = words::number(result.requests_per_sec());
    if result.recording.counters.answered == 0 {
        return format!("Nothing was answered in {window}.");
    }
    let speed = match AchievedRate::of(result) {
        Some(achieved) => format!(
            "{rate} requests/s were answered over {window}, of {} that were asked for.",
            words::number(achieved.asked_per_sec)
        ),
        None => format!("{rate} requests/s over {window}."),
    };
    if latency.is_empty() {
        return speed;
    }
    let bounds = result.recording.lower_bounds(&SHOWN);
    let known = |at: usize, less: &str, more: &str| {
        let value = words::time_ns(latency.value_at_percentile(SHOWN[at]));
        if bounds[at] {
            format!("{more} {value} or more")
        } else {
            format!("{less} {value} or less")
        }
    };
    let half = known(0, "took", "took");
    let most = known(1, "99 %", "1 %");
    let or_more = if result.recording.max_is_of_unanswered() {
        " or more"
    } else {
        ""
    };
    let slowest = words::time_ns(latency.max_ns().unwrap_or(0));
    format!("{speed} Half of the requests {half}, {most}, the slowest {slowest}{or_more}.")
}

/// A latency of which only a lower bound may be known.
pub(super) fn bounded(value_ns: u64, is_bound: bool) -> String {
    let value = words::time_ns(value_ns);
    if is_bound {
        format!("\u{2265} {value}")
    } else {
        value
    }
}

/// The doubts about a run, and which percentiles are mostly chance.
pub(crate) fn warnings(result: &RunResult) -> Vec<Block> {
    let tone = |warning: &Warning| match warning {
        warning if warning.is_headline() => Tone::Bad,
        Warning::InconsistentSchedule { .. } | Warning::InconsistentConcurrency { .. } => Tone::Bad,
        _ => Tone::Warning,
    };
    let mut blocks: Vec<Block> = result
        .warnings
        .iter()
        .map(|warning| finding(tone(&warning.data), capital(&warning.text), vec![]))
        .collect();
    if result.window.interrupted {
        blocks.push(finding(
            Tone::Warning,
            "The run was ended early, by Ctrl-C: its numbers are those of a shorter time than was planned, and no \
             comparison counts it.",
            vec![],
        ));
    }
    let says_few = |warning: &Finding<Warning>| matches!(warning.data, Warning::FewSamples { .. });
    let samples = result.recording.latency().count();
    if let Some(thin) = ThinPercentiles::among(&SHOWN, samples)
        && !result.warnings.iter().any(says_few)
    {
        blocks.push(finding(Tone::Warning, capital(&thin.to_string()), vec![]));
    }
    blocks
}

/// `8 requests failed (0.04 % of those sent)`; `None` without any.
pub(crate) fn lost_requests(recording: &Recording) -> Option<String> {
    let lost = recording.errors.exchanges();
    let (noun, share) = (
        words::counted(lost, "request"),
        words::share(lost, recording.counters.sent),
    );
    (lost > 0).then(|| format!("{noun} failed ({share} of those sent)"))
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
        found.push(format!(
            "{} without a lost request",
            words::counted(recording.errors.events(), "error")
        ));
    }
    let has_headline = result
        .warnings
        .iter()
        .any(|warning| warning.data.is_headline());
    if over_399 > 0 && !has_headline {
        let (noun, share) = (
            words::counted(over_399, "answer"),
            words::share(over_399, counters.answered),
        );
        found.push(format!("{noun} had a status above 399 ({share})"));
    }
    if found.is_empty() && has_headline {
        return None;
    }
    if found.is_empty() {
        let text = format!(
            "No request failed: all {} had a status below 400.",
            words::counted(counters.answered, "answer")
        );
        return Some(finding(Tone::Good, text, vec![]));
    }
    let text = capital(&format!("{}.", words::list(&found)));
    Some(finding(Tone::Warning, text, details))
}

fn figures(result: &RunResult, latency: &Histogram, stalls: &[Stall]) -> Vec<Figure> {
    let sparks = Sparks::of(result, stalls);
    let recording = &result.recording;
    let counters = &recording.counters;
    let window = words::duration_ns(result.window.duration_ns);
    let mut figures = vec![Figure {
        label: "Requests/s".to_owned(),
        value: words::number(result.requests_per_sec()),
        note: format!(
            "{} in {window}",
            words::counted(counters.answered, "answer")
        ),
        tone: Tone::Neutral,
        spark: sparks.requests.clone(),
    }];
    if let Some(achieved) = AchievedRate::of(result) {
        figures.push(achieved_figure(result, achieved));
    }
    let kind = latency_name(result);
    for percent in SHOWN {
        figures.push(Figure {
            spark: sparks.of_percentile(percent),
            ..percentile_figure(result, latency, percent, kind)
        });
    }
    figures.push(Figure {
        label: "Slowest".to_owned(),
        value: latency.max_ns().map_or_else(unknown, |max_ns| {
            bounded(max_ns, recording.max_is_of_unanswered())
        }),
        note: match latency.count() {
            0 => "no sample".to_owned(),
            count => format!("of {}", words::counted(count, "sample")),
        },
        tone: Tone::Neutral,
        ..Figure::default()
    });
    let lost = recording.errors.exchanges();
    let events = recording.errors.events();
    figures.push(Figure {
        label: "Failed requests".to_owned(),
        value: words::count(lost),
        note: match events {
            0 => format!("of {} sent", words::count(counters.sent)),
            _ => format!(
                "{} of those sent, {}",
                words::share(lost, counters.sent),
                words::counted(events, "error")
            ),
        },
        tone: match (lost, events) {
            (0, 0) if recording.statuses.over_399() > 0 => Tone::Neutral,
            (0, 0) => Tone::Good,
            (0, _) => Tone::Warning,
            _ => Tone::Bad,
        },
        ..Figure::default()
    });
    let over_399 = recording.statuses.over_399();
    if over_399 > 0 {
        figures.push(Figure {
            label: "Status above 399".to_owned(),
            value: words::count(over_399),
            note: format!(
                "{} of the answers",
                words::share(over_399, counters.answered)
            ),
            tone: Tone::Bad,
            ..Figure::default()
        });
    }
    figures.push(Figure {
        label: "Throughput".to_owned(),
        value: words::bytes_per_sec(result.bytes_per_sec()),
        note: match counters.answered {
            0 => format!("{} in all", words::bytes(counters.bytes as f64)),
            answered => format!(
                "{} per answer on average",
                words::bytes(counters.bytes as f64 / answered as f64)
            ),
        },
        tone: Tone::Neutral,
        ..Figure::default()
    });
    figures
}

/// How the figures in large type went over the window.
struct Sparks {
    requests: Vec<Option<f64>>,
    p50: Vec<Option<f64>>,
    /// Of the percentile that the intervals have samples enough for.
    high: Option<(f64, Vec<Option<f64>>)>,
}

impl Sparks {
    /// Points of a line that is so small.
    const POINTS_MAX: usize = 60;

    fn of(result: &RunResult, stalls: &[Stall]) -> Self {
        let latency = curves::latencies_in(result, stalls, Self::POINTS_MAX);
        Self {
            requests: curves::rates_in(result, Self::POINTS_MAX as u64)
                .requests_per_sec
                .y,
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
        || "nothing was due".to_owned(),
        |percent| {
            format!(
                "{} of what was due was sent",
                words::percent(percent / 100.0)
            )
        },
    );
    Figure {
        label: "Sent/s".to_owned(),
        value: words::number(sent_per_sec),
        note: format!("{} asked for; {sent}", words::number(asked_per_sec)),
        tone: match result.recording.counters.unsent {
            0 => Tone::Good,
            _ if sent_percent.is_some_and(|percent| percent < 99.0) => Tone::Bad,
            _ => Tone::Neutral,
        },
        ..Figure::default()
    }
}

fn percentile_figure(result: &RunResult, latency: &Histogram, percent: f64, kind: &str) -> Figure {
    let thin = ThinPercentiles::among(&[percent], latency.count());
    let (note, tone) = match thin.as_ref().and_then(|thin| thin.rows.first()) {
        Some((_, above)) => (
            format!("{kind}; only {} above it", words::counted(*above, "sample")),
            Tone::Warning,
        ),
        None => (kind.to_owned(), Tone::Neutral),
    };
    Figure {
        label: words::percentile(percent),
        value: if latency.is_empty() {
            unknown()
        } else {
            let is_bound = result.recording.lower_bounds(&[percent]).contains(&true);
            bounded(latency.value_at_percentile(percent), is_bound)
        },
        note,
        tone,
        ..Figure::default()
    }
}

/// What the run's latency is.
pub(super) fn latency_name(result: &RunResult) -> &'static str {
    if result.recording.counters.due == 0 {
        "service time"
    } else {
        "response time"
    }
}

fn unknown() -> String {
    words::UNKNOWN.to_owned()
}

/// With a capital letter at its begin.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}
