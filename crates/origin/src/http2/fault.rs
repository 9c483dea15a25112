//! Misbehaviours of HTTP/2 and their text form.

use protocol::h2::error::ErrorCode;
use protocol::h2::settings::id;

use crate::quantity::parse_count;

/// A misbehaviour that only HTTP/2 has. The text form is `NAME` or `NAME:PARAMETER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Http2Fault {
    /// `h2-no-settings`: no SETTINGS. Only as a default.
    NoSettings,
    /// `h2-settings:NAME=VALUE`: this setting before the response.
    Settings {
        /// The identifier.
        id: u16,
        /// Any value.
        value: u32,
    },
    /// `h2-settings-flood[:COUNT]`: empty SETTINGS before the response (10,000).
    SettingsFlood {
        /// Number of frames.
        count: u64,
    },
    /// `h2-ping-flood[:COUNT]`: PINGs before the response (10,000).
    PingFlood {
        /// Number of frames.
        count: u64,
    },
    /// `h2-no-pong`: PING is not acknowledged from now on.
    NoPong,
    /// `h2-goaway[:CODE]`: with `no_error` (the default) after the response; with an error instead
    /// of the response, and FIN.
    Goaway {
        /// The code.
        code: ErrorCode,
    },
    /// `h2-goaway-unprocessed`: GOAWAY that leaves out this request and all later ones.
    GoawayLastBelow,
    /// `h2-reset[:CODE]`: RST_STREAM instead of a response (`refused_stream`).
    Reset {
        /// The code.
        code: ErrorCode,
    },
    /// `h2-reset-after-head[:CODE]`: the head and half of the body, then RST_STREAM
    /// (`internal_error`).
    ResetAfterHead {
        /// The code.
        code: ErrorCode,
    },
    /// `h2-no-window-update`: no window is refilled from now on.
    NoWindowUpdate,
    /// `h2-hpack[:KIND]`: a header block that cannot or should not be decoded.
    Hpack(BadBlock),
    /// `h2-wrong-stream`: the response on a stream that was not opened.
    WrongStream,
    /// `h2-even-stream`: the response on stream 2.
    EvenStream,
    /// `h2-push`: PUSH_PROMISE before the response.
    Push,
    /// `h2-no-status`: a head without `:status`.
    NoStatus,
    /// `h2-uppercase`: a field name with upper-case letters.
    Uppercase,
    /// `h2-big-frame`: DATA longer than the client accepts.
    BigFrame,
}

/// What is wrong with a header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadBlock {
    /// `index`: an index beyond the tables. The default.
    Index,
    /// `bomb`: a short block with a list of 40 MB.
    Bomb,
    /// `resize`: a dynamic table larger than allowed.
    Resize,
    /// `shrink`: a dynamic table of 0 bytes, and then of 4,096 again, which is allowed.
    Shrink,
}

/// Limit of the floods.
const COUNT_MAX: u64 = 1_000_000;

/// The names of settings, as for `h2-settings`.
const SETTINGS: [(&str, u16); 6] = [
    ("table", id::HEADER_TABLE_SIZE),
    ("push", id::ENABLE_PUSH),
    ("streams", id::MAX_CONCURRENT_STREAMS),
    ("window", id::INITIAL_WINDOW_SIZE),
    ("frame", id::MAX_FRAME_SIZE),
    ("list", id::MAX_HEADER_LIST_SIZE),
];

impl Http2Fault {
    /// The fault with this name; `None` if there is none.
    pub(crate) fn parse(name: &str, parameter: Option<&str>) -> Option<Result<Self, String>> {
        let plain = match name {
            "h2-no-settings" => Self::NoSettings,
            "h2-no-pong" => Self::NoPong,
            "h2-goaway-unprocessed" => Self::GoawayLastBelow,
            "h2-no-window-update" => Self::NoWindowUpdate,
            "h2-wrong-stream" => Self::WrongStream,
            "h2-even-stream" => Self::EvenStream,
            "h2-push" => Self::Push,
            "h2-no-status" => Self::NoStatus,
            "h2-uppercase" => Self::Uppercase,
            "h2-big-frame" => Self::BigFrame,
            _ => return Self::with_parameter(name, parameter),
        };
        Some(match parameter {
            None => Ok(plain),
            Some(_) => Err(format!("fault {name} takes no parameter")),
        })
    }

