//! The real kernel and the real clocks.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::sampling_loop::{Clock, SocketSource, Wake, Window};
use crate::clock;
use crate::counters::Counters;
use crate::sockets::{Destroyed, Diag, Filter, Socket, TcpState};

/// Sockets as the kernel reports them over netlink.
#[derive(Debug)]
pub(super) struct NetlinkSockets {
    filter: Filter,
    /// The same filter for all states.
    any_state: Filter,
    diag: Diag,
    /// `None` if the kernel does not report closed sockets.
    destroyed: Option<Destroyed>,
}

impl NetlinkSockets {
    /// Opens everything and takes a first dump, so that problems are known before the load. Also
    /// returns the reason if closed sockets are not reported.
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

    /// A connection that carried any data has been established.
    fn counts_unseen(&self) -> bool {
        self.filter.states().has(TcpState::Established)
    }

    fn overflows(&self) -> u64 {
        self.destroyed.as_ref().map_or(0, Destroyed::overflows)
    }
}

/// The system's clocks; dropping the sender ends waits, and what it sends moves the window.
#[derive(Debug)]
pub(super) struct SystemClock {
    pub(super) windows: Receiver<Window>,
}

impl Clock for SystemClock {
    fn now_ns(&mut self) -> u64 {
        // All Linux kernels have this clock.
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
        match self.windows.recv_timeout(left) {
            Ok(window) => Wake::Moved(window),
            Err(RecvTimeoutError::Timeout) => Wake::Due,
            Err(RecvTimeoutError::Disconnected) => Wake::Ended,
        }
    }

    fn settle(&mut self, until_ns: u64) {
        std::thread::park_timeout(Duration::from_nanos(until_ns.saturating_sub(self.now_ns())));
    }

    fn counters(&mut self) -> Counters {
        Counters::now()
    }
}
