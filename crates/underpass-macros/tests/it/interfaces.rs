//! Generated stubs carry every kind of argument there and every kind of result back.

use crate::mock;
use mock::{__private, CallError, Counters, export};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use underpass_macros::{Wire, interface};

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
struct Stat {
    size: u64,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
enum FsError {
    Call(String),
    Missing(Stat),
}

impl From<CallError> for FsError {
    fn from(CallError(why): CallError) -> Self {
        Self::Call(why)
    }
}

type FsResult<T> = Result<T, FsError>;

/// Files.
#[interface(crate = mock)]
trait Files: Send + Sync + std::fmt::Debug + 'static {
    /// Every way to pass an argument.
    fn all(
        &self,
        text: &str,
        bytes: &[u8],
        stats: &[Stat],
        stat: &Stat,
        call: u8,
        stub: Vec<Stat>,
    ) -> FsResult<Stat>;
    fn nothing(&self) -> Result<(), FsError>;
    fn one(&self, r#type: BTreeMap<u8, Option<char>>) -> Result<BTreeMap<u8, Option<char>>, FsError>;
    #[allow(clippy::too_many_arguments)]
    fn many(
        &self,
        a: u8,
        b: u8,
        c: u8,
        d: u8,
        e: u8,
        f: u8,
        g: u8,
        h: u8,
        i: u8,
        j: u8,
        k: u8,
        l: u8,
        m: &str,
    ) -> FsResult<String>;
    fn missing(&self, stat: Stat) -> FsResult<()>;
    /// May be left out.
    #[idempotent]
    fn provided(&self, result: u8) -> FsResult<u8> {
        Ok(result + 1)
    }
}

#[derive(Debug, Default)]
struct Disk(Mutex<u32>);

impl Files for Disk {
    fn all(
        &self,
        text: &str,
        bytes: &[u8],
        stats: &[Stat],
        stat: &Stat,
        call: u8,
        stub: Vec<Stat>,
    ) -> FsResult<Stat> {
        assert_eq!((bytes, stats, stub.as_slice()), (&[1, 2][..], &[stat.clone()][..], &[stat.clone()][..]));
        Ok(Stat { size: stat.size + u64::from(call), name: text.to_owned() })
    }
    fn nothing(&self) -> Result<(), FsError> {
        *self.0.lock().unwrap() += 1;
        Ok(())
    }
    fn one(&self, r#type: BTreeMap<u8, Option<char>>) -> Result<BTreeMap<u8, Option<char>>, FsError> {
        Ok(r#type)
    }
    fn many(
        &self,
        a: u8,
        b: u8,
        c: u8,
        d: u8,
        e: u8,
        f: u8,
        g: u8,
        h: u8,
        i: u8,
        j: u8,
        k: u8,
        l: u8,
        m: &str,
    ) -> FsResult<String> {
        Ok(format!("{:?}{m}", [a, b, c, d, e, f, g, h, i, j, k, l]))
    }
    fn missing(&self, stat: Stat) -> FsResult<()> {
        Err(FsError::Missing(stat))
    }
}

fn use_it(files: &impl Files) {
    let stat = Stat { size: 40, name: "motd".into() };
    let stats = std::slice::from_ref(&stat);
    let all = files.all("text", &[1, 2], stats, &stat, 2, stats.to_vec());
    assert_eq!(all, Ok(Stat { size: 42, name: "text".into() }));
    assert_eq!(files.nothing(), Ok(()));
    let map: BTreeMap<u8, Option<char>> = [(1, None), (2, Some('ü'))].into();
    assert_eq!(files.one(map.clone()), Ok(map));
    assert_eq!(
        files.many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, "13").unwrap(),
        "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]13"
    );
    assert_eq!(files.missing(stat.clone()), Err(FsError::Missing(stat)));
    assert_eq!(files.provided(6), Ok(7));
}

#[test]
fn the_same_code_uses_implementation_and_stub() {
    use_it(&Disk::default());
    export("there", Files::serve(Disk::default()));
    let client = FilesClient::import("there").unwrap();
    use_it(&client);
    assert_eq!(client.counters(), Counters { calls: 6, again: 1 });
    use_it(&client.with_deadline(Duration::from_secs(1)).clone());
    assert_eq!(client.counters(), Counters { calls: 12, again: 2 });

    let through: std::sync::Arc<dyn Files> = std::sync::Arc::new(client);
    assert_eq!(through.provided(1), Ok(2));
}

#[test]
fn an_implementation_of_this_very_domain_is_called_directly() {
    export("local", Disk::default().serve());
    let client = FilesClient::import_within("local", Duration::ZERO).unwrap();
    use_it(&client);
    assert_eq!(client.counters(), Counters { calls: 0, again: 0 });
}

#[test]
fn a_stub_can_be_exported_too() {
    export("behind", Files::serve(Disk::default()));
    export("proxy", Files::serve(FilesClient::import("behind").unwrap()));
    use_it(&FilesClient::import("proxy").unwrap());
}

#[test]
fn the_descriptor_tells_what_was_written() {
    let descriptor = FilesClient::descriptor();
    assert_eq!((descriptor.name, descriptor.doc), ("Files", "Files."));
    assert_eq!(descriptor.procedures[0].doc, "Every way to pass an argument.");
    assert_eq!(descriptor.procedures[1].fixed_arguments, Some(0));
    assert_eq!(descriptor.procedures[5].fixed_arguments, Some(1));
    let text = "underpass wire 1
interface Files
procedure 0 all(text: String, bytes: Vec<u8>, stats: Vec<Stat>, stat: Stat, call: u8, stub: Vec<Stat>) -> Result<Stat, FsError>
procedure 1 nothing() -> Result<(), FsError>
procedure 2 one(type: Map<u8, Option<char>>) -> Result<Map<u8, Option<char>>, FsError>
procedure 3 many(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8, k: u8, l: u8, m: String) -> Result<String, FsError>
procedure 4 missing(stat: Stat) -> Result<(), FsError>
procedure 5 provided(result: u8) -> Result<u8, FsError>
enum FsError { Call(String), Missing(Stat) }
struct Stat { size: u64, name: String }
A-stacks of 32768 bytes
";
    assert_eq!(descriptor.text(), text);
}

/// Calls a procedure with bytes that no client stub sends.
fn dispatch(procedure: u16, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut call = mock::IncomingCall { procedure, bytes, reply: Vec::new() };
    let service = Files::serve(Disk::default());
    service.stub.dispatch(&mut call).map(|()| call.reply).map_err(|mock::Refused(why)| why)
}

#[test]
fn a_strangers_call_is_refused() {
    assert_eq!(dispatch(1, &[]), Ok(vec![0]));
    assert_eq!(dispatch(1, &[0]), Err("left over".into()));
    assert_eq!(dispatch(5, &[]), Err("the bytes end before the value does".into()));
    assert_eq!(dispatch(6, &[]), Err("no procedure 6".into()));
}

mod other {
    use super::CallError;
    use underpass_macros::interface;

