//! What help and manual pages say about a command besides its options: examples, files, environment
//! and exit codes.

/// Width of the texts that clap does not wrap.
const WIDTH: usize = 80;

/// Text about one command.
pub(crate) struct Guide {
    /// Its name; empty for the program without a command.
    pub(crate) command: &'static str,
    /// Command lines that also stand in README.md or docs/, each with what it does.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    pub(crate) files: &'static [(&'static str, &'static str)],
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// Related commands.
    pub(crate) see_also: &'static [&'static str],
    pub(crate) documents: &'static [&'static str],
}

/// The text about a command, or about the program if the name is empty.
pub(crate) fn of(command: &str) -> &'static Guide {
    GUIDES
        .iter()
        .find(|guide| guide.command == command)
        .unwrap_or(&GUIDES[0])
}

/// The names of all commands.
pub(super) fn commands() -> Vec<&'static str> {
    let names = GUIDES.iter().map(|guide| guide.command);
    names.filter(|name| !name.is_empty()).collect()
}

const RUN_FILES: &[(&str, &str)] = &[
    (
        "FILE of --json",
        "The result, a JSON document (docs/result-format.md)",
    ),
    (
        "FILE of --hgrm, --hlog",
        "The latency distribution, and latency over time (docs/hdr-files.md)",
    ),
    (
        "FILE of --records",
        "A record of each request, as JSON lines or CSV (docs/records.md)",
    ),
    (
        "FILE of --samples",
        "Socket samples, one JSON object per line; compressed if the name ends with .zst",
    ),
];

const RUN_ENVIRONMENT: &[(&str, &str)] = &[
    ("NO_COLOR", "If set, progress and --tui have no colours"),
    (
        "TERM",
        "If dumb, progress is printed as lines, and --tui is not available",
    ),
];

const RUN_DOCUMENTS: &[&str] = &[
    "docs/look-first.md",
    "docs/measuring.md",
    "docs/judging.md",
    "docs/compatibility.md",
    "docs/scripting.md",
    "docs/telemetry.md",
];

const JOURNAL: &[(&str, &str)] = &[
    (
        "/var/lib/wrkbench/restore",
        "The restore journal of root's sweeps",
    ),
    (
        "~/.local/state/wrkbench/restore",
        "The restore journal of other users' sweeps",
    ),
];

const JOURNAL_ENVIRONMENT: &[(&str, &str)] = &[(
    "XDG_STATE_HOME",
    "If set, it replaces ~/.local/state in the path of the restore journal",
)];

