//! Decoding of heads with a memory: a header block that has arrived before is not decoded again.
//!
//! Servers under load send few different blocks. Equal bytes alone do not mean equal fields,
//! because a block may refer to entries that earlier blocks inserted into the dynamic table. So
//! there are two kinds of known blocks:
//!
//! - A block without such references means the same on every connection, whatever the table holds.
//!   It may insert entries all the same: nginx does so with every response, and never refers to
//!   them. A known block is therefore only noted when it arrives again, and its insertions are made
//!   up for before the next block that is not known.
//! - A block with references means the same as long as the table does not change. It is remembered
//!   by its connection, until the next insertion.

use std::collections::VecDeque;
use std::rc::Rc;

use super::error::Violation;
use super::hpack::{Decoder, Effect, Limits};
use crate::Fields;

/// Within one second, while the Date field is constant, a server sends few different blocks: one
/// for each kind of response, and briefly those of the previous second.
pub(crate) const ENTRIES_MAX: usize = 16;

/// With references a block is specific to one connection: memory that counts for many connections.
const REFERRING_MAX: usize = 8;

/// Longer blocks are rare and would make each comparison expensive.
pub(crate) const BLOCK_BYTES_MAX: usize = 4096;

/// The blocks without references to the dynamic table that the connections of a worker have
/// received, and what they mean. `H` is what the session makes of the fields.
#[derive(Debug)]
pub struct Heads<H> {
    limits: Limits,
    known: BlockCache<H>,
    /// The fields of the block that is being decoded.
    fields: Fields,
}

impl<H: Clone> Heads<H> {
    /// An empty memory for sessions with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            known: BlockCache::new(ENTRIES_MAX),
            fields: Fields::default(),
        }
    }
}

/// The decoder of one direction of a connection, with a memory.
#[derive(Debug)]
pub struct HeadDecoder<H> {
    decoder: Decoder,
    /// Blocks with references, valid for the present state of the table.
    referring: BlockCache<H>,
    /// Known blocks that have arrived since the table was last up to date, oldest first.
    missed: VecDeque<Missed>,
    /// The size of all entries that the missed blocks insert.
    missed_size: usize,
}

/// A block that arrived this many times in a row.
#[derive(Debug)]
struct Missed {
    block: Rc<Vec<u8>>,
    times: usize,
    inserts: usize,
}

impl<H: Clone> HeadDecoder<H> {
    /// A decoder at the beginning of a connection.
    #[must_use]
    pub fn new(heads: &Heads<H>) -> Self {
        Self {
            decoder: Decoder::new(heads.limits),
            referring: BlockCache::new(REFERRING_MAX),
            missed: VecDeque::new(),
            missed_size: 0,
        }
    }

    /// The peer has acknowledged SETTINGS_HEADER_TABLE_SIZE ([`Decoder::set_capacity_max`]).
    pub fn set_capacity_max(&mut self, bytes: u32) {
        // The missed blocks came before.
        self.catch_up(&mut Fields::default());
        self.decoder.set_capacity_max(bytes);
    }

    /// The meaning of a complete block. `understand` is called with its fields, and with whether
    /// some were left out ([`Effect::oversized`]), unless the block is known.
    ///
    /// # Errors
    /// COMPRESSION_ERROR, which ends the connection.
    #[inline]
    pub fn read(
        &mut self,
        heads: &mut Heads<H>,
        block: &[u8],
        understand: impl FnOnce(&Fields, Effect) -> H,
    ) -> Result<H, Violation> {
        // A due change of the table's size is at the beginning of a block, or the block is wrong.
        if !self.decoder.is_resize_due() {
            if let Some(entry) = heads.known.find(block) {
                if entry.inserts > 0 {
                    self.miss(&entry.block, entry.inserts);
                }
                return Ok(entry.head.clone());
            }
            if let Some(entry) = self.referring.find(block) {
                return Ok(entry.head.clone());
            }
        }
        self.read_unknown(heads, block, understand)
    }

