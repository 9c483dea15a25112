//! curl's options about a proxy.

use std::path::PathBuf;

use plan::{ProxyScheme, ProxySpec, Target};

use super::CurlError;
use crate::conversion::Request;
use crate::shell_words::Word;

/// The options about the proxy between two `--next`.
#[derive(Debug, Default)]
pub(super) struct ProxyOptions {
    /// The last `-x`, with its scheme. An empty text is no proxy.
    pub(super) url: Option<Word>,
    /// `user:password` as `--proxy-user` has it.
    pub(super) user: Option<String>,
    pub(super) tunnel: bool,
    pub(super) is_insecure: bool,
    pub(super) cacert: Option<PathBuf>,
    /// Only HTTP proxies get them.
    pub(super) headers: Vec<(String, String)>,
    /// Hosts without the proxy: the value of `--noproxy`.
    pub(super) direct: Option<Word>,
}

impl ProxyOptions {
    /// A proxy whose option says what it speaks, like `--socks5 host`.
    pub(super) fn set(&mut self, scheme: ProxyScheme, word: Word) {
        let text = match word.text.split_once("://") {
            // curl ignores the scheme in the URL then.
            Some((_, place)) => format!("{}://{place}", scheme.name()),
            None => format!("{}://{}", scheme.name(), word.text),
        };
        self.url = Some(Word { text, ..word });
    }

    /// The proxy of these requests.
    pub(super) fn for_requests(self, requests: &[Request]) -> Result<Option<ProxySpec>, CurlError> {
        let Some(word) = self.url.filter(|word| !word.text.is_empty()) else {
            return Ok(None);
        };
        if let Some(direct) = &self.direct {
            let hosts = requests.iter().filter_map(|it| Target::parse(&it.url).ok());
            let all: Vec<bool> = hosts.map(|it| is_named(&direct.text, &it.host)).collect();
            match (all.contains(&true), all.contains(&false)) {
                (true, false) => return Ok(None),
                (true, true) => {
                    let message = "--noproxy: some requests go through the proxy and some do \
                                   not, but a load connects in one way (convert them one by one)";
                    return Err(CurlError::new(direct.position, message));
                }
                (false, _) => (),
            }
        }
        let mut proxy = ProxySpec::parse(&word.text)
            .map_err(|why| CurlError::new(word.position, format!("the proxy {why}")))?;
        proxy.user = self.user.or(proxy.user);
        // A SOCKS proxy makes a tunnel anyway.
        proxy.tunnel = self.tunnel && !proxy.scheme.is_socks();
        if !proxy.scheme.is_socks() {
            proxy.headers = self.headers;
        }
        if proxy.scheme == ProxyScheme::Https {
            proxy.verify = !self.is_insecure;
            proxy.cacert = self.cacert.filter(|_| proxy.verify);
        }
        Ok(Some(proxy))
    }
}

/// Whether a list like that of `--noproxy` names a host: `*`, or names separated by commas or
/// spaces, which stand for their subdomains too.
fn is_named(list: &str, host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    list == "*"
        || list.split([',', ' ']).any(|name| {
            let name = name.trim_matches('.').to_ascii_lowercase();
            let is_below = || {
                let before = host.strip_suffix(&name);
                before.is_some_and(|before| before.ends_with('.'))
            };
            !name.is_empty() && (host == name || is_below())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noproxy_names_hosts_and_their_subdomains() {
        for (list, host, expected) in [
            ("*", "h", true),
            ("", "h", false),
            ("h", "H", true),
            ("h", "i.h", true),
            (".h", "i.h", true),
            (".h", "h", true),
            ("h", "ih", false),
            ("a, h", "h.", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("*", "127.0.0.1", true),
            ("a,*", "h", false),
        ] {
            assert_eq!(is_named(list, host), expected, "{list} {host}");
        }
    }
}
