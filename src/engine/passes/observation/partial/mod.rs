//! The partial: a file with one shard's [`Observation`], which `headscope merge` adds to the other shards' files.
//!
//! | bytes | what they are |
//! |---|---|
//! | first line | `MAGIC` and `FORMAT_VERSION` |
//! | second line | a `Header` as JSON |
//! | up to the last 32 | the sums by [postcard](https://postcard.jamesmunns.com/wire-format), compressed as one zstd frame |
//! | last 32 | SHA-256 of all before |
//!
//! A file may be damaged or malicious. Its checksum is tested first, its decompressed size is bounded, and the lengths of all its
//! lists are checked before use.

use std::fmt;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::identity::{Identity, RunInfo};
use super::{Observation, PassSums, Stage};
use crate::passes::observer::ensure_bounded_counts;
use crate::sequences::shard::Shard;
use crate::sequences::tally::Tally;
use crate::system::errors::{ErrorExt, causes};
use crate::system::files::{input, output};

/// The file name extension of partials.
pub const EXTENSION: &str = "headscope";

/// First bytes of every partial; the version of its format follows.
const MAGIC: &str = "headscope partial ";

/// Whether `bytes` begin like a partial, the file of one shard's sums.
pub fn is_partial(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC.as_bytes())
}

/// Version of the format of partials. It is raised whenever header or sums change after a release; a test checks this.
pub const FORMAT_VERSION: u32 = 11;

/// Length of the SHA-256 at the end, in bytes.
const CHECKSUM_BYTES: usize = 32;

/// Maximum size of a partial, in bytes: 1 GiB. The partial of BERT-large, with 384 heads, has 5 MB.
const MAX_PARTIAL_BYTES: u64 = 1 << 30;

/// Decompressed size of the sums, in bytes, up to which [`MAX_DECOMPRESSION_RATIO`] does not apply. The sums of an
/// empty shard are zeros, which compress almost to nothing: 9 MiB for 3000 heads.
const UNCHECKED_UNPACKED_BYTES: u64 = 64 << 20;

/// Maximum ratio of decompressed to compressed bytes. Sums of attention hardly compress; counts of relations compress to a
/// tenth.
const MAX_DECOMPRESSION_RATIO: u64 = 256;

/// The header of a partial: all facts about a shard besides its sums.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub shard: Shard,
    #[serde(default, skip_serializing_if = "is_single_stage")]
    pub stage: Stage,
    pub identity: Identity,
    tally: Tally,
    run: Option<RunInfo>,
}

/// Whether the run has one stage; the header then omits `stage`.
fn is_single_stage(stage: &Stage) -> bool {
    *stage == Stage::Whole
}

/// Error about a damaged partial, as after a full disk or an interrupted copy.
#[derive(Clone, Copy, Debug)]
pub struct DamagedPartial;

impl fmt::Display for DamagedPartial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is damaged or cut short")
    }
}

impl std::error::Error for DamagedPartial {}

impl DamagedPartial {
    /// Whether `error` was caused by a damaged partial.
    pub fn is_cause_of(error: &anyhow::Error) -> bool {
        causes(error.as_ref()).any(<dyn std::error::Error>::is::<Self>)
    }
}

fn damaged_error() -> Error {
    Error::new(DamagedPartial).hint("run its shard again")
}

/// Default file name of a shard's partial; `is_after` marks the second of two stages.
pub fn file_name(shard: Shard, is_after: bool) -> String {
    let stage = if is_after { "-after" } else { "" };
    format!("{}-of-{}{stage}.{EXTENSION}", shard.number(), shard.shard_count())
}

/// The sums of one pass in serialised form.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PassBytes {
    /// Number of encoded sentences that are in no sequence of the pass.
    pub left_out: u64,
    /// The sums of each observer of the pass, serialised.
    pub sums: Vec<Vec<u8>>,
}

/// Serialises a shard as a partial. Fails if the header or the sums cannot be serialised.
pub fn serialize(shard: Shard, observation: &Observation) -> Result<Vec<u8>> {
    let Observation { identity, tally, stage, passes, run_info: run } = observation;
    let (stage, identity, tally, run) = (stage.clone(), identity.clone(), tally.clone(), run.clone());
    let header = Header { shard, stage, identity, tally, run };
    let pass = |pass: &PassSums| -> Result<PassBytes> {
        let sums = pass.sums.iter().map(|sums| sums.to_bytes()).collect::<Result<_>>()?;
        Ok(PassBytes { left_out: pass.left_out_sentences, sums })
    };
    let body: Vec<PassBytes> = passes.iter().map(pass).collect::<Result<_>>()?;
    assemble(&serde_json::to_string(&header)?, &postcard::to_stdvec(&body)?)
}

/// Compresses `sums` and assembles a partial without any check, so that fuzzing can make partials with valid checksums.
/// Never fails.
pub fn assemble(header: &str, sums: &[u8]) -> Result<Vec<u8>> {
    let beginning = format!("{MAGIC}{FORMAT_VERSION}\n{header}\n").into_bytes();
    let mut packed = zstd::Encoder::new(beginning, zstd::DEFAULT_COMPRESSION_LEVEL)?;
    packed.write_all(sums)?;
    let mut bytes = packed.finish()?;
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    Ok(bytes)
}

/// Function that deserialises the sums of all passes of a stage, and checks them against the run's protocol.
pub type RestoreSums<'a> = &'a dyn Fn(&Identity, &Stage, Vec<PassBytes>) -> Result<Vec<PassSums>>;

