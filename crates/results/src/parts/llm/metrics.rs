//! The metrics of tokens.

use crate::RunResult;
use crate::Samples;
use crate::exported::{self, ExportedMetric, Instrument, Value};
use crate::metric::Better::{Higher, Neither};
use crate::metric::{Getter, MetricRow, Needs, Time, TimeRow, Unit, measured, row};

const TOPIC: &str = "tokens of language models (--events llm)";

/// Responses of language models can take many seconds.
const fn needs(missing: fn(&RunResult) -> &'static str) -> Needs {
    Needs {
        is_of_long_responses: true,
        ..Needs::new(TOPIC, missing)
    }
}

fn unless_off(run: &RunResult, otherwise: &'static str) -> &'static str {
    if run.recording.parts.llm.is_none() {
        return "tokens were not measured (--events llm)";
    }
    otherwise
}

const TOKENS: Needs = needs(|run| unless_off(run, "no response had a token"));
const COMPLETE_ANSWERS: Needs =
    needs(|run| unless_off(run, "no response of the model was complete"));
const TOKEN_GAPS: Needs = needs(|run| unless_off(run, "no response had two events with tokens"));
const TEXT: Needs = needs(|run| unless_off(run, "no response had visible text"));
const INPUT_TOKENS: Needs = needs(|run| unless_off(run, "the server counted no tokens of prompts"));

#[rustfmt::skip]
pub(super) static METRICS: [MetricRow; 5] = [
    row("output_tokens_per_sec", &[], "output tokens/s",
        (Unit::TokensPerSec, Higher, COMPLETE_ANSWERS),
        Getter::PerSec(|run| Some(run.recording.parts.llm.as_ref()?.arrived_tokens()))),
    row("input_tokens_per_sec", &[], "input tokens/s",
        (Unit::TokensPerSec, Higher, INPUT_TOKENS),
        Getter::PerSec(|run| Some(run.recording.parts.llm.as_ref()?.input_tokens))).at_end(),
    row("output_tokens_per_response", &[], "output tokens per response",
        (Unit::Tokens, Neither, COMPLETE_ANSWERS),
        Getter::Number(|run| run.recording.parts.llm.as_ref()?.output_per_response_mean())),
    row("input_tokens_per_response", &[], "input tokens per response",
        (Unit::Tokens, Neither, INPUT_TOKENS),
        Getter::Number(|run| run.recording.parts.llm.as_ref()?.input_per_response_mean())),
    row("cut_short", &[], "responses cut short by the limit of tokens",
        (Unit::Count, Neither, COMPLETE_ANSWERS),
        Getter::Part(|run| Some(run.recording.parts.llm.as_ref()?.finish.length),
                     |run| run.recording.parts.llm.as_ref().map_or(0, |llm| llm.responses))).at_end(),
];

#[rustfmt::skip]
pub(super) static TIMES: [TimeRow; 4] = [
    TimeRow { name: "first_token", needs: TOKENS,
        samples: |it| it.parts.llm.as_ref().map(|it| Samples::new(&it.first_token, &it.waiting)) },
    TimeRow { name: "first_text", needs: TEXT,
        samples: |it| measured(&it.parts.llm.as_ref()?.first_text) },
    TimeRow { name: "token_gap", needs: TOKEN_GAPS,
        samples: |it| measured(&it.parts.llm.as_ref()?.token_gap) },
    TimeRow { name: "time_per_token", needs: TOKEN_GAPS,
        samples: |it| measured(&it.parts.llm.as_ref()?.time_per_token) },
];

/// [`crate::LlmRecording::first_token`], with the ages in [`crate::LlmRecording::waiting`].
pub const FIRST_TOKEN: Time = Time::of(&TIMES[0]);
/// [`crate::LlmRecording::time_per_token`]: the mean of each response.
pub const TIME_PER_TOKEN: Time = Time::of(&TIMES[3]);

#[rustfmt::skip]
pub(super) fn exported() -> Vec<ExportedMetric> {
    vec![
        exported::metric("gen_ai.client.operation.time_to_first_chunk", exported::TIMES,
            "Until the first event with tokens of a language model's response",
            |it| Some(Value::Times(&it.snapshot.parts.llm.as_ref()?.first_token))),
        exported::metric("wrkbench.time_per_token", exported::TIMES,
            "Mean time from one token to the next of each response of a language model",
            |it| Some(Value::Times(&it.snapshot.parts.llm.as_ref()?.time_per_token))),
        exported::metric("wrkbench.output_tokens", (Instrument::Counter, Unit::Count, "token"),
            "Generated tokens of complete responses of a language model",
            |it| Some(Value::Count(it.snapshot.parts.llm.as_ref()?.output_tokens))),
    ]
}
