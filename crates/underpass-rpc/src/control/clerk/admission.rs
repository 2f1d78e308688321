//! Admission of clients: from a connection to a binding.

use super::table::{Exported, WatchEntry, WatchTable};
use super::{Clerk, Offer, clerk};
use crate::binding::clock_offset::{Clock, ClockOffset};
use crate::binding::exit_events::notify;
use crate::binding::family::{Client, Family, RowNews};
use crate::binding::grant::Grant;
use crate::binding::handshake::{Capabilities, CpuPlacement, Hello, HelloReply, LONGEST_HELLO};
use crate::binding::limits::ChannelQuota;
use crate::binding::object::Binding;
use crate::binding::peer::Peer;
use crate::binding::record::BindingRecord;
use crate::binding::row::{BindingRow, ServedRow};
use crate::binding::service::Service;
use crate::control::connection::{BindingLink, Connection};
use crate::control::control_socket::ControlSocket;
use crate::control::mailbox::ChannelMailbox;
use crate::dispatch::server::ServerEnd;
use crate::payload::file_thread::is_behind;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use underpass_channel::Channel;
use underpass_channel::layout::{self, stack_of_connection};
use underpass_os::{Connected, clock, failpoint, random};
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
    /// The capabilities of this domain, and of the client.
    own: Capabilities,
    capabilities: Capabilities,
    clock_offset: ClockOffset,
    peer: Peer,
    /// The charge to the client's user: of a binding, and of a region unless it joins.
    quota: Mutex<Option<ChannelQuota>>,
    export: u64,
    offer: Arc<Offer>,
    /// Which of the offer's services it gets, and the version that both sides know.
    service: usize,
    version: InterfaceVersion,
    /// When the binding must end that the client gets by a ticket, if it must.
    until: Option<u64>,
    /// The connection that the client has shown, and the place of its secret in the hello.
    joins: Option<(u8, Arc<Family>)>,
    is_row_only: bool,
}