/// Reads the partial at `path`. Fails if it cannot be read, is no partial, has another format, or is damaged.
pub fn read(path: &Path, restore: RestoreSums<'_>) -> Result<(Shard, Observation)> {
    read_bytes(path).and_then(|bytes| parse(&bytes, restore)).cannot(USE_PARTIAL, path.display())
}

/// Reads the header of the partial at `path` and tests its checksum; the sums stay compressed. Fails as [`read`], except for
/// unreadable sums.
pub fn read_header(path: &Path) -> Result<Header> {
    read_bytes(path).and_then(|bytes| Ok(verify(&bytes)?.0)).cannot(USE_PARTIAL, path.display())
}

/// The header of the partial that an output file already holds; `None` if there is no file. Fails as [`read_header`].
pub fn previous_header(path: &Path) -> Result<Option<Header>> {
    let bytes = output::read_previous_bytes(path, MAX_PARTIAL_BYTES).map_err(Error::new);
    bytes.and_then(|bytes| bytes.map(|bytes| Ok(verify(&bytes)?.0)).transpose()).cannot(USE_PARTIAL, path.display())
}

/// Parses the header in the bytes of a partial, which errors call `shown`. Fails as [`read_header`].
pub fn parse_header(bytes: &[u8], shown: impl fmt::Display) -> Result<Header> {
    verify(bytes).map(|(header, _)| header).cannot(USE_PARTIAL, shown)
}

const USE_PARTIAL: &str = "use partial";

/// Reads the bytes of a partial. Fails before it reads the rest of a file that does not begin like a partial.
fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let mut file = input::open(path)?;
    let mut bytes = input::read_all((&mut file).take(MAGIC.len() as u64), MAX_PARTIAL_BYTES)?;
    // Other files, however large, are refused by their first bytes.
    ensure_magic(&bytes)?;
    bytes.extend(input::read_all(file, MAX_PARTIAL_BYTES)?);
    Ok(bytes)
}

/// Fails unless `bytes` begin with the mark of a partial. A beginning of zeros is reported as damage, since a crash can
/// leave zeros in place of unwritten bytes.
fn ensure_magic(bytes: &[u8]) -> Result<()> {
    let beginning = &bytes[..bytes.len().min(MAGIC.len())];
    ensure!(beginning.iter().any(|&byte| byte != 0), damaged_error());
    ensure!(MAGIC.as_bytes().starts_with(beginning), "it is not what `headscope analyze --shard` writes");
    ensure!(beginning.len() == MAGIC.len(), damaged_error());
    Ok(())
}

/// Parses a partial and restores its sums.
fn parse(bytes: &[u8], restore: RestoreSums<'_>) -> Result<(Shard, Observation)> {
    let (Header { shard, stage, identity, tally, run }, packed) = verify(bytes)?;
    let body: Vec<PassBytes> = postcard::from_bytes(&decompress(packed)?).context("its sums cannot be read")?;
    ensure_bounded_counts(&(&tally, &run, body.iter().map(|pass| pass.left_out).collect::<Vec<_>>()))?;
    let runs = run.as_ref().map_or(1, |run| run.shards);
    ensure!(runs == 1 || shard == Shard::WHOLE, "its header has the run of several shards");
    let passes = restore(&identity, &stage, body)?;
    Ok((shard, Observation { identity, tally, stage, passes, run_info: run }))
}

/// Tests the checksum of a partial. Returns its header and its compressed sums.
fn verify(bytes: &[u8]) -> Result<(Header, &[u8])> {
    ensure_magic(bytes)?;
    let (version, rest) = split_first_line(&bytes[MAGIC.len()..])?;
    let version = str::from_utf8(version).ok().and_then(|version| version.parse::<u32>().ok());
    let version = version.context("it has no format version")?;
    ensure!(
        version == FORMAT_VERSION,
        anyhow!("it has format version {version}, this program reads {FORMAT_VERSION}")
            .with_value(version)
            .hint("use the version of headscope that wrote it, or remove it and run its shard again")
    );
    let contents = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or_else(damaged_error)?;
    ensure!(Sha256::digest(&bytes[..contents])[..] == bytes[contents..], damaged_error());
    let (header, rest) = split_first_line(rest)?;
    let header: Header = serde_json::from_slice(header).context("its header is not that of a partial")?;
    let packed = rest.len().checked_sub(CHECKSUM_BYTES).map(|end| &rest[..end]).ok_or_else(damaged_error)?;
    Ok((header, packed))
}

/// Splits off the first line: `(line without its end, remaining bytes)`.
fn split_first_line(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or_else(damaged_error)?;
    Ok((&bytes[..end], &bytes[end + 1..]))
}

/// Decompresses the sums. Fails if they are damaged or exceed the bounds.
fn decompress(packed: &[u8]) -> Result<Vec<u8>> {
    let limit = UNCHECKED_UNPACKED_BYTES.max(MAX_DECOMPRESSION_RATIO * packed.len() as u64);
    let mut bytes = Vec::new();
    zstd::Decoder::new(packed)?.take(limit + 1).read_to_end(&mut bytes).context("its sums cannot be unpacked")?;
    ensure!(bytes.len() as u64 <= limit, "its sums unpack to more than {limit} bytes");
    Ok(bytes)
}

#[cfg(test)]
mod tests;
