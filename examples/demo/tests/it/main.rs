//! The demo as its user sees it.

mod demo;
