//! Connections over datagrams that move to a new local port from time to time
//! (`--local-port-rebind`). The session goes on: only its socket is replaced.

use super::{StopReason, Worker};
use crate::error_kinds;
use eventloop::{CloseMode, EventLoop, SocketEvent};
use protocol::{Session, Transport};

/// No move is due.
pub(crate) const NEVER: u64 = u64::MAX;

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// The connection may move from now on. QUIC does not allow that before the handshake (RFC 9000
    /// section 9).
    pub(super) fn note_movable(&mut self, key: u32, now_ns: u64) {
        if S::TRANSPORT == Transport::Stream {
            return;
        }
        if let Some(every_ns) = self.settings.moves_every_ns() {
            let due_ns = now_ns.saturating_add(every_ns);
            self.pool.connections[key as usize].move_ns = due_ns;
            self.pool.moves.set(key, due_ns);
        }
    }

    /// Opens new sockets for the connections that are due to move.
    pub(super) fn move_due(&mut self, now_ns: u64) {
        while let Some(key) = self.pool.moves.take_due(now_ns) {
            let connection = &mut self.pool.connections[key as usize];
            match connection.move_ns {
                NEVER => {}
                // It was opened again since the entry was made.
                due_ns if due_ns > now_ns => self.pool.moves.set(key, due_ns),
                _ => {
                    connection.move_ns = NEVER;
                    let address = connection.address;
                    let options = self.socket_options(key);
                    let token = self.connect(key, address, &options);
                    self.pool.connections[key as usize].moves_to = Some(token);
                }
            }
        }
    }

    /// Handles an event of the socket to which the connection moves. Until it is connected, the old
    /// one is used.
    pub(super) fn on_event_of_move(
        &mut self,
        key: u32,
        event: SocketEvent,
        at_ns: u64,
    ) -> Result<(), StopReason> {
        let connection = &mut self.pool.connections[key as usize];
        let token = connection.moves_to.take();
        match event {
            SocketEvent::Connected => {
                let left = std::mem::replace(&mut connection.token, token);
                // The old socket does not say any more what it has sent.
                connection.sending = 0;
                let moved = connection.session.on_moved(&mut self.session_shared);
                if let Some(left) = left {
                    self.io.close(left, CloseMode::Graceful);
                }
                self.note_unflushed(key);
                match moved {
                    Ok(()) => self.note_movable(key, at_ns),
                    Err(error) => self.fail_session(key, &error, at_ns),
                }
            }
            SocketEvent::ConnectFailed(errno) => {
                self.fail(key, error_kinds::of_connect(errno), at_ns);
            }
            // Nothing else comes before these.
            _ => connection.moves_to = token,
        }
        Ok(())
    }
}
