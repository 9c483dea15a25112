//! The section of a page about conditions under which runs fail: those that hold and those that
//! were passed, of each run.

use analysis::judge_all;
use presentation::tables::finding;
use presentation::{Section, Tone};

use super::{Export, names};

/// `None` without conditions.
pub(super) fn section(export: &Export<'_>) -> Option<Section> {
    let judged = judge_all(export.runs(), export.criteria);
    let has_one_run = export.runs().len() == 1;
    let blocks = judged.iter().filter_map(|one| {
        let failure = one.failure().map(|line| (Tone::Bad, "failed", line));
        let (tone, word, line) =
            failure.or_else(|| Some((Tone::Good, "passed", one.success()?)))?;
        let text = if has_one_run {
            format!("{word}: {line}")
        } else {
            format!("{}: {word}: {line}", names::of_run(one.run))
        };
        Some(finding(tone, text, Vec::new()))
    });
    let blocks: Vec<_> = blocks.collect();
    let section = || Section::new("conditions", "Conditions", "", blocks);
    (!export.criteria.is_empty()).then(section)
}
