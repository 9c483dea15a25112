//! SETTINGS: values, defaults, and which values are allowed (RFC 9113 section 6.5).

use super::error::{ErrorCode, Violation};
use super::flow::WINDOW_MAX;

/// The identifiers of settings (RFC 9113 section 6.5.2).
#[expect(missing_docs, reason = "the names of RFC 9113 section 6.5.2")]
pub mod id {
    pub const HEADER_TABLE_SIZE: u16 = 0x1;
    pub const ENABLE_PUSH: u16 = 0x2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    pub const INITIAL_WINDOW_SIZE: u16 = 0x4;
    pub const MAX_FRAME_SIZE: u16 = 0x5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 0x6;
}

/// The smallest SETTINGS_MAX_FRAME_SIZE, which is also the initial value.
pub const FRAME_SIZE_MIN: u32 = 1 << 14;

/// The largest SETTINGS_MAX_FRAME_SIZE, bytes (RFC 9113 section 6.5.2).
pub const FRAME_SIZE_MAX: u32 = (1 << 24) - 1;

/// What one end has told the other about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the dynamic table with which this end decodes header blocks.
    pub header_table_size: u32,
    /// Whether this end accepts PUSH_PROMISE. Only a client may say 1: whether a server has said
    /// so is for the session to check.
    pub enable_push: bool,
    /// Streams that the other end may have open at a time. `u32::MAX` is no limit.
    pub max_concurrent_streams: u32,
    /// The window for DATA on each stream, in bytes.
    pub initial_window_size: u32,
    /// The longest payload of a frame that this end accepts.
    pub max_frame_size: u32,
    /// The longest list of fields that this end accepts (advice). `u32::MAX` is no limit.
    pub max_header_list_size: u32,
}

impl Settings {
    /// The values that hold until SETTINGS change them.
    pub const INITIAL: Self = Self {
        header_table_size: 4096,
        enable_push: true,
        max_concurrent_streams: u32::MAX,
        initial_window_size: 65_535,
        max_frame_size: FRAME_SIZE_MIN,
        max_header_list_size: u32::MAX,
    };

    /// Takes over one entry of a SETTINGS frame. Unknown identifiers are ignored.
    ///
    /// # Errors
    /// If the value is not allowed: always a connection error.
    pub fn apply(&mut self, id: u16, value: u32) -> Result<(), Violation> {
        match id {
            id::HEADER_TABLE_SIZE => self.header_table_size = value,
            id::ENABLE_PUSH if value > 1 => {
                let reason = "SETTINGS_ENABLE_PUSH is neither 0 nor 1";
                return Err(Violation::connection(ErrorCode::PROTOCOL_ERROR, reason));
            }
            id::ENABLE_PUSH => self.enable_push = value == 1,
            id::MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = value,
            id::INITIAL_WINDOW_SIZE if value > WINDOW_MAX => {
                let reason = "SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1";
                return Err(Violation::connection(ErrorCode::FLOW_CONTROL_ERROR, reason));
            }
            id::INITIAL_WINDOW_SIZE => self.initial_window_size = value,
            id::MAX_FRAME_SIZE if !(FRAME_SIZE_MIN..=FRAME_SIZE_MAX).contains(&value) => {
                let reason = "SETTINGS_MAX_FRAME_SIZE outside 2^14 to 2^24-1";
                return Err(Violation::connection(ErrorCode::PROTOCOL_ERROR, reason));
            }
            id::MAX_FRAME_SIZE => self.max_frame_size = value,
            id::MAX_HEADER_LIST_SIZE => self.max_header_list_size = value,
            _ => {}
        }
        Ok(())
    }

    /// The entries by which these settings differ from `before`, for a SETTINGS frame.
    pub fn entries_since(&self, before: &Self) -> impl Iterator<Item = (u16, u32)> + use<> {
        let (new, old) = (self.entries(), before.entries());
        new.into_iter()
            .zip(old)
            .filter_map(|(new, old)| (new != old).then_some(new))
    }

    fn entries(&self) -> [(u16, u32); 6] {
        [
            (id::HEADER_TABLE_SIZE, self.header_table_size),
            (id::ENABLE_PUSH, u32::from(self.enable_push)),
            (id::MAX_CONCURRENT_STREAMS, self.max_concurrent_streams),
            (id::INITIAL_WINDOW_SIZE, self.initial_window_size),
            (id::MAX_FRAME_SIZE, self.max_frame_size),
            (id::MAX_HEADER_LIST_SIZE, self.max_header_list_size),
        ]
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::INITIAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_allowed_is_a_connection_error_with_its_code() {
        let table = [
            (id::ENABLE_PUSH, 2, ErrorCode::PROTOCOL_ERROR),
            (id::ENABLE_PUSH, u32::MAX, ErrorCode::PROTOCOL_ERROR),
            (
                id::INITIAL_WINDOW_SIZE,
                1 << 31,
                ErrorCode::FLOW_CONTROL_ERROR,
            ),
            (
                id::INITIAL_WINDOW_SIZE,
                u32::MAX,
                ErrorCode::FLOW_CONTROL_ERROR,
            ),
            (
                id::MAX_FRAME_SIZE,
                FRAME_SIZE_MIN - 1,
                ErrorCode::PROTOCOL_ERROR,
            ),
            (
                id::MAX_FRAME_SIZE,
                FRAME_SIZE_MAX + 1,
                ErrorCode::PROTOCOL_ERROR,
            ),
        ];
        for (id, value, code) in table {
            let mut settings = Settings::INITIAL;
            let violation = settings.apply(id, value).unwrap_err();
            assert_eq!(
                (violation.stream, violation.code),
                (None, code),
                "{id} {value}"
            );
            assert_eq!(settings, Settings::INITIAL);
        }
    }

    #[test]
    fn every_allowed_value_is_taken_over_and_unknown_settings_are_ignored() {
        let table = [
            (id::HEADER_TABLE_SIZE, 0),
            (id::HEADER_TABLE_SIZE, u32::MAX),
            (id::ENABLE_PUSH, 0),
            (id::MAX_CONCURRENT_STREAMS, 0),
            (id::INITIAL_WINDOW_SIZE, 0),
            (id::INITIAL_WINDOW_SIZE, (1 << 31) - 1),
            (id::MAX_FRAME_SIZE, FRAME_SIZE_MAX),
            (id::MAX_HEADER_LIST_SIZE, 1),
        ];
        for (id, value) in table {
            let mut settings = Settings::INITIAL;
            settings.apply(id, value).unwrap();
            let changes: Vec<_> = settings.entries_since(&Settings::INITIAL).collect();
            assert_eq!(changes, [(id, value)]);
        }
        let mut settings = Settings::INITIAL;
        for unknown in [0, 7, 8, 0xffff] {
            settings.apply(unknown, u32::MAX).unwrap();
        }
        assert_eq!(settings, Settings::INITIAL);
    }
}
