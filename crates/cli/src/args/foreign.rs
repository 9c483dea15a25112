//! Options of other load generators and of curl, with their equivalents here.

use std::ffi::OsString;

use super::Refusal;

/// Options that do not exist here, each with what to use instead.
const FOREIGN: &[(&[&str], &str)] = &[
    (
        &["-k"],
        "certificates are verified only with --verify, and connections are kept open by default",
    ),
    (
        &[
            "--insecure",
            "--skip-verify",
            "--skipVerify",
            "--no-verify",
            "--tls-skip-verify",
            "--insecure-skip-tls-verify",
        ],
        "certificates are verified only with --verify",
    ),
    (
        &["-z", "--time-limit", "--test-duration"],
        "the duration is -d here",
    ),
    (&["-I"], "the method is -X here: -X HEAD"),
    (
        &["-O"],
        "use --json FILE or -o FILE to write the result to a file",
    ),
    (
        &["-e", "--csv"],
        "use --json FILE, then wrkbench report FILE --format csv",
    ),
    (
        &[
            "--qps",
            "--rps",
            "--rate-limit",
            "--max-rate",
            "--overall-rate",
            "--arrival-rate",
        ],
        "the rate is -R here",
    ),
    (
        &[
            "--concurrency",
            "--concurrent",
            "--clients",
            "--users",
            "--vus",
            "-P",
            "--parallel",
        ],
        "the number of connections is -c here",
    ),
    (
        &["--workers", "--cpus", "--thread-num", "-w"],
        "the number of threads is -t here",
    ),
    (
        &[
            "--amount",
            "--iterations",
            "--total",
            "--num-requests",
            "--max-requests",
            "--request-count",
            "--nrequests",
        ],
        "the number of requests is -n here",
    ),
    (
        &["--ramp", "--ramp-up", "--rampup"],
        "use --stages for changing rates, like 1k:30s,1k-5k:1m",
    ),
    (
        &[
            "--data",
            "--data-raw",
            "--data-binary",
            "--data-ascii",
            "--data-urlencode",
            "--json-body",
            "-f",
        ],
        "the body is --body TEXT or --body-file FILE here",
    ),
    (
        &["--body-path", "--postfile"],
        "the body is --body-file FILE here",
    ),
    (
        &["-a", "--basic", "--basic-auth", "--auth"],
        "user and password are -u USER:PASSWORD here",
    ),
    (
        &["-A", "--user-agent", "--accept"],
        "use a header: -H 'Accept: ...', -H 'User-Agent: ...'",
    ),
    (&["-C"], "use a header: -H 'Cookie: ...'"),
    (
        &["--headers", "--host", "--referer", "--content-type"],
        "use a header: -H 'Name: value'",
    ),
    (
        &[
            "--max-time",
            "--connect-timeout",
            "--request-timeout",
            "--socket-timeout",
        ],
        "the timeout is -T here",
    ),
    (
        &[
            "--disable-keepalive",
            "--disable-keep-alive",
            "--no-keep-alive",
            "--noreuse",
        ],
        "this is --no-keepalive here",
    ),
    (
        &["--keepalive", "--keep-alive", "--keepAlive"],
        "connections are kept open by default",
    ),
    (&["--pipelining"], "this is --pipeline here"),
    (
        &["-l", "--latencies", "--histogram", "--print-latency"],
        "latencies are shown with -L here",
    ),
    (&["--verbose"], "this is -v here"),
    (&["--silent"], "this is -q here"),
    (
        &["--no-tui", "--no-progress", "--disable-color"],
        "the full screen needs --tui, and -q hides the progress line",
    ),
    (
        &[
            "--location",
            "--follow",
            "--redirect",
            "--max-redirs",
            "--disable-redirects",
        ],
        "redirects are never followed: their status is counted",
    ),
    (
        &["--socks5", "--socks5-hostname"],
        "the proxy is -x socks5h://HOST:PORT here",
    ),
    (
        &["--h2", "--http2-prior-knowledge"],
        "HTTP/2 is --http2 here",
    ),
    (&["--alpn-list", "--npn-list"], "the list is --alpn here"),
    (
        &[
            "--http1.1",
            "--http1",
            "--no-http2",
            "--disable-compression",
            "--no-alpn",
        ],
        "leave it out: this is the default",
    ),
    (
        &["--compressed", "--gzip"],
        "use a header: -H 'Accept-Encoding: gzip'",
    ),
    (
        &["-E", "--client-cert"],
        "the certificate is --cert FILE with --key FILE here",
    ),
    (
        &["--ca-cert", "--root-certs"],
        "the CA certificates are --cacert FILE here",
    ),
    (
        &["--urls-from-file", "--urls", "--targets"],
        "a file of URLs or requests is --requests FILE here",
    ),
    (
        &["--dist"],
        "the distances of requests are --arrivals even, poisson or gamma:SHAPE here",
    ),
];

