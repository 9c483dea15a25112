//! A run on the whole screen.
