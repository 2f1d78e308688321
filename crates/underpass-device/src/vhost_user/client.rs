//! A virtio device that is another process. Its driver sees the registers of a virtio device; what
//! it writes there becomes messages of vhost-user, or a signal of the queue's event counter.

use crate::DeviceError;
use crate::backing::{Backing, RegisterRegion};
use crate::lock::lock;
use crate::vfio_user::message::{MessageBody, MessageFields};
use crate::vhost_user::connection::VhostConnection;
use crate::vhost_user::message::VhostCommand;
use crate::vhost_user::virtio_registers::{
    CONFIGURATION, MAGIC, SIZE, VERSION, VirtioQueue, VirtioRegister, VirtioState, half,
};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;
use underpass_os::{DeviceMemory, DeviceStream, EventFd};
use underpass_threads::in_injected_task;

/// Both sides speak of features of the protocol.
const PROTOCOL: u64 = 1 << 30;
/// Features of the protocol: orders are answered, and the configuration can be read.
const WANTED: u64 = 1 << 3 | 1 << 9;
/// The most pieces of memory that every device takes.
const MOST_PIECES: usize = 8;
/// The most entries of a queue. The protocol has no question for it.
const MOST_ENTRIES: u32 = 256;
/// Bits of the status: the features are settled; the driver is ready.
const FEATURES_OK: u32 = 8;

/// | field | its writer |
/// |---|---|
/// | `state`, `memory`, `call`, `told` | under their locks; `setting` is held across the messages that follow |
#[derive(Debug)]
pub(crate) struct VhostUser {
    connection: VhostConnection,
    /// The features of virtio that the device has.
    features: u64,
    kick: EventFd,
    state: Mutex<VirtioState>,
    /// Memory by the device's addresses: its length and its file.
    memory: Mutex<BTreeMap<u64, (u64, OwnedFd)>>,
    call: Mutex<Option<OwnedFd>>,
    /// Where the queue is that the device was told of last.
    told: Mutex<[u64; 3]>,
    /// Held by the thread that changes the device's settings.
    setting: underpass_sync::Mutex<()>,
}

impl VhostUser {
    /// Agrees with the device on the features of the protocol.
    pub(crate) fn open(stream: DeviceStream, patience: Duration) -> Result<Self, DeviceError> {
        let connection = VhostConnection::new(stream, patience);
        let features = connection.ask_number("say what it is", VhostCommand::GetFeatures)?;
        if features & PROTOCOL == 0 {
            return Err(DeviceError::Unsupported("features of vhost-user"));
        }
        let protocol = connection.ask_number("say what it speaks", VhostCommand::GetProtocolFeatures)?;
        if protocol & WANTED != WANTED {
            return Err(DeviceError::Unsupported("answers, or configuration, over vhost-user"));
        }
        let wanted = MessageBody::default().u64(WANTED);
        connection.tell("agree", VhostCommand::SetProtocolFeatures, &wanted.0)?;
        connection.order("begin", VhostCommand::SetOwner, &[], &[])?;
        Ok(Self {
            connection,
            features: features & !PROTOCOL,
            kick: EventFd::new()?,
            state: Mutex::default(),
            memory: Mutex::default(),
            call: Mutex::default(),
            told: Mutex::default(),
            setting: underpass_sync::Mutex::new(()),
        })
    }

