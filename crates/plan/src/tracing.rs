//! What is asked of the server about single requests.

use serde::{Deserialize, Serialize};

use crate::InvalidValue;

/// What stands for the number of a trace in [`TracingSpec::url`].
pub const TRACE_ID: &str = "{id}";

/// What tells where the time of single requests went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TracingSpec {
    /// Whether `Server-Timing` headers of responses are read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub server_timing: bool,
    /// One in this many requests has a `traceparent` header (W3C Trace Context), at least 1; `None`
    /// is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent_one_in: Option<u32>,
    /// Where a trace can be seen: a URL with [`TRACE_ID`] in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Whether a text is a URL of http or https, without blanks and controls.
pub(crate) fn is_web_url(text: &str) -> bool {
    let has_scheme = text.starts_with("http://") || text.starts_with("https://");
    has_scheme && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl TracingSpec {
    /// Whether nothing is asked.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Reads `1/100`, or `1` for all requests.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub(crate) fn parse_one_in(text: &str) -> Result<u32, InvalidValue> {
        let one_in = match text.split_once('/') {
            None if text == "1" => Ok(1),
            Some(("1", all)) => all.parse(),
            _ => "".parse(),
        };
        let known = one_in.ok().filter(|one_in| *one_in >= 1);
        known.ok_or_else(|| "must be 1/N, such as 1/100 for one request in a hundred".into())
    }

    /// The link to a trace. `None` without a URL, or if that of a saved plan is none of HTTP.
    #[must_use]
    pub fn link(&self, trace_id: &str) -> Option<String> {
        let url = self.url.as_ref().filter(|url| is_web_url(url))?;
        Some(url.replace(TRACE_ID, trace_id))
    }
}
