//! Requests that a log has had before. A log may have millions, so few bytes are kept of each.

use std::hash::{BuildHasher, Hash, RandomState};

/// The requests so far, by a hash of what distinguishes them: most lines of a log repeat others,
/// and the text of those that do not is elsewhere already. With 128 bits from random keys, a log of
/// 50 million requests has two with the same hash once in 10^23 cases.
#[derive(Debug, Default)]
pub(super) struct KnownRequests {
    hashers: [RandomState; 2],
    /// By request.
    hashes: Vec<[u64; 2]>,
    /// The number of a request and 1, at the place that its hash stands for or the next one that is
    /// free; 0 is free. Their number is 0 or a power of two, and at least a fourth of them is free.
    places: Vec<u32>,
}

impl KnownRequests {
    pub(super) fn hash(&self, request: &impl Hash) -> [u64; 2] {
        self.hashers
            .each_ref()
            .map(|hasher| hasher.hash_one(request))
    }

    /// The number of the request with this hash.
    pub(super) fn find(&self, hash: [u64; 2]) -> Option<u32> {
        if self.places.is_empty() {
            return None;
        }
        let number = self.places[self.place_of(hash)];
        number.checked_sub(1)
    }

    /// Adds the next request, which is not known.
    pub(super) fn add(&mut self, hash: [u64; 2]) {
        self.hashes.push(hash);
        if 4 * self.hashes.len() <= 3 * self.places.len() {
            let place = self.place_of(hash);
            self.places[place] = self.hashes.len() as u32;
            return;
        }
        self.places = vec![0; (2 * self.places.len()).max(16)];
        for number in 0..self.hashes.len() {
            let place = self.place_of(self.hashes[number]);
            self.places[place] = number as u32 + 1;
        }
    }

    /// Where the request with this hash is, or where it would be. One of the places is free.
    fn place_of(&self, hash: [u64; 2]) -> usize {
        let mask = self.places.len() - 1;
        let mut place = hash[0] as usize & mask;
        while let Some(number) = self.places[place].checked_sub(1)
            && self.hashes[number as usize] != hash
        {
            place = (place + 1) & mask;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_by_their_number_also_if_parts_of_hashes_are_alike() {
        let mut known = KnownRequests::default();
        assert_eq!(known.find([0, 0]), None);
        // All belong at few places.
        let hash = |number: u32| [u64::from(number % 3), u64::from(number)];
        for number in 0..1000 {
            assert_eq!(known.find(hash(number)), None);
            known.add(hash(number));
        }
        for number in 0..1000 {
            assert_eq!(known.find(hash(number)), Some(number));
        }
        assert!(known.places.len() <= 2048, "{}", known.places.len());
    }

    #[test]
    fn requests_that_differ_have_other_hashes() {
        let known = KnownRequests::default();
        assert_eq!(known.hash(&("GET", "/a")), known.hash(&("GET", "/a")));
        assert_ne!(known.hash(&("GET", "/a")), known.hash(&("GET", "/b")));
    }
}
