//! The only place where choices become concrete types: the event loop and the session.

use crate::control::{RunState, StuckGuard};
use crate::run::{Start, WorkerMessage, WorkerParts};
use crate::shared_schedule::ScheduleShare;
use crate::source::RequestSource;
use crate::worker::{Worker, WorkerSettings};
use crate::{EngineError, ProxyClient, TlsClient, UsageProbe};
use eventloop::epoll::Epoll;
use eventloop::uring::Uring;
use eventloop::{EventLoop, LoopOptions};
use plan::{Alpn, BackendChoice, Protocol};
use protocol::Session;
use protocol::h1::{self, H1};
use protocol::h2::{self, H2};
use protocol::h3::{self, H3};
use protocol::proxy::{self, Proxied};
use protocol::tls::{self, AlpnProtocol, Tls};
use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

/// Without a packet for this long, a connection over QUIC is lost. A request has a time limit of
/// its own.
const IDLE_TIMEOUT_MS: u32 = 30_000;

/// The kernel interface used for sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoBackend {
    /// io_uring, through which the kernel completes operations.
    Uring,
    /// epoll, which reports when sockets are ready.
    Epoll,
}

impl IoBackend {
    /// The name for users and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::Epoll => "epoll",
        }
    }
}

/// A backend and the reason for choosing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenBackend {
    /// The backend that will be used.
    pub backend: IoBackend,
    /// The reason, as one phrase for the user.
    pub reason: String,
}

/// Resolves a choice of backend. `Auto` uses io_uring if the kernel allows it.
///
/// # Errors
/// If io_uring was requested but is not available.
pub fn choose_backend(choice: BackendChoice) -> Result<ChosenBackend, EngineError> {
    let chosen = |backend, reason: &str| ChosenBackend {
        backend,
        reason: reason.to_owned(),
    };
    match choice {
        BackendChoice::Epoll => Ok(chosen(IoBackend::Epoll, "requested")),
        BackendChoice::Uring => match Uring::probe() {
            Ok(()) => Ok(chosen(IoBackend::Uring, "requested")),
            Err(error) => Err(EngineError::Backend(error.to_string())),
        },
        BackendChoice::Auto => match Uring::probe() {
            Ok(()) => Ok(chosen(IoBackend::Uring, "available, and faster than epoll")),
            Err(error) => Ok(ChosenBackend {
                backend: IoBackend::Epoll,
                reason: format!("io_uring cannot be used: {error}"),
            }),
        },
    }
}

/// Everything that a worker thread needs.
pub(crate) struct WorkerTask {
    pub(crate) index: usize,
    pub(crate) backend: IoBackend,
    /// Whether to fall back to epoll if a ring cannot be created.
    pub(crate) may_fall_back: bool,
    pub(crate) tls: Option<TlsClient>,
    pub(crate) proxy: Option<ProxyClient>,
    pub(crate) settings: WorkerSettings,
    pub(crate) source: Box<dyn RequestSource>,
    pub(crate) usage_probe: Option<Box<dyn UsageProbe>>,
    /// The worker's part of the schedule; `None` in a closed loop.
    pub(crate) share: Option<ScheduleShare>,
    pub(crate) stuck_guard: StuckGuard,
    pub(crate) state: RunState,
    pub(crate) start: Receiver<Start>,
    pub(crate) messages: Sender<WorkerMessage>,
}

impl WorkerTask {
    /// The main function of a worker thread.
    pub(crate) fn run(self) {
        let options = LoopOptions {
            sockets: self.settings.connections_total(),
            spin_ns: self.settings.spin_ns(),
            ..LoopOptions::default()
        };
        match self.backend {
            IoBackend::Uring => match Uring::new(&options) {
                // The first ring may succeed and the fiftieth fail, because they use limited
                // memory.
                Err(error) if self.may_fall_back => {
                    self.with_loop(Epoll::new(&options), Some(error.to_string()));
                }
                ring => self.with_loop(ring, None),
            },
            IoBackend::Epoll => self.with_loop(Epoll::new(&options), None),
        }
    }

