//! Tests of whole processes: calls, death and hostility; and the rules of the house (`layers`).
//!
//! All of them are one executable. A test that counts or changes what belongs to its process begins
//! with `alone!()`.

mod abandoned;
mod astacks;
mod async_ports;
mod asynchronous;
mod bindings;
mod blocked;
mod calls;
mod cancelled;
mod channels;
mod computing;
mod connections;
mod copies;
mod death;
mod donation;
mod estacks;
mod exclusive;
mod exports;
mod fair;
mod faults;
mod files;
mod homed_hostile;
mod homed_invoke;
mod homed_locks;
mod homed_objects;
mod homed_operations;
mod hostile;
mod hostile_ports;
mod hostile_server;
mod idle;
mod imports;
mod kernel;
mod kernel_ports;
mod large;
mod layers;
mod limits;
mod many_stacks;
mod node;
mod resilient;
mod restarts;
mod sandbox;
mod scale;
mod services;
mod shared_deaths;
mod shared_hostile;
mod shared_regions;
mod signals;
mod stacks;
mod streams;
mod sync_ports;
mod termination;
mod types;
mod values;
mod versions;
