//! A bus through a NATS server. The runtime that its client needs has one thread, and nothing
//! outside of this file knows of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{AuthError, Client, ConnectErrorKind, ConnectOptions, Event, Subscriber};
use futures_util::StreamExt;
use nkeys::KeyPair;
use plan::secrets::hide_secrets;
use tokio::sync::mpsc::error::TrySendError as QueueError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{Bus, BusError, Clock, Message, Outgoing};
use crate::message::MAX_MESSAGE_BYTES;
use crate::signing::SigningKey;

/// Messages that wait to be sent; more are lost.
const QUEUE_CAPACITY: usize = 8192;

/// How long connecting may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long the last messages may take when the bus is closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// How often the connection is checked: a machine that vanished says nothing.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// Time between two attempts to connect again, shorter than a lease.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

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
    /// Whether to go on trying if there is no server yet.
    pub waits_for_server: bool,
}

/// A bus through a NATS server. It connects again whenever the connection is lost; what is sent in
/// between is lost.
pub struct Nats {
    /// `None` once it is being closed.
    commands: Option<Sender<BusCommand>>,
    client: Client,
    connections: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

enum BusCommand {
    Publish(Outgoing),
    Subscribe(String, SyncSender<Message>),
}

impl Nats {
    /// Connects to one of the servers.
    ///
    /// # Errors
    /// If no server accepts the connection, unless it is to wait for one.
    pub fn connect(options: NatsOptions, clock: Clock) -> Result<Self, BusError> {
        let (commands, queue) = channel(QUEUE_CAPACITY);
        let (client_in, client) = std::sync::mpsc::channel();
        let connections = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&connections);
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = client_in.send(Err(BusError::Options(error.to_string())));
                    return;
                }
            };
            runtime.block_on(async {
                match connect(options, counter).await {
                    Err(error) => {
                        // Without a receiver, the error matters to nobody.
                        let _ = client_in.send(Err(error));
                    }
                    Ok(client) => {
                        let _ = client_in.send(Ok(client.clone()));
                        carry(&client, queue, &clock).await;
                    }
                }
            });
            // A name that is being resolved is not waited for.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new()
            .name("nats".to_owned())
            .spawn(body)
            .map_err(|error| BusError::Options(format!("cannot start a thread: {error}")))?;
        let client = client.recv().map_err(|_| BusError::Closed)??;
        Ok(Self {
            commands: Some(commands),
            client,
            connections,
            thread: Some(thread),
        })
    }

    /// How often a connection was made: it grows after each interruption.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    fn command(&self, command: BusCommand) -> Result<(), BusError> {
        let sender = self.commands.as_ref().ok_or(BusError::Closed)?;
        match sender.try_send(command) {
            // A full queue loses messages.
            Ok(()) | Err(QueueError::Full(_)) => Ok(()),
            Err(QueueError::Closed(_)) => Err(BusError::Closed),
        }
    }
}

impl Bus for Nats {
    fn publish(&self, message: Outgoing) -> Result<(), BusError> {
        self.command(BusCommand::Publish(message))
    }

    fn subscribe(&self, subject: &str, inbox: &SyncSender<Message>) -> Result<(), BusError> {
        self.command(BusCommand::Subscribe(subject.to_owned(), inbox.clone()))
    }

