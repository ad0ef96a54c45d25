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

use crate::passes::observation::{Identity, Observation};
use crate::report::RunInfo;
use crate::sequences::encode::Tally;
use crate::sequences::shard::Shard;
use crate::studies::clark2019::ClarkSums;
use crate::studies::observe::Sums;
use crate::system::input;

/// The file name extension of partials.
pub const EXTENSION: &str = "headscope";

/// What every partial begins with, before the version of its format.
const MAGIC: &str = "headscope partial ";

/// Raised whenever the header or the sums change; a test holds their layout against it.
const FORMAT_VERSION: u32 = 1;

const CHECKSUM_BYTES: usize = 32;

/// The longest partial that is read, in bytes: 1 GiB. One of BERT-large's 384 heads has 5 MB.
const LONGEST: u64 = 1 << 30;

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

/// All sums of a shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Body {
    sums: Sums,
    controls: Vec<Sums>,
    clark2019: Option<ClarkSums>,
}

impl Body {
    /// Whether these are the sums that a run of this identity has.
    fn fits(&self, identity: &Identity) -> bool {
        let (grid, protocol) = (identity.model.grid(), &identity.protocol);
        let fit = |sums: &Sums| sums.fits(grid, protocol.from_token);
        fit(&self.sums)
            && self.controls.len() == protocol.controls.len()
            && self.controls.iter().all(fit)
            && self.clark2019.is_some() == protocol.clark2019
            && self.clark2019.iter().all(|sums| sums.fits(grid))
    }
}

/// One shard as the bytes of a partial.
///
/// # Errors
///
/// If it cannot be expressed in the format.
pub fn render(shard: Shard, observation: &Observation) -> Result<Vec<u8>> {
    let Observation { identity, tally, sums, controls, clark2019, run } = observation;
    let header = Header { shard, identity: identity.clone(), tally: tally.clone(), run: run.clone() };
    let controls = controls.iter().map(Sums::in_order).collect();
    let body = Body { sums: sums.in_order(), controls, clark2019: clark2019.clone() };
    seal(&serde_json::to_string(&header)?, &postcard::to_stdvec(&body)?)
}

