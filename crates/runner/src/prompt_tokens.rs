//! The number of tokens of a prompt, as the server of a language model has counted them.

use std::sync::Arc;

use plan::{Dialect, EventsFormat};
use protocol::{StreamReader, StreamSpec};

/// The tokens of the prompt in the body of a response, those from a cache included; `None` if the
/// server has not counted them.
#[must_use]
pub fn prompt_tokens(body: &[u8], dialect: Dialect) -> Option<u64> {
    let mut reader = StreamReader::new(&StreamSpec {
        format: EventsFormat::Llm,
        end_marker: Arc::from(&b"[DONE]"[..]),
        dialect: Some(dialect),
        keeps_answers: false,
    });
    reader.begin_stream();
    reader.content(body);
    reader.finish()?.llm?.usage.prompt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_that_of_the_servers_usage() {
        let of = |body: &str, dialect| prompt_tokens(body.as_bytes(), dialect);
        let openai = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
                      data: {\"choices\":[],\"usage\":{\"prompt_tokens\":31}}\n\ndata: [DONE]\n\n";
        assert_eq!(of(openai, Dialect::OpenAi), Some(31));
        let ollama = "{\"response\":\"a\",\"done\":true,\"prompt_eval_count\":9}\n";
        assert_eq!(of(ollama, Dialect::Ollama), Some(9));
        for nothing in ["", "{}", "data: {\"choices\":[]}\n\n", "\u{0}"] {
            assert_eq!(of(nothing, Dialect::OpenAi), None);
        }
    }
}
