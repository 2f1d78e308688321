//! A client that writes whatever it likes into all that it shares with the server, while honest ones go on.

use crate::SERVER;
use crate::client::{self, procedure};
use crate::honest::{beside, reference};
use crate::liar::{Liar, Numbers, mutations};
use std::time::Duration;
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog, fds_of, until};

#[test]
fn honest_clients_are_served_while_another_writes_at_random() {
    let limit = Duration::from_secs(if underpass_tests::long() { 3600 } else { 120 });
    let _watchdog = Watchdog::within("honest_clients_are_served_while_another_writes_at_random", limit);
    let server = ServerProcess::start(SERVER, &Room::name("random"), "probe");
    let import = || ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    let honest = [import(), import()];
    honest.iter().for_each(|honest| honest.null().unwrap());
    let files = fds_of(server.pid());
    let other = import();
    let reference = reference(&honest, &other);
    drop(other);
    // Its files go a little later than its binding is listed; one that was about to go may have been counted.
    until("the server to let go", || (fds_of(server.pid()) <= files).then_some(()));
    let harmless = ["null", "add", "echo", "everything", "shapes", "refuse", "count", "pid"].map(procedure);
    let procedures: Vec<_> = harmless.into_iter().chain([1000, u16::MAX]).collect();
    let mut numbers = Numbers(0x5eed);
    let (lied_to, (bindings, done)) = beside(&honest, || {
        let mut liar = Liar::new(client::import(server.name()), &mut numbers, &procedures, false);
        let (mut bindings, mut done) = (1, 0);
        // On a busy machine the server comes late to what is damaged: it is given more until it has closed some.
        while done < mutations() || bindings <= 10 {
            done += 1;
            liar.mutate();
            if done % 8 == 0 && liar.hear() {
                liar.ends();
                liar = Liar::new(client::import(server.name()), &mut numbers, &procedures, false);
                bindings += 1;
            }
        }
        liar.ends();
        (bindings, done)
    });
    assert!(lied_to.calls() > 0);
    println!(
        "a lying client: {done} mutations over {bindings} bindings; of each honest client's calls of 40 bytes"
    );
    println!("{reference}");
    println!("  beside the liar: {}", lied_to.told());
    assert!(honest.iter().all(|honest| honest.pid() == Ok(server.pid())), "the server's process lives");
    until("the server to let go", || (fds_of(server.pid()) <= files).then_some(()));
}
