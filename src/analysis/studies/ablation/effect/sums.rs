//! The loss of masked tokens with all heads, without each of them and without any, summed by block and by class of word.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::corpus::{TreeHead, Upos, relation};
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::passes::ablation::Conditions;
use crate::passes::beforehand::Beforehand;
use crate::passes::observer::{Event, FurtherRuns, Sums};
use crate::passes::run::variants::{each_head_and_all, without_any};
use crate::sequences::derived::corrupted::PERIOD;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{PredictedToken, Sequence};
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;
use crate::stats::surprisal::surprisal;

/// Masked tokens that losses are summed over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum TokenGroup {
    /// All of them.
    All,
    /// Those of words of a class.
    Class(Upos),
    /// Those of words with this relation to their head, by its base name.
    Relation(String),
}

/// Before the tag of a class, and before the name of a relation, in a partial.
const PREFIXES: [&str; 2] = ["upos:", "relation:"];

impl From<TokenGroup> for String {
    fn from(group: TokenGroup) -> Self {
        let [class, relation] = PREFIXES;
        match group {
            TokenGroup::All => "all".to_owned(),
            TokenGroup::Class(upos) => format!("{class}{}", upos.tag()),
            TokenGroup::Relation(name) => format!("{relation}{name}"),
        }
    }
}

impl TryFrom<String> for TokenGroup {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let [class, relation] = PREFIXES;
        let of_class = || text.strip_prefix(class).and_then(Upos::of).map(Self::Class);
        let of_relation = || text.strip_prefix(relation).map(|name| Self::Relation(name.to_owned()));
        let group = if text == "all" { Some(Self::All) } else { of_class().or_else(of_relation) };
        group.ok_or_else(|| format!("`{}` is no group of masked tokens", text.escape_debug()))
    }
}

/// The loss of some masked tokens, `-ln p` of the true one in nats, summed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// Masked tokens.
    pub tokens: u64,
    /// Sentences with any, the first of each family alone.
    pub sentences: u64,
    /// With all heads.
    pub whole: ExactSum,
    /// Without any head.
    pub bare: ExactSum,
    /// Without each head; `[heads]`.
    pub without: Vec<ExactSum>,
}

impl Losses {
    /// No tokens, of a model with so many heads.
    pub fn new(heads: usize) -> Self {
        Self { without: vec![ExactSum::default(); heads], ..Self::default() }
    }
}

merge_fields!(Losses { tokens, sentences, whole, bare, without });

/// The losses of a block, or of all of them.
pub type ByGroup = BTreeMap<TokenGroup, Losses>;

/// The sums of all blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectSums {
    grid: HeadGrid,
    conditions: Conditions,
    /// The places of the heads that are removed one by one, where not all are.
    chosen: Option<Vec<usize>>,
    blocks: Blocks<ByGroup>,
}

impl EffectSums {
    /// Empty sums for a model with `grid` heads.
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, conditions: Conditions::default(), chosen: None, blocks: Blocks::new(ByGroup::new()) }
    }

    /// Whether the effect of the head at this place is measured.
    pub fn measures(&self, place: usize) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen.contains(&place))
    }

    /// Whether that of every head is.
    pub fn measures_all(&self) -> bool {
        (0..self.grid.count()).all(|place| self.measures(place))
    }

    /// The number of heads.
    pub fn heads(&self) -> usize {
        self.grid.count()
    }

    /// The sums of each block.
    pub fn blocks(&self) -> &Blocks<ByGroup> {
        &self.blocks
    }

    /// How heads were removed, once the pass has begun.
    pub fn conditions(&self) -> Conditions {
        self.conditions
    }
}

/// The state of a sequence.
#[derive(Debug)]
pub struct EffectState {
    block: usize,
    /// The variant of [`EffectSums`] that runs; `None` in the baseline, with all heads.
    variant: Option<usize>,
    /// The masked tokens that are scored, ascending by position.
    scored: Vec<Scored>,
}

