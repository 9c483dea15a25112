//! Every option of curl 8, and what it means for a load.

/// An option of curl.
#[derive(Debug, Clone, Copy)]
pub(super) struct CurlOption {
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    pub(super) takes_value: bool,
    pub(super) meaning: Meaning,
}

/// What an option of curl means for a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The option is converted to this effect.
    Converted(Effect),
    /// The option changes nothing about the request. It is left out, with this reason in a note.
    LeftOut(Reason),
    /// The option changes what is sent, or where, and there is no such option: the command is
    /// refused.
    Unsupported,
}

/// What a converted option changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Bearer,
    CaCert,
    Cert,
    Compressed,
    Cookie,
    Data,
    DataBinary,
    DataRaw,
    DataUrlencode,
    Form,
    FormEscape,
    FormString,
    Get,
    Globoff,
    Head,
    Header,
    Http1,
    Http2,
    Http2Only,
    Http3,
    Http3Only,
    Insecure,
    Interface,
    Json,
    Key,
    MaxTime,
    Next,
    NoProxy,
    PathAsIs,
    ProtoDefault,
    Proxy,
    ProxyCaCert,
    ProxyHeader,
    ProxyInsecure,
    ProxyTunnel,
    ProxyUser,
    Range,
    Referer,
    Request,
    RequestTarget,
    TransferEncoding,
    UnixSocket,
    Resolve,
    Socks5,
    Socks5Hostname,
    ConnectTo,
    UploadFile,
    Url,
    UrlQuery,
    User,
    UserAgent,
}

/// Why an option is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Output,
    Redirects,
    Transfer,
    Tls,
    Resolver,
    Caches,
    ConnectTimeout,
    OtherProtocols,
}

impl Reason {
    pub(super) const ALL: [Self; 8] = [
        Self::Output,
        Self::Redirects,
        Self::Transfer,
        Self::Tls,
        Self::Resolver,
        Self::Caches,
        Self::ConnectTimeout,
        Self::OtherProtocols,
    ];

    /// Completes the sentence "left out: -o: ...".
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Output => "output of curl",
            Self::Redirects => "redirects are not followed; a load needs the final URL",
            Self::Transfer => "how curl makes its one transfer",
            Self::Tls => "versions, ciphers and sessions of TLS are chosen by the handshake",
            Self::Resolver => "the address is the first one of the system's resolver",
            Self::Caches => "files in which curl keeps what servers said",
            Self::ConnectTimeout => "--timeout limits the connect, too",
            Self::OtherProtocols => "not for HTTP",
        }
    }
}

/// The option with this long name: exactly, else the only one that begins with it, as in curl.
///
/// # Errors
/// The names that begin with it, if there are several.
pub(super) fn by_long(name: &str) -> Result<Option<&'static CurlOption>, Vec<&'static str>> {
    if let Some(exact) = OPTIONS.iter().find(|option| option.long == name) {
        return Ok(Some(exact));
    }
    let mut meant = OPTIONS.iter().filter(|it| it.long.starts_with(name));
    match (meant.next(), meant.next()) {
        (Some(first), Some(second)) if !name.is_empty() => {
            let rest = meant.map(|it| it.long);
            Err([first.long, second.long].into_iter().chain(rest).collect())
        }
        (Some(only), None) => Ok(Some(only)),
        _ => Ok(None),
    }
}

/// The option with this letter.
pub(super) fn by_short(letter: char) -> Option<&'static CurlOption> {
    OPTIONS.iter().find(|option| option.short == Some(letter))
}

const fn flag(long: &'static str, meaning: Meaning) -> CurlOption {
    CurlOption {
        long,
        short: None,
        takes_value: false,
        meaning,
    }
}

const fn value(long: &'static str, meaning: Meaning) -> CurlOption {
    CurlOption {
        takes_value: true,
        ..flag(long, meaning)
    }
}

const fn short(letter: char, option: CurlOption) -> CurlOption {
    CurlOption {
        short: Some(letter),
        ..option
    }
}

const fn to(effect: Effect) -> Meaning {
    Meaning::Converted(effect)
}

