//! Usage in the layout of wrk, wrk2 and wrk-cmm, for calls through links of these names.

use super::Style;

/// The usage text of each tool, byte for byte, including trailing spaces.
const WRK: &str = "\
Usage: wrk <options> <url>                            
  Options:                                            
    -c, --connections <N>  Connections to keep open   
    -d, --duration    <T>  Duration of test           
    -t, --threads     <N>  Number of threads to use   
                                                      
    -s, --script      <S>  Load Lua script file       
    -H, --header      <H>  Add header to request      
        --latency          Print latency statistics   
        --timeout     <T>  Socket/request timeout     
    -v, --version          Print version details      
                                                      
  Numeric arguments may include a SI unit (1k, 1M, 1G)
  Time arguments may include a time unit (2s, 2m, 2h)
";

const WRK2: &str = "\
Usage: wrk <options> <url>                            
  Options:                                            
    -c, --connections <N>  Connections to keep open   
    -d, --duration    <T>  Duration of test           
    -t, --threads     <N>  Number of threads to use   
                                                      
    -s, --script      <S>  Load Lua script file       
    -H, --header      <H>  Add header to request      
    -L  --latency          Print latency statistics   
    -U  --u_latency        Print uncorrected latency statistics
        --timeout     <T>  Socket/request timeout     
    -B, --batch_latency    Measure latency of whole   
                           batches of pipelined ops   
                           (as opposed to each op)    
    -v, --version          Print version details      
    -R, --rate        <T>  work rate (throughput)     
                           in requests/sec (total)    
                           [Required Parameter]       
                                                      
                                                      
  Numeric arguments may include a SI unit (1k, 1M, 1G)
  Time arguments may include a time unit (2s, 2m, 2h)
";

const CMM: &str = "\
Usage: wrk <options> <url>                            
  Options:                                            
    -c, --connections <N>  Connections to keep open   
    -d, --duration    <T>  Duration of test           
    -t, --threads     <N>  Number of threads to use   
                                                      
    -b, --bind-ip     <S>  Source IP (or CIDR mask)   
                                                      
    -s, --script      <S>  Load Lua script file       
    -H, --header      <H>  Add header to request      
        --latency          Print latency statistics   
    -D  --delay-stats <T>  Stats collection delay     
        --breakout         Print breakout statistics  
        --timeout     <T>  Socket/request timeout     
    -v, --version          Print version details      
                                                      
  Numeric arguments may include a SI unit (1k, 1M, 1G)
  Time arguments may include a time unit (2s, 2m, 2h)
";

/// The usage text of a tool.
pub(super) fn own_lines(tool: Style) -> &'static str {
    match tool {
        Style::Wrk => WRK,
        Style::Wrk2 => WRK2,
        Style::Cmm => CMM,
    }
}

/// The tool's own text, followed by the options that the tool does not have. As in wrk, all lines
/// are padded to the same width.
pub(super) fn with_other_options(tool: Style, command: &clap::Command) -> String {
    let text = own_lines(tool);
    let tool = match tool {
        Style::Wrk => "wrk",
        Style::Wrk2 => "wrk2",
        Style::Cmm => "wrk-cmm",
    };
    let options: Vec<&clap::Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .filter(|arg| {
            arg.get_long()
                .is_some_and(|long| !text.contains(&format!("--{long} ")))
        })
        .collect();
    let name_width = widest(
        options
            .iter()
            .filter_map(|arg| arg.get_long())
            .map(str::len),
    ) + 2;
    let value_width = widest(options.iter().map(|arg| value_name(arg).len()));
    let heading = format!("  Options that {tool} does not have:");
    let mut lines = vec![String::new(), heading];
    for arg in options {
        let short = arg
            .get_short()
            .map_or_else(|| "   ".to_owned(), |short| format!("-{short},"));
        let long = format!("--{}", arg.get_long().unwrap_or_default());
        let value = value_name(arg);
        let help = arg.get_long_help().or_else(|| arg.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        lines.push(format!(
            "    {short} {long:name_width$} {value:value_width$}  {help}"
        ));
    }
    let width = widest(lines.iter().map(|line| line.chars().count()));
    let rest = lines.iter().map(|line| format!("{line:width$}\n"));
    std::iter::once(text.to_owned()).chain(rest).collect()
}

/// `<N>`, or empty for an option that takes no value.
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
