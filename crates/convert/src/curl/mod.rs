//! curl's command line. Files that it names are read through a function of the caller.

mod arguments;
mod data;
mod form;
mod operation;
mod options;
mod proxy;
mod url;

use std::io;
use std::path::Path;

use crate::conversion::Conversion;
use crate::shell_words::{self, CommandPosition, Word};

use arguments::Argument;
use operation::Operation;
use options::{Effect, Meaning, Reason};

/// Reads a file that the command names.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// Why a command cannot be converted: where, and one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("curl command, {position}: {message}")]
pub struct CurlError {
    /// The position in the command.
    pub position: CommandPosition,
    /// What is wrong, and what is expected.
    pub message: String,
}

impl CurlError {
    /// An error whose message stays one line even if it repeats a part of the command.
    fn new(position: CommandPosition, message: impl Into<String>) -> Self {
        Self {
            position,
            message: plan::printable(&message.into()).into_owned(),
        }
    }
}

/// Converts a command in the quotes of a POSIX shell, like `curl -d 'a=b' http://h/`, or several
/// ones, as browsers copy all that they have sent.
///
/// # Errors
/// With line and column, if it is not a curl command, does something that a load cannot, or
/// connects in another way than the commands before it.
pub fn from_text(text: &str, read: ReadFile<'_>) -> Result<Conversion, CurlError> {
    let (commands, rest) =
        shell_words::split(text).map_err(|error| CurlError::new(error.position, error.message))?;
    let mut commands = commands.iter();
    let first = commands.next().map_or(&[][..], Vec::as_slice);
    let mut conversion = from_words(first, read)?;
    for words in commands {
        let position = words.first().map_or(START, |word| word.position);
        if !words.iter().any(|word| is_curl(&word.text)) {
            let message = "this line is not a curl command (a command goes on in the next line \
                           after a \\ at the end of the line)";
            return Err(CurlError::new(position, message));
        }
        let next = from_words(words, read)?;
        if next.connection != conversion.connection {
            let message = "this command connects in another way than the first one, but a load has \
                           one (convert them one by one)";
            return Err(CurlError::new(position, message));
        }
        conversion.is_recording = true;
        conversion.requests.extend(next.requests);
        for note in next.notes {
            if !conversion.notes.contains(&note) {
                conversion.notes.push(note);
            }
        }
    }
    if let Some(rest) = rest {
        let first = rest.lines().next().unwrap_or_default();
        conversion
            .notes
            .push(format!("left out: what follows the curl command: {first}"));
    }
    Ok(conversion)
}

/// Converts a command that a shell has split into arguments; the word `curl` may be missing.
///
/// # Errors
/// As [`from_text`], with the number of the argument.
pub fn from_arguments(arguments: &[String], read: ReadFile<'_>) -> Result<Conversion, CurlError> {
    let mut words: Vec<Word> = Vec::new();
    if !arguments.first().is_some_and(|first| is_curl(first)) {
        words.push(Word {
            text: "curl".to_owned(),
            position: CommandPosition::Argument(0),
        });
    }
    let numbered = arguments.iter().zip(1..).map(|(text, number)| Word {
        text: text.clone(),
        position: CommandPosition::Argument(number),
    });
    words.extend(numbered);
    from_words(&words, read)
}

/// Where a text begins.
const START: CommandPosition = CommandPosition::Text { line: 1, column: 1 };

/// Whether a word is the name of curl, perhaps with its path.
#[must_use]
pub fn is_curl(word: &str) -> bool {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    name == "curl" || name == "curl.exe"
}

fn from_words(words: &[Word], read: ReadFile<'_>) -> Result<Conversion, CurlError> {
    // The prompt of a shell, copied with the command.
    let words = match words {
        [prompt, rest @ ..] if prompt.text == "$" => rest,
        all => all,
    };
    let words = match words {
        [first, rest @ ..] if is_curl(&first.text) => rest,
        [first, ..] => {
            let word: String = first.text.chars().take(40).collect();
            return Err(CurlError::new(
                first.position,
                format!("{word:?} is not curl (expected a command like curl http://host/)"),
            ));
        }
        [] => return Err(CurlError::new(START, "there is no command")),
    };
    let mut conversion = Conversion::default();
    let mut left_out: Vec<(Reason, String)> = Vec::new();
    let mut connections = Vec::new();
    let mut operation = Operation::default();
    let mut add = |operation: Operation, conversion: &mut Conversion| {
        let (requests, connection) = operation.into_requests(read, &mut conversion.notes)?;
        conversion.requests.extend(requests);
        connections.push(connection);
        Ok::<(), CurlError>(())
    };
    for argument in arguments::of(words)? {
        let Argument {
            name,
            option,
            is_on,
            value,
            position,
        } = argument;
        match option.map_or(Meaning::Converted(Effect::Url), |it| it.meaning) {
            Meaning::Unsupported if !is_on => (),
            Meaning::Unsupported => return Err(CurlError::new(position, unsupported(&name))),
            Meaning::LeftOut(reason) => left_out.push((reason, name)),
            Meaning::Converted(Effect::Next) => {
                add(std::mem::take(&mut operation), &mut conversion)?;
            }
            Meaning::Converted(effect) => {
                operation.apply(
                    effect,
                    is_on,
                    Word {
                        text: value,
                        position,
                    },
                    read,
                )?;
            }
        }
    }
    let end = words.last().map_or(START, |word| word.position);
    if operation.is_empty() && conversion.requests.is_empty() {
        return Err(CurlError::new(end, "there is no URL"));
    }
    add(operation, &mut conversion)?;
    if connections.iter().any(|it| *it != connections[0]) {
        let message = "the parts between --next connect in different ways, but a load has one \
                       (convert them one by one)";
        return Err(CurlError::new(end, message));
    }
    conversion.connection = connections.swap_remove(0);
    conversion.notes.extend(notes_about(&left_out));
    Ok(conversion)
}

fn unsupported(name: &str) -> String {
    match name {
        "-K" | "--config" => format!("{name}: write the options of the file into the command"),
        "-h" | "--help" | "-V" | "--version" | "-M" | "--manual" => {
            format!("{name}: this command makes no request")
        }
        _ => format!("{name} is not supported yet (remove it if the load works without)"),
    }
}

/// The notes about options that were left out, a line for each reason.
fn notes_about(left_out: &[(Reason, String)]) -> Vec<String> {
    let mut notes = Vec::new();
    for reason in Reason::ALL {
        let mut names: Vec<&str> = Vec::new();
        for (_, name) in left_out.iter().filter(|(its, _)| *its == reason) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        if !names.is_empty() {
            notes.push(format!("left out: {}: {}", names.join(", "), reason.text()));
        }
    }
    notes
}
