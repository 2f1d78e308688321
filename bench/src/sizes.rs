//! `sizes`: calls that carry 8 bytes to 64 MiB, to the server or from it (LRPC's Table III and
//! Figure 2, in spirit). They are compared with the one unavoidable copy, and with a Unix socket.

use crate::calls::{self, Calls, Probe, ProbeClient};
use crate::catalogue::{Benchmark, Scenario};
use crate::measure::contest::{Contest, Subject};
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::processes::role::ChildRole;
use crate::socket::{self, OverSocket};
use crate::{BenchError, Figures, Pinning};
use std::hint::black_box;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use underpass::CallError;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "sizes",
    about: "8 B to 64 MiB to the server (in) and from it (out), beside memcpy and a Unix socket",
    scenarios: &[Scenario { name: "sizes", cases: &CASES, pinning: Pinning::Apart, client, server }],
};

/// The direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To the server, which returns how many came.
    In,
    /// From the server.
    Out,
}

const SIZES: [usize; 9] = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20];
const CASES: [&str; 18] = [
    "in-8B",
    "in-64B",
    "in-512B",
    "in-4KiB",
    "in-32KiB",
    "in-256KiB",
    "in-2MiB",
    "in-16MiB",
    "in-64MiB",
    "out-8B",
    "out-64B",
    "out-512B",
    "out-4KiB",
    "out-32KiB",
    "out-256KiB",
    "out-2MiB",
    "out-16MiB",
    "out-64MiB",
];

/// The sizes of a quick run, unless one case is asked for.
const FEW: [usize; 4] = [8, 4 << 10, 256 << 10, 64 << 20];

fn server(role: &ChildRole) -> Result<(), BenchError> {
    for cpu in cpus(&role.placement) {
        socket::serve(&role.scratch, cpu)?;
    }
    calls::serve(role)
}

/// The client's CPU and the other one.
fn cpus(placement: &crate::Placement) -> impl Iterator<Item = usize> {
    std::iter::once(placement.near).chain(placement.far)
}

fn client(client: &ScenarioClient) -> Result<(), BenchError> {
    let probe = calls::import()?;
    client.settle()?;
    let streams = cpus(client.placement()).map(|cpu| socket::connect(client.scratch(), cpu));
    let streams = streams.collect::<Result<Vec<_>, _>>()?;
    let ways = [(Way::In, "in"), (Way::Out, "out")];
    let all = ways
        .into_iter()
        .flat_map(|(way, word)| SIZES.map(|bytes| (way, bytes, format!("{word}-{}", name(bytes)))));
    let wanted = |bytes, case: &str| client.wants(case) && (!client.few() || FEW.contains(&bytes));
    let cases: Vec<_> = all.filter(|(_, bytes, case)| wanted(*bytes, case)).collect();
    let parts = cases.len();
    for (part, (way, bytes, case)) in cases.into_iter().enumerate() {
        let contest = measure(client, &probe, &streams, way, bytes, (part, parts))?;
        let mut figures = Figures::of(&contest, 1, 0);
        // The faster placement of the socket is the one to compare with.
        let socket = (2..contest.measured.len())
            .min_by(|&a, &b| f64::total_cmp(&median(&contest, a), &median(&contest, b)));
        if let Some(socket) = socket {
            figures = figures
                .with("socket_ns", median(&contest, socket))
                .with("socket_ratio", contest.ratios(1, socket).median())
                .with("socket", contest.measured[socket].name.as_str());
        }
        let rate = bytes as f64 / figures.ns;
        client.report(&case, figures.with("gb_per_s", rate).with("bytes", bytes))?;
    }
    Ok(())
}

fn median(contest: &Contest, subject: usize) -> f64 {
    contest.measured[subject].slices().median()
}

fn measure(
    client: &ScenarioClient,
    probe: &ProbeClient,
    streams: &[UnixStream],
    way: Way,
    bytes: usize,
    (part, parts): (usize, usize),
) -> Result<Contest, BenchError> {
    let from = vec![1u8; bytes];
    let mut to = vec![0u8; bytes];
    // Small copies are timed in groups, because reading the clock costs more than they do.
    let group = (16_384 / bytes as u64).max(1);
    let mut copy = InProcess::new("memcpy", group, |_| black_box(&mut to).copy_from_slice(black_box(&from)));
    let mut call = carrying(probe, way, bytes);
    let names = ["same CPU", "across CPUs"];
    let (there, back) = match way {
        Way::In => (bytes, size_of::<u64>()),
        Way::Out => (0, bytes),
    };
    let over = |(stream, name)| OverSocket::new(name, stream, there, back);
    let mut sockets: Vec<_> = streams.iter().zip(names).map(over).collect();
    let mut subjects: Vec<&mut dyn Subject> = vec![&mut copy, &mut *call];
    subjects.extend(sockets.iter_mut().map(|socket| socket as &mut dyn Subject));
    client.contest(&mut subjects, part, parts)
}

/// Calls that carry `bytes` bytes `way`, and check that they did.
fn carrying(probe: &ProbeClient, way: Way, bytes: usize) -> Box<dyn Subject> {
    let probe = probe.clone();
    match way {
        Way::In => {
            let data = Arc::new(vec![1u8; bytes]);
            Box::new(Calls::new("call", 1, move || check(probe.put(&data)? == data.len() as u64)))
        }
        Way::Out => Box::new(Calls::new("call", 1, move || check(probe.get(bytes as u64)?.len() == bytes))),
    }
}

fn check(right: bool) -> Result<(), CallError> {
    assert!(right, "a call carried another number of bytes than it should");
    Ok(())
}

fn name(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 20 => format!("{}MiB", b >> 20),
        b if b >= 1 << 10 => format!("{}KiB", b >> 10),
        b => format!("{b}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_named_in_the_unit_that_fits() {
        assert_eq!(SIZES.map(name).join(" "), "8B 64B 512B 4KiB 32KiB 256KiB 2MiB 16MiB 64MiB");
        let named = ["in", "out"].map(|way| SIZES.map(|bytes| format!("{way}-{}", name(bytes)))).concat();
        assert_eq!(named, CASES);
        assert!(FEW.iter().all(|few| SIZES.contains(few)));
    }
}
