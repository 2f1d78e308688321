//! Objects whose operations say how they run: where they run, what they see, and what happens when
//! their home stops, dies or is another one.

use std::process::Command;
use std::time::Duration;
use underpass::homed::invoke::InvokeError;
use underpass::homed::{ChosenWay, Explanation, HomeState, HomedError, ObjectBindError, OperationError};
use underpass::{CallError, Server, thread};
use underpass_tests::{
    Numbers, ObedientProcess, Room, Tableau, TableauClient, TableauHome, Watchdog, cont, long, stop, until,
};

const PROCESS: &str = env!("CARGO_BIN_EXE_underpass-test-homed");
/// How long to wait for a home.
const SOON: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(1);

fn start(name: &str, role: &str) -> ObedientProcess {
    Room::directory();
    ObedientProcess::start_on(Command::new(PROCESS).args([name, role]), None, role)
}

#[test]
fn each_operation_runs_where_it_says() {
    let _watchdog = Watchdog::new("each_operation_runs_where_it_says");
    let name = Room::name("operated-where");
    let home = start(&name, "board");
    let board = TableauClient::import(&name).unwrap();
    let (here, there) = (std::process::id(), home.pid());
    assert_eq!(board.accessed_by().unwrap(), here);
    assert_eq!(board.invoked_in().unwrap(), there);
    assert_eq!(board.interrupted_in().unwrap(), there);
    assert_eq!(board.fixed_to_home().unwrap(), there);
    assert_eq!(board.fixed_to_caller().unwrap(), here);
    until("an operation to run where it is cheaper", || runs_as_explained(&board, there).then_some(()));
    let (access, invoke) = (board.fixed(ChosenWay::Access), board.fixed(ChosenWay::Invoke));
    assert_eq!([access.runs_in().unwrap(), invoke.runs_in().unwrap()], [here, there]);
    assert_eq!(access.fixed_to_home().unwrap(), here, "the caller decides");
    let free = invoke.fixed(None);
    assert!(!explanation(&free).is_fixed() && explanation(&invoke).is_fixed());
    until("an operation to run where it is cheaper", || runs_as_explained(&free, there).then_some(()));
}

/// What is told of `runs_in`.
fn explanation(board: &TableauClient) -> Explanation {
    board.explain().into_iter().find(|told| told.operation() == "runs_in").unwrap()
}

/// Whether `runs_in` runs where its explanation says: here, or in the home's process. Now and then
/// an operation is timed, and may run in the other place.
fn runs_as_explained(board: &TableauClient, home: u32) -> bool {
    let place = match explanation(board).way() {
        ChosenWay::Access => std::process::id(),
        ChosenWay::Invoke => home,
    };
    board.runs_in().unwrap() == place
}

#[test]
fn both_ways_of_an_operation_have_the_same_result() {
    let _watchdog = Watchdog::new("both_ways_of_an_operation_have_the_same_result");
    let name = Room::name("operated-same");
    let _home = start(&name, "board");
    let board = TableauClient::import(&name).unwrap();
    let ways = [board.fixed(ChosenWay::Access), board.fixed(ChosenWay::Invoke), board.clone()];
    let mut numbers = Numbers::of(7);
    let mut rows = [0; 64];
    for round in 1..=200 {
        let (row, more) = (numbers.below(64), numbers.below(1_000) as u64);
        rows[row] += more;
        let found = match numbers.below(2) {
            0 => board.add(row as u32, more).unwrap().unwrap(),
            _ => board.interrupt(row as u8, more).unwrap(),
        };
        assert_eq!(found, rows[row]);
        for way in &ways {
            assert_eq!(way.sum().unwrap(), (rows.iter().sum(), round));
            let listed = way.listed("no ", vec![2, 3]).unwrap();
            let expected = rows.iter().filter(|row| (10..1_000).contains(*row));
            assert!(listed.into_iter().eq(expected.map(|row| format!("no {row}"))));
        }
        assert_eq!(board.row(row as u32).unwrap(), Some(rows[row]));
    }
    assert_eq!(board.row(64).unwrap(), None);
    assert_eq!(board.add(64, 1).unwrap(), Err("there is no row 64".to_owned()));
    board.touch().unwrap();
    assert_eq!(board.access().unwrap().interrupts + board.access().unwrap().calls, 201);
}

