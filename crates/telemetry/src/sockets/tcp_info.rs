//! `struct tcp_info` (`include/uapi/linux/tcp.h`), by whichever kernel wrote it.
//!
//! The structure only ever grew at its end. What an older kernel's does not reach is absent, what a
//! newer one's has behind the end is not read.

/// What the kernel knows of one connection. Members are in the kernel's units, which stand in their
/// names; those without one are counts, those called `bytes` bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "the kernel's names; docs/telemetry.md says what each means"
)]
pub struct TcpInfo {
    // `tcpi_state` is the socket's state once more.
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub delivery_rate_app_limited: bool,
    pub fastopen_client_fail: u8,
    pub rto_us: u32,
    pub ato_us: u32,
    pub snd_mss_bytes: u32,
    pub rcv_mss_bytes: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last_data_sent_ms: u32,
    // `tcpi_last_ack_sent` is always zero: "Not remembered, sorry."
    pub last_data_recv_ms: u32,
    pub last_ack_recv_ms: u32,
    pub pmtu_bytes: u32,
    pub rcv_ssthresh_bytes: u32,
    /// `None` until there was a measurement.
    pub rtt_us: Option<u32>,
    pub rttvar_us: u32,
    /// `None` while the connection has never left slow start: the kernel's word for infinite.
    pub snd_ssthresh: Option<u32>,
    pub snd_cwnd: u32,
    pub advmss_bytes: u32,
    pub reordering: u32,
    /// `None` until there was a measurement.
    pub rcv_rtt_us: Option<u32>,
    pub rcv_space_bytes: u32,
    pub total_retrans: u32,
    /// `None` also when there is no limit.
    pub pacing_rate_bytes_per_sec: Option<u64>,
    /// `None` also when there is no limit.
    pub max_pacing_rate_bytes_per_sec: Option<u64>,
    pub bytes_acked: Option<u64>,
    pub bytes_received: Option<u64>,
    pub segs_out: Option<u32>,
    pub segs_in: Option<u32>,
    pub notsent_bytes: Option<u32>,
    /// `None` also until there was a measurement.
    pub min_rtt_us: Option<u32>,
    pub data_segs_in: Option<u32>,
    pub data_segs_out: Option<u32>,
    pub delivery_rate_bytes_per_sec: Option<u64>,
    pub busy_time_us: Option<u64>,
    pub rwnd_limited_us: Option<u64>,
    pub sndbuf_limited_us: Option<u64>,
    pub delivered: Option<u32>,
    pub delivered_ce: Option<u32>,
    pub bytes_sent: Option<u64>,
    pub bytes_retrans: Option<u64>,
    pub dsack_dups: Option<u32>,
    pub reord_seen: Option<u32>,
    pub rcv_ooopack: Option<u32>,
    pub snd_wnd_bytes: Option<u32>,
    pub rcv_wnd_bytes: Option<u32>,
    pub rehash: Option<u32>,
    pub total_rto: Option<u16>,
    pub total_rto_recoveries: Option<u16>,
    pub total_rto_time_ms: Option<u32>,
    pub received_ce: Option<u32>,
    pub delivered_e1_bytes: Option<u32>,
    pub delivered_e0_bytes: Option<u32>,
    pub delivered_ce_bytes: Option<u32>,
    pub received_e1_bytes: Option<u32>,
    pub received_e0_bytes: Option<u32>,
    pub received_ce_bytes: Option<u32>,
    // Behind these kernels disagree: the last word is two numbers in Linux 6.18 and bit fields in
    // later ones, so it is not read.
}

/// `TCP_INFINITE_SSTHRESH` (`include/net/tcp.h`).
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// As long as the structure has been since Linux 2.6.10. Anything shorter is not one.
pub(super) const LENGTH_MIN: usize = 104;

