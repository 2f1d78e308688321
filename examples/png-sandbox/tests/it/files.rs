//! Every file comes to its end, and none takes the program along.

use png_sandbox::{Decoder, Fate, Image, PngDecoder, PngError, Studio, samples};
use std::process::Command;
use std::time::Duration;
use underpass::Sandbox;
use underpass::sandbox::Ended;

const PROGRAM: &str = env!("CARGO_BIN_EXE_png-sandbox");

/// Ends the process if a test hangs.
fn watch() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(120));
        eprintln!("a test hangs");
        std::process::abort();
    });
}

fn studio(of: &str) -> Studio {
    Studio::new(Sandbox::program(PROGRAM).silent(), &format!("test-{}-{of}", std::process::id()))
}

fn ended(fate: Fate) -> Ended {
    match fate {
        Fate::Ended(how) => how,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_image_is_what_it_is_without_a_sandbox() {
    watch();
    let mut studio = studio("good");
    // The largest travels in a file in memory; greys and palettes are made colours of.
    for file in [samples::good(1, 1), samples::good(640, 480), samples::bomb(), grey()] {
        let plain = PngDecoder.decode(&file).unwrap();
        assert_eq!(plain.pixels.len(), plain.width as usize * plain.height as usize * 4);
        match studio.decode(&file).unwrap() {
            Fate::Decoded(image) => assert!(image == plain, "{} x {}", image.width, image.height),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(studio.starts(), 1, "good files cost no decoder");
}

/// Two pixels, black and white.
fn grey() -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 2, 1);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[0, 255]).unwrap();
    let decoded = PngDecoder.decode(&file).unwrap();
    assert_eq!(decoded, Image { width: 2, height: 1, pixels: vec![0, 0, 0, 255, 255, 255, 255, 255] });
    file
}

#[test]
fn a_damaged_file_costs_nothing() {
    watch();
    let mut studio = studio("damaged");
    let whole = samples::good(16, 16);
    let mut files = vec![samples::truncated(), samples::boast(), b"no image".to_vec(), Vec::new()];
    files.extend((1..whole.len()).map(|end| whole[..end].to_vec()));
    for at in 8..whole.len() {
        let mut file = whole.clone();
        file[at] ^= 0x55;
        files.push(file);
    }
    for file in files {
        let plain = match std::panic::catch_unwind(|| PngDecoder.decode(&file)) {
            // That many pixels depend on the memory of this machine; in the sandbox there never is
            // enough.
            _ if file == samples::boast() => Err(()),
            Ok(plain) => plain.map_err(|_: PngError| ()),
            Err(_) => panic!("the png crate panics"),
        };
        match (studio.decode(&file).unwrap(), plain) {
            (Fate::Decoded(image), Ok(plain)) => assert_eq!(image, plain),
            (Fate::Refused(why), Err(())) => assert!(!why.is_empty()),
            // Damage can make it a giant, which is decoded where there is memory enough.
            (Fate::Refused(why), Ok(_)) => assert!(why.contains("memory"), "{why}"),
            (other, plain) => panic!("{other:?}, {}", plain.is_ok()),
        }
    }
    assert_eq!(studio.starts(), 1, "damaged files cost no decoder");
}

#[test]
fn an_evil_file_costs_one_call() {
    watch();
    let mut studio = studio("evil");
    let good = samples::good(32, 32);
    for (order, round) in ["crash", "eat", "steal", "loop"].into_iter().zip(1..) {
        let how = ended(studio.decode(&samples::evil(order)).unwrap());
        match (order, &how) {
            ("crash" | "eat", Ended::Signal(6)) | ("loop", Ended::Late(_)) => {}
            ("steal", Ended::Forbidden { .. }) => assert_eq!(how.forbidden_call(), Some("socket")),
            other => panic!("{other:?}"),
        }
        assert!(matches!(studio.decode(&good).unwrap(), Fate::Decoded(_)), "the next file after {order}");
        assert_eq!(studio.starts(), round + 1);
    }
}

#[test]
fn the_program_sees_every_file_to_its_end() {
    watch();
    let ran = Command::new(PROGRAM).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(said.matches("cost a decoder").count(), 4, "{said}");
    assert_eq!(said.matches("a good image").count(), 2, "{said}");
    assert!(said.contains("640 x 480 pixels") && said.contains("32 x 32 pixels"), "{said}");
    assert!(said.contains("5 decoders were started"), "{said}");
}
