//! Losses of masked or next tokens with all heads and without each head, by block and token group, and their metrics.

use std::collections::BTreeMap;

use itertools::Itertools;
use serde::{Deserialize, Serialize};

use crate::corpus::{TreeHead, Upos, relation};
use crate::sequences::derived::corrupted::CORRUPTION_PERIOD;
use crate::sequences::sequence::{InputToken, Sequence};
use crate::studies::ablation::losses::{Losses, ScoredToken, loss_at, scored_tokens};
use crate::studies::ablation::removal::{PerTokenChange, RemovalQuantity, RemovalSums, SingleHeadsAndAll};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{self, Fraction, Metric, MetricKeys};

/// A group of scored tokens for which the loss is summed separately.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum TokenGroup {
    All,
    /// Tokens of words of this universal part of speech.
    Class(Upos),
    /// Tokens of words with this dependency relation (base name) to their syntactic head.
    Relation(String),
}

impl From<TokenGroup> for String {
    fn from(group: TokenGroup) -> Self {
        match group {
            TokenGroup::All => "all".to_owned(),
            TokenGroup::Class(upos) => format!("upos:{}", upos.tag()),
            TokenGroup::Relation(name) => format!("relation:{name}"),
        }
    }
}

impl TryFrom<String> for TokenGroup {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let of_class = || text.strip_prefix("upos:").and_then(Upos::of).map(Self::Class);
        let of_relation = || text.strip_prefix("relation:").map(|name| Self::Relation(name.to_owned()));
        let group = if text == "all" { Some(Self::All) } else { of_class().or_else(of_relation) };
        group.ok_or_else(|| format!("`{}` is no group of masked tokens", text.escape_debug()))
    }
}

/// Losses of a block, by group of tokens.
pub type LossesByGroup = BTreeMap<TokenGroup, Losses>;

pub type EffectSums = RemovalSums<SingleHeadsAndAll, LossesByGroup>;

/// Groups that the tokens of a word belong to.
fn token_groups(sequence: &Sequence, word: usize) -> Vec<TokenGroup> {
    let class = sequence.annotations.get(word).and_then(|annotation| annotation.upos);
    let is_next = sequence.predictions.iter().any(|token| token.input == InputToken::NoInput);
    let arc = sequence.tree.as_ref().and_then(|tree| tree.get(word)).filter(|arc| match arc.head {
        // A decoder predicts the word before it reads a later syntactic head, so only earlier heads count.
        TreeHead::Word(head) if is_next => head < word,
        // Words whose distance is a multiple of the period are always masked together, so their arcs are left out.
        TreeHead::Word(head) => !head.abs_diff(word).is_multiple_of(CORRUPTION_PERIOD.into()),
        TreeHead::Root => true,
        TreeHead::Unknown => false,
    });
    let relation = arc.map(|arc| TokenGroup::Relation(relation::base_relation(&arc.relation).to_owned()));
    [Some(TokenGroup::All), class.map(TokenGroup::Class), relation].into_iter().flatten().collect()
}

impl RemovalQuantity for LossesByGroup {
    type State = Vec<ScoredToken<Vec<TokenGroup>>>;

    fn new(_: usize) -> Self {
        Self::new()
    }

    fn begin(&mut self, sequence: &Sequence, variants: usize) -> Option<Self::State> {
        let scored = scored_tokens(sequence, |word| token_groups(sequence, word));
        for group in scored.iter().flat_map(|scored| &scored.word_data) {
            self.entry(group.clone()).or_insert_with(|| Losses::new(variants)).tokens += 1;
        }
        if sequence.family.is_first {
            for group in scored.iter().flat_map(|scored| &scored.word_data).sorted().dedup() {
                self.get_mut(group).expect("it was entered").sentences += 1;
            }
        }
        (!scored.is_empty()).then_some(scored)
    }

    fn add_logits(&mut self, state: &Self::State, variant: Option<usize>, position: usize, logits: &[f32]) {
        let Some((loss, groups)) = loss_at(state, position, logits) else { return };
        for group in groups {
            self.get_mut(group).expect("it was entered when the sequence began").add(variant, loss);
        }
    }

    fn has_variants(&self, variants: usize) -> bool {
        self.values().all(|losses| losses.has_variants(variants))
    }
}

/// Values of every metric for the head with index `head`; 0 for `None` (chance).
pub fn metric_values(losses: &LossesByGroup, head: Option<usize>) -> Vec<Fraction> {
    metric::cells(METRICS, |metric, cell| (metric.value)(losses, head, cell))
}

/// Loss without a head minus loss with all heads, per scored token of a group; 0 for `None` (chance).
pub fn group_effect(losses: &LossesByGroup, head: Option<usize>, group: &TokenGroup) -> Fraction {
    let Some(losses) = losses.get(group) else { return Fraction::NONE };
    let more = head.map_or(0.0, |head| losses.change(head));
    Fraction::mean(more, losses.tokens, losses.sentences)
}

const FORMULA: &str = "loss_effect = (sum of -ln p(t) without the head - sum of -ln p(t) with it) / masked tokens t, in nats; \
    masked are all tokens of word u of sentence s where (u + s) mod 7 = 0, u and s from 0; in a decoder t is every token but \
    the first, predicted from those before it";
const CHANCE_TEXT: &str = "0: the head is not missed";
const WORD_CLASS_KEYS: MetricKeys = MetricKeys::Several(Upos::ALL.len(), |place| Upos::ALL[place].tag().to_owned());

/// [`group_effect`] for the group of all scored tokens.
pub fn overall_effect(losses: &LossesByGroup, head: Option<usize>) -> Fraction {
    group_effect(losses, head, &TokenGroup::All)
}

/// Metric of token losses. Its function takes the losses, the index of the removed head (`None` for the chance level,
/// 0), and the index of the key (word class).
type EffectMetric = Metric<fn(&LossesByGroup, Option<usize>, usize) -> Fraction>;

pub const METRICS: &[EffectMetric] = &[
    EffectMetric::single(|losses, head, _| overall_effect(losses, head)).with_explanation(Explanation {
        name: "loss_effect",
        measures: "How much the loss of masked tokens, in a decoder of the next tokens, rises when the head is removed.",
        formula: FORMULA,
        chance: CHANCE_TEXT,
        source: "Removal of single heads: Michel et al. 2019 (arXiv:1905.10650), section 3, there by zeros and of a task; \
            the mean in its place: `settings.ablation`.",
        caveats: "Importance is no role: it says nothing of where the head looks. Other heads can compensate, so that a group \
            may matter although none of its heads does. It depends on what stands for the head.",
    }),
    EffectMetric::keyed(WORD_CLASS_KEYS, |losses, head, cell| group_effect(losses, head, &TokenGroup::Class(Upos::ALL[cell])))
        .with_explanation(Explanation {
            name: "loss_effect_by_class",
            measures: "The same over the tokens of words of one universal part of speech.",
            formula: FORMULA,
            chance: CHANCE_TEXT,
            source: "As `loss_effect`; UPOS as annotated.",
            caveats: "Null where the corpus has no word classes.",
        }),
];
