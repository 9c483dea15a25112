//! Conversations: when their turns are due, what each request repeats, and how they end.

use std::sync::{Arc, Mutex};

use crate::http::{HttpPeer, Reply, Request};
use crate::simulation::{MS, Run, S, Simulation};
use crate::tokens::{END, HEAD, answer, chunk, llm, prelude, simulation, text};
use engine::source::FromFile;
use plan::{Pacing, Target};
use requests::{Defaults, Inputs, Moment};
use results::{ConversationRecording, ErrorKind};

/// A turn of a file: what the user says, and how long after the answer before.
fn turn(text: &str, think_ms: u64) -> String {
    let message = format!(r#"{{"role":"user","content":"{text}"}}"#);
    format!(r#"{{"messages":[{message}],"think_ms":{think_ms},"max_tokens":20}}"#)
}

/// A line with a conversation of these turns and rules.
fn line(rules: &str, turns: &[String]) -> String {
    let turns = turns.join(",");
    let body = r#""body_text":"{\"m\":1,{{$conversation}}}""#;
    let limit = r#""limit":["\"max_tokens\":",""]"#;
    let rules = format!(r#""dialect":"openai",{rules}{limit}"#);
    format!(r#"{{"path":"/v1","conversation":{{{rules},"turns":[{turns}]}},{body}}}"#)
}

fn with_file(mut simulation: Simulation, text: &str) -> Simulation {
    let target = Target::parse("http://h/").expect("a URL");
    let inputs = Inputs {
        file: "f",
        text: text.as_bytes(),
        read: &|_| Err(std::io::ErrorKind::NotFound.into()),
        variable: &|_| None,
    };
    let defaults = Defaults {
        target: Some(&target),
        ..Defaults::default()
    };
    let set = requests::load(&inputs, &defaults).expect("a good file");
    simulation.settings.has_conversations = true;
    simulation.source(FromFile {
        set: Arc::new(set),
        seed: 1,
        wall_clock: Moment { unix_ms: 0 },
        monotonic_ns: 0,
    })
}

/// So many users, who have the conversations of a file.
fn users(number: u32, text: &str) -> Simulation {
    let mut simulation = with_file(simulation(), text).connections(number);
    simulation.settings.plan.pacing = Pacing::Users;
    simulation
}

fn conversations(run: &Run) -> &ConversationRecording {
    let recording = run.recording.parts.conversations.as_ref();
    let recording = recording.expect("there are conversations");
    assert_eq!(recording.begun, recording.ended() + recording.open);
    recording
}

/// The first token after 100 ms, 20 tokens, 10 ms between them: 290 ms.
fn usual(_: &Request<'_>) -> Reply {
    answer(100 * MS, 10 * MS, 20)
}

fn five_turns(think_ms: u64) -> String {
    line(
        "",
        &[0, 1, 2, 3, 4].map(|number| turn(&format!("{number}"), think_ms)),
    )
}

#[test]
fn users_think_between_turns_and_between_conversations() {
    let users = users(10, &five_turns(1_000)).lasting(129 * S);
    let run = users.run(HttpPeer::new(usual));
    let counters = &run.recording.counters;
    // 10 users, each of whom has a turn every 1.29 s.
    assert_eq!((counters.answered, counters.unsent), (1_000, 0));
    let recording = conversations(&run);
    assert_eq!((recording.done, recording.failed), (200, 0));
    let (live, thinking) = recording.users_mean(129 * S).expect("a window");
    assert!((live - 10.0).abs() < 1e-6, "{live}");
    assert!((thinking - 10.0 / 1.29).abs() < 0.1, "{thinking}");
    let turns: Vec<u64> = recording.by_turn.iter().map(|turn| turn.answers).collect();
    assert_eq!(turns, [200, 200, 400, 200, 0]);
    for turn in &recording.by_turn[..4] {
        assert_eq!(turn.first_token.max_ns(), Some(100 * MS));
        assert_eq!(turn.time_per_token.max_ns(), Some(10 * MS));
        assert_eq!(turn.input_mean(), Some(7.0));
    }
    // The first one of the users does not begin with thinking.
    let (five, four) = (5 * 290 * MS + 4 * S, 4 * S);
    let duration = &recording.duration;
    assert!(duration.min_ns() >= Some(five - four / 1_000));
    assert!(duration.max_ns() <= Some(five + four / 1_000));
}

#[test]
fn conversations_begin_at_the_rate_and_go_on_beside_each_other() {
    let mut run = with_file(simulation(), &five_turns(2_000));
    run = run
        .rate(2.0)
        .connections(20)
        .warmed_up(20 * S)
        .lasting(100 * S);
    let run = run.run(HttpPeer::new(usual));
    let recording = conversations(&run);
    assert_eq!(recording.begun, 200);
    let counters = &run.recording.counters;
    assert_eq!(counters.answered + counters.in_flight, 1_000);
    let (live, thinking) = recording.users_mean(100 * S).expect("a window");
    // 2/s for 5 answers and 4 times to think.
    assert!(
        (live - 2.0 * (5.0 * 0.29 + 4.0 * 2.0)).abs() < 0.1,
        "{live}"
    );
    assert!((live - thinking - 2.9).abs() < 0.05, "{live} - {thinking}");
}

#[test]
fn at_a_rate_as_many_conversations_are_going_on_from_the_start_as_later() {
    // 2/s for four times of 10 s to think, and five answers.
    let text = five_turns(10_000).replace("\"limit\"", "\"begins_anywhere\":true,\"limit\"");
    let expected = 2.0 * (5.0 * 0.29 + 4.0 * 10.0);
    for (workers, worker) in [(1, 0), (4, 3)] {
        let mut run = with_file(simulation(), &text);
        run.settings.workers = workers;
        run.settings.worker = worker;
        run = run.rate(2.0).connections(20).lasting(60 * S);
        let run = run.run(HttpPeer::new(usual));
        let recording = conversations(&run);
        let at_start = recording.live_ns[0] as f64 / S as f64;
        if workers == 1 {
            // Answers have not been waited for.
            assert!((at_start - expected).abs() < 4.0, "{at_start}");
            let (live, _) = recording.users_mean(60 * S).expect("a window");
            assert!((live - expected).abs() < 1.0, "{live}");
            assert!((run.recording.counters.sent.abs_diff(600)) <= 6);
        } else {
            // Its share of those that began before the run, and its share of the schedule.
            assert!((at_start - expected / 4.0).abs() < 3.0, "{at_start}");
        }
    }
}

#[test]
fn a_conversation_that_begins_with_its_first_turn_is_not_going_on_at_the_start() {
    let mut run = with_file(simulation(), &five_turns(10_000));
    run = run.rate(2.0).connections(20).lasting(S);
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let run = run.run(HttpPeer::new(move |request: &Request<'_>| {
        seen.lock().expect("no panic").push(body(request));
        usual(request)
    }));
    assert_eq!(run.recording.counters.sent, 2);
    assert!(
        bodies(&log)
            .iter()
            .all(|body| body.matches("\"user\"").count() == 1)
    );
}

/// The members of each request's body.
fn bodies(log: &Mutex<Vec<String>>) -> Vec<String> {
    log.lock().expect("no panic").clone()
}

fn body(request: &Request<'_>) -> String {
    let text = String::from_utf8_lossy(request.bytes);
    let (_, body) = text.split_once("\r\n\r\n").expect("a head");
    body.to_owned()
}

/// What a model says, cut at every byte: each byte of the body is a chunk.
fn bytewise(events: &[&str], end: &str) -> Reply {
    let events: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let chunks = (events + end).into_bytes();
    let chunk = |byte: &u8| [b"1\r\n".as_slice(), &[*byte], b"\r\n"].concat();
    let chunks = chunks.iter().flat_map(chunk);
    let mut text = HEAD.as_bytes().to_vec();
    text.extend(chunks);
    text.extend_from_slice(END.as_bytes());
    Reply::after(MS, text)
}

#[test]
fn each_request_repeats_what_the_server_has_said_byte_for_byte() {
    let text = line("", &[turn("1", 0), turn("2", 0), turn("3", 0)]);
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let peer = HttpPeer::new(move |request: &Request<'_>| {
        seen.lock().expect("no panic").push(body(request));
        // Quotes, a newline, and a character whose halves are in two events.
        let said = [
            r#"{"choices":[{"delta":{"content":"\"a\\\n\ud83d"}}]}"#,
            r#"{"choices":[{"delta":{"content":"\ude00é"},"finish_reason":"stop"}]}"#,
        ];
        bytewise(&said, "data: [DONE]\n\n")
    });
    let run = users(1, &text).requests(1).run(peer);
    assert_eq!(conversations(&run).done, 1);
    let said = r#"{"role":"assistant","content":"\"a\\\n\ud83d\ude00é"}"#;
    let user = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
    let (first, second, third) = (user("1"), user("2"), user("3"));
    let expected = [
        first.clone(),
        format!("{first},{said},{second}"),
        format!("{first},{said},{second},{said},{third}"),
    ]
    .map(|messages| format!(r#"{{"m":1,"messages":[{messages}],"max_tokens":20}}"#));
    assert_eq!(bodies(&log), expected);
}

#[test]
fn the_result_of_a_tool_is_sent_after_its_time() {
    let with_tool = turn("1", 0).replace(
        "\"think_ms\"",
        "\"tool\":{\"result\":\"sunny\",\"wait_ms\":500},\"think_ms\"",
    );
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let call = concat!(
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","#,
        r#""function":{"name":"w","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
    );
    let peer = HttpPeer::new(move |request: &Request<'_>| {
        let mut seen = seen.lock().expect("no panic");
        seen.push((request.arrived_ns, body(request)));
        if seen.len() == 1 {
            let end = format!("{}{END}", chunk("[DONE]"));
            prelude(1).then(10 * MS, chunk(call)).then(0, end)
        } else {
            answer(100 * MS, 10 * MS, 2)
        }
    });
    let run = users(1, &line("", &[with_tool])).requests(1).run(peer);
    assert_eq!(conversations(&run).done, 1);
    let seen = log.lock().expect("no panic");
    let [(first_ns, _), (second_ns, body)] = seen.as_slice() else {
        panic!("{seen:?}");
    };
    let waited_ns = second_ns - first_ns - 10 * MS - 1;
    assert!((500 * MS..=501 * MS).contains(&waited_ns), "{waited_ns}");
    assert!(
        body.contains(r#""role":"tool","tool_call_id":"c1","content":"sunny""#),
        "{body}"
    );
}

#[test]
fn a_turn_that_does_not_fit_into_the_context_ends_its_conversation() {
    // The server counts 7 tokens of input and 20 of output for each request.
    let text = line("\"context\":30,", &[turn("1", 0), turn("2", 0)]);
    let run = users(1, &text).requests(3).run(HttpPeer::new(usual));
    let recording = conversations(&run);
    assert_eq!((recording.context, recording.done), (3, 0));
    assert_eq!(run.recording.counters.answered, 3);
    assert_eq!(recording.turns.max_ns(), Some(1));
}

#[test]
fn a_failed_turn_ends_its_conversation_and_the_next_one_begins() {
    let peer = HttpPeer::new(|request: &Request<'_>| match request.number % 5 {
        1 => Reply::after(MS, "HTTP/1.1 500 E\r\nContent-Length: 0\r\n\r\n"),
        4 => Reply::after(MS, "nonsense\r\n\r\n"),
        _ => usual(request),
    });
    // Two turns and an error; two turns and garbage.
    let run = users(1, &five_turns(10)).requests(4).run(peer);
    let recording = conversations(&run);
    assert_eq!((recording.failed, recording.done), (4, 0));
    // 3 after the second turn, twice; 2 after the third one, twice.
    assert_eq!(recording.turns_lost, 3 + 2 + 3 + 2);
    let failed = run.recording.errors.count(ErrorKind::BadStatusLine);
    assert_eq!(failed.exchanges, 2);
    assert_eq!(recording.turns.count(), 0);
}

#[test]
fn a_turn_that_is_asked_to_wait_is_sent_again_after_that_time() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let peer = HttpPeer::new(move |request: &Request<'_>| {
        let mut seen = seen.lock().expect("no panic");
        seen.push((request.arrived_ns, body(request)));
        match request.number {
            1 => {
                let head = "HTTP/1.1 429 No\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n";
                Reply::after(MS, head)
            }
            _ => answer(100 * MS, 10 * MS, 2),
        }
    });
    let run = users(1, &line("", &[turn("1", 0), turn("2", 0)]))
        .requests(1)
        .run(peer);
    let recording = conversations(&run);
    assert_eq!((recording.done, recording.failed), (1, 0));
    assert_eq!(llm(&run).pauses.count(), 1);
    let seen = log.lock().expect("no panic");
    let [_, (refused_ns, refused), (again_ns, again)] = seen.as_slice() else {
        panic!("{seen:?}");
    };
    assert_eq!(again_ns - refused_ns, MS + 3 * S);
    assert_eq!(again, refused);
}

#[test]
fn starts_go_on_during_a_stall_and_no_turn_is_due_before_the_answer_before_it() {
    let stall = S..3 * S;
    let peer = HttpPeer::new(move |request: &Request<'_>| {
        let arrived_ns = request.arrived_ns;
        let wait_ns = if stall.contains(&arrived_ns) {
            stall.end - arrived_ns
        } else {
            0
        };
        answer(wait_ns + 100 * MS, 10 * MS, 20)
    });
    let mut run = with_file(simulation(), &five_turns(100));
    run = run.rate(10.0).connections(100).lasting(10 * S);
    let run = run.run(peer);
    let recording = conversations(&run);
    assert_eq!((recording.begun, recording.failed), (100, 0));
    let [first, second, ..] = recording.by_turn.as_slice() else {
        panic!("{recording:?}");
    };
    // A fifth of the first turns are due in the stall, and wait for up to 2.1 s.
    let late = |turn: &results::TurnRecording| turn.first_token.value_at_percentile(99.0);
    assert!(late(first) >= 2 * S, "{:?}", late(first));
    assert!(first.answers >= 97, "{}", first.answers);
    assert!(second.first_token.max_ns() <= Some(2_100 * MS));
    assert!(llm(&run).responses <= run.recording.counters.sent);
}

