//! What a call does: the server returns the bytes that it got, with one added to their number.
//!
//! The first eight bytes are a number that differs from call to call. So an answer that belongs to
//! another call, or that nobody has worked for, is found out. A call without bytes is a Null.

use crate::Outcome;

/// The bytes of the number.
const NUMBER: usize = 8;

/// The request of a caller, and what its answer has to be.
#[derive(Debug)]
pub struct Work {
    request: Vec<u8>,
    number: u64,
}

impl Work {
    /// Calls of this many bytes each way: none, or eight and more.
    pub fn new(bytes: usize) -> Self {
        let request = (0..bytes).map(|at| at as u8).collect();
        Self { request, number: 0 }
    }

    /// The next call.
    pub(crate) fn advance(&mut self) {
        self.number += 1;
        if let Some(first) = self.request.first_chunk_mut::<NUMBER>() {
            *first = self.number.to_le_bytes();
        }
    }

    /// The bytes to send.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Whether `answer` is the one to this request. It looks at the length, the number and the last
    /// byte.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, answer: &[u8]) -> Outcome {
        let (sent, came) = (self.request.len(), answer.len());
        if sent != came {
            return Err(format!("the answer has {came} bytes, and the request {sent}").into());
        }
        let Some((number, rest)) = answer.split_first_chunk::<NUMBER>() else { return Ok(()) };
        let number = u64::from_le_bytes(*number);
        if number != self.number + 1 {
            return Err(format!("the answer to call {} has the number {number}", self.number).into());
        }
        if rest.last() != self.request[NUMBER..].last() {
            return Err(format!("the answer to call {} ends with another byte", self.number).into());
        }
        Ok(())
    }
}

/// The server's work: writes the answer to `request` into `to`, which is as long.
///
/// # Panics
/// The two differ in length.
#[inline]
pub fn answer(request: &[u8], to: &mut [u8]) {
    to.copy_from_slice(request);
    increment(to);
}

/// The server's work where it owns the request: it becomes the answer.
#[inline]
pub fn answer_in_place(mut request: Vec<u8>) -> Vec<u8> {
    increment(&mut request);
    request
}

fn increment(bytes: &mut [u8]) {
    if let Some(first) = bytes.first_chunk_mut::<NUMBER>() {
        *first = (u64::from_le_bytes(*first) + 1).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_work_is_the_answer() {
        for bytes in [0, 8, 9, 200] {
            let mut work = Work::new(bytes);
            work.advance();
            let mut copy = vec![0; bytes];
            answer(work.request(), &mut copy);
            work.check(&copy).unwrap();
            assert_eq!(answer_in_place(work.request().to_vec()), copy);
        }
    }

    #[test]
    fn nothing_else_is_the_answer() {
        let mut work = Work::new(200);
        work.advance();
        let right = answer_in_place(work.request().to_vec());
        let told = |bytes: &[u8]| work.check(bytes).unwrap_err().to_string();
        assert!(told(work.request()).contains("number 1"));
        assert!(told(&right[..199]).contains("199 bytes"));
        assert!(told(&[&right[..199], &[0]].concat()).contains("another byte"));
        work.advance();
        assert!(work.check(&right).is_err(), "the answer to the call before was taken");
    }
}
