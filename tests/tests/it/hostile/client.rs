//! A hand-made client.

use crate::hostile::end::{End, HEAD};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use underpass_channel::layout::STACK;
use underpass_channel::{Channel, Fence, Region};
use underpass_os::{Directory, Socket, clock};
use underpass_tests::ProbeClient;
use underpass_wire::{from_bytes, to_bytes};

/// The first message of a client.
pub fn hello() -> Vec<u8> {
    hello_at(clock::ahead_ns(), clock::now_ns())
}

/// As [`hello`], with a clock that is `ahead_ns` ahead of the system's and shows `now_ns`.
pub fn hello_at(ahead_ns: i64, now_ns: u64) -> Vec<u8> {
    to_bytes(&(
        HEAD,
        ProbeClient::descriptor().hashes(),
        (false, None::<u32>, false),
        (ahead_ns, now_ns),
        Vec::<u128>::new(),
    ))
}

/// A hello that shows these secrets. `barriers`: whether barriers reach the client, as it says.
pub fn hello_of(secrets: &[u128], barriers: bool) -> Vec<u8> {
    let (clock, capabilities) = ((clock::ahead_ns(), clock::now_ns()), (barriers, None::<u32>, false));
    to_bytes(&(HEAD, ProbeClient::descriptor().hashes(), capabilities, clock, secrets.to_vec()))
}

pub fn connect(name: &str) -> Socket {
    Socket::connect(&Directory::from_environment(), name).unwrap()
}

/// The server's answer to `said`, and the files that come along. `None` if it hangs up instead.
pub fn answer(socket: &Socket, said: &[u8]) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
    socket.send(said, &[]).ok()?;
    socket.wait(u64::MAX / 2).unwrap();
    let mut buffer = vec![0; 64 * 1024];
    let received = socket.receive(&mut buffer).ok().filter(|received| received.len > 0)?;
    buffer.truncate(received.len);
    Some((buffer, received.files))
}

/// A hand-made binding.
pub fn import(name: &str) -> End {
    import_by(name, &hello()).0
}

/// As [`import`], for a client that says `hello`. Returns the welcome as well.
pub fn import_by(name: &str, hello: &[u8]) -> (End, Vec<u8>) {
    let socket = connect(name);
    let (said, files) = answer(&socket, hello).expect("an honest server welcomes an honest hello");
    let (head, kind): (_, u8) = from_bytes(&said[..17]).unwrap();
    assert_eq!((head, kind, files.len()), (HEAD, 0, 1));
    let channel = Channel::adopt(files[0].as_fd(), Fence::Full, STACK).unwrap();
    let region = Arc::new(Region::adopt(files[0].as_fd(), STACK).unwrap());
    (End { socket, number: 0, channel, region }, said)
}
