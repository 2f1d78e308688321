//! Decodes files that mean harm: `cargo run -p png-sandbox`, or `cargo run -p png-sandbox FILE...`
//! for files of your own.
#![forbid(unsafe_code)]

use png_sandbox::{Fate, Studio, samples};
use std::error::Error;
use underpass::{Sandbox, sandbox};

fn main() -> Result<(), Box<dyn Error>> {
    // The same program in its other role: the decoder. It does not come back.
    if let Some(inside) = sandbox::inside()? {
        let name = std::env::args().nth(1).ok_or("a decoder needs a name")?;
        match Studio::serve(inside, &name)? {}
    }
    let name = format!("png-sandbox-{}", std::process::id());
    let mut studio = Studio::new(Sandbox::this_program(), &name);
    let given: Vec<String> = std::env::args().skip(1).collect();
    let files = match given.is_empty() {
        true => samples(),
        false => {
            let read = |path: &String| std::fs::read(path).map(|file| (path.clone(), file));
            given.iter().map(read).collect::<Result<_, _>>()?
        }
    };
    for (what, file) in files {
        let told = match studio.decode(&file)? {
            Fate::Decoded(image) => format!("{} x {} pixels", image.width, image.height),
            Fate::Refused(why) => format!("refused: {why}"),
            Fate::Failed(e) => format!("failed: {e}"),
            Fate::Ended(how) => format!("cost a decoder: {how}"),
        };
        println!("{what:>22} ({:>6} bytes): {told}", file.len());
    }
    println!("{} decoders were started, and this program has seen every file to its end", studio.starts());
    Ok(())
}

fn samples() -> Vec<(String, Vec<u8>)> {
    let files = [
        ("a good image", samples::good(640, 480)),
        ("a truncated one", samples::truncated()),
        ("a decompression bomb", samples::bomb()),
        ("forty gigabytes of it", samples::boast()),
        ("one that crashes", samples::evil("crash")),
        ("one that loops", samples::evil("loop")),
        ("one that eats memory", samples::evil("eat")),
        ("one that steals", samples::evil("steal")),
        ("a good image", samples::good(32, 32)),
    ];
    files.map(|(what, file)| (what.to_owned(), file)).into()
}
