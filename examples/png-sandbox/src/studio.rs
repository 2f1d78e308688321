//! What keeps a sandboxed decoder at hand, and starts a new one when a file has ended it.

use crate::{Decoder, DecoderClient, Image, PngDecoder, PngError};
use std::time::Duration;
use underpass::sandbox::{Domain, Ended, Inside, StartError};
use underpass::{CallError, Sandbox, Server};

/// The most time that one file gets.
const TIME: Duration = Duration::from_secs(2);

/// What became of a file.
#[derive(Debug)]
pub enum Fate {
    /// It is an image.
    Decoded(Image),
    /// It is none, or too large; the decoder said so.
    Refused(String),
    /// The decoder could not be asked, and lives.
    Failed(CallError),
    /// It cost the decoder its life. The next file gets a new one.
    Ended(Ended),
}

/// Decodes files, one after the other, in a process that may die of any of them.
#[derive(Debug)]
pub struct Studio {
    sandbox: Sandbox,
    name: String,
    at_work: Option<(Domain, DecoderClient)>,
    starts: u32,
}

impl Studio {
    /// One whose decoders are `sandbox`'s, and serve as `name`.
    pub fn new(sandbox: Sandbox, name: &str) -> Self {
        let sandbox = sandbox.arg(name).memory(128 << 20).largest(80 << 20);
        Self { sandbox, name: name.to_owned(), at_work: None, starts: 0 }
    }

    /// The other half: what the sandboxed process does.
    ///
    /// # Errors
    /// It can't serve; the message says why.
    pub fn serve(inside: Inside, name: &str) -> Result<std::convert::Infallible, StartError> {
        inside.serve(Server::new().export(name, Decoder::serve(PngDecoder)))
    }

    /// How many decoders were started so far.
    pub fn starts(&self) -> u32 {
        self.starts
    }

    /// Decodes a file.
    ///
    /// # Errors
    /// No decoder can be started: nothing that has to do with the file.
    pub fn decode(&mut self, file: &[u8]) -> Result<Fate, Box<dyn std::error::Error>> {
        let (domain, decoder) = self.at_work()?;
        let fate = match domain.within(TIME, || decoder.decode(file)) {
            Ok(image) => return Ok(Fate::Decoded(image)),
            Err(PngError::File(why)) => return Ok(Fate::Refused(why)),
            Err(PngError::Call(CallError::PeerDied(_))) => Fate::Ended(domain.wait()),
            Err(PngError::Call(failed)) => return Ok(Fate::Failed(failed)),
        };
        self.at_work = None;
        Ok(fate)
    }

    /// The decoder that lives, or a new one.
    fn at_work(&mut self) -> Result<&(Domain, DecoderClient), Box<dyn std::error::Error>> {
        // It may have died between two files.
        let alive = self.at_work.take().filter(|(domain, _)| domain.ended().is_none());
        let at_work = match alive {
            Some(alive) => alive,
            None => {
                self.starts += 1;
                (self.sandbox.start()?, DecoderClient::import(&self.name)?)
            }
        };
        Ok(self.at_work.insert(at_work))
    }
}
