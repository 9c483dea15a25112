//! A run in one line, which is written over and over.
