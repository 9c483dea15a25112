//! Lists the kernel's TCP sockets.

use std::collections::HashSet;
use std::io;

use super::filter::Filter;
use super::inet_diag::{self, End};
use super::netlink::{DATAGRAM_BYTES_MAX, Netlink, Wait, interface_name};
use super::socket::Socket;

/// Lists the TCP sockets of the network namespace it was opened in. Needs no privilege.
#[derive(Debug)]
pub struct Diag {
    netlink: Netlink,
    sequence: u32,
    buffer: Vec<u8>,
}

/// How often an inconsistent dump is repeated before it is used as it is: with sockets that open
/// and close all the time there may never be a consistent one.
const ATTEMPTS: u32 = 4;

/// The result of one dump.
enum Dump {
    Consistent,
    /// Sockets may be missing or duplicated.
    Inconsistent,
}

impl Diag {
    /// Connects to the kernel.
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

    /// Replaces `sockets` by those that match the filter, IPv4 first. The kernel goes on while it
    /// is read: two sockets of one connection may be from slightly different moments.
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
            if let Dump::Consistent = self.request(family, filter, sockets)? {
                return Ok(());
            }
        }
        // A table that changed may have returned a socket twice.
        let mut seen = HashSet::new();
        let mut index = 0;
        sockets.retain(|socket| {
            index += 1;
            index <= before || seen.insert(socket.cookie)
        });
        Ok(())
    }

    /// Sends one request and reads its reply.
    fn request(
        &mut self,
        family: libc::c_int,
        filter: &Filter,
        sockets: &mut Vec<Socket>,
    ) -> io::Result<Dump> {
        // The rest of an abandoned reply has another sequence number.
        self.sequence = self.sequence.wrapping_add(1);
        let family = u8::try_from(family).map_err(io::Error::other)?;
        let request = inet_diag::request(family, filter.states(), self.sequence);
        match self.netlink.send(&request) {
            // The kernel is still sending the rest of an abandoned reply.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                self.netlink = Netlink::open()?;
                self.netlink.send(&request)?;
            }
            outcome => outcome?,
        }
        let mut is_inconsistent = false;
        loop {
            let datagram = match self.netlink.receive(&mut self.buffer, Wait::Yes) {
                Ok(datagram) => datagram,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    // The end of the reply may be among what was lost: start again.
                    self.netlink = Netlink::open()?;
                    return Ok(Dump::Inconsistent);
                }
                Err(error) => return Err(error),
            };
            let content = inet_diag::read_datagram(datagram, Some(self.sequence), &mut |socket| {
                if filter.takes(&socket) {
                    sockets.push(socket);
                }
            });
            is_inconsistent |= content.is_interrupted;
            match content.end {
                None => {}
                Some(End::Refused(errno)) => return Err(io::Error::from_raw_os_error(errno)),
                Some(End::Done) if is_inconsistent => return Ok(Dump::Inconsistent),
                Some(End::Done) => return Ok(Dump::Consistent),
            }
        }
    }
}

