//! Binds the listening sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use eventloop::Address;
use socket2::{Domain, SockAddr, Socket, Type};

/// Length of the accept queue; the kernel limits it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// How often a port is chosen that may be in use for UDP.
const FREE_PORT_ATTEMPTS: u32 = 10;

/// Binds a listener for each worker; returns the address with the port chosen by the kernel.
///
/// # Errors
/// When the address cannot be bound; the text names it.
pub(crate) fn bind(address: &Address, workers: usize) -> io::Result<(Address, Vec<OwnedFd>)> {
    match address {
        Address::Tcp(address) => {
            bind_tcp(*address, workers).map_err(|error| explain(&error, &address.to_string()))
        }
        Address::Unix(path) => {
            bind_unix(path, workers).map_err(|error| explain(&error, &path.display().to_string()))
        }
    }
}

fn bind_tcp(mut address: SocketAddr, workers: usize) -> io::Result<(Address, Vec<OwnedFd>)> {
    let mut listeners = Vec::with_capacity(workers);
    for _ in 0..workers {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        if workers > 1 {
            // The kernel distributes connections over the listeners (socket(7), SO_REUSEPORT).
            socket.set_reuse_port(true)?;
        }
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // Accepted sockets inherit TCP_NODELAY (tcp(7)), which `split` depends on.
        socket.set_tcp_nodelay(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        if let Some(bound) = socket.local_addr()?.as_socket() {
            address = bound;
        }
        listeners.push(socket.into());
    }
    Ok((Address::Tcp(address), listeners))
}

/// Binds a listener and a UDP socket for each worker, all at the same address and port.
///
/// # Errors
/// As [`bind`].
pub(crate) fn bind_both(
    address: SocketAddr,
    workers: usize,
) -> io::Result<(Address, Vec<OwnedFd>, Vec<OwnedFd>)> {
    // The port that the kernel has chosen for TCP may be in use for UDP.
    let attempts = if address.port() == 0 {
        FREE_PORT_ATTEMPTS
    } else {
        1
    };
    for attempt in 1.. {
        let (bound, listeners) = bind(&Address::Tcp(address), workers)?;
        let Address::Tcp(tcp) = bound else {
            break;
        };
        match bind_udp(tcp, workers) {
            Ok(sockets) => return Ok((bound, listeners, sockets)),
            Err(error) if attempt >= attempts => {
                return Err(explain(&error, &format!("{tcp} (UDP)")));
            }
            Err(_) => {}
        }
    }
    Err(io::ErrorKind::Unsupported.into())
}

fn bind_udp(address: SocketAddr, workers: usize) -> io::Result<Vec<OwnedFd>> {
    let bind_one = || {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
        if workers > 1 {
            // The kernel distributes clients over the sockets by their addresses.
            socket.set_reuse_port(true)?;
        }
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        Ok(socket.into())
    };
    (0..workers).map(|_| bind_one()).collect()
}

fn bind_unix(path: &Path, workers: usize) -> io::Result<(Address, Vec<OwnedFd>)> {
    remove_stale(path);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    let mut listeners = Vec::with_capacity(workers);
    for _ in 1..workers {
        listeners.push(socket.try_clone()?.into());
    }
    listeners.push(socket.into());
    Ok((Address::Unix(path.to_owned()), listeners))
}

/// Removes the socket of a server that was killed; any other file stays.
fn remove_stale(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    let is_dead = UnixStream::connect(path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_socket && is_dead {
        // If this fails, bind reports the reason.
        let _ = std::fs::remove_file(path);
    }
}

fn explain(error: &io::Error, address: &str) -> io::Error {
    let next = match error.kind() {
        io::ErrorKind::AddrInUse => "; choose another, or port 0 for a free one",
        io::ErrorKind::PermissionDenied => "; choose one that this user may use",
        io::ErrorKind::AddrNotAvailable => "; it is not an address of this machine",
        _ => "",
    };
    io::Error::new(
        error.kind(),
        format!("cannot listen on {address}: {error}{next}"),
    )
}
