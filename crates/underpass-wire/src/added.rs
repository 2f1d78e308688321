//! The fields that later versions have added to an extensible struct.
//!
//! They follow the struct's first fields, which all versions have:
//!
//! | bytes | what |
//! |---|---|
//! | 1 or 9 | how many bytes follow; 0 if the writer knows no added fields |
//! | 1 | how many added fields follow |
//! | any number | the added fields, in the order in which they were added |
//! | 2 | how many files the added fields have beside the bytes |
//!
//! A reader that knows fewer fields skips the others, with their files. One that knows more fields
//! fills in the defaults of those that are missing.

use crate::{Decode, DecodeError, Encode, Sink, Source, length};
use std::os::fd::{BorrowedFd, OwnedFd};

/// The fewest bytes of the added fields: those of a writer that knows none.
pub const LEAST: usize = 1;

/// Bytes of the two numbers around the fields.
const AROUND: usize = 3;

/// The bytes that `count` added fields of `bytes` bytes take with everything around them.
///
/// # Examples
/// ```
/// use underpass_wire::added;
/// assert_eq!((added::size(0, 0), added::size(2, 12)), (1, 16));
/// ```
#[inline]
pub fn size(count: u8, bytes: usize) -> usize {
    match count {
        0 => 1,
        _ => length::size(bytes + AROUND) + bytes + AROUND,
    }
}

/// Puts `count` added fields of `bytes` bytes, which `fields` encodes.
#[inline]
pub fn encode(count: u8, bytes: usize, to: &mut dyn Sink, fields: impl FnOnce(&mut AddedSink<'_>)) {
    if count == 0 {
        return length::encode(0, to);
    }
    length::encode(bytes + AROUND, to);
    count.encode(to);
    let mut added = AddedSink { to, files: 0 };
    fields(&mut added);
    added.files.encode(added.to);
}

/// Takes added fields, and counts their files.
pub struct AddedSink<'a> {
    to: &'a mut dyn Sink,
    files: u16,
}

impl Sink for AddedSink<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.to.put(bytes);
    }

    #[inline]
    fn put_file(&mut self, file: BorrowedFd<'_>) {
        // A call has far fewer files than that.
        self.files = self.files.saturating_add(1);
        self.to.put_file(file);
    }
}

/// Supplies added fields, and nothing that follows them.
pub struct AddedSource<'a> {
    from: &'a mut dyn Source,
    /// How many fields have come, and how many of them were asked for.
    count: u8,
    asked: u8,
    /// Bytes of the fields that were not taken.
    left: usize,
    /// Files that were taken.
    files: u16,
}

impl<'a> AddedSource<'a> {
    /// Begins with the number of bytes.
    ///
    /// # Errors
    /// The bytes are not there, or too few for what they begin with.
    #[inline]
    pub fn begin(from: &'a mut dyn Source) -> Result<Self, DecodeError> {
        let (mut count, mut left) = (0, 0);
        let bytes = length::decode::<u8, _>(from)?;
        if bytes > 0 {
            left = bytes.checked_sub(AROUND).ok_or(DecodeError::Truncated)?;
            count = u8::decode(from)?;
            // It would differ from what a writer without added fields says.
            if count == 0 {
                return Err(DecodeError::BadValue { of: "the number of added fields" });
            }
        }
        Ok(Self { from, count, asked: 0, left, files: 0 })
    }

    /// Whether the next field has come. Otherwise it has its default.
    #[inline]
    pub fn has_next(&mut self) -> bool {
        let has = self.asked < self.count;
        self.asked = self.asked.saturating_add(1);
        has
    }

    /// Skips the fields that this reader does not know. It has asked for all that it knows.
    ///
    /// # Errors
    /// There are bytes or files that belong to no field, or fewer files than there should be.
    #[inline]
    pub fn end(mut self) -> Result<(), DecodeError> {
        if self.count == 0 {
            return Ok(());
        }
        let unknown = self.count > self.asked;
        if !unknown && self.left > 0 {
            return Err(DecodeError::LeftOver(self.left));
        }
        self.skip()?;
        let files = u16::decode(self.from)?;
        let files = files.checked_sub(self.files).ok_or(DecodeError::NoFile)?;
        if !unknown && files > 0 {
            return Err(DecodeError::FilesLeftOver(files.into()));
        }
        // Files come in the order of the values, so the next file is one of these.
        (0..files).try_for_each(|_| self.from.take_file().map(drop))
    }

    /// Skips the bytes that are left.
    fn skip(&mut self) -> Result<(), DecodeError> {
        let mut skipped = [0; 256];
        while self.left > 0 {
            let now = self.left.min(skipped.len());
            self.take(&mut skipped[..now])?;
        }
        Ok(())
    }

    /// Counts `len` bytes as taken.
    #[inline]
    fn count(&mut self, len: usize) -> Result<(), DecodeError> {
        self.left = self.left.checked_sub(len).ok_or(DecodeError::Truncated)?;
        Ok(())
    }
}

