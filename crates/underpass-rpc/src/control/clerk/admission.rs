//! Admission of clients: from a connection to a binding.

use super::table::{Exported, WatchEntry, WatchTable};
use super::{Clerk, Offer, clerk};
use crate::binding::clock_offset::{Clock, ClockOffset};
use crate::binding::exit_events::notify;
use crate::binding::family::Family;
use crate::binding::grant::Grant;
use crate::binding::handshake::{Capabilities, CpuPlacement, Hello, HelloReply, LONGEST_HELLO};
use crate::binding::limits::ChannelQuota;
use crate::binding::object::Binding;
use crate::binding::peer::Peer;
use crate::binding::record::BindingRecord;
use crate::binding::service::Service;
use crate::control::connection::{BindingLink, Connection};
use crate::control::control_socket::ControlSocket;
use crate::control::mailbox::ChannelMailbox;
use crate::dispatch::server::ServerEnd;
use crate::payload::file_thread::is_behind;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use underpass_channel::Channel;
use underpass_channel::layout::{region, stack_of};
use underpass_os::{Connected, clock, failpoint};
use underpass_threads::panic_message;
use underpass_wire::InterfaceVersion;

/// How long to wait for files to be closed before accepting again, in ns.
const PAUSE: u64 = 20_000_000;
/// The most connections that may be pending: connected, but without a hello.
const MOST_PENDING: usize = 256;
/// The most clients that are accepted at an export before the clerk does something else. The kernel
/// reports the others again.
const TURN: usize = 8;

/// A client that has sent its hello, for an interface that is exported.
struct Importer {
    link: Arc<BindingLink>,
    capabilities: Capabilities,
    clock_offset: ClockOffset,
    peer: Peer,
    quota: ChannelQuota,
    export: u64,
    offer: Arc<Offer>,
    /// Which of the offer's services it gets, and the version that both sides know.
    service: usize,
    version: InterfaceVersion,
    /// When the binding must end that the client gets by a ticket, if it must.
    until: Option<u64>,
}

impl Clerk {
    /// Accepts clients that wait at an export, but only a few, so that clients that connect in a
    /// loop delay nothing else.
    pub(super) fn accept(&self, key: u64, exported: &Exported) {
        for _ in 0..TURN {
            self.make_room();
            match exported.listening.accept() {
                // Most clients have sent their hello by now, so read it at once.
                Ok(socket) => self.read_hello(Connection::new(socket), key),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.pause(key, exported),
            }
        }
    }

    /// Closes one pending connection if there are as many as may be, so that silent clients do not
    /// keep others out. It is one of the user who has the most.
    fn make_room(&self) {
        self.close_pending(|table| match table.count_pending() >= MOST_PENDING {
            true => table.take_pending_of_most(),
            false => None,
        });
    }

    /// Closes the pending connection that `choose` takes out. Returns whether there was one.
    pub(super) fn close_pending(&self, choose: impl FnOnce(&mut WatchTable) -> Option<WatchEntry>) -> bool {
        // Release the lock before the connection is dropped, because the drop may need the table.
        let gone = choose(&mut self.table());
        gone.inspect(|row| self.stop_polling(row)).is_some()
    }

    /// Files have run out: accepts nobody for a while.
    fn pause(&self, key: u64, exported: &Exported) {
        self.poller.remove(&exported.listening);
        self.table().paused.push((key, clock::now_ns() + PAUSE));
    }

