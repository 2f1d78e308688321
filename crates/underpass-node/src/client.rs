#![doc = include_str!("client/README.md")]

mod domain_client;
mod giving;
mod others;
mod publishing;
mod registration;
mod taker;

pub use domain_client::{DomainClient, client};
