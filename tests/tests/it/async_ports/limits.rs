//! Which senders may connect, and how much they may have.

use super::process;
use super::{Note, own};
use std::process::Command;
use underpass::port::{ConnectError, PortOptions, PortSender};
use underpass::{ImportError, Server};
use underpass_tests::{Room, Watchdog};

const PORT: &str = env!("CARGO_BIN_EXE_underpass-test-port");

#[test]
fn a_user_has_as_much_memory_for_lanes_as_the_owner_allows() {
    let _watchdog = Watchdog::new("a_user_has_as_much_memory_for_lanes_as_the_owner_allows");
    // A lane takes 8 KiB.
    let options = PortOptions::new().messages(64).longest(16).bytes(4096).memory_of_user(16 << 10);
    let port = own("memory", options);
    let first = process::sender(&port.name, 2);
    let refused = Command::new(PORT).args([&*port.name, "sender", "1"]).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("memory_of_user"), "{told}");
    drop(first);
    // Both lanes end, and their memory is free again.
    (0..2).for_each(|_| drop(port.ended()));
    process::sender(&port.name, 2);
}

#[test]
fn a_port_is_authorized_as_interfaces_are() {
    let _watchdog = Watchdog::new("a_port_is_authorized_as_interfaces_are");
    Room::directory();
    let name = Room::name("authorized");
    let (service, _receiver) = PortOptions::new().open::<Note>().unwrap();
    let _running = Server::new().export(&*name, service.authorize(|_| false)).start().unwrap();
    let refused = Command::new(PORT).args([&*name, "sender", "1"]).output().unwrap();
    assert!(!refused.status.success(), "{refused:?}");
    let missing = PortSender::<Note>::connect(&Room::name("nobody-has-it"));
    assert!(matches!(missing, Err(ConnectError::Import(ImportError::NotExported(..)))), "{missing:?}");
}
