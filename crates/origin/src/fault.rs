//! Deliberate misbehaviours and their text form.

use plan::InvalidValue;

use crate::prepared::{AfterFin, ConnectionStep};
use crate::quantity::{parse_count, parse_duration_ns};

/// A misbehaviour. The text form is `NAME` or `NAME:PARAMETER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A part of the response is sent, or all of it; then the connection ends or falls silent.
    Cut {
        /// The part that is sent.
        sent: Sent,
        /// What the connection does then.
        end: End,
    },
    /// `drip[:INTERVAL]`: one byte per interval (default 1 ms), over HTTP/2 of the body. `split`:
    /// the same without waiting.
    Drip {
        /// Nanoseconds from byte to byte.
        interval_ns: u64,
    },
    /// `stateless-reset[:N]`, over HTTP/3 only: after the response to the N-th request of a
    /// connection (default 1) the server forgets the connection, whose packets then get a stateless
    /// reset (RFC 9000 section 10.3).
    Forget {
        /// Requests of the connection that are answered, at least 1.
        after: u64,
    },
    /// `dynamic-entry`, over HTTP/3 only: the head refers to an entry of QPACK's dynamic table,
    /// which was never inserted (RFC 9204 section 2.2.1).
    DynamicEntry,
}

/// How much of a response is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Not even the head.
    Nothing,
    /// The head with the length of the whole body.
    Head,
    /// The head and half of the body.
    HalfBody,
    /// The head and the whole body.
    All,
}

/// How a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// RST, when everything before it was handed to the kernel.
    Reset,
    /// FIN, which no header field announces.
    Fin,
    /// Silence: the connection stays open, and over HTTP/2 its other streams are served.
    Hang,
}

/// The faults without a parameter.
pub(crate) const PLAIN: [(&str, Fault); 12] = [
    ("reset", cut(Sent::Nothing, End::Reset)),
    ("reset-after-head", cut(Sent::Head, End::Reset)),
    ("reset-mid-body", cut(Sent::HalfBody, End::Reset)),
    ("reset-after-answer", cut(Sent::All, End::Reset)),
    ("fin-before", cut(Sent::Nothing, End::Fin)),
    ("truncate", cut(Sent::HalfBody, End::Fin)),
    ("fin-after-answer", cut(Sent::All, End::Fin)),
    ("hang", cut(Sent::Nothing, End::Hang)),
    ("hang-after-head", cut(Sent::Head, End::Hang)),
    ("hang-mid-body", cut(Sent::HalfBody, End::Hang)),
    ("split", Fault::Drip { interval_ns: 0 }),
    ("dynamic-entry", Fault::DynamicEntry),
];

const fn cut(sent: Sent, end: End) -> Fault {
    Fault::Cut { sent, end }
}

impl Fault {
    /// Parses `NAME` or `NAME:PARAMETER`.
    ///
    /// # Errors
    /// One line that names the value and what was expected.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        if name == "drip" {
            let interval_ns = parse_duration_ns(parameter.unwrap_or("1ms"))?;
            return Ok(Self::Drip { interval_ns });
        }
        if name == "stateless-reset" {
            return match parse_count(parameter.unwrap_or("1"), u64::MAX)? {
                0 => Err("stateless-reset:0: expected at least 1 request".into()),
                after => Ok(Self::Forget { after }),
            };
        }
        match PLAIN.iter().find(|(known, _)| *known == name) {
            Some((_, fault)) if parameter.is_none() => Ok(*fault),
            Some(_) => Err(format!("fault {name} takes no parameter").into()),
            None => {
                Err(format!("`{name}` is not a fault; `wrkbench serve --help` lists them").into())
            }
        }
    }

    /// Whether it is about QUIC or QPACK.
    pub(crate) fn needs_http3(&self) -> bool {
        matches!(self, Self::Forget { .. } | Self::DynamicEntry)
    }
}

impl End {
    /// What the connection does.
    pub(crate) fn steps(self) -> Vec<ConnectionStep> {
        match self {
            Self::Reset => vec![ConnectionStep::Flush, ConnectionStep::Reset],
            Self::Fin => vec![ConnectionStep::Fin(AfterFin::Linger)],
            Self::Hang => vec![ConnectionStep::Hang],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_defaults_and_take_parameters() {
        for (text, fault) in [
            ("reset", cut(Sent::Nothing, End::Reset)),
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
            ("stateless-reset", Fault::Forget { after: 1 }),
            ("stateless-reset:9", Fault::Forget { after: 9 }),
        ] {
            assert_eq!(Fault::parse(text), Ok(fault), "{text}");
        }
    }

    #[test]
    fn unknown_faults_and_parameters_are_refused() {
        for text in ["", "nothing", "reset:1", "drip:fast", "stateless-reset:0"] {
            assert!(Fault::parse(text).is_err(), "{text}");
        }
    }
}
