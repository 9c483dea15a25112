//! Machine and plan of the runs, and the commands that repeat them.

use analysis::{Observation, grouped};
use plan::units::percentage;
use plan::{RunPlan, shell};
use presentation::tables::Facts;
use presentation::{Block, Section, words};
use results::{Environment, Experiment, Order, RunResult};

use crate::page::runs::Runs;

/// Longer values of options are cut.
const SHOWN_CHARS_MAX: usize = 200;

/// The name of an experiment file in commands.
const EXPERIMENT_FILE: &str = "plan.toml";

/// The first run that was made of those with a result.
fn first_result<'a>(runs: &Runs<'a>) -> Option<(&'a Observation, &'a RunResult)> {
    let mut in_order: Vec<&Observation> = runs.all.iter().collect();
    in_order.sort_by_key(|run| (run.position.is_none(), run.position));
    in_order
        .into_iter()
        .find_map(|run| Some((run, run.result.as_deref()?)))
}

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let experiments = runs.subject.experiments;
    let mut blocks: Vec<Block> = experiments.iter().flat_map(blocks_of_experiment).collect();
    blocks.extend(match runs.single() {
        Some(run) => run
            .result
            .iter()
            .flat_map(|result| commands(run, result))
            .collect(),
        None if experiments.is_empty() => commands_of_runs(runs),
        None => Vec::new(),
    });
    let is_single = runs.single().is_some();
    let first = first_result(runs);
    if let Some((run, result)) = first {
        let facts = if is_single {
            facts_of_run(run, result)
        } else {
            environment_facts(&result.environment)
        };
        blocks.extend(facts.block());
        blocks.extend(Facts(result.environment.sysctls.clone().into_iter().collect()).block());
    }
    let seed = match experiments {
        [] => "",
        _ => "With the same seed the runs are made in the same order",
    };
    let facts_of_first = match (is_single, first) {
        (false, Some(_)) => "The facts are those of the first run",
        _ => "",
    };
    let lead = words::sentences([seed, facts_of_first]);
    let title = "Environment and how to repeat it";
    (!blocks.is_empty()).then(|| Section::new("environment", title, lead, blocks))
}

/// The plan with every default.
pub(super) fn plan(runs: &Runs<'_>) -> Option<Section> {
    let (_, result) = first_result(runs)?;
    let lead = match runs.single() {
        Some(_) => "All options, including defaults.",
        None => "All options of the first run, including defaults.",
    };
    let facts = plan_facts(&result.plan);
    Some(Section::new("plan", "Plan", lead, vec![Block::Facts { facts }]).folded(true))
}

fn blocks_of_experiment(experiment: &Experiment) -> [Block; 3] {
    let Experiment {
        schema_version: _,
        name,
        plan_toml,
        seed,
        order,
        rounds,
        stopping,
        threshold,
        judge,
        slo: _,
        cells,
        started_at,
    } = experiment;
    let (seed, rounds) = (seed.to_string(), rounds.to_string());
    let precision = stopping.and_then(|it| it.precision);
    // The command line may have set all of these in place of the file.
    let options = [
        ("--rounds", Some(rounds.clone())),
        ("--seed", Some(seed.clone())),
        ("--until-precise", precision.map(percentage)),
        ("--threshold", threshold.map(percentage)),
        ("--judge", (!judge.is_empty()).then(|| judge.join(","))),
    ];
    let mut words = ["wrkbench", "sweep", EXPERIMENT_FILE]
        .map(str::to_owned)
        .to_vec();
    for (option, value) in options {
        words.extend(
            value
                .into_iter()
                .flat_map(|value| [option.to_owned(), value]),
        );
    }
    let mut facts = Facts::default();
    facts.add("Experiment", name);
    facts.add("Cells", words::count(cells.len() as u64));
    let at_most = if stopping.is_some() { "at most " } else { "" };
    facts.add("Rounds", format!("{at_most}{rounds}"));
    facts.add(
        "Order within a round",
        match order {
            Order::Shuffled => "shuffled",
            Order::Sequential => "as in the experiment file",
        },
    );
    facts.add("Seed", &seed);
    facts.add_known("Started", started_at.as_deref().map(words::moment));
    [
        Block::Code {
            label: "To repeat it".to_owned(),
            text: shell::command(&words),
        },
        Block::Facts { facts: facts.0 },
        Block::Code {
            label: format!("The experiment file ({EXPERIMENT_FILE})"),
            text: plan_toml.clone(),
        },
    ]
}

