//! Tasks: user-supplied items, each with its score (docs/methodology/tasks.md).
//!
//! A [`TaskFile`](file::TaskFile) is independent of a model. A [`Task`] is encoded for a model, without items that cannot be
//! scored.

pub mod encode;
pub mod file;

use std::collections::BTreeMap;
use std::fmt;

use itertools::Itertools as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::files::Pooling;
use crate::model::parameters::ClassLabels;
use crate::sequences::sequence::{PredictedToken, Sequence};
use crate::system::counts::{format_count, plural};
use crate::system::printable::shorten;

/// A kind of task, with the score of its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Classify a text or a pair of texts. Score: `ln p(label)`, minus `ln p(foil)` if the item has a `foil`.
    Classify,
    /// Classify words. Score: `ln p(label)`, minus `ln p(foil)` if the item has `foils`, summed over the labelled words.
    Tag,
    /// Predict a token at a mask or after a prompt. Score: `ln p(answer) - ln p(foil)`.
    Cloze,
    /// Find a good text more probable than a bad one. Score: `ln p(good) - ln p(bad)`.
    Pair,
    /// Find an anchor text nearer to a positive than to a negative. Score: `cos(anchor, positive) - cos(anchor, negative)`.
    Triple,
}

impl TaskKind {
    /// Whether items of this kind have classes, named by the model's class labels.
    pub fn has_class_labels(self) -> bool {
        matches!(self, Self::Classify | Self::Tag)
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Classify => "classify",
            Self::Tag => "tag",
            Self::Cloze => "cloze",
            Self::Pair => "pair",
            Self::Triple => "triple",
        })
    }
}

/// Maximum number of labels, and of lines, that a message lists.
const MAX_NAMED_ENTRIES: usize = 8;

/// Why an item cannot be scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemSkip {
    /// A text is longer than the model reads.
    TooManyTokens,
    /// A text has no token.
    NoTokens,
    /// The text of a cloze item does not have exactly one mask.
    NotOneMask,
    /// The item is a prompt, but the model predicts masked tokens.
    NeedsMask,
    /// The item is a text with a mask, but the model predicts the next token.
    NeedsPrompt,
    /// The answer or the foil is not exactly one token, or changes the tokens before it.
    NotOneToken,
    /// The answer or the foil is not exactly one token, and the prompt ends with a space.
    SpaceAfterPrompt,
    /// The answer or the foil continues the last word of the prompt.
    JoinedToPrompt,
    /// Answer and foil, or good and bad text, are the same tokens, or label and foil the same class.
    NothingDiffers,
    /// A token that is to be scored is not in the vocabulary.
    UnknownToken,
    /// The texts differ in their first token, which nothing predicts.
    FirstToken,
    /// The model has no such label.
    UnknownLabel,
    /// The item is a pair of texts, but the tokenizer makes no sequence of two texts.
    NoPairs,
    /// No word has a label that is scored.
    NoLabels,
    /// The item has no corrupted text.
    NotCorrupted,
    /// The corrupted text has another number of tokens than the text.
    OtherLength,
    /// The corrupted text has the mask at another position than the text.
    OtherPlace,
    /// The answer or the foil is one token in the text, and a different token in the corrupted text.
    OtherAnswer,
}

impl std::error::Error for ItemSkip {}

/// Formats the reason such that it can follow a number of items, as in `3 items without exactly one mask`.
impl fmt::Display for ItemSkip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooManyTokens => "with more tokens than the limit",
            Self::NoTokens => "with a text without any token",
            Self::NotOneMask => "without exactly one mask",
            Self::NeedsMask => "with a prompt, where the model fills in a mask",
            Self::NeedsPrompt => "with a mask, where the model continues a prompt",
            Self::NotOneToken => "with an answer or foil that is not exactly one token",
            Self::SpaceAfterPrompt => "whose prompt ends with a space, so that answer or foil is not exactly one token",
            Self::JoinedToPrompt => "with an answer or foil that continues the last word of the prompt",
            Self::NothingDiffers => "whose two sides are the same tokens or one class",
            Self::UnknownToken => "with a scored token that is not in the vocabulary",
            Self::FirstToken => "that differ in the first token, which nothing predicts",
            Self::UnknownLabel => "with a label that the model does not have",
            Self::NoPairs => "with two texts, which the tokenizer cannot put into one sequence",
            Self::NoLabels => "without a label that is scored",
            Self::NotCorrupted => "without `corrupted`",
            Self::OtherLength => "whose corrupted text has another number of tokens",
            Self::OtherPlace => "whose corrupted text has its mask at another place",
            Self::OtherAnswer => "whose answer or foil is another token in the corrupted text",
        })
    }
}

