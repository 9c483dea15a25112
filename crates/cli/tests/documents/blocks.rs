//! The code blocks of a Markdown text, with the comments above them.

use crate::shell;

/// How the test uses a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// ```sh, or commands of a comment that run first.
    Shell,
    /// ```console: commands after `$ ` and their output.
    Session,
    /// Anything else, which is not tested.
    Other,
}

#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) kind: BlockKind,
    pub(crate) text: String,
    /// The line of its fence, starting with 1.
    pub(crate) line: usize,
    /// The reason why it is not run.
    pub(crate) not_run: Option<String>,
    /// The exit codes that its last command may have.
    pub(crate) exit_codes: Vec<i32>,
    /// When it gets Ctrl-C, in seconds after its start.
    pub(crate) interrupted_s: Option<u32>,
    pub(crate) is_exact: bool,
    /// The file whose content it is.
    pub(crate) file: Option<String>,
}

impl Block {
    pub(crate) fn is_run(&self) -> bool {
        self.kind != BlockKind::Other && self.not_run.is_none()
    }

    /// The words of each command in it, whether they are run or not.
    pub(crate) fn commands(&self) -> Vec<Vec<String>> {
        match self.kind {
            BlockKind::Shell => shell::commands(&self.text),
            BlockKind::Session => self
                .session()
                .iter()
                .flat_map(|(command, _)| shell::commands(command))
                .collect(),
            BlockKind::Other => Vec::new(),
        }
    }

    /// The commands of a session with the lines below each.
    pub(crate) fn session(&self) -> Vec<(String, Vec<String>)> {
        let mut session: Vec<(String, Vec<String>)> = Vec::new();
        for line in self.text.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                session.push((format!("{command}\n"), Vec::new()));
            } else if let Some((command, output)) = session.last_mut() {
                // A command continues after a line that ends with a backslash.
                if output.is_empty() && command.ends_with("\\\n") {
                    command.push_str(line);
                    command.push('\n');
                } else {
                    output.push(line.to_owned());
                }
            }
        }
        session
    }
}

/// What comments say about the next block.
#[derive(Default)]
struct Directives {
    not_run: Option<String>,
    exit_codes: Vec<i32>,
    interrupted_s: Option<u32>,
    is_exact: bool,
    file: Option<String>,
}

/// All fenced and indented code blocks, and commands to be run first.
///
/// # Errors
/// The line of what is not understood, and what it is.
pub(crate) fn of(markdown: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut directives = Directives::default();
    let mut lines = markdown.lines().enumerate().peekable();
    let mut is_after_blank = true;
    while let Some((index, line)) = lines.next() {
        let number = index + 1;
        if let Some(comment) = line.trim_start().strip_prefix("<!--") {
            let mut text = comment.to_owned();
            while !text.contains("-->") {
                let (_, more) = lines
                    .next()
                    .ok_or_else(|| format!("{number}: a comment without end"))?;
                text.push('\n');
                text.push_str(more);
            }
            let text = text.split("-->").next().unwrap_or_default().trim();
            match text.strip_prefix("run first:") {
                Some(commands) => blocks.push(block(
                    BlockKind::Shell,
                    commands.trim(),
                    number,
                    Directives::default(),
                )),
                None => understand(text, &mut directives)
                    .map_err(|error| format!("{number}: {error}"))?,
            }
        } else if let Some(language) = line.trim_start().strip_prefix("```") {
            let indent = line.len() - line.trim_start().len();
            let mut text = String::new();
            for (_, inner) in lines.by_ref() {
                if inner.trim() == "```" {
                    break;
                }
                text.push_str(inner.get(indent..).unwrap_or_default());
                text.push('\n');
            }
            let kind = match language {
                "sh" => BlockKind::Shell,
                "console" => BlockKind::Session,
                "" | "python" | "sql" | "text" | "toml" | "json" | "lua" | "csv" | "yaml"
                | "markdown" | "xml" | "http" | "nginx" | "proto" => BlockKind::Other,
                other => return Err(format!("{number}: no rule for blocks marked {other}")),
            };
            blocks.push(block(kind, &text, number, std::mem::take(&mut directives)));
        } else if line.starts_with("    ") && is_after_blank {
            let mut text = format!("{}\n", &line[4..]);
            while let Some((_, inner)) = lines.next_if(|(_, inner)| inner.starts_with("    ")) {
                text.push_str(&inner[4..]);
                text.push('\n');
            }
            blocks.push(block(
                BlockKind::Other,
                &text,
                number - 1,
                std::mem::take(&mut directives),
            ));
        }
        is_after_blank = line.trim().is_empty();
    }
    Ok(blocks)
}

