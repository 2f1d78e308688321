//! No name that an author uses collides with a name in the generated code.

/// Interfaces with the names that generic parameters usually have.
#[allow(non_camel_case_types)]
mod interfaces {
    use underpass::CallError;

    macro_rules! named {
        ($($name:ident)*) => {$(
            #[underpass::interface(asynchronous)]
            pub trait $name {
                fn method(&self, argument: u8) -> Result<u8, CallError>;
            }
        )*};
    }

    named!(A B C D E F G H I J K L M N O P Q R S T U V W X Y Z);
    named!(Self_ Stub Service Dispatch IncomingCall Handler Spawn Implementation);
    named!(Send Sync Sized Clone Debug Fn Future Drop From Into Option Box Arc String Vec);
}

/// Types with the same names; also their own parameters.
mod types {
    use underpass::CallError;

    macro_rules! named {
        ($($name:ident)*) => {$(
            #[derive(Clone, Debug, PartialEq, underpass::Wire)]
            pub struct $name(pub u8);
        )*};
    }

    named!(A B C D E F G H I J K L M N O P Q R S T U V W X Y Z);

    #[derive(Debug, PartialEq, underpass::Wire)]
    pub struct All {
        s: S,
        t: T,
        e: E,
    }

    #[derive(Debug, PartialEq, underpass::Wire)]
    pub enum Of<S, T, const COUNT: usize> {
        Encode(S),
        Decode { to: T, from: [u8; COUNT] },
    }

    /// Variants with the names of the traits' items.
    #[derive(Debug, PartialEq, underpass::Wire)]
    #[allow(non_camel_case_types)]
    pub enum Constants {
        FIXED,
        LEAST(u8),
        EITHER { size: u8 },
        encode,
        decode,
        schema,
    }

    #[underpass::interface(asynchronous)]
    pub trait Uses {
        fn s(&self, s: S, lent: &T, all: &[E]) -> Result<T, CallError>;
        fn of(&self, of: Of<S, T, 2>) -> Result<Of<T, S, 3>, CallError>;
    }

    pub fn come_back() {
        use underpass::__private::wire::{from_bytes, to_bytes};
        let all = All { s: S(1), t: T(2), e: E(3) };
        assert_eq!(from_bytes(&to_bytes(&all)), Ok(all));
        let of = Of::<S, T, 2>::Decode { to: T(7), from: [1, 2] };
        assert_eq!(from_bytes(&to_bytes(&of)), Ok(of));
        for constant in [Constants::FIXED, Constants::EITHER { size: 1 }, Constants::schema] {
            assert_eq!(from_bytes(&to_bytes(&constant)), Ok(constant));
        }
    }
}

/// Methods and arguments with the names of the stubs' own items.
mod methods {
    use underpass::CallError;

    #[underpass::interface(asynchronous)]
    pub trait Methods {
        fn call(&self, call: u8, stub: u8, local: u8, result: u8, error: u8) -> Result<u8, CallError>;
        fn call_idempotent(&self, __call: u8, __stub: u8, __local: u8) -> Result<u8, CallError>;
        fn local(&self, this: &str, implementation: u8, spawn: u8) -> Result<u8, CallError>;
        fn stub(&self, argument0: u8, argument1: &[u8], __argument0: u8) -> Result<u8, CallError>;
        fn new(&self, name: u8, time: u8, interface: u8) -> Result<u8, CallError>;
        fn clone(&self, __result: u8, __error: u8) -> Result<u8, CallError>;
        fn fmt(&self) -> Result<u8, CallError>;
        fn map(&self) -> Result<u8, CallError>;
        fn dispatch(&self) -> Result<u8, CallError>;
        fn procedure(&self) -> Result<u8, CallError>;
        fn argument(&self) -> Result<u8, CallError>;
        fn end(&self) -> Result<u8, CallError>;
        fn reply(&self) -> Result<u8, CallError>;
        fn later(&self) -> Result<u8, CallError>;
        fn lend(&self) -> Result<u8, CallError>;
        fn give(&self) -> Result<u8, CallError>;
        fn poll(&self) -> Result<u8, CallError>;
        fn from(&self) -> Result<u8, CallError>;
        fn into(&self) -> Result<u8, CallError>;
        fn type_id(&self) -> Result<u8, CallError>;
        fn deref(&self) -> Result<u8, CallError>;
        fn r#async(&self, r#type: u8) -> Result<u8, CallError>;
    }

