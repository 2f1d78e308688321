//! The methods of the client stub that are no procedures of the interface.

use crate::model::Interface;
use proc_macro2::TokenStream;
use quote::quote;

/// All of them.
pub(super) fn own_methods(interface: &Interface) -> TokenStream {
    [imports, import_by, import_apart, resilient_imports, passing_on, terms]
        .map(|methods| methods(interface))
        .into_iter()
        .collect()
}

/// The ways to import an interface by its name.
fn imports(interface: &Interface) -> TokenStream {
    let Interface { vis, private, .. } = interface;
    quote! {
        /// Imports the interface that is exported as `name`. If this domain exports it itself,
        /// calls are direct. If `name` is an address, `https://host:port/name`, calls go to another
        /// machine, by the transport that was installed.
        ///
        /// # Errors
        /// There is no such name, or no permission, or it is another interface. Each variant
        /// names the remedy.
        #vis fn import(name: &::core::primitive::str) -> ::core::result::Result<Self, #private::ImportError> {
            ::core::result::Result::Ok(Self {
                stub: #private::Stub::import(name, Self::descriptor(), ::core::option::Option::None)?,
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
        #vis fn import_within(
            name: &::core::primitive::str,
            time: ::core::time::Duration,
        ) -> ::core::result::Result<Self, #private::ImportError> {
            ::core::result::Result::Ok(Self {
                stub: #private::Stub::import(name, Self::descriptor(), ::core::option::Option::Some(time))?,
            })
        }
    }
}

/// The way to import an interface from another machine by a transport of one's choice.
fn import_by(interface: &Interface) -> TokenStream {
    let Interface { vis, private, .. } = interface;
    quote! {
        /// Imports the interface from another machine, at an address of `transport`, such as
        /// `https://host:port/name`. Waits for its server for at most `time`.
        ///
        /// # Errors
        /// The server can't be reached, or does not let this client call, or has another interface.
        /// Or a method has what can't leave its machine, such as an open file: the error names it.
        #vis fn import_by(
            transport: &dyn #private::RemoteTransport,
            address: &::core::primitive::str,
            time: ::core::time::Duration,
        ) -> ::core::result::Result<Self, #private::ImportError> {
            ::core::result::Result::Ok(Self {
                stub: #private::Stub::import_by(
                    transport,
                    address,
                    Self::descriptor(),
                    ::core::option::Option::Some(time),
                )?,
            })
        }
    }
}

/// The way to import an interface over a connection of its own.
fn import_apart(interface: &Interface) -> TokenStream {
    let Interface { vis, private, .. } = interface;
    quote! {
        /// As [`import_within`](Self::import_within), over a connection of its own. All other
        /// bindings between two processes share slots, memory, processors on loan, and an end
        /// if a side breaks the protocol. It costs a file, a region and the polls of a line.
        ///
        /// # Errors
        /// As [`import_within`](Self::import_within).
        #vis fn import_apart(
            name: &::core::primitive::str,
            time: ::core::time::Duration,
        ) -> ::core::result::Result<Self, #private::ImportError> {
            ::core::result::Result::Ok(Self {
                stub: #private::Stub::import_apart(name, Self::descriptor(), time)?,
            })
        }
    }
}

/// The ways to import an interface again after its binding has ended.
fn resilient_imports(interface: &Interface) -> TokenStream {
    let Interface { vis, private, .. } = interface;
    quote! {
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
        #vis fn import_resilient(
            name: &::core::primitive::str,
            policy: #private::Policy,
        ) -> ::core::result::Result<Self, #private::ImportError> {
            ::core::result::Result::Ok(Self {
                stub: #private::Stub::import_resilient(name, Self::descriptor(), policy)?,
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
        #vis fn import_resilient_with(
            name: &::core::primitive::str,
            policy: #private::Policy,
            restore: impl ::core::ops::Fn(&Self) -> ::core::result::Result<
                (),
                ::std::boxed::Box<dyn ::std::error::Error + ::core::marker::Send + ::core::marker::Sync>,
            > + ::core::marker::Send + ::core::marker::Sync + 'static,
        ) -> ::core::result::Result<Self, #private::ImportError> {
            let restore = move |__stub| restore(&Self { stub: __stub });
            ::core::result::Result::Ok(Self {
                stub: #private::Stub::import_resilient_with(name, Self::descriptor(), policy, restore)?,
            })
        }
    }
}

