//! The requests of a file in the form in which they are sent.

use std::ops::Range;
use std::sync::Arc;

use grpc::Number;
use plan::{RequestOrder, Target};

use crate::capture::{Capture, Use};
use crate::compile::sample;
use crate::conversations::Conversation;
use crate::csv::Table;
use crate::template::Value;

/// The most names in a file: each has a histogram of 270 kB in every worker.
pub const MAX_NAMES: usize = 200;

/// The most hosts in a file. A run has `-c` connections to each.
pub const MAX_HOSTS: usize = 64;

/// Requests without a name are counted together under this one.
pub const UNNAMED: &str = "unnamed";

/// All requests of a file. Workers share it.
#[derive(Debug, Clone)]
pub struct RequestSet {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) requests: Vec<Compiled>,
    /// The gaps of all requests, in order.
    pub(crate) gaps: Vec<Gap>,
    pub(crate) tables: Vec<Table>,
    pub(crate) names: Vec<String>,
    /// For each request, the sum of its weight and those before it. Empty if all weigh the same.
    pub(crate) weights: Vec<u64>,
    pub(crate) order: RequestOrder,
    /// The hosts of requests; at least one.
    pub(crate) hosts: Vec<Target>,
    pub(crate) uses_random_values: bool,
    pub(crate) recorded: Option<RecordedRequests>,
    /// By request, what it captures. Empty if no request captures anything.
    pub(crate) captures: Vec<Vec<Capture>>,
    /// By request, its conversation. Empty if no request has one.
    pub(crate) conversations: Vec<Conversation>,
    /// By number of a captured value, where requests use it.
    pub(crate) uses: Vec<Use>,
}

/// The requests of a log, in the order of their moments. All lists are equally long.
#[derive(Debug, Clone)]
pub struct RecordedRequests {
    /// When each is due, nanoseconds after the first.
    pub(crate) due_ns: Arc<[u64]>,
    /// Which request of the set it is.
    pub(crate) requests: Vec<u32>,
    /// The status that the log has for its response; 0 if it has none.
    pub(crate) statuses: Vec<u16>,
}

impl RecordedRequests {
    /// When each request is due, nanoseconds after the first; in order.
    #[must_use]
    pub fn due_ns(&self) -> &Arc<[u64]> {
        &self.due_ns
    }

    /// The request with this number: its index in the set, and the status of its response in the
    /// log, which is 0 if the log has none.
    #[must_use]
    #[inline]
    pub fn nth(&self, number: u64) -> (usize, u16) {
        let number = number as usize;
        (self.requests[number] as usize, self.statuses[number])
    }
}

/// A request: a part of the bytes of the set, and its gaps. Few bytes, because there may be
/// millions.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    pub(crate) begin: u32,
    pub(crate) end: u32,
    /// The first of its gaps, and their number.
    pub(crate) first_gap: u32,
    pub(crate) gaps: u32,
    pub(crate) name: u32,
    /// Index of its host.
    pub(crate) host: u32,
    /// Length of the body without the values in its gaps.
    pub(crate) body_bytes: u32,
}

impl Compiled {
    /// Where it is in the bytes of the set.
    #[inline]
    pub(crate) fn range(&self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }
}

/// A place in the bytes at which a value is inserted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    /// Index into the bytes of the set.
    pub(crate) at: usize,
    pub(crate) filling: Filling,
}

/// The value that fills a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filling {
    Value(Value),
    /// A number in the binary form of protobuf.
    Number {
        value: Value,
        form: Number,
    },
    /// A length as a varint, in the body: of `bytes` that are always the same and of the next
    /// `gaps` gaps.
    Length {
        bytes: u32,
        gaps: u32,
    },
    /// The number of bytes of the body, which has the gaps after this one.
    ContentLength,
}

impl Filling {
    /// Its length in bytes, if it is always the same.
    pub(crate) fn fixed_bytes(self) -> Option<usize> {
        match self {
            Self::Value(value) => value.fixed_bytes(),
            Self::Number { form, .. } => form.fixed_bytes(),
            Self::Length { .. } | Self::ContentLength => None,
        }
    }
}

impl RequestSet {
    /// Number of requests; at least 1.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Never: a file without requests is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The bytes of all requests without the values of templates.
    #[must_use]
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// Where a request without templates is in [`Self::bytes`].
    #[must_use]
    #[inline]
    pub fn fixed(&self, request: usize) -> Option<Range<usize>> {
        let request = &self.requests[request];
        (request.gaps == 0).then_some(request.range())
    }

    /// A request with other text in place of its values: alike in all that decides how a response
    /// is read.
    #[must_use]
    pub fn sample(&self, request: usize) -> Vec<u8> {
        let request = &self.requests[request];
        let bytes = &self.bytes[request.range()];
        sample(bytes, request, self.gaps_of(request))
    }

    /// The number of the name of a request, in [`Self::names`].
    #[must_use]
    #[inline]
    pub fn name(&self, request: usize) -> u32 {
        self.requests[request].name
    }

    /// The names by which requests are counted. Empty if no request has a name; otherwise requests
    /// without one are counted as [`UNNAMED`].
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The requests of a log with their moments; `None` for other files.
    #[must_use]
    pub fn recorded(&self) -> Option<&RecordedRequests> {
        self.recorded.as_ref()
    }

    pub(crate) fn with_recorded(mut self, recorded: RecordedRequests) -> Self {
        self.recorded = Some(recorded);
        self
    }

    /// Where requests go; at least one host.
    #[must_use]
    pub fn hosts(&self) -> &[Target] {
        &self.hosts
    }

    /// Where a request goes: an index into [`Self::hosts`].
    #[must_use]
    #[inline]
    pub fn host(&self, request: usize) -> u32 {
        self.requests[request].host
    }

    /// Whether requests depend on the seed.
    #[must_use]
    pub fn uses_seed(&self) -> bool {
        let mut conversations = self.conversations.iter();
        self.uses_random_values
            || self.order != RequestOrder::Sequence
            || conversations.any(|it| it.rules.begins_anywhere)
    }

    /// Whether requests capture values of responses. Then each client sends the requests of the
    /// file one after the other.
    #[must_use]
    pub fn has_captures(&self) -> bool {
        !self.captures.is_empty()
    }

    /// Whether some of these values are in the bodies of responses.
    #[must_use]
    pub fn captures_bodies(&self) -> bool {
        self.captures.iter().flatten().any(Capture::is_of_body)
    }

    /// Whether requests are those of conversations. Then all are.
    #[must_use]
    pub fn has_conversations(&self) -> bool {
        !self.conversations.is_empty()
    }

    /// The conversation of a request, if it has one.
    #[must_use]
    pub fn conversation(&self, request: usize) -> Option<&Conversation> {
        self.conversations.get(request)
    }

    pub(crate) fn captures_of(&self, request: usize) -> &[Capture] {
        self.captures.get(request).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn gaps_of(&self, request: &Compiled) -> &[Gap] {
        let first = request.first_gap as usize;
        &self.gaps[first..first + request.gaps as usize]
    }
}
