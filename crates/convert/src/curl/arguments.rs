//! Splits the words of a command into options with their values, by curl's rules.

use super::CurlError;
use super::options::{CurlOption, by_long, by_short};
use crate::shell_words::{CommandPosition, Word};

/// An option with its value, or a URL.
pub(super) struct Argument {
    /// As typed, without the value.
    pub(super) name: String,
    /// `None` for a URL.
    pub(super) option: Option<&'static CurlOption>,
    /// False for the `--no-` form of a flag.
    pub(super) is_on: bool,
    /// Empty for a flag.
    pub(super) value: String,
    pub(super) position: CommandPosition,
}

/// The options and URLs in their order. An option may stand after the URL.
pub(super) fn of(words: &[Word]) -> Result<Vec<Argument>, CurlError> {
    let mut arguments = Vec::new();
    let mut words = words.iter();
    let mut are_options_over = false;
    while let Some(word) = words.next() {
        let position = word.position;
        if word.text == "--" && !are_options_over {
            are_options_over = true;
        } else if are_options_over || word.text == "-" || !word.text.starts_with('-') {
            arguments.push(Argument {
                name: word.text.clone(),
                option: None,
                is_on: true,
                value: word.text.clone(),
                position,
            });
        } else if let Some(name) = word.text.strip_prefix("--") {
            arguments.push(long(name, word, &mut words)?);
        } else {
            short(word, &mut words, &mut arguments)?;
        }
    }
    Ok(arguments)
}

fn long<'a>(
    name: &str,
    word: &Word,
    words: &mut impl Iterator<Item = &'a Word>,
) -> Result<Argument, CurlError> {
    let find = |name: &str| {
        by_long(name).map_err(|meant| {
            let message = format!("--{name} may be any of --{}", meant.join(", --"));
            CurlError::new(word.position, message)
        })
    };
    if name.starts_with("expand-") {
        let message = format!("--{name}: variables of curl are not supported");
        return Err(CurlError::new(word.position, message));
    }
    let (option, is_on) = match name.strip_prefix("no-").map(find).transpose()?.flatten() {
        Some(option) if !option.takes_value => (Some(option), false),
        _ => (find(name)?, true),
    };
    let Some(option) = option else {
        let message = format!("{}: curl has no such option", word.text);
        return Err(CurlError::new(word.position, message));
    };
    let value = if option.takes_value {
        next_value(&word.text, word.position, words)?
    } else {
        String::new()
    };
    Ok(Argument {
        name: word.text.clone(),
        option: Some(option),
        is_on,
        value,
        position: word.position,
    })
}

/// `-sSXPOST`: flags, and an option whose value is the rest of the word or the next word.
fn short<'a>(
    word: &Word,
    words: &mut impl Iterator<Item = &'a Word>,
    arguments: &mut Vec<Argument>,
) -> Result<(), CurlError> {
    let mut rest = word.text[1..].chars();
    while let Some(letter) = rest.next() {
        let name = format!("-{letter}");
        let Some(option) = by_short(letter) else {
            let message = format!("{name}: curl has no such option");
            return Err(CurlError::new(word.position, message));
        };
        let value = match (option.takes_value, rest.as_str()) {
            (false, _) => String::new(),
            (true, "") => next_value(&name, word.position, words)?,
            (true, inline) => {
                let inline = inline.to_owned();
                rest = "".chars();
                inline
            }
        };
        arguments.push(Argument {
            name,
            option: Some(option),
            is_on: true,
            value,
            position: word.position,
        });
    }
    Ok(())
}

fn next_value<'a>(
    name: &str,
    position: CommandPosition,
    words: &mut impl Iterator<Item = &'a Word>,
) -> Result<String, CurlError> {
    let next = words.next().map(|word| word.text.clone());
    next.ok_or_else(|| CurlError::new(position, format!("{name}: needs a value")))
}
