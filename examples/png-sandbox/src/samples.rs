//! Files to decode: good ones, damaged ones, and such that mean harm.

use crate::decoder::EVIL;
use std::io::Write;

/// A colourful image of `width` × `height` pixels.
pub fn good(width: u32, height: u32) -> Vec<u8> {
    let color = |x: u32, y: u32| [x as u8, y as u8, (x ^ y) as u8];
    let pixels: Vec<u8> = (0..height).flat_map(|y| (0..width).flat_map(move |x| color(x, y))).collect();
    encoded(width, height, |writer| writer.write_all(&pixels))
}

/// A good one that ends in the middle of its data.
pub fn truncated() -> Vec<u8> {
    let mut file = good(64, 64);
    file.truncate(file.len() / 2);
    file
}

/// A decompression bomb: some 60 KiB that are 46 MiB of black, on 4,000 × 4,000 pixels.
pub fn bomb() -> Vec<u8> {
    const SIDE: u32 = 4000;
    let row = [0; SIDE as usize * 3];
    encoded(SIDE, SIDE, |writer| (0..SIDE).try_for_each(|_| writer.write_all(&row)))
}

/// Says that it has 100,000 × 100,000 pixels: forty gigabytes.
pub fn boast() -> Vec<u8> {
    let mut file = good(8, 8);
    // The header: length, name, width, height, five bytes, and the sum of name and content.
    file[16..20].copy_from_slice(&100_000u32.to_be_bytes());
    file[20..24].copy_from_slice(&100_000u32.to_be_bytes());
    let sum = checksum(&file[12..29]);
    file[29..33].copy_from_slice(&sum.to_be_bytes());
    file
}

/// A good image with a chunk that takes this example's decoder over: it does what `order` says,
/// `crash`, `loop`, `eat` or `steal`.
pub fn evil(order: &str) -> Vec<u8> {
    let mut file = good(8, 8);
    let mut chunk = (order.len() as u32).to_be_bytes().to_vec();
    chunk.extend_from_slice(EVIL);
    chunk.extend_from_slice(order.as_bytes());
    chunk.extend_from_slice(&checksum(&chunk[4..]).to_be_bytes());
    // After the header.
    file.splice(33..33, chunk);
    file
}

fn encoded(
    width: u32,
    height: u32,
    write: impl FnOnce(&mut png::StreamWriter<'_, &mut Vec<u8>>) -> std::io::Result<()>,
) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().expect("memory takes what is written");
    let mut stream = writer.stream_writer().expect("memory takes what is written");
    write(&mut stream).expect("memory takes what is written");
    stream.finish().expect("all rows are there");
    writer.finish().expect("memory takes what is written");
    file
}

/// The sum at the end of each chunk (CRC-32).
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| {
        (0..8).fold(
            sum ^ u32::from(byte),
            |sum, _| if sum & 1 == 1 { 0xedb8_8320 ^ (sum >> 1) } else { sum >> 1 },
        )
    })
}
