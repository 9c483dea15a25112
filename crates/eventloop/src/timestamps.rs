//! The kernel's timestamps of received bytes, and how old they are when the caller gets the bytes.

use crate::{clock, control, socket};
use std::os::fd::OwnedFd;

/// `struct scm_timestamping`: three times of seconds and nanoseconds
/// (Documentation/networking/timestamping.rst, 2.1).
const TIMESTAMPS_BYTES: usize = 3 * 2 * size_of::<libc::c_long>();

/// Room for the control message with the timestamps.
pub(crate) const CONTROL_BYTES: usize = control::space(TIMESTAMPS_BYTES);

/// Longer delays are not plausible: the wall clock, which timestamps are based on, was set in the
/// meantime.
const DELAY_NS_MAX: u64 = 10_000_000_000;

/// The two clocks run at the same speed. If their offset has changed by more than the error of two
/// readings, the wall clock has been set.
const STEP_NS: u64 = 2 * clock::OFFSET_ERROR_NS_MAX;

/// Shorter delays are believed without asking whether packets arrived out of order.
const ASK_ABOVE_NS: u64 = 100_000;

/// Which timestamps of a TCP connection say nothing about the caller.
///
/// A packet that arrives before one that was lost keeps the timestamp of its arrival, but nobody
/// can read it until the lost one was sent again. So its age is not the time that the caller took.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct OutOfOrder {
    /// Packets that have arrived out of order, as far as known.
    packets: u32,
    /// What arrived before this time may have waited for another packet.
    until_ns: u64,
}

impl OutOfOrder {
    /// The delay of bytes that were read at `at_ns`; `None` if they may have waited for a packet.
    /// `packets` asks the kernel how many packets have arrived out of order.
    pub(crate) fn filter(
        &mut self,
        delay_ns: Option<u64>,
        at_ns: u64,
        packets: impl FnOnce() -> Option<u32>,
    ) -> Option<u64> {
        let delay_ns = delay_ns?;
        if delay_ns > ASK_ABOVE_NS
            && let Some(packets) = packets()
            && packets != self.packets
        {
            (self.packets, self.until_ns) = (packets, at_ns);
        }
        // The kernel may hand over what has waited in several parts.
        (at_ns.saturating_sub(delay_ns) >= self.until_ns).then_some(delay_ns)
    }
}

/// What a loop needs to compute the age of timestamps.
pub(crate) struct Timestamps {
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC at the last reading.
    offset_ns: Option<i64>,
    /// A socket that only asks for timestamps. The kernel timestamps packets while any socket asks
    /// for it, and it switches this on and off by patching its code on all CPUs. That is too
    /// expensive for each connection.
    _keeps_on: Option<OwnedFd>,
}

impl Timestamps {
    /// Enables timestamps in the kernel. The first packets after that may still lack one.
    pub(crate) fn start() -> Self {
        Self {
            offset_ns: clock::realtime_offset_ns(clock::monotonic_ns()),
            _keeps_on: socket::keep_timestamps_enabled(),
        }
    }

    /// How long before `at_ns` (CLOCK_MONOTONIC) the kernel received the bytes that came with this
    /// control data.
    pub(crate) fn delay_ns(&mut self, control: &[u8], at_ns: u64) -> Option<u64> {
        let timestamp_ns = software_timestamp_ns(control)?;
        let offset_ns = clock::realtime_offset_ns(at_ns)?;
        let before_ns = self.offset_ns.replace(offset_ns);
        let was_set = before_ns.is_none_or(|before| before.abs_diff(offset_ns) > STEP_NS);
        // When the clock was set, the timestamp may be from before or after that.
        if was_set {
            None
        } else {
            delay_ns(timestamp_ns, offset_ns, at_ns)
        }
    }
}

/// The time between a timestamp and `at_ns`, if it is plausible.
fn delay_ns(timestamp_ns: i64, offset_ns: i64, at_ns: u64) -> Option<u64> {
    let received_ns = timestamp_ns.checked_sub(offset_ns)?;
    let delay_ns = i64::try_from(at_ns).ok()?.checked_sub(received_ns)?;
    u64::try_from(delay_ns)
        .ok()
        .filter(|delay| *delay <= DELAY_NS_MAX)
}

/// The software timestamp in control data: CLOCK_REALTIME, nanoseconds.
fn software_timestamp_ns(control: &[u8]) -> Option<i64> {
    first_time_ns(control::find(
        control,
        libc::SOL_SOCKET,
        libc::SCM_TIMESTAMPING,
    )?)
}