const OUTPUT: Meaning = Meaning::LeftOut(Reason::Output);
const REDIRECTS: Meaning = Meaning::LeftOut(Reason::Redirects);
const TRANSFER: Meaning = Meaning::LeftOut(Reason::Transfer);
const TLS: Meaning = Meaning::LeftOut(Reason::Tls);
const RESOLVER: Meaning = Meaning::LeftOut(Reason::Resolver);
const CACHES: Meaning = Meaning::LeftOut(Reason::Caches);
const OTHER: Meaning = Meaning::LeftOut(Reason::OtherProtocols);
const UNSUPPORTED: Meaning = Meaning::Unsupported;

/// In the order of curl's manual. A name without `no-`: curl has that form of every flag.
#[rustfmt::skip]
const OPTIONS: &[CurlOption] = &[
    value("abstract-unix-socket", UNSUPPORTED),
    value("alt-svc", CACHES),
    flag("alpn", TLS),
    flag("anyauth", UNSUPPORTED),
    short('a', flag("append", OTHER)),
    value("aws-sigv4", UNSUPPORTED),
    flag("basic", TRANSFER),
    short('N', flag("buffer", OUTPUT)),
    flag("ca-native", TLS),
    value("cacert", to(Effect::CaCert)),
    value("capath", UNSUPPORTED),
    short('E', value("cert", to(Effect::Cert))),
    flag("cert-status", TLS),
    value("cert-type", UNSUPPORTED),
    value("ciphers", TLS),
    flag("clobber", OUTPUT),
    flag("compressed", to(Effect::Compressed)),
    flag("compressed-ssh", OTHER),
    short('K', value("config", UNSUPPORTED)),
    value("connect-timeout", Meaning::LeftOut(Reason::ConnectTimeout)),
    value("connect-to", to(Effect::ConnectTo)),
    short('C', value("continue-at", UNSUPPORTED)),
    short('b', value("cookie", to(Effect::Cookie))),
    short('c', value("cookie-jar", CACHES)),
    flag("create-dirs", OUTPUT),
    value("create-file-mode", OUTPUT),
    flag("crlf", UNSUPPORTED),
    value("crlfile", UNSUPPORTED),
    value("curves", TLS),
    short('d', value("data", to(Effect::Data))),
    value("data-ascii", to(Effect::Data)),
    value("data-binary", to(Effect::DataBinary)),
    value("data-raw", to(Effect::DataRaw)),
    value("data-urlencode", to(Effect::DataUrlencode)),
    value("delegation", OTHER),
    flag("digest", UNSUPPORTED),
    short('q', flag("disable", TRANSFER)),
    flag("disable-eprt", OTHER),
    flag("disable-epsv", OTHER),
    flag("disallow-username-in-url", TRANSFER),
    value("dns-interface", RESOLVER),
    value("dns-ipv4-addr", RESOLVER),
    value("dns-ipv6-addr", RESOLVER),
    value("dns-servers", UNSUPPORTED),
    flag("doh-cert-status", RESOLVER),
    flag("doh-insecure", RESOLVER),
    value("doh-url", UNSUPPORTED),
    flag("dump-ca-embed", OUTPUT),
    short('D', value("dump-header", OUTPUT)),
    value("ech", UNSUPPORTED),
    value("egd-file", TLS),
    flag("eprt", OTHER),
    flag("epsv", OTHER),
    value("engine", UNSUPPORTED),
    value("etag-compare", UNSUPPORTED),
    value("etag-save", CACHES),
    value("expect100-timeout", TRANSFER),
    short('f', flag("fail", OUTPUT)),
    flag("fail-early", OUTPUT),
    flag("fail-with-body", OUTPUT),
    flag("false-start", TLS),
    flag("follow", REDIRECTS),
    short('F', value("form", to(Effect::Form))),
    flag("form-escape", to(Effect::FormEscape)),
    value("form-string", to(Effect::FormString)),
    value("ftp-account", OTHER),
    value("ftp-alternative-to-user", OTHER),
    flag("ftp-create-dirs", OTHER),
    value("ftp-method", OTHER),
    flag("ftp-pasv", OTHER),
    short('P', value("ftp-port", OTHER)),
    flag("ftp-pret", OTHER),
    flag("ftp-skip-pasv-ip", OTHER),
    flag("ftp-ssl-ccc", OTHER),
    value("ftp-ssl-ccc-mode", OTHER),
    flag("ftp-ssl-control", OTHER),
    short('G', flag("get", to(Effect::Get))),
    short('g', flag("globoff", to(Effect::Globoff))),
    value("happy-eyeballs-timeout-ms", TRANSFER),
    value("haproxy-clientip", UNSUPPORTED),
    flag("haproxy-protocol", UNSUPPORTED),
    short('I', flag("head", to(Effect::Head))),
    short('H', value("header", to(Effect::Header))),
    short('h', flag("help", UNSUPPORTED)),
    value("hostpubmd5", OTHER),
    value("hostpubsha256", OTHER),
    value("hsts", CACHES),
    flag("http0.9", OUTPUT),
    short('0', flag("http1.0", UNSUPPORTED)),
    flag("http1.1", to(Effect::Http1)),
    flag("http2", to(Effect::Http2)),
    flag("http2-prior-knowledge", to(Effect::Http2Only)),
    flag("http3", to(Effect::Http3)),
    flag("http3-only", to(Effect::Http3Only)),
    flag("ignore-content-length", OUTPUT),
    short('i', flag("include", OUTPUT)),
    short('k', flag("insecure", to(Effect::Insecure))),
    value("interface", to(Effect::Interface)),
    value("ip-tos", TRANSFER),
    value("ipfs-gateway", UNSUPPORTED),
    short('4', flag("ipv4", RESOLVER)),
    short('6', flag("ipv6", RESOLVER)),
    value("json", to(Effect::Json)),
    short('j', flag("junk-session-cookies", CACHES)),
    flag("keepalive", TRANSFER),
    value("keepalive-cnt", TRANSFER),
    value("keepalive-time", TRANSFER),
    value("key", to(Effect::Key)),
    value("key-type", UNSUPPORTED),
    value("knownhosts", OTHER),
    value("krb", OTHER),
    value("libcurl", OUTPUT),
    value("limit-rate", TRANSFER),
    short('l', flag("list-only", OTHER)),
    value("local-port", TRANSFER),
    short('L', flag("location", REDIRECTS)),
    flag("location-trusted", REDIRECTS),
    value("login-options", OTHER),
    value("mail-auth", OTHER),
    value("mail-from", OTHER),
    value("mail-rcpt", OTHER),
    flag("mail-rcpt-allowfails", OTHER),
    short('M', flag("manual", UNSUPPORTED)),
    value("max-filesize", TRANSFER),
    value("max-redirs", REDIRECTS),
    short('m', value("max-time", to(Effect::MaxTime))),
    flag("metalink", OUTPUT),
    flag("mptcp", UNSUPPORTED),
    flag("negotiate", UNSUPPORTED),
    short('n', flag("netrc", UNSUPPORTED)),
    value("netrc-file", UNSUPPORTED),
    flag("netrc-optional", UNSUPPORTED),
    short(':', flag("next", to(Effect::Next))),
    value("noproxy", to(Effect::NoProxy)),
    flag("npn", TLS),
    flag("ntlm", UNSUPPORTED),
    flag("ntlm-wb", UNSUPPORTED),
    value("oauth2-bearer", to(Effect::Bearer)),
    flag("out-null", OUTPUT),
    short('o', value("output", OUTPUT)),
    value("output-dir", OUTPUT),
    short('Z', flag("parallel", TRANSFER)),
    flag("parallel-immediate", TRANSFER),
    value("parallel-max", TRANSFER),
    value("parallel-max-host", TRANSFER),
    value("pass", UNSUPPORTED),
    flag("path-as-is", to(Effect::PathAsIs)),
    value("pinnedpubkey", UNSUPPORTED),
    flag("post301", REDIRECTS),
    flag("post302", REDIRECTS),
    flag("post303", REDIRECTS),
    value("preproxy", UNSUPPORTED),
    short('#', flag("progress-bar", OUTPUT)),
    flag("progress-meter", OUTPUT),
    value("proto", TRANSFER),
    value("proto-default", to(Effect::ProtoDefault)),
    value("proto-redir", REDIRECTS),
    short('x', value("proxy", to(Effect::Proxy))),
    flag("proxy-anyauth", UNSUPPORTED),
    flag("proxy-basic", TRANSFER),
    flag("proxy-ca-native", TLS),
    value("proxy-cacert", to(Effect::ProxyCaCert)),
    value("proxy-capath", UNSUPPORTED),
    value("proxy-cert", UNSUPPORTED),
    value("proxy-cert-type", UNSUPPORTED),
    value("proxy-ciphers", TLS),
    value("proxy-crlfile", UNSUPPORTED),
    flag("proxy-digest", UNSUPPORTED),
    value("proxy-header", to(Effect::ProxyHeader)),
    flag("proxy-http2", UNSUPPORTED),
    flag("proxy-insecure", to(Effect::ProxyInsecure)),
    value("proxy-key", UNSUPPORTED),
    value("proxy-key-type", UNSUPPORTED),
    flag("proxy-negotiate", UNSUPPORTED),
    flag("proxy-ntlm", UNSUPPORTED),
    value("proxy-pass", UNSUPPORTED),
    value("proxy-pinnedpubkey", UNSUPPORTED),
    value("proxy-service-name", UNSUPPORTED),
    flag("proxy-ssl-allow-beast", TLS),
    flag("proxy-ssl-auto-client-cert", UNSUPPORTED),
    value("proxy-tls13-ciphers", TLS),
    value("proxy-tlsauthtype", UNSUPPORTED),
    value("proxy-tlspassword", UNSUPPORTED),
    value("proxy-tlsuser", UNSUPPORTED),
    flag("proxy-tlsv1", TLS),
    short('U', value("proxy-user", to(Effect::ProxyUser))),
    value("proxy1.0", UNSUPPORTED),
    short('p', flag("proxytunnel", to(Effect::ProxyTunnel))),
    value("pubkey", OTHER),
    short('Q', value("quote", OTHER)),
    value("random-file", TLS),
    short('r', value("range", to(Effect::Range))),
    value("rate", TRANSFER),
    flag("raw", OUTPUT),
    short('e', value("referer", to(Effect::Referer))),
    short('J', flag("remote-header-name", OUTPUT)),
    short('O', flag("remote-name", OUTPUT)),
    flag("remote-name-all", OUTPUT),
    short('R', flag("remote-time", OUTPUT)),
    flag("remove-on-error", OUTPUT),
    short('X', value("request", to(Effect::Request))),
    value("request-target", to(Effect::RequestTarget)),
    value("resolve", to(Effect::Resolve)),
    value("retry", TRANSFER),
    flag("retry-all-errors", TRANSFER),
    flag("retry-connrefused", TRANSFER),
    value("retry-delay", TRANSFER),
    value("retry-max-time", TRANSFER),
    value("sasl-authzid", OTHER),
    flag("sasl-ir", OTHER),
    value("service-name", OTHER),
    flag("sessionid", TLS),
    short('S', flag("show-error", OUTPUT)),
    short('i', flag("show-headers", OUTPUT)),
    value("sigalgs", TLS),
    short('s', flag("silent", OUTPUT)),
    flag("skip-existing", OUTPUT),
    value("socks4", UNSUPPORTED),
    value("socks4a", UNSUPPORTED),
    value("socks5", to(Effect::Socks5)),
    flag("socks5-basic", TRANSFER),
    flag("socks5-gssapi", UNSUPPORTED),
    flag("socks5-gssapi-nec", UNSUPPORTED),
    value("socks5-gssapi-service", UNSUPPORTED),
    value("socks5-hostname", to(Effect::Socks5Hostname)),
    short('Y', value("speed-limit", TRANSFER)),
    short('y', value("speed-time", TRANSFER)),
    flag("ssl", OTHER),
    flag("ssl-allow-beast", TLS),
    flag("ssl-auto-client-cert", UNSUPPORTED),
    flag("ssl-no-revoke", TLS),
    flag("ssl-reqd", OTHER),
    flag("ssl-revoke-best-effort", TLS),
    value("ssl-sessions", CACHES),
    short('2', flag("sslv2", TLS)),
    short('3', flag("sslv3", TLS)),
    value("stderr", OUTPUT),
    flag("styled-output", OUTPUT),
    flag("suppress-connect-headers", OUTPUT),
    flag("tcp-fastopen", TRANSFER),
    flag("tcp-nodelay", TRANSFER),
    short('t', value("telnet-option", OTHER)),
    value("tftp-blksize", OTHER),
    flag("tftp-no-options", OTHER),
    short('z', value("time-cond", UNSUPPORTED)),
    flag("tls-earlydata", TLS),
    value("tls-max", TLS),
    value("tls13-ciphers", TLS),
    value("tlsauthtype", UNSUPPORTED),
    value("tlspassword", UNSUPPORTED),
    value("tlsuser", UNSUPPORTED),
    short('1', flag("tlsv1", TLS)),
    flag("tlsv1.0", TLS),
    flag("tlsv1.1", TLS),
    flag("tlsv1.2", TLS),
    flag("tlsv1.3", TLS),
    flag("tr-encoding", to(Effect::TransferEncoding)),
    value("trace", OUTPUT),
    value("trace-ascii", OUTPUT),
    value("trace-config", OUTPUT),
    flag("trace-ids", OUTPUT),
    flag("trace-time", OUTPUT),
    value("unix-socket", to(Effect::UnixSocket)),
    value("upload-flags", OTHER),
    short('T', value("upload-file", to(Effect::UploadFile))),
    value("url", to(Effect::Url)),
    value("url-query", to(Effect::UrlQuery)),
    short('B', flag("use-ascii", OTHER)),
    short('u', value("user", to(Effect::User))),
    short('A', value("user-agent", to(Effect::UserAgent))),
    value("variable", UNSUPPORTED),
    short('v', flag("verbose", OUTPUT)),
    short('V', flag("version", UNSUPPORTED)),
    value("vlan-priority", TRANSFER),
    short('w', value("write-out", OUTPUT)),
    flag("xattr", OUTPUT),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_every_letter_is_there_once() {
        let mut names: Vec<&str> = OPTIONS.iter().map(|option| option.long).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        let mut letters: Vec<char> = OPTIONS.iter().filter_map(|option| option.short).collect();
        letters.sort_unstable();
        // -i has had two long names.
        letters.retain(|letter| *letter != 'i');
        let count = letters.len();
        letters.dedup();
        assert_eq!(letters.len(), count);
    }

    /// The options that `curl --help all` of the curl on this machine lists.
    #[test]
    fn every_option_of_the_installed_curl_is_known() {
        let Ok(output) = std::process::Command::new("curl")
            .args(["--help", "all"])
            .output()
        else {
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut unknown = Vec::new();
        for line in text.lines().filter(|line| line.contains("--")) {
            let (before, after) = line.split_once("--").expect("filtered");
            let long = after.split_whitespace().next().unwrap_or_default();
            let takes_value = after.split("  ").next().is_some_and(|it| it.contains(" <"));
            let name = long.strip_prefix("no-").unwrap_or(long);
            let letter = before.trim().chars().nth(1);
            let known = OPTIONS.iter().find(|option| option.long == name);
            let is_right = known.is_some_and(|known| {
                known.short == letter
                    && (known.takes_value == takes_value || line.contains(" [") || name == "help")
            });
            if long != "option" && !is_right {
                unknown.push(line.to_owned());
            }
        }
        assert!(unknown.is_empty(), "{unknown:#?}");
    }

    #[test]
    fn a_long_name_may_be_abbreviated_if_only_one_begins_so() {
        assert_eq!(
            by_long("data").map(|it| it.map(|it| it.long)),
            Ok(Some("data"))
        );
        assert_eq!(
            by_long("max-t").map(|it| it.map(|it| it.long)),
            Ok(Some("max-time"))
        );
        assert_eq!(by_long("xyz").map(|it| it.is_some()), Ok(false));
        assert!(by_long("data-").is_err());
    }
}
