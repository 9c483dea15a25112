//! The rate of an open loop over time and its integral: how many requests are due by a moment, and
//! when the n-th one is due.

use std::time::Duration;

use crate::{Pacing, Stage};

/// A piece of the curve in which the rate is constant or changes linearly.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Seconds after the origin.
    start: f64,
    /// Seconds; infinite for the last piece.
    length: f64,
    /// Requests due before the piece starts.
    before: f64,
    /// Requests due within it; infinite for the last piece, unless its rate is 0.
    within: f64,
    /// Requests per second at its start.
    rate: f64,
    /// Change of the rate, requests per second per second.
    slope: f64,
}

impl Piece {
    fn rate_at(&self, at_s: f64) -> f64 {
        self.slope.mul_add(at_s - self.start, self.rate)
    }
}

/// The rate of a schedule as a function of time, its integral and the inverse of the integral.
///
/// Times are seconds after the origin, where the schedule starts. Stages start with the window,
/// after the warm-up; the last rate continues without end.
#[derive(Debug, Clone)]
pub struct RateCurve {
    /// Never empty; the last one is infinitely long.
    pieces: Vec<Piece>,
}

impl Pacing {
    /// The rate over time; `None` if the plan does not have it, as in a closed loop. `warmup` is
    /// the time from the origin to the window.
    #[must_use]
    pub fn rate_curve(&self, warmup: Duration) -> Option<RateCurve> {
        let mut curve = RateCurve { pieces: Vec::new() };
        let last = match self {
            Self::Closed | Self::Users | Self::Recorded { .. } => return None,
            Self::Constant { rate_per_sec, .. } => *rate_per_sec,
            Self::Stages { stages, .. } => {
                if let Some(first) = stages.first() {
                    curve.push(warmup.as_secs_f64(), first.from_per_sec, first.from_per_sec);
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

    /// The rate asked for at a time after the start of the window, requests per second. `None`
    /// without a rate.
    #[must_use]
    pub fn rate_at(&self, at: Duration) -> Option<f64> {
        let curve = self.rate_curve(Duration::ZERO)?;
        Some(curve.rate_at(at.as_secs_f64()))
    }

    /// How many requests are due within a time after the start of the window. `None` without a
    /// rate.
    #[must_use]
    pub fn requests_until(&self, at: Duration) -> Option<f64> {
        let curve = self.rate_curve(Duration::ZERO)?;
        Some(curve.requests_until(at.as_secs_f64()))
    }
}

impl RateCurve {
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

    fn piece_at(&self, at_s: f64) -> &Piece {
        let mut pieces = self.pieces.iter().rev();
        pieces
            .find(|piece| piece.start <= at_s)
            .unwrap_or(&self.pieces[0])
    }

    /// Requests per second at this time.
    #[must_use]
    pub fn rate_at(&self, at_s: f64) -> f64 {
        self.piece_at(at_s).rate_at(at_s)
    }

    /// The highest rate there ever is, requests per second.
    #[must_use]
    pub fn max_rate(&self) -> f64 {
        let ends = self.pieces.iter().map(|piece| match piece.slope {
            0.0 => piece.rate,
            _ => piece.rate.max(piece.rate_at(piece.start + piece.length)),
        });
        ends.fold(0.0, f64::max)
    }

    /// The pieces of the curve up to `end_s`, each as two points: time and rate at its start and at
    /// its end. The rate is linear between them.
    pub fn segments(&self, end_s: f64) -> impl Iterator<Item = [(f64, f64); 2]> {
        let pieces = self.pieces.iter();
        pieces
            .take_while(move |piece| piece.start < end_s)
            .map(move |piece| {
                let to_s = (piece.start + piece.length).min(end_s);
                [(piece.start, piece.rate), (to_s, piece.rate_at(to_s))]
            })
    }

    /// Requests due within `at_s` seconds of the origin: the integral of the rate.
    #[inline]
    #[must_use]
    pub fn requests_until(&self, at_s: f64) -> f64 {
        let piece = self.piece_at(at_s);
        let inside = (at_s - piece.start).max(0.0);
        piece.before + inside * (0.5 * piece.slope).mul_add(inside, piece.rate)
    }

    /// When `count` requests have become due, seconds after the origin; infinite if there are never
    /// that many. This is the solution of r·t + s·t²/2 = x, in the form that loses no digits when s
    /// is small.
    #[inline]
    #[must_use]
    pub fn due_at(&self, count: f64) -> f64 {
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
    use crate::Arrivals;

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

    fn curve_of(pacing: &Pacing, warmup: Duration) -> RateCurve {
        pacing.rate_curve(warmup).expect("an open loop")
    }

    #[test]
    fn a_closed_loop_has_no_curve() {
        assert!(Pacing::Closed.rate_curve(Duration::ZERO).is_none());
    }

    #[test]
    fn at_a_constant_rate_the_nth_request_is_due_after_n_intervals() {
        let curve = curve_of(&constant(250.0), Duration::from_secs(3));
        assert_eq!(curve.due_at(0.0), 0.0);
        assert_eq!(curve.due_at(1.0), 0.004);
        assert_eq!(curve.due_at(2500.0), 10.0);
        assert_eq!(curve.requests_until(10.0), 2500.0);
    }

    #[test]
    fn stages_follow_the_warm_up_and_the_last_rate_goes_on() {
        let curve = curve_of(
            &stages(&[(100.0, 100.0, 2), (50.0, 50.0, 4)]),
            Duration::from_secs(1),
        );
        // 1 s warm-up and 2 s of the first stage at 100/s, then 50/s.
        assert_eq!(curve.requests_until(3.0), 300.0);
        assert_eq!(curve.due_at(350.0), 4.0);
        assert_eq!(curve.due_at(500.0), 7.0);
        assert_eq!(curve.due_at(550.0), 8.0);
    }

    #[test]
    fn a_ramp_is_a_parabola_of_requests() {
        let curve = curve_of(&stages(&[(0.0, 1000.0, 10)]), Duration::ZERO);
        // 1000 / 10 / 2 * t^2
        assert!((curve.requests_until(2.0) - 200.0).abs() < 1e-9);
        assert!((curve.due_at(200.0) - 2.0).abs() < 1e-12);
        assert!((curve.due_at(5000.0) - 10.0).abs() < 1e-12);
        let down = curve_of(&stages(&[(1000.0, 0.0, 10)]), Duration::ZERO);
        assert!((down.requests_until(5.0) - 3750.0).abs() < 1e-9);
        assert!((down.due_at(3750.0) - 5.0).abs() < 1e-9);
        assert_eq!(down.due_at(5000.0), f64::INFINITY);
    }

    #[test]
    fn a_stage_without_requests_is_a_pause() {
        let curve = curve_of(
            &stages(&[(10.0, 10.0, 1), (0.0, 0.0, 5), (10.0, 10.0, 1)]),
            Duration::ZERO,
        );
        assert!((curve.due_at(9.0) - 0.9).abs() < 1e-12);
        assert_eq!(curve.due_at(10.0), 6.0);
        assert_eq!(curve.requests_until(4.0), 10.0);
    }

    #[test]
    fn counting_and_its_inverse_agree_everywhere() {
        let curve = curve_of(
            &stages(&[
                (3.0, 700.0, 3),
                (700.0, 700.0, 2),
                (700.0, 1.0, 5),
                (1e6, 1e6, 1),
            ]),
            Duration::from_millis(500),
        );
        for step in 0..10_000 {
            let count = f64::from(step) * 117.0;
            let at = curve.due_at(count);
            assert!(
                (curve.requests_until(at) - count).abs() < 1e-6 * count.max(1.0),
                "{count} at {at}"
            );
        }
    }

    #[test]
    fn rates_and_requests_count_from_the_start_of_the_window() {
        let pacing = stages(&[(100.0, 100.0, 10), (0.0, 400.0, 20)]);
        for (at_s, rate, requests) in [
            (0, 100.0, 0.0),
            (5, 100.0, 500.0),
            (10, 0.0, 1000.0),
            // Halfway up the ramp: from 0 to 200 in 10 s.
            (20, 200.0, 2000.0),
            (30, 400.0, 5000.0),
            // The last rate continues.
            (40, 400.0, 9000.0),
        ] {
            let at = Duration::from_secs(at_s);
            let due = pacing.requests_until(at).unwrap();
            assert_eq!(pacing.rate_at(at), Some(rate), "{at_s} s");
            assert!((due - requests).abs() < 1e-6, "{at_s} s: {due}");
        }
        assert_eq!(Pacing::Closed.rate_at(Duration::ZERO), None);
        assert_eq!(Pacing::Closed.requests_until(Duration::ZERO), None);
    }

    #[test]
    fn stages_without_length_neither_divide_by_zero_nor_count() {
        let requests = |of: &[_]| stages(of).requests_until(Duration::from_secs(2));
        assert_eq!(requests(&[(7.0, 50.0, 0), (10.0, 10.0, 1)]), Some(20.0));
        assert_eq!(requests(&[(7.0, 50.0, 0)]), Some(100.0));
        assert_eq!(requests(&[]), Some(0.0));
    }

    #[test]
    fn segments_end_where_they_are_cut_and_the_highest_rate_is_at_one_of_their_ends() {
        let pacing = stages(&[(100.0, 500.0, 4), (50.0, 50.0, 4)]);
        let curve = curve_of(&pacing, Duration::ZERO);
        let cut: Vec<_> = curve.segments(2.0).collect();
        assert_eq!(cut, [[(0.0, 100.0), (2.0, 300.0)]]);
        let whole: Vec<_> = curve.segments(10.0).collect();
        assert_eq!(
            whole,
            [
                [(0.0, 100.0), (4.0, 500.0)],
                [(4.0, 50.0), (8.0, 50.0)],
                [(8.0, 50.0), (10.0, 50.0)]
            ]
        );
        assert_eq!(curve.max_rate(), 500.0);
    }
}
