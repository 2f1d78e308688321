//! Callers that are async tasks, and handlers that are: under tokio, on one thread and on several, and under smol.

mod callers;
mod cancelled;
mod executors;
mod handlers;
mod waits;
