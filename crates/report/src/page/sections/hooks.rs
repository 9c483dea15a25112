//! Hooks of an experiment: which failed, and which were slow.

use analysis::{Observation, TrialFacts, grouped};
use presentation::tables::{self, columns, known, text, toned_if};
use presentation::{Block, Section, Tone, words};
use results::HookOutput;

use super::finding_of;
use crate::page::runs::Runs;

const OUTPUT_CHARS_MAX: usize = 300;

/// A hook is slow if it takes this number of times the median of its kind...
const SLOW_TIMES: f64 = 3.0;
/// ... and at least this time, milliseconds.
const SLOW_MS: u64 = 500;

/// A command with all of its runs.
struct HookRuns<'a> {
    hook: &'a str,
    command: &'a str,
    runs: Vec<(&'a Observation, &'a HookOutput)>,
}

/// `None` without hooks and failed attempts.
pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let trials: Vec<(&Observation, &TrialFacts)> = runs
        .all
        .iter()
        .filter_map(|run| Some((run, run.trial.as_deref()?)))
        .collect();
    let kinds = kinds(&trials);
    let attempts = failed_attempts(&trials, runs);
    if kinds.is_empty() && attempts.is_none() {
        return None;
    }
    let mut blocks: Vec<Block> = attempts.into_iter().collect();
    blocks.extend(failed_hooks(&kinds, runs));
    blocks.extend(kinds.iter().filter_map(|kind| slow_hooks(kind, runs)));
    let all_well = blocks.is_empty();
    if !kinds.is_empty() {
        blocks.push(table(&kinds));
    }
    let lead = if all_well {
        "No hook failed or was much slower than usual, and no run needed a second attempt."
    } else {
        ""
    };
    Some(Section::new("hooks", "Hooks", lead, blocks).folded(all_well))
}

fn kinds<'a>(trials: &[(&'a Observation, &'a TrialFacts)]) -> Vec<HookRuns<'a>> {
    let hooks = trials.iter().flat_map(|(run, trial)| {
        let outputs = trial.hooks.iter();
        outputs.map(|output| ((&*output.hook, &*output.command), (*run, output)))
    });
    let kind = |((hook, command), runs)| HookRuns {
        hook,
        command,
        runs,
    };
    grouped(hooks).into_iter().map(kind).collect()
}

fn failed_attempts(trials: &[(&Observation, &TrialFacts)], runs: &Runs<'_>) -> Option<Block> {
    let details: Vec<String> = trials
        .iter()
        .flat_map(|(run, trial)| {
            let place = runs.place(run);
            let attempts = trial.failed_attempts.iter();
            attempts.map(move |reason| format!("{place}: {reason}"))
        })
        .collect();
    let count = trials
        .iter()
        .filter(|(_, trial)| !trial.failed_attempts.is_empty())
        .count() as u64;
    let text = format!(
        "{} needed more than one attempt.",
        words::counted(count, "run")
    );
    finding_of(Tone::Warning, text, details)
}

fn has_failed(output: &HookOutput) -> bool {
    output.exit_code != Some(0)
}

fn failed_hooks(kinds: &[HookRuns<'_>], runs: &Runs<'_>) -> Option<Block> {
    let failed: Vec<&(&Observation, &HookOutput)> = kinds
        .iter()
        .flat_map(|kind| &kind.runs)
        .filter(|(_, output)| has_failed(output))
        .collect();
    let detail = |(run, output): &&(&Observation, &HookOutput)| {
        let end = match output.exit_code {
            Some(code) => format!("exit code {code}"),
            None => "ended by a signal or the time limit".to_owned(),
        };
        let printed = [output.stderr.trim(), output.stdout.trim()]
            .into_iter()
            .find(|text| !text.is_empty());
        let printed = printed.map_or_else(String::new, |text| {
            format!(": {}", words::cut(text, OUTPUT_CHARS_MAX))
        });
        let place = runs.place(run);
        format!(
            "{place}: {} `{}`: {end}{printed}",
            output.hook, output.command
        )
    };
    let text = format!("{} failed.", words::counted(failed.len() as u64, "hook"));
    let details = failed.iter().map(detail).collect();
    finding_of(Tone::Warning, text, details)
}

fn duration(milliseconds: u64) -> String {
    words::duration_ns(milliseconds.saturating_mul(1_000_000))
}

fn median_ms(kind: &HookRuns<'_>) -> Option<f64> {
    let times = kind
        .runs
        .iter()
        .map(|(_, output)| output.duration_ms as f64);
    analysis::median(&times.collect::<Vec<f64>>())
}

fn slow_hooks(kind: &HookRuns<'_>, runs: &Runs<'_>) -> Option<Block> {
    let usual_ms = median_ms(kind)?;
    let details: Vec<String> = kind
        .runs
        .iter()
        .filter(|(_, output)| {
            output.duration_ms >= SLOW_MS && output.duration_ms as f64 > usual_ms * SLOW_TIMES
        })
        .map(|(run, output)| {
            let place = runs.place(run);
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
    finding_of(Tone::Warning, text, details)
}

fn table(kinds: &[HookRuns<'_>]) -> Block {
    let row = |kind: &HookRuns<'_>| {
        let failed = kind
            .runs
            .iter()
            .filter(|(_, output)| has_failed(output))
            .count();
        let times = kind.runs.iter().map(|(_, output)| output.duration_ms);
        let (least, most) = (times.clone().min(), times.max());
        let time = |ms: Option<f64>| known(ms, |ms| duration(ms.round() as u64));
        let count = |count: usize| known(Some(count as f64), |_| words::count(count as u64));
        vec![
            text(kind.hook),
            text(kind.command),
            count(kind.runs.len()),
            toned_if(failed > 0, Tone::Bad, count(failed)),
            time(least.map(|ms| ms as f64)),
            time(median_ms(kind)),
            time(most.map(|ms| ms as f64)),
        ]
    };
    let numbers = ["times", "failed", "least", "median", "greatest"];
    let columns = columns(&["hook", "command"], &numbers);
    tables::table(
        "Number and duration of hooks",
        columns,
        kinds.iter().map(row),
    )
}
