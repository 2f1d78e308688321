//! A whole domain whose peers lie: its clerk, file threads and workers, further channels, tickets,
//! and sweeps.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};
use underpass::{Running, Server};
use underpass_fuzz::{Greeting, Liar, Nothing, Step, Target, Visitor, call};
use underpass_os::Directory;
use underpass_rpc::fuzz::{count_overflow_buffers, settle};

/// The name under which the interface is exported.
const NAME: &str = "target";
/// The number of hostile clients, and of hostile servers, that exist at once.
const MOST: usize = 4;
/// The number of inputs after which the target checks that all files were closed.
const LOOK: usize = 64;
/// How long it may take until nothing is left of what has ended.
const PATIENCE: Duration = Duration::from_secs(15);

/// The next step. A peer's own steps are those of `server` and `client`.
#[derive(Debug, Arbitrary)]
enum Act {
    /// A client comes, and waits for its answer unless it has said nothing.
    Come(Greeting),
    /// A client makes a step with its end of one of its channels.
    Client(u8, u8, Step<()>),
    /// Several clients make a step.
    ClientToo(u8, u8, Step<()>),
    /// It asks for another channel.
    Ask(u8),
    /// It asks for a ticket.
    Share(u8),
    /// It takes what has come.
    Hear(u8),
    /// Another client comes by its ticket.
    Redeem(u8, Greeting),
    /// A client ends.
    Go(u8),
    /// A server is imported from. It welcomes its client in this way.
    Import(Greeting),
    /// A server makes a step with its end of one of the channels.
    Server(u8, u8, Step<()>),
    /// Several servers make a step.
    ServerToo(u8, u8, Step<()>),
    /// A server passes the region of a further channel with this number.
    Open(u8, u8),
    /// A server's client calls.
    Call { of: u8, procedure: u8, urgent: bool, len: u16 },
    /// The activations of a server's client contend for a channel.
    Contend(u8),
    /// A server's client asks for a ticket.
    Pass(u8),
    /// A server ends, and its client's binding with it.
    End(u8),
    /// Unused memory is given back.
    Sweep,
    /// The clerk handles what was said before.
    Settle,
}

/// The honest server.
static SERVER: LazyLock<(Running, Directory)> = LazyLock::new(|| {
    let path = env::temp_dir().join(format!("underpass-fuzz-{}", process::id()));
    let server = Server::new().directory(&path).export(NAME, Nothing.serve().shareable());
    (server.start().expect("an export"), Directory::at(path))
});

/// All peers that exist.
#[derive(Default)]
struct Stage {
    visitors: Vec<Visitor>,
    liars: Vec<Liar>,
}

/// One of them.
fn pick<T>(all: &mut [T], which: u8) -> Option<&mut T> {
    let count = all.len().max(1);
    all.get_mut(usize::from(which) % count)
}

impl Stage {
    fn does(&mut self, act: Act) {
        match act {
            Act::Come(hello) if self.visitors.len() < MOST => {
                let Some(mut visitor) = Visitor::come(&SERVER.1, NAME, &hello) else { return };
                if !matches!(hello, Greeting::Silence) {
                    visitor.is_answered();
                }
                if matches!(hello, Greeting::Honest) {
                    assert!(visitor.is_welcome(), "an honest hello is welcome, whatever came before");
                }
                self.visitors.push(visitor);
            }
            Act::Redeem(which, hello) if self.visitors.len() < MOST => {
                let giver = pick(&mut self.visitors, which);
                if let Some(mut visitor) = giver.and_then(|giver| giver.redeem(&hello)) {
                    visitor.is_answered();
                    self.visitors.push(visitor);
                }
            }
            Act::Go(which) if !self.visitors.is_empty() => {
                drop(self.visitors.swap_remove(usize::from(which) % self.visitors.len()));
            }
            Act::Import(welcome) if self.liars.len() < MOST => self.liars.extend(Liar::imported(&welcome)),
            Act::End(which) if !self.liars.is_empty() => {
                drop(self.liars.swap_remove(usize::from(which) % self.liars.len()));
            }
            Act::Sweep => {
                self.liars.iter().for_each(|liar| liar.client().sweep());
                count_overflow_buffers().expect("a clerk");
            }
            Act::Settle => settle(),
            other => self.has_done(other),
        }
    }

    /// The same for existing clients.
    fn has_done(&mut self, act: Act) {
        let visitors = &mut self.visitors;
        match act {
            Act::Client(which, end, step) | Act::ClientToo(which, end, step) => {
                if let Some(visitor) = pick(visitors, which) {
                    visitor.does(end, step);
                }
            }
            Act::Ask(which) => drop(pick(visitors, which).map(|visitor| visitor.ask())),
            Act::Share(which) => drop(pick(visitors, which).map(|visitor| visitor.share())),
            Act::Hear(which) => drop(pick(visitors, which).map(Visitor::hear)),
            act => self.is_lied_to(act),
        }
    }

    /// The same for servers.
    fn is_lied_to(&mut self, act: Act) {
        let (Act::Server(which, ..)
        | Act::ServerToo(which, ..)
        | Act::Open(which, _)
        | Act::Call { of: which, .. }
        | Act::Contend(which)
        | Act::Pass(which)) = act
        else {
            return;
        };
        let Some(liar) = pick(&mut self.liars, which) else { return };
        match act {
            Act::Server(_, end, step) | Act::ServerToo(_, end, step) => liar.does(end, step),
            Act::Open(_, number) => liar.open(number),
            Act::Call { procedure, urgent, len, .. } => {
                let end = liar.client().end();
                let closed = end.is_closed();
                let ended = call(end, procedure, urgent, len);
                assert!(!closed || ended.is_err(), "a closed binding answers nothing");
            }
            Act::Contend(_) => liar.client().contend(),
            Act::Pass(_) => drop(liar.client().share()),
            _ => {}
        }
    }
}

/// The open files of this process, except those by which its monitor reads the state of kernel
/// threads, which come and go.
fn open_files() -> Vec<String> {
    let files = fs::read_dir("/proc/self/fd").expect("procfs");
    let names = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    names.map(|name| name.display().to_string()).filter(|name| !name.contains("/task/")).collect()
}

/// Waits until `done`. A wait in vain is a finding.
fn until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        let late = begun.elapsed() > PATIENCE;
        assert!(!late, "{what}: {:?}, {:?}", SERVER.0.bindings().list(), open_files());
        settle();
        thread::yield_now();
    }
}

/// The number of open files while there is no peer.
fn quiet() -> usize {
    static QUIET: LazyLock<usize> = LazyLock::new(|| {
        let _ = &*SERVER;
        assert!(Liar::imported(&Greeting::Honest).is_some(), "an honest server is imported from");
        until("all bindings to end", || SERVER.0.bindings().list().is_empty());
        open_files().len()
    });
    *QUIET
}

fuzz_target!(|acts: Vec<Act>| {
    static INPUTS: AtomicUsize = AtomicUsize::new(0);
    let before = quiet();
    let mut stage = Stage::default();
    acts.into_iter().for_each(|act| stage.does(act));
    drop(stage);
    until("all bindings to end", || SERVER.0.bindings().list().is_empty());
    // Relaxed: a count.
    if INPUTS.fetch_add(1, Ordering::Relaxed) % LOOK == 0 {
        until("all files to be closed", || open_files().len() <= before);
    }
});
