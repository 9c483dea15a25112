//! Searches of the highest rate or number of connections: their outcomes, and their runs over it.

use analysis::{SearchRun, SearchSummary};
use presentation::tables::{self, columns, finding, known, table, text, words_column};
use presentation::words::{capital, number, time_us};
use presentation::{Axis, Block, Chart, Height, Mark, Marks, Section, Tone, Unit};
use results::{SearchEnd, SearchOutcome, SearchOver, SearchPhase};

use crate::page::runs::Runs;
use crate::searches::{search_name, search_sentence};

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let searches = runs.subject.searches;
    if searches.is_empty() {
        return None;
    }
    let mut blocks = Vec::new();
    for (number, search) in searches.iter().enumerate() {
        blocks.push(sentence(search, searches.len()));
        blocks.extend(chart(number, search).map(tables::chart));
        blocks.push(runs_table(search));
    }
    let (title, load, what) = match searches.first()?.over() {
        SearchOver::Rate => ("Highest rate", "the rate that was sent", "the rate"),
        SearchOver::Connections => (
            "Most connections",
            "the connections that it had",
            "their number",
        ),
    };
    let lead = format!(
        "Each point is a run: how far its worst condition was from its limit, over {load}. For a \
         percentile or goodput this is the share of requests beyond the limit, compared with the \
         allowed share. Below 0 % the conditions were kept. The curve is the fit, and the band the \
         95 % interval of {what}."
    );
    Some(Section::new("searches", title, &lead, blocks))
}

/// The verdict of a page of searches that are not compared: what each of them found.
pub(super) fn verdict(searches: &[SearchSummary]) -> Section {
    let blocks = searches.iter().map(|it| sentence(it, searches.len()));
    Section::new("verdict", "Verdict", "", blocks.collect())
}

/// The outcome of one of `of` searches.
fn sentence(search: &SearchSummary, of: usize) -> Block {
    let name = search_name(search, of);
    let sentence = format!("{name}{}.", capital(&search_sentence(search)));
    finding(tone(search), sentence, vec![])
}

fn tone(search: &SearchSummary) -> Tone {
    match search.outcome.as_ref().map(|outcome| outcome.end) {
        Some(SearchEnd::Found | SearchEnd::Carried) => Tone::Good,
        Some(SearchEnd::NotCarried | SearchEnd::NotEven) => Tone::Bad,
        Some(SearchEnd::Undecided) => Tone::Undecided,
        Some(SearchEnd::AtLeast) | None => Tone::Warning,
    }
}

/// The excess as a change in percent, limited to the range of the chart.
fn change(excess: f64) -> f64 {
    const CLIP: f64 = 2.0;
    excess.clamp(-CLIP, CLIP).exp_m1() * 100.0
}

