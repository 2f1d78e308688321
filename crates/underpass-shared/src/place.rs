//! Where the objects of a region lie: one behind the other, in the order of the fields of the
//! region's type.

use crate::domain::{LocalDomain, Objects, queue_of};
use crate::layout::{OBJECTS, QUEUED};
use std::sync::Arc;

/// The objects of a region: a struct of locks, conditions and the like, each of which stands in
/// private memory for an object in the region. `#[derive(underpass::RegionLayout)]` implements it.
///
/// Arrays and tuples of such types are such types too.
///
/// # Examples
/// ```
/// use underpass::shared::{Condvar, Mutex, RegionLayout};
///
/// #[derive(underpass::RegionLayout)]
/// struct Mailbox {
///     letter: Mutex<[u8; 1024]>,
///     changed: Condvar,
/// }
///
/// assert!(Mailbox::WORDS * 8 > 1024);
/// ```
pub trait RegionLayout: Sized + Send + Sync + 'static {
    /// Words of 8 bytes in the region.
    const WORDS: usize;
    /// Differs between types that differ in their layout, as far as possible.
    const SHAPE: u64;

    /// The object at the next place.
    fn attach(place: &mut RegionPlace<'_>) -> Self;
}

/// The place of the next object.
#[derive(Debug)]
pub struct RegionPlace<'a> {
    domain: &'a Arc<LocalDomain>,
    next: usize,
    objects: Objects,
}

impl<'a> RegionPlace<'a> {
    /// The first place in the region of `domain`.
    pub(crate) fn first(domain: &'a Arc<LocalDomain>) -> Self {
        Self { domain, next: OBJECTS, objects: Objects::default() }
    }

    pub(crate) fn domain(&self) -> Arc<LocalDomain> {
        self.domain.clone()
    }

    /// The next `words` words.
    ///
    /// # Panics
    /// If the region has fewer.
    pub(crate) fn take(&mut self, words: usize) -> usize {
        let at = self.next;
        self.next += words;
        assert!(self.next <= self.domain.words.len(), "`RegionLayout::WORDS` is less than its objects have");
        at
    }

    /// The next object with a lock in its first word and a queue.
    pub(crate) fn lock(&mut self) -> usize {
        let at = self.queue();
        self.objects.locks.push(at);
        at
    }

    /// The next object with a queue.
    pub(crate) fn queue(&mut self) -> usize {
        let at = self.take(QUEUED);
        self.objects.queues.push(queue_of(at));
        at
    }

    /// What was given out.
    pub(crate) fn into_objects(self) -> Objects {
        self.objects
    }
}

impl<T: RegionLayout, const N: usize> RegionLayout for [T; N] {
    const WORDS: usize = T::WORDS * N;
    const SHAPE: u64 = crate::shareable::mix(T::SHAPE, N as u64);

    fn attach(place: &mut RegionPlace<'_>) -> Self {
        std::array::from_fn(|_| T::attach(place))
    }
}

macro_rules! tuples {
    ($(($($name:ident)+))*) => {$(
        impl<$($name: RegionLayout),+> RegionLayout for ($($name,)+) {
            const WORDS: usize = 0 $(+ $name::WORDS)+;
            const SHAPE: u64 = {
                let shape = crate::shareable::shape_of("tuple");
                $(let shape = crate::shareable::mix(shape, $name::SHAPE);)+
                shape
            };

            fn attach(place: &mut RegionPlace<'_>) -> Self {
                ($($name::attach(place),)+)
            }
        }
    )*};
}
tuples!((A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F));
