//! The known word that a mistyped word resembles.

use strsim::levenshtein;

/// The most characters of a word that are looked at.
const LONGEST: usize = 80;

/// The known word with the smallest Levenshtein distance, if that is at most a third of its length.
#[must_use]
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word: String = word.chars().take(LONGEST).collect();
    let (distance, candidate) = known
        .into_iter()
        .map(|candidate| (levenshtein(&word, candidate), candidate))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= candidate.len().div_ceil(3)).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_is_corrected_and_a_strange_one_is_not() {
        let known = ["name", "levels", "sysctl", "option"];
        for (word, near) in [
            ("levles", Some("levels")),
            ("level", Some("levels")),
            ("sysctls", Some("sysctl")),
            ("zzzzzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), near, "{word}");
        }
    }
}