/// What to use instead of an option that does not exist here.
pub(super) fn advice(option: &str) -> Option<&'static str> {
    FOREIGN
        .iter()
        .find(|(options, _)| options.contains(&option))
        .map(|(_, advice)| *advice)
}

/// What was probably meant by an argument that a command does not expect.
pub(super) fn advice_on_surplus(command: &str, word: &str) -> Option<String> {
    match command {
        "compare" => Some(
            "compare takes two groups: put a pattern into quotes, like 'old-*.json' 'new-*.json'"
                .to_owned(),
        ),
        "serve" => Some(format!("the address is --listen {word}")),
        _ => None,
    }
}

/// What was probably meant by a value that fits the option of the same name in another tool.
pub(super) fn advice_on_value(option: &str, value: &str) -> Option<&'static str> {
    let is_text = !value.starts_with(|c: char| c.is_ascii_digit() || "+-. ".contains(c));
    match option {
        "--duration" if is_text => Some("a body is --body here"),
        "--timeout" if value.contains('/') => Some("a content type is -H 'Content-Type: ...' here"),
        "--delay-stats" if ["norm", "zipf"].contains(&value) => Some(
            "of the distributions of DeathStarBench's wrk2, fixed and exp are here; more even than \
             exp is --arrivals gamma:4, more uneven gamma:0.5",
        ),
        "--delay-stats" if is_text => Some("the file of a body is --body-file here"),
        "--streams" if is_text => Some("the method is -X here"),
        _ => None,
    }
}

/// The distributions of DeathStarBench's fork of wrk2 (`-D`, `--dist`) that `--arrivals` has, too.
const ARRIVALS_OF_FORK: [(&str, &str); 2] = [("fixed", "even"), ("exp", "poisson")];

/// Replaces `-D exp` and `-D fixed` of DeathStarBench's fork of wrk2 by `--arrivals`. A time after
/// `-D` is wrk-cmm's. Arguments after `--` belong to the script.
pub(super) fn with_our_arrivals(arguments: Vec<OsString>) -> Vec<OsString> {
    let ours = |value: &str| {
        let known = ARRIVALS_OF_FORK.iter().find(|(fork, _)| *fork == value);
        known.map(|(_, ours)| OsString::from(format!("--arrivals={ours}")))
    };
    let mut replaced = Vec::with_capacity(arguments.len());
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().unwrap_or_default();
        let joined = ["-D", "--dist="]
            .iter()
            .find_map(|name| text.strip_prefix(name));
        let arrivals = match text {
            "--" => {
                replaced.push(argument);
                replaced.extend(arguments);
                break;
            }
            "-D" | "--dist" => {
                let next = arguments.peek().and_then(|next| next.to_str());
                let arrivals = next.and_then(ours);
                if arrivals.is_some() {
                    arguments.next();
                }
                arrivals
            }
            _ => joined.and_then(ours),
        };
        replaced.push(arrivals.unwrap_or(argument));
    }
    replaced
}

/// What was probably forgotten if arguments with the format of a log are refused with this message:
/// a shell splits a format without quotes into words, and replaces its variables by nothing. Then a
/// word is taken for the URL, or the URL for the format.
pub(super) fn advice_on_log_format(arguments: &[OsString], refusal: &str) -> Option<&'static str> {
    let texts = arguments.iter().map(|it| it.to_str().unwrap_or_default());
    let mut options = texts.take_while(|it| *it != "--");
    let format = options.find_map(|it| {
        let (name, value) = it
            .split_once('=')
            .map_or((it, None), |(name, value)| (name, Some(value)));
        let is_it = name.len() >= "--log".len() && "--log-format".starts_with(name);
        is_it.then_some(value)
    })?;
    let format = format.or_else(|| options.next()).unwrap_or_default();
    let is_split = refusal.starts_with(INVALID_URL)
        || format.is_empty()
        || (refusal.starts_with("no URL") && format.contains("://"));
    is_split.then_some("put the format of --log-format into single quotes")
}

