//! TCP on loopback, from user-level threads and plain kernel threads.

use crate::common::{by_both, watchdog};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use underpass_io::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use underpass_threads::spawn;

/// A connection and its other end.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Serves `most` connections, each on a thread of its own, which echoes what it gets.
fn echo(most: usize) -> (SocketAddr, underpass_threads::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = spawn(move || {
        let serve = |stream: std::io::Result<TcpStream>| {
            let stream = stream.unwrap();
            spawn(move || std::io::copy(&mut &stream, &mut &stream).unwrap())
        };
        let threads: Vec<_> = listener.incoming().take(most).map(serve).collect();
        threads.into_iter().for_each(|thread| assert_ne!(thread.join().unwrap(), 0));
    });
    (address, server)
}

fn talk(to: SocketAddr, number: u32) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_nodelay(true).unwrap();
    for round in 0..10 {
        let word = (number * 1000 + round).to_le_bytes();
        stream.write_all(&word).unwrap();
        let mut back = [0; 4];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, word);
    }
}

#[test]
fn two_hundred_connections_are_echoed() {
    let _dog = watchdog();
    let (address, server) = echo(200);
    let clients: Vec<_> = (0..180).map(|number| spawn(move || talk(address, number))).collect();
    let kernel: Vec<_> = (180..200).map(|n| std::thread::spawn(move || talk(address, n))).collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    kernel.into_iter().for_each(|client| client.join().unwrap());
    server.join().unwrap();
}

