//! The CPU of a hardware interrupt, and that of the thread that waits for it (Raven, section 4.1).

use crate::DeviceError;
use crate::lock::lock;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use underpass_os::clock::now_ns;
use underpass_os::cpu;

/// Whether an interrupt and the thread that waits for it come to one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterruptAffinity {
    /// Both stay where they are.
    #[default]
    Stay,
    /// The interrupt is moved to the CPU of the thread. This needs the right to write below
    /// `/proc/irq`, as a rule that of root.
    InterruptFollows,
    /// The thread is moved to the CPU of the interrupt. The kernel may move it away later.
    ThreadFollows,
}

/// The least time between two moves, in ns: a move costs about 0.1 ms.
const AT_MOST_EVERY: u64 = 10_000_000;
/// No CPU is known.
const NONE: usize = usize::MAX;

/// The kernel's files about interrupts. Tests have a directory of their own.
#[derive(Debug)]
struct IrqFiles {
    root: PathBuf,
    irq: u32,
}

impl IrqFiles {
    /// The number of the interrupt that vector `vector` of the PCI device at `address` raises. The
    /// kernel numbers the vectors of a device in order. A device that signals no messages has one
    /// line instead.
    fn find(root: &Path, address: &str, vector: u32) -> Result<Self, DeviceError> {
        let place = root.join(format!("sys/bus/pci/devices/{address}"));
        let list = match fs::read_dir(place.join("msi_irqs")) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && vector == 0 => {
                let line = fs::read_to_string(place.join("irq"))?.trim().parse().ok();
                let irq = line.filter(|&irq| irq != 0);
                let irq = irq.ok_or(DeviceError::Unsupported("interrupt of this vector"))?;
                return Ok(Self { root: root.to_owned(), irq });
            }
            list => list?,
        };
        let mut irqs: Vec<u32> =
            list.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        irqs.sort_unstable();
        let irq = irqs.get(vector as usize).ok_or(DeviceError::Unsupported("interrupt of this vector"))?;
        Ok(Self { root: root.to_owned(), irq: *irq })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.join(format!("proc/irq/{}/{name}", self.irq))
    }

    /// Has the hardware interrupt `cpu` from now on.
    fn move_to(&self, cpu: usize) -> io::Result<()> {
        fs::write(self.file("smp_affinity_list"), cpu.to_string())
    }

    /// The CPU that the hardware interrupts. `None`: it may be one of several.
    fn cpu(&self) -> io::Result<Option<usize>> {
        // Kernels that can't say more precisely have the first file alone.
        let told = fs::read_to_string(self.file("effective_affinity_list"))
            .or_else(|_| fs::read_to_string(self.file("smp_affinity_list")))?;
        Ok(told.trim().parse().ok())
    }

    /// How many interrupts have come to each CPU.
    fn counts(&self) -> io::Result<Vec<u64>> {
        let path = self.root.join(format!("sys/kernel/irq/{}/per_cpu_count", self.irq));
        let told = fs::read_to_string(path)?;
        Ok(told.trim().split(',').map_while(|count| count.parse().ok()).collect())
    }
}

/// | field | its writer |
/// |---|---|
/// | `state` | whoever chooses, and threads that wait, under its lock |
/// | `cpu` | the same: a copy of the interrupt's CPU, for counting |
#[derive(Debug)]
pub(crate) struct AffinityControl {
    state: Mutex<AffinityState>,
    cpu: AtomicUsize,
    moves: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct AffinityState {
    mode: InterruptAffinity,
    files: Option<IrqFiles>,
    /// When something was moved last.
    moved: u64,
}

impl Default for AffinityControl {
    fn default() -> Self {
        let (moves, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { state: Mutex::default(), cpu: AtomicUsize::new(NONE), moves, refused }
    }
}

impl AffinityControl {
    /// Chooses, for vector `vector` of the PCI device at `address`, and moves at once.
    pub(crate) fn choose(
        &self,
        mode: InterruptAffinity,
        address: Option<&str>,
        vector: u32,
    ) -> Result<(), DeviceError> {
        self.choose_below(Path::new("/"), mode, address, vector)
    }

