//! Judges each request by the limits of the plan (`--good`).

use plan::{GoodSpec, GoodTime};

use crate::exchanges::TokenTimes;

/// The limits of a good request, nanoseconds; `u64::MAX` is none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GoodLimits {
    latency_ns: u64,
    first_token_ns: u64,
    first_text_ns: u64,
    time_per_token_ns: u64,
}

impl GoodLimits {
    pub(crate) fn of(spec: &GoodSpec) -> Self {
        let limit_ns = |time| spec.limit_ns(time).unwrap_or(u64::MAX);
        Self {
            latency_ns: limit_ns(GoodTime::Latency),
            first_token_ns: limit_ns(GoodTime::FirstToken),
            first_text_ns: limit_ns(GoodTime::FirstText),
            time_per_token_ns: limit_ns(GoodTime::TimePerToken),
        }
    }

    /// Whether a complete response was good. Its times count from `from_ns`.
    pub(crate) fn are_met(&self, from_ns: u64, completed_ns: u64, tokens: &TokenTimes) -> bool {
        let within = |at_ns: u64, limit_ns: u64| {
            limit_ns == u64::MAX || at_ns > 0 && at_ns.saturating_sub(from_ns) < limit_ns
        };
        within(completed_ns, self.latency_ns)
            && within(tokens.first_ns, self.first_token_ns)
            && within(tokens.first_text_ns, self.first_text_ns)
            && (tokens.per_token_ns < self.time_per_token_ns)
    }

    /// Whether a request without a complete response cannot be good any more `age_ns` after the
    /// moment from which its times count.
    pub(crate) fn are_missed(&self, from_ns: u64, age_ns: u64, tokens: &TokenTimes) -> bool {
        let missed = |at_ns: u64, limit_ns: u64| {
            let took_ns = match at_ns {
                0 => age_ns,
                at_ns => at_ns.saturating_sub(from_ns),
            };
            limit_ns != u64::MAX && took_ns >= limit_ns
        };
        missed(0, self.latency_ns)
            || missed(tokens.first_ns, self.first_token_ns)
            || missed(tokens.first_text_ns, self.first_text_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const FROM: u64 = 1_000 * MS;

    fn limits(text: &str) -> GoodLimits {
        GoodLimits::of(&text.parse().expect("it is good"))
    }

    /// Times in milliseconds after the request; 0 is never.
    fn tokens(first: u64, text: u64, per_token: u64) -> TokenTimes {
        let at = |ms: u64| if ms == 0 { 0 } else { FROM + ms * MS };
        TokenTimes {
            first_ns: at(first),
            first_text_ns: at(text),
            per_token_ns: per_token * MS,
            ..TokenTimes::default()
        }
    }

    #[test]
    fn a_response_is_good_if_it_meets_all_limits() {
        let all = "latency<900ms, first_token<300ms, first_text<500ms, time_per_token<50ms";
        for (ended, times, is_good) in [
            (899, tokens(299, 499, 49), true),
            (900, tokens(299, 499, 49), false),
            (899, tokens(300, 499, 49), false),
            (899, tokens(299, 500, 49), false),
            (899, tokens(299, 499, 50), false),
            // No visible text.
            (899, tokens(299, 0, 49), false),
            (899, tokens(0, 0, 0), false),
            // One token has no time per token.
            (899, tokens(299, 499, 0), true),
        ] {
            let met = limits(all).are_met(FROM, FROM + ended * MS, &times);
            assert_eq!(met, is_good, "{ended} {times:?}");
        }
        let none = tokens(0, 0, 0);
        assert!(limits("latency<900ms").are_met(FROM, FROM + 1, &none));
        assert!(!limits("first_token<1h").are_met(FROM, FROM + 1, &none));
    }

    #[test]
    fn an_unanswered_request_is_bad_as_soon_as_it_has_missed_a_limit() {
        let none = tokens(0, 0, 0);
        for (text, age, times, is_missed) in [
            ("latency<900ms", 899, none, false),
            ("latency<900ms", 900, none, true),
            ("first_token<300ms", 299, none, false),
            ("first_token<300ms", 300, none, true),
            // The first token came in time, whatever comes later.
            ("first_token<300ms", 5_000, tokens(299, 0, 0), false),
            ("first_token<300ms", 5_000, tokens(300, 0, 0), true),
            ("first_text<300ms", 299, tokens(100, 0, 0), false),
            ("first_text<300ms", 300, tokens(100, 0, 0), true),
            // It is known at the end only.
            ("time_per_token<1ms", 5_000, tokens(100, 100, 0), false),
        ] {
            let missed = limits(text).are_missed(FROM, age * MS, &times);
            assert_eq!(missed, is_missed, "{text} {age} {times:?}");
        }
    }
}
