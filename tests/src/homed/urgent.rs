//! A home that is interrupted, and a requester that lies.

use crate::raw;
use crate::{Done, SOON, say};
use std::io::{BufRead, stdin};
use std::time::Duration;
use underpass::Server;
use underpass::homed::invoke::{HomeInvoker, InvocationHandlers, MaskedInterrupts};
use underpass_tests::{ADD, Numbers, PANIC};

/// Shorter than a wait that would fail a test.
const SHORT: Duration = Duration::from_millis(2);

pub fn home(name: &str, role: &str, masked: MaskedInterrupts) -> Done {
    let mut total = 0_u64;
    let (services, home) = InvocationHandlers::new()
        .while_masked(masked)
        .on(ADD, move |[more, ..]| {
            total = total.wrapping_add(more);
            [total, more, 0, 0, 0, 0]
        })
        .on(PANIC, |_| std::panic::resume_unwind(Box::new("on purpose")))
        .start();
    let running = services.export(Server::new(), name).start()?;
    say(role)?;
    let mut section = None;
    for order in stdin().lock().lines() {
        let order = order?;
        let mut words = order.split(' ');
        match words.next().unwrap_or_default() {
            "mask" => {
                section = Some(home.mask());
                say("masked")?;
            }
            "unmask" => {
                drop(section.take());
                say("unmasked")?;
            }
            "handled" => say(home.handled())?,
            "spoil" => {
                let mut number = || words.next().ok_or("no number");
                let (mut numbers, times) = (Numbers::of(number()?.parse()?), number()?.parse()?);
                say("spoils")?;
                raw::spoil_requests(&mut numbers, times)?;
                say("has spoilt")?;
            }
            _ => return Err("no such order".into()),
        }
    }
    drop(running);
    Ok(())
}

pub fn requester(name: &str) -> Done {
    let invoker = HomeInvoker::connect_within(name, SOON)?;
    say("requester")?;
    for order in stdin().lock().lines() {
        let order = order?;
        let mut words = order.split(' ');
        let (what, mut number) = (words.next(), || words.next().ok_or("no number"));
        match what {
            Some("add") => {
                let times: u64 = number()?.parse()?;
                (0..times).try_for_each(|_| invoker.invoke(ADD, [1; 6], SOON).map(drop))?;
                say("added")?;
            }
            Some("lie") => {
                let mut numbers = Numbers::of(number()?.parse()?);
                say("lies")?;
                for _ in 0..number()?.parse()? {
                    raw::spoil_requests(&mut numbers, 20)?;
                    // It rings.
                    let _ = invoker.invoke(numbers.draw() % 4, [numbers.draw(); 6], SHORT);
                }
                say("has lied")?;
            }
            _ => return Err("no such order".into()),
        }
    }
    Ok(())
}
