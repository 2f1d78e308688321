//! The other end of an object.

use super::{Object, ObjectOperation, Runs, model};
use crate::emit::local;
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

/// `BookClient`, with a method for each operation.
pub(super) fn client(object: &Object) -> TokenStream {
    let Object { of, ident, vis, private, .. } = object;
    let (client, stub) = (format_ident!("{ident}Client"), object.stub());
    let own_methods = own_methods(object);
    let mut either = 0;
    let operations: Vec<_> = object
        .operations
        .iter()
        .map(|operation| {
            let index = either;
            either += usize::from(matches!(operation.runs, Runs::Either(_)));
            method(object, operation, index)
        })
        .collect();
    let doc =
        format!(" A [`{ident}`] whose home is another domain, or this one. Clones are the same object.");
    quote! {
        #[doc = #doc]
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        #[allow(dead_code)]
        #vis struct #client {
            name: ::std::sync::Arc<::core::primitive::str>,
            bound: #private::homed::BoundObject<#of>,
            calls: #stub,
            /// It gives up, as what it calls can run here as well.
            patient: #stub,
        }

        #[automatically_derived]
        #[allow(dead_code)]
        impl #client {
            #own_methods
        }

        #[allow(dead_code, clippy::too_many_arguments)]
        impl #client {
            #(#operations)*
        }
    }
}

/// The methods that are no operations.
fn own_methods(object: &Object) -> TokenStream {
    let Object { of, vis, private, .. } = object;
    let imports = imports(object);
    quote! {
        #imports

        /// The object itself.
        #vis fn object(&self) -> &#private::homed::HomedObject<#of> {
            self.bound.object()
        }

        /// Copies the newest version, or the last one of a home that has died.
        ///
        /// # Errors
        /// Each variant names the remedy.
        #vis fn access(
            &self,
        ) -> ::core::result::Result<#private::homed::ObjectVersion<#of>, #private::homed::HomedError<#of>> {
            self.bound.access()
        }

        /// Whether the home has died or has ended the object.
        #vis fn is_over(&self) -> ::core::primitive::bool {
            self.bound.is_over()
        }

        /// How each `#[either]` operation runs at present, why, and by which figures.
        #vis fn explain(&self) -> ::std::vec::Vec<#private::homed::Explanation> {
            self.bound.explain()
        }

        /// The same object. Its `#[either]` operations run as `way` says, and by cost if it is
        /// `None`.
        #[must_use]
        #vis fn fixed(
            &self,
            way: impl ::core::convert::Into<::core::option::Option<#private::homed::ChosenWay>>,
        ) -> Self {
            Self { bound: self.bound.fixed(way.into()), ..::core::clone::Clone::clone(self) }
        }

        /// The same object. Its operations at home end with a deadline error after `within`.
        #[must_use]
        #vis fn with_deadline(&self, within: ::core::time::Duration) -> Self {
            let bound = self.bound.with_deadline(within);
            let patient = self.calls.with_deadline(bound.patience());
            let name = ::core::clone::Clone::clone(&self.name);
            Self { name, calls: self.calls.with_deadline(within), patient, bound }
        }
    }
}

fn imports(object: &Object) -> TokenStream {
    let Object { vis, private, .. } = object;
    let (stub, calls) = (object.stub(), object.calls());
    let result = quote!(::core::result::Result<Self, #private::homed::ObjectBindError>);
    quote! {
        /// Imports the object that is exported as `name`, and measures what its lines and its
        /// home's answers take, if that decides about an operation.
        ///
        /// # Errors
        /// Each variant names the remedy.
        #vis fn import(name: &::core::primitive::str) -> #result {
            Self::__import(name, ::core::option::Option::None)
        }

        /// As [`import`](Self::import), but waits up to `patience` for the home.
        ///
        /// # Errors
        /// As [`import`](Self::import).
        #vis fn import_within(name: &::core::primitive::str, patience: ::core::time::Duration) -> #result {
            Self::__import(name, ::core::option::Option::Some(patience))
        }

        /// Imports the object again if its home has died, and waits up to `patience` for a new
        /// home. Other clones keep the object that they have. If it fails, so does this one.
        ///
        /// # Errors
        /// As [`import`](Self::import).
        #vis fn renew_within(
            &mut self,
            patience: ::core::time::Duration,
        ) -> ::core::result::Result<(), #private::homed::ObjectBindError> {
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
        ) -> #result {
            let (bound, calls) = #private::homed::BoundObject::import(
                name,
                patience,
                |calls| match patience {
                    ::core::option::Option::Some(patience) => #stub::import_within(calls, patience),
                    ::core::option::Option::None => #stub::import(calls),
                },
                |calls: &#stub, within| #calls::__generation(&calls.with_deadline(within)),
            )?;
            let patient = calls.with_deadline(bound.patience());
            ::core::result::Result::Ok(Self { name: ::core::convert::Into::into(name), bound, calls, patient })
        }
    }
}

