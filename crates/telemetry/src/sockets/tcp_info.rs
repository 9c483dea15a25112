//! `struct tcp_info` (`include/uapi/linux/tcp.h`) of any kernel version.
//!
//! The structure has only ever grown at its end. Members that an older kernel lacks are absent;
//! members that a newer one adds are not read.

/// The kernel's values for one connection. Units are in the names of the members; members without a
/// unit are counts, and those called `bytes` are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "the kernel's names; FIELDS says what each means"
)]
pub struct TcpInfo {
    // `tcpi_state` is left out: it repeats the socket's state.
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
    /// `None` before the first measurement.
    pub rtt_us: Option<u32>,
    pub rttvar_us: u32,
    /// `None` while the connection has never left slow start, which the kernel writes as infinite.
    pub snd_ssthresh: Option<u32>,
    pub snd_cwnd: u32,
    pub advmss_bytes: u32,
    pub reordering: u32,
    /// `None` before the first measurement.
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
    /// `None` also before the first measurement.
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
    // After this kernels differ: the last word is two numbers in Linux 6.18 and bit fields in later
    // ones, so it is not read.
}

/// The kernel's infinite slow start threshold: `TCP_INFINITE_SSTHRESH` (`include/net/tcp.h`).
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// The length of the structure since Linux 2.6.10. Anything shorter is invalid.
pub(super) const LENGTH_MIN: usize = 104;

impl TcpInfo {
    /// Parses a structure; `None` if it is too short.
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
            ..Self::later_members(at)
        })
    }

    /// The members after [`LENGTH_MIN`], whose last ones an older kernel lacks. Those before are
    /// zero.
    fn later_members(at: Members<'_>) -> Self {
        Self {
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
            ..Self::default()
        }
    }

    /// State of congestion control (`enum tcp_ca_state`), with the kernel's name.
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

/// `TCPI_OPT_TIMESTAMPS` and so on, in the order of their bits. Options without a name in ss have
/// that of the constant.
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

/// Members of a structure in native byte order, by offset; `None` beyond its end.
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

    /// In network byte order.
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

/// A C bit field of `bits` bits that is the first in its byte: at the low end on little-endian
/// machines, at the high end otherwise (System V ABI).
fn first_bits(byte: u8, bits: u32) -> u8 {
    second_bits(byte, 0, bits)
}

