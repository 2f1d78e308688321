//! Calls that come back into the service that brings them about.

use crate::exclusive::{KINDS, SERVER, Scene};
use underpass::{CallError, Server, thread};
use underpass_tests::{Accounts, Ledger, LedgerClient, Room, ServerProcess, Watchdog, Way};

/// Two relays, of which the second has async handlers.
fn relays(of: &str) -> [ServerProcess; 2] {
    ["relay", "relay-async"]
        .map(|kind| ServerProcess::start(SERVER, &Room::name(&format!("{of}-{kind}")), kind))
}

/// Through how many relays a call comes back.
fn routes(relays: &[ServerProcess; 2], ledger: &str) -> [Vec<String>; 4] {
    let [relay, asynchronous] = relays.each_ref().map(ServerProcess::name);
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    [
        names(&[ledger]),
        names(&[relay, ledger]),
        names(&[asynchronous, ledger]),
        names(&[relay, asynchronous, ledger]),
    ]
}

#[test]
fn a_call_that_comes_back_into_a_sequential_service_fails() {
    let _watchdog = Watchdog::new("a_call_that_comes_back_into_a_sequential_service_fails");
    let relays = relays("back");
    let scene = Scene::new("back", KINDS[1]);
    for names in routes(&relays, scene.server.name()) {
        for way in Way::ALL {
            let told = scene.ledger.pass_on(&names, way);
            assert_eq!(told, Err(CallError::Deadlock), "{way:?} over {} relays", names.len() - 1);
        }
    }
    assert_eq!(scene.ledger.add(1), Ok(1), "none was started, and the token is free");
}

#[test]
fn a_call_comes_back_into_an_interleaving_service() {
    let _watchdog = Watchdog::new("a_call_comes_back_into_an_interleaving_service");
    let relays = relays("interleaved");
    let scene = Scene::new("interleaved", KINDS[0]);
    let mut sum = 0;
    for names in routes(&relays, scene.server.name()) {
        for way in Way::ALL {
            let told = scene.ledger.pass_on(&names, way);
            match way {
                // These keep the token.
                Way::Blocking | Way::BlockingHere => assert_eq!(told, Err(CallError::Deadlock), "{names:?}"),
                _ => {
                    sum += 1;
                    assert_eq!(told, Ok(sum), "{way:?} over {} relays", names.len() - 1);
                }
            }
        }
    }
    assert_eq!(scene.sum(), sum);
}

#[test]
fn sequential_services_that_call_others_are_not_refused() {
    let _watchdog = Watchdog::new("sequential_services_that_call_others_are_not_refused");
    let relays = relays("others");
    let (one, other) = (Scene::new("others-one", KINDS[1]), Scene::new("others-two", KINDS[1]));
    // Sixteen callers. Their calls all go through the first to the second.
    let callers: Vec<_> = (0..16)
        .map(|n| {
            let (ledger, names) = (one.ledger.clone(), routes(&relays, other.server.name())[n % 4].clone());
            thread::spawn(move || (0..20).try_for_each(|_| ledger.pass_on(&names, Way::Plain).map(drop)))
        })
        .collect();
    assert!(callers.into_iter().all(|caller| caller.join().unwrap() == Ok(())));
    assert_eq!(other.sum(), 320);
    // Two calls at once on behalf of one don't hinder each other.
    for n in 0..20 {
        let (first, second) = one.ledger.fan_out(other.server.name()).unwrap();
        assert_eq!(first.max(second), 322 + 2 * n);
    }
}

#[test]
fn the_earliest_of_four_sections_is_recognised() {
    let _watchdog = Watchdog::new("the_earliest_of_four_sections_is_recognised");
    // Each of these is sequential, and calls the next one directly.
    let names: Vec<_> = (0..4).map(|n| Room::name(&format!("four-{n}"))).collect();
    let mut server = Server::new();
    for name in &names {
        server = server.export(name, Hands(names.clone()).serve_sequential());
    }
    let _running = server.start().unwrap();
    let first = HandClient::import(&names[0]).unwrap();
    assert_eq!(first.on(1, 3), Ok(4));
    assert_eq!(first.on(1, 4), Err(CallError::Deadlock));
    assert_eq!(first.on(1, 3), Ok(4), "each has given its token back");
    // A relay in another process leads back to the first.
    let relay = ServerProcess::start(SERVER, &Room::name("four-relay"), "relay");
    let ledger = Room::name("four-ledger");
    let _running = Server::new().export(&ledger, Accounts::default().serve_sequential()).start().unwrap();
    let client = LedgerClient::import(&ledger).unwrap();
    let names = [relay.name().to_owned(), ledger];
    assert_eq!(client.pass_on(&names, Way::Plain), Err(CallError::Deadlock));
}

/// Calls others of its kind.
#[underpass::interface]
trait Hand {
    /// Makes `times` further calls, each within the one before, by the hands from `place` on, round
    /// about. Returns how many calls there were.
    fn on(&self, place: u32, times: u32) -> Result<u32, CallError>;
}

/// The names of all hands.
struct Hands(Vec<String>);

impl Hand for Hands {
    fn on(&self, place: u32, times: u32) -> Result<u32, CallError> {
        if times == 0 {
            return Ok(1);
        }
        let next = HandClient::import(&self.0[place as usize % self.0.len()]).expect("it is exported");
        Ok(next.on(place + 1, times - 1)? + 1)
    }
}
