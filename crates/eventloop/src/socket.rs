//! System calls on sockets: creation, options, addresses.
#![allow(
    unsafe_code,
    reason = "every function here is one system call on plain memory"
)]

use crate::{Address, SocketOptions, TcpPath, control};
use std::mem;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

/// A socket address in the kernel's form. It must stay at a fixed place in memory while an
/// operation uses it.
pub(crate) struct KernelAddress {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl KernelAddress {
    /// # Errors
    /// `ENAMETOOLONG` if a Unix path does not fit.
    pub(crate) fn new(address: &Address) -> Result<Self, i32> {
        match address {
            Address::Tcp(address) => Ok(Self::of_ip(*address)),
            Address::Unix(path) => {
                let path = path.as_os_str().as_bytes();
                let mut sun = libc::sockaddr_un {
                    sun_family: libc::AF_UNIX as libc::sa_family_t,
                    sun_path: [0; 108],
                };
                // One byte is left for the terminating NUL.
                if path.len() >= sun.sun_path.len() {
                    return Err(libc::ENAMETOOLONG);
                }
                for (to, from) in sun.sun_path.iter_mut().zip(path) {
                    *to = *from as libc::c_char;
                }
                let len = mem::offset_of!(libc::sockaddr_un, sun_path) + path.len() + 1;
                Ok(Self::from_struct(&sun, len))
            }
        }
    }

    /// The address and port of IP in the kernel's form.
    pub(crate) fn of_ip(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(v4) => Self::from_struct(
                &libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                },
                size_of::<libc::sockaddr_in>(),
            ),
            SocketAddr::V6(v6) => Self::from_struct(
                &libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                },
                size_of::<libc::sockaddr_in6>(),
            ),
        }
    }

    fn from_struct<T>(address: &T, len: usize) -> Self {
        // SAFETY: sockaddr_storage is plain data for which all zeros is a valid value.
        let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        assert!(size_of::<T>() <= size_of_val(&storage));
        // SAFETY: both are valid, do not overlap, and the storage is at least as large as T.
        unsafe {
            ptr::copy_nonoverlapping(
                ptr::from_ref(address).cast::<u8>(),
                (&raw mut storage).cast::<u8>(),
                size_of::<T>(),
            );
        }
        Self {
            storage,
            len: len as libc::socklen_t,
        }
    }

    pub(crate) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(crate) fn len(&self) -> libc::socklen_t {
        self.len
    }
}

/// The calling thread's last `errno`.
pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

/// Opens a non-blocking, close-on-exec stream socket for `address`, sets its options and binds it
/// to the source address, if any. Also returns whether the kernel will timestamp what it receives.
pub(crate) fn open(address: &Address, options: &SocketOptions) -> Result<(OwnedFd, bool), i32> {
    let family = match address {
        Address::Tcp(address) => family(*address),
        Address::Unix(_) => libc::AF_UNIX,
    };
    let socket = create(family, libc::SOCK_STREAM)?;
    let fd = socket.as_raw_fd();
    if family == libc::AF_UNIX {
        return Ok((socket, false));
    }
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    if let Some(source) = options.source {
        bind(fd, source)?;
    }
    let timestamped = options.timestamps && enable_timestamps(fd);
    Ok((socket, timestamped))
}

const fn family(address: SocketAddr) -> libc::c_int {
    match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    }
}

/// A non-blocking, close-on-exec socket.
fn create(family: libc::c_int, kind: libc::c_int) -> Result<OwnedFd, i32> {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(family, kind, 0) };
    if fd < 0 {
        return Err(errno());
    }
    // SAFETY: the kernel has just returned this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Asked for as the size of the receive buffer of a datagram socket, so that a burst is not lost
/// while the loop works on something else. The kernel limits it to `net.core.rmem_max`.
const DATAGRAM_RECEIVE_BUFFER_BYTES: libc::c_int = 4 * 1024 * 1024;

/// Asked for as the size of its send buffer. Has room for the windows of ordinary paths; the kernel
/// limits it to `net.core.wmem_max`.
const DATAGRAM_SEND_BUFFER_BYTES: libc::c_int = 1024 * 1024;

/// Opens a non-blocking, close-on-exec datagram socket that is connected to `address`. Also returns
/// whether the kernel will timestamp what it receives.
pub(crate) fn open_datagrams(
    address: SocketAddr,
    options: &SocketOptions,
) -> Result<(OwnedFd, bool), i32> {
    let socket = create(family(address), libc::SOCK_DGRAM)?;
    let fd = socket.as_raw_fd();
    set_datagram_options(fd, address);
    if let Some(source) = options.source {
        bind(fd, source)?;
    }
    connect_once(fd, &KernelAddress::of_ip(address))?;
    let timestamped = options.timestamps && enable_timestamps(fd);
    Ok((socket, timestamped))
}

