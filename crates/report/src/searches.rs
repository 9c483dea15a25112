//! Searches of the highest rate or number of connections, as text.

use std::io::{self, Write};

use analysis::{SearchRun, SearchSummary};
use plan::readable::counted;
use presentation::words::{list, number};
use results::{SearchBound, SearchDoubt, SearchEnd, SearchOutcome, SearchOver, SearchPhase};

use crate::sweep::cell_words;

/// Writes the outcome of each search in a sentence, then what confirms it and what limits it.
///
/// # Errors
///
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

/// `768 requests/s with p99 below 20 ms`
pub(crate) fn search_headline(summary: &SearchSummary) -> String {
    let conditions = summary.conditions.iter();
    let conditions: Vec<String> = conditions.map(|it| condition_in_words(it)).collect();
    let conditions = list(&conditions);
    let over = summary.over();
    let load = summary.outcome.as_ref().and_then(SearchOutcome::load);
    let load = load.map(|it| load_in_words(over, it)).unwrap_or_default();
    let range = so_far(over, summary.range()).map(|range| format!(", {range}"));
    let range = range.unwrap_or_default();
    match summary.outcome.as_ref().map(|outcome| outcome.end) {
        None => format!("search not finished{range} with {conditions}"),
        Some(SearchEnd::Found) => format!("{load} with {conditions}"),
        Some(SearchEnd::AtLeast) => format!("at least {load} with {conditions}"),
        Some(SearchEnd::NotEven) => format!("not even {load} with {conditions}"),
        Some(SearchEnd::Carried) => format!("{load} are carried with {conditions}"),
        Some(SearchEnd::NotCarried) => {
            format!("{load} are not carried with {conditions}")
        }
        Some(SearchEnd::Undecided) if summary.is_check() => {
            format!("undecided whether {load} are carried with {conditions}")
        }
        Some(SearchEnd::Undecided) => {
            format!(
                "undecided how many {} are carried with {conditions}{range}",
                unit(over)
            )
        }
    }
}

/// A condition as typed, `p99<20ms`, as `p99 below 20 ms`.
fn condition_in_words(condition: &str) -> String {
    const OPERATORS: [(&str, &str); 5] = [
        ("<=", "at most"),
        (">=", "at least"),
        ("<", "below"),
        (">", "above"),
        ("=", "of"),
    ];
    let found = OPERATORS.iter().find_map(|(operator, word)| {
        let (name, limit) = condition.split_once(operator)?;
        let limit = limit.trim();
        let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
        let unit = limit.trim_start_matches(is_number);
        let number = limit.strip_suffix(unit).unwrap_or(limit);
        let text = format!("{} {word} {number} {}", name.trim(), unit.trim());
        Some(text.trim_end().to_owned())
    });
    found.unwrap_or_else(|| condition.to_owned())
}

/// `768 requests/s with p99<20ms (95 % interval 753 to 783; 24 runs of 10 s, 6 min)`
#[must_use]
pub(crate) fn search_sentence(summary: &SearchSummary) -> String {
    let conditions = list(&summary.conditions);
    let runs = runs_phrase(summary);
    let over = summary.over();
    let range = so_far(over, summary.range()).map(|range| format!(", {range}"));
    let range = range.unwrap_or_default();
    let Some(outcome) = &summary.outcome else {
        return format!("not finished{range} with {conditions} ({runs})");
    };
    let load = outcome.load().map(|it| load_in_words(over, it));
    let load = load.unwrap_or_default();
    match outcome.end {
        SearchEnd::Found => {
            let interval = outcome
                .interval()
                .map(|[low, high]| format!("95 % interval {} to {}; ", number(low), number(high)));
            format!(
                "{load} with {conditions} ({}{runs}{})",
                interval.unwrap_or_default(),
                needed(outcome)
            )
        }
        SearchEnd::AtLeast => format!(
            "at least {load} with {conditions}{} ({runs})",
            bound(summary, outcome)
        ),
        SearchEnd::NotEven => format!(
            "not even {load} with {conditions}: the conditions fail at the lowest \
             {} that was tried ({runs})",
            match over {
                SearchOver::Rate => "rate",
                SearchOver::Connections => "number",
            }
        ),
        SearchEnd::Carried => format!("{load} are carried with {conditions} ({runs})"),
        SearchEnd::NotCarried => {
            format!("{load} are not carried with {conditions} ({runs})")
        }
        SearchEnd::Undecided if summary.is_check() => {
            let why = match summary.runs.iter().any(|run| run.step.is_spoiled) {
                _ if outcome.doubt == Some(SearchDoubt::Disturbed) => THIS_MACHINE,
                true => "the load generator spoiled runs",
                false => "the runs disagree",
            };
            format!("undecided whether {load} are carried with {conditions}: {why} ({runs})")
        }
        SearchEnd::Undecided => format!(
            "undecided{range} with {conditions}: {} ({runs})",
            doubt(summary, outcome.doubt)
        ),
    }
}

