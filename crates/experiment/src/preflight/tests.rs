//! Checks before the start, on simulated machines.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use plan::{Load as PlanLoad, Stop, Target};

use super::*;
use crate::fake::Fake;
use crate::starter::Starter;

const BUFFERS: &str = include_str!("../../../../examples/experiments/tcp-buffers.toml");
const NGINX: &str = include_str!("../../../../examples/experiments/nginx-file.toml");
const TEMPLATE: &str = include_str!("../../../../examples/experiments/nginx.conf.tmpl");

fn spec(text: &str) -> Spec {
    Spec::parse(text, Path::new("/plans/p.toml")).unwrap_or_else(|error| panic!("{error}"))
}

/// A machine that lacks nothing.
fn machine() -> Fake {
    Fake::with(&[
        ("/proc/1/comm", "systemd\n"),
        ("/proc/2/comm", "kthreadd\n"),
        ("/proc/sys/net/core/netdev_budget", "300\n"),
        ("/proc/sys/net/core/rmem_max", "212992\n"),
        ("/proc/sys/net/core/wmem_max", "212992\n"),
        ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ("/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
        (
            "/proc/sys/net/ipv4/tcp_available_congestion_control",
            "reno cubic\n",
        ),
        ("/etc/nginx/nginx.conf", "worker_processes auto;\n"),
        ("/plans/nginx.conf.tmpl", TEMPLATE),
    ])
}

/// The plan of every load here: 30 s after 3 s of warm-up.
fn run_plan(_: &Cell) -> Result<RunPlan, Failure> {
    let target = Target::parse("http://localhost/index.php").map_err(|error| error.to_string())?;
    Ok(RunPlan {
        load: PlanLoad {
            threads: 4,
            connections: 300,
            ..PlanLoad::default()
        },
        stop: Stop {
            duration: Some(Duration::from_secs(30)),
            requests: None,
        },
        warmup: Duration::from_secs(3),
        ..RunPlan::new(target)
    })
}

fn look(text: &str, host: &mut Fake) -> Preflight {
    look_with(text, None, host)
}

fn look_with(text: &str, agents: Option<&[Agent]>, host: &mut Fake) -> Preflight {
    let spec = spec(text);
    let schedule = Schedule::new(&spec, 1);
    preflight(
        &spec,
        &schedule,
        host,
        &mut RemoteHosts::new(),
        agents,
        &mut run_plan,
    )
}

/// The problems of an experiment with these lines, without the file's name.
fn problems(more: &str, host: &mut Fake) -> Vec<String> {
    let text =
        format!("name = 'n'\nrounds = 5\n{more}\n[[target]]\nname = 't'\nurl = 'http://h/'\n");
    let found = look(&text, host).problems;
    found
        .iter()
        .map(|line| line.replace("/plans/p.toml:", ""))
        .collect()
}

const RMEM: &str = "[[factor]]\nsysctl = 'net.core.rmem_max'\nlevels = [262144]\n";

#[test]
fn the_printed_description_matches_the_golden_file() {
    for (text, golden) in [
        (BUFFERS, include_str!("../../tests/golden/tcp-buffers.txt")),
        (NGINX, include_str!("../../tests/golden/nginx-file.txt")),
    ] {
        let mut host = machine();
        let before = host.files.clone();
        let found = look(text, &mut host);
        assert_eq!(found.problems, Vec::<String>::new());
        assert!(found.text == golden, "is now:\n{}", found.text);
        assert_eq!(host.files, before);
        let is_request = |line: &String| line.starts_with("ask ");
        assert!(host.log.iter().all(is_request), "{:?}", host.log);
    }
}

#[test]
fn files_to_begin_with_pass_all_checks_where_their_templates_were_made() {
    for starter in Starter::ALL {
        let text = starter.text();
        let mut host = machine();
        for (path, content) in [
            ("/proc/sys/net/core/somaxconn", "4096\n"),
            ("/proc/sys/net/ipv4/tcp_max_syn_backlog", "1024\n"),
            ("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
            ("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "1\n"),
            (
                "/proc/sys/net/ipv4/tcp_available_congestion_control",
                "cubic bbr\n",
            ),
            ("/etc/php/8.2/fpm/pool.d/www.conf", "pm = dynamic\n"),
            ("/etc/squid/squid.conf", "http_port 80 accel\n"),
        ] {
            host.files.insert(path.into(), content.into());
        }
        // The comment at the top says what belongs into the template.
        let values: String = text.lines().filter(|line| line.contains("{{")).collect();
        for template in ["nginx.conf.tmpl", "www.conf.tmpl", "squid.conf.tmpl"] {
            let path = Path::new("/plans").join(template);
            host.files.insert(path, values.clone().into_bytes());
        }
        // What is commented out is as good.
        let is_code = |line: &&str| {
            let mut words = line.split_whitespace();
            let first = words.next().is_some_and(|word| line.starts_with(word));
            first && (line.starts_with("[[") || words.next() == Some("="))
        };
        let uncommented: Vec<&str> = text
            .lines()
            .map(|line| line.strip_prefix("# ").filter(is_code).unwrap_or(line))
            .collect();
        for text in [text, &uncommented.join("\n")] {
            let found = look(text, &mut host);
            assert_eq!(found.problems, Vec::<String>::new(), "{text}");
            assert_eq!(found.notes, Vec::<String>::new(), "{text}");
        }
    }
}

#[test]
fn a_setting_that_cannot_be_set_is_reported_with_the_reason() {
    let rmem = PathBuf::from("/proc/sys/net/core/rmem_max");
    let mut host = machine();
    host.files.remove(&rmem);
    let found = problems(RMEM, &mut host);
    assert!(
        found[0].starts_with("3: net.core.rmem_max: no such setting on this machine"),
        "{found:?}"
    );

    let mut host = machine();
    host.read_only.insert(rmem.clone());
    let found = problems(RMEM, &mut host);
    assert!(
        found[0].starts_with("3: net.core.rmem_max: read-only (permission denied)"),
        "{found:?}"
    );
    host.files
        .remove(Path::new("/proc/sys/net/core/netdev_budget"));
    let found = problems(RMEM, &mut host);
    assert!(
        found[0].contains("read-only in this network namespace"),
        "{found:?}"
    );

    let mut host = machine();
    host.root = false;
    let found = problems(RMEM, &mut host);
    assert_eq!(
        found,
        ["3: net.core.rmem_max: only root may set it: run the sweep as root (sudo)"]
    );

    let found = problems(
        &RMEM.replace("262144", "'16M', 1, 2147483648, 300000"),
        &mut machine(),
    );
    assert_eq!(
        found,
        [
            "5: net.core.rmem_max: 16M is not a whole number (now 212992)",
            "5: net.core.rmem_max: 1 is below the kernel's minimum of 2048",
            "5: net.core.rmem_max: 2147483648 is above the kernel's maximum of 2147483647",
        ]
    );

    let found = problems(
        "[[factor]]\nsysctl = 'net.ipv4.ip_forward'\nlevels = [0, 1]",
        &mut machine(),
    );
    assert!(found[0].contains("so it cannot be a factor"), "{found:?}");
}

#[test]
fn a_container_in_the_network_of_its_machine_is_refused() {
    let mut host = machine();
    host.files.remove(Path::new("/proc/2/comm"));
    let found = problems(RMEM, &mut host);
    assert!(
        found[0].contains("this container shares the machine's network namespace"),
        "{found:?}"
    );
    // With its own network it is accepted; without settings the check does not apply.
    assert_eq!(problems("", &mut host), Vec::<String>::new());
    host.files
        .remove(Path::new("/proc/sys/net/core/netdev_budget"));
    assert_eq!(problems(RMEM, &mut host), Vec::<String>::new());
}

#[test]
fn a_congestion_control_that_is_not_loaded_is_a_note() {
    let text = "name = 'n'\nrounds = 5\n[[target]]\nname = 't'\nurl = 'http://h/'\n[[factor]]\n\
                sysctl = 'net.ipv4.tcp_congestion_control'\nlevels = ['cubic', 'bbr']\n";
    let found = look(text, &mut machine());
    assert_eq!(found.problems, Vec::<String>::new());
    assert!(
        found.notes[0].contains("bbr is not loaded now (loaded: reno cubic)"),
        "{:?}",
        found.notes
    );
}

#[test]
fn a_congestion_control_that_other_namespaces_may_not_set_is_refused_there() {
    let factor = "[[factor]]\nsysctl = 'net.ipv4.tcp_congestion_control'\n\
                  levels = ['reno', 'cubic']";
    let mut host = machine();
    let allowed = PathBuf::from("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    host.files.insert(allowed, b"reno bbr\n".to_vec());
    assert_eq!(problems(factor, &mut host), Vec::<String>::new());
    host.files
        .remove(Path::new("/proc/sys/net/core/netdev_budget"));
    let found = problems(factor, &mut host);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("cubic cannot be set in this network namespace, where only reno bbr are"),
        "{found:?}"
    );
}

#[test]
fn missing_programs_are_found_in_every_command() {
    let mut host = machine();
    for program in ["systemctl", "nginx", "ethtool"] {
        host.missing_programs.insert(program.to_owned());
    }
    let found = look(NGINX, &mut host).problems;
    let line = |what: &str| {
        found
            .iter()
            .filter(|problem| problem.contains(what))
            .count()
    };
    assert_eq!(line("restart: program systemctl not found"), 1, "{found:?}");
    assert_eq!(
        line("check of workers: program nginx not found"),
        1,
        "{found:?}"
    );
    assert_eq!(
        line("apply of offload: program ethtool not found"),
        1,
        "{found:?}"
    );
    assert_eq!(
        line("restore of offload: program ethtool not found"),
        1,
        "{found:?}"
    );
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
fn a_file_that_cannot_be_made_from_its_template_is_found() {
    let check = |host: &mut Fake, expected: &[&str]| {
        let found = look(NGINX, host).problems;
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (problem, expected) in found.iter().zip(expected) {
            assert!(problem.contains(expected), "{problem}");
        }
    };
    let template = PathBuf::from("/plans/nginx.conf.tmpl");
    let mut host = machine();
    host.files.remove(&template);
    check(
        &mut host,
        &["cannot read the template", "cannot read the template"],
    );
    host.files
        .insert(template.clone(), b"worker_processes 4;".to_vec());
    check(
        &mut host,
        &["contains no placeholder", "contains no placeholder"],
    );
    host.files
        .insert(template.clone(), b"a\n{{worker}}".to_vec());
    check(
        &mut host,
        &[
            "line 2: {{worker}} is not a value",
            "line 2: {{worker}} is not a value",
        ],
    );
    host.files.insert(template, b"c {{connections}};".to_vec());
    check(
        &mut host,
        &["levels one and four of workers give the same file"],
    );
    let mut host = machine();
    host.read_only
        .insert(PathBuf::from("/etc/nginx/nginx.conf"));
    check(
        &mut host,
        &["/etc/nginx/nginx.conf: cannot be written (permission denied)"],
    );
    let mut host = machine();
    host.files
        .insert(PathBuf::from("/etc/nginx/nginx.conf"), vec![b' '; 5 << 20]);
    check(&mut host, &["larger than 4194304 bytes"]);
}

#[test]
fn an_unreachable_target_is_found_unless_setup_may_start_it() {
    let refused = || Err(std::io::ErrorKind::ConnectionRefused.into());
    let mut host = machine();
    host.responses.insert(
        "http://h/".to_owned(),
        VecDeque::from([refused(), refused()]),
    );
    let found = problems("", &mut host);
    assert!(
        found[0].starts_with("4: http://h/: no response (connection refused)"),
        "{found:?}"
    );
    let found = problems("[hooks]\nsetup = 'start'", &mut host);
    assert_eq!(found, Vec::<String>::new());
    // `before` runs when the server is ready.
    let answers = VecDeque::from([refused(), refused()]);
    host.responses.insert("http://h/".to_owned(), answers);
    let found = problems(
        "[hooks]\nbefore = 'start'\nready = { within = 1 }",
        &mut host,
    );
    assert_eq!(found.len(), 1, "{found:?}");
    let found = problems("[hooks]\nbefore = 'start'", &mut host);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn an_unreachable_target_is_no_problem_if_the_restart_hook_runs_before_the_first_trial() {
    let absent = |more: &str| {
        let mut host = machine();
        let refused = || Err(std::io::ErrorKind::ConnectionRefused.into());
        let answers = VecDeque::from([refused(), refused()]);
        host.responses.insert("http://h/".to_owned(), answers);
        problems(more, &mut host)
    };
    let restart = "[hooks]\nrestart = 'start'";
    assert_eq!(absent(&format!("{RMEM}{restart}")), Vec::<String>::new());
    // Without a change of the machine it never runs.
    let found = absent(restart);
    assert!(
        found[0].contains("http://h/: no response (connection refused)"),
        "{found:?}"
    );
}

#[test]
fn a_target_is_not_requested_over_what_it_may_not_speak() {
    let (socket, http2) = ("unix_socket = '/run/x'", "http2 = true");
    for (load, awaited, expected) in [
        (socket, "[[profile]]\nname = 'p'", "ready uses TCP"),
        (http2, "[load]", "ready uses HTTP/1.1"),
    ] {
        let mut host = machine();
        let found = problems(&format!("[load]\n{load}"), &mut host);
        assert_eq!((found, &host.log), (Vec::new(), &Vec::new()), "{load}");
        let more = format!("{awaited}\n{load}\n[hooks]\nready = {{ within = 1 }}");
        let found = problems(&more, &mut host);
        assert!(found[0].contains(expected), "{found:?}");
    }
}

#[test]
fn a_server_that_may_speak_http1_is_requested_over_it() {
    let factor = |option: &str, levels: &str| {
        format!("[[factor]]\nname = 'f'\noption = '{option}'\nlevels = [{levels}]")
    };
    for (more, is_requested) in [
        ("[load]\nhttp2 = false".to_owned(), true),
        ("[load]\nalpn = 'h2,http/1.1'".to_owned(), true),
        ("[load]\nalpn = 'h2'".to_owned(), false),
        ("[load]\ngrpc = true".to_owned(), false),
        (factor("http2", "false, true"), true),
        (factor("http2", "true"), false),
        (factor("streams", "1, 2"), true),
    ] {
        let mut host = machine();
        problems(&more, &mut host);
        assert_eq!(!host.log.is_empty(), is_requested, "{more}");
    }
}

#[test]
fn an_unusual_status_is_noted_without_secrets_unless_a_file_says_what_is_requested() {
    let url = "http://h/?token=abcdefgh";
    for (more, is_noted) in [("", true), ("\n[load]\nrequest_file = '/f'", false)] {
        let mut host = machine();
        let answers = VecDeque::from([Ok(404)]);
        host.responses.insert(url.to_owned(), answers);
        let text = format!("name = 'n'\n[[target]]\nname = 't'\nurl = '{url}'{more}");
        let notes = look(&text, &mut host).notes;
        let note = "http://h/?token=***: responds with status 404: is this the intended page?";
        assert_eq!(notes.iter().any(|it| it == note), is_noted, "{notes:?}");
        assert!(!notes.concat().contains("abcdefgh"), "{notes:?}");
    }
}

#[test]
fn a_status_that_ready_would_never_accept_is_found() {
    let mut host = machine();
    let answers = [500, 500, 200].map(Ok);
    host.responses
        .insert("http://h/".to_owned(), VecDeque::from(answers));
    let found = problems("[hooks]\nready = { within = '1s' }", &mut host);
    assert_eq!(
        found,
        ["5: http://h/: responds with status 500, but ready waits for 200 to 399"]
    );
    assert_eq!(problems("", &mut host), Vec::<String>::new());
    let found = problems("[hooks]\nready = { status = 204 }", &mut host);
    assert_eq!(
        found,
        ["5: http://h/: responds with status 200, but ready waits for 204"]
    );
}

#[test]
fn one_value_under_two_names_is_not_varied_twice() {
    let text = "name = 'n'\nrounds = 5\n[[target]]\nname = 't'\nurl = 'http://h/'\n\
                [[factor]]\nname = 'a'\nsysctl = 'net.ipv6.route.gc_min_interval'\nlevels = [1, 2]\n\
                [[factor]]\nname = 'b'\nsysctl = 'net.ipv6.route.gc_min_interval_ms'\n\
                levels = [100, 900]\n";
    let mut host = machine();
    for name in ["gc_min_interval", "gc_min_interval_ms"] {
        let path = PathBuf::from("/proc/sys/net/ipv6/route").join(name);
        host.files.insert(path, b"0\n".to_vec());
    }
    let found = look(text, &mut host).problems;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("is the same value as net.ipv6.route.gc_min_interval:"),
        "{found:?}"
    );
}

#[test]
fn options_that_the_caller_refuses_are_reported_once_with_their_line() {
    let text = "name = 'n'\n[load]\nconections = 5\n[[target]]\nname = 't'\nurl = 'http://h/'\n\
                [[factor]]\nrate = [1, 2]\n";
    let spec = spec(text);
    let mut asked = 0;
    let mut refuse = |_: &Cell| {
        asked += 1;
        let reason = "--conections: unknown option (did you mean --connections?)".to_owned();
        Err(reason.into())
    };
    let found = preflight(
        &spec,
        &Schedule::new(&spec, 1),
        &mut machine(),
        &mut RemoteHosts::new(),
        None,
        &mut refuse,
    );
    assert_eq!(asked, 2);
    assert_eq!(
        found.problems,
        ["/plans/p.toml:3: --conections: unknown option (did you mean --connections?)"]
    );
    assert!(found.text.contains("time:       unknown"), "{}", found.text);
}

#[test]
fn an_unwritable_results_folder_is_found() {
    let mut host = machine();
    host.read_only
        .insert(PathBuf::from("/plans/results/.wrkbench"));
    let found = problems("", &mut host);
    assert!(
        found[0].starts_with("/plans/results: cannot write results"),
        "{found:?}"
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let mut host = machine();
    host.files.remove(Path::new("/proc/sys/net/core/rmem_max"));
    host.read_only
        .insert(PathBuf::from("/proc/sys/net/core/wmem_max"));
    host.missing_programs.insert("systemctl".to_owned());
    let refused = VecDeque::from([Err(std::io::ErrorKind::ConnectionRefused.into())]);
    host.responses
        .insert("http://localhost/index.php".to_owned(), refused);
    host.read_only
        .insert(PathBuf::from("/plans/testlogs/.wrkbench"));
    let found = look(BUFFERS, &mut host);
    assert_eq!(found.problems.len(), 4, "{found:?}");
    // The restart hook may start the server.
    let notes = found.notes.join("\n");
    assert!(
        notes.contains("http://localhost/index.php: no response yet"),
        "{notes}"
    );
}

#[test]
fn control_characters_are_escaped() {
    let text = "name = 'n'\nrounds = 5\n[[target]]\nname = 't'\nurl = 'http://h/'\n\
                [hooks]\nbefore = \"echo \\u001b[2J\"\n[load]\nheader = \"a: \\u001b[2J'\"\n";
    let found = look(text, &mut machine());
    assert!(!found.text.contains('\u{1b}'), "{}", found.text);
    assert!(found.text.contains("echo \\u{1b}[2J"), "{}", found.text);
}

#[test]
fn a_sequential_order_and_few_rounds_give_a_note() {
    let text = "name = 'n'\norder = 'sequential'\n[[target]]\nname = 't'\nurl = 'http://h/'\n\
                [[factor]]\nrate = [1, 2]\n[hooks]\nrestart = 'x'\n";
    let notes = look(text, &mut machine()).notes.join("\n");
    for expected in [
        "order = \"sequential\"",
        "rounds = 1",
        "the restart hook never runs",
    ] {
        assert!(notes.contains(expected), "{notes}");
    }
}

const PLACES: &str = "name = 'from two places'\nrounds = 2\n[load]\nconnections = 300\n\
    [[profile]]\nname = 'basic'\n[[profile]]\nname = 'wide'\nthreads = 6\n\
    [[target]]\nname = 'proxy'\nurl = 'http://h/'\n\
    [[target]]\nname = 'backend'\nurl = 'http://h:81/'\n\
    [[place]]\nname = 'office'\n\
    [[place]]\nname = 'vm/internal'\nurl = { proxy = 'http://10.0.0.5/' }\n";

fn agent(name: &str, place: &str) -> Agent {
    Agent {
        name: name.to_owned(),
        place: place.to_owned(),
        cores: 2,
        weight: plan::Weight::default(),
    }
}

#[test]
fn the_description_shows_places_and_their_agents() {
    let agents = ["a1", "a2"].map(|name| agent(name, "vm/internal"));
    let agents = [&[agent("desk", "office")], &agents[..]].concat();
    let found = look_with(PLACES, Some(&agents), &mut machine());
    assert_eq!(found.problems, Vec::<String>::new());
    let golden = include_str!("../../tests/golden/places.txt");
    assert!(found.text == golden, "is now:\n{}", found.text);
    let together = format!("places = 'together'\n{PLACES}");
    let found = look_with(&together, Some(&agents), &mut machine());
    assert!(
        found.text.contains("(4 cells x 2 rounds)"),
        "{}",
        found.text
    );
    assert!(
        found
            .text
            .contains("\nplaces, together:\n  office: 1 agent")
    );
}

#[test]
fn the_agents_of_an_experiment_without_places_work_together() {
    let agents = [agent("desk", "office"), agent("a1", "vm/internal")];
    let found = look_with(BUFFERS, Some(&agents), &mut machine());
    let expected = "\nplaces, together:\n  office: 1 agent (desk with 2 cores)\n  \
                    vm/internal: 1 agent (a1 with 2 cores)\n";
    assert!(found.text.contains(expected), "{}", found.text);
    assert_eq!(found.problems, Vec::<String>::new());
}

#[test]
fn places_need_agents() {
    let found = look_with(PLACES, None, &mut machine());
    assert_eq!(
        found.problems,
        [
            "/plans/p.toml:16: [[place]] needs the agents of a fleet: give --fleet nats://HOST \
          (docs/fleet.md)"
        ]
    );
    let agents = [agent("desk", "ofice"), agent("a1", "vm/internal")];
    let found = look_with(PLACES, Some(&agents), &mut machine());
    assert_eq!(
        found.problems,
        [
            "/plans/p.toml:16: place office: no agent is there; start one with wrkbench agent \
             --place office (agents are at: ofice, vm/internal)"
        ]
    );
    assert_eq!(
        found.notes.last().map(String::as_str),
        Some("agents at ofice take no part: no [[place]] has this name")
    );
}

#[test]
fn a_load_that_cannot_be_dealt_out_is_refused() {
    // Four threads of each agent and 300 connections.
    let many: Vec<Agent> = (0..76).map(|n| agent(&format!("a{n}"), "office")).collect();
    let agents = [many, vec![agent("b", "vm/internal")]].concat();
    let found = look_with(PLACES, Some(&agents), &mut machine());
    assert_eq!(
        found.problems,
        [
            "/plans/p.toml:4: place office: connections 300: number of connections must be >= \
             threads of all agents (76 agents with 4 each: 304)"
        ]
    );
    assert!(found.text.contains("office: 76 agents (a0 with 2 cores, "));
    assert!(found.text.contains(", and 68 more)\n"), "{}", found.text);
}

#[test]
fn a_load_that_is_too_small_for_the_weights_of_the_agents_is_refused() {
    let mut agents = [
        agent("a1", "office"),
        agent("a2", "office"),
        agent("b", "vm/internal"),
    ];
    assert!(
        look_with(PLACES, Some(&agents), &mut machine())
            .problems
            .is_empty()
    );
    agents[1].weight = 1_000.try_into().expect("it is a weight");
    // Each of four threads of a1 would have 300 of 4004 connections.
    let found = look_with(PLACES, Some(&agents), &mut machine());
    assert_eq!(
        found.problems,
        [
            "/plans/p.toml:4: place office: connections 300: a thread of agent 1 of 2, which has \
             weight 1, would have none; use at least 4004 connections, or weights that differ less"
        ]
    );
}

#[test]
fn a_target_that_only_agents_reach_is_a_note_unless_ready_requests_it() {
    let agents = [agent("desk", "office"), agent("a1", "vm/internal")];
    let unreachable = || {
        let mut host = machine();
        for url in ["http://h/", "http://h:81/"] {
            let refused = Err(std::io::Error::other("refused"));
            host.responses.insert(url.to_owned(), [refused].into());
        }
        host
    };
    let found = look_with(PLACES, Some(&agents), &mut unreachable());
    assert_eq!(found.problems, Vec::<String>::new());
    let is_noted = |note: &String| note.contains("no response to this machine");
    assert_eq!(found.notes.iter().filter(|it| is_noted(it)).count(), 2);
    let ready = format!("{PLACES}[hooks]\nready = {{ within = '1s' }}\n");
    let found = look_with(&ready, Some(&agents), &mut unreachable());
    assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
}
