//! The scanner of language model streams, from outside: events of each dialect, however they are
//! cut, against a slow reader; hostile input; whole streams.

mod answers;
mod dialects;
mod edges;
mod hostile;
mod reference;
mod scan;
mod streams;
