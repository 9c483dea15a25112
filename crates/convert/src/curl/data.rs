//! Bodies and queries from `--data` and its relatives.

use std::path::PathBuf;

use plan::Body;

use super::{CurlError, ReadFile};
use crate::percent::percent_encoded;
use crate::shell_words::{CommandPosition, Word};

/// A body that grows by `-d`.
#[derive(Debug, Default)]
pub(super) enum Data {
    #[default]
    None,
    Bytes(Vec<u8>),
    /// The only part is a file that is sent as it is.
    File(PathBuf, Vec<u8>),
}

impl Data {
    pub(super) fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Adds a part, after a separator unless it is the first.
    pub(super) fn push(&mut self, separator: &str, part: Self) {
        let part_bytes = match (&*self, part) {
            (Self::None, part) => {
                *self = part;
                return;
            }
            (_, part) => part.into_bytes(),
        };
        let mut bytes = std::mem::take(self).into_bytes();
        bytes.extend_from_slice(separator.as_bytes());
        bytes.extend(part_bytes);
        *self = Self::Bytes(bytes);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::Bytes(bytes) | Self::File(_, bytes) => bytes,
        }
    }

    pub(super) fn into_body(self) -> Option<Body> {
        match self {
            Self::None => None,
            Self::Bytes(bytes) => Some(Body::Inline(bytes)),
            Self::File(path, _) => Some(Body::File(path)),
        }
    }
}

/// The value of `-d` or `--json`: `@file` is read; without `is_binary`, line ends and NUL of a file
/// are left out (curl(1), --data).
pub(super) fn of(word: &Word, is_binary: bool, read: ReadFile<'_>) -> Result<Data, CurlError> {
    let Some(name) = word.text.strip_prefix('@') else {
        return Ok(Data::Bytes(word.text.clone().into_bytes()));
    };
    let bytes = read_file(name, word.position, read)?;
    let is_left_out = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
    if is_binary || !bytes.iter().any(is_left_out) {
        return Ok(Data::File(name.into(), bytes));
    }
    let kept = bytes.into_iter().filter(|byte| !is_left_out(byte));
    Ok(Data::Bytes(kept.collect()))
}

/// The value of `--data-urlencode` or `--url-query`: `content`, `=content`, `name=content`, `@file`
/// or `name@file`.
pub(super) fn urlencoded(word: &Word, read: ReadFile<'_>) -> Result<Vec<u8>, CurlError> {
    let text = &word.text;
    // As in curl, a = anywhere goes before an @.
    let split = text.find('=').or_else(|| text.find('@'));
    let (name, content) = match split {
        None => ("", text.clone().into_bytes()),
        Some(at) if text[at..].starts_with('@') => (
            &text[..at],
            read_file(&text[at + 1..], word.position, read)?,
        ),
        Some(at) => (&text[..at], text.as_bytes()[at + 1..].to_vec()),
    };
    let mut encoded = name.as_bytes().to_vec();
    if !name.is_empty() {
        encoded.push(b'=');
    }
    encoded.extend(percent_encoded(&content).into_bytes());
    Ok(encoded)
}

/// Reads a file that an option names.
pub(super) fn read_file(
    name: &str,
    position: CommandPosition,
    read: ReadFile<'_>,
) -> Result<Vec<u8>, CurlError> {
    if name == "-" {
        let message = "the command reads its standard input (write it into a file and name that)";
        return Err(CurlError::new(position, message));
    }
    read(name.as_ref())
        .map_err(|error| CurlError::new(position, format!("cannot read {name:?}: {error}")))
}
