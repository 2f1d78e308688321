//! A domain for a sandbox, which misbehaves when asked to.
//!
//! `underpass-test-sandboxed NAME [PROBE]` exports a `Captive` as NAME, a `Probe` as NAME-probe and
//! a `Vault` as NAME-vault, in a sandbox if one started it, and calls the `Probe` PROBE.
//! `underpass-test-sandboxed starter NAME [DEED]` starts such a domain in a sandbox, prints its
//! process, makes it do DEED, and waits until its standard input ends. Then it ends the domain and
//! prints how that ended.
//! `underpass-test-sandboxed pass` passes a file to itself and prints the result.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod raw;

use raw::{address as at, call};
use std::cell::Cell;
use std::error::Error;
use std::fs;
use std::io;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use underpass::{CallError, Outcome, Sandbox, Server, sandbox, thread};
use underpass_os::Socket;
use underpass_os::forbidden::{Instruction, SeccompListener};
use underpass_tests::{Captive, CaptiveClient, Probe, ProbeClient, Safe, Subject, Vault};

fn main() -> Result<(), Box<dyn Error>> {
    let inside = sandbox::inside()?;
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("no name")?;
    match name.as_str() {
        "starter" => return start(&arguments.next().ok_or("no name")?, arguments.next()),
        "pass" => return pass(),
        _ => {}
    }
    let probe = arguments
        .next()
        .map(|name| ProbeClient::import_within(&name, Duration::from_secs(60)))
        .transpose()?;
    let server = Server::new()
        .export(format!("{name}-probe"), Probe::serve(Subject::default()))
        .export(format!("{name}-vault"), Vault::serve(Safe::default()))
        .export(name, Captive::serve(Prisoner { probe }));
    if std::env::var_os("UNDERPASS_TEST_HOLD").is_some() {
        hold_up_the_walls();
    }
    match inside {
        Some(inside) => match inside.serve(server)? {},
        // The same without a sandbox shows that each misdeed is possible at all.
        None => {
            underpass_os::process::die_with_parent()?;
            Ok(server.run()?)
        }
    }
}

fn start(name: &str, deed: Option<String>) -> Result<(), Box<dyn Error>> {
    underpass_os::process::die_with_parent()?;
    // Acts like a container that watches this process.
    let listens = std::env::var_os("UNDERPASS_TEST_LISTENER").is_some();
    // `BPF_RET | BPF_K`, `SECCOMP_RET_ALLOW`.
    let all = Instruction { code: 6, jt: 0, jf: 0, k: 0x7fff_0000 };
    let _listener = if listens { Some(SeccompListener::install(&[all])?) } else { None };
    let domain = Sandbox::this_program().arg(name).start()?;
    println!("{}", domain.pid());
    if let Some(deed) = deed {
        println!("{deed}: {}", CaptiveClient::import(name)?.attempt(&deed, 0)?);
    }
    let _ = io::read_to_string(io::stdin());
    println!("ended: {:?}", domain.end());
    if listens {
        println!("{}", domain.report());
    }
    Ok(())
}

/// Reports whether a process of this user can pass a file.
fn pass() -> Result<(), Box<dyn Error>> {
    let (ours, theirs) = Socket::pair()?;
    println!("{:?}", ours.send(b"with a file", &[theirs.as_fd()]).map_err(|e| e.raw_os_error()));
    Ok(())
}

/// Starts a kernel thread that takes no signal, so that it cannot be asked to restrict itself.
fn hold_up_the_walls() {
    let (ready, readied) = channel();
    std::thread::spawn(move || {
        // `SIG_BLOCK`, for all signals.
        ready.send(call("rt_sigprocmask", [0, raw::address(&u64::MAX), 0, 8, 0])).unwrap();
        loop {
            std::thread::park();
        }
    });
    readied.recv().unwrap().unwrap();
}

struct Prisoner {
    probe: Option<ProbeClient>,
}

impl Captive for Prisoner {
    fn attempt(&self, deed: &str, target: u64) -> Result<String, CallError> {
        Ok(match attempt(deed, target) {
            Ok(()) => "done".to_owned(),
            Err(errno) => format!("errno {errno}"),
        })
    }

    fn ask(&self, a: u8, b: u8) -> Result<u8, CallError> {
        self.probe.as_ref().ok_or(CallError::Decode(Outcome::NotStarted, "no probe".to_owned()))?.add(a, b)
    }

    fn environment(&self) -> Result<Vec<(String, String)>, CallError> {
        Ok(std::env::vars().collect())
    }

    fn threads(&self, threads: u64) -> Result<u64, CallError> {
        let sum = |number| std::thread::spawn(move || (number..=number + 1).sum::<u64>());
        let outer = |number| std::thread::spawn(move || sum(number).join().unwrap());
        let all: Vec<_> = (0..threads).map(outer).collect();
        Ok(all.into_iter().map(|thread| thread.join().unwrap()).sum())
    }

    fn block(&self, ms: u64) -> Result<(), CallError> {
        thread::blocking(|| std::thread::sleep(Duration::from_millis(ms)));
        Ok(())
    }
}

/// The result of `std`, as an `errno`.
fn told<T>(result: io::Result<T>) -> Result<(), i64> {
    result.map(|_| ()).map_err(|e| e.raw_os_error().unwrap_or(0).into())
}

