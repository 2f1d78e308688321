//! A server whose metrics Prometheus collects.
//!
//! ```text
//! cargo run -p underpass-prometheus --features http --example scrape
//! underpass call scrape-greeter greet Ada
//! curl http://127.0.0.1:9184/metrics
//! ```

use std::net::TcpListener;
use underpass::{CallError, Server};

#[underpass::interface]
trait Greeter {
    /// Greets `whom`.
    fn greet(&self, whom: &str) -> Result<String, CallError>;
}

struct Polite;

impl Greeter for Polite {
    fn greet(&self, whom: &str) -> Result<String, CallError> {
        Ok(format!("Good day, {whom}."))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    underpass_prometheus::http::listen(TcpListener::bind("127.0.0.1:9184")?)?;
    println!("http://127.0.0.1:9184/metrics");
    let greeter = Greeter::serve(Polite).measured(true);
    Ok(Server::new().export("scrape-greeter", greeter).run()?)
}
