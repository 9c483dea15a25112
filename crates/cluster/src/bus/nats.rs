//! A bus through a NATS server. It speaks the client protocol itself, so that nothing is received
//! into memory that is larger than its limit. The runtime has one thread, and nothing outside of
//! this folder knows of it.

mod framing;
mod link;
mod login;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use nkeys::KeyPair;
use plan::secrets::hide_secrets;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::sync::mpsc::error::TrySendError as QueueError;
use tokio::sync::mpsc::{Receiver, Sender, WeakSender, channel};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Bus, BusError, Clock, Held, Message, Outgoing};
use framing::{Delivery, Framing, FramingError, Operation};
use link::{Connector, Link, LinkError, READ_BYTES, Stream};
use login::{Proof, ServerAddress};

/// Messages that wait to be sent; more are lost.
const QUEUE_CAPACITY: usize = 8192;

/// Bytes of messages that have arrived and that nobody has taken yet; more messages are lost. A
/// coordinator asks for at most 11 MB at a time.
const WAITING_BYTES: usize = 32 << 20;

/// How much is written at a time.
const WRITE_BYTES: usize = 1 << 20;

/// How long the server may take no bytes until the connection is given up.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// Why the connection is given up then.
const TAKES_NOTHING: &str = "the server takes no messages any more";

/// How long the last messages may take when the bus is closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// How often the connection is checked: a machine that vanished says nothing.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// The connection is given up after this number of intervals without a byte.
const SILENT_INTERVALS: u32 = 3;

/// Time between two attempts to connect again, shorter than a lease.
pub const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// The time for which lines without a message are counted.
const IDLE_WINDOW_NS: u64 = 2_000_000_000;

/// What has become of the connection to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkNews {
    /// The server has admitted this client.
    Connected,
    /// There is no connection, for this reason; one line. It is tried again after
    /// [`RECONNECT_DELAY`].
    Disconnected(String),
}

/// Is called in the thread of the bus, once for each change.
pub type LinkListener = Arc<dyn Fn(&LinkNews) + Send + Sync>;

/// How a client proves who it is.
#[derive(Clone, Default)]
pub enum Login {
    /// By user and password in the address, or not at all.
    #[default]
    Address,
    /// By the seed of a user's key (`SU...`).
    Seed(String),
    /// By the text of a file with credentials (`.creds`).
    Credentials(String),
}

/// How to connect to NATS.
#[derive(Clone, Default)]
pub struct NatsOptions {
    /// Addresses with commas between them: `nats://hub:4222`, `tls://hub`.
    pub servers: String,
    /// How to log in.
    pub login: Login,
    /// PEM file with authorities to trust in addition to those of the system.
    pub cacert: Option<PathBuf>,
    /// PEM files with a client certificate and its key.
    pub cert_and_key: Option<(PathBuf, PathBuf)>,
    /// What the server's own reports call this connection.
    pub name: String,
    /// Learns what becomes of the connection, which is also tried again if there is no server yet.
    /// `None`: the first attempt must succeed.
    pub listener: Option<LinkListener>,
}

/// A bus through a NATS server. It connects again whenever the connection is lost; what is sent in
/// between is lost.
pub struct Nats {
    /// `None` once it is being closed.
    commands: Option<Sender<BusCommand>>,
    shared: Arc<NatsState>,
    /// Part of the inboxes' names that nobody else can guess.
    secret: String,
    inboxes: AtomicU64,
    thread: Option<JoinHandle<()>>,
}

enum BusCommand {
    Publish(Outgoing),
    /// A subscription with this number is new.
    Subscribe(u64, String),
    /// Nobody takes the messages of this subscription any more.
    Unsubscribe(u64),
    Pong,
    /// The connection has ended.
    Lost,
}

/// What the threads of the bus share.
struct NatsState {
    subscriptions: Mutex<Subscriptions>,
    /// Does not keep the bus open.
    commands: WeakSender<BusCommand>,
    clock: Clock,
    is_connected: AtomicBool,
    connections: AtomicU64,
    /// Whether bytes have come since the last check.
    was_heard: AtomicBool,
    pongs: AtomicU64,
    pong: Notify,
    waiting_bytes: Arc<AtomicUsize>,
    /// Why there will be no connection any more.
    broken: OnceLock<String>,
}

#[derive(Default)]
struct Subscriptions {
    last: u64,
    /// Subjects and receivers, by number.
    all: BTreeMap<u64, (String, SyncSender<Message>)>,
}

