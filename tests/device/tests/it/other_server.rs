//! Our driver's side of vfio-user against another implementation of the device's side, the crate
//! `vfio_user`.

use crate::common::{far, until, watchdog};
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use underpass::device::{Device, DeviceEvent, DeviceSource, InterruptOutcome};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion};

/// A device of one register, which copies 16 bytes of the driver's memory when it is written.
#[derive(Default)]
struct OneRegister {
    value: u64,
    memory: Vec<(u64, u64, File)>,
    events: Option<File>,
}

impl ServerBackend for OneRegister {
    fn region_read(&mut self, _: u32, _: u64, data: &mut [u8]) -> io::Result<()> {
        data.copy_from_slice(&self.value.to_le_bytes()[..data.len()]);
        Ok(())
    }

    fn region_write(&mut self, _: u32, _: u64, data: &[u8]) -> io::Result<()> {
        let mut value = [0; 8];
        value[..data.len()].copy_from_slice(data);
        self.value = u64::from_le_bytes(value);
        for (address, offset, file) in &self.memory {
            if *address == self.value {
                let mut bytes = [0; 16];
                file.read_exact_at(&mut bytes, *offset)?;
                file.write_all_at(&bytes, offset + 16)?;
            }
        }
        self.events.as_ref().map_or(Ok(()), |mut events| events.write_all(&1u64.to_ne_bytes()))
    }

    fn dma_map(
        &mut self,
        _: DmaMapFlags,
        offset: u64,
        address: u64,
        _: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        self.memory.push((address, offset, fd.ok_or(io::ErrorKind::InvalidInput)?));
        Ok(())
    }

    fn dma_unmap(&mut self, _: DmaUnmapFlags, address: u64, _: u64) -> io::Result<()> {
        self.memory.retain(|(mapped, ..)| *mapped != address);
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.value = 0;
        Ok(())
    }

    fn set_irqs(&mut self, _: u32, _: u32, _: u32, _: u32, fds: Vec<File>) -> io::Result<()> {
        self.events = fds.into_iter().next();
        Ok(())
    }
}

#[test]
fn another_server_is_driven() {
    let _dog = watchdog();
    let socket = std::env::temp_dir().join(format!("underpass-other-server-{}", std::process::id()));
    let _ = std::fs::remove_file(&socket);
    let irqs = (0..5).map(|index| IrqInfo { index, flags: 1, count: u32::from(index == 2) }).collect();
    let region = |index: u32| ServerRegion {
        region_info: vfio_bindings::bindings::vfio::vfio_region_info {
            argsz: 32,
            flags: 3,
            index,
            cap_offset: 0,
            size: if index == 0 { 4096 } else { 0 },
            offset: 0,
        },
        sparse_areas: Vec::new(),
        mmap_fd: None,
    };
    let server = Server::new(&socket, true, irqs, (0..9).map(region).collect()).unwrap();
    let serving = std::thread::spawn(move || server.run(&mut OneRegister::default()));
    {
        let device = until(|| Device::open(DeviceSource::vfio_user(&socket)).ok());
        let registers = device.map_bar(0).unwrap();
        registers.write(0, 7u64).unwrap();
        assert_eq!(registers.read::<u64>(0).unwrap(), 7);
        let memory = device.dma(4096).unwrap();
        memory.copy_in(0, b"sixteen bytes...").unwrap();
        let enabled = device.interrupt(0).unwrap().register_for_waiters(|upcall| {
            upcall.wake_all();
            InterruptOutcome::Handled
        });
        let enabled = enabled.unwrap();
        registers.write(0, memory.iova()).unwrap();
        let mut copied = [0; 16];
        let arrived = || {
            memory.copy_out(16, &mut copied).ok()?;
            (&copied == b"sixteen bytes...").then_some(())
        };
        enabled.wait(&Arc::new(DeviceEvent::new()), far(), arrived).unwrap();
        device.reset().unwrap();
        assert_eq!(registers.read::<u32>(0).unwrap(), 0);
    }
    // It ends when its driver has hung up.
    let _ended = serving.join().unwrap();
    let _ = std::fs::remove_file(&socket);
}
