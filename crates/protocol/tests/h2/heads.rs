//! A decoder with a memory returns what one without a memory returns, and decodes less.

use std::cell::Cell;

use proptest::prelude::*;
use protocol::h2::error::Violation;
use protocol::h2::heads::{HeadDecoder, Heads};
use protocol::h2::hpack::{Decoder, Effect, Excess, Limits};

use crate::blocks::{Block, NEWEST, Pairs, any_block, decode, like_nginx, pairs};

/// A connection that is decoded twice, with and without a memory.
struct Connection {
    with: HeadDecoder<(Pairs, Option<Excess>)>,
    without: Decoder,
}

/// Connections with a common memory.
struct Worker {
    heads: Heads<(Pairs, Option<Excess>)>,
    connections: Vec<Connection>,
    /// Blocks that were decoded instead of recognised.
    decoded: Cell<usize>,
}

impl Worker {
    fn new(connections: usize) -> Self {
        let heads = Heads::new(Limits::default());
        let connection = |_| Connection {
            with: HeadDecoder::new(&heads),
            without: Decoder::new(Limits::default()),
        };
        Self {
            connections: (0..connections).map(connection).collect(),
            heads,
            decoded: Cell::new(0),
        }
    }

    /// Reads a block in both ways and compares the results. An error ends the connection.
    fn read(&mut self, connection: usize, block: &[u8]) -> Result<Pairs, Violation> {
        let Connection { with, without } = &mut self.connections[connection];
        let remembered = with.read(&mut self.heads, block, |fields, effect: Effect| {
            self.decoded.set(self.decoded.get() + 1);
            (pairs(fields), effect.oversized)
        });
        let plain = decode(without, block).map(|(fields, effect)| (fields, effect.oversized));
        assert_eq!(remembered, plain, "{block:02x?}");
        plain.map(|(fields, _)| fields)
    }

    /// Compares the dynamic tables, entry by entry, and returns how many entries there are.
    fn compare_tables(&mut self, connection: usize) -> usize {
        let entry = |index| Block::default().indexed(index).0;
        (NEWEST..)
            .take_while(|index| self.read(connection, &entry(*index)).is_ok())
            .count()
    }
}

#[test]
fn a_block_with_insertions_and_without_references_is_decoded_once_for_all_connections() {
    let mut worker = Worker::new(3);
    for _ in 0..1000 {
        for connection in 0..3 {
            worker.read(connection, &like_nginx("now").0).unwrap();
        }
    }
    assert_eq!(worker.decoded.get(), 1);
    for connection in 0..3 {
        assert!(worker.compare_tables(connection) > 40, "the table is full");
    }
}

#[test]
fn a_reference_after_recognised_blocks_finds_their_insertions() {
    let mut worker = Worker::new(1);
    for date in ["one", "two", "one", "two", "two"] {
        worker.read(0, &like_nginx(date).0).unwrap();
    }
    assert_eq!(worker.decoded.get(), 2);
    // Of five insertions the date is the second.
    let dates = |worker: &mut Worker, block| {
        worker
            .read(0, &Block::default().indexed(NEWEST + 3 + 5 * block).0)
            .unwrap()
    };
    let expected = ["two", "two", "one", "two", "one"];
    for (block, date) in expected.into_iter().enumerate() {
        assert_eq!(dates(&mut worker, block), [("date".into(), date.into())]);
    }
    assert_eq!(worker.compare_tables(0), 25);
}

#[test]
fn a_block_with_references_is_recognised_until_the_table_changes() {
    let mut worker = Worker::new(1);
    let referring = Block::default().indexed(8).indexed(NEWEST).0;
    worker
        .read(0, &Block::default().inserted("date", "one").0)
        .unwrap();
    for _ in 0..10 {
        worker.read(0, &referring).unwrap();
    }
    assert_eq!(worker.decoded.get(), 2);
    worker
        .read(0, &Block::default().inserted("date", "two").0)
        .unwrap();
    assert_eq!(worker.read(0, &referring).unwrap()[1].1, "two");
    // A recognised block changes the table as well.
    worker
        .read(0, &Block::default().inserted("date", "one").0)
        .unwrap();
    assert_eq!(worker.decoded.get(), 4);
    assert_eq!(worker.read(0, &referring).unwrap()[1].1, "one");
}

