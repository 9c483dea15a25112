//! Sweeps without an experiment file, and sweeps of some of the cells.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use results::file::{load_experiment, load_trial};
use results::{Experiment, Trial, TrialOutcome};
use testkit::{Output, Process};

use crate::harness::{Site, call, io, program, site};

/// A folder in which sweeps are started.
struct Desk<'a> {
    site: &'a Site,
    folder: PathBuf,
}

impl<'a> Desk<'a> {
    fn new(site: &'a Site) -> Self {
        let folder = PathBuf::from(site.folder.file("desk"));
        fs::create_dir_all(&folder).unwrap();
        Self { site, folder }
    }

    /// `wrkbench sweep` of the site's URL with these arguments.
    fn sweep(&self, arguments: &[&str]) -> Output {
        let all = self.words(arguments);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        self.run(&all)
    }

    /// The same without a process, for what leaves nothing in the folder.
    fn dry_run(&self, arguments: &[&str]) -> Output {
        let call = call(&["sweep", "--dry-run"]);
        call.with(&self.words(arguments)).finish()
    }

    fn words(&self, arguments: &[&str]) -> Vec<String> {
        let url = self.site.url("/");
        let io = io().map_or_else(Vec::new, |io| vec![format!("--io={io}")]);
        let usual = ["-t1", "-n200", "--journal", "journal", "--no-try", &url];
        let words = arguments.iter().copied().chain(usual);
        words.map(str::to_owned).chain(io).collect()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = program(&["sweep"]);
        command.args(arguments).current_dir(&self.folder);
        Process::start(command).finish()
    }

    /// The only folder below `results`.
    fn results(&self) -> PathBuf {
        let entries = fs::read_dir(self.folder.join("results")).unwrap();
        let folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        match folders.as_slice() {
            [folder] => folder.clone(),
            _ => panic!("{folders:?}"),
        }
    }

    fn experiment(&self) -> Experiment {
        let document = fs::read(self.results().join("experiment.json")).unwrap();
        load_experiment(&document).unwrap()
    }

    /// The trials that were saved, in the order of their names.
    fn trials(&self) -> Vec<Trial> {
        let entries = fs::read_dir(self.results().join("trials")).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
        paths.sort();
        let read = |path: &PathBuf| load_trial(&fs::read(path).unwrap()).unwrap();
        paths.iter().map(read).collect()
    }

    /// The levels of the trials that have a result.
    fn finished(&self) -> Vec<String> {
        let trials = self.trials().into_iter();
        trials
            .filter(|trial| matches!(trial.outcome, TrialOutcome::Finished(_)))
            .map(|trial| {
                let levels = trial.cell.settings.iter().map(|it| it.level.as_str());
                levels.collect::<Vec<_>>().join("/")
            })
            .collect()
    }
}

/// A factor with two levels.
const CONNECTIONS: [&str; 3] = ["-L", "connections", "2,4"];

