//! Clients die. Their server runs each call at most once and to its end, serves others meanwhile,
//! and keeps nothing of the dead clients.

use crate::NAME;
use crate::account::Account;
use crate::calls::call as call_once;
use crate::doomed::{Deaths, When};
use crate::marks::{Mark, Marks};
use crate::witness::{HONEST, Sworn, Witness, WitnessClient, testimony};
use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use underpass::{Server, thread};
use underpass_tests::{Numbers, Room, ServerProcess, Watchdog, until};

/// The most calls of one caller.
const MOST: u64 = 300;
/// The most callers of one client. Each client has call numbers of its own, because calls of a dead
/// client may still run while the next one calls.
const CALLERS: u64 = 4;
/// The pause between two calls of an honest client, since other processes need the CPU.
const PAUSE: Duration = Duration::from_millis(1);
/// The steps that a client passes.
const SIDES: [&str; 3] = ["import", "client", "file"];

/// Lets clients die for `rounds`.
pub fn die(seed: u64, rounds: usize) -> Result<(), Box<dyn Error>> {
    let path = Room::directory().join("marks");
    let marks = Marks::create(&path)?;
    let sworn = Sworn { marks: Marks::open(&path)? };
    let _running = Server::new().export(NAME, Witness::serve(sworn)).start()?;
    let path = path.to_str().ok_or("a path that can't be passed on")?;
    let mut honest = Honest::start()?;
    let (mut deaths, mut account) = (Deaths::default(), None);
    for round in 0..rounds {
        let _watchdog = Watchdog::new("a client's death");
        let seed = seed + round as u64;
        let mut numbers = Numbers::of(seed);
        let when = When::choose(&mut numbers, &SIDES);
        if round == rounds / 4 {
            account = Some(Account::now());
        }
        let first = round as u64 * CALLERS * MOST;
        let client = when.start(&["caller", path, &seed.to_string(), &first.to_string()])?;
        one(client, when, first, &marks, &mut numbers, &mut deaths)
            .map_err(|e| format!("seed {seed} ({when:?}): {e}"))?;
        honest.goes_on()?;
    }
    deaths.tell();
    Ok(account.ok_or("no rounds")?.settled()?)
}

/// One client's life.
fn one(
    mut client: Child,
    when: When,
    first: u64,
    marks: &Marks,
    numbers: &mut Numbers,
    deaths: &mut Deaths,
) -> Result<(), Box<dyn Error>> {
    if let When::Calls(least) = when {
        until("enough calls", || (marks.len() >= first + least as u64).then_some(()));
        (0..numbers.below(100_000)).for_each(|_| std::hint::spin_loop());
        client.kill()?;
    }
    deaths.count(when, client.wait()?, false);
    // Calls that have begun run to their end.
    until("its calls' end", || (first..marks.len()).all(|id| marks.of(id) != Mark::Began).then_some(()));
    match (first..marks.len()).find(|&id| marks.of(id) == Mark::Twice) {
        Some(id) => Err(format!("call {id} was run twice").into()),
        None => Ok(()),
    }
}

/// Calls from a thread of each kind, and checks that each answered call was executed.
pub fn call(marks: Marks, numbers: &mut Numbers, first: u64) -> Result<(), Box<dyn Error>> {
    let client = WitnessClient::import_within(NAME, ServerProcess::soon())?;
    // A second binding over the same connection comes and goes.
    drop(WitnessClient::import_within(NAME, ServerProcess::soon())?);
    let marks = Arc::new(marks);
    let caller = |number: u64, mut numbers: Numbers| {
        let (client, marks) = (client.clone(), marks.clone());
        move || {
            for id in (first + number * MOST..).take(MOST as usize) {
                assert_eq!(call_once(&client, id, &mut numbers), Ok(true));
                assert_eq!(marks.of(id), Mark::Ended, "call {id} has a result");
            }
        }
    };
    // One caller alone, on a kernel thread or a user-level thread, or several of both kinds.
    let (user, kernel) = numbers.among(&[(1, 0), (0, 1), (3, 1)]);
    let mut own = || Numbers::of(numbers.draw());
    let user: Vec<_> = (0..user).map(|number| thread::spawn(caller(number, own()))).collect();
    let kernel: Vec<_> =
        (CALLERS - kernel..CALLERS).map(|number| std::thread::spawn(caller(number, own()))).collect();
    user.into_iter().for_each(|thread| thread.join().expect("no panic"));
    kernel.into_iter().for_each(|thread| thread.join().expect("no panic"));
    Ok(())
}

/// Calls all the time until it is killed. Deaths of other processes must not disturb it.
pub fn go_on() -> Result<(), Box<dyn Error>> {
    let client = WitnessClient::import_within(NAME, ServerProcess::soon())?;
    for want in (0..64).cycle() {
        let bytes = client.testify(HONEST, want, &[])?;
        assert_eq!(bytes, testimony(HONEST, want, &[]));
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// A client that calls all the time.
struct Honest(Child);

impl Honest {
    fn start() -> Result<Self, Box<dyn Error>> {
        Ok(Self(Command::new("/proc/self/exe").arg("honest").stdin(Stdio::null()).spawn()?))
    }

    fn goes_on(&mut self) -> Result<(), Box<dyn Error>> {
        match self.0.try_wait()? {
            Some(ended) => Err(format!("an honest client ended: {ended}").into()),
            None => Ok(()),
        }
    }
}

impl Drop for Honest {
    fn drop(&mut self) {
        // If it has ended already, that is fine too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