    /// Reads the hello of a pending connection, if it has come.
    pub(super) fn read_hello(&self, socket: Arc<Connection>, export: u64) {
        let mut buffer = [0; LONGEST_HELLO];
        match socket.look() {
            // No honest client sends files with its hello. Leave them in the queue.
            Ok(hello) if hello.with_files => return,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                // A connection that can't be watched is closed.
                if let Ok(peer) = socket.peer() {
                    let pending = WatchEntry::PendingConnection { socket, export, user: peer.uid };
                    let _ = self.watch(pending, Some(export));
                }
                return;
            }
            _ => {}
        }
        match socket.receive_plain(&mut buffer) {
            Ok(received) if received.len > 0 && !received.cut => {
                self.handle_hello(BindingLink::new(socket), export, &buffer[..received.len], None);
            }
            // The connection was closed without a message. A domain that has taken the name over
            // does that.
            Ok(received) if received.len == 0 => notify(),
            _ => {}
        }
    }

    /// The client at the other end of `link` has sent `hello`. If it comes by a ticket, that was
    /// made for the binding `by`.
    pub(super) fn handle_hello(
        &self,
        link: Arc<BindingLink>,
        export: u64,
        hello: &[u8],
        by: Option<&Family>,
    ) {
        let offer = match self.table().row(export) {
            Some(WatchEntry::Export(exported)) => exported.offer.clone(),
            _ => return,
        };
        failpoint!("greet-heard");
        let hello = Hello::from_bytes(hello);
        let importer = hello.and_then(|hello| Importer::new(link.clone(), &hello, export, offer, by));
        match importer {
            Ok(importer) => self.authorize(importer),
            Err(answer) => send_reply(&link, &answer),
        }
    }

    /// Decides whether `importer` gets a binding: asks `authorize` if the export has it.
    fn authorize(&self, importer: Importer) {
        let Some(authorize) = importer.service().options.authorize.clone() else {
            return self.make_binding(importer, &Grant::allow());
        };
        let (link, user) = (importer.link.clone(), importer.peer.uid());
        let ask = move || {
            let asked = catch_unwind(AssertUnwindSafe(|| authorize(&importer.peer)));
            let grant = asked.unwrap_or_else(|panic| {
                Grant::deny(format!("its `authorize` panicked: {}", panic_message(&*panic)))
            });
            if let Ok(clerk) = clerk() {
                clerk.make_binding(importer, &grant);
            }
        };
        if !self.authorizer.ask(user, Box::new(ask)) {
            send_reply(
                &link,
                &HelloReply::Failed {
                    why: format!("too many clients of user {user} wait for `authorize`; try again later"),
                },
            );
        }
    }

    /// Makes the binding, or tells the client why there is none.
    fn make_binding(&self, importer: Importer, grant: &Grant) {
        let service = importer.service().clone();
        let stack = stack_of(importer.version.astack);
        let Importer { link, capabilities, clock_offset, peer, quota, export, offer, until, .. } = importer;
        let made = match &grant.refusal {
            Some(why) => Err(HelloReply::Denied { why: why.clone() }),
            None => make_channel(capabilities, stack),
        };
        let (channel, file, placement) = match made {
            Ok(made) => made,
            Err(answer) => return send_reply(&link, &answer),
        };
        failpoint!("greet-made");
        let expires = grant.expires.or(service.options.expires).map(clock::deadline_ns);
        let expires = expires.into_iter().chain(until).min();
        let shareable = grant.sharing.allows(service.options.shareable);
        let binding = Binding::new(offer.name.clone(), peer, expires);
        let record = BindingRecord::new(binding, service.options.on_end.clone(), offer.endings.clone());
        let family = Family::new(export, importer.service, record, shareable, clock_offset);
        link.reading().admit_files(service.descriptor.client_may_pass_files());
        let mailbox = ChannelMailbox::of_server(ControlSocket::new(link.clone(), Some(&quota)), &quota);
        // The binding can't end for good before it is known whether the client got it. The client
        // may die, and the binding be revoked, at any time.
        family.begins();
        let end = ServerEnd::new(channel, mailbox, &service, placement, family.clone(), quota);
        let (hash, state) = (importer.version.hash, service.options.state);
        let welcome = HelloReply::Welcome { capabilities: Capabilities::own(), hash, state };
        if !self.hand_over(&end, &link, file, &welcome) {
            family.record().nobody_got_it();
        }
        family.rests();
    }

    /// Gives the binding of `end` to the client and serves it. Returns `false` if that fails.
    fn hand_over(
        &self,
        end: &Arc<ServerEnd>,
        link: &BindingLink,
        file: OwnedFd,
        welcome: &HelloReply,
    ) -> bool {
        // Enrol it before the client can have it, because the binding may be revoked from then on.
        if !self.enrol(end) {
            return false;
        }
        let own_end = link.take_to_pass();
        let files: Vec<_> = [&file].into_iter().chain(&own_end).map(AsFd::as_fd).collect();
        let sent = link.send(&welcome.to_bytes(), &files).is_ok();
        failpoint!("greet-welcomed");
        // Close them before the first call. Then every open file is one of the binding's own.
        drop((file, own_end));
        if sent {
            self.serve(end);
        } else {
            // The clerk sees the hang-up.
            end.close();
            end.mailbox().hang_up();
        }
        sent
    }

    /// The client of `end` has asked for another channel.
    pub(crate) fn open(&self, end: &ServerEnd, number: u8) {
        let made = end.quota().another().map_err(io::Error::other).and_then(|quota| {
            let (channel, region) = Channel::create(end.channel().fence(), end.channel().stack())?;
            Ok((quota, channel, region))
        });
        let Ok((quota, channel, region)) = made else { return end.mailbox().refuse() };
        // Enrol it before the client knows of it. So everything that the client sends about the
        // channel comes later.
        let further = end.another(number, channel, quota);
        if self.enrol(&further) {
            // If this fails, the client goes on without the channel.
            let _ = end.mailbox().open(number, &region);
            self.serve(&further);
        }
    }
}

