//! Durations, paths and bodies as the saved plan has them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::request::Body;

/// Nanoseconds as an integer; more than 2^64 - 1 (584 years) is written as that.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A [`Duration`] as integer nanoseconds.
pub(crate) mod duration_ns {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Duration, out: S) -> Result<S::Ok, S::Error> {
        nanoseconds(*value).serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
        u64::deserialize(input).map(Duration::from_nanos)
    }
}

/// An optional [`Duration`] as integer nanoseconds or null.
pub(crate) mod optional_duration_ns {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(nanoseconds).serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(input)?.map(Duration::from_nanos))
    }
}

/// An optional path as text.
///
/// A name that is not UTF-8 is written with replacement characters. serde's own form would fail,
/// and the name of its script is no reason to lose a finished run.
pub(crate) mod optional_path {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<PathBuf>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        value
            .as_ref()
            .map(|path| path.to_string_lossy())
            .serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Option::<PathBuf>::deserialize(input)
    }
}

/// A path as text; see [`optional_path`].
pub(crate) mod path {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Path, out: S) -> Result<S::Ok, S::Error> {
        value.to_string_lossy().serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<PathBuf, D::Error> {
        PathBuf::deserialize(input)
    }
}

/// The body: as text, in hexadecimal if it is not UTF-8, or the name of its file.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum SavedBody {
    Text(String),
    Hex(String),
    File(String),
}

/// A [`Body`] in the form of [`SavedBody`], so that JSON bodies are readable in the document.
pub(crate) mod optional_body {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Body>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        let saved = value.as_ref().map(|body| match body {
            Body::File(path) => SavedBody::File(path.to_string_lossy().into_owned()),
            Body::Inline(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => SavedBody::Text(text.to_owned()),
                Err(_) => SavedBody::Hex(to_hex(bytes)),
            },
        });
        saved.serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<Body>, D::Error> {
        Ok(match Option::<SavedBody>::deserialize(input)? {
            None => None,
            Some(SavedBody::Text(text)) => Some(Body::Inline(text.into_bytes())),
            Some(SavedBody::File(path)) => Some(Body::File(path.into())),
            Some(SavedBody::Hex(text)) => Some(Body::Inline(from_hex(&text).ok_or_else(|| {
                D::Error::custom("body.hex is not an even number of hexadecimal digits")
            })?)),
        })
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits?;
    if digits.len() % 2 != 0 {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok())
        .collect()
}