#[test]
fn a_run_begins_in_the_middle_of_conversations_if_it_is_to() {
    let turns: Vec<String> = (0..5)
        .map(|number| {
            let answer = "\"answer\":{\"role\":\"assistant\",\"content\":\"said\"},\"think_ms\"";
            turn(&format!("{number}"), 1_000).replace("\"think_ms\"", answer)
        })
        .collect();
    let text = line("\"begins_anywhere\":true,", &turns);
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let peer = HttpPeer::new(move |request: &Request<'_>| {
        seen.lock().expect("no panic").push(body(request));
        usual(request)
    });
    let run = users(50, &text).lasting(S).run(peer);
    let asked = |body: &String| body.matches("\"user\"").count();
    let log = bodies(&log);
    let first: Vec<usize> = log.iter().take(50).map(asked).collect();
    for turns in 1..=5 {
        let number = first.iter().filter(|it| **it == turns).count();
        assert!(
            (2..25).contains(&number),
            "{number} begin with turn {turns}"
        );
    }
    // Each request before the first one of this run has its recorded answer.
    let said = |body: &String| body.matches("said").count() + 1;
    assert!(log.iter().take(20).all(|body| said(body) == asked(body)));
    assert!(conversations(&run).begun >= 50);
}

#[test]
fn what_is_due_at_the_end_without_a_connection_is_unsent() {
    // One connection for 10 conversations a second of 290 ms.
    let mut run = with_file(simulation(), &five_turns(0));
    run = run.rate(10.0).connections(1).lasting(2 * S);
    let run = run.run(HttpPeer::new(|_| answer(100 * MS, 10 * MS, 20)));
    let counters = &run.recording.counters;
    assert_eq!(counters.due, counters.sent + counters.unsent);
    assert!(counters.unsent >= 13, "{}", counters.unsent);
    assert_eq!(conversations(&run).failed, 0);
}

