//! Looking inside: dumps, deadlocks, stack overflows, and the table for debuggers.

pub(crate) mod deadlock_search;
pub(crate) mod deadlock_watch;
pub(crate) mod debugger_table;
pub(crate) mod dump;
pub(crate) mod dump_on_quit;
pub(crate) mod interrupt;
pub(crate) mod monitor_findings;
pub(crate) mod query;
pub(crate) mod report;
pub(crate) mod show;
pub(crate) mod stack_overflow;
pub(crate) mod std_guards;
pub(crate) mod trace;
