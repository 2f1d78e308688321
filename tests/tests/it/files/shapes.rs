//! Files arrive in order, at every position that a type can have.

use crate::files::{identity, import, server, watched};
use std::fs::File;
use std::io::{Write, pipe};
use std::os::fd::OwnedFd;
use std::process::Command;
use underpass::{Server, thread};
use underpass_tests::{Files, Hall, Item, Package, Porter, PorterClient, Room, Watchdog};

fn file() -> OwnedFd {
    watched().0
}

fn package() -> Package {
    Package {
        label: "mixed".to_owned(),
        one: file(),
        maybe: Some(file()),
        many: (0..3).map(|_| file()).collect(),
        array: ([file(), file()], 7, Box::new(file())),
        nested: vec![
            Item::Nothing,
            Item::One(file()),
            Item::Many(vec![
                Item::Named { file: file().into(), text: "inner".to_owned() },
                Item::One(file()),
            ]),
        ],
    }
}

/// The identities of the files, in the order of their positions.
fn identities(package: &Package) -> Vec<(u64, u64)> {
    fn of(item: &Item, found: &mut Vec<(u64, u64)>) {
        match item {
            Item::Nothing => {}
            Item::One(file) => found.push(identity(file)),
            Item::Named { file, text } => {
                assert_eq!(text, "inner");
                found.push(identity(file));
            }
            Item::Many(items) => items.iter().for_each(|item| of(item, found)),
        }
    }
    let mut found = vec![identity(&package.one)];
    found.extend(package.maybe.iter().map(identity));
    found.extend(package.many.iter().map(identity));
    found.extend(package.array.0.iter().map(identity));
    found.push(identity(&*package.array.2));
    package.nested.iter().for_each(|item| of(item, &mut found));
    found
}

/// Checks what every implementation does, over a binding and directly.
fn carries(porter: &impl Porter) {
    let (reader, mut writer) = pipe().unwrap();
    writer.write_all(b"to the server").unwrap();
    drop(writer);
    assert_eq!(porter.read(reader.into()).unwrap(), "to the server");

    let (reader, mut writer) = pipe().unwrap();
    let lent = File::from(OwnedFd::from(reader));
    writer.write_all(b"lent").unwrap();
    drop(writer);
    assert_eq!(porter.read_lent(&lent).unwrap(), "lent");
    assert_eq!(porter.read_lent(&lent).unwrap(), "", "it is one open file on both sides");

    let text = porter.write("from the server").unwrap();
    assert_eq!(porter.read(text).unwrap(), "from the server");

    let sent = package();
    let order = identities(&sent);
    assert_eq!(order.len(), 11);
    let back = porter.echo(sent).unwrap();
    assert_eq!((&*back.label, back.array.1, identities(&back)), ("mixed", 7, order));

    assert!(porter.maybe(None).unwrap().is_none());
    let some = file();
    let which = identity(&some);
    assert_eq!(porter.maybe(Some(some)).unwrap().map(identity), Some(which));
    assert_eq!(porter.count(Vec::new()), Ok(0));

    // Beside bytes in the A-stack, and beside bytes out of band.
    for len in [0, 55, 56, 1000, 32 * 1024, 40_000, 3_000_000] {
        let (bytes, file) = (vec![len as u8; len], file());
        let which = identity(&file);
        let (file, back) = porter.large(bytes.clone(), file).unwrap();
        assert!(back == bytes && identity(file) == which, "{len} bytes");
    }
}

#[test]
fn every_shape_arrives_in_another_process() {
    let _watchdog = Watchdog::new("every_shape_arrives_in_another_process");
    let server = server("shapes");
    let porter = import(&server);
    porter.null().unwrap();
    let before = Files::of(server.pid());
    carries(&porter);
    // From a user-level thread.
    let clone = porter.clone();
    thread::spawn(move || carries(&clone)).join().unwrap();
    before.until_no_others();
}

#[test]
fn a_call_within_a_domain_carries_files() {
    let _watchdog = Watchdog::new("a_call_within_a_domain_carries_files");
    let name = Room::name("files-here");
    let _running = Server::new().export(&name, Porter::serve(Hall::default())).start().unwrap();
    carries(&PorterClient::import(&name).unwrap());
}

#[test]
fn a_call_carries_as_many_files_as_promised_and_no_more() {
    let _watchdog = Watchdog::new("a_call_carries_as_many_files_as_promised_and_no_more");
    let server = server("as-many");
    let porter = import(&server);
    let most = underpass_channel::layout::FILES;
    let files = |count: usize| (0..count).map(|_| file()).collect::<Vec<_>>();
    assert_eq!(porter.count(files(most)), Ok(most as u32));
    assert_eq!(porter.several(most as u32).unwrap().len(), most);
    for refused in [porter.count(files(most + 1)).err(), porter.several(most as u32 + 1).err()] {
        let text = refused.unwrap().to_string();
        assert!(text.contains("65 files are more than the 64"), "{text}");
    }
    assert_eq!(porter.count(files(3)), Ok(3), "the binding goes on");
}

#[test]
fn concurrent_callers_get_their_own_files() {
    let _watchdog = Watchdog::new("concurrent_callers_get_their_own_files");
    let server = server("at-once");
    let porter = import(&server);
    let callers: Vec<_> = (0..16)
        .map(|_| {
            let porter = porter.clone();
            thread::spawn(move || {
                for _ in 0..50 {
                    let file = file();
                    let which = identity(&file);
                    let back = porter.maybe(Some(file)).unwrap().unwrap();
                    assert_eq!(identity(back), which);
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
}

#[test]
fn thousands_of_calls_leave_nothing_open() {
    let _watchdog = Watchdog::new("thousands_of_calls_leave_nothing_open");
    let server = server("thousands");
    let honest = import(&server);
    honest.null().unwrap();
    let before = Files::of(server.pid());
    let done = Command::new(crate::files::SERVER).args([server.name(), "carry", "1000"]).output().unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap(), "0\n", "files that the client still has");
    before.until_no_others();
}