/// How a binding comes from another process, and goes to one.
fn passing_on(interface: &Interface) -> TokenStream {
    let Interface { vis, private, .. } = interface;
    quote! {
        /// Imports the interface that another process passes on over `socket`, a connected Unix
        /// socket, by `share_with`, within `time`.
        ///
        /// # Errors
        /// As [`import`](Self::import). Nothing has come in time, or what has come does not
        /// give a binding any more.
        #vis fn import_from(
            socket: impl ::std::os::fd::AsFd,
            time: ::core::time::Duration,
        ) -> ::core::result::Result<Self, #private::ImportError> {
            ::core::result::Result::Ok(Self {
                stub: #private::Stub::import_from(socket, Self::descriptor(), time)?,
            })
        }

        /// Passes this binding on to the process at the other end of `socket`, a connected Unix
        /// socket, if the server allows it. That process takes it by `import_from` while this
        /// binding lasts. It is a client of its own from then on.
        ///
        /// # Errors
        /// The server does not allow it, or there is no room. Each variant names the remedy.
        #vis fn share_with(
            &self,
            socket: impl ::std::os::fd::AsFd,
        ) -> ::core::result::Result<(), #private::ShareError> {
            self.stub.share_with(socket)
        }
    }
}

/// The terms of calls over a copy of the stub, and what they have cost.
fn terms(interface: &Interface) -> TokenStream {
    let Interface { vis, private, .. } = interface;
    quote! {
        /// The same binding. Every call over this copy returns with a deadline error after
        /// `time`.
        #[must_use]
        #vis fn with_deadline(&self, time: ::core::time::Duration) -> Self {
            Self { stub: self.stub.with_deadline(time) }
        }

        /// The same binding. A call over this copy donates its caller's processor to a server
        /// without one, even if other threads are ready.
        #[must_use]
        #vis fn urgent(&self) -> Self {
            Self { stub: self.stub.urgent() }
        }

        /// Call this after calls failed with a restart error. It declares that this copy of the
        /// stub holds nothing any more that the previous server has given it, and lets it make
        /// calls again. Each copy needs its own call, also copies that `with_deadline` and
        /// similar methods have made. Copies made afterwards inherit it.
        #vis fn acknowledge_restart(&self) {
            self.stub.acknowledge_restart();
        }

        /// The same binding. Callers over this copy are freed when `abandon` is used.
        #[must_use]
        #vis fn abandonable(&self, abandon: &#private::Abandon) -> Self {
            Self { stub: self.stub.abandonable(abandon) }
        }

        /// How many calls that nobody waits for any more the server may hold before it loses
        /// the binding. Each channel has 64 slots; the default is 48 calls.
        #vis fn quarantine(&self, most: ::core::primitive::u32) {
            self.stub.quarantine(most);
        }

        /// The same binding. `choice` says what a call over this copy does when as many calls
        /// are in progress as the interface expects.
        #[must_use]
        #vis fn when_all_leased(&self, choice: #private::AllLeased) -> Self {
            Self { stub: self.stub.when_all_leased(choice) }
        }

        /// The same binding. Calls over this copy are counted and timed, method by method, among
        /// the metrics of this process, as those of an import of `name`. A binding within this
        /// domain stays as it is.
        #[must_use]
        #vis fn measured(&self, name: &::core::primitive::str) -> Self {
            Self { stub: self.stub.measured(name, Self::descriptor()) }
        }

        /// The costs of this binding so far.
        #vis fn counters(&self) -> #private::Counters {
            self.stub.counters()
        }
    }
}