    fn choose_below(
        &self,
        root: &Path,
        mode: InterruptAffinity,
        address: Option<&str>,
        vector: u32,
    ) -> Result<(), DeviceError> {
        let mut state = lock(&self.state);
        state.mode = InterruptAffinity::Stay;
        if mode == InterruptAffinity::Stay {
            return Ok(());
        }
        let address = address.ok_or(DeviceError::Unsupported("interrupt of the hardware to move"))?;
        state.files = Some(IrqFiles::find(root, address, vector)?);
        self.bring_together(&mut state, mode, cpu::current())?;
        state.mode = mode;
        Ok(())
    }

    /// A thread is about to sleep on this CPU.
    pub(crate) fn waits_here(&self) {
        let mut state = lock(&self.state);
        if state.mode != InterruptAffinity::Stay {
            self.waits_on(&mut state, cpu::current(), now_ns());
        }
    }

    fn waits_on(&self, state: &mut AffinityState, cpu: usize, now: u64) {
        // Relaxed, here and below: hints and statistics.
        let apart = self.cpu.load(Ordering::Relaxed) != cpu;
        if apart && now.saturating_sub(state.moved) >= AT_MOST_EVERY {
            state.moved = now;
            let mode = state.mode;
            if self.bring_together(state, mode, cpu).is_err() {
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn bring_together(
        &self,
        state: &mut AffinityState,
        mode: InterruptAffinity,
        cpu: usize,
    ) -> Result<(), DeviceError> {
        let Some(files) = &state.files else { return Ok(()) };
        match mode {
            InterruptAffinity::Stay => return Ok(()),
            InterruptAffinity::InterruptFollows => {
                files.move_to(cpu)?;
                self.cpu.store(cpu, Ordering::Relaxed);
            }
            InterruptAffinity::ThreadFollows => {
                let to = files.cpu()?.unwrap_or(cpu);
                self.cpu.store(to, Ordering::Relaxed);
                if to == cpu {
                    return Ok(());
                }
                cpu::go_to(to)?;
            }
        }
        self.moves.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the interrupt is known to come to this CPU.
    pub(crate) fn is_here(&self) -> bool {
        let cpu = self.cpu.load(Ordering::Relaxed);
        cpu != NONE && cpu == cpu::current()
    }

    /// How often something was moved, and how often that was refused.
    pub(crate) fn moves(&self) -> (u64, u64) {
        (self.moves.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// How many interrupts have come to each CPU, as the kernel says.
    pub(crate) fn counts(&self) -> Result<Vec<u64>, DeviceError> {
        match &lock(&self.state).files {
            Some(files) => Ok(files.counts()?),
            None => Err(DeviceError::Unsupported("interrupt of the hardware that was chosen")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "0000:00:04.0";

    /// A directory with the files of interrupts 30 and 31 of a device.
    struct Pretended(PathBuf);

    impl Pretended {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("underpass-irq-{name}-{}", std::process::id()));
            let msi = root.join(format!("sys/bus/pci/devices/{ADDRESS}/msi_irqs"));
            fs::create_dir_all(&msi).unwrap();
            for irq in [31, 30] {
                fs::write(msi.join(irq.to_string()), "msix").unwrap();
                fs::create_dir_all(root.join(format!("proc/irq/{irq}"))).unwrap();
                fs::create_dir_all(root.join(format!("sys/kernel/irq/{irq}"))).unwrap();
                fs::write(root.join(format!("proc/irq/{irq}/smp_affinity_list")), "0-3\n").unwrap();
                fs::write(root.join(format!("sys/kernel/irq/{irq}/per_cpu_count")), "7,500\n").unwrap();
            }
            Self(root)
        }

        fn affinity(&self, irq: u32) -> String {
            fs::read_to_string(self.0.join(format!("proc/irq/{irq}/smp_affinity_list"))).unwrap()
        }
    }

    impl Drop for Pretended {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_interrupt_follows_the_thread() {
        let kernel = Pretended::new("follows");
        let control = AffinityControl::default();
        control.choose_below(&kernel.0, InterruptAffinity::InterruptFollows, Some(ADDRESS), 1).unwrap();
        assert_eq!(kernel.affinity(30), "0-3\n", "the vectors are numbered in order");
        assert!(kernel.affinity(31).parse::<usize>().is_ok());
        let mut state = lock(&control.state);
        control.waits_on(&mut state, 900, AT_MOST_EVERY);
        assert_eq!(kernel.affinity(31), "900");
        control.waits_on(&mut state, 901, AT_MOST_EVERY + 1);
        assert_eq!(kernel.affinity(31), "900", "not too often");
        control.waits_on(&mut state, 901, 2 * AT_MOST_EVERY);
        assert_eq!((&*kernel.affinity(31), control.moves()), ("901", (3, 0)));
        drop(state);
        assert!(!control.is_here());
        assert_eq!(control.counts().unwrap(), [7, 500]);
    }

    #[test]
    fn a_thread_follows_the_interrupt() {
        let kernel = Pretended::new("thread");
        let allowed = cpu::allowed().unwrap();
        let to = *allowed.last().unwrap();
        fs::write(kernel.0.join("proc/irq/30/effective_affinity_list"), format!("{to}\n")).unwrap();
        let control = AffinityControl::default();
        control.choose_below(&kernel.0, InterruptAffinity::ThreadFollows, Some(ADDRESS), 0).unwrap();
        assert_eq!(control.cpu.load(Ordering::Relaxed), to);
        assert_eq!(cpu::allowed().unwrap(), allowed, "the kernel may move it again");
        assert_eq!(kernel.affinity(30), "0-3\n");
    }

    #[test]
    fn a_device_without_messages_has_a_line() {
        let kernel = Pretended::new("line");
        let place = kernel.0.join(format!("sys/bus/pci/devices/{ADDRESS}"));
        fs::remove_dir_all(place.join("msi_irqs")).unwrap();
        let find = |vector| IrqFiles::find(&kernel.0, ADDRESS, vector).map(|files| files.irq);
        assert!(matches!(find(0), Err(DeviceError::System(_))), "nothing says which");
        fs::write(place.join("irq"), "0\n").unwrap();
        assert!(matches!(find(0), Err(DeviceError::Unsupported(_))), "it has none");
        fs::write(place.join("irq"), "11\n").unwrap();
        assert_eq!(find(0).unwrap(), 11);
        assert!(find(1).is_err());
    }

    #[test]
    fn what_can_t_be_moved_is_an_error_and_nothing_is_moved_later() {
        let kernel = Pretended::new("refused");
        let follows = InterruptAffinity::InterruptFollows;
        let choose = |control: &AffinityControl, address, vector| {
            control.choose_below(&kernel.0, follows, address, vector)
        };
        let control = AffinityControl::default();
        assert!(matches!(choose(&control, None, 0), Err(DeviceError::Unsupported(_))));
        assert!(matches!(choose(&control, Some(ADDRESS), 2), Err(DeviceError::Unsupported(_))));
        assert!(matches!(choose(&control, Some("0000:00:05.0"), 0), Err(DeviceError::System(_))));
        // As without the privilege: the file can't be written.
        fs::remove_file(kernel.0.join("proc/irq/30/smp_affinity_list")).unwrap();
        fs::create_dir(kernel.0.join("proc/irq/30/smp_affinity_list")).unwrap();
        assert!(matches!(choose(&control, Some(ADDRESS), 0), Err(DeviceError::System(_))));
        control.waits_here();
        assert_eq!(control.moves(), (0, 0), "it goes on, and stays where it is");
        // The privilege may go later.
        choose(&control, Some(ADDRESS), 1).unwrap();
        fs::remove_dir_all(kernel.0.join("proc")).unwrap();
        control.waits_on(&mut lock(&control.state), 900, u64::MAX);
        assert_eq!(control.moves(), (1, 1));
    }
}
