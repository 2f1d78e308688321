//! Unix sockets and pipes.

use crate::common::{by_both, watchdog};
use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use underpass_io::net::{UnixDatagram, UnixListener, UnixStream};
use underpass_io::{PipeReader, PipeWriter, pipe};
use underpass_threads::spawn;

/// A name that nobody else has.
fn name() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only that it is unique matters.
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    SocketAddr::from_abstract_name(format!("underpass-io-{}-{next}", std::process::id())).unwrap()
}

#[test]
fn a_listener_at_a_path_is_connected_to() {
    let _dog = watchdog();
    by_both(|| {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("underpass-io-{}-{next}", std::process::id()));
        assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).unwrap();
        let client = spawn({
            let path = path.clone();
            move || UnixStream::connect(path).unwrap().write_all(b"hello").unwrap()
        });
        let mut words = String::new();
        listener.incoming().next().unwrap().unwrap().read_to_string(&mut words).unwrap();
        assert_eq!(words, "hello");
        client.join().unwrap();
        drop(listener);
        assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        std::fs::remove_file(path).unwrap();
    });
}

#[test]
fn a_client_that_finds_the_backlog_full_connects_in_the_end() {
    let _dog = watchdog();
    by_both(|| {
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        let name = name();
        let abstract_name = [b"\0", name.as_abstract_name().unwrap()].concat();
        let of = std::str::from_utf8(&abstract_name).unwrap();
        socket.bind(&socket2::SockAddr::unix(of).unwrap()).unwrap();
        socket.listen(1).unwrap();
        let clients: Vec<_> = (0..6u8)
            .map(|number| {
                let name = name.clone();
                spawn(move || UnixStream::connect_addr(&name).unwrap().write_all(&[number]).unwrap())
            })
            .collect();
        let listener = UnixListener::try_from(std::os::unix::net::UnixListener::from(
            std::os::fd::OwnedFd::from(socket),
        ))
        .unwrap();
        let mut numbers: Vec<u8> = listener
            .incoming()
            .take(6)
            .map(|stream| {
                let mut number = [0];
                stream.unwrap().read_exact(&mut number).unwrap();
                number[0]
            })
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
}

#[test]
fn a_sender_waits_for_a_full_receiver() {
    const DATAGRAMS: u32 = 1000;
    let _dog = watchdog();
    by_both(|| {
        let name = name();
        let receiver = UnixDatagram::bind_addr(&name).unwrap();
        // One sender by name, one connected: the kernel tells only the second when there is room.
        let by_name = spawn({
            let name = name.clone();
            move || {
                let sender = UnixDatagram::unbound().unwrap();
                (0..DATAGRAMS).for_each(|n| {
                    sender.send_to_addr(&n.to_le_bytes(), &name).unwrap();
                });
            }
        });
        let connected = spawn(move || {
            let sender = UnixDatagram::unbound().unwrap();
            sender.connect_addr(&name).unwrap();
            (0..DATAGRAMS).for_each(|n| {
                sender.send(&n.to_le_bytes()).unwrap();
            });
        });
        let mut sum = 0;
        for _ in 0..2 * DATAGRAMS {
            let mut word = [0; 4];
            assert_eq!(receiver.recv(&mut word).unwrap(), 4);
            sum += u64::from(u32::from_le_bytes(word));
        }
        assert_eq!(sum, u64::from(DATAGRAMS) * u64::from(DATAGRAMS - 1));
        by_name.join().unwrap();
        connected.join().unwrap();
    });
}

#[test]
fn a_sender_to_a_full_receiver_times_out() {
    let _dog = watchdog();
    by_both(|| {
        let name = name();
        let _receiver = UnixDatagram::bind_addr(&name).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_write_timeout(Some(Duration::from_millis(5))).unwrap();
        let full = loop {
            if let Err(e) = sender.send_to_addr(b"datagram", &name) {
                break e;
            }
        };
        assert_eq!(full.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn a_pair_of_datagram_sockets_keeps_bounds() {
    let _dog = watchdog();
    by_both(|| {
        let (a, b) = UnixDatagram::pair().unwrap();
        let reader = spawn(move || {
            let mut word = [0; 16];
            [0, 1].map(|_| b.recv_from(&mut word).unwrap().0)
        });
        a.send(b"one").unwrap();
        a.send(b"three").unwrap();
        assert_eq!(reader.join().unwrap(), [3, 5]);
    });
}

#[test]
fn much_goes_through_a_pipe() {
    let _dog = watchdog();
    by_both(|| {
        let (mut reader, writer) = pipe().unwrap();
        // Two writers at once; the end comes when both have gone.
        let writers = [writer.try_clone().unwrap(), writer]
            .map(|mut writer| spawn(move || writer.write_all(&vec![7; 1 << 20]).unwrap()));
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert!(all.len() == 2 << 20 && all.iter().all(|&byte| byte == 7));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

#[test]
fn a_writer_learns_that_nobody_reads() {
    let _dog = watchdog();
    by_both(|| {
        let (reader, mut writer) = pipe().unwrap();
        let writer = spawn(move || {
            loop {
                if let Err(e) = writer.write(&[0; 4096]) {
                    return e.kind();
                }
            }
        });
        drop(reader);
        assert_eq!(writer.join().unwrap(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn ends_of_std_s_pipes_become_these() {
    let _dog = watchdog();
    by_both(|| {
        let (reader, writer) = std::io::pipe().unwrap();
        let (reader, writer) = (PipeReader::try_from(reader).unwrap(), PipeWriter::try_from(writer).unwrap());
        let reader = Arc::new(reader);
        let late = reader.as_async().readable_until(std::time::Instant::now()).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        (&writer).write_all(b"x").unwrap();
        assert_eq!((&*reader).read(&mut [0; 2]).unwrap(), 1);
    });
}
