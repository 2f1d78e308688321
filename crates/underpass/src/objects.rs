//! The attribute of objects with a home, and its example.

/// # Examples
/// The levels of an order book. Its home is one process, and others read it and trade.
///
/// ```standalone_crate
/// use std::process::Command;
/// use std::time::Duration;
/// use underpass::Server;
///
/// #[derive(Clone, Copy, Debug, underpass::Shareable)]
/// #[repr(C)]
/// struct Book {
///     /// The amount that is offered at each price.
///     offers: [u32; 64],
/// }
///
/// #[underpass::object]
/// impl Book {
///     /// The lowest price at which something is offered.
///     #[access]
///     fn best(&self) -> Option<u32> {
///         self.offers.iter().position(|offer| *offer > 0).map(|price| price as u32)
///     }
///
///     /// How much is offered up to `price`.
///     #[either]
///     fn depth(&self, price: u32) -> u32 {
///         self.offers.iter().take(price as usize + 1).sum()
///     }
///
///     /// Offers `amount`, and returns how much is offered at that price.
///     #[invoke]
///     fn offer(&mut self, price: u32, amount: u32) -> Result<u32, String> {
///         let offer = self.offers.get_mut(price as usize).ok_or("there is no such price")?;
///         *offer += amount;
///         Ok(*offer)
///     }
///
///     /// Withdraws all offers.
///     #[invoke(interrupt)]
///     fn halt(&mut self) {
///         self.offers = [0; 64];
///     }
/// }
///
/// const NAME: &str = "doc-book";
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     if std::env::var_os("PART").is_some() {
///         let book = BookClient::import_within(NAME, Duration::from_secs(60))?;
///         assert_eq!(book.offer(20, 5)??, 5);
///         assert_eq!((book.best()?, book.depth(30)?), (Some(20), 5));
///         println!("{}", book.explain()[0]); // depth: access, as (R - 1) n = ...
///         assert!(book.offer(64, 1)?.is_err());
///         book.halt()?;
///         assert_eq!(book.best()?, None);
///         return Ok(());
///     }
/// #   let dir = std::env::temp_dir().join(format!("underpass-doc-book-{}", std::process::id()));
/// #   // SAFETY: no other thread has been started yet.
/// #   unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
///     let (services, home) = BookHome::new(Book { offers: [0; 64] })?;
///     let running = services.export(Server::new(), NAME).start()?;
///     let mut trader = Command::new(std::env::current_exe()?).env("PART", "trader").spawn()?;
///     assert!(trader.wait()?.success());
///     // The first version, and one of each operation that ran at home.
///     assert_eq!(home.newest_version()?.1, 4);
/// #   drop((running, home));
/// #   std::fs::remove_dir_all(dir)?;
///     Ok(())
/// }
/// ```
pub use underpass_macros::object;
