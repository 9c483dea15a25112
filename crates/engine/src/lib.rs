//! Generates the load: plan in, result out.
//!
//! [`run`] starts one worker thread for each source, lets them begin at one instant, and merges what
//! they recorded. It prints nothing, resolves no names, and knows no Lua.

#![forbid(unsafe_code)]

mod connection;
mod control;
mod dispatch;
mod failure;
mod pacing;
mod recorder;
mod run;
mod shared_schedule;
mod snapshots;
pub mod source;
mod timers;
mod worker;

pub use control::Schedule;
pub use dispatch::{Backend, ChosenBackend, choose_backend};
pub use eventloop::{Address, monotonic_ns, raise_open_file_limit};
pub use run::{Part, run, run_here, run_together};
pub use snapshots::Observer;
pub use worker::{Ended, Settings};

use protocol::tls::{ClientConfig, ServerName};
use results::{ErrorKind, Recording, ThreadUsage, WorkerLags, WorkerUsage};
use source::RequestSource;
use std::sync::Arc;
use std::thread::JoinHandle;

/// What the plan does not say: things that had to be looked up, loaded or made first.
pub struct Job {
    /// Where to connect.
    pub address: Address,
    /// TLS, if any.
    pub tls: Option<TlsClient>,
    /// One source for each worker thread.
    pub sources: Vec<Box<dyn RequestSource>>,
    /// How the kernel is asked.
    pub backend: Backend,
    /// One for each worker thread, or none.
    pub watches: Vec<Box<dyn Watch>>,
}

/// Tells what a worker's thread has used so far. It is asked in that thread, at the begin of the
/// window and at its end.
pub trait Watch: Send {
    /// `None` when the system does not say.
    fn usage(&mut self) -> Option<ThreadUsage>;
}

/// What TLS connections need.
#[derive(Clone)]
pub struct TlsClient {
    /// Shared by all workers, and with it the store of session tickets.
    pub config: Arc<ClientConfig>,
    /// The server's name, for SNI and verification.
    pub name: ServerName<'static>,
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// All workers' recordings, merged.
    pub recording: Recording,
    /// Length of the window, nanoseconds.
    pub duration_ns: u64,
    /// The run was ended from outside before its time.
    pub interrupted: bool,
    /// Why workers could not go on, in their words; empty when all went well.
    pub failures: Vec<String>,
    /// It ended before all requests that were wanted were sent, as no response came for long.
    pub has_given_up: bool,
    /// What an error of one of the connections said beyond its kind: why a certificate was refused,
    /// for example.
    pub first_trouble: Option<(ErrorKind, String)>,
    /// What the workers' threads used within the window, by worker; those that could not be asked are
    /// missing.
    pub workers: Vec<WorkerUsage>,
    /// How late each worker was, by worker.
    pub lags: Vec<WorkerLags>,
    /// Of each worker that runs on epoll since it could not have a ring, the reason.
    pub without_ring: Vec<String>,
    /// Workers that were still inside the script at the end and were left there.
    pub stuck_workers: Vec<u32>,
    /// Worker threads that have reported and are closing their sockets, which takes a while when
    /// there are thousands.
    pub leaving: Vec<JoinHandle<()>>,
}

/// A run could not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The wished backend is not to be had.
    #[error("--io uring: {0}")]
    Backend(String),
    /// The system gave no thread.
    #[error("unable to create thread {index}: {message}")]
    Thread {
        /// Which worker.
        index: usize,
        /// What the system said.
        message: String,
    },
    /// A worker could not be set up.
    #[error("worker {index} could not start: {message}")]
    Worker {
        /// Which worker.
        index: usize,
        /// Why.
        message: String,
    },
}
