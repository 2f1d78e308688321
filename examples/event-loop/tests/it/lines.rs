//! The example: one loop answers many clients, and another process has the answers.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

/// The example's two processes. The oracle ends with the loop.
struct Example(Child);

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_example_answers() {
    let directory = std::env::temp_dir().join(format!("underpass-event-loop-{}", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_event-loop"));
    let child = command.env("UNDERPASS_DIR", &directory).stdout(Stdio::piped()).spawn().unwrap();
    let mut example = Example(child);
    let mut line = String::new();
    BufReader::new(example.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address: SocketAddr = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(ask(address, "one line"), "ONE LINE");
    assert!(example.0.wait().unwrap().success(), "it ends with its client");
    std::fs::remove_dir_all(directory).unwrap();
}

fn ask(address: SocketAddr, line: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    writeln!(socket, "{line}").unwrap();
    let mut answer = String::new();
    BufReader::new(socket).read_line(&mut answer).unwrap();
    answer.trim_end().to_owned()
}

#[test]
fn many_clients_are_answered_by_one_thread() {
    use event_loop::{EventLoop, Loud, OracleClient};
    // The implementation is in this process: its calls end at once.
    let event_loop = EventLoop::new(OracleClient::new(Loud)).unwrap();
    let address = event_loop.address().unwrap();
    let clients: Vec<_> = (0..20)
        .map(|n| thread::spawn(move || assert_eq!(ask(address, &format!("line {n}")), format!("LINE {n}"))))
        .collect();
    event_loop.run(20).unwrap();
    clients.into_iter().for_each(|client| client.join().unwrap());
}
