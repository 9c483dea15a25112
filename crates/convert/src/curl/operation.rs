//! The options between two `--next`, and the requests that they make.

use plan::{
    Body, ConnectRule, ProxyScheme, ProxySpec, ResolveRule, RuleError, Target, basic_authorization,
    check_header, parse_headers,
};

use super::data::{self, Data};
use super::form;
use super::options::Effect;
use super::proxy::ProxyOptions;
use super::{CurlError, ReadFile, url};
use crate::conversion::{Connection, Request, Version};
use crate::form::{FormPart, body as form_body};
use crate::shell_words::{CommandPosition, Word};

/// The encodings that a complete curl 8 accepts with `--compressed`.
const ENCODINGS: &str = "deflate, gzip, br, zstd";

#[derive(Debug, Default)]
pub(super) struct Operation {
    urls: Vec<Word>,
    uploads: Vec<Word>,
    method: Option<String>,
    /// `-H`, in their order. An empty value removes curl's own header.
    headers: Vec<(String, Option<String>)>,
    data: Data,
    form: Vec<FormPart>,
    query: Vec<u8>,
    is_json: bool,
    is_get: bool,
    is_head: bool,
    is_globbing_off: bool,
    is_path_kept: bool,
    escapes_form: bool,
    is_insecure: bool,
    is_compressed: bool,
    asks_for_transfer_encoding: bool,
    cookies: Vec<String>,
    user: Option<String>,
    bearer: Option<String>,
    agent: Option<String>,
    referer: Option<String>,
    range: Option<String>,
    target: Option<Word>,
    default_scheme: Option<String>,
    proxy: ProxyOptions,
    connection: Connection,
}

impl Operation {
    pub(super) fn is_empty(&self) -> bool {
        self.urls.is_empty()
    }

    /// Applies an option to this operation.
    pub(super) fn apply(
        &mut self,
        effect: Effect,
        is_on: bool,
        word: Word,
        read: ReadFile<'_>,
    ) -> Result<(), CurlError> {
        let text = word.text.clone();
        let connection = &mut self.connection;
        match effect {
            Effect::Url => self.urls.push(word),
            Effect::UploadFile => self.uploads.push(word),
            Effect::Request => self.method = Some(text),
            Effect::Header => self.add_headers(&word, read)?,
            Effect::Data => self.data.push("&", data::of(&word, false, read)?),
            Effect::DataBinary => self.data.push("&", data::of(&word, true, read)?),
            Effect::DataRaw => self.data.push("&", Data::Bytes(text.into_bytes())),
            Effect::DataUrlencode => {
                let encoded = data::urlencoded(&word, read)?;
                self.data.push("&", Data::Bytes(encoded));
            }
            Effect::Json => {
                self.is_json = true;
                self.data.push("", data::of(&word, true, read)?);
            }
            Effect::UrlQuery => self.add_query(&word, read)?,
            Effect::Form => self.form.push(form::part(&word, read)?),
            Effect::FormString => self.form.push(form::literal_part(&word)?),
            Effect::FormEscape => self.escapes_form = is_on,
            Effect::Get => self.is_get = is_on,
            Effect::Head => self.is_head = is_on,
            Effect::Globoff => self.is_globbing_off = is_on,
            Effect::PathAsIs => self.is_path_kept = is_on,
            Effect::Compressed => self.is_compressed = is_on,
            Effect::TransferEncoding => self.asks_for_transfer_encoding = is_on,
            Effect::Cookie => self.add_cookies(&word)?,
            Effect::User => self.user = Some(user(&word)?),
            Effect::Bearer => self.bearer = Some(text),
            Effect::UserAgent => self.agent = Some(text),
            Effect::Referer => self.referer = Some(referer(&word)),
            Effect::Range => self.range = Some(text),
            Effect::RequestTarget => self.target = Some(word),
            Effect::ProtoDefault => self.default_scheme = Some(text),
            Effect::Insecure => self.is_insecure = is_on,
            Effect::CaCert => connection.cacert = Some(text.into()),
            Effect::Cert => connection.cert = Some(certificate(&word)?.into()),
            Effect::Key => connection.key = Some(text.into()),
            Effect::UnixSocket => connection.unix_socket = Some(text.into()),
            Effect::Resolve => connection.resolve.push(rule(word, ResolveRule::parse)?),
            Effect::ConnectTo => connection.connect_to.push(rule(word, ConnectRule::parse)?),
            Effect::Proxy => self.proxy.url = Some(word),
            Effect::Socks5 => self.proxy.set(ProxyScheme::Socks5, word),
            Effect::Socks5Hostname => self.proxy.set(ProxyScheme::Socks5h, word),
            Effect::ProxyUser => self.proxy.user = Some(proxy_user(&word)?),
            Effect::ProxyTunnel => self.proxy.tunnel = is_on,
            Effect::ProxyCaCert => self.proxy.cacert = Some(text.into()),
            Effect::ProxyHeader => self.proxy.headers.extend(proxy_headers(&word)?),
            Effect::ProxyInsecure => self.proxy.is_insecure = is_on,
            Effect::NoProxy => self.proxy.direct = Some(word),
            Effect::Interface => connection.source = Some(source(&word)?),
            Effect::MaxTime => connection.timeout_s = seconds(&word)?,
            Effect::Http1 => connection.version = Version::Http1,
            Effect::Http2 => connection.version = Version::Http2,
            Effect::Http2Only => connection.version = Version::Http2Only,
            Effect::Http3 => connection.version = Version::Http3,
            Effect::Http3Only => connection.version = Version::Http3Only,
            // Separates operations.
            Effect::Next => (),
        }
        Ok(())
    }

