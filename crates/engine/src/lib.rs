//! Generates the load.
//!
//! [`prepare`] starts one worker thread for each source and returns an [`Armed`] run.
//! [`Armed::start`] makes the workers start at the same time, and merges what they recorded. The
//! crate prints nothing, resolves no names, and knows no Lua.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod addresses;
mod connection;
mod control;
mod cookies;
mod dispatch;
mod error_kinds;
mod exchanges;
mod good;
mod pacing;
mod recorder;
mod records;
mod run;
mod shared_schedule;
mod slow_spans;
mod snapshots;
pub mod source;
mod timers;
mod warmup;
mod worker;

pub use addresses::AddressBook;
pub use control::RunTimes;
pub use dispatch::{ChosenBackend, IoBackend, choose_backend};
pub use eventloop::{Address, inherited, monotonic_ns, raise_open_file_limit};
pub use records::{RecordBatch, RecordLimits, RecordMessage, RecordSender};
pub use run::{Armed, WorkerParts, prepare, run_here, run_together};
pub use slow_spans::SlowSpans;
pub use snapshots::Observer;
pub use worker::{HISTORIES_MAX_BYTES, WorkerResult, WorkerSettings};

use plan::FleetSchedule;
use protocol::proxy::ProxyClient;
use protocol::request::RequestError;
use protocol::tls::TlsClient;
use results::{ErrorKind, Recording, Settling, ThreadUsage, WorkerLags, WorkerUsage};
use source::RequestSource;
use std::thread::JoinHandle;

/// Inputs that are not part of the plan: what had to be looked up, loaded or created first.
pub struct RunInputs {
    /// The addresses to connect to.
    pub addresses: AddressBook,
    /// TLS settings for the target, if any.
    pub tls: Option<TlsClient>,
    /// The proxy at these addresses, if there is one.
    pub proxy: Option<ProxyClient>,
    /// One source for each worker thread.
    pub sources: Vec<Box<dyn RequestSource>>,
    /// The kernel interface of all workers.
    pub backend: IoBackend,
    /// One for each worker thread, or none.
    pub usage_probes: Vec<Box<dyn UsageProbe>>,
    /// If several machines take part in the run: their common schedule, and the numbers of this
    /// machine's workers. The plan is this machine's share.
    pub fleet: Option<FleetSchedule>,
    /// Who gets a record of each request, if anybody.
    pub records: Option<RecordSender>,
}

/// Reads the resource usage of a worker's thread. It is called in that thread, at the start and at
/// the end of the window.
pub trait UsageProbe: Send {
    /// `None` if the system does not report it.
    fn usage(&mut self) -> Option<ThreadUsage>;

    /// The CPU time of the thread since its start, nanoseconds; `None` if the system does not
    /// report it. It should cost less than [`Self::usage`].
    fn cpu_ns(&mut self) -> Option<u64> {
        Some(self.usage()?.cpu_ns)
    }

    /// How long the thread could run and waited for a CPU since its start, nanoseconds; `None` if
    /// the system does not report it. It should cost less than [`Self::usage`].
    fn run_queue_wait_ns(&mut self) -> Option<u64> {
        self.usage()?.run_queue_wait_ns
    }

    /// How often the thread has slept since its start; `None` if the system does not report it. It
    /// should cost no more than a short system call.
    fn sleeps(&mut self) -> Option<u64> {
        None
    }
}

/// What the first responses of a run were that stops if the server denies all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FirstResponses {
    /// Those with status 401, 403 or 404, before any other one.
    pub denied: u32,
    /// Another response came.
    pub is_served: bool,
    /// The run gave up because of them.
    pub has_given_up: bool,
}

impl FirstResponses {
    /// Adds those of another worker.
    pub(crate) fn merge(&mut self, other: Self) {
        self.denied = self.denied.saturating_add(other.denied);
        self.is_served |= other.is_served;
        self.has_given_up |= other.has_given_up;
    }

    /// Whether there were only such responses, as far as the run has waited for others.
    #[must_use]
    pub fn are_denied(&self) -> bool {
        self.has_given_up || self.denied > 0 && !self.is_served
    }
}

/// The outcome of a run.
#[derive(Debug, Default)]
pub struct RunOutcome {
    /// The merged recordings of all workers.
    pub recording: Recording,
    /// When the run began, and the window of which this is the outcome.
    pub times: RunTimes,
    /// Whether the server had settled when the window began, if the warm-up was to last until
    /// then. `None` if the run ended before.
    pub settling: Option<Settling>,
    /// Length of the window in nanoseconds.
    pub duration_ns: u64,
    /// If responses were read after the window: for how long, nanoseconds.
    pub drained_ns: Option<u64>,
    /// The run was interrupted before its end.
    pub interrupted: bool,
    /// Messages of workers that failed. Empty if there was no failure.
    pub failures: Vec<String>,
    /// The run ended before all requests were sent, because there were no responses for a long
    /// time.
    pub has_given_up: bool,
    /// It did so because every connection was refused in a way that another attempt does not
    /// change.
    pub is_refused: bool,
    /// With [`plan::RunPlan::stops_if_denied`]: what the first responses were.
    pub first_responses: FirstResponses,
    /// Details of the first connection error that had any, such as why a certificate was rejected.
    pub first_error_detail: Option<(ErrorKind, String)>,
    /// Resource usage of the workers' threads within the window, by worker. Workers that did not
    /// report it are missing.
    pub workers: Vec<WorkerUsage>,
    /// If the server is profiled: when the slowest requests were in flight.
    pub slow_spans: Option<SlowSpans>,
    /// The longest time from the agreed start to the first turn of a worker, nanoseconds.
    pub start_late_ns: u64,
    /// How late each worker was, by worker.
    pub lags: Vec<WorkerLags>,
    /// For each worker that fell back to epoll, the reason why it had no ring.
    pub without_ring: Vec<String>,
    /// Workers that were still inside the script at the end, and were abandoned.
    pub stuck_workers: Vec<u32>,
    /// Worker threads that have reported and are closing their sockets, which takes a while with
    /// thousands of them.
    pub leaving: Vec<JoinHandle<()>>,
}

/// What to do if the system cannot create a thread.
pub const TOO_MANY_THREADS: &str =
    "raise the limit of processes: ulimit -u, or that of the container";

/// Why a run could not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The requested backend is not available.
    #[error("--io uring: {0}")]
    Backend(String),
    /// The system could not create a thread.
    #[error("unable to create thread {worker}: {message} ({TOO_MANY_THREADS})")]
    Thread {
        /// Number of the worker.
        worker: u32,
        /// The system's message, in one line.
        message: String,
    },
    /// A worker could not be set up.
    #[error("worker {worker} could not start: {message}")]
    Worker {
        /// Number of the worker.
        worker: u32,
        /// The reason, in one line.
        message: String,
    },
}

/// Why a worker cannot be set up, one line.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// What its source returns is no request.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Its source returns several requests in one text, which is HTTP/1 pipelining.
    #[error("several requests at once need HTTP/1.1; over HTTP/2 return one, and set --streams")]
    SeveralRequests,
    /// Other threads could not wake it.
    #[error("cannot be woken by other threads: {0}")]
    Waker(std::io::Error),
    /// It ran, but the recording of this worker was taken away.
    #[error("the recording of worker {0} was taken away")]
    TakenAway(usize),
}
