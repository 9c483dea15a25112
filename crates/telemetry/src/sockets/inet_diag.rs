//! Messages of sock_diag (sock_diag(7), netlink(7)): encodes requests and parses replies. Invalid
//! messages are left out; no input causes an error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::socket::{CongestionInfo, ListenQueue, Socket, SocketMemory, Timer, TimerKind};
use super::state::{States, TcpState};
use super::tcp_info::{Members, TcpInfo};

/// Size of a message's header: `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// Size of a request after its header: `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 56;
/// Size of the fixed part of a reply: `struct inet_diag_msg`.
const MESSAGE_BYTES: usize = 72;
/// Size of an attribute's header: `struct rtattr`.
const ATTRIBUTE_HEADER_BYTES: usize = 4;

/// Type of a message about sockets: `SOCK_DIAG_BY_FAMILY` (`include/uapi/linux/sock_diag.h`).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// All extensions that the eight bits of a request can name except `INET_DIAG_MEMINFO`, which is
/// contained in `INET_DIAG_SKMEMINFO`. `INET_DIAG_VEGASINFO` requests the values of any congestion
/// control.
const EXTENSIONS: u8 = 0xfe;

/// `idiag_timer` of a socket in TIME-WAIT (`inet_twsk_diag_fill`).
const TIMER_TIME_WAIT: u8 = 3;

/// `INET_DIAG_*`: the attributes of a reply that are read.
mod attribute {
    pub(super) const INFO: u16 = 2;
    pub(super) const VEGASINFO: u16 = 3;
    pub(super) const CONG: u16 = 4;
    pub(super) const TOS: u16 = 5;
    pub(super) const TCLASS: u16 = 6;
    pub(super) const SKMEMINFO: u16 = 7;
    pub(super) const SHUTDOWN: u16 = 8;
    pub(super) const DCTCPINFO: u16 = 9;
    pub(super) const SKV6ONLY: u16 = 11;
    pub(super) const MARK: u16 = 15;
    pub(super) const BBRINFO: u16 = 16;
    pub(super) const CLASS_ID: u16 = 17;
    pub(super) const ULP_INFO: u16 = 19;
    pub(super) const CGROUP_ID: u16 = 21;
    /// Name of the upper layer protocol: `INET_ULP_INFO_NAME`, within `ULP_INFO`.
    pub(super) const ULP_NAME: u16 = 1;
    /// `NLA_TYPE_MASK`: the two highest bits are flags.
    pub(super) const TYPE_MASK: u16 = 0x3fff;
}

/// A request for all sockets of an address family in these states. The kernel could evaluate the
/// rest of a filter (`INET_DIAG_REQ_BYTECODE`) for a third of the CPU time when few of many sockets
/// match. The program has no compiler for that, since a second meaning of filters costs more than
/// the 1.7 % of a core that 9,300 sockets a second take.
pub(super) fn request(family: u8, states: States, sequence: u32) -> Vec<u8> {
    let length = HEADER_BYTES + REQUEST_BYTES;
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    // The kernel knows the sender.
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend([family, libc::IPPROTO_TCP as u8, EXTENSIONS, 0]);
    bytes.extend(states.bits().to_ne_bytes());
    // No particular socket.
    bytes.resize(length, 0);
    bytes
}

/// The content of a datagram besides sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DatagramRest {
    /// The kernel's table changed while it was read, so sockets may be missing.
    pub(super) is_interrupted: bool,
    /// The reply has ended.
    pub(super) end: Option<End>,
}

/// How a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The dump is complete.
    Done,
    /// The kernel refused, with this errno.
    Refused(i32),
}

/// The sockets in a datagram of sock_diag, whatever request they belong to. Truncated or invalid
/// messages are left out.
#[must_use]
pub fn parse_datagram(bytes: &[u8]) -> Vec<Socket> {
    let mut sockets = Vec::new();
    read_datagram(bytes, None, &mut |socket| sockets.push(socket));
    sockets
}

