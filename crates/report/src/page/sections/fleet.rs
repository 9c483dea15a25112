//! The places and agents of a run by a fleet.

use presentation::tables::{number_column, time_ns};
use presentation::{Block, Section};

use crate::fleet::{agents, places, table};
use crate::page::runs::Runs;

/// Only for the page of a single run.
pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let result = runs.single_result()?;
    if result.agents.is_empty() {
        return None;
    }
    let lead = "Several machines made the load together, on one schedule. The numbers of this page \
                are those of all of them.";
    let places = table(["Places", "Place", "Agents"], &places(result));
    let mut agents = table(["Agents", "Agent", "Place"], &agents(result));
    let clock = ["Clock error at most", "Start late by"].map(number_column);
    agents.columns.extend(clock);
    for (row, agent) in agents.rows.iter_mut().zip(&result.agents) {
        row.extend([agent.clock_bound_ns, agent.start_late_ns].map(time_ns));
    }
    let blocks = [places, agents].map(Block::Table);
    Some(Section::new("fleet", "Fleet", lead, blocks.into()))
}
