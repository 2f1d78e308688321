//! What a gRPC client or server can send that follows no rule. Neither side may crash or hang.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use underpass_grpc::fuzz;

#[derive(Debug, Arbitrary)]
enum Sent {
    /// A client's request, as bytes.
    Request(Vec<u8>),
    /// A server's answer, as bytes.
    Answer(Vec<u8>),
    /// A body that goes on.
    Pieces(Vec<u8>, Vec<(u8, Vec<u8>)>),
}

fuzz_target!(|sent: Sent| match sent {
    Sent::Request(bytes) => fuzz::request(&bytes),
    Sent::Answer(bytes) => fuzz::answer(&bytes),
    Sent::Pieces(first, pieces) => fuzz::pieces(first, &pieces),
});
