//! Objects with a home: what their readers see while it publishes, stops, dies, lies and comes
//! back.

use std::process::Command;
use std::time::Duration;
use underpass::homed::{HomedError, HomedObject, ObjectHome, ObjectImportError, ObjectVersion};
use underpass::{CallError, Server, thread};
use underpass_harness::skip;
use underpass_tests::{Numbers, ObedientProcess, Room, Sheet, Watchdog, cont, long, stop, until};

const PROCESS: &str = env!("CARGO_BIN_EXE_underpass-test-homed");
/// How long to wait for a home.
const SOON: Duration = Duration::from_secs(60);

fn start(name: &str, role: &str) -> ObedientProcess {
    Room::directory();
    ObedientProcess::start_on(Command::new(PROCESS).args([name, role]), None, role)
}

/// The version, once the home was slow enough.
fn access(object: &HomedObject<Sheet>) -> Result<ObjectVersion<Sheet>, HomedError<Sheet>> {
    let found = until("a version", || match object.access() {
        Err(HomedError::Overtaken) => None,
        found => Some(found),
    });
    let version = match &found {
        Ok(version) => version,
        Err(HomedError::HomeDied(version)) => version,
        Err(_) => return found,
    };
    assert_eq!(version.value, Sheet::of(version.number()), "it is whole");
    found
}

/// The last version, once the home is known to be dead.
fn died(object: &HomedObject<Sheet>) -> ObjectVersion<Sheet> {
    until("the home's death", || access(object).err().map(|e| e.last().expect("it has died")))
}

#[test]
fn threads_of_several_domains_read_whole_versions() {
    let _watchdog = Watchdog::new("threads_of_several_domains_read_whole_versions");
    let name = Room::name("homed-whole");
    let mut home = start(&name, "home");
    let mut other = start(&name, "reader");
    let object = HomedObject::<Sheet>::import(&name).unwrap();
    assert_eq!(home.ask("churn"), "churns");
    other.begin("whole 5000");
    let work = || {
        let object = object.clone();
        move || {
            (0..5_000).fold(0, |last, _| {
                let number = access(&object).unwrap().number();
                assert!(number >= last, "{number} came after {last}");
                number
            })
        }
    };
    let (user, kernel) = (thread::spawn(work()), std::thread::spawn(work()));
    let seen = [user.join().unwrap(), kernel.join().unwrap(), other.hear().parse().unwrap()];
    let newest: u64 = home.ask("halt").parse().unwrap();
    assert!(seen.iter().all(|&seen| seen <= newest));
    assert_eq!(access(&object).unwrap().number(), newest);
    assert_eq!(other.ask("access"), format!("version {newest}"));
}

#[test]
fn a_stopped_homes_newest_version_is_read() {
    let _watchdog = Watchdog::new("a_stopped_homes_newest_version_is_read");
    let name = Room::name("homed-stopped");
    let mut home = start(&name, "home");
    let object = HomedObject::<Sheet>::import(&name).unwrap();
    assert_eq!(home.ask("churn"), "churns");
    for _ in 0..if long() { 1_000 } else { 20 } {
        // It stops anywhere, often in the middle of a version.
        stop(home.pid());
        let first = object.access().unwrap();
        let second = object.access().unwrap();
        assert_eq!(first, second);
        assert_eq!(first.value, Sheet::of(first.number()));
        let age = first.age();
        assert!(second.age() >= age, "it grows old");
        cont(home.pid());
    }
}

