//! All blocking calls that can be interrupted.

use std::io::{self, Read, Write};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use underpass_io::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixStream};
use underpass_io::process::Command;
use underpass_io::{Timer, is_cancelled};
use underpass_sync::{AcquireTimeoutError, Condvar, Mutex, Select, Semaphore, mpmc, mpsc};
use underpass_threads::{park, park_timeout, sleep};

/// So long that a test that waits for its end hangs.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// A name, and a wait that returns `true` if it ended by the cancellation, as far as it can tell.
pub type Wait = (&'static str, fn() -> bool);

/// All of them.
pub const WAITS: &[Wait] = &[
    ("park", || {
        park();
        true
    }),
    ("park_timeout", || {
        park_timeout(LONG);
        true
    }),
    ("sleep", || {
        sleep(LONG);
        true
    }),
    ("Condvar::wait", || {
        let mutex = Mutex::new(());
        drop(Condvar::new().wait(mutex.lock().unwrap()).unwrap());
        true
    }),
    ("Condvar::wait_timeout", || {
        let mutex = Mutex::new(());
        let (guard, late) = Condvar::new().wait_timeout(mutex.lock().unwrap(), LONG).unwrap();
        drop(guard);
        !late.timed_out()
    }),
    ("Semaphore::acquire", || Semaphore::new(0).acquire().is_err()),
    ("Semaphore::acquire_many", || Semaphore::new(1).acquire_many(2).is_err()),
    ("Semaphore::acquire_timeout", || {
        matches!(Semaphore::new(0).acquire_timeout(LONG), Err(AcquireTimeoutError::Cancelled))
    }),
    ("mpmc::Receiver::recv", || {
        let (_sender, receiver) = mpmc::unbounded::<u8>();
        receiver.recv() == Err(mpmc::RecvError::Cancelled)
    }),
    ("mpmc::Receiver::recv_timeout", || {
        let (_sender, receiver) = mpmc::bounded::<u8>(1);
        receiver.recv_timeout(LONG) == Err(mpmc::RecvTimeoutError::Cancelled)
    }),
    ("mpmc::Sender::send, full", || {
        let (sender, _receiver) = mpmc::bounded(1);
        sender.send(1).unwrap();
        sender.send(2) == Err(mpmc::SendError::Cancelled(2))
    }),
    ("mpmc::Sender::send, nobody to take it", || {
        let (sender, _receiver) = mpmc::bounded(0);
        sender.send(3) == Err(mpmc::SendError::Cancelled(3))
    }),
    ("mpsc::Receiver::recv", || {
        let (_sender, receiver) = mpsc::channel::<u8>();
        receiver.recv().is_err()
    }),
    ("mpsc::Receiver::recv_timeout", || {
        let (_sender, receiver) = mpsc::channel::<u8>();
        receiver.recv_timeout(LONG) != Err(RecvTimeoutError::Timeout)
    }),
    ("Select", || {
        let (_sender, receiver) = mpmc::unbounded::<u8>();
        let (full, _kept) = mpmc::bounded(1);
        full.send(0u8).unwrap();
        Select::new().recv(&receiver, |_| ()).send(&full, 1, |_| ()).wait().is_err()
    }),
    ("Timer::wait", || cancelled(Timer::after(LONG).wait())),
    ("TcpListener::accept", || cancelled(TcpListener::bind("127.0.0.1:0").unwrap().accept())),
    ("TcpStream::read", || {
        let (mut here, _there) = connection();
        cancelled(here.read(&mut [0]))
    }),
    ("TcpStream::write_all", || {
        let (mut here, _there) = connection();
        // More than the kernel buffers for a peer that doesn't read.
        loop {
            if let Err(error) = here.write_all(&[0; 1 << 16]) {
                break is_cancelled(&error);
            }
        }
    }),
    ("UnixStream::read", || {
        let (mut here, _there) = UnixStream::pair().unwrap();
        cancelled(here.read(&mut [0]))
    }),
    ("UnixDatagram::recv", || {
        let (here, _there) = UnixDatagram::pair().unwrap();
        cancelled(here.recv(&mut [0]))
    }),
    ("UdpSocket::recv_from", || cancelled(UdpSocket::bind("127.0.0.1:0").unwrap().recv_from(&mut [0]))),
    ("PipeReader::read", || {
        let (mut reader, _writer) = underpass_io::pipe().unwrap();
        cancelled(reader.read(&mut [0]))
    }),
    ("Child::wait", || {
        let mut child = Command::new("sleep").arg("100000").spawn().unwrap();
        let result = cancelled(child.wait());
        child.kill().unwrap();
        result
    }),
];

fn cancelled<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| is_cancelled(&error))
}

/// A connection made with `std` alone: nothing on the way can be cancelled.
fn connection() -> (TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let there = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (TcpStream::try_from(listener.accept().unwrap().0).unwrap(), there)
}
