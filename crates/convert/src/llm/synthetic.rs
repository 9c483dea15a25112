//! Prompts of random words.
//!
//! Unless a beginning is shared, no two prompts have the same first word, so that a server that
//! keeps the beginnings of prompts does not find one by accident.

use std::fmt::Write as _;

use fastrand::Rng;
use plan::distribution::Count;

use super::MAX_WORDS;
use super::prompts::Prompt;

/// The number of words if none is given.
pub const WORDS_DEFAULT: u64 = 128;

/// What prompts are made.
#[derive(Debug, Clone, PartialEq)]
pub struct Synthetic {
    /// How many.
    pub prompts: u64,
    /// Words in each, without those that are shared; at least 1. With [`Self::tokenizer`], tokens,
    /// all included.
    pub words: Count,
    /// The same words at the beginning of all.
    pub shared_words: u64,
    /// What is known of the server's tokenizer, if lengths are in tokens.
    pub tokenizer: Option<Tokenizer>,
}

impl Synthetic {
    /// A prompt of so many words.
    #[must_use]
    pub fn of_words(words: u64) -> Self {
        Self {
            prompts: 1,
            words: Count::fixed(words),
            shared_words: 0,
            tokenizer: None,
        }
    }

    /// The words of a further message whose length was drawn: the template of the chat was counted
    /// with the first one.
    pub(super) fn more_words(&self, drawn: u64) -> u64 {
        let words = self.tokenizer.map_or(drawn, |tokenizer| {
            (drawn as f64 / tokenizer.per_word).round() as u64
        });
        words.clamp(1, MAX_WORDS)
    }

    /// The words of a prompt whose length was drawn, without those that are shared.
    fn own_words(&self, drawn: u64) -> u64 {
        let words = self.tokenizer.map_or(drawn, |tokenizer| {
            tokenizer.words(drawn).saturating_sub(self.shared_words)
        });
        words.clamp(1, MAX_WORDS)
    }
}

/// How many tokens a server makes of random words: a straight line through two of its counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tokenizer {
    /// Tokens of a word.
    pub per_word: f64,
    /// Tokens of a prompt without words: those of the chat template.
    pub template: f64,
}

impl Tokenizer {
    /// From the words and the tokens of a short and of a longer prompt; `None` if more words have
    /// no more tokens.
    #[must_use]
    pub fn between(short: (u64, u64), long: (u64, u64)) -> Option<Self> {
        let words = long.0.checked_sub(short.0).filter(|words| *words > 0)?;
        let tokens = long.1.checked_sub(short.1).filter(|tokens| *tokens > 0)?;
        let per_word = tokens as f64 / words as f64;
        Some(Self {
            per_word,
            template: (short.1 as f64 - per_word * short.0 as f64).max(0.0),
        })
    }

    /// The words of a prompt of so many tokens; at least 1.
    #[must_use]
    pub fn words(&self, tokens: u64) -> u64 {
        let words = (tokens as f64 - self.template) / self.per_word;
        words.round().max(1.0) as u64
    }
}

/// Draws prompts. The same seed makes the same ones.
pub fn prompts(synthetic: &Synthetic, seed: u64) -> impl Iterator<Item = Prompt> + use<> {
    let mut random = Rng::with_seed(seed);
    let mut first = WORDS;
    random.shuffle(&mut first);
    let mut shared = String::new();
    for _ in 0..synthetic.shared_words.min(MAX_WORDS) {
        add_random(&mut shared, &mut random);
    }
    let lengths = synthetic.clone();
    (0..synthetic.prompts).map(move |number| {
        let count = lengths.own_words(lengths.words.sample(&mut random));
        let mut text = shared.clone();
        let gap = if text.is_empty() { "" } else { " " };
        // Writing to a text cannot fail.
        let _ = write!(text, "{gap}{}", numbered(number, &first));
        for _ in 1..count {
            add_random(&mut text, &mut random);
        }
        Prompt::Text(text)
    })
}

/// The word of a number: one of the list, then two of them, then three. No two numbers have the
/// same one, and numbers that follow each other differ in their beginning.
fn numbered(mut number: u64, list: &[&str; WORDS.len()]) -> String {
    let base = WORDS.len() as u64;
    let mut word = list[(number % base) as usize].to_owned();
    while number >= base {
        number = number / base - 1;
        word += "-";
        word += list[(number % base) as usize];
    }
    word
}

/// Adds so many random words to a text.
pub(super) fn add_words(text: &mut String, words: u64, random: &mut Rng) {
    (0..words).for_each(|_| add_random(text, random));
}

fn add_random(text: &mut String, random: &mut Rng) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(WORDS[random.usize(..WORDS.len())]);
}

/// What prompts are made of.
#[rustfmt::skip]
const WORDS: [&str; 245] = [
    "able", "about", "above", "across", "after", "again", "against", "age", "air", "all", "almost",
    "along", "also", "always", "animal", "answer", "apple", "area", "arm", "around", "ask",
    "autumn", "away", "back", "bag", "ball", "bank", "base", "basket", "beach", "bear", "beautiful",
    "bed", "before", "begin", "behind", "bell", "below", "best", "better", "between", "big", "bird",
    "black", "blood", "blue", "board", "boat", "body", "book", "both", "bottle", "box", "branch",
    "bread", "break", "bridge", "bright", "bring", "brother", "brown", "build", "busy", "butter",
    "buy", "call", "camp", "candle", "car", "care", "carry", "castle", "cat", "catch", "cause",
    "center", "chair", "change", "cheese", "child", "choose", "church", "circle", "city", "clean",
    "clear", "climb", "clock", "cloud", "coat", "coffee", "cold", "color", "come", "common", "cook",
    "copper", "corn", "corner", "cost", "cotton", "count", "country", "cover", "cow", "cross",
    "cup", "dance", "dark", "daughter", "day", "deep", "desk", "dinner", "door", "down", "dream",
    "dress", "drink", "drive", "dry", "early", "earth", "east", "easy", "eat", "edge", "egg",
    "eight", "empty", "end", "engine", "enough", "evening", "every", "example", "eye", "face",
    "fall", "family", "far", "farm", "fast", "father", "feather", "feel", "field", "fire", "first",
    "fish", "five", "floor", "flower", "fly", "follow", "food", "foot", "forest", "four", "fox",
    "free", "fresh", "friend", "front", "fruit", "full", "game", "garden", "gate", "girl", "give",
    "glass", "gold", "good", "grain", "grass", "great", "green", "ground", "group", "grow", "guide",
    "half", "hand", "happy", "harbor", "hard", "hat", "head", "hear", "heart", "heavy", "help",
    "high", "hill", "history", "hold", "home", "honey", "horse", "hot", "hour", "house", "hundred",
    "ice", "idea", "inside", "island", "iron", "join", "journey", "keep", "key", "kind", "king",
    "kitchen", "ladder", "lake", "lamp", "land", "language", "large", "last", "late", "laugh",
    "leaf", "learn", "leave", "left", "lemon", "letter", "light", "line", "lion", "listen",
    "little", "long", "look", "love", "lunch", "machine", "make", "many", "map", "market",
];
