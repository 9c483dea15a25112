//! The guardian: a process that waits until the sweep's process dies and then restores the machine.
//!
//! A process that hangs is not dead: nothing is restored while it lives.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::host::Host;
use crate::machine::{LinkEnd, end_group, listen};
use crate::restore::{Conflicts, RestoreReport, restore_locked};
use crate::safety::SafetyError;

/// Waits until the process at the other end of the link (the guardian's stdin) dies or says that it
/// is finished. If it died, restores what the journal in the folder records; `None` if there was
/// nothing to do. The guardian first starts its own session, so that no signal to the sweep's
/// terminal or process group reaches it. The caller must ignore other signals.
///
/// # Errors
/// When it cannot watch the link, or when the journal cannot be trusted.
pub fn guard(
    host: &mut dyn Host,
    link: BorrowedFd<'_>,
    folder: &Path,
) -> Result<Option<RestoreReport>, SafetyError> {
    let link = leave(link).map_err(SafetyError::Guardian)?;
    match listen(&link) {
        LinkEnd::Finished => Ok(None),
        LinkEnd::Death(running) => {
            if let Some(group) = running {
                end_group(group, |pause| host.sleep(pause));
            }
            restore_locked(host, folder, Conflicts::Report)
        }
    }
}

fn leave(link: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let link = UnixStream::from(link.try_clone_to_owned()?);
    // If stdin is not a socket, its end does not mean that a sweep has died.
    link.local_addr()?;
    // This fails if we already lead a process group: then we have our own session, or were started
    // by hand.
    let _ = rustix::process::setsid();
    Ok(link)
}
