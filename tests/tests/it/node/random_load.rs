//! Domains that compute, rest, stop and die at random moments.

use crate::node::parties::{Domain, Node, Server};
use std::time::{Duration, Instant};
use underpass_tests::{Numbers, Watchdog, cont, long, stop, until};

const DOMAINS: usize = 4;
const PROCESSORS: u32 = 2;

/// How long the load lasts. `$UNDERPASS_TEST_LONG` makes it a minute.
fn lasts() -> Duration {
    Duration::from_secs(if long() { 60 } else { 3 })
}

/// The parties, and which domain is stopped.
struct Parties {
    node: Node,
    _server: Server,
    domains: Vec<Domain>,
    stopped: Option<usize>,
}

impl Parties {
    fn step(&mut self, numbers: &mut Numbers) {
        let at = numbers.below(self.domains.len());
        if self.stopped == Some(at) {
            cont(self.domains[at].pid());
            self.stopped = None;
        }
        match numbers.below(15) {
            0..=5 => {
                self.domains[at].asks("rest");
                let order = format!("compute {}", 1 + numbers.below(3));
                assert_eq!(self.domains[at].asks(&order), "computes");
            }
            6..=8 => drop(self.domains[at].asks("rest")),
            9 | 10 => assert_eq!(self.domains[at].asks("work"), "5"),
            11 => {
                assert_eq!(self.domains[at].asks("block"), "blocks");
                assert_eq!(self.domains[at].asks("unblock"), "7");
            }
            12 if self.stopped.is_none() => {
                stop(self.domains[at].pid());
                self.stopped = Some(at);
            }
            13 => {
                let next = self.node.domain();
                std::mem::replace(&mut self.domains[at], next).kill();
            }
            _ => std::thread::yield_now(),
        }
    }

    /// Everything rests, and everything is counted once.
    fn settles(mut self) {
        if let Some(stopped) = self.stopped {
            cont(self.domains[stopped].pid());
        }
        for domain in &mut self.domains {
            domain.asks("rest");
            // A domain looks for the next server while threads wait for a processor.
            domain.asks("compute 3");
        }
        for domain in &mut self.domains {
            until("each domain to be registered", || self.node.of(domain));
        }
        for domain in &mut self.domains {
            domain.asks("rest");
        }
        until("all processors to be counted", || {
            let status = self.node.status()?;
            let domains = status["domains"].as_array()?;
            let held: u64 = domains.iter().filter_map(|domain| domain["processors"].as_u64()).sum();
            let is_counted = status["free"].as_u64()? + held == u64::from(PROCESSORS);
            (is_counted && domains.len() == DOMAINS).then_some(())
        });
        // Each comes to all processors, one domain after another.
        for domain in &mut self.domains {
            domain.asks("compute 2");
            crate::node::holds(&self.node, domain, PROCESSORS);
            domain.asks("rest");
        }
    }
}

#[test]
fn a_random_load_loses_no_processor() {
    let limit = lasts() + Duration::from_secs(240);
    let _watchdog = Watchdog::within("a_random_load_loses_no_processor", limit);
    let node = Node::new("random");
    let server = node.serve(PROCESSORS);
    let domains = (0..DOMAINS).map(|_| node.registered()).collect();
    let mut parties = Parties { node, _server: server, domains, stopped: None };
    let (begun, mut numbers) = (Instant::now(), Numbers::of(29));
    while begun.elapsed() < lasts() {
        parties.step(&mut numbers);
    }
    parties.settles();
}