impl Nats {
    /// Connects to one of the servers.
    ///
    /// # Errors
    /// If no server accepts the connection, unless it is to wait for one that cannot be reached
    /// yet.
    pub fn connect(options: NatsOptions, clock: Clock) -> Result<Self, BusError> {
        let failed = |reason: String| BusError::Connect {
            servers: hide_secrets(&options.servers),
            reason,
        };
        let news = News {
            listener: options.listener.clone(),
            told: None,
        };
        let connector = Connector {
            servers: ServerAddress::list(&options.servers).map_err(failed)?,
            proof: Proof::new(&options.login).map_err(failed)?,
            name: options.name.clone(),
            cacert: options.cacert.clone(),
            cert_and_key: options.cert_and_key.clone(),
            tls: None,
        };
        let (commands, queue) = channel(QUEUE_CAPACITY);
        let shared = Arc::new(NatsState {
            subscriptions: Mutex::default(),
            commands: commands.downgrade(),
            clock,
            is_connected: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            was_heard: AtomicBool::new(false),
            pongs: AtomicU64::new(0),
            pong: Notify::new(),
            waiting_bytes: Arc::default(),
            broken: OnceLock::new(),
        });
        let (ready_in, ready) = std::sync::mpsc::channel();
        let theirs = Arc::clone(&shared);
        let body = move || live(connector, queue, &theirs, news, &ready_in);
        let thread = std::thread::Builder::new()
            .name("nats".to_owned())
            .spawn(body)
            .map_err(|error| BusError::Options(format!("cannot start a thread: {error}")))?;
        ready
            .recv()
            .map_err(|_| BusError::Closed)?
            .map_err(failed)?;
        Ok(Self {
            commands: Some(commands),
            shared,
            // A random number in letters and digits; nothing is signed with it.
            secret: KeyPair::new_user().public_key(),
            inboxes: AtomicU64::new(0),
            thread: Some(thread),
        })
    }

    /// How often a connection was made: it grows after each interruption.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    fn command(&self, command: BusCommand) -> Result<(), BusError> {
        self.check()?;
        let sender = self.commands.as_ref().ok_or(BusError::Closed)?;
        match sender.try_send(command) {
            // A full queue loses messages.
            Ok(()) | Err(QueueError::Full(_)) => Ok(()),
            Err(QueueError::Closed(_)) => Err(BusError::Closed),
        }
    }
}

impl Bus for Nats {
    /// Without a connection, messages are dropped: later they would be stale.
    fn publish(&self, message: Outgoing) -> Result<(), BusError> {
        if self.shared.is_connected.load(Ordering::Relaxed) {
            self.command(BusCommand::Publish(message))
        } else {
            self.check()
        }
    }

    fn subscribe(&self, subject: &str, inbox: &SyncSender<Message>) -> Result<(), BusError> {
        let number = {
            let mut subscriptions = self.shared.subscriptions();
            subscriptions.last += 1;
            let number = subscriptions.last;
            let subscription = (subject.to_owned(), inbox.clone());
            subscriptions.all.insert(number, subscription);
            number
        };
        // A connection that is made later subscribes to all of them. The server ignores the second
        // time.
        self.command(BusCommand::Subscribe(number, subject.to_owned()))
    }

    fn new_inbox(&self) -> String {
        let number = self.inboxes.fetch_add(1, Ordering::Relaxed);
        format!("_INBOX.{}{number}", self.secret)
    }

    fn check(&self) -> Result<(), BusError> {
        match self.shared.broken.get() {
            None => Ok(()),
            Some(reason) => Err(BusError::Broken(reason.clone())),
        }
    }
}

impl Drop for Nats {
    /// Sends what is waiting, within a second.
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, the bus is closed all the same.
            let _ = thread.join();
        }
    }
}

impl NatsState {
    fn subscriptions(&self) -> MutexGuard<'_, Subscriptions> {
        self.subscriptions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn command(&self, command: BusCommand) {
        if let Some(sender) = self.commands.upgrade() {
            // A full queue loses a PONG. The server asks again.
            let _ = sender.try_send(command);
        }
    }

    fn on_operation(&self, operation: Operation, received_ns: u64) {
        match operation {
            Operation::Message(delivery) => self.deliver(delivery, received_ns),
            Operation::Ping => self.command(BusCommand::Pong),
            Operation::Pong => {
                self.pongs.fetch_add(1, Ordering::Relaxed);
                self.pong.notify_one();
            }
            // What a user may not do is lost, and the server closes the connection after an error
            // that ends it.
            Operation::Error(_) | Operation::Info(_) => {}
        }
    }