    /// Form data, or after `+` a part of the query as it is.
    fn add_query(&mut self, word: &Word, read: ReadFile<'_>) -> Result<(), CurlError> {
        let part = match word.text.strip_prefix('+') {
            Some(raw) => raw.as_bytes().to_vec(),
            None => data::urlencoded(word, read)?,
        };
        if !self.query.is_empty() {
            self.query.push(b'&');
        }
        self.query.extend(part);
        Ok(())
    }

    /// `Name: value`, `Name;` for an empty value, `Name:` to remove, or `@file` with a header in
    /// each line.
    fn add_headers(&mut self, word: &Word, read: ReadFile<'_>) -> Result<(), CurlError> {
        let error = |message: String| CurlError::new(word.position, message);
        if let Some(name) = word.text.strip_prefix('@') {
            let bytes = data::read_file(name, word.position, read)?;
            let text = String::from_utf8(bytes)
                .map_err(|_| error(format!("{name:?} with headers is not UTF-8")))?;
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                let text = line.to_owned();
                self.add_headers(&Word { text, ..*word }, &|_| Ok(Vec::new()))?;
            }
            return Ok(());
        }
        let text = &word.text;
        let (name, value) = match text.split_once(':') {
            Some((name, value)) if value.trim().is_empty() => (name, None),
            Some((name, value)) => (name, Some(value.trim_start())),
            None => match text.strip_suffix(';') {
                Some(name) => (name, Some("")),
                None => {
                    let message = format!("{text:?} has no colon (expected \"Name: value\")");
                    return Err(error(message));
                }
            },
        };
        check_header(name, value.unwrap_or_default())
            .map_err(|refusal| error(refusal.to_string()))?;
        let header = (name.to_owned(), value.map(str::to_owned));
        self.headers.push(header);
        Ok(())
    }

    fn add_cookies(&mut self, word: &Word) -> Result<(), CurlError> {
        match word.text.as_str() {
            // `-b ''` only makes curl remember cookies.
            "" => Ok(()),
            text if text.contains('=') => {
                self.cookies.push(text.to_owned());
                Ok(())
            }
            file => {
                let message = format!(
                    "{file:?} is a file of cookies, which is not supported (write the cookies: \
                     -b 'name=value')"
                );
                Err(CurlError::new(word.position, message))
            }
        }
    }

    /// The requests, one for each URL.
    pub(super) fn into_requests(
        mut self,
        read: ReadFile<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(Vec<Request>, Connection), CurlError> {
        let bodies = usize::from(self.data.is_some()) + usize::from(!self.form.is_empty());
        let position = self.urls.first().map(|word| word.position);
        let Some(position) = position else {
            let start = CommandPosition::Text { line: 1, column: 1 };
            return Err(CurlError::new(start, "a part of the command has no URL"));
        };
        if bodies + usize::from(self.is_head) > 1 && !self.is_get {
            let message = "-d, -F and -I exclude each other: each is another method";
            return Err(CurlError::new(position, message));
        }
        if self.is_get {
            let data = std::mem::take(&mut self.data).into_bytes();
            if !self.query.is_empty() && !data.is_empty() {
                self.query.push(b'&');
            }
            self.query.extend(data);
        }
        let (body, content_type) = self.take_body();
        if self.range.is_some() && (body.is_some() || !self.uploads.is_empty()) {
            let message = "-r of an upload is not supported";
            return Err(CurlError::new(position, message));
        }
        let headers = self.all_headers(content_type, notes);
        let urls = std::mem::take(&mut self.urls);
        let mut uploads = std::mem::take(&mut self.uploads).into_iter();
        let mut requests = Vec::new();
        for word in urls {
            let upload = uploads.next();
            let sent = match &upload {
                None => body.clone(),
                Some(file) => {
                    data::read_file(&file.text, file.position, read)?;
                    Some(Body::File(file.text.clone().into()))
                }
            };
            for url in self.urls_of(&word, upload.as_ref())? {
                requests.push(Request {
                    method: self.method_for(sent.is_some(), upload.is_some()),
                    url,
                    headers: headers.clone(),
                    body: sent.clone(),
                });
            }
        }
        let proxy = std::mem::take(&mut self.proxy).for_requests(&requests)?;
        let is_tls = requests.iter().any(|it| it.url.starts_with("https://"));
        let mut connection = self.into_connection(is_tls, notes);
        connection.proxy = proxy;
        Ok((requests, connection))
    }

    /// The body and its type, if curl has one for it.
    fn take_body(&mut self) -> (Option<Body>, Option<String>) {
        if !self.form.is_empty() {
            let (body, boundary) = form_body(&self.form, self.escapes_form);
            let its = format!("multipart/form-data; boundary={boundary}");
            return (Some(Body::Inline(body)), Some(its));
        }
        let body = std::mem::take(&mut self.data).into_body();
        let its = if self.is_json {
            "application/json"
        } else {
            "application/x-www-form-urlencoded"
        };
        let its = body.is_some().then(|| its.to_owned());
        (body, its)
    }

    /// The method, unless it is the one that `wrkbench` takes anyway.
    fn method_for(&self, has_body: bool, is_upload: bool) -> Option<String> {
        let usual = if has_body { "POST" } else { "GET" };
        let method = match &self.method {
            Some(method) => method,
            None if self.is_head => "HEAD",
            None if is_upload => "PUT",
            None => usual,
        };
        (method != usual).then(|| method.to_owned())
    }

    /// curl's own headers, unless the command replaces or removes them, and those of the command.
    fn all_headers(
        &self,
        content_type: Option<String>,
        notes: &mut Vec<String>,
    ) -> Vec<(String, String)> {
        let json = self.is_json.then(|| "application/json".to_owned());
        let own = [
            ("Authorization", self.authorization()),
            (
                "Range",
                self.range.as_ref().map(|range| format!("bytes={range}")),
            ),
            (
                "User-Agent",
                self.agent.clone().filter(|agent| !agent.is_empty()),
            ),
            ("Referer", self.referer.clone()),
            ("Accept", json),
            (
                "Accept-Encoding",
                self.is_compressed.then(|| ENCODINGS.to_owned()),
            ),
            (
                "TE",
                self.asks_for_transfer_encoding.then(|| "gzip".to_owned()),
            ),
            (
                "Cookie",
                (!self.cookies.is_empty()).then(|| self.cookies.join("; ")),
            ),
            ("Content-Type", content_type),
        ];
        let is_replaced = |name: &str| {
            let mut typed = self.headers.iter();
            typed.any(|(typed, _)| typed.eq_ignore_ascii_case(name))
        };
        let own = own.into_iter().filter(|(name, _)| !is_replaced(name));
        let own = own.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let mut headers: Vec<(String, String)> = own.collect();
        for (name, value) in &self.headers {
            let Some(value) = value else {
                continue;
            };
            if FRAMING.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                // The length of the body is sent without being asked for.
                if !name.eq_ignore_ascii_case("Content-Length") {
                    notes.push(format!(
                        "left out: the header {name}: a body is sent at once, with its length"
                    ));
                }
                continue;
            }
            headers.push((name.clone(), value.clone()));
        }
        headers
    }

    fn authorization(&self) -> Option<String> {
        let bearer = self.bearer.as_ref().map(|token| format!("Bearer {token}"));
        bearer.or_else(|| self.user.as_deref().and_then(basic_authorization))
    }

    /// The URLs of a word, complete.
    fn urls_of(&self, word: &Word, upload: Option<&Word>) -> Result<Vec<String>, CurlError> {
        let error = |message: String| CurlError::new(word.position, message);
        let all = if self.is_globbing_off {
            vec![word.text.clone()]
        } else {
            url::globbed(&word.text)
                .map_err(|why| error(format!("{why} (--globoff takes the URL as it is)")))?
        };
        let target = match &self.target {
            Some(target) if !target.text.starts_with('/') => {
                let message = format!("--request-target {:?}: must begin with /", target.text);
                return Err(CurlError::new(target.position, message));
            }
            target => target.as_ref().map(|target| target.text.as_str()),
        };
        let query = String::from_utf8(self.query.clone())
            .map_err(|_| error("the query is not UTF-8".to_owned()))?;
        let scheme = self.default_scheme.as_deref().unwrap_or("http");
        let complete = |text: String| {
            let mut url = url::normalized(&text, scheme, &query, self.is_path_kept, target);
            if let Some(file) = upload.filter(|_| url.ends_with('/')) {
                // As in curl, a folder gets the name of the file.
                url.push_str(file.text.rsplit('/').next().unwrap_or_default());
            }
            match Target::parse(&url) {
                Ok(_) => Ok(url),
                Err(refusal) => Err(error(refusal.to_string())),
            }
        };
        all.into_iter().map(complete).collect()
    }

    fn into_connection(self, is_tls: bool, notes: &mut Vec<String>) -> Connection {
        let mut connection = self.connection;
        connection.verify = !self.is_insecure;
        if self.is_insecure {
            // It would verify again.
            connection.cacert = None;
        }
        if connection.key.is_none() {
            // As in curl, both may be in one file.
            connection.key.clone_from(&connection.cert);
        }
        match connection.version {
            Version::Http2 if !is_tls => notes.push(
                "--http2 on an http:// URL asks for an upgrade, which is not supported: HTTP/1.1 \
                 is used (--http2-prior-knowledge is HTTP/2 from the start)"
                    .to_owned(),
            ),
            Version::Http3 if !is_tls => notes.push(
                "--http3 has no effect on an http:// URL: HTTP/1.1 is used, as by curl".to_owned(),
            ),
            Version::Http3 => notes.push(
                "curl would use HTTP/2 or HTTP/1.1 if the server had no HTTP/3; the load does not"
                    .to_owned(),
            ),
            Version::Unknown if is_tls => notes.push(
                "curl would offer HTTP/2 in the TLS handshake; --alpn h2,http/1.1 does the same"
                    .to_owned(),
            ),
            _ => (),
        }
        connection
    }
}

