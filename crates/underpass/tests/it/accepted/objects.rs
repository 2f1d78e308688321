//! Objects of each visibility, with operations of each kind, and names that collide with nothing.

#![deny(warnings)]

pub mod public {
    //! A public object.

    /// An object.
    #[derive(Clone, Copy, underpass::Shareable)]
    #[repr(C)]
    pub struct Book {
        rows: [u64; 8],
    }

    #[underpass::object]
    impl Book {
        /// Reads.
        #[access]
        pub fn object_(&self, plan: u32) -> u64 {
            self.rows[plan as usize % 8]
        }

        /// Reads.
        #[either]
        #[must_use]
        pub fn called(&self, plan: &str, called: Vec<u8>, result: &[u64]) -> usize {
            plan.len() + called.len() + result.len()
        }

        /// Writes.
        #[invoke]
        pub fn calls(&mut self, object: u64, name: String) -> Result<u64, String> {
            self.rows[0] = object;
            Err(name)
        }

        /// Writes.
        #[invoke(interrupt)]
        pub fn words(&mut self, words: u64, operands: bool) -> char {
            self.rows[1] = words;
            if operands { 'a' } else { 'b' }
        }

        /// Writes.
        #[invoke(interrupt)]
        pub fn handlers(&mut self) {}
    }
}

mod private {
    #[derive(Clone, Copy, underpass::Shareable)]
    #[repr(u8)]
    pub(crate) enum Light {
        Red,
        Green,
    }

    #[underpass::object]
    impl Light {
        #[access]
        pub(crate) fn is_red(&self) -> bool {
            matches!(self, Self::Red)
        }

        #[invoke]
        pub(crate) fn turn(&mut self) {
            *self = Self::Green;
        }
    }
}

fn in_a_function() {
    #[derive(Clone, Copy, underpass::Shareable)]
    #[repr(C)]
    struct Count(u64);

    #[underpass::object]
    impl Count {
        #[either(fixed = access)]
        fn get(&self) -> u64 {
            self.0
        }
    }

    let count = Count(3);
    assert_eq!(count.get(), 3);
    assert!(CountClient::import("nobody exports that").is_err());
}

#[test]
fn objects_of_each_visibility_compile() {
    in_a_function();
    assert!(private::LightClient::import("nobody exports that").is_err());
    assert!(private::Light::Red.is_red());
    let _ = private::LightHome::new(private::Light::Red);
    assert!(public::BookClient::import("nobody exports that").is_err());
}
