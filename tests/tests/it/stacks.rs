//! How deep a handler may go, and what happens to one that goes deeper.

use std::fs::{self, File};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use underpass::{CallError, Outcome, Server, thread};
use underpass_tests::{
    Deep, DeepClient, Diver, Nest, Probe, ProbeClient, Room, ServerProcess, Watchdog, kib_of, until,
};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

fn serve(name: &str, bytes: Option<usize>) -> (ServerProcess, DeepClient) {
    let server = ServerProcess::start_with(SERVER, &Room::name(name), "deep", |command| {
        command.args(bytes.map(|bytes| bytes.to_string()));
    });
    let client = import(server.name());
    (server, client)
}

fn import(name: &str) -> DeepClient {
    DeepClient::import_within(name, ServerProcess::soon()).unwrap()
}

#[test]
fn a_handler_has_almost_two_mib() {
    let _watchdog = Watchdog::new("a_handler_has_almost_two_mib");
    let (_server, client) = serve("two-mib", None);
    assert!(client.dive(1900).unwrap() >= 1900);
}

#[test]
fn a_server_says_how_large_the_stacks_of_an_interface_are() {
    let _watchdog = Watchdog::new("a_server_says_how_large_the_stacks_are");
    let (_server, client) = serve("large-stacks", Some(64 << 20));
    assert!(client.dive(60 << 10).unwrap() >= 60 << 10);
}

#[test]
fn a_size_that_can_t_be_had_is_the_error_of_the_export() {
    let _watchdog = Watchdog::new("a_size_that_can_t_be_had");
    let service = Deep::serve(Diver::default());
    let refused = Server::new().export(Room::name("endless"), service.stack_size(usize::MAX)).start();
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("`Service::stack_size`"), "{why}");
    assert!(!Room::directory().join(Room::name("endless")).exists(), "nothing is exported");
}

#[test]
fn an_interface_that_comes_later_has_its_stacks_at_once() {
    let _watchdog = Watchdog::new("an_interface_that_comes_later_has_its_stacks");
    let (server, first) = serve("early", None);
    // These calls keep the server's dispatcher from ending meanwhile.
    let over = Arc::new(AtomicBool::new(false));
    let busy = thread::spawn({
        let (over, first) = (over.clone(), first.clone());
        move || {
            while !over.load(Ordering::Relaxed) {
                first.dive(1).unwrap();
            }
        }
    });
    for mib in [4u64, 8, 16] {
        let later = format!("{}-later-{mib}", server.name());
        first.export(&later, mib << 20).unwrap();
        let client = import(&later);
        (0..100).for_each(|_| assert!(client.dive((mib - 1) << 10).unwrap() >= (mib - 1) << 10));
        fs::remove_file(Room::directory().join(later)).unwrap();
    }
    over.store(true, Ordering::Relaxed);
    busy.join().unwrap();
}

#[test]
fn a_limit_of_addresses_leaves_room_for_many_stacks() {
    /// Stacks of 2 MiB for all of them would take more memory than the server may have.
    const CALLS: u32 = 1_500;
    const KIB: u32 = 2 << 20;
    let _watchdog = Watchdog::new("a_limit_of_addresses_leaves_room_for_many_stacks");
    let name = Room::name("narrow-stacks");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {KIB}; exec {SERVER} {name} probe")]);
    let _server = ServerProcess::run(command, &name);
    let clients: Vec<_> =
        (0..CALLS / 50).map(|_| ProbeClient::import_apart(&name, ServerProcess::soon()).unwrap()).collect();
    let calls: Vec<_> = (0..CALLS)
        .map(|n| {
            let client = clients[(n / 50) as usize].clone();
            thread::spawn(move || client.meet(CALLS))
        })
        .collect();
    calls.into_iter().for_each(|call| assert_eq!(call.join().unwrap(), Ok(())));
}

