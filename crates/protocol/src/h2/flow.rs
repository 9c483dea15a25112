//! Flow control: how much DATA may be sent, and when a receiver allows more (RFC 9113 section 5.2
//! and 6.9). The windows of a stream and of the connection are of the same types.

use super::StreamId;
use super::error::{ErrorCode, Violation};

/// The largest window, bytes (RFC 9113 section 6.9.1).
pub const WINDOW_MAX: u32 = (1 << 31) - 1;

/// How much DATA the peer accepts. SETTINGS may make it negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendWindow(i64);

impl SendWindow {
    /// A window of `size` bytes, at most [`WINDOW_MAX`].
    #[must_use]
    pub fn new(size: u32) -> Self {
        Self(i64::from(size.min(WINDOW_MAX)))
    }

    /// Bytes that may be sent now.
    #[must_use]
    pub fn available(self) -> u32 {
        u32::try_from(self.0).unwrap_or(0)
    }

    /// This many bytes of DATA were sent, at most [`Self::available`].
    pub fn consume(&mut self, bytes: u32) {
        debug_assert!(bytes <= self.available());
        self.0 -= i64::from(bytes);
    }

    /// WINDOW_UPDATE arrived on `stream`; 0 is the connection.
    ///
    /// # Errors
    /// If the window exceeds [`WINDOW_MAX`] (section 6.9.1).
    pub fn grow(&mut self, stream: StreamId, increment: u32) -> Result<(), Violation> {
        self.shift(i64::from(increment))
            .map_err(|reason| Violation::on(stream, ErrorCode::FLOW_CONTROL_ERROR, reason))
    }

    /// SETTINGS changed the initial size of stream windows. Not for the connection's window.
    ///
    /// # Errors
    /// If the window exceeds [`WINDOW_MAX`]: a connection error (section 6.9.2).
    pub fn change_initial(&mut self, old: u32, new: u32) -> Result<(), Violation> {
        self.shift(i64::from(new) - i64::from(old))
            .map_err(|reason| Violation::connection(ErrorCode::FLOW_CONTROL_ERROR, reason))
    }

    fn shift(&mut self, by: i64) -> Result<(), &'static str> {
        let size = self.0 + by;
        if size > i64::from(WINDOW_MAX) {
            return Err("flow-control window above 2^31-1");
        }
        self.0 = size;
        Ok(())
    }
}

/// How much DATA the peer may still send. It is refilled when half of it is used, so that
/// WINDOW_UPDATE frames are few and the peer never waits for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveWindow {
    size: u32,
    /// Negative after SETTINGS have made the window smaller.
    left: i64,
    /// Received and processed, but not yet given back.
    released: u32,
}

impl ReceiveWindow {
    /// A window of `size` bytes, at most [`WINDOW_MAX`], as announced to the peer.
    #[must_use]
    pub fn new(size: u32) -> Self {
        let size = size.min(WINDOW_MAX);
        Self {
            size,
            left: i64::from(size),
            released: 0,
        }
    }

    /// The size that the window is refilled to.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// This many bytes of DATA, padding included, arrived on `stream`; 0 is the connection.
    ///
    /// # Errors
    /// If the peer was not allowed to send them (section 6.9.1).
    pub fn receive(&mut self, stream: StreamId, bytes: u32) -> Result<(), Violation> {
        if i64::from(bytes) > self.left {
            let reason = "more DATA than the flow-control window allows";
            return Err(Violation::on(stream, ErrorCode::FLOW_CONTROL_ERROR, reason));
        }
        self.left -= i64::from(bytes);
        Ok(())
    }

    /// This many received bytes are processed. Returns the increment of the WINDOW_UPDATE to send,
    /// if it is time for one.
    #[must_use]
    pub fn release(&mut self, bytes: u32) -> Option<u32> {
        self.released = self.released.saturating_add(bytes);
        if self.released == 0 || self.released < self.size / 2 {
            return None;
        }
        let increment = std::mem::take(&mut self.released);
        self.left += i64::from(increment);
        Some(increment)
    }

