//! The kernel's stamps of received bytes, and how old they are when the caller gets the bytes.

use crate::{clock, socket};
use std::os::fd::OwnedFd;

/// The header of a control message: length, level and type (cmsg(3)).
const HEADER_BYTES: usize = size_of::<usize>() + 2 * size_of::<libc::c_int>();

/// `struct scm_timestamping`: three times of seconds and nanoseconds
/// (Documentation/networking/timestamping.rst, 2.1).
const STAMPS_BYTES: usize = 3 * 2 * size_of::<libc::c_long>();

/// Room for the one control message that is asked for.
pub(crate) const CONTROL_BYTES: usize = HEADER_BYTES + STAMPS_BYTES;

/// Longer delays are not believed: the wall clock, which stamps are made with, was set meanwhile.
const DELAY_NS_MAX: u64 = 10_000_000_000;

/// The two clocks run at the same speed. When their distance has changed by more than the error of two
/// readings, the wall clock has been set.
const STEP_NS: u64 = 2 * clock::OFFSET_ERROR_NS_MAX;

/// What a loop needs to tell the age of stamps.
pub(crate) struct Stamps {
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC at the last reading.
    offset_ns: Option<i64>,
    /// A socket that wants stamps and does nothing else. The kernel stamps while any socket wants
    /// it, and switches by patching its code, on all CPUs: not to be done for each connection.
    _keeps_on: Option<OwnedFd>,
}

impl Stamps {
    /// Has the kernel begin to stamp. The first packets after that may still lack a stamp.
    pub(crate) fn start() -> Self {
        Self {
            offset_ns: clock::realtime_offset_ns(),
            _keeps_on: socket::stamping_on(),
        }
    }

    /// How long before `at_ns` (CLOCK_MONOTONIC) the kernel had the bytes that came with this control
    /// data.
    pub(crate) fn delay_ns(&mut self, control: &[u8], at_ns: u64) -> Option<u64> {
        let stamp_ns = software_stamp_ns(control)?;
        let offset_ns = clock::realtime_offset_ns()?;
        let before_ns = self.offset_ns.replace(offset_ns);
        let was_set = before_ns.is_none_or(|before| before.abs_diff(offset_ns) > STEP_NS);
        match was_set {
            // The stamp may be from before or from after.
            true => None,
            false => delay_ns(stamp_ns, offset_ns, at_ns),
        }
    }
}

/// The time between a stamp and `at_ns`, if that can be true.
fn delay_ns(stamp_ns: i64, offset_ns: i64, at_ns: u64) -> Option<u64> {
    let received_ns = stamp_ns.checked_sub(offset_ns)?;
    let delay_ns = i64::try_from(at_ns).ok()?.checked_sub(received_ns)?;
    u64::try_from(delay_ns)
        .ok()
        .filter(|delay| *delay <= DELAY_NS_MAX)
}

/// The software stamp in control data: CLOCK_REALTIME, nanoseconds.
fn software_stamp_ns(control: &[u8]) -> Option<i64> {
    const LEVEL_AT: usize = size_of::<usize>();
    const KIND_AT: usize = LEVEL_AT + size_of::<libc::c_int>();
    let mut rest = control;
    loop {
        let length = usize::from_ne_bytes(*rest.first_chunk()?);
        // None: the message is cut off, or shorter than its own header.
        let content = rest.get(HEADER_BYTES..length)?;
        let level = libc::c_int::from_ne_bytes(*rest.get(LEVEL_AT..)?.first_chunk()?);
        let kind = libc::c_int::from_ne_bytes(*rest.get(KIND_AT..)?.first_chunk()?);
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) {
            return first_time_ns(content);
        }
        rest = rest.get(length.next_multiple_of(size_of::<usize>())..)?;
    }
}

