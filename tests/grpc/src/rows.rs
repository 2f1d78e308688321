//! An interface with streams that is called from other machines, with handlers of both kinds.
#![allow(clippy::missing_errors_doc, reason = "interfaces of the tests: what goes wrong is what they test")]

use std::sync::{Arc, Mutex, PoisonError};
use underpass::stream::{Stream, StreamError, StreamOptions, StreamSendError, StreamSender};
use underpass::{CallError, Sealed};

/// Streams in each direction.
#[underpass::interface(asynchronous, stateless)]
pub trait Rows {
    /// The numbers below `to`.
    fn count(&self, to: u32) -> Result<Stream<u32>, CallError>;
    /// The sum of all numbers, and how their stream has ended.
    fn sum(&self, label: Sealed, rows: Stream<u32>) -> Result<(u64, String), CallError>;
    /// Twice each number, as it comes.
    fn double(&self, rows: Stream<u32>) -> Result<Stream<u32>, CallError>;
    /// Takes one number, and drops the stream. Returns when the second stream is dropped too.
    fn first(&self, rows: Stream<u32>) -> Result<(u32, Stream<u32>), CallError>;
    /// Numbers without an end. The other stream stays unread, and is dropped afterwards.
    fn deaf(&self, rows: Stream<u32>) -> Result<Stream<u32>, CallError>;
    /// The same bytes, as they come. Items may have 1 MiB.
    fn echo(&self, rows: Stream<Vec<u8>>) -> Result<Stream<Vec<u8>>, CallError>;
    /// Numbers without an end.
    fn endless(&self) -> Result<Stream<u32>, CallError>;
    /// One number, and then this error.
    fn fail(&self, why: &str) -> Result<Stream<u32>, CallError>;
    /// One number, and then nothing more.
    fn abandon(&self) -> Result<Stream<u32>, CallError>;
    /// No stream, and an error.
    fn refuse(&self, rows: Stream<u32>) -> Result<Stream<u32>, CallError>;
    /// Several streams, though the types show one.
    fn many(&self, count: u32) -> Result<Vec<Stream<u32>>, CallError>;
    /// How the streams of endless numbers and of `first`, `deaf` and `double` have ended for their
    /// writers, one after the other.
    fn ends(&self) -> Result<Vec<String>, CallError>;
}

/// Implements [`Rows`]. Clones share what `ends` tells.
#[derive(Clone, Debug, Default)]
pub struct RowsService(Arc<Mutex<Vec<String>>>);

/// Sends the numbers, until the reader has gone.
fn send(sender: StreamSender<u32>, numbers: impl IntoIterator<Item = u32>) -> Result<(), StreamSendError> {
    numbers.into_iter().try_for_each(|number| sender.send(&number))?;
    sender.finish();
    Ok(())
}

impl RowsService {
    fn note(&self, end: impl std::fmt::Debug) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{end:?}"));
    }

    /// Sends the numbers on a thread of its own.
    fn sends(&self, numbers: impl Iterator<Item = u32> + Send + 'static) -> Result<Stream<u32>, CallError> {
        let (sender, stream) = StreamOptions::new().open::<u32>()?;
        let own = self.clone();
        drop(underpass::thread::spawn(move || own.note(send(sender, numbers))));
        Ok(stream)
    }

    fn summed(rows: Stream<u32>) -> (u64, String) {
        let (mut sum, mut end) = (0, Ok(()));
        for row in rows {
            match row {
                Ok(row) => sum += u64::from(row),
                Err(error) => end = Err(error),
            }
        }
        (sum, format!("{end:?}"))
    }

    fn doubled(&self, mut rows: Stream<u32>) -> Result<Stream<u32>, CallError> {
        let (sender, doubled) = StreamOptions::new().open::<u32>()?;
        let own = self.clone();
        drop(underpass::thread::spawn(move || {
            loop {
                match rows.recv() {
                    Ok(Some(row)) => {
                        if let Err(error) = sender.send(&(2 * row)) {
                            return own.note(error);
                        }
                    }
                    Ok(None) => {
                        sender.finish();
                        return own.note("finished");
                    }
                    Err(error) => return own.note(error),
                }
            }
        }));
        Ok(doubled)
    }

    fn firsts(&self, mut rows: Stream<u32>) -> Result<(u32, Stream<u32>), CallError> {
        let first = rows.recv().ok().flatten().unwrap_or_default();
        drop(rows);
        Ok((first, self.sends(0..)?))
    }

    fn deafs(&self, rows: Stream<u32>) -> Result<Stream<u32>, CallError> {
        let (sender, stream) = StreamOptions::new().open::<u32>()?;
        let own = self.clone();
        drop(underpass::thread::spawn(move || {
            let end = send(sender, 0..);
            drop(rows);
            own.note(end);
        }));
        Ok(stream)
    }

    fn echoed(mut rows: Stream<Vec<u8>>) -> Result<Stream<Vec<u8>>, CallError> {
        let (sender, stream) = StreamOptions::new().longest(1 << 20).bytes(2 << 20).open::<Vec<u8>>()?;
        drop(underpass::thread::spawn(move || {
            while let Ok(Some(row)) = rows.recv() {
                if sender.send(&row).is_err() {
                    return;
                }
            }
            sender.finish();
        }));
        Ok(stream)
    }

    fn failed(why: &str) -> Result<Stream<u32>, CallError> {
        let (sender, stream) = StreamOptions::new().open::<u32>()?;
        let sent = sender.send(&1).and_then(|()| sender.fail(&why.to_owned()));
        assert_eq!(sent, Ok(()), "there is credit");
        Ok(stream)
    }

    fn abandoned() -> Result<Stream<u32>, CallError> {
        let (sender, stream) = StreamOptions::new().open::<u32>()?;
        assert_eq!(sender.send(&1), Ok(()), "there is credit");
        Ok(stream)
    }

    fn several(&self, count: u32) -> Result<Vec<Stream<u32>>, CallError> {
        (0..count).map(|_| self.sends(0..3)).collect()
    }
}

