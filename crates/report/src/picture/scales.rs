//! Values as coordinates along an axis, and its ticks.

use presentation::{Axis, Scale, Unit};

use super::ticks::{nice_step, on_axis, short};

/// 100 % would be at infinity; it is drawn this far behind the last known percentile.
const END_OF_NINES: f64 = 0.08;

/// Space beyond the values, as a share of their range.
const PADDING: f64 = 0.05;

const TICKS_MAX: usize = 200;

/// A coordinate with its text.
pub(super) type Tick = (f64, String);

/// An axis with what its scale needs to know about all of its values.
pub(super) struct Scaled<'a> {
    pub(super) axis: &'a Axis,
    /// Of nines: the last known percentile.
    last: f64,
}

/// How the range of an axis fits its values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fit {
    pub(super) from_zero: bool,
    pub(super) is_tight: bool,
}

impl<'a> Scaled<'a> {
    pub(super) fn of(axis: &'a Axis, values: impl IntoIterator<Item = f64>) -> Self {
        let below = values
            .into_iter()
            .filter(|value| (0.0..100.0).contains(value));
        Self {
            axis,
            last: below.map(nines).fold(1.0, f64::max),
        }
    }

    /// Of nines: the coordinate of 100 %.
    fn end(&self) -> f64 {
        self.last + (self.last * END_OF_NINES).max(0.3)
    }

    /// `None` for what cannot be drawn.
    pub(super) fn forward(&self, value: f64) -> Option<f64> {
        let coordinate = match self.axis.scale {
            Scale::Linear | Scale::Names(_) => value,
            Scale::Log if value > 0.0 => value.log10(),
            Scale::Nines if value == 100.0 => self.end(),
            Scale::Nines if (0.0..100.0).contains(&value) => nines(value),
            Scale::Log | Scale::Nines => return None,
        };
        coordinate.is_finite().then_some(coordinate)
    }

    /// The range that is drawn for coordinates from `min` to `max`.
    pub(super) fn range(&self, [min, max]: [f64; 2], fit: Fit) -> [f64; 2] {
        match &self.axis.scale {
            Scale::Linear => self.linear([min, max], fit),
            Scale::Log if max - min < 0.1 => [min - 0.1, max + 0.1],
            Scale::Log if fit.is_tight => [min, max],
            Scale::Log => {
                let room = (max - min) * PADDING;
                [min - room, max + room]
            }
            Scale::Nines if max - min < 0.01 => [(min - 0.5).max(0.0), max + 0.5],
            Scale::Nines => [min, max],
            Scale::Names(_) if fit.is_tight => [min, max],
            Scale::Names(names) => [-0.6, names.len().max(1) as f64 - 0.4],
        }
    }

    fn linear(&self, [min, max]: [f64; 2], fit: Fit) -> [f64; 2] {
        let [min, max] = if fit.from_zero || self.axis.from_zero {
            [min.min(0.0), max.max(0.0)]
        } else {
            [min, max]
        };
        if min == max && min == 0.0 {
            return [0.0, 1.0];
        }
        if min == max {
            let half = min.abs() * 0.1;
            return [
                if min > 0.0 {
                    (min - half).max(0.0)
                } else {
                    min - half
                },
                max + half,
            ];
        }
        if fit.is_tight {
            return [min, max];
        }
        let room = (max - min) * PADDING;
        let low = if min >= 0.0 {
            (min - room).max(0.0)
        } else {
            min - room
        };
        let mut high = if max <= 0.0 {
            (max + room).min(0.0)
        } else {
            max + room
        };
        if self.axis.unit == Unit::Percent && max <= 100.0 {
            high = high.min(100.0);
        }
        [low, high]
    }

    /// At most about `most` ticks.
    pub(super) fn ticks(&self, range: [f64; 2], most: f64) -> Vec<Tick> {
        match &self.axis.scale {
            Scale::Linear => {
                let values = even(self.axis.unit, range, most);
                let texts = on_axis(self.axis.unit, &values);
                values.into_iter().zip(texts).collect()
            }
            Scale::Log => self.powers(range, most),
            Scale::Nines => self.nines(range, most),
            Scale::Names(names) => {
                let ticks = names.iter().enumerate();
                let ticks = ticks.map(|(at, name)| (at as f64, name.clone()));
                ticks
                    .filter(|(at, _)| (range[0]..=range[1]).contains(at))
                    .collect()
            }
        }
    }

