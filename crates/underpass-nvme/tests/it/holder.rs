//! A disk that outlives its drivers: they are killed and replaced, and no write that was
//! acknowledged is lost.

use crate::common::{Deck, LIMIT, until, watchdog, watchdog_of};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use underpass::device::{Device, DeviceError, DeviceHolder, DeviceSource, DmaMemory, DriverEnd, HeldDevice};
use underpass::{CallError, Policy};
use underpass_nvme::{BlockDevice, BlockDeviceClient, BlockError};
use underpass_test_device::{DiskLedger, Nvme};

const PAGE: usize = 4096;
const BLOCKS: u64 = (PAGE / 512) as u64;
const WRITERS: usize = 4;
const PAGES: usize = 4;
/// The log, the queues, and 8 KiB for each slot.
const KEPT: usize = 4096 * (38 + 64);

/// A holder in this process, of a slow disk.
struct Rig {
    holder: Arc<DeviceHolder>,
    ledger: DiskLedger,
    name: String,
}

/// A driver that is a process. It is killed when this is dropped.
struct Driver {
    child: Child,
    lent: Option<JoinHandle<Result<DriverEnd, DeviceError>>>,
}

impl Rig {
    fn new(name: &str) -> Self {
        let ledger = DiskLedger::default();
        let of_disk = ledger.clone();
        let make = move || Ok(Box::new(Nvme::slow(1 << 20, of_disk)) as _);
        let (socket, _) = underpass_test_device::start(make).unwrap();
        let source = DeviceSource::vfio_user_socket(socket).patience(LIMIT);
        let holder = Arc::new(DeviceHolder::open(source, KEPT).unwrap());
        Self { holder, ledger, name: format!("{name}-{}", std::process::id()) }
    }

    fn driver(&self) -> Driver {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_underpass-nvme"))
            .args(["--held", &self.name, "240"])
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .spawn()
            .unwrap();
        let holder = Arc::clone(&self.holder);
        Driver { child, lent: Some(std::thread::spawn(move || holder.lend(ours))) }
    }

    /// Does something with the log, and leaves the disk as it is.
    fn as_a_driver(&self, what: impl FnOnce(&DmaMemory)) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let holder = Arc::clone(&self.holder);
        let lent = std::thread::spawn(move || holder.lend(ours));
        let held = HeldDevice::take(theirs, Instant::now() + LIMIT).unwrap();
        let device = Device::open(DeviceSource::held(held)).unwrap();
        let memory = device.kept_memory(0, 4096).unwrap();
        what(&memory);
        device.hand_over().unwrap();
        drop((memory, device));
        assert_eq!(lent.join().unwrap().unwrap(), DriverEnd::HandedOver);
    }

    fn import(&self) -> BlockDeviceClient {
        BlockDeviceClient::import_within(&self.name, LIMIT).unwrap()
    }
}

impl Driver {
    /// Waits until the holder has the disk again.
    fn end(&mut self) -> DriverEnd {
        let end = self.lent.take().unwrap().join().unwrap().unwrap();
        self.child.wait().unwrap();
        end
    }

