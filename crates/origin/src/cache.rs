//! Caches the responses to the last few different requests, by the requests' bytes.

use std::rc::Rc;

use crate::prepared::PreparedResponse;

/// A load test mostly sends one request; some more allow a script to alternate between paths.
const ENTRIES_MAX: usize = 16;
/// The longest request in the cache, in bytes.
const REQUEST_MAX_BYTES: usize = 16 * 1024;
/// The longest response in the cache, in bytes.
const RESPONSE_MAX_BYTES: usize = 256 * 1024;

#[derive(Debug)]
struct Entry {
    request: Vec<u8>,
    response: Rc<PreparedResponse>,
    /// Unlike the index, never reused.
    id: u64,
}

#[derive(Debug, Default)]
pub(crate) struct ResponseCache {
    entries: Vec<Entry>,
    /// Index of the last hit: usually the same request repeats.
    last: usize,
    /// Index of the next entry to reindex.
    oldest: usize,
    ids: u64,
}

/// A known request at the beginning of the input, and its response.
#[derive(Debug)]
pub(crate) struct CachedResponse {
    pub(crate) request_bytes: usize,
    pub(crate) response: Rc<PreparedResponse>,
}

impl ResponseCache {
    /// Adds a request, unless it or its response is too large.
    pub(crate) fn add(&mut self, request: &[u8], response: &Rc<PreparedResponse>) {
        let response_bytes = response.instant_bytes().map_or(0, <[u8]>::len);
        let is_known = self.entries.iter().any(|entry| entry.request == request);
        if request.len() > REQUEST_MAX_BYTES || response_bytes > RESPONSE_MAX_BYTES || is_known {
            return;
        }
        self.ids += 1;
        let entry = Entry {
            request: request.to_vec(),
            response: Rc::clone(response),
            id: self.ids,
        };
        if self.entries.len() < ENTRIES_MAX {
            self.entries.push(entry);
        } else {
            self.entries[self.oldest] = entry;
            self.oldest = (self.oldest + 1) % ENTRIES_MAX;
        }
    }

    /// The request at the start of the input. Only complete requests are cached, and a request's
    /// own bytes determine where it ends, so that no longer request can have one as its prefix.
    pub(crate) fn find(&mut self, input: &[u8]) -> Option<CachedResponse> {
        let index = self.index(input)?;
        let entry = &self.entries[index];
        Some(CachedResponse {
            request_bytes: entry.request.len(),
            response: Rc::clone(&entry.response),
        })
    }

    /// If the input consists of repetitions of one request with an instant response: its ID, the
    /// number of repetitions, and the response.
    pub(crate) fn repeated(&mut self, input: &[u8]) -> Option<(u64, usize, &PreparedResponse)> {
        let index = self.index(input)?;
        let Entry {
            request,
            response,
            id,
        } = &self.entries[index];
        response.instant_bytes()?;
        let mut pieces = input.chunks_exact(request.len());
        let all_same = pieces.by_ref().all(|piece| piece == request.as_slice());
        (all_same && pieces.remainder().is_empty())
            .then(|| (*id, input.len() / request.len(), response.as_ref()))
    }

    fn index(&mut self, input: &[u8]) -> Option<usize> {
        let begins = |entry: &Entry| input.starts_with(&entry.request);
        if self.entries.get(self.last).is_some_and(begins) {
            return Some(self.last);
        }
        self.last = self.entries.iter().position(begins)?;
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepared::ConnectionStep;

    fn response(bytes: &[u8]) -> Rc<PreparedResponse> {
        Rc::new(PreparedResponse::new(
            200,
            true,
            vec![ConnectionStep::Bytes(bytes.to_vec())],
        ))
    }

    #[test]
    fn a_cached_request_is_found_at_the_start_of_the_input() {
        let mut cache = ResponseCache::default();
        cache.add(b"GET /a\n\n", &response(b"A"));
        cache.add(b"GET /b\n\n", &response(b"B"));
        let known = cache.find(b"GET /b\n\nGET").unwrap();
        assert_eq!(known.request_bytes, 8);
        assert_eq!(known.response, response(b"B"));
        assert!(cache.find(b"GET /c\n\n").is_none());
        assert!(cache.find(b"GET /b\n").is_none());
    }

    #[test]
    fn repetitions_count_only_if_they_fill_the_input() {
        let mut cache = ResponseCache::default();
        cache.add(b"aa", &response(b"A"));
        assert_eq!(
            cache.repeated(b"aaaaaa").map(|(_, count, _)| count),
            Some(3)
        );
        assert!(cache.repeated(b"aaa").is_none());
        assert!(cache.repeated(b"aabb").is_none());
    }

    #[test]
    fn large_entries_are_not_cached_and_the_oldest_is_replaced_first() {
        let mut cache = ResponseCache::default();
        cache.add(&[b'x'; REQUEST_MAX_BYTES + 1], &response(b"A"));
        cache.add(b"y", &response(&[0; RESPONSE_MAX_BYTES + 1]));
        assert!(cache.entries.is_empty());
        for number in 0..=ENTRIES_MAX {
            cache.add(format!("{number:02}").as_bytes(), &response(b"A"));
        }
        assert!(cache.find(b"00").is_none());
        assert!(cache.find(b"01").is_some());
        assert_eq!(cache.entries.len(), ENTRIES_MAX);
    }
}
