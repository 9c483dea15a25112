//! The metrics of servers of language models that have a plain title: their names by server, as
//! their documents list them.
//!
//! - vLLM: <https://docs.vllm.ai/en/latest/usage/metrics/>
//! - SGLang: <https://docs.sglang.ai/references/production_metrics.html>
//! - llama.cpp: `tools/server/README.md`, "GET /metrics"

use super::{ScrapedPage, ScrapedSeries, ScrapedValues};

/// What some metrics of all these servers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Requests that the server runs at the same time.
    Running,
    /// Requests that wait in its queue.
    Waiting,
    /// The share of the KV cache that is in use, 0 to 1.
    CacheUsed,
    /// Tokens of prompts that were looked up in the prefix cache.
    CacheQueries,
    /// Those that were found there.
    CacheHits,
    /// The share of tokens that were found there, 0 to 1, as the server computes it.
    CacheHitShare,
    /// Requests that lost their place in the cache and start again.
    Preemptions,
    /// Tokens of prompts.
    PromptTokens,
    /// Generated tokens.
    OutputTokens,
}

/// Names of metrics without the ending `_total` of counters.
const KNOWN: [(&str, Figure); 23] = [
    ("vllm:num_requests_running", Figure::Running),
    ("sglang:num_running_reqs", Figure::Running),
    ("llamacpp:requests_processing", Figure::Running),
    ("vllm:num_requests_waiting", Figure::Waiting),
    ("sglang:num_queue_reqs", Figure::Waiting),
    ("llamacpp:requests_deferred", Figure::Waiting),
    ("vllm:kv_cache_usage_perc", Figure::CacheUsed),
    ("vllm:gpu_cache_usage_perc", Figure::CacheUsed),
    ("sglang:token_usage", Figure::CacheUsed),
    ("llamacpp:kv_cache_usage_ratio", Figure::CacheUsed),
    ("vllm:prefix_cache_queries", Figure::CacheQueries),
    ("vllm:gpu_prefix_cache_queries", Figure::CacheQueries),
    ("vllm:prefix_cache_hits", Figure::CacheHits),
    ("vllm:gpu_prefix_cache_hits", Figure::CacheHits),
    ("sglang:cache_hit_rate", Figure::CacheHitShare),
    ("vllm:gpu_prefix_cache_hit_rate", Figure::CacheHitShare),
    ("vllm:num_preemptions", Figure::Preemptions),
    ("vllm:prompt_tokens", Figure::PromptTokens),
    ("sglang:prompt_tokens", Figure::PromptTokens),
    ("llamacpp:prompt_tokens", Figure::PromptTokens),
    ("vllm:generation_tokens", Figure::OutputTokens),
    ("sglang:generation_tokens", Figure::OutputTokens),
    ("llamacpp:tokens_predicted", Figure::OutputTokens),
];

/// Whether a metric of this name has a plain title. These are kept if there are too many.
#[must_use]
pub fn is_known(name: &str) -> bool {
    Figure::of(name).is_some()
}

impl Figure {
    /// What a metric of this name means, if it is known.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let name = name.strip_suffix("_total").unwrap_or(name);
        let found = KNOWN.iter().find(|(known, _)| *known == name);
        found.map(|(_, figure)| *figure)
    }

    /// Its name in tables and charts.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Running => "Requests running",
            Self::Waiting => "Requests waiting",
            Self::CacheUsed => "KV cache in use",
            Self::CacheQueries => "Prefix cache queries",
            Self::CacheHits => "Prefix cache hits",
            Self::CacheHitShare => "Prefix cache hit rate",
            Self::Preemptions => "Preemptions",
            Self::PromptTokens => "Prompt tokens",
            Self::OutputTokens => "Generated tokens",
        }
    }

    /// Whether it is a share, which is shown in percent.
    pub(super) const fn is_share(self) -> bool {
        matches!(self, Self::CacheUsed | Self::CacheHitShare)
    }
}

/// A gauge over all of its series: engines of one server, or several servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct KnownGauge {
    pub(super) mean: f64,
    pub(super) max: f64,
}

fn series_of(page: &ScrapedPage, figure: Figure) -> impl Iterator<Item = &ScrapedSeries> {
    let series = page.series.iter();
    series.filter(move |it| Figure::of(&it.name) == Some(figure))
}

/// The gauge at each of the times of a page: numbers of requests add up, shares have a mean.
pub(super) fn rows(page: &ScrapedPage, figure: Figure) -> Vec<Option<f64>> {
    let all = series_of(page, figure).filter_map(|series| match &series.values {
        ScrapedValues::Gauge { rows, .. } => Some(rows),
        _ => None,
    });
    let all: Vec<_> = all.collect();
    let at = |row: usize| {
        let known: Vec<f64> = all.iter().filter_map(|rows| *rows.get(row)?).collect();
        let sum: f64 = known.iter().sum();
        match (known.len(), figure.is_share()) {
            (0, _) => None,
            (number, true) => Some(sum / number as f64),
            (_, false) => Some(sum),
        }
    };
    (0..page.at_ms.len()).map(at).collect()
}

/// A gauge over the window; `None` if the pages do not have it.
pub(super) fn gauge(pages: &[ScrapedPage], figure: Figure) -> Option<KnownGauge> {
    let (mut mean, mut max, mut number) = (0.0, 0.0, 0_u32);
    for page in pages {
        let means = series_of(page, figure).filter_map(|series| match series.values {
            ScrapedValues::Gauge { mean, .. } => Some(mean),
            _ => None,
        });
        let means: Vec<f64> = means.collect();
        mean += means.iter().sum::<f64>();
        number += means.len() as u32;
        let most = rows(page, figure).into_iter().flatten().reduce(f64::max);
        let most = most.unwrap_or_default();
        // Those of several servers may have been at different times.
        max = if figure.is_share() {
            most.max(max)
        } else {
            max + most
        };
    }
    if figure.is_share() {
        mean /= f64::from(number.max(1));
    }
    (number > 0).then_some(KnownGauge { mean, max })
}

/// How much the counters of all pages grew together; `None` if they do not have it.
pub(super) fn growth(pages: &[ScrapedPage], figure: Figure) -> Option<f64> {
    let all = pages.iter().flat_map(|page| series_of(page, figure));
    let growths = all.filter_map(|series| match series.values {
        ScrapedValues::Counter { growth, .. } => Some(growth),
        _ => None,
    });
    growths.reduce(|sum, growth| sum + growth)
}

/// The share of tokens of prompts that were in the prefix cache, 0 to 1; `None` if it is not known.
pub(super) fn cache_hit_share(pages: &[ScrapedPage]) -> Option<f64> {
    let queries = growth(pages, Figure::CacheQueries);
    let hits = growth(pages, Figure::CacheHits);
    match (queries, hits) {
        (Some(queries), Some(hits)) => (queries > 0.0).then(|| hits / queries),
        _ => gauge(pages, Figure::CacheHitShare).map(|gauge| gauge.mean),
    }
}