/// Makes a bound UDP socket non-blocking, and gives it the options of all datagram sockets.
///
/// # Errors
/// If it is no socket of IP.
pub(crate) fn prepare_listening(socket: &OwnedFd) -> std::io::Result<()> {
    set_nonblocking(socket.as_raw_fd())?;
    let socket = std::net::UdpSocket::from(socket.try_clone()?);
    set_datagram_options(socket.as_raw_fd(), socket.local_addr()?);
    Ok(())
}

/// The options of all datagram sockets.
fn set_datagram_options(fd: RawFd, address: SocketAddr) {
    for (level, name, value) in [
        (
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
            DATAGRAM_RECEIVE_BUFFER_BYTES,
        ),
        (
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            DATAGRAM_SEND_BUFFER_BYTES,
        ),
        (libc::SOL_UDP, libc::UDP_GRO, 1),
        (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1),
    ] {
        // A kernel that refuses one of them is slower, and that is all.
        let _ = set_int(fd, level, name, value);
    }
    forbid_fragments(fd, address);
}

/// Forbids to fragment datagrams on their way, as QUIC demands (RFC 9000, 14). `PROBE` also keeps
/// the kernel from rejecting datagrams by its own idea of the path (ip(7), IP_MTU_DISCOVER).
fn forbid_fragments(fd: RawFd, address: SocketAddr) {
    // Without the option, longer datagrams arrive in fragments.
    let _ = match address {
        SocketAddr::V4(_) => set_int(
            fd,
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        ),
        SocketAddr::V6(_) => set_int(
            fd,
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        ),
    };
}

/// The control message that makes the kernel split a message into datagrams (udp(7), UDP_SEGMENT).
#[repr(C)]
struct SegmentControl {
    length: usize,
    level: libc::c_int,
    kind: libc::c_int,
    segment: u16,
    padding: [u8; size_of::<usize>() - size_of::<u16>()],
}

/// A message to send as one or several datagrams, with the memory that its header points to. It
/// must stay in place until the kernel has sent it.
pub(crate) struct DatagramMessage {
    /// Where it goes, unless the socket is connected.
    pub(crate) to: Option<KernelAddress>,
    header: libc::msghdr,
    part: libc::iovec,
    control: SegmentControl,
}

impl DatagramMessage {
    pub(crate) fn new() -> Self {
        Self {
            to: None,
            header: control_message(0),
            part: libc::iovec {
                iov_base: ptr::null_mut(),
                iov_len: 0,
            },
            control: SegmentControl {
                length: control::HEADER_BYTES + size_of::<u16>(),
                level: libc::SOL_UDP,
                kind: libc::UDP_SEGMENT,
                segment: 0,
                padding: [0; size_of::<usize>() - size_of::<u16>()],
            },
        }
    }

