//! One method of the trait: a procedure.

use super::{MethodResult, Parameter, interface};
use crate::attribute;
use crate::doc;
use crate::errors::Errors;
use proc_macro2::Ident;
use quote::format_ident;
use syn::ext::IdentExt;
use syn::{Attribute, FnArg, Receiver, ReceiverKind, Result, Safety, Signature, TraitItemFn};

/// A procedure: a method that can be called from another process.
pub(crate) struct Method {
    /// Its index in calls.
    pub(crate) index: u16,
    pub(crate) ident: Ident,
    /// Its doc comments.
    pub(crate) docs: Vec<Attribute>,
    /// The same as markdown.
    pub(crate) doc: String,
    pub(crate) arguments: Vec<Parameter>,
    pub(crate) returns: MethodResult,
    /// Whether it may be executed twice.
    pub(crate) idempotent: bool,
    /// Bytes of its A-stack, if its author gives them.
    pub(crate) astack: Option<u32>,
    /// How many concurrent calls are expected, if its author says so.
    pub(crate) calls: Option<u32>,
    /// The version of the interface in which it was added.
    pub(crate) since: u32,
}

impl Method {
    /// Checks `method` and describes it.
    ///
    /// # Errors
    /// All errors in it, each at its token.
    pub(crate) fn parse(index: u16, method: &TraitItemFn) -> Result<Self> {
        let mut errors = Errors::default();
        let signature = &method.sig;
        errors.take(interface::is_taken(&signature.ident));
        let options = errors.take(interface::options_of_method(&method.attrs)).unwrap_or_default();
        let idempotent = errors.take(attribute::is_idempotent(&method.attrs)).unwrap_or_default();
        check_signature(signature, &mut errors);

        let mut inputs = signature.inputs.iter();
        match inputs.next() {
            Some(FnArg::Receiver(receiver)) => check_receiver(receiver, &mut errors),
            _ => errors.at(
                &signature.ident,
                format!(
                    "`{}` needs `&self` as its first argument: a call goes to the implementation that was exported",
                    signature.ident
                ),
            ),
        }
        let mut arguments = Vec::new();
        for argument in &signature.inputs {
            if let FnArg::Typed(argument) = argument {
                arguments.extend(errors.take(Parameter::parse(argument)));
            }
        }
        let returns = errors.take(MethodResult::parse(signature, options.serde));
        match returns {
            Some(returns) => errors.finish(Self {
                index,
                ident: signature.ident.clone(),
                docs: doc::comments(&method.attrs),
                doc: doc::text(&method.attrs),
                arguments,
                returns,
                idempotent,
                astack: options.astack,
                calls: options.calls,
                since: options.since.unwrap_or(1),
            }),
            None => errors.finish(()).map(|()| unreachable!("without a return type there is an error")),
        }
    }

    /// The name of the client stub's method for async tasks.
    pub(crate) fn for_tasks(&self) -> Ident {
        format_ident!("{}_async", self.ident.unraw(), span = self.ident.span())
    }

    /// The method's name as it is in the descriptor.
    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }
}

fn check_signature(signature: &Signature, errors: &mut Errors) {
    if let Some(token) = &signature.asyncness {
        errors.at(
            token,
            format!(
                "a method of an interface is not `async`: write a plain `fn {0}`. Tasks call it by `{0}_async`, and handlers \
                 may be `async fn`s of the trait that `#[underpass::interface(asynchronous)]` adds",
                signature.ident
            ),
        );
    }
    if let Some(token) = &signature.constness {
        errors.at(
            token,
            "a method of an interface can't be `const`, as it runs in another process: take this out",
        );
    }
    if let Safety::Unsafe(_) | Safety::Safe(_) = &signature.safety {
        errors.at(
            &signature.safety,
            "a method of an interface can't be `unsafe`, as the server trusts no caller: take this out",
        );
    }
    if let Some(abi) = &signature.abi {
        errors.at(abi, "a method of an interface has no ABI of its own: write a plain `fn`");
    }
    if let Some(variadic) = &signature.variadic {
        errors.at(variadic, "a method of an interface has a fixed number of arguments: pass a `Vec`");
    }
    if !signature.generics.params.is_empty() {
        errors.at(
            &signature.generics.params,
            "a method of an interface can't be generic, as both sides have to know every type: write one for each, or \
             pass an enum",
        );
    }
    if let Some(clause) = &signature.generics.where_clause {
        errors
            .at(clause, "a method of an interface has no `where` clause, as both sides have to know every type: take this out");
    }
}

fn check_receiver(receiver: &Receiver, errors: &mut Errors) {
    match &receiver.kind {
        ReceiverKind::Reference(_, None, None) => {}
        ReceiverKind::Reference(_, _, Some(token)) => errors.at(
            token,
            "an interface's methods take `&self`, as many clients call at once: keep what changes in a `Mutex` or an \
             atomic",
        ),
        ReceiverKind::Reference(_, Some(lifetime), None) => {
            errors.at(lifetime, "a lifetime can't reach into another process: write `&self`");
        }
        ReceiverKind::Value => errors.at(
            receiver,
            "an interface's methods take `&self`, as a client can't use up the implementation that serves others too: write that",
        ),
        _ => errors.at(receiver, "an interface's methods take `&self`: write that"),
    }
}
