//! Deadlines of a worker's connections.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use eventloop::Token;

/// Deadlines cannot be cancelled: a connection must check whether there is anything to do.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

impl Timers {
    pub(crate) fn add(&mut self, at_ns: u64, token: Token) {
        self.heap
            .push(Reverse((at_ns, token.index, token.generation)));
    }

    /// The earliest deadline, passed or not; `None` without any.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    /// Removes one deadline that has passed.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<Token> {
        if self.next_ns()? > now_ns {
            return None;
        }
        let Reverse((_, index, generation)) = self.heap.pop()?;
        Some(Token { index, generation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_come_in_order_and_not_early() {
        let mut timers = Timers::default();
        for (at_ns, index) in [(30, 3), (10, 1), (20, 2)] {
            timers.add(
                at_ns,
                Token {
                    index,
                    generation: 0,
                },
            );
        }
        assert_eq!(timers.next_ns(), Some(10));
        assert_eq!(timers.pop_due(9), None);
        assert_eq!(timers.pop_due(20).map(|token| token.index), Some(1));
        assert_eq!(timers.pop_due(20).map(|token| token.index), Some(2));
        assert_eq!(timers.pop_due(20), None);
    }
}
