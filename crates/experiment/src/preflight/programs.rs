//! Which programs a line of shell begins, as far as can be seen without running it.

/// Words after which another command begins.
pub(super) const INTRODUCTIONS: [&str; 11] = [
    "if", "then", "else", "elif", "while", "until", "do", "!", "{", "exec", "time",
];

/// The programs that a line surely runs, in order, each once. What the shell would have to expand is left out:
/// better to say nothing than to refuse what works.
pub(super) fn named(command: &str) -> Vec<String> {
    // Functions and here-documents have words of their own.
    if command.contains("()") || command.contains("<<") || command.contains("PATH=") {
        return Vec::new();
    }
    let mut names: Vec<String> = Vec::new();
    let mut has_moved = false;
    for part in parts(command) {
        let words = part.split_whitespace();
        let mut words =
            words.skip_while(|word| INTRODUCTIONS.contains(word) || is_assignment(word));
        let Some(name) = words.next() else { continue };
        has_moved |= name == "cd";
        let is_elsewhere = has_moved && name.contains('/') && !name.starts_with('/');
        if is_plain(name) && !is_elsewhere && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn is_plain(word: &str) -> bool {
    word.chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_./+@[:".contains(c))
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// The simple commands of a line: cut at `;`, `&`, `|` and line feeds outside of quotes. A quoted text is
/// a mark that no name has, a comment nothing.
fn parts(command: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    let mut chars = command.chars().peekable();
    let mut before = '\n';
    while let Some(c) = chars.next() {
        let mut add = |c: char| parts.last_mut().map_or((), |part| part.push(c));
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => {
                // A line that goes on is one line; any other character is itself.
                if chars.next().is_some_and(|next| next != '\n') {
                    add('\\');
                }
            }
            (Some(_), _) => {}
            (None, '\'' | '"') => {
                add('"');
                quote = Some(c);
            }
            (None, '#') if before.is_whitespace() || before == ';' => {
                while chars.peek().is_some_and(|next| *next != '\n') {
                    chars.next();
                }
            }
            // `2>&1` and `&>` are redirections.
            (None, '&') if before == '>' || chars.peek() == Some(&'>') => add(c),
            (None, ';' | '&' | '|' | '\n') => parts.push(String::new()),
            (None, c) => add(c),
        }
        before = c;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_where_a_command_begins() {
        for (command, expected) in [
            ("systemctl restart nginx php-fpm", vec!["systemctl"]),
            ("a && b || c; d | e & f", vec!["a", "b", "c", "d", "e", "f"]),
            ("LC_ALL=C X=1 nginx -t 2>&1 >/dev/null", vec!["nginx"]),
            ("if true; then a; else b; fi", vec!["true", "a", "b", "fi"]),
            ("echo 'x; y' \"z && w\"", vec!["echo"]),
            ("echo a\\;b", vec!["echo"]),
            ("a # and b; c\nd", vec!["a", "d"]),
            ("a \\\n b", vec!["a"]),
            ("\"$DIR/x\" y; z", vec!["z"]),
            ("$RUN; (sub); `x`", vec![]),
            (
                "cd /tmp && ./run && /bin/ls && ps",
                vec!["cd", "/bin/ls", "ps"],
            ),
            ("f() { x; }; f", vec![]),
            ("cat <<END\nwords here\nEND", vec![]),
            ("PATH=/opt/bin:$PATH tool", vec![]),
            ("", vec![]),
            ("'", vec![]),
            ("\\", vec![]),
        ] {
            assert_eq!(named(command), expected, "{command:?}");
        }
    }
}
