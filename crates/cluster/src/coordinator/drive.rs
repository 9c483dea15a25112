//! Connects the coordinator to a bus.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use super::{
    AgentPart, Chosen, Course, Event, FleetError, FleetOutcome, FleetRun, RollCall, RollCallError,
    RunVisit, VisitOutcome, Wanted,
};
use crate::bus::{Bus, BusError, Clock, INBOX_CAPACITY, Message};
use crate::names::{AgentId, FleetName, Label};

/// How late a question may be sent or repeated. Messages that arrive do not wait.
const TURN: Duration = Duration::from_millis(10);

/// Calls the agents of a fleet, chooses those that are wanted, and checks that they can be used
/// together.
///
/// # Errors
/// If the bus is closed; the inner error, if the agents cannot be used.
pub fn call_roll(
    bus: &dyn Bus,
    clock: &Clock,
    fleet: FleetName,
    version: Label,
    wanted: impl Into<Wanted>,
) -> Result<Result<Chosen, RollCallError>, BusError> {
    Ok(roll_call(bus, clock, fleet, version, wanted)?.into_fleet())
}

/// Calls the agents of a fleet.
///
/// # Errors
/// If the bus is closed.
pub fn roll_call(
    bus: &dyn Bus,
    clock: &Clock,
    fleet: FleetName,
    version: Label,
    wanted: impl Into<Wanted>,
) -> Result<RollCall, BusError> {
    let (sender, inbox) = sync_channel(INBOX_CAPACITY);
    let mut roll_call = RollCall::new(fleet, version, wanted, clock());
    bus.subscribe(&roll_call.subscription(), &sender)?;
    while !roll_call.has_ended(clock()) {
        for message in arrived(&inbox) {
            roll_call.on_message(&message);
        }
        roll_call.on_tick(clock());
        for message in roll_call.take_outgoing() {
            bus.publish(message)?;
        }
    }
    Ok(roll_call)
}

/// Visits agents. Their parts go to `take` as soon as they are complete, so that not those of all
/// agents are in memory at once. Returns what became of the agents without a part.
///
/// # Errors
/// If the bus is closed.
pub fn carry_out_visit(
    bus: &dyn Bus,
    clock: &Clock,
    mut visit: RunVisit,
    take: &mut dyn FnMut(AgentPart),
) -> Result<Vec<(AgentId, VisitOutcome)>, BusError> {
    let (sender, inbox) = sync_channel(INBOX_CAPACITY);
    bus.subscribe(visit.subscription(), &sender)?;
    while !visit.has_ended(clock()) {
        for message in arrived(&inbox) {
            visit.on_message(&message, clock());
        }
        visit.on_tick(clock());
        for message in visit.take_outgoing() {
            bus.publish(message)?;
        }
        visit.take_parts().into_iter().for_each(&mut *take);
    }
    let (parts, visited) = visit.into_outcome();
    parts.into_iter().for_each(take);
    Ok(visited)
}

/// Watches a run in progress.
pub trait Watcher {
    /// Called for each event, in their order.
    fn event(&mut self, event: &Event);

    /// Called every few milliseconds.
    fn turn(&mut self) {}

    /// Takes the part of an agent as soon as it is complete, so that not those of all agents are in
    /// memory at once. A part that is returned is in the outcome.
    fn part(&mut self, part: AgentPart, _course: &Course) -> Option<AgentPart> {
        Some(part)
    }
}

impl<F: FnMut(&Event)> Watcher for F {
    fn event(&mut self, event: &Event) {
        self(event);
    }
}

/// A run that is connected to a bus. If it is dropped before its end, the agents drop the run too.
pub struct ConnectedRun<'b> {
    /// `None` once it was carried out.
    run: Option<FleetRun>,
    bus: &'b dyn Bus,
    clock: Clock,
    inbox: Receiver<Message>,
    /// Those that the watcher has not taken.
    parts: Vec<AgentPart>,
}

