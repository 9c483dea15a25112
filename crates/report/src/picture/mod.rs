//! One chart as a picture: an SVG file with everything inside, for a text or a slide.
//!
//! The scripts of a page draw the same chart on a canvas; scales, ticks and shapes here follow
//! theirs (`assets/scales.js`, `units.js` and `draw.js`).
#![allow(dead_code, reason = "the plot that uses them follows")]

mod colors;
mod scales;
mod shapes;
mod svg;
mod ticks;

pub use colors::Theme;
