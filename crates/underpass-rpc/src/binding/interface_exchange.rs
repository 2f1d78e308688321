#![doc = include_str!("interface_exchange/README.md")]

mod reverse_channel;

use crate::binding::connections::ServerConnection;
use crate::binding::family::{Family, RowNews};
use crate::binding::implementation::Implementation;
use crate::binding::import::Bound;
use crate::binding::limits::InterfaceQuota;
use crate::control::control_socket::ControlSocket;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use underpass_channel::Tag;
use underpass_os::failpoint;
use underpass_threads::critical;
use underpass_wire::DecodeError;

pub(crate) use self::reverse_channel::ReverseChannel;

/// The most interfaces in one message.
pub(crate) const MOST: usize = 1024;

/// The bit of an interface's word that says that the row is the receiver's.
const HOME: u64 = 1 << 63;

/// An interface that is to be passed.
#[derive(Clone, Debug)]
pub(crate) enum GivenInterface {
    /// Its implementation is here.
    Here(Implementation),
    /// It is a row of a connection.
    There(Arc<Bound>),
}

/// An interface that came.
#[derive(Debug)]
pub(crate) enum TakenInterface {
    /// It has come home: its implementation is here.
    Home(Implementation),
    There(Arc<Bound>),
}

/// The interfaces that pass over one connection.
pub(crate) struct InterfaceExchange {
    role: OnceLock<Role>,
    reverse: ReverseChannel,
    state: Mutex<State>,
}

/// Which side of its connection this domain is.
enum Role {
    Server(Weak<Family>),
    Client(Weak<ServerConnection>),
}

#[derive(Default)]
struct State {
    ended: bool,
    /// Of a client: the rows that its server has been given.
    exports: Option<Arc<Family>>,
    /// Of a server: the connection over the reverse channel.
    imports: Option<Arc<ServerConnection>>,
    /// The rows of the peer that went home with replies, until the peer says that they have come,
    /// and how often they went.
    home: HashMap<Tag, (Arc<Bound>, u32)>,
    /// The clerk's keys of the reverse channel of a client, which ends.
    keys: Vec<u64>,
}

/// Rows that were opened or held for a message. That is undone unless the message is sent.
pub(crate) struct GivenRows {
    control: Arc<ControlSocket>,
    family: Option<Arc<Family>>,
    opened: Vec<Tag>,
    held: Vec<Tag>,
    /// One word for each interface of the message, in order.
    pub(crate) words: Vec<u64>,
}

impl GivenRows {
    /// The message is sent: the rows belong to its receiver.
    pub(crate) fn sent(mut self) {
        self.opened.clear();
        self.held.clear();
    }
}

impl Drop for GivenRows {
    fn drop(&mut self) {
        let exchange = self.control.interfaces();
        self.held.iter().for_each(|tag| exchange.has_come_home(*tag));
        if let Some(family) = &self.family {
            for tag in &self.opened {
                family.close_row(*tag, RowNews::None);
            }
        }
    }
}

impl Default for InterfaceExchange {
    fn default() -> Self {
        Self { role: OnceLock::new(), reverse: ReverseChannel::default(), state: Mutex::default() }
    }
}

impl InterfaceExchange {
    /// This domain is the server of the connection `family`.
    pub(crate) fn of_server(&self, family: &Arc<Family>) {
        self.role.get_or_init(|| Role::Server(Arc::downgrade(family)));
    }

    /// This domain is the client of the connection.
    pub(crate) fn of_client(&self, connection: &Arc<ServerConnection>) {
        self.role.get_or_init(|| Role::Client(Arc::downgrade(connection)));
    }

