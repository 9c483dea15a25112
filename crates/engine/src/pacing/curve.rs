//! The rate of a run over time, integrated: how many requests are due by when, and when is the n-th.

use plan::{Pacing, Stage};

/// A piece of the curve in which the rate is constant or changes linearly.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Begin, seconds after the origin.
    start: f64,
    /// Length, seconds; infinite for the last piece.
    length: f64,
    /// Requests due before its begin.
    before: f64,
    /// Requests within it; infinite for the last piece, unless its rate is 0.
    within: f64,
    /// Requests per second at its begin.
    rate: f64,
    /// Change of the rate, requests per second per second.
    slope: f64,
}

/// Λ(t), the number of requests due within t of the origin, and its inverse. The origin is the moment
/// in which connections are opened; stages begin with the window.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    pieces: Vec<Piece>,
}

impl Curve {
    /// `None` for a closed loop. `warmup` is the time from the origin to the window, seconds.
    pub(super) fn new(pacing: &Pacing, warmup: f64) -> Option<Self> {
        let mut curve = Self { pieces: Vec::new() };
        let last = match pacing {
            Pacing::Closed => return None,
            Pacing::Constant { rate_per_sec, .. } => *rate_per_sec,
            Pacing::Stages { stages, .. } => {
                if let Some(first) = stages.first() {
                    curve.push(warmup, first.from_per_sec, first.from_per_sec);
                }
                for stage in stages {
                    let Stage {
                        from_per_sec,
                        to_per_sec,
                        duration,
                    } = stage;
                    curve.push(duration.as_secs_f64(), *from_per_sec, *to_per_sec);
                }
                stages.last().map_or(0.0, |stage| stage.to_per_sec)
            }
        };
        curve.push(f64::INFINITY, last, last);
        Some(curve)
    }

    fn push(&mut self, length: f64, from: f64, to: f64) {
        if length <= 0.0 {
            return;
        }
        let (start, before) = self.pieces.last().map_or((0.0, 0.0), |piece| {
            (piece.start + piece.length, piece.before + piece.within)
        });
        let endless = length.is_infinite();
        let within = match (endless, from > 0.0) {
            (true, true) => f64::INFINITY,
            (true, false) => 0.0,
            (false, _) => f64::midpoint(from, to) * length,
        };
        self.pieces.push(Piece {
            start,
            length,
            before,
            within,
            rate: from,
            slope: if endless { 0.0 } else { (to - from) / length },
        });
    }

    /// Requests due within `at` seconds of the origin.
    pub(super) fn count_at(&self, at: f64) -> f64 {
        let piece = self
            .pieces
            .iter()
            .rev()
            .find(|piece| piece.start <= at)
            .unwrap_or(&self.pieces[0]);
        let inside = (at - piece.start).max(0.0);
        piece.before + inside * (0.5 * piece.slope).mul_add(inside, piece.rate)
    }

    /// When so many requests have become due, seconds after the origin: the solution of
    /// r·t + s·t²/2 = x, in the form that does not lose digits when s is small. Infinite when there
    /// are never so many.
    pub(super) fn when(&self, count: f64) -> f64 {
        let found = self
            .pieces
            .iter()
            .find(|piece| count < piece.before + piece.within);
        let Some(piece) = found else {
            return f64::INFINITY;
        };
        let wanted = (count - piece.before).max(0.0);
        if wanted == 0.0 {
            return piece.start;
        }
        let under_root = piece
            .rate
            .mul_add(piece.rate, 2.0 * piece.slope * wanted)
            .max(0.0);
        let inside = 2.0 * wanted / (piece.rate + under_root.sqrt());
        piece.start + inside.min(piece.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::Arrivals;
    use std::time::Duration;

    fn stages(stages: &[(f64, f64, u64)]) -> Pacing {
        Pacing::Stages {
            stages: stages
                .iter()
                .map(|(from, to, seconds)| Stage {
                    from_per_sec: *from,
                    to_per_sec: *to,
                    duration: Duration::from_secs(*seconds),
                })
                .collect(),
            arrivals: Arrivals::Even,
            seed: 0,
        }
    }

    fn constant(rate_per_sec: f64) -> Pacing {
        Pacing::Constant {
            rate_per_sec,
            arrivals: Arrivals::Even,
            seed: 0,
        }
    }

    #[test]
    fn a_closed_loop_has_no_curve() {
        assert!(Curve::new(&Pacing::Closed, 0.0).is_none());
    }

    #[test]
    fn at_a_constant_rate_the_nth_request_is_due_after_n_intervals() {
        let curve = Curve::new(&constant(250.0), 3.0).expect("open");
        assert_eq!(curve.when(0.0), 0.0);
        assert_eq!(curve.when(1.0), 0.004);
        assert_eq!(curve.when(2500.0), 10.0);
        assert_eq!(curve.count_at(10.0), 2500.0);
    }

    #[test]
    fn stages_follow_the_warm_up_and_the_last_rate_goes_on() {
        let curve = Curve::new(&stages(&[(100.0, 100.0, 2), (50.0, 50.0, 4)]), 1.0).expect("open");
        // 1 s warm-up and 2 s of the first stage at 100/s, then 50/s.
        assert_eq!(curve.count_at(3.0), 300.0);
        assert_eq!(curve.when(350.0), 4.0);
        assert_eq!(curve.when(500.0), 7.0);
        assert_eq!(curve.when(550.0), 8.0);
    }

    #[test]
    fn a_ramp_is_a_parabola_of_requests() {
        let curve = Curve::new(&stages(&[(0.0, 1000.0, 10)]), 0.0).expect("open");
        // 1000 / 10 / 2 * t^2
        assert!((curve.count_at(2.0) - 200.0).abs() < 1e-9);
        assert!((curve.when(200.0) - 2.0).abs() < 1e-12);
        assert!((curve.when(5000.0) - 10.0).abs() < 1e-12);
        let down = Curve::new(&stages(&[(1000.0, 0.0, 10)]), 0.0).expect("open");
        assert!((down.count_at(5.0) - 3750.0).abs() < 1e-9);
        assert!((down.when(3750.0) - 5.0).abs() < 1e-9);
        assert_eq!(down.when(5000.0), f64::INFINITY);
    }

    #[test]
    fn a_stage_without_requests_is_a_pause() {
        let curve = Curve::new(
            &stages(&[(10.0, 10.0, 1), (0.0, 0.0, 5), (10.0, 10.0, 1)]),
            0.0,
        )
        .expect("open");
        assert!((curve.when(9.0) - 0.9).abs() < 1e-12);
        assert_eq!(curve.when(10.0), 6.0);
        assert_eq!(curve.count_at(4.0), 10.0);
    }

    #[test]
    fn counting_and_its_inverse_agree_everywhere() {
        let curve = Curve::new(
            &stages(&[
                (3.0, 700.0, 3),
                (700.0, 700.0, 2),
                (700.0, 1.0, 5),
                (1e6, 1e6, 1),
            ]),
            0.5,
        )
        .expect("open");
        for step in 0..10_000 {
            let count = f64::from(step) * 117.0;
            let at = curve.when(count);
            assert!(
                (curve.count_at(at) - count).abs() < 1e-6 * count.max(1.0),
                "{count} at {at}"
            );
        }
    }
}
