//! `wrkbench man`: manual pages in roff, laid out as man-pages(7) says.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Arg;

use super::print;
use crate::args::{self, ManArgs, guide};
use crate::console::Console;

/// When the pages last changed; a release sets it.
const DATE: &str = "2026-11-22";

/// Prints a page, or writes all of them.
///
/// # Errors
/// When `SOURCE_DATE_EPOCH` is not a time, or a page cannot be written.
pub(super) fn man(arguments: &ManArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let date = date(console.variable("SOURCE_DATE_EPOCH").as_deref())?;
    if let Some(folder) = &arguments.output_dir {
        write_all(folder, &date)?;
        return Ok(ExitCode::SUCCESS);
    }
    let program = built();
    let command = arguments
        .command
        .as_deref()
        .and_then(|name| program.find_subcommand(name));
    print(page(command.unwrap_or(&program), &date).as_bytes(), console)
}

fn write_all(folder: &Path, date: &str) -> anyhow::Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("--output-dir {folder:?}: cannot be created"))?;
    let program = built();
    for command in commands(&program).chain([&program]) {
        let path = folder.join(format!("{}.1", page_name(command)));
        files::outputs::create(&path)
            .and_then(|mut file| file.write_all(page(command, date).as_bytes()))
            .with_context(|| format!("{path:?}: cannot be written"))?;
    }
    Ok(())
}

/// The date of the pages: that of a reproducible build if one was given
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
fn date(epoch: Option<&OsStr>) -> anyhow::Result<String> {
    let Some(epoch) = epoch else {
        return Ok(DATE.to_owned());
    };
    let seconds = epoch.to_str().and_then(|text| text.parse().ok());
    match seconds.map(jiff::Timestamp::from_second) {
        Some(Ok(time)) => Ok(time.strftime("%Y-%m-%d").to_string()),
        _ => bail!("SOURCE_DATE_EPOCH {epoch:?}: is not a time in seconds since 1970"),
    }
}

fn built() -> clap::Command {
    // It is described in the page of the program.
    let mut program = args::declaration().disable_help_subcommand(true);
    program.build();
    program
}

/// The commands that a user sees.
fn commands(program: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    let commands = program.get_subcommands();
    commands.filter(|command| !command.is_hide_set())
}

/// `wrkbench-sweep`
fn page_name(command: &clap::Command) -> &str {
    let name = command.get_display_name();
    name.unwrap_or_else(|| command.get_name())
}

fn page(command: &clap::Command, date: &str) -> String {
    let is_program = command.has_subcommands();
    let guide = guide::of(if is_program { "" } else { command.get_name() });
    let mut page = Page::default();
    page.title(page_name(command), date);
    page.section("NAME");
    let about = command.get_about().map(ToString::to_string);
    let about = about.unwrap_or_default();
    page.text(&format!(
        "{} - {}",
        page_name(command),
        uncapitalized(&about)
    ));
    page.section("SYNOPSIS");
    page.synopsis(command);
    page.section("DESCRIPTION");
    let description = command.get_long_about().map(ToString::to_string);
    // The first paragraph repeats the name.
    let description = description.unwrap_or_default();
    let paragraphs: Vec<&str> = description.split("\n\n").skip(1).collect();
    page.paragraphs(&paragraphs);
    if is_program {
        page.section("COMMANDS");
        for command in commands(command) {
            let about = command.get_about().map(ToString::to_string);
            let name = format!("{}(1)", in_bold(page_name(command)));
            page.item(&name, &about.unwrap_or_default());
        }
    }
    page.arguments(command);
    page.section("EXAMPLES");
    for (at, (line, purpose)) in guide.examples.iter().enumerate() {
        if at > 0 {
            page.line(".PP");
        }
        page.example(line, purpose);
    }
    page.table("FILES", guide.files);
    page.table("ENVIRONMENT", guide.environment);
    for (heading, rows) in guide::tables(guide.command) {
        page.table(&heading.to_uppercase(), rows);
    }
    let codes = guide::exit_codes(guide.command);
    let codes = codes.iter().map(|(code, text)| (code.to_string(), text));
    page.table("EXIT STATUS", &codes.collect::<Vec<_>>());
    if is_program {
        page.line(".PP");
        page.text("The exit codes of each command are in its page.");
    }
    page.section("SEE ALSO");
    let others: Vec<String> = if is_program {
        commands(command).map(|c| page_name(c).to_owned()).collect()
    } else {
        let related = guide.see_also.iter().map(|name| format!("wrkbench-{name}"));
        ["wrkbench".to_owned()].into_iter().chain(related).collect()
    };
    page.references(&others, guide.documents);
    page.0
}

