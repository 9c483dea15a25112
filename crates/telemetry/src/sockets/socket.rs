//! One TCP socket.

use std::net::IpAddr;

use super::state::State;
use super::tcp_info::TcpInfo;

/// A TCP socket as the kernel describes it. What it does not tell of this socket is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Socket {
    /// Names this socket and no other as long as the machine runs; ports are used again.
    pub cookie: u64,
    /// Where in its life it is. Of a destroyed socket: closed.
    pub state: State,
    /// Our address; unspecified when it listens on all of them.
    pub local_address: IpAddr,
    /// Our port.
    pub local_port: u16,
    /// The peer's address; unspecified when there is none.
    pub peer_address: IpAddr,
    /// The peer's port; 0 when there is none.
    pub peer_port: u16,
    /// Whether an IPv6 socket refuses IPv4.
    pub is_v6_only: Option<bool>,
    /// Index of the interface that it is bound to.
    pub interface_index: Option<u32>,
    /// Name of that interface.
    pub interface: Option<String>,
    /// User that owns it.
    pub uid: Option<u32>,
    /// Its inode number; `None` when no process has it open any more.
    pub inode: Option<u32>,
    /// Bytes received that the program has not read; `None` for a listening socket.
    pub recv_queue_bytes: Option<u32>,
    /// Bytes to send that the peer has not acknowledged; `None` for a listening socket.
    pub send_queue_bytes: Option<u32>,
    /// Of a listening socket only.
    pub listen: Option<ListenQueue>,
    /// The timer that runs.
    pub timer: Option<Timer>,
    /// What TCP knows; `None` for listening sockets, and where the kernel keeps a stub only.
    pub info: Option<TcpInfo>,
    /// Name of the congestion control.
    pub congestion: Option<String>,
    /// What the congestion control says of itself.
    pub congestion_info: Option<CongestionInfo>,
    /// Memory of its buffers.
    pub memory: Option<SocketMemory>,
    /// Type of service of IPv4 packets.
    pub tos: Option<u8>,
    /// Traffic class of IPv6 packets.
    pub tclass: Option<u8>,
    /// Traffic control class (`SO_PRIORITY`).
    pub class_id: Option<u32>,
    /// Directions that were shut down: 1 reading, 2 writing, 3 both.
    pub shutdown: Option<u8>,
    /// `SO_MARK`; told to who may change it only.
    pub fwmark: Option<u32>,
    /// Number of its control group.
    pub cgroup_id: Option<u64>,
    /// Upper layer protocol, `tls` or `mptcp`; told to administrators only.
    pub upper_protocol: Option<String>,
}

/// Connections that wait to be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenQueue {
    /// How many wait.
    pub waiting: u32,
    /// How many may: the lesser of `listen(2)`'s backlog and `net.core.somaxconn`. One more than this
    /// is taken.
    pub limit: u32,
}

/// A running timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    /// What it is for.
    pub kind: TimerKind,
    /// Time until it ends, milliseconds.
    pub expires_ms: u32,
    /// How often it has ended without an answer so far.
    pub retries: u8,
}

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerKind {
    /// Something is sent again when it ends.
    On,
    /// A peer that is silent is asked whether it is there.
    Keepalive,
    /// Late segments are waited for.
    TimeWait,
    /// The peer's window is closed, and it is asked whether it has opened.
    Persist,
    /// None that this program knows.
    Unknown,
}

impl TimerKind {
    /// What ss prints for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Keepalive => "keepalive",
            Self::TimeWait => "timewait",
            Self::Persist => "persist",
            Self::Unknown => "unknown",
        }
    }
}

/// Memory of a socket's buffers, bytes (`SK_MEMINFO_*` in `include/uapi/linux/sock_diag.h`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketMemory {
    /// Used by what was received.
    pub rmem_alloc_bytes: u32,
    /// Limit of the receive buffer.
    pub rcvbuf_bytes: u32,
    /// Used by what is on its way out.
    pub wmem_alloc_bytes: u32,
    /// Limit of the send buffer.
    pub sndbuf_bytes: u32,
    /// Reserved ahead of use.
    pub fwd_alloc_bytes: u32,
    /// Used by what is queued to be sent.
    pub wmem_queued_bytes: u32,
    /// Used by options.
    pub optmem_bytes: u32,
    /// Used by what arrived while the program held the socket; since Linux 4.10 or so.
    pub backlog_bytes: Option<u32>,
    /// Packets dropped before they reached the socket's queue.
    pub drops: Option<u32>,
}

/// What a congestion control says of itself (`union tcp_cc_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongestionInfo {
    /// `struct tcp_bbr_info`.
    Bbr {
        /// Bandwidth it has measured, bytes a second.
        bandwidth_bytes_per_sec: u64,
        /// Least round trip time, microseconds.
        min_rtt_us: u32,
        /// Gain of the pacing rate, 1/256.
        pacing_gain: u32,
        /// Gain of the congestion window, 1/256.
        cwnd_gain: u32,
    },
    /// `struct tcpvegas_info`.
    Vegas {
        /// Whether it is at work.
        is_enabled: bool,
        /// Round trips measured in this turn.
        rtt_count: u32,
        /// Last round trip time, microseconds.
        rtt_us: u32,
        /// Least round trip time, microseconds.
        min_rtt_us: u32,
    },
    /// `struct tcp_dctcp_info`.
    Dctcp {
        /// Whether it is at work.
        is_enabled: bool,
        /// Whether the last packet had the congestion mark.
        ce_state: u16,
        /// Estimated share of marked packets, 1/1024.
        alpha: u32,
        /// Bytes acknowledged with the mark.
        acked_ecn_bytes: u32,
        /// Bytes acknowledged.
        acked_total_bytes: u32,
    },
}