    /// Asks it to end.
    fn terminate(&mut self) -> DriverEnd {
        let asked = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.child.id())]).status();
        assert!(asked.unwrap().success());
        self.end()
    }

    fn kill(&mut self) -> DriverEnd {
        self.child.kill().unwrap();
        self.end()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What one writer has written to its pages, by versions that only grow.
#[derive(Clone, Copy, Default)]
struct Written {
    next: u64,
    /// The last version that was sent to each page, and the last one that was acknowledged.
    sent: [u64; PAGES],
    acknowledged: [u64; PAGES],
}

/// Page `page` of writer `writer`, as an offset on the disk.
fn offset(writer: usize, page: usize) -> u64 {
    ((writer * PAGES + page) * PAGE) as u64
}

fn page_of(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(PAGE / 8)
}

/// Writes until the driver dies. Now and then it writes two pages at once.
fn write_on(disk: &BlockDeviceClient, writer: usize, written: &mut Written, acknowledged: &AtomicU64) {
    loop {
        written.next += 1;
        let version = written.next;
        let page = (version as usize).wrapping_mul(7) % PAGES;
        let pages = if version.is_multiple_of(3) && page + 1 < PAGES { 2 } else { 1 };
        written.sent[page..page + pages].fill(version);
        match disk.write(offset(writer, page), &page_of(version).repeat(pages)) {
            Ok(()) => {
                written.acknowledged[page..page + pages].fill(version);
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(BlockError::Call(CallError::PeerDied(_) | CallError::Closed(_))) => return,
            Err(e) => panic!("{e}"),
        }
    }
}

/// Each page has one version, which is at least the last one that was acknowledged.
fn check_pages(disk: &BlockDeviceClient, writers: &mut [Written]) -> Result<(), BlockError> {
    for (writer, written) in writers.iter_mut().enumerate() {
        for page in 0..PAGES {
            let bytes = disk.read(offset(writer, page), PAGE as u32)?;
            let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert!(bytes == page_of(version), "a page is whole: {writer} {page}");
            let (least, most) = (written.acknowledged[page], written.sent[page]);
            assert!((least..=most).contains(&version), "{writer} {page}: {least} {version} {most}");
            // What was seen stays.
            written.acknowledged[page] = version;
        }
    }
    Ok(())
}

/// The disk has never written an older version over a newer one.
fn check_ledger(ledger: &DiskLedger) {
    let mut newest = [0; WRITERS * PAGES];
    let history = ledger.history();
    for write in &history.writes {
        let first = (write.block / BLOCKS) as usize;
        for page in &mut newest[first..first + (write.blocks / BLOCKS) as usize] {
            assert!(*page <= write.head, "{write:?} comes after {page}");
            *page = write.head;
        }
    }
}

/// Some are killed when they start, and some when they have served for a while.
fn kill_at_random_steps(rig: &Rig, rounds: u32) {
    let (mut killed, mut back) = (Instant::now(), Vec::new());
    let mut deck = Deck::new(u64::from(std::process::id()));
    let mut writers = [Written::default(); WRITERS];
    for _ in 0..rounds {
        let mut driver = rig.driver();
        if deck.draw(8) == 0 {
            // It has perhaps not even got the disk, or repeats writes.
            until(|| driver.child.try_wait().unwrap().is_none().then_some(()));
            std::thread::sleep(Duration::from_micros(deck.draw(20_000)));
            killed = Instant::now();
            assert_eq!(driver.kill(), DriverEnd::Died);
            continue;
        }
        let disk = rig.import();
        disk.info().unwrap();
        back.push(killed.elapsed());
        check_pages(&disk, &mut writers).unwrap();
        let acknowledged = Arc::new(AtomicU64::new(0));
        let threads = writers.iter().copied().enumerate().map(|(writer, mut written)| {
            let (disk, acknowledged) = (disk.clone(), Arc::clone(&acknowledged));
            underpass::thread::spawn(move || {
                write_on(&disk, writer, &mut written, &acknowledged);
                written
            })
        });
        let threads: Vec<_> = threads.collect();
        let enough = deck.draw(12);
        until(|| (acknowledged.load(Ordering::Relaxed) >= enough).then_some(()));
        std::thread::sleep(Duration::from_micros(deck.draw(400)));
        killed = Instant::now();
        assert_eq!(driver.kill(), DriverEnd::Died);
        for (written, thread) in writers.iter_mut().zip(threads) {
            *written = thread.join().unwrap();
        }
    }
    let mut driver = rig.driver();
    check_pages(&rig.import(), &mut writers).unwrap();
    driver.kill();
    back.sort();
    let part = |percent: usize| back[(back.len() - 1) * percent / 100];
    println!(
        "service is back after {:?} (median of {}), 99 %: {:?}, the last: {:?}",
        part(50),
        back.len(),
        part(99),
        part(100)
    );
    check_ledger(&rig.ledger);
}

/// The drivers that are killed: 10,000 with `$UNDERPASS_TEST_LONG`, or `$UNDERPASS_TEST_ROUNDS`.
fn kills() -> u32 {
    let wanted = std::env::var("UNDERPASS_TEST_ROUNDS").ok();
    let long = std::env::var_os("UNDERPASS_TEST_LONG").is_some();
    let most = if long { 10_000 } else { 100 };
    wanted.map_or(most, |rounds| rounds.parse().expect("UNDERPASS_TEST_ROUNDS is a number"))
}

#[test]
fn drivers_that_are_killed_lose_no_write_and_keep_the_order() {
    let rounds = kills();
    let _dog = watchdog_of(2 * LIMIT.max(LIMIT * rounds / 200));
    let rig = Rig::new("killed");
    kill_at_random_steps(&rig, rounds);
    let history = rig.ledger.history();
    assert!(history.starts > u64::from(rounds) / 2, "each driver that serves has started the disk");
    println!("{} writes, {} cut, {} starts", history.writes.len(), history.cut.len(), history.starts);
}

#[test]
fn a_successor_goes_on_with_the_queues() {
    let _dog = watchdog();
    let rig = Rig::new("replaced");
    let mut driver = rig.driver();
    let policy = Policy::new().patience(LIMIT);
    let disk = until(|| BlockDeviceClient::import_resilient(&rig.name, policy).ok());
    let stop = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (disk, stop) = (disk.clone(), Arc::clone(&stop));
            underpass::thread::spawn(move || {
                let mut version = 0;
                while stop.load(Ordering::Relaxed) == 0 {
                    version += 1;
                    // A call that was under way when its binding ended may have been done or not.
                    // To write the same again does no harm.
                    while let Err(e) = disk.write(offset(writer, 0), &page_of(version)) {
                        match e {
                            BlockError::Call(CallError::Closed(_)) => {}
                            e => return Err(e),
                        }
                    }
                    assert!(disk.read(offset(writer, 0), PAGE as u32)? == page_of(version));
                }
                Ok::<u64, BlockError>(version)
            })
        })
        .collect();
    for _ in 0..5 {
        let mut next = rig.driver();
        assert_eq!(driver.end(), DriverEnd::HandedOver);
        std::mem::swap(&mut driver, &mut next);
    }
    // The last one serves, too.
    let seen = rig.ledger.history().writes.len();
    until(|| (rig.ledger.history().writes.len() > seen + 100).then_some(()));
    stop.store(1, Ordering::Relaxed);
    for thread in threads {
        assert!(thread.join().unwrap().unwrap() > 0);
    }
    assert_eq!(rig.ledger.history().starts, 1, "the queues were handed over five times");
    check_ledger(&rig.ledger);
    assert_eq!(driver.kill(), DriverEnd::Died);
    // After a death the disk is started again.
    let mut last = rig.driver();
    disk.flush().unwrap();
    assert_eq!(rig.ledger.history().starts, 2);
    last.kill();
}

