//! Experiment files as people write them, valid and invalid.

use std::path::Path;
use std::time::Duration;

use results::Order;

use super::*;
use crate::factor::{FactorKind, LevelValue};

const TARGET: &str = "[[target]]\nname = 't'\nurl = 'http://h/'\n";

/// An experiment with these lines, from its second line on.
fn read(more: &str) -> Result<Spec, String> {
    let text = format!("name = 'n'\n{more}\n{TARGET}");
    Spec::parse(&text, Path::new("/plans/p.toml")).map_err(|error| error.to_string())
}

fn refusal(more: &str) -> String {
    match read(more) {
        Ok(spec) => panic!("accepted: {spec:?}"),
        Err(text) => text,
    }
}

fn example(name: &str) -> Spec {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/experiments")
        .join(name);
    Spec::load(&path).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_first_example_is_read_completely() {
    let spec = example("tcp-buffers.toml");
    assert_eq!(spec.name, "socket buffers behind nginx and php-fpm");
    assert_eq!(
        (spec.rounds, spec.retries, spec.order),
        (5, 1, Order::Shuffled)
    );
    assert!(spec.results.ends_with("examples/experiments/testlogs"));
    assert_eq!(
        spec.sysctls(None),
        ["net.core.rmem_max", "net.core.wmem_max"]
    );
    assert_eq!(spec.factors[0].levels.len(), 7);
    assert_eq!(spec.factors[0].levels[6].name, "16777216");
    let hooks = &spec.hooks;
    let restart = hooks.restart.as_ref().map(|hook| hook.command.as_str());
    assert_eq!(restart, Some("systemctl restart nginx 'php*fpm.service'"));
    assert_eq!(
        hooks.ready.as_ref().map(|ready| ready.within),
        Some(Duration::from_secs(10))
    );
    let telemetry = spec.telemetry.clone().expect("it asks for telemetry");
    assert_eq!(
        telemetry.sockets.as_deref(),
        Some("sport = :80 or sport = :9000")
    );
    assert!(telemetry.counters);
    let cells = design::cells(&spec);
    assert_eq!(cells.len(), 7);
    assert_eq!(
        spec.arguments_of(&cells[0]).expect("a cell of this plan"),
        [
            "--threads=4",
            "--connections=300",
            "--duration=30s",
            "--warmup=3s",
            "--breakout",
            "http://localhost/index.php"
        ]
    );
}

#[test]
fn every_example_is_a_valid_experiment() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/experiments");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let spec = Spec::load(&path).unwrap_or_else(|error| panic!("{error}"));
            assert!(!design::cells(&spec).is_empty(), "{}", path.display());
            names.push(path);
        }
    }
    assert!(names.len() >= 5, "{names:?}");
}

#[test]
fn a_minimal_experiment_has_sensible_defaults() {
    let spec = read("").expect("a plan");
    assert_eq!((spec.rounds, spec.retries, spec.seed), (1, 1, None));
    assert_eq!(spec.order, Order::Shuffled);
    assert_eq!(spec.results, Path::new("/plans/results"));
    assert_eq!(spec.folder, Path::new("/plans"));
    assert_eq!(
        (spec.threshold, &spec.telemetry, &spec.baseline),
        (None, &None, &None)
    );
    assert_eq!(spec.hooks, Hooks::default());
    assert_eq!(design::cells(&spec).len(), 1);
}