    /// The header of a message of these bytes, which the kernel splits into datagrams of this
    /// length, if one is given. It is valid as long as `self` and the bytes stay in place.
    pub(crate) fn prepare(&mut self, bytes: &[u8], segment: Option<u16>) -> *const libc::msghdr {
        self.part = libc::iovec {
            // The kernel only reads what it sends.
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        self.header = control_message(0);
        self.header.msg_iov = &raw mut self.part;
        self.header.msg_iovlen = 1;
        if let Some(to) = &self.to {
            // The kernel only reads it.
            self.header.msg_name = to.as_ptr().cast_mut().cast();
            self.header.msg_namelen = to.len();
        }
        if let Some(segment) = segment {
            self.control.segment = segment;
            self.header.msg_control = (&raw mut self.control).cast();
            self.header.msg_controllen = size_of::<SegmentControl>() as _;
        }
        &raw const self.header
    }

    /// Sends these bytes at once.
    pub(crate) fn send(
        &mut self,
        fd: RawFd,
        bytes: &[u8],
        segment: Option<u16>,
    ) -> Result<usize, i32> {
        let header = self.prepare(bytes, segment);
        // SAFETY: the header points to the bytes and to parts of `self`, which all live through the
        // call.
        let sent = unsafe { libc::sendmsg(fd, header, libc::MSG_NOSIGNAL) };
        if sent < 0 {
            Err(errno())
        } else {
            Ok(sent as usize)
        }
    }
}

fn bind(fd: RawFd, source: IpAddr) -> Result<(), i32> {
    // The port is chosen at connect time, when the kernel knows the whole four-tuple. A local port
    // can then serve several destinations (ip(7), since Linux 4.2).
    set_int(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
    let address = KernelAddress::of_ip(SocketAddr::new(source, 0));
    // SAFETY: the pointer and length describe a live sockaddr.
    match unsafe { libc::bind(fd, address.as_ptr(), address.len()) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Starts connecting a non-blocking socket. True if the connection is already established.
pub(crate) fn connect(fd: RawFd, address: &KernelAddress) -> Result<bool, i32> {
    match connect_once(fd, address) {
        // On loopback, the handshake is complete when the call returns, despite EINPROGRESS: the
        // kernel processes the SYN-ACK on the way out of the call. A second call tells.
        Err(libc::EINPROGRESS) => match connect_once(fd, address) {
            Err(libc::EALREADY) => Ok(false),
            other => other.map(|()| true),
        },
        other => other.map(|()| true),
    }
}

fn connect_once(fd: RawFd, address: &KernelAddress) -> Result<(), i32> {
    // SAFETY: the pointer and length describe a live sockaddr.
    match unsafe { libc::connect(fd, address.as_ptr(), address.len()) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Accepts one connection from a listening socket.
pub(crate) fn accept(fd: RawFd) -> Result<OwnedFd, i32> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: null is allowed if the address is not needed.
    let accepted = unsafe { libc::accept4(fd, ptr::null_mut(), ptr::null_mut(), flags) };
    if accepted < 0 {
        return Err(errno());
    }
    set_nodelay(accepted);
    // SAFETY: the kernel has just returned this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(accepted) })
}

/// The pending error of a socket (`SO_ERROR`), or 0.
pub(crate) fn take_error(fd: RawFd) -> i32 {
    let mut error: libc::c_int = 0;
    let mut len = size_of_val(&error) as libc::socklen_t;
    // SAFETY: `error` and `len` are live and of the size of the option.
    let got = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut error).cast(),
            &raw mut len,
        )
    };
    if got == 0 { error } else { errno() }
}

/// Reads what has arrived. 0 is the end of the stream.
///
/// This and the other calls that are made for each request are plain system calls. The C library's
/// functions for them are cancellation points, which take 40 instructions more.
pub(crate) fn receive(fd: RawFd, buffer: &mut [u8]) -> Result<usize, i32> {
    let (from, from_bytes) = (
        ptr::null_mut::<libc::sockaddr>(),
        ptr::null_mut::<libc::socklen_t>(),
    );
    // SAFETY: the pointer and length describe a live, writable slice. No address is asked for.
    let got = unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            fd,
            buffer.as_mut_ptr(),
            buffer.len(),
            0,
            from,
            from_bytes,
        )
    };
    if got < 0 {
        Err(errno())
    } else {
        Ok(got as usize)
    }
}

/// The most that one call discards: its length is 32 bits wide.
const DISCARD_BYTES_MAX: u64 = 1 << 30;

/// How many of these bytes one call can discard.
pub(crate) fn discard_length(bytes: u64) -> usize {
    bytes.min(DISCARD_BYTES_MAX) as usize
}

/// Removes up to `bytes` bytes from a TCP socket without copying them (tcp(7), MSG_TRUNC). 0 is the
/// end of the stream. For other kinds of sockets the kernel would write to the buffer, and there is
/// none.
pub(crate) fn discard(fd: RawFd, bytes: usize) -> Result<usize, i32> {
    // SAFETY: with MSG_TRUNC the kernel writes nothing to the buffer of a TCP socket.
    let got = unsafe { libc::recv(fd, ptr::null_mut(), bytes, libc::MSG_TRUNC) };
    if got < 0 {
        Err(errno())
    } else {
        Ok(got as usize)
    }
}

/// Like [`discard`], but also reads the control data of the bytes. The second number is the length
/// of the control data.
pub(crate) fn discard_with_control(
    fd: RawFd,
    bytes: usize,
    control: &mut [u8],
) -> (Result<usize, i32>, usize) {
    let nowhere = libc::iovec {
        iov_base: ptr::null_mut(),
        iov_len: bytes,
    };
    receive_message(fd, nowhere, control, &mut [], libc::MSG_TRUNC)
}

