//! What comes over sockets: hello and answer of the handshake, the messages of a channel's socket,
//! a sandboxed domain's words.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    underpass_rpc::fuzz::messages(bytes);
    underpass_sandbox::fuzz::messages(bytes);
});
