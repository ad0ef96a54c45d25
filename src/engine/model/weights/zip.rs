//! Reads the directory of a zip archive of stored files, as PyTorch writes it (PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and
//! 4.4). No library is used, because this reader must not trust a file. No allocation depends only on a number in the file.
//! Compressed or encrypted data, and data outside the file, are refused.

use std::ops::Range;

use anyhow::{Context, Result, anyhow, ensure};

use crate::model::files::ModelFile;
use crate::system::errors::ErrorExt;

/// A file in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArchiveEntry {
    pub name: String,
    /// The range of the entry's bytes in the archive.
    pub byte_range: Range<u64>,
}

/// First bytes of a zip archive.
pub(super) const MAGIC: [u8; 4] = *b"PK\x03\x04";

/// Longest accepted entry name, in bytes; PyTorch names entries after the archive and numbers them.
const MAX_NAME_BYTES: u16 = 1000;

/// A kind of record in a zip archive: its signature, and the length in bytes of its fixed part.
struct RecordKind<N> {
    /// Signature at the beginning of the record.
    mark: u32,
    /// Length of the fixed part in bytes.
    bytes: N,
}

/// Record at the end of the archive.
const END_RECORD: RecordKind<u64> = RecordKind { mark: 0x0605_4b50, bytes: 22 };
/// Record that locates the 64-bit end record.
const LOCATOR_64_RECORD: RecordKind<u64> = RecordKind { mark: 0x0706_4b50, bytes: 20 };
/// End record with 64-bit sizes.
const END_64_RECORD: RecordKind<u64> = RecordKind { mark: 0x0606_4b50, bytes: 56 };
/// Entry of the archive's directory.
const ENTRY_RECORD: RecordKind<usize> = RecordKind { mark: 0x0201_4b50, bytes: 46 };
/// Record before the data of an entry.
const LOCAL_RECORD: RecordKind<u64> = RecordKind { mark: 0x0403_4b50, bytes: 30 };

/// Reads the archive's directory: the name and byte range of each entry.
pub(super) fn read_entries(file: &ModelFile) -> Result<Vec<ArchiveEntry>> {
    let size = file.size();
    let (start, bytes) = locate_directory(file)?;
    ensure!(start.checked_add(bytes).is_some_and(|end| end <= size), "its directory lies outside the file");
    // The directory of a model of a thousand layers has about 2 MB.
    ensure!(bytes <= 1 << 26, "its directory has {bytes} bytes: no model has so many tensors");
    let directory = read_range(file, start, bytes)?;
    let mut rest = directory.as_slice();
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (entry, bytes) = parse_entry(file, rest).with_context(|| format!("entry {}", entries.len()))?;
        entries.push(entry);
        rest = &rest[bytes..];
    }
    Ok(entries)
}

/// Returns (offset of the archive's directory, its length), in bytes. Fails if the end record is missing or damaged.
fn locate_directory(file: &ModelFile) -> Result<(u64, u64)> {
    let size = file.size();
    let missing = || anyhow!("its end is missing").hint("download it again");
    let end_start = size.checked_sub(END_RECORD.bytes).ok_or_else(missing)?;
    let end = read_range(file, end_start, END_RECORD.bytes)?;
    ensure!(u32_at(&end, 0)? == END_RECORD.mark, missing());
    let (bytes, start) = (u32_at(&end, 12)?, u32_at(&end, 16)?);
    let locator_start = end_start.checked_sub(LOCATOR_64_RECORD.bytes);
    let locator =
        locator_start.map(|start| read_range(file, start, LOCATOR_64_RECORD.bytes)).transpose()?.unwrap_or_default();
    if u32_at(&locator, 0).ok() != Some(LOCATOR_64_RECORD.mark) {
        return Ok((start.into(), bytes.into()));
    }
    let place = u64_at(&locator, 8)?;
    let inside = place.checked_add(END_64_RECORD.bytes).is_some_and(|end| end <= size);
    ensure!(inside, "its end lies outside the file");
    let end = read_range(file, place, END_64_RECORD.bytes)?;
    ensure!(u32_at(&end, 0)? == END_64_RECORD.mark, "its end is damaged");
    Ok((u64_at(&end, 48)?, u64_at(&end, 40)?))
}

