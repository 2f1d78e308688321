//! Calls under load, over each way by turns.

use crate::grpc::in_process::looped;
use crate::grpc::server::{GrpcWay, connect};
use crate::measure::contest::{Contest, Subject};
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures};
use std::hint::black_box;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use underpass_grpc::Channel;
use underpass_test_grpc::InteropService;
use underpass_test_grpc::generated::interop_client::InteropClient;
use underpass_test_grpc::generated::interop_server::InteropServer;
use underpass_test_grpc::generated::{OutputRequest, UnaryRequest};

/// The most that a call may take beside the limit.
const ABOVE_LIMIT_NS: f64 = 3_000.0;
/// How many times as fast as tonic over a Unix socket: one call at a time, and all else.
const FASTER_ALONE: f64 = 5.0;
const FASTER: f64 = 3.0;

/// Calls at once, the bytes of a large message, and the responses of a stream.
const AT_ONCE: usize = 64;
const LARGE: u32 = 1 << 20;
const RESPONSES: u32 = 10_000;

type Client = InteropClient<Channel>;

/// The clients of all ways, as they are named in the figures.
struct Clients {
    runtime: Runtime,
    underpass: Client,
    spawned: Client,
    unix: Client,
    tcp: Client,
}

impl Clients {
    fn connect(client: &ScenarioClient) -> Result<Self, BenchError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let to = |way| runtime.block_on(connect(way, client.scratch()));
        let (underpass, spawned) = (to(GrpcWay::Underpass)?, to(GrpcWay::Spawned)?);
        let (unix, tcp) = (to(GrpcWay::Unix)?, to(GrpcWay::Tcp)?);
        Ok(Self { runtime, underpass, spawned, unix, tcp })
    }

    /// Measures `operation` over each way, beside `limit`.
    fn contest<O: AsyncFn(Client)>(
        &self,
        client: &ScenarioClient,
        limit: &mut dyn Subject,
        operation: O,
        part: usize,
    ) -> Result<Contest, BenchError> {
        let over = |name, to: &Client| {
            let (to, operation) = (to.clone(), &operation);
            InProcess::new(name, 1, move |_| self.runtime.block_on(operation(to.clone())))
        };
        let (mut own, mut spawned) = (over("underpass", &self.underpass), over("spawn", &self.spawned));
        let (mut unix, mut tcp) = (over("unix", &self.unix), over("tcp", &self.tcp));
        client.contest(&mut [limit, &mut own, &mut spawned, &mut unix, &mut tcp], part, 4)
    }
}

/// The figures of a contest, against the bar of this case.
fn figures(contest: &Contest, faster: f64) -> Figures {
    let median = |of: usize| contest.measured[of].slices().median();
    let ratio = contest.ratios(3, 1).median();
    Figures::of(contest, 1, 0)
        .with("spawn_ns", median(2))
        .with("unix_ns", median(3))
        .with("tcp_ns", median(4))
        .with("unix_ratio", ratio)
        .judged("bar_unix", faster, ratio >= faster)
}

async fn unary(mut client: Client, size: u32) {
    let payload = vec![0; size as usize].into();
    let answer = client.unary_call(UnaryRequest { response_size: size, payload, status: None }).await;
    black_box(answer.expect("the server answers"));
}

async fn at_once(client: Client) {
    let mut calls: JoinSet<()> = (0..AT_ONCE).map(|_| unary(client.clone(), 0)).collect();
    while let Some(call) = calls.join_next().await {
        call.expect("no task panics");
    }
}

async fn streamed(mut client: Client) {
    let request = OutputRequest { sizes: vec![8; RESPONSES as usize], status: None };
    let mut responses = client.streaming_output_call(request).await.expect("the server answers").into_inner();
    let mut came = 0;
    while responses.message().await.expect("the stream goes on").is_some() {
        came += 1;
    }
    assert_eq!(came, RESPONSES);
}

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let clients = Clients::connect(client)?;
    let runtime = &clients.runtime;
    if client.wants("unary/1") {
        let mut limit = InProcess::new("in-process", 1, looped(runtime, 0, 0));
        let contest = clients.contest(client, &mut limit, |to| unary(to, 0), 0)?;
        let above = contest.measured[1].slices().median() - contest.measured[0].slices().median();
        let figures = figures(&contest, FASTER_ALONE).with("above_limit_ns", above);
        let met = above <= ABOVE_LIMIT_NS;
        client.report("unary/1", figures.judged("bar_above_limit", ABOVE_LIMIT_NS, met))?;
    }
    if client.wants("unary/64") {
        let mut one = looped(runtime, 0, 0);
        let mut limit = InProcess::new("in-process", 1, |_| (0..AT_ONCE as u64).for_each(&mut one));
        let contest = clients.contest(client, &mut limit, at_once, 1)?;
        client.report("unary/64", figures(&contest, FASTER).with("calls", AT_ONCE))?;
    }
    if client.wants("unary/1MiB") {
        let mut limit = InProcess::new("in-process", 1, looped(runtime, LARGE, LARGE as usize));
        let contest = clients.contest(client, &mut limit, |to| unary(to, LARGE), 2)?;
        client.report("unary/1MiB", figures(&contest, FASTER))?;
    }
    if client.wants("stream/10000") {
        let mut server = InteropClient::new(InteropServer::new(InteropService));
        let mut limit = InProcess::new("in-process", 1, |_| {
            runtime.block_on(async {
                let request = OutputRequest { sizes: vec![8; RESPONSES as usize], status: None };
                let answer = server.streaming_output_call(request).await;
                let mut responses = answer.expect("the server is this process").into_inner();
                while responses.message().await.expect("the stream goes on").is_some() {}
            });
        });
        let contest = clients.contest(client, &mut limit, streamed, 3)?;
        client.report("stream/10000", figures(&contest, FASTER).with("messages", RESPONSES))?;
    }
    Ok(())
}
