//! Judges results: whether their numbers can be trusted, and whether limits were kept.
//!
//! Each rule yields a finding of plain numbers. The sentences about findings are in [`sentences`],
//! so that the text report, JSON, pages and the live view say the same.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod consistency;
mod criteria;
pub mod episodes;
mod fleet;
mod percentiles;
mod profile;
mod relative;
mod remedy;
pub mod sentences;
mod settling;
mod verdict;
mod warnings;

pub use criteria::{Criterion, CriterionError, Judgement, Purpose};
pub use percentiles::{LowerBounds, ThinPercentiles};
pub use profile::profile;
pub use relative::RelativeToLimit;
pub use verdict::verdict;
pub use warnings::warnings;

use results::{RunResult, Warning};
use sentences::finding;

/// Sets the verdict and the warnings that follow from the numbers of a result. The agents of a
/// fleet have judged their own results already.
pub fn judge(result: &mut RunResult) {
    fleet::judge_places(result);
    result.generator.verdict = verdict(result, &[]);
    result.warnings = warnings(result).into_iter().map(finding).collect();
}

/// Adds that the scripts of these threads had not returned at the end, and takes back what was said
/// of the server: it is not known.
pub fn add_stuck_scripts(result: &mut RunResult, threads: Vec<u32>) {
    if threads.is_empty() {
        return;
    }
    let said = &mut result.warnings;
    said.retain(|warning| !warnings::blames_server(&warning.data));
    let stuck = |worker| Warning::ScriptStuck {
        worker,
        agent: None,
    };
    said.extend(threads.into_iter().map(stuck).map(finding));
}
