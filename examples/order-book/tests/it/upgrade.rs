//! Homes come and go under load: no order is lost, none is executed twice, and no reader sees half
//! of one.

use order_book::{Book, BookClient, Order, Refused, SOON, Side, place, renew};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_order-book");
const TRADERS: u64 = 3;
const ORDERS: u64 = 4_000;
const HOMES: usize = 4;

/// A process, which is killed with this value.
struct Part(Child, BufReader<std::process::ChildStdout>);

impl Part {
    fn start(name: &str, part: &[&str]) -> Self {
        let command = Command::new(PROGRAM).arg(name).args(part).stdout(Stdio::piped()).spawn();
        let mut child = command.expect("a process starts");
        let out = child.stdout.take().expect("it is piped");
        Self(child, BufReader::new(out))
    }

    /// The next line that it says.
    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).expect("it says something");
        line.trim_end().to_owned()
    }

    /// Waits for its end, and returns what it has said since.
    fn finish(mut self) -> String {
        let mut said = String::new();
        self.1.read_to_string(&mut said).expect("it says text");
        assert!(self.0.wait().expect("a child can be waited for").success(), "{said}");
        said
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // If it has ended already, that is fine too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends the process if a test hangs.
fn watch() {
    std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_secs(300));
        eprintln!("a test hangs");
        std::process::abort();
    });
}

/// Waits until the book has executed that many orders.
fn until_orders(book: &mut BookClient, orders: u64) {
    while book.access().map_or(0, |version| version.orders()) < orders {
        renew(book).unwrap();
        underpass::thread::yield_now();
    }
}

fn name(of: &str) -> String {
    format!("order-book-test-{}-{of}", std::process::id())
}

#[test]
fn every_order_is_executed_once_while_homes_come_and_go() {
    watch();
    let name = name("upgrade");
    let mut homes = vec![Part::start(&name, &["home"])];
    assert_eq!(homes[0].hear(), "serves");
    let orders = ORDERS.to_string();
    let traders: Vec<_> =
        (0..TRADERS).map(|trader| Part::start(&name, &["trader", &trader.to_string(), &orders])).collect();
    let readers = [Part::start(&name, &["reader"]), Part::start(&name, &["reader"])];
    let mut book = BookClient::import_within(&name, SOON).unwrap();
    for successor in 1..HOMES as u64 {
        // The traders are at work, and have orders left.
        until_orders(&mut book, successor * TRADERS * ORDERS / (2 * HOMES as u64));
        // One that goes again, wherever it is.
        drop(Part::start(&name, &["reader"]));
        let mut successor = Part::start(&name, &["successor"]);
        assert_eq!(successor.hear(), "serves");
        homes.push(successor);
    }
    for trader in traders {
        assert!(trader.finish().contains("has placed"));
    }
    // Of the last home, which all names lead to by now.
    let mut book = BookClient::import_within(&name, SOON).unwrap();
    while book.halt(true).is_err() {
        renew(&mut book).unwrap();
    }
    let version = book.access().unwrap();
    assert!(version.is_consistent() && version.is_halted());
    assert_eq!(version.orders(), TRADERS * ORDERS);
    let told = format!("has seen {} orders", TRADERS * ORDERS);
    for reader in readers {
        assert!(reader.finish().contains(&told));
    }
    let last = homes.pop();
    homes.into_iter().for_each(|home| drop(home.finish()));
    drop(last);
}

#[test]
fn a_home_that_is_killed_leaves_its_last_version_to_readers() {
    watch();
    let name = name("killed");
    let mut home = Part::start(&name, &["home"]);
    assert_eq!(home.hear(), "serves");
    let mut book = BookClient::import_within(&name, SOON).unwrap();
    let order = Order { trader: 7, number: 1, side: Side::Sell, price: 30, amount: 5 };
    assert_eq!(place(&mut book, order).unwrap(), 0);
    assert_eq!(place(&mut book, order).unwrap(), 0, "it is executed once");
    drop(home);
    let last = loop {
        if let Err(e) = book.access() {
            break e.last().expect("the home is dead");
        }
        underpass::thread::yield_now();
    };
    assert_eq!((last.orders(), last.depth(Side::Sell, 0)), (1, 5));
}

#[test]
fn the_best_price_is_taken_first() {
    let mut book = Book::empty();
    let mut number = 0;
    let mut order = |side, price, amount| {
        number += 1;
        let done = book.place(Order { trader: 1, number, side, price, amount });
        assert!(book.is_consistent());
        (done, book.best())
    };
    assert_eq!(order(Side::Sell, 30, 5), (Ok(0), None));
    assert_eq!(order(Side::Sell, 28, 2), (Ok(0), None));
    assert_eq!(order(Side::Buy, 27, 4), (Ok(0), Some((27, 28))));
    assert_eq!(order(Side::Buy, 30, 3), (Ok(3), Some((27, 30))));
    assert_eq!(order(Side::Sell, 20, 6), (Ok(4), None));
    assert_eq!(order(Side::Buy, 64, 1).0, Err(Refused::Unknown));
    assert_eq!((book.depth(Side::Sell, 0), book.depth(Side::Sell, 63), book.traded()), (2, 6, 7));
    book.halt(true);
    let order = Order { trader: 1, number: 9, side: Side::Buy, price: 1, amount: 1 };
    assert_eq!(book.place(order), Err(Refused::Halted));
    book.hand_over();
    assert_eq!(book.place(order), Err(Refused::Moved));
}
