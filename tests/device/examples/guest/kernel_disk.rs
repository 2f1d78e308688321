//! Reads from a disk of the kernel's driver, by `io_uring`.

use crate::reads::{BLOCKS, Load, READ, ReadFigures};
use io_uring::{IoUring, opcode, types};
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use underpass_os::clock::{cpu_ns, now_ns};

/// What reads past the kernel's memory for files want.
const DIRECT: i32 = 0o40000;

/// Memory for one read, as such reads want it.
#[repr(align(4096))]
struct Block([u8; 4096]);

/// A disk, and a ring for reads from it.
struct KernelDisk {
    ring: IoUring,
    file: File,
    blocks: Vec<Block>,
    /// When the read under way in each block began.
    begun: Vec<u64>,
    next: u64,
}

impl KernelDisk {
    fn open(path: &str, polls: bool, depth: usize) -> std::io::Result<Self> {
        let mut builder = IoUring::builder();
        if polls {
            builder.setup_iopoll();
        }
        let file = OpenOptions::new().read(true).custom_flags(DIRECT).open(path)?;
        let blocks = (0..depth).map(|_| Block([0; 4096])).collect();
        Ok(Self { ring: builder.build(16)?, file, blocks, begun: vec![0; depth], next: 0 })
    }

    fn submit(&mut self, place: usize) -> Result<(), Box<dyn Error>> {
        let offset = self.next % BLOCKS * READ as u64;
        self.next += 1;
        self.begun[place] = now_ns();
        let to = self.blocks[place].0.as_mut_ptr();
        let read = opcode::Read::new(types::Fd(self.file.as_raw_fd()), to, READ as u32).offset(offset);
        let read = read.build().user_data(place as u64);
        // SAFETY: the block stays where it is until the read has ended: `reads` waits for all ends,
        // and if it fails, `measure` never frees the blocks.
        unsafe { self.ring.submission().push(&read) }?;
        Ok(())
    }

    /// Waits for the end of one read. Returns its place and what it took.
    fn await_end(&mut self) -> Result<(usize, u64), Box<dyn Error>> {
        loop {
            self.ring.submit_and_wait(1)?;
            let Some(ended) = self.ring.completion().next() else { continue };
            if ended.result() < 0 {
                return Err(std::io::Error::from_raw_os_error(-ended.result()).into());
            }
            assert_eq!(ended.result(), READ as i32);
            let place = ended.user_data() as usize;
            return Ok((place, now_ns() - self.begun[place]));
        }
    }

    fn reads(&mut self, load: &Load, reads: usize) -> Result<ReadFigures, Box<dyn Error>> {
        let (start, mut times, mut submitted) = (cpu_ns(), Vec::with_capacity(reads), 0);
        for place in 0..load.threads.min(reads) {
            load.pause.inspect(|&pause| std::thread::sleep(pause));
            self.submit(place)?;
            submitted += 1;
        }
        while times.len() < reads {
            let (place, took) = self.await_end()?;
            times.push(took);
            if submitted < reads {
                load.pause.inspect(|&pause| std::thread::sleep(pause));
                self.submit(place)?;
                submitted += 1;
            }
        }
        Ok(ReadFigures::of(times, cpu_ns() - start))
    }
}

/// Measures reads from the disk at `path`, by interrupts or by polling.
pub fn measure(path: &str, polls: bool, load: &Load, reads: usize) -> Result<ReadFigures, Box<dyn Error>> {
    let mut disk = KernelDisk::open(path, polls, load.threads)?;
    // The first reads find everything cold.
    let figures = disk.reads(load, reads / 10 + 1).and_then(|_| disk.reads(load, reads));
    if figures.is_err() {
        // Reads under way write into the blocks until their ends.
        std::mem::forget(disk);
    }
    figures
}