#[test]
fn a_driver_that_is_asked_to_end_leaves_its_queues() {
    let _dog = watchdog();
    let rig = Rig::new("ended");
    for round in 1..=3u64 {
        let mut driver = rig.driver();
        rig.import().write(0, &page_of(round)).unwrap();
        assert_eq!(driver.terminate(), DriverEnd::HandedOver);
    }
    assert_eq!(rig.ledger.history().starts, 1);
}

/// The memory is the disk's to write, so what a successor finds there is anything.
#[test]
fn a_successor_survives_whatever_it_finds_in_the_memory() {
    let _dog = watchdog_of(2 * LIMIT);
    let rig = Rig::new("garbage");
    let mut deck = Deck::new(7);
    for round in 0..24 {
        let mut driver = rig.driver();
        rig.import().write(0, &page_of(round)).unwrap();
        assert_eq!(driver.terminate(), DriverEnd::HandedOver);
        rig.as_a_driver(|memory| match round % 6 {
            // A queue that can be, and is not the one that was left.
            0 => memory.store(64, 64u64 | 17 << 16 | 40 << 32).unwrap(),
            // Another layout.
            1 => memory.store(0, deck.draw(u64::MAX)).unwrap(),
            _ => {
                for word in 2..512 {
                    let value = [0, 1, deck.draw(u64::MAX), deck.draw(64), u64::MAX][deck.draw(5) as usize];
                    memory.store(word * 8, value).unwrap();
                }
            }
        });
        let mut driver = rig.driver();
        if round % 6 == 1 {
            // It has found what another driver has left, and says so.
            assert_eq!(driver.end(), DriverEnd::Died);
        } else {
            let disk = rig.import();
            disk.write(0, &page_of(round)).unwrap();
            assert!(disk.read(0, PAGE as u32).unwrap() == page_of(round));
            driver.kill();
        }
        rig.as_a_driver(|memory| memory.copy_in(0, &[0; 4096]).unwrap());
    }
}
