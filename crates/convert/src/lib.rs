//! Requests from what people have: curl commands, HAR files, and prompts of language models.
//!
//! Text goes in, and [`Conversion`] comes out: requests, the settings of their connection, and
//! notes about what was left out. A command line ([`Conversion::options`]) or a requests file
//! ([`requests_file`]) is made from it, with environment variables in place of secrets
//! ([`Variables`]).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod conversion;
pub mod curl;
mod form;
pub mod har;
pub mod llm;
mod percent;
pub mod requests_file;
mod shell_words;
mod variables;

pub use conversion::{Connection, Conversion, ConversionError, Request, Version};
pub use shell_words::{CommandPosition, ShellError, Word, split};
pub use variables::Variables;
