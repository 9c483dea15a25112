//! Datagrams in the kernel's form: several in one call, with segmentation offload (udp(7),
//! UDP_SEGMENT and UDP_GRO), and what their errors mean.

use crate::{control, timestamps};
use std::ops::Range;

/// Room for whatever one call receives: the longest datagram, or several that the kernel has joined
/// (UDP_GRO).
pub(crate) const RECEIVE_BYTES: usize = 64 * 1024;

/// Room for the control messages of received datagrams: a timestamp, the number of datagrams that
/// were dropped, and the size of the segments.
pub(crate) const CONTROL_BYTES: usize = timestamps::CONTROL_BYTES
    + control::space(size_of::<u32>())
    + control::space(size_of::<libc::c_int>());

/// The most bytes of one call that sends: a packet of IPv4, less the headers of IP and UDP. The
/// limit holds for all segments of the call together.
pub(crate) const SEND_BYTES_MAX: usize = 65_535 - 20 - 8;

/// The most segments of one call (UDP_MAX_SEGMENTS; newer kernels take 128).
const SEGMENTS_MAX: usize = 64;

/// How far the sending of one payload has come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// The bytes that are done with: sent or lost.
    done: usize,
    /// The end of the part that is being sent.
    end: usize,
    /// The part is several datagrams.
    is_segmented: bool,
    /// Where the kernel refused several datagrams in one call. From there on, each has its own.
    refused_at: Option<usize>,
    /// The part is sent again, because the first call reported the fate of an earlier datagram.
    is_repeated: bool,
}

/// The part of a payload that one system call sends: a datagram, or several of the same length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PayloadPart {
    pub(crate) range: Range<usize>,
    /// The length of each datagram, if there are several.
    pub(crate) segment: Option<u16>,
}

/// What to do after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Go on with [`Progress::part`].
    Continue,
    /// The socket is full: go on with the same part when there is room.
    Wait,
    /// Like `Continue`. An earlier datagram was refused by the remote end.
    EarlierRefused,
}

impl Progress {
    /// The next part of a buffer of `length` bytes. `None` if all of it is done.
    pub(crate) fn part(
        &mut self,
        length: usize,
        segment: u16,
        offload: bool,
    ) -> Option<PayloadPart> {
        if self.done >= length {
            return None;
        }
        let rest = length - self.done;
        let segment_bytes = match segment {
            0 => rest,
            bytes => usize::from(bytes),
        };
        let segments = (SEND_BYTES_MAX / segment_bytes).min(SEGMENTS_MAX);
        let together = if offload && self.refused_at.is_none() {
            rest.min(segment_bytes * segments.max(1))
        } else {
            rest.min(segment_bytes)
        };
        self.end = self.done + together;
        self.is_segmented = together > segment_bytes;
        Some(PayloadPart {
            range: self.done..self.end,
            segment: self.is_segmented.then_some(segment),
        })
    }

    /// Takes the result of the call that sent the last part. `offload` is cleared if the kernel
    /// cannot send several datagrams in one call.
    ///
    /// A datagram that cannot be sent is lost, like one that the network loses: one that is too
    /// long for the path (EMSGSIZE), or that a queue (ENOBUFS) or a firewall (EPERM) rejects.
    pub(crate) fn after(&mut self, result: Result<usize, i32>, offload: &mut bool) -> Outcome {
        match result {
            Err(libc::EINTR) => return Outcome::Continue,
            Err(libc::EAGAIN) => return Outcome::Wait,
            // The device cannot compute checksums, or the kernel is too old. The same error with a
            // segment longer than the path's packets says nothing about the kernel, so the next
            // datagram decides.
            Err(libc::EIO | libc::EINVAL) if self.is_segmented => {
                self.refused_at = Some(self.done);
                return Outcome::Continue;
            }
            // A pending error of the socket. This call has sent nothing.
            Err(libc::ECONNREFUSED) if !self.is_repeated => {
                self.is_repeated = true;
                return Outcome::EarlierRefused;
            }
            Ok(_) if self.refused_at == Some(self.done) => *offload = false,
            _ => {}
        }
        self.done = self.end;
        self.is_repeated = false;
        Outcome::Continue
    }
}

/// What an error of a receive means to the caller: `None` if it is about a single datagram that was
/// lost on its way (EMSGSIZE: it was too long for the path), or nothing at all.
pub(crate) fn reported(error: i32) -> Option<i32> {
    let is_silent = matches!(
        error,
        libc::EAGAIN | libc::EINTR | libc::EMSGSIZE | libc::ENOBUFS
    );
    (!is_silent).then_some(error)
}

/// The length of each datagram in `length` received bytes that came with this control data.
pub(crate) fn segment_bytes(control: &[u8], length: usize) -> usize {
    let joined = control::find(control, libc::SOL_UDP, libc::UDP_GRO)
        .and_then(|content| content.first_chunk())
        .and_then(|bytes| usize::try_from(libc::c_int::from_ne_bytes(*bytes)).ok());
    // Without the message there is a single datagram.
    joined.filter(|bytes| *bytes > 0).unwrap_or(length)
}