/// Why no higher rate was tried: `, limited by its 100 connections`.
fn bound(summary: &SearchSummary, outcome: &SearchOutcome) -> String {
    let connections = summary.connections().map(|(_, last)| last);
    match outcome.bound {
        Some(SearchBound::Generator) => ", limited by the load generator".to_owned(),
        Some(SearchBound::Connections) => {
            let number = connections.map_or_else(String::new, |it| format!("{it} "));
            format!(", limited by the {number}connections of the load generator (-c)")
        }
        Some(SearchBound::ClosedLoop) => {
            let makes = outcome.ceiling_per_sec.map_or_else(String::new, |it| {
                format!(", which makes {} requests/s", number(it))
            });
            format!(", limited by the closed loop{makes}")
        }
        Some(SearchBound::Most) => ", the most that were allowed (--max-connections)".to_owned(),
        None => String::new(),
    }
}

/// `768 requests/s`, `24 connections`
pub(crate) fn load_in_words(over: SearchOver, load: f64) -> String {
    match over {
        SearchOver::Rate => format!("{} requests/s", number(load)),
        SearchOver::Connections => counted(load as u64, "connection"),
    }
}

fn unit(over: SearchOver) -> &'static str {
    match over {
        SearchOver::Rate => "requests/s",
        SearchOver::Connections => "connections",
    }
}

/// Why there is no answer if disturbances spoiled runs one after the other.
const THIS_MACHINE: &str = "this machine, not the server, broke the limits: the load generator was \
                            disturbed in three runs in a row";

/// Why there is no answer.
fn doubt(summary: &SearchSummary, doubt: Option<SearchDoubt>) -> String {
    match doubt {
        Some(SearchDoubt::NoResponse) => "the closed loop had no good response",
        Some(SearchDoubt::Generator) => {
            "the load generator was the bottleneck or disturbed every run that failed"
        }
        Some(SearchDoubt::Disturbed) => THIS_MACHINE,
        Some(SearchDoubt::Lost) => "several runs in a row had no result",
        Some(SearchDoubt::Drift {
            change_percent,
            interval_percent,
            seconds,
        }) => return changed(summary, (change_percent, interval_percent), seconds),
        Some(SearchDoubt::Budget) | None => "the budget ended before there was an interval",
    }
    .to_owned()
}

/// `the server may have changed while it was measured: what it carries fell by about 6.1 %
/// (95 % interval 2 to 10 %) in 5 min`, and what else may have.
fn changed(
    summary: &SearchSummary,
    (percent, interval): (f64, Option<[f64; 2]>),
    seconds: f64,
) -> String {
    let direction = if percent < 0.0 { "fell" } else { "rose" };
    let interval = interval.map_or_else(String::new, |ends| {
        let mut ends = ends.map(|end| if percent < 0.0 { -end } else { end });
        ends.sort_by(f64::total_cmp);
        format!(
            " (95 % interval {} to {} %)",
            number(ends[0]),
            number(ends[1])
        )
    });
    let runs = summary.runs.len() as u64;
    let disturbed = summary.runs.iter().filter(|run| run.is_disturbed).count() as u64;
    let machine = if disturbed > 0 {
        format!(
            "; or this machine: the load generator was disturbed in {disturbed} of {}",
            counted(runs, "run")
        )
    } else if summary.runs.iter().any(|run| run.shares_cpus) {
        "; or this machine, whose CPUs the load generator shares with the server".to_owned()
    } else {
        String::new()
    };
    format!(
        "the server may have changed while it was measured: what it carries {direction} by about \
         {} %{interval} in {}{machine}",
        number(percent.abs()),
        time_s(seconds as u64)
    )
}

/// The range of loads that contains the answer of an unfinished or undecided search:
/// `so far between 120 and 180 requests/s`; `None` without both.
#[must_use]
pub fn so_far(over: SearchOver, range: (Option<f64>, Option<f64>)) -> Option<String> {
    let in_words = |load| load_in_words(over, load);
    Some(match range {
        (Some(low), Some(high)) => {
            format!("so far between {} and {}", number(low), in_words(high))
        }
        (Some(low), None) => format!("so far at least {}", in_words(low)),
        (None, Some(high)) => format!("so far below {}", in_words(high)),
        (None, None) => return None,
    })
}

/// The levels of a search and its round, if there are several: `connections 64, round 2: `.
pub(crate) fn search_name(summary: &SearchSummary, searches: usize) -> String {
    if searches < 2 {
        return String::new();
    }
    let cell = &summary.cell;
    let mut parts = cell_words(&cell.settings, cell.profile.as_ref(), cell.target.as_ref());
    parts.push(format!("round {}", summary.round));
    format!("{}: ", parts.join(", "))
}

