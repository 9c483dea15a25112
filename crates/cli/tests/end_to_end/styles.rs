//! The reports of wrk2 and wrk-cmm and the files of HdrHistogram equal what the library renders.

use std::os::unix::fs::symlink;

use report::{Format, TextOptions};
use results::RunResult;
use testkit::Process;

use crate::harness::{Run, io_arguments, load, site};

/// The text of a saved result.
fn rendered(result: &RunResult, format: Format, options: &TextOptions) -> String {
    let mut text = Vec::new();
    report::render(result, format, options, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Stdout has the banner and the text of the saved result.
pub(crate) fn expect_text(run: &Run<'_>, format: Format, options: &TextOptions) {
    let banner = report::text::banner(&run.result.plan);
    let expected = banner + &rendered(&run.result, format, options);
    assert_eq!(run.stdout, expected, "{}", run.story());
}

#[test]
fn each_report_option_changes_the_text_of_its_style() {
    let site = site();
    let plain = TextOptions::default();
    let latency = TextOptions {
        latency: true,
        ..plain.clone()
    };
    let uncorrected = TextOptions {
        uncorrected: true,
        ..latency.clone()
    };
    let breakout = TextOptions {
        breakout: true,
        ..plain.clone()
    };
    for (options, format, text) in [
        (&["-L"][..], Format::Wrk, &latency),
        (&["-U"], Format::Wrk2, &uncorrected),
        (&["-R2k"], Format::Wrk2, &plain),
        (&["-R2k", "-L"], Format::Wrk2, &latency),
        (&["-R2k", "-U"], Format::Wrk2, &uncorrected),
        (&["-R2k", "-L", "--style", "wrk"], Format::Wrk, &latency),
        (&["-R2k", "--breakout"], Format::Cmm, &breakout),
        (&["-R2k", "-b", "127.0.0.1"], Format::Wrk2, &plain),
        (&["--stages", "2k:1h"], Format::Wrk2, &plain),
        (&["--breakout"], Format::Cmm, &breakout),
        (&["-b", "127.0.0.1"], Format::Cmm, &plain),
        (&["-D1ms"], Format::Cmm, &plain),
        (
            &["-b127.0.0.1", "--style=wrk2", "-L"],
            Format::Wrk2,
            &latency,
        ),
    ] {
        let run = load(&site).requests(100).with(options).run();
        expect_text(&run.expect_answered_only(), format, text);
    }
}

#[test]
fn each_style_has_the_lines_of_its_tool() {
    let site = site();
    for (options, parts) in [
        (
            &["-R2k", "-U"][..],
            &[
                "  Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000%",
                "\n  Detailed Percentile spectrum:\n",
                "\n#[Buckets =           27, SubBuckets     =         2048]\n",
                "  Latency Distribution (HdrHistogram - Uncorrected Latency (measured without \
                 taking delayed starts into account))\n",
            ][..],
        ),
        (
            &["--breakout", "-L"],
            &[
                "  Thread Stats   Avg     Stdev       Max       Min   +/- Stdev\n    Latency ",
                "\n    Connect ",
                "\n    TTFB ",
                "\n    TTLB ",
                "\n  50.00%",
                "\n  99.99%",
            ],
        ),
    ] {
        let run = load(&site).requests(100).with(options).run();
        for part in parts {
            assert!(run.stdout.contains(part), "{part:?} in\n{}", run.stdout);
        }
    }
}

#[test]
fn the_name_of_a_link_selects_the_style() {
    let site = site();
    let all = &["-R2k", "--breakout", "-b127.0.0.1"][..];
    for (name, options, format) in [
        ("wrk", all, Format::Cmm),
        ("wrk", &["-R2k"], Format::Wrk2),
        ("wrk", &["-R2k", "-b127.0.0.1"], Format::Wrk2),
        ("wrk", &["--breakout"], Format::Cmm),
        ("wrk", &["-D1ms"], Format::Cmm),
        ("wrk", &["-b127.0.0.1"], Format::Cmm),
        ("wrk", &[], Format::Wrk),
        ("wrk2", all, Format::Wrk2),
        ("wrk-cmm", all, Format::Cmm),
    ] {
        let (link, json) = (site.folder.file(name), site.folder.file("l.json"));
        let _ = std::fs::remove_file(&link);
        symlink(env!("CARGO_BIN_EXE_wrkbench"), &link).unwrap();
        let mut command = std::process::Command::new(&link);
        command.args(["-t1", "-c2", "-n50"]).args(options);
        command
            .args(["--json", &json])
            .args(io_arguments())
            .arg(site.url("/"));
        let output = Process::start(command).finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        let result = crate::judge::document(&std::fs::read(json).unwrap());
        let breakout = TextOptions {
            breakout: options.contains(&"--breakout"),
            ..TextOptions::default()
        };
        let text = rendered(&result, format, &breakout);
        assert!(output.stdout.ends_with(&text), "{text}\n{}", output.stdout);
    }
}

#[test]
fn hdrhistogram_files_agree_with_the_document() {
    let site = site();
    let (hgrm, hlog) = (site.folder.file("a.hgrm"), site.folder.file("a.hlog"));
    let run = load(&site)
        .requests(200)
        .with(&["-R2k", "--hgrm", &hgrm, "--hlog", &hlog]);
    let run = run.run().expect_answers(200);
    for (path, format) in [(hgrm, Format::Hgrm), (hlog, Format::Hlog)] {
        let written = std::fs::read_to_string(path).unwrap();
        assert_eq!(
            written,
            rendered(&run.result, format, &TextOptions::default())
        );
    }
}

#[test]
fn an_unwritable_file_is_reported_before_the_run() {
    let site = site();
    for option in ["--hgrm", "--hlog"] {
        let path = site.folder.file("missing/a");
        let output = load(&site).requests(5).with(&[option, &path]).output();
        let line = output.only_line();
        let begin = format!("wrkbench: {option} \"");
        assert!(
            line.starts_with(&begin) && line.contains("there is no directory"),
            "{line}"
        );
    }
    assert_eq!(site.counts().connections, 0);
}
