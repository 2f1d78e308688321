//! `psyche`: operations on memory of another domain, by remote access and by remote invocation
//! (Psyche, section 5.3). The server is the home of the data, and the client the other domain.
//!
//! | file | what it measures |
//! |---|---|
//! | `table1.rs` | Table 1, and Figures 3 to 5 from it |
//! | `lines.rs` | objects of 1 to 64 lines: `either`, the break-even, and `access` |
//! | `levels.rs` | an invocation that does nothing, at interrupt level and at process level |
//! | `slowdown.rs` | what a thread that computes at home loses |
//! | `counter.rs` | one counter that 16 threads of both domains count up |
//!
//! The locks are those of `underpass::shared`, and the paper's hybrid lock in columns of its own.

mod counter;
mod hybrid;
mod kernel;
mod levels;
mod lines;
mod operations;
mod slowdown;
mod table1;
mod timed;

use crate::Pinning;
use crate::catalogue::{Benchmark, Scenario};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "psyche",
    about: "operations on another domain's memory: by access, by invocation, and by the cheaper of both (Psyche, Table 1, Figures 3 to 5)",
    scenarios: &[
        Scenario {
            name: "table1",
            cases: table1::CASES,
            pinning: Pinning::Apart,
            client: table1::measure,
            server: kernel::serve,
        },
        Scenario {
            name: "levels",
            cases: levels::CASES,
            pinning: Pinning::Apart,
            client: levels::measure,
            server: kernel::serve,
        },
        Scenario {
            name: "slowdown",
            cases: &["slowdown"],
            pinning: Pinning::Apart,
            client: slowdown::measure,
            server: kernel::serve,
        },
        Scenario {
            name: "access",
            cases: &["access/hot", "access/stopped"],
            pinning: Pinning::Apart,
            client: lines::measure_access,
            server: kernel::serve,
        },
        Scenario {
            name: "either",
            cases: &["either/polling", "break-even", "either/asleep", "either/busy", "either/stopped"],
            pinning: Pinning::Apart,
            client: lines::measure_either,
            server: kernel::serve,
        },
        Scenario {
            name: "counter",
            cases: &["counter"],
            pinning: Pinning::Floating,
            client: counter::measure,
            server: kernel::serve,
        },
    ],
};