/// Returns (first entry of a directory, length of this entry in the directory). Fails if the entry is damaged, compressed or
/// encrypted.
fn parse_entry(file: &ModelFile, directory: &[u8]) -> Result<(ArchiveEntry, usize)> {
    let size = file.size();
    let damaged = || "its directory is damaged";
    ensure!(u32_at(directory, 0)? == ENTRY_RECORD.mark, damaged());
    let [name, extra, comment] = [u16_at(directory, 28)?, u16_at(directory, 30)?, u16_at(directory, 32)?];
    let extra_start = ENTRY_RECORD.bytes + usize::from(name);
    let extra_end = extra_start + usize::from(extra);
    let end = extra_end + usize::from(comment);
    ensure!(end <= directory.len(), damaged());
    ensure!(name <= MAX_NAME_BYTES, "a name of {name} bytes");
    let name = String::from_utf8_lossy(&directory[ENTRY_RECORD.bytes..extra_start]).into_owned();
    let (flags, method) = (u16_at(directory, 8)?, u16_at(directory, 10)?);
    ensure!(flags & 1 == 0 && method == 0, "`{}` is compressed or encrypted", name.escape_debug());
    let sizes = [u32_at(directory, 20)?, u32_at(directory, 24)?, u32_at(directory, 42)?];
    let [compressed, uncompressed, local] = widen_sizes(sizes, &directory[extra_start..extra_end])?;
    ensure!(compressed == uncompressed, "`{}` has two sizes", name.escape_debug());
    let outside = || anyhow!("`{}` lies outside the file", name.escape_debug()).hint("download it again");
    ensure!(local.checked_add(LOCAL_RECORD.bytes).is_some_and(|end| end <= size), outside());
    let header = read_range(file, local, LOCAL_RECORD.bytes)?;
    ensure!(u32_at(&header, 0)? == LOCAL_RECORD.mark, "`{}` is not where the directory says", name.escape_debug());
    let start = local + LOCAL_RECORD.bytes + u64::from(u16_at(&header, 26)?) + u64::from(u16_at(&header, 28)?);
    let stop = start.checked_add(compressed).filter(|stop| *stop <= size).ok_or_else(outside)?;
    Ok((ArchiveEntry { name, byte_range: start..stop }, end))
}

/// Returns `[compressed size, uncompressed size, offset]` of an entry, in bytes. Values that do not fit into 32 bits come from
/// the extra field.
fn widen_sizes(sizes: [u32; 3], mut extra: &[u8]) -> Result<[u64; 3]> {
    /// Identifier of 64-bit sizes in the extra field.
    const ZIP_64: u16 = 1;
    let mut wide_sizes = sizes.map(u64::from);
    // The uncompressed size comes second in the directory and first in the extra field.
    let order = [1, 0, 2];
    while extra.len() >= 4 {
        let (id, length) = (u16_at(extra, 0)?, usize::from(u16_at(extra, 2)?));
        let field = extra.get(4..4 + length).context("its directory is damaged")?;
        if id == ZIP_64 {
            let in_field = order.into_iter().filter(|&index| sizes[index] == u32::MAX);
            for (place, index) in in_field.enumerate() {
                wide_sizes[index] = u64_at(field, 8 * place)?;
            }
        }
        extra = &extra[4 + length..];
    }
    Ok(wide_sizes)
}

/// Reads `bytes` bytes of the file from `start` on.
fn read_range(file: &ModelFile, start: u64, bytes: u64) -> Result<Vec<u8>> {
    let mut buffer = vec![0; usize::try_from(bytes)?];
    file.read_at(&mut buffer, start)?;
    Ok(buffer)
}

/// Returns `N` bytes from `place` on. Fails if there are fewer.
fn bytes_at<const N: usize>(bytes: &[u8], place: usize) -> Result<[u8; N]> {
    bytes.get(place..).and_then(<[u8]>::first_chunk).copied().context("its directory is damaged")
}

