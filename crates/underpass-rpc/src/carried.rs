//! How generated code names the results that it carries, by markers as of [`Carried`].

use crate::error::CallError;
use std::marker::PhantomData;
use underpass_wire::carried::Names;
use underpass_wire::{Carried, Schema};

/// The marker of an error type that travels, and that can represent the failure of a call.
pub trait CarriedError {
    /// The error type.
    type Itself: Names<<Self::Itself as Schema>::Itself> + Schema;

    /// Converts the failure of a call.
    fn from_call_error(error: CallError) -> Self::Itself;
}

/// The marker of a `Result`, by those of its two types.
pub struct ResultOf<V, E>(PhantomData<(V, E)>);

impl<V: Carried, E: CarriedError> Carried for ResultOf<V, E> {
    type Itself = Result<V::Itself, E::Itself>;
}
