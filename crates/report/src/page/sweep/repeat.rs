//! The plan, the machine, and how to do all of it again.

use plan::shell;
use results::{Experiment, Order};

use super::design::Design;
use crate::page::run::environment_facts;
use crate::page::{Block, Section, Subject, words};

/// What the file of a plan is called where nobody knows.
const PLAN_FILE: &str = "plan.toml";

/// Nothing if there is neither a plan nor a result.
pub(super) fn section(subject: &Subject<'_>, design: &Design<'_>) -> Option<Section> {
    let mut blocks: Vec<Block> = Vec::new();
    for experiment in subject.experiments {
        blocks.extend(of_experiment(experiment));
    }
    let mut in_order: Vec<_> = design.runs.iter().collect();
    in_order.sort_by_key(|run| (run.position.is_none(), run.position));
    let first = in_order.iter().find_map(|run| run.result.as_deref());
    if let Some(result) = first {
        blocks.push(Block::Facts {
            facts: environment_facts(&result.environment),
        });
    }
    (!blocks.is_empty()).then(|| Section {
        id: "plan".to_owned(),
        title: "Plan, machine, and how to repeat it".to_owned(),
        lead: match (subject.experiments, first) {
            ([], _) => "The machine of the first run.".to_owned(),
            (_, Some(_)) => {
                "With the same seed the runs are made in the same order. The facts are those of the first run.".to_owned()
            }
            (_, None) => "With the same seed the runs are made in the same order.".to_owned(),
        },
        blocks,
        is_folded: false,
    })
}

fn of_experiment(experiment: &Experiment) -> [Block; 3] {
    let Experiment {
        schema_version: _,
        name,
        plan_toml,
        seed,
        order,
        rounds,
        cells,
        started_at,
    } = experiment;
    // Both may have been given in the plan's stead.
    let (seed_word, rounds_word) = (seed.to_string(), rounds.to_string());
    let words = [
        "wrkbench",
        "sweep",
        PLAN_FILE,
        "--rounds",
        &rounds_word,
        "--seed",
        &seed_word,
    ];
    let words = words.map(str::to_owned);
    let order = match order {
        Order::Shuffled => "drawn for each round",
        Order::Sequential => "always the plan's",
    };
    let mut facts = vec![
        ("Experiment".to_owned(), name.clone()),
        ("Combinations".to_owned(), words::count(cells.len() as u64)),
        ("Rounds".to_owned(), words::count(u64::from(*rounds))),
        ("Order within a round".to_owned(), order.to_owned()),
        ("Seed".to_owned(), seed.to_string()),
    ];
    if let Some(moment) = started_at {
        facts.push(("Started".to_owned(), words::moment(moment)));
    }
    [
        Block::Code {
            label: "To repeat it".to_owned(),
            text: shell::command(&words),
        },
        Block::Facts { facts },
        Block::Code {
            label: format!("The plan ({PLAN_FILE})"),
            text: plan_toml.clone(),
        },
    ]
}