/// Looks up the names of interfaces, of which the kernel sends only numbers.
pub(super) fn name_interfaces(sockets: &mut [Socket]) {
    for socket in sockets {
        socket.interface = socket.interface_index.and_then(interface_name);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use crate::sockets::inet_diag::parse_datagram;

    const RECORDING: &[u8] = include_bytes!("../../tests/data/sockets/ipv4.bin");

    /// A connection to a simulated kernel.
    struct FakeKernel {
        diag: Diag,
        kernel: UnixDatagram,
    }

    fn fake_kernel() -> FakeKernel {
        let (ours, kernel) = UnixDatagram::pair().unwrap();
        let mut diag = Diag::open().unwrap();
        diag.netlink = Netlink::with_peer(ours.into());
        FakeKernel { diag, kernel }
    }

    /// The first message of the recording, as a reply to the request with this number.
    fn socket_message(sequence: u32) -> Vec<u8> {
        let length = u32::from_ne_bytes(*RECORDING.first_chunk().unwrap());
        let mut message = RECORDING[..length as usize].to_vec();
        message[8..12].copy_from_slice(&sequence.to_ne_bytes());
        message
    }

    fn end(kind: i32, flags: i32, sequence: u32, errno: i32) -> Vec<u8> {
        let kind_and_flags = [(kind as u16).to_ne_bytes(), (flags as u16).to_ne_bytes()].concat();
        let head = [20_u32.to_ne_bytes().as_slice(), &kind_and_flags].concat();
        let numbers = [sequence.to_ne_bytes(), [0; 4], (-errno).to_ne_bytes()].concat();
        [head, numbers].concat()
    }

    fn done(sequence: u32) -> Vec<u8> {
        end(libc::NLMSG_DONE, libc::NLM_F_MULTI, sequence, 0)
    }

    fn interrupted(sequence: u32) -> Vec<u8> {
        end(libc::NLMSG_DONE, libc::NLM_F_DUMP_INTR, sequence, 0)
    }

    impl FakeKernel {
        fn sends(&self, messages: &[Vec<u8>]) {
            self.kernel.send(&messages.concat()).unwrap();
        }

        fn dump(&mut self) -> io::Result<Vec<Socket>> {
            let filter = Filter::parse("state all").unwrap();
            let mut sockets = parse_datagram(RECORDING);
            self.diag.dump(&filter, &mut sockets)?;
            Ok(sockets)
        }

        /// The number of requests received.
        fn requests(&self) -> usize {
            self.kernel.set_nonblocking(true).unwrap();
            std::iter::from_fn(|| self.kernel.recv(&mut [0; 1000]).ok()).count()
        }
    }

    #[test]
    fn an_interrupted_dump_is_repeated_and_only_the_complete_one_counts() {
        let mut fake = fake_kernel();
        fake.sends(&[socket_message(1), socket_message(1), interrupted(1)]);
        fake.sends(&[socket_message(2), interrupted(2)]);
        fake.sends(&[socket_message(3)]);
        fake.sends(&[done(3)]);
        fake.sends(&[done(4)]);
        assert_eq!(fake.dump().unwrap().len(), 1);
        assert_eq!(fake.requests(), 4);
    }

    #[test]
    fn a_dump_that_is_always_interrupted_has_each_socket_once() {
        let mut fake = fake_kernel();
        for sequence in 1..=ATTEMPTS {
            let socket = socket_message(sequence);
            fake.sends(&[socket.clone(), socket, interrupted(sequence)]);
        }
        fake.sends(&[done(ATTEMPTS + 1)]);
        assert_eq!(fake.dump().unwrap().len(), 1);
        assert_eq!(fake.requests(), 5);
    }

    #[test]
    fn the_rest_of_another_reply_is_ignored() {
        let mut fake = fake_kernel();
        fake.sends(&[socket_message(77), done(77)]);
        fake.sends(&[socket_message(1), done(1)]);
        fake.sends(&[done(1), done(2)]);
        assert_eq!(fake.dump().unwrap().len(), 1);
    }

    #[test]
    fn a_kernel_without_ipv6_has_no_sockets_of_it_and_one_without_ipv4_is_an_error() {
        let refused = |sequence| end(libc::NLMSG_ERROR, 0, sequence, libc::ENOENT);
        let mut without_v6 = fake_kernel();
        without_v6.sends(&[socket_message(1), done(1)]);
        without_v6.sends(&[refused(2)]);
        assert_eq!(without_v6.dump().unwrap().len(), 1);
        let mut without = fake_kernel();
        without.sends(&[refused(1)]);
        let error = without.dump().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        let mut broken = fake_kernel();
        broken.sends(&[done(1)]);
        broken.sends(&[end(libc::NLMSG_DONE, 0, 2, libc::ENOMEM)]);
        let error = broken.dump().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    }

    #[test]
    fn after_a_loss_the_dump_is_repeated() {
        let mut fake = fake_kernel();
        // Longer than any datagram may be: it arrives truncated, which counts as lost.
        fake.sends(&[socket_message(1), vec![0; DATAGRAM_BYTES_MAX]]);
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let sockets = fake.dump().unwrap();
        assert_eq!(fake.requests(), 1, "the second went to the real kernel");
        assert!(
            sockets.iter().any(|socket| socket.local_port == port),
            "{sockets:?}"
        );
    }
}
