//! Deliberate misbehaviours and their text form.

use crate::quantity::parse_duration_ns;

/// A misbehaviour. The text form is `NAME` or `NAME:PARAMETER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// `reset`: RST without a byte.
    Reset,
    /// `reset-after-head`: the head, then RST.
    ResetAfterHead,
    /// `reset-mid-body`: the head and half of the body, then RST.
    ResetMidBody,
    /// `reset-after-answer`: the whole response, then RST.
    ResetAfterAnswer,
    /// `fin-before`: FIN without a byte.
    FinBefore,
    /// `truncate`: half of the announced body, then FIN.
    Truncate,
    /// `hang`: no byte, ever.
    Hang,
    /// `hang-after-head`: the head, then silence.
    HangAfterHead,
    /// `hang-mid-body`: the head and half of the body, then silence.
    HangMidBody,
    /// `drip[:INTERVAL]`: one byte per interval (default 1 ms).
    Drip {
        /// Nanoseconds from byte to byte.
        interval_ns: u64,
    },
    /// `split`: each byte in a separate send, without waiting.
    Split,
    /// `unsolicited[:AFTER]`: the regular response; then, on the idle connection, an unsolicited
    /// 408 and FIN (default: after 10 ms).
    Unsolicited {
        /// Nanoseconds of idleness before it.
        after_ns: u64,
    },
    /// `idle-close[:AFTER]`: unannounced FIN after the connection was idle for this time (default
    /// 10 ms).
    IdleClose {
        /// Nanoseconds of idleness.
        after_ns: u64,
    },
    /// `half-close`: FIN after the response, but the socket is still read.
    HalfClose,
    /// `early`: the response is sent after the request's head, before its body.
    Early,
    /// `early-close`: the same with Connection: close, without waiting for the body.
    EarlyClose,
    /// `no-continue`: 100 Continue is not sent although the request expects it.
    NoContinue,
    /// `no-close-notify`: the response, then FIN without TLS close_notify.
    NoCloseNotify,
}

impl Fault {
    /// Parses `NAME` or `NAME:PARAMETER`.
    ///
    /// # Errors
    /// One line that names the value and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        match Self::plain(name) {
            Some(fault) if parameter.is_none() => Ok(fault),
            Some(_) => Err(format!("fault {name} takes no parameter")),
            None => Self::with_parameter(name, parameter),
        }
    }

    fn plain(name: &str) -> Option<Self> {
        let position = PLAIN.iter().position(|(known, _)| *known == name)?;
        Some(PLAIN[position].1.clone())
    }

    fn with_parameter(name: &str, parameter: Option<&str>) -> Result<Self, String> {
        let duration = |usual: &str| parse_duration_ns(parameter.unwrap_or(usual));
        Ok(match name {
            "drip" => Self::Drip {
                interval_ns: duration("1ms")?,
            },
            "idle-close" => Self::IdleClose {
                after_ns: duration("10ms")?,
            },
            "unsolicited" => Self::Unsolicited {
                after_ns: duration("10ms")?,
            },
            _ => return Err(format!("`{name}` is not a fault; docs/serve.md lists them")),
        })
    }
}

const PLAIN: &[(&str, Fault)] = &[
    ("reset", Fault::Reset),
    ("reset-after-head", Fault::ResetAfterHead),
    ("reset-mid-body", Fault::ResetMidBody),
    ("reset-after-answer", Fault::ResetAfterAnswer),
    ("fin-before", Fault::FinBefore),
    ("truncate", Fault::Truncate),
    ("hang", Fault::Hang),
    ("hang-after-head", Fault::HangAfterHead),
    ("hang-mid-body", Fault::HangMidBody),
    ("split", Fault::Split),
    ("half-close", Fault::HalfClose),
    ("early", Fault::Early),
    ("early-close", Fault::EarlyClose),
    ("no-continue", Fault::NoContinue),
    ("no-close-notify", Fault::NoCloseNotify),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_defaults_and_take_parameters() {
        for (text, fault) in [
            ("reset", Fault::Reset),
            (
                "drip",
                Fault::Drip {
                    interval_ns: 1_000_000,
                },
            ),
            (
                "drip:2s",
                Fault::Drip {
                    interval_ns: 2_000_000_000,
                },
            ),
        ] {
            assert_eq!(Fault::parse(text), Ok(fault), "{text}");
        }
    }

    #[test]
    fn unknown_faults_and_parameters_are_refused() {
        for text in ["", "nothing", "reset:1", "drip:fast"] {
            assert!(Fault::parse(text).is_err(), "{text}");
        }
    }
}
