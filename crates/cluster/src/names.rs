//! Names of fleets, agents and runs, and texts from other machines.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Fills a buffer with unpredictable random bytes.
pub type Random = Box<dyn FnMut(&mut [u8]) + Send>;

/// The longest name: it is part of NATS subjects and is shown in tables.
pub const MAX_NAME_BYTES: usize = 64;

/// The longest text of another machine that is shown, bytes.
pub const MAX_LABEL_BYTES: usize = 300;

/// Why a name is refused; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a name (expected 1 to {MAX_NAME_BYTES} letters, digits, - and _)")]
pub struct NameError {
    /// The first characters of what was given as a name.
    pub name: String,
}

/// A name that is safe in a NATS subject, a file name and a terminal.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// A random name: 32 hexadecimal digits.
            #[must_use]
            pub fn random(random: &mut Random) -> Self {
                let mut bytes = [0; 16];
                random(&mut bytes);
                Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;

            fn try_from(name: String) -> Result<Self, NameError> {
                match is_name(&name) {
                    true => Ok(Self(name)),
                    false => Err(NameError {
                        name: name.chars().take(MAX_NAME_BYTES).collect(),
                    }),
                }
            }
        }

        impl std::str::FromStr for $type {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::try_from(name.to_owned())
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(&self.0)
            }
        }
    };
}

name!(
    /// The name of a fleet: machines with the same one are used together.
    FleetName
);
name!(
    /// The name of an agent. Two agents of a fleet never have the same.
    AgentId
);
name!(
    /// The name of a run of a fleet, or of a sweep that changes hosts. Its coordinator makes it up.
    RunId
);
name!(
    /// A random name that an agent gives to each of its sessions. Orders name it, so an order for
    /// an earlier session, or for an earlier process, is refused.
    Session
);

fn is_name(name: &str) -> bool {
    let may = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(may)
}

/// A text of another machine that is shown to people: one line, of bounded length, without anything
/// that could control a terminal.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Label(String);

impl Label {
    /// Makes a label of a text: what is not printable is replaced, and a long text is cut.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut cleaned = String::new();
        for shown in plan::printable(text).chars() {
            if cleaned.len() + shown.len_utf8() > MAX_LABEL_BYTES {
                break;
            }
            cleaned.push(shown);
        }
        Self(cleaned)
    }

    /// The text as it may be shown.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Label {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_change_a_subject_or_a_path() {
        for good in ["a", "eu-vm_1", &"x".repeat(64)] {
            assert!(good.parse::<FleetName>().is_ok(), "{good}");
        }
        for bad in ["", "a.b", "*", ">", "../x", "a b", "ä", &"x".repeat(65)] {
            assert!(bad.parse::<FleetName>().is_err(), "{bad}");
        }
        let error = "a.b".parse::<AgentId>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"a.b\" is not a name (expected 1 to 64 letters, digits, - and _)"
        );
        assert!(serde_json::from_str::<RunId>("\"a.b\"").is_err());
    }

    #[test]
    fn random_names_are_valid_and_differ() {
        let mut next = 0_u8;
        let mut random: Random = Box::new(move |bytes| {
            next += 1;
            bytes.fill(next);
        });
        let (one, other) = (Session::random(&mut random), Session::random(&mut random));
        assert_eq!(one.as_str(), "01".repeat(16));
        assert_ne!(one, other);
        assert!(one.as_str().parse::<Session>().is_ok());
    }

    #[test]
    fn a_label_cannot_control_the_terminal_and_is_short() {
        assert_eq!(Label::new("a\x1b[2J\r\nb\u{202e}c").as_str(), "a?[2J  b?c");
        assert_eq!(Label::new(&"ä".repeat(1000)).as_str().len(), 300);
        let read: Label = serde_json::from_str("\"x\\u0007y\"").expect("a text");
        assert_eq!(read.as_str(), "x?y");
    }
}