impl ItemSkip {
    /// Hint on how to mend an item that is skipped for this reason; `mask` is the model's mask token, `labels` are the
    /// labels of its classification layer.
    fn repair_hint(self, mask: Option<&str>, labels: Option<&ClassLabels>) -> String {
        let way_out = match self {
            Self::NotOneMask | Self::NeedsMask => {
                return format!("give `text` with {} in the place of the answer", mask.unwrap_or("[MASK]"));
            }
            Self::UnknownLabel => return labels.map_or_else(String::new, describe_labels),
            Self::TooManyTokens => "raise --max-tokens if the model has more positions, or leave the item out",
            Self::NeedsPrompt => "give `prompt`, the text up to the answer",
            Self::NotOneToken => "take words that the vocabulary has whole",
            Self::SpaceAfterPrompt => "move that space to the beginning of `answer` and `foil`",
            Self::JoinedToPrompt => "begin `answer` and `foil` with the space that stands before them",
            Self::NoPairs => "give one text an item",
            Self::NotCorrupted => "give `corrupted`, the text with the words exchanged that the answer depends on",
            Self::OtherLength | Self::OtherPlace => "exchange words for others of as many tokens, each at its place",
            Self::OtherAnswer => "leave the words beside the answer as they are",
            Self::NoTokens | Self::NothingDiffers | Self::UnknownToken | Self::FirstToken | Self::NoLabels => {
                "mend the item or leave it out"
            }
        };
        way_out.to_owned()
    }
}

/// Describes the labels of a model, for a hint.
pub fn describe_labels(ClassLabels { class_names: names, class_count: count, .. }: &ClassLabels) -> String {
    match names.len() {
        0 => format!("give numbers from 0 to {}", count - 1),
        1..=MAX_NAMED_ENTRIES => format!("its labels are {}", names.join(", ")),
        _ => format!("its {count} labels are {}, ...", names[..MAX_NAMED_ENTRIES].join(", ")),
    }
}

/// An item that cannot be scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedItem {
    pub reason: ItemSkip,
    /// Line of the item in the task file, counted from 1.
    pub line: u64,
    /// Label or foil of the item that the model lacks; `None` if the item is skipped for another reason.
    pub unknown_label: Option<String>,
}

/// Describes the numbers of items skipped for each reason, with the lines of the first few.
pub fn describe_skips(skipped: &[SkippedItem]) -> String {
    let mut by_reason: BTreeMap<ItemSkip, Vec<&SkippedItem>> = BTreeMap::new();
    skipped.iter().for_each(|item| by_reason.entry(item.reason).or_default().push(item));
    let place = |item: &&SkippedItem| match &item.unknown_label {
        Some(label) => format!("{} `{}`", item.line, shorten(label)),
        None => item.line.to_string(),
    };
    let reason = |(reason, items): (&ItemSkip, &Vec<&SkippedItem>)| {
        let named = items.iter().take(MAX_NAMED_ENTRIES).map(place).join(", ");
        let more = if items.len() > MAX_NAMED_ENTRIES { ", ..." } else { "" };
        let lines = plural(&items.len(), "line", "lines");
        format!("{} {reason} ({lines} {named}{more})", format_count(items.len(), "item"))
    };
    by_reason.iter().map(reason).join(", ")
}

/// The user's task as a run reads it: all that the sums depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskInfo {
    /// Name of the task file.
    pub name: String,
    /// SHA-256 of the task file.
    #[schemars(extend("pattern" = "^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// Kind of the task's items.
    pub kind: TaskKind,
    /// How the states of each text of a triple become one vector; absent for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Pooling")]
    pub pooling: Option<Pooling>,
    /// Number of items in the task file.
    pub items: u64,
    /// Number of items that cannot be scored, by reason.
    pub skipped: BTreeMap<ItemSkip, u64>,
    /// How heads exchange their contexts between text and corrupted text; absent if no study needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "InterchangeInfo")]
    pub interchange: Option<InterchangeInfo>,
}

/// How heads exchange their contexts between the texts of a task and their corrupted texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterchangeInfo {
    /// Positions at which contexts are exchanged.
    pub positions: ExchangedPositions,
    /// Number of items that cannot be run with their corrupted text, by reason.
    pub skipped: BTreeMap<ItemSkip, u64>,
}

