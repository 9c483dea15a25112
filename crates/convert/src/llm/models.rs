//! The question which models a server has, and what it answers.

use serde_json::Value;

use super::endpoint::Endpoint;
use crate::variables::{MarkedText, Variables};

/// A requests file with the request for the list of models.
#[must_use]
pub fn models_request(endpoint: &Endpoint) -> String {
    let path = MarkedText::plain(endpoint.models_path());
    let path = Value::from(Variables::default().template(&path));
    format!("{{\"method\":\"GET\",\"path\":{path}}}\n")
}

/// The names of the models in the body of the answer; `None` if it is no list of models.
#[must_use]
pub fn read_models(body: &[u8]) -> Option<Vec<String>> {
    let list: Value = serde_json::from_slice(body).ok()?;
    let models = list.get("data")?.as_array()?.iter();
    models
        .map(|model| model.get("id")?.as_str().map(str::to_owned))
        .collect()
}
