//! Regions: memory of several domains, by name.

use crate::domain::LocalDomain;
use crate::host::{
    Dead, Doorman, EXPORTER, Host, HostClient, JoinError, Members, Obituary, ObituaryClient, Teller,
};
use crate::layout::{HEADER_SHAPE, HEADER_VERSION, HEADER_WORDS, MEMBERS, OBJECTS, VERSION};
use crate::member::MemberId;
use crate::place::{RegionLayout, RegionPlace};
use crate::shareable::mix;
use crate::words::RegionWords;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use underpass_rpc::{
    Abandon, Bindings, CallError, Error, ExportError, Grant, ImportError, Peer, Running, Server,
};

/// How long to wait for a stopped exporter's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Memory that several domains share, under a name: the exporter's, and up to fifteen others'.
///
/// It dereferences to `T`, the objects in it. A clone is the same membership.
///
/// * A domain imports the region as it imports an interface, and the exporter's
///   [`authorize`](RegionExport::authorize) decides.
/// * The region ends with its exporter: everything then fails with
///   [`Ended`](crate::SyncError::Ended), and waits end.
/// * Members can write any byte of it at any moment. So the members of one region trust each other
///   with its data, and with their waits. They can't crash each other, read each other's other
///   memory, or hold each other beyond a deadline. Put what others must not spoil behind an
///   interface instead.
/// * A forked child is no member: there, everything fails with `Ended`.
///
/// # Examples
/// ```standalone_crate
/// use std::process::Command;
/// use std::time::Duration;
/// use underpass::shared::{Condvar, Mutex, Region};
///
/// #[derive(underpass::RegionLayout)]
/// struct Score {
///     points: Mutex<[u32; 2]>,
///     changed: Condvar,
/// }
///
/// const NAME: &str = "doc-region";
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     if std::env::var_os("PART").is_some() {
///         let score = Region::<Score>::import_within(NAME, Duration::from_secs(60))?;
///         score.points.lock().map_err(|e| e.to_string())?.update(|points| points[1] += 3)?;
///         score.changed.notify_all();
///         return Ok(());
///     }
/// #   let dir = std::env::temp_dir().join(format!("underpass-doc-region-{}", std::process::id()));
/// #   // SAFETY: no other thread has been started yet.
/// #   unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
///     let score = Region::<Score>::export(NAME, |_| ())?;
///     let mut other = Command::new(std::env::current_exe()?).env("PART", "other").spawn()?;
///     let points = score.points.lock().map_err(|e| e.to_string())?;
///     let points = score.changed.wait_while(points, |points| points[1] == 0);
///     assert_eq!(points.map_err(|e| e.to_string())?.get()?, [0, 3]);
///     assert!(other.wait()?.success());
/// #   drop(score);
/// #   std::fs::remove_dir(dir)?;
///     Ok(())
/// }
/// ```
pub struct Region<T: RegionLayout>(Arc<Opened<T>>);

struct Opened<T> {
    objects: T,
    domain: Arc<LocalDomain>,
    closing: Arc<AtomicBool>,
    side: Side,
}

enum Side {
    Exporter {
        running: Option<Running>,
        members: Arc<Members>,
    },
    /// The binding is the membership.
    Importer {
        _membership: HostClient,
        abandon: Abandon,
    },
}

/// Why a region could not be imported.
#[derive(Debug)]
#[non_exhaustive]
pub enum RegionError {
    /// There is no such export, or this domain may not have it. *Remedy:* as of the
    /// [`ImportError`].
    Import(ImportError),
    /// The exporter did not answer. *Remedy:* as of the [`CallError`].
    Call(CallError),
    /// The region is of another type. *Remedy:* build both sides from the same source of the type.
    OtherType,
    /// The region has as many members as it can have. *Remedy:* end one.
    Full,
    /// The exporter's memory can't be used. *Remedy:* as the text says.
    Memory(io::Error),
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Import(e) => e.fmt(f),
            Self::Call(e) => e.fmt(f),
            Self::OtherType => f.write_str(
                "the region is of another type; build both sides from the same source of its type",
            ),
            Self::Full => write!(f, "the region has {MEMBERS} members already; end one of them"),
            Self::Memory(e) => write!(f, "the region's memory can't be used: {e}"),
        }
    }
}

impl std::error::Error for RegionError {}

impl From<JoinError> for RegionError {
    fn from(e: JoinError) -> Self {
        match e {
            JoinError::Call(e) => Self::Call(e),
            JoinError::OtherType => Self::OtherType,
            JoinError::Full => Self::Full,
        }
    }
}

