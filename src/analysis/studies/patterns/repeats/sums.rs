//! Sums of each head's attention to the other copy in sequences of repeated random tokens, per jackknife block.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::copying;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::{Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::derived::repeats::Copies;
use crate::sequences::fold::even::UniformAttention;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, Merge, block_of, merge_fields};
use crate::stats::exact::{ExactSum, add_elementwise};

/// Number of kinds of target keys: those indexed by [`TWIN_KEY`] to [`MASKED_TWIN_KEY`]. All lists by kind have this order.
pub const KEY_KINDS: usize = 4;
/// Index of a kind of target key: the query's twin, the same token in the other copy.
pub const TWIN_KEY: usize = 0;
/// Index of a kind of target key: the token after the query's twin (the same token in the other copy).
pub const AFTER_TWIN_KEY: usize = 1;
/// Index of a kind of target key: the token before the query's twin (the same token in the other copy).
pub const BEFORE_TWIN_KEY: usize = 2;
/// Index of a kind of target key: the twin of a masked query, where the masked token stands in the other copy.
pub const MASKED_TWIN_KEY: usize = 3;

/// Offsets from query to key, in tokens, for the positional metric on random tokens.
pub const KEY_OFFSETS: [isize; 2] = [-1, 1];

/// Head types of the `TransformerLens` detector, by its names (`transformer_lens/head_detector.py`, 4.3.0).
pub const DETECTOR_NAMES: [&str; 3] = ["previous_token_head", "duplicate_token_head", "induction_head"];

/// Minimum distance of a comparison key from the target key, in tokens. It excludes the other kinds of targets, which
/// are next to the target key.
const MIN_KEY_DISTANCE: usize = 4;

/// Minimum distance of a comparison key from the query, in tokens. It excludes keys that a local head attends to.
const MIN_QUERY_DISTANCE: usize = 8;

/// Counts of queries, and sums under uniform attention, in one jackknife block; all heads share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatExposure {
    /// Number of sequences: `[without a mask, with a mask]`.
    pub sequences: [u64; 2],
    /// Number of queries that see their target key, for each kind of target.
    pub queries: [u64; KEY_KINDS],
    /// Attention to the target key under uniform attention, summed over `queries`: `1/v(i)` for a query `i` that sees
    /// `v(i)` keys.
    pub uniform: [ExactSum; KEY_KINDS],
    /// Number of queries that see a text token at each of [`KEY_OFFSETS`].
    pub offset_queries: [u64; KEY_OFFSETS.len()],
    /// Attention to the token at each of [`KEY_OFFSETS`] under uniform attention, summed over `offset_queries`.
    pub offset_uniform: [ExactSum; KEY_OFFSETS.len()],
    /// Number of sequences on which the head detectors are computed: decoder sequences without a mask.
    pub detected: u64,
    /// Score of each of [`DETECTOR_NAMES`] under uniform attention, summed over the sequences counted in `detected`.
    pub detected_uniform: [ExactSum; DETECTOR_NAMES.len()],
}

merge_fields!(RepeatExposure {
    sequences,
    queries,
    uniform,
    offset_queries,
    offset_uniform,
    detected,
    detected_uniform
});

/// Sums of one head over the queries counted in [`RepeatExposure`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatHeadSums {
    /// Attention to the target key, for each kind of target.
    pub mass: [ExactSum; KEY_KINDS],
    /// Mean attention to comparison keys, which are far from query and target, for each kind of target.
    pub null: [ExactSum; KEY_KINDS],
    /// Number of queries that attend to their target key most, for each kind of target.
    pub argmax: [u64; KEY_KINDS],
    /// Attention to the token at each of [`KEY_OFFSETS`].
    pub offset: [ExactSum; KEY_OFFSETS.len()],
    /// Score of each head type in [`DETECTOR_NAMES`], summed over sequences. The score is the share of a sequence's
    /// attention that is on the type's cells (`detector_cells`).
    pub detected: [ExactSum; DETECTOR_NAMES.len()],
}

merge_fields!(RepeatHeadSums { mass, null, argmax, offset, detected });

/// Sums over the sequences of one jackknife block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatBlock {
    pub exposure: RepeatExposure,
    /// Sums of each head, `[layers * heads]`.
    pub heads: Vec<RepeatHeadSums>,
}

merge_fields!(RepeatBlock { exposure, heads });

/// Attention to the other copy in each jackknife block, over plain sequences or over sequences with a mask.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RepeatSums {
    grid: HeadGrid,
    visibility: Visibility,
    pub blocks: Blocks<RepeatBlock>,
    /// Whether the pass computes copying scores from the weights.
    pub weighs: bool,
    /// Copying score of each head, `[layers * heads]`. Empty if the pass does not compute copying scores (`weighs`).
    pub copying: Vec<Option<f64>>,
}

