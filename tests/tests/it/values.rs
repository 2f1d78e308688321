//! Interfaces as values: transactions, cursors and callbacks.

mod deaths;
mod ends;
mod full_socket;
mod handlers;
mod holder;
mod hostile_clients;
mod hostile_servers;
mod passing;
mod releases;
mod replaced;
mod sinks;
mod transactions;

use underpass_tests::{Room, ServerProcess, VaultClient};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// A process that exports a vault, and an import of it.
fn vault(of: &str) -> (ServerProcess, VaultClient) {
    vault_with(of, "vault", None)
}

/// The same with an `interface` of the test server that takes a number.
fn vault_with(of: &str, interface: &str, number: Option<u32>) -> (ServerProcess, VaultClient) {
    let name = Room::name(of);
    let server = ServerProcess::start_with(SERVER, &name, interface, |command| {
        command.args(number.map(|number| number.to_string()));
    });
    let vault = VaultClient::import_within(&name, ServerProcess::soon()).unwrap();
    (server, vault)
}

/// How many interfaces this process has given to the server with this process id.
fn given_to(pid: u32) -> usize {
    let list = underpass::given_interfaces().list();
    list.iter().filter(|binding| binding.peer().pid() == pid).count()
}

/// A vault whose process dies at `point`, if one is given. It may die before there is a client.
fn vault_with_env(of: &str, point: Option<&str>) -> (ServerProcess, Option<VaultClient>) {
    let name = Room::name(of);
    let server = ServerProcess::start_with(SERVER, &name, "vault", |command| {
        command.envs(point.map(|point| ("UNDERPASS_FAILPOINT", point)));
    });
    let vault = VaultClient::import_within(&name, ServerProcess::soon()).ok();
    (server, vault)
}