/// The first of the three times; zero means that the packet has none.
#[allow(
    clippy::useless_conversion,
    reason = "a long has 32 bits on some machines"
)]
fn first_time_ns(stamps: &[u8]) -> Option<i64> {
    let seconds = libc::c_long::from_ne_bytes(*stamps.first_chunk()?);
    let rest = stamps.get(size_of::<libc::c_long>()..)?;
    let nanoseconds = libc::c_long::from_ne_bytes(*rest.first_chunk()?);
    let time_ns = i64::from(seconds)
        .checked_mul(1_000_000_000)?
        .checked_add(i64::from(nanoseconds))?;
    (time_ns > 0).then_some(time_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn message(level: i32, kind: i32, content: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER_BYTES + content.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
        bytes
    }

    fn stamped(seconds: libc::c_long, nanoseconds: libc::c_long) -> Vec<u8> {
        let mut content = [seconds.to_ne_bytes(), nanoseconds.to_ne_bytes()].concat();
        content.resize(STAMPS_BYTES, 0);
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &content)
    }

    #[test]
    fn the_room_for_control_data_is_what_the_message_takes() {
        assert_eq!(stamped(1, 2).len(), CONTROL_BYTES);
    }

    #[test]
    fn the_first_time_of_the_right_message_is_the_stamp() {
        assert_eq!(software_stamp_ns(&stamped(3, 7)), Some(3_000_000_007));
        let other = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING + 1, &[9; 5]);
        let foreign = message(libc::SOL_SOCKET + 1, libc::SCM_TIMESTAMPING, &[9; 48]);
        let all = [other, foreign, stamped(3, 7)].concat();
        assert_eq!(software_stamp_ns(&all), Some(3_000_000_007));
    }

    #[test]
    fn control_data_without_a_stamp_has_none() {
        assert_eq!(software_stamp_ns(&[]), None);
        assert_eq!(software_stamp_ns(&stamped(0, 0)), None);
        assert_eq!(software_stamp_ns(&stamped(-1, 0)), None);
        assert_eq!(software_stamp_ns(&stamped(libc::c_long::MAX, 0)), None);
        let other = message(libc::SOL_SOCKET, libc::SCM_RIGHTS, &[0; 48]);
        assert_eq!(software_stamp_ns(&other), None);
    }

    #[test]
    fn control_data_cut_anywhere_is_no_stamp_and_no_panic() {
        let whole = stamped(3, 7);
        for length in 0..whole.len() {
            assert_eq!(software_stamp_ns(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn lengths_that_lie_are_no_stamp_and_no_panic() {
        for length in [0, 1, HEADER_BYTES - 1, CONTROL_BYTES + 1, usize::MAX] {
            let mut bytes = stamped(3, 7);
            bytes[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(software_stamp_ns(&bytes), None, "{length}");
        }
        // As long as its header, so that nothing is left for the times.
        let empty = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &[]);
        assert_eq!(software_stamp_ns(&empty), None);
    }

    #[test]
    fn a_delay_is_counted_on_the_monotonic_clock() {
        let offset_ns = 1_700_000_000_000_000_000;
        let stamp_ns = offset_ns + 5_000;
        assert_eq!(delay_ns(stamp_ns, offset_ns, 5_000), Some(0));
        assert_eq!(delay_ns(stamp_ns, offset_ns, 47_000), Some(42_000));
    }

    #[test]
    fn delays_that_cannot_be_true_are_not_told() {
        assert_eq!(delay_ns(5_001, 0, 5_000), None, "received later than read");
        assert_eq!(delay_ns(0, 0, DELAY_NS_MAX), Some(DELAY_NS_MAX));
        assert_eq!(delay_ns(0, 0, DELAY_NS_MAX + 1), None);
        assert_eq!(delay_ns(i64::MAX, i64::MIN, 0), None);
        assert_eq!(delay_ns(i64::MIN, i64::MAX, u64::MAX), None);
    }

    /// Control data with a stamp made so long ago.
    fn stamped_before(age_ns: i64) -> Vec<u8> {
        let offset_ns = clock::realtime_offset_ns().expect("the clocks can be read at rest");
        let time_ns = clock::monotonic_ns() as i64 + offset_ns - age_ns;
        let second_ns = SECOND_NS as i64;
        stamped(time_ns / second_ns, time_ns % second_ns)
    }

    #[test]
    fn a_wall_clock_that_was_set_costs_one_stamp() {
        let mut stamps = Stamps::start();
        let control = stamped_before(1_000_000_000);
        let now_ns = clock::monotonic_ns();
        let delay_ns = stamps.delay_ns(&control, now_ns).expect("a delay");
        let distance_ns = delay_ns.abs_diff(SECOND_NS);
        assert!(distance_ns < SECOND_NS / 2, "{delay_ns}");
        // What the loop remembers is what it would if the clock had been set by 20 ms since then.
        stamps.offset_ns = stamps.offset_ns.map(|offset| offset + 20_000_000);
        assert_eq!(stamps.delay_ns(&control, now_ns), None);
        assert!(stamps.delay_ns(&control, now_ns).is_some());
    }
}
