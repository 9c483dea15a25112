//! The agents of a fleet, if one makes the runs.

use plan::Weight;

use results::Cell;

use crate::spec::Spec;

/// An agent of the fleet that is available to make runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The name under which the agent joined the fleet.
    pub name: String,
    /// The label of its place.
    pub place: String,
    /// Cores that it may use.
    pub cores: u32,
    /// How much load each of its threads carries.
    pub weight: Weight,
}

/// The agents that make the runs of a cell.
pub fn agents_of<'a>(
    spec: &'a Spec,
    cell: &Cell,
    agents: &'a [Agent],
) -> impl Iterator<Item = &'a Agent> {
    let places = spec.places_of(cell);
    let is_there = |agent: &&Agent| places.iter().any(|place| place.name == agent.place);
    agents
        .iter()
        .filter(move |agent| places.is_empty() || is_there(agent))
}
