//! A domain in a container. It has namespaces of its own, and sees only the directory of names,
//! mounted at another place.
//!
//! `underpass-test-contained WALLS serve NAME` exports a `Probe` as NAME, a `Reception` as
//! NAME-reception and a `Worker` as NAME-worker. `underpass-test-contained WALLS call NAME` imports
//! a `Probe` and a `Reception` of these names and calls them in each possible way. It prints what
//! it sees of the system, and its process.
//!
//! `underpass-test-contained WALLS left NAME,NAME,...` calls `left` of the `Worker` of the first
//! name, for the others, with a deadline of one minute, and prints the result.
//! `underpass-test-contained WALLS breed NAME` imports the `Probe` NAME and calls it, exports one
//! as NAME-bred, and forks a child that lives until its standard input ends. It prints its own
//! number and the child's, and waits. With `breed-full` it has as many files open as it may when it
//! forks. `underpass-test-contained WALLS try NAME` does nothing there.
//!
//! WALLS are `bare`, or `proc`, which adds a `/proc` of its own. After a comma follows the number
//! of seconds by which the clocks there are ahead. With that number alone there are no other walls.
//! Where such namespaces are not allowed, it says so and ends with status 77.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod raw;

use std::error::Error;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use underpass::{Server, thread};
use underpass_os::confine::Limit;
use underpass_tests::{
    Diligent, Probe, ProbeClient, Reception, ReceptionClient, Receptionist, Room, ServerProcess, Subject,
    Worker, WorkerClient,
};

/// The exit status that says that this user can have no containers on this system.
const NONE: i32 = 77;

fn main() -> Result<(), Box<dyn Error>> {
    underpass_os::process::die_with_parent()?;
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [walls, what, name] = &arguments[..] else { return Err("three arguments".into()) };
    let (place, ahead) = walls.split_once(',').unwrap_or((walls, ""));
    let place = match place {
        "bare" => Place::Bare,
        "proc" => Place::WithProcesses,
        "" => Place::Open,
        _ => return Err("no such walls".into()),
    };
    if let Err(e) = contain(Room::directory(), place, ahead) {
        eprintln!("there are no containers for this user on this system: {e}");
        std::process::exit(NONE);
    }
    match what.as_str() {
        "serve" => {
            let reception = Reception::serve(Receptionist::default());
            let server = Server::new().export(name, Probe::serve(Subject::default()));
            let worker = Worker::serve(Diligent::new());
            Ok(server
                .export(format!("{name}-reception"), reception)
                .export(format!("{name}-worker"), worker)
                .run()?)
        }
        "call" => call(name),
        "left" => {
            let names: Vec<_> = name.split(',').map(str::to_owned).collect();
            match WorkerClient::import_within(&names[0], ServerProcess::soon()) {
                Ok(worker) => {
                    println!("{:?}", worker.with_deadline(Duration::from_secs(60)).left(&names[1..]))
                }
                Err(e) => println!("no binding: {e}"),
            }
            Ok(())
        }
        "breed" | "breed-full" => {
            let mut files = Vec::new();
            let (probe, bred) = (ProbeClient::import(name)?, Probe::serve(Subject::default()));
            let _serving = Server::new().export(format!("{name}-bred"), bred).start()?;
            probe.null()?;
            if what == "breed-full" {
                underpass_os::confine::limit(Limit::Files, 64)?;
                files.extend(std::iter::from_fn(|| fs::File::open("/dev/null").ok()));
            }
            let child = raw::idle_child()?;
            // The files of the container's own.
            drop(files);
            println!("{} {child}", std::process::id());
            loop {
                std::thread::park();
            }
        }
        "try" => Ok(()),
        _ => Err("nothing to do".into()),
    }
}

/// What the domain can see of the system.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Everything.
    Open,
    /// Only the directory of names.
    Bare,
    /// The directory of names and the container's own processes.
    WithProcesses,
}

/// Goes on where only `place` can be seen, with `names` as `/names`, and with clocks that are
/// `ahead` seconds ahead.
fn contain(names: &Path, place: Place, ahead: &str) -> io::Result<()> {
    let (user, group) = (underpass_os::process::user(), fs::metadata("/proc/self")?.gid());
    let walls = raw::MOUNTS | raw::PROCESSES | raw::IPC | raw::HOST_NAME | raw::NETWORK;
    let own = if place == Place::Open { 0 } else { walls } | if ahead.is_empty() { 0 } else { raw::TIME };
    if raw::leave(own | raw::USERS).is_ok() {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    } else {
        raw::leave(own)?;
    }
    if !ahead.is_empty() {
        // The offsets apply to the children. They can be set while there is no child.
        fs::write("/proc/self/timens_offsets", format!("monotonic {ahead} 0"))?;
    }
    raw::go_on_in_a_child()?;
    if place == Place::Open {
        return Ok(());
    }
    // A place that is about to be covered by a mount can still be reached by its descriptor.
    let names = fs::File::open(names)?;
    let names = Path::new("/proc/self/fd").join(names.as_raw_fd().to_string());
    let root = Path::new("/tmp");
    raw::mount_at("none", "/", "", raw::OF_ITS_OWN)?;
    raw::mount_at("none", root, "tmpfs", 0)?;
    fs::create_dir(root.join("names"))?;
    raw::mount_at(names, root.join("names"), "", raw::THE_SAME)?;
    if place == Place::WithProcesses {
        fs::create_dir(root.join("proc"))?;
        raw::mount_at("none", root.join("proc"), "proc", 0)?;
    }
    raw::enter(root)?;
    raw::look_for_names_in("/names");
    Ok(())
}

/// Makes each kind of call twice: from a kernel thread and from a user-level thread.
fn call(name: &str) -> Result<(), Box<dyn Error>> {
    let seen = fs::read_dir("/")?.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    let mut seen = seen.collect::<io::Result<Vec<_>>>()?;
    seen.sort();
    println!("{} {}", std::process::id(), seen.join(" "));
    let probe = ProbeClient::import_within(name, ServerProcess::soon())?;
    let reception = ReceptionClient::import_within(&format!("{name}-reception"), ServerProcess::soon())?;
    calls(&probe, &reception)?;
    let there = (probe.clone(), reception.clone());
    thread::spawn(move || calls(&there.0, &there.1).map_err(|e| e.to_string()))
        .join()
        .map_err(|_| "a panic")??;
    // Both sides have gone to sleep here, and are woken.
    probe.nap(50)?;
    println!("called");
    Ok(())
}

fn calls(probe: &ProbeClient, reception: &ReceptionClient) -> Result<(), Box<dyn Error>> {
    const MANY: u8 = 200;
    (0..MANY).try_for_each(|n| probe.add(n, 1).map(|sum| assert_eq!(sum, n + 1)))?;
    assert_eq!(probe.echo(&[7; 100_000])?, [7; 100_000]);
    assert_eq!(probe.fill(1 << 20)?.len(), 1 << 20);
    let bounded = probe.clone().with_deadline(Duration::from_secs(60));
    assert_eq!(bounded.count(&vec![1; 1 << 20])?, 1 << 20);
    let [before, after, elsewhere] = reception.who()?;
    assert!(before.is_some() && before == after && elsewhere.is_none());
    Ok(())
}
