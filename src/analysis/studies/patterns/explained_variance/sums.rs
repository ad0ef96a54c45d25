//! Products of attention with cues, summed per jackknife block of sentences.

use serde::{Deserialize, Serialize};

use super::cues::CUE_COUNT;
use super::observe::{ColumnSums, cue_products};
use super::positions::{PlaceHeadSums, PlaceSums, TextAttentionRows};
use super::sentence::{CUE_PRODUCT_COUNT, CueProducts, KEY_SET_COUNT, SentenceCues, TokenLexicon};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::{Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::{ComponentSum, ExactSum};
use crate::study::instruments::neighbours::{Neighbour, Neighbours};

/// Sums of one head's attention over one key set (all keys, or text keys).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedHeadSums {
    /// Products of attention with each cue, `[CUE_COUNT]`. A row adds at most 1 in magnitude, so there is room for 2 · 10^9
    /// rows.
    pub products: Vec<ComponentSum>,
    /// Sum of `(a - m)²` over attention weights `a`, where `m` is the mean of the row.
    pub squares: ExactSum,
}

merge_fields!(ExplainedHeadSums { products, squares });

/// Sums over one jackknife block and one key set (all keys, or text keys).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySetSums {
    /// Number of attention rows.
    pub rows: u64,
    /// Number of keys, summed over rows.
    pub keys: u64,
    /// Number of sentences with attention rows. Related sentences count once.
    pub sentences: u64,
    /// Products of cues with each other: the lower half of the symmetric matrix, `[CUE_PRODUCT_COUNT]`.
    pub cues: Vec<ExactSum>,
    /// Sums of each attention head, `[layers * heads]`.
    pub heads: Vec<ExplainedHeadSums>,
}

impl KeySetSums {
    /// Adds the products of one sentence's cues. `is_first` is false for related sentences after the first.
    fn add_sentence(&mut self, products: &CueProducts, is_first: bool) {
        self.rows += products.rows;
        self.keys += products.keys;
        self.sentences += u64::from(is_first);
        self.cues.iter_mut().zip(&products.cells).for_each(|(sum, &value)| *sum += value);
    }

    /// Whether the lists have the lengths required for `heads` attention heads. Sums read from a file may fail this.
    fn fits(&self, heads: usize) -> bool {
        self.cues.len() == CUE_PRODUCT_COUNT
            && self.heads.len() == heads
            && self.heads.iter().all(|head| head.products.len() == CUE_COUNT)
    }
}

merge_fields!(KeySetSums { rows, keys, sentences, cues, heads });

/// Products of attention and cues in each jackknife block, over the layers that share an attention mask.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExplainedSums {
    grid: HeadGrid,
    visibility: Visibility,
    pub blocks: Blocks<[KeySetSums; KEY_SET_COUNT]>,
    /// Products of attention rows at equal positions of adjacent sequences, for the share that positions explain.
    pub places: Blocks<PlaceSums>,
    #[serde(skip)]
    lexicon: TokenLexicon,
    #[serde(skip)]
    columns: ColumnSums,
    #[serde(skip)]
    neighbours: Neighbours<TextAttentionRows>,
}

impl ExplainedSums {
    pub fn new(grid: HeadGrid, visibility: Visibility) -> Self {
        let head =
            ExplainedHeadSums { products: vec![ComponentSum::default(); CUE_COUNT], squares: ExactSum::default() };
        let (cues, heads) = (vec![ExactSum::default(); CUE_PRODUCT_COUNT], vec![head; grid.head_count()]);
        let form = KeySetSums { rows: 0, keys: 0, sentences: 0, cues, heads };
        Self {
            grid,
            visibility,
            blocks: Blocks::new([form.clone(), form]),
            places: Blocks::new(PlaceSums::default()),
            lexicon: TokenLexicon::default(),
            columns: ColumnSums::default(),
            neighbours: Neighbours::default(),
        }
    }
}

/// The sequence being observed, with its cues.
#[derive(Debug)]
pub struct ExplainedState {
    block: usize,
    cues: SentenceCues,
    /// Whether the sentence has attention rows over `[all keys, text keys]`.
    forms: [bool; KEY_SET_COUNT],
    /// The sequence and its neighbour, the preceding sequence. [`ExplainedSums::places`] compares the attention rows of both.
    neighbour: Neighbour,
}

merge_fields!(ExplainedSums[grid, visibility] { blocks, places });

impl Sums for ExplainedSums {
    type SequenceState = ExplainedState;

    fn begin_pass(&mut self, setup: &PassSetup<'_>) {
        self.lexicon = TokenLexicon { embeddings: setup.embeddings.clone(), counts: setup.counts.clone() };
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<ExplainedState> {
        let block = block_of(sequence.family.number);
        let (cues, products) = SentenceCues::new(sequence, self.visibility, &self.lexicon);
        for (sums, products) in self.blocks[block].iter_mut().zip(&products) {
            if let Some(products) = products {
                sums.add_sentence(products, sequence.family.is_first);
            }
        }
        let neighbour = self.neighbours.begin(sequence, cues.text_tokens.len());
        let places = &mut self.places[block];
        places.followers += u64::from(neighbour.follows_other_group);
        if let Some(other) = neighbour.length() {
            places.pairs += 1;
            places.rows += cues.text_tokens.len().min(other) as u64;
            places.sentences += u64::from(sequence.family.is_first);
            places.heads.resize(self.grid.head_count(), PlaceHeadSums::default());
        }
        Some(ExplainedState { block, cues, forms: products.map(|products| products.is_some()), neighbour })
    }

    fn observe(&mut self, state: &mut ExplainedState, event: &mut Event<'_>) {
        let ExplainedState { block, cues, forms, neighbour } = state;
        let input = match event {
            Event::Head(input) => input,
            Event::PackEnd => return self.neighbours.end_pack(),
            _ => return,
        };
        let view = input.attention();
        let place = self.grid.index(view.layer, view.head);
        let text = input.text_attention();
        if let Some(other) = self.neighbours.neighbour_value(neighbour, view.layer, view.head) {
            let sums = &mut self.places[*block].heads[place];
            let [shared, offsets, squares] =
                TextAttentionRows::new(&cues.text_tokens, text).row_products(other, self.visibility);
            sums.shared += shared;
            sums.offsets += offsets;
            sums.squares += squares;
        }
        self.neighbours
            .keep_value(neighbour, view.layer, view.head, || TextAttentionRows::new(&cues.text_tokens, text));
        let (products, squares) = cue_products(cues, text, view, &mut self.columns);
        for (form, sums) in self.blocks[*block].iter_mut().enumerate().filter(|(form, _)| forms[*form]) {
            let head = &mut sums.heads[place];
            head.products.iter_mut().zip(products[form]).for_each(|(sum, value)| *sum += value);
            head.squares += squares[form];
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, classes: &LayerClasses) -> bool {
        let heads = grid.head_count();
        self.grid == grid
            && classes.visibilities() == [self.visibility]
            && self.blocks.is_valid(|block| block.iter().all(|sums| sums.fits(heads)))
            && self.places.is_valid(|sums| sums.fits(heads))
    }
}
