//! Plans before their start, on machines that a test made up.
