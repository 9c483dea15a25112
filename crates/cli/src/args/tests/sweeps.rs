//! Sweeps without a file: what becomes of their arguments.

use super::*;

fn request(line: &str) -> CampaignRequest {
    match parsed_as(Dialect::Native, line) {
        Ok(Request::Campaign(request)) => *request,
        other => panic!("{line:?} is no sweep: {other:?}"),
    }
}

/// The experiment file of these arguments.
fn file(line: &str) -> String {
    match request(&format!("sweep {line}")).source {
        ExperimentSource::Draft(draft) => draft.to_string(),
        source => panic!("{line:?} has a file: {source:?}"),
    }
}

#[test]
fn a_url_and_what_is_varied_make_an_experiment() {
    assert_eq!(
        file("-L connections 16,64,256 HTTP://User:pass@h:81/p?q"),
        "name = \"connections\"\nrounds = 5\n\n\
         [[target]]\nname = \"h:81\"\nurl = \"HTTP://User:pass@h:81/p?q\"\n\n\
         [[factor]]\nconnections = [16, 64, 256]\n"
    );
    assert_eq!(
        file(
            "http://h/ --sysctl net.ipv4.tcp_rmem=4~5~6,7~8~9 --parameter-list header \
             A:~b\\,c,D:~e --rounds 7 --restart x -s s.lua -- -1 two"
        ),
        "name = \"header, net.ipv4.tcp_rmem\"\nrounds = 7\n\n\
         [load]\nscript = \"s.lua\"\nscript_arguments = [\"-1\", \"two\"]\n\n\
         [[target]]\nname = \"h\"\nurl = \"http://h/\"\n\n\
         [[factor]]\nheader = [\"A: b,c\", \"D: e\"]\n\n\
         [[factor]]\nsysctl = \"net.ipv4.tcp_rmem\"\nlevels = [\"4 5 6\", \"7 8 9\"]\n\n\
         [hooks]\nrestart = \"x\"\nready = { within = \"30s\" }\n"
    );
}

#[test]
fn what_is_judged_is_written_into_the_file() {
    let text = file("http://h/ -L connections 1,2 --judge rps,p99.9 --judge max --threshold 0.7%");
    assert!(
        text.contains(
            "rounds = 5\nthreshold = \"0.7%\"\n\
             judge = [\"requests_per_sec\", \"latency_p99.9_us\", \"latency_max_us\"]\n"
        ),
        "{text}"
    );
}

#[test]
fn options_of_a_run_become_the_load() {
    for (options, load) in [
        (
            "-t4 -c100 -d30s",
            "threads = 4\nconnections = 100\nduration = \"30s\"\n",
        ),
        ("-R1.5k --latency", "rate = \"1.5k\"\nlatency = true\n"),
        ("-H A:~b -H C:~d", "header = [\"A: b\", \"C: d\"]\n"),
        ("--conn 4 --connections=5", "connections = 5\n"),
        (
            "-X PUT --body {\"a\":1}",
            "method = \"PUT\"\nbody = '{\"a\":1}'\n",
        ),
        (
            "-B --no-keepalive",
            "batch_latency = true\nno_keepalive = true\n",
        ),
    ] {
        let text = file(&format!("{options} -L warmup 0,1s http://h/"));
        let expected = format!("rounds = 5\n\n[load]\n{load}\n[[target]]\n");
        assert!(text.contains(&expected), "{options}: {text}");
    }
}

#[test]
fn every_option_that_an_experiment_can_have_is_an_option_of_sweep() {
    let sweep = declaration();
    let sweep = sweep.find_subcommand("sweep").expect("a command");
    let names = |command: &clap::Command| -> Vec<String> {
        let names = command.get_arguments().filter_map(clap::Arg::get_long);
        names.map(str::to_owned).collect()
    };
    let known = names(sweep);
    for name in names(&RunArgs::command()) {
        let is_one = known.contains(&name);
        assert!(is_one || planned::refusal(&name).is_some(), "{name}");
    }
}

#[test]
fn a_file_to_begin_with_is_printed() {
    for (name, starter) in ["nginx", "php-fpm", "squid", "sysctl"]
        .into_iter()
        .zip(Starter::ALL)
    {
        match parsed_as(Dialect::Native, &format!("sweep --init {name}")) {
            Ok(Request::Starter(parsed)) => assert_eq!(parsed, starter),
            other => panic!("{name}: {other:?}"),
        }
        assert!(
            starter
                .text()
                .contains(&format!("sudo wrkbench sweep {name}.toml"))
        );
    }
    assert_eq!(
        refusal("sweep --init apache"),
        "--init: \"apache\" is not a valid value (expected one of nginx, php-fpm, squid, sysctl)"
    );
    let message = refusal("sweep --init nginx e.toml");
    assert!(message.contains("cannot be used"), "{message}");
}

#[test]
fn arguments_that_make_no_experiment_are_refused() {
    for (line, expected) in [
        ("-q", "<EXPERIMENT|URL>: is missing"),
        ("http://h/", "nothing is varied: add -L OPTION LIST"),
        ("http:///", "host"),
        (
            "e.toml --judge p9999x",
            "--judge: \"p9999x\" is not a metric (did you mean p99",
        ),
        ("http://h/ --sysctl x", "--sysctl: \"x\" has no values"),
        ("e.toml -L connections 1,2", "need a URL; e.toml is a file"),
        ("e.toml --restart x", "need a URL; e.toml is a file"),
        (
            "e.toml -c5",
            "--connections: options of the load need a URL; e.toml",
        ),
        ("e.toml -- x", "arguments for a script need a URL"),
        ("http://h/ -L connections 1,2 -c x", "--connections: "),
    ] {
        let message = refusal(&format!("sweep {line}"));
        assert!(message.contains(expected), "{line}: {message}");
    }
}
