//! Any text as a request file, or examples with some pieces replaced: it is refused in a line with
//! its position, or every request is exactly one request for a server, whatever its values are, and
//! a self-contained copy makes the same requests.

#![no_main]

#[path = "../given.rs"]
mod given;

use std::io;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use plan::{RequestOrder, Target};
use protocol::request::split;
use requests::{Defaults, Inputs, Moment, Renderer, RequestSet, load, self_contained};

const EXAMPLES: [&[u8]; 5] = [
    br#"{"method":"PUT","url":"http://h/a?b={{seq}}","header":{"A":["{{uuid}}","2"]},"body":"aGk="}
{"path":"/{{csv:t.csv:a}}","header":{"B":"{{env:V}}"},"body_text":"{{rand:-5-9}}{{now}}","name":"n"}
{"csv":"own.csv","text":"x\n\"1\"\n"}
{"path":"/{{csv:own.csv:x}}","body_file":"t.csv","weight":3,"name":"w\u00e9"}"#,
    b"@v = {{$uuid}}\n### one\n# @name login\n# @weight 2\nPOST http://h/{{v}}\n    ?q={{seq}}\n\
      Host: {{env:V}}\n\n{\"a\": {{$randomInt 1 9}}}\n< t.csv\n<@ t.csv\n\n###\n/x\n",
    b"# c\nhttp://h/a\n\nPUT http://h/{{seq}} HTTP/1.1\n/c\n",
    b"GET http://h/a\nA: {{uuid}}\n\nPOST http://h/b\n# c\nB: 1\n@t.csv\n\nHEAD /c\n",
    b"[\n {\"path\": \"/{{seq}}\",\n  \"header\": {\"A\": [\"1\"]}},\
      {\"csv\": \"o\", \"text\": \"x\\n1\"},\n {\"url\": \n\"http://h/{{csv:o:x}}\"}]\n",
];

fuzz_target!(|data: &[u8]| {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let text = match EXAMPLES.get(usize::from(*how) % (EXAMPLES.len() + 1)) {
        Some(example) => given::with_pieces_replaced(example, rest),
        None => rest.to_vec(),
    };
    check(&text);
});

fn read(name: &str) -> io::Result<Vec<u8>> {
    match name {
        "t.csv" => Ok(b"a,b\n1,\"{{seq}}\"\n2,y\n".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn variable(name: &str) -> Option<String> {
    (name == "V").then(|| "v{{".to_owned())
}

fn loaded(inputs: &Inputs<'_>) -> Result<RequestSet, String> {
    let target = Target::parse("http://h/").expect("it is a URL");
    let defaults = Defaults {
        target: Some(&target),
        order: Some(RequestOrder::Sequence),
        ..Defaults::default()
    };
    load(inputs, &defaults).map_err(|error| error.to_string())
}

fn check(text: &[u8]) {
    let inputs = Inputs {
        file: "f",
        text,
        read: &read,
        variable: &variable,
    };
    let set = match loaded(&inputs) {
        Ok(set) => Arc::new(set),
        Err(message) => {
            given::one_line(&message);
            assert!(message.starts_with("f:"), "{message}");
            return;
        }
    };
    let requests = rendered(&set);
    for (request, bytes) in &requests {
        let mut parsed = split(bytes);
        assert!(matches!(parsed.next(), Some(Ok(_))) && parsed.next().is_none());
        if let Some(range) = set.fixed(*request) {
            assert_eq!(&set.bytes()[range], bytes.as_slice());
        }
    }
    let Ok(copy) = self_contained(&inputs, None) else {
        return;
    };
    let copy = Inputs {
        file: "g",
        text: &copy,
        read: &|_| Err(io::Error::other("it names no file")),
        variable: &|_| None,
    };
    let copy = loaded(&copy).expect("a copy can be read");
    assert_eq!(copy.names(), set.names());
    let without_host = |(_, bytes): &(usize, Vec<u8>)| {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let others = lines.filter(|line| !line.starts_with(b"Host: "));
        others.flatten().copied().collect::<Vec<u8>>()
    };
    let of_copy = rendered(&Arc::new(copy));
    for (one, other) in requests.iter().zip(&of_copy) {
        assert_eq!(without_host(one), without_host(other));
    }
}

/// Two rounds over the requests of a file.
fn rendered(set: &Arc<RequestSet>) -> Vec<(usize, Vec<u8>)> {
    let mut renderer = Renderer::new(Arc::clone(set), 5, 1, 3);
    let count = (2 * set.len()).min(50);
    let one = |_| {
        let request = renderer.next_request(0);
        let mut bytes = Vec::new();
        let now = Moment {
            unix_ms: 1_700_000_000_123,
        };
        renderer.render(request, 0, now, &mut bytes);
        (request, bytes)
    };
    (0..count).map(one).collect()
}