/// The first word in lower case, unless it is an abbreviation.
fn uncapitalized(sentence: &str) -> String {
    let mut letters = sentence.chars();
    match letters.next() {
        Some(first) if !letters.as_str().starts_with(char::is_uppercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => sentence.to_owned(),
    }
}

/// The source of a page.
#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn title(&mut self, name: &str, date: &str) {
        let (name, version) = (name.to_uppercase(), env!("CARGO_PKG_VERSION"));
        self.line(&format!(
            ".TH {name} 1 {date} \"wrkbench {version}\" \"User Commands\""
        ));
        // Short lines must not be stretched.
        self.line(".ad l");
    }

    fn section(&mut self, heading: &str) {
        self.line(&format!(".SH {heading}"));
    }

    /// A paragraph of plain text, in which backticks mark code.
    fn text(&mut self, text: &str) {
        self.fill(&rich(text));
    }

    /// Breaks lines of roff, so that none is too long.
    fn fill(&mut self, text: &str) {
        const WIDTH: usize = 80;
        let mut line = String::new();
        for word in text.split_whitespace() {
            // Names of options, files and pages must not be hyphenated. A lone dash is left alone:
            // programs that index pages look for it.
            let is_name = word != "\\-" && word.contains("\\-") || word.contains('/');
            let word = format!("{}{word}", if is_name { "\\%" } else { "" });
            if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
                self.line(&line);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            } else if word.starts_with('.') {
                // It would begin a request.
                line.push_str("\\&");
            }
            line.push_str(&word);
        }
        self.line(&line);
    }

    fn paragraphs(&mut self, paragraphs: &[&str]) {
        for (at, paragraph) in paragraphs.iter().enumerate() {
            if at > 0 {
                self.line(".PP");
            }
            self.text(paragraph);
        }
    }

    /// `head` is roff, `text` plain text.
    fn item(&mut self, head: &str, text: &str) {
        self.line(".TP");
        self.line(head);
        self.text(text);
    }

    /// A section with items, or nothing if there are none.
    fn table<K: AsRef<str>, T: AsRef<str>>(&mut self, heading: &str, rows: &[(K, T)]) {
        if !rows.is_empty() {
            self.section(heading);
        }
        for (key, text) in rows {
            self.item(&in_bold(key.as_ref()), text.as_ref());
        }
    }

    /// The usage as clap prints it, a line for each form.
    fn synopsis(&mut self, command: &clap::Command) {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:");
        for (at, form) in usage.lines().enumerate() {
            if at > 0 {
                self.line(".br");
            }
            let words: Vec<String> = form.split_whitespace().map(synopsis_word).collect();
            self.fill(&words.join(" "));
        }
    }

    /// The sections ARGUMENTS and OPTIONS.
    fn arguments(&mut self, command: &clap::Command) {
        let visible = || command.get_arguments().filter(|arg| !arg.is_hide_set());
        let positionals: Vec<&Arg> = visible().filter(|arg| arg.is_positional()).collect();
        if !positionals.is_empty() {
            self.section("ARGUMENTS");
            for arg in positionals {
                self.argument(arg, &italic_values(arg));
            }
        }
        self.section("OPTIONS");
        let options: Vec<&Arg> = visible().filter(|arg| !arg.is_positional()).collect();
        let mut headings: Vec<Option<&str>> = Vec::new();
        for option in &options {
            if !headings.contains(&option.get_help_heading()) {
                headings.push(option.get_help_heading());
            }
        }
        for heading in headings {
            if let Some(heading) = heading {
                self.line(&format!(".SS {heading}"));
            }
            for option in options.iter().filter(|o| o.get_help_heading() == heading) {
                self.argument(option, &option_head(option));
            }
        }
    }

    fn argument(&mut self, arg: &Arg, head: &str) {
        let help = arg.get_long_help().or_else(|| arg.get_help());
        let mut text = help.map(ToString::to_string).unwrap_or_default();
        for alias in arg.get_visible_aliases().unwrap_or_default() {
            let _ = write!(text, " [alias: --{alias}]");
        }
        let defaults = arg.get_default_values();
        let takes_values = arg.get_action().takes_values();
        if let Some(default) = defaults.first().filter(|_| takes_values)
            && !arg.is_hide_default_value_set()
        {
            let _ = write!(text, " [default: {}]", default.to_string_lossy());
        }
        let values = if takes_values {
            arg.get_possible_values()
        } else {
            Vec::new()
        };
        let has_help = values.iter().any(|value| value.get_help().is_some());
        if !values.is_empty() && !has_help {
            let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
            let _ = write!(text, " [possible values: {}]", names.join(", "));
        }
        self.item(head, &text);
        if has_help {
            self.line(".RS");
            for value in &values {
                let help = value.get_help().map(ToString::to_string);
                self.item(&in_bold(value.get_name()), &help.unwrap_or_default());
            }
            self.line(".RE");
        }
    }

    fn example(&mut self, line: &str, purpose: &str) {
        let mut purpose = purpose.trim_end_matches('.').to_owned();
        if let Some(first) = purpose.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        self.text(&format!("{purpose}:"));
        self.line(".PP");
        self.line(".RS 4");
        self.line(".EX");
        self.line(&escaped(line));
        self.line(".EE");
        self.line(".RE");
    }

    fn references(&mut self, pages: &[String], documents: &[&str]) {
        let pages: Vec<String> = pages
            .iter()
            .map(|name| format!("{}(1)", in_bold(name)))
            .collect();
        self.fill(&pages.join(", "));
        if !documents.is_empty() {
            self.line(".PP");
            self.text(&format!(
                "{}; installed in share/doc/wrkbench.",
                documents.join(", ")
            ));
        }
    }
}

