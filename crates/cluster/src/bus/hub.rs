//! A bus within one process, for tests and for a fleet on one machine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Bus, BusError, Clock, Message, Outgoing};

/// A bus within one process. Clones are connected to each other.
#[derive(Clone)]
pub struct Hub {
    clock: Clock,
    inboxes: Arc<AtomicU64>,
    subscriptions: Arc<Mutex<Vec<Subscription>>>,
}

/// A pattern of subjects, and who gets the messages.
type Subscription = (String, SyncSender<Message>);

impl Hub {
    /// A bus without subscribers.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            inboxes: Arc::default(),
            subscriptions: Arc::default(),
        }
    }
}

impl Bus for Hub {
    fn publish(&self, message: Outgoing) -> Result<(), BusError> {
        let mut subscriptions = self
            .subscriptions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        subscriptions.retain(|(pattern, inbox)| {
            if !matches(pattern, &message.subject) {
                return true;
            }
            let sent = inbox.try_send(Message::new(
                message.subject.clone(),
                message.reply.clone(),
                message.payload.clone(),
                (self.clock)(),
            ));
            // A slow receiver loses messages, as with NATS.
            !matches!(sent, Err(TrySendError::Disconnected(_)))
        });
        Ok(())
    }

    fn subscribe(&self, subject: &str, inbox: &SyncSender<Message>) -> Result<(), BusError> {
        self.subscriptions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((subject.to_owned(), inbox.clone()));
        Ok(())
    }

    fn new_inbox(&self) -> String {
        format!("_INBOX.{}", self.inboxes.fetch_add(1, Ordering::Relaxed))
    }
}

/// Whether a subject matches a pattern, in which `*` stands for any one part.
fn matches(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (None, None) => return true,
            (Some(wanted), Some(part)) if wanted == "*" || wanted == part => {}
            _ => return false,
        }
    }
}
