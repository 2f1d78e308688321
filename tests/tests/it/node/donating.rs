//! Calls that donate their processor while a server divides processors.

use crate::node::holds;
use crate::node::parties::Node;
use underpass_harness::skip;
use underpass_tests::{Watchdog, until};

#[test]
fn calls_that_donate_come_to_their_end_beside_a_domain_that_computes() {
    let _watchdog = Watchdog::new("calls_that_donate_come_to_their_end_beside_a_domain_that_computes");
    let node = Node::new("donates");
    let _server = node.serve(1);
    // The callee serves on donated processors alone.
    let (mut caller, mut callee) = (node.registered(), node.registered_with("0"));
    assert_eq!(callee.asks("serve callee"), "serves");
    // Its listeners are started by the first calls.
    until("a donated processor", || {
        (caller.asks("call callee 50").parse::<u64>().unwrap() > 0).then_some(())
    });
    let mut third = node.registered();
    for _ in 0..5 {
        third.asks("compute 2");
        caller.asks("call callee 200").parse::<u64>().unwrap();
        third.asks("rest");
    }
    // Work comes while a call is under way.
    caller.order("call callee 2000");
    assert_eq!(third.asks("work"), "5");
    caller.answer().parse::<u64>().unwrap();
    // Nothing was lost, and nothing is there twice.
    until("all processors to be counted", || {
        let status = node.status()?;
        let held: u64 = status["domains"].as_array()?.iter().filter_map(|of| of["processors"].as_u64()).sum();
        (status["free"].as_u64()? + held == 1).then_some(())
    });
    caller.asks("compute 1");
    holds(&node, &mut caller, 1);
    caller.asks("rest");
}

#[test]
fn a_domain_that_is_called_often_comes_to_a_processor() {
    let _watchdog = Watchdog::new("a_domain_that_is_called_often_comes_to_a_processor");
    if underpass_os::cpu::allowed().unwrap().len() < 2 {
        skip!("on one CPU a caller always donates its processor");
    }
    let node = Node::new("called-often");
    let _server = node.serve(2);
    let (mut caller, mut callee) = (node.registered(), node.registered());
    assert_eq!(callee.asks("serve callee"), "serves");
    // No other domain wants the second processor. Then almost no call is donated.
    until("the callee to poll", || {
        (caller.asks("call callee 1000").parse::<u64>().unwrap() < 100).then_some(())
    });
}