/// The beginning of the message about a word that is not a URL.
const INVALID_URL: &str = "invalid URL: ";

/// Rejects `-q 100`, the rate in hey and oha: `-q` is `--quiet` here, so the number would be parsed
/// as the URL.
pub(super) fn check_quiet(arguments: &[OsString]) -> Result<(), Refusal> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = |at: usize| arguments.get(at).and_then(|argument| argument.to_str());
    for at in 0..arguments.len() {
        let number = match text(at) {
            Some("--") => break,
            Some("-q") => text(at + 1),
            Some(joined) => joined.strip_prefix("-q"),
            None => None,
        };
        if let Some(number) = number.filter(|number| is_number(number)) {
            return Err(Refusal(format!(
                "-q {number}: -q is --quiet here, and takes no value (the rate is -R)"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::RunArgs;
    use super::*;

    #[test]
    fn no_foreign_option_exists_here_and_none_is_listed_twice() {
        let command = RunArgs::command();
        let ours: Vec<String> = command
            .get_arguments()
            .flat_map(|arg| {
                let long = arg.get_long_and_visible_aliases().unwrap_or_default();
                let long = long.into_iter().map(|name| format!("--{name}"));
                long.chain(arg.get_short().map(|name| format!("-{name}")))
            })
            .collect();
        let mut all: Vec<&str> = FOREIGN
            .iter()
            .flat_map(|(options, _)| options.iter().copied())
            .collect();
        for option in &all {
            let is_ours = |known: &String| {
                known == option || option.starts_with("--") && known.starts_with(option)
            };
            assert!(!ours.iter().any(is_ours), "{option}");
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn distributions_of_the_fork_of_wrk2_become_arrivals() {
        for (line, expected) in [
            ("-R5 -D exp U", "-R5 --arrivals=poisson U"),
            ("-Dfixed -R5 U", "--arrivals=even -R5 U"),
            ("--dist exp U", "--arrivals=poisson U"),
            ("--dist=exp U", "--arrivals=poisson U"),
            ("-D 2s U", "-D 2s U"),
            ("-D2s U", "-D2s U"),
            ("-D norm U", "-D norm U"),
            ("U -D", "U -D"),
            ("-s s.lua U -- -D exp", "-s s.lua U -- -D exp"),
        ] {
            let arguments = line.split(' ').map(OsString::from).collect();
            let replaced = with_our_arrivals(arguments).join(" ".as_ref());
            assert_eq!(replaced.to_str(), Some(expected));
        }
    }

    #[test]
    fn a_format_of_a_log_without_quotes_is_told_apart_from_a_wrong_url() {
        const NO_URL: &str = "no URL to send the requests of the log to";
        const WRONG: &str = "invalid URL: \"x\" has no scheme";
        let advice = |line: &str, refusal: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            advice_on_log_format(&arguments, refusal).is_some()
        };
        for (line, refusal) in [
            ("replay a.log --log-format %h %l %u %t http://h/", WRONG),
            ("--replay a.log --log-form=%h %l http://h/", WRONG),
            ("replay a.log --log-format http://h/", NO_URL),
            ("replay a.log --log-format=http://h/", NO_URL),
            (
                "replay a.log http://h/ --log-format",
                "--log-format: needs a value",
            ),
        ] {
            assert!(advice(line, refusal), "{line}");
        }
        for (line, refusal) in [
            ("replay a.log %l", WRONG),
            ("-c5 nourl", WRONG),
            ("http://h/ -- --log-format", WRONG),
            ("--l x", WRONG),
            ("replay a.log --log-format %t", NO_URL),
            (
                "replay a.log --log-format %t http://h/",
                "--threads 0: must be",
            ),
        ] {
            assert!(!advice(line, refusal), "{line}");
        }
    }

    #[test]
    fn a_number_after_q_is_rejected_and_q_alone_is_not() {
        let check = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            check_quiet(&arguments).map_err(|Refusal(line)| line)
        };
        let refused = "-q 100: -q is --quiet here, and takes no value (the rate is -R)";
        assert_eq!(check("-c5 -q 100 http://h/"), Err(refused.to_owned()));
        assert_eq!(check("-q100 http://h/"), Err(refused.to_owned()));
        for line in [
            "-q http://h/",
            "http://h/ -q",
            "-qL http://h/",
            "http://h/ -- -q 100",
        ] {
            assert_eq!(check(line), Ok(()), "{line}");
        }
    }
}
