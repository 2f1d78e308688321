//! The client stub.

use super::descriptor;
use crate::model::{Interface, Method};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

/// Parts of a tuple that can travel.
const WIDEST: usize = 12;

/// The stub, its own methods, and its implementation of the trait.
pub(super) fn client(interface: &Interface) -> TokenStream {
    let Interface { vis, ident, private, docs, methods, .. } = interface;
    let client = interface.client();
    let tasks = methods.iter().map(|method| for_tasks(interface, method));
    let methods = methods.iter().map(|method| procedure(interface, method));
    let descriptor = descriptor::descriptor(interface);
    let first =
        format!(" The client stub of [`{}`]: its implementation in another process.", interface.name());
    let separator = (!docs.is_empty()).then(|| quote!(#[doc = ""]));
    quote! {
        #[doc = #first]
        #separator
        #(#docs)*
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        #[allow(dead_code)]
        #vis struct #client {
            stub: #private::Stub<dyn #ident + ::core::marker::Send + ::core::marker::Sync>,
        }

        #[automatically_derived]
        #[allow(dead_code)]
        impl #client {
            /// Imports the interface that is exported as `name`. If this domain exports it itself,
            /// calls are direct.
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

            /// The costs of this binding so far.
            #vis fn counters(&self) -> #private::Counters {
                self.stub.counters()
            }

            #descriptor
        }

        #[automatically_derived]
        // A closure, so that a missing `From<CallError>` is reported once.
        #[allow(deprecated, clippy::redundant_closure)]
        impl #ident for #client {
            #(#methods)*
        }

        // After the others, because those report first what is wrong with a type.
        #[allow(dead_code)]
        impl #client {
            #(#tasks)*
        }
    }
}

/// One method: a direct call if the implementation is in this process, otherwise a call through the
/// binding.
fn procedure(interface: &Interface, method: &Method) -> TokenStream {
    let Method { ident, docs, arguments, outcome, .. } = method;
    let names = arguments.iter().map(|argument| &argument.ident);
    let types = arguments.iter().map(|argument| &argument.written);
    let written = &outcome.written;
    let body = body(interface, method, false);
    quote! {
        #(#docs)*
        fn #ident(&self, #(#names: #types),*) -> #written {
            #body
        }
    }
}

/// The same for async tasks.
fn for_tasks(interface: &Interface, method: &Method) -> TokenStream {
    let Interface { vis, .. } = interface;
    let Method { docs, arguments, outcome, .. } = method;
    let names = arguments.iter().map(|argument| &argument.ident);
    let types = arguments.iter().map(|argument| &argument.written);
    let written = &outcome.written;
    let for_tasks = method.for_tasks();
    let body = body(interface, method, true);
    let separator = (!docs.is_empty()).then(|| quote!(#[doc = ""]));
    let what = format!(
        " `{}` for async tasks, under any executor. The call is sent at the first poll; to drop the future abandons it. An implementation in this very \
         process is called directly, and holds up the executor's thread.",
        method.name()
    );
    quote! {
        #(#docs)*
        #separator
        #[doc = #what]
        ///
        /// # Errors
        /// The result of the implementation, or the error of the call.
        #[allow(deprecated, clippy::redundant_closure, clippy::too_many_arguments)]
        #vis async fn #for_tasks(&self, #(#names: #types),*) -> #written {
            #body
        }
    }
}

/// The body of one method.
fn body(interface: &Interface, method: &Method, for_tasks: bool) -> TokenStream {
    let Interface { ident: trait_, private, wire, .. } = interface;
    let Method { index, ident, arguments, outcome, idempotent, .. } = method;
    let (call, awaited) = match (for_tasks, idempotent) {
        (false, false) => ("call", None),
        (false, true) => ("call_idempotent", None),
        (true, false) => ("call_async", Some(quote_spanned!(ident.span()=> .await))),
        (true, true) => ("call_async_idempotent", Some(quote_spanned!(ident.span()=> .await))),
    };
    let [local, result, error] = ["local", "result", "error"].map(super::local);

    let names: Vec<&Ident> = arguments.iter().map(|argument| &argument.ident).collect();
    let sent = tuple(ident.span(), arguments.iter().map(|argument| argument.sent(wire)).collect());
    let carried = outcome.carried(wire);
    let received = if outcome.serde { quote!(.map(|#wire::Serde(#result)| #result)) } else { quote!() };
    // At the error type's span, so that a missing `From<CallError>` is reported there.
    let failure = outcome.error(wire);
    let failed = quote_spanned! {syn::spanned::Spanned::span(&failure)=>
        <#failure as #private::FromCallError>::from_call_error
    };
    // At the method's name, where errors about all its arguments together belong.
    let stub = free("__stub", &names, ident.span());
    let call = Ident::new(call, ident.span());
    let called =
        quote_spanned!(ident.span()=> #stub.#call::<_, #carried>(#index, #sent, |#error| #failed(#error)));
    quote! {
        if let ::core::option::Option::Some(#local) = self.stub.local() {
            return #trait_::#ident(&*#local, #(#names),*);
        }
        let #stub = &self.stub;
        #called #awaited #received
    }
}

/// A name like `wanted` that is not in `taken`.
pub(super) fn free(wanted: &str, taken: &[&Ident], place: Span) -> Ident {
    let mut name = wanted.to_owned();
    while taken.iter().any(|taken| **taken == name) {
        name.push('_');
    }
    Ident::new(&name, place)
}

/// A reference to a tuple of the parts. If there are too many parts, a tuple of tuples, which has
/// the same bytes.
fn tuple(place: Span, parts: Vec<TokenStream>) -> TokenStream {
    if parts.len() <= WIDEST {
        return quote_spanned!(place=> &(#(#parts,)*));
    }
    tuple(place, parts.chunks(WIDEST).map(|chunk| tuple(place, chunk.to_vec())).collect())
}