/// Packs `sums` and puts the file together.
fn seal(header: &str, sums: &[u8]) -> Result<Vec<u8>> {
    let beginning = format!("{MAGIC}{FORMAT_VERSION}\n{header}\n").into_bytes();
    let mut packed = zstd::Encoder::new(beginning, zstd::DEFAULT_COMPRESSION_LEVEL)?;
    packed.write_all(sums)?;
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
    let mut file = input::open(path).with_context(failed)?;
    let mut bytes = vec![0; MAGIC.len()];
    // Anything else, however large, is not read to its end.
    let begins_well = file.read_exact(&mut bytes).is_ok() && bytes == MAGIC.as_bytes();
    ensure!(begins_well, "{}: it is not what `headscope analyze --shard` writes", failed());
    bytes.extend(input::read_all(file, LONGEST).with_context(failed)?);
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
    let body: Body = postcard::from_bytes(&unpack(packed)?).context("its sums cannot be read")?;
    let Header { shard, identity, tally, run } = header;
    ensure!(body.fits(&identity), "its sums do not fit its header");
    let Body { sums, controls, clark2019 } = body;
    Ok((shard, Observation { identity, tally, sums, controls, clark2019, run }))
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
mod tests {
    use super::*;
    use crate::corpus::{CorpusIdentity, FileIdentity, Format, TreeHead};
    use crate::model::forward::attention::AttentionView;
    use crate::model::grid::HeadGrid;
    use crate::passes::control::{Control, ControlKind};
    use crate::passes::observation::Protocol;
    use crate::report::{ModelInfo, Tool};
    use crate::sequences::encode::{FileTally, GoldArc, Sequence, SkipReason, TokenKind};
    use crate::sequences::words::FromToken;
    use crate::studies::clark2019::syntax::{Relation, SyntaxHits};
    use crate::studies::clark2019::tokens::TokenMeans;
    use crate::studies::observe::BLOCKS;
    use crate::system::digest::hex;
    use proptest::prelude::*;

    const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

    /// `[CLS] a b [SEP]`, b being the head of a, seen by two heads that attend uniformly.
    fn sums() -> Sums {
        let mut sums = Sums::new(GRID, FromToken::Mean);
        let arc = |head, relation: &str| GoldArc { head, relation: relation.to_owned() };
        let observed = sums.begin(&Sequence {
            index: 3,
            ids: vec![0; 4],
            segments: vec![0; 4],
            kinds: vec![TokenKind::FirstSpecial, TokenKind::Text, TokenKind::Text, TokenKind::Separator],
            words: vec![1..2, 2..3],
            tree: Some(vec![arc(TreeHead::Word(1), "nsubj"), arc(TreeHead::Root, "root")]),
        });
        (0..GRID.heads).for_each(|head| sums.observe(&observed, AttentionView::new(0, head, 4, &[0.25; 16])));
        sums
    }

    fn body() -> Body {
        let mut syntax = SyntaxHits::new(GRID);
        syntax.relations.insert("obj".to_owned(), Relation { count: 2, offset_hits: [1; 6], hits: vec![[1, 0]; 2] });
        let clark2019 = ClarkSums { tokens: TokenMeans::new(GRID, vec![5]), syntax, dropped: 1 };
        Body { sums: sums(), controls: vec![sums().pooled()], clark2019: Some(clark2019) }
    }

    fn observation() -> Observation {
        let text = |text: &str| text.to_owned();
        let model = ModelInfo {
            id: text("tiny"),
            revision: None,
            family: text("bert"),
            layers: GRID.layers,
            heads: GRID.heads,
            head_dim: 1,
            hidden_size: 2,
            vocab_size: 3,
            masked_lm_head: false,
            config_sha256: text("c"),
            weights_sha256: text("w"),
            tokenizer_sha256: [(text("tokenizer.json"), text("t"))].into(),
        };
        let protocol = Protocol {
            max_tokens: 8,
            truncate: false,
            limit: None,
            from_token: FromToken::Mean,
            blocks: BLOCKS,
            controls: vec![Control { kind: ControlKind::ShuffledWords, seed: 0 }],
            clark2019: true,
        };
        let corpus = CorpusIdentity {
            name: text("corpus"),
            files: vec![FileIdentity { name: text("corpus"), format: Format::Conllu, sha256: text("s") }],
            passed_over: 0,
        };
        Observation {
            identity: Identity { tool: Tool::default(), model, corpus, protocol },
            tally: Tally {
                sentences: 1,
                tokens: 4,
                words: 2,
                longest: 4,
                skipped: [(SkipReason::NoTokens, 1)].into(),
                truncated: 0,
                unannotated: 0,
                files: vec![FileTally { sentences: 1, tokens: 4, words: 2, skipped: 1 }],
            },
            sums: sums(),
            controls: body().controls,
            clark2019: body().clark2019,
            run: None,
        }
    }

    fn partial() -> Vec<u8> {
        render(Shard::WHOLE, &observation()).unwrap()
    }

    fn refusal(bytes: &[u8]) -> String {
        format!("{:#}", parse(bytes).expect_err("a refusal"))
    }

    #[test]
    fn what_is_written_is_read() {
        let (shard, read) = parse(&partial()).unwrap();
        assert_eq!((shard, &read.identity, &read.tally), (Shard::WHOLE, &observation().identity, &observation().tally));
        assert_eq!(render(shard, &read).unwrap(), partial());
    }

    /// If this fails, the format has changed: raise [`FORMAT_VERSION`] if a release has written it, and write the new
    /// digest here.
    #[test]
    fn a_changed_layout_has_a_new_version() {
        let layout = Sha256::digest(postcard::to_stdvec(&body()).unwrap());
        assert_eq!((FORMAT_VERSION, &hex(&layout)[..16]), (1, "933590c82de9174e"));
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let whole = partial();
        for place in 0..whole.len() {
            assert!(parse(&whole[..place]).is_err(), "cut at {place}");
            let mut flipped = whole.clone();
            flipped[place] ^= 1;
            assert!(parse(&flipped).is_err(), "flipped at {place}");
        }
        let mut longer = whole;
        longer.push(0);
        assert!(refusal(&longer).contains("damaged"));
    }

    #[test]
    fn another_format_version_is_named() {
        let other = String::from("headscope partial 9\nwhatever");
        assert!(refusal(other.as_bytes()).contains("format version 9, this program reads 1"));
    }

    #[test]
    fn sums_that_unpack_without_end_are_cut_off() {
        let header = String::from_utf8(line(line(&partial()).unwrap().1).unwrap().0.to_vec()).unwrap();
        let zeros = vec![0; usize::try_from(SMALLEST_UNPACKED_LIMIT).unwrap() + 1];
        let bomb = seal(&header, &zeros).unwrap();
        assert!(bomb.len() < 10_000);
        assert!(refusal(&bomb).contains("unpack to more than"));
    }

    proptest! {
        /// A file made to harm has the right checksum.
        #[test]
        fn sums_of_any_bytes_are_read_or_refused(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let header = serde_json::to_string(&Header {
                shard: Shard::WHOLE,
                identity: observation().identity,
                tally: Tally::default(),
                run: None,
            });
            let mut bytes = postcard::to_stdvec(&body()).unwrap();
            for (place, value) in changes {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            let length = bytes.len();
            for bytes in [&bytes[..], &bytes[..cut.index(length)]] {
                if let Ok((_, observation)) = parse(&seal(header.as_ref().unwrap(), bytes).unwrap()) {
                    prop_assert!(observation.sums.fits(GRID, FromToken::Mean));
                    let _ = observation.sums.pool(0..BLOCKS);
                }
            }
        }
    }
}