impl Source for AddedSource<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        self.left
    }

    #[inline]
    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        self.count(out.len())?;
        self.from.take(out)
    }

    #[inline]
    fn take_vec(&mut self, len: usize) -> Result<Vec<u8>, DecodeError> {
        self.count(len)?;
        self.from.take_vec(len)
    }

    #[inline]
    fn take_file(&mut self) -> Result<OwnedFd, DecodeError> {
        let file = self.from.take_file()?;
        self.files = self.files.saturating_add(1);
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::fs::File;
    use std::os::fd::AsFd;

    /// Encodes `count` fields that `fields` puts.
    fn encoded(count: u8, bytes: usize, fields: impl FnOnce(&mut AddedSink<'_>)) -> Vec<u8> {
        let mut to = Vec::new();
        encode(count, bytes, &mut to, fields);
        assert_eq!(to.len(), size(count, bytes));
        to
    }

    /// Decodes up to two numbers. Their defaults are 8 and 9.
    fn decoded(known: u8, mut bytes: &[u8]) -> Result<[u16; 2], DecodeError> {
        let mut numbers = [8, 9];
        let mut added = AddedSource::begin(&mut bytes)?;
        for number in &mut numbers[..usize::from(known)] {
            if added.has_next() {
                *number = u16::decode(&mut added)?;
            }
        }
        added.end()?;
        if bytes.is_empty() { Ok(numbers) } else { Err(DecodeError::LeftOver(bytes.len())) }
    }

    #[test]
    fn unknown_fields_are_skipped_and_missing_ones_have_defaults() {
        let none = encoded(0, 0, |_| panic!("there is none"));
        let one = encoded(1, 2, |to| 1u16.encode(to));
        let two = encoded(2, 4, |to| (1u16, 2u16).encode(to));
        let many = encoded(255, 1004, |to| (1u16, 2u16, [7u8; 1000]).encode(to));
        for (known, bytes, numbers) in [
            (0, &none, [8, 9]),
            (2, &none, [8, 9]),
            (0, &one, [8, 9]),
            (1, &one, [1, 9]),
            (2, &one, [1, 9]),
            (1, &two, [1, 9]),
            (2, &two, [1, 2]),
            (0, &many, [8, 9]),
            (2, &many, [1, 2]),
        ] {
            assert_eq!(decoded(known, bytes), Ok(numbers), "{known} of {bytes:?}");
            for end in 0..bytes.len() {
                assert!(decoded(known, &bytes[..end]).is_err());
            }
        }
    }

    #[test]
    fn bytes_of_no_field_are_refused() {
        let long = encoded(1, 3, |to| [1u8; 3].encode(to));
        assert_eq!(decoded(1, &long), Err(DecodeError::LeftOver(1)));
        assert_eq!(decoded(0, &long), Ok([8, 9]), "an old reader can't know the size of the field");
        let short = encoded(2, 3, |to| [1u8; 3].encode(to));
        assert_eq!(decoded(2, &short), Err(DecodeError::Truncated));
        assert_eq!(decoded(0, &[2, 1, 0]), Err(DecodeError::Truncated));
        assert!(matches!(decoded(2, &[3, 0, 0, 0]), Err(DecodeError::BadValue { .. })));
        assert_eq!(decoded(0, &[255; 20]), Err(DecodeError::Truncated));
        assert_eq!(decoded(0, &[4, 1, 9, 1, 0]), Err(DecodeError::NoFile));
    }

    /// Bytes with files beside them.
    struct WithFiles<'a>(&'a [u8], VecDeque<OwnedFd>);

    impl Source for WithFiles<'_> {
        fn remaining(&self) -> usize {
            self.0.len()
        }

        fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
            self.0.take(out)
        }

        fn take_file(&mut self) -> Result<OwnedFd, DecodeError> {
            self.1.pop_front().ok_or(DecodeError::NoFile)
        }
    }

    #[test]
    fn files_of_unknown_fields_are_skipped_too() {
        let file = || File::open("/dev/null").unwrap();
        let two = encoded(2, 0, |to| [file(), file()].iter().for_each(|file| to.put_file(file.as_fd())));
        for (known, behind) in [(0, 1), (1, 1), (2, 1)] {
            let files = (0..2 + behind).map(|_| file().into()).collect();
            let mut from = WithFiles(&two, files);
            let mut added = AddedSource::begin(&mut from).unwrap();
            for _ in 0..known {
                assert!(added.has_next());
                File::decode(&mut added).unwrap();
            }
            added.end().unwrap();
            assert_eq!(from.1.len(), behind, "the files of the next value are left");
        }
        let mut from = WithFiles(&two, VecDeque::new());
        assert_eq!(AddedSource::begin(&mut from).unwrap().end(), Err(DecodeError::NoFile));
        let lies = encoded(1, 0, |to| to.files = 1);
        let mut from = WithFiles(&lies, VecDeque::from([file().into()]));
        let mut added = AddedSource::begin(&mut from).unwrap();
        assert!(added.has_next());
        assert_eq!(added.end(), Err(DecodeError::FilesLeftOver(1)));
    }
}