#[test]
fn every_key_is_understood() {
    let spec = read(
        r#"
rounds = 3
results = "/var/r"
seed = 7
order = "sequential"
retries = 0
threshold = "2.5%"
judge = ["requests/s", "p99.9", "max"]
exclude = [{ workers = "4", connections = [64, 96], target = "u" }]
baseline = { workers = 1, connections = 64, gro = "on", profile = "p", target = "t", every = 2 }
[load]
no_keepalive = true
breakout = false
rate = 1.5
timeout = "2s"
header = ["A: b", "C: d"]
script = "s.lua"
script_arguments = ["-x", "y"]
[[profile]]
name = "p"
threads = 8
[[target]]
name = "u"
url = "http://u:8080/"
header = "Host: x"
[[factor]]
name = "workers"
file = "/etc/n.conf"
template = "n.tmpl"
check = "n -t"
timeout = "5s"
levels = [1, 4]
[[factor]]
connections = [64, 96, 400]
[[factor]]
name = "gro"
apply = "x $LEVEL"
restore = "y"
levels = ["on", { name = "off", a.b = 1, c = [1, 2] }]
[hooks]
timeout = "9s"
setup = "s"
teardown = { run = "t", timeout = "1m" }
settle = 1.5
ready = { url = "http://r/", within = 3, status = 204 }
[telemetry]
sockets = true
"#,
    )
    .unwrap_or_else(|text| panic!("{text}"));
    assert_eq!((spec.rounds, spec.seed, spec.retries), (3, Some(7), 0));
    assert_eq!(spec.order, Order::Sequential);
    assert_eq!(spec.threshold, Some(0.025));
    let judged = spec.judge.iter().map(|metric| metric.name.as_str());
    let expected = ["requests_per_sec", "latency_p99.9_us", "latency_max_us"];
    assert_eq!(judged.collect::<Vec<_>>(), expected);
    assert_eq!(spec.results, Path::new("/var/r"));
    let setup = spec.hooks.setup.as_ref().map(|hook| hook.limit);
    assert_eq!(setup, Some(Duration::from_secs(9)));
    let teardown = spec.hooks.teardown.as_ref().map(|hook| hook.limit);
    assert_eq!(teardown, Some(Duration::from_secs(60)));
    assert_eq!(spec.hooks.settle, Duration::from_millis(1500));
    let ready = spec.hooks.ready.clone().expect("it is there");
    assert!(ready.takes(204) && !ready.takes(200));
    assert_eq!(
        spec.telemetry.as_ref().and_then(|t| t.sockets.as_deref()),
        Some("")
    );
    let FactorKind::File {
        path,
        template,
        check,
    } = &spec.factors[0].kind
    else {
        panic!("{:?}", spec.factors[0]);
    };
    assert_eq!(
        (path.as_path(), template.as_path()),
        (Path::new("/etc/n.conf"), Path::new("/plans/n.tmpl"))
    );
    assert_eq!(
        check.as_ref().map(|check| check.limit),
        Some(Duration::from_secs(5))
    );
    let values = vec![
        ("a.b".to_owned(), "1".to_owned()),
        ("c".to_owned(), "1 2".to_owned()),
    ];
    assert_eq!(spec.factors[2].levels[1].value, LevelValue::Named(values));
    let cells = design::cells(&spec);
    let of_u = cells
        .iter()
        .find(|cell| cell.target == "u")
        .expect("a cell of u");
    assert_eq!(
        spec.arguments_of(of_u).expect("a cell of this plan"),
        [
            "--no-keepalive",
            "--rate=1.5",
            "--timeout=2s",
            "--header=Host: x",
            "--script=/plans/s.lua",
            "--threads=8",
            "--connections=64",
            "http://u:8080/",
            "--",
            "-x",
            "y"
        ]
    );
    // 2 x 3 x 2 combinations on two targets, without workers 4 with 64 and 96 connections on u.
    assert_eq!(cells.len(), 24 - 4);
    let environment = spec.environment_of(&cells[0]);
    for (name, value) in [
        ("WRKBENCH_WORKERS", "1"),
        ("WRKBENCH_CONNECTIONS", "64"),
        ("WRKBENCH_GRO", "on"),
        ("WRKBENCH_TARGET", "u"),
        ("WRKBENCH_URL", "http://u:8080/"),
        ("WRKBENCH_PROFILE", "p"),
        ("WRKBENCH_PLAN_DIR", "/plans"),
    ] {
        assert_eq!(
            environment.get(name).map(String::as_str),
            Some(value),
            "{name}"
        );
    }
}

