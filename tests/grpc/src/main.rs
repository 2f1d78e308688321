//! A process of the tests: a server (`serve NAME`), or a client that waits to be killed
//! (`call NAME METHOD`).
#![forbid(unsafe_code)]

use std::error::Error;
use tokio_stream::StreamExt;
use underpass_grpc::Channel;
use underpass_test_grpc::generated::control_client::ControlClient;
use underpass_test_grpc::generated::{Empty, UnaryRequest};
use underpass_test_grpc::serve_process;

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

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", name] => serve_process(name).await,
        ["call", name, method] => call(name, method).await,
        _ => Err("usage: underpass-test-grpc serve NAME | call NAME METHOD".into()),
    }
}
