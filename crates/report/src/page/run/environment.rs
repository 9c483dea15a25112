//! Where a run was made, with what plan, and how to make it again.

use analysis::Observation;
use plan::{RunPlan, shell};
use results::{Environment, RunResult};

use crate::page::{Block, Section, words};

/// Longer values of options are cut.
const SHOWN_CHARS_MAX: usize = 200;

/// The command first: it is what this section is opened for.
pub(super) fn section(run: &Observation, result: &RunResult) -> Section {
    let mut blocks = Vec::new();
    blocks.extend(commands(run, result));
    blocks.push(Block::Facts {
        facts: own_facts(run, result),
    });
    if !result.environment.sysctls.is_empty() {
        blocks.push(Block::Facts {
            facts: result.environment.sysctls.clone().into_iter().collect(),
        });
    }
    Section {
        id: "environment".to_owned(),
        title: "Environment and how to repeat it".to_owned(),
        lead: String::new(),
        blocks,
        is_folded: false,
    }
}

/// The plan with every default.
pub(super) fn plan_section(result: &RunResult) -> Section {
    Section {
        id: "plan".to_owned(),
        title: "Plan".to_owned(),
        lead: "What was run, with every default filled in.".to_owned(),
        blocks: vec![Block::Facts {
            facts: plan_facts(&result.plan),
        }],
        is_folded: true,
    }
}

fn commands(run: &Observation, result: &RunResult) -> Vec<Block> {
    let code = |label: &str, words: &[String]| Block::Code {
        label: label.to_owned(),
        text: shell::command(words),
    };
    let typed = &result.environment.command_line;
    let is_sweep = is_of_sweep(run, result);
    let mut blocks = Vec::new();
    if !typed.is_empty() {
        let label = if is_sweep {
            "The sweep that this run is one of"
        } else {
            "To repeat it"
        };
        blocks.push(code(label, &with_seed(typed, &result.plan, is_sweep)));
    }
    if is_sweep || typed.is_empty() {
        let planned = result.plan.command();
        blocks.extend(planned.map(|words| {
            code(
                "The load alone, without a sweep's settings around it",
                &words,
            )
        }));
    }
    blocks
}

/// The command line that was typed, or where there is none the one that makes the same load.
pub(crate) fn command_to_repeat(run: &Observation, result: &RunResult) -> Option<String> {
    let typed = &result.environment.command_line;
    let is_sweep = is_of_sweep(run, result);
    if typed.is_empty() || is_sweep {
        return result.plan.command().map(|words| shell::command(&words));
    }
    Some(shell::command(&with_seed(typed, &result.plan, is_sweep)))
}

fn is_of_sweep(run: &Observation, result: &RunResult) -> bool {
    let typed = &result.environment.command_line;
    run.trial.is_some() || typed.get(1).is_some_and(|word| word == "sweep")
}

/// The command line with the seed that was drawn, if one was.
fn with_seed(typed: &[String], plan: &RunPlan, is_sweep: bool) -> Vec<String> {
    let mut words = typed.to_vec();
    let has_seed = words
        .iter()
        .any(|word| word == "--seed" || word.starts_with("--seed="));
    if let (Some(seed), false, false) = (plan.pacing.random_seed(), has_seed, is_sweep) {
        // Before anything that could end the options.
        let at = match words.get(1) {
            Some(word) if word == "run" => 2,
            _ => 1,
        };
        words.insert(at.min(words.len()), format!("--seed={seed}"));
    }
    words
}

/// Facts of the machine and the program; what could not be found out is not there.
pub(crate) fn facts(environment: &Environment) -> Vec<(String, String)> {
    let Environment {
        wrkbench_version,
        command_line: _,
        started_at,
        hostname,
        kernel,
        cpu_model,
        cores,
        clocksource,
        sysctls: _,
    } = environment;
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.push((name.to_owned(), value));
        }
    };
    fact("Started", started_at.as_deref().map(words::moment));
    fact("Machine", hostname.clone());
    fact("Kernel", kernel.clone());
    let cores = cores.map(|cores| words::counted(u64::from(cores), "CPU"));
    fact(
        "Processor",
        match (cpu_model, cores) {
            (Some(model), Some(cores)) => Some(format!("{model}, {cores}")),
            (model, cores) => model.clone().or(cores),
        },
    );
    fact("Clock source", clocksource.clone());
    fact("wrkbench", Some(wrkbench_version.clone()));
    facts
}

/// The facts of the environment, and those that only a run has.
fn own_facts(run: &Observation, result: &RunResult) -> Vec<(String, String)> {
    let mut all = facts(&result.environment);
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            all.push((name.to_owned(), value));
        }
    };
    let backend = &result.backend;
    fact(
        "Event loop",
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
    fact(
        "Window",
        format!("{}{warmup}", words::duration_ns(window.duration_ns)),
    );
    for setting in &run.settings {
        fact(&setting.factor, setting.level.clone());
    }
    if let Some(trial) = &run.trial {
        fact("Round of the sweep", trial.round.to_string());
        for (name, value) in &trial.effective {
            fact(&format!("{name}, as the kernel took it"), value.clone());
        }
    }
    fact("Result", run.source.clone());
    all
}

/// What was run, with long values cut.
pub(crate) fn plan_facts(plan: &RunPlan) -> Vec<(String, String)> {
    let facts = plan.facts().into_iter();
    facts
        .map(|(label, value)| (label, words::cut(&value, SHOWN_CHARS_MAX)))
        .collect()
}
