//! The places and agents of a run by a fleet, a row each.

use std::io::{self, Write};

use judging::sentences::verdict_word;
use plan::Weight;
use plan::readable::{counted, time_ns};
use presentation::tables::{
    self, columns, number_column, rate, text, toned_if, unknown, words_column,
};
use presentation::{TableBlock, TableCell, Tone};
use results::cells::percentile;
use results::{AgentOutcome, AgentResult, LostShare, PlaceResult, Recording, RunResult, Verdict};

use crate::aligned;

/// The text shows at most this many agents: lost and saturated ones first.
const AGENTS_SHOWN_MAX: usize = 32;

/// A place or an agent.
pub(crate) struct FleetMember<'a> {
    pub(crate) name: &'a str,
    /// Where an agent is; for a place, how many agents it has.
    pub(crate) about: String,
    /// The weight of an agent, if not all agents have the same.
    weight: Option<Weight>,
    pub(crate) result: Option<&'a RunResult>,
    /// The lost share, if the part is an agent that was lost.
    pub(crate) lost: Option<&'a LostShare>,
    /// The result lacks something of the planned load.
    is_partial: bool,
}

/// The places of a fleet; none of a single machine.
pub(crate) fn places(result: &RunResult) -> Vec<FleetMember<'_>> {
    result.places.iter().map(of_place).collect()
}

fn of_place(place: &PlaceResult) -> FleetMember<'_> {
    FleetMember {
        name: &place.place,
        about: counted(place.agents.len() as u64, "agent"),
        weight: None,
        result: place.result.as_deref(),
        lost: None,
        is_partial: place.result.as_deref().is_some_and(is_partial),
    }
}

/// The agents of a fleet; none of a single machine.
pub(crate) fn agents(result: &RunResult) -> Vec<FleetMember<'_>> {
    let agents = &result.agents;
    let are_alike = agents
        .windows(2)
        .all(|pair| pair[0].weight == pair[1].weight);
    let agents = agents.iter();
    agents.map(|agent| of_agent(agent, are_alike)).collect()
}

fn of_agent(agent: &AgentResult, are_alike: bool) -> FleetMember<'_> {
    FleetMember {
        name: &agent.id,
        about: agent.place.clone(),
        weight: (!are_alike).then_some(agent.weight),
        result: agent.result(),
        lost: match &agent.outcome {
            AgentOutcome::Lost(share) => Some(share),
            AgentOutcome::Delivered(_) => None,
        },
        is_partial: agent.early.is_some(),
    }
}

fn is_partial(result: &RunResult) -> bool {
    result.warnings.iter().any(|it| it.data.is_partial())
}

impl FleetMember<'_> {
    /// Whether the load generator of this part was saturated, or what became of it.
    pub(crate) fn verdict(&self) -> String {
        match (self.result, self.lost) {
            (Some(result), _) => {
                let verdict = verdict_word(&result.generator.verdict);
                if self.is_partial {
                    format!("{verdict}, partial")
                } else {
                    verdict.to_owned()
                }
            }
            (None, Some(share)) => {
                let after = time_ns(share.after_ms.saturating_mul(1_000_000));
                match share.sent {
                    0 if share.after_ms == 0 => "lost; nothing is known of its requests".to_owned(),
                    0 => format!("lost after {after}, before it reported any request"),
                    sent => format!(
                        "lost after {after}; it had sent at least {}, which are not counted",
                        counted(sent, "request")
                    ),
                }
            }
            (None, None) => "no result".to_owned(),
        }
    }

    /// The order in which agents are shown: lost ones first, then saturated ones, then disturbed
    /// ones.
    fn urgency(&self) -> u8 {
        match self.result {
            None => 0,
            Some(result) => match result.generator.verdict {
                Verdict::Saturated { .. } => 1,
                Verdict::Disturbed { .. } => 2,
                Verdict::Undisturbed | Verdict::Unknown => 3,
            },
        }
    }
}

/// A row for each part. `about` is the heading of [`FleetMember::about`].
pub(crate) fn table<'a>(
    [caption, name, about]: [&str; 3],
    parts: impl IntoIterator<Item = &'a FleetMember<'a>>,
) -> TableBlock {
    let parts: Vec<&FleetMember<'_>> = parts.into_iter().collect();
    let mut heads = columns(&[name, about], &[]);
    if parts.iter().any(|part| part.weight.is_some()) {
        heads.push(number_column("Weight"));
    }
    heads.extend(columns(&[], &["Requests/s", "p50", "p99", "Errors"]));
    heads.push(words_column("Load generator"));
    TableBlock::new(caption, heads, parts.into_iter().map(cells))
}

fn cells(part: &FleetMember<'_>) -> Vec<TableCell> {
    let recording = part.result.map(|result| &result.recording);
    let latency = recording.map(Recording::latency).unwrap_or_default();
    let errors = recording.map(|recording| recording.errors.failures());
    let is_bad = |result: &RunResult| result.generator.verdict.is_saturated();
    let verdict = text(part.verdict());
    let mut cells = vec![text(part.name), text(&part.about)];
    cells.extend(
        part.weight
            .map(|weight| tables::count(u32::from(weight).into())),
    );
    cells.extend([
        part.result
            .map_or_else(unknown, |it| rate(it.requests_per_sec())),
        percentile(&latency, 50.0),
        percentile(&latency, 99.0),
        toned_if(
            errors > Some(0),
            Tone::Bad,
            errors.map_or_else(unknown, tables::count),
        ),
        toned_if(part.result.is_none_or(is_bad), Tone::Bad, verdict),
    ]);
    cells
}

/// Writes a row for each place and each agent after an empty line; nothing for a single machine.
pub(crate) fn write(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    if result.agents.is_empty() {
        return Ok(());
    }
    let agents = agents(result);
    let mut shown: Vec<&FleetMember<'_>> = agents.iter().collect();
    if shown.len() > AGENTS_SHOWN_MAX {
        shown.sort_by_key(|part| part.urgency());
        shown.truncate(AGENTS_SHOWN_MAX);
    }
    for table in [
        table(["", "Place", "Agents"], &places(result)),
        table(["", "Agent", "Place"], shown.iter().copied()),
    ] {
        writeln!(output)?;
        aligned::write(&table, aligned::BELOW_WRK, output)?;
    }
    match agents.len() - shown.len() {
        0 => Ok(()),
        more => writeln!(output, "  and {} more", counted(more as u64, "agent")),
    }
}
