//! A netlink socket for sock_diag.
#![allow(unsafe_code, reason = "libc's calls; each block says why it is sound")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Netlink's family for sockets: `NETLINK_SOCK_DIAG` (`include/uapi/linux/netlink.h`).
const NETLINK_SOCK_DIAG: libc::c_int = 4;

/// The longest datagram of sock_diag: the kernel puts at most 32 KiB of sockets into a datagram of
/// a dump, and the report of a closed socket is shorter.
pub(super) const DATAGRAM_BYTES_MAX: usize = 64 << 10;

/// A netlink socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
}

/// Whether to wait for a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Wait until there is one.
    Yes,
    /// Return at once if there is none.
    No,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        // SAFETY: socket takes three numbers and no pointer.
        let fd = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                NETLINK_SOCK_DIAG,
            )
        };
        checked(fd)?;
        // SAFETY: the descriptor was just opened and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { socket })
    }

    /// A socket at whose other end a test simulates the kernel.
    #[cfg(test)]
    pub(super) fn with_peer(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// Joins these multicast groups (1 to 32) and no others.
    pub(super) fn join(&self, groups: &[u32]) -> io::Result<()> {
        // SAFETY: all zero bytes are a valid sockaddr_nl.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = groups.iter().fold(0, |bits, group| bits | 1 << (group - 1));
        // SAFETY: the pointer is to a sockaddr_nl that outlives the call, and the length is its
        // size.
        checked(unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_nl>() as libc::socklen_t,
            )
        })
    }

    /// Reserves room for this many unread bytes.
    pub(super) fn reserve(&self, bytes: libc::c_int) -> io::Result<()> {
        let set = |option: libc::c_int| {
            // SAFETY: the pointer is to an int that outlives the call, and the length is its size.
            checked(unsafe {
                libc::setsockopt(
                    self.socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    option,
                    (&raw const bytes).cast(),
                    size_of::<libc::c_int>() as libc::socklen_t,
                )
            })
        };
        // The first may exceed net.core.rmem_max but needs privileges; the second is capped by it.
        set(libc::SO_RCVBUFFORCE).or_else(|_| set(libc::SO_RCVBUF))
    }

    /// Sends a message to the kernel.
    pub(super) fn send(&self, message: &[u8]) -> io::Result<()> {
        // SAFETY: pointer and length are those of a slice that outlives the call.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Receives one datagram from the kernel.
    ///
    /// # Errors
    /// `WouldBlock` when there is none and `wait` is `No`; ENOBUFS when datagrams were lost because
    /// the queue or the buffer had no room.
    pub(super) fn receive<'a>(&self, buffer: &'a mut [u8], wait: Wait) -> io::Result<&'a [u8]> {
        let flags = match wait {
            Wait::Yes => 0,
            Wait::No => libc::MSG_DONTWAIT,
        };
        loop {
            let (length, sender) = self.receive_from_anyone(buffer, flags)?;
            // Any process may send to our port; the kernel is port 0.
            if sender == 0 {
                return buffer
                    .get(..length)
                    .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOBUFS));
            }
        }
    }

    /// The length of a datagram, even if it was truncated, and the sender's port.
    fn receive_from_anyone(
        &self,
        buffer: &mut [u8],
        flags: libc::c_int,
    ) -> io::Result<(usize, u32)> {
        loop {
            // SAFETY: all zero bytes are a valid sockaddr_nl.
            let mut sender: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
            let mut sender_bytes = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            // SAFETY: each pointer is to memory of the given length, which outlives the call.
            let length = unsafe {
                libc::recvfrom(
                    self.socket.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    flags | libc::MSG_TRUNC,
                    (&raw mut sender).cast(),
                    &raw mut sender_bytes,
                )
            };
            if let Ok(length) = usize::try_from(length) {
                return Ok((length, sender.nl_pid));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

/// Name of a network interface; `None` if it is gone.
pub(super) fn interface_name(index: u32) -> Option<String> {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the pointer is to IF_NAMESIZE bytes, as the call requires.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: the call has written a zero-terminated name into `name`, which is alive.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    Some(name.to_string_lossy().into_owned())
}

fn checked(outcome: libc::c_int) -> io::Result<()> {
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
