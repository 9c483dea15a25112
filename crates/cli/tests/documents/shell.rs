//! Splits command lines: enough of the grammar of the shell for the commands in documents.

/// The commands of a text, each as its words: split at line ends, `|`, `&` and `;`; without
/// comments and redirections.
pub(crate) fn commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let joined = text.replace("\\\n", " ");
    let mut characters = joined.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                word.extend(characters.by_ref().take_while(|inner| *inner != character));
            }
            '\\' => word.get_or_insert_default().extend(characters.next()),
            '#' if word.is_none() => while characters.next_if(|inner| *inner != '\n').is_some() {},
            ' ' | '\t' => words.extend(word.take()),
            '>' | '<' => {
                // `2>` redirects as well.
                if word.as_deref() == Some("2") {
                    word = None;
                }
                words.extend(word.take());
                while characters
                    .next_if(|inner| ">&".contains(*inner) || *inner == ' ')
                    .is_some()
                {}
                while characters
                    .next_if(|inner| !inner.is_whitespace() && !";|&)".contains(*inner))
                    .is_some()
                {}
            }
            '\n' | '|' | '&' | ';' | '(' | ')' => {
                words.extend(word.take());
                if !words.is_empty() {
                    commands.push(std::mem::take(&mut words));
                }
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    if !words.is_empty() {
        commands.push(words);
    }
    commands
}

/// Words of the shell, and programs that run another one, before the name of a program.
const BEFORE: [&str; 8] = ["sudo", "then", "do", "else", "if", "time", "exec", "!"];

/// Programs that run another one, with their own arguments before it.
const RUNNERS: [&str; 5] = ["nsenter", "taskset", "timeout", "nice", "ip"];

/// The arguments, if a command is one of this program.
pub(crate) fn arguments_of<'a>(program: &str, words: &'a [String]) -> Option<&'a [String]> {
    let mut at = 0;
    while words
        .get(at)
        .is_some_and(|word| BEFORE.contains(&word.as_str()) || word.contains('='))
    {
        at += 1;
    }
    if words
        .get(at)
        .is_some_and(|word| RUNNERS.contains(&word.as_str()))
    {
        at = words.iter().position(|word| word == program)?;
    }
    (words.get(at)? == program).then(|| &words[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_into_commands_and_words() {
        let found = commands("a 'b c' \"d\"e >out 2>&1 | f # no\nX=1 sudo g; h &\n");
        let expected: [&[&str]; 4] = [&["a", "b c", "de"], &["f"], &["X=1", "sudo", "g"], &["h"]];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_program_is_found_behind_what_runs_it() {
        let words = |text: &str| commands(text).remove(0);
        assert_eq!(
            arguments_of("g", &words("X=1 sudo g -a b")).unwrap(),
            ["-a", "b"]
        );
        assert_eq!(
            arguments_of("g", &words("nsenter --net --target 7 g h")).unwrap(),
            ["h"]
        );
        assert_eq!(
            arguments_of("g", &words("taskset -c 1 g -a")).unwrap(),
            ["-a"]
        );
        assert!(arguments_of("g", &words("echo g")).is_none());
        assert!(arguments_of("g", &words("sudo")).is_none());
    }
}
