//! A disk: how to wait for it at three loads, and what a driver between it and its clients costs.

use crate::calls::{self, Calls, Probe};
use crate::devices::{APPEAR, open};
use crate::measure::contest::Subject;
use crate::processes::client::ScenarioClient;
use crate::processes::role::ChildRole;
use crate::{BenchError, Figures};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use underpass::device::{Device, DeviceSource, WaitingMode};
use underpass::{CallError, thread};
use underpass_nvme::{BlockDevice, BlockDeviceClient, DiskOptions, DiskService, NvmeDisk};
use underpass_os::clock::{cpu_ns, now_ns};
use underpass_test_device::{Nvme, serve_at, start_nvme};

/// The bars of adaptive waiting, relative to the better of the two others.
const LATENCY_BAR: f64 = 1.25;
const CPU_BAR: f64 = 2.0;
/// A read through the driver's domain costs as many null calls more than one by the driver.
const CALLS: f64 = 1.5;

const DISK: &str = "disk";
const ALONE: &str = "alone";
/// Bytes of a read.
const READ: usize = 512;
/// Bytes of the disk.
const SIZE: usize = 1 << 20;
/// How long a thread pauses between two reads under the light load.
const PAUSE: Duration = Duration::from_micros(300);
/// How many threads read at once under the heavy load.
const THREADS: u64 = 8;

fn socket(scratch: &Path) -> PathBuf {
    scratch.join("disk.device")
}

/// The server's side of `wait`: the disk.
pub(super) fn serve_device(role: &ChildRole) -> Result<(), BenchError> {
    Ok(serve_at(&socket(&role.scratch), &mut Nvme::new(SIZE))?)
}

/// One way to wait, at one load.
struct Reads {
    name: &'static str,
    mode: WaitingMode,
    threads: u64,
    pause: Option<Duration>,
    disk: Arc<NvmeDisk>,
    /// Processor time and reads, all batches together.
    cpu: u64,
    reads: u64,
}