/// How many datagrams the socket had dropped before those that came with this control data
/// (socket(7), SO_RXQ_OVFL).
pub(crate) fn dropped(control: &[u8]) -> u32 {
    let dropped = control::find(control, libc::SOL_SOCKET, libc::SO_RXQ_OVFL)
        .and_then(|content| content.first_chunk());
    // The kernel leaves the message out as long as there are none.
    dropped.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a buffer, each sent without an error.
    fn parts(length: usize, segment: u16, offload: bool) -> Vec<PayloadPart> {
        let mut offload = offload;
        let mut progress = Progress::default();
        let mut parts = Vec::new();
        while let Some(part) = progress.part(length, segment, offload) {
            let sent = part.range.len();
            parts.push(part);
            assert_eq!(progress.after(Ok(sent), &mut offload), Outcome::Continue);
        }
        parts
    }

    fn part(range: Range<usize>, segment: Option<u16>) -> PayloadPart {
        PayloadPart { range, segment }
    }

    #[test]
    fn a_part_has_as_many_segments_as_the_kernel_takes() {
        let twenty = parts(20 * 1200 - 7, 1200, true);
        assert_eq!(twenty, [part(0..20 * 1200 - 7, Some(1200))]);
        // 54 segments of 1,200 bytes fit into a packet of IPv4, 64 of 100 are the limit.
        let long = parts(60 * 1200, 1200, true);
        let expected = [
            part(0..54 * 1200, Some(1200)),
            part(54 * 1200..60 * 1200, Some(1200)),
        ];
        assert_eq!(long, expected);
        let small = parts(65 * 100, 100, true);
        let expected = [part(0..6400, Some(100)), part(6400..6500, None)];
        assert_eq!(small, expected);
    }

    #[test]
    fn a_buffer_not_longer_than_a_segment_is_one_datagram() {
        for (length, segment) in [
            (1, 1),
            (1200, 1200),
            (9, 1200),
            (60_000, 0),
            (70_000, 65_535),
        ] {
            let first = parts(length, segment, true).swap_remove(0);
            assert_eq!(first.segment, None, "{length} {segment}");
        }
        assert_eq!(parts(70_000, 0, true), [part(0..70_000, None)]);
        assert_eq!(parts(0, 1200, true), []);
    }

    #[test]
    fn without_offload_each_datagram_has_its_own_call() {
        let expected = [part(0..3, None), part(3..6, None), part(6..7, None)];
        assert_eq!(parts(7, 3, false), expected);
    }

    #[test]
    fn a_refused_batch_is_sent_one_by_one_and_remembered_only_if_that_works() {
        for (alone, remembered) in [(Ok(1200), true), (Err(libc::EMSGSIZE), false)] {
            for refused in [libc::EIO, libc::EINVAL] {
                let mut offload = true;
                let mut progress = Progress::default();
                progress.part(3000, 1200, offload).expect("a part");
                progress.after(Err(refused), &mut offload);
                assert!(offload, "not known yet");
                let first = progress.part(3000, 1200, offload);
                assert_eq!(first, Some(part(0..1200, None)));
                progress.after(alone, &mut offload);
                assert_eq!(offload, !remembered, "{alone:?}");
                let second = progress.part(3000, 1200, offload);
                assert_eq!(second, Some(part(1200..2400, None)), "the rest too");
            }
        }
    }

    #[test]
    fn the_error_of_an_earlier_datagram_costs_no_datagram() {
        let mut offload = true;
        let mut progress = Progress::default();
        let first = progress.part(10, 0, offload);
        let refused = Err(libc::ECONNREFUSED);
        assert_eq!(
            progress.after(refused, &mut offload),
            Outcome::EarlierRefused
        );
        assert_eq!(progress.part(10, 0, offload), first, "sent again");
        assert_eq!(progress.after(refused, &mut offload), Outcome::Continue);
        assert_eq!(progress.part(10, 0, offload), None, "but only once");
    }

    #[test]
    fn a_full_socket_and_a_signal_change_nothing() {
        let mut offload = true;
        let mut progress = Progress::default();
        let first = progress.part(3000, 1200, offload);
        let after = progress.after(Err(libc::EAGAIN), &mut offload);
        assert_eq!(after, Outcome::Wait);
        assert_eq!(progress.part(3000, 1200, offload), first);
        let after = progress.after(Err(libc::EINTR), &mut offload);
        assert_eq!(after, Outcome::Continue);
        assert_eq!(progress.part(3000, 1200, offload), first);
    }

    #[test]
    fn the_segment_is_that_of_the_control_message_or_the_whole() {
        let joined = control::message(libc::SOL_UDP, libc::UDP_GRO, &1200_i32.to_ne_bytes());
        assert_eq!(segment_bytes(&joined, 24_000), 1200);
        assert_eq!(segment_bytes(&[], 24_000), 24_000);
        for nonsense in [0_i32, -1] {
            let message = control::message(libc::SOL_UDP, libc::UDP_GRO, &nonsense.to_ne_bytes());
            assert_eq!(segment_bytes(&message, 24_000), 24_000);
        }
        let both = [
            control::message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &[1; 48]),
            control::message(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &7_u32.to_ne_bytes()),
            joined,
        ]
        .concat();
        assert_eq!((segment_bytes(&both, 24_000), dropped(&both)), (1200, 7));
        assert_eq!(both.len(), CONTROL_BYTES);
        assert_eq!(dropped(&both[..both.len() - 50]), 0, "cut off");
    }
}
