//! Which types may be used after a caught panic. As in `std`, locks report it by their poison, and
//! the other types are never half changed.

use crate::mpmc::{Receiver, Sender};
use crate::{Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, Semaphore};
use std::panic::{RefUnwindSafe, UnwindSafe};

impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}
impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl UnwindSafe for Condvar {}
impl RefUnwindSafe for Condvar {}
impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}
impl UnwindSafe for Barrier {}
impl RefUnwindSafe for Barrier {}
impl UnwindSafe for Semaphore {}
impl RefUnwindSafe for Semaphore {}
impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}
