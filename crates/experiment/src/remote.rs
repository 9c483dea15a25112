//! Machines elsewhere, as an experiment sees them.
//!
//! The changes of such a machine are made and recorded there: [`HostSession`] carries out calls
//! with a transaction of its own, so that whatever happens here or on the way, the journal there
//! says how to restore it. [`RemoteHost`] makes the calls through a [`Link`].

mod call;
mod session;

pub use call::{HostCall, HostFacts, HostFailure, HostResult, HostReturn};
pub use session::HostSession;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{fmt, io};

use crate::change::Change;
use crate::host::{CommandOutput, Host, HostAccess};
use crate::machine::{OnWait, Waiting};
use crate::restore::{RestoreOutcome, RestoreReport, RestoreStep};
use crate::safety::{SafetyError, restore_command};
use crate::transaction::Effective;

/// Why a machine elsewhere cannot be used any more; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LinkLost(String);

impl LinkLost {
    /// A link that is lost for this reason.
    pub fn new(reason: impl ToString) -> Self {
        Self(reason.to_string())
    }
}

/// Why a call has returned nothing that can be used; one line.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The machine cannot be used any more.
    #[error(transparent)]
    Lost(#[from] LinkLost),
    /// The machine could not do it, or refused to.
    #[error("{0}")]
    Failed(HostFailure),
    /// What it has returned belongs to another call.
    #[error("the agent said something unexpected")]
    Unexpected,
}

/// Carries calls to a machine elsewhere.
pub trait Link {
    /// Makes a call and waits for what it returns. `on_wait` is called a few times per second
    /// meanwhile.
    ///
    /// # Errors
    /// Why there is none. The machine cannot be used any more then.
    fn call(&mut self, call: &HostCall, on_wait: &mut dyn FnMut()) -> Result<HostResult, LinkLost>;

    /// Why the machine cannot be used any more.
    fn lost(&self) -> Option<LinkLost>;

    /// Sets this flag as soon as the machine cannot be used any more.
    fn when_lost(&mut self, _flag: Arc<AtomicBool>) {}
}

/// Another machine, whose agent carries out the calls.
pub struct RemoteHost {
    name: String,
    facts: HostFacts,
    link: RefCell<Box<dyn Link>>,
    on_wait: RefCell<Option<OnWait>>,
}

/// Machines elsewhere, by the name that the experiment file gives them.
pub type RemoteHosts = BTreeMap<String, RemoteHost>;

impl RemoteHost {
    /// The machine at the other end of a link.
    ///
    /// # Errors
    /// When it does not say what it is.
    pub fn new(name: &str, mut link: Box<dyn Link>) -> Result<Self, CallError> {
        match link.call(&HostCall::Facts, &mut || {})? {
            Ok(HostReturn::Facts(facts)) => Ok(Self {
                name: name.to_owned(),
                facts: HostFacts {
                    restore: plain(&facts.restore),
                    ..facts
                },
                link: RefCell::new(link),
                on_wait: RefCell::default(),
            }),
            Ok(_) => Err(CallError::Unexpected),
            Err(failure) => Err(CallError::Failed(failure)),
        }
    }

    /// Its name in the experiment file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it says about itself.
    #[must_use]
    pub fn facts(&self) -> &HostFacts {
        &self.facts
    }

    /// Sets a function that is called a few times per second while a command is being waited for.
    pub fn set_on_wait(&mut self, on_wait: OnWait) {
        *self.on_wait.get_mut() = Some(on_wait);
    }

    /// Sets this flag as soon as it cannot be used any more: the run that is going on is worthless.
    pub fn when_lost(&mut self, flag: Arc<AtomicBool>) {
        self.link.get_mut().when_lost(flag);
    }

    /// Why it cannot be used any more.
    #[must_use]
    pub fn lost(&self) -> Option<SafetyError> {
        let why = self.link.borrow().lost()?;
        Some(self.lost_because(&why))
    }

    /// As [`crate::Transaction::check`], there.
    ///
    /// # Errors
    /// As there.
    pub fn check(&mut self) -> Result<(), SafetyError> {
        self.change_call(&HostCall::Check).map(drop)
    }

