//! Request files and the bytes that they make.

use plan::{RequestOrder, Target};
use requests::{Defaults, Inputs, Moment, Renderer, RequestSet, load, self_contained};
use std::io;
use std::sync::Arc;

const NOW: Moment = Moment {
    unix_ms: 1_700_000_000_123,
};

fn read(name: &str) -> io::Result<Vec<u8>> {
    match name {
        "users.csv" => Ok(b"name,password\nann,x\nbob,\"a,b\"\n".to_vec()),
        "bad.csv" => Ok(b"a\nx y\n".to_vec()),
        "body.bin" => Ok(b"\xff{{seq}}\0".to_vec()),
        "body.txt" => Ok(b"n={{seq}}".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn variable(name: &str) -> Option<String> {
    (name == "TOKEN").then(|| "s{{cret".to_owned())
}

fn inputs(text: &[u8]) -> Inputs<'_> {
    Inputs {
        file: "f",
        text,
        read: &read,
        variable: &variable,
    }
}

fn try_load(text: &[u8], order: Option<RequestOrder>) -> Result<RequestSet, String> {
    load_from(&inputs(text), order)
}

fn load_from(inputs: &Inputs<'_>, order: Option<RequestOrder>) -> Result<RequestSet, String> {
    let target = Target::parse("http://h:8080/base").expect("it is a URL");
    let headers = [("X-All".to_owned(), "1".to_owned())];
    let defaults = Defaults {
        target: Some(&target),
        headers: &headers,
        order,
        ..Defaults::default()
    };
    load(inputs, &defaults).map_err(|error| error.to_string())
}

fn set(text: &str) -> Arc<RequestSet> {
    Arc::new(try_load(text.as_bytes(), None).unwrap_or_else(|error| panic!("{error}")))
}

/// The next requests of a worker.
fn next(renderer: &mut Renderer, count: usize) -> Vec<String> {
    let one = |_| {
        let mut output = Vec::new();
        let request = renderer.next_request(0);
        renderer.render(request, 0, NOW, &mut output);
        String::from_utf8_lossy(&output).into_owned()
    };
    (0..count).map(one).collect()
}

fn requests_of(text: &str, count: usize) -> Vec<String> {
    next(&mut Renderer::new(set(text), 7, 0, 1), count)
}

fn refusal(text: &str) -> String {
    try_load(text.as_bytes(), None).expect_err("the file was accepted")
}

#[test]
fn a_line_of_json_is_a_request() {
    let text = r#"
        {"method":"PUT","url":"http://H:8080/a?b=c","header":{"A":["1","2"],"B":"3"},"body":"aGk="}
        {"path":"/p"}
        {"path":"/q","body_text":"","headers":[["x-all","2"],["Host","other"]]}
        {"path":"/r","body_file":"body.bin","method":"PATCH"}"#;
    let expected = [
        "PUT /a?b=c HTTP/1.1\r\nHost: H:8080\r\nA: 1\r\nA: 2\r\nB: 3\r\nX-All: 1\r\n\
         Content-Length: 2\r\n\r\nhi",
        "GET /p HTTP/1.1\r\nHost: h:8080\r\nX-All: 1\r\n\r\n",
        "POST /q HTTP/1.1\r\nHost: other\r\nx-all: 2\r\nContent-Length: 0\r\n\r\n",
        "PATCH /r HTTP/1.1\r\nHost: h:8080\r\nX-All: 1\r\nContent-Length: 9\r\n\r\n\
         \u{fffd}{{seq}}\0",
        "PUT /a?b=c HTTP/1.1\r\nHost: H:8080\r\nA: 1\r\nA: 2\r\nB: 3\r\nX-All: 1\r\n\
         Content-Length: 2\r\n\r\nhi",
    ];
    assert_eq!(requests_of(text, 5), expected);
    let with_bom_and_crlf = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    assert_eq!(requests_of(&with_bom_and_crlf, 5), expected);
}

#[test]
fn an_http_file_has_requests_between_separators() {
    let text = "@base = http://h:8080\n@path = {{base}}/v1\n\n# a comment\n# @name login\n\
                POST {{path}}/login HTTP/1.1\nContent-Type: application/json\n# not a header\n\n\
                {\"user\":\n \"ann\"}\n\n\n### Search\n// a comment\nGET /search\n    ?q=1\n\
                \x20   &r=2\n\
                Accept: */*\n\n###\n# @weight 3\n\
                {{base}}/plain\n\n### empty\n\n###\n\
                PUT /file\n\n< body.bin\n### x\nPUT /text\n\n<@ body.txt\nend\n";
    let expected = [
        "POST /v1/login HTTP/1.1\r\nHost: h:8080\r\nContent-Type: application/json\r\n\
         X-All: 1\r\nContent-Length: 16\r\n\r\n{\"user\":\n \"ann\"}",
        "GET /search?q=1&r=2 HTTP/1.1\r\nHost: h:8080\r\nAccept: */*\r\nX-All: 1\r\n\r\n",
        "GET /plain HTTP/1.1\r\nHost: h:8080\r\nX-All: 1\r\n\r\n",
        "PUT /file HTTP/1.1\r\nHost: h:8080\r\nX-All: 1\r\nContent-Length: 9\r\n\r\n\
         \u{fffd}{{seq}}\0",
        "PUT /text HTTP/1.1\r\nHost: h:8080\r\nX-All: 1\r\nContent-Length: 7\r\n\r\nn=1\nend",
    ];
    let target = Target::parse("http://h:8080/").expect("it is a URL");
    let headers = [("X-All".to_owned(), "1".to_owned())];
    let defaults = Defaults {
        target: Some(&target),
        headers: &headers,
        order: Some(RequestOrder::Sequence),
        ..Defaults::default()
    };
    for text in [text.to_owned(), format!("\u{feff}{text}")] {
        let set = load(&inputs(text.as_bytes()), &defaults).expect("it is a file");
        assert_eq!(set.names(), ["login", "Search", "unnamed", "x"]);
        assert_eq!(
            next(&mut Renderer::new(Arc::new(set), 7, 0, 1), 5),
            expected
        );
    }
}

#[test]
fn lists_and_arrays_have_a_request_for_each_url() {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: h:8080\r\nX-All: 1\r\n\r\n");
    let both = [get("/a"), get("/b?c=1")];
    for text in [
        // oha's --urls-from-file, siege's urls.txt, vegeta's simple targets.
        "http://h:8080/a\nhttp://h:8080/b?c=1\n",
        "# a comment\r\n\r\n  http://h:8080/a\r\n#\r\n\r\nhttp://h:8080/b?c=1",
        "/a\n/b?c=1\n",
        "GET http://h:8080/a\nGET http://h:8080/b?c=1\n",
        "GET http://h:8080/a\n\nGET http://h:8080/b?c=1\n\n\n",
        "http://h:8080/a HTTP/1.1\nGET /b?c=1 HTTP/1.1\n",
        "[{\"path\":\"/a\"},{\"url\":\"http://h:8080/b?c=1\"}]",
        "\n[\n  {\n    \"path\": \"/a\"\n  },\n  {\n    \"path\": \"/b?c=1\"\n  }\n]\n",
    ] {
        assert_eq!(set(text).len(), 2, "{text:?}");
        assert_eq!(requests_of(text, 2), both, "{text:?}");
    }
    let text = "# what is sent\nPOST http://h:8080/a\nX-Id: 1\n@body.bin\n\n\
                DELETE http://h:8080/b\nX-All: {{seq}}\nA:b\n\
                PUT http://h:8080/c\n# no header\n@body.txt\nHEAD http://h:8080/d\n";
    let expected = [
        "POST /a HTTP/1.1\r\nHost: h:8080\r\nX-Id: 1\r\nX-All: 1\r\nContent-Length: 9\r\n\r\n\
         \u{fffd}{{seq}}\0",
        "DELETE /b HTTP/1.1\r\nHost: h:8080\r\nX-All: 1\r\nA: b\r\n\r\n",
        "PUT /c HTTP/1.1\r\nHost: h:8080\r\nX-All: 1\r\nContent-Length: 9\r\n\r\nn={{seq}}",
        "HEAD /d HTTP/1.1\r\nHost: h:8080\r\nX-All: 1\r\n\r\n",
    ];
    assert_eq!(requests_of(text, 4), expected);
}

#[test]
fn a_list_of_urls_names_its_requests_by_method_and_path_if_these_are_few() {
    let names = |text: &str| set(text).names().join(" | ");
    let text = "http://h:8080/a?x=1\n/a?x=2\nPOST /a\nX-Id: 1\n\nhttp://h:8080\n\
                GET /users/{{seq}}/x{{uuid}}#top\n";
    assert_eq!(names(text), "GET /a | POST /a | GET / | GET /users/*/x*");
    let list = |count: usize| (0..count).map(|n| format!("/p{n}\n")).collect::<String>();
    assert_eq!(set(&list(20)).names().len(), 20);
    for text in [
        list(21),
        "/a?x=1\n/a?x=2\n".to_owned(),
        format!("/a\n/{}\n", "b".repeat(200)),
    ] {
        assert_eq!(names(&text), "", "{text}");
    }
    // These have a key for names.
    assert_eq!(names("[{\"path\":\"/a\"},{\"path\":\"/b\"}]"), "");
}

#[test]
fn templates_put_values_into_every_part_of_a_request() {
    let text = r#"{"path":"/{{seq}}?now={{now}}&s={{$timestamp}}","header":{"T":"{{env:TOKEN}}",
        "R":"{{rand:5-5}}{{'{{'}}"},
        "body_text":"{{csv:users.csv:name}}={{csv:users.csv:password}};{{seq}}"}"#
        .replace('\n', "");
    let expected = |seq: &str, body: &str| {
        format!(
            "POST /{seq}?now=1700000000123&s=1700000000 HTTP/1.1\r\nHost: h:8080\r\n\
             T: s{{{{cret\r\nR: 5{{{{\r\nX-All: 1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let requests = requests_of(&text, 10);
    assert_eq!(requests[0], expected("1", "ann=x;1"));
    assert_eq!(requests[1], expected("2", "bob=a,b;2"));
    assert_eq!(requests[9], expected("10", "bob=a,b;10"));
}

#[test]
fn a_uuid_is_random_and_of_version_4() {
    let bodies = requests_of(r#"{"path":"/","body_text":"{{uuid}}"}"#, 2);
    let uuid = |request: &str| {
        request
            .split("\r\n\r\n")
            .nth(1)
            .unwrap_or_default()
            .to_owned()
    };
    let (one, other) = (uuid(&bodies[0]), uuid(&bodies[1]));
    assert_ne!(one, other);
    assert!(
        bodies[0].contains("Content-Length: 36\r\n"),
        "{}",
        bodies[0]
    );
    let parts: Vec<usize> = one.split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12]);
    assert_eq!(&one[14..15], "4");
    assert!("89ab".contains(&one[19..20]), "{one}");
}

#[test]
fn workers_share_a_sequence_and_no_number_or_row_is_used_twice() {
    let text: String = (0..7)
        .map(|n| format!("{{\"path\":\"/{n}?{{{{seq}}}}&{{{{csv:users.csv:name}}}}\"}}\n"))
        .collect();
    let set = set(&text);
    let mut sent = Vec::new();
    for (number, budget) in [(0, 3), (1, 2), (2, 2)] {
        sent.extend(next(
            &mut Renderer::new(Arc::clone(&set), 1, number, 3),
            budget,
        ));
    }
    let line = |request: &String| request.lines().next().unwrap_or_default().to_owned();
    let lines: Vec<String> = sent.iter().map(line).collect();
    let part = |from: char, to: char| {
        let of = |line: &String| {
            let begin = line.find(from).expect("it has both") + 1;
            let end = line[begin..].find(to).expect("it has both") + begin;
            line[begin..end].to_owned()
        };
        let mut parts: Vec<String> = lines.iter().map(of).collect();
        parts.sort();
        parts
    };
    // A run of as many requests as the file has sends each once.
    assert_eq!(part('/', '?'), ["0", "1", "2", "3", "4", "5", "6"]);
    assert_eq!(part('?', '&'), ["1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(
        part('&', ' ').iter().filter(|name| *name == "ann").count(),
        4
    );
}

#[test]
fn the_seed_and_the_worker_decide_random_requests() {
    let text = "{\"path\":\"/{{rand:-9-9}}/{{uuid}}\"}\n{\"path\":\"/b\"}\n";
    let draw = |seed, number| {
        let set = try_load(text.as_bytes(), Some(RequestOrder::Random)).expect("it is a file");
        next(&mut Renderer::new(Arc::new(set), seed, number, 2), 20)
    };
    assert_eq!(draw(1, 0), draw(1, 0));
    assert_ne!(draw(1, 0), draw(1, 1));
    assert_ne!(draw(1, 0), draw(2, 0));
}

#[test]
fn weights_decide_how_often_a_request_is_sent() {
    let text =
        "{\"path\":\"/a\",\"weight\":3}\n{\"path\":\"/b\"}\n{\"path\":\"/c\",\"weight\":6}\n";
    let set = set(text);
    assert!(set.uses_seed());
    let mut renderer = Renderer::new(set, 3, 0, 1);
    let mut counts = [0_u32; 3];
    (0..100_000).for_each(|_| counts[renderer.next_request(0)] += 1);
    for (count, expected) in counts.into_iter().zip([30_000_u32, 10_000, 60_000]) {
        // Five standard deviations at most.
        assert!(count.abs_diff(expected) < 800, "{counts:?}");
    }
}

#[test]
fn a_file_without_names_has_none_and_unnamed_requests_have_a_common_one() {
    assert!(set("{\"path\":\"/\"}").names().is_empty());
    let set = set("{\"path\":\"/\"}\n{\"path\":\"/\",\"name\":\"a\"}\n{\"path\":\"/\"}");
    assert_eq!(set.names(), ["unnamed", "a"]);
    assert_eq!([0, 1, 2].map(|request| set.name(request)), [0, 1, 0]);
}

#[test]
fn what_is_wrong_is_said_with_line_and_column() {
    for (text, said) in [
        ("", "f:1:1: there is no request in the file"),
        ("\n\n", "f:1:1: there is no request in the file"),
        ("###\n###\n", "f:1:1: there is no request in the file"),
        (
            "{\"path\":\"/\"}\n{\"path\":\"/\",}",
            "f:2:13: trailing comma",
        ),
        (
            "{\"path\":\"/\"",
            "f:1:11: EOF while parsing an object (an object is one line, unless",
        ),
        (
            "{\n  \"path\": \"/\"\n}",
            "f:1:1: EOF while parsing an object",
        ),
        (
            "{\"log\":{\"entries\":[]}}",
            "f:1:1: this is a HAR file: make",
        ),
        (
            "[{\"path\":\"/\"},\n {\"path\": 7}]",
            "f:2:11: invalid type: integer `7`, expected a string",
        ),
        (
            "[{\"path\":\"/\"},\n {\"path\":\n  \"/{{uid}}\"}]",
            "f:3:5: \"uid\" is not a template",
        ),
        (
            "[{\"path\":\"/\"},\n {\"path\": \"/\",\n  \"colour\": 1}]",
            "f:3:10: unknown field `colour`, expected one of",
        ),
        (
            "[\"http://h:8080/\"]",
            "f:1:2: expected an object like {\"url\":",
        ),
        ("[[\"GET\"]]", "f:1:2: expected an object like {\"url\":"),
        ("[{\"path\":\"/\"},\n\n", "f:3:1: EOF while parsing a value"),
        ("[{\"path\":\"/\"}]\nx", "f:2:1: trailing characters"),
        ("[]", "f:1:1: there is no request in the file"),
        (
            "http://h:8080/a\nhttp://h:8080/b\nlocalhost:8080/c\n",
            "f:3:1: expected a URL like http://host/path, or GET http://host/path; headers",
        ),
        (
            "http://h:8080/a\nhttp://h:8080/b\n\n www.h/c\n",
            "f:4:2: expected a URL like http://host/path, or GET http://host/path",
        ),
        (
            "/a\n/b\n\n/c POST d=e\n",
            "f:4:1: expected a URL like http://host/path, or GET http://host/path; give a",
        ),
        (
            "GET /a\nGET /b\nlocalhost:8080/c\n",
            "f:3:1: expected a header like Name: value, but this is a URL without http://",
        ),
        (
            "GET /a\nGET /b\nno header\n",
            "f:3:1: expected a header like Name: value, or an empty line",
        ),
        ("/a\nftp://h/\n", "f:2:1: "),
        (
            "http://h:8080/a\nhttp://other/b\n",
            "f:2:1: http://other:80 is not the target of the run, http://h:8080",
        ),
        (
            "PUT /a\n@no.bin\n\nGET /b\n",
            "f:2:2: no.bin: entity not found",
        ),
        (
            "PUT /a\n@body.bin\nA: b\n",
            "f:3:1: expected a URL like http://host/path, or GET http://host/path; headers",
        ),
        (
            "### list\nhttp://h:8080/a\nhttp://h:8080/b\n",
            "f:3:1: expected a header like Name: value, but this is a URL (begin another",
        ),
        (
            "# @name a\nGET /a\n# @name b\nGET /b\n",
            "f:4:1: expected a header like Name: value, but this is a URL (begin another",
        ),
        (
            "http://h:8080/a\nlocalhost:8080/b\n",
            "f:2:1: expected a header like Name: value, but this is a URL (begin another",
        ),
        (
            "{\"path\":\"/a?key={{seq}}&token=***\"}",
            "f:1:9: \"token\" is ***, which stands for a secret that was hidden (write \
             {{env:TOKEN}}, and set",
        ),
        (
            "/a\n\nPOST /\nX: ***\nCookie: ***\n",
            "f:5:1: \"Cookie\" is ***",
        ),
        ("POST /\n\npassword=***&a=1", "f:1:1: \"password\" is ***"),
        (
            "<?xml version=\"1.0\"?>\n",
            "f:1:1: \"<?xml\" is not a method (expected like GET; a request file is a list of URLs",
        ),
        (
            "{\"path\":\"/\",\"colour\":1}",
            "f:1:20: unknown field `colour`, expected one of",
        ),
        (
            "{\"method\":\"GET\"}",
            "f:1:1: the request has no url and no path",
        ),
        (
            "{\"url\":\"/\",\"path\":\"/\"}",
            "f:1:19: a request has only one of url, path and call",
        ),
        ("{\"path\":\"x\"}", "f:1:9: \"x\" is not a URL"),
        (
            "{\"path\":7}",
            "f:1:9: invalid type: integer `7`, expected a string",
        ),
        (
            "{\"path\":\"/\",\"weight\":0}",
            "f:1:22: weight \"0\": expected a number from 1 to",
        ),
        (
            "{\"path\":\"/\",\"weight\":1.5}",
            "f:1:22: weight \"1.5\": expected",
        ),
        (
            "{\"path\":\"/\",\"body\":\"#\"}",
            "f:1:20: body is not base64 (the key for plain text",
        ),
        (
            "{\"path\":\"/\",\"body\":\"\",\"body_text\":\"\"}",
            "f:1:35: a request has only one of body, body_text, body_file and message",
        ),
        (
            "{\"path\":\"/\",\"body_file\":\"no\"}",
            "f:1:25: no: entity not found",
        ),
        (
            "{\"path\":\"/\",\"method\":\"G T\"}",
            "f:1:22: \"G T\" is not a method",
        ),
        (
            "{\"path\":\"/\",\"header\":{\"A B\":\"\"}}",
            "f:1:29: \"A B\" is not a header name",
        ),
        (
            "{\"path\":\"/\",\"header\":{\"A\":\"b\\r\\nC: d\"}}",
            "f:1:27: the text of the header \"A\" contains a control character",
        ),
        (
            "{\"path\":\"/a b\"}",
            "f:1:9: the text contains a space or a control character",
        ),
        (
            "{\"path\":\"/{{uid}}\"}",
            "f:1:11: \"uid\" is not a template (expected uuid, seq,",
        ),
        (
            "{\"path\":\"/\\u00e9\\n{{uid}}\"}",
            "f:1:19: \"uid\" is not a template",
        ),
        ("{\"path\":\"/{{uuid\"}", "f:1:11: {{ has no }} after it"),
        (
            "{\"path\":\"/{{rand:9-1}}\"}",
            "f:1:11: rand:9-1: the first number is the larger one",
        ),
        (
            "{\"path\":\"/{{rand:a-b}}\"}",
            "f:1:11: rand:a-b is not a range of whole numbers",
        ),
        (
            "{\"path\":\"/{{env:NO}}\"}",
            "f:1:11: the environment variable \"NO\" is not set",
        ),
        (
            "{\"path\":\"/{{csv:no.csv:a}}\"}",
            "f:1:11: no.csv: entity not found",
        ),
        (
            "{\"path\":\"/{{csv:users.csv:age}}\"}",
            "f:1:11: users.csv has no column \"age\" (it has name, password)",
        ),
        (
            "{\"path\":\"/{{csv:bad.csv:a}}\"}",
            "f:1:11: row 1 of bad.csv contains a space or a control character",
        ),
        (
            "{\"url\":\"http://{{rand:1-2}}/\"}",
            "f:1:8: a value that is made for each request cannot be in host or port",
        ),
        (
            "{\"url\":\"http://h{{rand:1-2}}/\"}",
            "f:1:8: a value that is made for each request cannot be in host or port",
        ),
        (
            "{\"path\":\"/\"}\n{\"url\":\"https://h:8080/\"}",
            "f:2:8: https://h:8080 is not the target of the run, http://h:8080",
        ),
        (
            "{\"a\\nb\":1}",
            "f:1:7: unknown field `a b`, expected one of `method`",
        ),
        (
            "{\"path\":\"/\",\"name\":\"a\\nb\"}",
            "f:1:1: \"a\\nb\" is not a name",
        ),
        (
            "{\"path\":\"/\",\"header\":{\"Transfer-Encoding\":\"chunked\"},\"body_text\":\"zz\"}",
            "f:1:1: the request would not be valid:",
        ),
        (
            "GET /\nX-A\n",
            "f:2:1: expected a header like Name: value, or an empty line",
        ),
        (
            "GET /a b\n",
            "f:1:5: the text contains a space or a control character",
        ),
        ("G@T /\n", "f:1:1: \"G@T\" is not a method"),
        (
            "hello\n",
            "f:1:1: expected a request like GET http://host/path",
        ),
        ("@ = x\n", "f:1:2: \"\" is not the name of a variable"),
        ("@x\n", "f:1:2: expected a variable like @host = 127.0.0.1"),
        (
            "# @weight x\nGET /\n",
            "f:1:11: weight \"x\": expected a number",
        ),
        (
            "GET /\n\n> {% client.log() %}\n",
            "f:3:1: handlers of responses and scripts are not",
        ),
        (
            "GET /\n\n\u{e9}{{nope}}\n",
            "f:3:2: \"nope\" is not a template",
        ),
        ("PUT /\n\n< no.bin\n", "f:3:3: no.bin: entity not found"),
    ] {
        let message = refusal(text);
        assert!(message.starts_with(said), "{text:?} gives {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    let not_text = try_load(b"GET /\xff\n", None).expect_err("it is not text");
    assert_eq!(not_text, "f:1:6: the file is not UTF-8");
}

#[test]
fn more_names_than_histograms_fit_in_memory_are_refused() {
    let text: String = (0..=requests::MAX_NAMES)
        .map(|n| format!("{{\"path\":\"/\",\"name\":\"n{n}\"}}\n"))
        .collect();
    let message = refusal(&text);
    assert!(
        message.starts_with("f:201:1: the file has more than 200 names"),
        "{message}"
    );
}

#[test]
fn a_url_gives_the_target_and_its_credentials() {
    let inputs = inputs(b"{\"path\":\"/\"}\n{\"url\":\"http://u:p@x:81?q\"}");
    let target = requests::first_target(&inputs).expect("it is a file");
    assert_eq!(target.expect("it has a URL").port_number(), 81);
    let defaults = Defaults::default();
    let error = load(&inputs, &defaults).expect_err("the first request has no host");
    assert!(
        error.to_string().contains("give the URL of the server"),
        "{error}"
    );
    let set = load(&self::inputs(b"http://u:p@x:81?q"), &defaults).expect("it is a file");
    assert_eq!(set.hosts()[0].host, "x");
    assert_eq!(
        next(&mut Renderer::new(Arc::new(set), 0, 0, 1), 1),
        ["GET /?q HTTP/1.1\r\nHost: x:81\r\nAuthorization: Basic dTpw\r\n\r\n"]
    );
}

#[test]
fn without_another_url_requests_go_to_the_hosts_of_the_file() {
    let load_own = |text: &str, hosts: &[&str]| {
        let target = hosts
            .first()
            .map(|url| Target::parse(url).expect("it is a URL"));
        let defaults = Defaults {
            target: target.as_ref(),
            own_hosts: true,
            ..Defaults::default()
        };
        load(&inputs(text.as_bytes()), &defaults).map_err(|error| error.to_string())
    };
    let text = "http://a/1\n###\nhttp://b:81/2\n###\n/3\n###\nhttp://A:80/4\n";
    let set = load_own(text, &["http://a/"]).expect("it is a file");
    let hosts: Vec<u32> = (0..set.len()).map(|request| set.host(request)).collect();
    assert_eq!(hosts, [0, 1, 0, 0]);
    assert_eq!(set.hosts()[1].port_number(), 81);
    let sent = next(&mut Renderer::new(Arc::new(set), 0, 0, 1), 3);
    assert!(sent[1].contains("Host: b:81\r\n"), "{sent:?}");
    assert!(sent[2].contains("Host: a\r\n"), "{sent:?}");

    let error = load_own("http://a/\n###\nhttps://b/\n", &[]).expect_err("both schemes");
    assert_eq!(
        error,
        "f:3:1: https://b:443: some requests use TLS and some do not, but the connections of a run \
         are alike"
    );
    let many: Vec<String> = (0..65)
        .map(|host| format!("http://h{host}/\n###\n"))
        .collect();
    let error = load_own(&many.concat(), &[]).expect_err("too many hosts");
    assert_eq!(error, "f:129:1: the file has more than 64 hosts");
}

#[test]
fn a_self_contained_file_makes_the_same_requests() {
    let json = r#"{"path":"/{{seq}}","header":{"B":"1","A":["{{env:TOKEN}}","2"]},"weight":2}
        {"path":"/","body_text":"{{csv:users.csv:password}} {{rand:-5--1}}","name":"a"}
        {"url":"http://u:p@h:8080/","body_file":"body.bin"}
        {"path":"/","body_text":""}"#;
    let http = "@v = {{uuid}}\n### one\nPOST /{{v}}\n\n{{csv:users.csv:name}}{{now}}\n";
    for text in [json, http] {
        let file = self_contained(&inputs(text.as_bytes()), None).expect("it is a file");
        let order = Some(RequestOrder::Sequence);
        let draw = |set: RequestSet| next(&mut Renderer::new(Arc::new(set), 5, 1, 2), 9);
        let original = try_load(text.as_bytes(), order).expect("it is a file");
        let bare = Inputs {
            file: "g",
            text: &file,
            read: &|_| Err(io::Error::other("nothing is read")),
            variable: &|_| None,
        };
        let copy = load_from(&bare, order).expect("it is a file");
        assert_eq!(original.names(), copy.names());
        assert_eq!(draw(original), draw(copy));
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_file_or_refused_in_one_line(text in "(\\PC|[\\n{}\":/#@<]){0,60}") {
        if let Err(message) = try_load(text.as_bytes(), None) {
            proptest::prop_assert_eq!(message.lines().count(), 1, "{}", message);
        }
    }
}
