//! `wrkbench man`: manual pages in roff.

use std::io;

use clap_mangen::Man;

use crate::args;

/// The page of the program or of one command.
///
/// # Errors
/// When the page cannot be rendered.
pub(super) fn page(command: Option<&str>) -> io::Result<Vec<u8>> {
    let mut whole = args::declaration();
    whole.build();
    let of = match command.and_then(|name| whole.find_subcommand(name)) {
        Some(word) => word.clone(),
        None => whole,
    };
    let mut page = Vec::new();
    let has_exit_codes = of.get_after_help().is_some();
    // roff would join the lines of the help's exit codes into one paragraph.
    Man::new(of.after_help(None::<&str>)).render(&mut page)?;
    if has_exit_codes {
        page.extend_from_slice(exit_status().as_bytes());
    }
    Ok(page)
}

/// The section EXIT STATUS of man-pages(7).
fn exit_status() -> String {
    let rows = args::EXIT_CODES.iter().map(|(code, meaning)| {
        let meaning = meaning.replace('-', "\\-");
        format!(".TP\n\\fB{code}\\fR\n{meaning}\n")
    });
    std::iter::once(".SH \"EXIT STATUS\"\n".to_owned())
        .chain(rows)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page without roff's backslashes: it writes `-` as `\-`.
    fn plain(command: Option<&str>) -> String {
        String::from_utf8(page(command).unwrap())
            .unwrap()
            .replace('\\', "")
    }

    #[test]
    fn every_option_and_command_is_in_the_page() {
        let page = plain(None);
        assert!(page.contains(".TH wrkbench 1"), "{page}");
        for long in args::declaration()
            .get_arguments()
            .filter_map(clap::Arg::get_long)
        {
            assert!(page.contains(&format!("--{long}")), "the page lacks {long}");
        }
        let words = args::declaration();
        for word in words.get_subcommands().filter(|word| !word.is_hide_set()) {
            assert!(
                page.contains(word.get_name()),
                "the page lacks {}",
                word.get_name()
            );
        }
    }

    #[test]
    fn exit_codes_are_in_the_pages_of_a_run_and_only_there() {
        for (command, expected) in [(None, true), (Some("run"), true), (Some("serve"), false)] {
            let page = plain(command);
            assert!(!page.contains("EXTRA"), "{page}");
            for (code, meaning) in args::EXIT_CODES {
                let row = format!(".TP\nfB{code}fR\n{meaning}\n");
                assert_eq!(page.contains(&row), expected, "{command:?}: {row}");
            }
        }
    }

    #[test]
    fn a_command_has_a_page_of_its_own() {
        let serve = plain(Some("serve"));
        assert!(
            serve.contains("--listen") && !serve.contains("--connections"),
            "{serve}"
        );
    }
}