    /// Hands a message to its subscription. A slow receiver loses messages.
    fn deliver(&self, delivery: Delivery, received_ns: u64) {
        let Delivery {
            subject,
            id,
            reply,
            payload,
        } = delivery;
        let mut subscriptions = self.subscriptions();
        let Some((_, inbox)) = subscriptions.all.get(&id) else {
            return;
        };
        let bytes = payload.len() + subject.len() + size_of::<Message>();
        let Some(held) = Held::of(&self.waiting_bytes, bytes, WAITING_BYTES) else {
            return;
        };
        let mut message = Message::new(subject, reply, payload, received_ns);
        message.held = held;
        if let Err(TrySendError::Disconnected(_)) = inbox.try_send(message) {
            subscriptions.all.remove(&id);
            drop(subscriptions);
            self.command(BusCommand::Unsubscribe(id));
        }
    }
}

/// The life of a bus, in a thread of its own. `ready` gets the outcome of the first attempt to
/// connect.
fn live(
    mut connector: Connector,
    mut queue: Receiver<BusCommand>,
    shared: &Arc<NatsState>,
    mut news: News,
    ready: &std::sync::mpsc::Sender<Result<(), String>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    // Without a receiver, errors matter to nobody.
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error.to_string()))),
    };
    runtime.block_on(async {
        let first = match connector.connect().await {
            Ok(link) => Some(link),
            Err(LinkError::Unreachable(reason)) if news.listener.is_some() => {
                news.tell(LinkNews::Disconnected(reason));
                None
            }
            Err(error) => return drop(ready.send(Err(error.to_string()))),
        };
        if ready.send(Ok(())).is_ok() {
            stay_connected(connector, first, &mut queue, shared, &mut news).await;
        }
    });
    // A name that is being resolved is not waited for.
    runtime.shutdown_background();
}

/// Tells the listener what is new.
struct News {
    listener: Option<LinkListener>,
    told: Option<LinkNews>,
}

impl News {
    fn tell(&mut self, news: LinkNews) {
        if let Some(listener) = &self.listener
            && self.told.as_ref() != Some(&news)
        {
            listener(&news);
            self.told = Some(news);
        }
    }
}

/// How a connection has ended.
enum End {
    /// The bus was closed.
    Closed,
    /// The connection was lost, with the reason. Another one may succeed.
    Lost(String),
    /// The server exceeds a limit.
    Broken(String),
}

/// Connects again and again until the bus is closed.
async fn stay_connected(
    mut connector: Connector,
    mut first: Option<Link>,
    queue: &mut Receiver<BusCommand>,
    shared: &Arc<NatsState>,
    news: &mut News,
) {
    loop {
        let link = match first.take() {
            Some(link) => link,
            None => {
                let again = async {
                    tokio::time::sleep(RECONNECT_DELAY).await;
                    connector.connect().await
                };
                match unless_closed(again, queue).await {
                    None => return,
                    Some(Ok(link)) => link,
                    Some(Err(LinkError::Unusable(reason))) => {
                        let _ = shared.broken.set(reason);
                        return;
                    }
                    Some(Err(error)) => {
                        news.tell(LinkNews::Disconnected(error.to_string()));
                        continue;
                    }
                }
            }
        };
        news.tell(LinkNews::Connected);
        let end = carry(link, queue, shared).await;
        shared.is_connected.store(false, Ordering::Relaxed);
        match end {
            End::Lost(reason) => news.tell(LinkNews::Disconnected(reason)),
            End::Closed => return,
            End::Broken(reason) => {
                let _ = shared.broken.set(reason);
                return;
            }
        }
    }
}

/// Does the work unless the bus is closed meanwhile. What is to be sent meanwhile is lost.
async fn unless_closed<T>(
    work: impl Future<Output = T>,
    queue: &mut Receiver<BusCommand>,
) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        while let Poll::Ready(command) = queue.poll_recv(context) {
            if command.is_none() {
                return Poll::Ready(None);
            }
        }
        Poll::Pending
    })
    .await
}

/// Carries messages in both directions until the connection ends or the bus is closed.
async fn carry(link: Link, queue: &mut Receiver<BusCommand>, shared: &Arc<NatsState>) -> End {
    shared.pongs.store(0, Ordering::Relaxed);
    let (reader, mut writer) = tokio::io::split(link.stream);
    let reading = tokio::spawn(read(reader, link.framing, Arc::clone(shared)));
    let end = write(&mut writer, queue, shared, || reading.is_finished()).await;
    let End::Lost(reason) = end else {
        reading.abort();
        return end;
    };
    if !reading.is_finished() {
        reading.abort();
    }
    // It was aborted, or says why it has ended.
    match reading.await {
        Ok(Err(error @ FramingError::Malformed(_))) => End::Lost(error.to_string()),
        Ok(Err(error)) => End::Broken(error.to_string()),
        Ok(Ok(())) => End::Lost("the server has closed the connection".to_owned()),
        Err(_) => End::Lost(reason),
    }
}

