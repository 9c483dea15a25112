//! One TCP socket.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::state::TcpState;
use super::tcp_info::TcpInfo;

/// A TCP socket as the kernel describes it. Values that the kernel does not tell are `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Socket {
    /// Identifies this socket until reboot; ports are reused.
    pub cookie: u64,
    /// Its state; a destroyed socket is closed.
    pub state: TcpState,
    /// Our address; unspecified when it listens on all addresses.
    pub local_address: IpAddr,
    /// The port on our side.
    pub local_port: u16,
    /// The peer's address; unspecified when there is none.
    pub peer_address: IpAddr,
    /// The peer's port; 0 when there is none.
    pub peer_port: u16,
    /// Whether an IPv6 socket refuses IPv4.
    pub is_v6_only: Option<bool>,
    /// Index of the interface it is bound to.
    pub interface_index: Option<u32>,
    /// Name of that interface.
    pub interface: Option<String>,
    /// User that owns it.
    pub uid: Option<u32>,
    /// Its inode number; `None` when no process has it open any more.
    pub inode: Option<u32>,
    /// Received bytes that the program has not read; `None` for a listening socket.
    pub recv_queue_bytes: Option<u32>,
    /// Bytes to send that the peer has not acknowledged; `None` for a listening socket.
    pub send_queue_bytes: Option<u32>,
    /// Only of a listening socket.
    pub listen: Option<ListenQueue>,
    /// The timer that is running; `None` if there is none.
    pub timer: Option<Timer>,
    /// TCP's values; `None` for listening sockets, and where the kernel keeps only a stub.
    pub info: Option<TcpInfo>,
    /// Name of the congestion control.
    pub congestion: Option<String>,
    /// Values of the congestion control.
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
    /// `SO_MARK`; only visible with the privilege to change it.
    pub fwmark: Option<u32>,
    /// Number of its control group.
    pub cgroup_id: Option<u64>,
    /// Upper layer protocol, `tls` or `mptcp`; only visible to administrators.
    pub upper_protocol: Option<String>,
}

impl Socket {
    /// A socket of which only its ends and its state are known.
    pub(crate) fn bare(cookie: u64, state: TcpState, local: SocketAddr, peer: SocketAddr) -> Self {
        Self {
            cookie,
            state,
            local_address: local.ip(),
            local_port: local.port(),
            peer_address: peer.ip(),
            peer_port: peer.port(),
            is_v6_only: None,
            interface_index: None,
            interface: None,
            uid: None,
            inode: None,
            recv_queue_bytes: None,
            send_queue_bytes: None,
            listen: None,
            timer: None,
            info: None,
            congestion: None,
            congestion_info: None,
            memory: None,
            tos: None,
            tclass: None,
            class_id: None,
            shutdown: None,
            fwmark: None,
            cgroup_id: None,
            upper_protocol: None,
        }
    }
}

/// Connections waiting to be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenQueue {
    /// Number of connections that wait to be accepted.
    pub waiting: u32,
    /// The limit: the lesser of `listen(2)`'s backlog and `net.core.somaxconn`. The kernel accepts
    /// one more than this.
    pub limit: u32,
}

/// A running timer of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timer {
    /// What happens when it expires.
    #[serde(rename = "name")]
    pub kind: TimerKind,
    /// Time until it expires, milliseconds.
    #[serde(rename = "expires")]
    pub expires_ms: u32,
    /// How often it has expired without a reply so far.
    #[serde(rename = "retrans")]
    pub retries: u8,
}

/// What a timer is for; serialized as ss prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TimerKind {
    /// Retransmission of unacknowledged data.
    On,
    /// Probe of a peer that has sent nothing for long.
    Keepalive,
    /// Wait for late segments.
    TimeWait,
    /// Probe of a peer whose window is closed.
    Persist,
    /// Not known to this program.
    Unknown,
}

/// Memory of a socket's buffers, bytes (`SK_MEMINFO_*` in `include/uapi/linux/sock_diag.h`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SocketMemory {
    /// Used by received data.
    #[serde(rename = "rmem_alloc")]
    pub rmem_alloc_bytes: u32,
    /// Limit of the receive buffer.
    #[serde(rename = "rcvbuf")]
    pub rcvbuf_bytes: u32,
    /// Used by data being sent.
    #[serde(rename = "wmem_alloc")]
    pub wmem_alloc_bytes: u32,
    /// Limit of the send buffer.
    #[serde(rename = "sndbuf")]
    pub sndbuf_bytes: u32,
    /// Reserved ahead of use.
    #[serde(rename = "fwd_alloc")]
    pub fwd_alloc_bytes: u32,
    /// Used by data queued to be sent.
    #[serde(rename = "wmem_queued")]
    pub wmem_queued_bytes: u32,
    /// Used by options and control messages.
    #[serde(rename = "optmem")]
    pub optmem_bytes: u32,
    /// Used by packets that arrived while the program held the socket; since about Linux 4.10.
    #[serde(rename = "backlog", skip_serializing_if = "Option::is_none")]
    pub backlog_bytes: Option<u32>,
    /// Packets dropped before they reached the socket's queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drops: Option<u32>,
}

/// Values of a congestion control (`union tcp_cc_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CongestionInfo {
    /// The values of BBR: `struct tcp_bbr_info`.
    Bbr {
        /// Measured bandwidth, bytes per second.
        #[serde(rename = "bw")]
        bandwidth_bytes_per_sec: u64,
        /// Smallest round-trip time, microseconds.
        #[serde(rename = "mrtt")]
        min_rtt_us: u32,
        /// Gain of the pacing rate, in 1/256.
        pacing_gain: u32,
        /// Gain of the congestion window, in 1/256.
        cwnd_gain: u32,
    },
    /// The values of Vegas and similar: `struct tcpvegas_info`.
    Vegas {
        /// Whether it is active.
        #[serde(rename = "enabled")]
        is_enabled: bool,
        /// Round trips measured in this cycle.
        #[serde(rename = "rttcnt")]
        rtt_count: u32,
        /// Last round-trip time, microseconds.
        #[serde(rename = "rtt")]
        rtt_us: u32,
        /// Smallest round-trip time, microseconds.
        #[serde(rename = "minrtt")]
        min_rtt_us: u32,
    },
    /// The values of DCTCP: `struct tcp_dctcp_info`.
    Dctcp {
        /// Whether it is active.
        #[serde(rename = "enabled")]
        is_enabled: bool,
        /// Whether the last packet had the congestion mark.
        ce_state: u16,
        /// Estimated share of marked packets, in 1/1024.
        alpha: u32,
        /// Bytes acknowledged with the mark.
        #[serde(rename = "ab_ecn")]
        acked_ecn_bytes: u32,
        /// Bytes acknowledged, with the mark or without.
        #[serde(rename = "ab_tot")]
        acked_total_bytes: u32,
    },
}
