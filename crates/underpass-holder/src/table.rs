//! The drivers of a holder, by name.

use crate::drivers::{DriverError, DriverProgram, DriverStatus, Drivers};
use crate::running_driver::RunningDriver;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, PoisonError};
use underpass::device::{DeviceError, DeviceHolder, DeviceSource};
use underpass::sync::{Mutex, MutexGuard};

/// Keeps devices, and runs a driver for each. When it is dropped, the drivers are stopped.
///
/// # Examples
/// ```
/// use underpass::Server;
/// use underpass_holder::{DriverTable, Drivers, DriversClient};
///
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-drivers-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// // The holder's process:
/// let service = Drivers::serve(DriverTable::new());
/// let running = Server::new().export("drivers", service).start()?;
///
/// // Another process, here the same:
/// let drivers = DriversClient::import("drivers")?;
/// assert_eq!(drivers.list()?, []);
/// assert!(drivers.stop("disk0").is_err(), "there is none of this name");
/// # drop(running);
/// # std::fs::remove_dir(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct DriverTable {
    /// `None`: it is being started.
    drivers: Mutex<BTreeMap<String, Option<Arc<RunningDriver>>>>,
}

impl DriverTable {
    /// A table without drivers.
    pub fn new() -> Self {
        Self::default()
    }

    fn drivers(&self) -> MutexGuard<'_, BTreeMap<String, Option<Arc<RunningDriver>>>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Result<Arc<RunningDriver>, DriverError> {
        self.drivers().get(name).cloned().flatten().ok_or(DriverError::Unknown)
    }
}

fn source(device: &str) -> Result<DeviceSource, DriverError> {
    match device.split_once(':') {
        Some(("vfio-user", path)) => Ok(DeviceSource::vfio_user(path)),
        Some(("vfio-pci", address)) => Ok(DeviceSource::vfio_pci(address)),
        _ => Err(DriverError::Device(format!("{device} is neither vfio-user:PATH nor vfio-pci:ADDRESS"))),
    }
}

fn refused(e: DeviceError) -> DriverError {
    DriverError::Device(e.to_string())
}

impl Drivers for DriverTable {
    fn start(
        &self,
        name: &str,
        device: &str,
        memory: u64,
        program: DriverProgram,
    ) -> Result<(), DriverError> {
        let source = source(device)?;
        match self.drivers().entry(name.to_owned()) {
            Entry::Occupied(_) => return Err(DriverError::Taken),
            Entry::Vacant(place) => place.insert(None),
        };
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        let holder = DeviceHolder::open(source, memory).map_err(refused);
        let started = holder.and_then(|holder| RunningDriver::start(name, holder, program));
        let mut drivers = self.drivers();
        match started {
            Ok(driver) => drop(drivers.insert(name.to_owned(), Some(driver))),
            Err(e) => {
                drivers.remove(name);
                return Err(e);
            }
        }
        Ok(())
    }

    fn stop(&self, name: &str) -> Result<(), DriverError> {
        let driver = self.find(name)?;
        driver.stop();
        // Another one may have been started under this name.
        let mut drivers = self.drivers();
        if drivers.get(name).and_then(Option::as_ref).is_some_and(|there| Arc::ptr_eq(there, &driver)) {
            drivers.remove(name);
        }
        Ok(())
    }

    fn replace(&self, name: &str, program: DriverProgram) -> Result<(), DriverError> {
        self.find(name)?.replace(program)
    }

    fn list(&self) -> Result<Vec<DriverStatus>, DriverError> {
        let drivers: Vec<_> = self.drivers().values().flatten().cloned().collect();
        Ok(drivers.iter().map(|driver| driver.status()).collect())
    }
}

impl Drop for DriverTable {
    fn drop(&mut self) {
        let drivers = std::mem::take(&mut *self.drivers());
        drivers.values().flatten().for_each(|driver| driver.stop());
    }
}
