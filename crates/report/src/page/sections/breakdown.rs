//! Why the slowest requests were slow.

use judging::Slowest;
use presentation::{Section, Tone, tables, words};

use crate::breakdown;
use crate::page::runs::Runs;
use crate::profile;

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let mut blocks = Vec::new();
    for (group, recording) in runs.recordings() {
        if let Some(slowest) = recording.parts.breakdown.as_ref().and_then(Slowest::of) {
            let sentence = words::sentence(&slowest.sentence());
            let text = match group.full_name.as_str() {
                "" => sentence,
                name => format!("{name}: {sentence}"),
            };
            let single = runs.single_result();
            let profile = single.and_then(|result| Some((result.profile.as_ref()?, result)));
            let of_server = profile.map(|(it, of)| profile::lines(it, of.window.duration_ns));
            let details = of_server.unwrap_or_default();
            blocks.push(tables::finding(Tone::Neutral, text, details));
        }
    }
    blocks.extend(runs.of_groups(breakdown::parts));
    blocks.extend(runs.of_groups(breakdown::server_timing));
    if runs.single().is_some() {
        blocks.extend(runs.of_runs(breakdown::slowest));
    }
    if blocks.is_empty() {
        return None;
    }
    let lead = "The latency of each request is split into what the load generator caused, the wait \
                for a connection, the network, the server as its Server-Timing header states it, and \
                the body. The slowest 1 % are compared with all others.";
    Some(Section::new("slowest", "Why it was slow", lead, blocks))
}
