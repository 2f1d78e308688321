//! What the command line asks for.

use crate::event::DemoDomain;
use lexopt::{Arg, Error, Parser, ValueExt};
use std::ffi::OsString;
use std::path::PathBuf;

/// What `underpass-demo --help` prints.
pub const HELP: &str = "\
An editor, a window manager and a file cache manager in three processes: the URPC paper's Figure 1 on real work

Usage: underpass-demo [OPTIONS] [FILE]

Arguments:
  [FILE]  The file to edit a copy of; without it, the demo makes a text of some MB

Options:
      --json        Print everything as one JSON object, and nothing else, on standard output
      --svg <FILE>  Draw the timeline into this file
      --quick       A smaller text and fewer rounds: about three seconds
      --serve       Serve the file cache and the windows of the demo, for `underpass ls`, `describe`, `call` and `top`
                    to look at; needs a FILE
      --edit        Call what another process serves by `--serve`, without a pause
  -h, --help        Print help
  -V, --version     Print version
";

/// What the demo is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DemoOptions {
    /// The file to edit a copy of. Without it, the demo makes a text.
    pub file: Option<PathBuf>,
    /// One JSON object is printed, and nothing else.
    pub json: bool,
    /// The timeline is drawn into this file.
    pub svg: Option<PathBuf>,
    /// A smaller text and fewer rounds.
    pub quick: bool,
    pub(crate) serve: bool,
    pub(crate) edit: bool,
    /// The part for which the demo has started this program.
    pub(crate) role: Option<DemoDomain>,
    /// Help is wanted, and nothing else.
    pub help: bool,
    /// The version is wanted, and nothing else.
    pub version: bool,
}

impl DemoOptions {
    /// Reads the words of a command line, without the command's name.
    ///
    /// # Errors
    /// If there is no such option, if a value is missing, or if two options exclude each other. The
    /// error says which.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut words = Parser::from_args(words);
        while let Some(word) = words.next()? {
            match word {
                Arg::Long("json") => options.json = true,
                Arg::Long("svg") => options.svg = Some(words.value()?.into()),
                Arg::Long("quick") => options.quick = true,
                Arg::Long("serve") => options.serve = true,
                Arg::Long("edit") => options.edit = true,
                Arg::Long("role") => options.role = Some(words.value()?.parse_with(DemoDomain::named)?),
                Arg::Short('h') | Arg::Long("help") => options.help = true,
                Arg::Short('V') | Arg::Long("version") => options.version = true,
                Arg::Value(file) if options.file.is_none() => options.file = Some(file.into()),
                other => return Err(other.unexpected()),
            }
        }
        options.excluded().map_or(Ok(options), |why| Err(Error::Custom(why.into())))
    }

    /// Why these options can't stand together, if they can't.
    fn excluded(&self) -> Option<&'static str> {
        let shows = self.json || self.svg.is_some() || self.quick;
        match self {
            Self { edit: true, .. } if shows || self.serve || self.file.is_some() => {
                Some("--edit goes with no other option and no file")
            }
            Self { serve: true, .. } if shows => Some("--serve goes with no other option"),
            Self { serve: true, file: None, help: false, .. } => Some("--serve needs a file: --serve FILE"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<DemoOptions, String> {
        DemoOptions::read(words.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn options_come_in_any_order() {
        let read = read("--quick text --svg=a.svg --json").unwrap();
        assert_eq!((read.file, read.svg), (Some("text".into()), Some("a.svg".into())));
        assert!(read.quick && read.json && !read.serve);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (words, why) in [
            ("--serve", "needs a file"),
            ("--serve text --json", "no other option"),
            ("--edit text", "no file"),
            ("--svg", "--svg"),
            ("a b", "\"b\""),
            ("--fast", "--fast"),
            ("--role nobody", "nobody"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.contains(why), "{words}: {error}");
        }
    }
}
