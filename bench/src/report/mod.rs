//! The results: a row for each case, their summary, the table for people, and the machine.

pub(crate) mod machine;
mod recorded;
pub(crate) mod row;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod verdict;
