//! The activation server, and domains whose processors it divides (OThreads, section 3.3).

mod donating;
mod parties;
mod random_load;

use parties::{Domain, Node};
use underpass_tests::{Watchdog, cont, kill, state_of, stop, switches_of, until};

/// Waits until the server counts so many processors for the domain, and the domain goes by that.
fn holds(node: &Node, domain: &mut Domain, processors: u32) {
    let so_many = || {
        let counted = node.held(domain) == u64::from(processors);
        let (granted, running) = domain.counts();
        (counted && granted == processors && running <= processors).then_some(())
    };
    until("the domain to hold what it is to hold", so_many);
}

#[test]
fn a_domain_finds_the_server_and_is_told_of() {
    let _watchdog = Watchdog::new("a_domain_finds_the_server_and_is_told_of");
    let node = Node::new("finds");
    let _server = node.serve(2);
    let mut domain = node.registered();
    assert_eq!(domain.asks("work"), "5");
    let said = node.of(&domain).unwrap();
    assert_eq!((&said["weight"], &said["obeys"], &said["alone"]), (&1.into(), &true.into(), &false.into()));
    assert_eq!(node.status().unwrap()["processors"], 2);
}

#[test]
fn without_a_server_a_domain_goes_by_its_own_maximum() {
    let _watchdog = Watchdog::new("without_a_server_a_domain_goes_by_its_own_maximum");
    let node = Node::new("without");
    let mut domain = node.domain();
    assert_eq!(domain.asks("work"), "5");
    assert_eq!(domain.counts().0, 2);
    assert!(node.status().is_none());
}

#[test]
fn two_saturated_domains_share_the_processors() {
    let _watchdog = Watchdog::new("two_saturated_domains_share_the_processors");
    let node = Node::new("share");
    let _server = node.serve(2);
    let (mut one, mut two) = (node.registered(), node.registered());
    one.asks("compute 2");
    holds(&node, &mut one, 2);
    // The second one wants two as well: the first is asked, and its monitor parks an activation
    // that never reaches a scheduling point.
    two.asks("compute 2");
    until("each to run on one", || {
        let (one, two) = (one.counts(), two.counts());
        (one == (1, 1) && two == (1, 1)).then_some(())
    });
    // All threads of both come to a processor.
    assert_eq!((one.asks("work"), two.asks("work")), ("5".into(), "5".into()));
    one.asks("rest");
    holds(&node, &mut two, 2);
    two.asks("rest");
}

#[test]
fn the_server_says_what_waits_for_a_processor() {
    let _watchdog = Watchdog::new("the_server_says_what_waits_for_a_processor");
    let node = Node::new("says");
    let _server = node.serve(1);
    let (mut one, mut two) = (node.registered(), node.registered());
    one.order("compute 2");
    two.order("compute 2");
    let number = |of: &serde_json::Value, what: &str| of[what].as_u64().unwrap();
    until("both to have had it, so that activations are parked", || {
        let says = [node.of(&one)?, node.of(&two)?];
        let all_want = says.iter().all(|of| number(of, "wanted") > 0 && number(of, "parked") > 0);
        let held = says.iter().map(|of| number(of, "processors")).sum::<u64>();
        (all_want && held <= 1).then_some(())
    });
    until("one of them to wait in the queue", || {
        let says = [node.of(&one)?, node.of(&two)?];
        says.iter().any(|of| number(of, "queueing_delay_us") > 0).then_some(())
    });
    assert_eq!((one.answer(), two.answer()), ("computes".into(), "computes".into()));
    one.asks("rest");
    two.asks("rest");
    until("nothing to wait", || {
        let says = [node.of(&one)?, node.of(&two)?];
        says.iter().all(|of| number(of, "wanted") + number(of, "parked") == 0).then_some(())
    });
}