/// Passes on the sockets in a datagram; of a dump only those that reply to the request with this
/// number.
pub(super) fn read_datagram(
    bytes: &[u8],
    sequence: Option<u32>,
    take: &mut dyn FnMut(Socket),
) -> DatagramRest {
    let mut rest = DatagramRest::default();
    for message in messages(bytes) {
        if sequence.is_some_and(|sequence| sequence != message.sequence) {
            continue;
        }
        rest.is_interrupted |= i32::from(message.flags) & libc::NLM_F_DUMP_INTR != 0;
        // Both contain a negative errno, or zero.
        let errno = || Members(message.payload).u32(0).map_or(0, u32::cast_signed);
        match i32::from(message.kind) {
            libc::NLMSG_DONE if errno() < 0 => rest.end = Some(End::Refused(-errno())),
            libc::NLMSG_DONE => rest.end = Some(End::Done),
            libc::NLMSG_ERROR => rest.end = Some(End::Refused(errno().saturating_neg())),
            _ if message.kind == SOCK_DIAG_BY_FAMILY => {
                if let Some(socket) = socket(message.payload) {
                    take(socket);
                }
            }
            _ => {}
        }
    }
    rest
}

/// A netlink message within a datagram.
struct Message<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    payload: &'a [u8],
}

/// Messages of a datagram up to the first truncated one.
fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header = Members(rest);
        let length = usize::try_from(header.u32(0)?).ok()?;
        let message = Message {
            kind: header.u16(4)?,
            flags: header.u16(6)?,
            sequence: header.u32(8)?,
            payload: rest.get(HEADER_BYTES..length)?,
        };
        rest = after(rest, length);
        Some(message)
    })
}

/// Type and payload of each attribute up to the first truncated one.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header = Members(rest);
        let length = usize::from(header.u16(0)?);
        let kind = header.u16(2)? & attribute::TYPE_MASK;
        let payload = rest.get(ATTRIBUTE_HEADER_BYTES..length)?;
        rest = after(rest, length);
        Some((kind, payload))
    })
}

/// The rest after `length` bytes, aligned to four as everything in netlink (`NLMSG_ALIGN`,
/// `RTA_ALIGN`).
fn after(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(length.next_multiple_of(4)..).unwrap_or_default()
}

/// Parses `struct inet_diag_msg` and the attributes after it.
fn socket(payload: &[u8]) -> Option<Socket> {
    let head = Members(payload.get(..MESSAGE_BYTES)?);
    let family = i32::from(head.u8(0)?);
    let state = TcpState::of_number(head.u8(1)?)?;
    // An orphaned socket may wait for the peer's FIN as such a stub; its state is FIN-WAIT-2.
    let is_stub = matches!(state, TcpState::TimeWait | TcpState::SynReceived)
        || head.u8(2)? == TIMER_TIME_WAIT;
    let is_listening = state == TcpState::Listen;
    let (received, sent) = (head.u32(56)?, head.u32(60)?);
    let queue = |bytes: u32| (!is_stub && !is_listening).then_some(bytes);
    let (uid, inode) = (head.u32(64)?, head.u32(68)?);
    let (cookie_low, cookie_high) = (head.u32(44)?, head.u32(48)?);
    let cookie = u64::from(cookie_high) << 32 | u64::from(cookie_low);
    let local = SocketAddr::new(address(family, head.bytes(8)?)?, head.be16(4)?);
    let peer = SocketAddr::new(address(family, head.bytes(24)?)?, head.be16(6)?);
    let mut socket = Socket {
        interface_index: head.u32(40).filter(|index| *index != 0),
        // Without a file, or for a stub, both are zero, and there is no owner.
        uid: (uid != 0 || inode != 0).then_some(uid),
        inode: (inode != 0).then_some(inode),
        recv_queue_bytes: queue(received),
        send_queue_bytes: queue(sent),
        listen: is_listening.then_some(ListenQueue {
            waiting: received,
            limit: sent,
        }),
        timer: timer(head.u8(2)?, head.u32(52)?, head.u8(3)?),
        ..Socket::bare(cookie, state, local, peer)
    };
    for (kind, payload) in attributes(payload.get(MESSAGE_BYTES..)?) {
        socket.add(kind, payload);
    }
    Some(socket)
}

