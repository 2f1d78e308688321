//! Sockets, pipes, timers and child processes that block one thread and nothing else, with the
//! names and shapes of [`std::net`] and [`std::process`].
//!
//! For other descriptors, [`Async`] waits for any one that the kernel can poll. Put what it can't
//! poll (files, `getaddrinfo`) into [`thread::blocking`](crate::thread::blocking).
//!
//! # Examples
//! ```
//! use std::io::{Read, Write};
//! use underpass::io::net::{TcpListener, TcpStream};
//! use underpass::thread;
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let place = listener.local_addr()?;
//! let server = thread::spawn(move || {
//!     let (mut stream, _) = listener.accept()?;
//!     let mut word = [0; 5];
//!     stream.read_exact(&mut word)?;
//!     stream.write_all(&word)
//! });
//! let client = thread::spawn(move || {
//!     let mut stream = TcpStream::connect(place)?;
//!     stream.write_all(b"hello")?;
//!     let mut echo = String::new();
//!     stream.read_to_string(&mut echo)?;
//!     Ok::<_, std::io::Error>(echo)
//! });
//! assert_eq!(client.join().unwrap()?, "hello");
//! # server.join().unwrap()?;
//! # Ok::<(), std::io::Error>(())
//! ```

pub use underpass_io::*;
