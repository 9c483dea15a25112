//! Timers of one worker: when each connection must be checked again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// At most one valid entry per connection. To move a deadline further away costs nothing: the entry
/// fires at its old time, and the owner sees that nothing is due yet and sets it again. A request
/// that is answered in time never touches the heap.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// When the valid entry of each connection fires. `NEVER` without one.
    set_ns: Vec<u64>,
}

const NEVER: u64 = u64::MAX;

impl Timers {
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            heap: BinaryHeap::with_capacity(connections),
            set_ns: vec![NEVER; connections],
        }
    }

    /// Ensures that the connection is checked at `due_ns` or earlier.
    #[inline]
    pub(crate) fn set(&mut self, connection: u32, due_ns: u64) {
        let set_ns = &mut self.set_ns[connection as usize];
        if due_ns < *set_ns {
            *set_ns = due_ns;
            self.heap.push(Reverse((due_ns, connection)));
        }
    }

    /// When the next entry fires.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    /// Takes one connection whose entry has fired by `now_ns`.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<u32> {
        loop {
            let Reverse((due_ns, connection)) = *self.heap.peek()?;
            if due_ns > now_ns {
                return None;
            }
            self.heap.pop();
            // An entry that was replaced by an earlier one is no longer valid.
            if self.set_ns[connection as usize] == due_ns {
                self.set_ns[connection as usize] = NEVER;
                return Some(connection);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fire_in_order_of_time_and_once() {
        let mut timers = Timers::new(3);
        timers.set(2, 30);
        timers.set(0, 10);
        timers.set(1, 20);
        assert_eq!(timers.next_ns(), Some(10));
        assert_eq!(timers.take_due(5), None);
        assert_eq!(timers.take_due(20), Some(0));
        assert_eq!(timers.take_due(20), Some(1));
        assert_eq!(timers.take_due(20), None);
        assert_eq!(timers.take_due(30), Some(2));
        assert_eq!(timers.next_ns(), None);
    }

    #[test]
    fn a_later_deadline_is_left_to_the_earlier_entry() {
        let mut timers = Timers::new(1);
        timers.set(0, 10);
        timers.set(0, 50);
        assert_eq!(timers.take_due(100), Some(0));
        assert_eq!(timers.take_due(100), None);
    }

    #[test]
    fn an_earlier_deadline_replaces_the_later_entry() {
        let mut timers = Timers::new(1);
        timers.set(0, 50);
        timers.set(0, 10);
        assert_eq!(timers.take_due(10), Some(0));
        timers.set(0, 50);
        assert_eq!(timers.take_due(60), Some(0));
        assert_eq!(timers.take_due(60), None);
    }
}
