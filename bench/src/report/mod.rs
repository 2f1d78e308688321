//! The results: a row for each case, and the table for people.

pub(crate) mod built;
mod recorded;
pub(crate) mod row;
pub(crate) mod table;
pub(crate) mod verdict;
