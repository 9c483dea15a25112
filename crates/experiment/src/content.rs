//! The content of a file or setting: bytes that are saved as text where they can be.

use std::fmt;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::environment::normal;
use crate::host::{HostAccess, is_absence};

/// Bytes; serialized as text if they are valid UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub(crate) struct Content(pub(crate) Vec<u8>);

impl Content {
    /// That of a file; `None` if there is no such file.
    pub(crate) fn read(host: &dyn HostAccess, path: &Path) -> io::Result<Option<Self>> {
        match host.read(path) {
            Ok(bytes) => Ok(Some(Self(bytes))),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The longest value shown in a message.
const SHOWN_CHARS_MAX: usize = 80;

impl fmt::Display for Content {
    /// On one line, as a person would type it; cut if it is long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(&self.0);
        let line = normal(&text);
        if line.is_empty() {
            return f.write_str("empty");
        }
        for character in line.chars().take(SHOWN_CHARS_MAX) {
            write!(f, "{}", character.escape_debug())?;
        }
        if line.chars().nth(SHOWN_CHARS_MAX).is_some() {
            f.write_str("...")?;
        }
        Ok(())
    }
}

/// Bytes in the form of [`Content`], for `#[serde(with)]`.
pub(crate) mod bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Content;

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
        Content(bytes.to_vec()).serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<u8>, D::Error> {
        Content::deserialize(input).map(|content| content.0)
    }
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Saved {
    Text(String),
    Bytes { bytes: Vec<u8> },
}

impl From<Saved> for Content {
    fn from(saved: Saved) -> Self {
        match saved {
            Saved::Text(text) => Self(text.into_bytes()),
            Saved::Bytes { bytes } => Self(bytes),
        }
    }
}

impl From<Content> for Saved {
    fn from(content: Content) -> Self {
        match String::from_utf8(content.0) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Bytes {
                bytes: error.into_bytes(),
            },
        }
    }
}
