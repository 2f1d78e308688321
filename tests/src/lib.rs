//! The parts that the tests of whole processes share: interfaces, a server for them, and a
//! watchdog.
#![forbid(unsafe_code)]

#[cfg(doctest)]
mod guides;

mod build;
mod callers;
mod captive;
mod commons;
mod crowd;
mod deep;
mod entries;
mod jobs;
mod ledger;
mod locked_pair;
mod lodger;
mod numbers;
mod obedient;
mod office;
mod porter;
mod probe;
mod reception;
mod rows;
mod scales;
mod server;
mod sheet;
mod shelf;
mod slow;
mod store;
mod system;
mod tableau;
mod tight;
mod told;
mod vault;
mod watchdog;
mod withhold;
mod worker;
mod works;

pub use build::{Build, read_all, readable, run_build, shown};
pub use callers::{Callers, CallersProcess, MARKS, call_by_order};
pub use captive::{Captive, CaptiveClient};
pub use commons::{Commons, MemberProcess, Pair, repair};
pub use crowd::{Meeting, crowd};
pub use deep::{Deep, DeepClient, Diver, Nest};
pub use entries::{Entries, Seen};
pub use jobs::{Jobs, JobsAsync, JobsClient};
pub use ledger::{
    Accounts, Forwards, Gate, Ledger, LedgerClient, Porch, PorchClient, Relay, RelayAsync, RelayClient, Way,
    add_from_threads,
};
pub use locked_pair::{count_pair_up, permits_of, repaired};
pub use lodger::{Lodger, LodgerClient, Lodgings};
pub use numbers::Numbers;
pub use obedient::ObedientProcess;
pub use office::{Office, OfficeAsync, OfficeClient, OfficeCounts, Teller, office};
pub use porter::{Hall, Item, Package, Porter, PorterClient};
pub use probe::{Everything, Other, OtherClient, Plain, Probe, ProbeClient, Shape, Subject, Trouble, Unlike};
pub use reception::{
    ANOTHER, PublicRoom, Puppet, Reception, ReceptionClient, Receptionist, SOMEBODY, Who, listen, obey,
};
pub use rows::{Ending, Row, Rows, RowsClient, Summed, Table, Torn};
pub use scales::{Scales, ScalesClient, Weigher};
pub use server::{Room, ServerProcess};
pub use sheet::{ADD, PANIC, Sheet};
pub use shelf::{Board, Shelf, ShelfClient};
pub use slow::{Slow, SlowAsync, SlowClient, Waiting, all, call_slowly, one_thread};
pub use store::{DbId, Memory, Store, StoreClient};
pub use system::{
    Files, cont, fds_of, fds_of_any_table, kernel_threads_of, kib_of, kill, lanes_of, regions_of, signal,
    state_of, stop, switches_of, ticks_of,
};
pub use tableau::{Tableau, TableauClient, TableauHome};
pub use tight::{Gathering, Tight, TightClient, Trying};
pub use vault::{
    Adds, Cursor, CursorClient, PingPong, PingPongClient, Player, Safe, Sink, SinkClient, Transaction,
    TransactionClient, Vault, VaultClient, Watched, churn,
};
pub use watchdog::{Watchdog, long, until};
pub use withhold::withhold;
pub use worker::{Diligent, Log, Worker, WorkerClient};
pub use works::Works;
