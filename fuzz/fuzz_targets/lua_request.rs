//! Any bytes as what a script's `request()` returns: exactly these bytes are sent, and one response
//! is expected for each request found in them.

#![no_main]

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use engine::source::{Address, Captured, Fields, RequestSource};
use libfuzzer_sys::fuzz_target;
use protocol::h1::{H1, H1Context, Limits};
use protocol::request::scan;
use protocol::{Event, ExchangeId, RequestKind, Requests, Session};
use script::{Network, NetworkError, Script, Settings};

fuzz_target!(|data: &[u8]| {
    let Some((how, text)) = data.split_first() else {
        return;
    };
    let how = How::ALL[usize::from(*how) % How::ALL.len()];
    let outcome = SOURCE.with_borrow_mut(|source| ask(source.as_mut(), how, text));
    match outcome {
        Ok(batch) => delivered(how, text, &batch),
        Err(message) => refused(how, text, &message),
    }
});

/// How the script turns the text into a request. The status of the response that carries the text
/// selects it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    /// The text as it is.
    Plain = 200,
    /// Twice, as a batch.
    Twice,
    /// As a number, if it is one.
    Number,
    /// Split at zero bytes into method, path, header name, header value and body of `wrk.format`.
    Format,
}

impl How {
    const ALL: [Self; 4] = [Self::Plain, Self::Twice, Self::Number, Self::Format];
}

const SCRIPT: &str = r#"
local made = "GET / HTTP/1.1\r\n\r\n"

local ways = {
  [200] = function(text) return text end,
  [201] = function(text) return text .. text end,
  [202] = function(text) return tonumber(text) end,
  [203] = function(text)
    local parts = {}
    for part in (text .. "\0"):gmatch("(%Z*)%z") do
      parts[#parts + 1] = part
    end
    local headers = { Host = "h" }
    if parts[3] then
      headers[parts[3]] = parts[4] or ""
    end
    return wrk.format(parts[1], parts[2], headers, parts[5])
  end,
}

function response(status, _, body)
  made = ways[status](body)
end

function request()
  return made
end
"#;

/// One target with one address, never connected to.
struct NoNetwork;

impl Network for NoNetwork {
    fn lookup(&self, _host: &str, _service: &str) -> Result<Vec<Address>, NetworkError> {
        Ok(vec![Address::Unix("/nowhere".into())])
    }

    fn connect(&self, _address: &Address) -> Result<(), NetworkError> {
        Ok(())
    }
}

thread_local! {
    static SOURCE: RefCell<Box<dyn RequestSource>> = RefCell::new(source());
}

/// One Lua state for all inputs: it must survive each of them.
fn source() -> Box<dyn RequestSource> {
    let path = std::env::temp_dir().join(format!("wrkbench-fuzz-{}.lua", std::process::id()));
    std::fs::write(&path, SCRIPT).expect("the temporary folder takes a script");
    let mut script = load(&path).expect("the script loads");
    let source = script.start().expect("the script starts").remove(0);
    std::fs::remove_file(&path).expect("it was just written");
    source
}

fn load(path: &Path) -> Result<Script, script::ScriptError> {
    let settings = Settings {
        path: Some(path),
        url: "http://h/",
        scheme: "http",
        host: "h",
        port: None,
        request_path: "/",
        method: "GET",
        headers: &[],
        body: None,
        args: &[],
        threads: 1,
        worker_base: 0,
        modules: None,
    };
    Script::load(&settings, Arc::new(NoNetwork))
}

/// Hands the text to the script and asks for the next request.
fn ask(source: &mut dyn RequestSource, how: How, text: &[u8]) -> Result<Vec<u8>, String> {
    let answer = Captured {
        status: how as u16,
        headers: Fields::default(),
        body: text.to_vec(),
    };
    source
        .response(&answer)
        .map_err(|error| error.to_string())?;
    let mut batch = Vec::new();
    source
        .next(0, &mut batch)
        .map_err(|error| error.to_string())?;
    Ok(batch)
}

fn refused(how: How, text: &[u8], message: &str) {
    assert!(!message.chars().any(char::is_control), "{message:?}");
    match how {
        How::Plain | How::Twice => assert!(text.is_empty(), "{message}"),
        // No number: `tonumber` gives nil.
        How::Number => assert!(message.contains("request() returned nil"), "{message}"),
        How::Format => panic!("{message}"),
    }
}

fn delivered(how: How, text: &[u8], batch: &[u8]) {
    match how {
        How::Plain => assert_eq!(batch, text),
        How::Twice => assert_eq!(batch, text.repeat(2)),
        How::Number => assert!(batch.len() < 32 && batch.is_ascii()),
        How::Format => formatted(text, batch),
    }
    let mut kinds = Vec::new();
    if let Err(error) = scan(batch, &mut kinds) {
        let message = error.to_string();
        assert!(!message.chars().any(char::is_control), "{message:?}");
        return;
    }
    assert!(!kinds.is_empty());
    // A 2xx response to CONNECT opens a tunnel; nothing after it is a response.
    let tunnel = kinds.iter().position(|kind| *kind == RequestKind::Connect);
    kinds.truncate(tunnel.unwrap_or(kinds.len()));
    answered(&kinds);
}

/// Parts without special characters become one request of the kind that the method says.
fn formatted(text: &[u8], batch: &[u8]) {
    let parts: Vec<&[u8]> = text.split(|byte| *byte == 0).collect();
    let plain = |part: &[u8]| part.iter().all(|byte| byte.is_ascii_alphanumeric());
    let part = |at: usize| parts.get(at).copied();
    let method = part(0).unwrap_or_default();
    let path_is_plain = part(1).is_none_or(|path| path.starts_with(b"/") && plain(&path[1..]));
    let name = part(2).unwrap_or(b"x");
    // Longer names than these would be Connection, Content-Length and such.
    let name_is_plain = !name.is_empty() && name.len() < 10 && plain(name);
    let fine = !method.is_empty()
        && plain(method)
        && path_is_plain
        && name_is_plain
        && plain(part(3).unwrap_or_default());
    if !fine {
        return;
    }
    let mut kinds = Vec::new();
    assert_eq!(scan(batch, &mut kinds), Ok(()));
    let expected = match method {
        b"HEAD" => RequestKind::Head,
        b"CONNECT" => RequestKind::Connect,
        _ => RequestKind::Plain,
    };
    assert_eq!(kinds, [expected]);
    if let Some(body) = part(4) {
        assert!(batch.ends_with(body));
        let length = format!("\r\nContent-Length: {}\r\n\r\n", body.len());
        assert!(batch[..batch.len() - body.len()].ends_with(length.as_bytes()));
    }
}

/// The session expects one response for each request that was found.
fn answered(kinds: &[RequestKind]) {
    let mut shared = H1Context::new(Limits::default(), false);
    let mut session = H1::new(&mut shared);
    let (mut output, mut events) = (Vec::new(), Vec::new());
    session
        .begin(&mut shared, &mut output)
        .expect("plain sessions begin");
    let requests = Requests {
        text: b"",
        prepared: kinds,
    };
    session
        .start(&mut shared, ExchangeId(0), requests, &mut output)
        .expect("plain sessions can always send");
    let answers = b"HTTP/1.1 204 No Content\r\n\r\n".repeat(kinds.len());
    session
        .receive(&mut shared, &answers, &mut output, &mut events)
        .expect("each answer is expected");
    let finished = events
        .iter()
        .filter(|event| matches!(event, Event::Finished(..)));
    assert_eq!(finished.count(), kinds.len());
    assert!(output.is_empty());
}
