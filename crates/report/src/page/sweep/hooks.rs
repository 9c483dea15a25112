//! The commands around the runs: what failed, and what took its time.

use analysis::{Observation, TrialFacts};
use results::HookOutput;

use super::bounded;
use super::design::{Design, place_of};
use crate::page::tables::{finding, known, number_column, text, toned, words_column};
use crate::page::{Block, Section, TableBlock, Tone, words};

/// What a command has said is cut here.
const SAID_CHARS_MAX: usize = 300;

/// So many times the median of its kind is slow...
const SLOW_TIMES: f64 = 3.0;
/// ... if it is as long as this at least, milliseconds.
const SLOW_MS: u64 = 500;

/// A command with all of its runs.
struct Kind<'a> {
    hook: &'a str,
    command: &'a str,
    runs: Vec<(&'a Observation, &'a HookOutput)>,
}

/// Nothing if there were no commands and no failed attempts.
pub(super) fn section(design: &Design<'_>) -> Option<Section> {
    let trials: Vec<(&Observation, &TrialFacts)> = design
        .runs
        .iter()
        .filter_map(|run| Some((run, run.trial.as_deref()?)))
        .collect();
    let kinds = kinds(&trials);
    let attempts = failed_attempts(&trials, design);
    if kinds.is_empty() && attempts.is_none() {
        return None;
    }
    let mut blocks: Vec<Block> = attempts.into_iter().collect();
    blocks.extend(failed_hooks(&kinds, design));
    blocks.extend(kinds.iter().filter_map(|kind| slow_hooks(kind, design)));
    let all_well = blocks.is_empty();
    if !kinds.is_empty() {
        blocks.push(Block::Table(table(&kinds)));
    }
    Some(Section {
        id: "hooks".to_owned(),
        title: "Commands around the runs".to_owned(),
        lead: if all_well {
            "No command failed or was much slower than usual, and no run took a second attempt."
                .to_owned()
        } else {
            String::new()
        },
        blocks,
        // Looked at only if something is wrong.
        is_folded: all_well,
    })
}

fn kinds<'a>(trials: &[(&'a Observation, &'a TrialFacts)]) -> Vec<Kind<'a>> {
    let mut kinds: Vec<Kind<'a>> = Vec::new();
    for (run, trial) in trials {
        for output in &trial.hooks {
            let is_same =
                |kind: &&mut Kind<'a>| kind.hook == output.hook && kind.command == output.command;
            match kinds.iter_mut().find(is_same) {
                Some(kind) => kind.runs.push((run, output)),
                None => kinds.push(Kind {
                    hook: &output.hook,
                    command: &output.command,
                    runs: vec![(run, output)],
                }),
            }
        }
    }
    kinds
}

fn failed_attempts(trials: &[(&Observation, &TrialFacts)], design: &Design<'_>) -> Option<Block> {
    let details: Vec<String> = trials
        .iter()
        .flat_map(|(run, trial)| {
            let place = place_of(run, design.total());
            let attempts = trial.failed_attempts.iter();
            attempts.map(move |reason| format!("{place}: {reason}"))
        })
        .collect();
    let runs = trials
        .iter()
        .filter(|(_, trial)| !trial.failed_attempts.is_empty())
        .count() as u64;
    let text = format!(
        "{} took more than one attempt.",
        words::counted(runs, "run")
    );
    (runs > 0).then(|| finding(Tone::Warning, text, bounded(details)))
}

fn has_failed(output: &HookOutput) -> bool {
    output.exit_code != Some(0)
}

fn failed_hooks(kinds: &[Kind<'_>], design: &Design<'_>) -> Option<Block> {
    let failed: Vec<&(&Observation, &HookOutput)> = kinds
        .iter()
        .flat_map(|kind| &kind.runs)
        .filter(|(_, output)| has_failed(output))
        .collect();
    let detail = |(run, output): &&(&Observation, &HookOutput)| {
        let end = match output.exit_code {
            Some(code) => format!("exit code {code}"),
            None => "ended by a signal or its time limit".to_owned(),
        };
        let said = [output.stderr.trim(), output.stdout.trim()]
            .into_iter()
            .find(|said| !said.is_empty());
        let said = said.map_or_else(String::new, |said| {
            format!(": {}", words::cut(said, SAID_CHARS_MAX))
        });
        let place = place_of(run, design.total());
        format!("{place}: {} `{}`: {end}{said}", output.hook, output.command)
    };
    let text = format!("{} failed.", words::counted(failed.len() as u64, "command"));
    let details = failed.iter().map(detail).collect();
    (!failed.is_empty()).then(|| finding(Tone::Warning, text, bounded(details)))
}

fn duration(milliseconds: u64) -> String {
    words::duration_ns(milliseconds.saturating_mul(1_000_000))
}

fn median_ms(kind: &Kind<'_>) -> Option<f64> {
    let times = kind
        .runs
        .iter()
        .map(|(_, output)| output.duration_ms as f64);
    analysis::median(&times.collect::<Vec<f64>>())
}

fn slow_hooks(kind: &Kind<'_>, design: &Design<'_>) -> Option<Block> {
    let usual_ms = median_ms(kind)?;
    let details: Vec<String> = kind
        .runs
        .iter()
        .filter(|(_, output)| {
            output.duration_ms >= SLOW_MS && output.duration_ms as f64 > usual_ms * SLOW_TIMES
        })
        .map(|(run, output)| {
            let place = place_of(run, design.total());
            format!("{place}: {}", duration(output.duration_ms))
        })
        .collect();
    let text = format!(
        "{} `{}` took much longer than the usual {} in {}.",
        kind.hook,
        kind.command,
        duration(usual_ms.round() as u64),
        words::counted(details.len() as u64, "run")
    );
    (!details.is_empty()).then(|| finding(Tone::Warning, text, bounded(details)))
}

fn table(kinds: &[Kind<'_>]) -> TableBlock {
    let row = |kind: &Kind<'_>| {
        let failed = kind
            .runs
            .iter()
            .filter(|(_, output)| has_failed(output))
            .count();
        let times = kind.runs.iter().map(|(_, output)| output.duration_ms);
        let (least, most) = (times.clone().min(), times.max());
        let time = |ms: Option<f64>| known(ms, |ms| duration(ms.round() as u64));
        let count = |count: usize| known(Some(count as f64), |_| words::count(count as u64));
        let tone = if failed > 0 { Tone::Bad } else { Tone::Neutral };
        vec![
            text(kind.hook),
            text(kind.command),
            count(kind.runs.len()),
            toned(count(failed), tone),
            time(least.map(|ms| ms as f64)),
            time(median_ms(kind)),
            time(most.map(|ms| ms as f64)),
        ]
    };
    TableBlock {
        caption: "How often, and how long".to_owned(),
        columns: vec![
            words_column("hook"),
            words_column("command"),
            number_column("times"),
            number_column("failed"),
            number_column("least"),
            number_column("median"),
            number_column("greatest"),
        ],
        rows: kinds.iter().map(row).collect(),
    }
}