const GUIDES: &[Guide] = &[
    Guide {
        command: "",
        examples: &[
            (
                "wrkbench -c100 -d30s http://127.0.0.1:8080/",
                "as fast as the server responds",
            ),
            (
                "wrkbench -R2k -d30s http://127.0.0.1:8080/",
                "2,000 requests per second",
            ),
            (
                "wrkbench sweep experiment.toml",
                "runs with several settings",
            ),
            (
                "wrkbench report run.json -o report.html",
                "a page with charts",
            ),
        ],
        files: RUN_FILES,
        environment: RUN_ENVIRONMENT,
        see_also: &[],
        documents: &["README.md", "docs/ten-minutes.md", "docs/measuring.md"],
    },
    Guide {
        command: "run",
        examples: &[
            (
                "wrkbench -t1 -c64 -d5s --json run.json http://127.0.0.1:8080/",
                "Load a server for five seconds and save the result.",
            ),
            (
                "wrkbench -R2k -d30s --fail-if 'p99>50ms' 'failed>0.1%' http://127.0.0.1:8080/",
                "Send 2,000 requests per second; exit with code 2 if they are slow or fail.",
            ),
            (
                "wrkbench -c4 -d2s -H Content-Type:application/json --body '{\"id\":7}' \
                 http://127.0.0.1:8080/",
                "Post JSON.",
            ),
            (
                "wrkbench -t1 -c4 -d2s --requests shop.jsonl --by-name http://127.0.0.1:8080/",
                "Send the requests of a file in turn.",
            ),
            (
                "wrkbench --once http://127.0.0.1:8080/",
                "Look at one request and its response first.",
            ),
            (
                "wrkbench -t2 -c10 -d10s -s examples/scripts/counter.lua http://127.0.0.1:8080/",
                "Let a Lua script make the requests.",
            ),
        ],
        files: RUN_FILES,
        environment: RUN_ENVIRONMENT,
        see_also: &["serve", "report", "compare", "sweep"],
        documents: RUN_DOCUMENTS,
    },
    Guide {
        command: "curl",
        examples: &[
            (
                "wrkbench curl -s -d a=1 -H 'X-Id: 7' http://127.0.0.1:8080/",
                "Print the command that sends what this curl command sends.",
            ),
            (
                "wrkbench curl --run 'curl --json {} http://127.0.0.1:8080/' -c8 -d5s",
                "Make the run, with options of its own.",
            ),
        ],
        files: &[("FILE of --output", "The requests, one JSON object per line")],
        environment: &[],
        see_also: &["har", "run"],
        documents: &["docs/from-curl.md"],
    },
    Guide {
        command: "har",
        examples: &[(
            "wrkbench har --host 127.0.0.1 recording.har -o requests.jsonl",
            "Write the requests to one host to a file.",
        )],
        files: &[("FILE of --output", "The requests, one JSON object per line")],
        environment: &[],
        see_also: &["curl", "run"],
        documents: &["docs/from-curl.md"],
    },
    Guide {
        command: "replay",
        examples: &[
            (
                "wrkbench replay access.log --speed 20 http://127.0.0.1:8080/",
                "Send the requests of a log, 20 times as fast as they arrived.",
            ),
            (
                "wrkbench replay - --log-format common http://127.0.0.1:8080/",
                "Read a log in the Common Log Format from stdin.",
            ),
        ],
        files: RUN_FILES,
        environment: RUN_ENVIRONMENT,
        see_also: &["run", "har", "serve"],
        documents: &["docs/replay.md", "docs/measuring.md"],
    },
    Guide {
        command: "llm",
        examples: &[
            (
                "wrkbench llm http://127.0.0.1:8080/v1 -c16 -d60s",
                "Load a server with 16 users who send random prompts of 128 words.",
            ),
            (
                "wrkbench llm http://127.0.0.1:8080/ --model m --prompts prompts.json -R2 -d60s",
                "Send the prompts of a file, two per second.",
            ),
            (
                "wrkbench llm http://127.0.0.1:8080/ --model m --print > requests.jsonl",
                "Print the requests, for --requests.",
            ),
        ],
        files: RUN_FILES,
        environment: RUN_ENVIRONMENT,
        see_also: &["run", "serve", "search"],
        documents: &["docs/llm.md", "docs/llm-reference.md", "docs/requests.md"],
    },
    Guide {
        command: "serve",
        examples: &[
            (
                "wrkbench serve --listen 127.0.0.1:8080",
                "Serve until Ctrl-C.",
            ),
            (
                "wrkbench serve --queue --answer 'size=24k&delay=exp:1ms'",
                "Serve one request at a time, each for an exponentially distributed time.",
            ),
            (
                "wrkbench serve --answer 'llm=openai&first=200ms&gap=20ms'",
                "Imitate a language model's server.",
            ),
        ],
        files: &[(
            "FILE of --log",
            "Arrival, departure and tokens of every request, as CSV",
        )],
        environment: &[],
        see_also: &["run", "replay", "llm", "demo"],
        documents: &["docs/serve.md"],
    },
    Guide {
        command: "demo",
        examples: &[
            ("wrkbench demo", "Load the built-in server."),
            ("wrkbench demo --llm", "The same with streams of tokens."),
        ],
        files: &[
            ("demo-result.json", "The result, unless --output is given"),
            ("demo-result.html", "The page, beside the result"),
        ],
        environment: RUN_ENVIRONMENT,
        see_also: &["run", "serve", "report"],
        documents: &["docs/measuring.md"],
    },
    Guide {
        command: "sweep",
        examples: &[
            (
                "wrkbench sweep experiment.toml --dry-run",
                "Print the trials and what would fail; change nothing.",
            ),
            (
                "wrkbench sweep -L connections 16,64,256 -t2 -d10s http://127.0.0.1:8080/",
                "Vary an option of the load, without a file.",
            ),
            (
                "wrkbench sweep --init nginx > nginx.toml",
                "Write a commented experiment file to begin with.",
            ),
            (
                "sudo wrkbench sweep examples/experiments/tcp-buffers.toml",
                "Vary two kernel settings, which needs root.",
            ),
            (
                "wrkbench sweep experiment.toml --fleet nats://hub:4222",
                "Let the agents of a fleet make the runs (docs/fleet.md).",
            ),
        ],
        files: &[
            ("EXPERIMENT", "The experiment (docs/experiments.md)"),
            (
                "results/experiment.json",
                "The experiment as it was run, in the results folder",
            ),
            (
                "results/trials/",
                "A file for each trial, and its socket samples",
            ),
            JOURNAL[0],
            JOURNAL[1],
        ],
        environment: &[
            RUN_ENVIRONMENT[0],
            RUN_ENVIRONMENT[1],
            JOURNAL_ENVIRONMENT[0],
        ],
        see_also: &["restore", "versus", "table", "compare", "report"],
        documents: &[
            "docs/experiments.md",
            "docs/restoring.md",
            "docs/tuning.md",
            "docs/really-faster.md",
        ],
    },
    Guide {
        command: "versus",
        examples: &[(
            "wrkbench versus -c8 old=http://127.0.0.1:8080/ new=http://127.0.0.1:8080/delay=5ms/",
            "Compare two addresses of a server.",
        )],
        files: &[JOURNAL[0], JOURNAL[1]],
        environment: &[
            RUN_ENVIRONMENT[0],
            RUN_ENVIRONMENT[1],
            JOURNAL_ENVIRONMENT[0],
        ],
        see_also: &["sweep", "compare", "report"],
        documents: &["docs/versus.md", "docs/really-faster.md"],
    },
    Guide {
        command: "search",
        examples: &[(
            "wrkbench search --slo 'p99<20ms' --precision 5% http://127.0.0.1:8090/",
            "Find the highest rate with a p99 below 20 ms.",
        )],
        files: &[JOURNAL[0], JOURNAL[1]],
        environment: &[
            RUN_ENVIRONMENT[0],
            RUN_ENVIRONMENT[1],
            JOURNAL_ENVIRONMENT[0],
        ],
        see_also: &["check", "run", "sweep"],
        documents: &["docs/search.md"],
    },
    Guide {
        command: "check",
        examples: &[(
            "wrkbench check --slo 'p99<20ms' -R600 http://127.0.0.1:8090/",
            "Check whether 600 requests per second are sustained.",
        )],
        files: &[JOURNAL[0], JOURNAL[1]],
        environment: &[
            RUN_ENVIRONMENT[0],
            RUN_ENVIRONMENT[1],
            JOURNAL_ENVIRONMENT[0],
        ],
        see_also: &["search", "run"],
        documents: &["docs/search.md"],
    },
    Guide {
        command: "table",
        examples: &[
            ("wrkbench table testlogs/", "Print the runs of a folder."),
            (
                "wrkbench table before.json after.json --errors --percentiles 50,99.9",
                "Print two results with more columns.",
            ),
            (
                "wrkbench table old.txt new.json",
                "Print a report of wrk and a result next to each other.",
            ),
        ],
        files: &[],
        environment: &[],
        see_also: &["compare", "report", "sweep"],
        documents: &["docs/tables.md"],
    },
    Guide {
        command: "report",
        examples: &[
            (
                "wrkbench report run.json -o report.html",
                "Write a page with charts.",
            ),
            (
                "wrkbench report run.json new.json -o runs.csv",
                "Write a row for each run and metric.",
            ),
            (
                "wrkbench report docs/data/buffertest --format md",
                "Print the runs of a folder as Markdown.",
            ),
            (
                "wrkbench report run-1.json -o chart.svg --chart latency --theme dark",
                "Write one chart of the page as a picture.",
            ),
        ],
        files: &[(
            "report.html",
            "The page, unless --output or --format is given",
        )],
        environment: &[],
        see_also: &["table", "compare", "sweep"],
        documents: &["docs/report.md", "docs/formats.md", "docs/judging.md"],
    },
    Guide {
        command: "compare",
        examples: &[
            (
                "wrkbench compare 'old-*.json' 'new-*.json'",
                "Compare new runs with old ones.",
            ),
            (
                "wrkbench compare 'old-*.json' 'new-*.json' --fail-on-regression 5%",
                "Exit with code 3 if something got worse by more than 5 %.",
            ),
            (
                "wrkbench compare results/",
                "Compare the levels of a sweep.",
            ),
        ],
        files: &[],
        environment: &[],
        see_also: &["sweep", "table", "report"],
        documents: &["docs/comparing.md", "docs/really-faster.md"],
    },
    Guide {
        command: "grpc",
        examples: &[
            (
                "wrkbench grpc list http://127.0.0.1:50051",
                "List the services of a server that has reflection.",
            ),
            (
                "wrkbench grpc describe http://127.0.0.1:50051 shop.Shop/Buy",
                "Print a method with the types of its messages.",
            ),
            (
                "wrkbench grpc list --proto shop.proto shop.Shop",
                "List the methods of a service in a file.",
            ),
        ],
        files: &[],
        environment: &[],
        see_also: &["run"],
        documents: &["docs/grpc.md"],
    },
    Guide {
        command: "sockets",
        examples: &[
            (
                "wrkbench sockets 'sport = :80'",
                "List the sockets of a server.",
            ),
            (
                "wrkbench sockets --watch 1s 'sport = :9000'",
                "List them every second until Ctrl-C.",
            ),
            (
                "wrkbench sockets -l sport = :80",
                "List the listening socket with its queue.",
            ),
        ],
        files: &[],
        environment: &[],
        see_also: &["run"],
        documents: &["docs/telemetry.md"],
    },
    Guide {
        command: "restore",
        examples: &[
            (
                "sudo wrkbench restore --dry-run",
                "Print what a sweep of root has left changed.",
            ),
            ("sudo wrkbench restore", "Restore it."),
        ],
        files: JOURNAL,
        environment: JOURNAL_ENVIRONMENT,
        see_also: &["sweep"],
        documents: &["docs/restoring.md"],
    },
    Guide {
        command: "agent",
        examples: &[
            (
                "wrkbench agent --nats nats://hub:4222 --place eu-vm/internal --trust UDX...",
                "Wait for orders of this key.",
            ),
            (
                "wrkbench agent --nats nats://hub:4222 --trust trusted-keys --targets 10.0.0.0/8",
                "Send only to these addresses.",
            ),
        ],
        files: &[(
            "FILE of --trust",
            "Public keys, one per line; lines that begin with # are comments",
        )],
        environment: &[],
        see_also: &["fleet", "run"],
        documents: &["docs/fleet.md"],
    },
    Guide {
        command: "fleet",
        examples: &[
            (
                "wrkbench fleet --local 4 -c400 -R20k http://localhost/",
                "Run on four agents of this machine.",
            ),
            (
                "wrkbench fleet key",
                "Print the key that agents must trust.",
            ),
            (
                "wrkbench fleet status --nats nats://hub:4222",
                "List the agents that are there.",
            ),
            (
                "wrkbench fleet fetch 4be1c0 --nats nats://hub:4222 --json run.json",
                "Get the results of a run whose coordinator died.",
            ),
            (
                "wrkbench fleet stop 4be1c0 --nats nats://hub:4222",
                "End the load of a run.",
            ),
        ],
        files: &[(
            "~/.config/wrkbench/fleet.key",
            "The key that signs orders; $XDG_CONFIG_HOME in place of ~/.config if it is set",
        )],
        environment: &[],
        see_also: &["agent", "run", "sweep"],
        documents: &["docs/fleet.md"],
    },
    Guide {
        command: "completions",
        examples: &[(
            "wrkbench completions fish > ~/.config/fish/completions/wrkbench.fish",
            "Install completions for the current user.",
        )],
        files: &[
            (
                "share/bash-completion/completions/wrkbench",
                "Completions for bash, as installed",
            ),
            (
                "share/zsh/site-functions/_wrkbench",
                "Completions for zsh, as installed",
            ),
            (
                "share/fish/vendor_completions.d/wrkbench.fish",
                "Completions for fish, as installed",
            ),
        ],
        environment: &[],
        see_also: &["man"],
        documents: &[],
    },
    Guide {
        command: "man",
        examples: &[
            (
                "wrkbench man sweep | man -l -",
                "Show the page of wrkbench sweep.",
            ),
            (
                "wrkbench man --output-dir ~/.local/share/man/man1",
                "Install all pages for the current user.",
            ),
        ],
        files: &[("share/man/man1/", "The pages, as installed")],
        environment: &[(
            "SOURCE_DATE_EPOCH",
            "If set, the date of the pages, in seconds since 1970",
        )],
        see_also: &["completions"],
        documents: &[],
    },
];

