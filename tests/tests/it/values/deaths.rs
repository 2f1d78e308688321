//! Deaths at the steps by which interfaces are made, passed and released. A build with
//! `RUSTFLAGS="--cfg underpass_failpoints"` has these steps. In others the test kills a process
//! after some calls.

use crate::values::ends::own_vault;
use crate::values::{SERVER, given_to, vault_with_env};
use std::process::{Child, Command, Stdio};
use underpass_os::failpoint::STEPS;
use underpass_tests::{Safe, Vault, VaultClient, Watchdog, churn, kill, until};

/// The steps, each with the number of its pass; or numbers of transactions.
fn moments() -> Vec<(&'static str, u64)> {
    match cfg!(underpass_failpoints) {
        true => {
            let steps = STEPS.iter().filter(|step| step.starts_with("interface-"));
            steps.flat_map(|step| [(*step, 1), (*step, 7)]).collect()
        }
        false => (0..12).map(|n| ("", 1 + 7 * n)).collect(),
    }
}

fn point((step, pass): (&str, u64)) -> String {
    format!("{step}:{pass}")
}

/// A client process that passes interfaces until it dies.
fn churning(name: &str, moment: (&str, u64)) -> Child {
    let mut command = Command::new(SERVER);
    if !moment.0.is_empty() {
        command.env("UNDERPASS_FAILPOINT", point(moment));
    }
    let child = command.args([name, "hold-values"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = child.unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"churn\n").unwrap();
    child
}

/// Waits until the client has died of its step, or has made enough transactions, and kills it.
fn dies(mut client: Child, (step, least): (&str, u64), safe: &Safe) {
    // A step that only servers pass, or that is passed less often.
    let enough = if step.is_empty() { least } else { 300 };
    let begun = safe.begun();
    until("its death", || {
        (client.try_wait().unwrap().is_some() || safe.begun() >= begun + enough).then_some(())
    });
    let _ = client.kill();
    assert!(!client.wait().unwrap().success());
}

#[test]
fn a_server_survives_clients_that_die_while_they_pass_interfaces() {
    let _watchdog = Watchdog::new("a_server_survives_clients_that_die_while_they_pass_interfaces");
    let (running, name, safe) = own_vault("dying-clients");
    for moment in moments() {
        dies(churning(&name, moment), moment, &safe);
        until("its transactions to be dropped", || (safe.live() == 0).then_some(()));
        until("its binding to end", || running.bindings().list().is_empty().then_some(()));
        // What it gave is still held here, and its calls fail.
        let vault = VaultClient::import(&name).unwrap();
        vault.unwatch().unwrap();
    }
    // A client in good health is served.
    let mut last = churning(&name, ("", 0));
    let begun = safe.begun();
    until("calls", || (safe.begun() > begun + 30).then_some(()));
    last.kill().unwrap();
    last.wait().unwrap();
}

#[test]
fn a_client_survives_servers_that_die_while_they_pass_interfaces() {
    let _watchdog = Watchdog::new("a_client_survives_servers_that_die_while_they_pass_interfaces");
    for (number, moment) in moments().into_iter().enumerate() {
        let of = format!("dying-server-{number}");
        let (server, vault) = match moment.0.is_empty() {
            true => vault_with_env(&of, None),
            false => vault_with_env(&of, Some(&point(moment))),
        };
        let Some(vault) = vault else { continue };
        let rounds = std::cell::Cell::new(0);
        let failed = churn(&vault, || {
            rounds.set(rounds.get() + 1);
            let over = rounds.get() > moment.1;
            if over && moment.0.is_empty() {
                kill(server.pid());
            }
            rounds.get() < 100
        });
        // A server that never passes the step goes on.
        assert!(failed.is_err() || !moment.0.is_empty(), "{moment:?}");
        kill(server.pid());
        until("its end to be seen", || vault.get(1).is_err().then_some(()));
        until("what it was given to end", || (given_to(server.pid()) == 0).then_some(()));
    }
}
