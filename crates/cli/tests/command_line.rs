//! The command line without a server: exit codes, stdout and stderr.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use in_process::call;
use testkit::Folder;

#[path = "end_to_end/in_process.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "end_to_end/ uses the rest, and a failing step fails the test"
)]
mod in_process;

const PROGRAM: &str = env!("CARGO_BIN_EXE_wrkbench");

fn output_of(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

/// A link named `wrk` to the program, and the folder that contains it.
fn link() -> (Folder, PathBuf) {
    let folder = Folder::new();
    let link = folder.join("wrk");
    symlink(PROGRAM, &link).expect("a link can be made");
    (folder, link)
}

#[test]
fn a_wrong_command_line_is_one_line_on_stderr_and_exit_code_1() {
    let (_folder, link) = link();
    for (program, name) in [(Path::new(PROGRAM), "wrkbench"), (&link, "wrk")] {
        for (arguments, expected) in [
            (
                vec!["-c", "10x", "http://h/"],
                "--connections: \"10x\" is not a number (expected like 100, 10k, 1.5M)",
            ),
            (
                vec!["-t4", "-c2", "http://h/"],
                "--connections 2: number of connections must be >= threads (4)",
            ),
            (
                vec!["--frobnicate"],
                "--frobnicate: unknown option (--help lists all)",
            ),
            (
                vec!["h/80"],
                "invalid URL: \"h/80\" has no scheme (expected like http://host:port/path)",
            ),
        ] {
            let output = output_of(program, &arguments);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}");
            assert_eq!(text(&output.stderr), format!("{name}: {expected}\n"));
            assert_eq!(text(&output.stdout), "", "{arguments:?}");
        }
    }
}

#[test]
fn help_goes_to_stdout_with_exit_code_0_or_1_when_called_as_wrk() {
    let help = output_of(Path::new(PROGRAM), &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("--connections"));
    assert_eq!(text(&help.stderr), "");

    let (_folder, link) = link();
    let usage = output_of(&link, &["--help"]);
    assert_eq!(usage.status.code(), Some(1));
    assert!(text(&usage.stdout).starts_with("Usage: wrk <options> <url>"));
    assert_eq!(text(&usage.stderr), "");
}

#[test]
fn without_a_url_the_usage_goes_to_stdout_and_the_reason_to_stderr() {
    let output = call(&[]).finish();
    assert_eq!(output.code, Some(1));
    let stdout = output.stdout;
    assert!(stdout.starts_with("An HTTP load generator"), "{stdout}");
    assert!(stdout.contains("Usage: "), "{stdout}");
    testkit::one_line(&output.stderr);
}

#[test]
fn the_version_is_one_line_on_stdout() {
    for arguments in [
        &["-V"][..],
        &["--version"],
        &["-v"],
        &["sweep", "-V"],
        &["run", "--version"],
        &["man", "--version"],
    ] {
        let output = call(arguments).finish();
        assert_eq!(output.code, Some(0), "{arguments:?}");
        let begin = concat!("wrkbench ", env!("CARGO_PKG_VERSION"), " [io_uring|epoll] ");
        let line = testkit::one_line(&output.stdout);
        assert!(line.starts_with(begin), "{line}");
        assert!(output.stderr.is_empty());
    }
}

const NOTES: &str = include_str!("../../report/tests/captured/wrk.txt");

#[test]
fn a_process_prints_and_returns_what_a_call_does() {
    let folder = Folder::new();
    let (notes, empty) = (folder.file_with("notes.txt", NOTES), folder.file("none"));
    let plan = folder.file_with("plan.toml", "rounds = 'two'\n");
    for arguments in [
        &["table", &notes][..],
        &["table", &notes, &empty],
        &["report", &notes, "--format", "csv"],
        &["compare", &notes, &notes],
        &["curl", "curl -H 'Cookie: a=b' http://h/", "-c5"],
        &["har", &empty],
        &["grpc", "list", "--proto", &empty],
        &["sockets", "sport = :0"],
        &["restore", "--dry-run", "--journal", &empty],
        &["sweep", "--dry-run", &plan],
        &["versus", "http://h/"],
        &["--once", "--body-file", &empty, "http://h/"],
        &["--json", &empty, "--stream", &empty, "http://h/"],
        &["llm", "http://h/", "--print", "--model", "m", "--seed", "1"],
        &["serve", "--threads", "0"],
        &["completions", "bash"],
        &["man", "sweep"],
        &["help"],
        &["-V"],
    ] {
        let output = output_of(Path::new(PROGRAM), arguments);
        let called = call(arguments).finish();
        assert_eq!(text(&output.stdout), called.stdout, "{arguments:?}");
        assert_eq!(text(&output.stderr), called.stderr, "{arguments:?}");
        assert_eq!(output.status.code(), called.code, "{arguments:?}");
        assert!(output.stdout.len() + output.stderr.len() > 0 || arguments[0] == "sockets");
    }
}

#[test]
fn completions_and_the_manual_page_are_printed() {
    for (arguments, part) in [
        (&["completions", "bash"][..], "complete -F"),
        (&["completions", "zsh"], "#compdef wrkbench"),
        (&["completions", "fish"], "complete -c wrkbench"),
        (&["man"], ".TH WRKBENCH 1 "),
        (&["man", "sweep"], ".TH WRKBENCH-SWEEP 1 "),
    ] {
        let output = call(arguments).finish();
        assert_eq!(output.code, Some(0), "{arguments:?}");
        assert!(output.stdout.contains(part), "{arguments:?} lacks {part}");
        assert_eq!(output.stderr, "");
    }
}

