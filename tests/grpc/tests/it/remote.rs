//! Interfaces across machines: what a call carries, how it ends, and what is refused.

use std::fs::File;
use std::time::Duration;
use underpass::remote::RemotePeers;
use underpass::stream::Stream;
use underpass::{Abandon, CallError, Error, ExportError, ImportError, Outcome, Sealed, Service, Shared};
use underpass_grpc::remote::{Remote, RemoteListener, RemoteServer};
use underpass_test_grpc::{Depot, DepotAsync, DepotClient, DepotService, Tally, TallyClient, TallyService};
use underpass_tests::Watchdog;

/// More than any test takes.
const SOON: Duration = Duration::from_secs(120);

/// The handlers of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handlers {
    Methods,
    Exclusive,
    Async,
}

const HANDLERS: [Handlers; 3] = [Handlers::Methods, Handlers::Exclusive, Handlers::Async];

fn depot(handlers: Handlers) -> Service {
    let depot = DepotService::default();
    match handlers {
        Handlers::Methods => Depot::serve(depot),
        Handlers::Exclusive => Depot::serve_exclusive(depot),
        Handlers::Async => {
            let runtime = tokio::runtime::Handle::current();
            DepotAsync::serve(depot, move |handler| drop(runtime.spawn(handler)))
        }
    }
}

fn listen(service: Service) -> (RemoteListener, String) {
    let server = RemoteServer::new().export("depot", service.remote_peers(RemotePeers::anyone()));
    let listener = server.listen("127.0.0.1:0", None).unwrap();
    let address = format!("http://{}/depot", listener.address());
    (listener, address)
}

fn import(address: &str) -> DepotClient {
    DepotClient::import_by(&Remote::new(), address, SOON).unwrap()
}