#[test]
fn a_sweep_of_a_url_is_that_of_the_file_that_it_prints() {
    let site = site();
    let desk = Desk::new(&site);
    let keepalive = ["-L", "no-keepalive", "false,true"];
    let header = ["--rounds=1", "-H", "A: it's \"quoted\""];
    let arguments = [&CONNECTIONS[..], &keepalive, &header].concat();
    let dry = desk.sweep(&[&arguments[..], &["--dry-run"]].concat());
    assert_eq!(dry.code, Some(0), "{dry:?}");
    assert!(dry.stderr.contains("trials:     4 (4 cells x 1 round)"));
    assert!(!desk.folder.join("results").exists());

    let output = desk.sweep(&arguments);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(!output.stderr.contains(&dry.stdout), "{output:?}");
    assert_eq!(desk.experiment().plan_toml, dry.stdout);
    assert_eq!(desk.finished(), ["2/false", "2/true", "4/false", "4/true"]);
    for trial in desk.trials() {
        let TrialOutcome::Finished(result) = &trial.outcome else {
            panic!("{trial:?}");
        };
        let plan = &result.plan;
        let levels = [
            plan.load.connections.to_string(),
            (!plan.load.keepalive).to_string(),
        ];
        assert_eq!(
            levels,
            [0, 1].map(|at| trial.cell.settings[at].level.clone())
        );
        assert_eq!(result.recording.counters.answered, 200);
        assert_eq!(plan.request.headers[0].1, "it's \"quoted\"");
    }
    // The folder is named at the end.
    let folder = desk.results();
    let name = folder.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("connections-no-keepalive-"), "{name}");
    assert!(
        output
            .stdout
            .contains(&format!("\nEvery run: wrkbench table results/{name}\n")),
        "{}",
        output.stdout
    );

    // The printed file describes the same experiment.
    fs::write(desk.folder.join("e.toml"), &dry.stdout).unwrap();
    let resumed = desk.run(&[
        "e.toml",
        "--resume",
        "--results",
        folder.to_str().unwrap(),
        "--journal=journal",
    ]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
}

#[test]
fn a_sweep_of_a_url_is_resumed_with_the_command_that_it_names() {
    let site = site();
    let desk = Desk::new(&site);
    let before = "test -e good || test $WRKBENCH_CONNECTIONS = 2";
    let hooks = ["--before", before, "--after", "echo after"];
    let limits = ["--rounds=2", "--max-failures=0"];
    let arguments = [&CONNECTIONS[..], &hooks, &limits].concat();
    let output = desk.sweep(&arguments);
    assert_eq!(output.code, Some(4), "{output:?}");
    assert_eq!(desk.finished(), ["2", "2"]);
    let hooks = desk.trials().into_iter().flat_map(|trial| trial.hooks);
    assert!(hooks.into_iter().any(|hook| hook.stdout == "after\n"));

    fs::write(desk.folder.join("good"), "").unwrap();
    let (_, command) = output.stderr.rsplit_once("again with `wrkbench").unwrap();
    let (command, _) = command.rsplit_once('`').unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("exec \"$0\" {command}")])
        .arg(env!("CARGO_BIN_EXE_wrkbench"))
        .current_dir(&desk.folder);
    let resumed = Process::start(shell).finish();
    assert_eq!(resumed.code, Some(0), "{command}: {resumed:?}");
    assert_eq!(desk.finished(), ["2", "4", "2", "4"]);
}

#[test]
fn a_sweep_with_restarts_waits_for_the_server() {
    let site = site();
    let desk = Desk::new(&site);
    let output = desk.dry_run(&[
        "--sysctl",
        "net.core.somaxconn=128,4096",
        "--restart",
        "true",
        "--setup",
        "true",
        "--teardown",
        "true",
        "-q",
    ]);
    assert!(
        output.stdout.contains(
            "[[factor]]\nsysctl = \"net.core.somaxconn\"\nlevels = [128, 4096]\n\n\
             [hooks]\nsetup = \"true\"\nrestart = \"true\"\nready = { within = \"30s\" }\n\
             teardown = \"true\"\n"
        ),
        "{output:?}"
    );
}

#[test]
fn secrets_are_neither_printed_nor_saved() {
    let site = site();
    let desk = Desk::new(&site);
    let header = ["-H", "Authorization: Bearer hush"];
    let arguments = [&CONNECTIONS[..], &header, &["--rounds=1", "--before=false"]].concat();
    let output = desk.sweep(&arguments);
    assert_eq!(output.code, Some(4), "{output:?}");
    assert!(!output.stderr.contains("hush"), "{}", output.stderr);
    assert!(!desk.experiment().plan_toml.contains("hush"));
}

