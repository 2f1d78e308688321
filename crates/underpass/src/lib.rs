//! Move a trait's implementation into another process and keep calling it like a function.