impl RepeatSums {
    pub fn new(grid: HeadGrid, visibility: Visibility) -> Self {
        let empty = RepeatBlock { heads: vec![RepeatHeadSums::default(); grid.head_count()], ..RepeatBlock::default() };
        Self { grid, visibility, blocks: Blocks::new(empty), weighs: false, copying: Vec::new() }
    }
}

/// A query and its target key. `kind` is an index such as [`TWIN_KEY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryKeyPair {
    pub kind: usize,
    pub query: usize,
    pub key: usize,
}

/// The sequence being observed, with its pairs of query and target key.
#[derive(Debug)]
pub struct RepeatState {
    block: usize,
    text: Range<usize>,
    ids: Vec<u32>,
    pairs: Vec<QueryKeyPair>,
    /// Queries with a text token at one of [`KEY_OFFSETS`], as (index of the offset, query, key).
    at_offset: Vec<(usize, usize, usize)>,
    /// Attention cells that head detectors sum, as (index in [`DETECTOR_NAMES`], query, key). Empty if no head detectors are
    /// computed on the sequence.
    detected: Vec<(usize, usize, usize)>,
}

/// Attention cells that each of [`DETECTOR_NAMES`] sums, as (index of the name, query, key). The keys are the previous
/// token, earlier tokens of equal id, and the tokens after those.
fn detector_cells(ids: &[u32]) -> Vec<(usize, usize, usize)> {
    let previous = (1..ids.len()).map(|query| (0, query, query - 1));
    let twins = (0..ids.len())
        .flat_map(|query| (0..query).filter(move |&key| ids[key] == ids[query]).map(move |key| (query, key)));
    let of_twins = twins.flat_map(|(query, key)| [(1, query, key), (2, query, key + 1)]);
    previous.chain(of_twins).collect()
}

/// Pairs of a query and its target key in a sequence. A masked sequence has one, from the mask to its token's twin.
fn target_pairs(copies: &Copies) -> Vec<QueryKeyPair> {
    if let Some(query) = copies.masked_token {
        return vec![QueryKeyPair { kind: MASKED_TWIN_KEY, query, key: query - copies.copy_distance }];
    }
    let of_twins = copies.equal_token_pairs().flat_map(|(query, twin)| {
        let next = (twin + 1 < copies.text.end).then_some((AFTER_TWIN_KEY, twin + 1));
        let previous = (twin > copies.text.start).then(|| (BEFORE_TWIN_KEY, twin - 1));
        let keys = [Some((TWIN_KEY, twin)), next, previous].into_iter().flatten();
        keys.filter(move |&(_, key)| key != query).map(move |(kind, key)| QueryKeyPair { kind, query, key })
    });
    of_twins.collect()
}

impl Merge for RepeatSums {
    fn merge(&mut self, other: &Self) {
        assert_eq!((self.grid, self.visibility), (other.grid, other.visibility), "sums of one analysis");
        self.blocks.merge(&other.blocks);
        if self.copying.is_empty() {
            self.copying.clone_from(&other.copying);
        }
    }
}

impl Sums for RepeatSums {
    type SequenceState = RepeatState;

