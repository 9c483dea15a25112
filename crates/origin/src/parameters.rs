//! What each parameter of a response recipe and each fault means. `wrkbench serve --help` and its
//! manual page print these tables.

/// The form of a parameter, its default in brackets, and its meaning.
pub const PARAMETERS: &[(&str, &str)] = &[
    (
        "size=BYTES",
        "length of the body [63]: 512, 100k, 1.5M, 2G, 64Ki, 1Mi",
    ),
    (
        "status=NNN",
        "any three digits; 1xx, 204 and 304 without body and length",
    ),
    (
        "delay=DELAY",
        "from the arrival of the request to the first byte: 5ms or fixed:5ms (250us to 1h), \
         uniform:1ms,5ms, exp:2ms (mean), lognormal:10ms,0.5 (median, standard deviation of the \
         logarithm) or bimodal:1%,1ms,100ms (the last with this probability)",
    ),
    (
        "tail=DELAY",
        "from there to the last byte (with a body above 1 MB: to the body)",
    ),
    (
        "events=N",
        "the body is a stream of N events, each sent on its own, chunked; none undoes it",
    ),
    (
        "first=DELAY, gap=DELAY",
        "from the head to the first event, or to the first token; from one event, or event with \
         tokens, to the next",
    ),
    (
        "events-format=FORMAT",
        "sse (server-sent events), lines, or chunks",
    ),
    (
        "events-end=TEXT",
        "follows the last event at once ([DONE] with sse, openai, completions); none for nothing",
    ),
    (
        "chunked[=BYTES]",
        "chunked coding, 4,096 bytes or as given (chunked=1b); not for HTTP/1.0",
    ),
    ("trailers", "trailer fields after a chunked body"),
    ("close", "Connection: close, then FIN"),
    ("close=silent", "FIN after the response, not announced"),
    (
        "http10, http10=keep-alive",
        "an HTTP/1.0 response, then FIN; with Connection: keep-alive",
    ),
    (
        "until-close",
        "no length: the body ends with the connection",
    ),
    ("header=NAME:VALUE", "a header field; repeatable"),
    ("echo", "the body is the request's (up to 16 MiB, else 413)"),
    (
        "grpc-status=STATUS",
        "how gRPC calls end, by number or by name (NOT_FOUND)",
    ),
    ("interim=N[:STATUS]", "N interim responses (103) first"),
    ("fault=NAME[:PARAMETER]", "a fault; none undoes it"),
    (
        "mix=P:NAME[:PARAMETER]",
        "the fault with this probability (0.01 or 1%); repeatable; none undoes it",
    ),
];

/// The same of the streams that imitate a language model's server.
pub const STREAM_PARAMETERS: &[(&str, &str)] = &[
    (
        "llm=DIALECT",
        "openai (chat completions), completions (the older interface), responses, anthropic \
         (messages) or ollama (/api/chat, lines of JSON); none undoes it",
    ),
    (
        "tokens=N",
        "tokens of output [64], at most 100,000: a number, uniform:16,256, exp:100 (mean), \
         lognormal:128,0.5 or bimodal:1%,64,1000, drawn for each response. asked takes the number \
         from the request's JSON body (up to 4 MiB): the first of max_completion_tokens, \
         max_tokens, max_output_tokens and options.num_predict",
    ),
    (
        "reasoning=N",
        "the first N of them [0] are reasoning; not with completions",
    ),
    (
        "tool=N",
        "the last N of the others [0] are the arguments of a tool call; not with completions and \
         ollama",
    ),
    (
        "per-event=K",
        "tokens in an event [1], all of one channel: reasoning, text or tool call",
    ),
    (
        "prelude=DELAY",
        "from the head to what precedes the tokens [0]: the role (openai), response.created \
         (responses), message_start (anthropic). With none there is no role, and the others come \
         with the first token",
    ),
    (
        "batch=M",
        "gaps grow with the streams in progress; none undoes it",
    ),
    (
        "usage=WHERE",
        "the numbers of tokens are reported where the interface has them (final), with openai and \
         completions also in each event (each), or nowhere (none)",
    ),
    (
        "prompt=N, cached=N",
        "tokens of the prompt [16], and how many of them were cached [0]. They are only reported. \
         prompt=counted counts those of the request: one for four bytes of a word. ollama reports \
         no cached ones",
    ),
    (
        "prefill=TIME",
        "the first token waits so long for each token of the prompt that no prompt before began \
         with; implies prompt=counted, and reports the others as cached; none undoes it",
    ),
    (
        "finish=REASON",
        "stop or length, in the words of the dialect",
    ),
    (
        "llm-error=N",
        "after N events with tokens comes an error in the form of the dialect, then the end \
         marker; a stream with fewer events has none",
    ),
    (
        "llm-cut=N",
        "after N events with tokens the body ends, cleanly and without the end of the dialect, \
         reason, usage and end marker",
    ),
    (
        "models=NAMES",
        "what GET .../models lists [wrkbench], with commas between names; none for an empty list",
    ),
    (
        "api-key=KEY",
        "requests without this key (Authorization: Bearer KEY, or x-api-key: KEY) get 401; none \
         undoes it",
    ),
    (
        "comments=INTERVAL",
        ": ping when nothing was sent for this long, at least 1 ms; not with ollama",
    ),
];

/// The names of faults, and what they do.
pub const FAULTS: &[(&str, &str)] = &[
    ("reset, fin-before, hang", "RST, FIN or silence at once"),
    (
        "reset-after-head, hang-after-head",
        "RST or silence after the head",
    ),
    (
        "reset-mid-body, truncate, hang-mid-body",
        "RST, FIN or silence after half of the body",
    ),
    (
        "reset-after-answer, fin-after-answer",
        "RST or FIN after the response",
    ),
    (
        "drip[:INTERVAL]",
        "a byte per interval [1ms]; size up to 1 MB",
    ),
    (
        "split",
        "the same without waiting: each byte in a send (with TLS: record) of its own",
    ),
    (
        "stateless-reset[:N]",
        "HTTP/3: when the client has the response to the N-th request of a connection [1], the \
         server forgets the connection, and its packets get a stateless reset (RFC 9000 section \
         10.3)",
    ),
    (
        "dynamic-entry",
        "HTTP/3: the head refers to an entry of QPACK's dynamic table that was never inserted",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{fault, llm, recipe};

    /// The names in the first column, without values.
    fn names(rows: &[(&'static str, &str)]) -> BTreeSet<&'static str> {
        let forms = rows.iter().flat_map(|(forms, _)| forms.split(", "));
        forms
            .map(|form| form.split(['=', '[', ':']).next().unwrap_or_default())
            .collect()
    }

    #[test]
    fn every_parameter_is_described_and_no_other() {
        assert_eq!(names(PARAMETERS), recipe::NAMES.into_iter().collect());
        assert_eq!(names(STREAM_PARAMETERS), llm::NAMES.into_iter().collect());
    }

    #[test]
    fn every_fault_is_described_and_no_other() {
        let plain = fault::PLAIN.iter().map(|(name, _)| *name);
        let known = plain.chain(["drip", "stateless-reset"]);
        assert_eq!(names(FAULTS), known.collect());
    }
}
