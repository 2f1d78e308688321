//! Interrupts as upcalls: where handlers run, what they may do, and how threads wait.

use crate::common::{DeviceProcess, far, until, watchdog};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;
use underpass::device::{
    Device, DeviceError, DeviceEvent, DeviceSource, InterruptCounts, InterruptOutcome, WaitingMode,
};
use underpass::sync::Barrier;
use underpass::thread::{Builder, checkpoint, no_preempt, on_user_thread, spawn};

/// The registers of `edu`.
const FACTORIAL: u64 = 0x08;
const STATUS: u64 = 0x20;
const RAISE: u64 = 0x60;
const MANY: u64 = 0xa0;
const STORM: u64 = 0xa4;

fn edu() -> (Device, JoinHandle<std::io::Result<()>>) {
    let (socket, thread) = underpass_test_device::start_edu().unwrap();
    (Device::open(DeviceSource::vfio_user_socket(socket)).unwrap(), thread)
}

#[test]
fn a_handler_runs_apart_from_all_threads_and_signals_one() {
    let _dog = watchdog();
    let process = DeviceProcess::start(&["edu"]);
    let device = process.open();
    let registers = device.map_bar(0).unwrap();
    let (came, wrong) = (Arc::new(DeviceEvent::new()), Arc::new(AtomicU32::new(0)));
    let (signal, counts) = (came.clone(), wrong.clone());
    let enabled = device
        .interrupt(0)
        .unwrap()
        .register(move |upcall| {
            let apart = !on_user_thread() && underpass_threads::in_injected_task();
            counts.fetch_add(u32::from(!apart || upcall.interrupts == 0), Ordering::Relaxed);
            signal.signal();
            InterruptOutcome::Handled
        })
        .unwrap();
    for _ in 0..100 {
        registers.write(RAISE, 1u32).unwrap();
        assert!(came.wait(far()).unwrap());
    }
    let counts = enabled.counts();
    assert_eq!((wrong.load(Ordering::Relaxed), counts.interrupts, counts.spurious), (0, 100, 0));
    assert_eq!(counts.upcalls, 100);
}

/// Sleeps for each of 100 interrupts of a device of its own, on an activation of its own. Returns
/// what became of the interrupts once the other thread has had its own as well.
fn sleep_for_interrupts(both: &Barrier) -> InterruptCounts {
    let (device, _thread) = edu();
    let registers = device.map_bar(0).unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    let counts = seen.clone();
    let enabled = device.interrupt(0).unwrap().register_for_waiters(move |upcall| {
        counts.fetch_add(upcall.interrupts, Ordering::Release);
        upcall.wake_all();
        InterruptOutcome::Handled
    });
    let (enabled, event) = (enabled.unwrap(), Arc::new(DeviceEvent::new()));
    enabled.wait_by(WaitingMode::Interrupts);
    both.wait();
    for number in 1..=100 {
        registers.write(RAISE, 1u32).unwrap();
        enabled.wait(&event, far(), || (seen.load(Ordering::Acquire) >= number).then_some(())).unwrap();
    }
    both.wait();
    enabled.counts()
}

/// If upcalls went to any activation, at most one of the two threads would meet its own.
#[test]
fn interrupts_reach_the_activation_of_the_thread_that_waits() {
    let _dog = watchdog();
    let both = Arc::new(Barrier::new(2));
    let threads = [(); 2].map(|()| {
        let both = both.clone();
        Builder::new().dedicated().spawn(move || sleep_for_interrupts(&both)).unwrap()
    });
    for counts in threads.map(|thread| thread.join().unwrap()) {
        assert_eq!((counts.interrupts, counts.blocked, counts.polled), (100, 100, 0));
        assert!(counts.met > 0, "{counts:?}");
    }
}

