//! Requests that are due while their worker has no free connection go to a worker that has one.
//!
//! Each worker has a desk that all of them see. As long as every worker finds a connection for what is
//! due, nobody looks at another's desk: a worker only notes on its own how many connections are free. One
//! that has none hands requests over to those that have, and wakes them. One that gets a free connection
//! while others starve wakes these. The flags are written before the other side's are read, in one
//! total order on both sides, so that of two workers at least one sees the other.

use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What one worker shows to the others. On cache lines of its own: its owner writes to it in every turn.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Desk {
    /// Connections that are free and not yet promised.
    free: AtomicU32,
    /// A request is overdue here for want of a connection.
    is_starving: AtomicBool,
    /// The inbox is not empty.
    has_mail: AtomicBool,
    inbox: Mutex<Inbox>,
    /// A byte written here wakes the owner.
    bell: OnceLock<UnixStream>,
}

#[derive(Debug, Default)]
struct Inbox {
    /// Whoever has ended takes nothing any more.
    is_closed: bool,
    /// When the handed over requests were due.
    due_ns: Vec<u64>,
}

impl Desk {
    fn ring(&self) {
        if let Some(mut bell) = self.bell.get() {
            // A full bell rings already; of a worker that has gone nothing is wanted.
            let _ = bell.write(&[1]);
        }
    }

    fn inbox(&self) -> std::sync::MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The desks of all workers of a run.
#[derive(Debug, Clone)]
pub(crate) struct Desks(Arc<[Desk]>);

impl Desks {
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Desk::default()).collect())
    }

    /// The part of one worker.
    pub(crate) fn of(&self, worker: usize) -> Handover {
        Handover {
            desks: self.0.clone(),
            worker,
            next: worker,
            shown_free: 0,
            is_starving: false,
            adopted: VecDeque::new(),
        }
    }
}

/// In place of a number of free connections: it has to be shown again.
const UNKNOWN: u32 = u32::MAX;

/// One worker's side.
#[derive(Debug)]
pub(crate) struct Handover {
    desks: Arc<[Desk]>,
    worker: usize,
    /// Whom to ask first next time.
    next: usize,
    /// What the own desk says is free, but for promises of others.
    shown_free: u32,
    is_starving: bool,
    /// Requests taken over, by the moment they were due.
    adopted: VecDeque<u64>,
}

impl Handover {
    /// The far end of this worker's bell, for its loop to watch.
    pub(crate) fn hang_bell(&self) -> std::io::Result<OwnedFd> {
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        // A second bell would be a second worker of this number: there is none.
        let _ = self.desk().bell.set(near);
        Ok(far.into())
    }

    fn desk(&self) -> &Desk {
        &self.desks[self.worker]
    }

