trait Provided: Send + Sync + std::fmt::Debug + 'static {
    fn provided(&self) -> Result<u8, Error> {
        Ok(7)
    }
    /// Makes a service of this implementation, which a `Server` can export.
    #[allow(dead_code)]
    fn serve(self) -> crate::mock::__private::Service
    where
        Self: ::core::marker::Sized + ::core::marker::Send + ::core::marker::Sync
            + 'static,
    {
        let __stub = ::std::sync::Arc::new(
            __ProvidedDispatch(::std::sync::Arc::new(self)),
        );
        crate::mock::__private::Service::new(ProvidedClient::descriptor(), __stub)
    }
    /// As `serve`, of an implementation that need not be `Sync`: at any moment one thread runs
    /// it. Others run where that one waits.
    #[allow(dead_code)]
    fn serve_exclusive(self) -> crate::mock::__private::Service
    where
        Self: ::core::marker::Sized + ::core::marker::Send + 'static,
    {
        Provided::serve(
            __ProvidedExclusive(crate::mock::__private::Exclusive::interleaving(self)),
        )
    }
    /// As `serve_exclusive`. Others run when a call has ended.
    #[allow(dead_code)]
    fn serve_sequential(self) -> crate::mock::__private::Service
    where
        Self: ::core::marker::Sized + ::core::marker::Send + 'static,
    {
        Provided::serve(
            __ProvidedExclusive(crate::mock::__private::Exclusive::sequential(self)),
        )
    }
}
/// The types of [`Provided`].
#[doc(hidden)]
enum __ProvidedTypes<const TYPE: ::core::primitive::usize> {}
#[automatically_derived]
#[allow(deprecated)]
impl crate::mock::__private::CarriedError for __ProvidedTypes<0> {
    type Itself = Error;
    #[inline]
    fn from_call_error(__error: crate::mock::__private::CallError) -> Self::Itself {
        crate::mock::__private::FromCallError::from_call_error(__error)
    }
}
/// The client stub of [`Provided`]: its implementation in another process.
#[derive(::core::clone::Clone, ::core::fmt::Debug)]
#[allow(dead_code)]
struct ProvidedClient {
    stub: crate::mock::__private::Stub<
        dyn Provided + ::core::marker::Send + ::core::marker::Sync,
    >,
}
#[automatically_derived]
#[allow(dead_code)]
impl ProvidedClient {
    /// Imports the interface that is exported as `name`. If this domain exports it itself,
    /// calls are direct. If `name` is an address, `https://host:port/name`, calls go to another
    /// machine, by the transport that was installed.
    ///
    /// # Errors
    /// There is no such name, or no permission, or it is another interface. Each variant
    /// names the remedy.
    fn import(
        name: &::core::primitive::str,
    ) -> ::core::result::Result<Self, crate::mock::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: crate::mock::__private::Stub::import(
                name,
                Self::descriptor(),
                ::core::option::Option::None,
            )?,
        })
    }
    /// Imports the interface that is exported as `name`, or that will be within `time`.
    ///
    /// This also waits for a name whose server is dead, because the server may be started
    /// again. Where nothing restarts servers, [`import`](Self::import) reports at once that
    /// the server is dead.
    ///
    /// # Errors
    /// As [`import`](Self::import), when the time is over.
    fn import_within(
        name: &::core::primitive::str,
        time: ::core::time::Duration,
    ) -> ::core::result::Result<Self, crate::mock::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: crate::mock::__private::Stub::import(
                name,
                Self::descriptor(),
                ::core::option::Option::Some(time),
            )?,
        })
    }
    /// Imports the interface from another machine, at an address of `transport`, such as
    /// `https://host:port/name`. Waits for its server for at most `time`.
    ///
    /// # Errors
    /// The server can't be reached, or does not let this client call, or has another interface.
    /// Or a method has what can't leave its machine, such as an open file: the error names it.
    fn import_by(
        transport: &dyn crate::mock::__private::RemoteTransport,
        address: &::core::primitive::str,
        time: ::core::time::Duration,
    ) -> ::core::result::Result<Self, crate::mock::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: crate::mock::__private::Stub::import_by(
                transport,
                address,
                Self::descriptor(),
                ::core::option::Option::Some(time),
            )?,
        })
    }
    /// As [`import_within`](Self::import_within), over a connection of its own. All other
    /// bindings between two processes share slots, memory, processors on loan, and an end
    /// if a side breaks the protocol. It costs a file, a region and the polls of a line.
    ///
    /// # Errors
    /// As [`import_within`](Self::import_within).
    fn import_apart(
        name: &::core::primitive::str,
        time: ::core::time::Duration,
    ) -> ::core::result::Result<Self, crate::mock::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: crate::mock::__private::Stub::import_apart(
                name,
                Self::descriptor(),
                time,
            )?,
        })
    }
    /// Imports the interface that is exported as `name`, and waits for it if necessary.
    /// Whenever the binding ends, it imports the interface again. A binding ends when its
    /// server ends, is replaced, or revokes the binding. Calls that were not started are
    /// repeated then, and so are calls of methods marked `#[idempotent]`. Each other call
    /// returns what is known of it.
    ///
    /// A server may have given this client ids or sessions that mean nothing to the next
    /// server, or something else. So after a restart calls fail with a restart error, until
    /// [`acknowledge_restart`](Self::acknowledge_restart) is called. This does not happen
    /// if the interface is `stateless`, or if the next server declares that it has the same
    /// state.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    fn import_resilient(
        name: &::core::primitive::str,
        policy: crate::mock::__private::Policy,
    ) -> ::core::result::Result<Self, crate::mock::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: crate::mock::__private::Stub::import_resilient(
                name,
                Self::descriptor(),
                policy,
            )?,
        })
    }
    /// As [`import_resilient`](Self::import_resilient). For each binding to a server
    /// without this client's state, `restore` is called. Its calls precede all others over
    /// that binding. If it returns `Ok`, the others continue as if there had been no
    /// restart. So everything that a server gave earlier must be valid again by then, under
    /// the same values. If it fails, the others get the restart error, with the reason.
    ///
    /// Calls wait for `restore` no longer than their deadlines and their patience. When no
    /// call waits any more, the calls of `restore` are abandoned, and the next call starts
    /// it again. It runs on a thread of its own. It must make its calls over the stub that
    /// it is given, because calls over this stub would wait for it.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    fn import_resilient_with(
        name: &::core::primitive::str,
        policy: crate::mock::__private::Policy,
        restore: impl ::core::ops::Fn(
            &Self,
        ) -> ::core::result::Result<
                (),
                ::std::boxed::Box<
                    dyn ::std::error::Error + ::core::marker::Send + ::core::marker::Sync,
                >,
            > + ::core::marker::Send + ::core::marker::Sync + 'static,
    ) -> ::core::result::Result<Self, crate::mock::__private::ImportError> {
        let restore = move |__stub| restore(&Self { stub: __stub });
        ::core::result::Result::Ok(Self {
            stub: crate::mock::__private::Stub::import_resilient_with(
                name,
                Self::descriptor(),
                policy,
                restore,
            )?,
        })
    }
    /// Imports the interface that another process passes on over `socket`, a connected Unix
    /// socket, by `share_with`, within `time`.
    ///
    /// # Errors
    /// As [`import`](Self::import). Nothing has come in time, or what has come does not
    /// give a binding any more.
    fn import_from(
        socket: impl ::std::os::fd::AsFd,
        time: ::core::time::Duration,
    ) -> ::core::result::Result<Self, crate::mock::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: crate::mock::__private::Stub::import_from(
                socket,
                Self::descriptor(),
                time,
            )?,
        })
    }
    /// Passes this binding on to the process at the other end of `socket`, a connected Unix
    /// socket, if the server allows it. That process takes it by `import_from` while this
    /// binding lasts. It is a client of its own from then on.
    ///
    /// # Errors
    /// The server does not allow it, or there is no room. Each variant names the remedy.
    fn share_with(
        &self,
        socket: impl ::std::os::fd::AsFd,
    ) -> ::core::result::Result<(), crate::mock::__private::ShareError> {
        self.stub.share_with(socket)
    }
    /// The same binding. Every call over this copy returns with a deadline error after
    /// `time`.
    #[must_use]
    fn with_deadline(&self, time: ::core::time::Duration) -> Self {
        Self {
            stub: self.stub.with_deadline(time),
        }
    }
    /// The same binding. A call over this copy donates its caller's processor to a server
    /// without one, even if other threads are ready.
    #[must_use]
    fn urgent(&self) -> Self {
        Self { stub: self.stub.urgent() }
    }
    /// Call this after calls failed with a restart error. It declares that this copy of the
    /// stub holds nothing any more that the previous server has given it, and lets it make
    /// calls again. Each copy needs its own call, also copies that `with_deadline` and
    /// similar methods have made. Copies made afterwards inherit it.
    fn acknowledge_restart(&self) {
        self.stub.acknowledge_restart();
    }
    /// The same binding. Callers over this copy are freed when `abandon` is used.
    #[must_use]
    fn abandonable(&self, abandon: &crate::mock::__private::Abandon) -> Self {
        Self {
            stub: self.stub.abandonable(abandon),
        }
    }
    /// How many calls that nobody waits for any more the server may hold before it loses
    /// the binding. Each channel has 64 slots; the default is 48 calls.
    fn quarantine(&self, most: ::core::primitive::u32) {
        self.stub.quarantine(most);
    }
    /// The same binding. `choice` says what a call over this copy does when as many calls
    /// are in progress as the interface expects.
    #[must_use]
    fn when_all_leased(&self, choice: crate::mock::__private::AllLeased) -> Self {
        Self {
            stub: self.stub.when_all_leased(choice),
        }
    }
    /// The same binding. Calls over this copy are counted and timed, method by method, among
    /// the metrics of this process, as those of an import of `name`. A binding within this
    /// domain stays as it is.
    #[must_use]
    fn measured(&self, name: &::core::primitive::str) -> Self {
        Self {
            stub: self.stub.measured(name, Self::descriptor()),
        }
    }
    /// The costs of this binding so far.
    fn counters(&self) -> crate::mock::__private::Counters {
        self.stub.counters()
    }
    /// The bytes of arguments and results, and the A-stacks that follow from them, for each
    /// procedure in the order of the trait.
    const SIZES: [crate::mock::__private::wire::Sizes; 1usize] = [
        crate::mock::__private::wire::Sizes::of::<
            crate::mock::__private::ResultOf<u8, __ProvidedTypes<0>>,
        >(&[], ::core::option::Option::None),
    ];
    /// Bytes of the interface's A-stacks: the largest that any of its procedures needs.
    const ASTACK: ::core::primitive::usize = crate::mock::__private::wire::Sizes::largest(
        &Self::SIZES,
    );
    /// The interface as both sides must know it.
    fn descriptor() -> &'static crate::mock::__private::wire::Descriptor {
        static __DESCRIPTOR: ::std::sync::LazyLock<
            crate::mock::__private::wire::Descriptor,
        > = ::std::sync::LazyLock::new(|| {
            crate::mock::__private::wire::Descriptor::of_versions(
                "Provided",
                "",
                ProvidedClient::__describe,
            )
        });
        &__DESCRIPTOR
    }
    fn __describe(__interface: &mut crate::mock::__private::wire::DescriptorBuilder) {
        __interface
            .procedure("provided", "", ProvidedClient::SIZES[0usize])
            .result::<crate::mock::__private::ResultOf<u8, __ProvidedTypes<0>>>();
    }
}
#[automatically_derived]
#[allow(deprecated)]
impl Provided for ProvidedClient {
    fn provided(&self) -> Result<u8, Error> {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return Provided::provided(&*__local);
        }
        self.stub.call::<_, u8, __ProvidedTypes<0>>(0u16, &())
    }
}
#[allow(dead_code)]
impl ProvidedClient {
    /// `provided` for async tasks, under any executor. The call is sent at the first poll; to drop the future abandons it. An implementation in this very process is called directly, and holds up the executor's thread.
    ///
    /// # Errors
    /// The result of the implementation, or the error of the call.
    #[allow(deprecated, clippy::too_many_arguments)]
    async fn provided_async(&self) -> Result<u8, Error> {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return Provided::provided(&*__local);
        }
        self.stub.call_async::<_, u8, __ProvidedTypes<0>>(0u16, &()).await
    }
}
#[allow(dead_code, clippy::implied_bounds_in_impls)]
impl ProvidedClient {
    /// A stub of this implementation, which calls it directly. It is a value: a method can
    /// return it or take it, and another domain then calls the implementation by its own
    /// stub. The implementation is dropped when nobody has a stub of it any more, here or
    /// there.
    fn new(
        __implementation: impl Provided + ::core::marker::Send + ::core::marker::Sync + 'static,
    ) -> Self {
        Self::of_service(Provided::serve(__implementation))
    }
    /// As [`new`](Self::new), of a service of the interface, such as an exclusive one. The
    /// options of the service don't matter.
    ///
    /// # Panics
    /// If the service is one of another interface.
    fn of_service(__service: crate::mock::__private::Service) -> Self {
        Self {
            stub: crate::mock::__private::Stub::of_service(
                &__service,
                Self::descriptor(),
            ),
        }
    }
}
#[automatically_derived]
impl crate::mock::__private::wire::Encode for ProvidedClient {
    const FIXED: ::core::option::Option<::core::primitive::usize> = ::core::option::Option::Some(
        0,
    );
    #[inline]
    fn size(&self) -> ::core::primitive::usize {
        0
    }
    #[inline]
    fn encode<__S: crate::mock::__private::wire::Sink + ?::core::marker::Sized>(
        &self,
        __to: &mut __S,
    ) {
        self.stub.put(__to);
    }
}
#[automatically_derived]
impl crate::mock::__private::wire::Decode for ProvidedClient {
    #[inline]
    fn decode<__S: crate::mock::__private::wire::Source + ?::core::marker::Sized>(
        __from: &mut __S,
    ) -> ::core::result::Result<Self, crate::mock::__private::wire::DecodeError> {
        ::core::result::Result::Ok(Self {
            stub: crate::mock::__private::Stub::take(__from, Self::descriptor())?,
        })
    }
}
#[automatically_derived]
impl crate::mock::__private::wire::Schema for ProvidedClient {
    type Itself = Self;
    fn schema(
        __types: &mut crate::mock::__private::wire::Types,
    ) -> crate::mock::__private::wire::TypeName {
        __types.interface(::core::any::type_name::<Self>(), "Provided", Self::__describe)
    }
}
/// The server stub of [`Provided`].
#[doc(hidden)]
struct __ProvidedDispatch<__T>(::std::sync::Arc<__T>);
#[automatically_derived]
#[allow(deprecated)]
impl<__T> __ProvidedDispatch<__T>
where
    __T: Provided + ::core::marker::Send + ::core::marker::Sync + 'static,
{
    #[inline(always)]
    fn run<'__a>(
        &self,
        __call: &mut impl crate::mock::__private::ProcedureCall<'__a>,
    ) -> ::core::result::Result<(), crate::mock::__private::Refused> {
        match __call.procedure() {
            0u16 => {
                __call.end()?;
                let __result = Provided::provided(&*self.0);
                if __call.reply::<u8, __ProvidedTypes<0>>(&__result)? {
                    __call.drop_later(__result);
                }
                ::core::result::Result::Ok(())
            }
            _ => __call.unknown(),
        }
    }
}
#[automatically_derived]
impl<__T> crate::mock::__private::Dispatch for __ProvidedDispatch<__T>
where
    __T: Provided + ::core::marker::Send + ::core::marker::Sync + 'static,
{
    fn dispatch(
        &self,
        __call: &mut crate::mock::__private::IncomingCall<'_>,
    ) -> ::core::result::Result<(), crate::mock::__private::Refused> {
        self.run(__call)
    }
    fn dispatch_detached(
        &self,
        __call: &mut crate::mock::__private::DetachedCall,
    ) -> ::core::result::Result<(), crate::mock::__private::Refused> {
        self.run(__call)
    }
    fn local(
        self: ::std::sync::Arc<Self>,
    ) -> ::core::option::Option<::std::boxed::Box<dyn ::core::any::Any>> {
        let __local: ::std::sync::Arc<
            dyn Provided + ::core::marker::Send + ::core::marker::Sync,
        > = ::std::sync::Arc::<__T>::clone(&self.0);
        ::core::option::Option::Some(::std::boxed::Box::new(__local))
    }
}
/// An implementation of [`Provided`] that one thread at a time uses.
#[doc(hidden)]
#[derive(::core::fmt::Debug)]
struct __ProvidedExclusive<__T>(crate::mock::__private::Exclusive<__T>);
#[automatically_derived]
#[allow(deprecated, clippy::redundant_closure)]
impl<__T> Provided for __ProvidedExclusive<__T>
where
    __T: Provided + ::core::marker::Send + 'static,
{
    fn provided(&self) -> Result<u8, Error> {
        let __service = &self.0;
        __service
            .run(
                |__inside| Provided::provided(__inside),
                |__error| <__ProvidedTypes<
                    0,
                > as crate::mock::__private::CarriedError>::from_call_error(__error),
            )
    }
}
