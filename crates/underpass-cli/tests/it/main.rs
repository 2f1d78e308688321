//! The command `underpass`, as a user or a script runs it.

mod call;
mod command;
mod commands;
mod doctor;
mod health;
mod look;
mod node;
mod send;