/// `-c, --connections N` in roff.
fn option_head(option: &Arg) -> String {
    let short = option
        .get_short()
        .map(|short| in_bold(&format!("-{short}")));
    let long = option.get_long().map(|long| in_bold(&format!("--{long}")));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let values = if option.get_action().takes_values() {
        format!(" {}", italic_values(option))
    } else {
        String::new()
    };
    names.join(", ") + &values
}

/// The names of an argument's values in roff.
fn italic_values(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let names: Vec<String> = names.iter().map(|name| in_italics(name)).collect();
    names.join(" ")
}

/// A word of a usage line in roff: literals in bold, and placeholders, which are upper case, in
/// italics.
fn synopsis_word(word: &str) -> String {
    let is_placeholder = word.contains(|c: char| c.is_uppercase());
    if !is_placeholder {
        return in_bold(word);
    }
    let word = word.replace(['<', '>'], "");
    let name = word.trim_start_matches('[').trim_end_matches(['.', ']']);
    let (before, after) = word.split_once(name).unwrap_or_default();
    format!("{before}{}{after}", in_italics(name))
}

fn in_bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

fn in_italics(text: &str) -> String {
    format!("\\fI{}\\fR", escaped(text))
}

/// Plain text as roff, with what is between backticks in bold.
fn rich(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(at, part)| match at % 2 {
        0 => escaped(part),
        _ => in_bold(part),
    });
    parts.collect()
}

