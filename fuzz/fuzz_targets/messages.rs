//! The messages that come over sockets: the hello and the answer of the handshake, the messages of
//! a channel's socket, and those of a sandboxed domain.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    underpass_rpc::fuzz::messages(bytes);
    underpass_sandbox::fuzz::messages(bytes);
});
