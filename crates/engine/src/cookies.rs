//! Cookies of a connection (RFC 6265): what responses set, later requests send.

use std::collections::VecDeque;

use cookie_store::CookieStore;
use protocol::request::{RequestText, add_cookies};
use protocol::{ExchangeId, Fields};
use url::Url;

/// The most cookies of a connection: as many as browsers keep for a site. Further ones are ignored,
/// so that a hostile server cannot fill the memory.
const MAX_COOKIES: usize = 180;

/// The longest `Set-Cookie` that is taken. Browsers take 4,096 bytes of name and value.
const MAX_COOKIE_BYTES: usize = 8 * 1024;

/// The server that sets cookies.
#[derive(Debug, Clone)]
pub(crate) struct CookieSite {
    scheme: &'static str,
    /// Host and port, for requests without a `Host` header.
    authority: String,
}

impl CookieSite {
    /// The server with this scheme, host and port.
    #[must_use]
    pub(crate) fn new(scheme: &'static str, authority: String) -> Self {
        Self { scheme, authority }
    }

    /// The URL of a request. Cookies are for the host that its `Host` header names.
    fn url(&self, request: &RequestText<'_>) -> Option<Url> {
        let mut fields = request.fields();
        let host = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"host"));
        let host = host.map_or_else(
            || self.authority.as_str().into(),
            |(_, value)| String::from_utf8_lossy(&value).into_owned(),
        );
        let target = String::from_utf8_lossy(request.target);
        let path = if target.starts_with('/') {
            &target
        } else {
            "/"
        };
        Url::parse(&format!("{}://{host}{path}", self.scheme)).ok()
    }
}

/// The cookies of one connection. They outlive its sockets.
#[derive(Debug, Default)]
pub(crate) struct CookieJar {
    store: CookieStore,
    /// The URLs of requests in flight: a cookie without a path is for the folder of its request.
    in_flight: VecDeque<(ExchangeId, Url)>,
    /// The URL of the request that was written last.
    written: Option<Url>,
}

impl CookieJar {
    /// Appends requests with their cookies.
    pub(crate) fn write(&mut self, site: &CookieSite, text: &[u8], output: &mut Vec<u8>) {
        let Self { store, written, .. } = self;
        *written = None;
        let cookies = |request: &RequestText<'_>| {
            let Some(url) = site.url(request) else {
                return String::new();
            };
            let cookies = header(store, &url);
            // The responses to pipelined requests are those of one exchange.
            written.get_or_insert(url);
            cookies
        };
        add_cookies(text, cookies, output);
    }

    /// The requests that were written last are on their way as this exchange.
    pub(crate) fn sent(&mut self, exchange: ExchangeId) {
        if let Some(url) = self.written.take() {
            self.in_flight.push_back((exchange, url));
        }
    }

    /// Takes the cookies of a response. `is_last`: the exchange has no further one.
    pub(crate) fn receive(&mut self, exchange: ExchangeId, headers: &Fields, is_last: bool) {
        let mut in_flight = self.in_flight.iter();
        let Some(at) = in_flight.position(|(sent, _)| *sent == exchange) else {
            return;
        };
        for (name, value) in headers.iter() {
            if name.eq_ignore_ascii_case(b"set-cookie")
                && let Ok(text) = std::str::from_utf8(value)
                && text.len() <= MAX_COOKIE_BYTES
                && self.store.iter_any().count() < MAX_COOKIES
            {
                // A cookie that is for another site, or that cannot be parsed, is ignored.
                let _ = self.store.parse(text, &self.in_flight[at].1);
            }
        }
        if is_last {
            self.in_flight.remove(at);
        }
    }

    /// An exchange has failed.
    pub(crate) fn forget(&mut self, exchange: ExchangeId) {
        self.in_flight.retain(|(sent, _)| *sent != exchange);
    }

    /// The connection has no request in flight any more.
    pub(crate) fn disconnect(&mut self) {
        self.in_flight.clear();
    }
}