    /// Next to the stubs of `Methods`.
    #[allow(dead_code)]
    struct MethodsDispatch;
    #[allow(dead_code)]
    struct MethodsAsyncDispatch;
}

/// Items with the names of the generated code's variables.
#[allow(non_upper_case_globals, non_camel_case_types, dead_code)]
mod items {
    use underpass::CallError;

    macro_rules! named {
        ($($name:ident)*) => {$(
            const $name: usize = 1;
        )*};
    }

    named!(local stub result error call interface implementation argument0 argument1);
    named!(field0 field1 to types tag value DESCRIPTOR SIZES ASTACK FIXED LEAST N);

    #[derive(underpass::Wire)]
    pub struct Pair {
        first: [u8; DESCRIPTOR],
        second: [u8; FIXED],
    }

    #[derive(underpass::Wire)]
    pub enum Either {
        One([u8; field0], [u8; N]),
        Other { value: u8, tag: [u8; tag] },
    }

    #[underpass::interface(asynchronous)]
    pub trait Items {
        fn pair(&self, pair: Pair, lent: &Either) -> Result<[u8; DESCRIPTOR], CallError>;
        fn either(&self, all: &[[u8; SIZES]]) -> Result<Either, CallError>;
    }
}

/// The names of the prelude, with other meanings.
#[allow(dead_code, non_camel_case_types)]
mod prelude {
    pub struct Result;
    pub struct Option;
    pub struct Some;
    pub struct None;
    pub struct Ok;
    pub struct Err;
    pub struct String;
    pub struct Vec;
    pub struct Box;
    pub struct Arc;
    pub struct LazyLock;
    pub struct usize;
    pub struct u32;
    pub trait Send {}
    pub trait Sync {}
    pub trait Sized {}
    pub trait Clone {}
    pub trait Copy {}
    pub trait Fn {}
    pub trait From {}
    pub trait Into {}
    pub trait Drop {}
    pub trait ToString {}
    pub trait Future {}
    pub mod core {}
    pub mod std {}
    pub mod underpass {}
    pub mod underpass_wire {}

    #[derive(::core::fmt::Debug, ::core::cmp::PartialEq, ::underpass::Wire)]
    pub enum Word {
        Some(u8),
        None,
        Ok { len: u64 },
        Err,
    }

    #[derive(::core::fmt::Debug, ::core::cmp::PartialEq, ::underpass::Wire)]
    pub struct Words<T, const N: u64> {
        text: ::std::string::String,
        words: ::std::vec::Vec<T>,
    }

    #[::underpass::interface(asynchronous)]
    pub trait Prelude {
        fn word(
            &self,
            word: &Word,
            text: &str,
            all: &[Word],
            words: Words<Word, 7>,
            #[underpass(shared)] shared: ::underpass::Shared<'_>,
        ) -> ::core::result::Result<Word, ::underpass::CallError>;
        #[idempotent]
        #[underpass(astack = 64, calls = 2)]
        fn again(&self) -> ::core::result::Result<(), ::underpass::CallError>;
    }
}

/// A server and a client of a trait `T`, and of one with a method `clone`.
fn call() -> underpass::Result<()> {
    use interfaces::{T, TClient};
    use underpass::CallError;

    struct Next;

    impl T for Next {
        fn method(&self, argument: u8) -> Result<u8, CallError> {
            Ok(argument + 1)
        }
    }

    let name = format!("names-{}", std::process::id());
    let _running = underpass::Server::new().export(&name, T::serve(Next)).start()?;
    assert_eq!(TClient::import(&name)?.method(1)?, 2);
    Ok(())
}

#[test]
fn no_name_collides() {
    types::come_back();
    let interfaces = [
        interfaces::TClient::descriptor(),
        types::UsesClient::descriptor(),
        methods::MethodsClient::descriptor(),
        items::ItemsClient::descriptor(),
        prelude::PreludeClient::descriptor(),
    ];
    assert_eq!(interfaces.map(|interface| interface.procedures.len()), [1, 2, 22, 2, 2]);
    call().unwrap();
}
