//! An order book. One process is its home and matches orders. Other processes trade, or read the
//! book where it lies. They come and go, and so do homes: a successor takes the book over under
//! load.
//!
//! *Decides:* what an order does to the book, and how one home follows another. No order is lost
//! and none is executed twice: a trader numbers its orders, and the book, which moves along,
//! remembers the last number of each trader.
//!
//! *Read first:* `Book::place`, then `succeed`.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Duration;
use underpass::homed::ObjectBindError;
use underpass::{Running, Server, thread};

/// Prices go from 0 to this.
pub const PRICES: usize = 64;
/// Traders have numbers from 0 to this.
pub const TRADERS: usize = 16;

/// How long a home may take to appear.
pub const SOON: Duration = Duration::from_secs(60);
/// How long to wait before asking again while the book moves.
const MOMENT: Duration = Duration::from_millis(1);

/// Which side of the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub enum Side {
    /// Bids.
    Buy,
    /// Offers.
    Sell,
}

/// An order, which its trader has numbered from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub struct Order {
    /// The trader's own number.
    pub trader: u32,
    /// Its number.
    pub number: u64,
    /// What it is.
    pub side: Side,
    /// The worst price.
    pub price: u32,
    /// How much.
    pub amount: u32,
}

/// Why an order was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub enum Refused {
    /// There is no such trader or price.
    Unknown,
    /// Trading is halted.
    Halted,
    /// The book moves to another home. *Remedy:* import it again.
    Moved,
}

/// The book: the amounts at each price, and what has made them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Shareable)]
#[repr(C)]
pub struct Book {
    bids: [u32; PRICES],
    offers: [u32; PRICES],
    /// The number of the last order of each trader.
    last: [u64; TRADERS],
    orders: u64,
    placed: u64,
    traded: u64,
    is_halted: bool,
    has_moved: bool,
    rest: [u8; 6],
}

impl Book {
    /// A book without orders.
    pub fn empty() -> Self {
        Self {
            bids: [0; PRICES],
            offers: [0; PRICES],
            last: [0; TRADERS],
            orders: 0,
            placed: 0,
            traded: 0,
            is_halted: false,
            has_moved: false,
            rest: [0; 6],
        }
    }

    /// How many orders it has executed.
    pub fn orders(&self) -> u64 {
        self.orders
    }

    /// How much was traded.
    pub fn traded(&self) -> u64 {
        self.traded
    }

    /// Whether trading is halted.
    pub fn is_halted(&self) -> bool {
        self.is_halted
    }

    /// Whether it is a book: nobody offers for less than another one bids, and what was placed is
    /// there or was traded.
    pub fn is_consistent(&self) -> bool {
        let there: u64 = self.bids.iter().chain(&self.offers).map(|amount| u64::from(*amount)).sum();
        let crossed = self.best().is_some_and(|(bid, offer)| bid >= offer);
        self.placed == there + 2 * self.traded && !crossed
    }
}

#[underpass::object]
impl Book {
    /// The best bid and the best offer, if there are both. It is read where the book lies.
    #[access]
    pub fn best(&self) -> Option<(u32, u32)> {
        let bid = self.bids.iter().rposition(|amount| *amount > 0)?;
        let offer = self.offers.iter().position(|amount| *amount > 0)?;
        Some((bid as u32, offer as u32))
    }

    /// How much is there on one side, within so many prices of the best one. It runs where that is
    /// cheaper.
    #[either]
    pub fn depth(&self, side: Side, prices: u32) -> u64 {
        let best = match side {
            Side::Buy => self.bids.iter().rposition(|amount| *amount > 0),
            Side::Sell => self.offers.iter().position(|amount| *amount > 0),
        };
        let Some(best) = best else { return 0 };
        let prices = prices as usize;
        let amounts = match side {
            Side::Buy => &self.bids[best.saturating_sub(prices)..=best],
            Side::Sell => &self.offers[best..(best + prices + 1).min(PRICES)],
        };
        amounts.iter().map(|amount| u64::from(*amount)).sum()
    }

