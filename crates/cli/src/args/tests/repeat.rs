//! The command that a report page gives to repeat a run, read back.

use std::process::Command;

use ::report::page::{PageSubject, build};
use analysis::{Observation, TrialFacts};
use plan::RunPlan;
use presentation::Block;
use results::{Environment, RunResult, Window};

use super::*;

/// What the page of a trial with this plan says, as a shell takes it apart.
fn command_of(plan: &RunPlan) -> Vec<OsString> {
    command_on_page(plan, "")
}

/// The same of a run whose command line was typed, unless that is empty.
fn command_on_page(plan: &RunPlan, typed: &str) -> Vec<OsString> {
    let result = RunResult {
        environment: Environment {
            command_line: typed.split_whitespace().map(str::to_owned).collect(),
            ..Environment::default()
        },
        ..RunResult::new(plan.clone(), Window::default())
    };
    let run = Observation {
        result: Some(Box::new(result)),
        trial: typed.is_empty().then(|| Box::new(TrialFacts::default())),
        ..Observation::default()
    };
    let page = build(&PageSubject {
        observations: &[run],
        ..PageSubject::default()
    });
    let blocks = page.sections.iter().flat_map(|section| &section.blocks);
    let text = blocks
        .filter_map(|block| match block {
            Block::Code { text, .. } => Some(text),
            _ => None,
        })
        .next()
        .expect("the page has a command");
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("printf '%s\\0' {text}"))
        .output()
        .expect("there is a shell");
    let words = String::from_utf8(output.stdout).expect("it is text");
    let words = words.split_terminator('\0');
    // The first is the program.
    words.skip(1).map(OsString::from).collect()
}

#[test]
fn the_command_on_a_page_makes_the_same_plan() {
    for line in [
        "",
        "-t3 -c7 -d1500ms -T750ms --warmup 2s",
        "-n1000",
        "-R2500.5 -d1m30s",
        "-R1k --arrivals poisson --seed 18446744073709551615",
        "--stages 0-1k:500ms,1k:30s,0:1s,5k-0.5:1m",
        "-H A:~b -H Cookie:~it's~\"q\"~$HOME -X PUT --body {\"a\":~1}",
        "--body-file a~b.bin -s x.lua",
        "--pipeline 16 -B --requests-per-connection 100",
        "--request-file a~b.jsonl --order weighted --seed 5",
        "--requests mix.http --seed 5 -n20",
        "--replay a~b.log --speed 2",
        "--no-keepalive -b 10.0.0.0/24 --io epoll",
        "--unix-socket /run/a~b.sock",
        "--sockets sport~=~:80~or~dport~=~:443 --interval 250ms --counters",
        "--counters",
        "--sockets=",
    ] {
        let plan = run(&format!("{line} {URL}")).plan;
        let words = command_of(&plan);
        match parse(Dialect::Native, words.clone()) {
            Ok(Request::Run(request)) => assert_eq!(request.plan, plan, "{words:?}"),
            other => panic!("{words:?} is no run: {other:?}"),
        }
    }
}

#[test]
fn the_command_on_a_page_has_certificates_and_arguments_of_scripts() {
    for line in [
        "--verify https://h/",
        "--cacert ca.pem --cert c.pem --key k.pem https://h/",
        "-s x.lua http://h/ -- -a --b c~d",
    ] {
        let plan = run(line).plan;
        let words = command_of(&plan);
        match parse(Dialect::Native, words.clone()) {
            Ok(Request::Run(request)) => assert_eq!(request.plan, plan, "{words:?}"),
            other => panic!("{words:?} is no run: {other:?}"),
        }
    }
}

#[test]
fn the_seed_of_a_typed_command_is_added_behind_its_name() {
    for (typed, has_seed) in [
        ("wrkbench llm http://h:1 --model m --output-tokens 5", true),
        ("wrkbench run --requests f http://h:1", true),
        ("wrkbench --requests f http://h:1", true),
        ("wrkbench replay f http://h:1", false),
    ] {
        let words = |line: &str| split(line.strip_prefix("wrkbench ").expect("its name"));
        let plan_of = |words: Vec<OsString>| match parse(Dialect::Native, words) {
            Ok(Request::Run(request)) => request.plan,
            Ok(Request::Llm(request)) => request.run.plan,
            other => panic!("{typed} is no run: {other:?}"),
        };
        let mut plan = plan_of(words(typed));
        if has_seed {
            plan.set_seed(4711);
        }
        let repeated = command_on_page(&plan, typed);
        assert_eq!(repeated.contains(&"--seed=4711".into()), has_seed);
        assert_eq!(plan_of(repeated), plan, "{typed}");
    }
}