#[test]
fn changes_at_both_levels_are_executed_once() {
    let _watchdog = Watchdog::new("changes_at_both_levels_are_executed_once");
    const TIMES: u64 = 200;
    let name = Room::name("operated-levels");
    let mut home = start(&name, "board");
    let mut others = [start(&name, "client"), start(&name, "client")];
    let board = TableauClient::import(&name).unwrap();
    others.iter_mut().for_each(|other| other.begin(&format!("work {TIMES}")));
    let work = || {
        let board = board.clone();
        move || {
            for _ in 0..TIMES {
                board.add(3, 1).unwrap().unwrap();
                board.interrupt(4, 1).unwrap();
                let (sum, changes) = board.sum().unwrap();
                assert_eq!(sum, changes, "it is a whole version");
            }
        }
    };
    let (user, kernel) = (thread::spawn(work()), std::thread::spawn(work()));
    user.join().unwrap();
    kernel.join().unwrap();
    others.iter_mut().for_each(|other| assert_eq!(other.hear(), "has worked"));
    let version = board.access().unwrap();
    assert_eq!(version.rows[..5], [0, 2 * TIMES, 2 * TIMES, 2 * TIMES, 2 * TIMES]);
    assert_eq!((version.calls, version.interrupts), (4 * TIMES, 4 * TIMES));
    assert_eq!(home.ask("version"), (8 * TIMES + 1).to_string());
}

#[test]
fn a_stopped_home_holds_no_operation_that_can_run_here() {
    let _watchdog = Watchdog::new("a_stopped_home_holds_no_operation_that_can_run_here");
    let name = Room::name("operated-stopped");
    let home = start(&name, "board");
    let board = TableauClient::import(&name).unwrap();
    board.restart().unwrap();
    for _ in 0..if long() { 500 } else { 5 } {
        (0..100).for_each(|_| _ = board.sum().unwrap());
        stop(home.pid());
        let work = || {
            let board = board.clone();
            move || (0..2_000).for_each(|_| assert_eq!(board.sum().unwrap(), (5, 1)))
        };
        let (user, kernel) = (thread::spawn(work()), std::thread::spawn(work()));
        user.join().unwrap();
        kernel.join().unwrap();
        // What runs at home alone ends at its deadline. None of it changes anything, as it may be
        // executed later.
        let short = board.with_deadline(SHORT);
        assert!(matches!(short.add(64, 1), Err(OperationError::Call(CallError::Deadline(_)))));
        assert!(matches!(short.interrupted_in(), Err(OperationError::Interrupt(InvokeError::Deadline))));
        assert!(matches!(short.fixed_to_home(), Err(OperationError::Call(CallError::Deadline(_)))));
        cont(home.pid());
        assert_eq!(board.invoked_in().unwrap(), home.pid());
        assert_eq!(board.interrupted_in().unwrap(), home.pid());
    }
}

#[test]
fn a_dead_homes_object_stays_readable_and_a_new_one_is_taken() {
    let _watchdog = Watchdog::new("a_dead_homes_object_stays_readable_and_a_new_one_is_taken");
    let name = Room::name("operated-dead");
    let mut home = start(&name, "board");
    let mut board = TableauClient::import(&name).unwrap().fixed(ChosenWay::Access).with_deadline(SOON);
    board.add(9, 4).unwrap().unwrap();
    home.kill();
    until("the home's death", || board.is_over().then_some(()));
    for way in [board.clone(), board.fixed(ChosenWay::Invoke), board.fixed(None)] {
        assert!(way.sum().is_err());
    }
    assert!(matches!(board.sum(), Err(OperationError::HomeDied)));
    assert!(matches!(board.row(9), Err(OperationError::HomeDied)));
    assert!(matches!(board.touch(), Err(OperationError::HomeDied)));
    assert!(matches!(board.add(9, 1), Err(OperationError::Call(_))));
    let Err(HomedError::HomeDied(last)) = board.access() else { panic!("the home is dead") };
    assert_eq!(last.rows[9], 4);
    home = start(&name, "board");
    let generation = board.object().generation();
    board.renew_within(SOON).unwrap();
    assert!(board.object().generation() > generation && !board.is_over());
    assert_eq!(board.row(9).unwrap(), Some(0));
    assert_eq!(board.runs_in().unwrap(), std::process::id(), "it is fixed still");
    assert_eq!(board.invoked_in().unwrap(), home.pid());
}

#[test]
fn a_client_without_the_right_is_refused() {
    let _watchdog = Watchdog::new("a_client_without_the_right_is_refused");
    let name = Room::name("operated-revoked");
    let mut home = start(&name, "board");
    let board = TableauClient::import(&name).unwrap();
    home.ask("revoke");
    until("the revocation", || matches!(board.row(1), Err(OperationError::Revoked)).then_some(()));
    for way in [board.clone(), board.fixed(ChosenWay::Access)] {
        assert!(matches!(way.sum(), Err(OperationError::Revoked)));
    }
    assert!(board.fixed(ChosenWay::Invoke).sum().is_err());
}

#[test]
fn an_operation_that_panics_changes_nothing() {
    let _watchdog = Watchdog::new("an_operation_that_panics_changes_nothing");
    let name = Room::name("operated-panic");
    let _home = start(&name, "board");
    let board = TableauClient::import(&name).unwrap();
    let failed = board.fail();
    assert!(matches!(failed, Err(OperationError::Call(CallError::Panicked(_)))), "{failed:?}");
    assert_eq!(board.access().unwrap().value, Tableau::EMPTY);
    assert_eq!(board.interrupt(1, 1).unwrap(), 1, "interrupts are masked no longer");
    assert_eq!(board.add(1, 1).unwrap(), Ok(2));
}

