//! What comes out of a conversion, and the options of `wrkbench` that say the same.

use std::collections::BTreeSet;
use std::path::PathBuf;

use plan::readable::counted;
use plan::secrets::{
    Secret, hide_in_body, hide_in_header, hide_in_url, secrets_in_body, secrets_in_header,
    secrets_in_url,
};
use plan::{Body, Heading, ProxySpec, RunPlan, Target, UrlError};

use crate::variables::{MarkedText, SecretPlace, Variables};

/// Requests and how to connect for them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversion {
    /// In the order of the source; never empty.
    pub requests: Vec<Request>,
    /// Settings of the connections of all requests.
    pub connection: Connection,
    /// What was left out or differs, one line each.
    pub notes: Vec<String>,
    /// The requests are what a browser has sent, so their servers were not chosen by hand.
    pub is_recording: bool,
}

/// One request of the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The method; `None` is GET, or POST with a body.
    pub method: Option<String>,
    /// An http or https URL that [`Target::parse`] accepts.
    pub url: String,
    /// Names and values in the order of the source.
    pub headers: Vec<(String, String)>,
    /// The body; `None` if the request has none.
    pub body: Option<Body>,
}

/// Settings of connections, as far as the source has them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Connection {
    /// Time limit of a request, seconds.
    pub timeout_s: Option<f64>,
    /// Whether the certificate of the server is verified.
    pub verify: bool,
    /// CA certificates to trust.
    pub cacert: Option<PathBuf>,
    /// PEM file with the client certificate and its chain.
    pub cert: Option<PathBuf>,
    /// Private key of the client certificate.
    pub key: Option<PathBuf>,
    /// Unix socket to connect to.
    pub unix_socket: Option<PathBuf>,
    /// Address to connect from.
    pub source: Option<String>,
    /// Addresses in place of others, each as in `--resolve`.
    pub resolve: Vec<String>,
    /// Hosts in place of others, each as in `--connect-to`.
    pub connect_to: Vec<String>,
    /// The proxy through which requests go; `None` for a direct connection.
    pub proxy: Option<ProxySpec>,
    /// The version of HTTP.
    pub version: Version,
}

/// The version of HTTP that a source asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version {
    /// The source does not say.
    #[default]
    Unknown,
    /// HTTP/1.1 only, as with `--http1.1`.
    Http1,
    /// HTTP/2 or HTTP/1.1, as the server chooses over TLS.
    Http2,
    /// HTTP/2 only, also without TLS.
    Http2Only,
    /// HTTP/3, or over TCP if the server does not have it.
    Http3,
    /// HTTP/3 only.
    Http3Only,
}

/// The longest argument that Linux passes to a program (MAX_ARG_STRLEN, execve(2)), with its NUL.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024 - 1;

/// Why requests cannot be sent as they are wanted, one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// No request is to the wanted host; they are to these servers.
    #[error("no request is to {:?} (they are to {})", .0, .1.join(", "))]
    OtherHosts(String, Vec<String>),
    /// A command has one request.
    #[error(
        "{0} requests are too many for one command (write them to a file with --output FILE, for \
         --requests FILE)"
    )]
    SeveralRequests(usize),
    /// The body is longer than [`MAX_ARGUMENT_BYTES`].
    #[error(
        "the body has {0} bytes, more than an argument can have (write the request to a file with \
         --output)"
    )]
    LongBody(usize),
    /// The body is not UTF-8, or has a NUL.
    #[error("the body is not text (write the request to a file with --output)")]
    NoText,
}

impl Conversion {
    /// The servers of the requests, as in their URLs: scheme, host and port.
    #[must_use]
    pub fn servers(&self) -> BTreeSet<String> {
        let servers = self.requests.iter().filter_map(Request::server);
        servers.collect()
    }

    /// Whether only a file of requests can have them: there are several, or one repeats a header,
    /// of which a command line sends the last.
    #[must_use]
    pub fn needs_file(&self) -> bool {
        self.requests.len() != 1 || self.repeated_header().is_some()
    }

