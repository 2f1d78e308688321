//! A client that writes whatever it likes into all that it shares with the server, while honest ones go on.

use crate::SERVER;
use crate::client::{self, procedure};
use crate::end::{End, announcement, blob, gone};
use std::sync::atomic::{AtomicBool, Ordering};
use underpass_channel::layout::{
    CLIENT_ATTENTION, DONATIONS, LARGEST, SERVER_ATTENTION, SLOTS, STACK, STACKS,
};
use underpass_channel::{Cell, INLINE, Payload, Place, Words};
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog, fds_of, until};

const MUTATIONS: u32 = 100_000;

/// Always the same numbers (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() >> 32) as usize % most
    }

    fn of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }
}

/// A message that may make sense, or nearly.
fn cell(numbers: &mut Numbers, procedures: &[u16]) -> Cell {
    let (stack, random) = (STACK as u32, numbers.next());
    let length = numbers.of(&[0, 1, 2, 4, 48, stack, stack, random as u32 % stack, random as u32 % 48]);
    let mut cell = Cell::new(numbers.below(SLOTS as usize) as u16, numbers.of(procedures));
    cell.place = numbers.of(&[Place::Inline, Place::Inline, Place::Inline, Place::Stack, Place::Blob]);
    cell.length = if cell.place == Place::Inline { length.min(INLINE as u32) } else { length };
    match numbers.below(100) {
        0 => cell.slot = random as u16,
        1 => cell.length = random as u32,
        _ => {}
    }
    for i in 0..Payload::WORDS {
        cell.payload.set_word(i, numbers.next() >> numbers.of(&[0, 32, 56, 63]));
    }
    cell
}

/// Changes something that is shared with the server.
fn mutate(end: &End, numbers: &mut Numbers, procedures: &[u16]) {
    let random = numbers.next();
    // Relaxed: the server must cope with any order.
    match numbers.below(17) {
        // It has spoilt its own bells perhaps: calls the server in some other way.
        16 if numbers.below(2) == 0 => drop(end.channel.donate(numbers.below(4))),
        16 => end.channel.wake_peer(),
        0..3 => end.region.word(numbers.below(STACKS / 8)).store(random, Ordering::Relaxed),
        3..5 => {
            let donation = DONATIONS + 4 * numbers.below(4);
            let word = numbers.of(&[SERVER_ATTENTION, CLIENT_ATTENTION, donation]);
            let value = numbers.of(&[0, 1, 2, 3, 4, 7, random as u32]);
            end.region.attention(word).store(value, Ordering::Relaxed);
        }
        5 => {
            // Not in a message's procedure: some would end the server, as is their purpose.
            let bit = 1 << numbers.below(48);
            end.region.word(numbers.below(STACKS / 8)).fetch_xor(bit, Ordering::Relaxed);
        }
        6..9 => {
            let bytes: Vec<_> = (0..numbers.below(300)).map(|_| numbers.next() as u8).collect();
            end.fill_stack(numbers.below(SLOTS as usize) as u16, &bytes);
        }
        9 => {
            let (slot, file) = (numbers.below(SLOTS as usize) as u16, blob(&random.to_le_bytes()));
            let length = numbers.of(&[0, 1, 8, 8, 8, 9, LARGEST, u64::MAX]);
            let files = [file.as_fd()];
            // A socket that is full, or closed by the server, takes no more.
            let _ = end.socket.send(&announcement(slot, length), &files[..numbers.below(8).min(1)]);
        }
        10 if numbers.below(16) == 0 => {
            let _ = end.socket.send(&random.to_le_bytes().repeat(2)[..numbers.of(&[1, 15, 16, 16])], &[]);
        }
        _ => end.post(&cell(numbers, procedures)),
    }
}

#[test]
fn honest_clients_are_served_while_another_writes_at_random() {
    let _watchdog = Watchdog::new("honest_clients_are_served_while_another_writes_at_random");
    let server = ServerProcess::start(SERVER, &Room::name("random"), "probe");
    let honest: Vec<_> =
        (0..2).map(|_| ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap()).collect();
    honest.iter().for_each(|honest| honest.null().unwrap());
    let files = fds_of(server.pid());
    let harmless = ["null", "add", "echo", "everything", "shapes", "refuse", "count", "pid"].map(procedure);
    let procedures: Vec<_> = harmless.into_iter().chain([1000, u16::MAX]).collect();
    let (over, mut numbers, mut bindings) = (AtomicBool::new(false), Numbers(0x5eed), 1);
    let served: u32 = std::thread::scope(|scope| {
        let callers: Vec<_> = honest.iter().map(|honest| scope.spawn(|| go_on(honest, &over))).collect();
        let mut end = client::import(server.name());
        // On a busy machine the server comes late to what is damaged: it is given more until it has closed some.
        let mut n = 0;
        while n < MUTATIONS || bindings <= 10 {
            n += 1;
            mutate(&end, &mut numbers, &procedures);
            if n % 8 == 0 && gone(&end.socket) {
                end = client::import(server.name());
                bindings += 1;
            }
        }
        over.store(true, Ordering::Relaxed);
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    eprintln!("{bindings} bindings, {served} honest calls meanwhile");
    assert!(served > 0);
    assert!(honest.iter().all(|honest| honest.pid() == Ok(server.pid())), "the server's process lives");
    until("the server to let go", || (fds_of(server.pid()) == files).then_some(()));
}

/// Calls in every size until it is over, and checks each answer; gives the number of calls.
fn go_on(honest: &ProbeClient, over: &AtomicBool) -> u32 {
    let mut calls = 0;
    while !over.load(Ordering::Relaxed) {
        for size in [0, 1, 40, 300, 20_000] {
            let bytes: Vec<u8> = (0..size).map(|i| (i as u32 ^ calls) as u8).collect();
            assert_eq!(honest.echo(&bytes).as_ref(), Ok(&bytes));
            calls += 1;
        }
    }
    calls
}
