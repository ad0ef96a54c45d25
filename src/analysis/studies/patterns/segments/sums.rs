//! Sums of each attention head's weights over pairs of sentences, per jackknife block.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::design::{RegressionDesign, SegmentHeadSums};
use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::{Event, Sums};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;

/// Counts of sentence pairs, and sums under uniform attention, in one jackknife block; all attention heads share them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentExposure {
    /// Number of counted sentence pairs: pairs in which every query sees every key.
    pub pairs: u64,
    /// Number of sentence pairs left out because some query does not see every key.
    pub unseen: u64,
    /// Number of counted sentence pairs that are the first of their group of related sentences.
    pub first: u64,
    /// Number of text queries: the text tokens of the counted pairs.
    pub queries: u64,
    /// Number of tokens in pairs that are long enough for the analysis of variance; each is a row of attention.
    pub rows: u64,
    /// Attention to other text tokens of the query's sentence, summed over text queries, if attention is uniform.
    pub same: ExactSum,
    /// Attention to other text tokens of either sentence, summed over text queries, if attention is uniform.
    pub any: ExactSum,
}

merge_fields!(SegmentExposure { pairs, unseen, first, queries, rows, same, any });

/// Sums over the sentence pairs of one jackknife block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentBlock {
    pub exposure: SegmentExposure,
    pub heads: Vec<SegmentHeadSums<ExactSum>>,
}

merge_fields!(SegmentBlock { exposure, heads });

/// Attention within and between sentences in each jackknife block, over the layers that share an attention mask.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SegmentSums {
    grid: HeadGrid,
    visibility: Visibility,
    pub blocks: Blocks<SegmentBlock>,
}

impl SegmentSums {
    pub fn new(grid: HeadGrid, visibility: Visibility) -> Self {
        let block =
            SegmentBlock { heads: vec![SegmentHeadSums::default(); grid.head_count()], ..SegmentBlock::default() };
        Self { grid, visibility, blocks: Blocks::new(block) }
    }
}

/// The pair of sentences being observed.
#[derive(Debug)]
pub struct SegmentState {
    block: usize,
    /// Token ranges of both sentences. `None` for a sequence that does not count: no pair, or not fully visible.
    texts: Option<[Range<usize>; 2]>,
    /// Regressors of the pair. `None` if the pair is too short for the analysis of variance.
    design: Option<RegressionDesign>,
}

merge_fields!(SegmentSums[grid, visibility] { blocks });

impl Sums for SegmentSums {
    type SequenceState = SegmentState;

    fn begin(&mut self, sequence: &Sequence) -> Option<SegmentState> {
        let (block, tokens) = (block_of(sequence.family.number), sequence.ids.len());
        let texts: Option<[Range<usize>; 2]> = sequence.texts.clone().try_into().ok();
        // The pattern classes describe whole matrices, so every query must see every key.
        let is_seen = self.visibility.is_full(tokens);
        self.blocks[block].exposure.unseen += u64::from(texts.is_some() && !is_seen);
        let texts = texts.filter(|_| is_seen);
        let design = texts.clone().and_then(|texts| RegressionDesign::new(tokens, texts));
        if let Some(texts) = &texts {
            let (n, [a, b]) = (tokens as f64, texts.each_ref().map(|text| text.len() as f64));
            let exposure = &mut self.blocks[block].exposure;
            exposure.pairs += 1;
            exposure.first += u64::from(sequence.family.is_first);
            exposure.queries += texts.iter().map(|text| text.len() as u64).sum::<u64>();
            exposure.rows += if design.is_some() { tokens as u64 } else { 0 };
            exposure.same += (a * (a - 1.0) + b * (b - 1.0)) / n;
            exposure.any += (a + b) * (a + b - 1.0) / n;
        }
        Some(SegmentState { block, texts, design })
    }

    fn observe(&mut self, state: &mut SegmentState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        let view = input.attention();
        let mut sums =
            state.design.as_mut().map_or_else(SegmentHeadSums::default, |design| design.decompose_variance(view));
        if let Some([a, b]) = &state.texts {
            let attention_between =
                |queries: &Range<usize>, keys: &Range<usize>| attention_between(view, queries, keys);
            sums.same = attention_between(a, a) + attention_between(b, b);
            sums.any = sums.same + attention_between(a, b) + attention_between(b, a);
        }
        self.blocks[state.block].heads[self.grid.index(view.layer, view.head)].add(&sums);
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, classes: &LayerClasses) -> bool {
        self.grid == grid
            && classes.visibilities() == [self.visibility]
            && self.blocks.is_valid(|block| block.heads.len() == grid.head_count())
    }
}

/// Sums the attention from `queries` to `keys`, without attention from a token to itself.
fn attention_between(view: AttentionView<'_>, queries: &Range<usize>, keys: &Range<usize>) -> f64 {
    let row_sum = |query: usize| {
        let row = view.row(query);
        let all: f64 = row[keys.clone()].iter().map(|&weight| f64::from(weight)).sum();
        if keys.contains(&query) { all - f64::from(row[query]) } else { all }
    };
    queries.clone().map(row_sum).sum()
}
