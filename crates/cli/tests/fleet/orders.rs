//! Wrong keys, wrong versions, recorded orders and garbage.

use std::os::unix::fs::PermissionsExt;

use testkit::{eventually, one_line};

use crate::harness::{FOUR, Heard, Lab, Setting, await_true, new_key};

const ONE: [Setting<'_>; 1] = [FOUR[2]];

/// The line of a run that was refused. Nothing has been sent.
fn refusal(lab: &Lab, options: &[&str]) -> String {
    let output = lab
        .load(&[&["-t1", "-c1", "-d2s"], options].concat())
        .finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(lab.target.arrived(), 0);
    one_line(&output.stderr).to_owned()
}

#[test]
#[ignore = "needs root; make fleet"]
fn a_plan_signed_with_another_key_is_refused() {
    let Some(mut lab) = Lab::new(&ONE) else {
        return;
    };
    lab.key = lab.network.folder.file("other.key");
    let other = new_key(&lab.key);
    assert_eq!(
        refusal(&lab, &[]),
        format!(
            "wrkbench: agent a2: the key {other} is not trusted; \
             start the agent with --trust {other}"
        )
    );
    lab.expect_nothing_left();
}

#[test]
#[ignore = "needs root; make fleet"]
fn scripts_and_targets_that_an_agent_does_not_accept_are_refused() {
    let mut setting = FOUR[2];
    setting.options = &["--no-scripts", "--targets", "192.0.2.0/24,10.77.0.9"];
    let Some(lab) = Lab::new(&[setting]) else {
        return;
    };
    let line = refusal(&lab, &[]);
    assert!(
        line.contains("agent a2: the target 10.77.0.2 is not one that the agent may send to"),
        "{line}"
    );
    let script = lab.network.folder.file_with("s.lua", "wrk.method = 'PUT'");
    let line = refusal(&lab, &["-s", &script]);
    assert!(
        line.contains("agent a2: the agent was started with --no-scripts"),
        "{line}"
    );
    lab.expect_nothing_left();
}

#[test]
#[ignore = "needs root; make fleet"]
fn an_agent_of_another_version_is_refused() {
    let Some(mut lab) = Lab::new(&[]) else { return };
    let mut program = std::fs::read(env!("CARGO_BIN_EXE_wrkbench")).unwrap();
    let own = env!("CARGO_PKG_VERSION").as_bytes();
    let other: Vec<u8> = own
        .iter()
        .map(|&byte| if byte == b'.' { b'.' } else { b'7' })
        .collect();
    let mut at = 0;
    while let Some(found) = program[at..]
        .windows(own.len())
        .position(|window| window == own)
    {
        at += found;
        program[at..at + own.len()].copy_from_slice(&other);
    }
    let path = lab.network.folder.file_with("other-version", program);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let agent = lab.agent(&path, &FOUR[2]);
    lab.agents.push(agent);
    let line = refusal(&lab, &[]);
    let theirs = String::from_utf8(other).unwrap();
    assert!(
        line.contains("agent a2 is ") && line.contains(&theirs),
        "{line}"
    );
    assert!(
        line.contains("install the same version on all machines"),
        "{line}"
    );
}

#[test]
#[ignore = "needs root; make fleet"]
fn agents_that_do_not_come_are_missed_by_name_and_number() {
    let Some(mut lab) = Lab::new(&FOUR) else {
        return;
    };
    drop(lab.agents.pop());
    drop(lab.agents.pop());
    let output = lab.load(&["-t1", "-c4", "-d2s", "--agents=3"]).finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    let line = one_line(&output.stderr);
    assert!(line.contains("2 of 3 agents of the fleet"), "{line}");
    assert!(line.contains("a0, a1"), "{line}");
}

#[test]
#[ignore = "needs root; make fleet"]
fn recorded_orders_are_worth_nothing_when_they_are_sent_again() {
    let Some(lab) = Lab::new(&ONE) else { return };
    let mut recorder = lab.by_hand();
    recorder.subscribe("wrkbench.2.>");
    let (output, result) = lab.run(&["-t1", "-c1", "-n100"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(result.recording.counters.sent, 100);
    let recorded: Vec<Heard> = std::iter::from_fn(|| recorder.next()).collect();
    let orders: Vec<&Heard> = recorded
        .iter()
        .filter(|heard| String::from_utf8_lossy(&heard.payload).contains("signature"))
        .filter(|heard| heard.subject.ends_with(".ask.a2"))
        .collect();
    assert!(orders.len() >= 4, "{recorded:?}");
    let mut thief = lab.by_hand();
    thief.subscribe("_INBOX.thief");
    for order in &orders {
        thief.publish(&order.subject, "_INBOX.thief", &order.payload);
        let reply = thief.next().expect("it replies");
        let reply = String::from_utf8(reply.payload).unwrap();
        assert!(
            reply.contains("refused") && reply.contains("\"session\""),
            "{reply}"
        );
    }
    assert_eq!(lab.target.arrived(), 100);
    lab.expect_nothing_left();
}

#[test]
#[ignore = "needs root; make fleet"]
fn orders_that_come_half_a_minute_late_are_refused() {
    let Some(lab) = Lab::new(&ONE) else { return };
    let mut listener = lab.by_hand();
    listener.subscribe("_INBOX.>");
    let stopped = &lab.agents[0].process;
    // The roll call is over when the order to prepare comes.
    let mut orders = lab.by_hand();
    orders.subscribe("wrkbench.2.*.ask.a2");
    let run = lab.load(&["-t1", "-c1", "-d60s"]);
    await_true("the first order", || orders.next().is_some());
    stopped.signal("STOP");
    let output = run.finish();
    println!("{}", output.stderr);
    assert_eq!(output.code, Some(1), "{output:?}");
    std::thread::park_timeout(std::time::Duration::from_secs(31));
    let before = lab.target.arrived();
    stopped.signal("CONT");
    let replies = std::iter::from_fn(|| listener.next());
    let replies: Vec<String> = replies
        .map(|heard| String::from_utf8_lossy(&heard.payload).into_owned())
        .collect();
    // The agent may have begun the run before it was stopped. Its lease has lapsed since.
    let refused = ["\"expired\"", "\"unknown_run\"", "\"session\""];
    let is_refused = |reply: &String| refused.iter().any(|kind| reply.contains(kind));
    assert!(replies.last().is_some_and(is_refused), "{replies:?}");
    assert_eq!(lab.target.arrived(), before);
    lab.expect_nothing_left();
}

#[test]
#[ignore = "needs root; make fleet"]
fn garbage_and_messages_that_are_too_large_disturb_no_run() {
    let Some(lab) = Lab::new(&FOUR) else { return };
    let mut vandal = lab.by_hand();
    let run = lab.load(&["-t1", "-c4", "-R400", "-d4s"]);
    lab.await_arrivals(40);
    let large = vec![b'{'; 1_000_000];
    let garbage: [&[u8]; 5] = [
        b"",
        b"{",
        b"\xff\x00",
        b"{\"id\":1,\"ask\":{\"type\":\"order\"}}",
        &large,
    ];
    for name in ["all", "hosts", "ask.a0", "beat.a1", "beat.nobody"] {
        for payload in garbage {
            vandal.publish(
                &format!("wrkbench.2.default.{name}"),
                "_INBOX.vandal",
                payload,
            );
        }
    }
    let output = run.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let result = lab.result();
    assert_eq!(result.recording.counters.sent, lab.target.arrived());
    lab.expect_nothing_left();
}

#[test]
#[ignore = "needs root; make fleet"]
fn orders_and_pieces_that_come_twice_cut_and_too_large_disturb_no_run() {
    let Some(lab) = Lab::new(&FOUR) else { return };
    let body = lab.network.folder.file_with("body", vec![b'b'; 700_000]);
    let mut parrot = lab.by_hand();
    parrot.subscribe("wrkbench.2.default.ask.*");
    let run = lab.load(&["-t1", "-c4", "-n200", "-X", "POST", "--body-file", &body]);
    let mut said: Vec<Vec<u8>> = Vec::new();
    // The roll call waits a second for agents that are farther away.
    let first = eventually(|| parrot.next().ok_or_else(|| "an order".to_owned()));
    let mut first = Some(first);
    while let Some(Heard { subject, payload }) = first.take().or_else(|| parrot.next()) {
        if said.contains(&payload) {
            continue;
        }
        let half = payload[..payload.len() / 2].to_vec();
        let mut large = payload.clone();
        large.resize(900_000, b' ');
        for payload in [payload, half, large] {
            parrot.publish(&subject, "_INBOX.parrot", &payload);
            said.push(payload);
        }
    }
    // Three pieces of a plan for each of four agents, and their orders.
    assert!(said.len() > 3 * 20, "{}", said.len());
    let output = run.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let result = lab.result();
    assert_eq!(result.recording.counters.answered, 200);
    assert_eq!(lab.target.arrived(), 200);
    lab.expect_nothing_left();
}
