//! `wrkbench completions`: shell completion scripts.

use clap_complete::Shell;

use crate::args;

pub(super) fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::declaration(), "wrkbench", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_in_the_script_of_every_shell() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(script(shell)).unwrap();
            for long in args::declaration()
                .get_arguments()
                .filter_map(clap::Arg::get_long)
            {
                // fish writes `-l name`, the others `--name`.
                let written = [format!("--{long}"), format!("-l {long}")]
                    .iter()
                    .any(|n| script.contains(n));
                assert!(written, "{shell} lacks {long}");
            }
            for word in args::declaration().get_subcommands() {
                assert!(
                    script.contains(word.get_name()),
                    "{shell} lacks {}",
                    word.get_name()
                );
            }
        }
    }
}