/// A replica that has what it was asked and what it has answered in a cache of prefixes.
#[derive(Default)]
struct Replica {
    cached: Vec<String>,
}

impl Replica {
    /// The first token after 1 ms for each token that is not in the cache. A word is a token.
    fn answer(&mut self, messages: &str) -> Reply {
        let tokens = |text: &str| {
            let each = text.split("\"content\":\"").skip(1);
            each.map(|text| text.split(' ').count() as u64).sum::<u64>()
        };
        let known = self.cached.iter().filter(|it| messages.starts_with(*it));
        let known = known.map(|it| tokens(it)).max().unwrap_or(0);
        let (all, words) = (tokens(messages), format!("a{}", " b".repeat(19)));
        let said = format!(r#"{messages},{{"role":"assistant","content":"{words}"}}"#);
        self.cached.push(said);
        let mut reply = prelude(1).then((all - known) * MS - 1, text("a"));
        for _ in 1..20 {
            reply = reply.then(10 * MS, text(" b"));
        }
        let usage =
            format!(r#"{{"choices":[],"usage":{{"prompt_tokens":{all},"completion_tokens":20,"#)
                + &format!(r#""prompt_tokens_details":{{"cached_tokens":{known}}}}}}}"#);
        let end = chunk(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#);
        reply.then(0, end + &chunk(&usage) + &chunk("[DONE]") + END)
    }
}

/// Conversations that each begin with a system's text of 50 words of its own, with questions of 10
/// words. Requests have their names in a header.
fn with_own_systems(conversations: usize) -> String {
    let words = |first: String, words: usize| first + &" w".repeat(words - 1);
    let lines = (0..conversations).map(|number| {
        let system = words(format!("s{number}"), 50);
        let opening = format!(
            r#""opening":[{{"role":"system","content":"{system}"}}],"begins_anywhere":false,"#
        );
        let turns =
            [0, 1, 2, 3].map(|turn_number| turn(&words(format!("q{turn_number}"), 10), 100));
        let named = r#"{"path":"/v1","header":{"X-Session":"{{$conversation.id}}"},"#;
        line(&opening, &turns).replace(r#"{"path":"/v1","#, named)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Has 200 conversations with replicas; `choose` says which one gets a request.
fn with_replicas(
    replicas: usize,
    mut choose: impl FnMut(&Request<'_>, &str) -> usize + Send + 'static,
) -> ConversationRecording {
    let mut replicas: Vec<Replica> = (0..replicas).map(|_| Replica::default()).collect();
    let peer = HttpPeer::new(move |request: &Request<'_>| {
        let text = String::from_utf8_lossy(request.bytes).into_owned();
        let name = text.split("X-Session: ").nth(1).expect("a header");
        let name = name.split("\r\n").next().unwrap_or_default();
        let messages = text.split("\"messages\":[").nth(1).expect("messages");
        let (messages, _) = messages.rsplit_once("],\"max_tokens\"").expect("a limit");
        replicas[choose(request, name)].answer(messages)
    });
    let run = users(20, &with_own_systems(200)).requests(200).run(peer);
    conversations(&run).clone()
}

#[test]
fn a_cache_of_prefixes_shows_in_the_first_token_of_later_turns() {
    let recording = with_replicas(1, |_, _| 0);
    let first_ms = |turn: usize| {
        let first_token = &recording.by_turn[turn].first_token;
        (first_token.min_ns(), first_token.max_ns())
    };
    let exactly = |ms: u64| (Some(ms * MS), Some(ms * MS));
    assert_eq!(first_ms(0), exactly(60));
    assert_eq!(first_ms(1), exactly(10));
    assert_eq!(first_ms(2), exactly(10));
    let inputs: Vec<Option<f64>> = recording.by_turn[..3]
        .iter()
        .map(results::TurnRecording::input_mean)
        .collect();
    // System 50, question 10, answer 20: 60, 90, 120 and 150.
    assert_eq!(inputs, [Some(60.0), Some(90.0), Some(135.0)]);
    let cached = recording.by_turn[1].cached_share();
    assert_eq!(cached, Some(80.0 / 90.0));
}

#[test]
fn without_affinity_half_of_the_second_turns_find_nothing_in_the_cache_of_their_replica() {
    let mut random = fastrand::Rng::with_seed(1);
    let of_request = move |_: &Request<'_>, _: &str| random.usize(..2);
    let second = &with_replicas(2, of_request).by_turn[1];
    let first_token = &second.first_token;
    assert_eq!(
        (first_token.min_ns(), first_token.max_ns()),
        (Some(10 * MS), Some(90 * MS))
    );
    let mean_ms = first_token.mean_ns() / MS as f64;
    // 200 of them, each 10 or 90 ms: the mean has a standard deviation of 2.8 ms.
    assert!((mean_ms - 50.0).abs() < 6.0, "{mean_ms}");
}

#[test]
fn a_session_header_lets_each_turn_find_its_replica() {
    let of_name = |_: &Request<'_>, name: &str| {
        let sum: usize = name.bytes().map(usize::from).sum();
        sum % 2
    };
    let recording = with_replicas(2, of_name);
    assert_eq!(recording.by_turn[1].first_token.max_ns(), Some(10 * MS));
    assert_eq!(recording.done, 200);
}

#[test]
fn a_conversation_ends_before_the_histories_take_more_memory_than_they_may() {
    let mut users = users(2, &five_turns(10));
    // An answer of 20 tokens takes less than 200 bytes with its place in the list.
    users.settings.histories_max_bytes = 600;
    let run = users.requests(10).run(HttpPeer::new(usual));
    let recording = conversations(&run);
    assert!(recording.memory > 0, "{recording:?}");
    assert_eq!(recording.memory + recording.done, 10);
    assert_eq!(recording.failed, 0);
}

#[test]
fn records_have_the_conversation_and_the_turn_of_each_request() {
    let simulation = users(3, &five_turns(10)).requests(9);
    // The second request is refused, which ends its conversation.
    let peer = HttpPeer::new(|request: &Request<'_>| match request.number {
        1 => Reply::after(MS, "HTTP/1.1 500 E\r\nContent-Length: 0\r\n\r\n"),
        _ => usual(request),
    });
    let (run, records) = crate::records::all(simulation, peer);
    let recording = conversations(&run);
    assert_eq!((recording.done, recording.failed), (8, 1));
    let mut turns = std::collections::BTreeMap::<u32, Vec<u32>>::new();
    for record in &records {
        turns
            .entry(record.conversation)
            .or_default()
            .push(record.turn);
    }
    let whole = turns.values().filter(|it| **it == [1, 2, 3, 4, 5]).count();
    let broken = turns.values().filter(|it| **it == [1]).count();
    assert_eq!((turns.len(), whole, broken), (9, 8, 1));
}
