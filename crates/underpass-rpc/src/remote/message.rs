//! Values between machines.

use crate::dispatch::local_handlers::{LocalMessage, StreamPlace};
use crate::payload::sealed::Sealed;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The arguments or the result of a remote call: the bytes that a channel would carry, copies of
/// the sealed memory that would go beside them, and the streams.
#[derive(Debug, Default)]
pub struct RemoteMessage {
    /// What [`Encode`](underpass_wire::Encode) has written.
    pub bytes: Vec<u8>,
    /// The bytes of each [`Sealed`], in the order of the values.
    pub sealed: Vec<Vec<u8>>,
    /// The streams, in the order of the values.
    pub streams: Vec<RemoteStream>,
}

/// A stream of a message, as a value of this machine.
#[derive(Debug)]
pub struct RemoteStream {
    /// Where it is in its message. Sealed values are the other files.
    pub place: StreamPlace,
    /// What leads to it.
    pub files: [OwnedFd; 3],
}

/// The most sealed values of a message, as of a call over a channel.
const MOST_SEALED: usize = 64;

impl RemoteMessage {
    /// Copies what is sealed out of a message.
    ///
    /// # Errors
    /// Something in it can't leave the machine.
    pub(crate) fn of(message: LocalMessage) -> io::Result<Self> {
        let refuse = |what: &str| io::Error::other(format!("{what} can't go to another machine"));
        if !message.interfaces.is_empty() {
            return Err(refuse("an interface"));
        }
        let (mut streams, mut sealed) = (Vec::new(), Vec::new());
        let count = message.files.len();
        let (mut files, mut places) = (message.files.into_iter(), message.streams.into_iter().peekable());
        while let Some(file) = files.next() {
            if let Some(place) = places.next_if(|place| place.file + files.len() + 1 == count) {
                // If a file could not be copied, the message has failed before.
                let more = [(); 2].map(|()| files.next());
                let [Some(second), Some(third)] = more else { return Err(refuse("a part of a stream")) };
                streams.push(RemoteStream { place, files: [file, second, third] });
            } else if let Ok(value) = Sealed::try_from(file) {
                sealed.push(value.to_vec());
            } else {
                return Err(refuse("an open file"));
            }
        }
        if sealed.len() > MOST_SEALED {
            return Err(refuse("more than 64 sealed values"));
        }
        Ok(Self { bytes: message.bytes, sealed, streams })
    }

    /// The message on this machine.
    ///
    /// # Errors
    /// There is no memory or no file for what is sealed, or there is too much of it.
    pub(crate) fn into_local(self) -> io::Result<LocalMessage> {
        if self.sealed.len() > MOST_SEALED {
            return Err(io::Error::other("more than 64 sealed values came"));
        }
        let file = |bytes: &Vec<u8>| Sealed::new(bytes)?.as_fd().try_clone_to_owned();
        let mut sealed = self.sealed.iter();
        let mut files = VecDeque::new();
        for stream in self.streams {
            while files.len() < stream.place.file {
                let before = sealed.next().map(file);
                files.push_back(
                    before.ok_or_else(|| io::Error::other("the place of a stream makes no sense"))??,
                );
            }
            files.extend(stream.files);
        }
        for value in sealed {
            files.push_back(file(value)?);
        }
        Ok(LocalMessage::new(self.bytes, files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use underpass_wire::{Encode, Sink};

    #[test]
    fn sealed_memory_is_copied_and_files_are_refused() {
        let sealed = Sealed::new(b"sealed").unwrap();
        let there = RemoteMessage::of(LocalMessage::of(&(7u8, sealed, 8u8)).unwrap()).unwrap();
        assert_eq!((&there.bytes[..], &there.sealed[..]), (&[7, 8][..], &[b"sealed".to_vec()][..]));
        let (a, back, b): (u8, Sealed, u8) = there.into_local().unwrap().into_value().unwrap();
        assert_eq!((a, &*back, b), (7, &b"sealed"[..], 8));

        let file = LocalMessage::of(&(File::open("/dev/null").unwrap(),)).unwrap();
        let error = RemoteMessage::of(file).unwrap_err();
        assert!(error.to_string().contains("an open file"), "{error}");
        let many =
            RemoteMessage { bytes: Vec::new(), sealed: vec![Vec::new(); MOST_SEALED + 1], streams: vec![] };
        assert!(many.into_local().is_err());
    }

    /// A value that is a stream for a sink.
    struct Streaming(File);

    impl Encode for Streaming {
        const FIXED: Option<usize> = None;
        fn size(&self) -> usize {
            3
        }
        fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
            to.put(b"how");
            to.put_stream([(); 3].map(|()| self.0.as_fd()));
        }
    }

    #[test]
    fn streams_keep_their_places_among_sealed_values() {
        let sealed = |text: &[u8]| Sealed::new(text).unwrap();
        let streaming = || Streaming(File::open("/dev/null").unwrap());
        let value = (sealed(b"1"), streaming(), 7u8, streaming(), sealed(b"22"));
        let there = RemoteMessage::of(LocalMessage::of(&value).unwrap()).unwrap();
        let places: Vec<_> = there.streams.iter().map(|stream| stream.place).collect();
        assert_eq!(places, [StreamPlace { at: 3, file: 1 }, StreamPlace { at: 7, file: 4 }]);
        assert_eq!(there.sealed, [b"1".to_vec(), b"22".to_vec()]);
        let back = there.into_local().unwrap();
        let lengths = back.files.into_iter().map(|file| Sealed::try_from(file).ok().map(|one| one.len()));
        let wanted = [Some(1), None, None, None, None, None, None, Some(2)];
        assert!(lengths.eq(wanted));

        let stream = |file| RemoteStream {
            place: StreamPlace { at: 0, file },
            files: [(); 3].map(|()| File::open("/dev/null").unwrap().into()),
        };
        let lie = RemoteMessage { streams: vec![stream(usize::MAX)], ..Default::default() };
        assert!(lie.into_local().is_err(), "there are no files before it");
    }
}