impl Reads {
    fn some(&self, reads: u64, samples: Option<&mut Vec<f64>>) -> Result<u64, BenchError> {
        self.disk.wait_by(self.mode);
        let (each, pause) = (reads.div_ceil(self.threads), self.pause);
        let took = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|number| {
                    let disk = &self.disk;
                    scope.spawn(move || {
                        let mut times = Vec::new();
                        for _ in 0..each {
                            pause.iter().for_each(|&pause| thread::sleep(pause));
                            let start = now_ns();
                            disk.read(number * 4096, &mut [0; READ])?;
                            times.push((now_ns() - start) as f64);
                        }
                        Ok::<_, underpass_nvme::NvmeError>(times)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
        });
        let mut times = Vec::new();
        for thread in took {
            times.extend(thread.map_err(|_| "a reading thread has panicked")??);
        }
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        samples.into_iter().for_each(|samples| samples.extend(&times));
        Ok((mean * reads as f64) as u64)
    }

    fn cpu_per_read(&self) -> f64 {
        self.cpu as f64 / self.reads.max(1) as f64
    }
}

impl Subject for Reads {
    fn name(&self) -> &str {
        self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        self.some(1, None)?;
        let before = cpu_ns();
        let took = self.some(operations, None)?;
        self.cpu += cpu_ns() - before;
        self.reads += operations;
        Ok(took)
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        self.some(operations.min(500), Some(samples)).map(drop)
    }
}

/// Adaptive waiting beside the two others.
pub(super) fn waits(client: &ScenarioClient) -> Result<(), BenchError> {
    let disk = Arc::new(NvmeDisk::open(open(&socket(client.scratch()))?, DiskOptions::default())?);
    let loads = [("wait/light", 1, Some(PAUSE)), ("wait/medium", 1, None), ("wait/heavy", THREADS, None)];
    for (part, (case, threads, pause)) in loads.into_iter().enumerate() {
        if !client.wants(case) {
            continue;
        }
        let reads = |name, mode| {
            let disk = Arc::clone(&disk);
            Reads { name, mode, threads, pause, disk, cpu: 0, reads: 0 }
        };
        let mut polling = reads("polling", WaitingMode::Polling);
        let mut interrupts = reads("interrupts", WaitingMode::Interrupts);
        let mut adaptive = reads("adaptive", WaitingMode::Adaptive);
        let contest =
            client.contest(&mut [&mut polling, &mut interrupts, &mut adaptive], part, loads.len())?;
        let median = |subject: usize| contest.measured[subject].slices().median();
        let better = usize::from(median(1) < median(0));
        let figures = Figures::of(&contest, 2, better);
        let cpu = adaptive.cpu_per_read();
        let least = polling.cpu_per_read().min(interrupts.cpu_per_read());
        let (ratio, cpu_ratio) = (figures.ratio, cpu / least);
        let figures = figures
            .with("polling_ns", median(0))
            .with("interrupts_ns", median(1))
            .with("cpu_ns", cpu)
            .with("polling_cpu_ns", polling.cpu_per_read())
            .with("interrupts_cpu_ns", interrupts.cpu_per_read())
            .with("cpu_ratio", cpu_ratio)
            .judged("bar", LATENCY_BAR, ratio <= LATENCY_BAR)
            .judged("cpu_bar", CPU_BAR, cpu_ratio <= CPU_BAR);
        client.report(case, figures)?;
    }
    Ok(())
}

/// Reads of the driver itself, which its own domain times.
#[underpass::interface]
pub(crate) trait DriverAlone {
    /// The ns that so many reads take.
    fn reads(&self, count: u64) -> Result<u64, CallError>;
}

struct Alone(Arc<NvmeDisk>);

impl DriverAlone for Alone {
    fn reads(&self, count: u64) -> Result<u64, CallError> {
        let start = now_ns();
        for _ in 0..count {
            // The figure of a disk that fails is never reported: the client's reads fail too.
            let _ = self.0.read(0, &mut [0; READ]);
        }
        Ok(now_ns() - start)
    }
}

/// The server's side of `read`: the disk's driver, with the disk on a thread of its process.
pub(super) fn serve_driver(_: &ChildRole) -> Result<(), BenchError> {
    let (socket, _disk) = start_nvme()?;
    let device = Device::open(DeviceSource::vfio_user_socket(socket))?;
    let service = DiskService::new(NvmeDisk::open(device, DiskOptions::default())?);
    let disk = service.disk().ok_or("the disk is not there")?;
    let server = calls::exporting(calls::NAME).export(DISK, BlockDevice::serve(service));
    Ok(server.export(ALONE, DriverAlone::serve(Alone(disk))).run()?)
}

/// The driver alone, timed in its domain.
struct AloneReads(DriverAloneClient);

impl Subject for AloneReads {
    fn name(&self) -> &str {
        "driver-alone"
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        self.0.reads(operations / 8 + 1)?;
        Ok(self.0.reads(operations)?)
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        for _ in 0..operations.min(500) {
            samples.push(self.0.reads(1)? as f64);
        }
        Ok(())
    }
}

/// A client's read through the driver's domain, beside the driver alone.
pub(super) fn reads(client: &ScenarioClient) -> Result<(), BenchError> {
    let probe = calls::import()?;
    let disk = BlockDeviceClient::import_within(DISK, APPEAR)?;
    let mut alone = AloneReads(DriverAloneClient::import_within(ALONE, APPEAR)?);
    client.settle()?;
    let calling = probe.clone();
    let mut null = Calls::new("null", 1, move || calling.null());
    let read = move || {
        let failed = |e: underpass_nvme::BlockError| {
            CallError::NoResources(underpass::Outcome::Executed, e.to_string())
        };
        disk.read(0, READ as u32).map(drop).map_err(failed)
    };
    let mut through = Calls::new("read", 1, read).counted(&probe);
    let contest = client.contest(&mut [&mut alone, &mut null, &mut through], 0, 1)?;
    let rounds = |subject: usize| contest.measured[subject].rounds.iter();
    let beside = rounds(0).zip(rounds(1)).map(|(alone, null)| alone + CALLS * null);
    let ratio = crate::Summary::of(rounds(2).zip(beside).map(|(read, beside)| read / beside)).median();
    let figures = Figures::of(&contest, 2, 0)
        .with("null_ns", contest.measured[1].slices().median())
        .with("with_calls_ratio", ratio)
        .judged("bar", 1.0, ratio <= 1.0);
    client.report("read", figures)
}
