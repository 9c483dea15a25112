//! What the server has read before: a cache of prompts' beginnings, as real servers have one.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};

use super::prompt_count::PromptPart;

/// The most beginnings that are known: 64 MiB or less. With more, the server forgets all of them.
const BEGINNINGS_MAX: usize = 1 << 20;

/// The beginnings of all prompts of a server, whole messages each. All threads share it.
#[derive(Debug, Default)]
pub(crate) struct PrefixCache {
    /// Hashes of the messages from the first one to some other.
    known: Mutex<HashSet<u64>>,
}

impl PrefixCache {
    /// The tokens of a prompt's longest known beginning. All of its beginnings are known from now
    /// on. What the server has generated itself is known if what it followed is.
    pub(crate) fn read(&self, parts: &[PromptPart]) -> u64 {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() + parts.len() > BEGINNINGS_MAX {
            known.clear();
        }
        let mut hasher = DefaultHasher::new();
        let (mut cached, mut is_known) = (0, true);
        for (number, part) in parts.iter().enumerate() {
            part.hash.hash(&mut hasher);
            let was_known = !known.insert(hasher.finish());
            is_known &= was_known || part.is_generated && number > 0;
            cached += if is_known { part.tokens } else { 0 };
        }
        cached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::prompt_count::prompt_parts;

    fn read(cache: &PrefixCache, messages: &[&str]) -> (u64, u64) {
        let each = messages.iter().map(|message| {
            let (role, text) = message.split_once(": ").unwrap();
            serde_json::json!({"role": role, "content": text})
        });
        let body = serde_json::json!({"messages": each.collect::<Vec<_>>()}).to_string();
        let parts = prompt_parts(body.as_bytes()).unwrap();
        let all = parts.iter().map(|part| part.tokens).sum();
        (all, cache.read(&parts))
    }

    #[test]
    fn a_conversation_that_goes_on_is_known_up_to_its_new_question() {
        let cache = PrefixCache::default();
        // Each text has four tokens beside its words.
        let mut messages = vec!["system: a b", "user: one"];
        assert_eq!(read(&cache, &messages), (11, 0));
        messages.extend(["assistant: the quick brown", "user: two"]);
        assert_eq!(read(&cache, &messages), (11 + 9 + 5, 11 + 9));
        // An answer that another model gave is new, and so is all behind it.
        messages[2] = "assistant: I think so";
        assert_eq!(read(&cache, &messages), (11 + 8 + 5, 11));
        // The same prompt once more.
        assert_eq!(read(&cache, &messages), (11 + 8 + 5, 11 + 8 + 5));
        // Another beginning: the rest does not count.
        messages[0] = "system: b a";
        assert_eq!(read(&cache, &messages).1, 0);
    }

    #[test]
    fn prompts_with_different_salts_have_nothing_in_common() {
        let cache = PrefixCache::default();
        let read = |salt: &str| {
            let body = serde_json::json!({"prompt": "a", "cache_salt": salt}).to_string();
            cache.read(&prompt_parts(body.as_bytes()).unwrap())
        };
        assert_eq!([read("1"), read("2"), read("1")], [0, 0, 5]);
    }

    #[test]
    fn the_cache_forgets_instead_of_growing_without_limit() {
        let cache = PrefixCache::default();
        let part = |hash| PromptPart {
            tokens: 1,
            hash,
            is_generated: false,
        };
        for hash in 0..BEGINNINGS_MAX as u64 + 10 {
            cache.read(&[part(hash)]);
        }
        assert!(cache.known.lock().unwrap().len() <= BEGINNINGS_MAX);
        assert_eq!(cache.read(&[part(BEGINNINGS_MAX as u64 + 9)]), 1);
    }
}
