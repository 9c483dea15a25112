//! Asks the kernel for its TCP sockets.

use std::collections::HashSet;
use std::io;

use super::filter::Filter;
use super::inet_diag::{self, End};
use super::netlink::{DATAGRAM_BYTES_MAX, Netlink, Wait, interface_name};
use super::socket::Socket;

/// Asks for the TCP sockets of the network namespace it was opened in. Needs no privilege.
#[derive(Debug)]
pub struct Diag {
    netlink: Netlink,
    sequence: u32,
    buffer: Vec<u8>,
}

/// So often an answer that the kernel could not give in one piece is asked for again; then it is taken
/// as it is. Sockets that come and go without pause would have us ask for ever.
const ATTEMPTS: u32 = 4;

/// What one question brought.
enum Answer {
    Whole,
    /// Something is missing, or twice there.
    Torn,
}

impl Diag {
    /// Opens the way to the kernel.
    ///
    /// # Errors
    /// When this system does not allow it.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            netlink: Netlink::open()?,
            sequence: 0,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        })
    }

    /// Replaces `sockets` by those that the filter lets through, IPv4 first. The kernel does not stop
    /// while it is read: two sockets of one connection may be of slightly different moments.
    ///
    /// # Errors
    /// When the kernel refuses. `sockets` then has what came before.
    pub fn dump(&mut self, filter: &Filter, sockets: &mut Vec<Socket>) -> io::Result<()> {
        sockets.clear();
        self.dump_family(libc::AF_INET, filter, sockets)?;
        match self.dump_family(libc::AF_INET6, filter, sockets) {
            // A kernel without IPv6 has no sockets of it.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            outcome => outcome?,
        }
        name_interfaces(sockets);
        Ok(())
    }

    fn dump_family(
        &mut self,
        family: libc::c_int,
        filter: &Filter,
        sockets: &mut Vec<Socket>,
    ) -> io::Result<()> {
        let before = sockets.len();
        for _ in 0..ATTEMPTS {
            sockets.truncate(before);
            if let Answer::Whole = self.ask(family, filter, sockets)? {
                return Ok(());
            }
        }
        // A table that changed may have shown a socket twice.
        let mut seen = HashSet::new();
        let mut index = 0;
        sockets.retain(|socket| {
            index += 1;
            index <= before || seen.insert(socket.cookie)
        });
        Ok(())
    }

    /// One question and its answer.
    fn ask(
        &mut self,
        family: libc::c_int,
        filter: &Filter,
        sockets: &mut Vec<Socket>,
    ) -> io::Result<Answer> {
        // What is left of an answer that was given up on has another number.
        self.sequence = self.sequence.wrapping_add(1);
        let family = u8::try_from(family).map_err(io::Error::other)?;
        let request = inet_diag::request(family, filter.states(), filter.bytecode(), self.sequence);
        match self.netlink.send(&request) {
            // The rest of an answer that was given up on is still being told.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                self.netlink = Netlink::open()?;
                self.netlink.send(&request)?;
            }
            outcome => outcome?,
        }
        let mut is_torn = false;
        loop {
            let datagram = match self.netlink.receive(&mut self.buffer, Wait::Yes) {
                Ok(datagram) => datagram,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    // Whether the end is among what was lost is not known: begin afresh.
                    self.netlink = Netlink::open()?;
                    return Ok(Answer::Torn);
                }
                Err(error) => return Err(error),
            };
            let aside = inet_diag::read_datagram(datagram, Some(self.sequence), &mut |socket| {
                if filter.takes(&socket) {
                    sockets.push(socket);
                }
            });
            is_torn |= aside.is_interrupted;
            match aside.end {
                None => {}
                Some(End::Refused(errno)) => return Err(io::Error::from_raw_os_error(errno)),
                Some(End::Done) if is_torn => return Ok(Answer::Torn),
                Some(End::Done) => return Ok(Answer::Whole),
            }
        }
    }
}

/// Looks up what the kernel says by number only.
pub(super) fn name_interfaces(sockets: &mut [Socket]) {
    for socket in sockets {
        socket.interface = socket.interface_index.and_then(interface_name);
    }
}
