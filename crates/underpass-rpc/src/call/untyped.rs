//! Calls of an interface whose trait this program does not have.
//!
//! Such a call is an ordinary one: the stub is that of generated code, for arguments and results
//! that are bytes and files. Its caller encodes and decodes by what the server tells of the
//! interface. A mistake is found where it always is: the server checks what it decodes.

use crate::binding::inspect::InterfaceView;
use crate::call::stub::Stub;
use crate::carried::CarriedError;
use crate::error::{CallError, ImportError};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use underpass_threads::blocking;
use underpass_wire::{
    Decode, DecodeError, Descriptor, Encode, Schema, Sink, Source, TypeName, Types, astack,
};

/// Arguments, a result, or an item of a stream, of a type that this program does not have: the
/// bytes, and the files beside them. It is a [`Sink`] to encode to and a [`Source`] to decode from.
#[derive(Debug, Default)]
pub struct UntypedMessage {
    bytes: Vec<u8>,
    /// How many bytes were taken.
    taken: usize,
    files: VecDeque<OwnedFd>,
    interfaces: usize,
}

impl UntypedMessage {
    /// The bytes that were not taken yet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// How many files were not taken yet.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// How many interfaces came beside the bytes. They were dropped.
    pub fn interfaces(&self) -> usize {
        self.interfaces
    }
}

/// A file that can't be duplicated, because this process may open no more, is left out. The
/// receiver then finds that it is missing.
impl Sink for UntypedMessage {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn put_file(&mut self, file: BorrowedFd<'_>) {
        self.files.extend(file.try_clone_to_owned());
    }
}

impl Source for UntypedMessage {
    fn remaining(&self) -> usize {
        self.bytes.len() - self.taken
    }

    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        let mut left = self.bytes();
        left.take(out)?;
        self.taken += out.len();
        Ok(())
    }

    fn take_file(&mut self) -> Result<OwnedFd, DecodeError> {
        self.files.pop_front().ok_or(DecodeError::NoFile)
    }
}

impl Encode for UntypedMessage {
    const FIXED: Option<usize> = None;

    fn size(&self) -> usize {
        self.remaining()
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        to.put(self.bytes());
        self.files.iter().for_each(|file| to.put_file(file.as_fd()));
    }
}

/// All that has come.
impl Decode for UntypedMessage {
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let bytes = from.take_vec(from.remaining())?;
        let mut message = Self::default();
        message.bytes = bytes;
        loop {
            match from.take_file() {
                Ok(file) => message.files.push_back(file),
                Err(DecodeError::NoFile) => break,
                Err(e) => return Err(e),
            }
        }
        while from.take_interface().is_ok() {
            message.interfaces += 1;
        }
        Ok(message)
    }
}

impl Schema for UntypedMessage {
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("UntypedMessage")
    }
}

impl Drop for UntypedMessage {
    fn drop(&mut self) {
        // To close a file of an unknown kind may take long.
        let files = std::mem::take(&mut self.files);
        if !files.is_empty() {
            blocking(|| drop(files));
        }
    }
}

/// Why there is no result: the call has failed, or the procedure has returned an error.
enum Failure {
    Call(CallError),
    Returned(UntypedMessage),
}

impl Encode for Failure {
    const FIXED: Option<usize> = None;

    fn size(&self) -> usize {
        match self {
            Self::Call(e) => e.size(),
            Self::Returned(error) => error.size(),
        }
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        match self {
            Self::Call(e) => e.encode(to),
            Self::Returned(error) => error.encode(to),
        }
    }
}

impl Decode for Failure {
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        UntypedMessage::decode(from).map(Self::Returned)
    }
}

impl Schema for Failure {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        UntypedMessage::schema(types)
    }
}

impl CarriedError for Failure {
    type Itself = Self;

    fn from_call_error(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// A client of an interface whose trait this program does not have. Tools use it, and gateways to
/// other languages.
///
/// # Examples
/// ```
/// use underpass::inspect::{Inspect, InspectClient, UntypedClient, UntypedMessage};
/// use underpass::{CallError, Decode, Encode, Server};
///
/// #[underpass::interface]
/// trait Greeter {
///     fn greet(&self, whom: &str) -> Result<String, CallError>;
/// }
///
/// # struct Polite;
/// # impl Greeter for Polite {
/// #     fn greet(&self, whom: &str) -> Result<String, CallError> {
/// #         Ok(format!("Good day, {whom}."))
/// #     }
/// # }
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-untyped-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// let running = Server::new().export("greeter", Greeter::serve(Polite)).start()?;
///
/// // Another process, which does not have the trait:
/// let interfaces = InspectClient::import("greeter")?.interfaces()?;
/// let greeter = UntypedClient::import("greeter", &interfaces[0])?;
/// let mut arguments = UntypedMessage::default();
/// "Ada".encode(&mut arguments);
/// let mut result = greeter.call(0, &arguments)?.expect("greeted");
/// assert_eq!(String::decode(&mut result)?, "Good day, Ada.");
/// # drop(running);
/// # std::fs::remove_dir(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct UntypedClient {
    stub: Stub<dyn Send + Sync>,
}

impl UntypedClient {
    /// Imports the interface that is exported as `name`, as its server has described it.
    ///
    /// What this process keeps of the description lasts as long as the process.
    ///
    /// # Errors
    /// As the `import` of any client. [`ImportError::Mismatch`] if another server has the name
    /// meanwhile, with another interface: ask for the description again.
    pub fn import(name: &str, interface: &InterfaceView) -> Result<Self, ImportError> {
        let told = interface.versions.last().map_or(0, |version| version.astack);
        // No honest server tells a larger one.
        let bytes = usize::try_from(told).map_or(astack::LARGEST, |bytes| bytes.min(astack::LARGEST));
        let descriptor = Descriptor::of_peer(&interface.name, interface.hash, bytes);
        Ok(Self { stub: Stub::import(name, descriptor, None)? })
    }

    /// The same binding. Its calls end with [`CallError::Deadline`] if they take longer than
    /// `within`.
    #[must_use]
    pub fn with_deadline(&self, within: Duration) -> Self {
        Self { stub: self.stub.with_deadline(within) }
    }

    /// Calls the method with that index: its position in [`InterfaceView::methods`]. The inner
    /// result is what the method returned, without the byte that tells success from error.
    ///
    /// # Errors
    /// [`CallError`]. If the arguments are none of the method's, it is
    /// [`Decode`](CallError::Decode), and the method was not started.
    pub fn call(
        &self,
        method: u16,
        arguments: &UntypedMessage,
    ) -> Result<Result<UntypedMessage, UntypedMessage>, CallError> {
        match self.stub.call::<_, UntypedMessage, Failure>(method, arguments) {
            Ok(value) => Ok(Ok(value)),
            Err(Failure::Returned(error)) => Ok(Err(error)),
            Err(Failure::Call(e)) => Err(e),
        }
    }
}