/// The first of the three times. Zero means that the packet has none.
#[allow(
    clippy::useless_conversion,
    reason = "a long has 32 bits on some machines"
)]
fn first_time_ns(timestamps: &[u8]) -> Option<i64> {
    let seconds = libc::c_long::from_ne_bytes(*timestamps.first_chunk()?);
    let rest = timestamps.get(size_of::<libc::c_long>()..)?;
    let nanoseconds = libc::c_long::from_ne_bytes(*rest.first_chunk()?);
    let time_ns = i64::from(seconds)
        .checked_mul(1_000_000_000)?
        .checked_add(i64::from(nanoseconds))?;
    (time_ns > 0).then_some(time_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{HEADER_BYTES, message};

    const SECOND_NS: u64 = 1_000_000_000;

    fn timestamped(seconds: libc::c_long, nanoseconds: libc::c_long) -> Vec<u8> {
        let mut content = [seconds.to_ne_bytes(), nanoseconds.to_ne_bytes()].concat();
        content.resize(TIMESTAMPS_BYTES, 0);
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &content)
    }

    #[test]
    fn packets_out_of_order_make_delays_unknown_until_later_ones_arrive() {
        let mut out_of_order = OutOfOrder::default();
        let long_ns = 5_000_000;
        for (at_ns, delay_ns, packets, expected) in [
            // Arrived in order and was read late.
            (10_000_000, long_ns, 0, Some(long_ns)),
            // Three waited for another one, and are read in two parts.
            (20_000_000, long_ns, 3, None),
            (20_050_000, long_ns, 3, None),
            // Arrived after that.
            (30_000_000, long_ns, 3, Some(long_ns)),
            (40_000_000, long_ns, 4, None),
        ] {
            let filtered = out_of_order.filter(Some(delay_ns), at_ns, || Some(packets));
            assert_eq!(filtered, expected, "{at_ns}");
        }
        assert_eq!(out_of_order.filter(None, 50_000_000, || Some(9)), None);
    }

    #[test]
    fn the_kernel_is_not_asked_about_short_delays_and_need_not_know() {
        let mut out_of_order = OutOfOrder::default();
        let asked = || unreachable!("the delay is short");
        let filtered = out_of_order.filter(Some(ASK_ABOVE_NS), SECOND_NS, asked);
        assert_eq!(filtered, Some(ASK_ABOVE_NS));
        let filtered = out_of_order.filter(Some(SECOND_NS), 2 * SECOND_NS, || None);
        assert_eq!(filtered, Some(SECOND_NS));
    }

    #[test]
    fn the_room_for_control_data_fits_the_message() {
        assert_eq!(timestamped(1, 2).len(), CONTROL_BYTES);
    }

    #[test]
    fn the_first_time_of_the_right_message_is_the_timestamp() {
        assert_eq!(
            software_timestamp_ns(&timestamped(3, 7)),
            Some(3_000_000_007)
        );
        let other = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING + 1, &[9; 5]);
        let foreign = message(libc::SOL_SOCKET + 1, libc::SCM_TIMESTAMPING, &[9; 48]);
        let all = [other, foreign, timestamped(3, 7)].concat();
        assert_eq!(software_timestamp_ns(&all), Some(3_000_000_007));
    }

    #[test]
    fn control_data_without_a_timestamp_has_none() {
        assert_eq!(software_timestamp_ns(&[]), None);
        assert_eq!(software_timestamp_ns(&timestamped(0, 0)), None);
        assert_eq!(software_timestamp_ns(&timestamped(-1, 0)), None);
        assert_eq!(
            software_timestamp_ns(&timestamped(libc::c_long::MAX, 0)),
            None
        );
        let other = message(libc::SOL_SOCKET, libc::SCM_RIGHTS, &[0; 48]);
        assert_eq!(software_timestamp_ns(&other), None);
    }

    #[test]
    fn truncated_control_data_yields_no_timestamp_and_no_panic() {
        let whole = timestamped(3, 7);
        for length in 0..whole.len() {
            assert_eq!(software_timestamp_ns(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn wrong_lengths_yield_no_timestamp_and_no_panic() {
        for length in [0, 1, HEADER_BYTES - 1, CONTROL_BYTES + 1, usize::MAX] {
            let mut bytes = timestamped(3, 7);
            bytes[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(software_timestamp_ns(&bytes), None, "{length}");
        }
        // As long as its header, so that there is no room for the times.
        let empty = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &[]);
        assert_eq!(software_timestamp_ns(&empty), None);
    }

    #[test]
    fn a_delay_is_measured_on_the_monotonic_clock() {
        let offset_ns = 1_700_000_000_000_000_000;
        let timestamp_ns = offset_ns + 5_000;
        assert_eq!(delay_ns(timestamp_ns, offset_ns, 5_000), Some(0));
        assert_eq!(delay_ns(timestamp_ns, offset_ns, 47_000), Some(42_000));
    }

    #[test]
    fn implausible_delays_are_not_reported() {
        assert_eq!(delay_ns(5_001, 0, 5_000), None, "received later than read");
        assert_eq!(delay_ns(0, 0, DELAY_NS_MAX), Some(DELAY_NS_MAX));
        assert_eq!(delay_ns(0, 0, DELAY_NS_MAX + 1), None);
        assert_eq!(delay_ns(i64::MAX, i64::MIN, 0), None);
        assert_eq!(delay_ns(i64::MIN, i64::MAX, u64::MAX), None);
    }

    /// Control data with a timestamp of this age.
    fn timestamped_before(age_ns: i64) -> Vec<u8> {
        let offset_ns =
            clock::realtime_offset_ns(clock::monotonic_ns()).expect("the clocks can be read");
        let time_ns = clock::monotonic_ns() as i64 + offset_ns - age_ns;
        let second_ns = SECOND_NS as i64;
        timestamped(time_ns / second_ns, time_ns % second_ns)
    }

    #[test]
    fn setting_the_wall_clock_costs_one_timestamp() {
        let mut timestamps = Timestamps::start();
        let control = timestamped_before(1_000_000_000);
        let now_ns = clock::monotonic_ns();
        let delay_ns = timestamps.delay_ns(&control, now_ns).expect("a delay");
        let distance_ns = delay_ns.abs_diff(SECOND_NS);
        assert!(distance_ns < SECOND_NS / 2, "{delay_ns}");
        // Shift the remembered offset as if the clock had been set by 20 ms since then.
        timestamps.offset_ns = timestamps.offset_ns.map(|offset| offset + 20_000_000);
        assert_eq!(timestamps.delay_ns(&control, now_ns), None);
        assert!(timestamps.delay_ns(&control, now_ns).is_some());
    }
}
