//! A client that writes anything into all that it shares with the server, while honest clients go
//! on.

use crate::hostile::SERVER;
use crate::hostile::client;
use crate::hostile::end::{DONE, End, gone, out_of_band, payload_file, procedure};
use crate::hostile::honest::{TURNS, compare};
use crate::hostile::liar::{Liar, Numbers, USED, mutations};
use std::time::Duration;
use underpass_tests::{CallersProcess, Probe, ProbeClient, Room, ServerProcess, Watchdog, fds_of, until};
use underpass_wire::to_bytes;

/// Keeps a binding while it `lasts`. As often as a [`Liar`] acts, it does what a client may do:
/// calls with a few bytes, with bytes in the A-stack and with a file, and doorbells. It never
/// waits.
fn keep(end: &End, numbers: &mut Numbers, lasts: &dyn Fn() -> bool) {
    let of_some = to_bytes(&[7u8; 100][..]);
    let mut free: Vec<_> = (0..USED as u16).collect();
    while lasts() {
        match numbers.below(64) {
            28 => drop(end.channel.donate(numbers.below(4))),
            29 => end.channel.wake_peer(),
            30 => drop(end.channel.wake_spare()),
            36..42 => {
                assert!(!gone(&end.socket), "an honest client is kept");
                while let Some(reply) = end.take() {
                    assert_eq!(reply.what(), DONE, "an honest client is answered");
                    free.push(reply.slot());
                }
            }
            42.. => {
                let Some(slot) = free.pop() else { continue };
                match numbers.below(11) {
                    0..7 => end.post_bytes(slot, procedure("add"), &[1, 2]),
                    7..9 => end.post_bytes(slot, procedure("echo"), &of_some),
                    _ => {
                        end.pass(slot, of_some.len() as u64, payload_file(&of_some).as_fd());
                        end.post(&out_of_band(slot, procedure("count")));
                    }
                }
            }
            _ => {}
        }
    }
}

#[test]
fn honest_clients_are_served_while_another_writes_at_random() {
    let limit = Duration::from_secs(if underpass_tests::long() { 3600 } else { 120 });
    let _watchdog = Watchdog::within("honest_clients_are_served_while_another_writes_at_random", limit);
    let server = ServerProcess::start(SERVER, &Room::name("random"), "probe");
    let mut honest = CallersProcess::start(SERVER, server.name());
    let files = fds_of(server.pid());
    let harmless = ["null", "add", "echo", "everything", "shapes", "refuse", "count", "pid"].map(procedure);
    let procedures: Vec<_> = harmless.into_iter().chain([1000, u16::MAX]).collect();
    let (mut numbers, mut others) = (Numbers(0x5eed), Numbers(0x7eed));
    let (mut bindings, mut done) = (0, 0);
    let lie = || {
        let (already, enough) = (bindings, done + mutations() / TURNS);
        // On a busy machine the server finds damage late. The liar goes on until the server has
        // closed some bindings.
        while done < enough || bindings <= already + 10 {
            let mut liar = Liar::new(client::import(server.name()), &mut numbers, &procedures, false);
            bindings += 1;
            for n in 1.. {
                liar.mutate();
                done += 1;
                if n % 8 == 0 && (liar.hear() || done >= enough && bindings > already + 10) {
                    break;
                }
            }
            liar.ends();
        }
        bindings - already
    };
    let compared = compare(
        |meanwhile| honest.beside(meanwhile),
        lie,
        |turn| turn.spend(|lasts| keep(&client::import(server.name()), &mut others, lasts)),
    );
    compared.assert_served(&format!("a lying client: {done} mutations over {bindings} bindings"));
    let still = ProbeClient::import(server.name()).unwrap();
    assert_eq!(still.pid(), Ok(server.pid()), "the server's process lives");
    drop(still);
    until("the server to let go", || (fds_of(server.pid()) <= files).then_some(()));
    assert!(honest.leave());
}
