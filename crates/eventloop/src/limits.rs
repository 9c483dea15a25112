//! The open-file limit of this process.
#![allow(
    unsafe_code,
    reason = "getrlimit and setrlimit have no safe form in std"
)]

/// Raises the soft limit of open files to the hard limit, as every process may, and returns the
/// limit. `None` if the kernel does not report it.
#[must_use]
pub fn raise_open_file_limit() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return None;
    }
    if limit.rlim_cur < limit.rlim_max {
        let raised = libc::rlimit {
            rlim_cur: limit.rlim_max,
            ..limit
        };
        // SAFETY: `raised` lives through the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit = raised;
        }
    }
    Some(limit.rlim_cur)
}

/// The current soft limit.
pub(crate) fn open_file_limit() -> u32 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` lives through the call.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if got == 0 {
        u32::try_from(limit.rlim_cur).unwrap_or(u32::MAX)
    } else {
        1024
    }
}
