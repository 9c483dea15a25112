//! Shapes of points, which tell series apart without colours.

use super::colors::SERIES;
use super::svg::{number, path_of};

/// The corners of each shape for a radius of 1, in the order of the colours; the first is a circle.
const CORNERS: [&[[f64; 2]]; SERIES] = [
    &[],
    &[[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
    &[[0.0, -1.2], [1.1, 0.8], [-1.1, 0.8]],
    &[[0.0, -1.3], [1.3, 0.0], [0.0, 1.3], [-1.3, 0.0]],
    &[[0.0, 1.2], [1.1, -0.8], [-1.1, -0.8]],
    &[
        [-0.42, -1.25],
        [0.42, -1.25],
        [0.42, -0.42],
        [1.25, -0.42],
        [1.25, 0.42],
        [0.42, 0.42],
        [0.42, 1.25],
        [-0.42, 1.25],
        [-0.42, 0.42],
        [-1.25, 0.42],
        [-1.25, -0.42],
        [-0.42, -0.42],
    ],
    &[
        [1.15, 0.0],
        [0.575, 0.996],
        [-0.575, 0.996],
        [-1.15, 0.0],
        [-0.575, -0.996],
        [0.575, -0.996],
    ],
    &[
        [-1.2, -0.7],
        [-0.7, -1.2],
        [0.0, -0.5],
        [0.7, -1.2],
        [1.2, -0.7],
        [0.5, 0.0],
        [1.2, 0.7],
        [0.7, 1.2],
        [0.0, 0.5],
        [-0.7, 1.2],
        [-1.2, 0.7],
        [-0.5, 0.0],
    ],
];

/// After the last colour they repeat with the next shape.
pub(super) fn index_of(color: usize) -> usize {
    color + color / SERIES
}

/// The outline of a shape around a point.
pub(super) fn outline(index: usize, [x, y]: [f64; 2], radius: f64) -> String {
    let corners = CORNERS[index % SERIES];
    if corners.is_empty() {
        let (left, y, r, width) = (
            number(x - radius),
            number(y),
            number(radius),
            number(2.0 * radius),
        );
        return format!("M{left} {y}a{r} {r} 0 1 0 {width} 0a{r} {r} 0 1 0 -{width} 0Z");
    }
    let corner = |[dx, dy]: &[f64; 2]| [x + dx * radius, y + dy * radius];
    let corners: Vec<[f64; 2]> = corners.iter().map(corner).collect();
    path_of(&corners) + "Z"
}