/// `None` for a search without a run at a rate.
fn chart(number: usize, search: &SearchSummary) -> Option<Chart> {
    let with_rate = search.runs.iter();
    let with_rate = with_rate.filter_map(|run| Some((run, run.step.load()?)));
    let mut rated: Vec<(&SearchRun, f64)> = with_rate.collect();
    rated.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let (first, last) = (rated.first()?.1, rated.last()?.1);
    let mut marks = Vec::new();
    let outcome = search.outcome.as_ref();
    if let Some([low, high]) = outcome.and_then(SearchOutcome::interval) {
        marks.push(Marks {
            x: vec![low],
            y: vec![None],
            until: vec![high],
            is_faint: true,
            ..Marks::new("95 % interval", Mark::Span, 2)
        });
    }
    if let Some(outcome) = outcome.filter(|outcome| !outcome.curve.is_empty()) {
        let points = outcome.curve.iter();
        let (x, y) = points
            .map(|[rate, excess]| (rate, Some(change(*excess))))
            .unzip();
        marks.push(Marks {
            x,
            y,
            ..Marks::new("fit", Mark::Line, 0)
        });
    }
    marks.push(Marks {
        x: vec![first, last],
        y: vec![Some(0.0); 2],
        is_dashed: true,
        ..Marks::new("limit", Mark::Line, 5)
    });
    for (name, color, wanted) in [
        ("bracket", 3, SearchPhase::Bracket),
        ("measured", 1, SearchPhase::Measure),
        ("confirmed", 4, SearchPhase::Confirm),
        ("checked", 1, SearchPhase::Check),
    ] {
        let mut dots = Marks::new(name, Mark::Dots, color);
        for (run, rate) in rated.iter().filter(|(run, _)| run.step.phase == wanted) {
            dots.push(*rate, run.step.excess.map(change), label(run));
        }
        marks.extend((!dots.x.is_empty()).then_some(dots));
    }
    let over = search.over().name();
    let (label, unit) = match search.over() {
        SearchOver::Rate => ("rate, requests/s", Unit::RequestsPerSec),
        SearchOver::Connections => ("connections", Unit::Count),
    };
    Some(Chart {
        id: format!("search-{number}"),
        title: format!("Distance from the limit over the {over}"),
        description: format!("{}.", capital(&search_sentence(search))),
        x: Axis {
            label: label.to_owned(),
            unit,
            ..Axis::default()
        },
        y: Axis::from_zero("above the limit, %", Unit::ChangePercent),
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
    let mut columns = columns(&["run"], &[search.over().name(), "p50", "p99"]);
    columns.extend([words_column("conditions"), words_column("load generator")]);
    let rows = search.runs.iter().map(|run| {
        vec![
            text(format!(
                "{}, {}",
                run.step.number,
                phase_name(run.step.phase)
            )),
            known(run.step.load(), number),
            known(run.p50_us, time_us),
            known(run.p99_us, time_us),
            text(match run.step.load() {
                None => "",
                Some(_) if !run.is_measured => "no result",
                Some(_) if run.is_kept => "kept",
                Some(_) if run.step.is_spoiled => "not kept, perhaps by the load generator",
                Some(_) => "not kept",
            }),
            text(match (run.is_saturated, run.is_disturbed) {
                (true, _) => "saturated",
                (false, true) => "disturbed",
                (false, false) => "",
            }),
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

#[cfg(test)]
mod tests {
    use analysis::{Observation, TrialFacts};
    use results::{SearchDoubt, SearchStep};

    use super::*;
    use crate::page::{PageSubject, build};
    use presentation::Page;

    fn run(number: u32, is_disturbed: bool) -> SearchRun {
        SearchRun {
            step: SearchStep {
                number,
                phase: SearchPhase::Bracket,
                over: SearchOver::Rate,
                rate_per_sec: Some(100.0 * f64::from(number)),
                duration_ms: 3_000,
                connections: Some(10),
                excess: Some(0.5),
                is_spoiled: is_disturbed,
                carried_per_sec: None,
                not_carried_per_sec: None,
                carried_connections: None,
                not_carried_connections: None,
                outcome: None,
            },
            is_kept: false,
            is_measured: true,
            is_saturated: false,
            is_disturbed,
            shares_cpus: false,
            p50_us: Some(1_000.0),
            p99_us: Some(90_000.0),
            took_ms: 3_000,
        }
    }

    /// A page of one search that found no rate.
    fn page_of(doubt: SearchDoubt) -> Page {
        let cell = Observation {
            source: "found".to_owned(),
            target: Some("127.0.0.1:8090".to_owned()),
            trial: Some(Box::new(TrialFacts {
                started_at: Some("2026-03-01T12:34:56Z".to_owned()),
                ..TrialFacts::default()
            })),
            ..Observation::default()
        };
        let search = SearchSummary {
            cell: cell.clone(),
            round: 1,
            conditions: vec!["p99<20ms".to_owned()],
            outcome: Some(SearchOutcome {
                end: SearchEnd::Undecided,
                rate_per_sec: None,
                interval_per_sec: None,
                connections: None,
                interval_connections: None,
                bound: None,
                doubt: Some(doubt),
                ceiling_per_sec: Some(1_000.0),
                curve: Vec::new(),
                runs_needed: None,
            }),
            runs: vec![run(1, true), run(2, true), run(3, false)],
        };
        let failed = Observation {
            failure: Some("the search has found no rate".to_owned()),
            ..cell
        };
        build(&PageSubject {
            observations: &[failed],
            searches: &[search],
            ..PageSubject::default()
        })
    }

    #[test]
    fn an_undecided_search_is_no_failed_run_and_says_why() {
        let page = page_of(SearchDoubt::Disturbed);
        assert!(
            page.subtitle.contains("2026-03-01 12:34"),
            "{}",
            page.subtitle
        );
        let findings = |section: &Section| {
            let findings = section.blocks.iter().filter_map(|block| match block {
                Block::Finding { tone, text, .. } => Some((*tone, text.clone())),
                _ => None,
            });
            findings.collect::<Vec<_>>()
        };
        let verdict = findings(&page.sections[0]);
        assert_eq!(verdict.len(), 1, "{verdict:?}");
        assert_eq!(verdict[0].0, Tone::Undecided);
        let text = &verdict[0].1;
        assert!(text.starts_with("Undecided"), "{text}");
        assert!(
            text.contains("this machine, not the server, broke the limits"),
            "{text}"
        );
        let all: Vec<_> = page.sections.iter().flat_map(findings).collect();
        assert!(all.iter().all(|(tone, _)| *tone != Tone::Bad), "{all:?}");
        let other = page_of(SearchDoubt::Budget);
        let [(_, text)] = &findings(&other.sections[0])[..] else {
            panic!("one finding");
        };
        assert!(!text.contains("this machine"), "{text}");
    }

    #[test]
    fn the_heading_of_a_search_is_its_answer_and_its_date_is_below() {
        let page = page_of(SearchDoubt::Budget);
        assert_eq!(
            page.title,
            "Undecided how many requests/s are carried with p99 below 20 ms"
        );
        assert!(
            page.subtitle.starts_with("127.0.0.1:8090 \u{b7} ")
                && page.subtitle.ends_with("2026-03-01 12:34:56 UTC"),
            "{}",
            page.subtitle
        );
    }

    #[test]
    fn the_runs_of_a_search_have_units_and_name_disturbed_ones() {
        let page = page_of(SearchDoubt::Disturbed);
        let mut blocks = page.sections.iter().flat_map(|section| &section.blocks);
        let chart = blocks.find_map(|block| match block {
            Block::Charts { charts } => charts.first(),
            _ => None,
        });
        let chart = chart.expect("the runs are drawn");
        assert_eq!(chart.x.label, "rate, requests/s");
        assert_eq!(chart.y.label, "above the limit, %");
        let table = blocks.find_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        });
        let rows = &table.expect("the runs are listed").rows;
        let generator: Vec<&str> = rows.iter().map(|row| row[5].text.as_str()).collect();
        assert_eq!(generator, ["disturbed", "disturbed", ""]);
    }
}
