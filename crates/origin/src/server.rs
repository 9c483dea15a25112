//! A running server: starts and stops the workers and collects their reports.

use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use eventloop::epoll::Epoll;
use eventloop::uring::Uring;
use eventloop::{Acceptor, Address, EventLoop, LoopOptions};
use protocol::h3::Endpoint;

use crate::cache::ResponseCache;
use crate::connection::InitialDelays;
use crate::context::Context;
use crate::http2::Http2Context;
use crate::http3::{Http3, Loss};
use crate::listener;
use crate::llm::PrefixCache;
use crate::options::{Backend, Options};
use crate::report::{Counters, Counts, Log, ServerReport};
use crate::schedule::Schedule;
use crate::streams::KnownResponses;
use crate::worker::{KEY_DATAGRAMS, KEY_SERVICE, KEY_WAKE, Numbers, Worker};

/// Size of a receive buffer: requests are small, and there are many buffers.
const RECEIVE_BUFFER_BYTES: usize = 16 * 1024;

/// A server on its own threads; stops when dropped.
#[derive(Debug)]
pub struct Server {
    address: Address,
    has_tls: bool,
    has_http3: bool,
    backend: Backend,
    stop: Arc<AtomicBool>,
    counters: Arc<[Counters]>,
    workers: Vec<RunningWorker>,
}

#[derive(Debug)]
struct RunningWorker {
    thread: JoinHandle<ServerReport>,
    /// A connection to this address wakes the worker.
    wake: UnixAddress,
}

impl Server {
    /// Binds, starts the workers, and returns when all of them accept connections. Raises the
    /// process's soft limit of open files to the hard one.
    ///
    /// # Errors
    /// When the options are invalid, the address cannot be bound, or the kernel does not allow the
    /// backend.
    pub fn start(options: Options) -> io::Result<Self> {
        options
            .check()
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        // The usual soft limit is too low for a thousand connections. If it cannot be raised,
        // accepting fails later.
        let _ = eventloop::raise_open_file_limit();
        let backend = chosen(options.backend)?;
        let (address, listeners, datagrams) = bind(&options)?;
        let mut datagrams = datagrams.into_iter();
        let mut server = Self {
            address,
            has_tls: options.tls.is_some(),
            has_http3: options.http3.is_some(),
            backend,
            stop: Arc::default(),
            counters: (0..options.threads).map(|_| Counters::default()).collect(),
            workers: Vec::new(),
        };
        let first_request_ns = Arc::default();
        let (generating, prompts) = (Arc::default(), Arc::default());
        for (number, listener) in listeners.into_iter().enumerate() {
            let start = WorkerStart {
                listener,
                datagrams: datagrams.next(),
                number,
                options: options.clone(),
                counters: Arc::clone(&server.counters),
                first_request_ns: Arc::clone(&first_request_ns),
                generating: Arc::clone(&generating),
                prompts: Arc::clone(&prompts),
            };
            let worker = start.spawn(backend, Arc::clone(&server.stop))?;
            server.workers.push(worker);
        }
        Ok(server)
    }

    /// The address, with the port chosen by the kernel.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The URL of `/` on this server: `http://127.0.0.1:40213/`; for a Unix socket the host is
    /// `localhost`.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.has_tls { "https" } else { "http" };
        match &self.address {
            Address::Tcp(address) => format!("{scheme}://{address}/"),
            Address::Unix(_) => format!("{scheme}://localhost/"),
        }
    }

    /// Whether it serves HTTP/3 too.
    #[must_use]
    pub fn has_http3(&self) -> bool {
        self.has_http3
    }

    /// The backend in use; never [`Backend::Auto`].
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// What all workers have counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counters::sum(self.counters.iter())
    }

    /// Stops immediately, closes all connections, and returns what the server observed.
    #[must_use]
    pub fn stop(mut self) -> ServerReport {
        self.join()
    }

    fn join(&mut self) -> ServerReport {
        self.stop.store(true, Ordering::Release);
        let mut report = ServerReport::default();
        for worker in self.workers.drain(..) {
            // Fails only if the worker has already ended.
            drop(UnixStream::connect_addr(&worker.wake));
            match worker.thread.join() {
                Ok(one) => report.merge(one),
                Err(_) => report.failure = Some("a worker of the server panicked".to_owned()),
            }
        }
        if let Address::Unix(path) = &self.address {
            // It may have been removed already.
            let _ = std::fs::remove_file(path);
        }
        report
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `stop`, the path may belong to another server.
        if !self.stop.load(Ordering::Acquire) {
            drop(self.join());
        }
    }
}

/// Everything needed to start a worker's thread.
struct WorkerStart {
    listener: OwnedFd,
    /// The socket for HTTP/3.
    datagrams: Option<OwnedFd>,
    number: usize,
    options: Options,
    counters: Arc<[Counters]>,
    first_request_ns: Arc<AtomicU64>,
    generating: Arc<AtomicU64>,
    prompts: Arc<PrefixCache>,
}

impl WorkerStart {
    fn spawn(self, backend: Backend, stop: Arc<AtomicBool>) -> io::Result<RunningWorker> {
        let (wake_listener, wake) = wake_listener()?;
        let (started, outcome) = channel();
        let thread = std::thread::Builder::new()
            .name(format!("origin-{}", self.number))
            .spawn(move || self.run(backend, &stop, wake_listener.into(), &started))?;
        match outcome.recv() {
            Ok(Ok(())) => Ok(RunningWorker { thread, wake }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::other(
                "a worker of the server panicked at its start",
            )),
        }
    }

