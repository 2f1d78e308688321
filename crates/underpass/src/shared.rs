//! Memory that several domains share, with locks and conditions that are one object for the threads
//! of all of them (OThreads, section 5.2).
//!
//! A [`Region`] has a name, as an interface has. The domains that import it use its [`Mutex`],
//! [`Condvar`], [`Semaphore`], [`Barrier`] and [`RwLock`] as threads of one process use those of
//! [`sync`](crate::sync). If a domain dies, the next owner of its locks is told.
//!
//! # Examples
//! ```
//! use underpass::shared::{Condvar, Mutex, Region};
//!
//! #[derive(Clone, Copy, Debug, PartialEq, underpass::Shareable)]
//! #[repr(C)]
//! struct Quote {
//!     price: u64,
//!     sequence: u64,
//! }
//!
//! #[derive(underpass::RegionLayout)]
//! struct Board {
//!     quotes: [Mutex<Quote>; 8],
//!     changed: Condvar,
//! }
//!
//! # let dir = std::env::temp_dir().join(format!("underpass-doc-shared-{}", std::process::id()));
//! # // SAFETY: no other thread has been started yet.
//! # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
//! // One domain exports the board; others import it by its name.
//! let board = Region::<Board>::export("board", |_| ())?;
//! let quote = Quote { price: 10_150, sequence: 1 };
//! board.quotes[3].lock().map_err(|e| e.to_string())?.set(quote);
//! board.changed.notify_all();
//! assert_eq!(board.quotes[3].lock().map_err(|e| e.to_string())?.get(), Ok(quote));
//! # drop(board);
//! # std::fs::remove_dir(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use underpass_shared::*;
