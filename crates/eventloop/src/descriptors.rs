//! Descriptors that whoever started the program has left open for it.

#![allow(unsafe_code, reason = "std takes no descriptor by its number")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// A duplicate of the descriptor with this number.
///
/// # Errors
/// When it is not open. One that this program has opened itself counts as not open.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl accepts any number, and this command changes nothing.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // Whatever Rust opens is closed on exec, so it cannot have been inherited.
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: as above. The standard streams keep their numbers.
    let duplicate = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if duplicate < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(duplicate) })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_number_that_is_not_open_or_not_inherited_is_refused() {
        let closed = inherited(1_000_000).expect_err("there are not so many");
        assert_eq!(closed.raw_os_error(), Some(libc::EBADF));
        assert!(inherited(-1).is_err());
        let own = std::fs::File::open("/dev/null").expect("it exists");
        let refused = inherited(own.as_raw_fd()).expect_err("it is this program's own");
        assert_eq!(refused.raw_os_error(), Some(libc::EBADF));
        assert!(inherited(2).is_ok());
    }
}
