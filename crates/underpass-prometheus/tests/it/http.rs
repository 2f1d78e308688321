//! What an HTTP client gets.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;
use underpass_harness::alone;
use underpass_prometheus::{CONTENT_TYPE, http};

/// Sends a request, and returns all that comes.
fn ask(mut stream: impl Read + Write, request: &str) -> String {
    write!(stream, "{request} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_are_told_over_tcp_and_over_a_unix_socket() {
    alone!();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap();
    http::listen(listener).unwrap();
    let connect = || {
        let stream = TcpStream::connect(port).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    };
    // A client that says nothing holds up no other.
    let _silent = connect();
    let answer = ask(connect(), "GET /metrics");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(CONTENT_TYPE), "{answer}");
    assert!(answer.contains("# TYPE underpass_calls_total counter"), "{answer}");
    assert!(ask(connect(), "GET /").starts_with("HTTP/1.1 404"));
    assert!(ask(connect(), "DELETE /metrics").starts_with("HTTP/1.1 405"));
    let garbage = ask(connect(), "\u{0}\u{1}");
    assert!(garbage.starts_with("HTTP/1.1 400"), "{garbage}");

    let path = std::env::temp_dir().join(format!("underpass-scrape-{}", std::process::id()));
    http::listen(UnixListener::bind(&path).unwrap()).unwrap();
    let stream = UnixStream::connect(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(ask(stream, "GET /metrics").starts_with("HTTP/1.1 200"));
}
