//! Runs with a single activation: whatever held up its kernel thread would hold up everything for
//! ever.

use crate::common::watchdog;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use underpass_io::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use underpass_io::process::{Command, Stdio};
use underpass_io::{Timer, pipe};
use underpass_threads::{JoinHandle, spawn, yield_now};

/// In a process of its own, which has one activation, and no other test.
#[test]
fn nothing_holds_up_the_only_activation() {
    let _dog = watchdog();
    const INSIDE: &str = "UNDERPASS_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        spawn(exercise).join().unwrap();
        comes_to_rest();
        return;
    }
    let mut own = std::process::Command::new(std::env::current_exe().unwrap());
    own.args(["one_activation::nothing_holds_up_the_only_activation", "--exact", "--nocapture"]);
    own.env(INSIDE, "1").env("UNDERPASS_PROCESSORS", "1");
    let output = own.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the test ran there");
}

fn exercise() {
    let kernel_thread = std::thread::current().id();
    // Each waits for something that only another thread of the same activation does after it.
    let waiting: Vec<(&str, JoinHandle<()>)> = vec![
        ("sockets", spawn(sockets)),
        ("datagrams", spawn(datagrams)),
        ("pipes", spawn(pipes)),
        ("a child", spawn(child)),
        ("an endless peer", spawn(endless)),
        ("a timer", spawn(timer)),
        ("names", spawn(|| drop(TcpListener::bind("localhost:0").unwrap()))),
    ];
    for (what, thread) in waiting {
        thread.join().unwrap_or_else(|_| panic!("{what} failed"));
    }
    assert_eq!(spawn(|| std::thread::current().id()).join().unwrap(), kernel_thread, "there is one");
}

fn sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut word = [0; 5];
        stream.read_exact(&mut word).unwrap();
        stream.write_all(&vec![1; 4 << 20]).unwrap();
    });
    yield_now();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 4 << 20);
    server.join().unwrap();
}

fn datagrams() {
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let readers = [0, 1].map(|_| {
        let socket = socket.clone();
        spawn(move || assert_eq!(socket.recv(&mut [0; 4]).unwrap(), 4))
    });
    yield_now();
    for _ in 0..2 {
        socket.send_to(b"word", socket.local_addr().unwrap()).unwrap();
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

fn pipes() {
    let (mut reader, mut writer) = pipe().unwrap();
    let writing = spawn(move || writer.write_all(&[3; 1 << 20]).unwrap());
    yield_now();
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 1 << 20);
    writing.join().unwrap();
}

fn child() {
    // It ends when another thread closes its input.
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    let waiting = spawn(move || assert!(child.wait().unwrap().success()));
    yield_now();
    drop(stdin);
    waiting.join().unwrap();
}

fn timer() {
    Timer::after(Duration::from_millis(5)).wait().unwrap();
}

/// A thread whose every read succeeds lets others go first now and then.
fn endless() {
    // Relaxed, both: they guard nothing.
    let (begun, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (mut a, mut b) = UnixStream::pair().unwrap();
    let busy = spawn({
        let (begun, stop) = (begun.clone(), stop.clone());
        move || {
            begun.store(true, Ordering::Relaxed);
            while !stop.load(Ordering::Relaxed) {
                a.write_all(&[1]).unwrap();
                b.read_exact(&mut [0]).unwrap();
            }
        }
    });
    while !begun.load(Ordering::Relaxed) {
        yield_now();
    }
    stop.store(true, Ordering::Relaxed);
    busy.join().unwrap();
}

/// No thread does anything, so the reactor keeps sleeping.
fn comes_to_rest() {
    let (mut before, mut now) = (None, switches());
    // Events of what was closed last may still come.
    while before != Some(now) {
        std::thread::sleep(Duration::from_millis(50));
        (before, now) = (Some(now), switches());
    }
}

/// How often the reactor's kernel thread has left its processor.
fn switches() -> u64 {
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default();
        if status.starts_with("Name:\tunderpass-react") {
            let field = |name| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap().trim().parse::<u64>().unwrap()
            };
            return field("voluntary_ctxt_switches:") + field("nonvoluntary_ctxt_switches:");
        }
    }
    panic!("there is a reactor, by its name");
}