fn block(kind: BlockKind, text: &str, line: usize, mut directives: Directives) -> Block {
    if directives.exit_codes.is_empty() {
        directives.exit_codes.push(0);
    }
    Block {
        kind,
        text: text.to_owned(),
        line,
        not_run: directives.not_run,
        exit_codes: directives.exit_codes,
        interrupted_s: directives.interrupted_s,
        is_exact: directives.is_exact,
        file: directives.file,
    }
}

fn understand(comment: &str, directives: &mut Directives) -> Result<(), String> {
    let (word, value) = comment.split_once(':').unwrap_or((comment, ""));
    let value = value.trim();
    match word {
        "not run" if !value.is_empty() => directives.not_run = Some(value.to_owned()),
        "exit code" => {
            let codes: Result<_, _> = value.split(" or ").map(str::parse).collect();
            directives.exit_codes = codes.map_err(|_| "no exit code".to_owned())?;
        }
        "interrupted after" => {
            let seconds = value
                .strip_suffix(" s")
                .and_then(|value| value.parse().ok());
            directives.interrupted_s = Some(seconds.ok_or("no time like `3 s`")?);
        }
        "exact" => directives.is_exact = true,
        "file" if !value.is_empty() => directives.file = Some(value.to_owned()),
        _ => return Err(format!("a comment that says nothing known: {comment}")),
    }
    Ok(())
}

/// Text in backticks outside code blocks.
pub(crate) fn spans(markdown: &str) -> Vec<String> {
    let mut is_fenced = false;
    let mut spans = Vec::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced && !line.starts_with("    ") {
            spans.extend(
                line.split('`')
                    .skip(1)
                    .step_by(2)
                    .map(|span| span.replace("\\|", "|")),
            );
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A\n\n```sh\nwrkbench -v\n```\n\n<!-- not run: needs\nanother machine \
        -->\n```console\n$ a \\\n  b\nout\n$ c\n```\n\n    indented\n\n<!-- run first:\nmake \
        it\n-->\nSay `make x`.\n\n<!-- file: p.toml -->\n```toml\nx = 1\n```\n";

    #[test]
    fn blocks_are_found_with_what_comments_say_of_them() {
        let blocks = of(TEXT).unwrap();
        let kinds: Vec<BlockKind> = blocks.iter().map(|block| block.kind).collect();
        assert_eq!(
            kinds,
            [
                BlockKind::Shell,
                BlockKind::Session,
                BlockKind::Other,
                BlockKind::Shell,
                BlockKind::Other
            ]
        );
        assert!(blocks[0].is_run() && !blocks[1].is_run());
        assert_eq!(blocks[1].not_run.as_deref(), Some("needs\nanother machine"));
        assert_eq!(blocks[3].text, "make it");
        assert_eq!(blocks[4].file.as_deref(), Some("p.toml"));
        assert_eq!(spans(TEXT), ["make x"]);
    }

    #[test]
    fn a_session_is_commands_and_their_output() {
        let session = of(TEXT).unwrap()[1].session();
        assert_eq!(session.len(), 2);
        assert_eq!(session[0].0, "a \\\n  b\n");
        assert_eq!(session[0].1, ["out"]);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        assert!(of("<!-- notrun: x -->\n").is_err());
        assert!(of("<!-- not run -->\n").is_err());
        assert!(of("```bash\nx\n```\n").is_err());
        assert!(of("<!-- exit code: some -->\n").is_err());
        assert!(of("<!-- interrupted after: a while -->\n").is_err());
        assert!(of("<!-- no end\n").is_err());
    }
}