#[derive(Debug)]
struct Scored {
    position: usize,
    truth: u32,
    groups: Vec<TokenGroup>,
}

/// The groups of a word.
fn groups(sequence: &Sequence, word: usize) -> Vec<TokenGroup> {
    let class = sequence.annotations.get(word).and_then(|annotation| annotation.upos);
    let arc = sequence.tree.as_ref().and_then(|tree| tree.get(word)).filter(|arc| match arc.head {
        // Words whose distance is a multiple of the period are always masked together: what the head does for the
        // relation cannot be seen there.
        TreeHead::Word(head) => !head.abs_diff(word).is_multiple_of(PERIOD.into()),
        TreeHead::Root => true,
        TreeHead::Unknown => false,
    });
    let relation = arc.map(|arc| TokenGroup::Relation(relation::base(&arc.relation).to_owned()));
    [Some(TokenGroup::All), class.map(TokenGroup::Class), relation].into_iter().flatten().collect()
}

impl Sums for EffectSums {
    type SequenceState = EffectState;

    fn needs(&self) -> Needs {
        Needs { logits: true, ..Needs::default() }
    }

    fn begin_pass(&mut self, known: &Beforehand<'_>) {
        self.conditions = known.conditions;
        self.chosen.clone_from(&known.chosen);
    }

    fn begin(&mut self, sequence: &Sequence) -> EffectState {
        let block = block_of(sequence.family.number);
        let score = |&PredictedToken { position, word, truth, .. }: &PredictedToken| {
            truth.map(|truth| Scored { position, truth, groups: groups(sequence, word) })
        };
        let scored: Vec<Scored> = sequence.predictions.iter().filter_map(score).collect();
        let (heads, sums) = (self.grid.count(), &mut self.blocks[block]);
        for group in scored.iter().flat_map(|scored| &scored.groups) {
            sums.entry(group.clone()).or_insert_with(|| Losses::new(heads)).tokens += 1;
        }
        if sequence.family.is_first {
            for group in scored.iter().flat_map(|scored| &scored.groups).collect::<BTreeSet<_>>() {
                sums.get_mut(group).expect("it was entered").sentences += 1;
            }
        }
        EffectState { block, variant: None, scored }
    }

    fn is_relevant(state: &EffectState) -> bool {
        !state.scored.is_empty()
    }

    fn further_runs(&self) -> FurtherRuns {
        FurtherRuns::Without(each_head_and_all(self.grid))
    }

    fn observe(&mut self, state: &mut EffectState, event: &mut Event<'_>) {
        match event {
            Event::Variant(variant) => state.variant = Some(*variant),
            Event::Logits { position, logits } => self.logits(state, *position, logits),
            _ => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        assert_eq!(self.grid, other.grid, "sums of one analysis");
        self.conditions = self.conditions.or(other.conditions);
        if self.chosen.is_none() {
            self.chosen.clone_from(&other.chosen);
        }
        self.blocks.merge(&other.blocks);
    }

    fn fits(&self, grid: HeadGrid, _: FromToken) -> bool {
        let fits = |losses: &Losses| losses.without.len() == grid.count();
        self.grid == grid && self.blocks.fit(|block| block.values().all(fits))
    }
}

impl EffectSums {
    fn logits(&mut self, state: &mut EffectState, position: usize, logits: &[f32]) {
        let Ok(at) = state.scored.binary_search_by_key(&position, |scored| scored.position) else { return };
        let Scored { truth, groups, .. } = &state.scored[at];
        let loss = surprisal(logits, *truth);
        for group in groups {
            let losses = self.blocks[state.block].get_mut(group).expect("it was entered when the sequence began");
            let Some(variant) = state.variant else {
                losses.whole += loss;
                continue;
            };
            if let Some(without) = losses.without.get_mut(variant) {
                *without += loss;
            }
            if variant == without_any(self.grid) {
                losses.bare += loss;
            }
        }
    }
}
