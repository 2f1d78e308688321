//! Importing from a server that is there already.

use super::{Bound, ImportMode, STEP, Until, allowed, introduce, left_until, may_pass, reach};
use crate::error::ImportError;
use underpass_os::Directory;
use underpass_threads::sleep;
use underpass_wire::Descriptor;

/// How often an importer that does not wait for a server connects, if it is hung up on.
const MOST_ATTEMPTS: u32 = 3;

/// Makes a binding to `name`, if a server exports it now.
///
/// If the server hangs up without an answer, the client connects again. A server that takes the
/// listening socket of a service manager does that to clients that came earlier. One that has ended
/// is connected to no more, so nobody waits for it.
pub(super) fn bind_at_once(
    directory: &Directory,
    name: &str,
    descriptor: &Descriptor,
    until: Until<'_>,
    mode: ImportMode,
) -> Result<Bound, ImportError> {
    let path = allowed(directory, name)?;
    let mut attempts = 1;
    loop {
        let socket = match reach(directory, name, &path) {
            Err(e) if attempts > 1 && may_pass(&e) => return Err(ImportError::Dead(path)),
            other => other?,
        };
        match introduce(socket, None, &path, descriptor, until, mode) {
            Err(ImportError::Dead(_)) if attempts < MOST_ATTEMPTS && !left_until(until()).is_zero() => {
                attempts += 1;
                sleep(STEP);
            }
            other => return other,
        }
    }
}