/// Asks for the counts of `hold` until they are these.
async fn held(depot: &DepotClient, wanted: (u32, u32)) {
    while depot.held_async().await.unwrap() != wanted {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_carries_what_it_carries_on_one_machine() {
    let _watchdog = Watchdog::new("a_call_carries_what_it_carries_on_one_machine");
    for handlers in HANDLERS {
        let (_listener, address) = listen(depot(handlers));
        let depot = import(&address);
        assert_eq!(depot.add_async(2, 3).await, Ok(5));
        assert_eq!(depot.who_async().await, Ok("remote".to_owned()), "{handlers:?}");
        let bytes: Vec<u8> = (0..300_000).map(|n| n as u8).collect();
        assert_eq!(depot.echo_async(&bytes).await.unwrap(), bytes);
        assert_eq!(depot.echo_async(&[]).await.unwrap(), []);
        let sum: u64 = bytes.iter().copied().map(u64::from).sum();
        assert_eq!(depot.sum_async(Shared::from(&bytes)).await, Ok(sum));
        let (back, after) = depot.reverse_async(Sealed::new(&bytes).unwrap(), 8).await.unwrap();
        assert!(back.iter().eq(bytes.iter().rev()) && after == 9);
        // Each call has a state of its own.
        assert_eq!((depot.remember_async().await, depot.remember_async().await), (Ok(1), Ok(1)));
    }
}

#[test]
fn threads_of_both_kinds_call() {
    let _watchdog = Watchdog::new("threads_of_both_kinds_call");
    let (_listener, address) = listen(Depot::serve(DepotService::default()));
    let depot = import(&address);
    assert_eq!(depot.add(1, 2), Ok(3));
    let calls = |depot: DepotClient| move || (0..50).map(|n| depot.add(n, 1).unwrap()).sum::<u32>();
    let user: Vec<_> = (0..8).map(|_| underpass::thread::spawn(calls(depot.clone()))).collect();
    let kernel: Vec<_> = (0..4).map(|_| std::thread::spawn(calls(depot.clone()))).collect();
    assert!(user.into_iter().all(|thread| thread.join().unwrap() == 1275));
    assert!(kernel.into_iter().all(|thread| thread.join().unwrap() == 1275));
}

#[test]
fn a_runtime_of_the_program_carries_the_calls_of_its_tasks() {
    let _watchdog = Watchdog::new("a_runtime_of_the_program_carries_the_calls_of_its_tasks");
    let (_listener, address) = listen(Depot::serve(DepotService::default()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let remote = Remote::new().runtime(runtime.handle().clone());
    let depot = DepotClient::import_by(&remote, &address, SOON).unwrap();
    let (tasks, calling) = (|| runtime.metrics().num_alive_tasks(), depot.clone());
    // The channel's. Its connection is made for the first call.
    let before = tasks();
    assert_eq!((depot.add(1, 1), tasks()), (Ok(2), before), "a thread's call does not need the runtime");
    // A call that holds up its runtime meanwhile.
    assert_eq!(runtime.block_on(async { depot.add(1, 2) }), Ok(3));
    assert_eq!(tasks(), before);
    assert_eq!(runtime.block_on(async move { calling.add_async(2, 3).await }), Ok(5));
    assert!(tasks() > before, "the runtime has carried it");
    let late = runtime.block_on(depot.with_deadline(Duration::from_millis(20)).hold_async());
    assert!(matches!(late, Err(CallError::Deadline(_))), "{late:?}");
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    drop(runtime);
    assert_eq!(other.block_on(depot.add_async(3, 4)), Ok(7), "the transport's own carries it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_come_back_as_they_are() {
    let _watchdog = Watchdog::new("failures_come_back_as_they_are");
    for handlers in HANDLERS {
        let (_listener, address) = listen(depot(handlers));
        let depot = import(&address);
        assert_eq!(depot.fail_async(false).await, Err(CallError::Deadlock), "a result of the method");
        assert_eq!(depot.fail_async(true).await, Err(CallError::Panicked("on purpose".to_owned())));
        assert_eq!(depot.add_async(1, 1).await, Ok(2), "the server goes on");
    }
}

/// Handlers that can wait for long.
const PATIENT: [Handlers; 2] = [Handlers::Methods, Handlers::Async];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_learns_that_its_caller_dropped_the_call() {
    let _watchdog = Watchdog::new("a_handler_learns_that_its_caller_dropped_the_call");
    for handlers in PATIENT {
        let (_listener, address) = listen(depot(handlers));
        let depot = import(&address);
        let calling = depot.clone();
        let task = tokio::spawn(async move { calling.hold_async().await });
        held(&depot, (1, 0)).await;
        task.abort();
        held(&depot, (1, 1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_ends_the_call_and_its_handler() {
    let _watchdog = Watchdog::new("a_deadline_ends_the_call_and_its_handler");
    for handlers in PATIENT {
        let (_listener, address) = listen(depot(handlers));
        let depot = import(&address);
        let ended = depot.with_deadline(Duration::from_millis(100)).hold_async().await;
        assert!(matches!(ended, Err(CallError::Deadline(_))), "{handlers:?}: {ended:?}");
        // If it was late, it was never begun.
        loop {
            let (begun, ended) = depot.held_async().await.unwrap();
            if begun == ended {
                break;
            }
        }
        let late = depot.with_deadline(Duration::ZERO).add_async(1, 1).await;
        assert_eq!(late, Err(CallError::Deadline(Outcome::NotStarted)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_thread_abandons_a_call() {
    let _watchdog = Watchdog::new("another_thread_abandons_a_call");
    for handlers in PATIENT {
        let (_listener, address) = listen(depot(handlers));
        let depot = import(&address);
        let abandon = Abandon::new();
        let abandonable = depot.abandonable(&abandon);
        let thread = std::thread::spawn(move || abandonable.hold());
        held(&depot, (1, 0)).await;
        abandon.abandon();
        assert_eq!(thread.join().unwrap(), Err(CallError::Abandoned(Outcome::Unknown)));
        held(&depot, (1, 1)).await;
        let late = depot.abandonable(&abandon).hold_async().await;
        assert_eq!(late, Err(CallError::Abandoned(Outcome::NotStarted)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_is_cancelled_ends_its_call() {
    let _watchdog = Watchdog::new("a_thread_that_is_cancelled_ends_its_call");
    for handlers in PATIENT {
        let (_listener, address) = listen(depot(handlers));
        let depot = import(&address);
        let calling = depot.clone();
        let thread = underpass::thread::spawn(move || calling.hold());
        held(&depot, (1, 0)).await;
        thread.cancel();
        let ended = tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
        assert_eq!(ended, Err(CallError::Cancelled(Outcome::Unknown)));
        held(&depot, (1, 1)).await;
    }
}

#[test]
fn a_client_needs_a_transport_and_a_server() {
    let _watchdog = Watchdog::new("a_client_needs_a_transport_and_a_server");
    let why = DepotClient::import("https://localhost:1/depot").unwrap_err();
    assert!(matches!(why, ImportError::Remote(..)) && why.to_string().contains("install()"), "{why}");
    let import = |address: &str| DepotClient::import_by(&Remote::new(), address, Duration::ZERO).unwrap_err();
    let why = import("http://127.0.0.1:1/depot");
    assert!(matches!(why, ImportError::Unreachable(..)), "{why}");
    for bad in ["http://127.0.0.1:1", "ftp://127.0.0.1/depot", "https://a/b/c"] {
        assert!(matches!(import(bad), ImportError::Remote(..)), "{bad}");
    }
    let remote = Remote::new().token("secret");
    let why = DepotClient::import_by(&remote, "http://192.0.2.1:1/depot", Duration::ZERO).unwrap_err();
    assert!(why.to_string().contains("without TLS"), "{why}");
    let (_listener, address) = listen(Depot::serve(DepotService::default()));
    let why = import(&address.replace("depot", "other"));
    assert!(matches!(why, ImportError::Refused(..)) && why.to_string().contains("other"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_interface_is_told_by_method() {
    let _watchdog = Watchdog::new("another_interface_is_told_by_method");
    let (_listener, address) = listen(Tally::serve(TallyService::default()));
    let why = DepotClient::import_by(&Remote::new(), &address, SOON).unwrap_err();
    assert!(matches!(why, ImportError::Mismatch { .. }), "{why}");
    assert!(why.to_string().contains("up") && why.to_string().contains("hold"), "{why}");
}

/// Versions of one interface.
mod versions {
    use underpass::CallError;

    pub mod old {
        use super::CallError;
        #[underpass::interface(stateless)]
        pub trait Shelf {
            fn get(&self, at: u32) -> Result<u32, CallError>;
        }
    }

    pub mod new {
        use super::CallError;
        #[underpass::interface(stateless)]
        pub trait Shelf {
            fn get(&self, at: u32) -> Result<u32, CallError>;
            #[underpass(since = 2)]
            fn put(&self, at: u32) -> Result<u32, CallError>;
        }
    }

    pub struct Shelves;

    impl old::Shelf for Shelves {
        fn get(&self, at: u32) -> Result<u32, CallError> {
            Ok(at)
        }
    }

    impl new::Shelf for Shelves {
        fn get(&self, at: u32) -> Result<u32, CallError> {
            Ok(at)
        }
        fn put(&self, at: u32) -> Result<u32, CallError> {
            Ok(at + 1)
        }
    }
}

#[test]
fn older_and_newer_versions_understand_each_other() {
    use new::Shelf as _;
    use versions::{Shelves, new, old};
    let _watchdog = Watchdog::new("older_and_newer_versions_understand_each_other");
    let (_old_listener, old_server) = listen(old::Shelf::serve(Shelves));
    let (_new_listener, new_server) = listen(new::Shelf::serve(Shelves));
    let remote = Remote::new();
    let newer = new::ShelfClient::import_by(&remote, &old_server, SOON).unwrap();
    assert_eq!(new::Shelf::get(&newer, 7), Ok(7));
    assert_eq!(newer.put(7), Err(CallError::Unsupported(Outcome::NotStarted)));
    let older = old::ShelfClient::import_by(&remote, &new_server, SOON).unwrap();
    assert_eq!(old::Shelf::get(&older, 7), Ok(7));
}

/// Interfaces that can't leave their machine.
mod bound {
    use super::{CallError, File, Stream};

    #[derive(Debug, underpass::Wire)]
    pub struct Parts {
        pub names: Vec<String>,
        pub files: Option<Vec<File>>,
    }

    #[underpass::interface]
    pub trait Files {
        fn list(&self) -> Result<Vec<String>, CallError>;
        fn open(&self, parts: Parts) -> Result<(), CallError>;
    }

    #[underpass::interface]
    pub trait Rows {
        fn scan(&self) -> Result<(Stream<u32>, Stream<u32>), CallError>;
    }

    #[underpass::interface]
    pub trait Outer {
        fn inner(&self) -> Result<FilesClient, CallError>;
    }

    pub struct None;

    impl Files for None {
        fn list(&self) -> Result<Vec<String>, CallError> {
            Ok(Vec::new())
        }
        fn open(&self, parts: Parts) -> Result<(), CallError> {
            drop(parts);
            Ok(())
        }
    }

    impl Rows for None {
        fn scan(&self) -> Result<(Stream<u32>, Stream<u32>), CallError> {
            Err(CallError::Deadlock)
        }
    }

    impl Outer for None {
        fn inner(&self) -> Result<FilesClient, CallError> {
            Ok(FilesClient::new(Self))
        }
    }
}

#[test]
fn what_cannot_leave_its_machine_is_refused_by_method() {
    use bound::{Files, FilesClient, None, Outer, OuterClient, Rows, RowsClient};
    let _watchdog = Watchdog::new("what_cannot_leave_its_machine_is_refused_by_method");
    let (remote, nowhere) = (Remote::new(), "http://127.0.0.1:1/x");
    let refused = [
        (Files::serve(None), FilesClient::import_by(&remote, nowhere, SOON).unwrap_err(), "`open`", "file"),
        (Rows::serve(None), RowsClient::import_by(&remote, nowhere, SOON).unwrap_err(), "`scan`", "stream"),
        (
            Outer::serve(None),
            OuterClient::import_by(&remote, nowhere, SOON).unwrap_err(),
            "`inner`",
            "interface",
        ),
    ];
    for (service, import, method, what) in refused {
        let service = service.remote_peers(RemotePeers::anyone());
        let export =
            RemoteServer::new().export("x", service).listen("127.0.0.1:0", Option::None).unwrap_err();
        assert!(matches!(export, Error::Export(ExportError::Remote(..))), "{export}");
        for text in [import.to_string(), export.to_string()] {
            assert!(text.contains(method) && text.contains(what), "{text}");
        }
    }
}

#[test]
fn an_export_says_first_how_peers_prove_who_they_are() {
    let _watchdog = Watchdog::new("an_export_says_first_how_peers_prove_who_they_are");
    let service = || Depot::serve(DepotService::default());
    let export = |service, address| RemoteServer::new().export("depot", service).listen(address, None);
    let why = export(service(), "127.0.0.1:0").unwrap_err();
    assert!(why.to_string().contains("Service::remote_peers"), "{why}");
    let why = export(service().remote_peers(RemotePeers::certificate()), "127.0.0.1:0").unwrap_err();
    assert!(why.to_string().contains("RemoteTls::authority"), "{why}");
    let by_token = service().remote_peers(RemotePeers::token(|_| Option::None));
    let why = export(by_token, "0.0.0.0:0").unwrap_err();
    assert!(why.to_string().contains("without TLS"), "{why}");
    let hooked = service().remote_peers(RemotePeers::anyone()).on_binding_end(|_| ());
    let why = export(hooked, "127.0.0.1:0").unwrap_err();
    assert!(why.to_string().contains("hook"), "{why}");
    let anyone = || service().remote_peers(RemotePeers::anyone());
    let twice = RemoteServer::new().export("depot", anyone()).export("depot", anyone());
    assert!(twice.service().unwrap_err().to_string().contains("twice"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorize_decides_over_remote_peers_too() {
    let _watchdog = Watchdog::new("authorize_decides_over_remote_peers_too");
    for handlers in HANDLERS {
        let whose = |token: &str| (token != "stolen").then(|| token.to_owned());
        // The second one asks for a user id, and has not thought of remote peers.
        let service = depot(handlers).remote_peers(RemotePeers::token(whose));
        let fussy = service.clone().authorize(|peer| match peer.remote() {
            Some(remote) => remote.subject() == Some("alice"),
            None => true,
        });
        let thoughtless = service.authorize(|peer| peer.uid() >= 1000);
        let server = RemoteServer::new().export("fussy", fussy).export("thoughtless", thoughtless);
        let listener = server.listen("127.0.0.1:0", None).unwrap();
        let import = |name: &str, token: &str| {
            let address = format!("http://{}/{name}", listener.address());
            DepotClient::import_by(&Remote::new().token(token), &address, SOON)
        };
        let alice = import("fussy", "alice").unwrap();
        assert_eq!(alice.who_async().await, Ok("remote token alice".to_owned()), "{handlers:?}");
        for (name, token) in [("fussy", "bob"), ("fussy", "stolen"), ("thoughtless", "alice")] {
            let why = import(name, token).unwrap_err();
            assert!(matches!(why, ImportError::NotAuthorized(..)), "{name} {token} {why}");
        }
        let address = format!("http://{}/fussy", listener.address());
        let why = DepotClient::import_by(&Remote::new(), &address, SOON).unwrap_err();
        assert!(why.to_string().contains("no token"), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_lapses_ends_the_calls() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let _watchdog = Watchdog::new("a_token_that_lapses_ends_the_calls");
    let valid = Arc::new(AtomicBool::new(true));
    let known = valid.clone();
    let whose = move |token: &str| known.load(Ordering::SeqCst).then(|| token.to_owned());
    let service = Depot::serve(DepotService::default()).remote_peers(RemotePeers::token(whose));
    let listener = RemoteServer::new().export("depot", service).listen("127.0.0.1:0", None).unwrap();
    let address = format!("http://{}/depot", listener.address());
    let depot = DepotClient::import_by(&Remote::new().token("me"), &address, SOON).unwrap();
    assert_eq!(depot.add_async(1, 1).await, Ok(2));
    valid.store(false, Ordering::SeqCst);
    assert_eq!(depot.add_async(1, 1).await, Err(CallError::Revoked(Outcome::NotStarted)));
    valid.store(true, Ordering::SeqCst);
    assert_eq!(depot.add_async(1, 1).await, Ok(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_are_mounted_into_a_tonic_server() {
    use tonic::transport::Server;
    let _watchdog = Watchdog::new("exports_are_mounted_into_a_tonic_server");
    let service = Depot::serve(DepotService::default()).remote_peers(RemotePeers::anyone());
    let exports = RemoteServer::new().export("the depot/Ä", service);
    assert!(exports.service().is_err(), "no name has a slash");
    let service = Depot::serve(DepotService::default()).remote_peers(RemotePeers::anyone());
    let exports = RemoteServer::new().export("the depot Ä", service).service().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/the%20depot%20%C3%84", listener.local_addr().unwrap());
    let (_reporter, health) = tonic_health::server::health_reporter();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let server = Server::builder().add_service(health).add_service(exports).serve_with_incoming(incoming);
    let server = tokio::spawn(server);
    let depot = import(&address);
    assert_eq!(depot.add_async(20, 22).await, Ok(42));
    server.abort();
}

#[test]
fn several_servers_share_the_calls_of_a_stateless_interface() {
    let _watchdog = Watchdog::new("several_servers_share_the_calls_of_a_stateless_interface");
    let [(_one, first), (_two, second)] = [(); 2].map(|()| listen(Depot::serve(DepotService::default())));
    let hosts = [&first, &second].map(|address| address.split('/').nth(2).unwrap().to_owned());
    let both = format!("http://{}/depot", hosts.join(","));
    let depot = import(&both);
    assert!((0..100).all(|n| depot.add(n, 1) == Ok(n + 1)));
    let why = TallyClient::import_by(&Remote::new(), &both, SOON).unwrap_err();
    assert!(why.to_string().contains("stateless"), "{why}");
    drop(_one);
    // One server is left. Calls that the other did not start may be told so.
    let answered = (0..100).filter(|n| depot.add(*n, 1) == Ok(n + 1)).count();
    assert!(answered > 0);
}