    /// Begins to change the device's settings, which a handler may not: it would wait.
    fn setting(&self, what: &'static str) -> Result<underpass_sync::MutexGuard<'_, ()>, DeviceError> {
        if in_injected_task() {
            return Err(DeviceError::InHandler(what));
        }
        Ok(self.setting.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn read_configuration(&self, offset: u64, width: usize) -> Result<u64, DeviceError> {
        // Some devices ignore where the part begins that is asked for, and refuse what they lack.
        let len = offset as usize + width;
        let asked = MessageBody::default().u32(0).u32(len as u32).u32(0).bytes(&vec![0; len]);
        let told = self.connection.ask("tell its configuration", VhostCommand::GetConfig, &asked.0)?;
        let bytes = MessageFields(&told).rest(12 + offset as usize).and_then(|rest| rest.get(..width));
        let bytes = bytes.ok_or_else(|| self.connection.malformed("its configuration is too short"))?;
        let mut value = [0; 8];
        value[..width].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(value))
    }

    fn set_status(&self, status: u32) -> Result<(), DeviceError> {
        let _one = self.setting("change the device's status")?;
        if status == 0 {
            return self.stop();
        }
        let (was, features) = {
            let state = lock(&self.state);
            (state.status, state.driver_features & self.features)
        };
        if status & !was & FEATURES_OK != 0 {
            let body = MessageBody::default().u64(features | PROTOCOL);
            self.connection.order("take the features", VhostCommand::SetFeatures, &body.0, &[])?;
        }
        lock(&self.state).status = status;
        Ok(())
    }

    /// Stops the queue: the device accesses no memory afterwards.
    fn stop(&self) -> Result<(), DeviceError> {
        let ready = lock(&self.state).queue.ready;
        if ready {
            let disabled = MessageBody::default().u32(0).u32(0);
            let queue = MessageBody::default().u32(0).u32(0);
            self.connection.order("stop", VhostCommand::SetVringEnable, &disabled.0, &[])?;
            self.connection.ask("stop its queue", VhostCommand::GetVringBase, &queue.0)?;
        }
        *lock(&self.state) = VirtioState::default();
        Ok(())
    }

    /// Lets the device use the queue.
    fn start(&self) -> Result<(), DeviceError> {
        const WHAT: &str = "take its queue";
        let _one = self.setting(WHAT)?;
        let VirtioQueue { entries, descriptors, driver, device, .. } = lock(&self.state).queue;
        let order = |command, body: MessageBody, files: &[BorrowedFd<'_>]| {
            self.connection.order(WHAT, command, &body.0, files)
        };
        order(VhostCommand::SetVringNum, MessageBody::default().u32(0).u32(entries), &[])?;
        order(VhostCommand::SetVringBase, MessageBody::default().u32(0).u32(0), &[])?;
        // The device's addresses, the driver's and the device's part, and that of a log: none.
        *lock(&self.told) = [descriptors, driver, device];
        let addresses = MessageBody::default().u32(0).u32(0).u64(descriptors).u64(device).u64(driver).u64(0);
        order(VhostCommand::SetVringAddr, addresses, &[])?;
        self.send_call()?;
        order(VhostCommand::SetVringKick, MessageBody::default().u64(0), &[self.kick.as_fd()])?;
        order(VhostCommand::SetVringEnable, MessageBody::default().u32(0).u32(1), &[])?;
        lock(&self.state).queue.ready = true;
        Ok(())
    }

    /// Tells the device which event counter it signals.
    fn send_call(&self) -> Result<(), DeviceError> {
        /// No file comes along.
        const NONE: u64 = 1 << 8;
        let file = lock(&self.call).as_ref().map(OwnedFd::try_clone).transpose()?;
        let files: Vec<_> = file.iter().map(|file| file.as_fd()).collect();
        let body = MessageBody::default().u64(if files.is_empty() { NONE } else { 0 });
        self.connection.order("enable an interrupt", VhostCommand::SetVringCall, &body.0, &files)
    }

    /// Tells the device of all memory.
    fn send_memory(&self) -> Result<(), DeviceError> {
        let pieces: Vec<_> = lock(&self.memory)
            .iter()
            .map(|(iova, (len, file))| Ok((*iova, *len, file.try_clone()?)))
            .collect::<std::io::Result<_>>()?;
        let mut body = MessageBody::default().u32(pieces.len() as u32).u32(0);
        for (iova, len, _) in &pieces {
            // The device's address, the length, the driver's address, and where it lies in the
            // file.
            body = body.u64(*iova).u64(*len).u64(*iova).u64(0);
        }
        let files: Vec<_> = pieces.iter().map(|(.., file)| file.as_fd()).collect();
        self.connection.order("map memory", VhostCommand::SetMemTable, &body.0, &files)
    }
}

impl Backing for VhostUser {
    fn region(&self, number: u32) -> Result<RegisterRegion, DeviceError> {
        let size = if number == 0 { SIZE } else { 0 };
        Ok(RegisterRegion { size, mapped: Vec::new() })
    }

    fn read(&self, _: u32, offset: u64, width: usize) -> Result<u64, DeviceError> {
        if offset >= CONFIGURATION {
            return self.read_configuration(offset - CONFIGURATION, width);
        }
        let state = lock(&self.state);
        let value = match VirtioRegister::at(offset) {
            VirtioRegister::Magic => MAGIC,
            VirtioRegister::Version => VERSION,
            // The protocol does not say which kind of device it is.
            VirtioRegister::Device => 0,
            VirtioRegister::DeviceFeatures if state.device_select == 0 => self.features as u32,
            VirtioRegister::DeviceFeatures if state.device_select == 1 => (self.features >> 32) as u32,
            VirtioRegister::QueueMost if state.queue_select == 0 => MOST_ENTRIES,
            VirtioRegister::QueueReady => state.queue.ready.into(),
            VirtioRegister::Status => state.status,
            _ => 0,
        };
        Ok(value.into())
    }

    fn write(&self, _: u32, offset: u64, _: usize, value: u64) -> Result<(), DeviceError> {
        let value = value as u32;
        let register = VirtioRegister::at(offset);
        match register {
            VirtioRegister::QueueNotify => {
                self.kick.signal();
                return Ok(());
            }
            VirtioRegister::Status => return self.set_status(value),
            VirtioRegister::QueueReady if value == 1 => return self.start(),
            _ => {}
        }
        let mut state = lock(&self.state);
        let upper = state.driver_select == 1;
        match register {
            VirtioRegister::DeviceSelect => state.device_select = value,
            VirtioRegister::DriverSelect => state.driver_select = value,
            VirtioRegister::DriverFeatures if state.driver_select <= 1 => {
                state.driver_features = half(state.driver_features, upper, value);
            }
            VirtioRegister::QueueSelect => state.queue_select = value,
            VirtioRegister::QueueEntries if value <= MOST_ENTRIES => state.queue.entries = value,
            VirtioRegister::Address(which, upper) => state.queue.set_address(which, upper, value),
            _ => return Err(DeviceError::Unsupported("such a register, or such a value of it")),
        }
        Ok(())
    }

    fn map_dma(&self, iova: u64, memory: &DeviceMemory, file: BorrowedFd<'_>) -> Result<(), DeviceError> {
        let _one = self.setting("map memory")?;
        {
            let mut pieces = lock(&self.memory);
            if pieces.len() == MOST_PIECES {
                return Err(DeviceError::Unsupported("room for more than eight pieces of memory"));
            }
            pieces.insert(iova, (memory.len() as u64, file.try_clone_to_owned()?));
        }
        self.send_memory().inspect_err(|_| drop(lock(&self.memory).remove(&iova)))
    }

    fn unmap_dma(&self, iova: u64, len: u64) -> Result<(), DeviceError> {
        let _one = self.setting("unmap memory")?;
        // A device keeps the addresses of a queue that was stopped, and gives up without its
        // memory.
        if lock(&self.told).iter().any(|told| (iova..iova + len).contains(told)) {
            return Err(DeviceError::Unsupported("way to forget the memory of its last queue"));
        }
        let removed = lock(&self.memory).remove(&iova);
        self.send_memory().inspect_err(|_| {
            if let Some(removed) = removed {
                lock(&self.memory).insert(iova, removed);
            }
        })
    }

    fn vectors(&self) -> u32 {
        1
    }

    fn set_interrupt(&self, _: u32, events: Option<&EventFd>) -> Result<(), DeviceError> {
        let _one = self.setting("enable an interrupt")?;
        *lock(&self.call) = events.map(|events| events.as_fd().try_clone_to_owned()).transpose()?;
        self.send_call()
    }

    fn reset(&self) -> Result<(), DeviceError> {
        let _one = self.setting("reset itself")?;
        self.stop()
    }

    fn close(&self) {
        self.connection.hang_up();
    }

    fn files(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn reset_after(&self, _: u16) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("holder over vhost-user"))
    }

    fn address(&self) -> Option<&str> {
        None
    }

    fn ends_with(&self) -> Option<BorrowedFd<'_>> {
        Some(self.connection.file())
    }
}
