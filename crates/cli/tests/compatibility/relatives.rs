//! wrk2 and wrk-cmm compared with wrkbench: usage, refusals, options. No package contains them, so
//! these tests are usually skipped. Their reports are compared with captured ones elsewhere.

use origin::{Options, Server};

use crate::tool::Pair;

#[test]
fn the_usage_of_each_is_a_prefix_of_ours() {
    for name in ["wrk2", "wrk-cmm"] {
        let Some(pair) = Pair::find_named(name) else {
            continue;
        };
        for arguments in [&["--help"][..], &[], &["-c5"]] {
            let (theirs, ours) = pair.run(arguments);
            let own = theirs.stdout;
            assert!(own.starts_with("Usage: wrk <options> <url> "), "{own}");
            assert!(ours.stdout.starts_with(&own), "{}\n{own}", ours.stdout);
            if arguments != ["--help"] {
                assert_eq!(ours.stdout, own, "byte for byte");
            }
            assert_eq!(
                (ours.code, theirs.code),
                (Some(1), Some(1)),
                "{arguments:?}"
            );
        }
    }
}

#[test]
fn a_missing_rate_is_refused_as_by_wrk2() {
    let Some(pair) = Pair::find_named("wrk2") else {
        return;
    };
    let (theirs, ours) = pair.run(&["-t1", "-c1", "-d1", "http://127.0.0.1:1/"]);
    assert_eq!((ours.code, theirs.code), (Some(1), Some(1)));
    assert!(ours.stdout.starts_with(&theirs.stdout), "{ours:?}");
    assert_eq!(ours.stderr, format!("wrk2: {}", theirs.stderr));
}

#[test]
fn invalid_source_addresses_are_refused_as_by_wrk_cmm() {
    let Some(pair) = Pair::find_named("wrk-cmm") else {
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
fn both_accept_every_option_and_every_unambiguous_prefix() {
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
        let Some(pair) = Pair::find_named(name) else {
            continue;
        };
        for line in lines {
            let arguments: Vec<&str> = line.split(' ').chain([url.as_str()]).collect();
            let (theirs, ours) = pair.run(&arguments);
            // Options of the other tools are accepted too.
            let expected = if *line == "-B -d1" {
                Some(0)
            } else {
                theirs.code
            };
            assert_eq!(ours.code, expected, "{line:?}: {ours:?} {theirs:?}");
        }
    }
}
