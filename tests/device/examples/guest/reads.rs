//! Reads of 512 bytes at three loads: `io_uring` on the kernel's driver, and the driver of this
//! project.

use crate::{SOON, kernel_disk};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use underpass::device::{Device, DeviceSource, WaitingMode};
use underpass::thread;
use underpass_nvme::{DiskOptions, NvmeDisk, NvmeError};
use underpass_os::clock::{cpu_ns, now_ns};

/// Bytes of a read.
pub const READ: usize = 512;
/// How many blocks of the disk are read.
pub const BLOCKS: u64 = 1024;
/// Where the first run leaves its figures for the second one.
const FIGURES: &str = "/tmp/kernel-reads";

/// How many reads are under way at once, and how long one pauses before the next.
pub struct Load {
    pub name: &'static str,
    pub threads: usize,
    pub pause: Option<Duration>,
}

const LOADS: [Load; 3] = [
    Load { name: "light", threads: 1, pause: Some(Duration::from_micros(300)) },
    Load { name: "medium", threads: 1, pause: None },
    Load { name: "heavy", threads: 8, pause: None },
];

/// What reads took, in ns: the median of one, and the processor time of this process for each.
#[derive(Clone, Copy)]
pub struct ReadFigures {
    took: u64,
    cpu: u64,
}

impl ReadFigures {
    pub fn of(mut times: Vec<u64>, cpu: u64) -> Self {
        times.sort_unstable();
        Self { took: times[times.len() / 2], cpu: cpu / times.len() as u64 }
    }
}

impl fmt::Display for ReadFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} µs, {:.1} µs of a processor", self.took as f64 / 1e3, self.cpu as f64 / 1e3)
    }
}

/// How many reads a figure consists of.
fn count() -> usize {
    std::env::var("GUEST_READS").ok().and_then(|reads| reads.parse().ok()).unwrap_or(200)
}

/// Measures the disk at `path`, which the kernel drives.
pub fn of_kernel(path: &str) -> Result<(), Box<dyn Error>> {
    let mut lines = Vec::new();
    for load in &LOADS {
        for (way, polls) in [("interrupts", false), ("polling", true)] {
            let figures = kernel_disk::measure(path, polls, load, count())?;
            println!("read, {}: io_uring by {way}: {figures}", load.name);
            lines.push(format!("{} {}", figures.took, figures.cpu));
        }
    }
    std::fs::write(FIGURES, lines.join("\n"))?;
    Ok(())
}

/// Reads from a disk that this process drives.
fn own(disk: &Arc<NvmeDisk>, load: &Load, reads: usize) -> Result<ReadFigures, Box<dyn Error>> {
    let (start, each) = (cpu_ns(), reads.div_ceil(load.threads) as u64);
    let threads: Vec<_> = (0..load.threads as u64)
        .map(|first| {
            let (disk, pause) = (Arc::clone(disk), load.pause);
            thread::spawn(move || {
                let (mut times, mut bytes) = (Vec::new(), [0; READ]);
                for number in 0..each {
                    pause.inspect(|&pause| thread::sleep(pause));
                    let start = now_ns();
                    disk.read((first * each + number) % BLOCKS * READ as u64, &mut bytes)?;
                    times.push(now_ns() - start);
                }
                Ok::<_, NvmeError>(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for thread in threads {
        times.extend(thread.join().map_err(|_| "a thread has panicked")??);
    }
    Ok(ReadFigures::of(times, cpu_ns() - start))
}

/// Measures the disk at `address`, which this process drives, beside what [`of_kernel`] has found.
pub fn beside_kernel(address: &str) -> Result<(), Box<dyn Error>> {
    let device = Device::open(DeviceSource::vfio_pci(address))?;
    let disk = Arc::new(NvmeDisk::open(device, DiskOptions::default().patience(SOON))?);
    let told = std::fs::read_to_string(FIGURES)?;
    let mut told = told.split_whitespace().map(str::parse::<u64>);
    let mut next = || told.next().ok_or("the kernel's driver was not measured")?.map_err(|e| e.to_string());
    for load in &LOADS {
        let [by_interrupts, by_polling] = [(next()?, next()?), (next()?, next()?)];
        // The better one, in each of the two.
        let (took, cpu) = (by_interrupts.0.min(by_polling.0), by_interrupts.1.min(by_polling.1));
        let modes = [
            ("adaptive", WaitingMode::Adaptive),
            ("polling", WaitingMode::Polling),
            ("interrupts", WaitingMode::Interrupts),
        ];
        for (name, mode) in modes {
            disk.wait_by(mode);
            own(&disk, load, count() / 10 + 1)?;
            let figures = own(&disk, load, count())?;
            let (times, of_cpu) = (figures.took as f64 / took as f64, figures.cpu as f64 / cpu.max(1) as f64);
            println!(
                "read, {}: this driver, {name}: {figures}; beside the better io_uring {times:.2} and {of_cpu:.2}",
                load.name
            );
        }
    }
    Ok(())
}