/// Returns the little-endian number at `place`.
fn u16_at(bytes: &[u8], place: usize) -> Result<u16> {
    Ok(u16::from_le_bytes(bytes_at(bytes, place)?))
}

/// Returns the little-endian number at `place`.
fn u32_at(bytes: &[u8], place: usize) -> Result<u32> {
    Ok(u32::from_le_bytes(bytes_at(bytes, place)?))
}

/// Returns the little-endian number at `place`.
fn u64_at(bytes: &[u8], place: usize) -> Result<u64> {
    Ok(u64::from_le_bytes(bytes_at(bytes, place)?))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    use super::*;

    /// An archive of one stored file.
    fn archive() -> Vec<u8> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        archive.start_file("model/data.pkl", stored).unwrap();
        archive.write_all(b"xyz").unwrap();
        archive.finish().unwrap().into_inner()
    }

    fn read(bytes: &[u8]) -> Result<Vec<ArchiveEntry>, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        read_entries(&ModelFile::open(file.path()).unwrap()).map_err(|error| format!("{error:#}"))
    }

    /// The error of the archive with these bytes at a place that is counted from the beginning of its directory.
    fn error(place: usize, bytes: &[u8]) -> String {
        let mut archive = archive();
        let start = archive.windows(4).position(|window| window == ENTRY_RECORD.mark.to_le_bytes()).unwrap();
        archive[start + place..][..bytes.len()].copy_from_slice(bytes);
        read(&archive).unwrap_err()
    }

    #[test]
    fn entries_of_an_archive() {
        let bytes = archive();
        let start = bytes.windows(3).position(|window| window == b"xyz").unwrap() as u64;
        assert_eq!(
            read(&bytes).unwrap(),
            [ArchiveEntry { name: "model/data.pkl".into(), byte_range: start..start + 3 }]
        );
    }

    #[test]
    fn what_the_directory_says_is_checked() {
        let huge = [0xff, 0xff, 0xff, 0x7f];
        assert_eq!(error(10, &[8]), "entry 0: `model/data.pkl` is compressed or encrypted");
        assert_eq!(error(8, &[1]), "entry 0: `model/data.pkl` is compressed or encrypted");
        assert_eq!(error(20, &huge), "entry 0: `model/data.pkl` has two sizes");
        let sizes = [huge, huge].concat();
        assert_eq!(error(20, &sizes), "entry 0: `model/data.pkl` lies outside the file: download it again");
        assert_eq!(error(42, &huge), "entry 0: `model/data.pkl` lies outside the file: download it again");
        assert_eq!(error(42, &[1]), "entry 0: `model/data.pkl` is not where the directory says");
        assert_eq!(error(28, &[0xff, 0xff]), "entry 0: its directory is damaged");
        assert_eq!(error(30, &[0xff, 0xff]), "entry 0: its directory is damaged");
        // A size in an extra field that is not there.
        assert_eq!(error(20, &[0xff; 8]), "entry 0: `model/data.pkl` lies outside the file: download it again");
    }

    #[test]
    fn a_directory_of_any_size() {
        let whole = archive();
        let end = whole.len() - 22;
        for (place, field) in [(12, [0xff, 0xff, 0xff, 0x7f]), (16, [0xff, 0xff, 0xff, 0xff])] {
            let mut bytes = whole.clone();
            bytes[end + place..][..4].copy_from_slice(&field);
            assert_eq!(read(&bytes).unwrap_err(), "its directory lies outside the file");
        }
        // The long form of the end: 2^60 entries in a directory of 2^62 bytes.
        let mut long = END_64_RECORD.mark.to_le_bytes().to_vec();
        long.resize(24, 0);
        [1_u64 << 60, 1 << 60, 1 << 62, 0].iter().for_each(|field| long.extend(field.to_le_bytes()));
        let mut locator = [LOCATOR_64_RECORD.mark, 0].map(u32::to_le_bytes).concat();
        locator.extend((end as u64).to_le_bytes());
        locator.extend(1_u32.to_le_bytes());
        let bytes = [&whole[..end], &long, &locator, &whole[end..]].concat();
        assert_eq!(read(&bytes).unwrap_err(), "its directory lies outside the file");
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_err());
        }
    }
}