#[test]
fn a_dead_homes_last_version_is_read_and_a_new_home_has_a_new_generation() {
    let _watchdog = Watchdog::within(
        "a_dead_homes_last_version_is_read_and_a_new_home_has_a_new_generation",
        Duration::from_secs(if long() { 3_600 } else { 120 }),
    );
    let name = Room::name("homed-dead");
    let mut home = start(&name, "home");
    let mut object = HomedObject::<Sheet>::import(&name).unwrap();
    for _ in 0..if long() { 2_000 } else { 10 } {
        assert_eq!(home.ask("churn"), "churns");
        let generation = object.generation();
        let seen = access(&object).unwrap();
        home.kill();
        let last = died(&object);
        assert!(last.number() >= seen.number() && last.generation() == generation);
        let kept = object.clone();
        home = start(&name, "home");
        object.renew_within(SOON).unwrap();
        assert!(object.generation() > generation);
        assert_eq!(access(&object).unwrap().number(), 1);
        assert_eq!(died(&kept), last, "others keep what they have");
        // With its home alive, it stays.
        let generation = object.generation();
        object.renew_within(SOON).unwrap();
        assert_eq!(object.generation(), generation);
    }
}

#[test]
fn an_object_ends_with_its_home() {
    let _watchdog = Watchdog::new("an_object_ends_with_its_home");
    let name = Room::name("homed-ends");
    Room::directory();
    let (service, home) = ObjectHome::new(Sheet::of(1)).unwrap();
    let running = Server::new().export(&name, service).start().unwrap();
    let mut other = start(&name, "reader");
    let here = HomedObject::<Sheet>::import(&name).unwrap();
    let clone = home.clone();
    home.update(Sheet::turn).unwrap();
    drop(home);
    assert_eq!(access(&here).unwrap().number(), 2);
    assert_eq!(clone.update(Sheet::turn), Ok(3));
    drop(clone);
    assert_eq!(died(&here).number(), 3);
    // Its binding is there still: the memory says so.
    assert_eq!(other.ask("access"), "died 3");
    drop(running);
    assert!(matches!(HomedObject::<Sheet>::import(&name), Err(ObjectImportError::Import(_))));
}

#[test]
fn a_reader_without_the_right_is_refused() {
    let _watchdog = Watchdog::new("a_reader_without_the_right_is_refused");
    let name = Room::name("homed-revoked");
    Room::directory();
    let (service, _home) = ObjectHome::new(Sheet::of(1)).unwrap();
    let running = Server::new().export(&name, service).start().unwrap();
    let mut other = start(&name, "reader");
    assert_eq!(other.ask("access"), "version 1");
    assert_eq!(running.bindings().revoke(|_| true), 1);
    until("the revocation", || (other.ask("access") == "Revoked").then_some(()));
}

#[test]
fn an_object_of_another_type_is_refused() {
    let _watchdog = Watchdog::new("an_object_of_another_type_is_refused");
    let name = Room::name("homed-type");
    let _home = start(&name, "home");
    assert!(matches!(HomedObject::<[u64; 65]>::import(&name), Err(ObjectImportError::OtherType)));
}

#[test]
fn a_change_that_panics_publishes_nothing() {
    let _watchdog = Watchdog::new("a_change_that_panics_publishes_nothing");
    let name = Room::name("homed-panic");
    Room::directory();
    let (service, home) = ObjectHome::new(Sheet::of(1)).unwrap();
    let _running = Server::new().export(&name, service).start().unwrap();
    let object = HomedObject::<Sheet>::import(&name).unwrap();
    let panics = home.clone();
    let panicked = std::thread::spawn(move || {
        panics.update(|sheet| {
            sheet.numbers[0] = 9;
            std::panic::resume_unwind(Box::new("on purpose"));
        })
    });
    assert!(panicked.join().is_err());
    assert_eq!(access(&object).unwrap().number(), 1);
    assert_eq!(home.update(Sheet::turn), Ok(2));
    assert_eq!(access(&object).unwrap().number(), 2);
}

#[test]
fn a_forked_child_has_no_object() {
    let _watchdog = Watchdog::new("a_forked_child_has_no_object");
    let name = Room::name("homed-forked");
    let _home = start(&name, "home");
    let mut reader = start(&name, "reader");
    assert_eq!(reader.ask("fork"), "true");
    assert_eq!(reader.ask("access"), "version 1");
}

