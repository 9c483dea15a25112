//! The first hundred requests of both, byte for byte.
//!
//! wrk writes headers in the order of a Lua hash table, which changes from run to run (its seed is
//! random). So requests with more than one header line are compared with sorted header lines; the
//! request line, the body and the content of the lines are compared exactly.

use crate::recording_server::RecordingServer;
use crate::tool::Pair;
use testkit::{Folder, Process};

const REQUESTS: usize = 100;

/// A command line for both programs: options before the URL; the path and what follows the
/// authority; arguments of the script.
#[derive(Default)]
struct ComparedCommand<'a> {
    options: &'a [&'a str],
    path: &'a str,
    script: Option<Script<'a>>,
    words: &'a [&'a str],
}

#[derive(Clone, Copy)]
enum Script<'a> {
    Text(&'a str),
    /// A file of examples/scripts.
    Example(&'a str),
}

/// Whether the order of header lines is part of the comparison.
#[derive(Clone, Copy, PartialEq)]
enum Headers {
    Exact,
    Sorted,
}

fn recorded(server: &RecordingServer, start: impl FnOnce() -> Process) -> Vec<Vec<u8>> {
    let mut running = start();
    let requests = server.wait();
    let code = running.ended();
    assert_eq!(requests.len(), REQUESTS, "its exit code: {code:?}");
    requests
}

/// The arguments, with one connection and more time than needed: the run is killed when the
/// requests have arrived.
fn arguments(line: &ComparedCommand<'_>, authority: &str, folder: &Folder) -> Vec<String> {
    let mut all: Vec<String> = ["-t1", "-c1", "-d1m"].map(str::to_owned).to_vec();
    all.extend(line.options.iter().map(|option| (*option).to_owned()));
    match line.script {
        Some(Script::Text(text)) => {
            all.extend(["-s".to_owned(), folder.file_with("script.lua", text)]);
        }
        Some(Script::Example(name)) => all.extend(["-s".to_owned(), example(name)]),
        None => {}
    }
    all.push(format!("http://{authority}{}", line.path));
    if !line.words.is_empty() {
        all.push("--".to_owned());
        all.extend(line.words.iter().map(|word| (*word).to_owned()));
    }
    all
}

fn example(name: &str) -> String {
    format!(
        "{}/../../examples/scripts/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// The requests of wrk and of wrkbench.
fn requests_of_both(line: &ComparedCommand<'_>) -> Option<[Vec<Vec<u8>>; 2]> {
    let pair = Pair::find()?;
    let folder = Folder::new();
    let server = || RecordingServer::start("127.0.0.1", REQUESTS).expect("the server starts");
    let (of_wrk, of_ours) = (server(), server());
    let line_for =
        |server: &RecordingServer| arguments(line, &server.address().to_string(), &folder);
    let wrk = recorded(&of_wrk, || pair.start_wrk(&line_for(&of_wrk)));
    let ours = recorded(&of_ours, || pair.start_ours(&line_for(&of_ours)));
    // The two servers have different ports, which are part of Host.
    let unported = |requests: Vec<Vec<u8>>, server: &RecordingServer| {
        let port = format!(":{}", server.address().port());
        requests
            .into_iter()
            .map(|request| replaced(&request, port.as_bytes(), b":PORT"))
            .collect()
    };
    Some([unported(wrk, &of_wrk), unported(ours, &of_ours)])
}

fn same_requests(headers: Headers, line: &ComparedCommand<'_>) {
    let Some([wrk, ours]) = requests_of_both(line) else {
        return;
    };
    for (number, (wrk, ours)) in wrk.iter().zip(&ours).enumerate() {
        let (wrk, ours) = (shown(wrk, headers), shown(ours, headers));
        assert_eq!(ours, wrk, "request {number}: ours (left) and wrk's");
    }
}

/// A request as text that shows every byte.
fn shown(request: &[u8], headers: Headers) -> String {
    let text = request
        .escape_ascii()
        .to_string()
        .replace("\\r\\n", "\\r\\n\n");
    if headers == Headers::Exact {
        return text;
    }
    let (head, body) = text.split_once("\n\\r\\n\n").expect("a head has an end");
    let mut lines: Vec<&str> = head.lines().collect();
    lines[1..].sort_unstable();
    format!("{}\n\\r\\n\n{body}", lines.join("\n"))
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    result.extend_from_slice(rest);
    result
}

/// Without a script there is only one header line, so nothing is sorted.
fn same_path(path: &str) {
    let line = ComparedCommand {
        path,
        ..ComparedCommand::default()
    };
    same_requests(Headers::Exact, &line);
}

fn same_headers(options: &[&str]) {
    let line = ComparedCommand {
        options,
        path: "/",
        ..ComparedCommand::default()
    };
    same_requests(Headers::Sorted, &line);
}

fn same_script(headers: Headers, text: &str) {
    let line = ComparedCommand {
        path: "/base?q=1",
        script: Some(Script::Text(text)),
        ..ComparedCommand::default()
    };
    same_requests(headers, &line);
}

fn same_example(name: &str, path: &str, words: &[&str]) {
    let line = ComparedCommand {
        path,
        script: Some(Script::Example(name)),
        words,
        ..ComparedCommand::default()
    };
    same_requests(Headers::Sorted, &line);
}

#[test]
fn nothing_but_a_url() {
    same_path("/");
    same_path("");
}

#[test]
fn a_path_is_sent_as_typed() {
    same_path("/a/b?c=d&e=%20f#fragment");
    same_path("/%zz/~x;y=1,2/'(!)*$@:[]|{}^`<>\\\"?&&=?#?#");
    same_path("//a/./../b//");
}

#[test]
fn only_wrkbench_sends_user_and_password_of_the_url() {
    let line = ComparedCommand {
        path: "/x",
        ..ComparedCommand::default()
    };
    let Some(pair) = Pair::find() else {
        return;
    };
    let folder = Folder::new();
    let mut all = Vec::new();
    for is_wrk in [true, false] {
        let server = RecordingServer::start("127.0.0.1", REQUESTS).expect("the server starts");
        let address = server.address().to_string();
        let line = arguments(&line, &format!("user:secret@{address}"), &folder);
        let requests = recorded(&server, || {
            if is_wrk {
                pair.start_wrk(&line)
            } else {
                pair.start_ours(&line)
            }
        });
        let of_tool: Vec<Vec<u8>> = requests
            .iter()
            .map(|request| replaced(request, address.as_bytes(), b"ADDRESS"))
            .collect();
        all.push(of_tool);
    }
    let text = |of_tool: &[Vec<u8>]| String::from_utf8_lossy(&of_tool[0]).into_owned();
    assert_eq!(text(&all[0]), "GET /x HTTP/1.1\r\nHost: ADDRESS\r\n\r\n");
    assert_eq!(
        text(&all[1]),
        "GET /x HTTP/1.1\r\nHost: ADDRESS\r\nAuthorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n"
    );
}

#[test]
fn host_has_an_ipv6_address_in_brackets() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let folder = Folder::new();
    let mut all = Vec::new();
    for is_wrk in [true, false] {
        let server = RecordingServer::start("::1", REQUESTS);
        let Some(server) = testkit::require_ok("ipv6", server) else {
            return;
        };
        let address = server.address().to_string();
        let line = ComparedCommand {
            path: "/x",
            ..ComparedCommand::default()
        };
        let line = arguments(&line, &address, &folder);
        let requests = recorded(&server, || {
            if is_wrk {
                pair.start_wrk(&line)
            } else {
                pair.start_ours(&line)
            }
        });
        assert!(requests[0].ends_with(format!("Host: {address}\r\n\r\n").as_bytes()));
        let port = format!(":{}\r", server.address().port());
        let of_tool: Vec<Vec<u8>> = requests
            .iter()
            .map(|request| replaced(request, port.as_bytes(), b":PORT\r"))
            .collect();
        all.push(of_tool);
    }
    assert_eq!(all[0], all[1]);
}

#[test]
fn header_options() {
    same_headers(&["-H", "X-A: 1"]);
    same_headers(&["-H", "X-A: 1", "--header=X-B: a: b", "-HX-C: c"]);
    same_headers(&["-H", "X-A: 1", "-H", "X-A: 2"]);
    same_headers(&["-H", "X-A: "]);
    same_headers(&["-H", "X-A:   three and trailing  "]);
    same_headers(&["-H", "Host: other.example"]);
}

#[test]
fn a_content_length_without_a_body_is_not_sent() {
    same_headers(&["-H", "Content-Length: 5", "-H", "X-A: 1"]);
}

/// Request line and sorted header lines of the first request.
fn first_lines(requests: &[Vec<u8>]) -> Vec<String> {
    let text = String::from_utf8_lossy(&requests[0]);
    let mut lines: Vec<String> = text.trim_end().lines().map(str::to_owned).collect();
    lines[1..].sort_unstable();
    lines
}

/// Intended differences. Each is a row of docs/compatibility.md, "Command
/// line".
fn differs(options: &[&str], path: &str, in_wrk: &[&str], in_ours: &[&str]) {
    let line = ComparedCommand {
        options,
        path,
        ..ComparedCommand::default()
    };
    let Some([wrk, ours]) = requests_of_both(&line) else {
        return;
    };
    assert_eq!(first_lines(&wrk), in_wrk, "wrk, {options:?}");
    assert_eq!(first_lines(&ours), in_ours, "ours, {options:?}");
}

const GET: &str = "GET / HTTP/1.1";
const HOST: &str = "Host: 127.0.0.1:PORT";

#[test]
fn a_header_without_a_space_is_sent_and_not_dropped() {
    let line = ["-H", "X-A:1"];
    differs(&line, "/", &[GET, HOST], &[GET, HOST, "X-A: 1"]);
}

#[test]
fn a_lower_case_host_replaces_host() {
    let line = ["-H", "host: x"];
    differs(&line, "/", &[GET, HOST, "host: x"], &[GET, "Host: x"]);
}

#[test]
fn of_a_header_in_two_spellings_only_the_last_is_sent() {
    let line = ["-H", "x-a: 1", "-H", "X-A: 2"];
    let in_wrk = [GET, HOST, "X-A: 2", "x-a: 1"];
    differs(&line, "/", &in_wrk, &[GET, HOST, "X-A: 2"]);
}

#[test]
fn a_query_right_after_the_host_is_sent_and_not_dropped() {
    let in_ours = ["GET /?a=b HTTP/1.1", HOST];
    differs(&[], "?a=b", &[GET, HOST], &in_ours);
}

#[test]
fn a_post_with_a_body_and_one_header() {
    same_script(
        Headers::Sorted,
        "wrk.method = 'POST'\nwrk.body = 'a=1&b=2'\n\
         wrk.headers['Content-Type'] = 'application/x-www-form-urlencoded'\n",
    );
}

#[test]
fn bodies_of_any_bytes_empty_bodies_and_no_body() {
    let any = "local all = {}\nfor i = 0, 255 do all[#all + 1] = string.char(i) end\n\
               wrk.method = 'PUT'\nwrk.body = table.concat(all)\n";
    same_script(Headers::Sorted, any);
    same_script(Headers::Sorted, "wrk.method = 'POST'\nwrk.body = ''\n");
    same_script(Headers::Exact, "wrk.method = 'POST'\n");
    same_script(Headers::Sorted, "wrk.body = 'x'\n");
}

#[test]
fn fields_set_at_top_level_and_in_init() {
    same_script(
        Headers::Exact,
        "wrk.method = 'OPTIONS'\nwrk.path = '*'\nwrk.host = 'ignored.example'\n",
    );
    same_script(
        Headers::Sorted,
        "function init(args)\n  wrk.path = '/' .. #args .. args[0]:sub(1, 7)\n\
           wrk.headers['X-N'] = 1.5\n  wrk.headers['X-Big'] = 1e15\n  wrk.headers['X-Huge'] = 1e20\n\
           wrk.headers['Host'] = 'from.init'\nend\n",
    );
}

#[test]
fn a_counter_skips_the_request_that_was_made_for_a_check() {
    same_script(
        Headers::Sorted,
        "local n = 0\nfunction request()\n  local path = '/' .. n\n  wrk.headers['X-N'] = n\n\
           n = n + 1\n  return wrk.format(nil, path)\nend\n",
    );
}

#[test]
fn several_paths_in_turn() {
    same_script(
        Headers::Exact,
        "local paths, i = { '/a', '/b?c', '/' .. string.rep('d', 3000) }, 0\n\
         function request()\n  i = i % #paths + 1\n  return wrk.format('GET', paths[i])\nend\n",
    );
}

#[test]
fn several_requests_in_one_string() {
    same_script(
        Headers::Sorted,
        "function init(args)\n  local r = {}\n  r[1] = wrk.format(nil, '/?foo')\n\
           r[2] = wrk.format('POST', '/?bar', nil, 'body')\n  r[3] = wrk.format('DELETE', '/?baz')\n\
           all = table.concat(r)\nend\nfunction request() return all end\n",
    );
}

#[test]
fn wrk_format_with_all_and_with_some_arguments() {
    same_script(
        Headers::Sorted,
        "local n = 0\nlocal shared = { ['X-Shared'] = 's' }\n\
         function request()\n  n = n + 1\n\
           local kind = n % 6\n\
           if kind == 0 then return wrk.format('PATCH', '/p', { ['X-A'] = '1', Host = 'h' }, 'body') end\n\
           if kind == 1 then return wrk.format('PUT', '/p', { ['X-A'] = 0.1 }, '') end\n\
           if kind == 2 then return wrk.format('DELETE', nil, shared) end\n\
           if kind == 3 then return wrk.format(nil, nil, { ['Content-Length'] = 7 }) end\n\
           if kind == 4 then return wrk.format(nil, '/' .. tostring(shared.Host ~= nil), shared, 'x') end\n\
           return wrk.format()\nend\n",
    );
}

#[test]
fn requests_that_depend_on_the_previous_response() {
    same_script(
        Headers::Sorted,
        "local last = 'none'\n\
         function request() return wrk.format('GET', '/' .. last, { ['X-Last'] = last }) end\n\
         function response(status, headers, body)\n\
           last = status .. headers['X-Token'] .. headers['Content-Length'] .. #body .. body:byte(1)\n\
         end\n",
    );
}

#[test]
fn a_token_from_a_login() {
    same_script(
        Headers::Sorted,
        "local token\n\
         function request()\n  if token then return wrk.format() end\n\
           return wrk.format('GET', '/login')\nend\n\
         function response(status, headers)\n  if token then return end\n\
           token = headers['X-Token']\n  wrk.headers['Authorization'] = 'Bearer ' .. token\nend\n",
    );
}

#[test]
fn wrk_request_called_by_a_script() {
    same_script(
        Headers::Sorted,
        "wrk.headers['X-A'] = 'a'\nlocal n = 0\n\
         function request()\n  n = n + 1\n  wrk.headers['X-A'] = 'changed'\n\
           if n % 2 == 0 then return wrk.request() end\n  return wrk.format()\nend\n",
    );
}

#[test]
fn values_that_setup_gives_to_a_thread() {
    same_script(
        Headers::Exact,
        "local count = 0\nfunction setup(thread)\n  count = count + 1\n  thread:set('id', count)\n\
           thread:set('flag', true)\nend\n\
         function request()\n  return wrk.format(nil, '/' .. id .. '/' .. tostring(flag))\nend\n",
    );
}

#[test]
fn requests_built_without_wrk_format() {
    same_script(
        Headers::Exact,
        "function request()\n\
           return 'GET /raw HTTP/1.1\\r\\nB: 2\\r\\na:1\\r\\nHost: x\\r\\n\\r\\n'\nend\n",
    );
}

#[test]
fn the_example_scripts() {
    same_example("post-json.lua", "/api/items", &[]);
    same_example("put.lua", "/files/", &["300"]);
    same_example("counter.lua", "", &[]);
    // auth-token.lua sets `response` to nil, which ends wrk with a PANIC (docs/scripting.md).
    same_example("paths-from-file.lua", "/", &[&example("paths.txt")]);
    same_example("pipeline.lua", "/", &["16"]);
    same_example("think-time.lua", "/", &["1"]);
    same_example("json-output.lua", "/", &[]);
    same_example("csv-output.lua", "/", &[]);
    same_example("multi-host.lua", "/", &[]);
    same_example("stop-after.lua", "/", &["1000"]);
}
