//! The races of the proof, run often: threads join, give up, are woken and drop at about the same
//! time.

use crate::common::{by_both, watchdog};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use underpass_io::Async;
use underpass_io::net::{UdpSocket, UnixStream};
use underpass_threads::spawn;

#[test]
fn two_readers_of_one_socket_get_a_datagram_each() {
    let _dog = watchdog();
    by_both(|| {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let address = socket.local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for round in 0..300u32 {
            let readers = [0, 1].map(|_| {
                let socket = socket.clone();
                spawn(move || {
                    let mut word = [0; 4];
                    assert_eq!(socket.recv(&mut word).unwrap(), 4);
                    u32::from_le_bytes(word)
                })
            });
            sender.send_to(&(2 * round).to_le_bytes(), address).unwrap();
            sender.send_to(&(2 * round + 1).to_le_bytes(), address).unwrap();
            let mut got = readers.map(|reader| reader.join().unwrap());
            got.sort_unstable();
            assert_eq!(got, [2 * round, 2 * round + 1]);
        }
    });
}

#[test]
fn readers_that_give_up_take_no_wake_up() {
    const DATAGRAMS: u32 = 2000;
    let _dog = watchdog();
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = socket.local_addr().unwrap();
    let got = Arc::new(AtomicU32::new(0));
    let impatient: Vec<_> = (0..4u64)
        .map(|number| {
            let (socket, got) = (socket.clone(), got.clone());
            spawn(move || {
                let mut tries = number;
                // Relaxed: only a count.
                while got.load(Ordering::Relaxed) < DATAGRAMS {
                    tries += 1;
                    let soon = Instant::now() + Duration::from_micros(tries * 37 % 200);
                    match socket.as_async().read_with_until(soon, |socket| socket.recv(&mut [0; 4])) {
                        Ok(_) => {
                            got.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(e) => assert_eq!(e.kind(), ErrorKind::TimedOut),
                    }
                }
            })
        })
        .collect();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..DATAGRAMS {
        sender.send_to(&number.to_le_bytes(), address).unwrap();
        // Each waits for the one before, so that the socket's buffer never overflows.
        while got.load(Ordering::Relaxed) <= number {
            underpass_threads::yield_now();
        }
    }
    impatient.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(got.load(Ordering::Relaxed), DATAGRAMS);
}

#[test]
fn a_patient_reader_is_woken_among_those_that_give_up() {
    let _dog = watchdog();
    by_both(|| {
        for round in 0..300u64 {
            let (a, mut b) = UnixStream::pair().unwrap();
            let a = Arc::new(a);
            let patient = spawn({
                let a = a.clone();
                move || (&*a).read(&mut [0]).unwrap()
            });
            let other = spawn({
                let a = a.clone();
                move || a.as_async().readable_until(Instant::now() + Duration::from_micros(round % 100))
            });
            b.write_all(&[1]).unwrap();
            assert_eq!(patient.join().unwrap(), 1);
            if let Err(e) = other.join().unwrap() {
                assert_eq!(e.kind(), ErrorKind::TimedOut);
            }
        }
    });
}

#[test]
fn what_is_dropped_under_an_event_disturbs_nobody() {
    let _dog = watchdog();
    // The pairs of the other threads use the descriptors' numbers again at once.
    let threads: Vec<_> = (0..8u32)
        .map(|number| {
            spawn(move || {
                for round in 0..200 {
                    let word = (number * 1000 + round).to_le_bytes();
                    let (mut a, mut b) = UnixStream::pair().unwrap();
                    let reader = spawn(move || {
                        let mut got = [0; 4];
                        a.read_exact(&mut got).unwrap();
                        // Dropped here, while its end of file may be on its way through the
                        // reactor.
                        got
                    });
                    b.write_all(&word).unwrap();
                    drop(b);
                    assert_eq!(reader.join().unwrap(), word);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn waiters_go_on_when_another_handle_is_dropped() {
    let _dog = watchdog();
    by_both(|| {
        let (a, mut b) = UnixStream::pair().unwrap();
        let clone = a.try_clone().unwrap();
        let reader = spawn(move || {
            let mut clone = clone;
            clone.read(&mut [0]).unwrap()
        });
        // Registered by itself, under another descriptor of the same open file.
        let soon = Instant::now() + Duration::from_millis(1);
        assert_eq!(a.as_async().readable_until(soon).unwrap_err().kind(), ErrorKind::TimedOut);
        drop(a);
        b.write_all(&[1]).unwrap();
        assert_eq!(reader.join().unwrap(), 1);
    });
}

#[test]
fn a_reader_waits_on_while_a_writer_s_events_pass() {
    let _dog = watchdog();
    by_both(|| {
        let (a, b) = UnixStream::pair().unwrap();
        let (a, done) = (Arc::new(a), Arc::new(AtomicBool::new(false)));
        let reader = spawn({
            let (a, done) = (a.clone(), done.clone());
            move || {
                a.as_async().readable().unwrap();
                // SYNC with `done` store in the writer: it has ended before there was anything to
                // read.
                assert!(done.load(Ordering::Acquire), "`readable` returned for a writer's event");
            }
        });
        let drain = spawn(move || {
            let mut left = 1 << 20;
            while left > 0 {
                left -= (&b).read(&mut [0; 65536]).unwrap();
            }
            b
        });
        (&*a).write_all(&vec![0; 1 << 20]).unwrap();
        let b = drain.join().unwrap();
        // SYNC with `done` load in the reader.
        done.store(true, Ordering::Release);
        (&b).write_all(&[1]).unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn waiting_for_an_exchanged_descriptor_is_an_error() {
    let _dog = watchdog();
    by_both(|| {
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        let (c, _d) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut a = Async::new(a).unwrap();
        let soon = Instant::now() + Duration::from_millis(1);
        assert_eq!(a.readable_until(soon).unwrap_err().kind(), ErrorKind::TimedOut);
        a.writable().unwrap();
        drop(std::mem::replace(a.get_mut(), c));
        assert_eq!(a.readable().unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_descriptor_is_waited_for_through_one_async() {
    let _dog = watchdog();
    by_both(|| {
        let (a, mut b) = std::os::unix::net::UnixStream::pair().unwrap();
        let first = Async::new(&a).unwrap();
        first.writable().unwrap();
        assert_eq!(Async::new(&a).unwrap().writable().unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(first);
        let second = Async::new(&a).unwrap();
        b.write_all(&[1]).unwrap();
        second.readable().unwrap();
        assert_eq!(second.into_inner().unwrap().read(&mut [0]).unwrap(), 1);
    });
}
