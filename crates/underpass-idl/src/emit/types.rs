//! The markers of an interface's types, by which all other generated code names them.

use crate::model::{CarriedType, Interface, Role};
use crate::travel;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Index, Path};

/// The markers. At their implementations, and nowhere else, the compiler reports a type that can't
/// travel.
pub(super) fn types(interface: &Interface) -> Option<TokenStream> {
    let types = &interface.types;
    let (ident, doc) = (&types.ident, format!(" The types of [`{}`].", interface.name()));
    let markers = types.all.iter().enumerate().map(|(position, of)| marker(interface, position, of));
    (!types.all.is_empty()).then(|| {
        quote! {
            #[doc = #doc]
            #[doc(hidden)]
            enum #ident<const TYPE: ::core::primitive::usize> {}

            #(#markers)*
        }
    })
}

/// One of them.
fn marker(interface: &Interface, position: usize, of: &CarriedType) -> TokenStream {
    let Interface { private, types, .. } = interface;
    let (ident, position) = (&types.ident, Index::from(position));
    let itself = &of.tokens;
    let (trait_, conversion) = match of.role {
        Role::Plain | Role::Value => (quote!(wire::Carried), None),
        Role::Error => (quote!(CarriedError), Some(conversion(private, itself))),
    };
    quote! {
        #[automatically_derived]
        #[allow(deprecated)]
        impl #private::#trait_ for #ident<#position> {
            type Itself = #itself;
            #conversion
        }
    }
}

/// How the failure of a call becomes an error of the type `itself`. Its span is that of the type,
/// where the compiler reports that there is no way.
fn conversion(private: &Path, itself: &TokenStream) -> TokenStream {
    let span = itself.span();
    let private = travel::at(span, private);
    quote_spanned! {span=>
        #[inline]
        fn from_call_error(__error: #private::CallError) -> Self::Itself {
            #private::FromCallError::from_call_error(__error)
        }
    }
}