/// Plain text as roff. Without these escapes roff prints typographic characters, which cannot be
/// copied into a shell (groff_char(7)).
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\e"),
            '-' => escaped.push_str("\\-"),
            '\'' => escaped.push_str("\\(aq"),
            '`' => escaped.push_str("\\(ga"),
            '^' => escaped.push_str("\\(ha"),
            '~' => escaped.push_str("\\(ti"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every page with its name.
    fn pages() -> Vec<(String, String)> {
        let folder = testkit::Folder::new();
        write_all(folder.path(), DATE).unwrap();
        let names = folder.names().into_iter();
        names
            .map(|name| (name.clone(), folder.read(&name)))
            .collect()
    }

    #[test]
    fn the_program_and_every_command_have_a_page() {
        let mut expected: Vec<String> = args::declaration()
            .get_subcommands()
            .map(|command| format!("wrkbench-{}.1", command.get_name()))
            .collect();
        expected.push("wrkbench.1".to_owned());
        expected.sort();
        let mut names: Vec<String> = pages().into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, expected);
    }

    #[test]
    fn every_page_has_its_name_the_version_and_all_sections() {
        for (name, page) in pages() {
            let (name, section) = name.split_once('.').unwrap();
            let title = format!(
                ".TH {} {section} {DATE} \"wrkbench {}\" \"User Commands\"\n",
                name.to_uppercase(),
                env!("CARGO_PKG_VERSION")
            );
            assert!(page.starts_with(&title), "{page}");
            for section in [
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "OPTIONS",
                "EXAMPLES",
                "EXIT STATUS",
                "SEE ALSO",
            ] {
                let body = page.split_once(&format!(".SH {section}\n"));
                let (_, body) = body.unwrap_or_else(|| panic!("{name} lacks {section}"));
                assert!(
                    !body.starts_with(['.', '\n'])
                        || body.starts_with(".TP\n")
                        || body.starts_with(".PP\n")
                        || body.starts_with(".SS "),
                    "{name}: {section}"
                );
            }
            let name = name.replace('-', "\\-");
            let heading = format!(".SH NAME\n{name} \\- ");
            assert!(page.replace("\\%", "").contains(&heading), "{page}");
        }
    }

    #[test]
    fn every_option_and_every_value_is_in_the_page_of_its_command() {
        let pages = pages();
        let program = built();
        for command in commands(&program).chain([&program]) {
            let name = format!("{}.1", page_name(command));
            let (_, page) = pages.iter().find(|page| page.0 == name).unwrap();
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let head = if arg.is_positional() {
                    format!("\n.TP\n{}\n", italic_values(arg))
                } else {
                    format!("\n.TP\n{}\n", option_head(arg))
                };
                assert!(page.contains(&head), "{name} lacks {head}");
                let values = arg.get_possible_values();
                for value in values.iter().filter(|_| arg.get_action().takes_values()) {
                    assert!(
                        page.contains(&escaped(value.get_name())),
                        "{name}: {value:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn pages_refer_only_to_pages_that_exist() {
        let pages = pages();
        let mut count = 0;
        for (name, page) in &pages {
            let mut plain = page.replace("\\-", "-");
            for escape in ["\\fB", "\\fR", "\\%"] {
                plain = plain.replace(escape, "");
            }
            let words = plain.split([' ', '\n']);
            for word in words.filter(|word| word.starts_with("wrkbench")) {
                let Some((other, _)) = word.split_once("(1)") else {
                    continue;
                };
                count += 1;
                let file = format!("{other}.1");
                assert!(
                    pages.iter().any(|page| page.0 == file),
                    "{name}: {other}(1)"
                );
            }
        }
        assert!(count > 40, "only {count} references were found");
    }

    #[test]
    fn every_exit_code_is_in_the_page_of_the_program() {
        let program = page(&built(), DATE);
        for (code, _) in guide::exit_codes("") {
            assert!(
                program.contains(&format!("\n.TP\n\\fB{code}\\fR\n")),
                "{code}"
            );
        }
    }

    #[test]
    fn the_date_is_that_of_the_release_or_of_a_reproducible_build() {
        DATE.parse::<jiff::civil::Date>().unwrap();
        assert_eq!(date(None).unwrap(), DATE);
        assert_eq!(date(Some("1000000000".as_ref())).unwrap(), "2001-09-09");
        for wrong in ["", "today", "99999999999999"] {
            let error = date(Some(wrong.as_ref())).unwrap_err().to_string();
            assert!(error.contains("SOURCE_DATE_EPOCH"), "{error}");
        }
    }

    #[test]
    fn text_is_no_request_and_no_escape() {
        let mut page = Page::default();
        page.text(".TH isn't `a\\b` -c^~");
        assert_eq!(page.0, "\\&.TH isn\\(aqt \\fBa\\eb\\fR \\%\\-c\\(ha\\(ti\n");
    }

    #[test]
    fn a_synopsis_tells_words_from_placeholders() {
        for (word, expected) in [
            ("wrkbench", "\\fBwrkbench\\fR"),
            ("[OPTIONS]", "[\\fIOPTIONS\\fR]"),
            ("<DIR|FILE>...", "\\fIDIR|FILE\\fR..."),
            ("[ARGUMENT]...", "[\\fIARGUMENT\\fR]..."),
        ] {
            assert_eq!(synopsis_word(word), expected);
        }
    }
}