fn commands(run: &Observation, result: &RunResult) -> Vec<Block> {
    let code = |label: &str, words: &[String]| Block::Code {
        label: label.to_owned(),
        text: shell::command(words),
    };
    let typed = &result.environment.command_line;
    let is_trial = is_trial(run, result);
    let mut blocks = Vec::new();
    if !typed.is_empty() {
        let label = if is_trial {
            "The experiment that this run belongs to"
        } else {
            "To repeat it"
        };
        blocks.push(code(label, &with_seed(typed, &result.plan, is_trial)));
    }
    if is_trial || typed.is_empty() {
        let planned = result.plan.command();
        let label = "The load alone, without the settings of the experiment";
        blocks.extend(planned.map(|words| code(label, &words)));
    }
    blocks
}

/// The commands of several runs, each once.
fn commands_of_runs(runs: &Runs<'_>) -> Vec<Block> {
    let commands = runs.results().filter_map(|(run, result)| {
        let typed = &result.environment.command_line;
        let words = if typed.is_empty() || is_trial(run.run, result) {
            result.plan.command()?
        } else {
            with_seed(typed, &result.plan, false)
        };
        Some((shell::command(&words), run.name.clone()))
    });
    let code = |(text, names): (String, Vec<String>)| Block::Code {
        label: words::list(&names),
        text,
    };
    grouped(commands).into_iter().map(code).collect()
}

fn is_trial(run: &Observation, result: &RunResult) -> bool {
    let typed = &result.environment.command_line;
    run.trial.is_some() || typed.get(1).is_some_and(|word| word == "sweep")
}

/// The commands that have the options of a run.
const COMMANDS_OF_RUNS: [&str; 3] = ["run", "replay", "llm"];

/// The command line with the random seed, if there is one.
fn with_seed(typed: &[String], plan: &RunPlan, is_trial: bool) -> Vec<String> {
    let mut words = typed.to_vec();
    let has_seed = words
        .iter()
        .any(|word| word == "--seed" || word.starts_with("--seed="));
    if let (Some(seed), false, false) = (plan.random_seed(), has_seed, is_trial) {
        // Before anything that could end the options.
        let at = match words.get(1) {
            Some(word) if COMMANDS_OF_RUNS.contains(&word.as_str()) => 2,
            _ => 1,
        };
        words.insert(at.min(words.len()), format!("--seed={seed}"));
    }
    words
}

/// What is known of the machine and the program.
pub(super) fn environment_facts(environment: &Environment) -> Facts {
    let Environment {
        wrkbench_version,
        command_line: _,
        started_at,
        hostname,
        kernel,
        cpu_model,
        cores,
        clocksource,
        labels,
        sysctls: _,
    } = environment;
    let mut facts = Facts::default();
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    facts.add_known("Labels", (!labels.is_empty()).then(|| labels.join(", ")));
    facts.add_known("Started", started_at.as_deref().map(words::moment));
    facts.add_known("Machine", hostname.clone());
    facts.add_known("Kernel", kernel.clone());
    let cores = cores.map(|cores| words::counted(u64::from(cores), "CPU"));
    facts.add_known(
        "Processor",
        match (cpu_model, cores) {
            (Some(model), Some(cores)) => Some(format!("{model}, {cores}")),
            (model, cores) => model.clone().or(cores),
        },
    );
    facts.add_known("Clock source", clocksource.clone());
    facts.add("wrkbench", wrkbench_version);
    facts
}

fn facts_of_run(run: &Observation, result: &RunResult) -> Facts {
    let mut facts = environment_facts(&result.environment);
    let backend = &result.backend;
    facts.add(
        "Backend",
        match backend.reason.as_str() {
            "" => backend.name.clone(),
            reason => format!("{} ({reason})", backend.name),
        },
    );
    let window = &result.window;
    let warmup = match window.warmup_ns {
        0 => String::new(),
        ns => format!(", after a warm-up of {}", words::duration_ns(ns)),
    };
    facts.add(
        "Window",
        format!("{}{warmup}", words::duration_ns(window.duration_ns)),
    );
    for setting in &run.settings {
        facts.add(&setting.factor, &setting.level);
    }
    if let Some(trial) = &run.trial {
        facts.add("Round", trial.round.to_string());
        for (name, value) in &trial.effective {
            facts.add(&format!("{name}, as the kernel took it"), value);
        }
    }
    facts.add("Result", &run.source);
    facts
}

/// The options of a plan; long values are cut.
pub(super) fn plan_facts(plan: &RunPlan) -> Vec<(String, String)> {
    let facts = plan.facts().into_iter();
    facts
        .map(|(label, value)| (label, words::cut(&value, SHOWN_CHARS_MAX)))
        .collect()
}
