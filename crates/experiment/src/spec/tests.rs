//! Plans as people write them, right and wrong.

use std::path::Path;
use std::time::Duration;

use results::Order;

use super::*;
use crate::factor::{FactorKind, LevelValue};

const TARGET: &str = "[[target]]\nname = 't'\nurl = 'http://h/'\n";

/// A plan with these lines, which stand behind three others.
fn read(more: &str) -> Result<Spec, String> {
    let text = format!("name = 'n'\n{more}\n{TARGET}");
    Spec::parse(&text, Path::new("/plans/p.toml")).map_err(|error| error.to_string())
}

fn refusal(more: &str) -> String {
    match read(more) {
        Ok(spec) => panic!("accepted: {spec:?}"),
        Err(text) => text,
    }
}

fn example(name: &str) -> Spec {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/experiments")
        .join(name);
    Spec::load(&path).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_first_example_says_what_the_script_did() {
    let spec = example("tcp-buffers.toml");
    assert_eq!(spec.name, "socket buffers behind nginx and php-fpm");
    assert_eq!(
        (spec.rounds, spec.retries, spec.order),
        (5, 1, Order::Shuffled)
    );
    assert!(spec.results.ends_with("examples/experiments/testlogs"));
    assert_eq!(spec.sysctls(), ["net.core.rmem_max", "net.core.wmem_max"]);
    assert_eq!(spec.factors[0].levels.len(), 7);
    assert_eq!(spec.factors[0].levels[6].name, "16777216");
    let hooks = &spec.hooks;
    let restart = hooks.restart.as_ref().map(|hook| hook.command.as_str());
    assert_eq!(restart, Some("systemctl restart nginx php-fpm"));
    assert_eq!(
        hooks.ready.as_ref().map(|ready| ready.within),
        Some(Duration::from_secs(10))
    );
    let telemetry = spec.telemetry.clone().expect("it asks for telemetry");
    assert_eq!(
        telemetry.sockets.as_deref(),
        Some("sport = :80 or sport = :9000")
    );
    assert!(telemetry.counters);
    let cells = crate::design::cells(&spec);
    assert_eq!(cells.len(), 7);
    assert_eq!(
        spec.arguments_of(&cells[0]).expect("a cell of this plan"),
        [
            "--threads=4",
            "--connections=300",
            "--duration=30s",
            "--warmup=3s",
            "--breakout",
            "http://localhost/index.php"
        ]
    );
}

#[test]
fn every_example_is_a_plan() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/experiments");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let spec = Spec::load(&path).unwrap_or_else(|error| panic!("{error}"));
            assert!(
                !crate::design::cells(&spec).is_empty(),
                "{}",
                path.display()
            );
            names.push(path);
        }
    }
    assert!(names.len() >= 5, "{names:?}");
}