/// The shape of a region of `T`, with everything on which its members must agree.
fn shape<T: RegionLayout>() -> u64 {
    mix(mix(mix(T::SHAPE, T::WORDS as u64), VERSION), MEMBERS as u64)
}

/// A name in which the deaths of a region's members are told.
fn obituary_of(name: &str) -> String {
    format!("{name}+deaths")
}

impl<T: RegionLayout> Region<T> {
    /// Makes a region and exports it as `name`, for processes of this user. `init` gives the
    /// objects their first values, before any other domain has them.
    ///
    /// # Errors
    /// As of [`Server::start`](underpass_rpc::Server::start). There must be room in the name for 7
    /// more bytes.
    pub fn export(name: &str, init: impl FnOnce(&T)) -> Result<Self, Error> {
        RegionExport::new().start(name, init)
    }

    /// Imports the region `name`.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn import(name: &str) -> Result<Self, RegionError> {
        let host = HostClient::import(name).map_err(RegionError::Import)?;
        let deaths = ObituaryClient::import(&obituary_of(name)).map_err(RegionError::Import)?;
        Self::join(host, deaths)
    }

    /// As [`import`](Self::import), but waits up to `patience` for the exporter.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn import_within(name: &str, patience: Duration) -> Result<Self, RegionError> {
        let host = HostClient::import_within(name, patience).map_err(RegionError::Import)?;
        let deaths =
            ObituaryClient::import_within(&obituary_of(name), PATIENCE).map_err(RegionError::Import)?;
        Self::join(host, deaths)
    }

    fn join(host: HostClient, deaths: ObituaryClient) -> Result<Self, RegionError> {
        let joined = host.with_deadline(PATIENCE).join(shape::<T>())?;
        let words = OBJECTS + T::WORDS;
        let memory = RegionWords::adopt(joined.memory.as_fd(), words).map_err(RegionError::Memory)?;
        let (index, generation) = (joined.index as usize, joined.generation);
        if index >= MEMBERS || generation == 0 {
            let why = "the exporter gave this domain a place that no region has";
            return Err(RegionError::Memory(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        let abandon = Abandon::new();
        let deaths = deaths.abandonable(&abandon);
        let domain = Arc::new(LocalDomain::new(memory, MemberId { index, generation }));
        let side = Side::Importer { _membership: host, abandon };
        let region = Self::open(domain.clone(), side);
        let closing = region.0.closing.clone();
        // If the threads can't be started, the membership ends with `region`.
        kernel_thread("underpass-deaths", move || hear_deaths(&domain, &deaths, &closing))
            .map_err(RegionError::Memory)?;
        region.listen().map_err(RegionError::Memory)?;
        Ok(region)
    }

    fn open(domain: Arc<LocalDomain>, side: Side) -> Self {
        let objects = attach(&domain);
        Self(Arc::new(Opened { objects, domain, closing: Arc::default(), side }))
    }

    /// Starts the kernel thread that hears the bell of this domain.
    fn listen(&self) -> io::Result<()> {
        let (domain, closing) = (self.0.domain.clone(), self.0.closing.clone());
        kernel_thread("underpass-bell", move || {
            // SYNC with the store in `Opened::drop`.
            // In a region that has ended for this domain, another one may have its page.
            let is_over = || closing.load(Ordering::SeqCst) || domain.deaths.are_over();
            while !is_over() {
                if !domain.hear() {
                    domain.doze(is_over);
                }
            }
        })
    }

    /// The members' bindings, which the exporter can list and revoke. `None` in other domains.
    ///
    /// A revoked member's operations fail, and its locks go to others. What it has mapped stays
    /// mapped: if it is hostile, it can go on writing.
    pub fn bindings(&self) -> Option<Bindings> {
        match &self.0.side {
            Side::Exporter { running, .. } => running.as_ref().map(Running::bindings),
            Side::Importer { .. } => None,
        }
    }

    /// Whether the region has ended for this domain: its exporter is gone, or has ended this
    /// membership.
    pub fn is_over(&self) -> bool {
        self.0.domain.deaths.are_over()
    }
}

fn attach<T: RegionLayout>(domain: &Arc<LocalDomain>) -> T {
    let mut place = RegionPlace::first(domain);
    let objects = T::attach(&mut place);
    // It is set once: each domain is opened once.
    let _ = domain.objects.set(place.into_objects());
    objects
}

fn kernel_thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Hears of deaths until the exporter is gone or the region is closed.
fn hear_deaths(domain: &LocalDomain, deaths: &ObituaryClient, closing: &AtomicBool) {
    let mut known = Dead { deaths: 0, newest: vec![0; MEMBERS] };
    // SYNC with the store in `Opened::drop`.
    while !closing.load(Ordering::SeqCst) {
        match deaths.after(known.deaths) {
            Ok(dead) if dead.deaths > known.deaths => {
                for (index, (new, old)) in dead.newest.iter().zip(&known.newest).enumerate().take(MEMBERS) {
                    if new > old {
                        domain.bury(MemberId { index, generation: *new });
                    }
                }
                known.newest.iter_mut().zip(&dead.newest).for_each(|(old, new)| *old = (*old).max(*new));
                known.deaths = dead.deaths;
            }
            // The exporter closes the region, is gone, or lies.
            Ok(_) | Err(_) => break,
        }
    }
    domain.end();
}

impl<T: RegionLayout> Clone for Region<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: RegionLayout> Deref for Region<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0.objects
    }
}