    /// As [`crate::Transaction::begin`], there.
    ///
    /// # Errors
    /// As there.
    pub fn begin(&mut self, experiment: &str) -> Result<(), SafetyError> {
        let experiment = experiment.to_owned();
        self.change_call(&HostCall::Begin { experiment }).map(drop)
    }

    /// As [`crate::Transaction::change`], there.
    ///
    /// # Errors
    /// As there.
    pub fn change(&mut self, change: &Change) -> Result<Effective, SafetyError> {
        let mut change = change.clone();
        if let Change::Command { environment, .. } | Change::AtEnd { environment, .. } = &mut change
        {
            without_folder(environment);
        }
        match self.change_call(&HostCall::Change { change })? {
            HostReturn::Changed(Effective { value, output }) => Ok(Effective {
                value: value.map(|value| with_blanks(&value)),
                output,
            }),
            _ => Err(self.lost_because(&CallError::Unexpected)),
        }
    }

    /// As [`crate::Transaction::restore_all`], there. What cannot be reached is reported as not
    /// restored.
    pub fn restore_all(&mut self) -> RestoreReport {
        let error = match self.call(&HostCall::RestoreAll) {
            Ok(HostReturn::Restored(report)) => return self.named(report),
            Ok(_) => CallError::Unexpected,
            Err(error) => error,
        };
        RestoreReport {
            changed_machine: String::new(),
            steps: vec![RestoreStep {
                what: self.name.clone(),
                outcome: RestoreOutcome::Failed(error.to_string()),
                said: Vec::new(),
                command: self.facts.restore.clone(),
            }],
        }
    }

    /// Reads the values that [`crate::observe`] reads, on that machine.
    #[must_use]
    pub fn observe(&self, sysctls: Vec<String>) -> BTreeMap<String, String> {
        match self.call(&HostCall::Observe { sysctls }) {
            Ok(HostReturn::Observed(values)) => values
                .into_iter()
                .map(|(name, value)| (plain(&name), plain(&value)))
                .collect(),
            // Values that cannot be read are absent.
            _ => BTreeMap::new(),
        }
    }

    fn call(&self, call: &HostCall) -> Result<HostReturn, CallError> {
        /// How often a link reports that it waits, about.
        const TURN: Duration = Duration::from_millis(500);
        let mut elapsed = Duration::ZERO;
        let mut on_wait = self.on_wait.borrow_mut();
        let mut tell = || {
            elapsed += TURN;
            if let (Some(on_wait), Some((command, limit))) = (&mut *on_wait, call.command()) {
                on_wait(Waiting {
                    command,
                    elapsed,
                    limit,
                });
            }
        };
        let result = self.link.borrow_mut().call(call, &mut tell)?;
        result.map_err(CallError::Failed)
    }

    /// A call of the transaction.
    fn change_call(&mut self, call: &HostCall) -> Result<HostReturn, SafetyError> {
        self.call(call).map_err(|error| match error {
            CallError::Lost(_) | CallError::Unexpected => self.lost_because(&error),
            CallError::Failed(HostFailure::Apply {
                name,
                command,
                output,
            }) => SafetyError::Apply {
                name: format!("{name} on {}", self.name),
                command,
                output,
            },
            CallError::Failed(failure) => SafetyError::Elsewhere {
                host: self.name.clone(),
                ends_sweep: failure.ends_sweep(),
                why: failure.to_string(),
            },
        })
    }

    fn lost_because(&self, why: &dyn fmt::Display) -> SafetyError {
        SafetyError::Elsewhere {
            host: self.name.clone(),
            why: why.to_string(),
            ends_sweep: true,
        }
    }

    /// The report with the name of the machine at everything.
    fn named(&self, report: RestoreReport) -> RestoreReport {
        let steps = report.steps.into_iter().map(|step| RestoreStep {
            what: format!("{}: {}", self.name, plain(&step.what)),
            said: step.said.iter().map(|line| plain(line)).collect(),
            outcome: step.outcome.with_texts(plain),
            command: plain(&step.command),
        });
        RestoreReport {
            changed_machine: plain(&report.changed_machine),
            steps: steps.collect(),
        }
    }
}

