//! A server that reports its caller's identity, and client processes of any user that take orders.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use crate::obedient::ObedientProcess;
use crate::told::told;
use crate::until;
use std::fs::{self, Permissions};
use std::io::{self, stdin};
use std::ops::{Deref, DerefMut};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake};
use std::time::Duration;
use underpass::{CallError, Limits, Peer, Running, Server, Wire, processors, thread};

/// A user that is not root, and has no name on most systems.
pub const SOMEBODY: u32 = 61_000;
/// Another such user.
pub const ANOTHER: u32 = 61_001;

/// The identity of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
pub struct Who {
    /// Process.
    pub pid: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Whether a descriptor of its process (`pidfd`) is available.
    pub pidfd: bool,
}

impl Who {
    fn of(peer: &Peer) -> Self {
        let (pid, uid, gid) = (peer.pid(), peer.uid(), peer.gid());
        Self { pid, uid, gid, groups: peer.groups().to_vec(), pidfd: peer.pidfd().is_ok() }
    }
}

/// The interface that the clients call.
#[underpass::interface]
pub trait Reception {
    /// The caller: before and after a pause, and in a thread that the procedure starts.
    fn who(&self) -> Result<[Option<Who>; 3], CallError>;
    /// Adds.
    fn add(&self, a: u8, b: u8) -> Result<u8, CallError>;
    /// Waits until the reception is opened.
    fn wait(&self) -> Result<(), CallError>;
    /// Blocks in the kernel for `ms` ms without announcing it.
    fn doze(&self, ms: u64) -> Result<(), CallError>;
    /// How many calls of `wait` and `doze` have begun.
    fn begun(&self) -> Result<u32, CallError>;
    /// The number of activations, of blocked activations, and of listeners that run on donated
    /// processors.
    fn workers(&self) -> Result<(u32, u32, u32), CallError>;
}

/// The implementation of [`Reception`].
#[derive(Clone, Debug, Default)]
pub struct Receptionist {
    /// Whether `wait` returns.
    pub open: Arc<AtomicU32>,
    /// Calls of `wait` and `doze` that have begun.
    pub begun: Arc<AtomicU32>,
}

impl Reception for Receptionist {
    fn who(&self) -> Result<[Option<Who>; 3], CallError> {
        let who = || underpass::caller().map(|peer| Who::of(&peer));
        let before = who();
        thread::sleep(Duration::from_millis(1));
        let after = who();
        let elsewhere = thread::spawn(who).join().unwrap();
        Ok([before, after, elsewhere])
    }

    fn add(&self, a: u8, b: u8) -> Result<u8, CallError> {
        Ok(a.wrapping_add(b))
    }

    fn wait(&self) -> Result<(), CallError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        while self.open.load(Ordering::SeqCst) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn doze(&self, ms: u64) -> Result<(), CallError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(ms));
        Ok(())
    }

    fn begun(&self) -> Result<u32, CallError> {
        Ok(self.begun.load(Ordering::SeqCst))
    }

    fn workers(&self) -> Result<(u32, u32, u32), CallError> {
        let counts = processors::activation_counts().unwrap();
        Ok((counts.activations as u32, counts.blocked as u32, counts.lent as u32))
    }
}

/// A directory of names that every user can read. A program in it can be run by every user.
#[derive(Debug)]
pub struct PublicRoom;

impl PublicRoom {
    /// The directory. It is made anew for this process. The next process that makes one removes it,
    /// because no code runs at a test program's end.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn directory(binary: &str) -> &'static Path {
        static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
        DIRECTORY.get_or_init(|| {
            const NAME: &str = "underpass-public-";
            let gone = |pid: &str| !Path::new("/proc").join(pid).exists();
            for old in fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
                let name = old.file_name();
                if name.to_str().and_then(|name| name.strip_prefix(NAME)).is_some_and(gone) {
                    // Another process may be removing the same directory.
                    let _ = fs::remove_dir_all(old.path());
                }
            }
            let directory = std::env::temp_dir().join(format!("{NAME}{}", std::process::id()));
            let mode = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
            fs::create_dir_all(&directory).unwrap();
            mode(&directory);
            fs::copy(binary, directory.join("program")).unwrap();
            mode(&directory.join("program"));
            directory
        })
    }
}