    fn run(
        self,
        backend: Backend,
        stop: &Arc<AtomicBool>,
        wake: OwnedFd,
        started: &Sender<io::Result<()>>,
    ) -> ServerReport {
        let options = LoopOptions {
            sockets: self
                .options
                .connections
                .div_ceil(self.options.threads as u32)
                .max(64),
            receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
            ..LoopOptions::default()
        };
        // An event loop must be created on its own thread.
        match backend {
            Backend::Epoll => self.serve(Epoll::new(&options), stop, wake, started),
            Backend::Auto | Backend::Uring => self.serve(Uring::new(&options), stop, wake, started),
        }
    }

    fn serve<L: EventLoop + Acceptor>(
        self,
        io: io::Result<L>,
        stop: &Arc<AtomicBool>,
        wake: OwnedFd,
        started: &Sender<io::Result<()>>,
    ) -> ServerReport {
        let context = self.context();
        let seed = self.seed();
        let ready = io.and_then(|mut io| {
            let http3 = self
                .datagrams
                .map(|socket| http3(&self.options, seed, socket, &mut io));
            let http3 = http3.transpose()?;
            io.listen(KEY_SERVICE, self.listener)?;
            io.listen(KEY_WAKE, wake)?;
            Ok((io, http3))
        });
        let (io, http3) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                // The receiver is gone only if the process is exiting.
                let _ = started.send(Err(error));
                return ServerReport::default();
            }
        };
        let _ = started.send(Ok(()));
        let Options {
            threads,
            greeting,
            accept_delay_ns,
            tls_delay_ns,
            is_polling,
            tls,
            ..
        } = &self.options;
        let numbers = Numbers {
            next: self.number as u64,
            step: *threads as u64,
        };
        let mut worker = Worker::new(io, context, Arc::clone(stop), numbers);
        worker.greeting = *greeting;
        worker.is_polling = *is_polling;
        worker.delays = InitialDelays {
            accept_delay_ns: *accept_delay_ns,
            tls_delay_ns: *tls_delay_ns,
        };
        worker.tls.clone_from(tls);
        worker.http3 = http3;
        let failure = worker
            .run()
            .err()
            .map(|error| format!("the event loop failed: {error}"));
        let Worker { context, .. } = worker;
        let counts = context.counters().counts();
        context.log.into_report(counts, failure)
    }

    /// The seed of the worker.
    fn seed(&self) -> u64 {
        self.options.seed.wrapping_add(self.number as u64)
    }

    fn context(&self) -> Context {
        let Self {
            options, number, ..
        } = self;
        Context {
            defaults: options.defaults.clone(),
            keepalive_requests: options.keepalive_requests,
            random: fastrand::Rng::with_seed(self.seed()),
            schedule: Schedule::new(
                options.stall,
                options.slow_start,
                options.has_service_queue,
                Arc::clone(&self.first_request_ns),
            ),
            log: Log::new(
                options.log_requests.div_ceil(options.threads),
                options.record_requests,
            ),
            cache: ResponseCache::default(),
            http2: options.http2.map(Http2Context::new),
            http3_known: KnownResponses::default(),
            counters: Arc::clone(&self.counters),
            own: *number,
            generating: Arc::clone(&self.generating),
            prompts: Arc::clone(&self.prompts),
        }
    }
}

/// What a worker needs for HTTP/3 on this socket.
#[expect(
    clippy::disallowed_methods,
    reason = "any moment: the library counts time from it, and compares nothing else with it"
)]
fn http3<L: Acceptor>(
    options: &Options,
    seed: u64,
    socket: OwnedFd,
    io: &mut L,
) -> io::Result<Http3> {
    let (Some(settings), Some(tls)) = (options.http3_settings(), &options.tls) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let of_ids = fastrand::u64(..);
    let endpoint = Endpoint::new(settings, tls, Instant::now(), of_ids)
        .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, format!("HTTP/3: {why}")))?;
    let token = io.listen_datagrams(KEY_DATAGRAMS, socket)?;
    let share = options.http3.map_or(0.0, |http3| http3.loss);
    Ok(Http3::new(token, endpoint, Loss::new(share, seed)))
}

/// The sockets of all workers: those that accept connections, and those for HTTP/3.
fn bind(options: &Options) -> io::Result<(Address, Vec<OwnedFd>, Vec<OwnedFd>)> {
    match (&options.listen, options.http3) {
        (Address::Tcp(address), Some(_)) => listener::bind_both(*address, options.threads),
        (listen, _) => {
            let (address, listeners) = listener::bind(listen, options.threads)?;
            Ok((address, listeners, Vec::new()))
        }
    }
}

fn chosen(backend: Backend) -> io::Result<Backend> {
    match backend {
        Backend::Epoll => Ok(Backend::Epoll),
        Backend::Uring => probe_uring().map(|()| Backend::Uring),
        Backend::Auto if probe_uring().is_ok() => Ok(Backend::Uring),
        Backend::Auto => Ok(Backend::Epoll),
    }
}

/// Probes on a separate thread: when a ring is closed, the kernel interrupts the thread that owned
/// it (EINTR), which must not be the caller's.
fn probe_uring() -> io::Result<()> {
    let probe = std::thread::Builder::new()
        .name("origin-probe".to_owned())
        .spawn(Uring::probe)?;
    probe
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the io_uring probe panicked")))
}

/// A Unix listener in the abstract namespace, which creates no file (unix(7)).
fn wake_listener() -> io::Result<(UnixListener, UnixAddress)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let random = fastrand::u64(..);
    let name = format!("wrkbench-origin-{}-{number}-{random:x}", std::process::id());
    let address = UnixAddress::from_abstract_name(name.as_bytes())?;
    let listener = UnixListener::bind_addr(&address)?;
    listener.set_nonblocking(true)?;
    Ok((listener, address))
}
