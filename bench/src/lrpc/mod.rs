//! `lrpc`: the calls of LRPC's Table IV, where their time goes (Table V), the costs of large
//! arguments and of imports, and the throughput of many clients of one server (Figure 2).
//!
//! Each call is compared with the least that it can take: a procedure call and two hand-offs,
//! either of the processor or of a cache line where each side has a processor. It is also compared
//! with a Unix socket.

pub(crate) mod figure2;
mod import;
mod large;
mod table4;
mod table5;

use crate::calls;
use crate::catalogue::{Benchmark, Scenario};
use crate::processes::role::ChildRole;
use crate::{BenchError, Pinning, socket};
use std::time::Duration;
use underpass::{CallError, Sealed, Shared};

/// The interface that the client calls.
#[underpass::interface]
pub(crate) trait LrpcCalls {
    /// Does nothing.
    fn null(&self) -> Result<(), CallError>;
    /// Adds.
    fn add(&self, a: u8, b: u8) -> Result<u8, CallError>;
    /// Takes 200 bytes.
    fn big_in(&self, data: &[u8; BIG]) -> Result<(), CallError>;
    /// Takes 200 bytes and returns as many.
    fn big_in_out(&self, data: &[u8; BIG]) -> Result<[u8; BIG], CallError>;
    /// Takes bytes with the client's copy alone. Returns the sum of the first and the last byte.
    fn take(&self, #[underpass(shared)] data: Shared<'_>) -> Result<u64, CallError>;
    /// As `take`, with a second copy by the server.
    fn take_protected(&self, data: &[u8]) -> Result<u64, CallError>;
    /// As `take`, with bytes that nobody can change, and without a copy.
    fn take_sealed(&self, data: Sealed) -> Result<u64, CallError>;
}

/// Bytes of the large arguments and results of LRPC's Table IV.
pub(crate) const BIG: usize = 200;

struct Answers;

impl LrpcCalls for Answers {
    fn null(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn add(&self, a: u8, b: u8) -> Result<u8, CallError> {
        Ok(a.wrapping_add(b))
    }

    fn big_in(&self, data: &[u8; BIG]) -> Result<(), CallError> {
        std::hint::black_box(data);
        Ok(())
    }

    fn big_in_out(&self, data: &[u8; BIG]) -> Result<[u8; BIG], CallError> {
        Ok(*data)
    }

    fn take(&self, data: Shared<'_>) -> Result<u64, CallError> {
        let ends = data.get(0).zip(data.len().checked_sub(1).and_then(|last| data.get(last)));
        Ok(ends.map_or(0, |(first, last)| u64::from(first) + u64::from(last)))
    }

    fn take_protected(&self, data: &[u8]) -> Result<u64, CallError> {
        Ok(ends(data))
    }

    fn take_sealed(&self, data: Sealed) -> Result<u64, CallError> {
        Ok(ends(&data))
    }
}

/// A constant-time check that the bytes have come.
fn ends(data: &[u8]) -> u64 {
    data.first().zip(data.last()).map_or(0, |(&first, &last)| u64::from(first) + u64::from(last))
}

/// The exported name. Each run has a directory of its own, so one name is enough.
const NAME: &str = "lrpc";

/// How long a server may take to start.
const APPEAR: Duration = Duration::from_secs(10);

/// Serves this interface, the other benchmarks' interface, and their competitor over sockets, until
/// the process is killed.
fn serve(role: &ChildRole) -> Result<(), BenchError> {
    let place = &role.placement;
    for cpu in std::iter::once(place.near).chain(place.far) {
        socket::serve(&role.scratch, cpu)?;
    }
    Ok(calls::exporting(calls::NAME).export(NAME, LrpcCalls::serve(Answers)).run()?)
}

/// Imports both interfaces. The first call comes from a user-level thread, so that activations
/// exist before the measuring thread moves to its CPU.
fn import() -> Result<(LrpcCallsClient, calls::ProbeClient), BenchError> {
    let probe = calls::import()?;
    Ok((LrpcCallsClient::import_within(NAME, APPEAR)?, probe))
}

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "lrpc",
    about: "Null, Add, BigIn, BigInOut; 1 MiB copied and sealed; imports; many clients of one server (LRPC, Tables IV and V, Figure 2)",
    scenarios: &[
        Scenario {
            name: "pinned",
            cases: &table4::PINNED,
            pinning: Pinning::Apart,
            client: |client| table4::client(client, &table4::PINNED),
            server: serve,
        },
        Scenario {
            name: "one-cpu",
            cases: &table4::ONE_CPU,
            pinning: Pinning::Together,
            client: |client| table4::client(client, &table4::ONE_CPU),
            server: serve,
        },
        Scenario {
            name: "table5",
            cases: &table5::CASES,
            pinning: Pinning::Together,
            client: table5::client,
            server: serve,
        },
        Scenario {
            name: "large",
            cases: &large::CASES,
            pinning: Pinning::Apart,
            client: large::client,
            server: serve,
        },
        Scenario {
            name: "import",
            cases: &["import"],
            pinning: Pinning::Any,
            client: import::client,
            server: serve,
        },
        figure2::scenario!(1),
        figure2::scenario!(2),
        figure2::scenario!(3),
        figure2::scenario!(4),
        figure2::scenario!(5),
        figure2::scenario!(8),
        figure2::scenario!(16),
    ],
};