    /// When the oldest of the requests taken over was due.
    #[inline]
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        self.adopted.front().copied()
    }

    pub(crate) fn take_oldest(&mut self) {
        self.adopted.pop_front();
    }

    pub(crate) fn is_starving(&self) -> bool {
        self.is_starving
    }

    /// Takes what others have left on the desk.
    #[inline]
    pub(crate) fn take_mail(&mut self) {
        if self.desk().has_mail.load(Ordering::Acquire) {
            self.empty_inbox(false);
        }
    }

    fn empty_inbox(&mut self, closes: bool) {
        let desk = &self.desks[self.worker];
        let mut inbox = desk.inbox();
        inbox.is_closed |= closes;
        desk.has_mail.store(false, Ordering::Relaxed);
        self.adopted.extend(inbox.due_ns.drain(..));
        drop(inbox);
        self.adopted.make_contiguous().sort_unstable();
        // Promises were made of what was shown.
        self.shown_free = UNKNOWN;
    }

    /// Nothing more is taken; what was taken and not sent comes back.
    pub(crate) fn close(&mut self) -> VecDeque<u64> {
        self.empty_inbox(true);
        self.desk().free.store(0, Ordering::SeqCst);
        self.desk().is_starving.store(false, Ordering::SeqCst);
        std::mem::take(&mut self.adopted)
    }

    /// Shows how many connections are free at the end of a turn, and wakes those who starve when
    /// there are any for the first time.
    #[inline]
    pub(crate) fn show_free(&mut self, free: usize) {
        let free = u32::try_from(free).unwrap_or(UNKNOWN).min(UNKNOWN - 1);
        if free == self.shown_free {
            return;
        }
        let had_none = matches!(self.shown_free, 0 | UNKNOWN);
        self.shown_free = free;
        if !had_none || free == 0 {
            self.desk().free.store(free, Ordering::Relaxed);
            return;
        }
        self.desk().free.store(free, Ordering::SeqCst);
        for (index, desk) in self.desks.iter().enumerate() {
            if index != self.worker && desk.is_starving.load(Ordering::SeqCst) {
                desk.ring();
            }
        }
    }

    /// Says whether a request is overdue here for want of a connection.
    #[inline]
    pub(crate) fn show_starving(&mut self, is_starving: bool) {
        if is_starving != self.is_starving {
            self.is_starving = is_starving;
            let desk = self.desk();
            desk.is_starving.store(is_starving, Ordering::SeqCst);
        }
    }

    /// Hands overdue requests to others as long as they have connections: those taken over first, then
    /// those that `next` gives.
    pub(crate) fn hand_over(&mut self, mut next: impl FnMut() -> Option<u64>) {
        let workers = self.desks.len();
        for step in 0..workers {
            let index = (self.next + step) % workers;
            if index == self.worker {
                continue;
            }
            let desk = &self.desks[index];
            let free = desk.free.load(Ordering::SeqCst);
            if free == 0 {
                continue;
            }
            let mut inbox = desk.inbox();
            if inbox.is_closed {
                continue;
            }
            let mut given = 0;
            while given < free
                && let Some(due_ns) = self.adopted.pop_front().or_else(&mut next)
            {
                inbox.due_ns.push(due_ns);
                given += 1;
            }
            if given == 0 {
                return;
            }
            desk.has_mail.store(true, Ordering::Release);
            drop(inbox);
            let promised = |shown: u32| Some(shown.saturating_sub(given));
            // Its owner may have shown another number meanwhile: a promise too many is a request that waits there.
            let _ = desk
                .free
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, promised);
            desk.ring();
            self.next = index;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(list: &[u64]) -> impl FnMut() -> Option<u64> + '_ {
        let mut list = list.iter().copied();
        move || list.next()
    }

    #[test]
    fn a_worker_with_free_connections_gets_as_many_requests_as_it_has() {
        let desks = Desks::new(3);
        let (mut starved, mut rich, mut poor) = (desks.of(0), desks.of(1), desks.of(2));
        rich.show_free(2);
        poor.show_free(0);
        let mut left = dues(&[10, 20, 30]);
        starved.hand_over(&mut left);
        assert_eq!(left(), Some(30), "the third found no free connection");
        rich.take_mail();
        poor.take_mail();
        assert_eq!((rich.oldest_ns(), poor.oldest_ns()), (Some(10), None));
        rich.take_oldest();
        assert_eq!(rich.oldest_ns(), Some(20));
        // What is promised is not given twice.
        let mut more = dues(&[40]);
        starved.hand_over(&mut more);
        assert_eq!(more(), Some(40));
    }

    #[test]
    fn what_was_taken_over_and_cannot_be_sent_goes_on_before_anything_of_ones_own() {
        let desks = Desks::new(3);
        let (mut first, mut second, mut third) = (desks.of(0), desks.of(1), desks.of(2));
        second.show_free(1);
        first.hand_over(dues(&[10]));
        second.take_mail();
        third.show_free(1);
        let mut own = dues(&[5]);
        second.hand_over(&mut own);
        third.take_mail();
        assert_eq!((third.oldest_ns(), own()), (Some(10), Some(5)));
    }

    #[test]
    fn who_has_ended_takes_nothing_and_gives_back_what_it_had() {
        let desks = Desks::new(2);
        let (mut first, mut second) = (desks.of(0), desks.of(1));
        second.show_free(5);
        first.hand_over(dues(&[30, 10]));
        assert_eq!(second.close(), [10, 30]);
        second.show_free(5);
        let mut more = dues(&[40]);
        first.hand_over(&mut more);
        assert_eq!(more(), Some(40));
    }

    /// Whichever comes first, the starving or the free connection, one of the two wakes the other.
    #[test]
    fn a_free_connection_that_comes_later_wakes_those_who_starve() {
        use std::io::Read;
        let desks = Desks::new(2);
        let (mut first, mut second) = (desks.of(0), desks.of(1));
        let mut bell = UnixStream::from(first.hang_bell().expect("a pair"));
        bell.set_nonblocking(true).expect("a socket");
        first.show_starving(true);
        first.hand_over(dues(&[10]));
        assert!(bell.read(&mut [0]).is_err(), "nobody has a connection yet");
        second.show_free(1);
        assert_eq!(bell.read(&mut [0; 8]).expect("a byte"), 1);
        // Only the first free connection is news.
        second.show_free(2);
        assert!(bell.read(&mut [0]).is_err());
    }
}