/// Whether a binding has joined a connection.
#[derive(PartialEq, Eq)]
enum Joined {
    Yes,
    /// The connection has ended, or the export was withdrawn.
    No,
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
        by: Option<&BindingRow>,
    ) {
        let offer = match self.table().row(export) {
            Some(WatchEntry::Export(exported)) => exported.offer.clone(),
            _ => return,
        };
        // A ticket for a value is one for its implementation alone.
        let Some(offer) = offer.of_ticket(by) else { return };
        failpoint!("greet-heard");
        let hello = Hello::from_bytes(hello);
        let importer = hello.and_then(|hello| Importer::new(self, link.clone(), &hello, export, offer, by));
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
    fn make_binding(&self, mut importer: Importer, grant: &Grant) {
        if let Some(why) = &grant.refusal {
            return send_reply(&importer.link, &HelloReply::Denied { why: why.clone() });
        }
        if let Some((place, family)) = importer.joins.take()
            && let Joined::Yes = self.join(&importer, grant, place, &family)
        {
            return;
        }
        if importer.is_row_only {
            // The connection has ended meanwhile, so this binding needs one of its own.
            drop(importer.take_charge());
            match importer.admit(true) {
                Ok(quota) => importer.keep_charge(Some(quota)),
                Err(answer) => return send_reply(&importer.link, &answer),
            }
        }
        self.connect(importer, grant);
    }

    /// Adds the binding to a connection that the client has shown.
    fn join(&self, importer: &Importer, grant: &Grant, place: u8, family: &Arc<Family>) -> Joined {
        let Some(link) = family.link() else { return Joined::No };
        let peer = importer.peer.over(&link);
        let row = importer.row(grant, family, peer, importer.take_charge());
        // As in `connect`.
        row.begins();
        if !self.add_row(family, importer.served(&row)) {
            row.record().nobody_got_it();
            importer.keep_charge(row.was_closed());
            // Once for the row that there is none of, and once for the hold.
            row.rests();
            row.rests();
            return Joined::No;
        }
        if importer.service().descriptor().client_may_pass_files() {
            link.reading().admit_files(true);
        }
        failpoint!("greet-joined");
        let (hash, state) = (importer.version.hash, importer.service().options.state);
        let joined = HelloReply::Joined { place, hash, state, tag: row.tag() };
        let sent = importer.link.send(&joined.to_bytes(), &[]);
        failpoint!("greet-told-row");
        if sent.is_err() {
            row.record().nobody_got_it();
            family.close_row(row.tag(), RowNews::None);
        }
        row.rests();
        Joined::Yes
    }

    /// Makes a connection with this binding as its first row.
    fn connect(&self, importer: Importer, grant: &Grant) {
        let stack = stack_of_connection(importer.version.astack);
        let (channel, file, placement) = match make_channel(importer.capabilities, stack) {
            Ok(made) => made,
            Err(answer) => return send_reply(&importer.link, &answer),
        };
        failpoint!("greet-made");
        let Ok(secret) = random::number() else {
            let why = "the server has no random numbers".to_owned();
            return send_reply(&importer.link, &HelloReply::Failed { why });
        };
        let Some(quota) = importer.take_charge() else { return };
        let (link, state) = (importer.link.clone(), importer.service().options.state);
        let capabilities = (importer.own, importer.capabilities);
        let client =
            Client { peer: importer.peer.clone(), capabilities, clock_offset: importer.clock_offset };
        let family = Family::new(secret, Arc::downgrade(&link), client);
        let row = importer.row(grant, &family, importer.peer.clone(), None);
        link.reading().admit_files(importer.service().descriptor().client_may_pass_files());
        let mailbox = ChannelMailbox::of_server(ControlSocket::new(link.clone(), Some(&quota)), &quota);
        // The binding can't end for good before it is known whether the client got it. The client
        // may die, and the binding be revoked, at any time.
        row.begins();
        mailbox.control().interfaces().of_server(&family);
        let end = ServerEnd::new(channel, mailbox, placement, family.clone(), quota);
        let made = self.enrol(&end) && self.add_row(&family, importer.served(&row));
        if !made {
            row.record().nobody_got_it();
            end.close();
            // There is no row whose removal would do it.
            row.rests();
        }
        let (capabilities, hash, tag) = (importer.own, importer.version.hash, row.tag());
        let welcome = HelloReply::Welcome { capabilities, hash, state, secret, tag };
        if !(made && self.hand_over(&end, &link, file, &welcome)) {
            row.record().nobody_got_it();
        }
        row.rests();
    }

    /// Gives the connection of `end` to the client and serves it. Returns `false` if that fails.
    fn hand_over(
        &self,
        end: &Arc<ServerEnd>,
        link: &BindingLink,
        file: OwnedFd,
        welcome: &HelloReply,
    ) -> bool {
        // It is enrolled before the client can have it, because the binding may be revoked from
        // then on.
        let own_end = link.take_to_pass();
        let files: Vec<_> = [&file].into_iter().chain(&own_end).map(AsFd::as_fd).collect();
        let sent = link.send(&welcome.to_bytes(), &files).is_ok();
        failpoint!("greet-welcomed");
        // Close them before the first call. Then every open file is one of the connection's own.
        drop((file, own_end));
        if sent {
            self.serve(end);
        } else {
            // The clerk sees the hang-up.
            end.close();
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
        clerk: &Clerk,
        link: Arc<BindingLink>,
        hello: &Hello,
        export: u64,
        offer: Arc<Offer>,
        by: Option<&BindingRow>,
    ) -> Result<Self, HelloReply> {
        // A ticket gives no more than the binding has for which it was made.
        let (service, version) = offer.choose(&hello.hashes, by.map(BindingRow::service))?;
        let until = by.and_then(|by| by.binding().expires);
        let clock_offset = Clock::own().offset_from(hello.clock).map_err(|why| HelloReply::Failed { why })?;
        let peer = Peer::of(&link)
            .map_err(|e| HelloReply::Failed { why: format!("the server can't learn who you are: {e}") })?;
        if is_behind(peer.uid()) {
            let why = format!("files that user {} has passed before are still being closed", peer.uid());
            return Err(HelloReply::Limit { why });
        }
        let own = Capabilities::own();
        let mut importer = Self {
            link,
            own,
            capabilities: hello.capabilities,
            clock_offset,
            peer,
            quota: Mutex::default(),
            export,
            offer,
            service,
            version,
            until,
            joins: None,
            is_row_only: false,
        };
        let shown = (0..).zip(hello.secrets.iter().copied());
        importer.joins = shown
            .filter_map(|(place, secret)| Some((place, clerk.connection(secret)?)))
            .find(|(_, family)| importer.may_join(family));
        importer.is_row_only = importer.joins.is_some();
        importer.keep_charge(Some(importer.admit(!importer.is_row_only)?));
        Ok(importer)
    }

    /// The service that it gets.
    fn service(&self) -> &Service {
        &self.offer.services[self.service]
    }

    /// Whether the client is that of the connection, nothing on which the two sides agreed has
    /// changed since, and calls over the connection have the stacks that the service asks for.
    fn may_join(&self, family: &Family) -> bool {
        let client = family.client();
        client.peer.is_same_client(&self.peer)
            && client.capabilities == (self.own, self.capabilities)
            && client.clock_offset == self.clock_offset
            && self.service().options.stack.is_none_or(|bytes| bytes <= family.stack())
            && family
                .limits()
                .is_some_and(|limits| self.offer.quotas.allow_the_same(self.peer.uid(), &limits))
    }

    /// Charges the user with the binding, and with a `region` if it needs one. The error is the
    /// answer to send.
    fn admit(&self, region: bool) -> Result<ChannelQuota, HelloReply> {
        let stack = stack_of_connection(self.version.astack);
        let bytes = if region { layout::region(stack) as u64 } else { 0 };
        self.offer.quotas.admit(self.peer.uid(), bytes).map_err(|why| HelloReply::Limit { why })
    }

    fn take_charge(&self) -> Option<ChannelQuota> {
        self.quota.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep_charge(&self, charge: Option<ChannelQuota>) {
        *self.quota.lock().unwrap_or_else(PoisonError::into_inner) = charge;
    }

    /// The binding that `grant` gives to `peer`, without a row yet.
    fn row(
        &self,
        grant: &Grant,
        family: &Arc<Family>,
        peer: Peer,
        charge: Option<ChannelQuota>,
    ) -> Arc<BindingRow> {
        let (offer, service) = (&self.offer, self.service());
        let options = &service.options;
        let expires = grant.expires.or(options.expires).map(clock::deadline_ns);
        let expires = expires.into_iter().chain(self.until).min();
        let binding = Binding::new(offer.name.clone(), peer, expires);
        let record = BindingRecord::new(binding, options.on_end.clone(), offer.endings.clone());
        let shareable = grant.sharing.allows(options.shareable);
        let of = (self.export, offer.first + self.service);
        BindingRow::new(of, record, shareable, service.descriptor(), family, charge)
    }

    fn served(&self, row: &Arc<BindingRow>) -> ServedRow {
        row.has(self.service().implementation.clone());
        ServedRow { stub: self.service().implementation.stub.clone(), binding: row.clone() }
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
            services: vec![change(Service::new(descriptor, Arc::new(Nothing)))],
            first: 0,
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
            let version = offer.services[0].descriptor().versions[0];
            let importer = Importer {
                link,
                own: capabilities,
                capabilities,
                clock_offset,
                peer,
                quota: Mutex::new(Some(quota)),
                export,
                offer,
                service: 0,
                version,
                until: None,
                joins: None,
                is_row_only: false,
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
