//! Request files with moments: the key `at`.

use std::io;

use plan::Target;
use requests::{Defaults, FilePace, Inputs, RequestSet, load, load_with_moments, pace};

fn inputs(text: &str) -> Inputs<'_> {
    Inputs {
        file: "f",
        text: text.as_bytes(),
        read: &|_| Ok::<_, io::Error>(b"file".to_vec()),
        variable: &|_| None,
    }
}

fn try_load(text: &str, speed: Option<f64>) -> Result<RequestSet, String> {
    let target = Target::parse("http://h/").expect("it is a URL");
    let defaults = Defaults {
        target: Some(&target),
        ..Defaults::default()
    };
    let loaded = match speed {
        Some(speed) => load_with_moments(&inputs(text), &defaults, speed),
        None => load(&inputs(text), &defaults),
    };
    loaded.map_err(|error| error.to_string())
}

/// Milliseconds and the target of each request, in the order in which they are due.
fn due(text: &str, speed: f64) -> Vec<(f64, String)> {
    let set = try_load(text, Some(speed)).unwrap_or_else(|error| panic!("{error}"));
    let recorded = set.recorded().expect("requests have moments");
    let dues_ns = (0..).zip(recorded.due_ns().iter());
    dues_ns
        .map(|(number, due_ns)| {
            let (request, status) = recorded.nth(number);
            assert_eq!(status, 0, "a file has no statuses");
            let text = String::from_utf8(set.sample(request)).expect("text");
            let target = text.split(' ').nth(1).expect("a target");
            (*due_ns as f64 / 1e6, target.to_owned())
        })
        .collect()
}

fn named(expected: &[(f64, &str)]) -> Vec<(f64, String)> {
    let owned = expected.iter().map(|(ms, path)| (*ms, (*path).to_owned()));
    owned.collect()
}

#[test]
fn requests_are_due_at_their_moments_after_the_first_one_in_any_order() {
    let text = "{\"path\":\"/c\",\"at\":1250.5,\"body_text\":\"{{seq}}\"}\n\
                {\"path\":\"/a\",\"at\":1000}\n\
                {\"path\":\"/d\",\"at\":1.2505e3,\"body_file\":\"x\"}\n\
                {\"path\":\"/b\",\"at\":1000.000001}\n";
    let expected = [(0.0, "/a"), (1e-6, "/b"), (250.5, "/c"), (250.5, "/d")];
    assert_eq!(due(text, 1.0), named(&expected));
    let faster = [(0.0, "/a"), (0.0, "/b"), (62.625, "/c"), (62.625, "/d")];
    assert_eq!(due(text, 4.0), named(&faster));
    // Unix time, in an array.
    let unix = "[{\"path\":\"/b\",\"at\":1795204800025},{\"path\":\"/a\",\"at\":1795204800000.25}]";
    assert_eq!(due(unix, 1.0), named(&[(0.0, "/a"), (24.75, "/b")]));
}

#[test]
fn a_moment_that_is_none_is_refused_with_its_place() {
    for value in [
        "-1", "-0.001", "9e12.1", "9.1e12", "1e999", "\"5\"", "true", "[1]", "NaN",
    ] {
        let text = format!("{{\"path\":\"/\",\"at\":0}}\n{{\"path\":\"/\",\"at\":{value}}}\n");
        let error = try_load(&text, Some(1.0)).expect_err(value);
        assert!(error.starts_with("f:2:"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let error = try_load("{\"path\":\"/\",\"at\":-1}", Some(1.0)).expect_err("negative");
    let expected = "f:1:18: at \"-1\": expected milliseconds from 0 to 9000000000000";
    assert_eq!(error, expected);
    assert_eq!(
        due("{\"path\":\"/\",\"at\":9e12}", 1.0),
        named(&[(0.0, "/")])
    );
}

#[test]
fn all_requests_have_a_moment_or_none_and_a_moment_excludes_a_weight() {
    let (timed, untimed) = ("{\"path\":\"/\",\"at\":1}\n", "{\"path\":\"/\"}\n");
    for (text, speed, expected) in [
        (
            format!("{timed}{untimed}"),
            Some(1.0),
            "f:2:1: the request has no moment (key at), and those before it have one",
        ),
        (
            format!("{untimed}{timed}"),
            None,
            "f:2:18: the request has a moment (at), and those before it have none",
        ),
        (
            untimed.to_owned(),
            Some(2.0),
            "f:1:1: the request has no moment (key at), which --speed needs",
        ),
        (
            timed.to_owned(),
            None,
            "f:1:18: requests with moments (at) set the rate (remove -R and --stages)",
        ),
        (
            "{\"path\":\"/\",\"weight\":2,\"at\":1}".to_owned(),
            Some(1.0),
            "f:1:29: a request has a moment (at) or a weight, but not both",
        ),
    ] {
        let error = try_load(&text, speed).expect_err(&text);
        assert_eq!(error, expected);
    }
}

#[test]
fn whether_a_file_has_moments_is_known_from_its_first_request() {
    for (text, expected) in [
        (
            "{\"csv\":\"t\",\"text\":\"a\\n1\\n\"}\n{\"path\":\"/\",\"at\":1}\n{",
            Some(FilePace::Moments),
        ),
        ("{\"path\":\"/\"}\n{", Some(FilePace::Options)),
        ("http://h/\nhttp://h/\n", Some(FilePace::Options)),
        ("", None),
        ("{\"path\":7}", None),
    ] {
        assert_eq!(pace(&inputs(text)).ok(), expected, "{text}");
    }
}
