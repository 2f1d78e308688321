//! `Async`: a descriptor whose operations block the calling thread and nothing else.

use crate::direction::Direction;
use crate::event_source::{EventSource, WaitOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use underpass_os::{clock, descriptor};

/// After this many operations in a row that need not wait, other threads go first.
const SHARE: u32 = 64;

/// Something with a descriptor, such as a socket, a pipe, or anything else whose readiness the
/// kernel reports. An operation that would block suspends the calling thread until the descriptor
/// is ready. Its activation runs other threads meanwhile.
///
/// Any number of threads may wait on one `Async`, in both directions at once: share it by reference
/// or [`Arc`]. If `&T` is [`Read`](io::Read), as with sockets, `&Async<T>` is too. The same holds
/// for [`Write`](io::Write).
///
/// A regular file is always ready and never returns `WouldBlock`. So this does not keep it from
/// holding up its kernel thread.
///
/// # Examples
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
/// use underpass::io::Async;
/// use underpass::thread;
///
/// let (a, b) = UnixStream::pair()?;
/// let (mut a, mut b) = (Async::new(a)?, Async::new(b)?);
/// let reader = thread::spawn(move || {
///     let mut word = [0; 5];
///     a.read_exact(&mut word).map(|()| word)
/// });
/// b.write_all(b"hello")?;
/// assert_eq!(&reader.join().unwrap()?, b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Async<T: AsFd> {
    source: Arc<EventSource>,
    /// There until `into_inner` takes it.
    io: Option<T>,
    /// The number of operations in a row that did not wait. A hint.
    streak: AtomicU32,
}

impl<T: AsFd> Async<T> {
    /// Makes the open file behind `io` nonblocking, for every process and handle that shares it,
    /// and wraps it.
    ///
    /// # Errors
    /// The error of `fcntl`.
    pub fn new(io: T) -> io::Result<Self> {
        descriptor::set_nonblocking(&io, true)?;
        Ok(Self::new_nonblocking(io))
    }

    /// Wraps something that is nonblocking already. If it isn't, its operations hold up the kernel
    /// thread.
    pub fn new_nonblocking(io: T) -> Self {
        Self { source: EventSource::new(), io: Some(io), streak: AtomicU32::new(0) }
    }

    /// The wrapped value.
    ///
    /// # Panics
    /// Never.
    #[inline]
    pub fn get_ref(&self) -> &T {
        self.io.as_ref().expect("only into_inner, which ends the Async, takes it out")
    }

