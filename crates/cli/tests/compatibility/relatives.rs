//! wrk2 and wrk-cmm beside ours: usage, refusals, options. They are in no package, so these tests skip
//! where nobody has built them; their texts are held against captured reports elsewhere.

use origin::{Options, Server};

use crate::tool::Pair;

#[test]
fn the_usage_of_each_is_the_begin_of_ours_to_the_blank() {
    for name in ["wrk2", "wrk-cmm"] {
        let Some(pair) = Pair::find_relative(name, &format!("usage-of-{name}")) else {
            continue;
        };
        for arguments in [&["--help"][..], &[], &["-c5"]] {
            let (theirs, ours) = pair.run(arguments);
            let own = theirs.stdout;
            assert!(own.starts_with("Usage: wrk <options> <url> "), "{own}");
            assert!(ours.stdout.starts_with(&own), "{}\n{own}", ours.stdout);
            assert_eq!(
                (ours.code, theirs.code),
                (Some(1), Some(1)),
                "{arguments:?}"
            );
        }
    }
}

#[test]
fn a_missing_rate_is_refused_after_the_usage_in_the_words_of_wrk2() {
    let Some(pair) = Pair::find_relative("wrk2", "rate") else {
        return;
    };
    let (theirs, ours) = pair.run(&["-t1", "-c1", "-d1", "http://127.0.0.1:1/"]);
    assert_eq!((ours.code, theirs.code), (Some(1), Some(1)));
    assert!(ours.stdout.starts_with(&theirs.stdout), "{ours:?}");
    assert_eq!(ours.stderr, format!("wrk2: {}", theirs.stderr));
}

#[test]
fn source_addresses_are_refused_in_the_words_of_wrk_cmm() {
    let Some(pair) = Pair::find_relative("wrk-cmm", "ranges") else {
        return;
    };
    for range in ["abc", "10.0.0.1/33", "x/8"] {
        let (theirs, ours) = pair.run(&["-b", range, "http://127.0.0.1:1/"]);
        assert_eq!((ours.code, theirs.code), (Some(1), Some(1)), "{theirs:?}");
        let words = theirs.stderr.trim_end();
        assert!(words.ends_with(range), "{words}");
        assert!(ours.stderr.contains(words), "{ours:?}");
        assert_eq!(ours.stderr.lines().count(), 1, "{ours:?}");
    }
}

#[test]
fn every_option_and_every_unambiguous_beginning_of_one_is_taken_by_both() {
    let server = Server::start(Options::default()).expect("the server starts");
    let url = server.url();
    for (name, lines) in [
        (
            "wrk2",
            &[
                "-t1 -c2 -d1 -R50 -L -U -B -T1",
                "--t 1",
                "--th 1 --c 2 --d 1 --r 50 --l --u --b --ti 1",
                "--rate=0x10",
                "--h a:b",
            ][..],
        ),
        (
            "wrk-cmm",
            &[
                "-t1 -c2 -d1 -L -b127.0.0.4/30 -D0 --breakout",
                "--th 1 --c 2 --du 1 --l --bi 127.0.0.9 --de 0 --br",
                "-B -d1",
                "--bind-ip 127.0.0.1/40",
            ],
        ),
    ] {
        let Some(pair) = Pair::find_relative(name, &format!("options-of-{name}")) else {
            continue;
        };
        for line in lines {
            let arguments: Vec<&str> = line.split(' ').chain([url.as_str()]).collect();
            let (theirs, ours) = pair.run(&arguments);
            // Options of the others are understood as well.
            let expected = if *line == "-B -d1" {
                Some(0)
            } else {
                theirs.code
            };
            assert_eq!(ours.code, expected, "{line:?}: {ours:?} {theirs:?}");
        }
    }
}
