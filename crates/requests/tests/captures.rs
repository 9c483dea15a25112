//! Values that one request takes from its response and later ones use.

use plan::{RequestOrder, Target};
use protocol::{Captured, Fields};
use requests::{Defaults, Inputs, Moment, Renderer, RequestSet, load, load_with_moments};
use std::io;
use std::sync::Arc;

const NOW: Moment = Moment {
    unix_ms: 1_700_000_000_123,
};

fn with_inputs<R>(text: &str, use_inputs: impl FnOnce(&Inputs<'_>, &Defaults<'_>) -> R) -> R {
    let target = Target::parse("http://h:8080/").expect("it is a URL");
    let inputs = Inputs {
        file: "f",
        text: text.as_bytes(),
        read: &|_| Err(io::ErrorKind::NotFound.into()),
        variable: &|_| None,
    };
    let defaults = Defaults {
        target: Some(&target),
        ..Defaults::default()
    };
    use_inputs(&inputs, &defaults)
}

fn renderer(text: &str, clients: u32) -> Renderer {
    let set = with_inputs(text, load).unwrap_or_else(|error| panic!("{error}"));
    Renderer::new(Arc::new(set), 7, 0, 1).with_clients(clients)
}

fn refusal(text: &str) -> String {
    let loaded = with_inputs(text, load);
    loaded.expect_err("the file was accepted").to_string()
}

/// The request line and the body of the next request of a client.
fn next(renderer: &mut Renderer, client: u32) -> String {
    let mut output = Vec::new();
    let request = renderer.next_request(client);
    renderer.render(request, client, NOW, &mut output);
    String::from_utf8(output).expect("it is text")
}

