//! Flame graphs: a box for each function, below that of its caller and as wide as its share of the
//! samples (Gregg, "The Flame Graph", 2016). The outermost functions are on top.

use std::collections::BTreeMap;

use presentation::{FlameBox, FlameGraph, FlameTone, words};

use crate::{FoldedStack, Profile};

/// Narrower boxes are not drawn, in percent of the width.
const WIDTH_MIN: f64 = 0.08;

/// Narrower boxes have no text, in percent of the width.
const TEXT_WIDTH_MIN: f64 = 2.5;

/// Functions called deeper than this are not drawn.
const ROWS_MAX: usize = 100;

/// A graph has no more boxes, the widest calls first.
const BOXES_MAX: usize = 2_500;

/// From these differences on, in percentage points, a box has the second and the third colour. Of
/// smaller differences than the first it has none.
const DIFFERENCES: [f64; 3] = [1.0, 5.0, 15.0];

/// Which samples a graph is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Samples {
    /// All samples.
    All,
    /// Those while a slow request was in flight.
    Slow,
    /// The others.
    Other,
    /// The mean of the shares of both kinds, coloured by their difference.
    Difference,
}

/// A function as called from one place, with its shares of the samples of each kind.
#[derive(Default)]
struct Call<'a> {
    slow: u64,
    other: u64,
    callees: BTreeMap<&'a str, Self>,
}

impl<'a> Call<'a> {
    fn of(profile: &'a Profile) -> Self {
        let mut root = Self::default();
        for stack in &profile.stacks {
            root.add(stack, &profile.stack_functions);
        }
        root
    }

    fn add(&mut self, stack: &FoldedStack, names: &'a [String]) {
        let count = |call: &mut Self| {
            call.slow = call.slow.saturating_add(stack.slow);
            call.other = call.other.saturating_add(stack.other);
        };
        count(self);
        let mut call = self;
        for function in stack.functions.iter().take(ROWS_MAX) {
            let name = names.get(*function as usize).map_or("", String::as_str);
            call = call.callees.entry(name).or_default();
            count(call);
        }
    }
}

/// The graph of some of the samples; `None` if there are none.
pub(super) fn graph(profile: &Profile, samples: Samples) -> Option<FlameGraph> {
    let root = Call::of(profile);
    let painter = Painter {
        samples,
        slow: root.slow,
        other: root.other,
    };
    let width = painter.width(&root);
    if width <= 0.0 {
        return None;
    }
    let mut boxes = Vec::new();
    // The widest calls come first, so that a limit leaves out narrow ones.
    let mut open = vec![(0.0, 0, &root)];
    while let Some((left, row, call)) = open.pop() {
        let mut x = left;
        for (name, callee) in &call.callees {
            let width = painter.width(callee);
            if width >= WIDTH_MIN && boxes.len() < BOXES_MAX {
                boxes.push(painter.paint(name, callee, x, row));
                open.push((x, row + 1, callee));
            }
            x += width;
        }
        open.sort_by(|one, other| painter.width(one.2).total_cmp(&painter.width(other.2)));
    }
    let rows = boxes.iter().map(|it| it.row + 1).max().unwrap_or_default();
    let (title, count) = match samples {
        Samples::All => ("All samples", root.slow + root.other),
        Samples::Slow => ("While slow requests were in flight", root.slow),
        Samples::Other => ("In other time", root.other),
        Samples::Difference => ("Difference", root.slow + root.other),
    };
    let mut description = words::counted(count, "sample");
    if samples == Samples::Difference {
        description.push_str(
            "; boxes are as wide as the mean share of both kinds of time, orange where the share \
             is larger in slow time and blue where it is smaller",
        );
    }
    if profile.samples_left_out > 0 {
        description.push_str(&format!(
            "; {} of rare stacks are left out",
            words::counted(profile.samples_left_out, "sample")
        ));
    }
    Some(FlameGraph {
        title: title.to_owned(),
        description,
        rows,
        boxes,
    })
}

struct Painter {
    samples: Samples,
    /// All samples in slow time, and all others.
    slow: u64,
    other: u64,
}

impl Painter {
    /// In percent of the whole.
    fn width(&self, call: &Call<'_>) -> f64 {
        let share = |part: u64, all: u64| match all {
            0 => 0.0,
            all => part as f64 / all as f64 * 100.0,
        };
        let (slow, other) = (share(call.slow, self.slow), share(call.other, self.other));
        match self.samples {
            Samples::Slow => slow,
            Samples::Other => other,
            Samples::All => share(call.slow + call.other, self.slow + self.other),
            // Without samples of one kind there is no difference to draw.
            Samples::Difference if self.slow == 0 || self.other == 0 => 0.0,
            Samples::Difference => f64::midpoint(slow, other),
        }
    }

