//! Objects with a home: other domains read them where they lie, and ask their home for changes
//! (Psyche, sections 2 and 3).
//!
//! | | [`shared::Region`](crate::shared::Region) | an object with a home |
//! |---|---|---|
//! | is changed by | each member, under a lock | its home alone |
//! | can be spoilt by | each member | its home alone |
//! | a reader | takes a lock, and may wait | copies a whole version, and waits for nobody |
//! | ends with | its exporter | its home; the last version stays readable |
//!
//! [`object`](crate::object) makes both ends of an object out of one `impl`. Its operations say
//! how they run: here, at home, or where it is cheaper.
//!
//! # Examples
//! See [`object`](crate::object), and [`ObjectHome`] for the parts by themselves.

pub use underpass_homed::*;