impl Importer {
    /// A client that sent `hello`. The error is the answer to send instead of a binding.
    fn new(
        link: Arc<BindingLink>,
        hello: &Hello,
        export: u64,
        offer: Arc<Offer>,
        by: Option<&Family>,
    ) -> Result<Self, HelloReply> {
        // A ticket gives no more than the binding has for which it was made.
        let (service, version) = offer.choose(&hello.hashes, by.map(Family::service))?;
        let until = by.and_then(|by| by.binding().expires);
        let clock_offset = Clock::own().offset_from(hello.clock).map_err(|why| HelloReply::Failed { why })?;
        let peer = Peer::of(&link)
            .map_err(|e| HelloReply::Failed { why: format!("the server can't learn who you are: {e}") })?;
        if is_behind(peer.uid()) {
            let why = format!("files that user {} has passed before are still being closed", peer.uid());
            return Err(HelloReply::Limit { why });
        }
        let quota = offer
            .quotas
            .admit(peer.uid(), region(stack_of(version.astack)) as u64)
            .map_err(|why| HelloReply::Limit { why })?;
        let capabilities = hello.capabilities;
        Ok(Self { link, capabilities, clock_offset, peer, quota, export, offer, service, version, until })
    }

    /// The service that it gets.
    fn service(&self) -> &Service {
        &self.offer.services[self.service]
    }
}

/// Sends an answer to a client that gets no binding.
fn send_reply(link: &BindingLink, answer: &HelloReply) {
    // If this fails, the client is gone.
    let _ = link.send(&answer.to_bytes(), &[]);
}