/// Reads until the connection ends.
async fn read(
    mut reader: ReadHalf<Box<dyn Stream>>,
    mut framing: Framing,
    shared: Arc<NatsState>,
) -> Result<(), FramingError> {
    let mut bytes = vec![0; READ_BYTES];
    let mut outcome = Ok(());
    let mut window_end_ns = 0;
    while let Ok(count @ 1..) = reader.read(&mut bytes).await {
        let received_ns = (shared.clock)();
        shared.was_heard.store(true, Ordering::Relaxed);
        if received_ns >= window_end_ns {
            framing.forget_idle_lines();
            window_end_ns = received_ns.saturating_add(IDLE_WINDOW_NS);
        }
        outcome = framing.take(&bytes[..count], &mut |operation| {
            shared.on_operation(operation, received_ns);
        });
        if outcome.is_err() {
            break;
        }
    }
    shared.command(BusCommand::Lost);
    outcome
}

/// Writes what is to be sent, until the connection ends or the bus is closed.
async fn write(
    writer: &mut WriteHalf<Box<dyn Stream>>,
    queue: &mut Receiver<BusCommand>,
    shared: &NatsState,
    has_ended: impl Fn() -> bool,
) -> End {
    let mut bytes = Vec::new();
    for (number, (subject, _)) in &shared.subscriptions().all {
        subscribe(&mut bytes, *number, subject);
    }
    if !written(writer, &mut bytes).await {
        return End::Lost(TAKES_NOTHING.to_owned());
    }
    shared.connections.fetch_add(1, Ordering::Relaxed);
    shared.is_connected.store(true, Ordering::Relaxed);
    let mut check_due = Instant::now() + PING_INTERVAL;
    let (mut pings, mut silent_intervals) = (0, 0);
    loop {
        match timeout_at(check_due, queue.recv()).await {
            Ok(Some(command)) => {
                command.encode(&mut bytes);
                while bytes.len() < WRITE_BYTES
                    && let Ok(command) = queue.try_recv()
                {
                    command.encode(&mut bytes);
                }
            }
            Ok(None) => {
                // Whatever has not been sent in time is lost, as at any other time.
                let _ = timeout(CLOSE_LIMIT, say_goodbye(writer, shared, pings)).await;
                return End::Closed;
            }
            Err(_) => {
                // Not since it was due: after a pause of this process, what has arrived meanwhile
                // is read before the connection is taken for silent.
                check_due = Instant::now() + PING_INTERVAL;
                silent_intervals = if shared.was_heard.swap(false, Ordering::Relaxed) {
                    0
                } else {
                    silent_intervals + 1
                };
                pings += 1;
                bytes.extend_from_slice(b"PING\r\n");
            }
        }
        if silent_intervals >= SILENT_INTERVALS || has_ended() {
            return End::Lost("the server says nothing any more".to_owned());
        }
        if !written(writer, &mut bytes).await {
            return End::Lost(TAKES_NOTHING.to_owned());
        }
    }
}

/// Waits until the server has taken what was sent: if the connection were closed before, it might
/// throw that away. `pings` were sent before.
async fn say_goodbye(writer: &mut WriteHalf<Box<dyn Stream>>, shared: &NatsState, pings: u64) {
    if written(writer, &mut b"PING\r\n".to_vec()).await {
        while shared.pongs.load(Ordering::Relaxed) <= pings {
            shared.pong.notified().await;
        }
        // The server closes the connection as well.
        let _ = writer.shutdown().await;
    }
}

/// Writes and clears the bytes. False if the connection has ended.
async fn written(writer: &mut WriteHalf<Box<dyn Stream>>, bytes: &mut Vec<u8>) -> bool {
    let all = async {
        writer.write_all(bytes).await?;
        writer.flush().await
    };
    let outcome = timeout(WRITE_LIMIT, all).await;
    bytes.clear();
    matches!(outcome, Ok(Ok(())))
}

fn subscribe(bytes: &mut Vec<u8>, number: u64, subject: &str) {
    bytes.extend_from_slice(format!("SUB {subject} {number}\r\n").as_bytes());
}

impl BusCommand {
    fn encode(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Publish(Outgoing {
                subject,
                reply,
                payload,
            }) => {
                let reply = reply.map_or_else(String::new, |reply| reply + " ");
                let line = format!("PUB {subject} {reply}{}\r\n", payload.len());
                bytes.extend_from_slice(line.as_bytes());
                bytes.extend_from_slice(&payload);
                bytes.extend_from_slice(b"\r\n");
            }
            Self::Subscribe(number, subject) => subscribe(bytes, number, &subject),
            Self::Unsubscribe(number) => {
                bytes.extend_from_slice(format!("UNSUB {number}\r\n").as_bytes());
            }
            Self::Pong => bytes.extend_from_slice(b"PONG\r\n"),
            Self::Lost => {}
        }
    }
}
