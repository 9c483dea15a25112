//! Charts of parts over the time of a run.

use presentation::{Axis, Block, Chart, Marks, TIME_GROUP, Unit, tables};

/// The most points of a line: more than a page is wide.
pub(super) const POINTS_MAX: usize = 1_000;

/// A chart over the time of the other charts; `None` without lines.
pub(super) fn over_time(
    (id, title): (&str, &str),
    description: String,
    unit: Unit,
    marks: Vec<Marks>,
) -> Option<Block> {
    (!marks.is_empty()).then(|| {
        tables::chart(Chart {
            id: id.to_owned(),
            title: title.to_owned(),
            description,
            x: Axis::from_zero("Time since start", Unit::Seconds),
            y: Axis::from_zero(title, unit),
            marks,
            group: Some(TIME_GROUP.to_owned()),
            ..Chart::default()
        })
    })
}