/// Commands without exit codes of their own.
const OTHERS: &[&str] = &[
    "curl",
    "har",
    "serve",
    "grpc",
    "sockets",
    "agent",
    "fleet",
    "completions",
    "man",
];

/// An exit code, the commands that it belongs to, and its meaning.
type ExitCodeRow = (u8, &'static [&'static str], &'static str);

/// Commands that make an experiment.
pub(super) const CAMPAIGNS: &[&str] = &["sweep", "versus", "search", "check"];

/// In ascending order.
const EXIT_CODES: &[ExitCodeRow] = &[
    (
        0,
        &["run", "replay", "llm", "demo"],
        "the run finished, even if requests failed or Ctrl-C ended it early",
    ),
    (0, CAMPAIGNS, "every trial was run, and nothing failed"),
    (0, &["table", "report"], "every input was read"),
    (
        0,
        &["compare"],
        "the runs were compared, whatever the verdict",
    ),
    (0, &["restore"], "everything is restored"),
    (0, OTHERS, "success"),
    (
        1,
        &["run", "replay", "llm", "demo"],
        "invalid arguments, an unusable target, script or file, no response at all, or the run \
         gave up before -n requests were sent",
    ),
    (
        1,
        CAMPAIGNS,
        "refused, gave up, or could not restore every setting",
    ),
    (
        1,
        &["table", "report"],
        "invalid arguments, or some input could not be read",
    ),
    (
        1,
        &["compare"],
        "invalid arguments, unreadable runs, or with --fail-on-regression or --fail-if too few \
         runs to tell, or a side that failed its requests",
    ),
    (
        1,
        &["restore"],
        "something was not restored; the journal is kept",
    ),
    (
        1,
        OTHERS,
        "invalid arguments, or a message says what failed",
    ),
    (
        2,
        &["run", "replay", "llm", "curl", "har", "report", "search"],
        "a --fail-if condition holds, or cannot be evaluated",
    ),
    (
        2,
        &["sweep", "versus"],
        "in versus, or with until: a server failed its requests, so nothing was compared",
    ),
    (
        2,
        &["check"],
        "the rate is not sustained, or that is undecided",
    ),
    (
        3,
        &["compare"],
        "with --fail-on-regression or --fail-if: a regression was found",
    ),
    (
        3,
        CAMPAIGNS,
        "with --fail-on-regression: a regression was found (takes precedence over 4)",
    ),
    (
        4,
        CAMPAIGNS,
        "some trials failed every attempt and are excluded from averages",
    ),
    (
        5,
        &["run", "replay", "llm", "curl", "har"],
        "with --strict: the load generator was disturbed or saturated (takes precedence over 2)",
    ),
    (
        6,
        &["run", "llm", "curl", "har", "fleet"],
        "by a fleet: an agent was lost or ended early, so the result is partial (takes precedence \
         over 2 and 5)",
    ),
    (
        7,
        &["run", "replay", "llm", "curl", "har"],
        "with --once: the status is 400 or more",
    ),
    (
        129,
        &["run", "replay", "llm", "curl", "har"],
        "SIGHUP with --tui; the report is still printed",
    ),
    (
        129,
        CAMPAIGNS,
        "SIGHUP: settings are restored, and --resume continues",
    ),
    (
        130,
        &["run", "replay", "llm", "curl", "har", "demo"],
        "Ctrl-C twice",
    ),
    (
        130,
        CAMPAIGNS,
        "Ctrl-C: settings are restored, and --resume continues",
    ),
    (
        141,
        &[
            "run", "replay", "llm", "curl", "har", "table", "report", "compare", "sockets",
        ],
        "the reader of stdout has closed it",
    ),
    (
        143,
        &["run", "replay", "llm", "curl", "har", "demo"],
        "SIGTERM; the report is still printed",
    ),
    (
        143,
        CAMPAIGNS,
        "SIGTERM: settings are restored, and --resume continues",
    ),
    (143, &["sockets"], "SIGTERM"),
];