#[test]
fn an_overflow_names_the_interface_the_method_and_the_setting() {
    let _watchdog = Watchdog::new("an_overflow_names_the_interface");
    let name = Room::name("overflow");
    let told = Room::directory().join(format!("{name}.told"));
    let mut server = ServerProcess::start_with(SERVER, &name, "deep", |command| {
        command.stderr(File::create(&told).unwrap());
    });
    let client = import(&name);
    assert!(matches!(client.dive(4096), Err(CallError::PeerDied(_))));
    server.ended();
    let said = fs::read_to_string(&told).unwrap();
    fs::remove_file(&told).unwrap();
    assert!(said.contains("has overflowed its stack of 2048 KiB"), "{said}");
    assert!(said.contains("It runs `Deep::dive` for a client"), "{said}");
    assert!(said.contains("`Deep::serve(..).stack_size(BYTES)` (`Service::stack_size`)"), "{said}");
    assert!(said.matches("deeper").count() > 10, "{said}");
}

#[test]
fn the_pages_of_a_deep_call_go_back() {
    const DEEP: u64 = 60 << 10;
    let _watchdog = Watchdog::new("the_pages_of_a_deep_call_go_back");
    let (server, client) = serve("pages", Some(64 << 20));
    client.dive(1).unwrap();
    let before = kib_of(server.pid(), "RssAnon");
    for _ in 0..3 {
        client.dive(DEEP).unwrap();
        assert!(kib_of(server.pid(), "VmHWM") >= DEEP, "it was there");
        until("the pages to go", || (kib_of(server.pid(), "RssAnon") < before + DEEP / 10).then_some(()));
    }
}

#[test]
fn a_value_for_which_the_stack_has_no_room_is_the_error_of_its_call() {
    let _watchdog = Watchdog::new("a_value_for_which_the_stack_has_no_room");
    let (_server, client) = serve("nested", Some(256 * 1024));
    let (mut fit, mut refused) = (0, 0);
    // Each value that is accepted is encoded and dropped on the same stack.
    for levels in 1..=64 {
        let nest = Nest::of(levels);
        match client.echo(nest.clone()) {
            Ok(back) => {
                assert_eq!((back, refused), (nest, 0));
                fit += 1;
            }
            Err(CallError::NoResources(Outcome::NotStarted, why)) => {
                assert!(why.contains("a stack of 256 KiB") && why.contains("Service::stack_size"), "{why}");
                refused += 1;
            }
            Err(other) => panic!("{levels}: {other}"),
        }
    }
    assert!(fit >= 5 && refused > 0, "{fit} fit");
    assert!(client.dive(1).unwrap() >= 1, "the server goes on");
}

#[test]
fn a_value_that_fits_a_usual_stack_is_accepted() {
    let _watchdog = Watchdog::new("what_a_stack_of_the_usual_size_has_room_for");
    let (_server, client) = serve("usual", None);
    for levels in [1, 32, 64] {
        assert_eq!(client.echo(Nest::of(levels)).unwrap().levels(), levels);
    }
}

#[test]
fn a_result_for_which_the_callers_stack_has_no_room_is_the_error_of_its_call() {
    let _watchdog = Watchdog::new("a_result_for_which_the_callers_stack_has_no_room");
    let (_server, client) = serve("result", None);
    // Without optimization the stub alone takes more than 128 KiB, as it moves the result again and
    // again.
    let caller = thread::Builder::new().stack_size(512 * 1024);
    let called = caller.spawn(move || {
        let few = client.nest(2).map(|nest| nest.levels());
        let many = client.nest(60).map(|nest| nest.levels());
        let roomy = thread::with_stack(4 << 20, || client.nest(60).map(|nest| nest.levels())).unwrap();
        (few, many, roomy)
    });
    let (few, many, roomy) = called.unwrap().join().unwrap();
    assert_eq!((few, roomy), (Ok(2), Ok(60)));
    let why = many.unwrap_err().to_string();
    assert!(why.contains("a stack of 512 KiB has room for") && why.contains("thread::with_stack"), "{why}");
}