/// The device says by itself when it is ready, and polling may end a wait before an interrupt does.
#[test]
fn a_wait_for_a_result_ends_with_the_result() {
    let _dog = watchdog();
    let (device, _thread) = edu();
    let results = spawn(move || {
        let registers = device.map_bar(0).unwrap();
        let enabled = device.interrupt(0).unwrap().register_for_waiters(|upcall| {
            upcall.wake_all();
            InterruptOutcome::Handled
        });
        let (enabled, event) = (enabled.unwrap(), Arc::new(DeviceEvent::new()));
        let results = (1..=200u32).map(|number| {
            registers.write(STATUS, 0x80u32).unwrap();
            registers.write(FACTORIAL, number % 13).unwrap();
            let ready = || (registers.read::<u32>(STATUS).ok()? & 1 == 0).then_some(());
            enabled.wait(&event, far(), ready).unwrap();
            registers.read::<u32>(FACTORIAL).unwrap()
        });
        results.collect::<Vec<_>>()
    });
    let factorial = |number: u32| (1..=number).product::<u32>();
    assert_eq!(results.join().unwrap(), (1..=200).map(|number| factorial(number % 13)).collect::<Vec<_>>());
}

/// A thread waits for interrupts that come at any moment: none is lost.
#[test]
fn no_wait_is_lost() {
    let _dog = watchdog();
    let (device, _thread) = edu();
    let seen = Arc::new(AtomicU64::new(0));
    let counts = seen.clone();
    let enabled = device
        .interrupt(0)
        .unwrap()
        .register_for_waiters(move |upcall| {
            counts.fetch_add(upcall.interrupts, Ordering::Release);
            upcall.wake_all();
            InterruptOutcome::Handled
        })
        .unwrap();
    let enabled = Arc::new(enabled);
    let registers = device.map_bar(0).unwrap();
    let waits: Vec<_> = (0..4)
        .map(|_| {
            let (enabled, seen) = (enabled.clone(), seen.clone());
            spawn(move || {
                let event = Arc::new(DeviceEvent::new());
                for number in 1..=100 {
                    enabled.wait(&event, far(), || (seen.load(Ordering::Acquire) >= number).then_some(()))?;
                }
                Ok::<(), DeviceError>(())
            })
        })
        .collect();
    for _ in 0..100 {
        registers.write(RAISE, 1u32).unwrap();
        // Some come one by one, some together.
        checkpoint();
    }
    waits.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
}

#[test]
fn a_vector_without_waiters_stays_masked() {
    let _dog = watchdog();
    let (device, _thread) = edu();
    let ran = Arc::new(AtomicU64::new(0));
    let counts = ran.clone();
    let enabled = device
        .interrupt(0)
        .unwrap()
        .register_for_waiters(move |upcall| {
            counts.fetch_add(upcall.interrupts, Ordering::Release);
            upcall.wake_all();
            InterruptOutcome::Handled
        })
        .unwrap();
    let registers = device.map_bar(0).unwrap();
    registers.write(MANY, 50u64).unwrap();
    registers.read::<u32>(0).unwrap();
    assert_eq!(enabled.counts().upcalls, 0, "nobody waits");
    // The counter has kept them.
    let event = Arc::new(DeviceEvent::new());
    enabled.wait(&event, far(), || (ran.load(Ordering::Acquire) == 50).then_some(())).unwrap();
    assert_eq!(enabled.counts().blocked, 1);
}

