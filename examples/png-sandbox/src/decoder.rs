//! The interface, and what stands behind it.

use std::fs;
use std::io::Cursor;
use underpass::{CallError, Wire};

/// A decoded image: rows of red, green, blue and opacity, 8 bits each.
#[derive(Clone, Debug, PartialEq, Wire)]
pub struct Image {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// `width` × `height` × 4 bytes.
    pub pixels: Vec<u8>,
}

/// Why a file is no image.
#[derive(Clone, Debug, PartialEq, Wire)]
pub enum PngError {
    /// The file is damaged, or too large to decode. The decoder is fine.
    File(String),
    /// The call failed: most likely the decoder's process has ended.
    Call(CallError),
}

impl From<CallError> for PngError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

/// Decodes images.
#[underpass::interface]
pub trait Decoder {
    /// Decodes a file in the PNG format.
    ///
    /// # Errors
    /// [`PngError::File`]: the file is to blame; [`PngError::Call`]: the decoder's process is.
    fn decode(&self, file: &[u8]) -> Result<Image, PngError>;
}

/// Decodes with the `png` crate.
#[derive(Debug)]
pub struct PngDecoder;

impl Decoder for PngDecoder {
    fn decode(&self, file: &[u8]) -> Result<Image, PngError> {
        obey(file);
        let told = |e: png::DecodingError| PngError::File(e.to_string());
        let mut decoder = png::Decoder::new(Cursor::new(file));
        decoder
            .set_transformations(png::Transformations::normalize_to_color8() | png::Transformations::ALPHA);
        let mut reader = decoder.read_info().map_err(told)?;
        let size = reader.output_buffer_size().ok_or_else(|| PngError::File("it has no end".to_owned()))?;
        let mut bytes = Vec::new();
        // A file of a few hundred bytes may ask for gigabytes. The sandbox has a limit. A file that
        // declares a larger size honestly gets an error.
        bytes
            .try_reserve_exact(size)
            .map_err(|_| PngError::File(format!("it needs {size} bytes of memory")))?;
        bytes.resize(size, 0);
        let frame = reader.next_frame(&mut bytes).map_err(told)?;
        bytes.truncate(frame.buffer_size());
        let pixels = match frame.color_type {
            png::ColorType::Rgba => bytes,
            // Opacity is added to greys too.
            _ => bytes.chunks_exact(2).flat_map(|grey| [grey[0], grey[0], grey[0], grey[1]]).collect(),
        };
        Ok(Image { width: frame.width, height: frame.height, pixels })
    }
}

/// The chunk by which a file takes this decoder over.
pub(crate) const EVIL: &[u8; 4] = b"evIl";

/// Does what a chunk of ours says: the part of a fault that the `png` crate doesn't have.
fn obey(file: &[u8]) {
    let Some(at) = file.windows(4).position(|window| window == EVIL) else { return };
    let order = &file[at + 4..];
    if order.starts_with(b"crash") {
        std::process::abort();
    } else if order.starts_with(b"loop") {
        loop {
            std::hint::spin_loop();
        }
    } else if order.starts_with(b"eat") {
        let mut eaten = Vec::new();
        loop {
            eaten.push(vec![1u8; 1 << 20]);
        }
    } else if order.starts_with(b"steal") {
        // An attacker who took the decoder over would look for secrets, and for a way to send them.
        match fs::read("/etc/passwd") {
            Ok(secrets) => eprintln!("the decoder has {} bytes of secrets", secrets.len()),
            Err(e) => eprintln!("the decoder can't open files: {e}"),
        }
        let sent = std::net::TcpStream::connect(("127.0.0.1", 80));
        eprintln!("the decoder was let out: {sent:?}");
    }
}
