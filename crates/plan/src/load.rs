//! How much load: threads, connections, and how a connection is used.

use serde::{Deserialize, Serialize};

use crate::SourceRange;

/// More threads than any machine has cores; beyond it a mistyped number is likelier than a wish.
pub const MAX_THREADS: u32 = 4096;

/// Each connection is an open file, and 2^24 is beyond what one process can be allowed in practice
/// (Linux' `fs.nr_open` is 2^20 unless raised).
pub const MAX_CONNECTIONS: u32 = 1 << 24;

/// The requests of one pipelined batch are one write kept in memory.
pub const MAX_PIPELINE: u32 = 65_536;

/// Threads, connections, and how each connection is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Worker threads, 1..=[`MAX_THREADS`].
    pub threads: u32,
    /// Connections over all threads, at least one for each thread, at most [`MAX_CONNECTIONS`].
    pub connections: u32,
    /// Requests sent together before waiting for their answers, 1..=[`MAX_PIPELINE`]; 1 is off.
    pub pipeline: u32,
    /// Whether a connection is used again after an answer.
    pub keepalive: bool,
    /// Close and replace a connection after so many requests; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u64>,
    /// Local addresses that connections come from; `None` leaves the choice to the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceRange>,
    /// In batches of several requests only the last answer is a sample of latency (wrk2's `-B`).
    #[serde(default)]
    pub batch_latency: bool,
}

impl Default for Load {
    /// wrk's defaults: 2 threads, 10 connections, kept alive.
    fn default() -> Self {
        Self {
            threads: 2,
            connections: 10,
            pipeline: 1,
            keepalive: true,
            requests_per_connection: None,
            source: None,
            batch_latency: false,
        }
    }
}
