//! The guardian: a process that does nothing but wait for the death of another one, and then puts back what
//! that one had changed.
//!
//! A process that hangs is not dead: nothing is put back while it lives.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::host::Host;
use crate::machine::{LinkEnd, end_group, listen};
use crate::restore::{Conflicts, RestoreReport, restore_locked};
use crate::transaction::SafetyError;

/// Guards until the process at the other end of the link (the guardian's stdin) dies or says
/// farewell, and puts back what the journal in the folder says. `None` if there was nothing to do. It leaves
/// its session first, so that no signal for the other one's terminal or group reaches it; other signals are the caller's
/// to ignore.
///
/// # Errors
/// When it cannot guard at all, or when the journal cannot be trusted.
pub fn guard<H: Host + ?Sized>(
    host: &mut H,
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
    // Whatever else stdin may be, its end is not the death of a sweep.
    link.local_addr()?;
    // It fails for who leads a group already, and is in a session of its own then, or started by hand.
    let _ = rustix::process::setsid();
    Ok(link)
}