    /// A header that a request has more than once.
    #[must_use]
    pub fn repeated_header(&self) -> Option<&str> {
        self.requests.iter().find_map(|request| {
            let names = || request.headers.iter().map(|(name, _)| name.as_str());
            let repeats = |(at, name): (usize, &str)| {
                let mut before = names().take(at);
                before.any(|other| other.eq_ignore_ascii_case(name))
            };
            names().enumerate().find(|&it| repeats(it)).map(|it| it.1)
        })
    }

    /// Leaves out the requests to other hosts than this one, which may have its port, and notes how
    /// many these were.
    ///
    /// # Errors
    /// If none is left.
    pub fn keep_host(&mut self, host: &str) -> Result<(), ConversionError> {
        let servers = self.servers();
        let all = self.requests.len();
        self.requests.retain(|request| {
            let target = request.target().ok();
            target.is_some_and(|target| target.is_host(host))
        });
        match all - self.requests.len() {
            _ if self.requests.is_empty() => {
                let servers = servers.into_iter().collect();
                Err(ConversionError::OtherHosts(host.to_owned(), servers))
            }
            0 => Ok(()),
            others => {
                let others = counted(others as u64, "request");
                self.notes
                    .push(format!("left out: {others} to other hosts"));
                Ok(())
            }
        }
    }

    /// The conversion with passwords, tokens and cookies hidden, and whether there were any.
    #[must_use]
    pub fn without_secrets(&self) -> (Self, bool) {
        let mut hidden = self.clone();
        for request in &mut hidden.requests {
            request.hide_secrets();
        }
        let proxy = hidden.connection.proxy.take();
        hidden.connection.proxy = proxy.map(ProxySpec::without_secrets);
        let has_any = hidden != *self;
        (hidden, has_any)
    }

    /// The arguments of `wrkbench` that send the only request: options and the URL.
    ///
    /// # Errors
    /// If there is more than one request, or the body cannot be an argument.
    pub fn options(&self) -> Result<Vec<String>, ConversionError> {
        let words = self.words()?.into_iter();
        Ok(words.map(|word| word.text).collect())
    }

    /// The same for a shell, with variables in place of secrets.
    ///
    /// # Errors
    /// As [`Self::options`].
    pub fn shell_options(&self, variables: &mut Variables) -> Result<String, ConversionError> {
        let words = self.words()?;
        let words: Vec<String> = words.iter().map(|word| variables.word(word)).collect();
        Ok(words.join(" "))
    }

    fn words(&self) -> Result<Vec<MarkedText>, ConversionError> {
        let [request] = self.requests.as_slice() else {
            return Err(ConversionError::SeveralRequests(self.requests.len()));
        };
        let mut words = request.words()?;
        words.extend(self.connection.words(&request.url));
        let (url, secrets) = (request.url.clone(), secrets_in_url(&request.url));
        words.push(MarkedText::new(url, secrets, SecretPlace::Url));
        Ok(words)
    }

    /// The arguments of `wrkbench` for the connection to the server of these requests.
    #[must_use]
    pub fn connection_options(&self) -> Vec<String> {
        let first = self.requests.first();
        first.map_or_else(Vec::new, |first| self.connection.options(&first.url))
    }

    /// The same for a shell, with variables in place of secrets.
    #[must_use]
    pub fn shell_connection_options(&self, variables: &mut Variables) -> String {
        let first = self.requests.first();
        let words = first.map_or_else(Vec::new, |first| self.connection.words(&first.url));
        let words: Vec<String> = words.iter().map(|word| variables.word(word)).collect();
        words.join(" ")
    }
}

impl Request {
    /// The URL in its parts.
    ///
    /// # Errors
    /// If the URL is not one.
    pub fn target(&self) -> Result<Target, UrlError> {
        Target::parse(&self.url)
    }

    fn server(&self) -> Option<String> {
        let target = self.target().ok()?;
        Some(format!("{}://{}", target.scheme.name(), target.host_header))
    }

