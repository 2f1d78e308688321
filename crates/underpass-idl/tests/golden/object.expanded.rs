impl Book {
    /// The best price.
    pub fn best(&self) -> Option<u32> {
        None
    }
    pub fn depth(&self, side: Side, prices: &[u32]) -> u64 {
        0
    }
    fn sum(&self) -> u64 {
        0
    }
    /// Places an order.
    pub fn place(&mut self, order: Order) -> Result<u64, BookError> {
        Ok(0)
    }
    pub fn cancel(&mut self, id: u64, amount: u32) -> u64 {
        0
    }
    fn halt(&mut self) {}
}
#[doc(hidden)]
trait __BookCalls {
    fn __generation(
        &self,
    ) -> ::core::result::Result<
        ::core::primitive::u64,
        ::underpass::__private::CallError,
    >;
    fn depth(
        &self,
        side: Side,
        prices: &[u32],
    ) -> ::core::result::Result<u64, ::underpass::__private::CallError>;
    fn sum(&self) -> ::core::result::Result<u64, ::underpass::__private::CallError>;
    fn place(
        &self,
        order: Order,
    ) -> ::core::result::Result<
        Result<u64, BookError>,
        ::underpass::__private::CallError,
    >;
    /// Makes a service of this implementation, which a `Server` can export.
    #[allow(dead_code)]
    fn serve(self) -> ::underpass::__private::Service
    where
        Self: ::core::marker::Sized + ::core::marker::Send + ::core::marker::Sync
            + 'static,
    {
        let __stub = ::std::sync::Arc::new(
            ____BookCallsDispatch(::std::sync::Arc::new(self)),
        );
        ::underpass::__private::Service::new(__BookCallsClient::descriptor(), __stub)
    }
    /// As `serve`, of an implementation that need not be `Sync`: at any moment one thread runs
    /// it. Others run where that one waits.
    #[allow(dead_code)]
    fn serve_exclusive(self) -> ::underpass::__private::Service
    where
        Self: ::core::marker::Sized + ::core::marker::Send + 'static,
    {
        __BookCalls::serve(
            ____BookCallsExclusive(::underpass::__private::Exclusive::interleaving(self)),
        )
    }
    /// As `serve_exclusive`. Others run when a call has ended.
    #[allow(dead_code)]
    fn serve_sequential(self) -> ::underpass::__private::Service
    where
        Self: ::core::marker::Sized + ::core::marker::Send + 'static,
    {
        __BookCalls::serve(
            ____BookCallsExclusive(::underpass::__private::Exclusive::sequential(self)),
        )
    }
}
/// The types of [`__BookCalls`].
#[doc(hidden)]
enum ____BookCallsTypes<const TYPE: ::core::primitive::usize> {}
#[automatically_derived]
#[allow(deprecated)]
impl ::underpass::__private::wire::Carried for ____BookCallsTypes<0> {
    type Itself = ::core::primitive::u64;
}
#[automatically_derived]
#[allow(deprecated)]
impl ::underpass::__private::CarriedError for ____BookCallsTypes<1> {
    type Itself = ::underpass::__private::CallError;
    #[inline]
    fn from_call_error(__error: ::underpass::__private::CallError) -> Self::Itself {
        ::underpass::__private::FromCallError::from_call_error(__error)
    }
}
#[automatically_derived]
#[allow(deprecated)]
impl ::underpass::__private::wire::Carried for ____BookCallsTypes<2> {
    type Itself = Side;
}
#[automatically_derived]
#[allow(deprecated)]
impl ::underpass::__private::wire::Carried for ____BookCallsTypes<3> {
    type Itself = Order;
}
#[automatically_derived]
#[allow(deprecated)]
impl ::underpass::__private::wire::Carried for ____BookCallsTypes<4> {
    type Itself = Result<u64, BookError>;
}
/// The client stub of [`__BookCalls`]: its implementation in another process.
#[derive(::core::clone::Clone, ::core::fmt::Debug)]
#[allow(dead_code)]
struct __BookCallsClient {
    stub: ::underpass::__private::Stub<
        dyn __BookCalls + ::core::marker::Send + ::core::marker::Sync,
    >,
}
#[automatically_derived]
#[allow(dead_code)]
impl __BookCallsClient {
    /// Imports the interface that is exported as `name`. If this domain exports it itself,
    /// calls are direct. If `name` is an address, `https://host:port/name`, calls go to another
    /// machine, by the transport that was installed.
    ///
    /// # Errors
    /// There is no such name, or no permission, or it is another interface. Each variant
    /// names the remedy.
    fn import(
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
    ) -> ::core::result::Result<Self, ::underpass::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: ::underpass::__private::Stub::import(
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
        transport: &dyn ::underpass::__private::RemoteTransport,
        address: &::core::primitive::str,
        time: ::core::time::Duration,
    ) -> ::core::result::Result<Self, ::underpass::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: ::underpass::__private::Stub::import_by(
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
    ) -> ::core::result::Result<Self, ::underpass::__private::ImportError> {
        ::core::result::Result::Ok(Self {
            stub: ::underpass::__private::Stub::import_apart(
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
    /// socket, by `share_with`, within `time`.
    ///
    /// # Errors
    /// As [`import`](Self::import). Nothing has come in time, or what has come does not
    /// give a binding any more.
    fn import_from(
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
    /// socket, if the server allows it. That process takes it by `import_from` while this
    /// binding lasts. It is a client of its own from then on.
    ///
    /// # Errors
    /// The server does not allow it, or there is no room. Each variant names the remedy.
    fn share_with(
        &self,
        socket: impl ::std::os::fd::AsFd,
    ) -> ::core::result::Result<(), ::underpass::__private::ShareError> {
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
    fn abandonable(&self, abandon: &::underpass::__private::Abandon) -> Self {
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
    fn when_all_leased(&self, choice: ::underpass::__private::AllLeased) -> Self {
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
    fn counters(&self) -> ::underpass::__private::Counters {
        self.stub.counters()
    }
    /// The bytes of arguments and results, and the A-stacks that follow from them, for each
    /// procedure in the order of the trait.
    const SIZES: [::underpass::__private::wire::Sizes; 4usize] = [
        ::underpass::__private::wire::Sizes::of::<
            ::underpass::__private::ResultOf<
                ____BookCallsTypes<0>,
                ____BookCallsTypes<1>,
            >,
        >(&[], ::core::option::Option::None),
        ::underpass::__private::wire::Sizes::of::<
            ::underpass::__private::ResultOf<u64, ____BookCallsTypes<1>>,
        >(
            &[
                ::underpass::__private::wire::carried::fixed::<
                    ____BookCallsTypes<2>,
                    (),
                >(),
                ::underpass::__private::wire::carried::fixed::<
                    ::underpass::__private::wire::ListOf<u32>,
                    (),
                >(),
            ],
            ::core::option::Option::None,
        ),
        ::underpass::__private::wire::Sizes::of::<
            ::underpass::__private::ResultOf<u64, ____BookCallsTypes<1>>,
        >(&[], ::core::option::Option::None),
        ::underpass::__private::wire::Sizes::of::<
            ::underpass::__private::ResultOf<
                ____BookCallsTypes<4>,
                ____BookCallsTypes<1>,
            >,
        >(
            &[
                ::underpass::__private::wire::carried::fixed::<
                    ____BookCallsTypes<3>,
                    (),
                >(),
            ],
            ::core::option::Option::None,
        ),
    ];
    /// Bytes of the interface's A-stacks: the largest that any of its procedures needs.
    const ASTACK: ::core::primitive::usize = ::underpass::__private::wire::Sizes::largest(
        &Self::SIZES,
    );
    /// The interface as both sides must know it.
    fn descriptor() -> &'static ::underpass::__private::wire::Descriptor {
        static __DESCRIPTOR: ::std::sync::LazyLock<
            ::underpass::__private::wire::Descriptor,
        > = ::std::sync::LazyLock::new(|| {
            ::underpass::__private::wire::Descriptor::of_versions(
                "__BookCalls",
                "",
                __BookCallsClient::__describe,
            )
        });
        &__DESCRIPTOR
    }
    fn __describe(__interface: &mut ::underpass::__private::wire::DescriptorBuilder) {
        __interface
            .procedure("__generation", "", __BookCallsClient::SIZES[0usize])
            .result::<
                ::underpass::__private::ResultOf<
                    ____BookCallsTypes<0>,
                    ____BookCallsTypes<1>,
                >,
            >();
        __interface
            .procedure("depth", "", __BookCallsClient::SIZES[1usize])
            .argument::<____BookCallsTypes<2>>("side")
            .argument::<::underpass::__private::wire::ListOf<u32>>("prices")
            .result::<::underpass::__private::ResultOf<u64, ____BookCallsTypes<1>>>();
        __interface
            .procedure("sum", "", __BookCallsClient::SIZES[2usize])
            .result::<::underpass::__private::ResultOf<u64, ____BookCallsTypes<1>>>();
        __interface
            .procedure("place", "", __BookCallsClient::SIZES[3usize])
            .argument::<____BookCallsTypes<3>>("order")
            .result::<
                ::underpass::__private::ResultOf<
                    ____BookCallsTypes<4>,
                    ____BookCallsTypes<1>,
                >,
            >();
    }
}
#[automatically_derived]
#[allow(deprecated)]
impl __BookCalls for __BookCallsClient {
    fn __generation(
        &self,
    ) -> ::core::result::Result<
        ::core::primitive::u64,
        ::underpass::__private::CallError,
    > {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return __BookCalls::__generation(&*__local);
        }
        self.stub.call::<_, ____BookCallsTypes<0>, ____BookCallsTypes<1>>(0u16, &())
    }
    fn depth(
        &self,
        side: Side,
        prices: &[u32],
    ) -> ::core::result::Result<u64, ::underpass::__private::CallError> {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return __BookCalls::depth(&*__local, side, prices);
        }
        self.stub
            .call::<
                _,
                u64,
                ____BookCallsTypes<1>,
            >(
                1u16,
                &(
                    ::underpass::__private::wire::RefTo::<____BookCallsTypes<2>>(&side),
                    prices,
                ),
            )
    }
    fn sum(&self) -> ::core::result::Result<u64, ::underpass::__private::CallError> {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return __BookCalls::sum(&*__local);
        }
        self.stub.call::<_, u64, ____BookCallsTypes<1>>(2u16, &())
    }
    fn place(
        &self,
        order: Order,
    ) -> ::core::result::Result<
        Result<u64, BookError>,
        ::underpass::__private::CallError,
    > {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return __BookCalls::place(&*__local, order);
        }
        self.stub
            .call::<
                _,
                ____BookCallsTypes<4>,
                ____BookCallsTypes<1>,
            >(
                3u16,
                &(::underpass::__private::wire::RefTo::<____BookCallsTypes<3>>(&order),),
            )
    }
}
#[allow(dead_code)]
impl __BookCallsClient {
    /// `__generation` for async tasks, under any executor. The call is sent at the first poll; to drop the future abandons it. An implementation in this very process is called directly, and holds up the executor's thread.
    ///
    /// # Errors
    /// The result of the implementation, or the error of the call.
    #[allow(deprecated, clippy::too_many_arguments)]
    async fn __generation_async(
        &self,
    ) -> ::core::result::Result<
        ::core::primitive::u64,
        ::underpass::__private::CallError,
    > {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return __BookCalls::__generation(&*__local);
        }
        self.stub
            .call_async::<_, ____BookCallsTypes<0>, ____BookCallsTypes<1>>(0u16, &())
            .await
    }
    /// `depth` for async tasks, under any executor. The call is sent at the first poll; to drop the future abandons it. An implementation in this very process is called directly, and holds up the executor's thread.
    ///
    /// # Errors
    /// The result of the implementation, or the error of the call.
    #[allow(deprecated, clippy::too_many_arguments)]
    async fn depth_async(
        &self,
        side: Side,
        prices: &[u32],
    ) -> ::core::result::Result<u64, ::underpass::__private::CallError> {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return __BookCalls::depth(&*__local, side, prices);
        }
        self.stub
            .call_async::<
                _,
                u64,
                ____BookCallsTypes<1>,
            >(
                1u16,
                &(
                    ::underpass::__private::wire::RefTo::<____BookCallsTypes<2>>(&side),
                    prices,
                ),
            )
            .await
    }
    /// `sum` for async tasks, under any executor. The call is sent at the first poll; to drop the future abandons it. An implementation in this very process is called directly, and holds up the executor's thread.
    ///
    /// # Errors
    /// The result of the implementation, or the error of the call.
    #[allow(deprecated, clippy::too_many_arguments)]
    async fn sum_async(
        &self,
    ) -> ::core::result::Result<u64, ::underpass::__private::CallError> {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return __BookCalls::sum(&*__local);
        }
        self.stub.call_async::<_, u64, ____BookCallsTypes<1>>(2u16, &()).await
    }
    /// `place` for async tasks, under any executor. The call is sent at the first poll; to drop the future abandons it. An implementation in this very process is called directly, and holds up the executor's thread.
    ///
    /// # Errors
    /// The result of the implementation, or the error of the call.
    #[allow(deprecated, clippy::too_many_arguments)]
    async fn place_async(
        &self,
        order: Order,
    ) -> ::core::result::Result<
        Result<u64, BookError>,
        ::underpass::__private::CallError,
    > {
        if let ::core::option::Option::Some(__local) = self.stub.local() {
            return __BookCalls::place(&*__local, order);
        }
        self.stub
            .call_async::<
                _,
                ____BookCallsTypes<4>,
                ____BookCallsTypes<1>,
            >(
                3u16,
                &(::underpass::__private::wire::RefTo::<____BookCallsTypes<3>>(&order),),
            )
            .await
    }
}
#[allow(dead_code, clippy::implied_bounds_in_impls)]
impl __BookCallsClient {
    /// A stub of this implementation, which calls it directly. It is a value: a method can
    /// return it or take it, and another domain then calls the implementation by its own
    /// stub. The implementation is dropped when nobody has a stub of it any more, here or
    /// there.
    fn new(
        __implementation: impl __BookCalls + ::core::marker::Send + ::core::marker::Sync + 'static,
    ) -> Self {
        Self::of_service(__BookCalls::serve(__implementation))
    }
    /// As [`new`](Self::new), of a service of the interface, such as an exclusive one. The
    /// options of the service don't matter.
    ///
    /// # Panics
    /// If the service is one of another interface.
    fn of_service(__service: ::underpass::__private::Service) -> Self {
        Self {
            stub: ::underpass::__private::Stub::of_service(
                &__service,
                Self::descriptor(),
            ),
        }
    }
}
#[automatically_derived]
impl ::underpass::__private::wire::Encode for __BookCallsClient {
    const FIXED: ::core::option::Option<::core::primitive::usize> = ::core::option::Option::Some(
        0,
    );
    #[inline]
    fn size(&self) -> ::core::primitive::usize {
        0
    }
    #[inline]
    fn encode<__S: ::underpass::__private::wire::Sink + ?::core::marker::Sized>(
        &self,
        __to: &mut __S,
    ) {
        self.stub.put(__to);
    }
}
#[automatically_derived]
impl ::underpass::__private::wire::Decode for __BookCallsClient {
    #[inline]
    fn decode<__S: ::underpass::__private::wire::Source + ?::core::marker::Sized>(
        __from: &mut __S,
    ) -> ::core::result::Result<Self, ::underpass::__private::wire::DecodeError> {
        ::core::result::Result::Ok(Self {
            stub: ::underpass::__private::Stub::take(__from, Self::descriptor())?,
        })
    }
}
#[automatically_derived]
impl ::underpass::__private::wire::Schema for __BookCallsClient {
    type Itself = Self;
    fn schema(
        __types: &mut ::underpass::__private::wire::Types,
    ) -> ::underpass::__private::wire::TypeName {
        __types
            .interface(::core::any::type_name::<Self>(), "__BookCalls", Self::__describe)
    }
}
/// The server stub of [`__BookCalls`].
#[doc(hidden)]
struct ____BookCallsDispatch<__T>(::std::sync::Arc<__T>);
#[automatically_derived]
#[allow(deprecated)]
impl<__T> ____BookCallsDispatch<__T>
where
    __T: __BookCalls + ::core::marker::Send + ::core::marker::Sync + 'static,
{
    #[inline(always)]
    fn run<'__a>(
        &self,
        __call: &mut impl ::underpass::__private::ProcedureCall<'__a>,
    ) -> ::core::result::Result<(), ::underpass::__private::Refused> {
        match __call.procedure() {
            0u16 => {
                __call.end()?;
                let __result = __BookCalls::__generation(&*self.0);
                if __call
                    .reply::<____BookCallsTypes<0>, ____BookCallsTypes<1>>(&__result)?
                {
                    __call.drop_later(__result);
                }
                ::core::result::Result::Ok(())
            }
            1u16 => {
                let mut __argument0 = ::underpass::__private::wire::ArgumentPlace::new();
                __call.argument::<____BookCallsTypes<2>>(&mut __argument0)?;
                let mut __argument1 = ::underpass::__private::wire::ArgumentPlace::new();
                __call
                    .argument::<
                        ::underpass::__private::wire::ListOf<u32>,
                    >(&mut __argument1)?;
                __call.end()?;
                let __result = __BookCalls::depth(
                    &*self.0,
                    __argument0.give(),
                    __argument1.lend(),
                );
                if __call.reply::<u64, ____BookCallsTypes<1>>(&__result)? {
                    __call.drop_later(__result);
                }
                ::core::result::Result::Ok(())
            }
            2u16 => {
                __call.end()?;
                let __result = __BookCalls::sum(&*self.0);
                if __call.reply::<u64, ____BookCallsTypes<1>>(&__result)? {
                    __call.drop_later(__result);
                }
                ::core::result::Result::Ok(())
            }
            3u16 => {
                let mut __argument0 = ::underpass::__private::wire::ArgumentPlace::new();
                __call.argument::<____BookCallsTypes<3>>(&mut __argument0)?;
                __call.end()?;
                let __result = __BookCalls::place(&*self.0, __argument0.give());
                if __call
                    .reply::<____BookCallsTypes<4>, ____BookCallsTypes<1>>(&__result)?
                {
                    __call.drop_later(__result);
                }
                ::core::result::Result::Ok(())
            }
            _ => __call.unknown(),
        }
    }
}
#[automatically_derived]
impl<__T> ::underpass::__private::Dispatch for ____BookCallsDispatch<__T>
where
    __T: __BookCalls + ::core::marker::Send + ::core::marker::Sync + 'static,
{
    fn dispatch(
        &self,
        __call: &mut ::underpass::__private::IncomingCall<'_>,
    ) -> ::core::result::Result<(), ::underpass::__private::Refused> {
        self.run(__call)
    }
    fn dispatch_detached(
        &self,
        __call: &mut ::underpass::__private::DetachedCall,
    ) -> ::core::result::Result<(), ::underpass::__private::Refused> {
        self.run(__call)
    }
    fn local(
        self: ::std::sync::Arc<Self>,
    ) -> ::core::option::Option<::std::boxed::Box<dyn ::core::any::Any>> {
        let __local: ::std::sync::Arc<
            dyn __BookCalls + ::core::marker::Send + ::core::marker::Sync,
        > = ::std::sync::Arc::<__T>::clone(&self.0);
        ::core::option::Option::Some(::std::boxed::Box::new(__local))
    }
}
/// An implementation of [`__BookCalls`] that one thread at a time uses.
#[doc(hidden)]
#[derive(::core::fmt::Debug)]
struct ____BookCallsExclusive<__T>(::underpass::__private::Exclusive<__T>);
#[automatically_derived]
#[allow(deprecated, clippy::redundant_closure)]
impl<__T> __BookCalls for ____BookCallsExclusive<__T>
where
    __T: __BookCalls + ::core::marker::Send + 'static,
{
    fn __generation(
        &self,
    ) -> ::core::result::Result<
        ::core::primitive::u64,
        ::underpass::__private::CallError,
    > {
        let __service = &self.0;
        __service
            .run(
                |__inside| __BookCalls::__generation(__inside),
                |__error| <____BookCallsTypes<
                    1,
                > as ::underpass::__private::CarriedError>::from_call_error(__error),
            )
    }
    fn depth(
        &self,
        side: Side,
        prices: &[u32],
    ) -> ::core::result::Result<u64, ::underpass::__private::CallError> {
        let __service = &self.0;
        __service
            .run(
                |__inside| __BookCalls::depth(__inside, side, prices),
                |__error| <____BookCallsTypes<
                    1,
                > as ::underpass::__private::CarriedError>::from_call_error(__error),
            )
    }
    fn sum(&self) -> ::core::result::Result<u64, ::underpass::__private::CallError> {
        let __service = &self.0;
        __service
            .run(
                |__inside| __BookCalls::sum(__inside),
                |__error| <____BookCallsTypes<
                    1,
                > as ::underpass::__private::CarriedError>::from_call_error(__error),
            )
    }
    fn place(
        &self,
        order: Order,
    ) -> ::core::result::Result<
        Result<u64, BookError>,
        ::underpass::__private::CallError,
    > {
        let __service = &self.0;
        __service
            .run(
                |__inside| __BookCalls::place(__inside, order),
                |__error| <____BookCallsTypes<
                    1,
                > as ::underpass::__private::CarriedError>::from_call_error(__error),
            )
    }
}
/// The home of a [`Book`]: the one domain that changes it.
#[allow(dead_code)]
pub type BookHome = ::underpass::__private::homed::OperatedHome<Book>;
struct __BookAtHome(::underpass::__private::homed::OperatedHome<Book>);
#[automatically_derived]
impl __BookCalls for __BookAtHome {
    fn __generation(
        &self,
    ) -> ::core::result::Result<
        ::core::primitive::u64,
        ::underpass::__private::CallError,
    > {
        ::core::result::Result::Ok(self.0.generation())
    }
    fn depth(
        &self,
        side: Side,
        prices: &[u32],
    ) -> ::core::result::Result<u64, ::underpass::__private::CallError> {
        self.0.read(move |__object| <Book>::depth(__object, side, prices))
    }
    fn sum(&self) -> ::core::result::Result<u64, ::underpass::__private::CallError> {
        self.0.read(move |__object| <Book>::sum(__object))
    }
    fn place(
        &self,
        order: Order,
    ) -> ::core::result::Result<
        Result<u64, BookError>,
        ::underpass::__private::CallError,
    > {
        self.0.change(move |__object| <Book>::place(__object, order))
    }
}
struct __BookInterrupts;
#[allow(non_upper_case_globals, dead_code)]
impl __BookInterrupts {
    const cancel: ::core::primitive::u64 = {
        use ::underpass::__private::shared as __shared;
        let shape = __shared::shape_of("cancel");
        let shape = __shared::mix(shape, <u64 as __shared::Shareable>::SHAPE);
        let shape = __shared::mix(shape, <u32 as __shared::Shareable>::SHAPE);
        let shape = __shared::mix(shape, <u64 as __shared::Shareable>::SHAPE);
        shape
    };
    const halt: ::core::primitive::u64 = {
        use ::underpass::__private::shared as __shared;
        let shape = __shared::shape_of("halt");
        shape
    };
}
#[automatically_derived]
impl ::underpass::__private::homed::HomeOperations for Book {
    const EITHER: &'static [(
        &'static ::core::primitive::str,
        ::core::option::Option<::underpass::__private::homed::ChosenWay>,
    )] = &[
        ("depth", ::core::option::Option::None),
        (
            "sum",
            ::core::option::Option::Some(
                ::underpass::__private::homed::ChosenWay::Invoke,
            ),
        ),
    ];
    const INTERRUPTS: ::core::primitive::bool = true;
    fn calls(
        __home: ::underpass::__private::homed::OperatedHome<Self>,
    ) -> ::underpass::__private::Service {
        __BookCalls::serve(__BookAtHome(__home))
    }
    #[allow(unused_variables)]
    fn handlers(
        __object: &::underpass::__private::homed::ObjectHome<Self>,
        __handlers: ::underpass::__private::homed::invoke::InvocationHandlers,
    ) -> ::underpass::__private::homed::invoke::InvocationHandlers {
        let __handlers = {
            let __object = ::core::clone::Clone::clone(__object);
            __handlers
                .on(
                    __BookInterrupts::cancel,
                    move |__words: [::core::primitive::u64; 6]| {
                        #[allow(unused_mut, unused_variables)]
                        let mut __operands = ::underpass::__private::homed::OperandReader::of(
                            __words,
                        );
                        let ::core::option::Option::Some(id) = __operands.take::<u64>()
                        else { return [0; 6] };
                        let ::core::option::Option::Some(amount) = __operands
                            .take::<u32>() else { return [0; 6] };
                        let mut __result = ::core::option::Option::None;
                        let _ = __object
                            .update(|__there| {
                                __result = ::core::option::Option::Some(
                                    <Book>::cancel(__there, id, amount),
                                );
                            });
                        match __result {
                            ::core::option::Option::Some(__result) => {
                                ::underpass::__private::homed::OperandWriter::new()
                                    .put(&__result)
                                    .words()
                            }
                            ::core::option::Option::None => [0; 6],
                        }
                    },
                )
        };
        let __handlers = {
            let __object = ::core::clone::Clone::clone(__object);
            __handlers
                .on(
                    __BookInterrupts::halt,
                    move |__words: [::core::primitive::u64; 6]| {
                        #[allow(unused_mut, unused_variables)]
                        let mut __operands = ::underpass::__private::homed::OperandReader::of(
                            __words,
                        );
                        let mut __result = ::core::option::Option::None;
                        let _ = __object
                            .update(|__there| {
                                __result = ::core::option::Option::Some(
                                    <Book>::halt(__there),
                                );
                            });
                        match __result {
                            ::core::option::Option::Some(()) => [0; 6],
                            ::core::option::Option::None => [0; 6],
                        }
                    },
                )
        };
        __handlers
    }
}
/// A [`Book`] whose home is another domain, or this one. Clones are the same object.
#[derive(::core::clone::Clone, ::core::fmt::Debug)]
#[allow(dead_code)]
pub struct BookClient {
    name: ::std::sync::Arc<::core::primitive::str>,
    bound: ::underpass::__private::homed::BoundObject<Book>,
    calls: __BookCallsClient,
    /// It gives up, as what it calls can run here as well.
    patient: __BookCallsClient,
}
#[automatically_derived]
#[allow(dead_code)]
impl BookClient {
    /// Imports the object that is exported as `name`, and measures what its lines and its
    /// home's answers take, if that decides about an operation.
    ///
    /// # Errors
    /// Each variant names the remedy.
    pub fn import(
        name: &::core::primitive::str,
    ) -> ::core::result::Result<Self, ::underpass::__private::homed::ObjectBindError> {
        Self::__import(name, ::core::option::Option::None)
    }
    /// As [`import`](Self::import), but waits up to `patience` for the home.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    pub fn import_within(
        name: &::core::primitive::str,
        patience: ::core::time::Duration,
    ) -> ::core::result::Result<Self, ::underpass::__private::homed::ObjectBindError> {
        Self::__import(name, ::core::option::Option::Some(patience))
    }
    /// Imports the object again if its home has died, and waits up to `patience` for a new
    /// home. Other clones keep the object that they have. If it fails, so does this one.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    pub fn renew_within(
        &mut self,
        patience: ::core::time::Duration,
    ) -> ::core::result::Result<(), ::underpass::__private::homed::ObjectBindError> {
        if self.bound.is_over() {
            let new = Self::import_within(&self.name, patience)?;
            let new = new.fixed(self.bound.is_fixed());
            *self = match self.bound.deadline() {
                ::core::option::Option::Some(within) => new.with_deadline(within),
                ::core::option::Option::None => new,
            };
        }
        ::core::result::Result::Ok(())
    }
    fn __import(
        name: &::core::primitive::str,
        patience: ::core::option::Option<::core::time::Duration>,
    ) -> ::core::result::Result<Self, ::underpass::__private::homed::ObjectBindError> {
        let (bound, calls) = ::underpass::__private::homed::BoundObject::import(
            name,
            patience,
            |calls| match patience {
                ::core::option::Option::Some(patience) => {
                    __BookCallsClient::import_within(calls, patience)
                }
                ::core::option::Option::None => __BookCallsClient::import(calls),
            },
            |calls: &__BookCallsClient, within| __BookCalls::__generation(
                &calls.with_deadline(within),
            ),
        )?;
        let patient = calls.with_deadline(bound.patience());
        ::core::result::Result::Ok(Self {
            name: ::core::convert::Into::into(name),
            bound,
            calls,
            patient,
        })
    }
    /// The object itself.
    pub fn object(&self) -> &::underpass::__private::homed::HomedObject<Book> {
        self.bound.object()
    }
    /// Copies the newest version, or the last one of a home that has died.
    ///
    /// # Errors
    /// Each variant names the remedy.
    pub fn access(
        &self,
    ) -> ::core::result::Result<
        ::underpass::__private::homed::ObjectVersion<Book>,
        ::underpass::__private::homed::HomedError<Book>,
    > {
        self.bound.access()
    }
    /// Whether the home has died or has ended the object.
    pub fn is_over(&self) -> ::core::primitive::bool {
        self.bound.is_over()
    }
    /// How each `#[either]` operation runs at present, why, and by which figures.
    pub fn explain(
        &self,
    ) -> ::std::vec::Vec<::underpass::__private::homed::Explanation> {
        self.bound.explain()
    }
    /// The same object. Its `#[either]` operations run as `way` says, and by cost if it is
    /// `None`.
    #[must_use]
    pub fn fixed(
        &self,
        way: impl ::core::convert::Into<
            ::core::option::Option<::underpass::__private::homed::ChosenWay>,
        >,
    ) -> Self {
        Self {
            bound: self.bound.fixed(way.into()),
            ..::core::clone::Clone::clone(self)
        }
    }
    /// The same object. Its operations at home end with a deadline error after `within`.
    #[must_use]
    pub fn with_deadline(&self, within: ::core::time::Duration) -> Self {
        let bound = self.bound.with_deadline(within);
        let patient = self.calls.with_deadline(bound.patience());
        let name = ::core::clone::Clone::clone(&self.name);
        Self {
            name,
            calls: self.calls.with_deadline(within),
            patient,
            bound,
        }
    }
}
#[allow(dead_code, clippy::too_many_arguments)]
impl BookClient {
    /// The best price.
    ///
    /// Runs here, on a copy of the newest version.
    ///
    /// # Errors
    /// The operation has no result. Each variant names the remedy.
    pub fn best(
        &self,
    ) -> ::core::result::Result<
        Option<u32>,
        ::underpass::__private::homed::OperationError,
    > {
        self.bound.read(|__object| <Book>::best(__object))
    }
    /// Runs here or at the object's home: see `explain`.
    ///
    /// # Errors
    /// The operation has no result. Each variant names the remedy.
    pub fn depth(
        &self,
        side: Side,
        prices: &[u32],
    ) -> ::core::result::Result<u64, ::underpass::__private::homed::OperationError> {
        let mut __plan = self.bound.plan(0usize);
        if __plan.invokes() {
            let __called = __BookCalls::depth(
                __plan.stub(&self.calls, &self.patient),
                ::core::clone::Clone::clone(&side),
                ::core::clone::Clone::clone(&prices),
            );
            __plan = match __plan.invoked(__called) {
                ::core::result::Result::Ok(__result) => return __result,
                ::core::result::Result::Err(__plan) => __plan,
            };
        }
        __plan.accessed(|__object| <Book>::depth(__object, side, prices))
    }
    /// Runs here or at the object's home: see `explain`.
    ///
    /// # Errors
    /// The operation has no result. Each variant names the remedy.
    fn sum(
        &self,
    ) -> ::core::result::Result<u64, ::underpass::__private::homed::OperationError> {
        let mut __plan = self.bound.plan(1usize);
        if __plan.invokes() {
            let __called = __BookCalls::sum(__plan.stub(&self.calls, &self.patient));
            __plan = match __plan.invoked(__called) {
                ::core::result::Result::Ok(__result) => return __result,
                ::core::result::Result::Err(__plan) => __plan,
            };
        }
        __plan.accessed(|__object| <Book>::sum(__object))
    }
    /// Places an order.
    ///
    /// Runs at the object's home.
    ///
    /// # Errors
    /// The operation has no result. Each variant names the remedy.
    pub fn place(
        &self,
        order: Order,
    ) -> ::core::result::Result<
        Result<u64, BookError>,
        ::underpass::__private::homed::OperationError,
    > {
        __BookCalls::place(&self.calls, order).map_err(::core::convert::Into::into)
    }
    /// Runs at the object's home, between two of its threads.
    ///
    /// # Errors
    /// The operation has no result. Each variant names the remedy.
    pub fn cancel(
        &self,
        id: u64,
        amount: u32,
    ) -> ::core::result::Result<u64, ::underpass::__private::homed::OperationError> {
        #[allow(clippy::assertions_on_constants)]
        const _: () = {
            ::core::assert!(
                ::core::mem::size_of:: < u64 > () + ::core::mem::size_of:: < u32 > () <=
                48,
                "the arguments of `cancel` take more than the 48 bytes that an operation at interrupt level has: pass less, or write `#[invoke]`"
            )
        };
        #[allow(clippy::assertions_on_constants)]
        const _: () = {
            ::core::assert!(
                ::core::mem::size_of:: < u64 > () <= 48,
                "the results of `cancel` take more than the 48 bytes that an operation at interrupt level has: pass less, or write `#[invoke]`"
            )
        };
        let __words = ::underpass::__private::homed::OperandWriter::new()
            .put(&id)
            .put(&amount)
            .words();
        let __words = self.bound.interrupt(__BookInterrupts::cancel, __words)?;
        ::underpass::__private::homed::OperandReader::of(__words)
            .take::<u64>()
            .ok_or(::underpass::__private::homed::OperationError::Invalid)
    }
    /// Runs at the object's home, between two of its threads.
    ///
    /// # Errors
    /// The operation has no result. Each variant names the remedy.
    fn halt(
        &self,
    ) -> ::core::result::Result<(), ::underpass::__private::homed::OperationError> {
        #[allow(clippy::assertions_on_constants)]
        const _: () = {};
        let __words = ::underpass::__private::homed::OperandWriter::new().words();
        let __words = self.bound.interrupt(__BookInterrupts::halt, __words)?;
        let _ = __words;
        ::core::result::Result::Ok(())
    }
}
