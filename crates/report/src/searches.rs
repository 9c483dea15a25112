//! Searches of the highest rate, as text.

use std::io::{self, Write};

use analysis::{SearchRun, SearchSummary};
use plan::readable::counted;
use results::{SearchEnd, SearchOutcome, SearchPhase};

use crate::page::words::{list, number};

/// Writes what searches have found: a sentence each, then what confirms and what limits it.
///
/// # Errors
/// Those of the writer.
pub fn render_searches(searches: &[SearchSummary], output: &mut dyn Write) -> io::Result<()> {
    for search in searches {
        let name = search_name(search, searches.len());
        writeln!(output, "{name}{}", search_sentence(search))?;
        for line in details(search) {
            writeln!(output, "  {line}")?;
        }
    }
    Ok(())
}

/// `768 requests/s with p99<20ms (95 % interval 753 to 783; 24 runs of 10 s, 6 min)`
#[must_use]
pub(crate) fn search_sentence(summary: &SearchSummary) -> String {
    let conditions = list(&summary.conditions);
    let runs = runs_phrase(summary);
    let Some(outcome) = &summary.outcome else {
        return format!("not finished: {conditions} ({runs})");
    };
    let rate = number(outcome.rate_per_sec);
    let interval = outcome
        .interval_per_sec
        .map(|[low, high]| format!("{} to {}", number(low), number(high)));
    match outcome.end {
        SearchEnd::Found => {
            let interval = interval.unwrap_or_default();
            format!("{rate} requests/s with {conditions} (95 % interval {interval}; {runs})")
        }
        SearchEnd::AtLeast => format!("at least {rate} requests/s with {conditions} ({runs})"),
        SearchEnd::NotEven if outcome.rate_per_sec > 0.0 => format!(
            "not even {rate} requests/s with {conditions}: the conditions fail at the lowest rate \
             that was tried ({runs})"
        ),
        SearchEnd::NotEven => "no rate to begin with: the closed loop had no response".to_owned(),
        SearchEnd::Carried => format!("{rate} requests/s are carried with {conditions} ({runs})"),
        SearchEnd::NotCarried => {
            format!("{rate} requests/s are not carried with {conditions} ({runs})")
        }
        SearchEnd::Undecided if summary.is_check() => format!(
            "undecided whether {rate} requests/s are carried with {conditions}: the runs disagree \
             ({runs})"
        ),
        SearchEnd::Undecided => match interval {
            Some(interval) => format!(
                "between {} requests/s with {conditions}, not known more exactly ({runs}{})",
                interval.replace(" to ", " and "),
                needed(outcome)
            ),
            None => format!(
                "undecided: the runs do not tell how much is carried with {conditions} ({runs}{})",
                needed(outcome)
            ),
        },
    }
}

/// The levels of a search and its round, if there are several: `connections 64, round 2: `.
pub(crate) fn search_name(summary: &SearchSummary, searches: usize) -> String {
    if searches < 2 {
        return String::new();
    }
    let settings = summary.cell.settings.iter().map(ToString::to_string);
    let names = summary
        .cell
        .profile
        .iter()
        .chain(&summary.cell.target)
        .cloned();
    let round = format!("round {}", summary.round);
    let parts: Vec<String> = settings.chain(names).chain([round]).collect();
    format!("{}: ", parts.join(", "))
}

fn needed(outcome: &SearchOutcome) -> String {
    outcome.runs_needed.map_or_else(String::new, |runs| {
        format!("; about {} more would do", counted(runs.into(), "run"))
    })
}

/// `24 runs of 10 s, 6 min`
fn runs_phrase(summary: &SearchSummary) -> String {
    let counting = |run: &&SearchRun| {
        matches!(
            run.step.phase,
            SearchPhase::Measure | SearchPhase::Confirm | SearchPhase::Check
        )
    };
    let long: Vec<&SearchRun> = summary.runs.iter().filter(counting).collect();
    let count = if long.is_empty() {
        summary.runs.len()
    } else {
        long.len()
    };
    let seconds = long.iter().map(|run| run.step.duration_ms).max();
    let of = seconds.map_or_else(String::new, |ms| {
        format!(" of {} s", number(ms as f64 / 1e3))
    });
    let took_s = summary.took_ms() / 1000;
    let took = match took_s {
        0..120 => format!("{took_s} s"),
        _ => format!("{} min", (took_s + 30) / 60),
    };
    format!("{}{of}, {took}", counted(count as u64, "run"))
}

fn details(summary: &SearchSummary) -> Vec<String> {
    let mut lines = Vec::new();
    let of_phase = |phase| {
        summary
            .runs
            .iter()
            .filter(move |run| run.step.phase == phase)
    };
    if let Some(rate) = of_phase(SearchPhase::Confirm)
        .filter_map(|run| run.step.rate_per_sec)
        .next_back()
    {
        let at = of_phase(SearchPhase::Confirm).filter(|run| run.step.rate_per_sec == Some(rate));
        let (kept, all) = at.fold((0, 0), |(kept, all), run| {
            (kept + usize::from(run.is_kept), all + 1)
        });
        let mut line = format!(
            "confirmed at {}/s: {kept} of {}",
            number(rate),
            counted(all, "run")
        );
        if let Some((rate, failed, of)) = lowest_that_fails(summary) {
            line += &format!("; {}/s failed {failed} of {of}", number(rate));
        }
        lines.push(line);
    }
    if summary.is_check() {
        let (kept, all) = summary.votes(SearchPhase::Check);
        lines.push(format!(
            "the conditions held in {kept} of {}",
            counted(all as u64, "run")
        ));
    }
    if let Some(ceiling) = summary.outcome.as_ref().and_then(|it| it.ceiling_per_sec) {
        let limited = summary.runs.iter().filter(|run| run.is_saturated).count();
        let generator = match limited {
            0 => "load generator not limited".to_owned(),
            limited => format!(
                "load generator saturated in {limited} of {}",
                counted(summary.runs.len() as u64, "run")
            ),
        };
        lines.push(format!(
            "closed loop: {} requests/s; {generator}",
            number(ceiling)
        ));
    }
    lines
}

/// The lowest measured rate above the estimate at which every run failed.
fn lowest_that_fails(summary: &SearchSummary) -> Option<(f64, usize, usize)> {
    let estimate = summary.outcome.as_ref()?.rate_per_sec;
    let mut rates: Vec<f64> = summary
        .runs
        .iter()
        .filter_map(|run| run.step.rate_per_sec)
        .filter(|rate| *rate > estimate)
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates.into_iter().find_map(|rate| {
        let at = || {
            let runs = summary.runs.iter();
            runs.filter(move |run| run.step.rate_per_sec == Some(rate))
        };
        let failed = at().filter(|run| !run.is_kept).count();
        (failed == at().count()).then_some((rate, failed, failed))
    })
}
