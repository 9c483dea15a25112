//! Options of fleets, agents, and `wrkbench fleet`.

use ::fleet::{Number, OnLost, Selection, Wanted};

use super::*;
use crate::fleet::{FleetCommand, FleetRequest, FleetSource};

fn fleet_of(line: &str) -> FleetRequest {
    run(line).fleet.expect("a fleet makes the run")
}

#[test]
fn a_fleet_takes_the_places_and_addresses_it_is_given() {
    let request = fleet_of(
        "--fleet nats://hub:4222 --agents 4 --on-lost abort --only-place eu --only-place us \
         --at eu=http://10.0.0.5/ -t8 -c400 -R200k http://h:1/p",
    );
    assert_eq!(request.on_lost, OnLost::Abort);
    let target = plan::Target::parse("http://10.0.0.5/").expect("a URL");
    let expected = Selection {
        wanted: Wanted {
            places: vec!["eu".into(), "us".into()],
            number: Number::Total(4),
            ..Wanted::default()
        },
        at: std::iter::once(("eu".into(), target)).collect(),
    };
    assert_eq!(request.selection, expected);
    let FleetSource::Nats { servers, link } = request.source else {
        panic!("it is not on this machine");
    };
    assert_eq!(servers, "nats://hub:4222");
    assert_eq!(link.fleet_name.as_str(), "default");
}

#[test]
fn a_local_fleet_takes_the_options_of_a_run() {
    let request = run("fleet --local 3 -t1 -c8 http://h:1/p");
    assert_eq!(
        (request.plan.load.threads, request.plan.load.connections),
        (1, 8)
    );
    let fleet = request.fleet.expect("it has agents");
    assert_eq!(fleet.source, FleetSource::Local { agents: 3 });
    assert_eq!(fleet.on_lost, OnLost::Continue);
    let names = fleet.selection.wanted.names;
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    assert_eq!(names, ["local-1", "local-2", "local-3"]);
}

#[test]
fn agents_are_chosen_by_name_or_by_number() {
    let wanted = |options: &str| {
        let line = format!("--fleet nats://h {options} http://h:1/p");
        fleet_of(&line).selection.wanted
    };
    let names = |names: &[&str]| Wanted {
        names: names.iter().map(|it| it.parse().expect("a name")).collect(),
        ..Wanted::default()
    };
    assert_eq!(wanted(""), Wanted::default());
    assert_eq!(wanted("--agents 3"), Number::Total(3).into());
    assert_eq!(wanted("--agents-per-place 2"), Number::PerPlace(2).into());
    assert_eq!(wanted("--agents eu1"), names(&["eu1"]));
    assert_eq!(wanted("--agents eu1,us-2"), names(&["eu1", "us-2"]));
    assert_eq!(wanted("--agents 1,2"), names(&["1", "2"]));
    let request = run("--fleet nats://h --agents b,a http://h:1/p");
    assert!(request.fleet.is_some());
}