/// A client in a process of its own. It is killed when dropped.
#[derive(Debug)]
pub struct Puppet(ObedientProcess);

impl Puppet {
    /// Starts a client of this test's own user.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(binary: &str) -> Self {
        Self(ObedientProcess::start(&mut Self::command(binary)))
    }

    /// Starts a client whose domain has `processors` processors.
    ///
    /// # Panics
    /// If it does not start.
    pub fn with_processors(binary: &str, processors: u32) -> Self {
        let mut command = Self::command(binary);
        Self(ObedientProcess::start(command.env("UNDERPASS_PROCESSORS", processors.to_string())))
    }

    /// Starts a client of user and group `uid`. Only root can do that.
    ///
    /// # Panics
    /// If it does not start.
    pub fn of_user(binary: &str, uid: u32) -> Self {
        let mut command = Self::command(binary);
        Self(ObedientProcess::start(command.uid(uid).gid(uid)))
    }

    fn command(binary: &str) -> Command {
        let directory = PublicRoom::directory(binary);
        let mut command = Command::new(directory.join("program"));
        command.args(["-", "puppet"]).env("UNDERPASS_DIR", directory);
        command
    }
}

impl Deref for Puppet {
    type Target = ObedientProcess;

    fn deref(&self) -> &ObedientProcess {
        &self.0
    }
}

impl DerefMut for Puppet {
    fn deref_mut(&mut self) -> &mut ObedientProcess {
        &mut self.0
    }
}

/// How long an import of a puppet may take.
const SOON: Duration = Duration::from_secs(5);

/// The state of a puppet.
#[derive(Default)]
struct Own {
    bindings: Vec<ReceptionClient>,
    waiting: Vec<thread::JoinHandle<Result<(), CallError>>>,
    serving: Vec<(Running, Receptionist)>,
}

