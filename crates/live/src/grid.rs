//! A sweep on the whole screen.
