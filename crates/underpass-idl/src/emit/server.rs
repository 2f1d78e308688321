//! The server stub.

use crate::model::{Interface, Method};
use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};

/// The stub and its dispatch.
pub(super) fn server(interface: &Interface) -> TokenStream {
    let Interface { ident, private, methods, .. } = interface;
    let dispatch = interface.dispatch();
    let call = super::local("call");
    let procedures = methods.iter().map(|method| procedure(interface, method, &call));
    let doc = format!(" The server stub of [`{}`].", interface.name());
    quote! {
        #[doc = #doc]
        #[doc(hidden)]
        struct #dispatch<__T>(::std::sync::Arc<__T>);

        #[automatically_derived]
        #[allow(deprecated)]
        impl<__T> #dispatch<__T>
        where
            __T: #ident + ::core::marker::Send + ::core::marker::Sync + 'static,
        {
            #[inline(always)]
            fn run<'__a>(
                &self,
                #call: &mut impl #private::ProcedureCall<'__a>,
            ) -> ::core::result::Result<(), #private::Refused> {
                match #call.procedure() {
                    #(#procedures)*
                    _ => #call.unknown(),
                }
            }
        }

        #[automatically_derived]
        impl<__T> #private::Dispatch for #dispatch<__T>
        where
            __T: #ident + ::core::marker::Send + ::core::marker::Sync + 'static,
        {
            fn dispatch(
                &self,
                #call: &mut #private::IncomingCall<'_>,
            ) -> ::core::result::Result<(), #private::Refused> {
                self.run(#call)
            }

            fn dispatch_detached(
                &self,
                #call: &mut #private::DetachedCall,
            ) -> ::core::result::Result<(), #private::Refused> {
                self.run(#call)
            }

            fn local(
                self: ::std::sync::Arc<Self>,
            ) -> ::core::option::Option<::std::boxed::Box<dyn ::core::any::Any>> {
                let __local: ::std::sync::Arc<dyn #ident + ::core::marker::Send + ::core::marker::Sync> =
                    ::std::sync::Arc::<__T>::clone(&self.0);
                ::core::option::Option::Some(::std::boxed::Box::new(__local))
            }
        }
    }
}

/// How the server stub takes a method's arguments out of `call`, and what it passes on, now or
/// later.
pub(super) fn arguments(
    interface: &Interface,
    method: &Method,
    call: &Ident,
    later: bool,
) -> [Vec<TokenStream>; 2] {
    let Interface { wire, types, .. } = interface;
    let (mut taken, mut passed) = (Vec::new(), Vec::new());
    for (position, argument) in method.arguments.iter().enumerate() {
        let name = super::local(&format!("argument{position}"));
        if argument.is_shared() {
            taken.push(match later {
                false => quote!(let #name = #call.shared()?;),
                true => quote!(let #name = #call.shared_later()?;),
            });
            passed.push(if later { quote!(#name.lend()) } else { quote!(#name) });
            continue;
        }
        let carried = argument.carried(types, wire);
        taken.push(quote! {
            let mut #name = #wire::ArgumentPlace::new();
            #call.argument::<#carried>(&mut #name)?;
        });
        passed.push(match (argument.is_lent(), argument.serde) {
            (true, false) => quote!(#name.lend()),
            (true, true) => quote!(&#name.lend().0),
            (false, false) => quote!(#name.give()),
            (false, true) => quote!(#name.give().0),
        });
    }
    [taken, passed]
}

/// Takes the arguments, calls the implementation, and returns the result.
fn procedure(interface: &Interface, method: &Method, call: &Ident) -> TokenStream {
    let Interface { ident: trait_, wire, types, .. } = interface;
    let Method { index, ident, returns, .. } = method;
    let result = super::local("result");
    let [taken, passed] = arguments(interface, method, call, false);
    let [value, error] = returns.carried(types, wire);
    let sent = returns.sent_of(wire, quote!(#trait_::#ident(&*self.0, #(#passed),*)));
    let replied = quote_spanned!(returns.span()=> #call.reply::<#value, #error>(&#result));
    quote! {
        #index => {
            #(#taken)*
            #call.end()?;
            let #result = #sent;
            if #replied? {
                #call.drop_later(#result);
            }
            ::core::result::Result::Ok(())
        }
    }
}