#[test]
fn some_cells_are_run_and_the_others_later() {
    let site = site();
    let desk = Desk::new(&site);
    let plan = format!(
        "name = 'try'\nrounds = 2\nseed = 3\nresults = 'results/a'\n\
         [load]\nthreads = 1\nrequests = 200\n\
         [[target]]\nname = 'one'\nurl = '{0}'\n[[target]]\nname = 'two'\nurl = '{0}'\n\
         [[factor]]\nconnections = [2, 4, 8]\n",
        site.url("/")
    );
    fs::write(desk.folder.join("e.toml"), plan).unwrap();
    let run = |arguments: &[&str]| {
        let usual = ["e.toml", "--journal=journal", "--no-try"];
        desk.run(&[&usual[..], arguments].concat())
    };
    let some = ["--only", "connections=2,8", "--only=target=two"];
    let dry = run(&[&some[..], &["--dry-run"]].concat());
    assert!(
        dry.stdout.contains("trials:     4 (2 cells x 2 rounds)"),
        "{dry:?}"
    );
    let output = run(&some);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stderr.contains("[4/4] round 2/2"), "{output:?}");
    assert_eq!(desk.finished(), ["2", "8", "2", "8"]);
    assert!(desk.trials().iter().all(|trial| trial.cell.target == "two"));
    assert_eq!(desk.experiment().cells.len(), 6);

    // What was made stays as it is, and the schedule is that of the whole experiment.
    let before = desk.trials();
    let output = run(&["--resume", "--only", "connections=4"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(desk.trials().len(), 8);
    let output = run(&["--resume"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let after = desk.trials();
    assert_eq!(after.len(), 12);
    assert!(before.iter().all(|trial| after.contains(trial)));
    let mut positions: Vec<u32> = after.iter().map(|trial| trial.position).collect();
    positions.sort_unstable();
    assert_eq!(positions, (1..=12).collect::<Vec<_>>());

    for (only, expected) in [
        (
            "buffers=1",
            "--only: there is no factor \"buffers\" (known: connections, target)",
        ),
        (
            "connections=3",
            "--only: connections has no level \"3\" (known: 2, 4, 8)",
        ),
    ] {
        let refused = run(&["--resume", "--only", only]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.only_line().ends_with(expected), "{refused:?}");
    }
}

#[test]
fn what_is_judged_is_said_by_the_sweep_by_compare_and_on_the_page() {
    let site = site();
    let desk = Desk::new(&site);
    let output = desk.sweep(&[
        "-L",
        "connections",
        "2,4",
        "--rounds=2",
        "--judge=mean,first_byte_p50_us",
        "--results=results/a",
    ]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let compare = |arguments: &[&str]| {
        let mut command = program(&["compare", "results/a"]);
        command.args(arguments).current_dir(&desk.folder);
        Process::start(command).finish()
    };
    let compared = compare(&[]);
    for (text, name) in [(&output.stdout, "sweep"), (&compared.stdout, "compare")] {
        for (label, is_judged) in [
            ("connections: mean latency cannot", true),
            ("connections: p50 first byte cannot", true),
            ("connections: p99 latency", false),
            ("connections: requests/s", false),
        ] {
            assert_eq!(text.contains(label), is_judged, "{name}: {label}: {text}");
        }
    }
    let compared = compare(&["--judge", "max"]);
    assert!(compared.stdout.contains("largest latency"), "{compared:?}");
    assert!(!compared.stdout.contains("mean latency"), "{compared:?}");
    let refused = compare(&["--judge", "first_bite_p50"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.only_line().contains("did you mean"), "{refused:?}");

    let mut page = program(&["report", "results/a", "-o", "page.html"]);
    page.current_dir(&desk.folder);
    assert_eq!(Process::start(page).finish().code, Some(0));
    let page = fs::read_to_string(desk.folder.join("page.html")).unwrap();
    assert!(page.contains("p50 first byte"));
}

#[test]
fn what_the_command_line_says_of_the_judgement_is_saved_and_resumed() {
    let site = site();
    let desk = Desk::new(&site);
    let plan = format!(
        "name = 'try'\nrounds = 1\nthreshold = '5%'\n[load]\nthreads = 1\nrequests = 200\n\
         [[target]]\nname = 'origin'\nurl = '{}'\n[[factor]]\nconnections = [2, 4]\n",
        site.url("/")
    );
    fs::write(desk.folder.join("plan.toml"), plan).unwrap();
    let sweep = |arguments: &[&str]| {
        let usual = [
            "plan.toml",
            "-q",
            "--no-try",
            "--results=results/a",
            "--journal=journal",
        ];
        let output = desk.run(&[&usual, arguments].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        let saved = desk.experiment();
        (
            saved.threshold,
            saved.judge,
            saved.stopping.and_then(|it| it.precision),
        )
    };
    let said = (Some(0.07), vec!["latency_p50_us".to_owned()], Some(0.000_1));
    let first = sweep(&["--threshold=7%", "--judge=p50", "--until-precise=0.01%"]);
    assert_eq!(first, said);
    assert_eq!(sweep(&["--resume", "--rounds=2"]), said);
    let mut command = program(&["compare", "results/a", "--format=json"]);
    command.current_dir(&desk.folder);
    let compared = Process::start(command).finish();
    let json: serde_json::Value = serde_json::from_str(&compared.stdout).unwrap();
    let [comparison] = json["comparisons"].as_array().unwrap().as_slice() else {
        panic!("{json}");
    };
    assert_eq!(comparison["metric"]["name"], "latency_p50_us");
    assert_eq!(comparison["threshold"], 0.07);
    assert_eq!(comparison["is_sequential"], true);
    // What is said again counts.
    let again = sweep(&["--resume", "--rounds=3", "--threshold=3%"]);
    assert_eq!(again, (Some(0.03), said.1, said.2));
}

#[test]
fn the_printed_file_says_how_it_is_judged_and_when_it_ends() {
    let site = site();
    let desk = Desk::new(&site);
    let output = desk.dry_run(&[
        "-L",
        "connections",
        "2,4",
        "--judge=p50",
        "--threshold=3%",
        "--until-precise=4%",
        "--max-failures=2",
    ]);
    for line in [
        "judge = [\"latency_p50_us\"]",
        "threshold = \"3%\"",
        "until = { precision = \"4%\" }",
        "max_failures = 2",
    ] {
        assert!(
            output.stdout.lines().any(|it| it == line),
            "{line}: {output:?}"
        );
    }
}

#[test]
fn a_sweep_with_tokens_ends_in_their_metrics_and_in_the_page_that_was_asked_for() {
    let site = site();
    let desk = Desk::new(&site);
    let url = site.url("/?llm=openai&tokens=4&first=5ms&gap=1ms");
    let output = desk.run(&[
        "-L",
        "connections",
        "1,4",
        "--rounds=2",
        "-t1",
        "-n20",
        "--events=llm",
        "--good=first_token<10s",
        "--no-try",
        "--journal=journal",
        "-o",
        "capacity.html",
        &url,
    ]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let text = &output.stdout;
    for wanted in [
        "output tokens/s",
        "p99 first token",
        "tokens/s  first p50",
        "  100 %",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(text.contains("\nPage: capacity.html\n"), "{text}");
    let page = fs::read_to_string(desk.folder.join("capacity.html")).unwrap();
    assert!(page.contains("<h2>Capacity") || page.contains("Capacity</h2>"));
    assert!(
        output.stderr.contains(" output tokens/s, "),
        "{}",
        output.stderr
    );
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_the_first_run() {
    let site = site();
    let desk = Desk::new(&site);
    let arguments = ["-L", "connections", "1,4", "-o", "no-such-folder/page.html"];
    let output = desk.sweep(&arguments);
    assert_eq!(output.code, Some(1), "{}", output.stdout);
    assert!(
        output.stderr.contains("no-such-folder"),
        "{}",
        output.stderr
    );
    assert!(!desk.folder.join("results").exists());
}
