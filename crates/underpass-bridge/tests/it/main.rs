//! The bridge between HTTP/2 and Underpass, with clients of both sorts.

mod bridge;
mod common;
mod go_clients;
