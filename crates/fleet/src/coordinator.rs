//! The coordinator: it calls the agents and deals a plan out to them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use cluster::agent::KEEP_NS;
use cluster::bus::{Bus, BusError, Nats, NatsOptions};
use cluster::coordinator::{Chosen, Member, OnLost, Present, RollCallError, Wanted, call_roll};
use cluster::names::{AgentId, FleetName, Label, RunId};
use cluster::occupation::Occupation;
use cluster::package::{Bundle, BundledFile, MAX_PACKAGE_BYTES, Package, PackageError, bundle};
use cluster::refusal::RefusedBy;
use cluster::session::LEASE_NS;
use cluster::signing::SigningKey;
use plan::{AgentThreads, PlanError, RunPlan, Share, Target};
use runner::{DoneScript, Invocation, RunnerError, SharedRequests};

use crate::profile::ServerProfile;
use crate::run::{MergeInputs, PreparedFleet, Start};
use crate::wire::{Details, Outline, OutlinedAgent};
use crate::{clock, version};

/// A fleet, and how it is to make runs.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// The name of the fleet.
    pub fleet: FleetName,
    /// Signs orders. Agents must trust it.
    pub key: SigningKey,
    /// What to do when an agent is lost during the load.
    pub on_lost: OnLost,
}

/// The part of a fleet that makes a run, and where its requests go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// The agents that take part.
    pub wanted: Wanted,
    /// Addresses of the target that are different at some places.
    pub at: BTreeMap<Label, Target>,
}

/// Why a fleet cannot make a run; one line.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The bus cannot be used.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The agents cannot be used.
    #[error(transparent)]
    RollCall(#[from] RollCallError),
    /// Nobody takes part at a place that has its own address of the target.
    #[error("no agent at the place {place:?} takes part; there are agents at {known}")]
    NoAgentAt {
        /// The place that was asked for.
        place: Label,
        /// The places whose agents take part.
        known: String,
    },
    /// The plan cannot be dealt out to the agents.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan or one of its files cannot be sent.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The script or a file of the plan.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    /// The run ended before there was a load.
    #[error(transparent)]
    Run(#[from] cluster::coordinator::FleetError),
    /// An agent refuses to end a run, or to hand over its result.
    #[error(transparent)]
    Refused(#[from] RefusedBy),
    /// A run whose results are to be fetched has not ended.
    #[error(
        "agent {agent} is busy with {occupation}; fetch the results after its end, which comes \
         within {} s if its coordinator is gone, or end it with wrkbench fleet stop",
        LEASE_NS / 1_000_000_000
    )]
    GoesOn {
        /// The name of an agent.
        agent: AgentId,
        /// The run.
        occupation: Occupation,
    },
    /// No agent knows a run.
    #[error(
        "no agent of the fleet {fleet} knows the run {run} (wrkbench fleet status lists the runs; \
         agents keep a result for {} minutes, or until they are restarted)",
        KEEP_NS / 60_000_000_000
    )]
    NoSuchRun {
        /// The fleet that was called.
        fleet: FleetName,
        /// The run.
        run: RunId,
    },
    /// A machine that the experiment changes cannot be used.
    #[error("host {host}: {why}")]
    Host {
        /// The name of the machine.
        host: String,
        /// Why it cannot be used, one line.
        why: String,
    },
    /// The server cannot be profiled.
    #[error("--profile {server}: {why}")]
    Profile {
        /// The server of the plan.
        server: String,
        /// Why it cannot, one line.
        why: String,
    },
    /// A fleet of this machine could not be started.
    #[error("{0}")]
    Local(String),
}

/// A coordinator that is connected to its agents. It can make any number of runs.
pub struct Coordinator {
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) options: FleetOptions,
}

impl Coordinator {
    /// Connects to NATS.
    ///
    /// # Errors
    /// If no server accepts the connection.
    pub fn connect(nats: NatsOptions, options: FleetOptions) -> Result<Self, FleetError> {
        let bus = Nats::connect(nats, clock())?;
        Ok(Self::on(Arc::new(bus), options))
    }

    /// Uses a connected bus.
    #[must_use]
    pub fn on(bus: Arc<dyn Bus>, options: FleetOptions) -> Self {
        Self { bus, options }
    }

    /// The agents that make a run together, and those that stay out of it.
    ///
    /// # Errors
    /// If there are none or too few, none at a selected place, or if they cannot be used together.
    pub fn call_roll(&self, selection: &Selection) -> Result<Chosen, FleetError> {
        let fleet = self.options.fleet.clone();
        let wanted = selection.wanted.clone();
        let chosen = call_roll(&*self.bus, &clock(), fleet, version(), wanted)??;
        let agents = &chosen.agents;
        let is_known = |place: &&Label| agents.iter().any(|agent| agent.hello.place == **place);
        if let Some(place) = selection.at.keys().find(|place| !is_known(place)) {
            let known: BTreeSet<&str> = agents.iter().map(|it| it.hello.place.as_str()).collect();
            return Err(FleetError::NoAgentAt {
                place: place.clone(),
                known: known.into_iter().collect::<Vec<_>>().join(", "),
            });
        }
        Ok(chosen)
    }

