//! Sets up a ring, and finds out whether the kernel lets a process have one.

use super::Uring;
use crate::{EventLoop, LoopOptions, SocketEvent, monotonic_ns};
use io_uring::IoUring;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Entries that can be queued before the kernel must be called.
const SUBMISSION_ENTRIES: u32 = 1024;

/// How long a new ring waits for the kernel to free closed ones.
const FREEING_PAUSE: Duration = Duration::from_millis(10);

const FREEING_PAUSES_MAX: u32 = 20;

impl Uring {
    /// Whether this kernel lets this process use the backend.
    ///
    /// # Errors
    /// The reason, if it does not.
    pub fn probe() -> io::Result<()> {
        // In a separate thread: when a ring is destroyed, the kernel interrupts the thread that
        // made it, and blocking calls there would fail with EINTR.
        let thread = std::thread::Builder::new().name("probe".to_owned());
        let probing = thread.spawn(|| {
            let mut this = Self::new(&LoopOptions {
                sockets: 1,
                ..LoopOptions::default()
            })?;
            this.probe_multishot()
        });
        probing?
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("probing io_uring failed")))
    }

    /// The list of supported operations does not show multishot receive (Linux 6.0). An older
    /// kernel accepts the entry and fails it with EINVAL.
    fn probe_multishot(&mut self) -> io::Result<()> {
        use std::io::Write;
        let (mut near, far) = std::os::unix::net::UnixStream::pair()?;
        self.adopt(0, OwnedFd::from(far))?;
        near.write_all(b"x")?;
        self.wait(Some(monotonic_ns() + 1_000_000_000))?;
        match self.next().map(|completion| completion.event) {
            Some(SocketEvent::Received(1)) => Ok(()),
            other => Err(io::Error::other(format!(
                "multishot receive does not work here (needs Linux 6.0): {other:?}"
            ))),
        }
    }
}

pub(super) fn build_ring(options: &LoopOptions) -> io::Result<IoUring> {
    let completions = (options.sockets * 4)
        .next_power_of_two()
        .clamp(4096, 32_768);
    let attempt = |modern: bool, newest: bool| {
        let mut builder = IoUring::builder();
        builder
            .setup_cqsize(completions)
            .setup_clamp()
            .setup_submit_all()
            // Shows whether there is something to take (`has_more`, `spin`).
            .setup_taskrun_flag();
        if modern {
            builder.setup_single_issuer().setup_defer_taskrun();
        } else {
            builder.setup_coop_taskrun();
        }
        if newest {
            builder.setup_no_sqarray();
        }
        builder.build(SUBMISSION_ENTRIES)
    };
    let refused = |error: &io::Error, code| error.raw_os_error() == Some(code);
    // NO_SQARRAY is from Linux 6.6, DEFER_TASKRUN from 6.1, COOP_TASKRUN from 5.19.
    let build = || match attempt(true, true) {
        Err(error) if refused(&error, libc::EINVAL) => match attempt(true, false) {
            Err(error) if refused(&error, libc::EINVAL) => attempt(false, false),
            other => other,
        },
        other => other,
    };
    let mut ring = build();
    // The kernel frees closed rings in the background. Until then their memory counts against the
    // limit of the user (RLIMIT_MEMLOCK).
    for _ in 0..FREEING_PAUSES_MAX {
        if !ring
            .as_ref()
            .is_err_and(|error| refused(error, libc::ENOMEM))
        {
            break;
        }
        std::thread::park_timeout(FREEING_PAUSE);
        ring = build();
    }
    let ring = ring.map_err(|error| explain(error, "setting up a ring"))?;
    if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
        return Err(io::Error::other(
            "this kernel's io_uring is too old (needs Linux 6.0)",
        ));
    }
    Ok(ring)
}

/// Explains the usual errors of the setup in words.
pub(super) fn explain(error: io::Error, doing: &str) -> io::Error {
    let reason = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring".to_owned(),
        Some(libc::EPERM | libc::EACCES) => {
            match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
                Ok(value) if value.trim() != "0" => {
                    format!("forbidden by kernel.io_uring_disabled = {}", value.trim())
                }
                _ => "forbidden, probably by seccomp (as containers often do)".to_owned(),
            }
        }
        Some(libc::ENOMEM) => "not enough lockable memory (ulimit -l)".to_owned(),
        Some(libc::EINVAL) => format!("{doing} is not supported by this kernel"),
        _ => format!("{doing} failed: {error}"),
    };
    io::Error::new(error.kind(), reason)
}
