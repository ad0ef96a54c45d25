//! Counts, per jackknife block, of the anaphors whose antecedent an attention head finds.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::anaphors::{ANAPHOR_KINDS, BASELINES, MentionCounts, MentionWindow};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::{Event, Sums};
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, Merge, block_of, merge_fields};
use crate::stats::exact::ExactSum;
use crate::study::instruments::fold_scores::ScoredSums;

/// Names of the directions. The chosen candidate is the one that the anaphor attends to most, or the one that attends most
/// to the anaphor.
pub const DIRECTION_NAMES: [&str; 2] = ["anaphor->antecedent", "antecedent->anaphor"];

/// Returns the indices in [`DIRECTION_NAMES`] of the scored directions. A decoder has the first only, since an antecedent does
/// not see its anaphor.
pub fn scored_directions(visibility: Visibility) -> Range<usize> {
    0..if visibility.is_causal() { 1 } else { DIRECTION_NAMES.len() }
}

/// Counts of the anaphors of one kind in one jackknife block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindSums {
    /// Number of scored anaphors.
    pub anaphors: u64,
    /// Number of windows with an anaphor of this kind. Related windows count once.
    pub windows: u64,
    /// Number of anaphors for which each of [`BASELINES`] chooses a right antecedent.
    pub baselines: [u64; BASELINES.len()],
    /// Right candidates divided by all candidates, summed over anaphors: the expected number of right random choices.
    pub chance: ExactSum,
    /// Number of anaphors for which each attention head chooses a right antecedent, by direction, `[layers * heads]`.
    pub heads: Vec<[u64; DIRECTION_NAMES.len()]>,
}

impl ScoredSums for KindSums {
    fn scored_words(&self) -> u64 {
        self.anaphors
    }
}

impl KindSums {
    pub fn new(grid: HeadGrid) -> Self {
        Self { heads: vec![[0; DIRECTION_NAMES.len()]; grid.head_count()], ..Self::default() }
    }

    /// Whether no other count exceeds the number of anaphors. Sums read from a file may fail this.
    fn is_valid(&self) -> bool {
        let counts = self.baselines.iter().chain(self.heads.iter().flatten());
        self.windows <= self.anaphors && counts.copied().all(|counts| counts <= self.anaphors)
    }
}

merge_fields!(KindSums { anaphors, windows, baselines, chance, heads });

/// Sums of one jackknife block, for each of [`ANAPHOR_KINDS`].
pub type KindBlock = [KindSums; ANAPHOR_KINDS.len()];

/// Counts of the anaphors for which each baseline and each attention head finds an antecedent, over all windows of sentences.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CoreferenceSums {
    grid: HeadGrid,
    pub visibility: Visibility,
    /// How the tokens of a split word are pooled, when the word is the query.
    from: FromToken,
    /// Counts of windows and mentions over all blocks.
    pub met: MentionCounts,
    pub blocks: Blocks<KindBlock>,
}

impl CoreferenceSums {
    pub fn new(grid: HeadGrid, visibility: Visibility, from: FromToken) -> Self {
        let blocks = Blocks::new(std::array::from_fn(|_| KindSums::new(grid)));
        Self { grid, visibility, from, met: MentionCounts::default(), blocks }
    }
}

merge_fields!(CoreferenceSums[grid, visibility, from] { met, blocks });

impl Sums for CoreferenceSums {
    /// Index of the window's block, and the window.
    type SequenceState = (usize, MentionWindow);

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        let window = MentionWindow::new(sequence, self.visibility, self.from);
        self.met.merge(&window.counts);
        let block = block_of(sequence.family.number);
        for (kind, sums) in self.blocks[block].iter_mut().enumerate() {
            let of_kind = window.anaphors.iter().filter(|anaphor| anaphor.kinds[kind]);
            let before = sums.anaphors;
            for anaphor in of_kind {
                sums.anaphors += 1;
                sums.chance += anaphor.right_candidate_count as f64 / anaphor.candidates.len() as f64;
                for (right, &chosen) in sums.baselines.iter_mut().zip(&anaphor.baseline_choices) {
                    *right += u64::from(window.is_antecedent(anaphor, chosen));
                }
            }
            sums.windows += u64::from(sums.anaphors > before && sequence.family.is_first);
        }
        (!window.anaphors.is_empty()).then_some((block, window))
    }

    fn observe(&mut self, (block, window): &mut Self::SequenceState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        let head = self.grid.index(input.view.layer, input.view.head);
        let words = input.word_attention(self.from);
        // A head word's candidates, and so the choice, do not depend on which of its mentions is the anaphor.
        for of_word in window.anaphors.chunk_by(|a, b| a.candidates.end == b.candidates.end) {
            let chosen = choose_antecedents(words, &window.heads, of_word[0].candidates.clone());
            for anaphor in of_word {
                let right = chosen.map(|candidate| u64::from(window.is_antecedent(anaphor, candidate)));
                for (sums, _) in self.blocks[*block].iter_mut().zip(anaphor.kinds).filter(|(_, is_kind)| *is_kind) {
                    let directions = scored_directions(self.visibility);
                    sums.heads[head][directions].iter_mut().zip(right).for_each(|(sum, right)| *sum += right);
                }
            }
        }
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        (self.grid, self.from) == (grid, from)
            && classes.visibilities() == [self.visibility]
            && self
                .blocks
                .is_valid(|block| block.iter().all(|sums| sums.heads.len() == grid.head_count() && sums.is_valid()))
    }
}

/// Returns the candidate with the largest attention weight, in each of [`DIRECTION_NAMES`], as an index into `heads`. Among
/// equals, the first candidate. The anaphor's head word is `heads[candidates.end]`.
fn choose_antecedents(
    words: &WordAttention,
    heads: &[usize],
    candidates: Range<usize>,
) -> [usize; DIRECTION_NAMES.len()] {
    let anaphor = heads[candidates.end];
    let largest = |weight: &dyn Fn(usize) -> f64| {
        let best = |best: (usize, f64), candidate: usize| {
            let weight = weight(heads[candidate]);
            if weight > best.1 { (candidate, weight) } else { best }
        };
        candidates.clone().fold((candidates.start, f64::NEG_INFINITY), best).0
    };
    [largest(&|head| words.get(anaphor, head)), largest(&|head| words.get(head, anaphor))]
}