/// Polls a future on this kernel thread until it is ready.
fn complete<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Listens at a name that is in no directory.
///
/// # Errors
/// If the name is taken.
pub fn listen(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

fn connect(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

impl Own {
    fn import(&mut self, name: &str, times: usize) -> Result<(), underpass::ImportError> {
        // Imports all bindings, or none. Each has a connection of its own, as if it were the only
        // one.
        let all: Result<Vec<_>, _> = (0..times).map(|_| ReceptionClient::import_apart(name, SOON)).collect();
        self.bindings.extend(all?);
        Ok(())
    }

    /// The same, over the connection that the other bindings of this kind share.
    fn join(&mut self, name: &str, times: usize) -> Result<(), underpass::ImportError> {
        let all: Result<Vec<_>, _> = (0..times).map(|_| ReceptionClient::import(name)).collect();
        self.bindings.extend(all?);
        Ok(())
    }

    /// Exports a reception. `blocked` activations may be blocked in a user's calls.
    fn serve(&mut self, name: &str, blocked: usize) -> Result<(), underpass::Error> {
        let limits = Limits { blocked, ..Limits::default() };
        let server = Server::new().mode(0o666).limits(limits).limits_of(0, limits);
        let receptionist = Receptionist::default();
        self.serving
            .push((server.export(name, Reception::serve(receptionist.clone())).start()?, receptionist));
        Ok(())
    }

    fn does(&mut self, words: &[&str]) -> String {
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<usize>().ok()).unwrap_or(0);
        match words[0] {
            "import" => told(self.import(words[1], number(2))),
            "connect" => told(self.join(words[1], number(2))),
            // As `connect`, once and within so many ms.
            "hurry" => {
                let within = Duration::from_millis(number(2) as u64);
                told(
                    ReceptionClient::import_within(words[1], within)
                        .map(|binding| self.bindings.push(binding)),
                )
            }
            // Drops one binding. Those behind it get the numbers below theirs.
            "release" => {
                self.bindings.remove(number(1));
                "released".to_owned()
            }
            // Waits for a moment in one call, and gives up.
            "give-up" => {
                let binding = self.bindings[number(1)].with_deadline(Duration::from_millis(number(2) as u64));
                told(binding.wait())
            }
            "quarantine" => {
                self.bindings[number(1)].quarantine(number(2) as u32);
                "set".to_owned()
            }
            // From a user-level thread, and from a task.
            "thread" => {
                let binding = self.bindings[number(1)].clone();
                told(thread::spawn(move || binding.add(1, 2)).join().unwrap())
            }
            // From a user-level thread, beside another that never lets the activation sleep.
            "beside" => {
                let (ends, binding) = (Arc::new(AtomicU32::new(0)), self.bindings[number(1)].clone());
                let seen = ends.clone();
                let busy = thread::spawn(move || {
                    while seen.load(Ordering::SeqCst) == 0 {
                        thread::yield_now();
                    }
                });
                let sum = thread::spawn(move || binding.add(1, 2)).join().unwrap();
                ends.store(1, Ordering::SeqCst);
                busy.join().unwrap();
                told(sum)
            }
            "task" => told(complete(self.bindings[number(1)].add_async(1, 2))),
            "serve" => told(self.serve(words[1], number(2))),
            // Without a call.
            "begun-here" => self.serving[0].1.begun.load(Ordering::SeqCst).to_string(),
            "begun" => told(self.bindings[number(1)].begun()),
            "workers" => told(self.bindings[number(1)].workers()),
            "add" => told(self.bindings[number(1)].add(1, 2)),
            "who" => told(self.bindings[number(1)].who()),
            // Makes that many calls at once.
            "wait" => {
                for _ in 0..number(2) {
                    let binding = self.bindings[number(1)].clone();
                    self.waiting.push(thread::spawn(move || binding.wait()));
                }
                "begun".to_owned()
            }
            // Makes that many calls at once. Each blocks for that many ms.
            "doze" => {
                let ms = number(3) as u64;
                for _ in 0..number(2) {
                    let binding = self.bindings[number(1)].clone();
                    self.waiting.push(thread::spawn(move || binding.doze(ms)));
                }
                "begun".to_owned()
            }
            // Makes one call over each binding.
            "each" => {
                for binding in &self.bindings {
                    let binding = binding.clone();
                    self.waiting.push(thread::spawn(move || binding.wait()));
                }
                "begun".to_owned()
            }
            "join" => {
                let ended = self.waiting.drain(..).map(|call| told(call.join().unwrap()));
                ended.collect::<Vec<_>>().join(" ")
            }
            // Takes a binding that another domain passes on, at this address.
            "take" => {
                let passed = listen(words[1]).and_then(|listener| listener.accept());
                match passed {
                    Ok((from, _)) => {
                        let taken = ReceptionClient::import_from(&from, Duration::from_secs(100));
                        told(taken.map(|binding| self.bindings.push(binding)))
                    }
                    Err(e) => format!("{e:?}"),
                }
            }
            // Passes a binding on to the listener at this address.
            "give" => {
                let to = until("who takes it", || connect(words[2]).ok());
                told(self.bindings[number(1)].share_with(&to))
            }
            "drop" => {
                self.bindings.clear();
                "dropped".to_owned()
            }
            other => format!("what is {other}?"),
        }
    }
}

/// The main loop of a puppet's process.
pub fn obey() {
    let mut own = Own::default();
    for line in stdin().lines().map_while(Result::ok) {
        let words: Vec<_> = line.split_whitespace().collect();
        println!("{}", own.does(&words));
    }
}
