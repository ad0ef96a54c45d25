//! Sums of the study `norms` per jackknife block of sentences.

use serde::{Deserialize, Serialize};

use super::observe::{
    HeadActivations, NormSums, NormsBuffers, SINK_KIND_COUNT, VECTOR_COUNT, sees_sink, sink_positions, sum_norms,
};
use crate::model::forward::visitor::{MixingRatios, Needs};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::{Demands, Event, Sums};
use crate::sequences::fold::roles::{OFFSET_COUNT, TokenRoles};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, Merge, block_of, merge_fields};
use crate::stats::exact::{ComponentSum, ExactSum, add_elementwise};

/// Denominators of the metrics of study `norms`. All heads share them, since they depend on the sentences alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NormExposure {
    /// Number of text tokens, each one a query.
    pub queries: u64,
    /// Number of sentences with text.
    pub sentences: u64,
    /// Number of sentences with text, where related sentences count once.
    pub families: u64,
    /// Sum over sentences of the squared number of text queries.
    pub squared: u64,
    /// Number of text queries that see a text token at each offset, -8 first.
    pub offset_queries: [u64; OFFSET_COUNT],
    /// Number of sentences with a query counted in `offset_queries`, per offset. Related sentences count once.
    pub offset_families: [u64; OFFSET_COUNT],
    /// Number of tokens of each kind of sink, in the order of [`SINK_NAMES`](super::observe::SINK_NAMES).
    pub sinks: [u64; SINK_KIND_COUNT],
    /// Number of text queries that see a sink, for each kind. For punctuation, which many sentences lack, all text queries
    /// count.
    pub sink_queries: [u64; SINK_KIND_COUNT],
    /// Number of sentences with a query counted in `sink_queries`, for each kind of sink. Related sentences count once.
    pub sink_families: [u64; SINK_KIND_COUNT],
}

merge_fields!(NormExposure {
    queries,
    sentences,
    families,
    squared,
    offset_queries,
    offset_families,
    sinks,
    sink_queries,
    sink_families,
});

impl NormExposure {
    /// Counts the tokens of one sentence.
    fn count_sentence(&mut self, roles: &TokenRoles, visibility: Visibility) {
        let (queries, offset_queries) = (roles.queries().count() as u64, roles.query_counts_by_offset(visibility));
        self.queries += queries;
        let first_with_any = |queries: u64| u64::from(queries > 0 && roles.is_first_of_family);
        self.sentences += u64::from(queries > 0);
        self.families += first_with_any(queries);
        self.squared += queries * queries;
        for (slot, queries) in offset_queries.into_iter().enumerate() {
            self.offset_queries[slot] += queries;
            self.offset_families[slot] += first_with_any(queries);
        }
        let sinks = sink_positions(roles).map(<[usize]>::len);
        self.sinks.iter_mut().zip(sinks).for_each(|(sum, sinks)| *sum += sinks as u64);
        for kind in 0..SINK_KIND_COUNT {
            let queries = roles.queries().filter(|&query| sees_sink(roles, visibility, query, kind)).count() as u64;
            self.sink_queries[kind] += queries;
            self.sink_families[kind] += first_with_any(queries);
        }
    }
}

/// Mixing ratios of one layer, summed over text queries (docs/methodology/norms.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MixingSums {
    /// Mixing ratio of the layer's actual attention.
    pub ratio: ExactSum,
    /// Mixing ratio if all heads of the layer attended uniformly.
    pub even: ExactSum,
}

merge_fields!(MixingSums { ratio, even });

impl MixingSums {
    /// Adds the mixing ratios of one sentence's text queries.
    fn add_sentence(&mut self, roles: &TokenRoles, MixingRatios { ratios, uniform_ratios: even }: MixingRatios<'_>) {
        let sum = |values: &[f32]| roles.queries().map(|query| f64::from(values[query])).sum::<f64>();
        self.ratio += sum(ratios);
        self.even += sum(even);
    }
}

/// Sums of study `norms` over one jackknife block, or over all blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NormBlock {
    pub exposure: NormExposure,
    pub heads: Vec<NormSums<ExactSum>>,
    /// Mixing ratios of each layer, `[layers]`.
    pub layers: Vec<MixingSums>,
    /// Output of each head and its part from each kind of sink, summed over queries,
    /// `[layers * heads, VECTOR_COUNT, head_dim]`. Empty until a head is observed.
    vectors: Vec<ComponentSum>,
}

