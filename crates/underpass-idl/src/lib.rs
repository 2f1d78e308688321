//! From a trait to its stubs, descriptor and hash: an ordinary, testable library.
