//! One shell script with all commands of a document.

use std::fmt::Write as _;

use crate::blocks::{Block, BlockKind};
use crate::shorten;

/// Commands to run, or a file to write.
pub(crate) struct DocumentStep {
    pub(crate) text: String,
    /// Its line in the document.
    pub(crate) line: usize,
    /// The expected exit codes.
    pub(crate) exit_codes: Vec<i32>,
    /// When it gets Ctrl-C, in seconds after its start.
    interrupted_s: Option<u32>,
    /// The lines that the document shows below it.
    pub(crate) expected: Vec<String>,
    pub(crate) is_exact: bool,
    /// The text is the content of this file.
    pub(crate) file: Option<String>,
}

/// The steps of a document, in order.
pub(crate) fn steps(blocks: &[Block]) -> Vec<DocumentStep> {
    let mut steps = Vec::new();
    for block in blocks {
        let step = |text: &str, expected: Vec<String>, exit_codes: &[i32]| DocumentStep {
            text: text.to_owned(),
            line: block.line,
            exit_codes: exit_codes.to_vec(),
            interrupted_s: block.interrupted_s,
            expected,
            is_exact: block.is_exact,
            file: block.file.clone(),
        };
        if block.file.is_some() {
            steps.push(step(&block.text, Vec::new(), &[0]));
        } else if block.is_run() && block.kind == BlockKind::Shell {
            steps.push(step(&block.text, Vec::new(), &block.exit_codes));
        } else if block.is_run() {
            let session = block.session();
            let last = session.len();
            for (index, (command, output)) in session.into_iter().enumerate() {
                let exit_codes: &[i32] = if index + 1 == last {
                    &block.exit_codes
                } else {
                    &[0]
                };
                steps.push(step(&command, output, exit_codes));
            }
        }
    }
    steps
}

/// Before all commands. `$OUT` is the folder for the output of steps and servers.
const PROLOGUE: &str = r#"
set -eu
ip link set lo up
# Waits until a number of servers report in a file that they listen.
await_serving() {
    tries=0
    until [ "$(grep -c '^serving ' "$1")" -ge "$2" ]; do
        tries=$((tries + 1)); [ $tries -lt 3000 ] || exit 97
        sleep 0.01
    done
}
# What a sweep writes to need not be the machine's own.
mount -t tmpfs none /var/lib
# The kernel has these two for the whole machine only; two of this network that nothing here uses
# stand in for them.
mount --bind /proc/sys/net/ipv4/udp_rmem_min /proc/sys/net/core/rmem_max
mount --bind /proc/sys/net/ipv4/udp_wmem_min /proc/sys/net/core/wmem_max
systemctl start nginx
"#;

/// The script: each step prints to its own file, and `$OUT/at` contains the current step.
pub(crate) fn of(steps: &[DocumentStep], needs_server: bool) -> String {
    let mut script = PROLOGUE.to_owned();
    if needs_server {
        script.push_str(
            "wrkbench serve --listen 127.0.0.1:8080 >\"$OUT/server\" &\nawait_serving \
             \"$OUT/server\" 1\n",
        );
    }
    for (index, step) in steps.iter().enumerate() {
        let _ = writeln!(script, "echo {index} >\"$OUT/at\"");
        if let Some(file) = &step.file {
            let content = shorten::plan(&step.text);
            let _ = write!(
                script,
                "cat >'{file}' <<'END OF FILE'\n{content}END OF FILE\n"
            );
            continue;
        }
        let body = with_waits(&shorten::commands(&step.text), index);
        let body = step.interrupted_s.map_or_else(
            || format!("{{\n{body}\n}}"),
            |after_s| interrupted(&body, after_s),
        );
        if step.exit_codes == [0] {
            let _ = writeln!(script, "{body} >\"$OUT/{index}\" 2>&1 </dev/null");
        } else {
            let codes: Vec<String> = step.exit_codes.iter().map(i32::to_string).collect();
            let _ = writeln!(
                script,
                "set +e; {body} >\"$OUT/{index}\" 2>&1 </dev/null; code=$?; set -e\n\
                 case $code in {}) ;; *) echo \"exit code $code, not {}\" >>\"$OUT/{index}\"; exit \
                 1 ;; esac",
                codes.join("|"),
                codes.join(" or ")
            );
        }
    }
    script.push_str("echo end >\"$OUT/at\"\n");
    script
}

/// One command, which gets SIGINT after a time. `exec`, since a shell in between would be killed by
/// the signal and return its own code.
fn interrupted(command: &str, after_s: u32) -> String {
    let quoted = command.trim().replace('\'', "'\\''");
    format!("timeout --preserve-status --signal=INT {after_s} sh -c 'exec {quoted}'")
}

/// After each line that starts a server in the background, the script waits for it.
fn with_waits(text: &str, index: usize) -> String {
    let mut result = String::new();
    let mut servers = 0;
    for line in text.lines() {
        result.push_str(line);
        result.push('\n');
        let command = line.split(" #").next().unwrap_or_default().trim_end();
        if command.contains("wrkbench serve") && command.ends_with('&') {
            servers += 1;
            let _ = writeln!(result, "await_serving \"$OUT/{index}\" {servers}");
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_in_the_background_is_waited_for() {
        let text = with_waits("wrkbench serve &\nx\nwrkbench serve -l 8081 & # two\n", 7);
        let expected = "wrkbench serve &\nawait_serving \"$OUT/7\" 1\nx\nwrkbench serve -l 8081 & \
            # two\n\
                        await_serving \"$OUT/7\" 2\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_goes_on_for_ever_gets_ctrl_c() {
        let blocks = crate::blocks::of("<!-- interrupted after: 3 s -->\n```sh\na 'b' >c\n```\n");
        let script = of(&steps(&blocks.unwrap()), false);
        let expected = r"timeout --preserve-status --signal=INT 3 sh -c 'exec a '\''b'\'' >c' >";
        assert!(script.contains(expected), "{script}");
    }

    #[test]
    fn each_command_of_a_session_is_a_step_with_its_output() {
        let blocks = crate::blocks::of(
            "<!-- exit code: 2 or 5 -->\n```console\n$ a\nx\n$ b\ny\n```\n\n```text\nno\n```\n",
        );
        let steps = steps(&blocks.unwrap());
        assert_eq!(steps.len(), 2);
        assert_eq!(steps[0].exit_codes, [0]);
        assert_eq!(steps[1].exit_codes, [2, 5]);
        assert!(of(&steps, false).contains("case $code in 2|5)"));
        assert_eq!(steps[1].expected, ["y"]);
    }
}
