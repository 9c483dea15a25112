//! The calls of one sweep, carried out on the machine that they are for.

use std::path::PathBuf;

use super::call::{HostCall, HostFacts, HostFailure, HostResult, HostReturn};
use crate::change::FILE_SIZE_MAX;
use crate::environment::observe;
use crate::host::Host;
use crate::transaction::Transaction;

/// Carries out the calls of one sweep. If the process ends before [`HostCall::RestoreAll`], its
/// guardian restores the machine.
#[derive(Debug)]
pub struct HostSession {
    folder: PathBuf,
    transaction: Option<Transaction>,
}

impl HostSession {
    /// Nothing is changed yet. The journal will be in this folder.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            transaction: None,
        }
    }

    /// Carries out a call.
    ///
    /// # Errors
    /// Says why it failed.
    pub fn carry_out(&mut self, host: &mut dyn Host, call: HostCall) -> HostResult {
        let done = |()| HostReturn::Done;
        Ok(match call {
            HostCall::Facts => HostReturn::Facts(HostFacts::of(host, &self.folder)),
            HostCall::Read { path } => {
                let content = host.read(&path)?;
                if content.len() > FILE_SIZE_MAX {
                    let text = format!("larger than {FILE_SIZE_MAX} bytes");
                    return Err(std::io::Error::other(text).into());
                }
                HostReturn::Content(content)
            }
            HostCall::CheckWritable { path } => host.check_writable(&path).map(done)?,
            HostCall::HasProgram { name } => HostReturn::HasProgram(host.has_program(&name)),
            HostCall::Run {
                command,
                environment,
                limit,
            } => HostReturn::Ran(host.run(&command, &environment, limit)?),
            HostCall::Observe { sysctls } => {
                let sysctls = sysctls.iter().map(String::as_str);
                HostReturn::Observed(observe(host, sysctls))
            }
            HostCall::Check => Transaction::check(host, &self.folder).map(done)?,
            HostCall::Begin { experiment } => {
                if self.transaction.is_some() {
                    return Err(out_of_order("the changes have begun already"));
                }
                self.transaction = Some(Transaction::begin(host, &self.folder, &experiment)?);
                HostReturn::Done
            }
            HostCall::Change { change } => {
                let transaction = self.transaction.as_mut();
                let transaction = transaction.ok_or_else(|| out_of_order(NOT_BEGUN))?;
                HostReturn::Changed(transaction.change(host, &change)?)
            }
            HostCall::RestoreAll => {
                let transaction = self.transaction.take();
                let transaction = transaction.ok_or_else(|| out_of_order(NOT_BEGUN))?;
                HostReturn::Restored(transaction.restore_all(host))
            }
        })
    }
}

const NOT_BEGUN: &str = "the changes have not begun";

/// A coordinator that is not ours.
fn out_of_order(text: &str) -> HostFailure {
    HostFailure::Refused {
        text: text.to_owned(),
        ends_sweep: true,
    }
}
