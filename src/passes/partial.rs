//! The partial: a file with one shard's [`Observation`], which `headscope merge` adds to the others'.
//!
//! | bytes | what they are |
//! |---|---|
//! | first line | `MAGIC` and `FORMAT_VERSION` |
//! | second line | a `Header` as JSON |
//! | up to the last 32 | the sums by [postcard](https://postcard.jamesmunns.com/wire-format), compressed as one zstd frame |
//! | last 32 | SHA-256 of all before |
//!
//! A file may be damaged or made to harm: its checksum is tested first, what it unpacks to is bounded, and the lengths
//! of all lists in it are checked before anything relies on them.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::countable::ensure_countable;
use super::identity::{Identity, RunInfo};
use super::observation::{Observation, PassSums, Stage};
use crate::sequences::shard::Shard;
use crate::sequences::tally::Tally;
use crate::system::input;

/// The file name extension of partials.
pub const EXTENSION: &str = "headscope";

/// The beginning of every partial, before the version of its format.
const MAGIC: &str = "headscope partial ";

/// Raised whenever the header or the sums change; a test holds their layout against it.
pub(crate) const FORMAT_VERSION: u32 = 6;

const CHECKSUM_BYTES: usize = 32;

/// The longest partial that is read, in bytes: 1 GiB. One of BERT-large's 384 heads has 5 MB.
const LONGEST: u64 = 1 << 30;

/// The sums of an empty shard are zeros, which compress without limit: 9 MiB of them for 3000 heads.
const SMALLEST_UNPACKED_LIMIT: u64 = 64 << 20;

/// Sums of attention hardly compress, and the counts of relations to about a tenth.
const LARGEST_RATIO: u64 = 256;

/// The facts about a shard beside its sums.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    shard: Shard,
    #[serde(default, skip_serializing_if = "Stage::is_whole")]
    stage: Stage,
    identity: Identity,
    tally: Tally,
    run: Option<RunInfo>,
}

/// The sums of one pass as bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PassBytes {
    /// [`PassSums::left_out`](super::observation::PassSums)
    pub left_out: u64,
    /// The sums of everybody who looked at it.
    pub sums: Vec<Vec<u8>>,
}

/// One shard as the bytes of a partial.
///
/// # Errors
///
/// If it cannot be expressed in the format.
pub fn render(shard: Shard, observation: &Observation) -> Result<Vec<u8>> {
    let Observation { identity, tally, stage, passes, run } = observation;
    let (stage, identity, tally, run) = (stage.clone(), identity.clone(), tally.clone(), run.clone());
    let header = Header { shard, stage, identity, tally, run };
    let pass = |pass: &PassSums| -> Result<PassBytes> {
        let sums = pass.sums.iter().map(|sums| sums.to_bytes()).collect::<Result<_>>()?;
        Ok(PassBytes { left_out: pass.left_out, sums })
    };
    let body: Vec<PassBytes> = passes.iter().map(pass).collect::<Result<_>>()?;
    seal(&serde_json::to_string(&header)?, &postcard::to_stdvec(&body)?)
}

/// Packs `sums` and puts the file together, whatever is in it: what fuzzing makes up passes the checksum, too.
///
/// # Errors
///
/// None that its arguments can cause.
pub fn seal(header: &str, sums: &[u8]) -> Result<Vec<u8>> {
    let beginning = format!("{MAGIC}{FORMAT_VERSION}\n{header}\n").into_bytes();
    let mut packed = zstd::Encoder::new(beginning, zstd::DEFAULT_COMPRESSION_LEVEL)?;
    packed.write_all(sums)?;
    let mut bytes = packed.finish()?;
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    Ok(bytes)
}

/// Makes sums of the bytes of all passes of a stage, and checks that they are those of a run by that protocol.
pub type Restore<'a> = &'a dyn Fn(&Identity, &Stage, Vec<PassBytes>) -> Result<Vec<PassSums>>;

/// Reads the partial at `path`.
///
/// # Errors
///
/// If it cannot be read, is no partial, is one of another format, or is damaged.
pub fn read(path: &Path, restore: Restore<'_>) -> Result<(Shard, Observation)> {
    let failed = || format!("cannot use partial `{}`", path.display());
    let mut file = input::open(path).with_context(failed)?;
    let mut bytes = vec![0; MAGIC.len()];
    // Anything else, however large, is not read to its end.
    let begins_well = file.read_exact(&mut bytes).is_ok() && bytes == MAGIC.as_bytes();
    ensure!(begins_well, "{}: it is not what `headscope analyze --shard` writes", failed());
    bytes.extend(input::read_all(file, LONGEST).with_context(failed)?);
    parse(&bytes, restore).with_context(failed)
}

fn parse(bytes: &[u8], restore: Restore<'_>) -> Result<(Shard, Observation)> {
    let (version, rest) = line(bytes.strip_prefix(MAGIC.as_bytes()).context("it does not begin as one")?)?;
    let version = str::from_utf8(version).ok().and_then(|version| version.parse::<u32>().ok());
    match version.context("it has no format version")? {
        FORMAT_VERSION => {}
        other => bail!(
            "it has format version {other}, this program reads {FORMAT_VERSION}: \
            merge with the version of headscope that wrote it"
        ),
    }
    let damaged = "it is damaged or cut short: run its shard again";
    let contents = bytes.len().checked_sub(CHECKSUM_BYTES).context(damaged)?;
    ensure!(Sha256::digest(&bytes[..contents])[..] == bytes[contents..], damaged);
    let (header, rest) = line(rest)?;
    let header: Header = serde_json::from_slice(header).context("its header is not that of a partial")?;
    let packed = rest.len().checked_sub(CHECKSUM_BYTES).map(|end| &rest[..end]).context(damaged)?;
    let body: Vec<PassBytes> = postcard::from_bytes(&unpack(packed)?).context("its sums cannot be read")?;
    let Header { shard, stage, identity, tally, run } = header;
    ensure_countable(&(&tally, &run, body.iter().map(|pass| pass.left_out).collect::<Vec<_>>()))?;
    let runs = run.as_ref().map_or(1, |run| run.shards);
    ensure!(runs == 1 || shard == Shard::WHOLE, "its header has the run of several shards");
    let passes = restore(&identity, &stage, body)?;
    Ok((shard, Observation { identity, tally, stage, passes, run }))
}

/// The first line, without its end, and what follows.
fn line(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n').context("it is cut short")?;
    Ok((&bytes[..end], &bytes[end + 1..]))
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>> {
    let limit = SMALLEST_UNPACKED_LIMIT.max(LARGEST_RATIO * packed.len() as u64);
    let mut bytes = Vec::new();
    zstd::Decoder::new(packed)?.take(limit + 1).read_to_end(&mut bytes).context("its sums cannot be unpacked")?;
    ensure!(bytes.len() as u64 <= limit, "its sums unpack to more than {limit} bytes");
    Ok(bytes)
}

#[cfg(test)]
mod tests;
