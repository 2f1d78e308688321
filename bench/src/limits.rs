//! `limits`: the costs of the machine itself.
//!
//! A limit has no limit of its own, so each is compared with the two-line ping-pong, the unit of
//! this project. The ratio of that ping-pong to itself should be 1, and shows how far the ratios of
//! a run can be trusted.

use crate::catalogue::{Benchmark, Scenario};
use crate::measure::contest::Subject;
use crate::measure::in_process;
use crate::processes::client::ScenarioClient;
use crate::processes::role::idle;
use crate::raw::ping::ReplyKind;
use crate::{BenchError, Figures, Pinning};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "limits",
    about: "what nothing between two processes can be cheaper than: cache lines, a call, the kernel",
    scenarios: &[Scenario {
        name: "limits",
        cases: &["two-line", "one-line", "futex-cross-cpu", "call", "syscall", "futex-same-cpu"],
        pinning: Pinning::Together,
        client,
        // The responder does all the work.
        server: idle,
    }],
};

fn client(client: &ScenarioClient) -> Result<(), BenchError> {
    let (near, far) = (client.placement().near, client.placement().far);
    let ping = |name, kind, cpu| Box::new(client.ping(name, kind, cpu)) as Box<dyn Subject>;
    let across = |name, kind| far.map(|far| ping(name, kind, far));
    let cases = [
        ("two-line", Pinning::Apart, across("two-line", ReplyKind::TwoLine)),
        ("one-line", Pinning::Apart, across("one-line", ReplyKind::OneLine)),
        ("futex-cross-cpu", Pinning::Apart, across("futex-cross-cpu", ReplyKind::Futex)),
        ("call", Pinning::Together, Some(Box::new(in_process::call()) as Box<dyn Subject>)),
        ("syscall", Pinning::Together, Some(Box::new(in_process::system_call()))),
        ("futex-same-cpu", Pinning::Together, Some(ping("futex-same-cpu", ReplyKind::Futex, near))),
    ];
    let cases = cases.into_iter().filter(|(case, ..)| client.wants(case)).collect::<Vec<_>>();
    let parts = cases.len();
    for (part, (case, pinning, subject)) in cases.into_iter().enumerate() {
        let Some(mut subject) = subject else {
            client.row(case, pinning, Err(client.placement().one_only()))?;
            continue;
        };
        // With one CPU, the unit is a system call.
        let mut unit =
            across("two-line", ReplyKind::TwoLine).unwrap_or_else(|| Box::new(in_process::system_call()));
        let contest = client.contest(&mut [&mut *unit, &mut *subject], part, parts)?;
        client.row(case, pinning, Ok(Figures::of(&contest, 1, 0)))?;
    }
    Ok(())
}
