//! A process of the tests: a server (`serve NAME`), one for other machines
//! (`remote ADDRESS`), or a client that waits to be killed (`call NAME METHOD`, `stream ADDRESS`,
//! `unread ADDRESS`).
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::Write;
use std::time::Duration;
use tokio_stream::StreamExt;
use underpass::stream::StreamOptions;
use underpass_grpc::Channel;
use underpass_grpc::remote::Remote;
use underpass_test_grpc::generated::control_client::ControlClient;
use underpass_test_grpc::generated::{Empty, UnaryRequest};
use underpass_test_grpc::{Rows, RowsClient};
use underpass_test_grpc::{sending, serve_process, serve_remote};

/// Calls a method that waits.
async fn call(name: &str, method: &str) -> Result<(), Box<dyn Error>> {
    let channel = Channel::from_shared(format!("underpass:{name}"))?.connect().await?;
    let mut control = ControlClient::new(channel);
    match method {
        "hold" => drop(control.hold(Empty {}).await?),
        "output" => {
            let mut responses = control.hold_output(Empty {}).await?.into_inner();
            while responses.message().await?.is_some() {}
        }
        "input" => {
            let requests = tokio_stream::iter([UnaryRequest::default()]).chain(tokio_stream::pending());
            drop(control.hold_input(requests).await?);
        }
        "flood" => {
            let mut responses = control
                .flood(UnaryRequest { response_size: 1000, ..UnaryRequest::default() })
                .await?
                .into_inner();
            // It reads one, and keeps the others.
            responses.message().await?;
            std::future::pending::<()>().await;
        }
        _ => return Err(format!("no method `{method}`").into()),
    }
    Ok(())
}

/// Has a stream in each direction.
fn stream(address: &str) -> Result<(), Box<dyn Error>> {
    let rows = RowsClient::import_by(&Remote::new(), address, Duration::from_secs(60))?;
    let (sender, numbers) = StreamOptions::new().open::<u32>()?;
    sender.send(&1)?;
    let mut doubled = rows.double(numbers)?;
    println!("{}", doubled.recv()?.unwrap_or_default());
    std::io::stdout().flush()?;
    // It does not send more, so nothing comes.
    doubled.recv()?;
    Ok(())
}

/// Has a stream in each direction that its reader does not read, until both writers wait.
fn unread(address: &str) -> Result<(), Box<dyn Error>> {
    let rows = RowsClient::import_by(&Remote::new(), address, Duration::from_secs(60))?;
    let (numbers, sent) = sending(0..);
    let mut deaf = rows.deaf(numbers)?;
    println!("{}", deaf.recv()?.unwrap_or_default());
    std::io::stdout().flush()?;
    // The writer waits for ever.
    let _ = sent.recv();
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", name] => serve_process(name).await,
        ["remote", address] => serve_remote(address),
        ["stream", address] => stream(address),
        ["unread", address] => unread(address),
        ["call", name, method] => call(name, method).await,
        _ => {
            let usage = "serve NAME | remote ADDRESS | stream ADDRESS | unread ADDRESS | call NAME METHOD";
            Err(format!("usage: underpass-test-grpc {usage}").into())
        }
    }
}