/// The exit codes of a command with their meanings. For the program itself: those of a run, and
/// those that only other commands have, with the commands' names.
pub(crate) fn exit_codes(command: &str) -> Vec<(u8, String)> {
    if !command.is_empty() {
        let own = EXIT_CODES.iter().filter(|row| row.1.contains(&command));
        return own.map(|row| (row.0, row.2.to_owned())).collect();
    }
    let mut codes = exit_codes("run");
    for (code, _, meaning) in EXIT_CODES {
        if codes.iter().all(|(known, _)| known != code) {
            let rows = EXIT_CODES.iter().filter(|row| row.0 == *code);
            let commands: Vec<&str> = rows.flat_map(|row| row.1).copied().collect();
            codes.push((*code, format!("{}: {meaning}", commands.join(", "))));
        }
    }
    codes.sort_by_key(|(code, _)| *code);
    codes
}

/// A heading, and rows of a word and its meaning.
type Table = (&'static str, &'static [(&'static str, &'static str)]);

/// What a command prints or takes besides its options. The crates have these tables.
pub(crate) fn tables(command: &str) -> &'static [Table] {
    match command {
        "serve" => &[
            ("Response recipe", origin::PARAMETERS),
            ("Streams of language models", origin::STREAM_PARAMETERS),
            ("Faults", origin::FAULTS),
        ],
        "sockets" => &[("Fields", telemetry::sockets::FIELDS)],
        _ => &[],
    }
}