/// Words after `can be` or `cannot be` in messages about items whose heads exchange contexts with their corrupted text.
pub const RUN_WITH_CORRUPTED_TEXT: &str = "run beside its corrupted text";

/// The positions at which heads exchange their contexts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExchangedPositions {
    /// All positions.
    #[default]
    All,
    /// The position that predicts the answer.
    Answer,
}

impl fmt::Display for ExchangedPositions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::All { "all" } else { "answer" })
    }
}

/// A task whose items are encoded for a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub info: TaskInfo,
    /// The texts of each item that can be scored.
    pub texts: ItemTexts,
    /// The text and the corrupted text of each item, one after the other; empty if no study exchanges contexts.
    pub interchanged: ItemTexts,
}

/// Encoded texts of the items of a task, and the items that are skipped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemTexts {
    /// Sequences of each item, which are scored together.
    items: Vec<Vec<Sequence>>,
    /// Id of the mask token, if texts are scored token by token, with each token masked in turn; `None` otherwise.
    mask: Option<u32>,
    pub skipped: Vec<SkippedItem>,
}

impl ItemTexts {
    pub fn count(&self) -> u64 {
        self.items.len() as u64
    }

    /// Number of sequences to run for the texts for which `takes` is true: one per text, or one per token if tokens are
    /// masked in turn.
    pub fn sequence_count(&self, takes: impl Fn(&Sequence) -> bool) -> u64 {
        let taken = self.items.iter().flatten().filter(|sequence| takes(sequence));
        taken.map(|sequence| self.text_count(sequence)).sum::<usize>() as u64
    }

    /// Number of tokens in all sequences to run.
    pub fn token_count(&self) -> usize {
        self.items.iter().flatten().map(|sequence| self.text_count(sequence) * sequence.ids.len()).sum()
    }

    /// Number of sequences to run for a text: one, or one per token if tokens are masked in turn.
    fn text_count(&self, sequence: &Sequence) -> usize {
        if self.mask.is_some() { sequence.text_positions().count() } else { 1 }
    }

    /// Sequences to run for the texts that satisfy `takes`.
    pub fn sequences(&self, takes: impl Fn(&Sequence) -> bool + Send) -> impl Iterator<Item = Sequence> + Send {
        let taken = self.items.iter().flatten().filter(move |sequence| takes(sequence));
        taken.flat_map(|sequence| match self.mask {
            Some(mask) => word_l2r(sequence, mask),
            None => vec![sequence.clone()],
        })
    }
}

/// Copies of a sequence, one for each token of its text. In each copy, a token and the later tokens of its word are masked,
/// and the token is predicted. Otherwise the later tokens of a word would give the earlier ones away (`PLL-word-l2r`, Kauf
/// & Ivanova 2023, section 3).
fn word_l2r(sequence: &Sequence, mask: u32) -> Vec<Sequence> {
    let words = sequence.words_by_token();
    let variant = |place: usize| {
        let mut variant = sequence.clone();
        for later in (place..words.len()).take_while(|&later| words[later] == words[place]) {
            variant.ids[later] = mask;
            let truth = (later == place).then_some(sequence.ids[later]);
            variant.predictions.push(PredictedToken::masked(later, words[later].unwrap_or_default(), truth));
        }
        variant
    };
    sequence.text_positions().map(variant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::span::WordSpan;
    use crate::sequences::test_support::sentence;

    #[test]
    fn each_token_is_masked_with_the_rest_of_its_word() {
        // Special, a word of two tokens, a word of one, special.
        let words = WordSpan::whole_words([1..3, 3..4]);
        let text = Sequence { ids: vec![1, 10, 11, 12, 2], words, ..sentence(0, 3, "dep") };
        let variants = word_l2r(&text, 99);
        let ids: Vec<_> = variants.iter().map(|variant| variant.ids.clone()).collect();
        assert_eq!(ids, [[1, 99, 99, 12, 2], [1, 10, 99, 12, 2], [1, 10, 11, 99, 2]]);
        let predicted: Vec<_> = variants
            .iter()
            .map(|variant| variant.predicted_positions().zip(variant.true_classes()).collect::<Vec<_>>())
            .collect();
        let one = |position: usize, truth: u32| -> Vec<(usize, u32)> { vec![(position, truth)] };
        assert_eq!(predicted, [one(1, 10), one(2, 11), one(3, 12)]);
    }
}