    /// Executes an order, and returns how much of it was traded at once. One that was executed
    /// already is not executed again.
    ///
    /// # Errors
    /// [`Refused`]: why the book does not take the order.
    #[invoke]
    pub fn place(&mut self, order: Order) -> Result<u32, Refused> {
        let Order { trader, number, side, price, amount } = order;
        let (trader, price) = (trader as usize, price as usize);
        if self.has_moved {
            return Err(Refused::Moved);
        }
        let last = self.last.get_mut(trader).filter(|_| price < PRICES).ok_or(Refused::Unknown)?;
        if number <= *last {
            return Ok(0);
        }
        if self.is_halted {
            return Err(Refused::Halted);
        }
        *last = number;
        let (own, mut others) = match side {
            Side::Buy => (&mut self.bids, self.offers[..=price].iter_mut().collect::<Vec<_>>()),
            Side::Sell => (&mut self.offers, self.bids[price..].iter_mut().rev().collect()),
        };
        let mut left = amount;
        for other in &mut others {
            let taken = left.min(**other);
            **other -= taken;
            left -= taken;
        }
        own[price] += left;
        self.orders += 1;
        self.placed += u64::from(amount);
        self.traded += u64::from(amount - left);
        Ok(amount - left)
    }

    /// Halts trading, or lets it go on. It does not wait for the orders that are under way.
    #[invoke(interrupt)]
    pub fn halt(&mut self, halt: bool) {
        self.is_halted = halt;
    }

    /// A successor takes the book over: from now on this home executes no order. The version that
    /// is published now is its last.
    #[invoke]
    pub fn hand_over(&mut self) {
        self.has_moved = true;
    }
}

/// The first home of the book `name`.
///
/// # Errors
/// Each names its remedy.
pub fn open(name: &str) -> Result<(Running, BookHome), Box<dyn Error>> {
    let (services, home) = BookHome::new(Book::empty())?;
    Ok((services.export(Server::new(), name).start()?, home))
}

/// Takes the book `name` over from its present home, which goes on serving readers until this one
/// has its name.
///
/// # Errors
/// Each names its remedy. If this process dies in the middle, the old home executes no orders until
/// another successor comes.
pub fn succeed(name: &str) -> Result<(Running, BookHome), Box<dyn Error>> {
    let present = BookClient::import_within(name, SOON)?;
    present.hand_over()?;
    // The last version is readable even if the old home dies now.
    let mut book = match present.access() {
        Ok(version) => version.value,
        Err(e) => e.last().ok_or("the right to the book was revoked")?.value,
    };
    book.has_moved = false;
    let (services, home) = BookHome::new(book)?;
    Ok((services.export(Server::new().replace(), name).start()?, home))
}

/// Serves the book until a successor has taken it over.
pub fn serve((running, home): (Running, BookHome)) {
    running.until_replaced();
    running.shutdown(SOON);
    // Now readers learn that there is a new home.
    drop(home);
}

/// Executes an order exactly once, whatever homes come and go meanwhile.
///
/// # Errors
/// No home comes, or trading is refused for another reason than that the book moves.
pub fn place(book: &mut BookClient, order: Order) -> Result<u32, Box<dyn Error>> {
    loop {
        match book.place(order) {
            Ok(Ok(traded)) => return Ok(traded),
            Ok(Err(Refused::Moved | Refused::Halted)) => thread::sleep(MOMENT),
            Ok(Err(why @ Refused::Unknown)) => return Err(format!("the order is refused: {why:?}").into()),
            // Whether it was executed is open. The book knows its number.
            Err(_) => thread::sleep(MOMENT),
        }
        renew(book)?;
    }
}

/// Goes to the next home, if the book has one or will have.
///
/// # Errors
/// As of [`ObjectBindError`].
pub fn renew(book: &mut BookClient) -> Result<(), ObjectBindError> {
    book.renew_within(SOON)
}
