//! Is told of each TCP socket that goes, with its last values.

use std::io;

use super::diag::name_interfaces;
use super::filter::Filter;
use super::inet_diag;
use super::netlink::{DATAGRAM_BYTES_MAX, Netlink, Wait};
use super::socket::Socket;

/// A subscription to the ends of the TCP sockets of a network namespace. What ends between two reads is
/// kept by the kernel, as far as there is room.
#[derive(Debug)]
pub struct Destroyed {
    netlink: Netlink,
    buffer: Vec<u8>,
    overflows: u64,
}

/// `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY` (`include/uapi/linux/sock_diag.h`).
const GROUPS: [u32; 2] = [1, 3];

/// Room for some thousand sockets that end between two reads; one message takes about 700 bytes of it.
const QUEUE_BYTES: libc::c_int = 8 << 20;

/// At most so many datagrams are read in one go, so that reading ends also where sockets end faster
/// than they are read.
const DATAGRAMS_MAX: usize = 100_000;

impl Destroyed {
    /// Subscribes; ends from now on are told.
    ///
    /// # Errors
    /// When this system does not allow it, e.g. `PermissionDenied`.
    pub fn subscribe() -> io::Result<Self> {
        let netlink = Netlink::open()?;
        netlink.reserve(QUEUE_BYTES)?;
        netlink.join(&GROUPS)?;
        Ok(Self {
            netlink,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            overflows: 0,
        })
    }

    /// Adds to `sockets` those that have ended since the last call and have the addresses and ports
    /// that the filter wants, without waiting. States of the filter do not matter: all of these are closed. The kernel tells
    /// a moment after the end, so what ended just now may be in the next call.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn read(&mut self, filter: &Filter, sockets: &mut Vec<Socket>) -> io::Result<()> {
        let before = sockets.len();
        for _ in 0..DATAGRAMS_MAX {
            match self.netlink.receive(&mut self.buffer, Wait::No) {
                Ok(datagram) => {
                    inet_diag::read_datagram(datagram, None, &mut |socket| {
                        if filter.takes_endpoints(&socket) {
                            sockets.push(socket);
                        }
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => self.overflows += 1,
                Err(error) => return Err(error),
            }
        }
        name_interfaces(sockets.get_mut(before..).unwrap_or_default());
        Ok(())
    }

    /// How often the kernel had no room left and dropped ends, each time one or more, since the
    /// subscription began. More than zero means that some last values are missing.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}
