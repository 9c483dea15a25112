//! What a language model's server says when it refuses requests, and what to do about it.

use plan::RunPlan;
use plan::readable::counted;
use plan::secrets::hide_in_url;
use results::{FirstError, RunResult};

/// Why the run has ended: the server refused all of its first requests, so many.
pub(crate) fn denial(result: &RunResult, denied: u32) -> String {
    let plan = &result.plan;
    let url = hide_in_url(&plan.target.url);
    let requests = match denied {
        1 => "the first request".to_owned(),
        denied => format!("the first {}", counted(denied.into(), "request")),
    };
    let Some(error) = first_error(result) else {
        return format!("{url} refused {requests}");
    };
    let advice = advice(error.status, plan).unwrap_or_default();
    format!("{url} refused {requests} with {error}{advice}")
}

/// What the server says in the first response that was an error.
pub(crate) fn note(result: &RunResult) -> Option<String> {
    let error = first_error(result)?;
    let FirstError { status, words } = error;
    let advice = advice(*status, &result.plan).unwrap_or_default();
    Some(match words.as_str() {
        "" => format!("a response with status {status} has no body{advice}"),
        words => format!("the server says with status {status}: {words:?}{advice}"),
    })
}

fn first_error(result: &RunResult) -> Option<&FirstError> {
    result.recording.parts.llm.as_ref()?.first_error.as_ref()
}

/// What to do about a status of a language model's server, in brackets; `None` if it is not known.
#[must_use]
pub fn advice(status: u16, plan: &RunPlan) -> Option<&'static str> {
    match status {
        401 | 403 if has_key(plan) => Some(" (is --api-key right?)"),
        401 | 403 => Some(" (--api-key KEY is for servers that want a key)"),
        404 => Some(" (are --model and the path right?)"),
        _ => None,
    }
}

/// Whether requests have a key.
fn has_key(plan: &RunPlan) -> bool {
    let names = ["authorization", "x-api-key"];
    let mut headers = plan.request.headers.iter();
    headers.any(|(name, _)| names.iter().any(|it| name.eq_ignore_ascii_case(it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(status: u16, words: &str) -> RunResult {
        let target = plan::Target::parse("http://h/v1?api_key=secret").expect("a URL");
        let mut result = RunResult::new(RunPlan::new(target), results::Window::default());
        result.recording.parts.llm = Some(results::LlmRecording {
            first_error: Some(FirstError {
                status,
                words: words.to_owned(),
            }),
            ..results::LlmRecording::default()
        });
        result
    }

    #[test]
    fn a_denial_names_the_url_the_words_and_what_to_do() {
        let mut unauthorized = result(401, "no key");
        assert_eq!(
            denial(&unauthorized, 20),
            "http://h/v1?api_key=*** refused the first 20 requests with status 401: \"no key\" \
             (--api-key KEY is for servers that want a key)"
        );
        let key = ("x-api-key".to_owned(), "***".to_owned());
        unauthorized.plan.request.headers.push(key);
        let text = denial(&unauthorized, 20);
        assert!(text.ends_with("\"no key\" (is --api-key right?)"), "{text}");
        assert_eq!(
            denial(&result(404, ""), 1),
            "http://h/v1?api_key=*** refused the first request with status 404 and an empty body \
             (are --model and the path right?)"
        );
    }

    #[test]
    fn a_run_that_goes_on_has_a_note_about_its_first_error() {
        assert_eq!(
            note(&result(500, "out of memory")).as_deref(),
            Some("the server says with status 500: \"out of memory\"")
        );
        assert_eq!(
            note(&result(404, "")).as_deref(),
            Some("a response with status 404 has no body (are --model and the path right?)")
        );
    }
}
