//! What `#[underpass::object]` generates code for: the two ends of an object whose operations say
//! how they run.
//!
//! | file | what it is |
//! |---|---|
//! | `home.rs` | the home: its services, and operations that run there |
//! | `bound.rs` | the other end: its object, its choices, and its home's address |
//! | `either.rs` | one operation that runs here or there |
//! | `words.rs` | arguments and results at interrupt level |

mod bound;
mod either;
mod errors;
mod home;
mod words;

pub use bound::BoundObject;
#[doc(hidden)] // For generated code.
pub use either::EitherPlan;
pub use errors::{ObjectBindError, OperationError};
#[doc(hidden)] // For generated code.
pub use home::HomeOperations;
pub use home::{ObjectServices, OperatedHome};
#[doc(hidden)] // For generated code.
pub use words::{OperandReader, OperandWriter};
