//! Judgements as they are saved: with their text, so that a reader need not know the kinds.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize)]
struct WithText<'a, T> {
    #[serde(flatten)]
    judgement: &'a T,
    text: String,
}

pub(crate) fn serialize<T: Serialize + Display, S: Serializer>(
    judgements: &[T],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(judgements.iter().map(|judgement| WithText {
        judgement,
        text: judgement.to_string(),
    }))
}

pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    // The text follows from the kind and the numbers: what is read is not kept.
    Vec::deserialize(deserializer)
}
