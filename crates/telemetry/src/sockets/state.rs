//! States of a TCP socket, and sets of them.

use std::fmt;
use std::ops::{BitAnd, BitOr, Not};

/// State of a TCP socket, with its number in the kernel (`include/net/tcp_states.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum TcpState {
    /// The connection is established; data flows.
    Established = 1,
    /// We have sent SYN.
    SynSent = 2,
    /// The peer has sent SYN; the handshake is not complete.
    SynReceived = 3,
    /// We have closed, and the peer has not acknowledged it.
    FinWait1 = 4,
    /// We have closed; the peer has acknowledged it but not closed.
    FinWait2 = 5,
    /// Closed, waiting for late segments. The kernel keeps no `tcp_info` in this state.
    TimeWait = 6,
    /// Not connected, or no longer.
    Closed = 7,
    /// The peer has closed, and we have not.
    CloseWait = 8,
    /// The peer has closed, then we; the peer has not acknowledged it.
    LastAck = 9,
    /// Waits for connections of peers.
    Listen = 10,
    /// Both have closed at the same time.
    Closing = 11,
    /// Bound to a port, neither connected nor listening (Linux 6.8 lists these on request only).
    BoundInactive = 13,
}

impl TcpState {
    /// All states, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Established,
        Self::SynSent,
        Self::SynReceived,
        Self::FinWait1,
        Self::FinWait2,
        Self::TimeWait,
        Self::Closed,
        Self::CloseWait,
        Self::LastAck,
        Self::Listen,
        Self::Closing,
        Self::BoundInactive,
    ];

    /// The state that has this number in the kernel.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u8 == number)
    }

    /// The name that ss prints.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Established => "ESTAB",
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECV",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::TimeWait => "TIME-WAIT",
            Self::Closed => "UNCONN",
            Self::CloseWait => "CLOSE-WAIT",
            Self::LastAck => "LAST-ACK",
            Self::Listen => "LISTEN",
            Self::Closing => "CLOSING",
            Self::BoundInactive => "UNCONN",
        }
    }
}

impl fmt::Display for TcpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct States(u32);

impl States {
    /// All states that ss knows. Bound inactive sockets are not included, as in ss.
    pub const ALL: Self = Self((1 << 12) - 2);
    /// What ss shows by default: neither listening nor unconnected sockets, nor stubs.
    pub const OPEN: Self = Self(
        Self::ALL.0
            & !(1 << TcpState::Listen as u8
                | 1 << TcpState::Closed as u8
                | 1 << TcpState::TimeWait as u8
                | 1 << TcpState::SynReceived as u8),
    );
    /// What `ss -l` shows: listening and unconnected sockets.
    pub const LISTENING: Self = Self(1 << TcpState::Listen as u8 | 1 << TcpState::Closed as u8);

    /// The states that a keyword of ss means: one state, or a group. `None` for an unknown keyword.
    /// Case-insensitive.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        let of = |state: TcpState| Some(Self::from(state));
        match word.to_ascii_lowercase().as_str() {
            "all" => Some(Self::ALL),
            "connected" => Some(Self::ALL & !Self::LISTENING),
            "synchronized" => Some(Self::ALL & !(Self::LISTENING | Self::from(TcpState::SynSent))),
            "bucket" => Some(Self::BUCKET),
            "big" => Some(Self::ALL & !Self::BUCKET),
            "established" | "estab" => of(TcpState::Established),
            "syn-sent" => of(TcpState::SynSent),
            "syn-recv" | "syn-rcv" => of(TcpState::SynReceived),
            "fin-wait-1" => of(TcpState::FinWait1),
            "fin-wait-2" => of(TcpState::FinWait2),
            "time-wait" => of(TcpState::TimeWait),
            "close" | "closed" | "unconnected" => of(TcpState::Closed),
            "close-wait" => of(TcpState::CloseWait),
            "last-ack" => of(TcpState::LastAck),
            "listen" | "listening" => of(TcpState::Listen),
            "closing" => of(TcpState::Closing),
            "bound-inactive" => of(TcpState::BoundInactive),
            _ => None,
        }
    }

    /// The kernel keeps only stubs of these.
    const BUCKET: Self = Self(1 << TcpState::SynReceived as u8 | 1 << TcpState::TimeWait as u8);

    /// Whether the set contains the state.
    #[must_use]
    pub fn has(self, state: TcpState) -> bool {
        self.0 & Self::from(state).0 != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// In the format of `inet_diag_req_v2.idiag_states`: a bit per state number.
    pub(super) fn bits(self) -> u32 {
        self.0
    }
}

impl From<TcpState> for States {
    fn from(state: TcpState) -> Self {
        Self(1 << state as u8)
    }
}

impl BitOr for States {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for States {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for States {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}
