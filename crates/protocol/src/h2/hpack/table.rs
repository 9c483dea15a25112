//! The static and the dynamic table of fields (RFC 7541 sections 2.3 and 4, appendix A).

use std::collections::VecDeque;

/// What a field costs in a table and in the size of a list besides its name and value (RFC 7541
/// section 4.1, RFC 9113 section 6.5.2).
pub const ENTRY_OVERHEAD: usize = 32;

/// The static table, whose first entry has the index 1.
#[rustfmt::skip]
pub(super) const STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""), (b":method", b"GET"), (b":method", b"POST"), (b":path", b"/"),
    (b":path", b"/index.html"), (b":scheme", b"http"), (b":scheme", b"https"),
    (b":status", b"200"), (b":status", b"204"), (b":status", b"206"), (b":status", b"304"),
    (b":status", b"400"), (b":status", b"404"), (b":status", b"500"), (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"), (b"accept-language", b""), (b"accept-ranges", b""),
    (b"accept", b""), (b"access-control-allow-origin", b""), (b"age", b""), (b"allow", b""),
    (b"authorization", b""), (b"cache-control", b""), (b"content-disposition", b""),
    (b"content-encoding", b""), (b"content-language", b""), (b"content-length", b""),
    (b"content-location", b""), (b"content-range", b""), (b"content-type", b""),
    (b"cookie", b""), (b"date", b""), (b"etag", b""), (b"expect", b""), (b"expires", b""),
    (b"from", b""), (b"host", b""), (b"if-match", b""), (b"if-modified-since", b""),
    (b"if-none-match", b""), (b"if-range", b""), (b"if-unmodified-since", b""),
    (b"last-modified", b""), (b"link", b""), (b"location", b""), (b"max-forwards", b""),
    (b"proxy-authenticate", b""), (b"proxy-authorization", b""), (b"range", b""),
    (b"referer", b""), (b"refresh", b""), (b"retry-after", b""), (b"server", b""),
    (b"set-cookie", b""), (b"strict-transport-security", b""), (b"transfer-encoding", b""),
    (b"user-agent", b""), (b"vary", b""), (b"via", b""), (b"www-authenticate", b""),
];

/// The size of a field in a table or list.
pub(crate) fn size(name: &[u8], value: &[u8]) -> usize {
    name.len() + value.len() + ENTRY_OVERHEAD
}

/// The dynamic table. Names and values lie one after the other in one piece of memory, so that an
/// insertion copies bytes and allocates nothing.
#[derive(Debug)]
pub(super) struct DynamicTable {
    bytes: Vec<u8>,
    /// Bytes that were removed from the beginning of `bytes`.
    removed: usize,
    /// The entries, the oldest one first.
    entries: VecDeque<Entry>,
    size: usize,
    capacity: usize,
}

/// Positions count from the first byte that was ever inserted.
#[derive(Debug, Clone, Copy)]
struct Entry {
    begin: usize,
    name_end: usize,
    end: usize,
}

impl DynamicTable {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            bytes: Vec::new(),
            removed: 0,
            entries: VecDeque::new(),
            size: 0,
            capacity,
        }
    }

    /// Name and value. Position 0 is the newest entry.
    pub(super) fn get(&self, position: usize) -> Option<(&[u8], &[u8])> {
        let newest = self.entries.len().checked_sub(1)?;
        let entry = self.entries.get(newest.checked_sub(position)?)?;
        let at = |position: usize| position - self.removed;
        let (begin, name_end, end) = (at(entry.begin), at(entry.name_end), at(entry.end));
        Some((
            self.bytes.get(begin..name_end)?,
            self.bytes.get(name_end..end)?,
        ))
    }

    /// Inserts a field after it has evicted old ones. A field larger than the table empties it.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = size(name, value);
        self.evict_down_to(self.capacity.saturating_sub(size));
        if size > self.capacity {
            return;
        }
        self.remove_dead_bytes();
        let begin = self.removed + self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.entries.push_back(Entry {
            begin,
            name_end: begin + name.len(),
            end: begin + name.len() + value.len(),
        });
        self.size += size;
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.evict_down_to(capacity);
    }

    fn evict_down_to(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.entries.pop_front()
        {
            self.size -= oldest.end - oldest.begin + ENTRY_OVERHEAD;
        }
    }

    /// Moves the living entries to the beginning once the dead ones take more than a full table, so
    /// that each byte is moved about once.
    fn remove_dead_bytes(&mut self) {
        let end = self.removed + self.bytes.len();
        let living = self.entries.front().map_or(end, |oldest| oldest.begin);
        let dead = living - self.removed;
        if dead > self.capacity {
            self.bytes.drain(..dead);
            self.removed = living;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(table: &DynamicTable) -> Vec<(Vec<u8>, Vec<u8>)> {
        (0..)
            .map_while(|position| table.get(position))
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect()
    }

    #[test]
    fn the_newest_entry_comes_first_and_the_oldest_is_evicted() {
        let mut table = DynamicTable::new(2 * (ENTRY_OVERHEAD + 2));
        table.insert(b"a", b"1");
        table.insert(b"b", b"2");
        assert_eq!(table.get(1), Some((b"a".as_slice(), b"1".as_slice())));
        table.insert(b"c", b"3");
        assert_eq!(table.get(0), Some((b"c".as_slice(), b"3".as_slice())));
        assert_eq!(table.get(1), Some((b"b".as_slice(), b"2".as_slice())));
        assert_eq!(table.get(2), None);
        table.insert(b"d", b"more than one byte");
        assert_eq!(fields(&table).len(), 1);
    }

    #[test]
    fn an_entry_as_large_as_the_table_fits_and_a_larger_one_empties_it() {
        let mut table = DynamicTable::new(ENTRY_OVERHEAD + 2);
        table.insert(b"a", b"1");
        assert_eq!(table.size, table.capacity());
        table.insert(b"a", b"12");
        assert_eq!((fields(&table).len(), table.size), (0, 0));
    }

    #[test]
    fn a_smaller_capacity_evicts_and_a_larger_one_keeps_what_is_there() {
        let mut table = DynamicTable::new(4096);
        for value in [b"1", b"2", b"3"] {
            table.insert(b"a", value);
        }
        table.set_capacity(2 * (ENTRY_OVERHEAD + 2));
        assert_eq!(fields(&table).len(), 2);
        table.set_capacity(4096);
        assert_eq!(fields(&table).len(), 2);
        table.set_capacity(0);
        assert_eq!(fields(&table).len(), 0);
        table.insert(b"", b"");
        assert_eq!(fields(&table).len(), 0);
    }

    #[test]
    fn memory_is_bounded_however_many_fields_are_inserted() {
        let mut table = DynamicTable::new(4096);
        let value = [b'x'; 100];
        for _ in 0..10_000 {
            table.insert(b"name", &value);
        }
        assert_eq!(fields(&table).len(), 4096 / size(b"name", &value));
        assert!(table.bytes.len() <= 3 * 4096, "{}", table.bytes.len());
        table.insert(b"name", &[0; 4096]);
        assert_eq!(fields(&table).len(), 0);
    }
}
