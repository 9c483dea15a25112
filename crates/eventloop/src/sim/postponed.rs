//! A limit on how often bytes can be read between two waits, as that of io_uring's buffers.

use super::{LoopState, Ready, World};
use crate::{Completion, SocketEvent, Token};

impl LoopState {
    /// Takes the next completion. Without a buffer for its bytes, it is only announced, and the
    /// next wait finds it.
    pub(super) fn take_with_buffer(&mut self, buffers: usize) -> Option<Ready> {
        loop {
            let ready = self.ready.pop_front()?;
            let token = ready.completion.token;
            let is_read = matches!(ready.completion.event, SocketEvent::Received(_));
            let is_behind =
                is_arrival_of_bytes_or_end(&ready.completion.event) && self.is_postponed(token);
            if !is_behind && (!is_read || self.reads < buffers) {
                self.reads += usize::from(is_read);
                return Some(ready);
            }
            let announced = Ready {
                completion: Completion {
                    event: SocketEvent::Postponed,
                    key: ready.completion.key,
                    token,
                    at_ns: ready.completion.at_ns,
                },
                bytes: Vec::new(),
                segment: None,
                delay_ns: None,
            };
            self.postponed.push(ready);
            if !is_behind {
                return Some(announced);
            }
        }
    }

    fn is_postponed(&self, token: Token) -> bool {
        let mut postponed = self.postponed.iter();
        postponed.any(|ready| ready.completion.token == token)
    }

    /// A wait begins at this time, and all buffers are free again.
    fn find_postponed(&mut self, now_ns: u64) {
        self.reads = 0;
        self.ready.extend(self.postponed.drain(..).map(|mut ready| {
            let found_ns = std::mem::replace(&mut ready.completion.at_ns, now_ns);
            let since_ns = now_ns.saturating_sub(found_ns);
            ready.delay_ns = ready.delay_ns.map(|it| it.saturating_add(since_ns));
            ready
        }));
    }
}

impl<P> World<P> {
    pub(super) fn find_postponed(&mut self, owner: usize) {
        let now_ns = self.clock_ns;
        self.loops[owner].find_postponed(now_ns);
    }
}

fn is_arrival_of_bytes_or_end(event: &SocketEvent) -> bool {
    matches!(
        event,
        SocketEvent::Received(_) | SocketEvent::EndOfStream | SocketEvent::ReceiveFailed(_)
    )
}
