//! Predictions of queueing theory, which measurements are checked against.

/// Quantile `q`, 0..1, of the time in an M/M/1 system (Poisson arrivals at `arrival_rate`,
/// exponential service at `service_rate`, one server, FIFO), in the unit of 1 / rate. It is
/// exponential with rate mu - lambda (Kleinrock, "Queueing Systems", volume 1, section 5.12).
/// `None` if the queue grows without bound.
#[must_use]
pub fn mm1_sojourn_quantile(arrival_rate: f64, service_rate: f64, q: f64) -> Option<f64> {
    let spare = service_rate - arrival_rate;
    (spare > 0.0).then(|| -(-q).ln_1p() / spare)
}

/// The arrival rate at which a share `q` of the times in an M/M/1 system is above `limit`:
/// mu - ln(1 / q) / limit, from the same formula. `None` if that share is above it at every rate.
#[must_use]
pub fn mm1_rate_at_limit(service_rate: f64, limit: f64, q: f64) -> Option<f64> {
    let rate = service_rate + q.ln() / limit;
    (rate > 0.0).then_some(rate)
}

/// The arrival rate at which a share `q` of the times in an M/D/1 system (Poisson arrivals, a
/// constant `service` time, one server, FIFO) is above `limit`; `None` if `limit` is not well above
/// `service`.
///
/// The waiting time W has an exponential tail: P(W > t) = C exp(-theta t) with
/// lambda (exp(theta D) - 1) = theta and C = (1 - rho) / (rho exp(theta D) - 1) (Asmussen, "Applied
/// Probability and Queues", chapter XIII.5). The approximation is exact to four digits from
/// t = 2 D on.
#[must_use]
pub fn md1_rate_at_limit(service: f64, limit: f64, q: f64) -> Option<f64> {
    const HALVINGS: usize = 60;
    const SERVICES_MIN: f64 = 3.0;
    if limit < SERVICES_MIN * service {
        return None;
    }
    let wait = (limit - service) / service;
    // In units of the service time. As a function of theta, rho = theta / (exp(theta) - 1) falls.
    let tail = |theta: f64| {
        let rho = theta / theta.exp_m1();
        (1.0 - rho) / (rho * theta.exp() - 1.0) * (-theta * wait).exp()
    };
    let (mut low, mut high) = (1e-9, 20.0);
    for _ in 0..HALVINGS {
        let theta = f64::midpoint(low, high);
        *(if tail(theta) > q { &mut low } else { &mut high }) = theta;
    }
    Some(low / low.exp_m1() / service)
}

/// Quantile `q`, 0..1, of the time that a stall of length S = `stall` adds to requests that arrive
/// evenly and do not wait for each other, if a share f = `stalled` of them arrives during the
/// stall. The added time is uniform from 0 to S, so the quantile is S (1 - (1 - q) / f) above q = 1
/// - f, and 0 below.
#[must_use]
pub fn stall_quantile(stall: f64, stalled: f64, q: f64) -> f64 {
    (stall * (1.0 - (1.0 - q) / stalled)).max(0.0)
}

/// A closed network: customers alternate between one queue (exponential service, FIFO) and
/// thinking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClosedNetwork {
    /// Number of customers, at least 1.
    pub customers: u32,
    /// Mean service time, in any unit of time.
    pub service: f64,
    /// Mean thinking time in the same unit; 0 if customers return at once.
    pub think: f64,
}

/// The long-run figures of a [`ClosedNetwork`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClosedNetworkFigures {
    /// Services per unit of time.
    pub throughput: f64,
    /// Mean time from joining the queue to the end of the service.
    pub response: f64,
}

impl ClosedNetwork {
    /// Exact mean value analysis (Reiser and Lavenberg, "Mean-Value Analysis of Closed Multichain
    /// Queuing Networks", 1980): R(n) = D (1 + Q(n - 1)), X(n) = n / (Z + R(n)), Q(n) = X(n) R(n).
    /// Only the mean of the thinking times matters, not their distribution (BCMP, 1975).
    #[must_use]
    pub fn figures(&self) -> ClosedNetworkFigures {
        let mut figures = ClosedNetworkFigures {
            throughput: 0.0,
            response: 0.0,
        };
        for customers in 1..=self.customers {
            let ahead = figures.throughput * figures.response;
            let response = self.service * (1.0 + ahead);
            figures = ClosedNetworkFigures {
                throughput: f64::from(customers) / (self.think + response),
                response,
            };
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
    }

    #[test]
    fn mm1_at_seven_tenths_has_the_textbook_times() {
        let p50 = mm1_sojourn_quantile(700.0, 1000.0, 0.5).unwrap();
        let p99 = mm1_sojourn_quantile(700.0, 1000.0, 0.99).unwrap();
        assert!(near(p50, 2_f64.ln() / 300.0) && near(p99, 100_f64.ln() / 300.0));
        assert_eq!(mm1_sojourn_quantile(1000.0, 1000.0, 0.5), None);
    }

    #[test]
    fn a_stall_of_two_seconds_in_ten_gives_the_known_quantiles() {
        let found = [0.5, 0.8, 0.9, 0.95, 0.99].map(|q| stall_quantile(2.0, 0.2, q));
        for (found, expected) in found.into_iter().zip([0.0, 0.0, 1.0, 1.5, 1.9]) {
            assert!(near(found, expected), "{found} {expected}");
        }
    }

    #[test]
    fn without_thinking_the_queue_is_never_idle() {
        for customers in [1, 2, 64] {
            let network = ClosedNetwork {
                customers,
                service: 0.5,
                think: 0.0,
            };
            let figures = network.figures();
            assert!(near(figures.throughput, 2.0), "{figures:?}");
            assert!(near(figures.response, 0.5 * f64::from(customers)));
        }
    }

    /// With one customer there is never a queue; with two the machine-repairman model has a closed
    /// form: the queue is busy with 1 - p0, p0 = 1 / (1 + 2 a + 2 a²), a = D / Z.
    #[test]
    fn small_populations_match_their_closed_forms() {
        let network = |customers| ClosedNetwork {
            customers,
            service: 2.0,
            think: 10.0,
        };
        assert!(near(network(1).figures().throughput, 1.0 / 12.0));
        let a = 0.2;
        let busy = 1.0 - 1.0 / (1.0 + 2.0 * a + 2.0 * a * a);
        assert!(near(network(2).figures().throughput, busy / 2.0));
        let none = network(0).figures();
        assert_eq!((none.throughput, none.response), (0.0, 0.0));
    }

    #[test]
    fn the_rate_at_a_limit_is_that_of_the_quantile() {
        let rate = mm1_rate_at_limit(200.0, 0.1, 0.01).unwrap();
        assert!((rate - 153.948).abs() < 1e-3, "{rate}");
        let p99 = mm1_sojourn_quantile(rate, 200.0, 0.99).unwrap();
        assert!((p99 - 0.1).abs() < 1e-9, "{p99}");
        assert_eq!(mm1_rate_at_limit(200.0, 0.02, 0.01), None);
    }

    /// Simulated apart from this crate: 154.6.
    #[test]
    fn a_constant_service_carries_more_than_an_exponential_one() {
        let constant = md1_rate_at_limit(0.005, 0.05, 0.01).unwrap();
        assert!((constant - 154.65).abs() < 0.1, "{constant}");
        let exponential = mm1_rate_at_limit(200.0, 0.05, 0.01).unwrap();
        assert!(exponential < constant);
        assert_eq!(md1_rate_at_limit(0.005, 0.006, 0.01), None);
    }
}
