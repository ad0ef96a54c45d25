//! The partial: a file with one shard's [`Observation`], which `headscope merge` adds to the others'.
//!
//! | bytes | what they are |
//! |---|---|
//! | first line | [`MAGIC`] and [`FORMAT_VERSION`] |
//! | second line | a [`Header`] as JSON |
//! | up to the last 32 | the sums by [postcard](https://postcard.jamesmunns.com/wire-format), compressed as one zstd frame |
//! | last 32 | SHA-256 of all before |
//!
//! A file may be damaged or made to harm: its checksum is tested first, what it unpacks to is bounded, and the lengths
//! of all lists in it are checked before anything relies on them.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::encode::Tally;
use crate::observation::{Identity, Observation};
use crate::observe::Sums;
use crate::report::RunInfo;
use crate::shard::Shard;

/// The file name extension of partials.
pub const EXTENSION: &str = "headscope";

/// What every partial begins with, before the version of its format.
const MAGIC: &str = "headscope partial ";

/// Raised whenever the header or the sums change; a test holds their layout against it.
const FORMAT_VERSION: u32 = 1;

const CHECKSUM_BYTES: usize = 32;

/// The sums of an empty shard are zeros, which compress without limit: 9 MiB of them for 3000 heads.
const SMALLEST_UNPACKED_LIMIT: u64 = 64 << 20;

/// Sums of attention hardly compress, and the counts of relations to about a tenth.
const LARGEST_RATIO: u64 = 256;

/// What is known of a shard beside its sums.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    shard: Shard,
    identity: Identity,
    tally: Tally,
    run: Option<RunInfo>,
}

/// One shard as the bytes of a partial.
///
/// # Errors
///
/// If it cannot be expressed in the format.
pub fn render(shard: Shard, observation: &Observation) -> Result<Vec<u8>> {
    let Observation { identity, tally, sums, run } = observation;
    let header = Header { shard, identity: identity.clone(), tally: tally.clone(), run: run.clone() };
    let mut bytes = format!("{MAGIC}{FORMAT_VERSION}\n").into_bytes();
    serde_json::to_writer(&mut bytes, &header)?;
    bytes.push(b'\n');
    let mut packed = zstd::Encoder::new(bytes, zstd::DEFAULT_COMPRESSION_LEVEL)?;
    packed.write_all(&postcard::to_stdvec(&sums.in_order())?)?;
    let mut bytes = packed.finish()?;
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    Ok(bytes)
}

/// Reads the partial at `path`.
///
/// # Errors
///
/// If it cannot be read, is no partial, is one of another format, or is damaged.
pub fn read(path: &Path) -> Result<(Shard, Observation)> {
    let failed = || format!("cannot use partial `{}`", path.display());
    let mut file = File::open(path).with_context(failed)?;
    let mut bytes = vec![0; MAGIC.len()];
    // Anything else, however large, is not read to its end.
    let begins_well = file.read_exact(&mut bytes).is_ok() && bytes == MAGIC.as_bytes();
    ensure!(begins_well, "{}: it is not what `headscope analyze --shard` writes", failed());
    file.read_to_end(&mut bytes).with_context(failed)?;
    parse(&bytes).with_context(failed)
}

fn parse(bytes: &[u8]) -> Result<(Shard, Observation)> {
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
    let sums: Sums = postcard::from_bytes(&unpack(packed)?).context("its sums cannot be read")?;
    let Header { shard, identity, tally, run } = header;
    ensure!(sums.fits(identity.model.grid(), identity.protocol.from_token), "its sums do not fit its header");
    Ok((shard, Observation { identity, tally, sums, run }))
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
