//! The commands in README.md and docs/ work as they stand there.
//!
//! A block marked ```sh is run, all blocks of a document in one shell, in a copy of `examples/` and
//! `docs/data/`. In a block marked ```console the lines after `$ ` are run, and the lines below
//! each are compared with its output: numbers may differ, words may not. HTML comments right above
//! a block change this:
//!
//! - `<!-- not run: reason -->`: not run. The arguments of wrkbench are still checked;
//! - `<!-- exit code: 2 -->`: of the last command in the block; `0 or 2` if that depends on the
//!   machine;
//! - `<!-- interrupted after: 3 s -->`: the block is one command, which gets SIGINT then;
//! - `<!-- exact -->`: numbers must not differ either;
//! - `<!-- file: plan.toml -->`: the block is the content of this file;
//! - `<!-- run first: ... -->`: commands that the next blocks depend on; may have several lines.
//!
//! Everything runs in its own namespaces (network, processes, mounts), in which a built-in server
//! replaces nginx and php-fpm on port 80, `systemctl` restarts it, and two other settings replace
//! `net.core.rmem_max` and `wmem_max`. Durations are shortened, and experiments have
//! two rounds.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod blocks;
mod installed;
mod sandbox;
mod script;
mod shape;
mod shell;
mod shorten;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use blocks::{Block, BlockKind};

/// One test for each document with commands.
macro_rules! documents {
    ($($name:ident: $path:literal,)*) => {
        $(
            #[test]
            fn $name() {
                run_document($path);
            }
        )*
        /// The documents that are run.
        const RUN: &[&str] = &[$($path),*];
    };
}

documents! {
    the_commands_of_the_readme_work: "README.md",
    the_commands_of_addresses_work: "docs/addresses.md",
    the_commands_of_comparing_work: "docs/comparing.md",
    the_commands_of_connections_work: "docs/connections.md",
    the_commands_of_experiments_work: "docs/experiments.md",
    the_commands_of_fleet_work: "docs/fleet.md",
    the_commands_of_formats_work: "docs/formats.md",
    the_commands_of_from_curl_work: "docs/from-curl.md",
    the_commands_of_grpc_work: "docs/grpc.md",
    the_commands_of_hdr_files_work: "docs/hdr-files.md",
    the_commands_of_history_work: "docs/history.md",
    the_commands_of_http2_work: "docs/http2.md",
    the_commands_of_http3_work: "docs/http3.md",
    the_commands_of_judging_work: "docs/judging.md",
    the_commands_of_look_first_work: "docs/look-first.md",
    the_commands_of_llm_work: "docs/llm.md",
    the_commands_of_llm_reference_work: "docs/llm-reference.md",
    the_commands_of_measuring_work: "docs/measuring.md",
    the_commands_of_network_work: "docs/network.md",
    the_commands_of_really_faster_work: "docs/really-faster.md",
    the_commands_of_report_work: "docs/report.md",
    the_commands_of_replay_work: "docs/replay.md",
    the_commands_of_result_format_work: "docs/result-format.md",
    the_commands_of_requests_work: "docs/requests.md",
    the_commands_of_restoring_work: "docs/restoring.md",
    the_commands_of_scripting_work: "docs/scripting.md",
    the_commands_of_serve_work: "docs/serve.md",
    the_commands_of_streaming_work: "docs/streaming.md",
    the_commands_of_tables_work: "docs/tables.md",
    the_commands_of_ten_minutes_work: "docs/ten-minutes.md",
    the_commands_of_tuning_work: "docs/tuning.md",
    the_commands_of_telemetry_work: "docs/telemetry.md",
    the_commands_of_versus_work: "docs/versus.md",
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md, CONTRIBUTING.md and the documents in docs/, as paths from the root.
fn all_documents() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/{name}"))
        .collect();
    names.extend(["README.md".to_owned(), "CONTRIBUTING.md".to_owned()]);
    names.sort();
    names
}

fn read(document: &str) -> Vec<Block> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    blocks::of(&text).unwrap_or_else(|error| panic!("{document}:{error}"))
}

#[track_caller]
fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "\n  {}", findings.join("\n  "));
}

#[test]
fn every_document_with_commands_is_run() {
    for document in all_documents() {
        let has_commands = read(&document).iter().any(Block::is_run);
        assert_eq!(
            has_commands,
            RUN.contains(&document.as_str()),
            "{document}: a line in `documents!` is missing, or one too many"
        );
    }
}