impl Rows for RowsService {
    fn count(&self, to: u32) -> Result<Stream<u32>, CallError> {
        Ok(Stream::of(0..to)?)
    }
    fn sum(&self, label: Sealed, rows: Stream<u32>) -> Result<(u64, String), CallError> {
        let (sum, end) = Self::summed(rows);
        Ok((sum + label.len() as u64, end))
    }
    fn double(&self, rows: Stream<u32>) -> Result<Stream<u32>, CallError> {
        self.doubled(rows)
    }
    fn first(&self, rows: Stream<u32>) -> Result<(u32, Stream<u32>), CallError> {
        self.firsts(rows)
    }
    fn deaf(&self, rows: Stream<u32>) -> Result<Stream<u32>, CallError> {
        self.deafs(rows)
    }
    fn echo(&self, rows: Stream<Vec<u8>>) -> Result<Stream<Vec<u8>>, CallError> {
        Self::echoed(rows)
    }
    fn endless(&self) -> Result<Stream<u32>, CallError> {
        self.sends(0..)
    }
    fn fail(&self, why: &str) -> Result<Stream<u32>, CallError> {
        Self::failed(why)
    }
    fn abandon(&self) -> Result<Stream<u32>, CallError> {
        Self::abandoned()
    }
    fn refuse(&self, _: Stream<u32>) -> Result<Stream<u32>, CallError> {
        Err(CallError::Deadlock)
    }
    fn many(&self, count: u32) -> Result<Vec<Stream<u32>>, CallError> {
        self.several(count)
    }
    fn ends(&self) -> Result<Vec<String>, CallError> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl RowsAsync for RowsService {
    async fn count(&self, to: u32) -> Result<Stream<u32>, CallError> {
        Ok(Stream::of(0..to)?)
    }
    async fn sum(&self, label: Sealed, mut rows: Stream<u32>) -> Result<(u64, String), CallError> {
        let (mut sum, mut end) = (label.len() as u64, Ok::<_, StreamError>(()));
        while let Some(row) = next(&mut rows).await {
            match row {
                Ok(row) => sum += u64::from(row),
                Err(error) => end = Err(error),
            }
        }
        Ok((sum, format!("{end:?}")))
    }
    async fn double(&self, rows: Stream<u32>) -> Result<Stream<u32>, CallError> {
        self.doubled(rows)
    }
    async fn first(&self, mut rows: Stream<u32>) -> Result<(u32, Stream<u32>), CallError> {
        let first = next(&mut rows).await.and_then(Result::ok).unwrap_or_default();
        drop(rows);
        Ok((first, self.sends(0..)?))
    }
    async fn deaf(&self, rows: Stream<u32>) -> Result<Stream<u32>, CallError> {
        self.deafs(rows)
    }
    async fn echo(&self, rows: Stream<Vec<u8>>) -> Result<Stream<Vec<u8>>, CallError> {
        Self::echoed(rows)
    }
    async fn endless(&self) -> Result<Stream<u32>, CallError> {
        self.sends(0..)
    }
    async fn fail(&self, why: &str) -> Result<Stream<u32>, CallError> {
        Self::failed(why)
    }
    async fn abandon(&self) -> Result<Stream<u32>, CallError> {
        Self::abandoned()
    }
    async fn refuse(&self, _: Stream<u32>) -> Result<Stream<u32>, CallError> {
        Err(CallError::Deadlock)
    }
    async fn many(&self, count: u32) -> Result<Vec<Stream<u32>>, CallError> {
        self.several(count)
    }
    async fn ends(&self) -> Result<Vec<String>, CallError> {
        Rows::ends(self)
    }
}

/// The next item of a stream, for a task.
async fn next(rows: &mut Stream<u32>) -> Option<Result<u32, StreamError>> {
    tokio_stream::StreamExt::next(rows).await
}