    /// Deals the plan out to the agents that are there, sends them what they need for it, and has
    /// them prepare. The top level of a script runs here as well, for its `done`.
    ///
    /// # Errors
    /// If the agents cannot be used, or there are not enough connections or requests for all of
    /// their threads, or a file cannot be sent, or an agent refuses or cannot prepare.
    pub fn prepare(
        &self,
        mut plan: RunPlan,
        invocation: &Invocation,
        selection: &Selection,
    ) -> Result<PreparedFleet<'_>, FleetError> {
        runner::encode_message(&mut plan, invocation)?;
        let start = Start {
            unix_ms: invocation.unix_ms,
            monotonic_ns: clock()(),
        };
        let mut done = DoneScript::load(&plan)?;
        let modules = done.module_paths()?;
        let shipment = Shipment::load(&plan, &modules, invocation)?;
        let chosen = self.call_roll(selection)?;
        let left_out = chosen.note();
        let members = deal(&shipment.plan, chosen.agents, selection)?;
        let own = runner::environment(invocation);
        let Shown { whole, shares, at } = Shown::of(&members, &plan, selection, invocation);
        let details = Details {
            command_line: own.command_line.clone(),
            started_at: invocation.started_at.clone(),
            keeps_secrets: invocation.keeps_secrets,
            unix_ms: invocation.unix_ms,
            outline: Outline {
                whole: whole.clone(),
                agents: members.iter().map(outlined).collect(),
                at,
                environment: own.clone(),
                keeps_secrets: invocation.keeps_secrets,
            },
        };
        let members = packed(members, &shipment.files.files, &details)?;
        let profile = plan.profile.as_deref();
        let profile = profile.map(|server| ServerProfile::start(self, server));
        let notes = shipment.files.missing_modules.iter().map(|module| {
            format!("the module {module:?} was not found here and is not sent; agents need it")
        });
        PreparedFleet::new(
            self,
            members,
            MergeInputs {
                whole,
                shares,
                done,
                environment: own,
                start,
                requests: shipment.requests,
                profile: profile.transpose()?,
            },
            left_out.into_iter().chain(notes).collect(),
        )
    }
}

/// What all agents get.
struct Shipment {
    /// The plan with the names that its files have in the package.
    plan: RunPlan,
    files: Bundle,
    /// The requests of a file.
    requests: Option<SharedRequests>,
}

impl Shipment {
    fn load(
        plan: &RunPlan,
        modules: &[String],
        invocation: &Invocation,
    ) -> Result<Self, FleetError> {
        let mut sent = plan.clone();
        let requests = SharedRequests::load(plan, invocation)?;
        // Their file of requests has the types.
        sent.request.schema = None;
        let request_file = plan.request.file.as_ref().map(|file| file.path.as_path());
        let files = bundle(&mut sent, modules, &|path: &Path| match &requests {
            // Agents have neither the files that it names nor the environment variables.
            Some(requests) if request_file == Some(path) => Ok(requests.file.clone()),
            _ => files::read(path, MAX_PACKAGE_BYTES),
        })?;
        Ok(Self {
            plan: sent,
            files,
            requests,
        })
    }
}

/// The share of each agent, with the target of its place.
fn deal(
    plan: &RunPlan,
    agents: Vec<Present>,
    selection: &Selection,
) -> Result<Vec<(Present, Share)>, PlanError> {
    let dealt_to = agents.iter().map(|present| AgentThreads {
        threads: plan.load.threads,
        weight: present.hello.weight,
    });
    let mut shares = plan.deal(&dealt_to.collect::<Vec<_>>())?;
    for (present, share) in agents.iter().zip(&mut shares) {
        if let Some(target) = selection.at.get(&present.hello.place) {
            share.plan.target = target.clone();
        }
    }
    Ok(agents.into_iter().zip(shares).collect())
}

/// A plan that was dealt out, as results show it.
struct Shown {
    whole: RunPlan,
    shares: BTreeMap<AgentId, Share>,
    /// The target at places that have their own.
    at: BTreeMap<Label, Target>,
}

impl Shown {
    fn of(
        members: &[(Present, Share)],
        plan: &RunPlan,
        selection: &Selection,
        invocation: &Invocation,
    ) -> Self {
        let mut shares = BTreeMap::new();
        let mut at = BTreeMap::new();
        for (present, share) in members {
            let place = &present.hello.place;
            let shown = Share {
                plan: shown(&share.plan, plan, invocation),
                ..share.clone()
            };
            if selection.at.contains_key(place) {
                at.insert(place.clone(), shown.plan.target.clone());
            }
            shares.insert(present.agent.clone(), shown);
        }
        Self {
            whole: shown(plan, plan, invocation),
            shares,
            at,
        }
    }
}

fn outlined((present, share): &(Present, Share)) -> OutlinedAgent {
    OutlinedAgent {
        agent: present.agent.clone(),
        place: present.hello.place.clone(),
        weight: share.weight,
    }
}

/// The package of each agent.
fn packed(
    members: Vec<(Present, Share)>,
    files: &[BundledFile],
    details: &Details,
) -> Result<Vec<Member>, PackageError> {
    let machine = details.outline.environment.hostname.as_deref();
    let machine = machine.unwrap_or("unknown machine");
    let details = serde_json::to_value(details).unwrap_or_default();
    let member = |(present, share): (Present, Share)| {
        let target = &share.plan.target;
        let (scheme, authority) = (target.scheme.name(), target.authority());
        let package = Package {
            // Without path and credentials: everybody in the fleet can read it.
            title: Label::new(&format!("{machine}, {scheme}://{authority}")),
            share,
            details: details.clone(),
            files: files.to_vec(),
        };
        let package = package.encode()?;
        Ok(Member { present, package })
    };
    members.into_iter().map(member).collect()
}

/// A plan as results show it: with the files that the user named, which agents have elsewhere, and
/// without secrets.
fn shown(share: &RunPlan, plan: &RunPlan, invocation: &Invocation) -> RunPlan {
    let mut shown = share.clone();
    shown.request = plan.request.clone();
    shown.tls = plan.tls.clone();
    if invocation.keeps_secrets {
        shown
    } else {
        shown.without_secrets()
    }
}