    fn new_inbox(&self) -> String {
        self.client.new_inbox()
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

async fn connect(options: NatsOptions, connections: Arc<AtomicU64>) -> Result<Client, BusError> {
    let NatsOptions {
        servers,
        login,
        cacert,
        cert_and_key,
        name,
        waits_for_server,
    } = options;
    let failed = |reason: String| BusError::Connect {
        servers: hide_secrets(&servers),
        reason,
    };
    let mut connect = match login {
        Login::Address => ConnectOptions::new(),
        Login::Seed(text) => {
            let key = SigningKey::from_seed(&text).map_err(|error| failed(error.to_string()))?;
            ConnectOptions::with_nkey(key.seed())
        }
        Login::Credentials(text) => {
            let (jwt, key) = credentials(&text).map_err(failed)?;
            let key = Arc::new(key);
            ConnectOptions::with_jwt(jwt, move |nonce| {
                let signature = key.sign(&nonce).map_err(AuthError::new);
                std::future::ready(signature)
            })
        }
    };
    if let Some(path) = cacert {
        connect = connect.add_root_certificates(path);
    }
    if let Some((cert, key)) = cert_and_key {
        connect = connect.add_client_certificate(cert, key);
    }
    if waits_for_server {
        connect = connect.retry_on_initial_connect();
    }
    let addresses: Vec<&str> = servers.split(',').map(str::trim).collect();
    let client = connect
        .name(name)
        .connection_timeout(CONNECT_LIMIT)
        .ping_interval(PING_INTERVAL)
        .reconnect_delay_callback(|_| RECONNECT_DELAY)
        .event_callback(move |event| {
            if matches!(event, Event::Connected) {
                connections.fetch_add(1, Ordering::Relaxed);
            }
            std::future::ready(())
        })
        .connect(addresses)
        .await
        .map_err(|error| match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => failed(
                "the server does not admit this user; check --nats-seed or --nats-creds, and that \
                 the server's configuration has the user"
                    .to_owned(),
            ),
            _ => failed(error.to_string()),
        })?;
    let accepted = client.server_info().max_payload;
    if client.connection_state() == State::Connected && accepted < MAX_MESSAGE_BYTES {
        return Err(failed(format!(
            "the server accepts messages of {accepted} bytes; set its max_payload to at least \
             {MAX_MESSAGE_BYTES}"
        )));
    }
    Ok(client)
}

/// The user's JWT and key in a credentials file: two blocks, each a line between lines of dashes.
/// The crate's own function would bring 370 kB of regular expressions into the program.
///
/// # Errors
/// What is missing or wrong, in one line.
fn credentials(text: &str) -> Result<(String, KeyPair), String> {
    let is_mark = |line: &str| line.starts_with("---") && line.ends_with("---");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut blocks = lines.windows(3).filter_map(|lines| match lines {
        [begin, content, end] if is_mark(begin) && is_mark(end) && !is_mark(content) => {
            Some(*content)
        }
        _ => None,
    });
    let jwt = blocks.next().filter(|jwt| jwt.split('.').count() == 3);
    let jwt = jwt.ok_or("the credentials have no user JWT")?;
    let seed = blocks.next().ok_or("the credentials have no user seed")?;
    let key = KeyPair::from_seed(seed)
        .map_err(|error| format!("the seed in the credentials is not valid: {error}"))?;
    Ok((jwt.to_owned(), key))
}

/// Carries out commands until the bus is closed.
async fn carry(client: &Client, mut queue: Receiver<BusCommand>, clock: &Clock) {
    while let Some(command) = queue.recv().await {
        match command {
            BusCommand::Publish(message) => publish(client, message).await,
            BusCommand::Subscribe(subject, inbox) => {
                // It fails only if the client is gone, and then nothing arrives anyway.
                if let Ok(subscriber) = client.subscribe(subject).await {
                    tokio::spawn(deliver(subscriber, inbox, Arc::clone(clock)));
                }
            }
        }
    }
    // Whatever has not been sent in time is lost, as at any other time.
    let _ = tokio::time::timeout(CLOSE_LIMIT, client.flush()).await;
}

/// Without a connection, messages are dropped: later they would be stale.
async fn publish(client: &Client, message: Outgoing) {
    if client.connection_state() != State::Connected {
        return;
    }
    let payload = message.payload.into();
    // An error is a lost message; the sender repeats what matters.
    let _ = match message.reply {
        None => client.publish(message.subject, payload).await,
        Some(reply) => {
            client
                .publish_with_reply(message.subject, reply, payload)
                .await
        }
    };
}

/// Delivers the messages of a subscription until the receiver is dropped.
async fn deliver(mut subscriber: Subscriber, inbox: SyncSender<Message>, clock: Clock) {
    while let Some(message) = subscriber.next().await {
        let received_ns = clock();
        // The server's note that nobody has subscribed is not a message.
        if message.status.is_some() {
            continue;
        }
        let sent = inbox.try_send(Message {
            subject: message.subject.to_string(),
            reply: message.reply.map(|reply| reply.to_string()),
            payload: message.payload.into(),
            received_ns,
        });
        if matches!(sent, Err(TrySendError::Disconnected(_))) {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form that `nsc generate creds` writes.
    fn file(jwt: &str, seed: &str) -> String {
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             *** IMPORTANT ***\nNKEYs are sensitive.\n\n\
             -----BEGIN USER NKEY SEED-----\r\n{seed}\r\n------END USER NKEY SEED------\n"
        )
    }

    #[test]
    fn a_credentials_file_has_a_token_and_a_key() {
        let key = KeyPair::new_user();
        let seed = key.seed().expect("a new key has one");
        let (jwt, read) = credentials(&file("a.b.c", &seed)).expect("it is complete");
        assert_eq!(
            (jwt.as_str(), read.public_key()),
            ("a.b.c", key.public_key())
        );
        let error = |text: &str| credentials(text).map(drop).expect_err("it is not complete");
        assert_eq!(error(""), "the credentials have no user JWT");
        assert_eq!(error(&seed), "the credentials have no user JWT");
        let cut = file("a.b.c", &seed);
        let cut = cut.split("***").next().expect("the first block");
        assert_eq!(error(cut), "the credentials have no user seed");
        let wrong = error(&file("a.b.c", "SUA"));
        assert!(
            wrong.starts_with("the seed in the credentials is not valid: "),
            "{wrong}"
        );
    }
}