#[test]
fn in_the_homes_own_domain_operations_run_too() {
    let _watchdog = Watchdog::new("in_the_homes_own_domain_operations_run_too");
    let name = Room::name("operated-here");
    Room::directory();
    let (services, home) = TableauHome::new(Tableau::EMPTY).unwrap();
    let running = services.export(Server::new(), &name).start().unwrap();
    let board = TableauClient::import(&name).unwrap();
    assert_eq!(board.add(1, 2).unwrap(), Ok(2));
    assert_eq!(board.interrupt(1, 2).unwrap(), 4);
    home.update(|board| board.rows[2] = 1).unwrap();
    for way in [board.clone(), board.fixed(ChosenWay::Access), board.fixed(ChosenWay::Invoke)] {
        assert_eq!(way.sum().unwrap(), (5, 2));
    }
    assert!(board.explain().iter().all(|told| told.is_fixed()));
    let section = home.mask().unwrap();
    assert!(matches!(board.interrupt(1, 0), Err(OperationError::Interrupt(_))), "incoming ones are masked");
    drop(section);
    // In this domain a client keeps the home alive.
    let object = board.object().clone();
    drop((running, home));
    assert_eq!(board.add(1, 1).unwrap(), Ok(5));
    drop(board);
    assert_eq!(object.access().err().and_then(|e| e.last()).map(|last| last.rows[1]), Some(5));
}

/// The same representation with other operations.
mod other {
    #[derive(Clone, Copy, underpass::Shareable)]
    #[repr(C)]
    pub struct Tableau {
        rows: [u64; 64],
        calls: u64,
        interrupts: u64,
    }

    #[underpass::object]
    impl Tableau {
        #[invoke]
        pub fn erase(&mut self) {
            self.rows = [0; 64];
        }
    }
}

#[test]
fn an_object_with_other_operations_is_refused() {
    let _watchdog = Watchdog::new("an_object_with_other_operations_is_refused");
    let name = Room::name("operated-other");
    let _home = start(&name, "board");
    let refused = other::TableauClient::import(&name);
    assert!(matches!(refused, Err(ObjectBindError::Operations(_))), "{refused:?}");
    let refused = TableauClient::import(&format!("{name}-none"));
    assert!(matches!(refused, Err(ObjectBindError::Object(_))), "{refused:?}");
}

#[test]
fn a_forked_child_runs_no_operation() {
    let _watchdog = Watchdog::new("a_forked_child_runs_no_operation");
    let name = Room::name("operated-forked");
    let _home = start(&name, "board");
    let mut client = start(&name, "client");
    assert_eq!(client.ask("fork"), "true");
    assert_eq!(client.ask("sum"), "0");
}

#[test]
fn the_choice_is_explained() {
    let _watchdog = Watchdog::new("the_choice_is_explained");
    let name = Room::name("operated-explained");
    let _home = start(&name, "board");
    let board = TableauClient::import(&name).unwrap();
    (0..10_000).for_each(|_| _ = board.sum().unwrap());
    let told = board.explain();
    let names: Vec<_> = told.iter().map(|told| told.operation()).collect();
    assert_eq!(names, ["sum", "listed", "runs_in", "fixed_to_home", "fixed_to_caller"]);
    let sum = &told[0];
    // A number, 66 words and the header: one line for the header and nine for the rest.
    assert_eq!(sum.lines(), 10);
    assert!(sum.line_ns() > 0.0 && sum.r() >= 1.0 && !sum.is_fixed());
    let answering = [HomeState::Polling, HomeState::Busy, HomeState::Asleep];
    assert!(answering.iter().all(|home| sum.c(*home).is_some_and(|c| c > 0.0)));
    assert_eq!(sum.c(HomeState::Stopped), None);
    assert!(told[3].is_fixed() && told[3].way() == ChosenWay::Invoke);
    assert!(told[4].is_fixed() && told[4].way() == ChosenWay::Access);
    let text = sum.to_string();
    assert!(text.starts_with("sum: ") && text.contains("(R - 1) n"), "{text}");
    assert!(board.fixed(ChosenWay::Access).explain()[0].to_string().contains("the caller has fixed"));
}

#[test]
fn a_client_with_one_operation_under_way_for_each_thread_keeps_its_binding() {
    let _watchdog = Watchdog::new("a_client_with_one_operation_under_way_for_each_thread_keeps_its_binding");
    let name = Room::name("operated-many");
    let home = start(&name, "board");
    let board = TableauClient::import(&name).unwrap();
    stop(home.pid());
    // More threads than a binding has slots.
    let threads: Vec<_> = (0..100)
        .map(|_| {
            let board = board.clone();
            thread::spawn(move || (0..20).for_each(|_| assert_eq!(board.sum().unwrap(), (0, 0))))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    cont(home.pid());
    assert_eq!(board.invoked_in().unwrap(), home.pid());
}
