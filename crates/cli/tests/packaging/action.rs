//! The steps of `action.yml`, run in their order as a runner of GitHub runs them.

use std::collections::BTreeMap;
use std::process::Command;

use testkit::{Folder, Process};

use super::{file, root};

const PROGRAM: &str = env!("CARGO_BIN_EXE_wrkbench");

/// A step that runs shell code.
#[derive(Debug, Default)]
struct Step {
    id: Option<String>,
    environment: BTreeMap<String, String>,
    run: String,
}

/// The steps with `run:` of `action.yml`, which has one key on each line and no nested lists.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_step = false;
    for line in text.lines() {
        if line == "  steps:" {
            is_step = true;
            continue;
        }
        if !is_step {
            continue;
        }
        if line.starts_with("    - ") {
            steps.push(Step::default());
        }
        let Some(step) = steps.last_mut() else {
            continue;
        };
        let depth = line.len() - line.trim_start().len();
        let Some((key, value)) = line.trim().trim_start_matches("- ").split_once(": ") else {
            continue;
        };
        match (depth, key) {
            (6, "id") => step.id = Some(value.to_owned()),
            (6, "run") => step.run = value.to_owned(),
            (8, _) => drop(step.environment.insert(key.to_owned(), value.to_owned())),
            _ => {}
        }
    }
    steps.retain(|step| !step.run.is_empty());
    steps
}

/// The inputs of `action.yml` with their defaults.
fn defaults(text: &str) -> BTreeMap<String, String> {
    let inputs = text.split("\ninputs:\n").nth(1).expect("inputs");
    let inputs = inputs.split("\noutputs:\n").next().expect("outputs follow");
    let mut values = BTreeMap::new();
    let mut name = String::new();
    for line in inputs.lines() {
        if let Some(key) = line.strip_prefix("  ").filter(|key| !key.starts_with(' ')) {
            name = key.trim_end_matches(':').to_owned();
            values.insert(name.clone(), String::new());
        }
        if let Some(value) = line.strip_prefix("    default: ") {
            values.insert(name.clone(), value.trim_matches('"').to_owned());
        }
    }
    values
}

/// What a job of the action left behind.
#[derive(Debug)]
struct Job {
    code: Option<i32>,
    stdout: String,
    outputs: BTreeMap<String, String>,
    summary: String,
}

/// Runs the steps up to the first that fails.
fn job(folder: &Folder, inputs: &[(&str, &str)]) -> Job {
    let text = file("action.yml");
    let mut values = BTreeMap::new();
    for (name, value) in defaults(&text) {
        let given = inputs.iter().find(|(input, _)| *input == name);
        let value = given.map_or(value, |(_, value)| (*value).to_owned());
        values.insert(format!("inputs.{name}"), value);
    }
    for (name, _) in inputs {
        assert!(values.contains_key(&format!("inputs.{name}")), "{name}");
    }
    values.insert("github.action_path".into(), root().display().to_string());
    let mut job = Job {
        code: Some(0),
        stdout: String::new(),
        outputs: BTreeMap::new(),
        summary: String::new(),
    };
    let output_file = folder.file("output");
    let summary_file = folder.file("summary");
    for step in steps(&text) {
        std::fs::write(&output_file, "").expect("a file");
        let mut command = Command::new("sh");
        command
            .args(["-e", "-c", &step.run])
            .current_dir(folder.folder("workspace"))
            .env("RUNNER_TEMP", folder.folder("temporary"))
            .env("GITHUB_OUTPUT", &output_file)
            .env("GITHUB_STEP_SUMMARY", &summary_file);
        for (name, value) in &step.environment {
            let value = match expression(value) {
                Some(key) => values
                    .get(key)
                    .unwrap_or_else(|| panic!("{key} has no value")),
                None => value,
            };
            command.env(name, value);
        }
        let output = Process::start(command).finish();
        job.stdout.push_str(&output.stdout);
        job.code = output.code;
        for line in folder.read("output").lines() {
            let (name, value) = line.split_once('=').expect("an output has a value");
            if let Some(id) = &step.id {
                values.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
            }
            job.outputs.insert(name.to_owned(), value.to_owned());
        }
        if job.code != Some(0) {
            break;
        }
    }
    job.summary = std::fs::read_to_string(summary_file).unwrap_or_default();
    job
}

/// The inside of `${{ ... }}`.
fn expression(value: &str) -> Option<&str> {
    value.strip_prefix("${{ ")?.strip_suffix(" }}")
}

/// `wrkbench serve` on a free port, and its URL.
fn server() -> (Process, String) {
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    let mut server = Process::start(command);
    let line = server.next_line().expect("it says where it serves");
    let url = line.trim().strip_prefix("serving ").expect("the URL");
    (server, url.to_owned())
}