    /// The holder of this lock keeps its processor, and is critical.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let _held = critical();
        act(&mut self.state())
    }

    /// Where rows are opened for this domain's implementations. A client may wait here until its
    /// server has opened the reverse channel.
    fn exports(&self, control: &ControlSocket) -> io::Result<Arc<Family>> {
        match self.role.get() {
            Some(Role::Server(family)) => family.upgrade().ok_or_else(closed),
            Some(Role::Client(connection)) => {
                if let Some(exports) = self.with(|state| state.exports.clone()) {
                    return Ok(exports);
                }
                let connection = connection.upgrade().ok_or_else(closed)?;
                self.reverse.ask(control, connection.end())?;
                self.with(|state| state.exports.clone()).ok_or_else(closed)
            }
            None => Err(closed()),
        }
    }

    /// The connection over which this domain calls what the peer has given.
    fn imports(&self) -> Option<Arc<ServerConnection>> {
        match self.role.get()? {
            Role::Server(_) => self.with(|state| state.imports.clone()),
            Role::Client(connection) => connection.upgrade(),
        }
    }

    /// Makes the words of `interfaces`, for a message at this channel and slot. Those in a
    /// reply that go home stay held until the peer says that they have come.
    ///
    /// # Errors
    /// There is no room for them, or one is of another connection.
    pub(crate) fn give(
        &self,
        control: &Arc<ControlSocket>,
        interfaces: &[GivenInterface],
        at: (u8, u16),
        is_reply: bool,
    ) -> io::Result<GivenRows> {
        if interfaces.len() > MOST {
            let count = interfaces.len();
            let why = format!("{count} interfaces are more than the {MOST} that a message can have");
            return Err(io::Error::other(why));
        }
        let words = Vec::with_capacity(interfaces.len());
        let (control, family) = (control.clone(), None);
        let mut given = GivenRows { control, family, opened: Vec::new(), held: Vec::new(), words };
        for interface in interfaces {
            let word = match interface {
                GivenInterface::Here(implementation) => {
                    let family = match &given.family {
                        Some(family) => family.clone(),
                        None => given.family.insert(self.exports(&given.control)?).clone(),
                    };
                    let tag = family.give(implementation.clone(), is_reply.then_some(at))?;
                    given.opened.push(tag);
                    tag.word()
                }
                GivenInterface::There(bound) => {
                    let tag = self.goes_home(bound, is_reply)?;
                    given.held.extend(is_reply.then_some(tag));
                    tag.word() | HOME
                }
            };
            given.words.push(word);
        }
        Ok(given)
    }

    /// The tag of a row that is sent home.
    fn goes_home(&self, bound: &Arc<Bound>, is_reply: bool) -> io::Result<Tag> {
        if !self.imports().is_some_and(|imports| bound.is_over(&imports)) {
            let why =
                "an interface of another domain can't go over this connection: pass it on by `share_with`";
            return Err(io::Error::other(why));
        }
        let tag = bound.tag();
        if is_reply {
            // The release of the row goes over the socket, and could overtake the reply.
            self.with(|state| state.home.entry(tag).or_insert_with(|| (bound.clone(), 0)).1 += 1);
        }
        Ok(tag)
    }

    /// The peer has received a row of its own in a reply.
    pub(crate) fn has_come_home(&self, tag: Tag) {
        let held = self.with(|state| {
            let (_, count) = state.home.get_mut(&tag)?;
            *count -= 1;
            if *count == 0 { state.home.remove(&tag) } else { None }
        });
        // Without the lock: it may be the last hold.
        drop(held);
    }

    /// The interface of which the peer has sent this word.
    ///
    /// # Errors
    /// The peer was given no such row, or has no row to give, or may have no more.
    pub(crate) fn take(
        &self,
        control: &ControlSocket,
        word: u64,
        is_reply: bool,
    ) -> Result<TakenInterface, DecodeError> {
        let tag = Tag::of_word(word);
        if word & !HOME != tag.word() {
            return Err(DecodeError::NotGiven);
        }
        if word & HOME == 0 {
            let imports = self.imports().ok_or(DecodeError::NotGiven)?;
            return Bound::of_value(imports, tag, self.charge())
                .map(|bound| TakenInterface::There(Arc::new(bound)));
        }
        let family = match self.role.get() {
            Some(Role::Server(family)) => family.upgrade(),
            Some(Role::Client(_)) => self.with(|state| state.exports.clone()),
            None => None,
        };
        let home = family.and_then(|family| family.comes_home(tag));
        if is_reply {
            control.came_home(tag);
        }
        failpoint!("interface-home");
        home.map(TakenInterface::Home).ok_or(DecodeError::NotGiven)
    }

    /// What a server charges for an interface of its client's. A client holds what its server gives
    /// without a limit, as it does the results of its calls.
    fn charge(&self) -> Option<Result<InterfaceQuota, String>> {
        let Some(Role::Server(family)) = self.role.get() else { return None };
        let ends = family.upgrade()?.ends();
        Some(ends.first()?.quota().shared().interface())
    }

    /// The connection has ended, and with it everything that was passed over it.
    pub(crate) fn end(&self) {
        let (exports, imports, home) = self.with(|state| {
            state.ended = true;
            (state.exports.take(), state.imports.take(), std::mem::take(&mut state.home))
        });
        self.reverse.ends();
        if let Some(imports) = &imports {
            imports.end().ends_with_connection();
        }
        if let Some(exports) = exports {
            exports.close();
            self.with(|state| state.keys.append(&mut exports.take_keys()));
        }
        drop((imports, home));
    }

    /// Takes the clerk's keys of a client's reverse channel, which the clerk then ends.
    pub(crate) fn take_keys(&self) -> Vec<u64> {
        self.with(|state| std::mem::take(&mut state.keys))
    }
}

fn closed() -> io::Error {
    io::Error::other("the binding is closed")
}

impl fmt::Debug for InterfaceExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterfaceExchange").finish_non_exhaustive()
    }
}