/// Like [`receive`], but also reads the control data of the bytes. The second number is the length
/// of the control data.
pub(crate) fn receive_with_control(
    fd: RawFd,
    buffer: &mut [u8],
    control: &mut [u8],
) -> (Result<usize, i32>, usize) {
    let part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    receive_message(fd, part, control, &mut [], 0)
}

/// Like [`receive_with_control`], and also reads the address of the sender, for [`address_in`].
pub(crate) fn receive_datagrams(
    fd: RawFd,
    buffer: &mut [u8],
    control: &mut [u8],
    name: &mut [u8],
) -> (Result<usize, i32>, usize) {
    let part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    receive_message(fd, part, control, name, 0)
}

/// Room for the address of a sender.
pub(crate) const NAME_BYTES: usize = size_of::<libc::sockaddr_in6>();

/// The address and port of IP that the kernel has written here. `None` if it is another kind of
/// address.
pub(crate) fn address_in(name: &[u8]) -> Option<SocketAddr> {
    const PORT_AT: usize = mem::offset_of!(libc::sockaddr_in, sin_port);
    const V4_AT: usize = mem::offset_of!(libc::sockaddr_in, sin_addr);
    const V6_AT: usize = mem::offset_of!(libc::sockaddr_in6, sin6_addr);
    const FLOW_AT: usize = mem::offset_of!(libc::sockaddr_in6, sin6_flowinfo);
    const SCOPE_AT: usize = mem::offset_of!(libc::sockaddr_in6, sin6_scope_id);
    let family = libc::sa_family_t::from_ne_bytes(*name.first_chunk()?);
    let port = u16::from_be_bytes(*name.get(PORT_AT..)?.first_chunk()?);
    match libc::c_int::from(family) {
        libc::AF_INET => {
            let ip: [u8; 4] = *name.get(V4_AT..)?.first_chunk()?;
            Some(SocketAddr::from((ip, port)))
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = *name.get(V6_AT..)?.first_chunk()?;
            let flow = u32::from_ne_bytes(*name.get(FLOW_AT..)?.first_chunk()?);
            let scope = u32::from_ne_bytes(*name.get(SCOPE_AT..)?.first_chunk()?);
            Some(SocketAddrV6::new(ip.into(), port, flow, scope).into())
        }
        _ => None,
    }
}

/// `part` must describe writable memory, unless `flags` keep the kernel from writing to it.
#[allow(
    clippy::unnecessary_cast,
    reason = "the length of control data has 32 bits with musl"
)]
fn receive_message(
    fd: RawFd,
    mut part: libc::iovec,
    control: &mut [u8],
    name: &mut [u8],
    flags: libc::c_int,
) -> (Result<usize, i32>, usize) {
    let mut message = control_message(control.len());
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    if !name.is_empty() {
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = name.len() as libc::socklen_t;
    }
    // SAFETY: the message points to a live part, which is writable or not written to, and to live,
    // writable room for control data and perhaps for a name, with their lengths.
    let got = unsafe { libc::syscall(libc::SYS_recvmsg, fd, &raw mut message, flags) };
    if got < 0 {
        (Err(errno()), 0)
    } else {
        (Ok(got as usize), message.msg_controllen as usize)
    }
}

/// A message header that asks for this much control data, with null pointers.
pub(crate) fn control_message(control_bytes: usize) -> libc::msghdr {
    // SAFETY: msghdr is plain data for which all zeros is a valid value: null pointers, no lengths.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_controllen = control_bytes as _;
    message
}

/// Asks the kernel to timestamp what this socket receives, in software, and to report the
/// timestamps (socket(7), SO_TIMESTAMPING). False if it refuses.
fn enable_timestamps(fd: RawFd) -> bool {
    let what = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    let what = what as libc::c_int;
    set_int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, what).is_ok()
}

/// What the kernel tells of a TCP socket (tcp(7), TCP_INFO). `None` if it is no TCP socket, or if
/// the kernel is older than 5.4.
pub(crate) fn tcp_path(fd: RawFd) -> Option<TcpPath> {
    /// Where `struct tcp_info` of linux/tcp.h has `tcpi_total_retrans`, `tcpi_min_rtt` and
    /// `tcpi_rcv_ooopack`.
    const AT: [usize; 3] = [100, 148, 224];
    const BYTES: usize = AT[2] + size_of::<u32>();
    let mut info = [0u8; BYTES];
    let mut length = BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the live array.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let known = result == 0 && length as usize >= BYTES;
    let value = |at: usize| u32::from_ne_bytes(*info[at..].first_chunk().unwrap_or(&[0; 4]));
    let [retransmitted, min_round_trip_us, out_of_order] = AT.map(value);
    known.then_some(TcpPath {
        retransmitted,
        out_of_order,
        // The kernel has this value before the first measurement.
        min_round_trip_us: (min_round_trip_us != u32::MAX).then_some(min_round_trip_us),
    })
}