    /// The wrapped value, to be changed. It has to keep its descriptor. If another one is put in
    /// its place, waiting for that fails with [`NotFound`](io::ErrorKind::NotFound).
    ///
    /// # Panics
    /// Never.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.io.as_mut().expect("only into_inner, which ends the Async, takes it out")
    }

    /// Unwraps the value, which stays nonblocking.
    ///
    /// # Errors
    /// None at present.
    ///
    /// # Panics
    /// Never.
    pub fn into_inner(mut self) -> io::Result<T> {
        self.forget();
        Ok(self.io.take().expect("only into_inner takes it out"))
    }

    /// Waits until there is something to read or to accept, or the end of it. A hint: another
    /// thread may have been first.
    ///
    /// # Errors
    /// [Cancelled](crate::is_cancelled). Descriptors that the poller can't watch:
    /// `PermissionDenied` for regular files, `AlreadyExists` for one on which another `Async`
    /// waits.
    pub fn readable(&self) -> io::Result<()> {
        self.wait(Direction::Read, WaitOptions::ENDLESS)
    }

    /// Waits until there is room to write, or nobody is left that would read it. A hint: another
    /// thread may have been first.
    ///
    /// # Errors
    /// As [`readable`](Self::readable).
    pub fn writable(&self) -> io::Result<()> {
        self.wait(Direction::Write, WaitOptions::ENDLESS)
    }

    /// As [`readable`](Self::readable), but not beyond `deadline`.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut), besides.
    pub fn readable_until(&self, deadline: Instant) -> io::Result<()> {
        self.wait(Direction::Read, WaitOptions::until(Some(point(deadline))))
    }

    /// As [`writable`](Self::writable), but not beyond `deadline`.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut), besides.
    pub fn writable_until(&self, deadline: Instant) -> io::Result<()> {
        self.wait(Direction::Write, WaitOptions::until(Some(point(deadline))))
    }

    /// Tries `operation` until it returns something other than `WouldBlock` or `Interrupted`.
    /// Between two tries it waits until the descriptor is readable.
    ///
    /// # Errors
    /// Those of `operation`, and those of [`readable`](Self::readable).
    ///
    /// # Examples
    /// ```
    /// use underpass::io::Async;
    ///
    /// let socket = Async::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// socket.get_ref().send_to(b"hello", socket.get_ref().local_addr()?)?;
    /// let mut buffer = [0; 16];
    /// let (len, _from) = socket.read_with(|socket| socket.recv_from(&mut buffer))?;
    /// assert_eq!(&buffer[..len], b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn read_with<R>(&self, operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.attempt(Direction::Read, |_| Ok(None), operation)
    }

    /// Tries `operation` until it returns something other than `WouldBlock` or `Interrupted`.
    /// Between two tries it waits until the descriptor is writable.
    ///
    /// # Errors
    /// Those of `operation`, and those of [`writable`](Self::writable).
    pub fn write_with<R>(&self, operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.attempt(Direction::Write, |_| Ok(None), operation)
    }

    /// As [`read_with`](Self::read_with), but waits no longer than until `deadline`. `operation` is
    /// tried once in any case.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut), besides.
    pub fn read_with_until<R>(
        &self,
        deadline: Instant,
        operation: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.attempt(Direction::Read, |_| Ok(Some(point(deadline))), operation)
    }

    /// As [`write_with`](Self::write_with), but waits no longer than until `deadline`. `operation`
    /// is tried once in any case.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut), besides.
    pub fn write_with_until<R>(
        &self,
        deadline: Instant,
        operation: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.attempt(Direction::Write, |_| Ok(Some(point(deadline))), operation)
    }

    /// Tries `operation`, and waits where it would block. `deadline` is asked once, before the
    /// first wait.
    pub(crate) fn attempt<R>(
        &self,
        direction: Direction,
        deadline: impl FnOnce(&T) -> io::Result<Option<u64>>,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let io = self.get_ref();
        self.attempt_on(direction, || deadline(io), || operation(io))
    }

    /// As [`attempt`](Self::attempt), without a deadline, for operations that need the `Async`
    /// exclusively.
    pub(crate) fn attempt_mut<R>(
        &mut self,
        direction: Direction,
        mut operation: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            self.share();
            match operation(self.get_mut()) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(direction, WaitOptions::ENDLESS)?
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn attempt_on<R>(
        &self,
        direction: Direction,
        deadline: impl FnOnce() -> io::Result<Option<u64>>,
        mut operation: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let (mut deadline, mut options) = (Some(deadline), WaitOptions::ENDLESS);
        loop {
            self.share();
            match operation() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(deadline) = deadline.take() {
                        options = WaitOptions::until(deadline()?);
                    }
                    self.wait(direction, options)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Suspends the caller until the descriptor is ready.
    pub(crate) fn wait(&self, direction: Direction, options: WaitOptions) -> io::Result<()> {
        self.streak.store(0, Ordering::Relaxed);
        self.source.wait(self.get_ref().as_fd(), direction, options)
    }

    /// Counts an operation, and yields after [`SHARE`] of them. A peer that is always ready must
    /// not keep the activation from its other threads.
    #[inline]
    fn share(&self) {
        // Relaxed, here and in `wait`: a lost count only delays a yield.
        let streak = self.streak.load(Ordering::Relaxed) + 1;
        self.streak.store(streak % SHARE, Ordering::Relaxed);
        if streak == SHARE && underpass_threads::on_user_thread() {
            underpass_threads::yield_now();
        }
    }

    fn forget(&self) {
        if let Some(io) = &self.io {
            self.source.forget(io.as_fd());
        }
    }
}

/// `instant` as ns of the runtime's clock.
pub(crate) fn point(instant: Instant) -> u64 {
    clock::deadline_ns(instant.saturating_duration_since(Instant::now()))
}

impl<T: AsFd> Drop for Async<T> {
    fn drop(&mut self) {
        self.forget();
    }
}

impl<T: AsFd> AsFd for Async<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl<T: AsFd> AsRawFd for Async<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl<T: AsFd> AsRef<T> for Async<T> {
    fn as_ref(&self) -> &T {
        self.get_ref()
    }
}
