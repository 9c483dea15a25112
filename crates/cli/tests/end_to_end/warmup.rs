//! `--warmup auto` where one command makes many runs: each run settles by itself.

use results::file::load_trial;
use results::{RunResult, TrialOutcome};
use testkit::{Folder, Process};

use crate::harness::{program, site};

/// The shortest limit that a warm-up of this kind may have.
const SHORTEST: [&str; 4] = ["--warmup", "auto", "--warmup-limit", "6s"];

/// Makes the runs of a command, whose results and journal go to this folder.
fn runs(folder: &Folder, command: &[&str]) -> Vec<RunResult> {
    let [results, journal] = ["results", "journal"].map(|name| folder.file(name));
    let mut program = program(command);
    program.args(["--results", &results, "--journal", &journal]);
    let output = Process::start(program).finish();
    assert!(
        matches!(output.code, Some(0 | 2)),
        "{command:?}: {output:?}"
    );
    let files = std::fs::read_dir(format!("{results}/trials")).unwrap();
    let trials = files.map(|file| load_trial(&std::fs::read(file.unwrap().path()).unwrap()));
    let finished = trials.map(|trial| match trial.unwrap().outcome {
        TrialOutcome::Finished(result) => *result,
        TrialOutcome::Failed(why) => panic!("{why}"),
    });
    finished.collect()
}

/// Each run has warmed up for 5 s at least, which is the shortest time in which one can settle, and
/// for 6 s at most, which is the limit.
fn assert_settled_or_reached_the_limit(runs: &[RunResult]) {
    for run in runs {
        let window = &run.window;
        assert!(window.settling.is_some(), "{window:?}");
        let has_lasted = (5_000_000_000..=6_000_000_000).contains(&window.warmup_ns);
        assert!(has_lasted, "{window:?}");
    }
}

#[test]
fn both_sides_of_a_comparison_warm_up_until_they_have_settled() {
    let (site, folder) = (site(), Folder::new());
    let sides = ["a", "b"].map(|name| format!("{name}={}", site.url("/?delay=5ms")));
    let options = ["-t1", "-c2", "-d200ms", "--budget", "15s"];
    let mut command = vec!["versus", &sides[0], &sides[1]];
    command.extend(options.iter().chain(&SHORTEST));
    let runs = runs(&folder, &command);
    assert!(runs.len() >= 2, "{} runs", runs.len());
    assert_settled_or_reached_the_limit(&runs);
}

#[test]
fn a_warm_up_until_the_server_has_settled_is_a_level_of_a_factor() {
    let (site, folder) = (site(), Folder::new());
    let plan = folder.file("plan.toml");
    let text = format!(
        "name = 'warm'\nrounds = 1\n[load]\nthreads = 1\nconnections = 2\nduration = '200ms'\n\
         [[target]]\nname = 'origin'\nurl = '{}'\n[[factor]]\nwarmup = ['300ms', 'auto']\n",
        site.url("/?delay=5ms")
    );
    std::fs::write(&plan, text).unwrap();
    let runs = runs(&folder, &["sweep", &plan]);
    let (settling, fixed): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run.plan.warmup_auto);
    assert_eq!((settling.len(), fixed.len()), (1, 1));
    assert_eq!(fixed[0].window.warmup_ns, 300_000_000);
    assert!(settling[0].window.settling.is_some());
}

#[test]
fn each_step_of_a_search_warms_up_until_the_server_has_settled() {
    let (site, folder) = (site(), Folder::new());
    let url = site.url("/?delay=5ms");
    let options = ["-t1", "-c4", "-d1s", "--slo", "p50<1s", "--budget", "10s"];
    let mut command = vec!["search", url.as_str()];
    command.extend(options.iter().chain(&SHORTEST));
    let runs = runs(&folder, &command);
    assert!(!runs.is_empty());
    assert_settled_or_reached_the_limit(&runs);
}