fn path(renderer: &mut Renderer, client: u32) -> String {
    let text = next(renderer, client);
    text.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn response(headers: &[(&str, &str)], body: &str) -> Captured {
    let mut fields = Fields::default();
    for (name, value) in headers {
        fields.push(name.as_bytes(), value.as_bytes());
    }
    Captured {
        status: 200,
        headers: fields,
        body: body.as_bytes().to_vec(),
    }
}

#[test]
fn a_value_goes_from_each_place_into_path_header_and_body() {
    let file = |place: &str| {
        format!(
            "{{\"path\":\"/login\",\"capture\":{{\"v\":{place:?}}}}}\n\
             {{\"path\":\"/use/{{{{v}}}}\",\"header\":{{\"A\":\"b {{{{v}}}}\"}},\
               \"body_text\":\"<{{{{v}}}}>\"}}"
        )
    };
    let cookies = [
        ("Set-Cookie", "other=1"),
        ("set-cookie", "sid = old; Path=/"),
        ("Set-Cookie", "sid=new"),
    ];
    let json = r#"{"a":{"b":[{"c":"x"},{"c":7},{"c":null}]},"t":true,"o":{"k":[1]}}"#;
    for (place, response, value) in [
        ("$.a.b[0].c", response(&[], json), "x"),
        ("$.a.b[1].c", response(&[], json), "7"),
        ("$..c", response(&[], json), "x"),
        ("$.t", response(&[], json), "true"),
        ("$.o", response(&[], json), "{\"k\":[1]}"),
        ("header:location", response(&[("Location", "/7")], ""), "/7"),
        ("cookie:sid", response(&cookies, ""), "new"),
        ("regex:id=([0-9]+)", response(&[], "n id=42 id=43"), "42"),
        ("regex:[0-9]{2}", response(&[], "n 42"), "42"),
    ] {
        let mut renderer = renderer(&file(place), 1);
        assert_eq!(path(&mut renderer, 0), "/login");
        assert!(renderer.receive(0, &response), "{place}");
        let expected = format!(
            "POST /use/{value} HTTP/1.1\r\nHost: h:8080\r\nA: b {value}\r\nContent-Length: {}\r\n\
             \r\n<{value}>",
            value.len() + 2
        );
        assert_eq!(next(&mut renderer, 0), expected, "{place}");
    }
}

#[test]
fn a_client_without_the_value_begins_again() {
    let file = r#"
        {"path":"/login","capture":{"token":"$.token"}}
        {"path":"/list"}
        {"path":"/buy?t={{token}}"}"#;
    for bad in [
        "",
        "{",
        "{}",
        "[1]",
        r#"{"token":null}"#,
        // What would end the request line.
        r#"{"token":"a b"}"#,
        r#"{"token":"a\r\nB: c"}"#,
    ] {
        let mut renderer = renderer(file, 1);
        assert_eq!(path(&mut renderer, 0), "/login");
        assert!(!renderer.receive(0, &response(&[], bad)), "{bad}");
        assert_eq!(path(&mut renderer, 0), "/login");
        // No response at all.
        assert_eq!(path(&mut renderer, 0), "/login");
        assert!(renderer.receive(0, &response(&[], r#"{"token":"x"}"#)));
        let paths = [(); 3].map(|()| {
            let path = path(&mut renderer, 0);
            assert!(path == "/login" || renderer.receive(0, &response(&[], bad)));
            path
        });
        assert_eq!(paths, ["/list", "/buy?t=x", "/login"]);
        // The value of the pass before is not used again.
        assert!(!renderer.receive(0, &response(&[], bad)), "{bad}");
        assert_eq!(path(&mut renderer, 0), "/login");
    }
}

#[test]
fn clients_share_nothing() {
    let file = r#"
        {"path":"/login","capture":{"id":"header:X-Id"}}
        {"path":"/me/{{id}}"}"#;
    let mut renderer = renderer(file, 3);
    for client in [2, 0, 1] {
        assert_eq!(path(&mut renderer, client), "/login");
    }
    for client in 0..3 {
        let id = format!("c{client}");
        assert!(renderer.receive(client, &response(&[("x-id", &id)], "")));
    }
    for client in [1, 0, 2] {
        assert_eq!(path(&mut renderer, client), format!("/me/c{client}"));
    }
}

#[test]
fn a_value_that_is_too_long_is_missing() {
    let file = r#"
        {"path":"/login","capture":{"v":"regex:.*"}}
        {"path":"/","body_text":"{{v}}"}"#;
    let mut renderer = renderer(file, 1);
    for (length, is_there) in [(64 * 1024, true), (64 * 1024 + 1, false)] {
        renderer.next_request(0);
        let response = response(&[], &"x".repeat(length));
        assert_eq!(renderer.receive(0, &response), is_there, "{length}");
        if is_there {
            renderer.next_request(0);
        }
    }
}

#[test]
fn http_files_capture_values_too() {
    let file = "# @capture token $.token\n# @capture next header:Location\nPOST /login\n\n{}\n\
                ###\nGET /x?next={{next}}\nAuthorization: Bearer {{token}}\n";
    let mut renderer = renderer(file, 1);
    assert!(next(&mut renderer, 0).starts_with("POST /login"));
    let response = response(&[("Location", "/n")], r#"{"token":"t"}"#);
    assert!(renderer.receive(0, &response));
    let expected = "GET /x?next=/n HTTP/1.1\r\nHost: h:8080\r\nAuthorization: Bearer t\r\n\r\n";
    assert_eq!(next(&mut renderer, 0), expected);
}

#[test]
fn agents_of_a_fleet_capture_the_same() {
    let file = r#"
        {"path":"/login","capture":{"b":"cookie:sid","a":"regex:id=\"(.)\""}}
        {"path":"/{{a}}{{b}}"}"#;
    let lines = with_inputs(file, |inputs, _| requests::self_contained(inputs, None));
    let lines = String::from_utf8(lines.expect("it can be sent")).expect("it is text");
    let mut renderer = renderer(&lines, 1);
    assert_eq!(path(&mut renderer, 0), "/login");
    assert!(renderer.receive(0, &response(&[("set-cookie", "sid=s")], "id=\"7\"")));
    assert_eq!(path(&mut renderer, 0), "/7s");
}

#[test]
fn mistakes_have_their_place_in_the_file() {
    let with = |capture: &str| format!("{{\"path\":\"/\",\"capture\":{capture}}}");
    for (file, message) in [
        (
            with("7"),
            "1:23: expected an object like {\"token\": \"$.data.token\"}",
        ),
        (
            with("{\"a\":\"x\"}"),
            "1:28: \"x\": expected a JSONPath like $.data.token, header:NAME",
        ),
        (
            with("{\"a\":\"$.[\"}"),
            "1:28: \"$.[\": is not a JSONPath (RFC 9535)",
        ),
        (
            with("{\"a\":\"regex:(\"}"),
            "1:28: \"regex:(\": is not a regular expression",
        ),
        (
            with("{\"a\":\"header:\"}"),
            "1:28: \"header:\": expected header:NAME",
        ),
        (
            with("{\"a\":\"cookie:a b\"}"),
            "1:28: \"cookie:a b\": expected cookie:NAME",
        ),
        (
            with("{\"a b\":\"$.a\"}"),
            "1:30: \"a b\" is not a name for a value",
        ),
        (
            with("{\"seq\":\"$.a\"}"),
            "1:30: {{seq}} already has a meaning",
        ),
        (
            "{\"path\":\"/{{a}}\",\"capture\":{\"a\":\"$.a\"}}".to_owned(),
            "1:11: \"a\" is not",
        ),
        (
            "{\"path\":\"/\",\"capture\":{\"a\":\"$.a\"},\"weight\":2}".to_owned(),
            "captured values need requests in sequence (remove the weights)",
        ),
        (
            "# @capture a\nGET /\n###\nGET /\n".to_owned(),
            "1:12: expected a name and a place",
        ),
    ] {
        let refused = refusal(&file);
        assert!(refused.contains(message), "{file}: {refused}");
    }
    let many: Vec<String> = (0..101).map(|n| format!("\"v{n}\":\"$.a\"")).collect();
    let refused = refusal(&with(&format!("{{{}}}", many.join(","))));
    assert!(refused.contains("more than 100 names"), "{refused}");
}

#[test]
fn captures_need_a_sequence() {
    let file = "{\"path\":\"/\",\"capture\":{\"a\":\"$.a\"}}\n{\"path\":\"/{{a}}\"}";
    let of_order = |order| {
        with_inputs(file, |inputs, defaults| {
            let order = Some(order);
            load(inputs, &Defaults { order, ..*defaults })
        })
    };
    assert!(of_order(RequestOrder::Sequence).is_ok_and(|set: RequestSet| set.has_captures()));
    for order in [RequestOrder::Random, RequestOrder::Weighted] {
        let refused = of_order(order).expect_err("it has captures").to_string();
        assert!(refused.contains("remove --order"), "{refused}");
    }
    let moments = "{\"at\":1,\"path\":\"/\",\"capture\":{\"a\":\"$.a\"}}";
    let refused = with_inputs(moments, |inputs, defaults| {
        load_with_moments(inputs, defaults, 1.0)
    });
    let refused = refused.expect_err("it has moments").to_string();
    assert!(refused.contains("cannot capture a value"), "{refused}");
}