impl TcpInfo {
    /// Reads what a kernel wrote; `None` if it is too short for any kernel's.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < LENGTH_MIN {
            return None;
        }
        let at = Members(bytes);
        let scales = at.u8(6)?;
        let flags = at.u8(7)?;
        Some(Self {
            ca_state: at.u8(1)?,
            retransmits: at.u8(2)?,
            probes: at.u8(3)?,
            backoff: at.u8(4)?,
            options: at.u8(5)?,
            snd_wscale: first_bits(scales, 4),
            rcv_wscale: second_bits(scales, 4, 4),
            delivery_rate_app_limited: first_bits(flags, 1) == 1,
            fastopen_client_fail: second_bits(flags, 1, 2),
            rto_us: at.u32(8)?,
            ato_us: at.u32(12)?,
            snd_mss_bytes: at.u32(16)?,
            rcv_mss_bytes: at.u32(20)?,
            unacked: at.u32(24)?,
            sacked: at.u32(28)?,
            lost: at.u32(32)?,
            retrans: at.u32(36)?,
            fackets: at.u32(40)?,
            last_data_sent_ms: at.u32(44)?,
            last_data_recv_ms: at.u32(52)?,
            last_ack_recv_ms: at.u32(56)?,
            pmtu_bytes: at.u32(60)?,
            rcv_ssthresh_bytes: at.u32(64)?,
            rtt_us: at.u32(68).filter(|rtt| *rtt != 0),
            rttvar_us: at.u32(72)?,
            snd_ssthresh: at.u32(76).filter(|segments| *segments < INFINITE_SSTHRESH),
            snd_cwnd: at.u32(80)?,
            advmss_bytes: at.u32(84)?,
            reordering: at.u32(88)?,
            rcv_rtt_us: at.u32(92).filter(|rtt| *rtt != 0),
            rcv_space_bytes: at.u32(96)?,
            total_retrans: at.u32(100)?,
            pacing_rate_bytes_per_sec: at.u64(104).filter(|rate| *rate != u64::MAX),
            max_pacing_rate_bytes_per_sec: at.u64(112).filter(|rate| *rate != u64::MAX),
            bytes_acked: at.u64(120),
            bytes_received: at.u64(128),
            segs_out: at.u32(136),
            segs_in: at.u32(140),
            notsent_bytes: at.u32(144),
            min_rtt_us: at.u32(148).filter(|rtt| *rtt != u32::MAX),
            data_segs_in: at.u32(152),
            data_segs_out: at.u32(156),
            delivery_rate_bytes_per_sec: at.u64(160),
            busy_time_us: at.u64(168),
            rwnd_limited_us: at.u64(176),
            sndbuf_limited_us: at.u64(184),
            delivered: at.u32(192),
            delivered_ce: at.u32(196),
            bytes_sent: at.u64(200),
            bytes_retrans: at.u64(208),
            dsack_dups: at.u32(216),
            reord_seen: at.u32(220),
            rcv_ooopack: at.u32(224),
            snd_wnd_bytes: at.u32(228),
            rcv_wnd_bytes: at.u32(232),
            rehash: at.u32(236),
            total_rto: at.u16(240),
            total_rto_recoveries: at.u16(242),
            total_rto_time_ms: at.u32(244),
            received_ce: at.u32(248),
            delivered_e1_bytes: at.u32(252),
            delivered_e0_bytes: at.u32(256),
            delivered_ce_bytes: at.u32(260),
            received_e1_bytes: at.u32(264),
            received_e0_bytes: at.u32(268),
            received_ce_bytes: at.u32(272),
        })
    }

    /// State of congestion control (`enum tcp_ca_state`), as the kernel's sources call it.
    #[must_use]
    pub fn ca_state_name(&self) -> Option<&'static str> {
        ["open", "disorder", "cwr", "recovery", "loss"]
            .get(usize::from(self.ca_state))
            .copied()
    }

    /// Options in use, as ss prints them (`TCPI_OPT_*`).
    pub fn option_names(&self) -> impl Iterator<Item = &'static str> {
        OPTIONS
            .into_iter()
            .filter(|(bit, _)| self.options & bit != 0)
            .map(|(_, name)| name)
    }

    /// Whether both sides scale their windows.
    #[must_use]
    pub fn has_window_scales(&self) -> bool {
        self.options & OPTION_WSCALE != 0
    }
}

const OPTION_WSCALE: u8 = 4;

/// `TCPI_OPT_TIMESTAMPS` and so on, in the order of their bits. What ss has no word for has the
/// constant's name.
const OPTIONS: [(u8, &str); 8] = [
    (1, "ts"),
    (2, "sack"),
    (OPTION_WSCALE, "wscale"),
    (8, "ecn"),
    (16, "ecnseen"),
    (32, "fastopen"),
    (64, "usec_ts"),
    (128, "tfo_child"),
];

/// Members of a structure in the order of this machine's bytes, by offset; `None` beyond its end.
#[derive(Clone, Copy)]
pub(super) struct Members<'a>(pub(super) &'a [u8]);

impl Members<'_> {
    pub(super) fn bytes<const N: usize>(self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..)?.first_chunk().copied()
    }

    pub(super) fn u8(self, offset: usize) -> Option<u8> {
        self.0.get(offset).copied()
    }

    pub(super) fn u16(self, offset: usize) -> Option<u16> {
        self.bytes(offset).map(u16::from_ne_bytes)
    }

    /// In the network's order.
    pub(super) fn be16(self, offset: usize) -> Option<u16> {
        self.bytes(offset).map(u16::from_be_bytes)
    }

    pub(super) fn u32(self, offset: usize) -> Option<u32> {
        self.bytes(offset).map(u32::from_ne_bytes)
    }

    pub(super) fn u64(self, offset: usize) -> Option<u64> {
        self.bytes(offset).map(u64::from_ne_bytes)
    }
}

/// A C bit field of `bits` bits that stands first in its byte: at the low end where bytes are
/// little-endian, at the high end otherwise (System V ABI).
fn first_bits(byte: u8, bits: u32) -> u8 {
    second_bits(byte, 0, bits)
}

/// A C bit field of `bits` bits behind another of `before`.
fn second_bits(byte: u8, before: u32, bits: u32) -> u8 {
    let shift = if cfg!(target_endian = "little") {
        before
    } else {
        u8::BITS - before - bits
    };
    (byte >> shift) & ((1 << bits) - 1)
}