#[test]
fn examples_shown_in_documents_equal_the_files_in_examples() {
    let mut count = 0;
    for document in all_documents() {
        for block in read(&document) {
            let Some(file) = block.file.filter(|file| file.starts_with("examples/")) else {
                continue;
            };
            count += 1;
            let example = fs::read_to_string(root().join(&file)).unwrap();
            assert_eq!(block.text, example, "{document}:{}: {file}", block.line);
        }
    }
    assert!(count > 0);
}

/// Whether a line of a block that is not run looks like a command.
fn is_command(line: &str) -> bool {
    let begins = ["$ ", "wrkbench ", "sudo wrkbench ", "make "];
    begins.iter().any(|begin| line.starts_with(begin)) || line.contains("| wrkbench ")
}

#[test]
fn commands_are_only_in_blocks_that_are_tested() {
    let mut findings = Vec::new();
    for document in all_documents() {
        for block in read(&document) {
            if matches!(block.kind, BlockKind::Shell | BlockKind::Session) {
                continue;
            }
            for (number, line) in block.text.lines().enumerate() {
                if is_command(line) {
                    let at = block.line + number + 1;
                    findings.push(format!(
                        "{document}:{at}: a command outside ```sh and ```console: {line}"
                    ));
                }
            }
        }
    }
    assert_none(&findings);
}

/// Why the program rejects these arguments. With `--help` appended it only prints help, unless an
/// argument is unknown.
fn refusal(arguments: &[String]) -> Option<String> {
    let mut all = arguments.to_vec();
    // Behind it everything is curl's.
    let is_curl = all.first().is_some_and(|command| command == "curl");
    let end = all
        .iter()
        .position(|argument| argument == "--" || is_curl && argument == "curl")
        .map_or(all.len(), |at| at + usize::from(is_curl));
    all.insert(end, "--help".to_owned());
    let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
        .args(&all)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    // Prose names an option without its value.
    let is_unknown = !output.status.success() && !said.contains("needs a value");
    is_unknown.then_some(said)
}

/// All commands of a document, including those in its sentences.
fn commands_of(document: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let in_blocks = read(document)
        .into_iter()
        .flat_map(|block| block.commands());
    let in_prose = blocks::spans(&text)
        .into_iter()
        .flat_map(|span| shell::commands(&span));
    in_blocks.chain(in_prose).collect()
}

#[test]
fn the_arguments_of_every_command_are_valid() {
    let mut findings = Vec::new();
    let mut count = 0;
    for document in all_documents() {
        for words in commands_of(&document) {
            let Some(arguments) = shell::arguments_of("wrkbench", &words) else {
                continue;
            };
            count += 1;
            // Documents write URL for any URL.
            let filled: Vec<String> = arguments
                .iter()
                .map(|word| word.replace("URL", "http://127.0.0.1/"))
                .collect();
            if let Some(said) = refusal(&filled) {
                findings.push(format!(
                    "{document}: wrkbench {}: {said}",
                    arguments.join(" ")
                ));
            }
        }
    }
    assert_none(&findings);
    assert!(count > 50, "only {count} commands were found");
}

