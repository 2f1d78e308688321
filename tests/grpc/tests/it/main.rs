//! gRPC over Underpass: services, ends, deaths, other machines.

mod cancel;
mod death;
mod interop;
mod many;
mod remote;
mod remote_credits;
mod remote_death;
mod remote_hostile;
mod remote_streams;
mod remote_tls;
mod services;
mod small_messages;
