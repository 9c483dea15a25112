//! The places of an experiment, and the agents that are there.

use plan::AgentThreads;
use plan::readable::counted;
use results::Cell;

use super::PlannedLoad;
use super::checks::{Findings, option_line};
use super::text::{printable, quoted};
use crate::agents::{Agent, agents_of};
use crate::design::Schedule;
use crate::spec::{PlaceMode, PlaceSpec, Spec};

/// The most agents of a place that are named.
const AGENTS_SHOWN: usize = 8;

/// Checks that there are agents for each run, and that each run can be dealt out to them.
pub(super) fn check(
    spec: &Spec,
    schedule: &Schedule,
    loads: &[PlannedLoad],
    agents: Option<&[Agent]>,
    findings: &mut Findings,
) {
    let Some(agents) = agents else {
        if let Some(first) = spec.places.first() {
            let text = "[[place]] needs the agents of a fleet: give --fleet nats://HOST \
                        (docs/fleet.md)";
            findings.problem(spec, first.line, text);
        }
        return;
    };
    let known = places_of_agents(agents);
    let is_there = |place: &&PlaceSpec| known.contains(&place.name.as_str());
    for place in spec.places.iter().filter(|place| !is_there(place)) {
        let name = printable(&place.name);
        let text = format!(
            "place {name}: no agent is there; start one with wrkbench agent --place {} (agents \
             are at: {})",
            plan::shell::quoted(&name),
            printable(&known.join(", "))
        );
        findings.problem(spec, place.line, text);
    }
    let is_used = |name: &&str| spec.places.iter().any(|place| place.name == **name);
    let unused: Vec<&str> = known.iter().copied().filter(|it| !is_used(it)).collect();
    if !spec.places.is_empty() && !unused.is_empty() {
        let unused = printable(&unused.join(", "));
        findings.note(format!(
            "agents at {unused} take no part: no [[place]] has this name"
        ));
    }
    check_shares(spec, schedule, loads, agents, findings);
}

/// A run needs enough connections and requests for the threads of all its agents.
fn check_shares(
    spec: &Spec,
    schedule: &Schedule,
    loads: &[PlannedLoad],
    agents: &[Agent],
    findings: &mut Findings,
) {
    for load in loads {
        let Ok(plan) = &load.plan else { continue };
        let is_of_load = |cell: &&Cell| load.cells.contains(&cell.number);
        for cell in schedule.cells.iter().filter(is_of_load) {
            let dealt_to = agents_of(spec, cell, agents).map(|agent| AgentThreads {
                threads: plan.load.threads,
                weight: agent.weight,
            });
            let dealt_to: Vec<AgentThreads> = dealt_to.collect();
            // A place without agents is reported already.
            if dealt_to.is_empty() {
                continue;
            }
            let Err(error) = plan.deal(&dealt_to) else {
                continue;
            };
            let at = match cell.place().filter(|_| !spec.places.is_empty()) {
                Some(place) => format!("place {}: ", printable(place)),
                None => String::new(),
            };
            let line = option_line(spec, &format!("--{error}")).unwrap_or(1);
            findings.problem(spec, line, format!("{at}{error}"));
        }
    }
}

pub(super) fn heading(spec: &Spec) -> &'static str {
    match spec.place_mode {
        PlaceMode::InTurn if !spec.places.is_empty() => "places, in turn",
        _ => "places, together",
    }
}

/// A line for each place: its agents, and its own URLs.
pub(super) fn lines(spec: &Spec, agents: Option<&[Agent]>) -> Vec<String> {
    let Some(agents) = agents else {
        return Vec::new();
    };
    let any = || {
        let names = places_of_agents(agents).into_iter();
        let place = |name: &str| PlaceSpec {
            name: name.to_owned(),
            urls: std::collections::BTreeMap::new(),
            line: 0,
        };
        names.map(place).collect()
    };
    let places: Vec<PlaceSpec> = match spec.places.as_slice() {
        [] => any(),
        named => named.to_vec(),
    };
    places.iter().map(|it| line(it, spec, agents)).collect()
}

fn line(place: &PlaceSpec, spec: &Spec, agents: &[Agent]) -> String {
    let there: Vec<&Agent> = agents.iter().filter(|it| it.place == place.name).collect();
    let name = |agent: &&Agent| {
        let cores = counted(agent.cores.into(), "core");
        format!("{} with {cores}", printable(&agent.name))
    };
    let mut names: Vec<String> = there.iter().take(AGENTS_SHOWN).map(name).collect();
    if there.len() > names.len() {
        names.push(format!("and {} more", there.len() - names.len()));
    }
    let mut line = format!(
        "{}: {}",
        printable(&place.name),
        counted(there.len() as u64, "agent")
    );
    if !names.is_empty() {
        line.push_str(&format!(" ({})", names.join(", ")));
    }
    // In the order of the file.
    for target in &spec.targets {
        if let Some(url) = place.urls.get(&target.name) {
            let url = printable(url);
            line.push_str(&match spec.targets.len() {
                1 => format!(", {url}"),
                _ => format!(", {} at {url}", quoted(&target.name)),
            });
        }
    }
    line
}

/// The places of the agents, in order of appearance.
fn places_of_agents(agents: &[Agent]) -> Vec<&str> {
    let mut places: Vec<&str> = Vec::new();
    for agent in agents {
        if !places.contains(&agent.place.as_str()) {
            places.push(&agent.place);
        }
    }
    places
}
