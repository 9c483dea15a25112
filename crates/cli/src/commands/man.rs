//! The manual pages, in roff.

use std::io;

use clap_mangen::Man;

use crate::args;

/// The page of the program, or of one of its commands.
///
/// # Errors
/// When the page cannot be made.
pub(super) fn page(command: Option<&str>) -> io::Result<Vec<u8>> {
    let mut whole = args::declaration();
    whole.build();
    let of = match command.and_then(|name| whole.find_subcommand(name)) {
        Some(word) => word.clone(),
        None => whole,
    };
    let mut page = Vec::new();
    Man::new(of).render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// roff writes a dash of an option as `\-`.
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
        for word in args::declaration().get_subcommands() {
            assert!(
                page.contains(word.get_name()),
                "the page lacks {}",
                word.get_name()
            );
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