impl<T: RegionLayout> fmt::Debug for Region<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("member", &self.0.domain.me).finish_non_exhaustive()
    }
}

impl<T> Drop for Opened<T> {
    fn drop(&mut self) {
        // SYNC with the loads of the two kernel threads.
        self.closing.store(true, Ordering::SeqCst);
        self.domain.rouse_listener();
        self.domain.end();
        match &mut self.side {
            Side::Exporter { running, members } => {
                members.close();
                drop(running.take());
            }
            Side::Importer { abandon, .. } => abandon.abandon(),
        }
    }
}

/// Decides which domains may have the region.
type Authorize = dyn Fn(&Peer) -> Grant + Send + Sync;

/// A region that is about to be exported, with the rights of importers.
///
/// # Examples
/// ```no_run
/// use underpass::shared::{Mutex, RegionExport};
///
/// # fn main() -> Result<(), underpass::Error> {
/// let region = RegionExport::new()
///     .mode(0o660)
///     .authorize(|peer| peer.is_in(27))
///     .start("ledger", |ledger: &Mutex<u64>| ledger.lock().unwrap().set(100))?;
/// # drop(region);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is exported until `start`"]
pub struct RegionExport {
    mode: u32,
    authorize: Option<Arc<Authorize>>,
}

impl Default for RegionExport {
    fn default() -> Self {
        Self::new()
    }
}

impl RegionExport {
    /// A region for processes of this user.
    pub fn new() -> Self {
        Self { mode: 0o600, authorize: None }
    }

    /// As [`Server::mode`](underpass_rpc::Server::mode).
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// As [`Service::authorize`](underpass_rpc::Service::authorize). It is asked twice for each
    /// member, which has two bindings.
    pub fn authorize<G: Into<Grant>>(mut self, decide: impl Fn(&Peer) -> G + Send + Sync + 'static) -> Self {
        self.authorize = Some(Arc::new(move |peer| decide(peer).into()));
        self
    }

    /// As [`Region::export`].
    ///
    /// # Errors
    /// As [`Region::export`].
    pub fn start<T: RegionLayout>(self, name: &str, init: impl FnOnce(&T)) -> Result<Region<T>, Error> {
        let refused = |e| ExportError::System("a region needs memory and two kernel threads", e);
        let words = OBJECTS + T::WORDS;
        let (memory, file) = RegionWords::create(words).map_err(refused)?;
        memory.word(HEADER_VERSION).store(VERSION, Ordering::Relaxed);
        memory.word(HEADER_SHAPE).store(shape::<T>(), Ordering::Relaxed);
        memory.word(HEADER_WORDS).store(words as u64, Ordering::Relaxed);
        let domain = Arc::new(LocalDomain::new(memory, EXPORTER));
        let members = Members::new(domain.clone(), shape::<T>(), file);
        let side = Side::Exporter { running: None, members: members.clone() };
        let mut region = Region::<T>::open(domain, side);
        region.listen().map_err(refused)?;
        init(&region);
        let (mut host, mut deaths) =
            (Host::serve(Doorman(members.clone())), Obituary::serve(Teller(members.clone())));
        host = host.on_binding_end(move |binding| members.bury(binding));
        if let Some(decide) = self.authorize {
            let again = decide.clone();
            host = host.authorize(move |peer| decide(peer));
            deaths = deaths.authorize(move |peer| again(peer));
        }
        let server = Server::new().mode(self.mode).export(obituary_of(name), deaths).export(name, host);
        let running = server.start()?;
        match Arc::get_mut(&mut region.0).map(|opened| &mut opened.side) {
            Some(Side::Exporter { running: place, .. }) => *place = Some(running),
            // Not before this function returns can there be a clone.
            _ => unreachable!("the region is not shared yet"),
        }
        Ok(region)
    }
}

impl fmt::Debug for RegionExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionExport").field("mode", &self.mode).finish_non_exhaustive()
    }
}