/// Headers about the framing of the body, which the load generator makes itself.
const FRAMING: [&str; 3] = ["Content-Length", "Transfer-Encoding", "Expect"];

/// `user:password`, as it was given.
fn user(word: &Word) -> Result<String, CurlError> {
    match basic_authorization(&word.text) {
        Some(_) => Ok(word.text.clone()),
        None => Err(CurlError::new(
            word.position,
            "-u has no password (expected user:password)",
        )),
    }
}

/// `user:password` for the proxy, which curl decodes.
fn proxy_user(word: &Word) -> Result<String, CurlError> {
    let error = |why: &str| CurlError::new(word.position, format!("--proxy-user: {why}"));
    if word.text.contains(':') {
        ProxySpec::decoded_user(&word.text).map_err(|why| error(&why.to_string()))
    } else {
        Err(error("has no password (expected user:password)"))
    }
}

fn proxy_headers(word: &Word) -> Result<Vec<(String, String)>, CurlError> {
    parse_headers(&word.text).map_err(|error| CurlError::new(word.position, error.to_string()))
}

/// The URL without `;auto`, which is about redirects.
fn referer(word: &Word) -> String {
    let text = &word.text;
    text.strip_suffix(";auto").unwrap_or(text).to_owned()
}

/// The text of a rule for addresses, if it has the right form.
fn rule<R>(word: Word, parse: fn(&str) -> Result<R, RuleError>) -> Result<String, CurlError> {
    match parse(&word.text) {
        Ok(_) => Ok(word.text),
        Err(error) => {
            let message = format!("{:?} {error}", word.text);
            Err(CurlError::new(word.position, message))
        }
    }
}

/// A PEM file without a password.
fn certificate(word: &Word) -> Result<&str, CurlError> {
    if !word.text.contains(':') {
        Ok(&word.text)
    } else {
        Err(CurlError::new(
            word.position,
            "--cert: a password of the certificate is not supported (write a key without one)",
        ))
    }
}

/// An address; the name of an interface would have to be looked up.
fn source(word: &Word) -> Result<String, CurlError> {
    let text = word.text.strip_prefix("host!").unwrap_or(&word.text);
    match text.parse::<std::net::IpAddr>() {
        Ok(address) => Ok(address.to_string()),
        Err(_) => Err(CurlError::new(
            word.position,
            format!("--interface {text:?} is not supported (expected an address)"),
        )),
    }
}

/// A number of seconds; 0 is no limit.
fn seconds(word: &Word) -> Result<Option<f64>, CurlError> {
    match word.text.parse::<f64>() {
        Ok(time) if (0.0..1e9).contains(&time) => Ok(Some(time)),
        _ => Err(CurlError::new(
            word.position,
            format!("{:?} is not a number of seconds", word.text),
        )),
    }
}
