//! Requests to several hosts: each slot has a connection to every host.
//!
//! A slot has as many requests in flight as one connection of a run with one host, and its next
//! request goes to whichever host the order says. So the mix of hosts is that of the file, even if
//! one of them is slower. A request waits until its connection is open.

use super::pool::ConnectionPool;
use super::sender::RequestSender;
use super::writer::{Chosen, Sending};
use super::{Phase, StopReason, Worker};
use crate::connection::Connection;
use crate::shared_schedule::Claim;
use eventloop::EventLoop;
use protocol::Session;
use std::collections::VecDeque;

/// A request that has a connection, but is not sent yet.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    chosen: Chosen,
    /// `None` in a closed loop.
    due_ns: Option<u64>,
}

/// The slots of a worker. The connections of slot 0 to all hosts have the first keys, those of
/// slot 1 follow.
pub(super) struct Slots {
    hosts: u32,
    /// By key of the connection.
    waiting: Vec<VecDeque<Waiting>>,
    waiting_total: u64,
    /// At a fixed rate: the slots that can take a request, the one that has been free longest
    /// first.
    free: VecDeque<u32>,
    /// By slot: since when it is free, if it is, and how much earlier it would be free if the load
    /// generator had never been late.
    free_since_ns: Vec<Option<(u64, u64)>>,
}

impl Slots {
    /// `None` if there is only one host.
    pub(super) fn new(slots: u32, hosts: u32) -> Option<Self> {
        (hosts > 1).then(|| Self {
            hosts,
            waiting: vec![VecDeque::new(); slots as usize * hosts as usize],
            waiting_total: 0,
            free: VecDeque::new(),
            free_since_ns: vec![None; slots as usize],
        })
    }

    /// The keys of a slot's connections.
    fn keys(&self, slot: u32) -> std::ops::Range<u32> {
        slot * self.hosts..(slot + 1) * self.hosts
    }

    /// Number of requests that wait for a connection.
    pub(super) fn waiting_total(&self) -> u64 {
        self.waiting_total
    }

    /// Whether requests wait for this connection.
    pub(super) fn awaits(&self, key: u32) -> bool {
        let waiting = self.waiting.get(key as usize);
        waiting.is_some_and(|waiting| !waiting.is_empty())
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Forgets the requests that wait, and calls `note` with the times at which they were due.
    pub(super) fn give_up(&mut self, mut note: impl FnMut(u64)) {
        self.waiting_total = 0;
        for waiting in self.waiting.iter_mut().flat_map(|it| it.drain(..)) {
            if let Some(due_ns) = waiting.due_ns {
                note(due_ns);
            }
        }
    }

    fn add(&mut self, key: u32, waiting: Waiting) {
        self.waiting[key as usize].push_back(waiting);
        self.waiting_total += 1;
    }

    fn take(&mut self, key: u32) -> Option<Waiting> {
        let waiting = self.waiting[key as usize].pop_front()?;
        self.waiting_total -= 1;
        Some(waiting)
    }
}

impl<S: Session> RequestSender<S> {
    /// How many more requests a slot can have in flight.
    fn slot_room(&self, pool: &ConnectionPool<S>, slot: u32) -> u32 {
        let Some(slots) = &self.slots else { return 0 };
        let taken = slots.keys(slot).map(|key| {
            let outstanding = pool[key].exchanges.outstanding();
            outstanding + slots.waiting[key as usize].len() as u32
        });
        self.pipeline.saturating_sub(taken.sum())
    }

    /// At a fixed rate: since when a request could have been sent on a connection of this slot.
    fn note_free(&self, connection: &mut Connection<S>, slot: u32) {
        let slots = self.slots.as_ref();
        let since_ns = slots.and_then(|it| it.free_since_ns[slot as usize]);
        let (free_ns, own_ns) = since_ns.unwrap_or_default();
        connection.free_ns = free_ns.max(connection.since_ns);
        connection.own_ns = own_ns;
    }

    /// At a fixed rate: adds a slot to the free ones, if it has room and is not one of them.
    /// `since_ns` is what [`Slots`] keeps of it.
    fn offer_slot(&mut self, pool: &ConnectionPool<S>, slot: u32, since_ns: (u64, u64)) {
        if self.slot_room(pool, slot) == 0 {
            return;
        }
        if let Some(slots) = &mut self.slots
            && slots.free_since_ns[slot as usize].is_none()
        {
            slots.free_since_ns[slot as usize] = Some(since_ns);
            slots.free.push_back(slot);
        }
    }