    fn hide_secrets(&mut self) {
        self.url = hide_in_url(&self.url);
        for (name, value) in &mut self.headers {
            *value = hide_in_header(name, value);
        }
        if let Some(Body::Inline(bytes)) = &mut self.body {
            *bytes = hide_in_body(bytes);
        }
    }

    fn words(&self) -> Result<Vec<MarkedText>, ConversionError> {
        let mut words = Vec::new();
        let mut add = |option: &str, value| words.extend([MarkedText::plain(option), value]);
        if let Some(method) = &self.method {
            add("-X", MarkedText::plain(method));
        }
        for (name, value) in &self.headers {
            add("-H", header(name, value, SecretPlace::Header));
        }
        match &self.body {
            None => (),
            Some(Body::File(path)) => {
                add("--body-file", MarkedText::plain(path.display().to_string()))
            }
            Some(Body::Inline(bytes)) => {
                let text = argument(bytes)?;
                let secrets = secrets_in_body(&text);
                add("--body", MarkedText::new(text, secrets, SecretPlace::Body));
            }
        }
        Ok(words)
    }
}

/// A header as an argument.
fn header(name: &str, value: &str, part: SecretPlace) -> MarkedText {
    let value = MarkedText::new(value, secrets_in_header(name, value), part);
    value.after(&format!("{name}: "))
}

/// A body as an argument of a command.
fn argument(bytes: &[u8]) -> Result<String, ConversionError> {
    match std::str::from_utf8(bytes) {
        _ if bytes.len() > MAX_ARGUMENT_BYTES => Err(ConversionError::LongBody(bytes.len())),
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(ConversionError::NoText),
    }
}

impl Connection {
    /// Its options, of which only those of the proxy have secrets.
    fn words(&self, url: &str) -> Vec<MarkedText> {
        let options = self.options(url);
        let before = std::iter::once("").chain(options.iter().map(String::as_str));
        let words = before.zip(&options).map(|(option, word)| match option {
            "--proxy-user" => {
                let secret = Secret::new("proxy-user", 0..word.len());
                MarkedText::new(word, secret.into_iter().collect(), SecretPlace::Proxy)
            }
            "--proxy-header" => match word.split_once(": ") {
                Some((name, value)) => header(name, value, SecretPlace::Proxy),
                None => MarkedText::plain(word),
            },
            _ => MarkedText::plain(word),
        });
        words.collect()
    }

    fn options(&self, url: &str) -> Vec<String> {
        let is_tls = url
            .get(..8)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
        let mut words = Vec::new();
        match self.version {
            Version::Http2 if is_tls => words.extend(["--alpn", "h2,http/1.1"].map(str::to_owned)),
            Version::Http2Only => words.push("--http2".to_owned()),
            Version::Http3 if is_tls => words.push("--http3".to_owned()),
            Version::Http3Only => words.push("--http3".to_owned()),
            Version::Unknown | Version::Http1 | Version::Http2 | Version::Http3 => (),
        }
        // A CA certificate implies it.
        if is_tls && self.verify && self.cacert.is_none() {
            words.push("--verify".to_owned());
        }
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let values = [
            ("--cacert", path(&self.cacert).filter(|_| is_tls)),
            ("--cert", path(&self.cert).filter(|_| is_tls)),
            ("--key", path(&self.key).filter(|_| is_tls)),
            ("--unix-socket", path(&self.unix_socket)),
            ("--bind-ip", self.source.clone()),
            ("--timeout", self.timeout_s.map(|time| format!("{time}s"))),
        ];
        for (option, value) in values {
            words.extend(value.into_iter().flat_map(|it| [option.to_owned(), it]));
        }
        for (option, rules) in [
            ("--resolve", &self.resolve),
            ("--connect-to", &self.connect_to),
        ] {
            words.extend(rules.iter().flat_map(|it| [option.to_owned(), it.clone()]));
        }
        if let (Some(proxy), Ok(target)) = (&self.proxy, Target::parse(url)) {
            let plan = RunPlan {
                proxy: Some(proxy.clone()),
                ..RunPlan::new(target)
            };
            words.extend(plan.words_below(Heading::Proxy));
        }
        words
    }
}
