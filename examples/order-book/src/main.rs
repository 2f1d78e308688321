//! Trades, reads, and replaces the home of an order book meanwhile: `cargo run -p order-book`.
//!
//! The same program plays each part in a process of its own:
//!
//! ```text
//! order-book NAME home            the first home
//! order-book NAME successor       takes the book over
//! order-book NAME trader T N      places N orders as trader T
//! order-book NAME reader          reads until trading is halted
//! ```

#![forbid(unsafe_code)]

use order_book::{Book, BookClient, Order, SOON, Side, open, place, renew, serve, succeed};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use underpass::homed::{HomedError, ObjectVersion};
use underpass::thread;

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Done {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => show(),
        [name, "home"] => serving(open(name)?),
        [name, "successor"] => serving(succeed(name)?),
        [name, "trader", trader, orders] => trade(name, trader.parse()?, orders.parse()?),
        [name, "reader"] => read(name),
        _ => {
            Err("say nothing; or a name, and `home`, `successor`, `trader` with two numbers, or `reader`"
                .into())
        }
    }
}

fn serving(book: (underpass::Running, order_book::BookHome)) -> Done {
    say("serves")?;
    serve(book);
    Ok(())
}

fn say(what: &str) -> Done {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}")?;
    Ok(out.flush()?)
}

/// Places orders near the middle, on both sides.
fn trade(name: &str, trader: u32, orders: u64) -> Done {
    let mut book = BookClient::import_within(name, SOON)?;
    let mut random = u64::from(trader) + 1;
    for number in 1..=orders {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let side = if random >> 63 == 0 { Side::Buy } else { Side::Sell };
        let (price, amount) = (24 + (random >> 40) as u32 % 16, 1 + (random >> 50) as u32 % 9);
        place(&mut book, Order { trader, number, side, price, amount })?;
    }
    say(&format!("trader {trader} has placed {orders} orders"))
}

/// Reads whole versions until trading is halted, over as many homes as there are.
fn read(name: &str) -> Done {
    let mut book = BookClient::import_within(name, SOON)?;
    let (mut reads, mut homes, mut last): (u64, u64, Option<ObjectVersion<Book>>) = (0, 1, None);
    loop {
        let (version, is_over) = match book.access() {
            Ok(version) => (version, false),
            Err(HomedError::HomeDied(last)) => (*last, true),
            Err(HomedError::Overtaken) => continue,
            Err(e) => return Err(e.to_string().into()),
        };
        if !version.is_consistent() {
            return Err("a reader has seen half an order".into());
        }
        if last.is_some_and(|last| last.orders() > version.orders()) {
            return Err("an order was lost".into());
        }
        last = Some(version);
        // If the home dies in between, the next look finds that.
        let _ = (book.best(), book.depth(Side::Buy, 4));
        reads += 1;
        if is_over {
            renew(&mut book)?;
            homes += 1;
        }
        if version.is_halted() {
            return say(&format!(
                "a reader has seen {} orders by {homes} homes, in {reads} reads",
                version.orders()
            ));
        }
        thread::yield_now();
    }
}

/// Starts this program once more.
fn start(name: &str, part: &[&str]) -> Done<Child> {
    Ok(Command::new(std::env::current_exe()?).arg(name).args(part).spawn()?)
}

/// Starts a home, and waits until it serves.
fn start_home(name: &str, part: &str) -> Done<Child> {
    let program = std::env::current_exe()?;
    let mut home = Command::new(program).args([name, part]).stdout(Stdio::piped()).spawn()?;
    let said = home.stdout.take().ok_or("it is piped")?;
    BufReader::new(said).read_line(&mut String::new())?;
    Ok(home)
}

fn finish(mut child: Child) -> Done {
    match child.wait()? {
        status if status.success() => Ok(()),
        status => Err(format!("a process ended with {status}").into()),
    }
}

/// Two traders, three readers, and three homes one after another.
fn show() -> Done {
    const ORDERS: &str = "20000";
    let name = format!("order-book-{}", std::process::id());
    let mut homes = vec![start_home(&name, "home")?];
    let traders = [start(&name, &["trader", "0", ORDERS])?, start(&name, &["trader", "1", ORDERS])?];
    let readers = [start(&name, &["reader"])?, start(&name, &["reader"])?, start(&name, &["reader"])?];
    for _ in 0..2 {
        thread::sleep(Duration::from_millis(50));
        homes.push(start_home(&name, "successor")?);
    }
    traders.into_iter().try_for_each(finish)?;
    let mut book = BookClient::import_within(&name, SOON)?;
    for told in book.explain() {
        println!("{told}");
    }
    while book.halt(true).is_err() {
        renew(&mut book)?;
    }
    readers.into_iter().try_for_each(finish)?;
    println!("{} were traded", book.access().map_err(|e| e.to_string())?.traded());
    // The last home has no successor.
    let mut last = homes.pop().ok_or("there is a home")?;
    homes.into_iter().try_for_each(finish)?;
    last.kill()?;
    last.wait()?;
    Ok(())
}
