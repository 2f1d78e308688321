//! Calls of an interface to another machine, beside plain tonic with the same bytes. All go over
//! the loopback network to one listener. The caller's runtime carries tonic's calls and ours. The
//! third way has a runtime of its own for them, as by default.

use crate::grpc::server::{GrpcWay, REMOTE, connect, tcp_address};
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures};
use std::hint::black_box;
use std::time::Duration;
use tokio::runtime::Builder;
use underpass_grpc::remote::Remote;
use underpass_test_grpc::DepotClient;
use underpass_test_grpc::generated::UnaryRequest;

/// How long a call may take, in terms of a call of plain tonic.
const BAR: f64 = 1.05;

/// How long the server may take to start.
const APPEAR: Duration = Duration::from_secs(10);

/// The cases, each with the bytes of its argument and of its result.
pub(super) const CASES: [(&str, u32); 3] =
    [("remote/null", 0), ("remote/64KiB", 64 << 10), ("remote/1MiB", 1 << 20)];

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Over the name first: the client waits for that.
    drop(runtime.block_on(connect(GrpcWay::Underpass, client.scratch()))?);
    let plain = runtime.block_on(connect(GrpcWay::Tcp, client.scratch()))?;
    let address = format!("http://{}/{REMOTE}", tcp_address(client.scratch())?);
    let own = DepotClient::import_by(&Remote::new(), &address, APPEAR)?;
    let shared = Remote::new().runtime(runtime.handle().clone());
    let depot = DepotClient::import_by(&shared, &address, APPEAR)?;
    for (part, (case, size)) in CASES.into_iter().enumerate() {
        if !client.wants(case) {
            continue;
        }
        let bytes = vec![0; size as usize];
        let request = UnaryRequest { response_size: size, payload: bytes.clone().into(), status: None };
        let mut tonic = InProcess::new("tonic", 1, |_| {
            let answer = runtime.block_on(plain.clone().unary_call(request.clone()));
            black_box(answer.expect("the server answers"));
        });
        let mut remote = InProcess::new("underpass", 1, |_| {
            let answer = runtime.block_on(depot.echo_async(&bytes));
            black_box(answer.expect("the server answers"));
        });
        let mut apart = InProcess::new("own-runtime", 1, |_| {
            let answer = runtime.block_on(own.echo_async(&bytes));
            black_box(answer.expect("the server answers"));
        });
        let contest = client.contest(&mut [&mut tonic, &mut remote, &mut apart], part, CASES.len())?;
        let (figures, median) = (Figures::of(&contest, 1, 0), contest.measured[2].slices().median());
        let met = figures.ratio <= BAR;
        let figures = figures.with("bytes", size).with("own_runtime_ns", median);
        client.report(case, figures.judged("bar", BAR, met))?;
    }
    Ok(())
}
