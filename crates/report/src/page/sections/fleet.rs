//! The places and agents of a run by a fleet.

use results::AgentResult;

use crate::fleet::{Part, agents, places};
use crate::page::runs::Runs;
use crate::page::tables::{
    self, known, number_columns, percentile, table, text, toned, toned_if, unknown, words_column,
};
use crate::page::{Block, Column, Section, TableCell, Tone, words};

/// Only for the page of a single run.
pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let result = runs.single_result()?;
    if result.agents.is_empty() {
        return None;
    }
    let lead = "Several machines made the load together, on one schedule. The numbers of this page \
                are those of all of them.";
    let of_places = places(result);
    let rows_of_places = of_places.iter().map(|part| {
        let mut row = vec![text(part.name), text(&part.about)];
        row.extend(cells(part));
        row
    });
    let of_agents = agents(result);
    let rows_of_agents = of_agents.iter().zip(&result.agents).map(|(part, agent)| {
        let mut row = vec![text(part.name), text(&part.about)];
        row.extend(cells(part));
        row.extend(clock(agent));
        row
    });
    let mut agent_columns = columns("Agent", "Place");
    agent_columns.extend(number_columns(["Clock error at most", "Start late by"]));
    let blocks: Vec<Block> = vec![
        table("Places", columns("Place", "Agents"), rows_of_places),
        table("Agents", agent_columns, rows_of_agents),
    ];
    Some(Section::new("fleet", "Fleet", lead, blocks))
}

fn columns(name: &str, about: &str) -> Vec<Column> {
    let mut columns = vec![words_column(name), words_column(about)];
    columns.extend(number_columns(["Requests/s", "p50", "p99", "Errors"]));
    columns.push(words_column("Load generator"));
    columns
}

fn cells(part: &Part<'_>) -> Vec<TableCell> {
    let verdict = text(part.verdict());
    let Some(result) = part.result else {
        let mut cells = vec![unknown(); 4];
        cells.push(toned(verdict, Tone::Bad));
        return cells;
    };
    let latency = result.recording.latency();
    let errors = result.recording.errors.failures();
    let time = |percent| match latency.is_empty() {
        true => unknown(),
        false => percentile(&latency, percent),
    };
    vec![
        known(Some(result.requests_per_sec()), words::number),
        time(50.0),
        time(99.0),
        toned_if(errors > 0, Tone::Bad, tables::count(errors)),
        toned_if(result.generator.verdict.is_saturated(), Tone::Bad, verdict),
    ]
}

fn clock(agent: &AgentResult) -> [TableCell; 2] {
    [agent.clock_bound_ns, agent.start_late_ns]
        .map(|ns| tables::time_us(ns.map(|ns| ns as f64 / 1e3)))
}
