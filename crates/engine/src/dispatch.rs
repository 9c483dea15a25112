//! The one place where choices become concrete types: which event loop, which session.

use crate::control::{Locker, RunState, Schedule};
use crate::run::Report;
use crate::shared_schedule::ScheduleShare;
use crate::source::RequestSource;
use crate::worker::{Settings, Worker};
use crate::{EngineError, TlsClient, Watch};
use eventloop::epoll::Epoll;
use eventloop::uring::Uring;
use eventloop::{EventLoop, LoopOptions};
use plan::BackendChoice;
use protocol::Session;
use protocol::h1::{self, H1};
use protocol::tls::{self, Tls};
use std::io;
use std::sync::mpsc::{Receiver, Sender};

/// How the kernel is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// io_uring.
    Uring,
    /// epoll.
    Epoll,
}

impl Backend {
    /// The name shown to users and kept in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::Epoll => "epoll",
        }
    }
}

/// A backend and why it was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenBackend {
    /// What will run.
    pub backend: Backend,
    /// One phrase for the user.
    pub reason: String,
}

/// Finds the backend for a choice; `Auto` takes io_uring where the kernel allows it.
///
/// # Errors
/// When io_uring was asked for and is not to be had.
pub fn choose_backend(choice: BackendChoice) -> Result<ChosenBackend, EngineError> {
    let chosen = |backend, reason: &str| ChosenBackend {
        backend,
        reason: reason.to_owned(),
    };
    match choice {
        BackendChoice::Epoll => Ok(chosen(Backend::Epoll, "asked for")),
        BackendChoice::Uring => match Uring::probe() {
            Ok(()) => Ok(chosen(Backend::Uring, "asked for")),
            Err(error) => Err(EngineError::Backend(error.to_string())),
        },
        BackendChoice::Auto => match Uring::probe() {
            Ok(()) => Ok(chosen(
                Backend::Uring,
                "allowed here, and the faster of the two",
            )),
            Err(error) => Ok(ChosenBackend {
                backend: Backend::Epoll,
                reason: format!("io_uring cannot be used: {error}"),
            }),
        },
    }
}

/// All that one worker thread needs.
pub(crate) struct Task {
    pub(crate) index: usize,
    pub(crate) backend: Backend,
    /// Whether epoll will do when a ring cannot be made.
    pub(crate) may_fall_back: bool,
    pub(crate) tls: Option<TlsClient>,
    pub(crate) settings: Settings,
    pub(crate) source: Box<dyn RequestSource>,
    pub(crate) watch: Option<Box<dyn Watch>>,
    /// With a rate.
    pub(crate) share: Option<ScheduleShare>,
    pub(crate) locker: Locker,
    /// Whether somebody watches while the run is on.
    pub(crate) is_watched: bool,
    pub(crate) state: RunState,
    pub(crate) start: Receiver<Schedule>,
    pub(crate) reports: Sender<Report>,
}

impl Task {
    /// The body of a worker thread.
    pub(crate) fn run(self) {
        let options = LoopOptions {
            sockets: self.settings.connections,
            spin_ns: self.settings.spin_ns(),
            ..LoopOptions::default()
        };
        match self.backend {
            Backend::Uring => match Uring::new(&options) {
                // One ring can be made and the fiftieth not: they take memory that is limited.
                Err(error) if self.may_fall_back => {
                    self.with_loop(Epoll::new(&options), Some(error.to_string()));
                }
                ring => self.with_loop(ring, None),
            },
            Backend::Epoll => self.with_loop(Epoll::new(&options), None),
        }
    }

    fn with_loop<L: EventLoop>(mut self, io: io::Result<L>, no_ring: Option<String>) {
        let io = match io {
            Ok(io) => io,
            Err(error) => return self.report_broken(error.to_string()),
        };
        let h1 = h1::Shared::new(h1::Limits::default(), self.source.wants_responses());
        match self.tls.take() {
            None => self.with_session::<L, H1>(io, h1, no_ring),
            Some(TlsClient { config, name }) => {
                let tls = tls::Shared::new(config, name, h1);
                self.with_session::<L, Tls<H1>>(io, tls, no_ring);
            }
        }
    }

    fn with_session<L: EventLoop, S: Session>(
        self,
        io: L,
        shared: S::Shared,
        no_ring: Option<String>,
    ) {
        let Self {
            index,
            settings,
            source,
            watch,
            share,
            locker,
            is_watched,
            state,
            start,
            reports,
            ..
        } = self;
        let mut worker =
            match Worker::<L, S>::new(io, shared, settings, source, watch, share, locker) {
                Ok(worker) => worker,
                Err(message) => {
                    let _ = reports.send(Report::Broken { index, message });
                    return;
                }
            };
        if is_watched {
            worker.share_with(reports.clone());
        }
        // Failing to send or to receive here means that the main thread has gone: so do we.
        if reports.send(Report::Ready { no_ring }).is_err() {
            return;
        }
        let Ok(schedule) = start.recv() else { return };
        if let Some(ended) = worker.run(schedule, &state) {
            let _ = reports.send(Report::Ended {
                index,
                ended: Box::new(ended),
            });
        }
    }

    fn report_broken(self, message: String) {
        let _ = self.reports.send(Report::Broken {
            index: self.index,
            message,
        });
    }
}