impl NormBlock {
    /// Components of the summed vectors of the head with index `place`, `[VECTOR_COUNT * head_dim]`. Empty if no head was
    /// observed.
    pub fn vector_components(&self, place: usize) -> impl Iterator<Item = f64> {
        let width = self.vectors.len() / self.heads.len();
        self.vectors[place * width..][..width].iter().map(|component| component.value())
    }

    /// Adds the sums and vectors of one sequence to the head with index `place`.
    fn add_sequence(&mut self, place: usize, sums: &NormSums<f64>, vectors: &[f64]) {
        self.heads[place].add(sums);
        self.vectors.resize(self.heads.len() * vectors.len(), ComponentSum::default());
        add_elementwise(&mut self.vectors[place * vectors.len()..][..vectors.len()], vectors);
    }
}

merge_fields!(NormBlock { exposure, heads, layers, vectors });

/// Norms and mixing ratios summed in each jackknife block, over the layers with one attention mask.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NormsSums {
    grid: HeadGrid,
    visibility: Visibility,
    pub blocks: Blocks<NormBlock>,
    /// Matrix `W_O W_Oᵀ` of each head, `[layers * heads][head_dim, head_dim]`. Empty until the head is observed.
    pub grams: Vec<Vec<f32>>,
    #[serde(skip)]
    buffers: NormsBuffers,
}

impl NormsSums {
    pub fn new(grid: HeadGrid, visibility: Visibility) -> Self {
        let (heads, layers) = (vec![NormSums::default(); grid.head_count()], vec![MixingSums::default(); grid.layers]);
        Self {
            grid,
            visibility,
            blocks: Blocks::new(NormBlock { heads, layers, ..NormBlock::default() }),
            grams: vec![Vec::new(); grid.head_count()],
            buffers: NormsBuffers::default(),
        }
    }
}

impl Merge for NormsSums {
    fn merge(&mut self, other: &Self) {
        assert_eq!((self.grid, self.visibility), (other.grid, other.visibility), "sums of one analysis");
        self.blocks.merge(&other.blocks);
        for (own, other) in self.grams.iter_mut().zip(&other.grams).filter(|(own, _)| own.is_empty()) {
            own.extend(other);
        }
    }
}

impl Sums for NormsSums {
    /// Index of the sequence's jackknife block, and the roles of its tokens.
    type SequenceState = (usize, TokenRoles);

    fn demands(&self) -> Demands {
        Demands::from_needs(Needs { values: true, value_norms: true, outputs: true, mixing: true, ..Needs::ATTENTION })
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        let (block, roles) = (block_of(sequence.family.number), TokenRoles::new(sequence));
        self.blocks[block].exposure.count_sentence(&roles, self.visibility);
        Some((block, roles))
    }

    fn observe(&mut self, (block, roles): &mut Self::SequenceState, event: &mut Event<'_>) {
        if let Event::Mixing { layer, mixing } = event {
            self.blocks[*block].layers[*layer].add_sentence(roles, *mixing);
        }
        let Event::Head(input) = event else { return };
        let head = HeadActivations::new(&input.view);
        let place = self.grid.index(input.view.layer, input.view.head);
        if self.grams[place].is_empty() {
            self.grams[place].extend(head.output.gram);
        }
        let sums = sum_norms(roles, self.visibility, &head, &mut self.buffers);
        self.blocks[*block].add_sequence(place, &sums, &self.buffers.vectors);
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, classes: &LayerClasses) -> bool {
        // Only the heads of this class of layers have a matrix; the other matrices are empty.
        let square = self.grams.iter().map(Vec::len).max().unwrap_or(0);
        let head_dim = square.isqrt();
        let vectors = grid.head_count().saturating_mul(VECTOR_COUNT).saturating_mul(head_dim);
        self.grid == grid
            && classes.visibilities() == [self.visibility]
            && self.grams.len() == grid.head_count()
            && head_dim * head_dim == square
            && self.grams.iter().all(|gram| [0, square].contains(&gram.len()))
            && self.blocks.is_valid(|block| {
                block.heads.len() == grid.head_count()
                    && block.layers.len() == grid.layers
                    && (block.vectors.is_empty() || block.vectors.len() == vectors)
            })
    }
}