#[test]
fn a_block_with_references_means_something_else_on_another_connection() {
    let mut worker = Worker::new(2);
    let referring = Block::default().indexed(NEWEST).0;
    worker
        .read(0, &Block::default().inserted("a", "of 0").0)
        .unwrap();
    worker
        .read(1, &Block::default().inserted("a", "of 1").0)
        .unwrap();
    for _ in 0..2 {
        assert_eq!(worker.read(0, &referring).unwrap()[0].1, "of 0");
        assert_eq!(worker.read(1, &referring).unwrap()[0].1, "of 1");
    }
}

#[test]
fn a_table_of_size_0_stays_empty_however_often_a_block_inserts() {
    let mut worker = Worker::new(1);
    worker.connections[0].with.set_capacity_max(0);
    worker.connections[0].without.set_capacity_max(0);
    worker.read(0, &Block::default().size(0).0).unwrap();
    for _ in 0..10 {
        worker.read(0, &like_nginx("now").0).unwrap();
    }
    assert_eq!(worker.decoded.get(), 2);
    assert_eq!(worker.compare_tables(0), 0);
}

#[test]
fn a_known_block_does_not_hide_that_a_due_size_is_missing() {
    let mut worker = Worker::new(1);
    let block = Block::default().indexed(8).0;
    worker.read(0, &block).unwrap();
    worker.connections[0].with.set_capacity_max(100);
    worker.connections[0].without.set_capacity_max(100);
    worker.read(0, &block).unwrap_err();
}

#[test]
fn insertions_before_a_smaller_setting_are_made_before_it() {
    let mut worker = Worker::new(1);
    let block = Block::default().inserted("a", "b").0;
    worker.read(0, &block).unwrap();
    worker.read(0, &block).unwrap();
    worker.connections[0].with.set_capacity_max(40);
    worker.connections[0].without.set_capacity_max(40);
    worker.read(0, &Block::default().size(40).0).unwrap();
    assert_eq!(worker.compare_tables(0), 1);
}

#[test]
fn more_blocks_than_are_remembered_are_all_decoded_correctly() {
    let mut worker = Worker::new(2);
    for round in 0..5 {
        for date in 0..40 {
            worker
                .read(round % 2, &like_nginx(&date.to_string()).0)
                .unwrap();
        }
    }
    assert_eq!(worker.compare_tables(0), worker.compare_tables(1));
}

/// What happens on a connection.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// The block with this number arrives.
    Block(usize),
    /// The acknowledgement of SETTINGS_HEADER_TABLE_SIZE with this value arrives.
    Setting(u32),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        40 => (0_usize..8).prop_map(Action::Block),
        1 => (0_u32..5000).prop_map(Action::Setting),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_blocks_means_the_same_with_and_without_a_memory(
        blocks in prop::collection::vec(any_block(), 8),
        actions in prop::collection::vec((0_usize..3, action()), 0..150),
    ) {
        let mut worker = Worker::new(3);
        let mut failed = [false; 3];
        for (connection, action) in actions {
            if failed[connection] {
                continue;
            }
            match action {
                Action::Block(block) => {
                    failed[connection] = worker.read(connection, &blocks[block]).is_err();
                }
                Action::Setting(bytes) => {
                    worker.connections[connection].with.set_capacity_max(bytes);
                    worker.connections[connection].without.set_capacity_max(bytes);
                }
            }
        }
        for connection in (0..3).filter(|connection| !failed[*connection]) {
            worker.compare_tables(connection);
        }
    }
}
