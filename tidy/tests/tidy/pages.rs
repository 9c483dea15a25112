//! The documents as pages of a site: their links, their index, the length of the first one.

use crate::paths;

/// The most words of README.md, which a newcomer reads whole.
pub(crate) const README_WORDS_MAX: usize = 1_200;

/// Pages that are named in backticks, where a reader needs a link.
pub(crate) fn unlinked(markdown: &str) -> Vec<String> {
    let named = paths::named(markdown).into_iter();
    named
        .filter(|path| path.starts_with("docs/") && path.ends_with(".md"))
        .collect()
}

/// The fragments that lead to the headings of a page, as forges and mdBook make them: lower case,
/// blanks as hyphens, without punctuation, numbered if there are several.
pub(crate) fn anchors(markdown: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for line in paths::prose(markdown) {
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        let kept = title
            .trim()
            .chars()
            .filter_map(|character| match character {
                ' ' => Some('-'),
                '-' | '_' => Some(character),
                _ => character.is_alphanumeric().then_some(character),
            });
        let anchor = kept.collect::<String>().to_lowercase();
        let same = anchors.iter().filter(|known| **known == anchor).count();
        anchors.push(match same {
            0 => anchor,
            count => format!("{anchor}-{count}"),
        });
    }
    anchors
}

/// Where the index of a folder differs from its pages, which are file names.
pub(crate) fn not_in_index(index: &str, pages: &[String]) -> Vec<String> {
    let links = paths::links(index);
    let mut findings = Vec::new();
    for page in pages {
        let entries = links.iter().filter(|link| link.target == *page).count();
        if entries != 1 {
            findings.push(format!("{page} is linked {entries} times, not once"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_in_backticks_is_found_and_a_link_is_not() {
        let text = "see `docs/a.md`, `docs/decisions/0001-b.md`, [c](c.md), `docs/data`, `d.md`";
        assert_eq!(unlinked(text), ["docs/a.md", "docs/decisions/0001-b.md"]);
    }

    #[test]
    fn headings_have_the_anchors_of_a_forge() {
        let text = "# A page\n## 1. Is it *really*?\n```\n# no\n```\n## `--fail-if X...`\n#no\n\
            ## A page\n";
        assert_eq!(
            anchors(text),
            ["a-page", "1-is-it-really", "--fail-if-x", "a-page-1"]
        );
    }

    #[test]
    fn a_page_that_the_index_lacks_or_repeats_is_found() {
        let pages = ["a.md".to_owned(), "b.md".to_owned()];
        assert_eq!(not_in_index("- [A](a.md)\n- [B](b.md)\n", &pages), [""; 0]);
        assert_eq!(not_in_index("- [A](a.md)\n", &pages).len(), 1);
        assert_eq!(
            not_in_index("[A](a.md) [A](a.md) [B](b.md)\n", &pages).len(),
            1
        );
    }
}