#[test]
fn what_does_not_fit_a_fleet_is_refused() {
    for (line, expected) in [
        (
            "--agents 3 http://h:1/p",
            "--agents: needs a fleet (--fleet URL)",
        ),
        (
            "--only-place eu http://h:1/p",
            "--only-place: needs a fleet (--fleet URL)",
        ),
        (
            "--at eu=http://h/ http://h:1/p",
            "--at: needs a fleet (--fleet URL)",
        ),
        (
            "--fleet nats://h --agents 0 http://h:1/p",
            "--agents 0: must be at least 1",
        ),
        (
            "--fleet nats://h --agents-per-place 0 http://h:1/p",
            "--agents-per-place 0: must be at least 1",
        ),
        (
            "--agents-per-place 2 http://h:1/p",
            "--agents-per-place: needs a fleet (--fleet URL)",
        ),
        (
            "--fleet nats://h --agents a,b --only-place eu http://h:1/p",
            "--only-place: the agents are named (--agents NAME,...), wherever they are",
        ),
        (
            "--fleet nats://h --at eu=http://h/ --at eu=http://i/ http://h:1/p",
            "--at eu: given twice",
        ),
        (
            "--fleet nats://h --records r.jsonl http://h:1/p",
            "--records: a fleet does not send its records (make the run on one machine)",
        ),
        (
            "--fleet nats://h --scrape http://h/ http://h:1/p",
            "--scrape: a fleet does not read the metrics of servers (make the run on one machine)",
        ),
        (
            "--fleet nats://h --sockets= --samples s.jsonl http://h:1/p",
            "--samples: a fleet does not send its samples; the result has their summary",
        ),
        (
            "fleet --local 0 http://h:1/p",
            "--local 0: must be at least 1",
        ),
        (
            "--local 2 --at eu=http://h/ http://h:1/p",
            "--local: all agents are at one place (--only-place and --at need --fleet)",
        ),
    ] {
        assert_eq!(refusal(line), expected, "{line}");
    }
    for line in [
        "--fleet nats://h --at eu http://h:1/p",
        "--fleet nats://h --agents a,,b http://h:1/p",
        "--fleet nats://h --agents a.b http://h:1/p",
        "--fleet nats://h --agents -3 http://h:1/p",
        "--fleet nats://h --agents 2 --agents-per-place 1 http://h:1/p",
        "--local 2 --agents-per-place 1 http://h:1/p",
        "--fleet nats://h --at =http://h/ http://h:1/p",
        "--fleet nats://h --at eu=ftp://h/ http://h:1/p",
        "--fleet nats://h --fleet-name a.b http://h:1/p",
        "--fleet nats://h --nats-cert c.pem http://h:1/p",
        "agent --nats nats://h",
        "agent --trust U",
        "agent --nats nats://h --trust U --targets 10.0.0.0/40",
        "agent --nats nats://h --trust U --max-rate 0",
        "agent --nats nats://h --trust U --max-rate -1",
        "agent --nats nats://h --trust U --max-connections 1.5",
        "agent --nats nats://h --trust U --max-duration soon",
        "agent --nats nats://h --trust U --allow-changes --max-rate 1k",
        "agent --nats nats://h --trust U --weight 0",
        "agent --nats nats://h --trust U --weight 1001",
        "agent --nats nats://h --trust U --weight -1",
        "agent --nats nats://h --trust U --weight 1.5",
        "agent --nats nats://h --trust U --allow-changes --weight 2",
        "agent --nats nats://h --trust U --name a/b",
        "fleet status",
        "fleet status a --nats nats://h",
        "fleet status --nats nats://h --json x.json",
        "fleet fetch --nats nats://h",
        "fleet fetch 0af3",
        "fleet fetch a/b --nats nats://h",
        "fleet fetch 0af3 --nats nats://h --agents 2",
        "fleet stop --nats nats://h",
        "fleet stop 0af3",
        "fleet stop 0af3 --nats nats://h --json -",
        "fleet key --agents 2",
        "fleet --local 2 --fleet nats://h http://h:1/p",
        "fleet",
    ] {
        refusal(line);
    }
}

#[test]
fn an_agent_may_send_anywhere_unless_it_is_told_where() {
    let targets = |line: &str| match parsed_as(Dialect::Native, line) {
        Ok(Request::Fleet(FleetCommandRequest::Agent(agent))) => agent.targets,
        other => panic!("{line:?} is no agent: {other:?}"),
    };
    assert!(targets("agent --nats nats://h --trust U").is_everything());
    let some = targets("agent --nats nats://h --trust U --targets web,10.0.0.0/8");
    assert_eq!(some.to_string(), "web,10.0.0.0/8");
}

#[test]
fn an_agent_has_the_weight_of_the_others_unless_it_is_given_one() {
    let weight = |line: &str| match parsed_as(Dialect::Native, line) {
        Ok(Request::Fleet(FleetCommandRequest::Agent(agent))) => u32::from(agent.weight),
        other => panic!("{line:?} is no agent: {other:?}"),
    };
    assert_eq!(weight("agent --nats nats://h --trust U"), 1);
    assert_eq!(
        weight("agent --nats nats://h --trust U --weight 1000"),
        1_000
    );
    assert_eq!(weight("agent --nats nats://h --trust U --allow-changes"), 1);
}

#[test]
fn an_agent_has_no_limits_unless_its_owner_sets_them() {
    let limits = |line: &str| match parsed_as(Dialect::Native, line) {
        Ok(Request::Fleet(FleetCommandRequest::Agent(agent))) => {
            (agent.max_rate, agent.max_connections, agent.max_duration)
        }
        other => panic!("{line:?} is no agent: {other:?}"),
    };
    let agent = "agent --nats nats://h --trust U";
    assert_eq!(limits(agent), (None, None, None));
    let all = format!("{agent} --max-rate 1.5k --max-connections 2k --max-duration 10m");
    let ten_minutes = Duration::from_secs(600);
    assert_eq!(
        limits(&all),
        (Some(1_500.0), Some(2_000), Some(ten_minutes))
    );
}

#[test]
fn the_file_of_a_key_is_given_by_name_or_by_its_option() {
    let file = |line: &str| match parsed_as(Dialect::Native, line) {
        Ok(Request::Fleet(FleetCommandRequest::Fleet(command))) => match *command {
            FleetCommand::Key { file } => file,
            other => panic!("{line:?} is {other:?}"),
        },
        other => panic!("{line:?} is {other:?}"),
    };
    assert_eq!(file("fleet key"), None);
    assert_eq!(file("fleet key a.key"), Some("a.key".into()));
    assert_eq!(file("fleet key --fleet-key a.key"), Some("a.key".into()));
}
