//! A hundred tasks ask a server in another process for prices, which wait there on a timer, and on
//! no thread.
//!
//! `cargo run -p async-quotes`
#![forbid(unsafe_code)]

use std::error::Error;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use underpass::{CallError, Server};

/// Prices.
#[underpass::interface(asynchronous)]
pub trait Quotes {
    /// The price of `what`, in cents. It takes a while to find out.
    ///
    /// # Errors
    /// What became of the call.
    fn price(&self, what: &str) -> Result<u64, CallError>;
}

struct Market;

impl QuotesAsync for Market {
    async fn price(&self, what: &str) -> Result<u64, CallError> {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(what.bytes().map(u64::from).sum())
    }
}

fn serve(name: &str) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let handle = runtime.handle().clone();
    let service = QuotesAsync::serve(Market, move |handler| drop(handle.spawn(handler)));
    let running = Server::new().export(name, service).start()?;
    // Until the client ends, and with it this process' input.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    running.stop();
    Ok(())
}

async fn ask(quotes: QuotesClient) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let asked: Vec<_> = (0..100)
        .map(|n| {
            let quotes = quotes.clone();
            tokio::spawn(async move { quotes.price_async(&format!("share {n}")).await })
        })
        .collect();
    let mut sum = 0;
    for price in asked {
        sum += price.await??;
    }
    println!("100 prices, {sum} cents in all, in {:?}", begun.elapsed());

    // Dropped at the timeout, the call is abandoned.
    let hasty = tokio::time::timeout(Duration::from_millis(5), quotes.price_async("bonds")).await;
    println!("in a hurry: {}", hasty.map_or("no price".to_owned(), |price| format!("{price:?}")));

    // A deadline of the binding's own needs no timer, and the server sees it.
    match quotes.with_deadline(Duration::from_millis(5)).price_async("bonds").await {
        Ok(price) => println!("bonds: {price}"),
        Err(error) => println!("bonds: {error}"),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let name = match std::env::args().nth(1) {
        Some(name) => return serve(&name),
        None => format!("async-quotes-{}", std::process::id()),
    };
    let mut server = Command::new(std::env::current_exe()?).arg(&name).stdin(Stdio::piped()).spawn()?;
    let quotes = QuotesClient::import_within(&name, Duration::from_secs(10))?;
    let asked = Runtime::new()?.block_on(ask(quotes));
    drop(server.stdin.take());
    server.wait()?;
    asked
}
