//! Running totals of sockets, their differences and sums.

use crate::sockets::{Socket, TcpState};

/// The values that are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    BytesSent,
    BytesRetransmitted,
    BytesReceived,
    SegmentsSent,
    SegmentsRetransmitted,
    BusyUs,
    RwndLimitedUs,
    SndbufLimitedUs,
    ListenDrops,
}

impl Member {
    const ALL: [Self; 9] = [
        Self::BytesSent,
        Self::BytesRetransmitted,
        Self::BytesReceived,
        Self::SegmentsSent,
        Self::SegmentsRetransmitted,
        Self::BusyUs,
        Self::RwndLimitedUs,
        Self::SndbufLimitedUs,
        Self::ListenDrops,
    ];

    /// 32-bit counters in the kernel, which wrap.
    fn wraps(self) -> bool {
        matches!(
            self,
            Self::SegmentsSent | Self::SegmentsRetransmitted | Self::ListenDrops
        )
    }
}

/// A total per [`Member`]; `None` where this kernel has none, or this socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals([Option<u64>; Member::ALL.len()]);

impl Totals {
    /// `None` for stubs, for which the kernel counts nothing.
    pub(super) fn of(socket: &Socket) -> Option<Self> {
        let value = |member: Member| match (&socket.info, member) {
            (_, Member::ListenDrops) => {
                let drops = socket.memory.and_then(|memory| memory.drops);
                drops
                    .filter(|_| socket.state == TcpState::Listen)
                    .map(u64::from)
            }
            (None, _) => None,
            (Some(info), Member::BytesSent) => info.bytes_sent,
            (Some(info), Member::BytesRetransmitted) => info.bytes_retrans,
            (Some(info), Member::BytesReceived) => info.bytes_received,
            (Some(info), Member::SegmentsSent) => info.data_segs_out.map(u64::from),
            (Some(info), Member::SegmentsRetransmitted) => Some(u64::from(info.total_retrans)),
            (Some(info), Member::BusyUs) => info.busy_time_us,
            (Some(info), Member::RwndLimitedUs) => info.rwnd_limited_us,
            (Some(info), Member::SndbufLimitedUs) => info.sndbuf_limited_us,
        };
        let is_whole = socket.info.is_some() || socket.state == TcpState::Listen;
        is_whole.then(|| Self(Member::ALL.map(value)))
    }

    pub(super) fn get(&self, member: Member) -> Option<u64> {
        self.0[member as usize]
    }

    /// Whether these totals cannot be later than `last`: 64-bit counters never wrap.
    pub(super) fn is_before(&self, last: &Self) -> bool {
        [Member::BytesSent, Member::BytesReceived]
            .into_iter()
            .any(|member| {
                let both = self.get(member).zip(last.get(member));
                both.is_some_and(|(now, last)| now < last)
            })
    }

    /// Growth since `before`, where unknown counts as zero.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self(Member::ALL.map(|member| {
            let (now, before) = (self.get(member)?, before.get(member).unwrap_or(0));
            Some(if member.wraps() {
                u64::from((now as u32).wrapping_sub(before as u32))
            } else {
                // A time that is still running may be read slightly shorter than before.
                now.saturating_sub(before)
            })
        }))
    }

    /// Adds; a value that is known on one side only is kept.
    pub(super) fn add(&mut self, more: &Self) {
        for (sum, more) in self.0.iter_mut().zip(more.0) {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        }
    }
}
