//! Searches of the highest rate: their outcomes, and their runs over the rate.

use analysis::{SearchRun, SearchSummary};
use results::{SearchEnd, SearchPhase};

use crate::page::runs::Runs;
use crate::page::tables::{columns, finding, known, table, text, words_column};
use crate::page::words::{capital, number, time_us};
use crate::page::{Axis, Block, Chart, Height, Mark, Marks, Section, Tone, Unit};
use crate::searches::{search_name, search_sentence};

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let searches = runs.subject.searches;
    if searches.is_empty() {
        return None;
    }
    let mut blocks = Vec::new();
    for (number, search) in searches.iter().enumerate() {
        let name = search_name(search, searches.len());
        let sentence = format!("{name}{}.", capital(&search_sentence(search)));
        blocks.push(finding(tone(search), sentence, vec![]));
        blocks.extend(chart(number, search).map(|chart| Block::Charts {
            charts: vec![chart],
        }));
        blocks.push(runs_table(search));
    }
    let lead = "Each point is a run: how far its worst condition was from its limit, over the rate \
                that was sent. For a percentile this is the share of requests beyond the limit, \
                compared with the allowed share. Below 0 % the conditions were kept. The curve is \
                the fit, and the band the 95 % interval of the rate.";
    Some(Section::new("searches", "Highest rate", lead, blocks))
}

fn tone(search: &SearchSummary) -> Tone {
    match search.outcome.as_ref().map(|outcome| outcome.end) {
        Some(SearchEnd::Found | SearchEnd::Carried) => Tone::Good,
        Some(SearchEnd::NotCarried | SearchEnd::NotEven) => Tone::Bad,
        Some(SearchEnd::AtLeast | SearchEnd::Undecided) | None => Tone::Warning,
    }
}

/// The excess as a change in percent, limited to the range of the chart.
fn change(excess: f64) -> f64 {
    const CLIP: f64 = 2.0;
    excess.clamp(-CLIP, CLIP).exp_m1() * 100.0
}

/// `None` for a search without a run at a rate.
fn chart(number: usize, search: &SearchSummary) -> Option<Chart> {
    let with_rate = |run: &&SearchRun| run.step.rate_per_sec.is_some();
    let mut rated: Vec<&SearchRun> = search.runs.iter().filter(with_rate).collect();
    rated.sort_by(|a, b| {
        a.step
            .rate_per_sec
            .partial_cmp(&b.step.rate_per_sec)
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let rates: Vec<f64> = rated
        .iter()
        .filter_map(|run| run.step.rate_per_sec)
        .collect();
    let (first, last) = (*rates.first()?, *rates.last()?);
    let mut marks = Vec::new();
    if let Some(outcome) = &search.outcome {
        if let Some([low, high]) = outcome.interval_per_sec {
            marks.push(Marks {
                name: "95 % interval".to_owned(),
                mark: Mark::Span,
                x: vec![low],
                y: vec![None],
                until: vec![high],
                color: 2,
                is_faint: true,
                ..Marks::default()
            });
        }
        if !outcome.curve.is_empty() {
            marks.push(Marks {
                name: "fit".to_owned(),
                mark: Mark::Line,
                x: outcome.curve.iter().map(|[rate, _]| *rate).collect(),
                y: outcome
                    .curve
                    .iter()
                    .map(|[_, excess]| Some(change(*excess)))
                    .collect(),
                color: 0,
                ..Marks::default()
            });
        }
    }
    marks.push(Marks {
        name: "limit".to_owned(),
        mark: Mark::Line,
        x: vec![first, last],
        y: vec![Some(0.0); 2],
        color: 5,
        is_dashed: true,
        ..Marks::default()
    });
    for (name, color, wanted) in [
        ("bracket", 3, SearchPhase::Bracket),
        ("measured", 1, SearchPhase::Measure),
        ("confirmed", 4, SearchPhase::Confirm),
        ("checked", 1, SearchPhase::Check),
    ] {
        let of_phase = || rated.iter().filter(move |run| run.step.phase == wanted);
        if of_phase().next().is_none() {
            continue;
        }
        marks.push(Marks {
            name: name.to_owned(),
            mark: Mark::Dots,
            x: of_phase().filter_map(|run| run.step.rate_per_sec).collect(),
            y: of_phase().map(|run| run.step.excess.map(change)).collect(),
            labels: of_phase().map(|run| label(run)).collect(),
            color,
            ..Marks::default()
        });
    }
    Some(Chart {
        id: format!("search-{number}"),
        title: "Distance from the limit over the rate".to_owned(),
        description: format!("{}.", capital(&search_sentence(search))),
        x: Axis {
            label: "rate".to_owned(),
            unit: Unit::RequestsPerSec,
            ..Axis::default()
        },
        y: Axis::from_zero("above the limit", Unit::ChangePercent),
        marks,
        height: Height::Tall,
        ..Chart::default()
    })
}

fn label(run: &SearchRun) -> String {
    let p99 = run
        .p99_us
        .map_or_else(String::new, |us| format!(", p99 {}", time_us(us)));
    format!("run {}{p99}", run.step.number)
}

fn runs_table(search: &SearchSummary) -> Block {
    let mut columns = columns(&["run"], &["rate", "p50", "p99"]);
    columns.extend([words_column("conditions"), words_column("load generator")]);
    let rows = search.runs.iter().map(|run| {
        vec![
            text(format!(
                "{}, {}",
                run.step.number,
                phase_name(run.step.phase)
            )),
            known(run.step.rate_per_sec, number),
            known(run.p50_us, time_us),
            known(run.p99_us, time_us),
            text(match run.step.rate_per_sec {
                None => "",
                Some(_) if !run.is_measured => "no result",
                Some(_) if run.is_kept => "kept",
                Some(_) if run.step.is_spoiled => "not kept, perhaps by the load generator",
                Some(_) => "not kept",
            }),
            text(if run.is_saturated { "saturated" } else { "" }),
        ]
    });
    table("Runs", columns, rows)
}

fn phase_name(phase: SearchPhase) -> &'static str {
    match phase {
        SearchPhase::Ceiling => "closed loop",
        SearchPhase::Bracket => "bracket",
        SearchPhase::Measure => "measure",
        SearchPhase::Confirm => "confirm",
        SearchPhase::Check => "check",
    }
}