    /// Another interface of the same name.
    #[interface(crate = super::mock)]
    pub(super) trait Files {
        fn nothing(&self) -> Result<(), CallError>;
    }

    /// No procedures at all.
    #[interface(crate = crate::mock)]
    pub trait Empty {}
}

#[test]
fn another_interface_is_told_by_its_differences() {
    export("differs", Files::serve(Disk::default()));
    let error = other::FilesClient::import("differs").unwrap_err().0;
    assert!(error.contains("procedure all: only there"), "{error}");
    assert!(
        error.contains("procedure nothing: here `0 nothing() -> Result<(), CallError>`, there `1 nothing()"),
        "{error}"
    );
    assert!(error.contains("type CallError: not there"), "{error}");
    assert_eq!(other::EmptyClient::descriptor().procedures.len(), 0);
    assert!(other::EmptyClient::import("nobody").is_err());
}

/// Sums.
#[interface(crate = mock, asynchronous)]
trait Sums {
    fn sum(&self, numbers: &[u32], name: &str, times: u32) -> Result<(u32, String), FsError>;
}

struct Slow;

impl SumsAsync for Slow {
    async fn sum(&self, numbers: &[u32], name: &str, times: u32) -> Result<(u32, String), FsError> {
        let mut pending = true;
        std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            if std::mem::take(&mut pending) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        if numbers.is_empty() {
            return Err(FsError::Call(name.to_owned()));
        }
        Ok((numbers.iter().sum::<u32>() * times, name.to_owned()))
    }
}

/// Polls `future` until it ends, which it does by itself.
fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

#[test]
fn handlers_and_callers_may_be_async() {
    export("sums", SumsAsync::serve(Slow, finish::<__private::Handler>));
    let sums = SumsClient::import("sums").unwrap();
    assert_eq!(sums.sum(&[1, 2], "three", 2), Ok((6, "three".to_owned())));
    assert_eq!(finish(sums.sum_async(&[1, 2], "three", 3)), Ok((9, "three".to_owned())));
    assert_eq!(finish(sums.sum_async(&[], "none", 3)), Err(FsError::Call("none".to_owned())));
}

#[interface(crate = mock)]
trait Counter {
    fn next(&self, by: u32) -> Result<u32, CallError>;
}

#[derive(Default)]
struct NotSync(std::cell::Cell<u32>);

impl Counter for NotSync {
    fn next(&self, by: u32) -> Result<u32, CallError> {
        self.0.set(self.0.get() + by);
        Ok(self.0.get())
    }
}

#[test]
fn an_implementation_that_is_not_sync_is_served() {
    // The second kind of name is called directly.
    for name in ["exclusive", "local-exclusive", "sequential", "local-sequential"] {
        let service = match name.ends_with("exclusive") {
            true => NotSync::default().serve_exclusive(),
            false => NotSync::default().serve_sequential(),
        };
        export(name, service);
        let client = CounterClient::import(name).unwrap();
        assert_eq!((client.next(2), client.next(3)), (Ok(2), Ok(5)), "{name}");
    }
}
