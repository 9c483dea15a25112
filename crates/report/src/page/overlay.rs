//! The page of several runs beside each other.

mod charts;
mod differences;
mod table;

use analysis::compare::{Comparison, Outcome};
use analysis::{FILE_FACTOR, Observation};
use judging::sentences::verdict_lines;

use super::tables::finding;
use super::{Block, Section, Subject, Tone, names, run, sweep, words};

/// So many lines can be told apart; of more the median is drawn over faint ones.
const LINES_MAX: usize = 12;

/// Medians of more groups than that are no easier to read than the runs.
const GROUPS_MAX: usize = 6;

/// A run that did not fail, with its name, its colour on all charts, and which runs it is like.
struct Drawn<'a> {
    name: String,
    run: &'a Observation,
    color: usize,
    group: usize,
}

/// The runs of a page.
struct Runs<'a> {
    drawn: Vec<Drawn<'a>>,
    /// Names of what there are several runs of; one without a name if there are too many such, or no two
    /// runs are of the same.
    groups: Vec<String>,
    /// Whether runs of a group are runs of the same thing, so that their median is one of something.
    are_groups_alike: bool,
}

impl<'a> Runs<'a> {
    fn of(named: Vec<(String, &'a Observation)>) -> Self {
        let mut firsts: Vec<&Observation> = Vec::new();
        let mut drawn = Vec::new();
        for (color, (name, run)) in named.into_iter().enumerate() {
            let known = firsts.iter().position(|first| first.is_same_cell(run));
            let group = known.unwrap_or(firsts.len());
            if known.is_none() {
                firsts.push(run);
            }
            drawn.push(Drawn {
                name,
                run,
                color,
                group,
            });
        }
        let is_grouped = (2..=GROUPS_MAX).contains(&firsts.len()) && firsts.len() < drawn.len();
        for drawn in &mut drawn {
            if is_grouped {
                drawn.color = drawn.group;
            } else {
                drawn.group = 0;
            }
        }
        let groups = if is_grouped {
            names::of_runs(&firsts)
        } else {
            vec![String::new()]
        };
        Self {
            drawn,
            groups,
            are_groups_alike: is_grouped || firsts.len() == 1,
        }
    }

    /// Whether there are runs of several things, so that each thing has a colour, and not each run.
    fn are_sides(&self) -> bool {
        self.groups.len() > 1
    }

    /// Whether there are more lines than can be told apart.
    fn are_many(&self) -> bool {
        self.drawn.len() > LINES_MAX
    }
}

/// What several runs say together, in the order of reading.
pub(super) fn sections(subject: &Subject<'_>) -> Vec<Section> {
    let all: Vec<&Observation> = subject.observations.iter().collect();
    let names = names::of_runs(&all);
    let mut good = Vec::new();
    let mut failed = Vec::new();
    for (run, name) in all.into_iter().zip(names) {
        match &run.failure {
            Some(reason) => failed.push(format!("{name} ({}): {reason}", run.source)),
            None => good.push((name, run)),
        }
    }
    let runs = Runs::of(good);
    let mut sections = vec![verdict(subject, &runs, failed)];
    sections.extend(charts::latency(&runs));
    sections.extend(charts::over_time(&runs));
    sections.extend(charts::telemetry(&runs));
    sections.extend(table_section(&runs));
    sections.extend(warnings(&runs.drawn));
    sections.extend(differences::section(&runs.drawn));
    sections.extend(commands(&runs.drawn));
    sections
}

fn verdict(subject: &Subject<'_>, runs: &Runs<'_>, failed: Vec<String>) -> Section {
    let drawn = runs.drawn.as_slice();
    // How far the runs can be trusted comes before what they say.
    let mut blocks = Vec::from_iter(limited(drawn));
    if drawn.is_empty() {
        blocks.push(finding(Tone::Bad, "Every run failed.", vec![]));
    }
    if !failed.is_empty() {
        let text = format!(
            "{} failed and {} in no chart and no figure.",
            words::counted(failed.len() as u64, "run"),
            if failed.len() == 1 { "is" } else { "are" }
        );
        blocks.push(finding(Tone::Bad, text, failed));
    }
    if let Some(conclusions) = subject.conclusions {
        let (unknown, told): (Vec<&Comparison>, Vec<&Comparison>) = conclusions
            .comparisons
            .iter()
            .partition(|comparison| sweep::has_too_few_runs(comparison.outcome));
        blocks.extend(told.into_iter().map(answer));
        let text = sweep::too_few_text(unknown.len(), conclusions.comparisons.len());
        blocks.extend(sweep::few_or_one(&unknown, Tone::Neutral, text, answer));
        blocks.extend(conclusions.doubts.iter().map(sweep::doubt));
    }
    blocks.extend(table::figures(runs));
    if !runs.are_many() {
        blocks.extend(table::block(drawn));
    } else if blocks.is_empty() {
        let text = "Nothing was compared: the runs are of more than two things.";
        blocks.push(finding(Tone::Neutral, text, vec![]));
    }
    let lead = if runs.are_sides() {
        "Runs of the same have one colour in all charts: faint lines are runs, strong ones their medians."
    } else if runs.are_many() && runs.are_groups_alike {
        "Each run is a faint line in the charts; strong lines are medians of runs."
    } else if runs.are_many() {
        "Each run is a line in the charts; the pointer says which."
    } else {
        "Each run has one colour in all charts; its name in a legend hides and shows it."
    };
    Section {
        id: "verdict".to_owned(),
        title: "Verdict".to_owned(),
        lead: if drawn.is_empty() { "" } else { lead }.to_owned(),
        blocks,
        is_folded: false,
    }
}

/// What one comparison says.
fn answer(comparison: &Comparison) -> Block {
    let is_of_levels = matches!(
        comparison.outcome,
        Outcome::Better { .. } | Outcome::Worse { .. } | Outcome::Changed { .. }
    );
    let tone = match sweep::tone(comparison) {
        // That two of a kind differ, or are few, is no fault of theirs.
        Tone::Warning if !comparison.is_generator_saturated() => Tone::Neutral,
        tone => tone,
    };
    // Files are no factor of an experiment, but sides.
    let sides = Comparison {
        factor: comparison
            .factor
            .clone()
            .filter(|factor| !is_of_files(factor)),
        ..comparison.clone()
    };
    let sentence = crate::comparison::sentence(&sides);
    let begins_with_name = is_of_levels || sides.factor.is_some() || !sides.place.is_empty();
    let sentence = if begins_with_name {
        sentence
    } else {
        run::capital(&sentence)
    };
    let remarks = crate::comparison::remarks(&sides);
    let remarks = remarks.iter().map(|remark| run::capital(remark)).collect();
    finding(tone, format!("{sentence}."), remarks)
}

/// The table of runs where it is so long that it would hide the charts.
fn table_section(runs: &Runs<'_>) -> Option<Section> {
    let block = table::block(&runs.drawn).filter(|_| runs.are_many())?;
    Some(Section {
        id: "runs".to_owned(),
        title: "All runs".to_owned(),
        lead: String::new(),
        blocks: vec![block],
        is_folded: false,
    })
}

/// `file`, and `file and target` where these go together.
fn is_of_files(factor: &str) -> bool {
    factor.split(" and ").any(|part| part == FILE_FACTOR)
}

/// Runs whose numbers are not the server's.
fn limited(drawn: &[Drawn<'_>]) -> Option<Block> {
    let names: Vec<String> = drawn
        .iter()
        .filter(|drawn| {
            let result = drawn.run.result.as_deref();
            result.is_some_and(|result| result.generator.verdict.is_saturated())
        })
        .map(|drawn| drawn.name.clone())
        .collect();
    let text = match (names.len(), drawn.len()) {
        (0, _) => return None,
        (1, 1) => "The generator was the limit.".to_owned(),
        (limited, all) => format!(
            "In {limited} of {all} runs the generator was the limit: the server could have done more, or answered \
             sooner, than their numbers say."
        ),
    };
    Some(finding(Tone::Bad, text, names))
}

/// The doubts about each run.
fn warnings(drawn: &[Drawn<'_>]) -> Option<Section> {
    let mut blocks = Vec::new();
    for Drawn { name, run, .. } in drawn {
        let Some(result) = run.result.as_deref() else {
            continue;
        };
        let verdict = &result.generator.verdict;
        let mut details = match verdict.is_saturated() {
            true => verdict_lines(verdict),
            false => Vec::new(),
        };
        for block in run::warnings(result) {
            if let Block::Finding { text, .. } = block {
                details.push(text);
            }
        }
        details.extend(crate::text::error_notes(result));
        if !details.is_empty() {
            blocks.push(finding(Tone::Warning, name.clone(), details));
        }
    }
    (!blocks.is_empty()).then(|| Section {
        id: "warnings".to_owned(),
        title: "Warnings of each run".to_owned(),
        lead: String::new(),
        blocks,
        is_folded: false,
    })
}

/// How each run was started, each command once.
fn commands(drawn: &[Drawn<'_>]) -> Option<Section> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for Drawn { name, run, .. } in drawn {
        let Some(result) = run.result.as_deref() else {
            continue;
        };
        let Some(command) = run::command_to_repeat(run, result) else {
            continue;
        };
        match commands.iter_mut().find(|(known, _)| *known == command) {
            Some((_, names)) => names.push(name.clone()),
            None => commands.push((command, vec![name.clone()])),
        }
    }
    (!commands.is_empty()).then(|| Section {
        id: "commands".to_owned(),
        title: "How to repeat them".to_owned(),
        lead: String::new(),
        blocks: commands
            .into_iter()
            .map(|(text, names)| Block::Code {
                label: words::list(&names),
                text,
            })
            .collect(),
        is_folded: true,
    })
}
