//! Connects an agent to a bus.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::Agent;
use crate::bus::{Bus, BusError, Clock, INBOX_CAPACITY};
use crate::generator::Generator;

/// How long a report of the load generator may wait. Messages do not wait.
const TURN: Duration = Duration::from_millis(10);

/// How long a signal to end may wait without a run.
const IDLE_TURN: Duration = Duration::from_millis(100);

/// Serves coordinators until `stopped` is set.
///
/// # Errors
/// If the bus is closed.
pub fn serve<G: Generator>(
    agent: &mut Agent<G>,
    bus: &dyn Bus,
    clock: &Clock,
    stopped: &AtomicBool,
) -> Result<(), BusError> {
    let (sender, inbox) = sync_channel(INBOX_CAPACITY);
    for subject in agent.subscriptions() {
        bus.subscribe(&subject, &sender)?;
    }
    while !stopped.load(Ordering::Relaxed) {
        bus.check()?;
        let turn = if agent.is_busy() { TURN } else { IDLE_TURN };
        match inbox.recv_timeout(turn) {
            Ok(message) => agent.on_message(&message, clock()),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        agent.on_tick(clock());
        for message in agent.take_outgoing() {
            bus.publish(message)?;
        }
    }
    agent.close();
    Ok(())
}
