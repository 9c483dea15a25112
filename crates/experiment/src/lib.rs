//! Experiments: runs all combinations of factor levels in rounds, and restores the machine.
//!
//! This crate neither calls the engine nor touches the machine directly: the caller passes a
//! [`Host`] and a function that makes one run. Other machines are [`RemoteHost`]s.

#![forbid(unsafe_code)]

mod agents;
mod change;
mod content;
mod design;
mod environment;
mod factor;
#[doc(hidden)]
pub mod fake;
mod guardian;
mod hooks;
mod host;
mod journal;
mod judgement;
mod machine;
mod policy;
mod preflight;
mod prepared;
mod progress;
mod related_settings;
mod remote;
mod restore;
mod resume;
mod run;
mod safety;
mod settings;
mod spec;
mod starter;
mod store;
mod transaction;

pub use agents::{Agent, agents_of};
pub use change::{Change, FILE_SIZE_MAX, sysctl_path};
pub use design::{Planned, Schedule};
pub use environment::observe;
pub use factor::{Check, Factor, FactorError, FactorKind, Level, LevelValue};
pub use guardian::guard;
pub use hooks::Failure;
pub use host::{CommandOutput, Host, HostAccess, Lock, SettingsFolder, UntrustedPath};
pub use judgement::{Judgement, common_judge, common_threshold};
pub use machine::{
    GuardianCommand, Machine, MachineSettings, OnWait, Waiting, create_free_folder, free_folder,
    misplaced,
};
pub use policy::{Fixed, Left, Limit, Policy, Searches, StoppingRule};
pub use preflight::{Preflight, nominal_time, preflight};
pub use prepared::PreparedExperiment;
pub use progress::ExperimentProgress;
pub use remote::{
    CallError, HostCall, HostFacts, HostFailure, HostResult, HostReturn, HostSession, Link,
    LinkLost, RemoteHost, RemoteHosts, begin_on_all,
};
pub use restore::{Conflicts, RestoreOutcome, RestoreReport, RestoreStep, preview, restore};
pub use resume::{Remaining, ResumeError, ResumeOptions};
pub use run::{Abort, Assignment, Event, ExperimentContext, ExperimentOutcome, ExperimentRun, run};
pub use safety::{SafetyError, restore_command};
pub use spec::{
    Baseline, Draft, Hook, Hooks, InvalidRounds, Keys, LoadOption, LoadOptions, MAX_ROUNDS,
    OptionValue, PlaceMode, PlaceSpec, Profile, Ready, RunFile, SearchSpec, Selection,
    SelectionError, Spec, SpecError, TargetSpec, comma_separated,
};
pub use starter::Starter;
pub use store::{Store, StoreError, default_folder, samples_name, trial_name};
pub use transaction::{Effective, Transaction};
