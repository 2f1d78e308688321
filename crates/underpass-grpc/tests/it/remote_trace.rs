//! A trace context goes to handlers on other machines, and metrics count their calls.

use std::time::Duration;
use underpass::metrics::{MeasuredSide, snapshot};
use underpass::remote::RemotePeers;
use underpass::{CallError, Handler, Service, TraceContext};
use underpass_grpc::remote::{Remote, RemoteServer};

/// More than the test takes on a busy machine.
const SOON: Duration = Duration::from_secs(120);

#[underpass::interface(stateless)]
trait Echo {
    /// The handler's context, and its state.
    fn context(&self) -> Result<Option<(String, String)>, CallError>;
    fn refuse(&self) -> Result<(), CallError>;
    fn panic(&self) -> Result<(), CallError>;
}

#[underpass::interface(asynchronous, stateless)]
trait Later {
    fn context(&self) -> Result<Option<(String, String)>, CallError>;
}

struct Here;

fn own() -> Option<(String, String)> {
    TraceContext::current().map(|context| (context.to_string(), context.state().to_owned()))
}

impl Echo for Here {
    fn context(&self) -> Result<Option<(String, String)>, CallError> {
        Ok(own())
    }
    fn refuse(&self) -> Result<(), CallError> {
        Err(CallError::Overloaded)
    }
    fn panic(&self) -> Result<(), CallError> {
        panic!("on purpose");
    }
}

impl LaterAsync for Here {
    async fn context(&self) -> Result<Option<(String, String)>, CallError> {
        Ok(own())
    }
}

fn spawn(mut handler: Handler) {
    std::thread::spawn(move || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while handler.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn a_context_goes_to_another_machine() {
    let export = |service: Service| service.remote_peers(RemotePeers::anyone());
    let server = RemoteServer::new()
        .export("echo", export(Echo::serve(Here).measured(true)))
        .export("later", export(LaterAsync::serve(Here, spawn)));
    let listener = server.listen("127.0.0.1:0", None).unwrap();
    let address = |name: &str| format!("http://{}/{name}", listener.address());
    let echo = EchoClient::import_by(&Remote::new(), &address("echo"), SOON).unwrap().measured("echo");
    let later = LaterClient::import_by(&Remote::new(), &address("later"), SOON).unwrap();

    assert_eq!((echo.context(), later.context()), (Ok(None), Ok(None)));
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for state in ["", "vendor=value"] {
        let context = TraceContext::parse(parent).unwrap().with_state(state);
        let expected = Ok(Some((parent.to_owned(), state.to_owned())));
        context.scope(|| assert_eq!((echo.context(), later.context()), (expected.clone(), expected)));
    }
    assert_eq!(echo.context(), Ok(None), "the scope has ended");
    assert_eq!(echo.refuse(), Err(CallError::Overloaded));
    assert_eq!(echo.panic(), Err(CallError::Panicked("on purpose".to_owned())));

    for side in [MeasuredSide::Import, MeasuredSide::Export] {
        let told = snapshot();
        let of = told.iter().find(|of| of.name == "echo" && of.side == side).unwrap();
        let [context, refuse, panic] = &of.methods[..] else { panic!("three methods") };
        assert_eq!((context.returned, context.calls()), (4, 4), "{side:?}");
        assert_eq!((refuse.returned_errors, panic.failed("panicked")), (1, 1), "{side:?}");
        let (arguments, results) = match side {
            MeasuredSide::Import => (context.bytes_out, context.bytes_in),
            MeasuredSide::Export => (context.bytes_in, context.bytes_out),
        };
        assert!(arguments == 0 && results > 4 * 2, "{arguments} {results}");
    }
}