    fn with_parameter(name: &str, parameter: Option<&str>) -> Option<Result<Self, String>> {
        let count = || parse_count(parameter.unwrap_or("10000"), COUNT_MAX);
        let code = |usual: ErrorCode| parameter.map_or(Ok(usual), parse_code);
        Some(match name {
            "h2-settings" => parse_setting(parameter.unwrap_or_default()),
            "h2-settings-flood" => count().map(|count| Self::SettingsFlood { count }),
            "h2-ping-flood" => count().map(|count| Self::PingFlood { count }),
            "h2-goaway" => code(ErrorCode::NO_ERROR).map(|code| Self::Goaway { code }),
            "h2-reset" => code(ErrorCode::REFUSED_STREAM).map(|code| Self::Reset { code }),
            "h2-reset-after-head" => {
                code(ErrorCode::INTERNAL_ERROR).map(|code| Self::ResetAfterHead { code })
            }
            "h2-hpack" => BadBlock::parse(parameter.unwrap_or("index")).map(Self::Hpack),
            _ => return None,
        })
    }
}

impl BadBlock {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "index" => Self::Index,
            "bomb" => Self::Bomb,
            "resize" => Self::Resize,
            "shrink" => Self::Shrink,
            _ => {
                return Err(format!(
                    "`{text}` is not a bad block: expected index, bomb, resize or shrink"
                ));
            }
        })
    }
}

fn parse_setting(text: &str) -> Result<Http2Fault, String> {
    let expected = || {
        format!(
            "`{text}` is not NAME=VALUE: expected table, push, streams, window, frame or list, \
             like streams=1"
        )
    };
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    let mut known = SETTINGS.iter();
    let (_, id) = known
        .find(|(known, _)| *known == name)
        .ok_or_else(expected)?;
    let value = parse_count(value, u64::from(u32::MAX))?;
    Ok(Http2Fault::Settings {
        id: *id,
        value: value as u32,
    })
}

/// The name of a code (RFC 9113 section 7) in lower case, or its number.
fn parse_code(text: &str) -> Result<ErrorCode, String> {
    let mut named = (0..=0xd).map(ErrorCode);
    if let Some(code) = named.find(|code| code.name() == Some(text)) {
        return Ok(code);
    }
    parse_count(text, u64::from(u32::MAX))
        .map(|code| ErrorCode(code as u32))
        .map_err(|_| {
            format!("`{text}` is not an error code: expected one like refused_stream, or a number")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;

    #[test]
    fn faults_have_defaults_and_take_parameters() {
        for (text, fault) in [
            ("h2-no-settings", Http2Fault::NoSettings),
            (
                "h2-settings:streams=1",
                Http2Fault::Settings {
                    id: id::MAX_CONCURRENT_STREAMS,
                    value: 1,
                },
            ),
            ("h2-ping-flood:3", Http2Fault::PingFlood { count: 3 }),
            (
                "h2-goaway",
                Http2Fault::Goaway {
                    code: ErrorCode::NO_ERROR,
                },
            ),
            (
                "h2-reset:cancel",
                Http2Fault::Reset {
                    code: ErrorCode::CANCEL,
                },
            ),
            (
                "h2-reset:77",
                Http2Fault::Reset {
                    code: ErrorCode(77),
                },
            ),
            ("h2-hpack", Http2Fault::Hpack(BadBlock::Index)),
        ] {
            assert_eq!(Fault::parse(text), Ok(Fault::Http2(fault)), "{text}");
        }
    }

    #[test]
    fn unknown_faults_and_parameters_are_refused() {
        for text in [
            "h2-nothing",
            "h2-no-pong:1",
            "h2-settings",
            "h2-settings:streams",
            "h2-settings:cookies=1",
            "h2-settings:streams=-1",
            "h2-reset:sorry",
            "h2-hpack:x",
            "h2-ping-flood:1G",
        ] {
            assert!(Fault::parse(text).is_err(), "{text}");
        }
    }
}