#[test]
fn all_manual_pages_are_written_to_a_folder_that_is_created() {
    let folder = Folder::new();
    let pages = folder.file("share/man1");
    let output = call(&["man", "--output-dir", &pages]).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!((&*output.stdout, &*output.stderr), ("", ""));
    let sweep = std::fs::read_to_string(Path::new(&pages).join("wrkbench-sweep.1")).unwrap();
    let printed = call(&["man", "sweep"]).finish();
    assert_eq!(sweep, printed.stdout);

    let file = folder.file_with("file", "");
    let output = call(&["man", "--output-dir", &file]).finish();
    let line = output.only_line();
    assert!(line.starts_with("wrkbench: --output-dir "), "{line}");
}

/// What a shell offers for the last of these words, one per line.
struct Completions {
    shell: PathBuf,
    arguments: &'static [&'static str],
    /// Also the home of the shell, which may write there.
    folder: Folder,
    script: String,
}

impl Completions {
    /// `arguments` are those of the shell. Its code prints the candidates; its own arguments are
    /// the completion script and the words.
    fn of(shell: &str, arguments: &'static [&'static str]) -> Option<Self> {
        let program = testkit::require(shell)?;
        let script = output_of(Path::new(PROGRAM), &["completions", shell]);
        let folder = Folder::new();
        Some(Self {
            shell: program,
            arguments,
            script: folder.file_with("script", script.stdout),
            folder,
        })
    }

    fn offered(&self, words: &[&str]) -> Vec<String> {
        let output = Command::new(&self.shell)
            .args(self.arguments)
            .arg(&self.script)
            .args(words)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("the shell starts");
        let lines = text(&output.stdout).lines();
        lines.map(str::to_owned).collect()
    }
}

/// Calls the function that is registered for the first word.
const BASH: &str = r#"
source "$0"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
registered=$(complete -p "$1") || exit
function=${registered#*-F }
# Outside of a completion it only complains.
compopt() { :; }
"${function%% *}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

#[test]
fn bash_completes_commands_options_values_and_files() {
    let Some(bash) = Completions::of("bash", &["--norc", "-c", BASH]) else {
        return;
    };
    for (words, expected) in [
        (&["wrkbench", "sw"][..], &["sweep"][..]),
        (&["wrkbench", "re"], &["replay", "report", "restore"]),
        (&["wrkbench", "--connections"], &["--connections"]),
        (&["wrkbench", "sweep", "--dry"], &["--dry-run"]),
        (&["wrkbench", "--io", ""], &["auto", "uring", "epoll"]),
        (&["wrkbench", "man", "sw"], &["sweep"]),
        (&["wrkbench", "completions", "fi"], &["fish"]),
        (&["wrkbench", "-s", "Cargo.t"], &["Cargo.toml"]),
        (&["wrkbench", "sweep", "--journal", ""], &[""]),
        // Nothing of ours: bash offers files.
        (&["wrkbench", "sweep", ""], &[""]),
        (&["wrkbench", "table", "--errors", ""], &[""]),
        (&["wrk", ""], &[]),
        (&["wrk2", "sw"], &[]),
    ] {
        assert_eq!(bash.offered(words), expected, "{words:?}");
    }
    let commands = bash.offered(&["wrkbench", ""]);
    assert!(commands.contains(&"demo".to_owned()), "{commands:?}");
    assert!(
        commands.iter().all(|word| !word.starts_with('-')),
        "{commands:?}"
    );
    // It takes no other argument.
    let options = bash.offered(&["wrkbench", "restore", ""]);
    assert!(options.contains(&"--dry-run".to_owned()), "{options:?}");
}

#[test]
fn fish_completes_commands_options_values_and_files() {
    const FISH: &str = "source $argv[1]; complete -C \"$argv[2..]\" | string split -f 1 \\t";
    let Some(fish) = Completions::of("fish", &["--no-config", "-c", FISH]) else {
        return;
    };
    for (words, expected) in [
        (&["wrkbench", "sw"][..], &["sweep"][..]),
        (&["wrkbench", "--connections"], &["--connections"]),
        (&["wrkbench", "sweep", "--dry"], &["--dry-run"]),
        (&["wrkbench", "--io", "ur"], &["uring"]),
        (&["wrkbench", "sweep", "Cargo.t"], &["Cargo.toml"]),
        (&["wrkbench", "-s", "Cargo.t"], &["Cargo.toml"]),
        (&["wrkbench", "sweep", "--journal", "Cargo.t"], &[]),
        (&["wrk", "sw"], &[]),
    ] {
        assert_eq!(fish.offered(words), expected, "{words:?}");
    }
}

#[test]
fn zsh_finds_the_completions_for_wrkbench_and_none_for_wrk() {
    const ZSH: &str = r#"
fpath=($1:h $fpath)
cp $1 $1:h/_wrkbench
autoload -Uz compinit
compinit -u -d $1:h/dump
print -l -- "${_comps[wrkbench]}" "${_comps[wrk]}"
autoload +X _wrkbench && print loaded
"#;
    let Some(zsh) = Completions::of("zsh", &["-f", "-c", ZSH, "zsh"]) else {
        return;
    };
    assert_eq!(zsh.offered(&[]), ["_wrkbench", "", "loaded"]);
}

#[test]
fn a_closed_stdout_is_no_error_message() {
    let mut child = Command::new(PROGRAM)
        .arg("man")
        .stdin(Stdio::null())
        .stdout(closed_pipe())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    let status = child.wait().unwrap();
    assert_eq!(said, "");
    assert_eq!((status.code(), status.signal()), (Some(141), None));
}

/// The write end of a pipe whose read end is closed.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    writer.into()
}
