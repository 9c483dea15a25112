//! Requests of each dialect, prompts of files, and random prompts.

use plan::Dialect;
use plan::distribution::Count;
use serde_json::{Value, json};

use super::*;

const SEED: u64 = 7;

fn bodies(path: &str) -> Bodies {
    Bodies {
        endpoint: Endpoint::of(path, None).unwrap(),
        model: "m".to_owned(),
        output_tokens: Some(Count::fixed(5)),
        ignore_eos: false,
        extra: Map::new(),
    }
}

fn words(prompts: u64, words: &str, shared_words: u64) -> Synthetic {
    Synthetic {
        prompts,
        words: Count::parse(words, MAX_WORDS).unwrap(),
        shared_words,
        tokenizer: None,
    }
}

fn file(bodies: &Bodies, prompts: Vec<Prompt>) -> Result<String, String> {
    let made = requests_file(bodies, prompts, &[], SEED, None);
    made.map(|made| made.text)
        .map_err(|error| error.to_string())
}

/// The body of the only request.
fn body(bodies: &Bodies, prompt: Prompt) -> Result<Value, String> {
    let line: Value = serde_json::from_str(&file(bodies, vec![prompt])?).unwrap();
    Ok(serde_json::from_str(line["body_text"].as_str().unwrap()).unwrap())
}

fn text(prompt: &str) -> Prompt {
    Prompt::Text(prompt.to_owned())
}

fn messages(all: Value) -> Prompt {
    match all {
        Value::Array(all) => Prompt::Messages(all),
        _ => panic!("messages are an array"),
    }
}

