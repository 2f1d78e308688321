//! Ids that one server gave out reach no object of the next one.

use crate::SERVER;
use std::time::Duration;
use underpass::Policy;
use underpass_tests::{DbId, Room, ServerProcess, Store, StoreClient, Watchdog};

fn patient() -> Policy {
    Policy::new().patience(Duration::from_secs(60))
}

#[test]
fn a_write_does_not_reach_the_object_to_which_a_restarted_server_gave_its_id() {
    let _watchdog = Watchdog::new("a_write_does_not_reach_the_object_of_another_client");
    let name = Room::name("wrong-object");
    let mut server = ServerProcess::start(SERVER, &name, "store");
    let first = StoreClient::import_resilient(&name, patient()).unwrap();
    let id = first.open("first").unwrap();
    server.kill();
    let _server = ServerProcess::start(SERVER, &name, "store");
    let second = StoreClient::import_within(&name, ServerProcess::soon()).unwrap();
    assert_eq!((id, second.open("second")), (DbId(1), Ok(DbId(1))), "the same id again");
    let told = first.write(id, "of the first");
    assert_eq!(second.read(id).unwrap(), ("second".to_owned(), String::new()), "the write gave {told:?}");
    let told = first.set(id, "of the first");
    assert_eq!(second.read(id).unwrap(), ("second".to_owned(), String::new()), "the write gave {told:?}");
}
