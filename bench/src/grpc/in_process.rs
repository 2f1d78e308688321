//! What no transport can be faster than: tonic's client and server in one process, without one. And
//! what it takes to get from an activation to tokio and back.

use crate::measure::contest::Subject;
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures};
use std::hint::black_box;
use tokio::runtime::{Builder, Handle, Runtime};
use underpass::thread;
use underpass_os::clock::now_ns;
use underpass_test_grpc::InteropService;
use underpass_test_grpc::generated::UnaryRequest;
use underpass_test_grpc::generated::interop_client::InteropClient;
use underpass_test_grpc::generated::interop_server::InteropServer;

/// A call whose server is the client's own transport.
pub(super) fn looped(runtime: &Runtime, response_size: u32, payload: usize) -> impl FnMut(u64) {
    let most = 64 << 20;
    let server = InteropServer::new(InteropService).max_decoding_message_size(most);
    let mut client = InteropClient::new(server).max_decoding_message_size(most);
    let request = UnaryRequest { response_size, payload: vec![0; payload].into(), status: None };
    move |_| {
        let answer = runtime.block_on(client.unary_call(request.clone()));
        black_box(answer.expect("the server is this process"));
    }
}

/// A user-level thread has a task of the runtime wake it, again and again.
struct HandOffs(Handle);

impl HandOffs {
    fn some(&self, operations: u64) -> Result<u64, BenchError> {
        let runtime = self.0.clone();
        let hops = thread::spawn(move || {
            let begun = now_ns();
            for _ in 0..operations {
                let me = thread::current();
                drop(runtime.spawn(async move { me.unpark() }));
                thread::park();
            }
            now_ns() - begun
        });
        hops.join().map_err(|_| "a thread panicked".into())
    }
}

impl Subject for HandOffs {
    fn name(&self) -> &str {
        "hand-off"
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        self.some(operations / 8 + 1)?;
        self.some(operations)
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        for _ in 0..operations.min(1_000) {
            samples.push(self.some(1)? as f64);
        }
        Ok(())
    }
}

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let own = Builder::new_current_thread().enable_all().build()?;
    let other = Builder::new_multi_thread().worker_threads(1).build()?;
    let mut tasks = InProcess::new("tokio-task", 1, |_| {
        own.block_on(other.spawn(async {})).expect("the task does not panic");
    });
    let mut calls = InProcess::new("loop", 1, looped(&own, 0, 0));
    let mut hand_offs = HandOffs(other.handle().clone());
    let contest = client.contest(&mut [&mut tasks, &mut calls, &mut hand_offs], 0, 1)?;
    for (case, of) in [("in-process/loop", 1), ("in-process/hand-off", 2)] {
        if client.wants(case) {
            client.report(case, Figures::of(&contest, of, 0))?;
        }
    }
    Ok(())
}