/// The command lines below "Examples:" in the help of a command.
fn examples_of(command: &str) -> Vec<String> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
    let output = program.args([command, "--help"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, examples) = text.split_once("\nExamples:\n").unwrap();
    let lines = examples.lines().take_while(|line| !line.is_empty());
    let commands = lines.filter(|line| !line.starts_with("  #"));
    commands.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_examples_of_the_help_are_commands_of_the_documents() {
    // A command in a sentence may be broken into two lines.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let documents: Vec<String> = all_documents()
        .iter()
        .map(|document| words(&fs::read_to_string(root().join(document)).unwrap()))
        .collect();
    let mut findings = Vec::new();
    for command in COMMANDS.split(' ') {
        let examples = examples_of(command);
        assert!(!examples.is_empty(), "{command}");
        let unknown = examples.into_iter().filter(|example| {
            let mut texts = documents.iter();
            !texts.any(|text| text.contains(example.as_str()))
        });
        findings.extend(unknown.map(|example| format!("{command} -h: {example}")));
    }
    assert_none(&findings);
}

const COMMANDS: &str = "run curl har llm serve demo sweep versus search check table compare report \
    sockets restore completions man";

/// Options of other programs in the documents: of nsenter, a script, the bench and oha, of curl,
/// of what installs packages, of Docker, of Prometheus, of vLLM's benchmark, AIPerf and the example
/// for traces, and prefixes that wrk accepts too.
const FOREIGN_OPTIONS: &str = "--net --target --fast --only --latency-correction --locked --path \
    --prefix --from --rm --network --cpus --t --h --s --d --r --b --u --co \
    --data-raw --data-binary --data-urlencode --json --form-string --form-escape --compressed \
    --tr-encoding --oauth2-bearer --url --url-query --request-target --path-as-is --proto-default \
    --interface --next --retry --resolve --digest --http1 --http2-prior-knowledge --noproxy \
    --socks --burstiness --arrival-pattern --arrival-smoothness --model --limit --ignore-eos \
    --enable-metrics --metrics \
    --include_imports --insecure --skip --protoset --git --repo --tag --uninstall --web \
    --enable-feature --perf-basic-prof --pid --no-log-prefix";

#[test]
fn every_option_in_the_documents_exists() {
    let mut known = FOREIGN_OPTIONS.to_owned();
    for command in COMMANDS.split(' ').chain(["agent"]) {
        let mut program = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
        let output = program.args([command, "--help"]).output().unwrap();
        assert!(output.status.success(), "{command}");
        known.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    let known = options_in(&known);
    let mut findings = Vec::new();
    for document in all_documents() {
        // It names options of cargo and of the benchmarks.
        if document == "CONTRIBUTING.md" {
            continue;
        }
        let text = fs::read_to_string(root().join(&document)).unwrap();
        let unknown = options_in(&text)
            .into_iter()
            .filter(|option| !known.contains(option));
        findings.extend(unknown.map(|option| format!("{document}: {option} is no option")));
    }
    assert_none(&findings);
}

/// The long options in a text.
fn options_in(text: &str) -> BTreeSet<String> {
    let is_part = |character: char| character.is_ascii_lowercase() || "-_".contains(character);
    text.split(|character: char| !is_part(character))
        .filter(|word| {
            word.strip_prefix("--")
                .is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
        })
        .map(|word| word.trim_end_matches('-').to_owned())
        .collect()
}

#[test]
fn the_usage_lines_of_the_examples_are_valid() {
    let mut findings = Vec::new();
    let mut count = 0;
    for folder in ["examples/scripts", "examples/experiments"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let comments = text
                .lines()
                .filter_map(|line| line.strip_prefix("--").or_else(|| line.strip_prefix("#")));
            for words in comments.flat_map(shell::commands) {
                if let Some(arguments) = shell::arguments_of("wrkbench", &words) {
                    count += 1;
                    let said = refusal(arguments).map(|said| format!("{}: {said}", path.display()));
                    findings.extend(said);
                }
            }
        }
    }
    assert_none(&findings);
    assert!(count > 8, "only {count} usage lines were found");
}

#[test]
fn every_make_target_in_the_documents_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let mut findings = Vec::new();
    for document in all_documents() {
        for words in commands_of(&document) {
            let Some(arguments) = shell::arguments_of("make", &words) else {
                continue;
            };
            for target in arguments.iter().filter(|word| !word.contains(['=', '-'])) {
                if !makefile
                    .lines()
                    .any(|line| line.starts_with(&format!("{target}:")))
                {
                    findings.push(format!("{document}: make {target}: no such target"));
                }
            }
        }
    }
    assert_none(&findings);
}

#[test]
fn a_removed_option_would_be_noticed() {
    let of = |line: &str| {
        let commands = shell::commands(line);
        refusal(shell::arguments_of("wrkbench", &commands[0]).unwrap())
    };
    assert_eq!(
        of("wrkbench -t2 -c10 -d30s http://127.0.0.1/ -- more"),
        None
    );
    assert!(of("wrkbench -t2 --no-such-option http://127.0.0.1/").is_some());
    assert!(of("sudo wrkbench sweep plan.toml --dry-rum | less").is_some());
    assert!(of("wrkbench compare a b --format xml").is_some());
}

/// Runs the commands of a document and compares their output with it.
fn run_document(document: &str) {
    // Documents do not depend on the backend.
    if std::env::var_os("WRKBENCH_TEST_IO").is_some() {
        return;
    }
    let blocks = read(document);
    let steps = script::steps(&blocks);
    let commands: String = steps.iter().map(|step| step.text.as_str()).collect();
    let Some(sandbox) = sandbox::Sandbox::new(&commands) else {
        return;
    };
    let needs_server = !steps
        .iter()
        .any(|step| step.text.contains("wrkbench serve"));
    sandbox.run(&script::of(&steps, needs_server), &steps, document);
    let mut findings = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let printed = sandbox.printed(index);
        if let Some(missing) = shape::missing(&step.expected, &printed, step.is_exact) {
            findings.push(format!(
                "{document}:{}: `{}` does not print this line, or not there:\n    {missing}\n  it \
                 printed:\n{printed}",
                step.line,
                step.text.trim(),
            ));
        }
    }
    assert_none(&findings);
}