#[test]
fn much_goes_both_ways_through_one_socket() {
    const MUCH: usize = 4 << 20;
    fn send(mut through: &TcpStream, byte: u8) {
        through.write_all(&vec![byte; MUCH]).unwrap();
        through.shutdown(Shutdown::Write).unwrap();
    }
    fn take(mut from: &TcpStream, byte: u8) {
        let mut all = Vec::new();
        from.read_to_end(&mut all).unwrap();
        assert!(all.len() == MUCH && all.iter().all(|&b| b == byte));
    }
    let _dog = watchdog();
    by_both(|| {
        let (a, b) = pair();
        let (a, b) = (Arc::new(a), Arc::new(b));
        // A reader and a writer wait on each end at once.
        let threads = [
            spawn({
                let a = a.clone();
                move || send(&a, 1)
            }),
            spawn({
                let b = b.clone();
                move || send(&b, 2)
            }),
            spawn(move || take(&b, 1)),
        ];
        take(&a, 2);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn each_connection_is_accepted_by_one_of_many() {
    const THREADS: usize = 8;
    const CONNECTIONS: usize = 64;
    let _dog = watchdog();
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicU32::new(0));
    let accept = {
        let (listener, accepted) = (listener.clone(), accepted.clone());
        move || {
            loop {
                let mut first = [0];
                listener.accept().unwrap().0.read_exact(&mut first).unwrap();
                if first == [0] {
                    return;
                }
                accepted.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let threads: Vec<_> = (0..THREADS).map(|_| spawn(accept.clone())).collect();
    let kernel = std::thread::spawn(accept);
    let connect = |first: u8| TcpStream::connect(address).unwrap().write_all(&[first]).unwrap();
    (0..CONNECTIONS).for_each(|_| connect(1));
    // One for each that accepts, to end it.
    (0..=THREADS).for_each(|_| connect(0));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    kernel.join().unwrap();
    assert_eq!(accepted.load(Ordering::Relaxed) as usize, CONNECTIONS);
}

#[test]
fn a_listener_survives_connections_that_are_reset() {
    let _dog = watchdog();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = spawn(move || {
        loop {
            // A connection that was reset may come as an error, as one that can't be read, or not
            // at all.
            let Ok((mut stream, _)) = listener.accept() else { continue };
            let mut word = [0; 4];
            if stream.read_exact(&mut word).is_ok() {
                return word;
            }
        }
    });
    for _ in 0..50 {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.connect(&address.into()).unwrap();
        socket.set_linger(Some(Duration::ZERO)).unwrap();
        drop(socket);
    }
    TcpStream::connect(address).unwrap().write_all(b"good").unwrap();
    assert_eq!(&server.join().unwrap(), b"good");
}

#[test]
fn a_reset_ends_a_read() {
    let _dog = watchdog();
    by_both(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.connect(&listener.local_addr().unwrap().into()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let reader = spawn(move || stream.read(&mut [0]).unwrap_err().kind());
        socket.set_linger(Some(Duration::ZERO)).unwrap();
        drop(socket);
        assert_eq!(reader.join().unwrap(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_refusal_is_an_error() {
    let _dog = watchdog();
    by_both(|| {
        let address = {
            let taken = TcpListener::bind("127.0.0.1:0").unwrap();
            taken.local_addr().unwrap()
        };
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let long = Duration::from_secs(30);
        let refused = TcpStream::connect_timeout(&address, long).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let never = TcpStream::connect_timeout(&address, Duration::ZERO).unwrap_err();
        assert_eq!(never.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn connecting_to_a_full_listener_times_out() {
    let _dog = watchdog();
    by_both(|| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(0).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let some = Duration::from_millis(50);
        // Nobody accepts, so the backlog is full after a few connections.
        let mut held = Vec::new();
        let error = loop {
            match TcpStream::connect_timeout(&address, some) {
                Ok(stream) => held.push(stream),
                Err(e) => break e,
            }
            assert!(held.len() < 100, "a backlog of none has an end");
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn timeouts_are_obeyed_and_shared_by_clones() {
    let _dog = watchdog();
    by_both(|| {
        let (a, b) = pair();
        let span = Duration::from_millis(20);
        let mut clone = a.try_clone().unwrap();
        a.set_read_timeout(Some(span)).unwrap();
        assert!(clone.read_timeout().unwrap().unwrap() >= span);
        let begun = Instant::now();
        assert_eq!(clone.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() >= span);
        assert_eq!(a.peek(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        a.set_write_timeout(Some(span)).unwrap();
        let full = loop {
            if let Err(e) = clone.write(&[0; 65536]) {
                break e;
            }
        };
        assert_eq!(full.kind(), ErrorKind::TimedOut);
        // The socket is usable afterwards.
        (&b).write_all(b"on").unwrap();
        let mut word = [0; 2];
        assert_eq!(a.peek(&mut word).unwrap(), 2);
        clone.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"on");
        assert_eq!(a.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_deadline_ends_an_accept() {
    let _dog = watchdog();
    by_both(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let soon = Instant::now() + Duration::from_millis(10);
        let late = listener.as_async().read_with_until(soon, std::net::TcpListener::accept).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        assert_eq!(listener.as_async().readable_until(soon).unwrap_err().kind(), ErrorKind::TimedOut);
        let (stream, _other) = pair();
        stream.as_async().writable_until(Instant::now() + Duration::from_secs(30)).unwrap();
        stream.as_async().writable().unwrap();
    });
}

#[test]
fn a_shutdown_ends_a_read() {
    let _dog = watchdog();
    by_both(|| {
        let (a, _b) = pair();
        let a = Arc::new(a);
        let reader = spawn({
            let a = a.clone();
            move || (&*a).read(&mut [0]).unwrap()
        });
        a.shutdown(Shutdown::Both).unwrap();
        assert_eq!(reader.join().unwrap(), 0);
    });
}

#[test]
fn names_are_looked_up() {
    let _dog = watchdog();
    by_both(|| {
        let listener = TcpListener::bind(("localhost", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect(format!("localhost:{port}")).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
        assert_eq!(TcpStream::connect("no address").unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(TcpStream::connect(&[][..]).unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn std_s_sockets_become_these_and_go_back() {
    let _dog = watchdog();
    by_both(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = spawn(move || TcpStream::connect(address).unwrap().write_all(b"once twice").unwrap());
        let listener = TcpListener::try_from(listener).unwrap();
        let mut stream = listener.accept().unwrap().0;
        let mut word = [0; 5];
        stream.read_exact(&mut word).unwrap();
        client.join().unwrap();
        // Blocking again: it would say `WouldBlock` if not all of it were there yet.
        let mut stream = std::net::TcpStream::try_from(stream).unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert_eq!((&word, &*rest), (b"once ", "twice"));
    });
}
