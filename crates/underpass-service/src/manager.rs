//! The service manager that started this process.

use crate::address::notify_address;
use crate::watchdog;
use std::env;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;
use underpass_os::clock;
use underpass_rpc::{RunPhase, Server};

/// How long a manager may take to make room for a notification.
const PATIENCE: Duration = Duration::from_secs(1);

/// The service manager that started this process, such as systemd. Without one, all notifications
/// succeed and tell nobody, so a program needs no case for it.
///
/// A clone tells the same manager.
///
/// # Examples
/// A program that is a service by itself tells what it does:
///
/// ```
/// use underpass::service::ServiceManager;
///
/// let manager = ServiceManager::from_environment()?;
/// manager.status("reads the index")?;
/// manager.ready()?;
/// // At SIGHUP:
/// manager.reloading()?;
/// manager.ready()?;
/// manager.stopping()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServiceManager {
    notify: Option<Arc<(UnixDatagram, SocketAddr)>>,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The manager that the environment names: `$NOTIFY_SOCKET`, `$WATCHDOG_USEC` and
    /// `$WATCHDOG_PID`.
    ///
    /// # Errors
    /// The environment is not as a manager makes it, or too many files are open. The text says
    /// which.
    pub fn from_environment() -> io::Result<Self> {
        let Some(named) = env::var_os("NOTIFY_SOCKET").filter(|named| !named.is_empty()) else {
            return Ok(Self { notify: None, watchdog: None });
        };
        let address = notify_address(&named)?;
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let variable = |name| env::var_os(name);
        let watchdog =
            watchdog::period(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id())?;
        Ok(Self { notify: Some(Arc::new((socket, address))), watchdog })
    }

    /// Whether there is one that wants notifications.
    pub fn is_there(&self) -> bool {
        self.notify.is_some()
    }

    /// Makes `server` tell this manager, in [`Server::run`], when it is ready and when it stops.
    /// From when it is ready on, a kernel thread sends `WATCHDOG=1`, if the manager wants it
    /// (`WatchdogSec=`): twice in its period, while threads run and bindings can be made.
    ///
    /// A notification that fails does not end the server. The manager notices that it is missing.
    ///
    /// # Examples
    /// ```no_run
    /// # fn run(service: underpass::Service) -> Result<(), Box<dyn std::error::Error>> {
    /// let server = underpass::Server::new().export("fs.cache", service);
    /// let manager = underpass::service::ServiceManager::from_environment()?;
    /// manager.announce(server).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn announce(&self, server: Server) -> Server {
        let manager = self.clone();
        server.on_phase(move |phase| {
            let told = match phase {
                RunPhase::Ready => manager.ready().and_then(|()| manager.start_watchdog()),
                RunPhase::Stopping => manager.stopping(),
                _ => Ok(()),
            };
            if let Err(e) = told {
                eprintln!("underpass: the service manager was not told of {phase:?}: {e}");
            }
        })
    }

    /// Starts the kernel thread that [`announce`](Self::announce) starts, for programs that do
    /// without [`Server::run`]. Each call starts one, if the manager wants it.
    ///
    /// # Errors
    /// There is no memory for a kernel thread.
    pub fn start_watchdog(&self) -> io::Result<()> {
        match self.watchdog {
            Some(period) => watchdog::start(self.clone(), period),
            None => Ok(()),
        }
    }

    /// `READY=1`: the service serves, or has reloaded.
    ///
    /// # Errors
    /// The manager is gone, or does not take notifications.
    pub fn ready(&self) -> io::Result<()> {
        self.tell("READY=1")
    }

    /// `RELOADING=1`, with the time: the service reads its settings again, and says
    /// [`ready`](Self::ready) afterwards.
    ///
    /// # Errors
    /// As of [`ready`](Self::ready).
    pub fn reloading(&self) -> io::Result<()> {
        // The manager compares it with its own clock, which a time namespace here may not shift.
        let now = clock::now_ns().saturating_add_signed(-clock::ahead_ns());
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", now / 1000))
    }

    /// `STOPPING=1`: the service ends.
    ///
    /// # Errors
    /// As of [`ready`](Self::ready).
    pub fn stopping(&self) -> io::Result<()> {
        self.tell("STOPPING=1")
    }

    /// `STATUS=`: a line for people, which `systemctl status` shows.
    ///
    /// # Errors
    /// As of [`ready`](Self::ready).
    pub fn status(&self, line: &str) -> io::Result<()> {
        // Another line would be another notification.
        self.tell(&format!("STATUS={}", line.replace(['\n', '\r', '\0'], " ")))
    }

    /// `MAINPID=`: the process `pid` is the service from now on. For a server that another process
    /// replaces ([`Server::replace`]), with `NotifyAccess=all` in the unit.
    ///
    /// # Errors
    /// As of [`ready`](Self::ready).
    pub fn main_pid(&self, pid: u32) -> io::Result<()> {
        self.tell(&format!("MAINPID={pid}"))
    }

    /// Sends one notification.
    pub(crate) fn tell(&self, lines: &str) -> io::Result<()> {
        let Some(notify) = &self.notify else { return Ok(()) };
        let (socket, address) = &**notify;
        let sent = loop {
            match socket.send_to_addr(lines.as_bytes(), address) {
                // A signal of the runtime's, or of the program's own.
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                sent => break sent,
            }
        };
        sent.map(drop).map_err(|e| {
            let what = format!("the service manager at $NOTIFY_SOCKET does not take {lines:?}: {e}");
            io::Error::new(e.kind(), what)
        })
    }
}
