//! The client stub.

use super::descriptor;
use crate::model::{Interface, Method};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

/// Parts of a tuple that can travel.
const WIDEST: usize = 12;

/// The stub, what it does by itself, and its implementation of the trait.
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
            /// Imports the interface that is exported as `name`. If that is this very domain's,
            /// calls will be direct.
            ///
            /// # Errors
            /// There is no such name, or no permission, or it is another interface: each variant
            /// tells the remedy.
            #vis fn import(name: &::core::primitive::str) -> ::core::result::Result<Self, #private::ImportError> {
                ::core::result::Result::Ok(Self {
                    stub: #private::Stub::import(name, Self::descriptor(), ::core::option::Option::None)?,
                })
            }

            /// Imports the interface that is exported as `name`, or will be within that time.
            ///
            /// A name whose server is dead is waited for too, as somebody may start that again.
            /// Where nobody does, [`import`](Self::import) says at once that it is dead.
            ///
            /// # Errors
            /// As [`import`](Self::import), once the time is over.
            #vis fn import_within(
                name: &::core::primitive::str,
                time: ::core::time::Duration,
            ) -> ::core::result::Result<Self, #private::ImportError> {
                ::core::result::Result::Ok(Self {
                    stub: #private::Stub::import(name, Self::descriptor(), ::core::option::Option::Some(time))?,
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
            #vis fn import_resilient(
                name: &::core::primitive::str,
                policy: #private::Policy,
            ) -> ::core::result::Result<Self, #private::ImportError> {
                ::core::result::Result::Ok(Self {
                    stub: #private::Stub::import_resilient(name, Self::descriptor(), policy)?,
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
            /// socket, by `share_with`, within that time.
            ///
            /// # Errors
            /// As [`import`](Self::import); nothing has come in time, or what has gives no binding
            /// any more.
            #vis fn import_from(
                socket: impl ::std::os::fd::AsFd,
                time: ::core::time::Duration,
            ) -> ::core::result::Result<Self, #private::ImportError> {
                ::core::result::Result::Ok(Self {
                    stub: #private::Stub::import_from(socket, Self::descriptor(), time)?,
                })
            }

            /// Passes this binding on to the process at the other end of `socket`, a connected Unix
            /// socket, if the server allows it. It takes it by `import_from`, while this binding
            /// lasts, and is a client of its own from then on.
            ///
            /// # Errors
            /// The server does not allow it, or there is no room: each variant tells the remedy.
            #vis fn share_with(
                &self,
                socket: impl ::std::os::fd::AsFd,
            ) -> ::core::result::Result<(), #private::ShareError> {
                self.stub.share_with(socket)
            }

            /// The same binding; every call of this copy of it returns with a deadline error after
            /// that time.
            #[must_use]
            #vis fn with_deadline(&self, time: ::core::time::Duration) -> Self {
                Self { stub: self.stub.with_deadline(time) }
            }

            /// The same binding; a call of this copy of it gives its caller's processor to a server
            /// that has none, though other threads are ready.
            #[must_use]
            #vis fn urgent(&self) -> Self {
                Self { stub: self.stub.urgent() }
            }

            /// After calls were told that the server was restarted: this copy of the stub has
            /// nothing any more that the server before has given it, and makes calls again. To be
            /// said of each copy by itself, also of those that `with_deadline` and its like have
            /// made: a copy made afterwards knows it.
            #vis fn acknowledge_restart(&self) {
                self.stub.acknowledge_restart();
            }

            /// The same binding; callers over this copy of it are freed when anybody abandons.
            #[must_use]
            #vis fn abandonable(&self, abandon: &#private::Abandon) -> Self {
                Self { stub: self.stub.abandonable(abandon) }
            }

            /// How many calls that nobody waits for any more the server may hold, of 64 over each
            /// channel, before it loses the binding: 48 at first.
            #vis fn quarantine(&self, most: ::core::primitive::u32) {
                self.stub.quarantine(most);
            }

            /// The same binding; what a call of this copy of it does when as many are under way as
            /// the interface expects at once.
            #[must_use]
            #vis fn when_all_leased(&self, choice: #private::AllLeased) -> Self {
                Self { stub: self.stub.when_all_leased(choice) }
            }

            /// What this binding has cost so far.
            #vis fn counters(&self) -> #private::Counters {
                self.stub.counters()
            }

            #descriptor
        }

        #[automatically_derived]
        // A closure, so that a missing `From<CallError>` is told once.
        #[allow(deprecated, clippy::redundant_closure)]
        impl #ident for #client {
            #(#methods)*
        }

        // Behind the others, which tell what is wrong with a type first.
        #[allow(dead_code)]
        impl #client {
            #(#tasks)*
        }
    }
}

/// One method: a direct call if the implementation is here, else a call through the binding.
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
        /// What the implementation returns, or what became of the call.
        #[allow(deprecated, clippy::redundant_closure, clippy::too_many_arguments)]
        #vis async fn #for_tasks(&self, #(#names: #types),*) -> #written {
            #body
        }
    }
}

/// The body of one of them.
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
    // At the error's own place, so that a missing `From<CallError>` is told there.
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

/// A name like `wanted` that is none of `taken`.
fn free(wanted: &str, taken: &[&Ident], place: Span) -> Ident {
    let mut name = wanted.to_owned();
    while taken.iter().any(|taken| **taken == name) {
        name.push('_');
    }
    Ident::new(&name, place)
}

/// A reference to a tuple of the parts; or of tuples, if there are too many, which take the same
/// bytes.
fn tuple(place: Span, parts: Vec<TokenStream>) -> TokenStream {
    if parts.len() <= WIDEST {
        return quote_spanned!(place=> &(#(#parts,)*));
    }
    tuple(place, parts.chunks(WIDEST).map(|chunk| tuple(place, chunk.to_vec())).collect())
}