/// A C bit field of `bits` bits after another of `before` bits.
fn second_bits(byte: u8, before: u32, bits: u32) -> u8 {
    let shift = if cfg!(target_endian = "little") {
        before
    } else {
        u8::BITS - before - bits
    };
    (byte >> shift) & ((1 << bits) - 1)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// The length in Linux 6.18.
    const LENGTH_NOW: usize = 280;

    /// Bytes that are as different as possible, so that no two members have the same value.
    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 7 + at / 256) as u8).collect()
    }

    /// Compares members with the bytes at libc's offset of the same name.
    macro_rules! check_members {
        ($info:ident, $bytes:ident, $read:ident; $($ours:ident = $theirs:ident),* $(,)?) => {
            $(assert_eq!(
                Some($info.$ours).map(Into::into),
                Some(Members(&$bytes).$read(offset_of!(libc::tcp_info, $theirs))),
                stringify!($ours)
            );)*
        };
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn each_member_is_read_where_libc_has_it() {
        let bytes = pattern(LENGTH_NOW);
        let info = TcpInfo::parse(&bytes).unwrap();
        check_members!(info, bytes, u8;
            ca_state = tcpi_ca_state, retransmits = tcpi_retransmits, probes = tcpi_probes,
            backoff = tcpi_backoff, options = tcpi_options,
        );
        check_members!(info, bytes, u32;
            rto_us = tcpi_rto, ato_us = tcpi_ato, snd_mss_bytes = tcpi_snd_mss,
            rcv_mss_bytes = tcpi_rcv_mss, unacked = tcpi_unacked, sacked = tcpi_sacked,
            lost = tcpi_lost, retrans = tcpi_retrans, fackets = tcpi_fackets,
            last_data_sent_ms = tcpi_last_data_sent, last_data_recv_ms = tcpi_last_data_recv,
            last_ack_recv_ms = tcpi_last_ack_recv, pmtu_bytes = tcpi_pmtu,
            rcv_ssthresh_bytes = tcpi_rcv_ssthresh, rtt_us = tcpi_rtt, rttvar_us = tcpi_rttvar,
            snd_cwnd = tcpi_snd_cwnd,
            advmss_bytes = tcpi_advmss, reordering = tcpi_reordering, rcv_rtt_us = tcpi_rcv_rtt,
            rcv_space_bytes = tcpi_rcv_space, total_retrans = tcpi_total_retrans,
            segs_out = tcpi_segs_out, segs_in = tcpi_segs_in, notsent_bytes = tcpi_notsent_bytes,
            min_rtt_us = tcpi_min_rtt, data_segs_in = tcpi_data_segs_in,
            data_segs_out = tcpi_data_segs_out, delivered = tcpi_delivered,
            delivered_ce = tcpi_delivered_ce, dsack_dups = tcpi_dsack_dups,
            reord_seen = tcpi_reord_seen, rcv_ooopack = tcpi_rcv_ooopack,
            snd_wnd_bytes = tcpi_snd_wnd, rcv_wnd_bytes = tcpi_rcv_wnd, rehash = tcpi_rehash,
            total_rto_time_ms = tcpi_total_rto_time, received_ce = tcpi_received_ce,
            delivered_e1_bytes = tcpi_delivered_e1_bytes,
            delivered_e0_bytes = tcpi_delivered_e0_bytes,
            delivered_ce_bytes = tcpi_delivered_ce_bytes,
            received_e1_bytes = tcpi_received_e1_bytes, received_e0_bytes = tcpi_received_e0_bytes,
            received_ce_bytes = tcpi_received_ce_bytes,
        );
        check_members!(info, bytes, u16;
            total_rto = tcpi_total_rto, total_rto_recoveries = tcpi_total_rto_recoveries,
        );
        check_members!(info, bytes, u64;
            pacing_rate_bytes_per_sec = tcpi_pacing_rate,
            max_pacing_rate_bytes_per_sec = tcpi_max_pacing_rate, bytes_acked = tcpi_bytes_acked,
            bytes_received = tcpi_bytes_received, delivery_rate_bytes_per_sec = tcpi_delivery_rate,
            busy_time_us = tcpi_busy_time, rwnd_limited_us = tcpi_rwnd_limited,
            sndbuf_limited_us = tcpi_sndbuf_limited, bytes_sent = tcpi_bytes_sent,
            bytes_retrans = tcpi_bytes_retrans,
        );
        let ssthresh = Members(&bytes).u32(offset_of!(libc::tcp_info, tcpi_snd_ssthresh));
        assert_eq!(
            info.snd_ssthresh,
            ssthresh.filter(|value| *value < INFINITE_SSTHRESH)
        );
        // Two C bit fields on a little-endian machine.
        assert_eq!(size_of::<libc::tcp_info>(), LENGTH_NOW);
        assert_eq!(
            (info.snd_wscale, info.rcv_wscale),
            (bytes[6] & 15, bytes[6] >> 4)
        );
        assert_eq!(info.delivery_rate_app_limited, bytes[7] & 1 == 1);
        assert_eq!(info.fastopen_client_fail, bytes[7] >> 1 & 3);
    }

    /// How many optional members exist in the structure, for each length that Linux has had.
    #[test]
    fn the_structure_of_an_older_kernel_has_the_members_up_to_its_end() {
        let optional = |info: &TcpInfo| {
            [
                ("pacing_rate", info.pacing_rate_bytes_per_sec.is_some()),
                (
                    "max_pacing_rate",
                    info.max_pacing_rate_bytes_per_sec.is_some(),
                ),
                ("bytes_acked", info.bytes_acked.is_some()),
                ("bytes_received", info.bytes_received.is_some()),
                ("segs_out", info.segs_out.is_some()),
                ("segs_in", info.segs_in.is_some()),
                ("notsent_bytes", info.notsent_bytes.is_some()),
                ("min_rtt", info.min_rtt_us.is_some()),
                ("data_segs_in", info.data_segs_in.is_some()),
                ("data_segs_out", info.data_segs_out.is_some()),
                ("delivery_rate", info.delivery_rate_bytes_per_sec.is_some()),
                ("busy_time", info.busy_time_us.is_some()),
                ("rwnd_limited", info.rwnd_limited_us.is_some()),
                ("sndbuf_limited", info.sndbuf_limited_us.is_some()),
                ("delivered", info.delivered.is_some()),
                ("delivered_ce", info.delivered_ce.is_some()),
                ("bytes_sent", info.bytes_sent.is_some()),
                ("bytes_retrans", info.bytes_retrans.is_some()),
                ("dsack_dups", info.dsack_dups.is_some()),
                ("reord_seen", info.reord_seen.is_some()),
                ("rcv_ooopack", info.rcv_ooopack.is_some()),
                ("snd_wnd", info.snd_wnd_bytes.is_some()),
                ("rcv_wnd", info.rcv_wnd_bytes.is_some()),
                ("rehash", info.rehash.is_some()),
                ("total_rto", info.total_rto.is_some()),
                ("total_rto_recoveries", info.total_rto_recoveries.is_some()),
                ("total_rto_time", info.total_rto_time_ms.is_some()),
                ("received_ce", info.received_ce.is_some()),
                ("delivered_e1_bytes", info.delivered_e1_bytes.is_some()),
                ("delivered_e0_bytes", info.delivered_e0_bytes.is_some()),
                ("delivered_ce_bytes", info.delivered_ce_bytes.is_some()),
                ("received_e1_bytes", info.received_e1_bytes.is_some()),
                ("received_e0_bytes", info.received_e0_bytes.is_some()),
                ("received_ce_bytes", info.received_ce_bytes.is_some()),
            ]
        };
        let whole = pattern(LENGTH_NOW);
        for (length, last) in [
            (104, None),
            (120, Some("max_pacing_rate")),
            (136, Some("bytes_received")),
            (144, Some("segs_in")),
            (152, Some("min_rtt")),
            (160, Some("data_segs_out")),
            (168, Some("delivery_rate")),
            (192, Some("sndbuf_limited")),
            (200, Some("delivered_ce")),
            (216, Some("bytes_retrans")),
            (224, Some("reord_seen")),
            (232, Some("snd_wnd")),
            (240, Some("rehash")),
            (248, Some("total_rto_time")),
            (252, Some("received_ce")),
            (276, Some("received_ce_bytes")),
            (280, Some("received_ce_bytes")),
        ] {
            let info = TcpInfo::parse(&whole[..length]).unwrap();
            let found = optional(&info);
            let there = found.iter().take_while(|(_, is_there)| *is_there).count();
            let last_there = there.checked_sub(1).map(|index| found[index].0);
            assert_eq!(last_there, last, "{length} bytes");
            assert!(
                found[there..].iter().all(|(_, is_there)| !is_there),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn a_truncated_structure_keeps_the_members_before_the_cut() {
        let bytes = pattern(LENGTH_NOW);
        let whole = TcpInfo::parse(&bytes).unwrap();
        for length in 0..=bytes.len() {
            let info = TcpInfo::parse(&bytes[..length]);
            assert_eq!(info.is_some(), length >= LENGTH_MIN, "{length}");
            let Some(info) = info else { continue };
            assert_eq!(info.total_retrans, whole.total_retrans);
            assert_eq!(
                info.snd_wnd_bytes,
                whole.snd_wnd_bytes.filter(|_| length >= 232)
            );
            assert_eq!(
                info.bytes_acked,
                whole.bytes_acked.filter(|_| length >= 128)
            );
        }
    }

    #[test]
    fn additional_members_of_a_newer_kernel_change_nothing() {
        let bytes = pattern(LENGTH_NOW + 64);
        assert_eq!(TcpInfo::parse(&bytes), TcpInfo::parse(&bytes[..LENGTH_NOW]));
    }

    #[test]
    fn unknown_and_unlimited_values_are_absent() {
        let mut bytes = vec![0; LENGTH_NOW];
        bytes[76..80].copy_from_slice(&INFINITE_SSTHRESH.to_ne_bytes());
        bytes[104..120].fill(0xff);
        bytes[148..152].fill(0xff);
        let info = TcpInfo::parse(&bytes).unwrap();
        assert_eq!(info.snd_ssthresh, None);
        assert_eq!(info.pacing_rate_bytes_per_sec, None);
        assert_eq!(info.max_pacing_rate_bytes_per_sec, None);
        assert_eq!(
            (info.rtt_us, info.rcv_rtt_us, info.min_rtt_us),
            (None, None, None)
        );
        assert_eq!(info.ca_state_name(), Some("open"));
        bytes[1] = 5;
        assert_eq!(TcpInfo::parse(&bytes).unwrap().ca_state_name(), None);
    }
}