/// The value of `Cookie` for a request: those with longer paths first (RFC 6265 section 5.4).
fn header(store: &CookieStore, url: &Url) -> String {
    let mut cookies = store.matches(url);
    // The store has no order of its own.
    cookies.sort_by(|one, other| {
        let length = |cookie: &&cookie_store::Cookie<'_>| cookie.path.len();
        length(other)
            .cmp(&length(one))
            .then_with(|| one.name().cmp(other.name()))
    });
    let pairs = cookies
        .iter()
        .map(|it| format!("{}={}", it.name(), it.value()));
    pairs.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(jar: &mut CookieJar, target: &str, set: &[&str]) -> String {
        let site = CookieSite::new("http", "shop.test:81".to_owned());
        let text = format!("GET {target} HTTP/1.1\r\n\r\n");
        let mut output = Vec::new();
        jar.write(&site, text.as_bytes(), &mut output);
        jar.sent(ExchangeId(7));
        let headers: Fields = set.iter().map(|value| ("Set-Cookie", *value)).collect();
        jar.receive(ExchangeId(7), &headers, true);
        assert!(jar.in_flight.is_empty());
        let sent = String::from_utf8(output).expect("it was text");
        let cookies = sent.lines().find_map(|line| line.strip_prefix("Cookie: "));
        cookies.unwrap_or_default().to_owned()
    }

    #[test]
    fn what_a_response_sets_later_requests_send() {
        let mut jar = CookieJar::default();
        let set = [
            "id=7; HttpOnly",
            "lang=en; Path=/",
            "deep=1; Path=/shop/cart",
            "other=1; Domain=example.test",
            "own=1; Domain=shop.test; Path=/",
            "tls=1; Secure; Path=/",
            "old=1; Max-Age=0; Path=/",
            "\u{1}",
        ];
        assert_eq!(exchange(&mut jar, "/shop/login?x", &set), "");
        assert_eq!(
            exchange(&mut jar, "/shop/cart", &[]),
            "deep=1; id=7; lang=en; own=1"
        );
        assert_eq!(
            exchange(&mut jar, "/", &["lang=de; Path=/"]),
            "lang=en; own=1"
        );
        assert_eq!(
            exchange(
                &mut jar,
                "/a",
                &["own=; Max-Age=0; Domain=shop.test; Path=/"]
            ),
            "lang=de; own=1"
        );
        assert_eq!(exchange(&mut jar, "*", &[]), "lang=de");
    }

    #[test]
    fn a_server_that_sets_more_and_more_cookies_does_not_fill_the_memory() {
        let mut jar = CookieJar::default();
        for number in 0..1_000 {
            exchange(&mut jar, "/", &[&format!("c{number}=1")]);
        }
        exchange(&mut jar, "/", &[&"x".repeat(MAX_COOKIE_BYTES + 1)]);
        let sent = exchange(&mut jar, "/", &[]);
        assert_eq!(sent.split("; ").count(), MAX_COOKIES);
    }

    #[test]
    fn cookies_are_for_the_host_of_the_host_header() {
        let mut jar = CookieJar::default();
        let site = CookieSite::new("http", "127.0.0.1".to_owned());
        let text = b"GET / HTTP/1.1\r\nHost: www.shop.test\r\n\r\n";
        let mut output = Vec::new();
        jar.write(&site, text, &mut output);
        jar.sent(ExchangeId(1));
        let headers: Fields = [("set-cookie", "a=1; Domain=shop.test")]
            .into_iter()
            .collect();
        jar.receive(ExchangeId(1), &headers, true);
        output.clear();
        jar.write(&site, text, &mut output);
        assert!(output.windows(13).any(|bytes| bytes == b"Cookie: a=1\r\n"));
        jar.sent(ExchangeId(2));
        jar.forget(ExchangeId(2));
        assert!(jar.in_flight.is_empty());
    }
}