#[test]
fn inputs_reach_the_shell_as_environment_variables_only() {
    let text = file("action.yml");
    let steps = steps(&text);
    assert_eq!(steps.len(), 4, "{steps:?}");
    let runs = text
        .lines()
        .filter(|line| line.trim().starts_with("run:"))
        .count();
    assert_eq!(runs, steps.len(), "each `run:` is on one line");
    for step in steps {
        assert!(!step.run.contains("${{"), "{step:?}");
    }
}

#[test]
fn a_job_whose_conditions_hold_off_passes_and_keeps_summary_page_and_result() {
    let (_server, url) = server();
    let folder = Folder::new();
    let job = job(
        &folder,
        &[
            ("url", &url),
            (
                "options",
                "-t1\n-c2\n-n200\n--header=Accept: text/html; q=1\n",
            ),
            ("fail-if", "errors>0"),
            ("binary", PROGRAM),
        ],
    );
    assert_eq!(job.code, Some(0), "{job:?}");
    assert_eq!(job.outputs["exit-code"], "0");
    assert!(job.summary.contains("### Runs"), "{job:?}");
    let page = std::fs::read_to_string(&job.outputs["page"]).expect("a page");
    assert!(page.contains("<!DOCTYPE html>"), "{page}");
    let result = std::fs::read_to_string(&job.outputs["result"]).expect("a result");
    assert!(result.contains("Accept: text/html; q=1"), "{result}");
}

#[test]
fn a_job_whose_condition_holds_fails_after_annotation_summary_and_page() {
    let (_server, url) = server();
    let folder = Folder::new();
    let job = job(
        &folder,
        &[
            ("url", &format!("{url}?status=500")),
            ("options", "-t1\n-c2\n-n200"),
            ("fail-if", "status>1%\nrequests<1"),
            ("binary", PROGRAM),
        ],
    );
    assert_eq!(job.code, Some(2), "{job:?}");
    assert!(job.stdout.contains("::error"), "{job:?}");
    let summary = &job.summary;
    assert!(
        summary.contains(":x:") && summary.contains("limit status&gt;1%"),
        "{job:?}"
    );
    assert!(job.outputs.contains_key("page"), "{job:?}");
}

#[test]
fn a_run_without_a_result_fails_the_job_at_once() {
    let folder = Folder::new();
    let job = job(
        &folder,
        &[
            ("url", "http://127.0.0.1:1/"),
            ("options", "-c0"),
            ("binary", PROGRAM),
        ],
    );
    assert_eq!(job.code, Some(1), "{job:?}");
    assert_eq!(job.outputs["exit-code"], "1");
    assert!(job.stdout.contains("::error title=wrkbench::"), "{job:?}");
}

#[test]
fn several_options_on_one_line_are_refused_with_a_sentence() {
    for line in [
        "-t1 -c2",
        "-c 2",
        "--duration 1",
        "--duration=1 -c2",
        "--duration=1 --rate=5",
        "-t1 -c2 --header=A: b",
    ] {
        let folder = Folder::new();
        let inputs = [
            ("url", "http://127.0.0.1:1/"),
            ("options", line),
            ("binary", PROGRAM),
        ];
        let job = job(&folder, &inputs);
        assert_eq!(job.code, Some(1), "{job:?}");
        let said = "the input options takes one option per line";
        assert!(
            job.stdout.contains(said) && job.stdout.contains(line),
            "{job:?}"
        );
    }
}

#[test]
fn values_of_options_may_have_spaces() {
    let (_server, url) = server();
    for line in [
        "--header=A: b -c --d",
        "-HA: b",
        "--body=a -b",
        "--rate=500 ",
        "--tag=two words",
    ] {
        let folder = Folder::new();
        let options = format!("-n20\n-t1\n-c2\n{line}");
        let inputs = [
            ("url", url.as_str()),
            ("options", &options),
            ("binary", PROGRAM),
        ];
        let job = job(&folder, &inputs);
        let said = "takes one option per line";
        assert!(!job.stdout.contains(said), "{line}: {job:?}");
    }
}

#[test]
fn inputs_are_never_run_as_code() {
    let folder = Folder::new();
    let touched = folder.file("touched");
    let code = format!("$(touch {touched})`touch {touched}`; touch {touched} #");
    for input in ["url", "options", "fail-if", "version", "binary"] {
        let mut inputs = vec![("url", "http://127.0.0.1:1/")];
        // The version matters only where there is no binary yet.
        if input != "version" {
            inputs.push(("binary", PROGRAM));
        }
        inputs.retain(|(name, _)| *name != input);
        inputs.push((input, &code));
        let job = job(&folder, &inputs);
        assert_ne!(job.code, Some(0), "{job:?}");
        assert!(!std::path::Path::new(&touched).exists(), "{input}");
    }
}