    fn powers(&self, [min, max]: [f64; 2], most: f64) -> Vec<Tick> {
        let unit = self.axis.unit;
        let (first, last) = (min.floor() as i32, max.ceil() as i32);
        let powers = first..=last;
        let values = powers.flat_map(|power| [1.0_f64, 2.0, 5.0].map(|step| (step, power)));
        let inside: Vec<(f64, i32, f64)> = values
            .map(|(step, power)| (step, power, f64::from(power) + step.log10()))
            .filter(|(_, _, at)| (min - 1e-9..=max + 1e-9).contains(at))
            .collect();
        if inside.len() < 3 {
            // Below one decade, even steps are clearer.
            let values = even(unit, [10_f64.powf(min), 10_f64.powf(max)], most);
            let values: Vec<f64> = values.into_iter().filter(|value| *value > 0.0).collect();
            let texts = on_axis(unit, &values);
            return values.iter().map(|it| it.log10()).zip(texts).collect();
        }
        let of = |steps: &[f64]| -> Vec<(f64, i32, f64)> {
            let all = inside.iter();
            all.filter(|(step, ..)| steps.contains(step))
                .copied()
                .collect()
        };
        let decades = of(&[1.0]);
        let every = (decades.len() as f64 / most.max(1.0)).ceil().max(1.0) as usize;
        let choices = [inside.clone(), of(&[1.0, 5.0])];
        let fitting = choices.into_iter().find(|ticks| ticks.len() as f64 <= most);
        let chosen = fitting.unwrap_or_else(|| decades.into_iter().step_by(every).collect());
        let text = |step: f64, power: i32| short(unit, step * 10_f64.powi(power));
        chosen
            .into_iter()
            .map(|(step, power, at)| (at, text(step, power)))
            .collect()
    }

    /// The nines first; percentiles between them where they fit.
    fn nines(&self, [min, max]: [f64; 2], most: f64) -> Vec<Tick> {
        let mut ticks = vec![(self.end(), "100 %".to_owned())];
        for power in 1..=(self.last + 1e-9).floor() as i32 {
            let decimals = (power - 2).max(0) as usize;
            let percent = 100.0 - 10_f64.powi(2 - power);
            ticks.push((f64::from(power), format!("{percent:.decimals$} %")));
        }
        let between = [0.0, 50.0, 75.0, 25.0, 95.0];
        ticks.extend(between.map(|percent| (nines(percent), format!("{percent} %"))));
        let apart = (max - min) / most.max(1.0) * 0.85;
        let mut kept: Vec<Tick> = Vec::new();
        for tick in ticks {
            let is_inside = (min - 1e-9..=max + 1e-9).contains(&tick.0);
            if is_inside && kept.iter().all(|other| (other.0 - tick.0).abs() >= apart) {
                kept.push(tick);
            }
        }
        kept.sort_by(|a, b| a.0.total_cmp(&b.0));
        kept
    }
}

/// 90, 99 and 99.9 are at 1, 2 and 3.
fn nines(percent: f64) -> f64 {
    -(1.0 - percent / 100.0).log10()
}

/// Multiples of a readable step within a range.
fn even(unit: Unit, [min, max]: [f64; 2], most: f64) -> Vec<f64> {
    let step = nice_step(unit, (max - min) / most.max(1.0));
    let first = (min / step - 1e-9).ceil();
    let values = (0..TICKS_MAX).map(|at| (first + at as f64) * step);
    let inside = values.take_while(|value| *value <= max + step * 1e-9);
    // Without the last bits, which texts would show as decimals.
    inside
        .map(|value| format!("{value:.11e}").parse().unwrap_or(value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(unit: Unit, scale: Scale) -> Axis {
        Axis {
            unit,
            scale,
            ..Axis::default()
        }
    }

    fn texts(axis: &Axis, values: [f64; 2], most: f64) -> Vec<String> {
        let scaled = Scaled::of(axis, values);
        let ends = values.map(|value| scaled.forward(value).unwrap());
        let ticks = scaled.ticks(scaled.range(ends, Fit::default()), most);
        ticks.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn each_scale_has_ticks_that_a_reader_expects() {
        let linear = axis(Unit::RequestsPerSec, Scale::Linear);
        assert_eq!(
            texts(&linear, [0.0, 40_000.0], 5.0),
            ["0", "10k", "20k", "30k", "40k"]
        );
        let log = axis(Unit::Microseconds, Scale::Log);
        assert_eq!(
            texts(&log, [100.0, 100_000.0], 5.0),
            ["100 us", "1 ms", "10 ms", "100 ms"]
        );
        let nines = axis(Unit::Percent, Scale::Nines);
        let known = texts(&nines, [0.0, 99.9], 8.0);
        assert!(
            known.ends_with(&["99 %".to_owned(), "99.9 %".to_owned()]),
            "{known:?}"
        );
        let names = axis(
            Unit::Number,
            Scale::Names(vec!["a".to_owned(), "b".to_owned()]),
        );
        assert_eq!(texts(&names, [0.0, 1.0], 5.0), ["a", "b"]);
    }

    #[test]
    fn what_a_scale_cannot_show_is_not_drawn() {
        let log = axis(Unit::Microseconds, Scale::Log);
        assert_eq!(Scaled::of(&log, []).forward(0.0), None);
        let nines = axis(Unit::Percent, Scale::Nines);
        let scaled = Scaled::of(&nines, [99.0]);
        assert_eq!(scaled.forward(101.0), None);
        assert!(scaled.forward(100.0) > scaled.forward(99.0));
    }

    #[test]
    fn one_value_has_a_range() {
        let linear = axis(Unit::Number, Scale::Linear);
        let scaled = Scaled::of(&linear, []);
        assert_eq!(scaled.range([0.0, 0.0], Fit::default()), [0.0, 1.0]);
        assert_eq!(scaled.range([10.0, 10.0], Fit::default()), [9.0, 11.0]);
    }
}
