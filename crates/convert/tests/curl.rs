//! curl commands and the arguments of wrkbench that send the same.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::io;
use std::path::Path;

use convert::{Conversion, Variables, curl, requests_file};
use plan::Body;

fn read(path: &Path) -> io::Result<Vec<u8>> {
    match path.to_str().unwrap() {
        "lines" => Ok(b"a=1\r\n&b=2\n".to_vec()),
        "line" => Ok(b"a b".to_vec()),
        "headers" => Ok(b"X-A: 1\r\n\r\nX-B: 2\r\n".to_vec()),
        "dir/x.png" => Ok(vec![0x89, 0xff]),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn converted(command: &str) -> Conversion {
    curl::from_text(command, &read).unwrap_or_else(|error| panic!("{command}: {error}"))
}

fn options(command: &str) -> String {
    plan::shell::command(&converted(command).options().unwrap())
}

fn error(command: &str) -> String {
    curl::from_text(command, &read)
        .expect_err(command)
        .to_string()
}

#[test]
fn a_command_becomes_arguments_that_send_the_same() {
    const FORM: &str = "-H 'Content-Type: application/x-www-form-urlencoded'";
    const JSON: &str = "-H 'Accept: application/json' -H 'Content-Type: application/json'";
    for (command, expected) in [
        ("curl h", "http://h/".to_owned()),
        ("$ curl -sS http://h:81/a -o x", "http://h:81/a".to_owned()),
        (
            "/usr/bin/curl -sSXPUT -H'A: b' -H 'B:c' h/",
            "-X PUT -H 'A: b' -H 'B: c' http://h/".to_owned(),
        ),
        ("curl -X GET h", "http://h/".to_owned()),
        ("curl -XPOST h", "-X POST http://h/".to_owned()),
        ("curl -I h", "-X HEAD http://h/".to_owned()),
        (
            "curl -d a=1 -d b=2 h",
            format!("{FORM} --body 'a=1&b=2' http://h/"),
        ),
        (
            "curl -XPOST --data-raw @a h",
            format!("{FORM} --body @a http://h/"),
        ),
        (
            "curl -d @lines h",
            format!("{FORM} --body 'a=1&b=2' http://h/"),
        ),
        (
            "curl -d @line h",
            format!("{FORM} --body-file line http://h/"),
        ),
        (
            "curl --data-binary @lines h",
            format!("{FORM} --body-file lines http://h/"),
        ),
        (
            "curl --data-binary @line -d x h",
            format!("{FORM} --body 'a b&x' http://h/"),
        ),
        (
            "curl -H 'content-type: a/b' -d x h",
            "-H 'content-type: a/b' --body x http://h/".to_owned(),
        ),
        (
            "curl -H Content-Type: -d x h",
            "--body x http://h/".to_owned(),
        ),
        ("curl -H 'X-E;' h", "-H 'X-E: ' http://h/".to_owned()),
        (
            "curl -H @headers h",
            "-H 'X-A: 1' -H 'X-B: 2' http://h/".to_owned(),
        ),
        (
            "curl --json '{}' h",
            format!("{JSON} --body '{{}}' http://h/"),
        ),
        (
            "curl --json '[1' --json ',2]' h",
            format!("{JSON} --body '[1,2]' http://h/"),
        ),
        (
            "curl -G -d a=1 -d b=2 'h/?c=3'",
            "'http://h/?c=3&a=1&b=2'".to_owned(),
        ),
        ("curl -G -I -d a=1 h", "-X HEAD 'http://h/?a=1'".to_owned()),
        (
            "curl --data-urlencode 'a=b c&d' --data-urlencode '=x/y' h",
            format!("{FORM} --body 'a=b+c%26d&x%2Fy' http://h/"),
        ),
        (
            "curl --data-urlencode n@line --data-urlencode plain h",
            format!("{FORM} --body 'n=a+b&plain' http://h/"),
        ),
        (
            "curl --url-query a=b/c --url-query +d=e/f h",
            "'http://h/?a=b%2Fc&d=e/f'".to_owned(),
        ),
        (
            "curl -u u:p h",
            "-H 'Authorization: Basic dTpw' http://h/".to_owned(),
        ),
        (
            "curl --oauth2-bearer t h",
            "-H 'Authorization: Bearer t' http://h/".to_owned(),
        ),
        (
            "curl -A agent -e 'http://i/;auto' -b a=1 -b 'c=2' -r 0-9 h",
            "-H 'Range: bytes=0-9' -H 'User-Agent: agent' -H 'Referer: http://i/' \
             -H 'Cookie: a=1; c=2' http://h/"
                .to_owned(),
        ),
        (
            "curl --compressed h",
            "-H 'Accept-Encoding: deflate, gzip, br, zstd' http://h/".to_owned(),
        ),
        (
            "curl -T line http://h/f/",
            "-X PUT --body-file line http://h/f/line".to_owned(),
        ),
        (
            "curl -T line http://h/f",
            "-X PUT --body-file line http://h/f".to_owned(),
        ),
        (
            "curl https://h --http1.1 -m2.5",
            "--verify --timeout 2.5s https://h/".to_owned(),
        ),
        (
            "curl -k --http1.1 --cacert c https://h",
            "https://h/".to_owned(),
        ),
        (
            "curl --http2 --cacert c -E a.pem https://h",
            "--alpn h2,http/1.1 --cacert c --cert a.pem --key a.pem https://h/".to_owned(),
        ),
        (
            "curl --http2-prior-knowledge h",
            "--http2 http://h/".to_owned(),
        ),
        ("curl --http3 -k https://h", "--http3 https://h/".to_owned()),
        ("curl --http3 h", "http://h/".to_owned()),
        (
            "curl --http3-only https://h",
            "--http3 --verify https://h/".to_owned(),
        ),
        (
            "curl --unix-socket /run/s --interface 127.0.0.2 h",
            "--unix-socket /run/s --bind-ip 127.0.0.2 http://h/".to_owned(),
        ),
        (
            "curl --resolve h:80:127.0.0.2 --connect-to ::g: h",
            "--resolve h:80:127.0.0.2 --connect-to ::g: http://h/".to_owned(),
        ),
        (
            "curl --request-target '/a//b' h/c",
            "http://h/a//b".to_owned(),
        ),
        ("curl --path-as-is h/a/../b#c", "http://h/a/../b".to_owned()),
        (
            "curl --proto-default https --http1.1 -k h",
            "https://h/".to_owned(),
        ),
        ("curl -g 'h/{a}[1]'", "'http://h/{a}[1]'".to_owned()),
        ("curl --no-compressed --no-buffer h", "http://h/".to_owned()),
        ("curl --max-t 3 h", "--timeout 3s http://h/".to_owned()),
        (
            "curl -H 'Content-Length: 9' -d x h",
            format!("{FORM} --body x http://h/"),
        ),
        ("curl -- h", "http://h/".to_owned()),
    ] {
        assert_eq!(options(command), expected, "{command}");
    }
}

#[test]
fn a_form_is_the_multipart_body_of_curl() {
    let converted = converted(
        "curl -F a=b -F 'f=@dir/x.png' -F 't=<line;type=text/css' -F 'q=\"x;\\\"y\";type=a/b;c=d' \
         --form-string 's=@x;type=y' -F 'g=@line;filename=\"a\\\"b\"' h",
    );
    let [request] = converted.requests.as_slice() else {
        panic!("{converted:?}");
    };
    let Some(Body::Inline(body)) = &request.body else {
        panic!("{request:?}");
    };
    let (name, its) = &request.headers[0];
    assert_eq!(name, "Content-Type");
    let boundary = its.strip_prefix("multipart/form-data; boundary=").unwrap();
    let part = |head: &str, content: &[u8]| {
        let head = format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n");
        [head.as_bytes(), content, b"\r\n"].concat()
    };
    let expected = [
        part("name=\"a\"", b"b"),
        part(
            "name=\"f\"; filename=\"x.png\"\r\nContent-Type: image/png",
            &[0x89, 0xff],
        ),
        part("name=\"t\"\r\nContent-Type: text/css", b"a b"),
        part("name=\"q\"\r\nContent-Type: a/b;c=d", b"x;\"y"),
        part("name=\"s\"", b"@x;type=y"),
        part(
            "name=\"g\"; filename=\"a%22b\"\r\nContent-Type: application/octet-stream",
            b"a b",
        ),
        format!("--{boundary}--\r\n").into_bytes(),
    ];
    assert_eq!(
        String::from_utf8_lossy(body),
        String::from_utf8_lossy(&expected.concat())
    );
    let refused = converted.options().unwrap_err().to_string();
    assert!(refused.contains("the body is not text"), "{refused}");
    let line = requests_file::text(&converted.requests);
    assert!(line.contains("\"body\":\"LS0t"), "{line}");
}

#[test]
fn several_urls_are_several_requests() {
    let urls = |command: &str| -> Vec<String> {
        let requests = converted(command).requests;
        requests.into_iter().map(|request| request.url).collect()
    };
    assert_eq!(
        urls("curl h/[1-2] --url h/x"),
        ["http://h/1", "http://h/2", "http://h/x"]
    );
    let converted = converted("curl -d a h/1 --next -H 'A: b' h/2");
    let expected = "{\"url\":\"http://h/1\",\"header\":{\"Content-Type\":\
        [\"application/x-www-form-urlencoded\"]},\"body_text\":\"a\"}\n\
        {\"url\":\"http://h/2\",\"header\":{\"A\":[\"b\"]}}\n";
    assert_eq!(requests_file::text(&converted.requests), expected);
    let refused = converted.options().unwrap_err().to_string();
    assert!(refused.starts_with("2 requests are too many"), "{refused}");
}

#[test]
fn all_commands_that_a_browser_copies_are_requests_of_a_recording() {
    // As browsers separate them for bash, and what people join them with.
    for separator in [" ;\n", "; ", " &\n", "\n", "\r\n\r\n", " && "] {
        let text = format!(
            "curl 'http://h/a;b&c' \\\n  -H 'A: 1' \\\n  --compressed{separator}\
             curl -s http://g:81/ --data-raw 'x; curl y'{separator}curl -s h"
        );
        let converted = converted(&text);
        let urls: Vec<&str> = converted
            .requests
            .iter()
            .map(|it| it.url.as_str())
            .collect();
        assert_eq!(
            urls,
            ["http://h/a;b&c", "http://g:81/", "http://h/"],
            "{text}"
        );
        let body = Some(Body::Inline(b"x; curl y".to_vec()));
        assert_eq!(converted.requests[1].body, body, "{text}");
        assert!(converted.is_recording, "{text}");
        assert_eq!(converted.notes, ["left out: -s: output of curl"], "{text}");
    }
    assert!(
        !converted("curl http://h/a http://g/;\n").is_recording,
        "one command"
    );
}

#[test]
fn several_commands_share_a_connection_or_are_refused_with_their_place() {
    for (text, said) in [
        (
            "curl h\n-H 'A: b'",
            "line 2, column 1: this line is not a curl command (a command goes on in the next line \
             after a \\ at the end of the line)",
        ),
        ("curl h; rm x", "column 9: this line is not a curl command"),
        (
            "curl h &\ncurl -x p:1 h",
            "line 2, column 1: this command connects in another way than the first one",
        ),
        (
            "curl h;\ncurl 'h",
            "line 2, column 6: the quote ' is not closed",
        ),
        (
            "curl h;\ncurl --digest h",
            "line 2, column 6: --digest is not supported",
        ),
        (" ;\n", "there is no command"),
    ] {
        let message = error(text);
        assert!(message.contains(said), "{text}: {message}");
    }
}

#[test]
fn only_the_requests_to_one_host_are_kept() {
    let all = "curl http://h/a; curl http://g:81/b; curl http://H:81/c";
    let kept = |host: &str| {
        let mut conversion = converted(all);
        let kept = conversion.keep_host(host);
        kept.map(|()| (conversion.requests.len(), conversion.notes.join("|")))
    };
    let others = |count| format!("left out: {count} to other hosts");
    assert_eq!(kept("h"), Ok((2, others("1 request"))));
    assert_eq!(kept("h:81"), Ok((1, others("2 requests"))));
    assert_eq!(
        kept("x").unwrap_err().to_string(),
        "no request is to \"x\" (they are to http://H:81, http://g:81, http://h)"
    );
    let mut one = converted("curl http://h/a");
    assert_eq!(
        (one.keep_host("h"), one.notes),
        (Ok(()), Vec::<String>::new())
    );
}

#[test]
fn what_changes_nothing_is_named_with_its_reason() {
    let notes = converted("curl -sSL -o x --retry 3 --connect-timeout 2 -o y h | jq .").notes;
    let expected = [
        "left out: what follows the curl command: | jq .",
        "left out: -s, -S, -o: output of curl",
        "left out: -L: redirects are not followed; a load needs the final URL",
        "left out: --retry: how curl makes its one transfer",
        "left out: --connect-timeout: --timeout limits the connect, too",
    ];
    let mut notes = notes;
    notes.rotate_right(1);
    assert_eq!(notes, expected);
    let notes = converted("curl https://h").notes;
    assert!(
        notes[0].contains("--alpn h2,http/1.1 does the same"),
        "{notes:?}"
    );
    for (command, expected) in [
        (
            "curl --http3 http://h",
            "--http3 has no effect on an http:// URL",
        ),
        (
            "curl --http3 https://h",
            "curl would use HTTP/2 or HTTP/1.1",
        ),
    ] {
        let notes = converted(command).notes;
        assert!(notes[0].contains(expected), "{notes:?}");
    }
}

#[test]
fn a_proxy_is_that_of_curl() {
    for (command, expected) in [
        ("curl -x p:1 h", "-x http://p:1"),
        ("curl -x p h", "-x http://p:1080"),
        (
            "curl -x socks5h://u:a%20b@p h",
            "-x socks5h://p:1080 --proxy-user 'u:a b'",
        ),
        (
            "curl -x u:x@p -U 'v:%3A' h",
            "-x http://p:1080 --proxy-user v::",
        ),
        ("curl -x p:1 -p h", "-x http://p:1 -p"),
        (
            "curl -x p:1 --proxy-header 'A: b' --proxy-header C:d h",
            "-x http://p:1 --proxy-header 'A: b' --proxy-header 'C: d'",
        ),
        (
            "curl --socks5 p:1 --proxy-header 'A: b' h",
            "-x socks5://p:1",
        ),
        ("curl --socks5 p:1 -p h", "-x socks5://p:1"),
        ("curl --socks5-hostname http://p h", "-x socks5h://p:1080"),
        ("curl -x https://p h", "-x https://p:443 --proxy-verify"),
        ("curl -x https://p --proxy-insecure h", "-x https://p:443"),
        (
            "curl -x https://p --proxy-cacert c h",
            "-x https://p:443 --proxy-cacert c",
        ),
        ("curl -x p:1 -x '' h", ""),
        ("curl -x p:1 --noproxy '*' h", ""),
        ("curl -x p:1 --noproxy .h a.h", ""),
        ("curl -x p:1 --noproxy i h", "-x http://p:1"),
    ] {
        let words = converted(command).options().unwrap();
        let (url, options) = words.split_last().unwrap();
        assert!(url.ends_with("h/"), "{words:?}");
        assert_eq!(plan::shell::command(options), expected, "{command}");
    }
    let command = "curl -x u:secret@p:1 h";
    let (hidden, has_any) = converted(command).without_secrets();
    assert!(has_any);
    assert!(!format!("{hidden:?}").contains("secret"), "{hidden:?}");
    let words = hidden.options().unwrap();
    assert_eq!(words[..4], ["-x", "http://p:1", "--proxy-user", "***"]);
}

#[test]
fn what_cannot_be_converted_is_refused_with_its_place() {
    for (command, expected) in [
        ("", "column 1: there is no command"),
        ("wget h", "column 1: \"wget\" is not curl"),
        ("curl", "column 1: there is no URL"),
        ("curl -s", "column 6: there is no URL"),
        (
            "curl h --preproxy p:1",
            "column 8: --preproxy is not supported yet",
        ),
        (
            "curl h -x ftp://p:1",
            "column 8: the proxy \"ftp\" is not a kind of proxy",
        ),
        (
            "curl h -x p -U me",
            "column 13: --proxy-user: has no password",
        ),
        (
            "curl -x p --noproxy h h i",
            "column 11: --noproxy: some requests go through the proxy",
        ),
        (
            "curl \\\n --resolve a:1:b h",
            "line 2, column 2: \"a:1:b\" is not a rule (expected HOST:PORT:ADDRESS",
        ),
        (
            "curl --digest -u a:b h",
            "column 6: --digest is not supported yet",
        ),
        (
            "curl --http1.0 h",
            "column 6: --http1.0 is not supported yet",
        ),
        ("curl -K f h", "column 6: -K: write the options of the file"),
        (
            "curl --help",
            "column 6: --help: this command makes no request",
        ),
        ("curl --nope h", "column 6: --nope: curl has no such option"),
        ("curl -@ h", "column 6: -@: curl has no such option"),
        ("curl --u\0 h", "column 6: --u?: curl has no such option"),
        (
            "curl --data- h",
            "column 6: --data- may be any of --data-ascii",
        ),
        ("curl h -H", "column 8: -H: needs a value"),
        ("curl -H nope h", "column 6: \"nope\" has no colon"),
        (
            "curl -H 'a b: c' h",
            "column 6: \"a b\" is not a header name",
        ),
        ("curl -d @nope h", "column 6: cannot read \"nope\""),
        (
            "curl -d @- h",
            "column 6: the command reads its standard input",
        ),
        ("curl -F nope h", "column 6: \"nope\" is not a form field"),
        (
            "curl -F 'a=@line;encoder=base64' h",
            "column 6: ;encoder in the field \"a\"",
        ),
        ("curl -b jar h", "column 6: \"jar\" is a file of cookies"),
        ("curl -u me h", "column 6: -u has no password"),
        ("curl -E a:b https://h", "column 6: --cert: a password"),
        (
            "curl --interface eth0 h",
            "column 6: --interface \"eth0\" is not supported",
        ),
        ("curl -m x h", "column 6: \"x\" is not a number of seconds"),
        (
            "curl ftp://h/",
            "column 6: invalid URL: \"ftp://h/\": scheme",
        ),
        ("curl 'h/[x]'", "column 6: [x] is not a range"),
        (
            "curl -d a -F b=c h",
            "column 18: -d, -F and -I exclude each other",
        ),
        ("curl -r 0-9 -d x h", "column 18: -r of an upload"),
        (
            "curl --request-target x h",
            "column 6: --request-target \"x\": must begin with /",
        ),
        (
            "curl h --next -k https://i",
            "column 18: the parts between --next connect",
        ),
        (
            "curl --expand-data x h",
            "column 6: --expand-data: variables of curl",
        ),
        ("curl 'h", "column 6: the quote ' is not closed"),
    ] {
        let said = error(command);
        let place = said.strip_prefix("curl command, ").unwrap();
        assert!(place.starts_with(expected), "{command}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let words = ["-H", "nope", "h"].map(str::to_owned);
    let said = curl::from_arguments(&words, &read).unwrap_err().to_string();
    assert!(
        said.starts_with("curl command, argument 1: \"nope\" has no colon"),
        "{said}"
    );
}

#[test]
fn secrets_are_hidden_in_every_place_of_a_request() {
    let converted = converted(
        "curl -u me:hush -b sid=hush -H 'X-Api-Key: hush' --json '{\"password\": \"hush\"}' \
         'http://a:hush@h/?token=hush&b=1'",
    );
    let (hidden, has_any) = converted.without_secrets();
    assert!(has_any);
    let text = format!(
        "{:?}{}",
        hidden.options(),
        requests_file::text(&hidden.requests)
    );
    assert!(!text.contains("hush"), "{text}");
    assert!(text.contains("http://***@h/?token=***&b=1"), "{text}");
    assert!(!self::converted("curl h").without_secrets().1);
}

#[test]
fn secrets_are_variables_in_a_command_for_a_shell() {
    let converted = converted(
        "curl -x u:hush@p:1 --proxy-header 'X-Token: hush' -b sid=hush -H 'A: b c' \
         --json '{\"password\": \"hush\", \"pin_token\": 5}' 'http://h/?token=hush&b=it%27s'",
    );
    let mut variables = Variables::default();
    let options = converted.shell_options(&mut variables).unwrap();
    assert!(!options.contains("hush"), "{options}");
    let list = variables.list().expect("there are secrets");
    assert_eq!(
        list,
        "COOKIE (Cookie in a header), PASSWORD (password in a body), \
         PIN_TOKEN (pin_token in a body), PROXY_USER (proxy-user of the proxy), \
         X_TOKEN (X-Token of the proxy), TOKEN (token in a URL)"
    );
    // A shell makes the words of them that have the secrets.
    let shell = |set: &str| {
        let script = format!("{set}\nprintf '%s\\0' {options}");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output();
        output.expect("there is a shell")
    };
    let output = shell(
        "COOKIE=sid=hush PASSWORD=hush PIN_TOKEN=5 PROXY_USER=u:hush X_TOKEN=hush TOKEN=hush",
    );
    let words = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = words.trim_end_matches('\0').split('\0').collect();
    assert_eq!(words, converted.options().unwrap());
    let output = shell("unset COOKIE");
    assert!(!output.status.success() && output.stdout.is_empty());
}

proptest::proptest! {
    #[test]
    fn any_arguments_are_converted_or_refused_in_one_line(
        words in proptest::collection::vec(
            proptest::prop_oneof![
                "-{1,2}[a-zA-Z:#]{1,3}",
                "--(data|form|url|json|next|range)",
                "[a-z]=@?[a-z;\"]{0,4}",
                "http://h/[a-z{}\\[\\]0-9-]{0,5}",
                "\\PC{0,8}",
            ],
            0..8,
        )
    ) {
        match curl::from_arguments(&words, &read) {
            Ok(converted) => for request in &converted.requests {
                proptest::prop_assert!(request.target().is_ok(), "{:?}", request);
            },
            Err(error) => proptest::prop_assert_eq!(error.to_string().lines().count(), 1),
        }
    }
}
