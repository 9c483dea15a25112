//! Any text as a response recipe: on the command line, as the target of a request, or as another
//! option of the built-in server. A refusal is one line.

#![no_main]

#[path = "../given.rs"]
mod given;

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use origin::{
    Delay, Fault, Recipe, parse_backend, parse_bytes, parse_duration_ns, parse_greeting,
    parse_listen, parse_probability, parse_stall,
};
use plan::InvalidValue;

fuzz_target!(|text: &str| {
    // No request target has control characters. On the command line they are quoted as they are.
    if text.contains(char::is_control) {
        return;
    }
    let recipe = read(Recipe::from_text(text));
    if let Some(recipe) = &recipe {
        // The query of a target can say whatever the command line can.
        let by_target = Recipe::default().changed_by(&format!("/?{text}"));
        assert_eq!(by_target.as_ref(), Ok(recipe));
    }
    read(recipe.unwrap_or_default().changed_by(text));
    read(Delay::parse(text));
    read(Fault::parse(text));
    read(parse_backend(text));
    read(parse_bytes(text));
    read(parse_duration_ns(text));
    read(parse_greeting(text));
    read(parse_listen(text));
    if let Some(probability) = read(parse_probability(text)) {
        assert!((0.0..=1.0).contains(&probability), "{probability}");
    }
    let (at, length) = text.split_once(',').unwrap_or((text, ""));
    read(parse_stall(at, length));
});

fn read<T: Debug>(parsed: Result<T, InvalidValue>) -> Option<T> {
    parsed.map_err(|error| given::one_line(&error.to_string())).ok()
}