#[test]
fn the_requests_of_each_dialect_have_its_keys() {
    let prompts = || synthetic(&words(2, "2", 0), SEED).collect();
    let common = r#""header":{"Content-Type":"application/json"}"#;
    let anthropic = concat!(
        r#""header":{"Content-Type":"application/json","#,
        r#""anthropic-version":"2023-06-01"}"#
    );
    let chat = r#""messages":[{"role":"user","content":"PROMPT"}],"stream":true"#;
    let prompt = r#""prompt":"PROMPT","stream":true"#;
    for (path, header, rest) in [
        (
            "/v1/chat/completions",
            common,
            &format!(r#"{chat},"stream_options":{{"include_usage":true}},"max_tokens":5"#),
        ),
        (
            "/v1/completions",
            common,
            &format!(r#"{prompt},"stream_options":{{"include_usage":true}},"max_tokens":5"#),
        ),
        (
            "/v1/responses",
            common,
            &r#""input":"PROMPT","stream":true,"max_output_tokens":5"#.to_owned(),
        ),
        (
            "/v1/messages",
            anthropic,
            &format!(r#"{chat},"max_tokens":5"#),
        ),
        (
            "/api/chat",
            common,
            &format!(r#"{chat},"options":{{"num_predict":5}}"#),
        ),
        (
            "/api/generate",
            common,
            &format!(r#"{prompt},"options":{{"num_predict":5}}"#),
        ),
    ] {
        let line = |prompt: &str| {
            let body = format!(r#"{{"model":"m",{rest}}}"#).replace("PROMPT", prompt);
            let body = Value::from(body);
            format!("{{\"path\":\"{path}\",{header},\"body_text\":{body}}}\n")
        };
        let expected = line("also deep") + &line("church best");
        assert_eq!(file(&bodies(path), prompts()).unwrap(), expected);
    }
}

#[test]
fn the_end_of_the_path_tells_the_dialect_and_another_path_needs_its_name() {
    let of = |path, named| {
        let endpoint = Endpoint::of(path, named)?;
        Ok::<_, EndpointError>((endpoint.path.clone(), endpoint.dialect))
    };
    for (path, sent, dialect) in [
        ("/", "/v1/chat/completions", Dialect::OpenAi),
        ("/?a=/x", "/v1/chat/completions?a=/x", Dialect::OpenAi),
        (
            "/v1/chat/completions",
            "/v1/chat/completions",
            Dialect::OpenAi,
        ),
        (
            "/proxy/v1/chat/completions?k=/api/chat",
            "/proxy/v1/chat/completions?k=/api/chat",
            Dialect::OpenAi,
        ),
        ("/v1/completions", "/v1/completions", Dialect::Completions),
        ("/v1/responses", "/v1/responses", Dialect::Responses),
        ("/v1/messages", "/v1/messages", Dialect::Anthropic),
        ("/api/chat", "/api/chat", Dialect::Ollama),
        ("/api/generate", "/api/generate", Dialect::Ollama),
    ] {
        assert_eq!(of(path, None), Ok((sent.to_owned(), dialect)));
    }
    let named = of("/v2/ask", Some(Dialect::Anthropic));
    assert_eq!(named, Ok(("/v2/ask".to_owned(), Dialect::Anthropic)));
    for path in ["/v", "/v1x", "/vllm", "/x", "/v1/chat/completions/"] {
        let unknown = of(path, None).unwrap_err().to_string();
        assert_eq!(
            unknown,
            format!(
                "the path {path:?} does not tell the format of a request (expected /, /v1, \
                 /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, /api/chat, \
                 /api/generate; --events-dialect names the format of another path)"
            )
        );
    }
    let other = of("/v1/messages", Some(Dialect::OpenAi))
        .unwrap_err()
        .to_string();
    assert_eq!(
        other,
        "--events-dialect openai: the path ends with /messages, which is that of anthropic"
    );
}

#[test]
fn a_base_url_has_the_first_path_of_its_dialect() {
    use Dialect::{Anthropic, Completions, Ollama, OpenAi, Responses};
    for (path, named, expected) in [
        ("/", None, "/v1/chat/completions"),
        ("", None, "/v1/chat/completions"),
        ("/v1", None, "/v1/chat/completions"),
        ("/v1/", None, "/v1/chat/completions"),
        ("/v1//", None, "/v1/chat/completions"),
        ("/v1/?a=/x/", None, "/v1/chat/completions?a=/x/"),
        ("/openai/v1", None, "/openai/v1/chat/completions"),
        ("/api/v3/", None, "/api/v3/chat/completions"),
        ("/v1", Some(OpenAi), "/v1/chat/completions"),
        ("/", Some(Completions), "/v1/completions"),
        ("/v1/", Some(Responses), "/v1/responses"),
        ("/", Some(Anthropic), "/v1/messages"),
        ("/v1", Some(Anthropic), "/v1/messages"),
        ("/", Some(Ollama), "/api/chat"),
    ] {
        let endpoint = Endpoint::of(path, named).unwrap();
        assert_eq!(endpoint.path, expected, "{path}");
        assert_eq!(endpoint.dialect, named.unwrap_or(OpenAi), "{path}");
    }
}

#[test]
fn the_list_of_models_is_beside_the_path_of_the_requests() {
    for (path, named, expected) in [
        ("/", None, "/v1/models"),
        ("/v1/?a=/b", None, "/v1/models?a=/b"),
        ("/openai/v1", None, "/openai/v1/models"),
        ("/p/v1/completions", None, "/p/v1/models"),
        ("/v1/responses", None, "/v1/models"),
        ("/v1/messages", None, "/v1/models"),
        ("/api/chat", None, "/v1/models"),
        ("/p/api/generate", None, "/p/v1/models"),
        ("/ask", Some(Dialect::OpenAi), "/v1/models"),
    ] {
        let endpoint = Endpoint::of(path, named).unwrap();
        assert_eq!(endpoint.models_path(), expected, "{path}");
    }
    let braces = Endpoint::of("/v1?a={{b}}", None).unwrap();
    let request = "{\"method\":\"GET\",\"path\":\"/v1/models?a={{'{{'}}b}}\"}\n";
    assert_eq!(models_request(&braces), request);
}

#[test]
fn models_are_read_from_a_list_and_from_nothing_else() {
    let read = |text: &str| read_models(text.as_bytes());
    let list = |names: &[&str]| Some(names.iter().map(|it| (*it).to_owned()).collect());
    let two = r#"{"object":"list","data":[{"id":"a/b","root":1},{"id":"c"}]}"#;
    assert_eq!(read(two), list(&["a/b", "c"]));
    assert_eq!(read(r#"{"data":[]}"#), list(&[]));
    for text in [
        "",
        "[]",
        "{",
        r#"{"data":{}}"#,
        r#"{"data":[{"id":5}]}"#,
        "<html>",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
    assert_eq!(read_models(b"\xff"), None);
}

#[test]
fn the_limit_of_tokens_has_the_name_that_the_host_wants() {
    for (host, path, key) in [
        ("localhost", "/v1", "max_tokens"),
        ("api.openai.com", "/v1", "max_completion_tokens"),
        ("API.OpenAI.com", "/v1", "max_completion_tokens"),
        ("x.openai.azure.com", "/openai/v1", "max_completion_tokens"),
        ("api.openai.com.evil.example", "/v1", "max_tokens"),
        ("api.openai.com", "/v1/completions", "max_tokens"),
        ("api.openai.com", "/v1/responses", "max_output_tokens"),
    ] {
        let mut bodies = bodies(path);
        bodies.endpoint = bodies.endpoint.at(host);
        let body = body(&bodies, text("p")).unwrap();
        assert_eq!(body[key], 5, "{host}{path}: {body}");
        assert_eq!(
            body.as_object().unwrap().len(),
            if path.ends_with("responses") { 4 } else { 5 }
        );
    }
}

#[test]
fn a_limit_of_tokens_is_only_sent_if_one_is_given_or_must_be() {
    for path in [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/api/chat",
    ] {
        let unlimited = Bodies {
            output_tokens: None,
            ..bodies(path)
        };
        let body = body(&unlimited, text("p")).unwrap();
        for key in ["max_tokens", "max_output_tokens", "options", "ignore_eos"] {
            assert_eq!(body.get(key), None, "{path}");
        }
    }
    let unlimited = Bodies {
        output_tokens: None,
        ..bodies("/v1/messages")
    };
    assert_eq!(body(&unlimited, text("p")).unwrap()["max_tokens"], 1024);
}

#[test]
fn limits_of_tokens_have_their_distribution_and_depend_on_the_seed_alone() {
    let limited = Bodies {
        output_tokens: Some(Count::parse("uniform:16,256", MAX_TOKENS).unwrap()),
        ..bodies("/v1/completions")
    };
    let limits = |seed, prompts: Vec<Prompt>| -> Vec<u64> {
        let made = requests_file(&limited, prompts, &[], seed, None).unwrap();
        let limit = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            let body: Value = serde_json::from_str(line["body_text"].as_str().unwrap()).unwrap();
            body["max_tokens"].as_u64().unwrap()
        };
        made.text.lines().map(limit).collect()
    };
    let of_words = |text| synthetic(&words(300, text, 0), SEED).collect();
    let found = limits(1, of_words("3"));
    assert!(found.iter().all(|tokens| (16..=256).contains(tokens)));
    assert!(found.iter().any(|tokens| *tokens < 50) && found.iter().any(|tokens| *tokens > 220));
    assert_eq!(found, limits(1, of_words("exp:9")));
    assert_ne!(found, limits(2, of_words("3")));
}

#[test]
fn further_keys_are_joined_with_objects_and_must_not_replace_others() {
    let with = |path: &str, extra: &str| {
        let bodies = Bodies {
            ignore_eos: true,
            extra: parse_extra(extra).unwrap(),
            ..bodies(path)
        };
        body(&bodies, text("p"))
    };
    let joined = with(
        "/api/generate",
        r#"{"keep_alive":"1h","options":{"temperature":0}}"#,
    );
    let joined = joined.unwrap();
    assert_eq!(joined["keep_alive"], "1h");
    assert_eq!(
        joined["options"],
        json!({"num_predict": 5, "temperature": 0})
    );
    assert_eq!(joined["ignore_eos"], true);
    for (extra, key) in [
        (r#"{"stream": false}"#, "stream"),
        (r#"{"max_tokens": 9}"#, "max_tokens"),
        (r#"{"prompt": {}}"#, "prompt"),
        (
            r#"{"stream_options": {"include_usage": false}}"#,
            "stream_options.include_usage",
        ),
    ] {
        let expected = format!("--extra: {key:?} is set by other options of the command");
        assert_eq!(with("/v1/completions", extra), Err(expected));
    }
    for (extra, problem) in [
        ("[1]", "is not a JSON object (expected"),
        ("", "is not JSON: EOF"),
        ("{\"a\": 1", "is not JSON: EOF"),
        ("{'a': 1}", "is not JSON: key must be a string"),
    ] {
        let refused = parse_extra(extra).unwrap_err().to_string();
        assert!(refused.starts_with(problem), "{refused}");
    }
}

#[test]
fn messages_are_sent_as_they_are_and_anthropics_system_is_apart() {
    let all = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Why?"}], "name": "n"},
    ]);
    for (path, key) in [
        ("/v1/chat/completions", "messages"),
        ("/v1/responses", "input"),
        ("/api/chat", "messages"),
    ] {
        let sent = body(&bodies(path), messages(all.clone())).unwrap();
        assert_eq!(sent[key], all, "{path}");
        assert_eq!(sent.get("system"), None);
    }
    let sent = body(&bodies("/v1/messages"), messages(all.clone())).unwrap();
    assert_eq!(sent["system"], "Be brief.");
    assert_eq!(sent["messages"], json!([all[1]]));
    assert_eq!(messages(all).words(), 3);
}

#[test]
fn braces_of_prompts_are_no_templates_and_secrets_of_the_path_become_variables() {
    let braces = file(&bodies("/v1/completions"), vec![text("a {{seq}} \"b\"\n")]).unwrap();
    assert!(braces.contains("a {{'{{'}}seq}}"), "{braces}");
    let mut variables = Variables::default();
    let bodies = bodies("/v1/completions?api_key=abc&b=1");
    let made = requests_file(&bodies, [text("p")], &[], SEED, Some(&mut variables)).unwrap();
    assert!(
        made.text
            .starts_with("{\"path\":\"/v1/completions?api_key={{env:API_KEY}}&b=1\","),
        "{}",
        made.text
    );
    assert!(variables.list().is_some());
    assert!(
        file(&bodies, vec![text("p")])
            .unwrap()
            .contains("api_key=abc")
    );
}

#[test]
fn a_header_that_is_given_replaces_the_usual_value() {
    let given = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = [
        given("Anthropic-Version", "2024-01-01"),
        given("Authorization", "Bearer x"),
    ];
    let made = requests_file(&bodies("/v1/messages"), [text("p")], &headers, SEED, None);
    let made = made.unwrap().text;
    assert!(
        made.contains(r#""anthropic-version":"2024-01-01""#),
        "{made}"
    );
    assert!(!made.contains("Bearer"), "{made}");
}

#[test]
fn synthetic_prompts_differ_in_their_first_word_unless_they_share_some() {
    let first_words = |synthetic_prompts: &Synthetic, skipped: usize| {
        let prompts = synthetic(synthetic_prompts, SEED);
        let word = |prompt: Prompt| match prompt {
            Prompt::Text(text) => text.split(' ').nth(skipped).unwrap().to_owned(),
            Prompt::Messages(_) => panic!("it is a text"),
        };
        prompts.map(word).collect::<Vec<_>>()
    };
    // More than there are words, and more than there are pairs of them.
    let mut words_of_many = first_words(&words(70_000, "uniform:1,2", 0), 0);
    let neighbours = words_of_many.windows(2);
    let begin = |word: &String| word.split('-').next().unwrap().to_owned();
    assert!(
        neighbours
            .into_iter()
            .all(|pair| begin(&pair[0]) != begin(&pair[1]))
    );
    words_of_many.sort();
    words_of_many.dedup();
    assert_eq!(words_of_many.len(), 70_000);

    let shared = words(50, "4", 3);
    let mut begins: Vec<String> = synthetic(&shared, SEED)
        .map(|prompt| match prompt {
            Prompt::Text(text) => text.split(' ').take(3).collect::<Vec<_>>().join(" "),
            Prompt::Messages(_) => panic!("it is a text"),
        })
        .collect();
    begins.dedup();
    assert_eq!(begins.len(), 1);
    let mut rest = first_words(&shared, 3);
    rest.sort();
    rest.dedup();
    assert_eq!(rest.len(), 50);
}

#[test]
fn synthetic_prompts_have_as_many_words_as_asked_and_depend_on_the_seed() {
    let lengths = |spec: &Synthetic| -> Vec<u64> {
        let prompts = synthetic(spec, SEED);
        prompts.map(|prompt| prompt.words()).collect()
    };
    assert!(lengths(&words(20, "9", 0)).iter().all(|it| *it == 9));
    assert!(lengths(&words(20, "9", 4)).iter().all(|it| *it == 13));
    assert!(lengths(&words(20, "0", 0)).iter().all(|it| *it == 1));
    let uniform = lengths(&words(500, "uniform:3,12", 0));
    assert_eq!(
        uniform.iter().min().zip(uniform.iter().max()),
        Some((&3, &12))
    );
    let all = |seed| synthetic(&words(9, "exp:20", 2), seed).collect::<Vec<_>>();
    assert_eq!(all(1), all(1));
    assert_ne!(all(1), all(2));
    let made = requests_file(&bodies("/v1/completions"), all(1), &[], SEED, None).unwrap();
    let of_each: Vec<u64> = all(1).iter().map(Prompt::words).collect();
    assert_eq!(made.words, of_each.iter().sum::<u64>());
    let extremes = (of_each.iter().min(), of_each.iter().max());
    assert_eq!(extremes, (Some(&made.words_min), Some(&made.words_max)));
    assert_eq!(made.prompts, 9);
}

#[test]
fn too_large_a_file_is_refused_before_it_is_complete() {
    let many = || synthetic(&words(MAX_PROMPTS, "100", 0), SEED);
    let bodies = bodies("/v1/completions");
    let refused = within(1 << 20, &bodies, many(), &[], SEED, None);
    let refused = refused.unwrap_err().to_string();
    let (first, limit) = refused.split_once(" requests have more than ").unwrap();
    assert_eq!(limit, "1 MiB, the limit for all of them");
    let count: usize = first.strip_prefix("the first ").unwrap().parse().unwrap();
    assert!(within(1 << 20, &bodies, many().take(count - 1), &[], SEED, None).is_ok());
}

#[test]
fn prompts_are_read_from_arrays_and_lines_in_each_of_their_forms() {
    let share_gpt = r#"[
        {"id": "a", "conversations": [
            {"from": "system", "value": "s"},
            {"from": "human", "value": "first"}, {"from": "gpt", "value": 7},
            {"from": "human", "value": "second"}]},
        {"id": "b", "conversations": []},
        {"id": "c", "conversations": [{"from": "gpt", "value": "answer"}]},
        {"id": "d"},
        {"id": "e", "conversations": [{"from": "user", "value": "third \u00e9"}]}]"#;
    let read = read_prompts(share_gpt, u64::MAX, false).unwrap();
    assert_eq!(read.prompts, [text("first"), text("third \u{e9}")]);
    assert_eq!((read.skipped, read.first_skipped_line), (3, Some(6)));

    let lines = "\u{feff}{\"prompt\": \"a\", \"n\": 1}\n\n{\"prompt\": \" \"}\n\
                 {\"messages\": [{\"role\": \"user\", \"content\": \"b\"}]}\n\
                 {\"prompt\": null}\r\n";
    let read = read_prompts(lines, u64::MAX, true).unwrap();
    let expected = [
        text("a"),
        messages(json!([{"role": "user", "content": "b"}])),
    ];
    assert_eq!(read.prompts, expected);
    assert_eq!((read.skipped, read.first_skipped_line), (2, Some(3)));

    let first = read_prompts(lines, 1, true).unwrap();
    assert_eq!((first.prompts.len(), first.skipped), (1, 0));
}

#[test]
fn prompts_that_cannot_be_used_are_refused_with_line_and_column() {
    for (file, expected) in [
        ("", "1:1: the file is empty (expected JSON)"),
        (" \n ", "1:1: the file is empty (expected JSON)"),
        (
            "What is this?",
            "1:1: is neither an array nor an object (expected JSON like {\"prompt\": ",
        ),
        ("[]", "1:1: there is no object (expected \"prompt\", "),
        (
            "\n[{\"text\": 1, \"id\": 2}]",
            "2:2: no object has a prompt: the first one has \"text\", \"id\" (expected \"prompt\"",
        ),
        (
            "{}",
            "1:1: no object has a prompt: the first one has nothing (expected",
        ),
        (
            "{\"prompt\": \"a\"}\n{\"prompt\": \"b",
            "2:13: EOF while parsing a string",
        ),
        ("[{\"prompt\": \"a\"}, ", "1:18: EOF while parsing a value"),
        ("[{\"prompt\": \"a\"}] x", "1:19: trailing characters"),
        (
            "{\"prompt\": \"a\"}\n\n{\"prompt\": 5}",
            "3:12: invalid type: integer `5`",
        ),
        ("[\n{\"prompt\": [\"a\"]}]", "2:12: invalid type: sequence"),
        ("[\"a\"]", "1:2: is not an object (expected \"prompt\""),
        (
            "[{\"prompt\": \"a\",\n \"messages\": []}]",
            "1:2: has more than one of \"prompt\",",
        ),
        ("{\"conversations\": {\"a\": 1}}", "1:19: invalid type: map"),
        (
            "{\"conversations\": [{\"from\": \"human\",\n\"value\": 5}]}",
            "2:10: invalid type: integer `5`",
        ),
        (
            "{\"messages\": [{\"content\": \"a\"}]}",
            "1:15: the message has no role",
        ),
        ("{\"messages\": \"a\"}", "1:16: invalid type: string"),
    ] {
        let refused = read_prompts(file, u64::MAX, true).unwrap_err().to_string();
        assert!(refused.starts_with(expected), "{file:?}: {refused}");
        assert_eq!(refused.lines().count(), 1, "{refused}");
    }
    let messages = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}";
    let refused = read_prompts(messages, u64::MAX, false).unwrap_err();
    let refused = refused.to_string();
    let expected = "1:14: has messages, but a request to this path has a text (\"prompt\")";
    assert_eq!(refused, expected);
}

#[test]
fn two_counts_of_a_server_tell_how_many_words_have_a_number_of_tokens() {
    let tokenizer = Tokenizer::between((16, 30), (256, 390)).expect("it counts");
    assert_eq!(tokenizer.per_word, 1.5);
    assert_eq!(tokenizer.template, 6.0);
    for (tokens, words) in [(6, 1), (0, 1), (7, 1), (30, 16), (390, 256), (512, 337)] {
        assert_eq!(tokenizer.words(tokens), words, "{tokens}");
    }
    assert_eq!(Tokenizer::between((16, 30), (256, 30)), None);
    assert_eq!(Tokenizer::between((16, 30), (256, 9)), None);
    assert_eq!(Tokenizer::between((16, 30), (16, 40)), None);
    // A count of less than the words would be a template of less than nothing.
    let few = Tokenizer::between((16, 1), (256, 241)).expect("it counts");
    assert_eq!(few.template, 0.0);
}

#[test]
fn prompts_have_the_words_of_their_tokens_with_those_that_are_shared() {
    let tokenizer = Tokenizer::between((10, 26), (110, 226));
    for (shared_words, expected) in [(0, 47), (40, 47), (100, 101)] {
        let synthetic = Synthetic {
            tokenizer,
            ..words(5, "100", shared_words)
        };
        for prompt in super::synthetic(&synthetic, 7) {
            assert_eq!(prompt.words(), expected);
        }
    }
}
