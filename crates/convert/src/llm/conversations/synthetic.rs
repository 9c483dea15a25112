//! Conversations of random words.

use fastrand::Rng;
use plan::distribution::Count;

use super::super::Prompt;
use super::super::synthetic::{Synthetic, add_words, prompts};
use super::{Conversation, MAX_TURNS, Turn, message};

/// Changes the seed, so that turns do not depend on how first messages are drawn.
const TURNS_STREAM: u64 = 0xd1b5_4a32_d192_ed03;

/// Draws conversations, as many as there would be prompts. The first message of each is a prompt;
/// the others have as many words. The same seed makes the same ones.
pub fn synthetic(
    first: &Synthetic,
    turns: Count,
    seed: u64,
) -> impl Iterator<Item = Conversation> + use<> {
    let lengths = first.clone();
    let mut random = Rng::with_seed(seed ^ TURNS_STREAM);
    prompts(first, seed)
        .enumerate()
        .map(move |(number, prompt)| {
            let count = turns.sample(&mut random).clamp(1, MAX_TURNS as u64);
            let first = match prompt {
                Prompt::Text(text) => message("user", &text),
                Prompt::Messages(_) => message("user", ""),
            };
            let more = (1..count).map(|_| {
                let mut text = String::new();
                let words = lengths.more_words(lengths.words.sample(&mut random));
                add_words(&mut text, words, &mut random);
                message("user", &text)
            });
            let turns = std::iter::once(first).chain(more).map(Turn::asking);
            Conversation {
                id: Some(format!("{}", number + 1)),
                at_ms: None,
                opening: Vec::new(),
                turns: turns.collect(),
            }
        })
}
