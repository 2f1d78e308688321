//! A client is stopped for a while.

use super::SERVER;
use std::process::{Command, Stdio};
use underpass_harness::alone;
use underpass_tests::{
    Probe, ProbeClient, Room, ServerProcess, Watchdog, cont, regions_of, state_of, stop, until,
};

#[test]
fn a_stopped_client_delays_nobody_and_resumes() {
    alone!();
    let _watchdog = Watchdog::new("a_client_that_stands_still");
    let server = ServerProcess::start(SERVER, &Room::name("stands"), "probe");
    let other = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    other.null().unwrap();
    let mut client =
        Command::new(SERVER).args([server.name(), "large", "4000"]).stdin(Stdio::null()).spawn().unwrap();
    until("a second binding", || (regions_of(server.pid()) > 1).then_some(()));
    stop(client.id());
    (0..1_000).for_each(|_| assert_eq!(other.add(1, 2), Ok(3)));
    assert_eq!(other.echo(&[9; 100_000]).map(|echo| echo.len()), Ok(100_000));
    assert!(state_of(client.id()).contains('T'));
    cont(client.id());
    assert!(client.wait().unwrap().success(), "all its calls have their replies");
}
