//! Reports of closed TCP sockets with their final values.

use std::io;

use super::diag::name_interfaces;
use super::filter::Filter;
use super::inet_diag;
use super::netlink::{DATAGRAM_BYTES_MAX, Netlink, Wait};
use super::socket::Socket;

/// A subscription to the closing of TCP sockets of a network namespace. The kernel queues reports
/// between reads, as far as there is room.
#[derive(Debug)]
pub struct Destroyed {
    netlink: Netlink,
    buffer: Vec<u8>,
    overflows: u64,
}

/// `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY` (`include/uapi/linux/sock_diag.h`).
const GROUPS: [u32; 2] = [1, 3];

/// Room for a few thousand reports between two reads; one takes about 700 bytes.
const QUEUE_BYTES: libc::c_int = 8 << 20;

/// The most datagrams per read, so that reading ends even if sockets close faster than they are
/// read.
const DATAGRAMS_MAX: usize = 100_000;

impl Destroyed {
    /// Subscribes to sockets that close from now on.
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

    /// Appends the sockets that have closed since the last call and match the filter's addresses
    /// and ports, without waiting. States in the filter are ignored, since all of these are closed.
    /// The kernel reports with a delay, so a socket that has just closed may be in the next call.
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

    /// How often the kernel's queue was full and it dropped one or more reports, since the
    /// subscription. Above zero, some final values are missing.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Duration;

    use socket2::SockRef;

    use super::*;
    use crate::sockets::{Diag, States, TcpState};

    fn cookie(socket: &impl AsFd) -> u64 {
        SockRef::from(socket).cookie().unwrap()
    }

    /// Reads until these sockets have closed, and returns all that have; the kernel reports with a
    /// delay.
    fn ended(destroyed: &mut Destroyed, filter: &Filter, cookies: &[u64]) -> Vec<Socket> {
        let mut sockets: Vec<Socket> = Vec::new();
        for _ in 0..60_000 {
            destroyed.read(filter, &mut sockets).unwrap();
            let is_told = |cookie: &u64| sockets.iter().any(|socket| socket.cookie == *cookie);
            if cookies.iter().all(is_told) {
                return sockets;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        panic!("of {cookies:?} only these were told: {sockets:?}");
    }

    /// A listener, and the filter that matches its connections.
    fn listener(address: impl Into<SocketAddr>) -> (TcpListener, Filter) {
        let listener = TcpListener::bind(address.into()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let filter = format!("sport = :{port} or dport = :{port}");
        (listener, Filter::parse(&filter).unwrap())
    }

    #[test]
    fn a_closed_connection_is_reported_with_its_final_values_and_the_same_cookie() {
        use std::io::{Read as _, Write as _};

        for address in [
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            (Ipv6Addr::LOCALHOST, 0).into(),
        ] {
            let (listener, filter) = listener(address);
            let mut destroyed = Destroyed::subscribe().unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(&[1; 1000]).unwrap();
            server.read_exact(&mut [0; 1000]).unwrap();
            let cookies = [cookie(&client), cookie(&server)];
            let mut alive = Vec::new();
            Diag::open().unwrap().dump(&filter, &mut alive).unwrap();
            for cookie in cookies {
                assert!(
                    alive.iter().any(|socket| socket.cookie == cookie),
                    "{alive:?}"
                );
            }
            // After the dump, so that only the final values include it.
            client.write_all(&[2; 234]).unwrap();
            server.read_exact(&mut [0; 234]).unwrap();
            drop(client);
            assert_eq!(server.read(&mut [0]).unwrap(), 0);
            drop(server);

            let mut gone = ended(&mut destroyed, &filter, &cookies);
            // Other programs may use the same ports on other addresses.
            gone.retain(|socket| cookies.contains(&socket.cookie));
            assert_eq!(gone.len(), 2, "{gone:?}");
            assert!(
                gone.iter().all(|socket| socket.state == TcpState::Closed),
                "{gone:?}"
            );
            let server_port = listener.local_addr().unwrap().port();
            for socket in &gone {
                let info = socket.info.as_ref().unwrap();
                let (sent, received) = if socket.local_port == server_port {
                    (0, 1234)
                } else {
                    (1234, 0)
                };
                assert_eq!(info.bytes_sent, Some(sent), "{socket:?}");
                // The peer's FIN counts as a byte.
                let data = info.bytes_received.unwrap() & !1;
                assert_eq!(data, received, "{socket:?}");
            }
            assert_eq!(destroyed.overflows(), 0);
        }
    }

    #[test]
    fn open_sockets_and_those_that_do_not_match_the_filter_are_not_reported() {
        let (wanted, filter) = listener((Ipv4Addr::LOCALHOST, 0));
        let (other, _) = listener((Ipv4Addr::LOCALHOST, 0));
        let filter = filter.with_default_states(States::LISTENING);
        let mut destroyed = Destroyed::subscribe().unwrap();
        let alive = TcpStream::connect(wanted.local_addr().unwrap()).unwrap();
        // This one closes before the one that is wanted.
        let unwanted = TcpStream::connect(other.local_addr().unwrap()).unwrap();
        let last = TcpStream::connect(wanted.local_addr().unwrap()).unwrap();
        let [alive_cookie, unwanted_cookie, last_cookie] =
            [cookie(&alive), cookie(&unwanted), cookie(&last)];
        drop((unwanted, other.accept().unwrap()));
        drop(last);
        let gone = ended(&mut destroyed, &filter, &[last_cookie]);
        for socket in &gone {
            assert_ne!(socket.cookie, alive_cookie, "{socket:?}");
            assert_ne!(socket.cookie, unwanted_cookie, "{socket:?}");
        }
    }

    #[test]
    fn dropped_reports_are_counted_as_an_overflow() {
        let (listener, _) = listener((Ipv4Addr::LOCALHOST, 0));
        let mut destroyed = Destroyed::subscribe().unwrap();
        // The least that the kernel gives: a few messages.
        destroyed.netlink.reserve(1).unwrap();
        // What has room may be the ends of others.
        let any = Filter::parse("").unwrap();
        let mut sockets = Vec::new();
        for _ in 0..1000 {
            for _ in 0..20 {
                drop(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
                drop(listener.accept().unwrap());
            }
            destroyed.read(&any, &mut sockets).unwrap();
            if destroyed.overflows() > 0 {
                break;
            }
        }
        assert!(destroyed.overflows() > 0);
        assert!(
            !sockets.is_empty(),
            "what there was room for is told all the same"
        );
    }
}
