//! What several targets share.
#![allow(dead_code, reason = "each target uses its part")]

use plan::{RunPlan, Target};

/// A valid plan.
pub fn plan() -> RunPlan {
    RunPlan::new(Target::parse("http://h/").expect("it is a URL"))
}

/// Checks that a message is one line without control characters.
pub fn one_line(message: &str) {
    assert!(!message.is_empty());
    assert!(!message.chars().any(char::is_control), "{message:?}");
}
