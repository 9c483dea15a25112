//! The page of several runs beside each other.

mod charts;
mod differences;
mod table;

use analysis::compare::{Comparison, Doubt, Outcome};
use analysis::{FILE_FACTOR, Observation};

use super::tables::finding;
use super::{Block, Section, Subject, Tone, names, run, words};

/// So many lines can be told apart; of more the median is drawn over faint ones.
const LINES_MAX: usize = 12;

/// A run that did not fail, with its name and its colour on all charts.
struct Drawn<'a> {
    name: String,
    run: &'a Observation,
    color: usize,
}

/// What several runs say together, in the order of reading.
pub(super) fn sections(subject: &Subject<'_>) -> Vec<Section> {
    let all: Vec<&Observation> = subject.observations.iter().collect();
    let names = names::of_runs(&all);
    let mut drawn = Vec::new();
    let mut failed = Vec::new();
    for (run, name) in all.into_iter().zip(names) {
        match &run.failure {
            Some(reason) => failed.push(format!("{name} ({}): {reason}", run.source)),
            None => drawn.push(Drawn {
                color: drawn.len(),
                name,
                run,
            }),
        }
    }
    let mut sections = vec![verdict(subject, &drawn, failed)];
    sections.extend(charts::latency(&drawn));
    sections.extend(charts::over_time(&drawn));
    sections.extend(charts::telemetry(&drawn));
    sections.extend(table_section(&drawn));
    sections.extend(warnings(&drawn));
    sections.extend(differences::section(&drawn));
    sections.extend(commands(&drawn));
    sections
}

fn verdict(subject: &Subject<'_>, drawn: &[Drawn<'_>], failed: Vec<String>) -> Section {
    let mut blocks = Vec::new();
    if drawn.is_empty() {
        blocks.push(finding(Tone::Bad, "Every run failed.", vec![]));
    }
    if let Some(conclusions) = subject.conclusions {
        for comparison in &conclusions.comparisons {
            let tone = match comparison.outcome {
                Outcome::Better { .. } => Tone::Good,
                Outcome::Worse { .. } => Tone::Bad,
                Outcome::TooFewRuns { .. }
                | Outcome::Same
                | Outcome::NotFound
                | Outcome::Changed { .. } => Tone::Neutral,
            };
            // Files are no factor of an experiment, but sides.
            let sides = Comparison {
                factor: comparison
                    .factor
                    .clone()
                    .filter(|factor| !is_of_files(factor)),
                ..comparison.clone()
            };
            let sentence = run::capital(&crate::comparison::sentence(&sides));
            let remarks = crate::comparison::remarks(&sides);
            let remarks = remarks.iter().map(|remark| run::capital(remark)).collect();
            blocks.push(finding(tone, format!("{sentence}."), remarks));
        }
        let others = conclusions.doubts.iter().filter(|doubt| {
            // Those are told with their reasons.
            !matches!(doubt, Doubt::Failures { .. })
        });
        for doubt in others {
            let sentence = run::capital(&crate::comparison::doubt_sentence(doubt));
            blocks.push(finding(Tone::Warning, format!("{sentence}."), vec![]));
        }
    }
    if !failed.is_empty() {
        let text = format!(
            "{} failed and {} in no chart and no figure.",
            words::counted(failed.len() as u64, "run"),
            if failed.len() == 1 { "is" } else { "are" }
        );
        blocks.push(finding(Tone::Bad, text, failed));
    }
    blocks.extend(limited(drawn));
    blocks.extend(table::figures(drawn));
    if drawn.len() <= LINES_MAX {
        blocks.extend(table::block(drawn));
    }
    let lead = if drawn.len() > LINES_MAX {
        "Each run is a faint line in the charts, the median of all runs a strong one."
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

/// The table of runs where it is so long that it would hide the charts.
fn table_section(drawn: &[Drawn<'_>]) -> Option<Section> {
    let block = table::block(drawn).filter(|_| drawn.len() > LINES_MAX)?;
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
            result.is_some_and(|result| result.generator.verdict.is_generator_limited())
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
        let mut details: Vec<String> = result.generator.verdict.lines();
        if !result.generator.verdict.is_generator_limited() {
            details.clear();
        }
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