#[test]
fn an_access_enters_no_kernel() {
    let _watchdog = Watchdog::new("an_access_enters_no_kernel");
    let name = Room::name("homed-mute");
    let mut home = start(&name, "home");
    let mut reader = start(&name, "reader");
    assert_eq!(home.ask("publish 4"), "5");
    stop(home.pid());
    // If it enters the kernel, it is ended, and says nothing.
    let told = reader.ask("mute 1000");
    cont(home.pid());
    if told == "refused" {
        skip!("the system refuses to restrict a kernel thread (`SECCOMP_MODE_STRICT`)");
    }
    assert_eq!(told.parse(), Ok(5));
}

#[test]
fn a_home_that_writes_anything_harms_no_reader() {
    let _watchdog = Watchdog::within(
        "a_home_that_writes_anything_harms_no_reader",
        Duration::from_secs(if long() { 3_600 } else { 120 }),
    );
    let (rounds, times) = if long() { (100, 1_000_000) } else { (4, 100_000) };
    // How many copies were versions, and how many held what is no value.
    let mut seen = [0; 2];
    for round in 0..rounds {
        let name = Room::name(&format!("homed-hostile-{round}"));
        let mut home = start(&name, "home");
        let object = HomedObject::<Sheet>::import(&name).unwrap();
        assert_eq!(home.ask(&format!("spoil {round} {times}")), "spoils");
        let work = || {
            let object = object.clone();
            move || {
                let mut seen = [0; 2];
                for _ in 0..2_000 {
                    let version = match object.access() {
                        Ok(version) => version,
                        Err(HomedError::HomeDied(version)) => *version,
                        Err(HomedError::Overtaken) => continue,
                        Err(HomedError::Invalid) => {
                            seen[1] += 1;
                            continue;
                        }
                        Err(e) => panic!("{e}"),
                    };
                    let _ = version.age();
                    seen[0] += 1;
                }
                seen
            }
        };
        let (user, kernel) = (thread::spawn(work()), std::thread::spawn(work()));
        let mut all = vec![user.join().unwrap(), kernel.join().unwrap()];
        assert_eq!(home.hear(), "has spoilt");
        home.kill();
        // After its death as well.
        all.push(work()());
        all.iter().for_each(|[versions, invalid]| seen = [seen[0] + versions, seen[1] + invalid]);
    }
    // A reader that took the memory for a value would have found no copy invalid.
    assert!(seen[0] > 0 && seen[1] > 0, "{} versions, {} invalid", seen[0], seen[1]);
}

/// Asks the home for changes.
#[underpass::interface]
trait Turns {
    /// Makes the next version, and returns its number.
    fn turn(&self) -> Result<u64, CallError>;
}

struct AtHome(ObjectHome<Sheet>);

impl Turns for AtHome {
    fn turn(&self) -> Result<u64, CallError> {
        self.0.update(Sheet::turn).map_err(|_| CallError::Forked)
    }
}

#[test]
fn whoever_has_invoked_the_home_sees_what_it_has_published() {
    let _watchdog = Watchdog::new("whoever_has_invoked_the_home_sees_what_it_has_published");
    let name = Room::name("homed-invoke");
    Room::directory();
    let (service, home) = ObjectHome::new(Sheet::of(1)).unwrap();
    let calls = format!("{name}-turns");
    let _running = Server::new()
        .export(&name, service)
        .export(&calls, Turns::serve(AtHome(home.clone())))
        .start()
        .unwrap();
    let (object, turns) =
        (HomedObject::<Sheet>::import(&name).unwrap(), TurnsClient::import(&calls).unwrap());
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let (object, turns) = (object.clone(), turns.clone());
            thread::spawn(move || {
                let mut numbers = Numbers::of(seed);
                for _ in 0..200 {
                    let published = turns.turn().unwrap();
                    assert!(access(&object).unwrap().number() >= published);
                    if numbers.below(4) == 0 {
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(home.newest_version().unwrap().1, 801);
}