    fn with_loop<L: EventLoop>(mut self, io: io::Result<L>, no_ring: Option<String>) {
        let io = match io {
            Ok(io) => io,
            Err(error) => return self.report_failed_setup(error.to_string()),
        };
        let limits = h1::Limits::default();
        let file = self.source.file();
        let file = file.as_ref().map(|file| &file.set);
        let bodies = self.source.wants_responses() || file.is_some_and(|set| set.captures_bodies());
        let heads_only = !bodies
            && (self.settings.plan.load.cookies
                || self.settings.plan.tracing.server_timing
                || file.is_some_and(|set| set.has_captures()));
        let stream = self.settings.stream_spec();
        match self.settings.plan.load.protocol {
            Protocol::Http1 => {
                let mut context = h1::H1Context::new(limits, bodies).with_stream(stream);
                if heads_only {
                    context = context.with_heads_only();
                }
                self.with_protocol::<L, H1>(io, context, no_ring);
            }
            protocol @ (Protocol::Http2 | Protocol::Grpc) => {
                let mut context = h2::H2Context::new(h2::ClientSettings {
                    streams_max: self.settings.pipeline,
                    scheme: if self.tls.is_some() { "https" } else { "http" },
                    calls: protocol.is_grpc(),
                    capture: bodies,
                    captured_body_bytes_max: limits.captured_body_bytes_max,
                })
                .with_stream(stream);
                if heads_only {
                    context = context.with_heads_only();
                }
                self.with_protocol::<L, H2>(io, context, no_ring);
            }
            protocol @ (Protocol::Http3 | Protocol::GrpcHttp3) => {
                let settings = h3::ClientSettings {
                    streams_max: self.settings.pipeline,
                    idle_timeout_ms: IDLE_TIMEOUT_MS,
                    discovers_mtu: true,
                    calls: protocol.is_grpc(),
                    capture: bodies,
                    captured_body_bytes_max: limits.captured_body_bytes_max,
                };
                match self.quic(settings) {
                    Ok(context) => {
                        let mut context = context.with_stream(stream);
                        if heads_only {
                            context = context.with_heads_only();
                        }
                        self.with_session::<L, H3>(io, context, no_ring);
                    }
                    Err(message) => self.report_failed_setup(message),
                }
            }
        }
    }

    /// What sessions over QUIC share.
    #[expect(
        clippy::disallowed_methods,
        reason = "any moment will do as the base to which the loop's times are added"
    )]
    fn quic(&mut self, settings: h3::ClientSettings) -> Result<h3::H3Context, String> {
        let TlsClient {
            config,
            name,
            more_names,
        } = self.tls.take().ok_or("HTTP/3 needs TLS")?;
        // IDs of connections must differ from those of other runs with the same server.
        let seed = fastrand::u64(..);
        let context = h3::H3Context::new(settings, &config, name, Instant::now(), seed);
        let context = context.map_err(|error| error.to_string())?;
        Ok(context.with_more_hosts(more_names))
    }

    fn with_protocol<L: EventLoop, S: Session>(
        mut self,
        io: L,
        context: S::Context,
        no_ring: Option<String>,
    ) {
        let alpn = self.settings.plan.load.protocol.alpn();
        match (self.proxy.take(), self.tls.take()) {
            (None, None) => self.with_session::<L, S>(io, context, no_ring),
            (None, tls) => {
                self.with_session::<L, Tls<S>>(io, within_tls(tls, alpn, context), no_ring);
            }
            // One type for all combinations. Each type is another copy of the worker, and a proxy
            // costs more than the branches.
            (Some(proxy), tls) => {
                let proxied = proxy::ProxyContext::new(proxy.route, within_tls(tls, alpn, context));
                let outer = within_tls(proxy.tls, Alpn::Http1, proxied).to_proxy();
                self.with_session::<L, Tls<Proxied<Tls<S>>>>(io, outer, no_ring);
            }
        }
    }

    fn with_session<L: EventLoop, S: Session>(
        self,
        io: L,
        context: S::Context,
        no_ring: Option<String>,
    ) {
        let Self {
            index,
            settings,
            source,
            usage_probe,
            share,
            stuck_guard,
            state,
            start,
            messages,
            ..
        } = self;
        let parts = WorkerParts::<L, S> {
            io,
            context,
            settings,
            source,
            usage_probe,
        };
        let mut worker = match Worker::<L, S>::new(parts, share, stuck_guard) {
            Ok(worker) => worker,
            Err(error) => {
                let message = error.to_string();
                let _ = messages.send(WorkerMessage::SetupFailed { index, message });
                return;
            }
        };
        // If the channel is closed, the main thread is gone, and so the worker ends.
        if messages.send(WorkerMessage::Ready { no_ring }).is_err() {
            return;
        }
        let Ok(Start { times, is_observed }) = start.recv() else {
            return;
        };
        worker.report_to(&messages, is_observed);
        if let Some(result) = worker.run(times, &state) {
            let _ = messages.send(WorkerMessage::Ended {
                index,
                result: Box::new(result),
            });
        }
    }

    fn report_failed_setup(self, message: String) {
        let _ = self.messages.send(WorkerMessage::SetupFailed {
            index: self.index,
            message,
        });
    }
}

/// What sessions within TLS share. Without settings there is no TLS.
fn within_tls<T>(client: Option<TlsClient>, alpn: Alpn, inner: T) -> tls::TlsContext<T> {
    let Some(TlsClient {
        config,
        name,
        more_names,
    }) = client
    else {
        return tls::TlsContext::without_tls(inner);
    };
    let spoken = AlpnProtocol {
        name: alpn.name().as_bytes(),
        is_implied: Alpn::chosen(None) == Some(alpn),
    };
    tls::TlsContext::new(config, name, spoken, inner).with_more_hosts(more_names)
}
