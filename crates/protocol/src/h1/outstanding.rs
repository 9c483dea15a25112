//! The requests that wait for their responses, oldest first.

use std::collections::VecDeque;

use crate::{ExchangeId, RequestKind};

/// A queue stored as runs of requests that are alike. A batch of one kind fits in the first run and
/// never allocates.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// Its length is 0 if nothing is outstanding.
    first: Run,
    later: VecDeque<Run>,
}

/// Consecutive requests of one exchange and one kind.
#[derive(Debug, Clone, Copy)]
struct Run {
    exchange: ExchangeId,
    kind: RequestKind,
    length: u32,
}

impl Outstanding {
    pub(super) fn new() -> Self {
        Self {
            first: Run {
                exchange: ExchangeId(0),
                kind: RequestKind::Plain,
                length: 0,
            },
            later: VecDeque::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.first.length = 0;
        self.later.clear();
    }

    #[inline]
    pub(super) fn push(&mut self, exchange: ExchangeId, kind: RequestKind) {
        let run = Run {
            exchange,
            kind,
            length: 1,
        };
        if self.first.length == 0 {
            self.first = run;
            return;
        }
        let last = self.later.back_mut().unwrap_or(&mut self.first);
        if (last.exchange, last.kind) == (exchange, kind) {
            last.length += 1;
        } else {
            self.later.push_back(run);
        }
    }

    /// The oldest request: its exchange and its kind.
    #[inline]
    pub(super) fn front(&self) -> Option<(ExchangeId, RequestKind)> {
        (self.first.length > 0).then_some((self.first.exchange, self.first.kind))
    }

    /// Removes the oldest request. Returns its exchange.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<ExchangeId> {
        let (exchange, _) = self.front()?;
        self.first.length -= 1;
        if self.first.length == 0
            && let Some(run) = self.later.pop_front()
        {
            self.first = run;
        }
        Some(exchange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RequestKind::{Connect, Head, Plain};

    #[test]
    fn requests_are_returned_in_the_order_they_were_added() {
        let kinds = [Plain, Plain, Head, Plain, Plain, Connect, Connect, Head];
        let mut queue = Outstanding::new();
        for round in 0..3 {
            // Two to an exchange.
            let requests = (0..).map(|number| ExchangeId(number / 2)).zip(kinds);
            for (exchange, kind) in requests.clone() {
                queue.push(exchange, kind);
            }
            for (exchange, kind) in requests {
                assert_eq!(queue.front(), Some((exchange, kind)), "round {round}");
                assert_eq!(queue.pop(), Some(exchange));
            }
            assert_eq!(queue.front(), None);
            assert_eq!(queue.pop(), None);
        }
    }

    #[test]
    fn a_deep_pipeline_of_one_kind_allocates_nothing() {
        let mut queue = Outstanding::new();
        (0..100_000).for_each(|_| queue.push(ExchangeId(3), Plain));
        assert_eq!(queue.later.capacity(), 0);
    }

    #[test]
    fn clearing_removes_every_run() {
        let mut queue = Outstanding::new();
        queue.push(ExchangeId(0), Head);
        queue.push(ExchangeId(1), Plain);
        queue.clear();
        queue.push(ExchangeId(2), Plain);
        assert_eq!(queue.pop(), Some(ExchangeId(2)));
        assert_eq!(queue.front(), None);
    }
}
