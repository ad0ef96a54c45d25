//! The corpus as a report describes it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::TextInfo;
use crate::corpus::{CorpusIdentity, FileIdentity, Format, Unit};
use crate::sequences::tally::{FileTally, SkipReason, Tally};

/// The corpus that a model was run over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusInfo {
    /// The names of what was given, joined by ` + `: of files, of folders, `-` for standard input.
    pub name: String,
    /// Sentences analysed.
    pub sentences: u64,
    /// Tokens of those, special tokens included.
    pub tokens: u64,
    /// Words of those: syntactic words of CoNLL-U, the tokenizer's own words of plain text.
    pub words: u64,
    /// Tokens of the longest of them.
    pub longest: u64,
    /// Sentences left out, by reason. Every reason is listed.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Sentences of plain text that were cut to the limit.
    pub truncated: u64,
    /// Sentences analysed that were given as words of which not every one has an annotated head.
    pub unannotated: u64,
    /// Files and folders in the given folders that are no corpus files.
    pub passed_over: u64,
    /// The files in the order they were read; sentences are numbered through.
    pub files: Vec<CorpusFileInfo>,
    /// Pairs of files whose bytes are the same, so that their sentences count twice; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<[String; 2]>,
    /// What its 64 blocks are of, and so what intervals and tests are about more of.
    pub unit: Unit,
    /// What kind of text it is; absent in reports of 0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextInfo>,
}

/// One file of the corpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CorpusFileInfo {
    /// The file's name, or `-` for standard input.
    pub name: String,
    /// The format it was read as.
    pub format: Format,
    /// SHA-256 of the whole file as it is stored, compressed or not.
    #[schemars(extend("pattern" = "^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// By what its sentences were generated, where it says that they were; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<String>,
    /// Sentences analysed.
    pub sentences: u64,
    /// Tokens of those, special tokens included.
    pub tokens: u64,
    /// Words of those.
    pub words: u64,
    /// Sentences left out.
    pub skipped: u64,
}

impl CorpusInfo {
    /// Describes a corpus that was read to its end.
    pub fn new(identity: CorpusIdentity, tally: &Tally) -> Self {
        let count = |reason: SkipReason| (reason, tally.skipped.get(&reason).copied().unwrap_or(0));
        let file = |(number, FileIdentity { name, format, sha256, generated }): (usize, FileIdentity)| {
            let FileTally { sentences, tokens, words, skipped } = tally.files.get(number).copied().unwrap_or_default();
            CorpusFileInfo { name, format, sha256, generated, sentences, tokens, words, skipped }
        };
        let repeated = identity.repeated().into_iter().map(|pair| pair.map(|file| file.name.clone())).collect();
        Self {
            name: identity.name,
            sentences: tally.sentences,
            tokens: tally.tokens,
            words: tally.words,
            longest: tally.longest,
            skipped: SkipReason::ALL.map(count).into(),
            truncated: tally.truncated,
            unannotated: tally.unannotated,
            passed_over: tally.passed_over,
            repeated,
            unit: identity.unit,
            text: Some(TextInfo::new(identity.repeats, tally)),
            files: identity.files.into_iter().enumerate().map(file).collect(),
        }
    }
}
