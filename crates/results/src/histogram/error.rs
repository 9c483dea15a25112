//! Why a histogram cannot be written or read.

use std::io;

use hdrhistogram::serialization::{DeserializeError, V2SerializeError};

/// Why a histogram cannot be written or read, one line.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// The encoding cannot hold a count.
    #[error("histogram: {0}")]
    Encode(#[from] V2SerializeError),
    /// The encoded buckets cannot be compressed.
    #[error("histogram: {0}")]
    Deflate(#[from] io::Error),
    /// The buckets in this field of the document cannot be read.
    #[error("histogram: {0}: {1}")]
    Buckets(&'static str, BucketsError),
    /// They are in two fields.
    #[error("histogram: the buckets are given twice")]
    TwoBuckets,
    /// The extremes are not in the buckets.
    #[error("histogram: min_ns or max_ns contradict the encoded samples")]
    Extremes,
    /// A histogram has both extremes, or none.
    #[error("histogram: only one of min_ns and max_ns is given")]
    OneExtreme,
    /// The sum in this field of the document has this value.
    #[error("histogram: {0}: \"{1}\" is not a whole number")]
    Sum(&'static str, String),
    /// The count is not that of the buckets.
    #[error("histogram: count is {0}, but {1} samples are encoded")]
    Count(u64, u64),
    /// The exact figures are not those of the buckets.
    #[error("histogram: min_ns, max_ns or sum_ns contradict the encoded samples")]
    Figures,
}

/// Why encoded buckets cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BucketsError {
    /// They are not base64.
    #[error(transparent)]
    Base64(#[from] base64::DecodeError),
    /// They are not what a document of this program has.
    #[error("{0}")]
    Invalid(&'static str),
    /// They are not zlib data.
    #[error("cannot be inflated ({0})")]
    Inflate(io::Error),
    /// The encoding contradicts itself.
    #[error(transparent)]
    Decode(#[from] DeserializeError),
}