    /// The peer has acknowledged SETTINGS with another initial size of stream windows.
    pub fn change_initial(&mut self, size: u32) {
        let size = size.min(WINDOW_MAX);
        self.left += i64::from(size) - i64::from(self.size);
        self.size = size;
    }

    /// Makes the window larger at once. Returns the increment of the WINDOW_UPDATE to send: the
    /// connection's window begins with 65,535 bytes, and no setting changes that.
    #[must_use]
    pub fn enlarge(&mut self, size: u32) -> Option<u32> {
        let increment = size.min(WINDOW_MAX).checked_sub(self.size)?;
        self.change_initial(size);
        (increment > 0).then_some(increment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_update_beyond_the_largest_window_is_an_error_of_its_stream() {
        let mut window = SendWindow::new(65_535);
        window.grow(5, WINDOW_MAX - 65_535).unwrap();
        assert_eq!(window.available(), WINDOW_MAX);
        let violation = window.grow(5, 1).unwrap_err();
        assert_eq!(violation.stream, Some(5));
        assert_eq!(violation.code, ErrorCode::FLOW_CONTROL_ERROR);
        assert_eq!(window.grow(0, 1).unwrap_err().stream, None);
        assert_eq!(window.available(), WINDOW_MAX, "an error changes nothing");
    }

    #[test]
    fn settings_may_make_a_window_negative_and_updates_lift_it_again() {
        let mut window = SendWindow::new(100);
        window.consume(60);
        window.change_initial(100, 10).unwrap();
        assert_eq!(window.available(), 0);
        window.grow(1, 50).unwrap();
        assert_eq!(window.available(), 0);
        window.grow(1, 1).unwrap();
        assert_eq!(window.available(), 1);
    }

    #[test]
    fn settings_that_lift_a_window_beyond_the_largest_are_a_connection_error() {
        let mut window = SendWindow::new(100);
        window.grow(1, WINDOW_MAX - 100).unwrap();
        let violation = window.change_initial(100, 101).unwrap_err();
        assert_eq!(violation.stream, None);
        assert_eq!(violation.code, ErrorCode::FLOW_CONTROL_ERROR);
    }

    #[test]
    fn data_beyond_the_window_is_an_error_and_the_last_allowed_byte_is_not() {
        let mut window = ReceiveWindow::new(10);
        window.receive(1, 10).unwrap();
        window.receive(1, 0).unwrap();
        let violation = window.receive(1, 1).unwrap_err();
        assert_eq!(violation.stream, Some(1));
        assert_eq!(violation.code, ErrorCode::FLOW_CONTROL_ERROR);
        assert_eq!(window.receive(0, 1).unwrap_err().stream, None);
    }

    #[test]
    fn a_window_is_refilled_when_half_of_it_is_used() {
        let mut window = ReceiveWindow::new(100);
        window.receive(1, 100).unwrap();
        assert_eq!(window.release(49), None);
        assert_eq!(window.release(1), Some(50));
        assert_eq!(window.release(49), None);
        window.receive(1, 50).unwrap();
        assert!(window.receive(1, 1).is_err());
    }

    #[test]
    fn a_window_of_one_byte_is_given_back_byte_by_byte() {
        let mut window = ReceiveWindow::new(1);
        for _ in 0..3 {
            window.receive(1, 1).unwrap();
            assert_eq!(window.release(1), Some(1));
        }
        assert_eq!(window.release(0), None);
    }

    #[test]
    fn a_smaller_initial_size_counts_what_is_already_used() {
        let mut window = ReceiveWindow::new(100);
        window.receive(1, 80).unwrap();
        window.change_initial(50);
        assert!(window.receive(1, 1).is_err(), "20 - 50 is negative");
        assert_eq!(window.release(80), Some(80));
        window.receive(1, 50).unwrap();
        assert!(window.receive(1, 1).is_err());
    }

    #[test]
    fn the_connections_window_is_enlarged_by_an_update() {
        let mut window = ReceiveWindow::new(65_535);
        assert_eq!(window.enlarge(1 << 30), Some((1 << 30) - 65_535));
        assert_eq!(window.enlarge(1 << 30), None);
        assert_eq!(window.enlarge(1), None);
        window.receive(0, 1 << 30).unwrap();
    }
}
