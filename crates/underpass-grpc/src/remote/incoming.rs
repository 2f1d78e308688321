//! Connections of clients: no more than there is room for, and none for a client that stays silent.

use futures_core::Stream;
use std::future::pending;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

/// How long a connection may last before a client has proved over it who it is.
const SILENT: Duration = Duration::from_secs(60);

/// How long to wait for files to be closed before accepting again.
const PAUSE: Duration = Duration::from_millis(20);

/// What is known of the client of a connection. Its requests have it beside them.
#[derive(Clone, Debug)]
pub(super) struct ConnectedClient {
    pub(super) address: SocketAddr,
    /// It has proved who it is.
    proved: Arc<AtomicBool>,
}

impl ConnectedClient {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, proved: Arc::default() }
    }

    /// From now on the connection may last.
    pub(super) fn has_proved(&self) {
        // Relaxed: nothing else is read that depends on it.
        self.proved.store(true, Ordering::Relaxed);
    }
}

/// The connection of a client. Its place is free for others when it is dropped.
pub(super) struct ClientConnection {
    stream: TcpStream,
    client: ConnectedClient,
    /// The end of its time, until the client has proved who it is.
    until: Option<Pin<Box<Sleep>>>,
    _room: OwnedSemaphorePermit,
}

impl ClientConnection {
    /// Whether the client has proved too late who it is.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        // Relaxed: a client that proves it in the last moment may be late.
        if self.client.proved.load(Ordering::Relaxed) {
            self.until = None;
        }
        self.until.as_mut().is_some_and(|until| until.as_mut().poll(cx).is_ready())
    }
}

impl Connected for ClientConnection {
    type ConnectInfo = ConnectedClient;

    fn connect_info(&self) -> ConnectedClient {
        self.client.clone()
    }
}

impl AsyncRead for ClientConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_late(cx) {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for ClientConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Accepts connections as long as there is room.
struct Acceptor {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl Acceptor {
    /// The next connection.
    async fn next(self) -> (ClientConnection, Self) {
        let Ok(room) = self.room.clone().acquire_owned().await else {
            // Nobody closes the semaphore.
            return pending().await;
        };
        let (stream, address) = loop {
            match self.listener.accept().await {
                Ok(accepted) => break accepted,
                Err(e) if matches!(e.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => {}
                // Files have run out. The kernel would report the same client again at once.
                Err(_) => sleep(PAUSE).await,
            }
        };
        // Without it the connection works too.
        let _ = stream.set_nodelay(true);
        let (client, until) = (ConnectedClient::new(address), Some(Box::pin(sleep(SILENT))));
        (ClientConnection { stream, client, until, _room: room }, self)
    }
}

/// The connections of a listener, one after the other.
pub(super) struct IncomingConnections(Pin<Box<dyn Future<Output = (ClientConnection, Acceptor)> + Send>>);

impl IncomingConnections {
    /// Those of `listener`, with at most so many at once. To be called within a runtime.
    ///
    /// # Errors
    /// The listener can't be waited for.
    pub(super) fn new(listener: std::net::TcpListener, most: usize) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let room = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        let acceptor = Acceptor { listener: TcpListener::from_std(listener)?, room };
        Ok(Self(Box::pin(acceptor.next())))
    }
}

impl Stream for IncomingConnections {
    type Item = io::Result<ClientConnection>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (connection, acceptor) = ready!(self.0.as_mut().poll(cx));
        self.0 = Box::pin(acceptor.next());
        Poll::Ready(Some(Ok(connection)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::io::Write as _;
    use std::net::TcpStream as Client;
    use tokio::time::timeout;

    /// More than a silent connection lasts. The clock is not the real one: it moves on at once when
    /// nothing else is to be done.
    const LATER: Duration = Duration::from_secs(1000);

    fn listen(most: usize) -> (IncomingConnections, SocketAddr) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (IncomingConnections::new(listener, most).unwrap(), address)
    }

    async fn accept(incoming: &mut IncomingConnections) -> ClientConnection {
        poll_fn(|cx| Pin::new(&mut *incoming).poll_next(cx)).await.unwrap().unwrap()
    }

    /// The next byte that comes.
    async fn read(connection: &mut ClientConnection) -> io::Result<u8> {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        poll_fn(|cx| Pin::new(&mut *connection).poll_read(cx, &mut buffer)).await?;
        Ok(byte[0])
    }

    #[tokio::test(start_paused = true)]
    async fn connections_beyond_the_limit_wait_for_room() {
        let (mut incoming, address) = listen(1);
        let _clients = [(); 2].map(|()| Client::connect(address).unwrap());
        let first = accept(&mut incoming).await;
        assert!(timeout(LATER, accept(&mut incoming)).await.is_err(), "there is no room");
        drop(first);
        accept(&mut incoming).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_unless_its_client_proves_who_it_is() {
        let (mut incoming, address) = listen(2);
        let _silent = Client::connect(address).unwrap();
        let mut silent = accept(&mut incoming).await;
        let ended = timeout(LATER, read(&mut silent)).await.unwrap();
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);

        let mut client = Client::connect(address).unwrap();
        let mut connection = accept(&mut incoming).await;
        connection.connect_info().has_proved();
        assert!(timeout(LATER, read(&mut connection)).await.is_err(), "it lasts");
        client.write_all(&[7]).unwrap();
        assert_eq!(read(&mut connection).await.unwrap(), 7);
    }
}