    /// Whether a request that is due can be taken.
    pub(super) fn has_free(&self, pool: &ConnectionPool<S>) -> bool {
        match &self.slots {
            None => pool.has_free(),
            Some(slots) => slots.has_free(),
        }
    }
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// Something has happened on a connection: sends what waits for it and what its slot can take.
    pub(super) fn continue_slot(&mut self, key: u32, now_ns: u64) -> Result<(), StopReason> {
        let may_send = !self.network.opening.is_holding() && self.phase != Phase::Drain;
        if self.sender.slots.is_none() || self.network.pool.is_idle(key) || !may_send {
            return Ok(());
        }
        self.send_waiting(key)?;
        let (slot, _) = self.network.slot_and_host(key);
        if self.sender.is_paced() {
            let own_ns = self.network.pool[key].own_ns;
            self.sender
                .offer_slot(&self.network.pool, slot, (now_ns, own_ns));
            return self.send_due(now_ns);
        }
        while self.sender.slot_room(&self.network.pool, slot) > 0 && self.may_choose() {
            let Some(chosen) = self.sender.writer.choose(slot) else {
                break;
            };
            self.add_to_slot(slot, chosen, None)?;
        }
        Ok(())
    }

    /// In a closed loop: whether a further request may be chosen.
    fn may_choose(&self) -> bool {
        let waiting = self.sender.slots.as_ref().map_or(0, Slots::waiting_total);
        let in_window = self.network.io.now_ns() >= self.times.measure_ns;
        !self.accounting.stall.stops_sending && (!in_window || self.sender.budget > waiting)
    }

    fn add_to_slot(
        &mut self,
        slot: u32,
        chosen: Chosen,
        due_ns: Option<u64>,
    ) -> Result<(), StopReason> {
        let Some(slots) = &mut self.sender.slots else {
            return Ok(());
        };
        let key = slots.keys(slot).start + chosen.host;
        slots.add(key, Waiting { chosen, due_ns });
        self.send_waiting(key)
    }

    /// Sends the requests that wait for a connection, as far as it can take them.
    fn send_waiting(&mut self, key: u32) -> Result<(), StopReason> {
        while self.network.pool.has_room(key) {
            let now_ns = self.network.io.now_ns();
            let Some(waiting) = self.sender.slots.as_mut().and_then(|slots| slots.take(key)) else {
                break;
            };
            let in_window = now_ns >= self.times.measure_ns;
            if waiting.due_ns.is_none() && in_window && self.sender.budget == 0 {
                // It was chosen during the warm-up.
                continue;
            }
            if waiting.due_ns.is_some() {
                let (slot, _) = self.network.slot_and_host(key);
                self.sender.note_free(&mut self.network.pool[key], slot);
            }
            self.send_one(key, waiting, now_ns)?;
        }
        Ok(())
    }

    fn send_one(&mut self, key: u32, waiting: Waiting, now_ns: u64) -> Result<(), StopReason> {
        let Waiting { chosen, due_ns } = waiting;
        let trace = self.sender.next_trace();
        if self.sender.per_client || trace.is_some() {
            return self.send_for_client(key, Some(chosen), due_ns, trace);
        }
        let Some(sending) = Sending::on(&mut self.network, key, due_ns) else {
            return Ok(());
        };
        let sent = self.sender.writer.send_chosen(sending, chosen, now_ns);
        self.note_sent(key, &sent, due_ns);
        self.note_names(due_ns.unwrap_or(sent.at_ns));
        Ok(())
    }

    /// Gives a claimed request to the slot that has been free longest.
    pub(super) fn send_claimed_to_slot(&mut self, claim: Claim) -> Result<(), StopReason> {
        self.sender.writer.claim(claim.number);
        let slots = self.sender.slots.as_mut();
        let slot = slots.and_then(|slots| slots.free.front().copied());
        let Some(slot) = slot else {
            return Ok(());
        };
        let Some(chosen) = self.sender.writer.choose(slot) else {
            return Ok(());
        };
        self.add_to_slot(slot, chosen, Some(claim.due_ns))?;
        self.sender
            .stretch
            .note_sent(self.accounting.watch.now_ns());
        let slots = self.sender.slots.as_mut();
        let since_ns = slots.and_then(|slots| {
            slots.free.pop_front();
            slots.free_since_ns[slot as usize].take()
        });
        let since_ns = since_ns.unwrap_or((claim.due_ns, 0));
        self.sender.offer_slot(&self.network.pool, slot, since_ns);
        Ok(())
    }
}