fn attempt(deed: &str, target: u64) -> Result<(), i64> {
    let port = (Ipv4Addr::LOCALHOST, target as u16);
    let path = std::env::temp_dir().join(format!("underpass-deed-{}", std::process::id()));
    let page = [0u8; 4096];
    let plain = |name, arguments| call(name, arguments).map(|_| ());
    match deed {
        "read a file" => told(fs::read("/etc/passwd")),
        "write a file" => told(fs::write(&path, "x")).and_then(|()| told(fs::remove_file(&path))),
        "look at a file" => told(fs::metadata("/etc/passwd")),
        "list a directory" => told(fs::read_dir("/")),
        "find oneself" => told(std::env::current_dir()),
        "connect to a port" => told(TcpStream::connect(port)),
        "bind a port" => told(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))),
        "bind a name" => told(UnixListener::bind(&path)).and_then(|()| told(fs::remove_file(&path))),
        "connect to a name" => {
            let name = std::env::var("UNDERPASS_DIR").unwrap_or_default();
            match told(UnixStream::connect(format!("{name}/nobody"))) {
                // The file does not exist, but the lookup was allowed.
                Err(2) => Ok(()),
                other => other,
            }
        }
        "make a socket pair" => told(UnixStream::pair()),
        "start a program" => told(Command::new("/bin/true").status()),
        "fork" => raw::process(0).map(|_| ()),
        "clone" => raw::process(17).map(|_| ()),
        "clone3" => match call("clone3", [0; 5]) {
            // The kernel knows the call, and refuses its arguments.
            Err(22) => Ok(()),
            other => other.map(|_| ()),
        },
        "execve" => {
            match call("execve", [at(c"/nonexistent".to_bytes_with_nul().first().unwrap()), 0, 0, 0, 0]) {
                Err(2) => Ok(()),
                other => other.map(|_| ()),
            }
        }
        "kill" => plain("kill", [target, 0, 0, 0, 0]),
        "tgkill" => plain("tgkill", [target, target, 0, 0, 0]),
        // PTRACE_PEEKUSER.
        "ptrace" => match call("ptrace", [3, target, 0, 0, 0]) {
            // The process is not traced yet.
            Err(3) => Ok(()),
            other => other.map(|_| ()),
        },
        "process_vm_readv" => plain("process_vm_readv", [target, 0, 0, 0, 0]),
        "pidfd_open" => plain("pidfd_open", [target, 0, 0, 0, 0]),
        "raise a limit" => {
            // RLIMIT_NOFILE, soft and hard. The soft limit is raised to the hard one.
            let limit = [Cell::new(0u64), Cell::new(0u64)];
            call("prlimit64", [0, 7, 0, at(&limit), 0])?;
            limit[0].set(limit[1].get());
            plain("prlimit64", [0, 7, at(&limit), 0, 0])
        }
        "limit another" => plain("prlimit64", [target, 7, 0, at(&[Cell::new(0u64), Cell::new(0u64)]), 0]),
        // PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS.
        "map code" => plain("mmap", [0, 4096, 5, 0x22, u64::MAX]),
        "send others signals" => plain("fcntl", [0, 8, target, 0, 0]),
        "lose privileges" => plain("prctl", [38, 1, 0, 0, 0]),
        "unshare" => plain("unshare", [0x0400_0000, 0, 0, 0, 0]),
        "io_uring_setup" => plain("io_uring_setup", [1, at(&page), 0, 0, 0]),
        "ask a terminal" => match call("ioctl", [0, 0x5401, at(&page), 0, 0]) {
            // The standard input is not a terminal.
            Err(25) => Ok(()),
            other => other.map(|_| ()),
        },
        "read an output" => match call("pread64", [1, at(&page), 4096, 0, 0]) {
            Ok(0) => Err(0),
            other => other.map(|_| ()),
        },
        "truncate an output" => plain("ftruncate", [1, 0, 0, 0, 0]),
        // FIONBIO.
        "unblock an output" => plain("ioctl", [1, 0x5421, at(&1u32), 0, 0]),
        "say" => say(target),
        "say for ever" => loop {
            say(1 << 20)?;
        },
        "catch SIGSYS" => raw::catch(SIGSYS).and_then(|()| plain("socket", [1, 1, 0, 0, 0])),
        "take calls back" => take_calls_back(),
        "flood with files" => flood_with_files(),
        "reserve" => Vec::<u8>::new().try_reserve_exact(target as usize).map_err(|_| 12),
        "eat" => {
            let mut eaten = Vec::new();
            loop {
                eaten.push(vec![1u8; 1 << 20]);
            }
        }
        "spin" => loop {
            std::hint::spin_loop();
        },
        "crash" => {
            raw::crash();
            Ok(())
        }
        "exit" => std::process::exit(7),
        _ => Err(-1),
    }
}

const SIGUSR1: u64 = 10;
const SIGSYS: u64 = 31;

/// Writes `bytes` to both standard outputs, and then the last words.
fn say(bytes: u64) -> Result<(), i64> {
    let all = vec![b'.'; bytes as usize];
    for output in [&mut io::stdout() as &mut dyn Write, &mut io::stderr()] {
        told(output.write_all(&all).and_then(|()| output.write_all(b"last words\n")))?;
    }
    Ok(())
}

/// Makes forbidden calls while another kernel thread interrupts each of them.
fn take_calls_back() -> Result<(), i64> {
    raw::catch(SIGSYS)?;
    raw::catch(SIGUSR1)?;
    let (process, thread) = (call("getpid", [0; 5])?, call("gettid", [0; 5])?);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = call("tgkill", [process, thread, SIGUSR1, 0, 0]);
            }
        });
        for _ in 0..100_000 {
            let _ = call("socket", [1, 1, 0, 0, 0]);
        }
        over.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// Puts as many files as it can into the queues of its own sockets. Returns as an `errno` why no
/// more went.
fn flood_with_files() -> Result<(), i64> {
    let [mut from, mut to] = raw::pair()?;
    loop {
        match raw::send_files(from, to) {
            Ok(()) => {}
            // EAGAIN: the queue is full.
            Err(11) => [from, to] = raw::pair()?,
            Err(other) => return Err(other),
        }
    }
}