    fn paint(&self, name: &str, call: &Call<'_>, x: f64, row: usize) -> FlameBox {
        let width = self.width(call);
        let slow = words::share(call.slow, self.slow);
        let other = words::share(call.other, self.other);
        let tip = match self.samples {
            Samples::Difference => format!("{name}: {slow} in slow time, {other} in other time"),
            Samples::Slow => format!("{name}: {slow}"),
            Samples::Other => format!("{name}: {other}"),
            Samples::All => {
                let share = words::share(call.slow + call.other, self.slow + self.other);
                format!("{name}: {share}")
            }
        };
        FlameBox {
            name: if width >= TEXT_WIDTH_MIN {
                name.to_owned()
            } else {
                String::new()
            },
            tip,
            x,
            width,
            row,
            tone: self.tone(name, call),
        }
    }

    fn tone(&self, name: &str, call: &Call<'_>) -> FlameTone {
        if self.samples != Samples::Difference {
            return match name {
                _ if name.ends_with("(kernel)") => FlameTone::Kernel,
                _ if name.starts_with('[') => FlameTone::Unnamed,
                _ => FlameTone::Program,
            };
        }
        let share = |part: u64, all: u64| part as f64 / all.max(1) as f64 * 100.0;
        let difference = share(call.slow, self.slow) - share(call.other, self.other);
        let strength = DIFFERENCES
            .iter()
            .filter(|least| difference.abs() >= **least);
        match (strength.count(), difference > 0.0) {
            (0, _) => FlameTone::Same,
            (strength, true) => FlameTone::More(strength),
            (strength, false) => FlameTone::Less(strength),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let stack = |functions: &[u32], slow, other| FoldedStack {
            functions: functions.to_vec(),
            slow,
            other,
        };
        let names = ["server", "main", "fast", "slow", "read (kernel)"];
        Profile {
            samples: 200,
            stack_functions: names.map(str::to_owned).to_vec(),
            stacks: vec![
                stack(&[0, 1, 2], 10, 90),
                stack(&[0, 1, 3], 80, 0),
                stack(&[0, 1, 2, 4], 10, 10),
            ],
            ..Profile::default()
        }
    }

    fn found<'a>(graph: &'a FlameGraph, name: &str) -> &'a FlameBox {
        let mut boxes = graph.boxes.iter();
        let found = boxes.find(|it| it.tip.starts_with(&format!("{name}:")));
        found.unwrap_or_else(|| panic!("{name} has a box: {graph:?}"))
    }

    #[test]
    fn boxes_are_as_wide_as_their_share_and_below_their_callers() {
        let graph = graph(&profile(), Samples::Slow).expect("there are samples");
        assert_eq!(graph.rows, 4);
        let (main, slow) = (found(&graph, "main"), found(&graph, "slow"));
        assert_eq!((main.row, main.x, main.width), (1, 0.0, 100.0));
        assert_eq!((slow.row, slow.x, slow.width), (2, 20.0, 80.0));
        let kernel = found(&graph, "read (kernel)");
        assert_eq!((kernel.row, kernel.tone), (3, FlameTone::Kernel));
    }

    #[test]
    fn the_difference_has_the_functions_of_both_and_their_colours() {
        let graph = graph(&profile(), Samples::Difference).expect("there are samples");
        assert_eq!(found(&graph, "main").tone, FlameTone::Same);
        let slow = found(&graph, "slow");
        assert_eq!((slow.width, slow.tone), (40.0, FlameTone::More(3)));
        assert_eq!(found(&graph, "fast").tone, FlameTone::Less(3));
        assert_eq!(found(&graph, "read (kernel)").tone, FlameTone::Same);
        assert_eq!(slow.tip, "slow: 80 % in slow time, 0 % in other time");
    }

    #[test]
    fn without_samples_of_a_kind_there_is_no_graph() {
        let mut profile = profile();
        profile.stacks.iter_mut().for_each(|stack| stack.slow = 0);
        assert_eq!(graph(&profile, Samples::Slow), None);
        assert_eq!(graph(&profile, Samples::Difference), None);
        assert!(graph(&profile, Samples::All).is_some());
        assert_eq!(graph(&Profile::default(), Samples::All), None);
    }

    #[test]
    fn a_graph_is_bounded() {
        let mut profile = profile();
        profile.stack_functions = (0..3_000).map(|at| format!("f{at}")).collect();
        let deep = |at: u32| FoldedStack {
            functions: (0..300).map(|row| (at + row) % 3_000).collect(),
            slow: 1,
            other: 1,
        };
        profile.stacks = (0..500).map(deep).collect();
        let graph = graph(&profile, Samples::All).expect("there are samples");
        assert!(graph.boxes.len() <= BOXES_MAX && graph.rows <= ROWS_MAX);
    }
}
