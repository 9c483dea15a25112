//! A page with everything that a page can have, hostile texts included. Tests use it, and people
//! can look at it.

use presentation::{
    Axis, Block, Chart, Column, Figure, Mark, Marks, Page, Scale, Section, TableBlock, TableCell,
    Tone, Unit,
};

mod charts;

/// Texts that would run as a script, load something or break the page if they were not escaped. A
/// script among them sets `hacked`.
pub(crate) const HOSTILE: [&str; 8] = [
    "</script><script>hacked=1;alert(1)</script>",
    "\"><img src=x onerror=hacked=1>",
    "'><svg onload=hacked=1>",
    "<!--<script>",
    "]]>\u{2028}\u{2029}\0&lt;b&gt;",
    "javascript:hacked=1",
    "\u{202e}txt.exe \u{5e9}\u{5dc}\u{5d5}\u{5dd}",
    "{{ 7*7 }} ${hacked=1} {% raw %}",
];

/// The page with all of these sections.
pub(crate) fn page() -> Page {
    Page {
        title: "Every block, every mark, every scale".to_owned(),
        answer: "Everything that a page can show".to_owned(),
        subtitle: "A catalogue with made-up values".to_owned(),
        sections: vec![
            words(),
            charts::over_time(),
            charts::distributions(),
            charts::levels(),
            tables(),
            charts::odd_charts(),
            hostile(),
            folded(),
        ],
    }
}

fn section(id: &str, title: &str, lead: &str, blocks: Vec<Block>) -> Section {
    Section {
        id: id.to_owned(),
        title: title.to_owned(),
        lead: lead.to_owned(),
        blocks,
        is_folded: false,
    }
}

fn axis(label: &str, unit: Unit, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        unit,
        scale,
        from_zero: false,
    }
}

fn finding(tone: Tone, text: &str, details: &[&str]) -> Block {
    Block::Finding {
        tone,
        text: text.to_owned(),
        details: details.iter().map(|&d| d.to_owned()).collect(),
    }
}

fn figure(label: &str, value: &str, note: &str, tone: Tone) -> Figure {
    Figure {
        label: label.to_owned(),
        value: value.to_owned(),
        note: note.to_owned(),
        tone,
        spark: match note {
            // A gap, and a value alone.
            "" => vec![
                Some(3.0),
                Some(2.0),
                None,
                Some(1.0),
                None,
                Some(3.5),
                Some(0.0),
            ],
            _ => Vec::new(),
        },
    }
}

