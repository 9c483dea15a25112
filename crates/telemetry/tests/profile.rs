//! Profiles programs written in C that are compiled here, without frame pointers, as distributions
//! compile theirs.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use results::ProfileSamples;
use telemetry::Profiler;
use testkit::{Folder, require, skip};

/// Burns CPU time in `inner`, which `outer` calls, until its thread has used `seconds` of it.
const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double used(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}
__attribute__((noinline)) unsigned inner(unsigned number) {
    for (int at = 0; at < 100000; at++) number = number * 1664525 + 1013904223;
    return number;
}
__attribute__((noinline)) unsigned outer(double seconds) {
    unsigned number = 1;
    double end = used() + seconds;
    while (used() < end) number += inner(number);
    return number;
}
__attribute__((noinline)) unsigned calls_the_kernel(double seconds) {
    unsigned number = 1;
    double end = used() + seconds;
    while (used() < end) for (int at = 0; at < 1000; at++) number += getppid();
    return number;
}
static void *in_thread(void *unused) {
    return (void *)(long)outer(0.5);
}
int main(int count, char **words) {
    const char *what = words[1];
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF) return 1;
    if (!strcmp(what, "main")) printf("%u\n", outer(0.5));
    if (!strcmp(what, "kernel")) printf("%u\n", calls_the_kernel(0.5));
    if (!strcmp(what, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
    }
    if (!strcmp(what, "process")) {
        if (fork() == 0) {
            printf("%u\n", outer(0.5));
            return 0;
        }
        wait(NULL);
    }
    puts("done");
    fflush(stdout);
    getchar();
    return 0;
}
"#;

struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(folder: &Folder, what: &str, flags: &[&str]) -> Option<Self> {
        let compiler = require("cc")?;
        let source = folder.file_with("server.c", SOURCE);
        let program = folder.file("profiled");
        let compiled = Command::new(compiler)
            .args(["-O2", "-fomit-frame-pointer", "-pthread"])
            .args(flags)
            .args(["-o", &program, &source])
            .status()
            .unwrap();
        assert!(compiled.success());
        let mut child = Command::new(program)
            .arg(what)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut program = Self {
            child,
            input,
            output,
        };
        program.await_line("ready");
        Some(program)
    }

    fn await_line(&mut self, wanted: &str) {
        let mut line = String::new();
        while line.trim_end() != wanted {
            line.clear();
            assert_ne!(
                self.output.read_line(&mut line).unwrap(),
                0,
                "no {wanted:?}"
            );
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The profile of a program that does this; `None` where profiling is not permitted.
fn profile(what: &str, flags: &[&str]) -> Option<ProfileSamples> {
    let folder = Folder::new();
    let mut program = Program::start(&folder, what, flags)?;
    let profiler = match Profiler::prepare(&program.child.id().to_string()) {
        Ok(profiler) => profiler,
        Err(error) => {
            skip("profiling", error);
            return None;
        }
    };
    let profiling = profiler.start().unwrap();
    writeln!(program.input).unwrap();
    program.await_line("done");
    Some(profiling.finish())
}

/// Share of the samples whose stack has these functions behind each other, innermost last.
fn share(profile: &ProfileSamples, wanted: &[&str]) -> f64 {
    let names = |stack: u32| -> Vec<&str> {
        let functions = &profile.stacks[stack as usize];
        let names = functions
            .iter()
            .map(|at| profile.functions[*at as usize].as_str());
        names.collect()
    };
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for sample in &profile.samples {
        *counts.entry(sample.stack).or_default() += 1;
    }
    let found = counts.iter().filter(|(stack, _)| {
        let names = names(**stack);
        names.windows(wanted.len()).any(|part| part == wanted)
    });
    let found: usize = found.map(|(_, count)| count).sum();
    found as f64 / profile.samples.len() as f64
}

/// Half a second of CPU time has 50 samples; fewer if the machine is busy.
fn check_samples(profile: &ProfileSamples) {
    let samples = profile.samples.len();
    assert!((30..=60).contains(&samples), "{samples} samples");
    assert!(profile.samples.is_sorted_by_key(|sample| sample.at_ns));
    assert_eq!((profile.lost, profile.dropped), (0, 0));
    let used: u64 = profile
        .times
        .iter()
        .filter_map(|times| times.on_cpu_ns)
        .sum();
    assert!(
        (400_000_000..1_000_000_000).contains(&used),
        "{used} ns on a CPU"
    );
}

#[test]
fn stacks_of_a_program_without_frame_pointers_reach_from_main_to_the_innermost_function() {
    for flags in [&[][..], &["-no-pie"], &["-static"]] {
        let Some(profile) = profile("main", flags) else {
            return;
        };
        check_samples(&profile);
        let whole = share(&profile, &["main", "outer", "inner"]);
        assert!(whole > 0.9, "{flags:?}: {whole} of {:?}", profile.functions);
        assert!(
            share(&profile, &["profiled"]) > 0.99,
            "the program is outermost"
        );
        assert!(
            profile.incomplete <= 2,
            "{} are incomplete",
            profile.incomplete
        );
    }
}

#[test]
fn threads_and_processes_that_are_started_later_are_sampled() {
    for (what, stack) in [
        ("thread", &["in_thread", "outer", "inner"]),
        ("process", &["main", "outer", "inner"]),
    ] {
        let Some(profile) = profile(what, &[]) else {
            return;
        };
        check_samples(&profile);
        let whole = share(&profile, stack);
        assert!(whole > 0.9, "{what}: {whole} of {:?}", profile.functions);
        assert_eq!(profile.threads, 2, "{what}");
        assert_eq!(profile.processes, if what == "thread" { 1 } else { 2 });
    }
}

#[test]
fn a_program_without_symbols_is_named_with_a_note() {
    let Some(profile) = profile("main", &["-s"]) else {
        return;
    };
    check_samples(&profile);
    assert!(
        share(&profile, &["[profiled]"]) > 0.9,
        "{:?}",
        profile.functions
    );
    let notes = profile.notes.join("\n");
    assert!(
        notes.contains("names of functions are missing in profiled"),
        "{notes}"
    );
}

#[test]
fn functions_of_the_kernel_are_below_those_that_called_them() {
    let Some(profile) = profile("kernel", &[]) else {
        return;
    };
    let is_of_kernel = |name: &&String| name.ends_with("(kernel)");
    if profile.functions.iter().any(|name| is_of_kernel(&name)) {
        let whole = share(&profile, &["main", "calls_the_kernel"]);
        assert!(whole > 0.9, "{whole} of {:?}", profile.functions);
    } else {
        let notes = profile.notes.join("\n");
        assert!(
            notes.contains("functions of the kernel are missing"),
            "{notes}"
        );
    }
}

#[test]
fn what_cannot_be_profiled_is_an_error_on_one_line() {
    for name in [
        "no such program",
        "4294967295",
        &std::process::id().to_string(),
    ] {
        let Err(error) = Profiler::prepare(name) else {
            panic!("{name} cannot be profiled");
        };
        let error = error.to_string();
        assert!(!error.contains('\n') && !error.is_empty(), "{error:?}");
    }
}