#[test]
fn a_domain_that_computes_everywhere_gives_way_again_and_again() {
    let _watchdog = Watchdog::new("a_domain_that_computes_everywhere_gives_way_again_and_again");
    let node = Node::new("gives");
    let server = node.serve(2);
    let (mut one, mut two) = (node.registered(), node.registered());
    one.asks("compute 2");
    holds(&node, &mut one, 2);
    for _ in 0..200 {
        assert_eq!(two.asks("work"), "5");
    }
    // It has both again.
    holds(&node, &mut one, 2);
    // A server that is stopped meanwhile costs both domains a while, and no processor.
    for _ in 0..2 {
        stop(server.pid());
        two.order("work");
        assert_eq!(two.answer(), "5");
        cont(server.pid());
        holds(&node, &mut one, 2);
    }
    assert_eq!(one.asks("rest"), "2");
    until("nothing to be wanted, and each processor to be there once", || {
        let status = node.status()?;
        let domains = status["domains"].as_array()?;
        let held = domains.iter().map(|domain| domain["processors"].as_u64().unwrap()).sum::<u64>();
        (status["free"].as_u64()? + held == 2).then_some(())
    });
}

#[test]
fn an_idle_processor_goes_to_the_domain_that_wants_it() {
    let _watchdog = Watchdog::new("an_idle_processor_goes_to_the_domain_that_wants_it");
    let node = Node::new("idle");
    let _server = node.serve(2);
    let (mut one, mut two) = (node.registered(), node.registered());
    one.asks("compute 2");
    holds(&node, &mut one, 2);
    assert_eq!(one.asks("rest"), "2", "both began");
    // The first one holds both still: nobody has wanted them.
    two.asks("compute 2");
    holds(&node, &mut two, 2);
    // And it gets one again when it has work.
    assert_eq!(one.asks("work"), "5");
    two.asks("rest");
}

#[test]
fn a_blocking_call_lends_its_processor_and_has_it_back() {
    let _watchdog = Watchdog::new("a_blocking_call_lends_its_processor_and_has_it_back");
    let node = Node::new("lends");
    let _server = node.serve(1);
    let (mut one, mut two) = (node.registered(), node.registered());
    assert_eq!(one.asks("work"), "5");
    // The second one wants the processor all the time; the first has it by turns.
    two.order("compute 1");
    until("the second one to hold it", || (node.held(&two) == 1).then_some(()));
    assert_eq!(two.answer(), "computes");
    for _ in 0..20 {
        assert_eq!(one.asks("block"), "blocks");
        // Meanwhile the other one computes.
        holds(&node, &mut two, 1);
        assert_eq!(one.asks("unblock"), "7", "it comes to a processor again");
    }
    two.asks("rest");
}

#[test]
fn a_killed_domains_processors_are_free() {
    let _watchdog = Watchdog::new("a_killed_domains_processors_are_free");
    let node = Node::new("killed");
    let _server = node.serve(2);
    let mut other = node.registered();
    for _ in 0..5 {
        let mut victim = node.registered();
        victim.asks("compute 2");
        until("the domain to hold one", || (node.held(&victim) > 0).then_some(()));
        other.asks("compute 2");
        victim.kill();
        holds(&node, &mut other, 2);
        other.asks("rest");
        until("the server to forget it", || {
            (node.status().unwrap()["domains"].as_array().unwrap().len() == 1).then_some(())
        });
    }
    // Nothing was lost, and nothing is there twice.
    let status = node.status().unwrap();
    assert_eq!(status["free"].as_u64().unwrap() + node.held(&other), 2);
}

#[test]
fn a_killed_server_leaves_domains_to_themselves_and_the_next_one_finds_them() {
    let _watchdog = Watchdog::new("a_killed_server_leaves_domains_to_themselves_and_the_next_one_finds_them");
    let node = Node::new("server-killed");
    let server = node.serve(1);
    let (mut one, mut two) = (node.registered(), node.registered());
    one.asks("compute 2");
    two.asks("compute 2");
    until("they share one processor", || (one.counts().0 + two.counts().0 == 1).then_some(()));
    server.kill();
    until("both to go by their own maximums", || (one.counts().0 == 2 && two.counts().0 == 2).then_some(()));
    assert_eq!((one.asks("work"), two.asks("work")), ("5".into(), "5".into()));
    let _next = node.serve(1);
    until("both to be there again", || (node.of(&one).is_some() && node.of(&two).is_some()).then_some(()));
    until("they share one processor", || (one.counts().0 + two.counts().0 == 1).then_some(()));
    assert_eq!((one.asks("rest"), two.asks("rest")), ("2".into(), "2".into()));
}