fn words() -> Section {
    section(
        "verdict",
        "Verdict and warnings",
        "Findings come first, with their evidence.",
        vec![
            finding(
                Tone::Good,
                "Load generator OK: it used 31 % of its core.",
                &[],
            ),
            finding(
                Tone::Neutral,
                "No difference between the levels was found.",
                &["You would need 14 runs of each to see 2 %."],
            ),
            finding(
                Tone::Warning,
                "p99.9 has only 12 samples.",
                &[
                    "Let the run last 30s for 100 of them.",
                    "Or look at p99, which rests on 1,204.",
                ],
            ),
            finding(
                Tone::Bad,
                "412 requests had no response.",
                &["timeout: 400", "reset: 12"],
            ),
            finding(Tone::Better, "64 beats 8 by 12 %.", &[]),
            finding(Tone::Worse, "128 is worse than 8.", &[]),
            finding(Tone::Same, "p99 latency is the same within 2 %.", &[]),
            finding(Tone::Undecided, "Requests/s: undecided.", &[]),
            Block::Figures {
                figures: vec![
                    figure(
                        "Requests/s",
                        "164,203",
                        "4,926,090 in 30.00s",
                        Tone::Neutral,
                    ),
                    figure("p50", "387us", "", Tone::Neutral),
                    figure("p99", "1.24ms", "limit 5ms", Tone::Good),
                    figure("p99.9", "8.91 ms", "of 12 samples", Tone::Warning),
                    figure("Failed", "412", "0.008 % of all", Tone::Bad),
                ],
            },
            Block::Code {
                label: "The command that repeats it".to_owned(),
                text: "wrkbench run -t2 -c64 -d30s --latency --sockets 'dport = :8080' \
                       --json result.json http://127.0.0.1:8080/a/rather/long/path\
                       ?that=has&many=parameters&to=wrap"
                    .to_owned(),
            },
            Block::Facts {
                facts: [
                    ("Kernel", "6.12.48"),
                    ("Processor", "AMD EPYC 7763, 2 of 128 cores"),
                    ("net.core.rmem_max", "212992"),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            },
        ],
    )
}

fn cell(text: &str, value: Option<f64>, tone: Tone) -> TableCell {
    TableCell {
        text: text.to_owned(),
        value,
        tone,
        ..TableCell::default()
    }
}

fn column(name: &str, is_numeric: bool) -> Column {
    Column {
        name: name.to_owned(),
        is_numeric,
        ..Column::default()
    }
}

fn tables() -> Section {
    let rows = [
        ("64 KB", 31_204.5, 1240.0, Tone::Neutral),
        ("128 KB", 31_876.25, 990.0, Tone::Good),
        ("256 KB", 9_312.0, 12_400.0, Tone::Bad),
        ("512 KB", 31_400.0, 1_250.5, Tone::Warning),
    ];
    let mut filled: Vec<Vec<TableCell>> = rows
        .iter()
        .map(|&(name, rate, p99, tone)| {
            vec![
                cell(name, None, Tone::Neutral),
                cell(&format!("{rate:.0}"), Some(rate), tone),
                cell(&format!("{:.2}ms", p99 / 1e3), Some(p99), Tone::Neutral),
            ]
        })
        .collect();
    filled.push(vec![
        cell("1024 KB", None, Tone::Neutral),
        cell("\u{2013}", None, Tone::Neutral),
        cell("\u{2013}", None, Tone::Neutral),
    ]);
    let wide = TableBlock {
        caption: "A table wider than any telephone".to_owned(),
        columns: (0..16)
            .map(|at| column(&format!("net.ipv4.counter {at}"), at > 0))
            .collect(),
        rows: (0..3)
            .map(|row| {
                (0..16)
                    .map(|at| match at {
                        0 => cell(&format!("run {row}"), None, Tone::Neutral),
                        at => cell(
                            &format!("{}", row * 1000 + at),
                            Some(f64::from(row * 1000 + at)),
                            Tone::Neutral,
                        ),
                    })
                    .collect()
            })
            .collect(),
    };
    section(
        "tables",
        "Tables",
        "A click on a head sorts.",
        vec![
            Block::Table(TableBlock {
                caption: "Averages".to_owned(),
                columns: vec![
                    column("rmem_max", false),
                    column("requests/s", true),
                    column("p99", true),
                ],
                rows: filled,
            }),
            Block::Table(wide),
        ],
    )
}

fn hostile() -> Section {
    let long = "x".repeat(10_000);
    let mut texts: Vec<String> = HOSTILE.map(str::to_owned).to_vec();
    texts.push(long);
    let mut blocks: Vec<Block> = texts
        .iter()
        .map(|text| finding(Tone::Neutral, text, &[text]))
        .collect();
    blocks.push(Block::Figures {
        figures: texts
            .iter()
            .map(|text| figure(text, text, text, Tone::Neutral))
            .collect(),
    });
    blocks.push(Block::Facts {
        facts: texts
            .iter()
            .map(|text| (text.clone(), text.clone()))
            .collect(),
    });
    blocks.push(Block::Code {
        label: texts.concat(),
        text: texts.join("\n"),
    });
    blocks.push(Block::Table(TableBlock {
        caption: texts.concat(),
        columns: vec![column(HOSTILE[0], false), column(HOSTILE[1], true)],
        rows: texts
            .iter()
            .map(|text| {
                vec![
                    cell(text, None, Tone::Bad),
                    cell(text, Some(f64::NAN), Tone::Good),
                ]
            })
            .collect(),
    }));
    let point = |(at, text): (usize, &String)| Marks {
        name: text.clone(),
        mark: Mark::Dots,
        x: vec![at as f64],
        y: vec![Some(at as f64)],
        labels: vec![text.clone()],
        color: at,
        ..Marks::default()
    };
    blocks.push(Block::Charts {
        charts: vec![Chart {
            id: "hostile-chart".to_owned(),
            title: texts.concat(),
            description: texts.concat(),
            x: axis(HOSTILE[0], Unit::Number, Scale::Names(texts.clone())),
            y: axis(HOSTILE[1], Unit::Number, Scale::Linear),
            marks: texts.iter().enumerate().map(point).collect(),
            ..Chart::default()
        }],
    });
    section("hostile", HOSTILE[0], HOSTILE[1], blocks)
}

fn folded() -> Section {
    Section {
        is_folded: true,
        ..section(
            "more",
            "What few will want",
            "Closed at first.",
            vec![Block::Charts {
                charts: vec![Chart {
                    id: "in-fold".to_owned(),
                    title: "A chart that is drawn when it is opened".to_owned(),
                    description: "Two points.".to_owned(),
                    x: axis("time", Unit::Seconds, Scale::Linear),
                    y: axis("share", Unit::Percent, Scale::Linear),
                    marks: vec![Marks {
                        name: "share".to_owned(),
                        x: vec![0.0, 1.0],
                        y: vec![Some(20.0), Some(100.0)],
                        ..Marks::default()
                    }],
                    ..Chart::default()
                }],
            }],
        )
    }
}
