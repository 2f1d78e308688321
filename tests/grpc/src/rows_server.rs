//! A server of this process whose clients come as those of other machines do.

use crate::rows::{Rows, RowsAsync, RowsClient, RowsService};
use std::sync::mpsc;
use std::time::Duration;
use underpass::remote::RemotePeers;
use underpass::stream::{Stream, StreamOptions, StreamSendError, StreamSender};
use underpass_grpc::remote::{Remote, RemoteListener, RemoteServer};

/// How a writer has ended.
type SendResult = Result<(), StreamSendError>;

/// A server of this process, with the handlers of one kind, and its client.
#[derive(Debug)]
pub struct RowsServer {
    /// The client. All its calls share one connection.
    pub rows: RowsClient,
    /// Where others import it.
    pub address: String,
    _listener: RemoteListener,
    _runtime: Option<tokio::runtime::Runtime>,
}

impl RowsServer {
    /// Starts it.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(asynchronous: bool) -> Self {
        let runtime = asynchronous.then(|| tokio::runtime::Runtime::new().expect("a runtime"));
        let service = match &runtime {
            None => Rows::serve(RowsService::default()),
            Some(runtime) => {
                let handle = runtime.handle().clone();
                RowsAsync::serve(RowsService::default(), move |handler| drop(handle.spawn(handler)))
            }
        };
        let server = RemoteServer::new().export("rows", service.remote_peers(RemotePeers::anyone()));
        let listener = server.listen("127.0.0.1:0", None).expect("an address");
        let address = format!("http://{}/rows", listener.address());
        let rows = RowsClient::import_by(&Remote::new(), &address, Duration::from_secs(120));
        let rows = rows.expect("a server of this process");
        Self { rows, address, _listener: listener, _runtime: runtime }
    }
}

/// A stream whose writer sends these numbers on a thread of its own, and says how that ended.
///
/// # Panics
/// If there is no room for a stream.
pub fn sending(
    numbers: impl Iterator<Item = u32> + Send + 'static,
) -> (Stream<u32>, mpsc::Receiver<SendResult>) {
    let (sender, stream) = StreamOptions::new().open::<u32>().expect("room for a stream");
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(send(sender, numbers)));
    (stream, told)
}

fn send(sender: StreamSender<u32>, mut numbers: impl Iterator<Item = u32>) -> SendResult {
    numbers.try_for_each(|number| sender.send(&number))?;
    sender.finish();
    Ok(())
}
