//! Answers Prometheus over HTTP/1, at `/metrics`.
//!
//! There is no encryption and no password: listen on the loopback interface, or on a Unix socket
//! whose permissions say who may ask.

use crate::{CONTENT_TYPE, text};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE as TYPE_HEADER;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

/// How long a client may take for the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// How many connections there may be at once. Others wait.
const MOST: usize = 32;

/// Where [`listen`] listens.
#[derive(Debug)]
pub enum ScrapeListener {
    /// A TCP port. Everybody who reaches it may ask.
    Tcp(std::net::TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

impl From<std::net::TcpListener> for ScrapeListener {
    fn from(listener: std::net::TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for ScrapeListener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

/// Answers requests for `/metrics` from now on, on a kernel thread of its own, as long as the
/// process runs.
///
/// # Errors
/// The thread or what it needs of the system can't be made.
///
/// # Examples
/// ```
/// use std::net::TcpListener;
///
/// # fn main() -> std::io::Result<()> {
/// underpass_prometheus::http::listen(TcpListener::bind("127.0.0.1:0")?)?;
/// # Ok(())
/// # }
/// ```
pub fn listen(listener: impl Into<ScrapeListener>) -> io::Result<()> {
    let listener = listener.into();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let accepts = {
        let _within = runtime.enter();
        match listener {
            ScrapeListener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Accepts::Tcp(tokio::net::TcpListener::from_std(listener)?)
            }
            ScrapeListener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Accepts::Unix(tokio::net::UnixListener::from_std(listener)?)
            }
        }
    };
    let thread = std::thread::Builder::new().name("underpass-scrape".to_owned());
    thread.spawn(move || runtime.block_on(accepts.serve()))?;
    Ok(())
}

enum Accepts {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl Accepts {
    async fn serve(self) {
        let room = Arc::new(Semaphore::new(MOST));
        loop {
            // It is never closed.
            let Ok(place) = room.clone().acquire_owned().await else { return };
            let accepted = match &self {
                Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                    tokio::spawn(async move {
                        converse(stream).await;
                        drop(place);
                    });
                }),
                Self::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                    tokio::spawn(async move {
                        converse(stream).await;
                        drop(place);
                    });
                }),
            };
            if accepted.is_err() {
                // No file is free, or the client has gone.
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers the requests of one client.
async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // A client that goes away in between is its own affair.
    let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let refused = |status| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = status;
        response
    };
    Ok(match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            let mut response = Response::new(Full::from(text()));
            let kind = hyper::header::HeaderValue::from_static(CONTENT_TYPE);
            response.headers_mut().insert(TYPE_HEADER, kind);
            response
        }
        (_, "/metrics") => refused(StatusCode::METHOD_NOT_ALLOWED),
        _ => refused(StatusCode::NOT_FOUND),
    })
}
