//! curl's reading of URLs: a missing scheme, ranges and lists, dot segments, fragments.

/// The largest number of requests. More are a mistake, or need a script.
const MAX_URLS: usize = 10_000;

/// The URLs that a word with `{a,b}` and `[1-9]` stands for (curl(1), URL).
///
/// # Errors
/// If a range or list is not valid; one line.
pub(super) fn globbed(text: &str) -> Result<Vec<String>, String> {
    let mut urls = vec![String::new()];
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        let choices = match first {
            '\\' if after.starts_with(['{', '}', '[', ']', '\\']) => {
                rest = &after[1..];
                vec![after[..1].to_owned()]
            }
            '[' if is_ipv6(after) => {
                let end = after.find(']').unwrap_or_default() + 1;
                rest = &after[end..];
                vec![format!("[{}", &after[..end])]
            }
            '{' => {
                let (list, behind) = after.split_once('}').ok_or("the { is not closed")?;
                rest = behind;
                list.split(',').map(str::to_owned).collect()
            }
            '[' => {
                let (range, behind) = after.split_once(']').ok_or("the [ is not closed")?;
                rest = behind;
                members(range).ok_or_else(|| format!("[{range}] is not a range like [1-9]"))?
            }
            other => {
                rest = after;
                vec![other.to_string()]
            }
        };
        if let [only] = choices.as_slice() {
            urls.iter_mut().for_each(|url| url.push_str(only));
            continue;
        }
        if urls.len().saturating_mul(choices.len()) > MAX_URLS {
            return Err(format!("the ranges stand for more than {MAX_URLS} URLs"));
        }
        let each = |url: String| {
            let with = |choice: &String| format!("{url}{choice}");
            choices.iter().map(with).collect::<Vec<_>>()
        };
        urls = urls.into_iter().flat_map(each).collect();
    }
    Ok(urls)
}

fn is_ipv6(after: &str) -> bool {
    let inner = after.split(']').next().unwrap_or_default();
    inner.contains(':')
        && inner
            .chars()
            .all(|c| c.is_ascii_hexdigit() || ":.%".contains(c))
        && inner.matches(':').count() > 1
}

/// The members of `1-9`, `01-10`, `a-z`, each perhaps with a step like `:2`.
fn members(range: &str) -> Option<Vec<String>> {
    let (range, step) = range.split_once(':').unwrap_or((range, "1"));
    let step: u64 = step.parse().ok().filter(|step| *step > 0)?;
    let (from, to) = range.split_once('-')?;
    let one_letter = |text: &str| {
        let mut letters = text.chars();
        let letter = letters.next().filter(char::is_ascii_alphabetic);
        letter.filter(|_| letters.next().is_none())
    };
    if let (Some(from), Some(to)) = (one_letter(from), one_letter(to)) {
        let step = usize::try_from(step).ok()?;
        let letters: Vec<String> = (from..=to).step_by(step).map(String::from).collect();
        return Some(letters).filter(|letters| !letters.is_empty());
    }
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| is_number)
    };
    let (first, last) = (number(from)?, number(to)?);
    let count = last.checked_sub(first)? / step + 1;
    if count > MAX_URLS as u64 {
        return None;
    }
    // Leading zeros are the width of all.
    let width = if from.starts_with('0') { from.len() } else { 0 };
    let all = (0..count).map(|at| format!("{:0width$}", first + at * step));
    Some(all.collect())
}

/// A URL as curl would send it.
pub(super) fn normalized(
    text: &str,
    default_scheme: &str,
    query: &str,
    is_path_kept: bool,
    target: Option<&str>,
) -> String {
    let text = text.split('#').next().unwrap_or(text).trim();
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => (scheme, rest),
        _ => (default_scheme, text),
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if let Some(target) = target {
        return format!("{scheme}://{authority}{target}");
    }
    let (path, own_query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let path = match (path, is_path_kept) {
        ("", _) => "/".to_owned(),
        (path, true) => path.to_owned(),
        (path, false) => without_dot_segments(path),
    };
    let mut url = format!("{scheme}://{authority}{path}");
    let queries = [own_query.unwrap_or_default(), query];
    let queries: Vec<&str> = queries.into_iter().filter(|it| !it.is_empty()).collect();
    if !queries.is_empty() || own_query.is_some() {
        url.push('?');
        url.push_str(&queries.join("&"));
    }
    // curl sends blanks of a URL in this form.
    url.replace(' ', "%20")
}

/// RFC 3986 section 5.2.4, for a path that begins with a slash.
fn without_dot_segments(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_lists_are_expanded_as_in_curl() {
        for (text, expected) in [
            (
                "h/{a,b}/[1-3]",
                vec!["h/a/1", "h/a/2", "h/a/3", "h/b/1", "h/b/2", "h/b/3"],
            ),
            ("h/[08-10]", vec!["h/08", "h/09", "h/10"]),
            ("h/[a-e:2]", vec!["h/a", "h/c", "h/e"]),
            ("h/[0-10:5]x", vec!["h/0x", "h/5x", "h/10x"]),
            ("http://[::1]:80/", vec!["http://[::1]:80/"]),
            ("h/\\{a\\}", vec!["h/{a}"]),
            ("h/{a}", vec!["h/a"]),
        ] {
            assert_eq!(globbed(text).expect(text), expected);
        }
        for text in [
            "h/{a",
            "h/[1",
            "h/[x]",
            "h/[3-1]",
            "h/[1-99999999]",
            "h/[1-5:0]",
            "h/[-]",
        ] {
            assert_eq!(globbed(text).expect_err(text).lines().count(), 1);
        }
        let many = "h/[1-200]/[1-200]";
        assert!(globbed(many).expect_err(many).contains("more than 10000"));
    }

    #[test]
    fn a_url_becomes_what_curl_sends() {
        let plain = |text| normalized(text, "http", "", false, None);
        for (text, expected) in [
            ("h", "http://h/"),
            ("h:81/a#b", "http://h:81/a"),
            ("https://h/a/../b/./c?x=/../y", "https://h/b/c?x=/../y"),
            ("http://h/a/..", "http://h/"),
            ("http://h/../../a/.", "http://h/a/"),
            ("http://h?x=1", "http://h/?x=1"),
            ("http://h/a b", "http://h/a%20b"),
            ("http://h/?", "http://h/?"),
            ("h/?u=http://i/", "http://h/?u=http://i/"),
        ] {
            assert_eq!(plain(text), expected);
        }
        let kept = normalized("h/a/../b", "https", "", true, None);
        assert_eq!(kept, "https://h/a/../b");
        let query = normalized("http://h/?a=1", "http", "b=2", false, None);
        assert_eq!(query, "http://h/?a=1&b=2");
        assert_eq!(
            normalized("http://h", "http", "b=2", false, None),
            "http://h/?b=2"
        );
        let target = normalized("http://h/a?b", "http", "", false, Some("/x//y"));
        assert_eq!(target, "http://h/x//y");
    }
}
