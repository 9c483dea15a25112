//! The profile of the server: what differs while slow requests are in flight.

use presentation::tables::finding;
use presentation::words::capital;
use presentation::{Block, Section, Tone};
use results::{Profile, ProfileComparison};

use crate::page::flames::{self, Samples};
use crate::page::runs::Runs;
use crate::profile;

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let mut blocks = Vec::new();
    let single = runs.single_result();
    let single = single.and_then(|result| Some((result.profile.as_ref()?, result)));
    if let Some((profile, result)) = single {
        blocks.extend(findings(profile, result.window.duration_ns));
    }
    let tables = [
        runs.of_runs(profile::functions),
        runs.of_runs(profile::times),
    ];
    blocks.extend(tables.into_iter().flatten());
    if let Some((profile, _)) = single {
        blocks.extend(graphs(profile));
    }
    if blocks.is_empty() {
        return None;
    }
    let lead = "Samples of the server's call stacks while its threads were on a CPU. Slow time is \
                the time in which at least one of the slowest requests was in flight. Differences \
                are correlation: what runs more in slow time need not be the cause of it.";
    Some(Section::new(
        "profile",
        "Profile of the server",
        lead,
        blocks,
    ))
}

fn findings(profile: &Profile, window_ns: u64) -> impl Iterator<Item = Block> {
    let is_decided = matches!(
        profile.comparison,
        ProfileComparison::Compared { .. } | ProfileComparison::NoSlowRequests
    );
    let tone = if is_decided {
        Tone::Neutral
    } else {
        Tone::Warning
    };
    let mut lines = profile::lines(profile, window_ns).into_iter();
    let first = lines.next();
    let details: Vec<String> = lines.collect();
    first
        .map(|first| finding(tone, capital(&first), details))
        .into_iter()
}

fn graphs(profile: &Profile) -> impl Iterator<Item = Block> {
    let kinds: &[Samples] = match profile.slow.samples {
        0 => &[Samples::All],
        _ => &[Samples::Difference, Samples::Slow, Samples::Other],
    };
    let graphs = kinds
        .iter()
        .filter_map(|kind| flames::graph(profile, *kind));
    graphs.map(Block::Flames)
}