#[test]
fn domains_of_a_stopped_server_fall_back_and_come_back() {
    let _watchdog = Watchdog::new("domains_of_a_stopped_server_fall_back_and_come_back");
    let node = Node::new("stopped");
    let server = node.serve(1);
    let mut domain = node.registered();
    domain.asks("compute 2");
    holds(&node, &mut domain, 1);
    for _ in 0..2 {
        stop(server.pid());
        until("the domain to go by its own maximum", || (domain.counts().0 == 2).then_some(()));
        cont(server.pid());
        until("the domain to come back", || (domain.counts().0 == 1).then_some(()));
        holds(&node, &mut domain, 1);
    }
    domain.asks("rest");
}

#[test]
fn a_server_that_is_killed_while_it_is_stopped_is_noticed() {
    let _watchdog = Watchdog::new("a_server_that_is_killed_while_it_is_stopped_is_noticed");
    let node = Node::new("stopped-killed");
    let server = node.serve(1);
    let mut domain = node.registered();
    domain.asks("compute 3");
    holds(&node, &mut domain, 1);
    stop(server.pid());
    until("the domain to go by its own maximum", || (domain.counts().0 == 2).then_some(()));
    server.kill();
    let _next = node.serve(1);
    holds(&node, &mut domain, 1);
    domain.asks("rest");
}

#[test]
fn another_server_takes_over() {
    let _watchdog = Watchdog::new("another_server_takes_over");
    let node = Node::new("over");
    let mut first = node.serve(1);
    let mut domain = node.registered();
    domain.asks("compute 2");
    holds(&node, &mut domain, 1);
    let _second = node.replace(2);
    assert_eq!(first.line(), "Replaced");
    holds(&node, &mut domain, 2);
    domain.asks("rest");
}

#[test]
fn a_signal_ends_the_server_and_its_name() {
    let _watchdog = Watchdog::new("a_signal_ends_the_server_and_its_name");
    let node = Node::new("signal");
    let mut server = node.serve(1);
    let mut domain = node.registered();
    domain.asks("compute 2");
    holds(&node, &mut domain, 1);
    server.terminate();
    assert_eq!(server.line(), "Signal");
    until("the domain to go by its own maximum", || (domain.counts().0 == 2).then_some(()));
    assert_eq!(std::fs::read_dir(node.path()).unwrap().count(), 0, "no name is left");
    domain.asks("rest");
}

/// The server's looks, and what the kernel says of it.
fn activity(node: &Node, pid: u32) -> (u64, (u64, u64)) {
    (node.status().unwrap()["looks"].as_u64().unwrap(), switches_of(pid))
}

#[test]
fn an_idle_server_is_never_woken() {
    let _watchdog = Watchdog::new("an_idle_server_is_never_woken");
    let node = Node::new("asleep");
    let server = node.serve(2);
    let mut domain = node.registered();
    domain.asks("compute 2");
    holds(&node, &mut domain, 2);
    domain.asks("rest");
    // The monitor of the domain still ticks a few times.
    until("the server to sleep", || {
        let before = activity(&node, server.pid()).0;
        let seen: Vec<_> = (0..3000).map(|_| (state_of(server.pid()), switches_of(server.pid()))).collect();
        let asleep = seen.iter().all(|now| *now == seen[0] && now.0.bytes().all(|state| state == b'S'));
        // The looks are those of the two questions, and of the ends of their connections.
        (asleep && activity(&node, server.pid()).0 <= before + 4).then_some(())
    });
}

#[test]
fn a_stopped_domain_keeps_nobody_waiting() {
    let _watchdog = Watchdog::new("a_stopped_domain_keeps_nobody_waiting");
    let node = Node::new("domain-stopped");
    let _server = node.serve(1);
    let (mut one, mut two) = (node.registered(), node.registered());
    one.asks("compute 1");
    holds(&node, &mut one, 1);
    stop(one.pid());
    // The server seizes the processor, and asks for it again.
    for _ in 0..5 {
        assert_eq!(two.asks("work"), "5");
    }
    kill(one.pid());
    two.asks("compute 1");
    holds(&node, &mut two, 1);
    two.asks("rest");
}

#[test]
fn a_domain_gets_what_the_program_wants() {
    let _watchdog = Watchdog::new("a_domain_gets_what_the_program_wants");
    let node = Node::new("wants");
    let _server = node.serve(2);
    let mut domain = node.registered();
    domain.asks("want 2");
    until("the domain to hold both", || (node.held(&domain) == 2).then_some(()));
    domain.asks("want 0");
    assert_eq!(domain.asks("work"), "5");
}