impl Socket {
    /// Stores the value of a known attribute.
    fn add(&mut self, kind: u16, payload: &[u8]) {
        let value = Members(payload);
        match kind {
            // The kernel fills in hardly anything for a listening socket.
            attribute::INFO if self.state != TcpState::Listen => {
                self.info = TcpInfo::parse(payload)
            }
            attribute::CONG => self.congestion = name(payload),
            attribute::VEGASINFO | attribute::BBRINFO | attribute::DCTCPINFO => {
                self.congestion_info = congestion_info(kind, value);
            }
            attribute::TOS => self.tos = value.u8(0),
            attribute::TCLASS => self.tclass = value.u8(0),
            attribute::SKMEMINFO => self.memory = memory(value),
            attribute::SHUTDOWN => self.shutdown = value.u8(0),
            attribute::SKV6ONLY => self.is_v6_only = value.u8(0).map(|only| only != 0),
            attribute::MARK => self.fwmark = value.u32(0),
            attribute::CLASS_ID => self.class_id = value.u32(0),
            attribute::CGROUP_ID => self.cgroup_id = value.u64(0),
            attribute::ULP_INFO => {
                self.upper_protocol = attributes(payload)
                    .find(|(kind, _)| *kind == attribute::ULP_NAME)
                    .and_then(|(_, payload)| name(payload));
            }
            _ => {}
        }
    }
}

fn address(family: i32, bytes: [u8; 16]) -> Option<IpAddr> {
    match family {
        libc::AF_INET => {
            let [a, b, c, d, ..] = bytes;
            Some(Ipv4Addr::new(a, b, c, d).into())
        }
        libc::AF_INET6 => Some(Ipv6Addr::from(bytes).into()),
        _ => None,
    }
}

fn timer(kind: u8, expires_ms: u32, retries: u8) -> Option<Timer> {
    let kind = match kind {
        0 => return None,
        1 => TimerKind::On,
        2 => TimerKind::Keepalive,
        TIMER_TIME_WAIT => TimerKind::TimeWait,
        4 => TimerKind::Persist,
        _ => TimerKind::Unknown,
    };
    Some(Timer {
        kind,
        expires_ms,
        retries,
    })
}

fn memory(value: Members<'_>) -> Option<SocketMemory> {
    let word = |index: usize| value.u32(index * size_of::<u32>());
    Some(SocketMemory {
        rmem_alloc_bytes: word(0)?,
        rcvbuf_bytes: word(1)?,
        wmem_alloc_bytes: word(2)?,
        sndbuf_bytes: word(3)?,
        fwd_alloc_bytes: word(4)?,
        wmem_queued_bytes: word(5)?,
        optmem_bytes: word(6)?,
        backlog_bytes: word(7),
        drops: word(8),
    })
}

fn congestion_info(kind: u16, value: Members<'_>) -> Option<CongestionInfo> {
    match kind {
        attribute::BBRINFO => Some(CongestionInfo::Bbr {
            bandwidth_bytes_per_sec: u64::from(value.u32(4)?) << 32 | u64::from(value.u32(0)?),
            min_rtt_us: value.u32(8)?,
            pacing_gain: value.u32(12)?,
            cwnd_gain: value.u32(16)?,
        }),
        attribute::VEGASINFO => Some(CongestionInfo::Vegas {
            is_enabled: value.u32(0)? != 0,
            rtt_count: value.u32(4)?,
            rtt_us: value.u32(8)?,
            min_rtt_us: value.u32(12)?,
        }),
        attribute::DCTCPINFO => Some(CongestionInfo::Dctcp {
            is_enabled: value.u16(0)? != 0,
            ce_state: value.u16(2)?,
            alpha: value.u32(4)?,
            acked_ecn_bytes: value.u32(8)?,
            acked_total_bytes: value.u32(12)?,
        }),
        _ => None,
    }
}

/// A name up to its terminating zero.
fn name(bytes: &[u8]) -> Option<String> {
    let name = bytes.split(|byte| *byte == 0).next()?;
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests;