#[test]
fn a_section_without_preemption_defers_the_upcall() {
    // In a process of its own with one processor, so that no other activation runs the upcall.
    const INSIDE: &str = "UNDERPASS_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_none() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "interrupts::a_section_without_preemption_defers_the_upcall", "--nocapture"])
            .env(INSIDE, "1")
            .env("UNDERPASS_PROCESSORS", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let _dog = watchdog();
    let (device, _thread) = edu();
    let ran = Arc::new(AtomicBool::new(false));
    let sets = ran.clone();
    let (deferred, interrupts) = spawn(move || {
        let enabled = device
            .interrupt(0)
            .unwrap()
            .register(move |_| {
                sets.store(true, Ordering::Release);
                InterruptOutcome::Handled
            })
            .unwrap();
        let registers = device.map_bar(0).unwrap();
        let section = no_preempt();
        registers.write(RAISE, 1u32).unwrap();
        // The dispatcher has posted the upcall.
        while enabled.counts().interrupts == 0 {
            std::hint::spin_loop();
        }
        let begun = Instant::now();
        while begun.elapsed().as_millis() < 25 {
            std::hint::spin_loop();
        }
        let deferred = !ran.load(Ordering::Acquire);
        drop(section);
        until(|| ran.load(Ordering::Acquire).then_some(()));
        (deferred, enabled.counts().interrupts)
    })
    .join()
    .unwrap();
    assert!(deferred && interrupts == 1);
}

#[test]
fn a_computing_thread_does_not_hold_up_the_handler() {
    let _dog = watchdog();
    let (device, _thread) = edu();
    let registers = device.map_bar(0).unwrap();
    let ran = Arc::new(AtomicBool::new(false));
    let sets = ran.clone();
    let hogs = (0..4).map(|_| {
        let ran = ran.clone();
        spawn(move || {
            while !ran.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        })
    });
    let hogs: Vec<_> = hogs.collect();
    let _enabled = device
        .interrupt(0)
        .unwrap()
        .register(move |_| {
            sets.store(true, Ordering::Release);
            InterruptOutcome::Handled
        })
        .unwrap();
    registers.write(RAISE, 1u32).unwrap();
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
}

#[test]
fn a_handler_may_write_registers_and_read_only_mapped_ones() {
    let _dog = watchdog();
    let (device, _thread) = edu();
    let (registers, memory) = (device.map_bar(0).unwrap(), device.map_bar(2).unwrap());
    let (done, own, mapped) = (Arc::new(DeviceEvent::new()), registers.clone(), memory.clone());
    let (signal, right) = (done.clone(), Arc::new(AtomicBool::new(false)));
    let (sets, again) = (right.clone(), device.clone());
    let _enabled = device
        .interrupt(0)
        .unwrap()
        .register(move |_| {
            let refused = [
                own.read::<u32>(0).map(drop),
                own.read_until(0, far(), |_: u32| true).map(drop),
                again.dma(4096).map(drop),
                again.reset(),
            ];
            let refused = refused.iter().all(|result| matches!(result, Err(DeviceError::InHandler(_))));
            let done = own.write(0x04, 7u32).is_ok() && mapped.write(0, 9u32).is_ok();
            sets.store(refused && done && mapped.read::<u32>(0).ok() == Some(9), Ordering::Release);
            signal.signal();
            InterruptOutcome::Handled
        })
        .unwrap();
    registers.write(RAISE, 1u32).unwrap();
    assert!(done.wait(far()).unwrap() && right.load(Ordering::Acquire));
    assert_eq!(registers.read::<u32>(0x04).unwrap(), !7);
}

#[test]
fn a_handler_that_panics_turns_its_vector_off() {
    let _dog = watchdog();
    let (device, _thread) = edu();
    let registers = device.map_bar(0).unwrap();
    let enabled = device.interrupt(0).unwrap().register(|_| panic!("an unlucky handler")).unwrap();
    registers.write(RAISE, 1u32).unwrap();
    let event = Arc::new(DeviceEvent::new());
    let failed = enabled.wait(&event, far(), || None::<()>);
    assert!(matches!(failed, Err(DeviceError::HandlerPanicked)), "{failed:?}");
    drop(enabled);
    let came = Arc::new(DeviceEvent::new());
    let signal = came.clone();
    let again = device.interrupt(0).unwrap().register(move |_| {
        signal.signal();
        InterruptOutcome::Handled
    });
    let _again = again.unwrap();
    registers.write(RAISE, 1u32).unwrap();
    assert!(came.wait(far()).unwrap(), "a new handler takes its place");
}

#[test]
fn a_vector_has_one_handler_and_a_dropped_one_does_not_run() {
    let _dog = watchdog();
    let (device, _thread) = edu();
    let registers = device.map_bar(0).unwrap();
    let ran = Arc::new(AtomicU32::new(0));
    for round in 1..=20 {
        let counts = ran.clone();
        let enabled = device
            .interrupt(0)
            .unwrap()
            .register(move |_| {
                counts.fetch_add(1, Ordering::Release);
                InterruptOutcome::Handled
            })
            .unwrap();
        let second = device.interrupt(0).unwrap().register(|_| InterruptOutcome::Handled);
        assert!(matches!(second, Err(DeviceError::Unsupported(_))));
        registers.write(RAISE, 1u32).unwrap();
        until(|| (ran.load(Ordering::Acquire) == round).then_some(()));
        drop(enabled);
        registers.write(RAISE, 1u32).unwrap();
        registers.read::<u32>(0).unwrap();
        assert_eq!(ran.load(Ordering::Acquire), round);
    }
}

#[test]
fn a_storm_is_masked_and_ends() {
    let _dog = watchdog();
    let process = DeviceProcess::start(&["edu"]);
    let device = process.open();
    let registers = device.map_bar(0).unwrap();
    let (storms, last) = (Arc::new(AtomicBool::new(true)), Arc::new(DeviceEvent::new()));
    let (still, signal) = (storms.clone(), last.clone());
    let enabled = device
        .interrupt(0)
        .unwrap()
        .register(move |_| {
            if still.load(Ordering::Acquire) {
                return InterruptOutcome::Nothing;
            }
            signal.signal();
            InterruptOutcome::Handled
        })
        .unwrap();
    registers.write(STORM, 1u32).unwrap();
    until(|| (enabled.counts().storms >= 2).then_some(()));
    let counts = enabled.counts();
    assert!(counts.interrupts >= counts.upcalls && counts.spurious >= 256, "{counts:?}");
    // Registers are in reach meanwhile.
    assert_eq!(registers.read::<u32>(0).unwrap(), 0x0100_00ed);
    registers.write(STORM, 0u32).unwrap();
    registers.read::<u32>(0).unwrap();
    storms.store(false, Ordering::Release);
    registers.write(RAISE, 1u32).unwrap();
    assert!(last.wait(far()).unwrap(), "the vector is armed again");
    until(|| (!enabled.is_stormy()).then_some(()));
}

/// The handler never finds anything, and nobody signals the thread.
#[test]
fn a_thread_that_waits_polls_during_a_storm() {
    let _dog = watchdog();
    let process = DeviceProcess::start(&["edu"]);
    let device = process.open();
    let registers = device.map_bar(0).unwrap();
    let enabled = device.interrupt(0).unwrap().register_for_waiters(|_| InterruptOutcome::Nothing);
    let enabled = Arc::new(enabled.unwrap());
    let ready = Arc::new(AtomicBool::new(false));
    let (waits, looks) = (enabled.clone(), ready.clone());
    let waiter = spawn(move || {
        waits.wait(&Arc::new(DeviceEvent::new()), far(), || looks.load(Ordering::Acquire).then_some(()))
    });
    until(|| (enabled.counts().blocked == 1).then_some(()));
    registers.write(STORM, 1u32).unwrap();
    until(|| (enabled.counts().storms >= 2).then_some(()));
    ready.store(true, Ordering::Release);
    waiter.join().unwrap().unwrap();
    registers.write(STORM, 0u32).unwrap();
}

#[test]
fn a_wait_ends_at_its_deadline_and_by_cancellation() {
    let _dog = watchdog();
    let (device, _thread) = edu();
    let enabled = device.interrupt(1).unwrap().register(|_| InterruptOutcome::Handled).unwrap();
    let late = enabled.wait(&Arc::new(DeviceEvent::new()), Instant::now(), || None::<()>);
    assert!(matches!(late, Err(DeviceError::Late(_))), "{late:?}");
    let waiter = spawn(move || enabled.wait(&Arc::new(DeviceEvent::new()), far(), || None::<()>));
    waiter.thread().cancel();
    let cancelled = waiter.join().unwrap();
    assert!(matches!(cancelled, Err(DeviceError::Cancelled)), "{cancelled:?}");
}
