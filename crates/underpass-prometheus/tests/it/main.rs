//! Metrics as text, and over HTTP.

#[cfg(feature = "http")]
mod http;
mod text;
