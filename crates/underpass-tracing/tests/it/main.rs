//! Spans that follow a thread.

mod follow;
mod layers_that_wait;