fn needed(outcome: &SearchOutcome) -> String {
    outcome.runs_needed.map_or_else(String::new, |runs| {
        format!(
            "; about {} more for the precision asked for",
            counted(runs.into(), "run")
        )
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
    let lengths = || long.iter().map(|run| run.step.duration_ms);
    let seconds = |ms: u64| number(ms as f64 / 1e3);
    let of = match (lengths().min(), lengths().max()) {
        (Some(least), Some(most)) if least < most => {
            format!(" of {} to {} s", seconds(least), seconds(most))
        }
        (Some(ms), _) => format!(" of {} s", seconds(ms)),
        _ => String::new(),
    };
    let took = time_s(summary.took_ms() / 1000);
    format!("{}{of}, {took}", counted(count as u64, "run"))
}

/// `95 s`, `6 min`
fn time_s(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min", (seconds + 30) / 60),
    }
}

fn details(summary: &SearchSummary) -> Vec<String> {
    let mut lines = Vec::new();
    let confirmed = summary.runs.iter().rev();
    let confirmed = confirmed.filter(|run| run.step.phase == SearchPhase::Confirm);
    let over = summary.over();
    let short = |load| match over {
        SearchOver::Rate => format!("{}/s", number(load)),
        SearchOver::Connections => load_in_words(over, load),
    };
    if let Some(load) = confirmed.filter_map(|run| run.step.load()).next() {
        let (kept, all) = votes(summary, |run| {
            run.step.phase == SearchPhase::Confirm && run.step.load() == Some(load)
        });
        let all = counted(all, "run");
        let mut line = format!("confirmed at {}: {kept} of {all}", short(load));
        if let Some((load, failed)) = lowest_that_fails(summary) {
            line += &format!("; {} failed {failed} of {failed}", short(load));
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
    let generator = match summary.limited_runs() {
        0 => "load generator not limited".to_owned(),
        limited => format!(
            "load generator limited in {limited} of {}",
            counted(summary.runs.len() as u64, "run")
        ),
    };
    if over == SearchOver::Connections && summary.outcome.is_some() {
        lines.push(format!("{}{generator}", around(summary)));
    }
    if let Some(ceiling) = summary.outcome.as_ref().and_then(|it| it.ceiling_per_sec) {
        let connections = summary
            .connections()
            .map_or_else(String::new, |(first, last)| {
                let fewer = if first < last {
                    format!(", as {first} were too few")
                } else {
                    String::new()
                };
                format!(" over {}{fewer}", counted(last.into(), "connection"))
            });
        lines.push(format!(
            "closed loop: {} requests/s{connections}; {generator}",
            number(ceiling)
        ));
    }
    lines
}

/// Of some runs: how many kept the conditions, and how many there were.
fn votes(summary: &SearchSummary, is_one: impl Fn(&&SearchRun) -> bool) -> (u64, u64) {
    let runs = summary.runs.iter().filter(is_one);
    runs.fold((0, 0), |(kept, all), run| {
        (kept + u64::from(run.is_kept), all + 1)
    })
}

/// How many runs kept the conditions at the number of connections that was found, and at the next
/// one that was tried: `28 connections: 6 of 6 runs kept the conditions; 29: 0 of 6; `
fn around(summary: &SearchSummary) -> String {
    let Some(found) = summary.outcome.as_ref().and_then(SearchOutcome::max_load) else {
        return String::new();
    };
    let at = |load: f64| votes(summary, |run| run.step.load() == Some(load));
    let (kept, all) = at(found);
    if all == 0 {
        return String::new();
    }
    let above = summary.runs.iter().filter_map(|run| run.step.load());
    let above = above.filter(|load| *load > found).reduce(f64::min);
    let above = above.map_or_else(String::new, |next| {
        let (kept, all) = at(next);
        format!("; {next}: {kept} of {all}")
    });
    format!(
        "{}: {kept} of {} kept the conditions{above}; ",
        load_in_words(SearchOver::Connections, found),
        counted(all, "run")
    )
}

/// The lowest measured load above the estimate at which every run failed, and their number.
fn lowest_that_fails(summary: &SearchSummary) -> Option<(f64, u64)> {
    let estimate = summary.outcome.as_ref()?.load()?;
    let rates = summary.runs.iter().filter_map(|run| run.step.load());
    let mut rates: Vec<f64> = rates.filter(|rate| *rate > estimate).collect();
    rates.sort_by(f64::total_cmp);
    rates.into_iter().find_map(
        |rate| match votes(summary, |run| run.step.load() == Some(rate)) {
            (0, failed) => Some((rate, failed)),
            _ => None,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_a_search_has_its_conditions_in_words() {
        for (end, expected) in [
            (
                SearchEnd::Found,
                "384 requests/s with p99 below 100 ms and errors at most 0.1 %",
            ),
            (
                SearchEnd::NotEven,
                "not even 384 requests/s with p99 below 100 ms and errors at most 0.1 %",
            ),
        ] {
            let summary = SearchSummary {
                cell: analysis::Observation::default(),
                round: 1,
                conditions: vec!["p99<100ms".to_owned(), "errors<=0.1%".to_owned()],
                outcome: Some(SearchOutcome {
                    rate_per_sec: Some(384.0),
                    ..SearchOutcome::without_rate(end)
                }),
                runs: Vec::new(),
            };
            assert_eq!(search_headline(&summary), expected);
        }
    }

    #[test]
    fn a_condition_that_is_not_understood_is_shown_as_typed() {
        assert_eq!(condition_in_words("p99"), "p99");
        assert_eq!(condition_in_words("goodput > 99"), "goodput above 99");
    }
}
