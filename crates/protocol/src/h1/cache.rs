//! Recently seen heads. A head with the same bytes has the same meaning and need not be parsed
//! again.

use super::head::Head;

/// Within one second, while the Date field is constant, a server under load sends few different
/// heads: one for each kind of response, and briefly those of the previous second.
const ENTRIES_MAX: usize = 4;

/// Longer heads are rare and would make each comparison expensive.
const HEAD_BYTES_MAX: usize = 4096;

/// The most recent final heads of a worker's connections, most recently used first.
#[derive(Debug, Default)]
pub(super) struct HeadCache {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// The head including its empty line, so that no entry can be the beginning of a longer head.
    bytes: Vec<u8>,
    head: Head,
}

impl HeadCache {
    /// The length and meaning of the head at the beginning of `input`, if it is cached.
    #[inline]
    pub(super) fn find(&mut self, input: &[u8]) -> Option<(usize, Head)> {
        let first = self.entries.first()?;
        if input.starts_with(&first.bytes) {
            return Some((first.bytes.len(), first.head));
        }
        self.find_older(input)
    }

    /// Adds a head, in place of the least recently used one.
    pub(super) fn insert(&mut self, bytes: &[u8], head: Head) {
        if bytes.len() > HEAD_BYTES_MAX {
            return;
        }
        if self.entries.len() < ENTRIES_MAX {
            self.entries.push(Entry {
                bytes: Vec::new(),
                head,
            });
        }
        if let Some(entry) = self.entries.last_mut() {
            entry.bytes.clear();
            entry.bytes.extend_from_slice(bytes);
            entry.head = head;
        }
        self.entries.rotate_right(1);
    }

    fn find_older(&mut self, input: &[u8]) -> Option<(usize, Head)> {
        let older = self
            .entries
            .iter()
            .skip(1)
            .position(|entry| input.starts_with(&entry.bytes))?;
        self.entries[..=older + 1].rotate_right(1);
        self.entries
            .first()
            .map(|entry| (entry.bytes.len(), entry.head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::fields::Framing;
    use crate::stream_head::PackedStreamHead;

    fn head(status: u16) -> Head {
        Head {
            status,
            persistent: true,
            framing: Ok(Framing::Length(0)),
            stream: PackedStreamHead::default(),
        }
    }

    fn bytes(status: u16) -> Vec<u8> {
        format!("HTTP/1.1 {status} X\r\n\r\n").into_bytes()
    }

    #[test]
    fn a_known_head_is_found_at_the_start_of_longer_input() {
        let mut cache = HeadCache::default();
        assert_eq!(cache.find(&bytes(200)), None);
        cache.insert(&bytes(200), head(200));
        let input = [bytes(200).as_slice(), b"body"].concat();
        assert_eq!(cache.find(&input), Some((bytes(200).len(), head(200))));
        assert_eq!(cache.find(&input[..input.len() - 5]), None);
        assert_eq!(cache.find(&bytes(201)), None);
    }

    #[test]
    fn the_least_recently_used_head_is_replaced() {
        let mut cache = HeadCache::default();
        for status in 200..204 {
            cache.insert(&bytes(status), head(status));
        }
        assert!(cache.find(&bytes(200)).is_some());
        cache.insert(&bytes(204), head(204));
        assert_eq!(cache.find(&bytes(201)), None);
        for status in [200, 202, 203, 204] {
            assert_eq!(
                cache.find(&bytes(status)).map(|(_, head)| head.status),
                Some(status)
            );
        }
    }

    #[test]
    fn a_huge_head_is_not_cached() {
        let mut cache = HeadCache::default();
        cache.insert(&vec![b'x'; HEAD_BYTES_MAX + 1], head(200));
        assert!(cache.entries.is_empty());
    }
}
