//! A greeter, as many a tonic program is written. `two-lines.diff` takes it to shared memory.
//!
//! `greeter serve 127.0.0.1:50051`, and elsewhere `greeter greet http://127.0.0.1:50051 Ada`
#![forbid(unsafe_code)]

use greeter_proto::greeter::greeter_client::GreeterClient;
use greeter_proto::greeter::greeter_server::{Greeter, GreeterServer};
use greeter_proto::greeter::{HelloReply, HelloRequest};
use std::error::Error;
use std::pin::Pin;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Channel;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

struct Polite;

type Greetings = Pin<Box<dyn Stream<Item = Result<HelloReply, Status>> + Send>>;

fn greeting(request: &HelloRequest) -> HelloReply {
    HelloReply { message: format!("Hello, {}!", request.name) }
}

#[tonic::async_trait]
impl Greeter for Polite {
    async fn say_hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        Ok(Response::new(greeting(request.get_ref())))
    }

    type SayHellosStream = Greetings;

    async fn say_hellos(
        &self,
        request: Request<Streaming<HelloRequest>>,
    ) -> Result<Response<Greetings>, Status> {
        let greetings = request.into_inner().map(|request| Ok(greeting(&request?)));
        Ok(Response::new(Box::pin(greetings)))
    }
}

async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening at http://{}", listener.local_addr()?);
    Server::builder()
        .add_service(GreeterServer::new(Polite))
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await?;
    Ok(())
}

async fn greet(address: String, names: Vec<String>) -> Result<(), Box<dyn Error>> {
    let channel = Channel::from_shared(address)?.connect().await?;
    let mut client = GreeterClient::new(channel);
    for name in &names {
        let reply = client.say_hello(HelloRequest { name: name.clone() }).await?;
        println!("{}", reply.into_inner().message);
    }
    let requests = tokio_stream::iter(names).map(|name| HelloRequest { name });
    let mut replies = client.say_hellos(requests).await?.into_inner();
    while let Some(reply) = replies.message().await? {
        println!("streamed: {}", reply.message);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("serve"), Some(address)) => serve(&address).await,
        (Some("greet"), Some(address)) => greet(address, arguments.collect()).await,
        _ => Err("usage: greeter serve ADDRESS | greeter greet ADDRESS NAME...".into()),
    }
}
