//! The fleet that makes the runs of a command.

use anyhow::{anyhow, bail};
use experiment::{Agent, RemoteHosts, Spec, agents_of};
use fleet::{Label, Selection, Wanted};
use plan::{RunPlan, Target};
use results::Cell;
use runner::{Invocation, PreparedRun};

use super::commands::FleetLink;
use super::{FleetArgs, FleetRequest};
use crate::args::Refusal;
use crate::commands::run_maker::{RunMaker, ThisMachine};
use crate::console::Console;

struct Fleet {
    link: FleetLink,
    /// As on the command line.
    selection: Selection,
    /// Of a sweep: the agents that were there at the start. All of them make every run that is
    /// theirs.
    agents: Vec<Agent>,
    left_out: Option<String>,
}

/// Who makes a run: a fleet if there is one, otherwise this machine.
///
/// # Errors
/// When a file cannot be read, or there is no connection.
pub(crate) fn maker(
    request: Option<&FleetRequest>,
    console: &Console,
) -> anyhow::Result<Box<dyn RunMaker>> {
    let Some(request) = request else {
        return Ok(Box::new(ThisMachine));
    };
    Ok(Box::new(Fleet::open(request, console)?))
}

/// Who makes the runs of a sweep. Calls the agents of a fleet.
///
/// # Errors
/// When an option does not fit the experiment, there is no connection, or the agents cannot be used
/// together.
pub(crate) fn maker_of_sweep(
    arguments: &FleetArgs,
    spec: &Spec,
    console: &Console,
) -> anyhow::Result<Box<dyn RunMaker>> {
    let request = arguments.clone().into_request();
    let Some(request) = request.map_err(|Refusal(line)| anyhow!(line))? else {
        return Ok(Box::new(ThisMachine));
    };
    let Selection { wanted, at } = &request.selection;
    for (option, is_given) in [
        ("--only-place", !wanted.places.is_empty()),
        ("--at", !at.is_empty()),
    ] {
        if is_given && !spec.places.is_empty() {
            bail!("{option}: the experiment has its places, with their URLs ([[place]])");
        }
    }
    if !at.is_empty() && spec.targets.len() > 1 {
        bail!("--at: the experiment has several targets: write [[place]] with a url for each");
    }
    let mut fleet = Fleet::open(&request, console)?;
    let chosen = fleet.link.coordinator().call_roll(&fleet.selection)?;
    fleet.left_out = chosen.note();
    let agents = chosen.agents.into_iter().map(|present| Agent {
        name: present.agent.to_string(),
        place: present.hello.place.to_string(),
        cores: present.hello.cores,
        weight: present.hello.weight,
    });
    fleet.agents = agents.collect();
    Ok(Box::new(fleet))
}

impl RunMaker for Fleet {
    /// The agents of a cell must all be there.
    fn prepare(
        &self,
        plan: RunPlan,
        invocation: Invocation,
        cell: Option<(&Spec, &Cell)>,
    ) -> anyhow::Result<Box<dyn PreparedRun + '_>> {
        let selection = match cell {
            None => &self.selection,
            Some(cell) => &self.selection_of(cell, &plan.target)?,
        };
        let coordinator = self.link.coordinator();
        let prepared = coordinator.prepare(plan, &invocation, selection)?;
        Ok(Box::new(prepared))
    }

    fn note(&self, run: &dyn PreparedRun) -> Option<String> {
        self.link.note(run.run_id())
    }

    fn agents(&self) -> Option<&[Agent]> {
        Some(&self.agents)
    }

    fn left_out(&self) -> Option<&String> {
        self.left_out.as_ref()
    }

    fn hosts(&self, spec: &Spec) -> anyhow::Result<RemoteHosts> {
        let names = spec.hosts().into_keys();
        Ok(self.link.coordinator().hosts(names)?)
    }
}

impl Fleet {
    fn open(request: &FleetRequest, console: &Console) -> anyhow::Result<Self> {
        Ok(Self {
            link: FleetLink::open(request, console)?,
            selection: request.selection.clone(),
            agents: Vec::new(),
            left_out: None,
        })
    }

    /// The agents of a cell, and the addresses of its target that are not that of the plan.
    fn selection_of(
        &self,
        (spec, cell): (&Spec, &Cell),
        planned: &Target,
    ) -> anyhow::Result<Selection> {
        let agents = agents_of(spec, cell, &self.agents);
        let names = agents.map(|agent| agent.name.parse());
        let mut selection = Selection {
            wanted: Wanted {
                names: names.collect::<Result<_, _>>()?,
                ..Wanted::default()
            },
            at: self.selection.at.clone(),
        };
        for place in spec.places_of(cell) {
            let own = place.urls.get(&cell.target);
            if let Some(url) = own.filter(|url| **url != planned.url) {
                let mut target = Target::parse(url)?;
                target.unix_socket.clone_from(&planned.unix_socket);
                selection.at.insert(Label::new(&place.name), target);
            }
        }
        Ok(selection)
    }
}
