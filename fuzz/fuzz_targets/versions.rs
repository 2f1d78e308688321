//! An object's home and a reader, and whatever either could write into its memory. As long as
//! nobody has lied, each copy is the newest version, whole.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use underpass_homed::fuzz::{FuzzObject, FuzzValue};

#[derive(Debug, Arbitrary)]
enum Step {
    /// The home publishes a version.
    Publish { published_ns: u64, value: FuzzValue },
    /// The reader copies.
    Copy,
    /// The home says that no version follows.
    End,
    /// The home writes a word.
    Word { which: u16, value: u64 },
    /// The home writes one of the words of the protocol.
    Counter { which: u8, value: u8 },
}

fuzz_target!(|steps: Vec<Step>| {
    let object = FuzzObject::new();
    let (mut newest, mut version, mut ended, mut honest) = ((0, [false; 16]), 0, false, true);
    for step in steps {
        match step {
            Step::Publish { published_ns, value } => {
                version += 1;
                newest = (published_ns, value);
                object.publish(version, published_ns, value);
            }
            Step::Copy => {
                let copied = object.copy();
                if honest {
                    // Before the first version it is all zeros.
                    assert_eq!(copied, Some((version, newest.0, Some(newest.1))));
                    assert_eq!(object.has_ended(), ended);
                }
            }
            Step::End => {
                ended = true;
                object.end();
            }
            Step::Word { which, value } => {
                honest = false;
                object.lie(which, value);
            }
            Step::Counter { which, value } => {
                honest = false;
                object.lie(8 + u16::from(which % 3), value.into());
            }
        }
    }
});
