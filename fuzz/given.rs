//! What the targets around a plan share.
#![allow(dead_code, reason = "each target uses its part")]

use std::time::Duration;

use plan::{BackendChoice, Load, Pacing, RequestSpec, RunPlan, Stop, Target, TlsSpec};

/// A plan that can be run.
pub fn plan() -> RunPlan {
    RunPlan {
        target: Target::parse("http://h/").expect("it is a URL"),
        load: Load::default(),
        pacing: Pacing::Closed,
        stop: Stop {
            duration: Some(Duration::from_secs(1)),
            requests: None,
        },
        warmup: Duration::ZERO,
        timeout: Duration::from_secs(2),
        request: RequestSpec::default(),
        tls: TlsSpec::default(),
        backend: BackendChoice::Auto,
        telemetry: None,
    }
}

/// Messages are one line that a terminal shows as it is.
pub fn one_line(message: &str) {
    assert!(!message.is_empty());
    assert!(!message.chars().any(char::is_control), "{message:?}");
}
