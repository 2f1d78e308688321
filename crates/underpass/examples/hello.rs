//! An interface, its server, its client: `cargo run --example hello server`; then without `server`.

use std::process::id;
use std::time::{Duration, Instant};
use underpass::{CallError, Server};

/// What both sides share: an ordinary trait.
#[underpass::interface]
trait Greeter {
    /// Greets `whom`.
    fn greet(&self, whom: &str) -> Result<Greeting, CallError>;
    /// Adds one.
    fn increment(&self, number: u64) -> Result<u64, CallError>;
}

#[derive(underpass::Wire)]
struct Greeting {
    text: String,
    process: u32,
}

/// The server: an ordinary implementation.
struct Polite;

impl Greeter for Polite {
    fn greet(&self, whom: &str) -> Result<Greeting, CallError> {
        Ok(Greeting { text: format!("Good day, {whom}."), process: id() })
    }
    fn increment(&self, number: u64) -> Result<u64, CallError> {
        Ok(number + 1)
    }
}

/// The client: ordinary calls. It can't tell in which process the greeter lives.
fn visit(greeter: &impl Greeter) -> Result<(), CallError> {
    let Greeting { text, process } = greeter.greet("Ada")?;
    println!("process {process} says to process {}: {text}", id());
    let begun = Instant::now();
    let counted = (0..10_000).try_fold(0, |number, _| greeter.increment(number))?;
    println!("{counted} calls, {} ns each", begun.elapsed().as_nanos() / 10_000);
    Ok(())
}

fn main() -> underpass::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("server") {
        println!("process {} serves; Ctrl-C ends it", id());
        return Server::new().export("hello", Greeter::serve(Polite)).run();
    }
    Ok(visit(&GreeterClient::import_within("hello", Duration::from_secs(5))?)?)
}
