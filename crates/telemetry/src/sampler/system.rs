//! The real kernel and the real clocks.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::sampling_loop::{Clock, SocketSource, Wake};
use crate::clock;
use crate::counters::Counters;
use crate::sockets::{Destroyed, Diag, Filter, Socket, State};

/// Sockets over netlink.
#[derive(Debug)]
pub(super) struct NetlinkSockets {
    filter: Filter,
    /// The same without states.
    any_state: Filter,
    diag: Diag,
    /// `None` where the kernel does not tell.
    destroyed: Option<Destroyed>,
}

impl NetlinkSockets {
    /// Opens all that is needed and asks once, so that what cannot work is known before the load. With it the
    /// reason why closed sockets are not told, if they are not.
    pub(super) fn open(filter: Filter) -> io::Result<(Self, Option<io::Error>)> {
        let mut diag = Diag::open()?;
        diag.dump(&filter, &mut Vec::new())?;
        let (destroyed, why_not) = match Destroyed::subscribe() {
            Ok(destroyed) => (Some(destroyed), None),
            Err(error) => (None, Some(error)),
        };
        let netlink = Self {
            any_state: filter.in_any_state(),
            filter,
            diag,
            destroyed,
        };
        Ok((netlink, why_not))
    }
}

impl SocketSource for NetlinkSockets {
    fn dump_any_state(&mut self, sockets: &mut Vec<Socket>) -> io::Result<()> {
        self.diag.dump(&self.any_state, sockets)
    }

    fn dump(&mut self, sockets: &mut Vec<Socket>) -> io::Result<()> {
        self.diag.dump(&self.filter, sockets)
    }

    fn takes(&self, socket: &Socket) -> bool {
        self.filter.takes(socket)
    }

    fn closed(&mut self, sockets: &mut Vec<Socket>) -> io::Result<()> {
        match &mut self.destroyed {
            Some(destroyed) => destroyed.read(&self.filter, sockets),
            None => Ok(()),
        }
    }

    /// Every connection that carries anything has been established.
    fn counts_unseen(&self) -> bool {
        self.filter.states().has(State::Established)
    }

    fn overflows(&self) -> u64 {
        self.destroyed.as_ref().map_or(0, Destroyed::overflows)
    }
}

/// The clocks of this system; who holds the sender ends waits by dropping it.
#[derive(Debug)]
pub(super) struct SystemClock<T> {
    pub(super) end: Receiver<T>,
}

impl<T> Clock for SystemClock<T> {
    fn now_ns(&mut self) -> u64 {
        // Every Linux has this clock.
        clock::monotonic_ns().unwrap_or(u64::MAX)
    }

    fn unix_ms(&mut self) -> i64 {
        clock::unix_ms().unwrap_or_default()
    }

    fn cpu_ns(&mut self) -> Option<u64> {
        clock::thread_cpu_ns()
    }

    fn wait(&mut self, until_ns: u64) -> Wake {
        let left = Duration::from_nanos(until_ns.saturating_sub(self.now_ns()));
        match self.end.recv_timeout(left) {
            Err(RecvTimeoutError::Timeout) => Wake::Due,
            Ok(_) | Err(RecvTimeoutError::Disconnected) => Wake::Ended,
        }
    }

    fn settle(&mut self, until_ns: u64) {
        std::thread::park_timeout(Duration::from_nanos(until_ns.saturating_sub(self.now_ns())));
    }

    fn counters(&mut self) -> Counters {
        Counters::now()
    }
}
