//! The services that both sides open.

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::request_response::PortFactory;
use std::path::Path;
use underpass_rpc_peer::Outcome;

/// A service whose requests and answers are bytes. A request's header is the number of the client,
/// by which the server finds the event that wakes it.
pub(crate) type Calls = PortFactory<ipc::Service, [u8], u64, [u8], ()>;

/// The bytes of the largest request and answer. A port whose memory grows instead would have room
/// in each connection for all blocks of 255 segments: hundreds of MiB, written as it connects.
pub(crate) const ROOM: usize = 1 << 20;

/// Requests of a port, or answers, that have memory at once: more than there are callers.
pub(crate) const BLOCKS: usize = 64;

/// Requests in flight of a client, and clients of a server.
const IN_FLIGHT: usize = 40;
const CLIENTS: usize = 24;

/// Processes that open a service.
const NODES: usize = 8;

/// This process's node. What a killed process has left behind, the next node of any run removes.
pub(crate) fn node() -> Outcome<Node<ipc::Service>> {
    set_log_level(LogLevel::Error);
    let mut config = Config::global_config().clone();
    config.global.prefix = FileName::new(b"underpass_peer_")?;
    Ok(NodeBuilder::new()
        .config(&config)
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create::<ipc::Service>()?)
}

fn name(directory: &Path, part: &str) -> Outcome<ServiceName> {
    Ok(ServiceName::new(&format!("{}/{part}", directory.display()))?)
}

pub(crate) fn calls(node: &Node<ipc::Service>, directory: &Path) -> Outcome<Calls> {
    let service = node.service_builder(&name(directory, "calls")?).request_response::<[u8], [u8]>();
    let service = service.request_user_header::<u64>().max_servers(1).max_clients(CLIENTS);
    let service = service.max_active_requests_per_client(IN_FLIGHT).max_nodes(NODES);
    // A call has one answer, which its caller reads before it lets go of the call.
    let service = service.max_response_buffer_size(1).max_borrowed_responses_per_pending_response(1);
    Ok(service.open_or_create()?)
}

/// The side that listens to an event.
#[derive(Clone, Copy)]
pub(crate) enum Waiter {
    Server,
    Client(u64),
}

impl Waiter {
    fn service(self, directory: &Path) -> Outcome<ServiceName> {
        match self {
            Waiter::Server => name(directory, "requests"),
            Waiter::Client(number) => name(directory, &format!("answers/{number}")),
        }
    }

    pub(crate) fn listen(
        self,
        node: &Node<ipc::Service>,
        directory: &Path,
    ) -> Outcome<Listener<ipc::Service>> {
        let event = node.service_builder(&self.service(directory)?).event();
        Ok(event.max_notifiers(CLIENTS).max_nodes(NODES).open_or_create()?.listener_builder().create()?)
    }

    pub(crate) fn notifier(
        self,
        node: &Node<ipc::Service>,
        directory: &Path,
    ) -> Outcome<Notifier<ipc::Service>> {
        let event = node.service_builder(&self.service(directory)?).event();
        Ok(event.max_notifiers(CLIENTS).max_nodes(NODES).open_or_create()?.notifier_builder().create()?)
    }
}
