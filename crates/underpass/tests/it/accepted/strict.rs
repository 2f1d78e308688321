//! Generated code causes no warning under any lint that its author may have denied.
#![deny(warnings, missing_docs, missing_debug_implementations, unused_qualifications, unreachable_pub)]
#![deny(rust_2018_idioms, unused_results, single_use_lifetimes, trivial_casts, unsafe_code)]

use underpass::CallError;

/// A key.
#[derive(Debug, underpass::Wire)]
pub(crate) struct Key<T> {
    /// Its number.
    pub number: T,
}

/// A tree.
#[derive(Debug, underpass::Wire)]
pub(crate) enum Tree {
    /// Nothing more.
    Leaf,
    /// Two of them.
    Node(Box<Tree>, Box<Tree>),
}

#[derive(underpass::Wire)]
struct Nothing;

/// Keys and their trees.
#[underpass::interface]
pub(crate) trait Store: Send + Sync {
    /// Puts.
    #[must_use]
    fn put(&self, key: Key<u8>, trees: &[Tree]) -> Result<Option<Tree>, CallError>;
    /// Gets.
    #[deprecated]
    fn get(&self, key: &Key<u64>) -> Result<(), CallError>;
}

// Nobody uses it.
#[underpass::interface]
trait Private {
    fn nothing(&self) -> Result<(), CallError>;
}

mod inner {
    use super::Nothing;
    use underpass::CallError;

    #[underpass::interface]
    pub(super) trait Restricted {
        fn nothing(&self, nothing: Nothing) -> Result<Nothing, CallError>;
    }

    pub(super) struct Nobody;

    impl Restricted for Nobody {
        fn nothing(&self, nothing: Nothing) -> Result<Nothing, CallError> {
            Ok(nothing)
        }
    }
}

macro_rules! interface {
    ($name:ident, $method:ident, $argument:ident: $type:ty, $result:ty) => {
        /// Made by a macro.
        #[underpass::interface]
        pub(crate) trait $name {
            /// Made by a macro.
            fn $method(&self, $argument: $type) -> Result<$result, CallError>;
        }
    };
}

interface!(Made, method, local: &str, Vec<Key<u8>>);

#[test]
fn strict_crates_take_the_generated_code() {
    use inner::Restricted;
    let _ = (StoreClient::descriptor(), MadeClient::descriptor());
    let _ = inner::RestrictedClient::import("nobody-exports-this").map(Restricted::serve);
    let _ = inner::Nobody.serve();
}
