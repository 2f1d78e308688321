//! The command `underpass-bridge`, which `underpass bridge` runs.
#![forbid(unsafe_code)]

use anyhow::{Result, bail};
use clap::Parser;
use std::io::Write;
use tokio::signal::unix::{SignalKind, signal};
use underpass_bridge::{Bridge, BridgePlace};
use underpass_grpc::Channel;

/// Passes gRPC calls over HTTP/2 on to a server of this machine that has no TCP.
#[derive(Parser)]
#[command(name = "underpass bridge", version)]
struct Arguments {
    /// The name that the server exports.
    name: String,
    /// Where to listen: HOST:PORT, or unix:PATH for a socket of this user alone.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:50051")]
    listen: BridgePlace,
    /// Allows an address that other machines reach. There is no encryption: put a proxy in front.
    #[arg(long)]
    public: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if !arguments.public && !arguments.listen.is_private() {
        bail!(
            "other machines reach {}, with all that this user may do at the server; \
             add --public if that is meant, or listen at 127.0.0.1 or unix:PATH",
            arguments.listen
        );
    }
    let channel = Channel::from_shared(format!("underpass:{}", arguments.name))?.connect_lazy();
    let listening = arguments.listen.listen()?;
    println!("listening at {}", listening.place());
    std::io::stdout().flush()?;
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        served = listening.serve(Bridge::new(channel)) => served,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}