#[test]
fn levels_of_settings_are_one_value_or_a_named_set() {
    let spec = read(
        r#"
[[factor]]
name = "rmem"
sysctl = "net.ipv4.tcp_rmem"
levels = ["4096  87380	6291456", [4096, 1, 2]]
[[factor]]
name = "set"
levels = [
  { name = "big", "net.core.rmem_max" = 1, net.core.wmem_max = "2" },
  { name = "small", net.core.wmem_max = 3, "net.core.rmem_max" = 4 },
]
"#,
    )
    .unwrap_or_else(|text| panic!("{text}"));
    let names: Vec<_> = spec.factors[0]
        .levels
        .iter()
        .map(|level| &level.name)
        .collect();
    assert_eq!(names, ["4096 87380 6291456", "4096 1 2"]);
    assert_eq!(
        spec.sysctls(None),
        [
            "net.ipv4.tcp_rmem",
            "net.core.rmem_max",
            "net.core.wmem_max"
        ]
    );
    let changes = spec.factors[1].changes("small", |_| unreachable!("no file is needed"));
    let set = |key: &str, value: &str| crate::Change::Sysctl {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    assert_eq!(
        changes,
        Ok(vec![
            set("net.core.rmem_max", "4"),
            set("net.core.wmem_max", "3")
        ])
    );
}

#[test]
fn flags_and_paths_can_be_levels() {
    let spec = read("[[factor]]\nno_keepalive = [false, true]\n[[factor]]\nscript = ['a.lua']")
        .expect("a plan");
    let cells = design::cells(&spec);
    let arguments: Vec<_> = cells
        .iter()
        .filter_map(|cell| spec.arguments_of(cell))
        .collect();
    assert_eq!(arguments[0], ["--script=/plans/a.lua", "http://h/"]);
    assert_eq!(
        arguments[1],
        ["--no-keepalive", "--script=/plans/a.lua", "http://h/"]
    );
}

/// The given lines start at line 2; line 1 is the name.
#[test]
fn an_invalid_file_is_refused_with_the_line_and_what_is_expected() {
    let mut wrong = Vec::new();
    for (more, expected) in [
        (
            "round = 5",
            "p.toml:2: unknown key \"round\" in the top level (did you mean rounds?)",
        ),
        (
            "rounds = 0",
            "p.toml:2: rounds: expected a whole number from 1 to 10000, found 0",
        ),
        (
            "rounds = '5'",
            "rounds: expected a whole number from 1 to 10000, found \"5\"",
        ),
        (
            "rounds = -1",
            "rounds: expected a whole number from 1 to 10000, found -1",
        ),
        (
            "rounds = 99999999999999999999999999999999999999999999",
            "p.toml:2: rounds:",
        ),
        (
            "rounds = 1\nrounds = 2",
            "p.toml:3: not TOML: duplicate key",
        ),
        ("x = ", "p.toml:2: not TOML:"),
        (
            "order = 'random'",
            "order: unknown variant `random`, expected `shuffled` or `sequential`",
        ),
        (
            "threshold = '2'",
            "threshold: expected a percentage like \"2%\", above 0 and at most 100%, found \"2\"",
        ),
        (
            "threshold = 2",
            "threshold: expected a percentage like \"2%\", above 0 and at most 100%, found 2",
        ),
        ("threshold = '0%'", "above 0"),
        (
            "judge = ['p99', 'reqests/s']",
            "p.toml:2: judge: \"reqests/s\" is not a metric (did you mean requests/s? expected p50",
        ),
        (
            "judge = ['p99', 'latency_p99_us']",
            "judge: \"latency_p99_us\" is given twice",
        ),
        ("judge = 'p99'", "judge: expected a list of metrics like ["),
        ("judge = []", "judge: expected a list of metrics like ["),
        ("retries = 99", "a whole number from 0 to 10"),
        (
            "results = ''",
            "results: expected a text in quotes, found \"\"",
        ),
        (
            "seed = -1",
            "seed: expected a whole number from 0 to 9223372036854775807, found -1",
        ),
        (
            "settle = '1s'",
            "\"settle\" does not belong in the top level but in [hooks]",
        ),
        (
            "connections = [1, 2]",
            "write [[factor]] and under it connections = [...]",
        ),
        ("load = 5", "load: expected a table, [load]"),
        (
            "[load]\nconnections = [1, 2]",
            "p.toml:3: connections: takes one value; to vary it, write a factor",
        ),
        ("[load]\nurl = 'http://x/'", "the URL belongs in [[target]]"),
        ("[load]\nc = 5", "p.toml:3: \"c\": not a long option"),
        (
            "[load]\n--threads = 5",
            "write the option without its dashes",
        ),
        (
            "[load]\nbatch_latency = true\nbatch-latency = true",
            "p.toml:4: batch-latency: given twice",
        ),
        (
            "[load]\nthreads = { a = 1 }",
            "threads: expected a text, a number, true or false, found a table",
        ),
        ("[load]\nrate = inf", "a finite number"),
        ("[load]\nbody = \"a\\u0000\"", "p.toml:3: body: "),
        ("[[target]]\nurl = 'ftp://x/'", "url: "),
        ("[[target]]\nname = 'x'", "p.toml:2: [[target]] has no url"),
        (
            "[[target]]\nname = 't'\nurl = 'http://x/'",
            "two targets are called \"t\"",
        ),
        ("[target]\nurl = 'http://x/'", "not TOML"),
        ("[[profile]]\nthreads = 1", "[[profile]] has no name"),
        (
            "[[profile]]\nname = 'a'\n[[profile]]\nname = 'a'",
            "p.toml:4: two profiles are called \"a\"",
        ),
        (
            "[hooks]\nrestart = 5",
            "restart: expected a command in quotes, or {",
        ),
        (
            "[hooks]\nrestrat = 'x'",
            "p.toml:3: unknown key \"restrat\" in [hooks] (did you mean restart?)",
        ),
        (
            "[hooks]\nrestart = { timeout = '1s' }",
            "restart: expected a command in quotes, or { run = \"command\"",
        ),
        (
            "[hooks]\nbefore = { run = 'x', timeout = 0 }",
            "before: expected a command in quotes, or { run = \"command\", timeout = \"60s\" }",
        ),
        (
            "[hooks]\nready = 'http://x/'",
            "ready: invalid type: string \"http://x/\", expected a table like { url",
        ),
        (
            "[hooks]\nready = { within = 'soon' }",
            "ready.within: expected a time like \"30s\", \"500ms\", \"1m30s\", found \"soon\"",
        ),
        ("[hooks]\nready = { status = 20 }", "from 100 to 599"),
        ("[hooks]\nsettle = '99999h'", "at most 30 days"),
        ("[telemetry]\ninterval = '1s'", "records nothing"),
        ("[telemetry]\nsocket = 'x'", "did you mean sockets?"),
        (
            "[telemetry]\ncounters = 1",
            "counters: invalid type: integer `1`, expected a boolean",
        ),
        (
            "[[factor]]\nname = 'x'",
            "[[factor]] x: add sysctl, option, file or apply to say what is varied",
        ),
        ("[[factor]]\nname = 'x'\nlevels = [1]", "add sysctl"),
        (
            "[[factor]]\nsysctl = 'net.core.x'",
            "[[factor]]: levels are missing",
        ),
        (
            "[[factor]]\nsysctl = 'net.core.x'\nlevels = []",
            "the list of levels is empty",
        ),
        (
            "[[factor]]\nsysctl = 'net.core.x'\nlevels = 5",
            "levels: expected a list of levels, found 5",
        ),
        (
            "[[factor]]\nsysctl = 'net.core.x'\nlevles = [1]\nlevels = [1]",
            "p.toml:4: unknown key \"levles\"",
        ),
        (
            "[[factor]]\nsysctl = 'net.core.x'\nlevels = [1, 2,\n 1]",
            "p.toml:5: [[factor]]: level \"1\" is given twice",
        ),
        (
            "[[factor]]\nsysctl = 'rmem_max'\nlevels = [1]",
            "is not the name of a kernel setting",
        ),
        (
            "[[factor]]\nsysctl = '../../etc/passwd'\nlevels = [1]",
            "is not the name of a kernel setting",
        ),
        (
            "[[factor]]\nsysctl = []\nlevels = [1]",
            "sysctl: the list is empty",
        ),
        (
            "[[factor]]\nsysctl = ['a.b', 'a/b']\nlevels = [1]",
            "names /proc/sys/a/b twice",
        ),
        (
            "[[factor]]\nname = 'f'\nlevels = [{ 'a.b' = 1 }]",
            "needs a name",
        ),
        (
            "[[factor]]\nname = 'f'\nlevels = [{ name = 'x' }]",
            "level \"x\" sets nothing",
        ),
        (
            "[[factor]]\nname = 'f'\n\
             levels = [{ name = 'x', 'a.b' = 1 }, { name = 'y', 'a.c' = 1 }]",
            "level \"x\" does not set a.c",
        ),
        (
            "[[factor]]\nsysctl = 'a.b'\nlevels = [{ name = 'x', 'a.c' = 1 }]",
            "which is not a key of the factor (a.b)",
        ),
        (
            "[[factor]]\nsysctl = 'a.b'\nlevels = [\"x\\u0007\"]",
            "is not a name",
        ),
        (
            "[[factor]]\nsysctl = 'a.b'\nlevels = ['']",
            "the name is empty",
        ),
        (
            "[[factor]]\nfile = '/x'\nlevels = [1]",
            "template is missing",
        ),
        (
            "[[factor]]\ntemplate = 'x'\nlevels = [1]",
            "file is missing",
        ),
        (
            "[[factor]]\nfile = 'x'\ntemplate = 'x'\nlevels = [1]",
            "file and template are the same",
        ),
        (
            "[[factor]]\nname = 'c'\napply = 'x'\nlevels = [1]",
            "[[factor]] c: restore is missing",
        ),
        (
            "[[factor]]\nname = 'a'\noption = 'rate'\nlevels = [1]\n\
             [[factor]]\nname = 'b'\nrate = [2]",
            "p.toml:6: the factors a and b both set --rate",
        ),
        (
            "[[factor]]\nname = 'a'\nfile = '/etc/x'\ntemplate = 't'\nlevels = [1]\n\
             [[factor]]\nname = 'b'\nfile = '/etc/./y/../x'\ntemplate = 't'\nlevels = [2]",
            "the factors a and b both set /etc/x",
        ),
        (
            "[[factor]]\nrate = [1]\nthreads = [2]",
            "threads: a factor varies one option",
        ),
        (
            "[[factor]]\nrate = 5",
            "\"rate\" in [[factor]] takes a list of levels, like rate = [4, 8]",
        ),
        (
            "[load]\nrounds = 5",
            "\"rounds\" is not a load option; it belongs in the top level, \
             before its first [table]",
        ),
        (
            "[[profile]]\nname = 'p'\nsettle = '1s'",
            "\"settle\" is not a load option; it belongs in [hooks]",
        ),
        (
            "connections = 4",
            "\"connections\" does not belong in the top level but in [load]",
        ),
        (
            "[hooks]\nno-keepalive = true",
            "\"no-keepalive\" does not belong in [hooks] but in [load]",
        ),
        (
            "[[factor]]\nname = 'a-b'\nrate = [1]\n[[factor]]\nname = 'a_b'\nthreads = [1]",
            "would share the variable WRKBENCH_A_B",
        ),
        (
            "[[factor]]\nname = 'target'\nrate = [1]",
            "a factor cannot be called \"target\"",
        ),
        (
            "[[factor]]\nrate = [1]\n[[profile]]\nname = 'p'\nrate = 5",
            "p.toml:6: rate is set by the profile \"p\" and varied by the factor \"rate\"",
        ),
        (
            "exclude = [{ rat = 5 }]\n[[factor]]\nrate = [1]",
            "unknown key \"rat\" in exclude (did you mean rate?)",
        ),
        (
            "exclude = [{ rate = 5 }]\n[[factor]]\nrate = [1]",
            "exclude: rate has no level \"5\" (known: 1)",
        ),
        (
            "exclude = [{}]",
            "an empty table would leave out every cell",
        ),
        (
            "exclude = { rate = 1 }\n[[factor]]\nrate = [1]",
            "a list like",
        ),
        (
            "exclude = [{ rate = 1 }]\n[[factor]]\nrate = [1]",
            "nothing is left to run",
        ),
        (
            "baseline = { every = 2 }\n[[factor]]\nrate = [1, 2]",
            "baseline: matches 2 cells, expected one: give a level of each of rate",
        ),
        (
            "baseline = { rate = 1, every = 0 }\n[[factor]]\nrate = [1, 2]",
            "every: expected a whole number from 1 to 4000, found 0",
        ),
        ("[\u{1F600}]", "not TOML"),
    ] {
        let refused = refusal(more);
        let is_placed = |line: &str| line.starts_with("/plans/p.toml:");
        if !refused.contains(expected) || !refused.lines().all(is_placed) {
            wrong.push(format!("{more}\n  gave {refused}\n  not  {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_search_with_a_second_rule_to_end_is_refused() {
    let found = refusal("until = { precision = '2%' }\n[search]\nslo = ['p50<10ms']");
    assert_eq!(
        found,
        "/plans/p.toml:3: until does not go with [search], which ends by its own precision and \
         budget"
    );
}

#[test]
fn what_a_search_finds_or_sets_is_refused_in_loads_and_as_a_factor() {
    const USERS: &str = "[search]\nslo = ['p50<10ms']\nover = 'connections'\n";
    const RATE: &str = "[search]\nslo = ['p50<10ms']\n";
    for (search, more, expected) in [
        (
            USERS,
            "[load]\nrate = 5",
            "rate does not go with a search over connections, whose requests follow their \
             responses, at no rate: remove it",
        ),
        (
            USERS,
            "[[profile]]\nname = 'a'\narrivals = 'poisson'",
            "arrivals does not go with a search over connections, whose requests follow their \
             responses, at no rate: remove it",
        ),
        (
            USERS,
            "[load]\nconnection_stages = '5s:1,5s:2'",
            "connection-stages does not go with a search over connections, which sets the \
             connections of each run: remove it",
        ),
        (
            USERS,
            "[[factor]]\nconnections = [1, 2]",
            "the factor connections does not go with a search over connections, which finds their \
             number: remove it",
        ),
        (
            USERS,
            "[[factor]]\nrate = [1, 2]",
            "the factor rate does not go with a search over connections, whose requests follow \
             their responses, at no rate: remove it",
        ),
        (
            RATE,
            "[[factor]]\nrate = [1, 2]",
            "the factor rate does not go with a search over rate, which sets the rate of each \
             run: remove it",
        ),
        (
            RATE,
            "[load]\nrate = 5",
            "rate does not go with a search over rate, which sets the rate of each run: remove it",
        ),
    ] {
        let refused = refusal(&format!("{search}{more}"));
        assert_eq!(refused.lines().count(), 1, "{refused}");
        let text = refused.split_once(": ").map(|(_, text)| text);
        assert_eq!(text, Some(expected), "{more}");
    }
    for (search, more) in [
        (USERS, "[load]\nconnections = 5"),
        (USERS, "[[factor]]\nthreads = [1, 2]"),
        (RATE, "[[factor]]\nconnections = [10, 20]"),
    ] {
        read(&format!("{search}{more}")).unwrap_or_else(|why| panic!("{more}: {why}"));
    }
}

#[test]
fn all_problems_are_reported_at_once_in_the_order_of_their_lines() {
    let text = refusal("rounds = 0\norder = 'x'\n[hooks]\nsettle = 'y'\n[[factor]]\nsysctl = 'z'");
    let lines: Vec<_> = text.lines().map(|line| line.split(':').nth(1)).collect();
    assert_eq!(
        lines,
        [Some("2"), Some("3"), Some("5"), Some("6"), Some("7")],
        "{text}"
    );
}

#[test]
fn an_experiment_without_a_target_or_a_name_is_refused() {
    let error = Spec::parse("", Path::new("x.toml")).expect_err("it is empty");
    let text = error.to_string();
    assert!(text.contains("x.toml:1: name is missing"), "{text}");
    assert!(text.contains("x.toml:1: no target"), "{text}");
}

#[test]
fn too_many_cells_are_refused_before_they_are_made() {
    let levels: Vec<_> = (1..=1000).map(|level| level.to_string()).collect();
    let factor = |name: &str| format!("[[factor]]\n{name} = [{}]\n", levels.join(", "));
    let text = refusal(
        &["aa", "bb", "cc", "dd", "ee", "ff", "gg"]
            .map(factor)
            .concat(),
    );
    assert!(
        text.contains("combinations of levels, profiles and targets: the limit is 4000"),
        "{text}"
    );
    let text = refusal(&format!("rounds = 10000\n{}", factor("aa")));
    assert!(
        text.contains("10000000 trials: the limit is 100000"),
        "{text}"
    );
    let many: Vec<_> = (0..1001).map(|level| level.to_string()).collect();
    let text = refusal(&format!("[[factor]]\naa = [{}]", many.join(", ")));
    assert!(text.contains("1001 levels; the limit is 1000"), "{text}");
}

#[test]
fn a_file_that_is_not_an_experiment_is_refused_without_a_panic() {
    let folder = testkit::Folder::new();
    let load = |name: &str, content: &[u8]| {
        let path = folder.file_with(name, content);
        Spec::load(Path::new(&path))
            .expect_err("it is no plan")
            .to_string()
    };
    assert!(load("binary.toml", b"a = 1\n\xff\xfe").contains("binary.toml:2: not UTF-8"));
    assert!(load("huge.toml", &vec![b'#'; 2 << 20]).contains("is larger than 1 MiB, the limit"));
    let nested = format!("a = {}", "[".repeat(100_000));
    assert!(load("nested.toml", nested.as_bytes()).contains("nested.toml:1: not TOML"));
    let missing = Spec::load(&folder.join("none.toml")).expect_err("it is not there");
    assert!(
        missing
            .to_string()
            .contains("none.toml: cannot read the file (No such file")
    );
    let is_folder = Spec::load(folder.path()).expect_err("it is a folder");
    assert!(is_folder.to_string().contains("cannot read the file"));
}

#[test]
fn hostile_files_are_refused_quickly_and_in_few_lines() {
    let many = |line: &dyn Fn(usize) -> String| (0..20_000).map(line).collect::<String>();
    for (text, expected) in [
        (
            many(&|n| format!("k{n} = 1\n")),
            "only the first 100 of 20000 problems are shown",
        ),
        (
            format!("[load]\n{}", many(&|n| format!("kk{n} = 1\n"))),
            "more than 500 options",
        ),
        (
            format!("[[factor]]\naa = [{}]", many(&|n| format!("{n},"))),
            "20000 levels",
        ),
        (
            format!(
                "exclude = [{}]\n[[factor]]\naa = [1, 2]",
                many(&|_| "{aa = 1},".to_owned())
            ),
            "",
        ),
        (
            format!(
                "[[factor]]\nname = 'f'\nlevels = [{{ name = 'x', {}a = 1 }}]",
                "a.".repeat(50_000)
            ),
            "recursion",
        ),
        (
            format!("exclude = [{{ {} = 1 }}]", "x".repeat(500_000)),
            "unknown key",
        ),
    ] {
        match read(&text) {
            Ok(_) => assert_eq!(expected, ""),
            Err(refused) => {
                assert!(
                    refused.contains(expected) && !expected.is_empty(),
                    "{refused:.500}"
                );
                assert!(refused.lines().count() <= 101);
                assert!(
                    refused.lines().all(|line| line.len() < 500),
                    "{refused:.500}"
                );
            }
        }
    }
}

#[test]
fn a_damaged_file_is_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/experiments");
    let mut random = fastrand::Rng::with_seed(20_261_121);
    let words = [
        "[",
        "]",
        "{",
        "}",
        "=",
        ",",
        "\"",
        "'",
        "\n",
        "#",
        "0",
        "-1",
        "inf",
        "true",
        ".",
        "[[factor]]",
        "\u{1F600}",
    ];
    for name in [
        "connections.toml",
        "nginx-file.toml",
        "tcp-rmem.toml",
        "squid.toml",
        "squid-places.toml",
    ] {
        let text = std::fs::read_to_string(folder.join(name)).expect("the example is there");
        let chars: Vec<char> = text.chars().collect();
        for _ in 0..250 {
            let mut damaged = chars.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..damaged.len());
                let end = (at + random.usize(..6)).min(damaged.len());
                let word = words[random.usize(..words.len())];
                damaged.splice(at..end, word.chars());
            }
            let damaged: String = damaged.into_iter().collect();
            if let Ok(spec) = Spec::parse(&damaged, Path::new("p.toml")) {
                // What is accepted can be scheduled.
                let trials = design::Schedule::new(&spec, 1).trials.len();
                assert_eq!(trials, design::trials(&spec), "{damaged}");
            }
        }
    }
}

#[test]
fn a_truncated_file_is_read_or_refused() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/experiments/tcp-rmem.toml");
    let text = std::fs::read_to_string(path).expect("the example is there");
    for (at, _) in text.char_indices() {
        // Neither outcome may panic; cut after a complete table, the file is valid.
        let _ = Spec::parse(&text[..at], Path::new("cut.toml"));
    }
}

#[test]
fn rounds_can_be_overridden_unless_they_are_too_many() {
    let mut spec = read("[[factor]]\naa = [1, 2]").expect("a plan");
    assert_eq!(spec.set_rounds(7), Ok(()));
    let refused = spec.set_rounds(0).unwrap_err();
    assert_eq!(refused.to_string(), "must be from 1 to 10000");
    assert!(spec.set_rounds(10_001).is_err());
    assert_eq!(spec.rounds, 7);
    let levels: Vec<_> = (1..=1000).map(|level| level.to_string()).collect();
    let mut spec = read(&format!("[[factor]]\naa = [{}]", levels.join(", "))).expect("a plan");
    let refused = spec.set_rounds(101).unwrap_err();
    assert_eq!(refused.to_string(), "101000 trials: the limit is 100000");
    assert_eq!(spec.rounds, 1);
}

/// Blocks of the reference that show only a line of a table.
const FRAGMENTS: [&str; 3] = ["exclude", "baseline", "levels"];

#[test]
fn every_example_of_the_reference_is_valid() {
    let reference = include_str!("../../../../docs/experiments.md");
    let blocks = reference.split("```toml\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap_or_default());
    let (mut plans, mut seen) = (0, String::new());
    for block in blocks {
        seen += block;
        if FRAGMENTS.iter().any(|fragment| block.starts_with(fragment)) {
            continue;
        }
        // Consecutive tables there are alternatives, except in a complete file.
        let is_whole = block.starts_with("name");
        let parts = block.split_inclusive("\n\n");
        let parts: Vec<_> = if is_whole {
            vec![block]
        } else {
            parts.collect()
        };
        for part in parts {
            let head = if is_whole { "" } else { "name = 'n'\n" };
            let target = if part.contains("[[target]]") {
                ""
            } else {
                TARGET
            };
            let text = format!("{head}{part}\n{target}");
            if let Err(error) = Spec::parse(&text, Path::new("/plans/p.toml")) {
                panic!("{error}\n{text}");
            }
            plans += 1;
        }
    }
    assert!(plans > 10, "{plans}");
    for key in [
        "sysctl", "option", "file", "template", "check", "apply", "restore", "ready",
    ] {
        assert!(seen.contains(&format!("{key} = ")), "{key} has no example");
    }
}

const PLACES: &str = "[[place]]\nname = 'office'\n[[place]]\nname = 'vm/internal'\n\
                      url = 'http://10.0.0.5/'\n";

#[test]
fn places_in_turn_are_the_first_setting_of_each_cell() {
    let spec = read(&format!(
        "exclude = [{{ place = 'office', connections = 8 }}]\n\
         baseline = {{ place = 'office', connections = 4 }}\n{PLACES}\
         [[factor]]\nconnections = [4, 8]\n"
    ))
    .unwrap_or_else(|text| panic!("{text}"));
    assert_eq!(spec.place_mode, PlaceMode::InTurn);
    let cells = design::cells(&spec);
    let settings: Vec<String> = cells
        .iter()
        .map(|cell| {
            let settings: Vec<_> = cell.settings.iter().map(ToString::to_string).collect();
            settings.join(", ")
        })
        .collect();
    assert_eq!(
        settings,
        [
            "place office, connections 4",
            "place vm/internal, connections 4",
            "place vm/internal, connections 8"
        ]
    );
    assert!(cells[0].is_baseline);
    let urls: Vec<_> = cells.iter().map(|cell| spec.url_of(cell)).collect();
    let own = Some("http://10.0.0.5/");
    assert_eq!(urls, [Some("http://h/"), own, own]);
    let arguments = spec.arguments_of(&cells[1]).expect("a cell of this plan");
    assert_eq!(arguments, ["--connections=4", "http://10.0.0.5/"]);
    let environment = spec.environment_of(&cells[1]);
    assert_eq!(environment["WRKBENCH_PLACE"], "vm/internal");
    // Commands run on this machine, not at the place.
    assert_eq!(environment["WRKBENCH_URL"], "http://h/");
    let places: Vec<_> = spec.places_of(&cells[1]).iter().collect();
    assert_eq!(places, [&spec.places[1]]);
}

#[test]
fn places_together_make_each_run() {
    let spec = read(&format!("places = 'together'\n{PLACES}")).unwrap_or_else(|t| panic!("{t}"));
    let cells = design::cells(&spec);
    assert_eq!((cells.len(), cells[0].place()), (1, None));
    assert_eq!(spec.places_of(&cells[0]), spec.places);
    assert_eq!(spec.url_of(&cells[0]), Some("http://h/"));
    assert!(
        !spec
            .environment_of(&cells[0])
            .contains_key("WRKBENCH_PLACE")
    );
}

#[test]
fn a_place_has_a_url_for_each_of_several_targets() {
    let more = "[[place]]\nname = 'vm'\nurl = { t = 'http://10.0.0.5/', u = 'http://10.0.0.6/' }\n\
                [[target]]\nname = 'u'\nurl = 'http://u/'\n";
    let spec = read(more).unwrap_or_else(|text| panic!("{text}"));
    let urls: Vec<_> = design::cells(&spec)
        .iter()
        .map(|cell| (cell.target.clone(), spec.url_of(cell).map(str::to_owned)))
        .collect();
    let expected = [("u", "http://10.0.0.6/"), ("t", "http://10.0.0.5/")];
    assert_eq!(
        urls,
        expected.map(|(name, url)| (name.to_owned(), Some(url.to_owned())))
    );
}

#[test]
fn a_wrong_place_is_refused_with_its_line() {
    let place = |more: &str| format!("[[place]]\nname = 'a'\n{more}");
    let two = "[[target]]\nname = 'apache'\nurl = 'http://u/'\n";
    for (more, expected) in [
        (
            "[[place]]\nurl = 'http://u/'".to_owned(),
            "p.toml:2: [[place]] has no name = \"...\"",
        ),
        (
            format!("{}{}", place("\n"), place("")),
            "p.toml:5: two places are called \"a\"",
        ),
        (place("url = 'ftp://u/'"), "p.toml:4: url: "),
        (
            place("urls = 'http://u/'"),
            "p.toml:4: unknown key \"urls\" in [[place]] (did you mean url?)",
        ),
        (
            place(&format!("url = 'http://u/'\n{two}")),
            "p.toml:4: url: there are several targets: write url = { \"apache\" = \
             \"http://...\", ... }",
        ),
        (
            place(&format!("url.apach = 'http://u/'\n{two}")),
            "p.toml:4: unknown key \"apach\" in url (did you mean apache?)",
        ),
        (
            place(&format!("url.apache = 'u'\n{two}")),
            "p.toml:4: url.apache: ",
        ),
        (
            "places = 'together'".to_owned(),
            "p.toml:2: places: there is no [[place]] with name = \"...\"",
        ),
        (
            format!("places = 'both'\n{}", place("")),
            "p.toml:2: places: expected \"in turn\" or \"together\", found \"both\"",
        ),
        (
            "[[places]]\nname = 'a'".to_owned(),
            "p.toml:2: places: a place is written below [[place]]",
        ),
        (
            place("places = 'together'"),
            "p.toml:4: \"places\" does not belong in [[place]] but in the top level",
        ),
        (
            place("[[factor]]\nname = 'Place'\noption = 'threads'\nlevels = [1, 2]"),
            "p.toml:4: a factor cannot be called \"Place\": choose another name",
        ),
        (
            format!(
                "places = 'together'\nexclude = [{{ place = 'a' }}]\n{}",
                place("")
            ),
            "p.toml:3: unknown key \"place\" in exclude",
        ),
        (
            format!("exclude = [{{ place = 'b' }}]\n{}", place("")),
            "p.toml:2: exclude: place has no level \"b\" (known: a)",
        ),
    ] {
        let text = refusal(&more);
        let first = text.lines().next().unwrap_or_default();
        assert!(first.contains(expected), "{more}:\n{text}");
    }
}

#[test]
fn without_places_a_factor_may_be_called_place() {
    let spec = read("[[factor]]\nname = 'place'\noption = 'threads'\nlevels = [1, 2]")
        .unwrap_or_else(|text| panic!("{text}"));
    let cells = design::cells(&spec);
    assert_eq!(spec.places_of(&cells[0]), []);
    assert_eq!(spec.url_of(&cells[0]), Some("http://h/"));
}

#[test]
fn a_search_has_a_condition_about_errors_and_statuses_whatever_it_was_given() {
    for (given, expected) in [
        ("'p99<50ms'", "p99<50ms failed<0.1%"),
        ("'failed<5%'", "failed<5%"),
        ("'p99<50ms', 'errors<1%'", "p99<50ms errors<1% status<0.1%"),
        ("'status<1%'", "status<1% errors<0.1%"),
        (
            "'unanswered<1%', 'status_500<1%'",
            "unanswered<1% status_500<1%",
        ),
    ] {
        let spec = read(&format!("[search]\nslo = [{given}]")).expect(given);
        let slo = spec.search.expect("it searches").slo;
        let slo: Vec<String> = slo.iter().map(ToString::to_string).collect();
        assert_eq!(slo.join(" "), expected);
    }
}

#[test]
fn settings_and_hooks_change_this_machine_and_the_load_does_not() {
    let changes = |more: &str| read(more).expect("it is valid").changes_this_machine();
    let connections = "[[factor]]\nconnections = [1, 2]\n";
    assert!(!changes(connections));
    assert!(changes(&format!("{connections}[hooks]\nbefore = 'true'\n")));
    let sysctl = "[[factor]]\nsysctl = 'net.core.somaxconn'\nlevels = [128, 4096]\n";
    assert!(changes(sysctl));
}