/// The method of one operation.
fn method(object: &Object, operation: &ObjectOperation, index: usize) -> TokenStream {
    let Object { private, .. } = object;
    let ObjectOperation { ident, vis, docs, inputs, output, .. } = operation;
    let body = match operation.runs {
        Runs::Access => access(object, operation),
        Runs::Invoke => invoke(object, operation),
        Runs::Either(_) => either(object, operation, index),
        Runs::Interrupt => interrupt(object, operation),
    };
    let how = match operation.runs {
        Runs::Access => "Runs here, on a copy of the newest version.",
        Runs::Invoke => "Runs at the object's home.",
        Runs::Either(_) => "Runs here or at the object's home: see `explain`.",
        Runs::Interrupt => "Runs at the object's home, between two of its threads.",
    };
    let how = format!(" {how}");
    let separator = (!docs.is_empty()).then(|| quote!(#[doc = ""]));
    quote! {
        #(#docs)*
        #separator
        #[doc = #how]
        ///
        /// # Errors
        /// The operation has no result. Each variant names the remedy.
        #vis fn #ident(
            &self,
            #(#inputs),*
        ) -> ::core::result::Result<#output, #private::homed::OperationError> {
            #body
        }
    }
}

fn access(object: &Object, operation: &ObjectOperation) -> TokenStream {
    let Object { of, .. } = object;
    let ObjectOperation { ident, names, .. } = operation;
    let here = local("object");
    quote!(self.bound.read(|#here| <#of>::#ident(#here, #(#names),*)))
}

fn invoke(object: &Object, operation: &ObjectOperation) -> TokenStream {
    let ObjectOperation { ident, names, .. } = operation;
    let calls = object.calls();
    quote!(#calls::#ident(&self.calls, #(#names),*).map_err(::core::convert::Into::into))
}

fn either(object: &Object, operation: &ObjectOperation, index: usize) -> TokenStream {
    let Object { of, .. } = object;
    let ObjectOperation { ident, names, .. } = operation;
    let (calls, here) = (object.calls(), local("object"));
    let (plan, called, result) = (local("plan"), local("called"), local("result"));
    let clones = operation
        .inputs
        .iter()
        .zip(names)
        .map(|(input, name)| quote_spanned!(input.ty.span()=> ::core::clone::Clone::clone(&#name)));
    quote! {
        let mut #plan = self.bound.plan(#index);
        if #plan.invokes() {
            let #called = #calls::#ident(#plan.stub(&self.calls, &self.patient), #(#clones),*);
            #plan = match #plan.invoked(#called) {
                ::core::result::Result::Ok(#result) => return #result,
                ::core::result::Result::Err(#plan) => #plan,
            };
        }
        #plan.accessed(|#here| <#of>::#ident(#here, #(#names),*))
    }
}

fn interrupt(object: &Object, operation: &ObjectOperation) -> TokenStream {
    let Object { private, .. } = object;
    let ObjectOperation { ident, inputs, names, output, returns_nothing, .. } = operation;
    let (numbers, words) = (object.numbers(), local("words"));
    let types: Vec<&Type> = inputs.iter().map(|input| &*input.ty).collect();
    let arguments = fits(&types, &ident.to_string(), "arguments", operation.ident.span());
    let results =
        (!returns_nothing).then(|| fits(&[output], &ident.to_string(), "results", model::span_of(operation)));
    let taken = match returns_nothing {
        true => quote! {
            let _ = #words;
            ::core::result::Result::Ok(())
        },
        false => quote! {
            #private::homed::OperandReader::of(#words)
                .take::<#output>()
                .ok_or(#private::homed::OperationError::Invalid)
        },
    };
    quote! {
        #arguments
        #results
        let #words = #private::homed::OperandWriter::new()#(.put(&#names))*.words();
        let #words = self.bound.interrupt(#numbers::#ident, #words)?;
        #taken
    }
}

/// That the values fit into six words.
fn fits(types: &[&Type], ident: &str, what: &str, span: proc_macro2::Span) -> TokenStream {
    let text = format!(
        "the {what} of `{ident}` take more than the 48 bytes that an operation at interrupt level has: pass less, or write `#[invoke]`"
    );
    let text = proc_macro2::Literal::string(&text);
    let sizes = types.iter().map(|of| quote_spanned!(span=> ::core::mem::size_of::<#of>()));
    let fits = (!types.is_empty()).then(|| quote_spanned!(span=> ::core::assert!(#(#sizes)+* <= 48, #text)));
    quote_spanned! {span=>
        #[allow(clippy::assertions_on_constants)]
        const _: () = { #fits };
    }
}
