//! Compresses and decompresses reports by gzip (RFC 1952), in memory and within a bound.

use std::io::{self, Read, Write};

use anyhow::anyhow;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::input::too_long_error;
use crate::system::errors::{ErrorExt, io_error};

/// First bytes of gzip data (RFC 1952, 2.3.1).
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Maximum ratio of decompressed to compressed bytes of a report. Reports have ratios of 5 to 10; the maximum of the format
/// is 1032.
const MAX_RATIO: u64 = 256;

/// Decompressed size, 1 MiB, up to which [`MAX_RATIO`] is not checked: so few bytes take hardly any time or memory.
const UNCHECKED_BYTES: u64 = 1 << 20;

/// Compresses bytes. Equal bytes give equal results, since the header has neither time nor name. Never fails.
pub fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Decompresses gzip data; other data is returned unchanged. Fails, without decompressing further, if the data is damaged,
/// or if the result exceeds `most` bytes or the ratio `MAX_RATIO`.
pub fn decompress(bytes: Vec<u8>, most: u64) -> io::Result<Vec<u8>> {
    if !bytes.starts_with(&MAGIC) {
        return Ok(bytes);
    }
    let ratio_bound = (bytes.len() as u64).saturating_mul(MAX_RATIO).max(UNCHECKED_BYTES);
    let bound = most.min(ratio_bound);
    let mut decompressed = Vec::new();
    let result = MultiGzDecoder::new(&*bytes).take(bound + 1).read_to_end(&mut decompressed);
    result.map_err(|error| {
        let damaged = anyhow!("it is packed by gzip and damaged: {error}").hint("copy it anew, or write it again");
        io_error(io::ErrorKind::InvalidData, damaged)
    })?;
    if decompressed.len() as u64 <= bound {
        return Ok(decompressed);
    }
    if bound == most {
        return Err(too_long_error(most));
    }
    let ratio_error =
        anyhow!("it unpacks to more than {MAX_RATIO} times its {} bytes, the most that is unpacked", bytes.len());
    Err(io_error(io::ErrorKind::FileTooLarge, ratio_error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_packed_and_unpacked_again() {
        let text = b"{\"a\": [1, 2, 3]}".repeat(100);
        let small = compress(&text).unwrap();
        assert!(small.starts_with(&MAGIC) && small.len() < text.len() / 10);
        assert_eq!(small, compress(&text).unwrap());
        assert_eq!(decompress(small.clone(), 1 << 30).unwrap(), text);
        // One file after the other is one file, as gzip has it.
        assert_eq!(decompress([small.clone(), small].concat(), 1 << 30).unwrap(), text.repeat(2));
        assert_eq!(decompress(text.clone(), 1 << 30).unwrap(), text);
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let zeros = compress(&vec![0; 3 << 20]).unwrap();
        let error = decompress(zeros.clone(), 1 << 30).unwrap_err().to_string();
        insta::assert_snapshot!(error.replace(&format!(" {} bytes", zeros.len()), " SIZE bytes"), @"it unpacks to more than 256 times its SIZE bytes, the most that is unpacked");
        let error = decompress(zeros, 1000).unwrap_err().to_string();
        assert_eq!(error, "it has more than 1000 bytes, the most that is read of it");
        let text = compress(b"some text that is long enough to be cut").unwrap();
        let error = decompress(text[..text.len() - 5].to_vec(), 1000).unwrap_err().to_string();
        assert!(error.starts_with("it is packed by gzip and damaged: "), "{error}");
    }
}
