//! The procedural macros of Underpass: a thin shell over underpass-idl.