    fn begin_pass(&mut self, setup: &PassSetup<'_>) {
        if let Some(encoder) = setup.encoder.filter(|_| self.weighs) {
            self.copying = copying::copying_scores(encoder, self.grid).unwrap_or_default();
            // Later heads of a decoder read hidden states, not embeddings: its induction heads do not copy by weights alone.
            if self.visibility.is_causal() {
                self.copying.iter_mut().skip(self.grid.heads).for_each(|score| *score = None);
            }
        }
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<RepeatState> {
        let block = block_of(sequence.family.number);
        let copies = Copies::find(sequence)?;
        let (visibility, tokens, ids) = (self.visibility, sequence.ids.len(), &sequence.ids);
        let text = copies.text.clone();
        let mut pairs = target_pairs(&copies);
        // Keeps pairs whose key is visible and that have a comparison key.
        pairs.retain(|pair| {
            visibility.sees(pair.query, pair.key) && comparison_keys((&text, ids), visibility, pair).next().is_some()
        });
        let offsets = KEY_OFFSETS.into_iter().enumerate().flat_map(|(index, offset)| {
            let keys = text.clone().filter_map(move |query| Some((query, query.checked_add_signed(offset)?)));
            keys.map(move |(query, key)| (index, query, key))
        });
        // A sequence with a mask is not entirely random tokens, so it is left out.
        let at_offset: Vec<_> = if copies.masked_token.is_some() {
            Vec::new()
        } else {
            offsets.filter(|&(_, query, key)| text.contains(&key) && visibility.sees(query, key)).collect()
        };
        let (exposure, even) = (&mut self.blocks[block].exposure, UniformAttention::new(visibility, tokens));
        exposure.sequences[usize::from(copies.masked_token.is_some())] += 1;
        for &QueryKeyPair { kind, query, .. } in &pairs {
            exposure.queries[kind] += 1;
            exposure.uniform[kind] += even.weight(query);
        }
        for &(index, query, _) in &at_offset {
            exposure.offset_queries[index] += 1;
            exposure.offset_uniform[index] += even.weight(query);
        }
        let is_detected = visibility.is_causal() && copies.masked_token.is_none();
        let detected = if is_detected { detector_cells(&sequence.ids) } else { Vec::new() };
        exposure.detected += u64::from(is_detected);
        for &(index, query, _) in detected.iter().filter(|(_, query, key)| visibility.sees(*query, *key)) {
            exposure.detected_uniform[index] += even.weight(query) / tokens as f64;
        }
        Some(RepeatState { block, text, ids: ids.clone(), pairs, at_offset, detected })
    }

    fn observe(&mut self, state: &mut RepeatState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        let view = input.attention();
        let sums = &mut self.blocks[state.block].heads[self.grid.index(view.layer, view.head)];
        let (mut mass, mut null) = ([0.0; KEY_KINDS], [0.0; KEY_KINDS]);
        for pair in &state.pairs {
            let &QueryKeyPair { kind, query, key } = pair;
            let row = view.row(query);
            mass[kind] += f64::from(row[key]);
            null[kind] += mean_weight(row, comparison_keys((&state.text, &state.ids), self.visibility, pair));
            sums.argmax[kind] += u64::from(most_attended(row) == key);
        }
        add_elementwise(&mut sums.mass, &mass);
        add_elementwise(&mut sums.null, &null);
        add_elementwise(&mut sums.offset, &attention_sums::<{ KEY_OFFSETS.len() }>(view, &state.at_offset));
        let detected = attention_sums::<{ DETECTOR_NAMES.len() }>(view, &state.detected);
        // Every row sums to 1, so the total attention is the number of tokens.
        add_elementwise(&mut sums.detected, &detected.map(|mass| mass / view.tokens() as f64));
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, classes: &LayerClasses) -> bool {
        self.grid == grid
            && classes.visibilities() == [self.visibility]
            && [0, grid.head_count()].contains(&self.copying.len())
            && self.blocks.is_valid(|block| block.heads.len() == grid.head_count())
    }
}

/// Sums attention over triples (index, query, key), separately for each index.
fn attention_sums<const N: usize>(view: AttentionView<'_>, pairs: &[(usize, usize, usize)]) -> [f64; N] {
    let mut sums = [0.0; N];
    pairs.iter().for_each(|&(index, query, key)| sums[index] += f64::from(view.row(query)[key]));
    sums
}

/// Comparison keys for a query and its target key: visible text tokens far from both. Tokens that repeat the target by
/// chance, as in a small vocabulary of residues, are left out.
fn comparison_keys<'a>(
    (text, ids): (&Range<usize>, &'a [u32]),
    visibility: Visibility,
    &QueryKeyPair { kind, query, key }: &QueryKeyPair,
) -> impl Iterator<Item = usize> + use<'a> {
    let visible = visibility.visible_keys(query, ids.len());
    let keys = text.start.max(visible.start)..text.end.min(visible.end);
    let paired_place = move |key: usize| match kind {
        AFTER_TWIN_KEY => key.checked_sub(1),
        BEFORE_TWIN_KEY => Some(key + 1),
        _ => Some(key),
    };
    let paired_token = move |key: usize| paired_place(key).and_then(|place| ids.get(place));
    let is_far =
        move |place: &usize| place.abs_diff(key) >= MIN_KEY_DISTANCE && place.abs_diff(query) >= MIN_QUERY_DISTANCE;
    keys.filter(is_far).filter(move |&place| paired_token(place) != paired_token(key))
}

/// Mean attention weight on `keys`; 0 if there are none.
fn mean_weight(row: &[f32], keys: impl Iterator<Item = usize>) -> f64 {
    let (sum, count) = keys.fold((0.0, 0_u32), |(sum, count), key| (sum + f64::from(row[key]), count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

/// Index of the key with the largest weight; the first among equals.
fn most_attended(row: &[f32]) -> usize {
    let largest =
        |best: (usize, f32), (key, &weight): (usize, &f32)| if weight > best.1 { (key, weight) } else { best };
    row.iter().enumerate().fold((0, f32::NEG_INFINITY), largest).0
}
