//! Telling a service manager that the runtime works.

use crate::manager::ServiceManager;
use std::ffi::OsString;
use std::io;
use std::time::Duration;

/// How often a service manager wants to hear of the process `own`. `None`: it does not.
pub fn period(usec: Option<OsString>, pid: Option<OsString>, own: u32) -> io::Result<Option<Duration>> {
    let Some(usec) = usec.filter(|usec| !usec.is_empty()) else { return Ok(None) };
    let odd = |name: &str, value: &OsString| {
        let what = format!("{name}={} is no number; see sd_watchdog_enabled(3)", value.display());
        io::Error::new(io::ErrorKind::InvalidInput, what)
    };
    if let Some(pid) = pid.filter(|pid| !pid.is_empty()) {
        let to = pid.to_str().and_then(|pid| pid.parse().ok()).ok_or_else(|| odd("WATCHDOG_PID", &pid))?;
        // It is meant for the parent, or for another process.
        if own != to {
            return Ok(None);
        }
    }
    let every =
        usec.to_str().and_then(|usec| usec.parse().ok()).ok_or_else(|| odd("WATCHDOG_USEC", &usec))?;
    Ok(Some(Duration::from_micros(every)).filter(|every| !every.is_zero()))
}

/// Sends `WATCHDOG=1` twice in each `period`, for as long as the runtime gives signs of life. It
/// ends with the process, which may take long to answer its last calls.
pub fn start(manager: ServiceManager, period: Duration) -> io::Result<()> {
    let run = move || loop {
        underpass_rpc::await_runtime();
        // If the manager is gone, nobody misses this.
        let _ = manager.tell("WATCHDOG=1");
        std::thread::sleep(period / 2);
    };
    std::thread::Builder::new()
        .name("underpass-notify".to_owned())
        .stack_size(128 * 1024)
        .spawn(run)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_for_one_process() {
        let of = |usec: &str, pid: &str| {
            let set = |text: &str| (!text.is_empty()).then(|| OsString::from(text));
            period(set(usec), set(pid), 42).map_err(|e| e.to_string())
        };
        let second = Ok(Some(Duration::from_secs(1)));
        assert_eq!(of("1000000", ""), second);
        assert_eq!(of("1000000", "42"), second);
        assert_eq!(of("1000000", "41"), Ok(None));
        assert_eq!((of("", "42"), of("0", "42")), (Ok(None), Ok(None)));
        assert!(of("soon", "").unwrap_err().starts_with("WATCHDOG_USEC=soon is no number"));
        assert!(of("1", "me").unwrap_err().starts_with("WATCHDOG_PID=me is no number"));
    }
}