/// The examples as in the summary: one line each.
pub(super) fn examples_in_columns(guide: &Guide) -> String {
    table(guide.examples)
}

/// Examples below the options, each with what it does.
pub(super) fn examples(examples: &[(&str, &str)]) -> String {
    let lines = examples.iter().map(|(line, purpose)| {
        let purpose = wrapped(purpose, "  # ", "  # ");
        format!("\n{purpose}\n  {line}")
    });
    std::iter::once("Examples:".to_owned())
        .chain(lines)
        .collect()
}

/// Everything below the options in a command's help.
pub(super) fn details(guide: &Guide) -> String {
    let codes: Vec<(String, String)> = exit_codes(guide.command)
        .into_iter()
        .map(|(code, meaning)| (code.to_string(), meaning))
        .collect();
    let mut sections = vec![examples(guide.examples)];
    let mut add = |heading: &str, text: String| {
        if !text.is_empty() {
            sections.push(format!("{heading}:\n{}", text.trim_end()));
        }
    };
    add("Files", table(guide.files));
    add("Environment", table(guide.environment));
    for (heading, rows) in tables(guide.command) {
        add(heading, table(rows));
    }
    add("Exit codes", table(&codes));
    add(
        "Documents",
        wrapped(&guide.documents.join(", "), "  ", "  "),
    );
    sections.join("\n\n")
}

/// Two columns. The second one is wrapped, and starts on a line of its own if little room is left.
fn table<K: AsRef<str>, T: AsRef<str>>(rows: &[(K, T)]) -> String {
    const WIDEST_KEY: usize = 46;
    let widths = rows.iter().map(|(key, _)| key.as_ref().chars().count());
    // Exit codes, which have up to three digits, are aligned in every command's help.
    let width = widths.max().unwrap_or_default().clamp(3, WIDEST_KEY);
    let indent = " ".repeat(width + 4);
    let lines = rows.iter().map(|(key, text)| {
        let first = format!("  {:width$}  ", key.as_ref());
        wrapped(text.as_ref(), &first, &indent) + "\n"
    });
    lines.collect()
}

/// The words in lines of at most [`WIDTH`] characters, without a final line feed. The first line
/// begins with `first`, the others with `next`.
fn wrapped(text: &str, first: &str, next: &str) -> String {
    let mut lines = vec![first.to_owned()];
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        let is_full = line + 1 + word.chars().count() > WIDTH;
        if is_full && !is_empty {
            lines.push(next.to_owned());
            is_empty = true;
        }
        if let Some(line) = lines.last_mut() {
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
        }
        is_empty = false;
    }
    lines.join("\n")
}
