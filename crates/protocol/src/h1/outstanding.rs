//! The kinds of the requests that wait for their responses, oldest first.

use std::collections::VecDeque;

use crate::RequestKind;

/// A queue stored as runs of equal kinds. A load of one kind, however deep the pipeline, fits in
/// the first run and never allocates.
#[derive(Debug)]
pub(super) struct Outstanding {
    kind: RequestKind,
    /// Length of the first run. 0 if nothing is outstanding.
    run: u32,
    later: VecDeque<(RequestKind, u32)>,
}

impl Outstanding {
    pub(super) fn new() -> Self {
        Self {
            kind: RequestKind::Plain,
            run: 0,
            later: VecDeque::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.run = 0;
        self.later.clear();
    }

    #[inline]
    pub(super) fn push(&mut self, kind: RequestKind) {
        if self.run == 0 {
            self.kind = kind;
            self.run = 1;
        } else if self.later.is_empty() && self.kind == kind {
            self.run += 1;
        } else {
            self.push_later(kind);
        }
    }

    #[inline]
    pub(super) fn front(&self) -> Option<RequestKind> {
        (self.run > 0).then_some(self.kind)
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        self.run = self.run.saturating_sub(1);
        if self.run == 0
            && let Some((kind, run)) = self.later.pop_front()
        {
            self.kind = kind;
            self.run = run;
        }
    }

    fn push_later(&mut self, kind: RequestKind) {
        match self.later.back_mut() {
            Some((last, run)) if *last == kind => *run += 1,
            _ => self.later.push_back((kind, 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_returned_in_the_order_they_were_added() {
        use RequestKind::{Connect, Head, Plain};
        let kinds = [Plain, Plain, Head, Plain, Plain, Connect, Connect, Head];
        let mut queue = Outstanding::new();
        for round in 0..3 {
            kinds.iter().for_each(|kind| queue.push(*kind));
            for kind in kinds {
                assert_eq!(queue.front(), Some(kind), "round {round}");
                queue.pop();
            }
            assert_eq!(queue.front(), None);
        }
    }

    #[test]
    fn a_deep_pipeline_of_one_kind_allocates_nothing() {
        let mut queue = Outstanding::new();
        (0..100_000).for_each(|_| queue.push(RequestKind::Plain));
        assert_eq!(queue.later.capacity(), 0);
    }

    #[test]
    fn clearing_removes_every_run() {
        let mut queue = Outstanding::new();
        queue.push(RequestKind::Head);
        queue.push(RequestKind::Plain);
        queue.clear();
        queue.push(RequestKind::Plain);
        queue.pop();
        assert_eq!(queue.front(), None);
    }
}