    fn read_unknown(
        &mut self,
        heads: &mut Heads<H>,
        block: &[u8],
        understand: impl FnOnce(&Fields, Effect) -> H,
    ) -> Result<H, Violation> {
        self.catch_up(&mut heads.fields);
        let effect = self.decoder.decode(block, &mut heads.fields)?;
        let head = understand(&heads.fields, effect);
        let changes = effect.resized || effect.inserted > 0;
        if changes {
            self.referring.clear();
        }
        let cacheable = block.len() <= BLOCK_BYTES_MAX && !effect.resized;
        if cacheable && !effect.referred {
            heads.known.insert(block, effect.inserted, head.clone());
        } else if cacheable && !changes {
            self.referring.insert(block, 0, head.clone());
        }
        Ok(head)
    }

    /// Notes a known block with insertions instead of making them.
    fn miss(&mut self, block: &Rc<Vec<u8>>, inserts: usize) {
        self.referring.clear();
        self.missed_size += inserts;
        match self.missed.back_mut() {
            Some(last) if Rc::ptr_eq(&last.block, block) => last.times += 1,
            _ => self.missed.push_back(Missed {
                block: Rc::clone(block),
                times: 1,
                inserts,
            }),
        }
        // Once the later insertions fill the table, nothing is left of the oldest.
        while let Some(oldest) = self.missed.front_mut()
            && self.missed_size - oldest.inserts >= self.decoder.capacity()
        {
            self.missed_size -= oldest.inserts;
            oldest.times -= 1;
            if oldest.times == 0 {
                self.missed.pop_front();
            }
        }
    }

    /// Makes the insertions of missed blocks, by decoding them. They were valid and depend on
    /// nothing, so they are valid again.
    fn catch_up(&mut self, fields: &mut Fields) {
        for missed in self.missed.drain(..) {
            for _ in 0..missed.times {
                let effect = self.decoder.decode(&missed.block, fields);
                debug_assert!(effect.is_ok_and(|effect| effect.inserted == missed.inserts));
            }
        }
        self.missed_size = 0;
    }
}

/// A few blocks, most recently used first.
#[derive(Debug)]
pub(crate) struct BlockCache<H> {
    entries: Vec<CachedBlock<H>>,
    entries_max: usize,
}

/// A header block that was decoded before, and what it means. A server often sends the same block
/// again, which then need not be decoded.
#[derive(Debug)]
pub(crate) struct CachedBlock<H> {
    /// Connections that have missed the block keep it as long as they need it.
    block: Rc<Vec<u8>>,
    /// The size of the entries that it inserts.
    inserts: usize,
    pub(crate) head: H,
}

impl<H> BlockCache<H> {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            entries: Vec::new(),
            entries_max,
        }
    }

    #[inline]
    pub(crate) fn find(&mut self, block: &[u8]) -> Option<&CachedBlock<H>> {
        let is_it = |entry: &CachedBlock<H>| entry.block.as_slice() == block;
        if !self.entries.first().is_some_and(is_it) {
            let older = self.entries.iter().skip(1).position(is_it)?;
            self.entries[..=older + 1].rotate_right(1);
        }
        self.entries.first()
    }

    /// Adds a block, in place of the least recently used one, whose memory is used again.
    pub(crate) fn insert(&mut self, block: &[u8], inserts: usize, head: H) {
        let replaced = (self.entries.len() == self.entries_max)
            .then(|| self.entries.pop())
            .flatten();
        let mut memory = replaced.map(|entry| entry.block).unwrap_or_default();
        match Rc::get_mut(&mut memory) {
            Some(bytes) => {
                bytes.clear();
                bytes.extend_from_slice(block);
            }
            None => memory = Rc::new(block.to_vec()),
        }
        let entry = CachedBlock {
            block: memory,
            inserts,
            head,
        };
        self.entries.insert(0, entry);
    }

    fn clear(&mut self) {
        self.entries.clear();
    }
}
