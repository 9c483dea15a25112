//! Any text as an experiment file, or the examples with some pieces replaced: it is refused with a
//! line for each problem, or it has a schedule, command lines and a preflight.

#![no_main]

#[path = "../given.rs"]
mod given;

use std::path::Path;

use experiment::fake::Fake;
use experiment::{RemoteHosts, Schedule, Spec, preflight};
use libfuzzer_sys::fuzz_target;

const EXAMPLES: [&str; 6] = [
    include_str!("../../examples/experiments/connections.toml"),
    include_str!("../../examples/experiments/nginx-file.toml"),
    include_str!("../../examples/experiments/squid.toml"),
    include_str!("../../examples/experiments/squid-places.toml"),
    include_str!("../../examples/experiments/tcp-buffers.toml"),
    include_str!("../../examples/experiments/tcp-rmem.toml"),
];

/// Longer schedules are valid, but take longer than they are worth here.
const TRIALS_MAX: usize = 2_000;

fuzz_target!(|data: &[u8]| {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let text = match EXAMPLES.get(usize::from(*how) % (EXAMPLES.len() + 1)) {
        Some(example) => given::with_pieces_replaced(example.as_bytes(), rest),
        None => rest.to_vec(),
    };
    let Ok(text) = String::from_utf8(text) else {
        return;
    };
    match Spec::parse(&text, Path::new("/plans/p.toml")) {
        Ok(spec) => check(&spec),
        Err(error) => {
            for line in error.to_string().lines() {
                given::one_line(line);
                assert!(line.starts_with("/plans/p.toml:"), "{line}");
            }
        }
    }
});

fn check(spec: &Spec) {
    let rounds = usize::try_from(spec.rounds).expect("it is in range");
    let schedule = {
        let mut one_round = spec.clone();
        one_round.set_rounds(1).expect("fewer rounds are valid too");
        Schedule::new(&one_round, 1)
    };
    if schedule.trials.len() * rounds > TRIALS_MAX {
        return;
    }
    let schedule = Schedule::new(spec, schedule.seed);
    assert_eq!(Schedule::new(spec, schedule.seed), schedule);
    for cell in &schedule.cells {
        let arguments = spec
            .arguments_of(cell)
            .expect("the cell is the experiment's");
        let url = &spec.target(&cell.target).expect("it has a target").url;
        assert!(arguments.contains(url));
        for (name, value) in spec.environment_of(cell) {
            assert!(!name.is_empty() && !name.contains(['=', '\0']), "{name:?}");
            assert!(!value.contains('\0'), "{name}={value:?}");
        }
    }
    let mut host = Fake::with(&[]);
    let before = host.files.clone();
    let found = preflight(
        spec,
        &schedule,
        &mut host,
        &mut RemoteHosts::new(),
        None,
        &mut |_| Ok(given::plan()),
    );
    for line in found.problems.iter().chain(&found.notes) {
        given::one_line(line);
    }
    assert!(found.text.ends_with('\n'));
    assert_eq!(host.files, before, "a preflight changes nothing");
}
