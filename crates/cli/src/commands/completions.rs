//! `wrkbench completions`: shell completion scripts.

use std::fmt::Write as _;

use clap::{Arg, ValueHint};
use clap_complete::Shell;

use crate::args;

const NAME: &str = "wrkbench";

pub(super) fn script(shell: Shell) -> String {
    let mut command = args::declaration()
        .mut_args(with_hint)
        .mut_subcommands(|command| command.mut_args(with_hint));
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, NAME, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script + &for_bash(&command),
        // Otherwise an option that has no value yet is an error, and its values are not offered.
        Shell::Fish => script.replace("\n    or return\n", "\n    or return 0\n"),
        _ => script,
    }
}

/// Says what a value is. By itself clap knows only that it may be a path.
fn with_hint(arg: Arg) -> Arg {
    let value = arg.get_value_names().and_then(<[_]>::first);
    let value = value.map(|name| name.as_str()).unwrap_or_default();
    let is_choice = !arg.get_possible_values().is_empty();
    let hint = match (arg.get_value_hint(), value) {
        (ValueHint::AnyPath, "DIR") => ValueHint::DirPath,
        (ValueHint::AnyPath, _) if !arg.is_positional() => ValueHint::FilePath,
        (ValueHint::Unknown, "URL") => ValueHint::Url,
        (ValueHint::Unknown, _) if arg.get_action().takes_values() && !is_choice => {
            ValueHint::Other
        }
        (known, _) => known,
    };
    arg.value_hint(hint)
}

/// clap's function offers options where a file or a command is expected. This one offers options
/// only after a `-`, if there is anything else.
fn for_bash(command: &clap::Command) -> String {
    let takes_files = |command: &&clap::Command| {
        let mut positionals = command.get_positionals();
        positionals.any(|arg| arg.get_value_hint() == ValueHint::AnyPath)
    };
    let with_files = command.get_subcommands().filter(takes_files);
    let with_files: Vec<&str> = with_files.map(clap::Command::get_name).collect();
    let mut script = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        script,
        r#"
_{NAME}_words() {{
    _{NAME} "$@"
    [[ $2 == -* ]] && return
    local word words=()
    for word in "${{COMPREPLY[@]}}"; do
        [[ $word == -* ]] || words+=("$word")
    done
    case "${{#words[@]}} ${{COMP_WORDS[1]}}" in
        # Nothing remains, so bash offers files.
        0\ {files}) COMPREPLY=() ;;
        0\ *) ;;
        *) COMPREPLY=("${{words[@]}}") ;;
    esac
}}

complete -F _{NAME}_words -o bashdefault -o default {NAME}
"#,
        files = with_files.join("|0\\ "),
    );
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_in_the_script_of_every_shell() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for long in args::declaration()
                .get_arguments()
                .filter_map(Arg::get_long)
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
