/// Files, in blocks.
///
/// Blocks stay in memory.
pub trait FileCache {
    /// Reads up to `len` bytes at `offset`.
    fn read(&self, file: FileId, offset: u64, len: u32) -> Result<Vec<u8>, FsError>;
    #[must_use]
    fn flush(&self) -> Result<(), FsError>;
    /// Makes a service of this implementation, which a `Server` can export.
    #[allow(dead_code)]
    fn serve(self) -> ::underpass::__private::Service
    where
        Self: ::core::marker::Sized + ::core::marker::Send + ::core::marker::Sync
            + 'static,
    {
        let __local = ::std::sync::Arc::new(self);
        let __stub = ::std::sync::Arc::new(
            __FileCacheDispatch(::std::sync::Arc::clone(&__local)),
        );
        ::underpass::__private::Service::new::<
            dyn FileCache + ::core::marker::Send + ::core::marker::Sync,
        >(FileCacheClient::descriptor(), __stub, __local)
    }
}
/// The client stub of [`FileCache`]: its implementation in another process.
///
/// Files, in blocks.
///
/// Blocks stay in memory.
#[derive(::core::clone::Clone, ::core::fmt::Debug)]
#[allow(dead_code)]
pub struct FileCacheClient {
    stub: ::underpass::__private::Stub<
        dyn FileCache + ::core::marker::Send + ::core::marker::Sync,
    >,
}
#[automatically_derived]
#[allow(dead_code)]
impl FileCacheClient {
    /// Imports the interface that is exported as `name`. If that is this very domain's,
    /// calls will be direct.
    ///
    /// # Errors
    /// There is no such name, or no permission, or it is another interface: each variant
    /// tells the remedy.
    pub fn import(
        name: &::core::primitive::str,
    ) -> ::core::result::Result<Self, ::underpass::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: ::underpass::__private::Stub::import(
                name,
                Self::descriptor(),
                ::core::option::Option::None,
            )?,
        })
    }
    /// Imports the interface that is exported as `name`, or will be within that time.
    ///
    /// A name whose server is dead is waited for too, as somebody may start that again.
    /// Where nobody does, [`import`](Self::import) says at once that it is dead.
    ///
    /// # Errors
    /// As [`import`](Self::import), once the time is over.
    pub fn import_within(
        name: &::core::primitive::str,
        time: ::core::time::Duration,
    ) -> ::core::result::Result<Self, ::underpass::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: ::underpass::__private::Stub::import(
                name,
                Self::descriptor(),
                ::core::option::Option::Some(time),
            )?,
        })
    }
    /// Imports the interface that is exported as `name`, waits for it if need be, and
    /// imports it again whenever its binding has ended: its server has ended or was
    /// replaced, or has taken the binding back. A call that was not started is made again
    /// then, and so is one of a method marked `#[idempotent]`; each other call returns with
    /// what is known of it.
    ///
    /// A server may have given this client what means nothing to the next one, or something
    /// else: ids, sessions. So unless the interface is `stateless`, or the next server says
    /// that it goes on with the same state, calls are told that the server was restarted,
    /// until [`acknowledge_restart`](Self::acknowledge_restart).
    ///
    /// # Errors
    /// As [`import`](Self::import).
    pub fn import_resilient(
        name: &::core::primitive::str,
        policy: ::underpass::__private::Policy,
    ) -> ::core::result::Result<Self, ::underpass::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: ::underpass::__private::Stub::import_resilient(
                name,
                Self::descriptor(),
                policy,
            )?,
        })
    }
    /// As [`import_resilient`](Self::import_resilient); `restore` is called with each
    /// binding to a server without this client's state. Its calls go before all others over
    /// that binding. If it returns `Ok` they go on as if there had been no restart, so all
    /// that was given before must be valid again by then, under the same values. If it
    /// fails they are told of the restart, and why.
    ///
    /// The calls that wait do so no longer than their deadlines and their patience. Once
    /// nobody waits any more the calls of `restore` are abandoned, and the next call begins
    /// anew. It runs on a thread of its own, makes calls over the stub that it is given,
    /// and none over this one, which would wait for it.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    pub fn import_resilient_with(
        name: &::core::primitive::str,
        policy: ::underpass::__private::Policy,
        restore: impl ::core::ops::Fn(
            &Self,
        ) -> ::core::result::Result<
                (),
                ::std::boxed::Box<
                    dyn ::std::error::Error + ::core::marker::Send + ::core::marker::Sync,
                >,
            > + ::core::marker::Send + ::core::marker::Sync + 'static,
    ) -> ::core::result::Result<Self, ::underpass::__private::ImportError> {
        let restore = move |__stub| restore(&Self { stub: __stub });
        ::core::result::Result::Ok(Self {
            stub: ::underpass::__private::Stub::import_resilient_with(
                name,
                Self::descriptor(),
                policy,
                restore,
            )?,
        })
    }
    /// Imports the interface that another process passes on over `socket`, a connected Unix
    /// socket, by `share_with`, within that time.
    ///
    /// # Errors
    /// As [`import`](Self::import); nothing has come in time, or what has gives no binding
    /// any more.
    pub fn import_from(
        socket: impl ::std::os::fd::AsFd,
        time: ::core::time::Duration,
    ) -> ::core::result::Result<Self, ::underpass::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: ::underpass::__private::Stub::import_from(
                socket,
                Self::descriptor(),
                time,
            )?,
        })
    }
    /// Passes this binding on to the process at the other end of `socket`, a connected Unix
    /// socket, if the server allows it. It takes it by `import_from`, while this binding
    /// lasts, and is a client of its own from then on.
    ///
    /// # Errors
    /// The server does not allow it, or there is no room: each variant tells the remedy.
    pub fn share_with(
        &self,
        socket: impl ::std::os::fd::AsFd,
    ) -> ::core::result::Result<(), ::underpass::__private::ShareError> {
        self.stub.share_with(socket)
    }
    /// The same binding; every call of this copy of it returns with a deadline error after
    /// that time.
    #[must_use]
    pub fn with_deadline(&self, time: ::core::time::Duration) -> Self {
        Self {
            stub: self.stub.with_deadline(time),
        }
    }
    /// The same binding; a call of this copy of it gives its caller's processor to a server
    /// that has none, though other threads are ready.
    #[must_use]
    pub fn urgent(&self) -> Self {
        Self { stub: self.stub.urgent() }
    }
    /// After calls were told that the server was restarted: this copy of the stub has
    /// nothing any more that the server before has given it, and makes calls again. To be
    /// said of each copy by itself, also of those that `with_deadline` and its like have
    /// made: a copy made afterwards knows it.
    pub fn acknowledge_restart(&self) {
        self.stub.acknowledge_restart();
    }
    /// The same binding; callers over this copy of it are freed when anybody abandons.
    #[must_use]
    pub fn abandonable(&self, abandon: &::underpass::__private::Abandon) -> Self {
        Self {
            stub: self.stub.abandonable(abandon),
        }
    }
    /// How many calls that nobody waits for any more the server may hold, of 64 over each
    /// channel, before it loses the binding: 48 at first.
    pub fn quarantine(&self, most: ::core::primitive::u32) {
        self.stub.quarantine(most);
    }
    /// The same binding; what a call of this copy of it does when as many are under way as
    /// the interface expects at once.
    #[must_use]
    pub fn when_all_leased(&self, choice: ::underpass::__private::AllLeased) -> Self {
        Self {
            stub: self.stub.when_all_leased(choice),
        }
    }
    /// What this binding has cost so far.
    pub fn counters(&self) -> ::underpass::__private::Counters {
        self.stub.counters()
    }
    /// Bytes that arguments and results take, and the A-stacks that follow: of each procedure,
    /// in the order of the trait.
    pub const SIZES: [::underpass::__private::wire::Sizes; 2usize] = [
        ::underpass::__private::wire::Sizes::of::<
            ::core::result::Result<
                <Vec<u8> as ::underpass::__private::wire::Carried>::Itself,
                <FsError as ::underpass::__private::wire::Carried>::Itself,
            >,
        >(
            &[
                <<FileId as ::underpass::__private::wire::Carried>::Itself as ::underpass::__private::wire::Encode>::FIXED,
                <u64 as ::underpass::__private::wire::Encode>::FIXED,
                <u32 as ::underpass::__private::wire::Encode>::FIXED,
            ],
            ::core::option::Option::None,
        ),
        ::underpass::__private::wire::Sizes::of::<
            ::core::result::Result<
                (),
                <FsError as ::underpass::__private::wire::Carried>::Itself,
            >,
        >(&[], ::core::option::Option::None),
    ];
    /// Bytes of the interface's A-stacks: what the procedure wants that wants most.
    pub const ASTACK: ::core::primitive::usize = ::underpass::__private::wire::Sizes::largest(
        &Self::SIZES,
    );
    /// The interface as both sides must know it.
    pub fn descriptor() -> &'static ::underpass::__private::wire::Descriptor {
        static __DESCRIPTOR: ::std::sync::LazyLock<
            ::underpass::__private::wire::Descriptor,
        > = ::std::sync::LazyLock::new(|| {
            let mut __interface = ::underpass::__private::wire::Descriptor::builder(
                "FileCache",
                "Files, in blocks.\n\nBlocks stay in memory.",
            );
            __interface
                .procedure(
                    "read",
                    "Reads up to `len` bytes at `offset`.",
                    FileCacheClient::SIZES[0usize],
                )
                .argument::<
                    <FileId as ::underpass::__private::wire::Carried>::Itself,
                >("file")
                .argument::<u64>("offset")
                .argument::<u32>("len")
                .result::<
                    ::core::result::Result<
                        <Vec<u8> as ::underpass::__private::wire::Carried>::Itself,
                        <FsError as ::underpass::__private::wire::Carried>::Itself,
                    >,
                >();
            __interface
                .procedure("flush", "", FileCacheClient::SIZES[1usize])
                .result::<
                    ::core::result::Result<
                        (),
                        <FsError as ::underpass::__private::wire::Carried>::Itself,
                    >,
                >();
            __interface.finish()
        });
        &__DESCRIPTOR
    }
}
#[automatically_derived]
#[allow(deprecated, clippy::redundant_closure)]
impl FileCache for FileCacheClient {
    /// Reads up to `len` bytes at `offset`.
    fn read(&self, file: FileId, offset: u64, len: u32) -> Result<Vec<u8>, FsError> {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return FileCache::read(&*__local, file, offset, len);
        }
        let __stub = &self.stub;
        __stub
            .call_idempotent::<
                _,
                ::core::result::Result<
                    <Vec<u8> as ::underpass::__private::wire::Carried>::Itself,
                    <FsError as ::underpass::__private::wire::Carried>::Itself,
                >,
            >(
                0u16,
                &(&file, &offset, &len),
                |__error| <FsError as ::underpass::__private::FromCallError>::from_call_error(
                    __error,
                ),
            )
    }
    fn flush(&self) -> Result<(), FsError> {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return FileCache::flush(&*__local);
        }
        let __stub = &self.stub;
        __stub
            .call::<
                _,
                ::core::result::Result<
                    (),
                    <FsError as ::underpass::__private::wire::Carried>::Itself,
                >,
            >(
                1u16,
                &(),
                |__error| <FsError as ::underpass::__private::FromCallError>::from_call_error(
                    __error,
                ),
            )
    }
}
#[allow(dead_code)]
impl FileCacheClient {
    /// Reads up to `len` bytes at `offset`.
    ///
    /// `read` for async tasks, under any executor. The call is sent at the first poll; to drop the future abandons it. An implementation in this very process is called directly, and holds up the executor's thread.
    ///
    /// # Errors
    /// What the implementation returns, or what became of the call.
    #[allow(deprecated, clippy::redundant_closure, clippy::too_many_arguments)]
    pub async fn read_async(
        &self,
        file: FileId,
        offset: u64,
        len: u32,
    ) -> Result<Vec<u8>, FsError> {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return FileCache::read(&*__local, file, offset, len);
        }
        let __stub = &self.stub;
        __stub
            .call_async_idempotent::<
                _,
                ::core::result::Result<
                    <Vec<u8> as ::underpass::__private::wire::Carried>::Itself,
                    <FsError as ::underpass::__private::wire::Carried>::Itself,
                >,
            >(
                0u16,
                &(&file, &offset, &len),
                |__error| <FsError as ::underpass::__private::FromCallError>::from_call_error(
                    __error,
                ),
            )
            .await
    }
    /// `flush` for async tasks, under any executor. The call is sent at the first poll; to drop the future abandons it. An implementation in this very process is called directly, and holds up the executor's thread.
    ///
    /// # Errors
    /// What the implementation returns, or what became of the call.
    #[allow(deprecated, clippy::redundant_closure, clippy::too_many_arguments)]
    pub async fn flush_async(&self) -> Result<(), FsError> {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return FileCache::flush(&*__local);
        }
        let __stub = &self.stub;
        __stub
            .call_async::<
                _,
                ::core::result::Result<
                    (),
                    <FsError as ::underpass::__private::wire::Carried>::Itself,
                >,
            >(
                1u16,
                &(),
                |__error| <FsError as ::underpass::__private::FromCallError>::from_call_error(
                    __error,
                ),
            )
            .await
    }
}
/// The server stub of [`FileCache`].
#[doc(hidden)]
struct __FileCacheDispatch<__T>(::std::sync::Arc<__T>);
#[automatically_derived]
#[allow(deprecated)]
impl<__T> ::underpass::__private::Dispatch for __FileCacheDispatch<__T>
where
    __T: FileCache + ::core::marker::Send + ::core::marker::Sync + 'static,
{
    fn dispatch(
        &self,
        __call: &mut ::underpass::__private::Incoming<'_>,
    ) -> ::core::result::Result<(), ::underpass::__private::Refused> {
        match __call.procedure() {
            0u16 => {
                let mut __argument0 = ::underpass::__private::wire::Received::new();
                __call
                    .argument::<
                        <FileId as ::underpass::__private::wire::Carried>::Itself,
                    >(&mut __argument0)?;
                let mut __argument1 = ::underpass::__private::wire::Received::new();
                __call.argument::<u64>(&mut __argument1)?;
                let mut __argument2 = ::underpass::__private::wire::Received::new();
                __call.argument::<u32>(&mut __argument2)?;
                __call.end()?;
                let __result: Result<Vec<u8>, FsError> = FileCache::read(
                    &*self.0,
                    __argument0.give(),
                    __argument1.give(),
                    __argument2.give(),
                );
                if __call
                    .reply::<
                        ::core::result::Result<
                            <Vec<u8> as ::underpass::__private::wire::Carried>::Itself,
                            <FsError as ::underpass::__private::wire::Carried>::Itself,
                        >,
                    >(&__result)?
                {
                    __call.drop_later(__result);
                }
                ::core::result::Result::Ok(())
            }
            1u16 => {
                __call.end()?;
                let __result: Result<(), FsError> = FileCache::flush(&*self.0);
                if __call
                    .reply::<
                        ::core::result::Result<
                            (),
                            <FsError as ::underpass::__private::wire::Carried>::Itself,
                        >,
                    >(&__result)?
                {
                    __call.drop_later(__result);
                }
                ::core::result::Result::Ok(())
            }
            _ => __call.unknown(),
        }
    }
}