impl<'b> ConnectedRun<'b> {
    /// Connects a run to the bus.
    ///
    /// # Errors
    /// If the bus is closed.
    pub fn new(run: FleetRun, bus: &'b dyn Bus, clock: Clock) -> Result<Self, BusError> {
        let (sender, inbox) = sync_channel(INBOX_CAPACITY);
        for subject in run.subscriptions() {
            bus.subscribe(&subject, &sender)?;
        }
        Ok(Self {
            run: Some(run),
            bus,
            clock,
            inbox,
            parts: Vec::new(),
        })
    }

    /// Has all agents prepare the run. [`Self::carry_out`] must follow within
    /// [`LEASE_NS`](crate::session::LEASE_NS), or the agents drop the run.
    ///
    /// # Errors
    /// If the bus is closed; the inner error, if an agent cannot prepare.
    pub fn prepare(
        &mut self,
        watcher: &mut dyn Watcher,
    ) -> Result<Result<(), FleetError>, BusError> {
        self.go_on_while(watcher, |run| !run.is_prepared())?;
        let Some(failure) = self.run.as_ref().and_then(FleetRun::failure).cloned() else {
            return Ok(Ok(()));
        };
        // The other agents must drop the run.
        self.go_on_while(watcher, |_| true)?;
        Ok(Err(failure))
    }

    /// Carries out the run. Setting `interrupted` ends it early, with the results until then.
    ///
    /// # Errors
    /// If the bus is closed.
    pub fn carry_out(
        mut self,
        interrupted: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<FleetOutcome, BusError> {
        self.go_on_while(watcher, |_| !interrupted.load(Ordering::Relaxed))?;
        if let Some(run) = self.run.as_mut().filter(|run| !run.has_ended()) {
            run.interrupt((self.clock)());
        }
        self.go_on_while(watcher, |_| true)?;
        let run = self.run.take().ok_or(BusError::Closed)?;
        let course = run.course();
        let mut outcome = run.into_outcome();
        if outcome.failure.is_none() {
            let last = std::mem::take(&mut outcome.parts).into_iter();
            let left = last.filter_map(|part| watcher.part(part, &course));
            outcome.parts = left.collect();
        }
        outcome.parts.append(&mut self.parts);
        outcome.parts.sort_by(|a, b| a.agent.cmp(&b.agent));
        Ok(outcome)
    }

    /// Goes on until the run has ended, or the condition does not hold.
    fn go_on_while(
        &mut self,
        watcher: &mut dyn Watcher,
        goes_on: impl Fn(&FleetRun) -> bool,
    ) -> Result<(), BusError> {
        let Some(run) = &mut self.run else {
            return Ok(());
        };
        while !run.has_ended() && goes_on(run) {
            for message in arrived(&self.inbox) {
                run.on_message(&message, (self.clock)());
            }
            run.on_tick((self.clock)());
            for message in run.take_outgoing() {
                self.bus.publish(message)?;
            }
            for event in run.take_events() {
                watcher.event(&event);
            }
            let complete = run.take_parts();
            if !complete.is_empty() {
                let course = run.course();
                let complete = complete.into_iter();
                let left = complete.filter_map(|part| watcher.part(part, &course));
                self.parts.extend(left);
            }
            watcher.turn();
        }
        Ok(())
    }
}

impl Drop for ConnectedRun<'_> {
    fn drop(&mut self) {
        if let Some(run) = self.run.as_mut().filter(|run| !run.has_ended()) {
            run.interrupt((self.clock)());
            // If the bus is closed, the agents drop the run when their lease lapses.
            let _ = self.go_on_while(&mut |_: &Event| {}, |_| true);
        }
    }
}

/// The messages that have arrived. Waits for the first one, but not longer than [`TURN`].
fn arrived(inbox: &Receiver<Message>) -> impl Iterator<Item = Message> {
    let first = inbox.recv_timeout(TURN).ok();
    first.into_iter().chain(inbox.try_iter())
}
