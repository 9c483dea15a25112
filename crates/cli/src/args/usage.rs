//! Usage in the layout of wrk, for those who called us by that name.

/// Two columns, every line padded to the same width, from the same declaration as everything else.
pub(super) fn in_wrk_layout(command: &clap::Command) -> String {
    let options: Vec<&clap::Arg> = command
        .get_arguments()
        .filter(|arg| arg.get_long().is_some() && !arg.is_hide_set())
        .collect();
    let name_width = widest(
        options
            .iter()
            .filter_map(|arg| arg.get_long())
            .map(str::len),
    ) + 2;
    let value_width = widest(options.iter().map(|arg| value_name(arg).len()));
    let mut lines = vec![
        "Usage: wrk <options> <url>".to_owned(),
        "  Options:".to_owned(),
    ];
    let mut heading = None;
    for arg in options {
        if heading.is_some_and(|last| last != arg.get_help_heading()) {
            lines.push(String::new());
        }
        heading = Some(arg.get_help_heading());
        let short = arg
            .get_short()
            .map_or_else(|| "   ".to_owned(), |short| format!("-{short},"));
        let long = format!("--{}", arg.get_long().unwrap_or_default());
        let value = value_name(arg);
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        lines.push(format!(
            "    {short} {long:name_width$} {value:value_width$}  {help}"
        ));
    }
    lines.push(String::new());
    lines
        .push("  Counts may have a unit (10k, 1.5M), times too (500ms, 30s, 2m, 1h30m)".to_owned());
    let width = widest(lines.iter().map(|line| line.chars().count()));
    lines
        .iter()
        .map(|line| format!("{line:width$}\n"))
        .collect()
}

/// `<N>`, or nothing for an option that takes no value.
fn value_name(arg: &clap::Arg) -> String {
    if !arg.get_action().takes_values() {
        return String::new();
    }
    let names = arg.get_value_names().unwrap_or_default();
    names.iter().map(|name| format!("<{name}>")).collect()
}

fn widest(widths: impl Iterator<Item = usize>) -> usize {
    widths.max().unwrap_or_default()
}
