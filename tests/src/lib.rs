//! Whole processes: calls, death and hostility.
