//! Values as JSON: arguments and results of methods whose traits this program does not have.
//!
//! *Decides:* what each type of a description looks like in JSON. *Must not know:* calls, bindings.
//!
//! *Read first:* [`shape`], then [`encode`] and [`decode`], which are each other's inverse.
//!
//! | type | JSON |
//! |---|---|
//! | integers | a number, or a string of digits; beyond 64 bits a string comes back |
//! | floats | a number, or `"NaN"`, `"inf"`, `"-inf"` |
//! | `bool`, `char`, `String`, paths, addresses | as one would write them |
//! | `Vec<u8>`, `Sealed` | `{"text": ..}`, `{"base64": ..}`, `{"file": PATH}`, a string, or numbers |
//! | `Option` | `null`, or the value; inside another `Option` it is `{"some": ..}` |
//! | `Result` | `{"ok": ..}`, `{"err": ..}` |
//! | structs | an object; without names an array; with one field the field itself |
//! | enums | `"Name"`, or `{"Name": fields}` |
//! | maps | an object if the keys are text or numbers, else pairs |
//! | `Duration`, `SystemTime` | `{"secs": .., "nanos": ..}`, or a number of seconds |
//! | open files | a path, or `{"path": .., "mode": "r"}`; a result is saved or left out |
//! | streams | `"-"` or `{"lines": PATH}`, or an array of items; a result comes as lines |

mod buffers;
mod decode;
mod encode;
mod feed;
mod mismatch;
mod saved_files;
mod scalars;
mod shape;

pub use decode::{Decoder, UntypedStream};
pub use encode::Encoder;
pub use mismatch::Mismatch;
pub use saved_files::{MOST_SAVED, SavedFiles};
pub use shape::{Catalog, JsonShape};

/// The deepest nesting of a value that is sent or shown. A server may describe a type that contains
/// itself, and a value of it may never end.
const DEEPEST: u32 = 128;
