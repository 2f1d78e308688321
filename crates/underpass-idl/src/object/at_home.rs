//! What runs at home.

use super::{Object, ObjectOperation, Runs};
use crate::emit::local;
use crate::object::model::Fixed;
use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;

/// The home's name, its operations at both levels, and what ties them to the representation.
pub(super) fn home(object: &Object) -> TokenStream {
    let Object { of, ident, vis, private, .. } = object;
    let home = quote::format_ident!("{ident}Home");
    let doc = format!(" The home of a [`{ident}`]: the one domain that changes it.");
    let (by_calls, numbers, operations) = (by_calls(object), numbers(object), home_operations(object));
    quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #vis type #home = #private::homed::OperatedHome<#of>;

        #by_calls

        #numbers

        #operations
    }
}

/// The implementation of the interface of operations at process level.
fn by_calls(object: &Object) -> TokenStream {
    let Object { of, private, .. } = object;
    let (calls, at_home) = (object.calls(), object.at_home());
    let there = local("object");
    let methods = object.that_run(Runs::by_calls).map(|operation| {
        let ObjectOperation { ident, inputs, names, output, changes, .. } = operation;
        let run = Ident::new(if *changes { "change" } else { "read" }, operation.ident.span());
        quote! {
            fn #ident(&self, #(#inputs),*) -> ::core::result::Result<#output, #private::CallError> {
                self.0.#run(move |#there| <#of>::#ident(#there, #(#names),*))
            }
        }
    });
    quote! {
        struct #at_home(#private::homed::OperatedHome<#of>);

        #[automatically_derived]
        impl #calls for #at_home {
            fn __generation(&self) -> ::core::result::Result<::core::primitive::u64, #private::CallError> {
                ::core::result::Result::Ok(self.0.generation())
            }
            #(#methods)*
        }
    }
}

/// The numbers of operations at interrupt level. They follow from names and types, so both sides
/// mean the same.
fn numbers(object: &Object) -> TokenStream {
    let Object { private, .. } = object;
    let numbers = object.numbers();
    let each = object.that_run(|runs| runs == Runs::Interrupt).map(|operation| {
        let ObjectOperation { ident, inputs, output, returns_nothing, .. } = operation;
        let name = ident.unraw().to_string();
        let mut types: Vec<_> = inputs.iter().map(|input| &*input.ty).collect();
        if !returns_nothing {
            types.push(output);
        }
        let shapes = types.iter().map(|of| {
            quote_spanned!(of.span()=> let shape = __shared::mix(shape, <#of as __shared::Shareable>::SHAPE);)
        });
        quote! {
            const #ident: ::core::primitive::u64 = {
                use #private::shared as __shared;
                let shape = __shared::shape_of(#name);
                #(#shapes)*
                shape
            };
        }
    });
    quote! {
        struct #numbers;

        #[allow(non_upper_case_globals, dead_code)]
        impl #numbers {
            #(#each)*
        }
    }
}

fn home_operations(object: &Object) -> TokenStream {
    let Object { of, private, .. } = object;
    let (calls, at_home) = (object.calls(), object.at_home());
    let either = object.operations.iter().filter_map(|operation| {
        let Runs::Either(fixed) = operation.runs else { return None };
        let name = operation.ident.unraw().to_string();
        let fixed = match fixed {
            None => quote!(::core::option::Option::None),
            Some(Fixed::Access) => {
                quote!(::core::option::Option::Some(#private::homed::ChosenWay::Access))
            }
            Some(Fixed::Invoke) => {
                quote!(::core::option::Option::Some(#private::homed::ChosenWay::Invoke))
            }
        };
        Some(quote!((#name, #fixed)))
    });
    let handlers: Vec<_> =
        object.that_run(|runs| runs == Runs::Interrupt).map(|operation| handler(object, operation)).collect();
    let interrupts = !handlers.is_empty();
    let (home, handled) = (local("home"), local("handlers"));
    let here = local("object");
    let (object_home, invocations) =
        (quote!(#private::homed::ObjectHome<Self>), quote!(#private::homed::invoke::InvocationHandlers));
    quote_spanned! {of.span()=>
        #[automatically_derived]
        impl #private::homed::HomeOperations for #of {
            const EITHER: &'static [(
                &'static ::core::primitive::str,
                ::core::option::Option<#private::homed::ChosenWay>,
            )] = &[#(#either),*];
            const INTERRUPTS: ::core::primitive::bool = #interrupts;

            fn calls(#home: #private::homed::OperatedHome<Self>) -> #private::Service {
                #calls::serve(#at_home(#home))
            }

            #[allow(unused_variables)]
            fn handlers(#here: &#object_home, #handled: #invocations) -> #invocations {
                #(let #handled = #handlers;)*
                #handled
            }
        }
    }
}

/// What adds one operation at interrupt level to the handlers.
fn handler(object: &Object, operation: &ObjectOperation) -> TokenStream {
    let Object { of, private, .. } = object;
    let ObjectOperation { ident, inputs, names, changes, returns_nothing, .. } = operation;
    let (handlers, here, there) = (local("handlers"), local("object"), local("there"));
    let (operands, words, result) = (local("operands"), local("words"), local("result"));
    let numbers = object.numbers();
    let takes = inputs.iter().zip(names).map(|(input, name)| {
        let ty = &input.ty;
        quote! {
            let ::core::option::Option::Some(#name) = #operands.take::<#ty>() else { return [0; 6] };
        }
    });
    let run = match changes {
        true => quote! {
            let mut #result = ::core::option::Option::None;
            // A forked child is no home, and runs no handlers.
            let _ = #here.update(|#there| {
                #result = ::core::option::Option::Some(<#of>::#ident(#there, #(#names),*));
            });
        },
        false => quote! {
            let #result = #here.newest_version().ok().map(|(#there, _)| <#of>::#ident(&#there, #(#names),*));
        },
    };
    let put = match returns_nothing {
        true => quote!(::core::option::Option::Some(()) => [0; 6]),
        false => quote! {
            ::core::option::Option::Some(#result) => {
                #private::homed::OperandWriter::new().put(&#result).words()
            }
        },
    };
    quote! {
        {
            let #here = ::core::clone::Clone::clone(#here);
            #handlers.on(#numbers::#ident, move |#words: [::core::primitive::u64; 6]| {
                #[allow(unused_mut, unused_variables)]
                let mut #operands = #private::homed::OperandReader::of(#words);
                #(#takes)*
                #run
                match #result {
                    #put,
                    ::core::option::Option::None => [0; 6],
                }
            })
        }
    }
}