/// Makes the server's end of a channel.
fn make_channel(theirs: Capabilities, stack: usize) -> Result<(Channel, OwnedFd, CpuPlacement), HelloReply> {
    let own = Capabilities::own();
    match Channel::create(own.fence(theirs), stack) {
        Ok((channel, file)) => Ok((channel, file, own.placement(theirs))),
        Err(e) => Err(HelloReply::Failed { why: format!("the server can't make a channel: {e}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::limits::{Limits, Quotas};
    use crate::dispatch::incoming::{Dispatch, IncomingCall, Refused};
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use underpass_os::{Directory, Listening, Socket};
    use underpass_wire::Descriptor;

    struct Nothing;

    impl Dispatch for Nothing {
        fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused> {
            call.unknown()
        }
    }

    fn offer(name: &str, change: impl FnOnce(Service) -> Service) -> Offer {
        let descriptor = Box::leak(Box::new(Descriptor::builder("Nothing", "").finish()));
        Offer {
            name: name.into(),
            services: vec![change(Service::new(descriptor, Arc::new(Nothing), Arc::new(())))],
            quotas: Arc::new(Quotas::new(Limits::NONE, HashMap::new())),
            endings: Arc::default(),
        }
    }

    #[test]
    fn clients_that_connect_in_a_loop_are_accepted_in_turns() {
        let directory = std::env::temp_dir().join(format!("underpass-turns-{}", std::process::id()));
        let directory = Directory::at(directory);
        directory.ensure().unwrap();
        let offer = Arc::new(offer("turns", |service| service));
        let listening = Listening::bind(&directory, "turns", 0o600).unwrap();
        let exported = Arc::new(Exported { listening, offer });
        // Not watched: the test calls `accept` itself.
        let clerk = clerk().unwrap();
        let key = clerk.table().next_key();
        clerk.table().insert(key, WatchEntry::Export(exported.clone()), 0);
        let clients: Vec<_> =
            (0..TURN * 2 + 1).map(|_| Socket::connect(&directory, "turns").unwrap()).collect();
        let accepted = [0; 4].map(|_| {
            clerk.accept(key, &exported);
            clerk.table().rows().filter(|row| row.is_of(key)).count()
        });
        assert_eq!(accepted, [TURN, 2 * TURN, 2 * TURN + 1, 2 * TURN + 1]);
        clerk.withdraw(key);
        drop((clients, exported));
        std::fs::remove_dir(directory.path()).unwrap();
    }

    #[test]
    fn the_hook_is_called_only_for_bindings_that_a_client_got() {
        let directory = std::env::temp_dir().join(format!("underpass-unseen-{}", std::process::id()));
        let directory = Directory::at(directory);
        directory.ensure().unwrap();
        let (ended, clerk) = (Arc::new(AtomicUsize::new(0)), clerk().unwrap());
        let counted = ended.clone();
        let on_end = move |_: &Binding| {
            counted.fetch_add(1, Ordering::SeqCst);
        };
        let offer = Arc::new(offer("unseen", |service| service.on_binding_end(on_end)));
        let listening = Listening::bind(&directory, "unseen", 0o600).unwrap();
        let key = clerk.export(Exported { listening, offer: offer.clone() }).unwrap();
        let welcome = |gone: bool, export| {
            let (ours, theirs) = Socket::pair().unwrap();
            let link = BindingLink::new(Connection::new(ours));
            let (capabilities, clock_offset) = (Capabilities::own(), ClockOffset::default());
            let peer = Peer::of(&link).unwrap();
            let theirs = (!gone).then_some(theirs);
            let quota = offer.quotas.admit(peer.uid(), 0).unwrap();
            let offer = offer.clone();
            let version = offer.services[0].descriptor.versions[0];
            let importer = Importer {
                link,
                capabilities,
                clock_offset,
                peer,
                quota,
                export,
                offer,
                service: 0,
                version,
                until: None,
            };
            clerk.make_binding(importer, &Grant::allow());
            theirs
        };
        let ends = |theirs| {
            drop(theirs);
            while !offer.endings.are_over() {
                std::thread::yield_now();
            }
            ended.load(Ordering::SeqCst)
        };
        assert_eq!(ends(welcome(true, key)), 0, "one that is gone before the answer");
        assert_eq!(ends(welcome(false, key)), 1);
        clerk.withdraw(key);
        assert_eq!(ends(welcome(false, key)), 1, "one that comes when nothing is exported any more");
        std::fs::remove_dir(directory.path()).unwrap();
    }
}