impl From<CallError> for io::Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Lost(why) => Self::new(io::ErrorKind::NotConnected, why),
            CallError::Failed(failure) => failure.into(),
            CallError::Unexpected => Self::other(error),
        }
    }
}

impl HostAccess for RemoteHost {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let path = path.to_owned();
        match self.call(&HostCall::Read { path })? {
            HostReturn::Content(content) => Ok(content),
            _ => Err(CallError::Unexpected.into()),
        }
    }

    fn check_writable(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.call(&HostCall::CheckWritable { path })?;
        Ok(())
    }

    fn has_program(&self, name: &str) -> bool {
        let name = name.to_owned();
        let found = self.call(&HostCall::HasProgram { name });
        matches!(found, Ok(HostReturn::HasProgram(true)))
    }

    fn run(
        &mut self,
        command: &str,
        environment: &BTreeMap<String, String>,
        limit: Duration,
    ) -> io::Result<CommandOutput> {
        let mut environment = environment.clone();
        without_folder(&mut environment);
        let call = HostCall::Run {
            command: command.to_owned(),
            environment,
            limit,
        };
        match self.call(&call)? {
            HostReturn::Ran(output) => Ok(output),
            _ => Err(CallError::Unexpected.into()),
        }
    }

    fn is_root(&self) -> bool {
        self.facts.is_root
    }
}

/// The folder of the experiment file is on this machine.
fn without_folder(environment: &mut BTreeMap<String, String>) {
    environment.remove(crate::spec::FOLDER_VARIABLE);
}

/// A value of another machine; the kernel separates numbers with tabs.
fn with_blanks(value: &str) -> String {
    plan::printable_lines(value).replace('\n', " ")
}

/// A text of another machine on one line.
fn plain(text: &str) -> String {
    plan::printable(text).into_owned()
}

/// Begins the changes of an experiment on each machine, or on none.
///
/// # Errors
/// As those of [`crate::Transaction::begin`].
pub fn begin_on_all(hosts: &mut RemoteHosts, experiment: &str) -> Result<(), SafetyError> {
    let mut begun = Vec::new();
    let mut result = Ok(());
    for host in hosts.values_mut() {
        result = host.begin(experiment);
        if result.is_err() {
            break;
        }
        begun.push(host);
    }
    if result.is_err() {
        for host in begun {
            // Nothing was changed: this only releases the lock.
            let _ = host.restore_all();
        }
    }
    result
}

/// This machine and the others.
pub(crate) struct Machines<'a> {
    pub(crate) local: &'a mut dyn Host,
    pub(crate) others: &'a mut RemoteHosts,
}

impl Machines<'_> {
    /// The machine of this name, `None` being this one.
    pub(crate) fn get(&self, host: Option<&str>) -> Option<&dyn HostAccess> {
        match host {
            None => Some(&*self.local),
            Some(name) => self.others.get(name).map(|host| host as &dyn HostAccess),
        }
    }

    /// The machine of this name for changes, `None` being this one.
    pub(crate) fn get_mut(&mut self, host: Option<&str>) -> Option<&mut dyn HostAccess> {
        match host {
            None => Some(&mut *self.local),
            Some(name) => {
                let host = self.others.get_mut(name);
                host.map(|host| host as &mut dyn HostAccess)
            }
        }
    }
}

/// Something on a machine, for messages: `db1: net.core.rmem_max`.
pub(crate) fn label_on(host: Option<&str>, what: &str) -> String {
    match host {
        Some(host) => format!("{host}: {what}"),
        None => what.to_owned(),
    }
}

/// The name of a value of a machine elsewhere: `db1:net.core.rmem_max`.
pub(crate) fn name_on(host: Option<&str>, name: &str) -> String {
    match host {
        Some(host) => format!("{host}:{name}"),
        None => name.to_owned(),
    }
}

impl HostFacts {
    /// Facts about a machine with its journal in this folder.
    #[must_use]
    pub fn of(host: &dyn Host, folder: &Path) -> Self {
        Self {
            is_root: host.is_root(),
            restore: restore_command(folder),
        }
    }
}