/// A socket whose only purpose is to keep timestamps enabled in the kernel.
pub(crate) fn keep_timestamps_enabled() -> Option<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the kernel has just returned this descriptor; nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    enable_timestamps(fd).then_some(socket)
}

/// Sends as many bytes as the kernel accepts.
pub(crate) fn send(fd: RawFd, bytes: &[u8]) -> Result<usize, i32> {
    let to = ptr::null::<libc::sockaddr>();
    // SAFETY: the pointer and length describe a live slice. There is no address.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            fd,
            bytes.as_ptr(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
            to,
            0,
        )
    };
    if sent < 0 {
        Err(errno())
    } else {
        Ok(sent as usize)
    }
}

pub(crate) fn shutdown_send(fd: RawFd) {
    // SAFETY: no pointers are passed. Failure means that the connection is already gone.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

/// `SO_LINGER` with zero time: the next close resets the connection.
pub(crate) static LINGER_ZERO: libc::linger = libc::linger {
    l_onoff: 1,
    l_linger: 0,
};

/// Makes the next close of `socket` a reset.
pub(crate) fn reset_on_close(socket: &OwnedFd) {
    // SAFETY: the option value is a live linger of the given size. On failure, the close is an
    // ordinary one.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const LINGER_ZERO).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        );
    }
}

fn set_int(fd: RawFd, level: i32, name: i32, value: libc::c_int) -> Result<(), i32> {
    // SAFETY: the option value is a live int of the given size.
    let set = unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(errno()) }
}

/// Asks for the finest timer resolution for the waits of the calling thread, so that deadlines are
/// met to the microsecond. The default slack is 50 us (prctl(2), PR_SET_TIMERSLACK).
pub(crate) fn sharpen_timers() {
    // SAFETY: no pointers are passed; the value is in nanoseconds.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64) };
}

/// Makes a descriptor non-blocking.
pub(crate) fn set_nonblocking(fd: RawFd) -> std::io::Result<()> {
    // SAFETY: no pointers are passed.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Sets TCP_NODELAY. Fails silently on Unix sockets, which do not have it.
pub(crate) fn set_nodelay(fd: RawFd) {
    let _ = set_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
}

/// An option of a socket whose value is an int.
#[cfg(test)]
fn int_option(fd: RawFd, level: libc::c_int, name: libc::c_int) -> libc::c_int {
    let mut value: libc::c_int = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: `value` and `len` are live and of the size of the option.
    let got = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    assert_eq!(got, 0, "the option exists");
    value
}

/// Makes the kernel refuse to split messages of this IPv4 socket into datagrams, as it does if a
/// device cannot compute checksums (socket(7), SO_NO_CHECK).
#[cfg(test)]
pub(crate) fn refuse_segments(fd: RawFd) {
    set_int(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).expect("the option exists");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

    fn opened(address: SocketAddr) -> OwnedFd {
        let (socket, _) = open_datagrams(address, &SocketOptions::default()).expect("a socket");
        socket
    }

    #[test]
    fn no_router_may_fragment_the_datagrams_of_a_socket() {
        let socket = opened((Ipv4Addr::LOCALHOST, 9).into());
        let fd = socket.as_raw_fd();
        let discover = int_option(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
        assert_eq!(discover, libc::IP_PMTUDISC_PROBE);
        let local = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0));
        if testkit::require_ok("ipv6", local).is_none() {
            return;
        }
        let socket = opened((Ipv6Addr::LOCALHOST, 9).into());
        let fd = socket.as_raw_fd();
        let discover = int_option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER);
        assert_eq!(discover, libc::IPV6_PMTUDISC_PROBE);
    }

    #[test]
    fn a_datagram_socket_has_as_much_room_as_the_kernel_allows() {
        let socket = opened((Ipv4Addr::LOCALHOST, 9).into());
        let allowed = std::fs::read_to_string("/proc/sys/net/core/rmem_max").expect("Linux");
        let allowed: libc::c_int = allowed.trim().parse().expect("a number");
        let got = int_option(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF);
        // The kernel doubles it, for its own bookkeeping (socket(7), SO_RCVBUF).
        assert_eq!(got, 2 * allowed.min(DATAGRAM_RECEIVE_BUFFER_BYTES));
    }
}
