//! The fleet that makes the runs of a sweep.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use anyhow::{anyhow, bail};
use experiment::{Agent, RemoteHosts, Spec, agents_of};
use fleet::{Label, Present, Selection, Wanted};
use outputs::{Event, Observers, RunStart};
use plan::{RunPlan, Target};
use results::{Cell, RunResult};
use runner::{Finished, Invocation};

use super::args::FleetArgs;
use super::commands::FleetLink;
use crate::args::Refusal;
use crate::console::Console;

/// The agents that were there at the start. All of them make every run that is theirs.
pub(crate) struct SweepFleet {
    link: FleetLink,
    pub(crate) agents: Vec<Agent>,
    /// Who else is there and takes no part, in one line.
    pub(crate) left_out: Option<String>,
    /// Addresses of the target that are different at some places, from the command line.
    at: BTreeMap<Label, Target>,
}

impl SweepFleet {
    /// Connects to the fleet of the command line and calls its agents; `None` without one.
    ///
    /// # Errors
    /// When an option does not fit the experiment, there is no connection, or the agents cannot be
    /// used together.
    pub(crate) fn connect(
        arguments: &FleetArgs,
        spec: &Spec,
        console: &Console,
    ) -> anyhow::Result<Option<Self>> {
        let request = arguments.clone().into_request();
        let Some(request) = request.map_err(|Refusal(line)| anyhow!(line))? else {
            return Ok(None);
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
        let link = FleetLink::open(&request, console)?;
        let chosen = link.coordinator().call_roll(&request.selection)?;
        let left_out = chosen.note();
        let agents = chosen.agents.into_iter().map(|present: Present| Agent {
            name: present.agent.to_string(),
            place: present.hello.place.to_string(),
            cores: present.hello.cores,
            weight: present.hello.weight,
        });
        Ok(Some(Self {
            agents: agents.collect(),
            left_out,
            link,
            at: request.selection.at,
        }))
    }

    /// Opens a session with each machine that the experiment names.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub(crate) fn hosts(&self, spec: &Spec) -> anyhow::Result<RemoteHosts> {
        let names = spec.hosts().into_keys();
        Ok(self.link.coordinator().hosts(names)?)
    }

    /// Makes a run of a cell. Observers get the plan with the threads of all agents. What the user
    /// should know about agents is added to the notes.
    ///
    /// # Errors
    /// When an agent is missing, or there was no load.
    pub(crate) fn run(
        &self,
        (plan, invocation): (RunPlan, &Invocation),
        (spec, cell): (&Spec, &Cell),
        interrupted: &AtomicBool,
        (observers, labels): (&mut Observers<'_>, &BTreeMap<String, String>),
        notes: &mut Vec<String>,
    ) -> Result<Finished, String> {
        let selection = self.selection(spec, cell, &plan.target)?;
        let coordinator = self.link.coordinator();
        let prepared = coordinator
            .prepare(plan, invocation, &selection)
            .map_err(|error| error.to_string())?;
        observers.event(&Event::Start(RunStart {
            plan: prepared.plan(),
            labels,
            run_id: Some(prepared.id().as_str()),
            agents: prepared.agents(),
        }));
        let over = prepared.run(interrupted, observers.observer());
        let over = over.map_err(|error| error.to_string())?;
        notes.extend(over.notes);
        Ok(over.finished)
    }

    /// The agents of a cell, and the addresses of its target that are not that of the plan.
    fn selection(&self, spec: &Spec, cell: &Cell, planned: &Target) -> Result<Selection, String> {
        let mut names = Vec::new();
        for agent in agents_of(spec, cell, &self.agents) {
            let name = agent.name.parse();
            let name = name.map_err(|error: fleet::NameError| error.to_string())?;
            names.push(name);
        }
        let mut selection = Selection {
            wanted: Wanted {
                names,
                ..Wanted::default()
            },
            at: self.at.clone(),
        };
        for place in spec.places_of(cell) {
            let own = place.urls.get(&cell.target);
            if let Some(url) = own.filter(|url| **url != planned.url) {
                let mut target = Target::parse(url).map_err(|error| error.to_string())?;
                target.unix_socket.clone_from(&planned.unix_socket);
                selection.at.insert(Label::new(&place.name), target);
            }
        }
        Ok(selection)
    }
}

/// Why a result is partial, if it is.
pub(crate) fn why_partial(result: &RunResult) -> Option<String> {
    let mut warnings = result.warnings.iter();
    let found = warnings.find(|it| it.data.is_partial());
    let text = found.map(|warning| warning.text.clone());
    result
        .is_partial()
        .then(|| text.unwrap_or_else(|| "partial result".to_owned()))
}
