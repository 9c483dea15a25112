//! Commands for a POSIX shell.

/// A command that a POSIX shell splits into exactly these words.
#[must_use]
pub fn command(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    quoted.join(" ")
}

/// One word for a POSIX shell, in single quotes if necessary.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_words_back() {
        let words = [
            "wrkbench",
            "-H",
            "Cookie: a=b; c='d'",
            "",
            "$HOME `id`",
            "http://h/?a=1&b=2",
            "a\nb",
            "*",
            "~",
        ]
        .map(str::to_owned);
        let output = std::process::Command::new("sh")
            .arg("-c")
            .arg(format!("printf '%s\\0' {}", command(&words)))
            .output()
            .expect("there is a shell");
        let read: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
        let expected: Vec<&[u8]> = words
            .iter()
            .map(String::as_bytes)
            .chain([&b""[..]])
            .collect();
        assert_eq!(read, expected);
    }
}
