//! Sums of attention to rare and to common tokens, per jackknife block of sentences.

use std::ops::Range;
use std::sync::Arc;

use multiversion::multiversion;
use serde::{Deserialize, Serialize};

use crate::linalg::lanes::{LANES, dot};
use crate::linalg::search::{first_at_least, largest};
use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::{Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::counts::TokenCounts;
use crate::sequences::fold::even::UniformAttention;
use crate::sequences::fold::text::TextAttention;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;
use crate::study::instruments::position::{OffsetProfile, PositionPairs, ProfileSums, QueryKeyPair, TargetRates};
use crate::study::metrics::metric::EligibleCounts;

/// Number of top frequency ranks that do not count as rare: a sentence's rarest tokens count only beyond rank 500 (Voita et
/// al. 2019, 5.3).
pub const COMMON_RANKS: u64 = 500;

/// Sums of one head over queries. A sentence's rarest tokens are those with the smallest count in the corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequencyHeadSums {
    /// Number of queries whose most attended text token is among the sentence's rarest.
    pub argmax: u64,
    /// Attention to the sentence's rarest tokens.
    pub mass: ExactSum,
    /// Mean commonness of attended tokens minus that of all other visible text tokens, summed over queries.
    pub shift: ExactSum,
    /// Number of queries with attention to other text tokens: the denominator of `shift`.
    pub shifted: u64,
    /// As `shift`, for queries among the sentence's rarest tokens.
    pub shift_rare: ExactSum,
    /// Number of queries in `shifted` that are among the sentence's rarest tokens: the denominator of `shift_rare`.
    pub shifted_rare: u64,
    /// Number of queries whose most attended token is at each offset from the query.
    pub argmax_profile: ProfileSums,
    /// Attention at each offset from the query.
    pub mass_profile: ProfileSums,
}

merge_fields!(FrequencyHeadSums {
    argmax,
    mass,
    shift,
    shifted,
    shift_rare,
    shifted_rare,
    argmax_profile,
    mass_profile,
});

impl FrequencyHeadSums {
    fn add_sentence(&mut self, sums: &SentenceSums) {
        self.argmax += sums.argmax;
        self.mass += sums.mass;
        self.shift += sums.shift;
        self.shifted += sums.shifted;
        self.shift_rare += sums.shift_rare;
        self.shifted_rare += sums.shifted_rare;
        self.argmax_profile.add(&sums.argmax_profile);
        self.mass_profile.add(&sums.mass_profile);
    }
}

/// Denominators of the metrics, and sums under uniform attention; all heads share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequencyExposure {
    /// Number of queries that see one of the sentence's rarest tokens and are not rarest themselves. Sentences whose rarest
    /// tokens are among the 500 commonest are left out.
    pub others: EligibleCounts,
    /// Number of queries that see another text token.
    pub queries: EligibleCounts,
    /// Number of queries among the sentence's rarest tokens. Sentences whose rarest tokens are among the 500 commonest are
    /// left out.
    pub rarest: EligibleCounts,
    /// Sum of `|R|/|T|` over queries, with `R` the visible rarest tokens and `T` the visible text tokens: the chance level
    /// of `argmax`.
    pub argmax: ExactSum,
    /// Sum of `|R|/v(i)` over queries `i`, with `R` the visible rarest tokens and `v(i)` the number of visible keys: the
    /// chance level of `mass`.
    pub mass: ExactSum,
}

merge_fields!(FrequencyExposure { others, queries, rarest, argmax, mass });

/// Sums over the sentences of one jackknife block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequencyBlock {
    pub exposure: FrequencyExposure,
    /// Pairs of a query (a text token that sees one of its sentence's rarest tokens, but is none) and another text token, by
    /// offset. A pair weighs 1 divided by the number of text tokens (first element) or keys (second) that the query sees.
    pairs: [PositionPairs; 2],
    /// Sums of each head, `[layers * heads]`.
    pub heads: Vec<FrequencyHeadSums>,
}

impl FrequencyBlock {
    /// Probability that the key at each offset is a rarest token, over all blocks but `block` (`None`: over all). The
    /// first is for `argmax`, the second for `mass`.
    pub fn rates(&self, block: Option<&Self>) -> [TargetRates; 2] {
        [0, 1].map(|weights| self.pairs[weights].rates(0, block.map(|block| &block.pairs[weights])))
    }
}

merge_fields!(FrequencyBlock { exposure, pairs, heads });

/// Attention to rare and common tokens in each jackknife block, over the layers that share an attention mask.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FrequencySums {
    grid: HeadGrid,
    visibility: Visibility,
    pub blocks: Blocks<FrequencyBlock>,
    /// Count of each token in the whole corpus. `None` if tokens were not counted.
    #[serde(skip)]
    counts: Option<Arc<TokenCounts>>,
}

impl FrequencySums {
    pub fn new(grid: HeadGrid, visibility: Visibility) -> Self {
        let (exposure, pairs) = (FrequencyExposure::default(), [(); 2].map(|()| PositionPairs::new(1)));
        let heads = vec![FrequencyHeadSums::default(); grid.head_count()];
        Self { grid, visibility, blocks: Blocks::new(FrequencyBlock { exposure, pairs, heads }), counts: None }
    }
}

/// Corpus frequencies of the tokens in a sentence with at least two text tokens.
#[derive(Debug)]
pub struct SentenceFrequencies {
    /// Positions of the text tokens.
    text_tokens: Vec<usize>,
    /// Commonness of each token: the share of corpus tokens that are rarer. 0 for special tokens.
    commonness: Vec<f32>,
    /// Mean commonness, for each text token, of the other text tokens that it sees. `None` if it sees none.
    mean_of_others: Vec<Option<f64>>,
    /// Whether each token is among the sentence's rarest. All false if the rarest are among the 500 commonest tokens of the
    /// corpus.
    is_rare: Vec<bool>,
    /// Positions at which `is_rare` is true.
    rarest_tokens: Vec<usize>,
    /// Positions of text tokens that see a rarest token and are not rarest themselves. Empty if `is_rare` is all false.
    common_queries: Vec<usize>,
    visibility: Visibility,
}

impl SentenceFrequencies {
    /// Looks up the corpus frequencies of a sentence's tokens. `None` if it has fewer than two text tokens.
    #[expect(clippy::cast_possible_truncation, reason = "weights are f32, and so is what they are multiplied with")]
    fn new(sequence: &Sequence, visibility: Visibility, counts: &TokenCounts) -> Option<Self> {
        let tokens = sequence.ids.len();
        let text: Vec<usize> = sequence.text_positions().collect();
        if text.len() < 2 {
            return None;
        }
        let width = tokens.next_multiple_of(LANES);
        let (mut common, mut is_rare) = (vec![0.0; width], vec![false; tokens]);
        let frequency = |token: usize| counts.get(sequence.ids[token]);
        for &token in &text {
            common[token] = frequency(token).commonness as f32;
        }
        let rarest = text.iter().map(|&token| frequency(token)).min_by_key(|frequency| frequency.count)?;
        if rarest.rank > COMMON_RANKS {
            text.iter().for_each(|&token| is_rare[token] = frequency(token).count == rarest.count);
        }
        let rare: Vec<usize> = (0..tokens).filter(|&token| is_rare[token]).collect();
        let sees_rare = |query: usize| rare.iter().any(|&key| visibility.sees(query, key));
        let others = text.iter().copied().filter(|&token| !is_rare[token] && sees_rare(token)).collect();
        let frequencies = Self {
            text_tokens: text,
            commonness: common,
            mean_of_others: Vec::new(),
            is_rare,
            rarest_tokens: rare,
            common_queries: others,
            visibility,
        };
        let mean_of_others =
            frequencies.text_tokens.iter().map(|&query| frequencies.mean_commonness_of_others(query)).collect();
        Some(Self { mean_of_others, ..frequencies })
    }

    /// Positions of the text tokens that a query sees, itself included.
    fn visible_text_tokens(&self, query: usize) -> &[usize] {
        let Range { start, end } = self.visibility.visible_keys(query, self.is_rare.len());
        let place = |first: usize| self.text_tokens.partition_point(|&token| token < first);
        &self.text_tokens[place(start)..place(end)]
    }

    /// Attention of `common_queries` to the rarest tokens, if query `i` gives each key the weight `weight(i)`.
    fn rare_mass(&self, weight: impl Fn(usize) -> f64) -> f64 {
        let count = |query: usize| self.rarest_tokens.iter().filter(|&&key| self.visibility.sees(query, key)).count();
        match self.common_queries.first() {
            // All queries see equally many.
            Some(&first) if self.visibility.is_full(self.is_rare.len()) => {
                (self.common_queries.len() * self.rarest_tokens.len()) as f64 * weight(first)
            }
            _ => self.common_queries.iter().map(|&query| count(query) as f64 * weight(query)).sum(),
        }
    }

    /// Mean commonness of the other text tokens that a query sees. `None` if it sees none.
    fn mean_commonness_of_others(&self, query: usize) -> Option<f64> {
        let text = self.visible_text_tokens(query);
        let sum: f64 = text.iter().map(|&token| f64::from(self.commonness[token])).sum();
        (text.len() > 1).then(|| (sum - f64::from(self.commonness[query])) / (text.len() - 1) as f64)
    }

    /// Pairs of a query in `common_queries` and any other text token that it sees, with weight `weight(query)`. A key among the
    /// rarest tokens belongs to target 0.
    fn query_key_pairs(&self, weight: impl Fn(usize) -> f64 + Copy) -> impl Iterator<Item = QueryKeyPair> {
        self.common_queries.iter().flat_map(move |&query| {
            let keys = self.visible_text_tokens(query).iter().filter(move |&&key| key != query);
            keys.map(move |&key| {
                let target = self.is_rare[key].then_some((0, 1.0));
                QueryKeyPair { query, key, weight: weight(query), target }
            })
        })
    }
}

/// Sums of one head over one sentence. Fields as in [`FrequencyHeadSums`].
#[derive(Debug, Default)]
struct SentenceSums {
    argmax: u64,
    mass: f64,
    shift: f64,
    shifted: u64,
    shift_rare: f64,
    shifted_rare: u64,
    argmax_profile: OffsetProfile,
    mass_profile: OffsetProfile,
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn sum_sentence<'a>(
    sentence: &'a SentenceFrequencies,
    text: &'a TextAttention,
    view: AttentionView<'a>,
) -> SentenceSums {
    let mut sums = SentenceSums::default();
    for (&query, mean_of_others) in sentence.text_tokens.iter().zip(&sentence.mean_of_others) {
        let (row, mass) = (text.row(query), text.row_sum(query));
        if let Some(mean) = mean_of_others
            && mass > 0.0
        {
            let common = f64::from(dot(row, &sentence.commonness));
            let shift = common / mass - mean;
            sums.shift += shift;
            sums.shifted += 1;
            if sentence.is_rare[query] {
                sums.shift_rare += shift;
                sums.shifted_rare += 1;
            }
        }
    }
    for &query in &sentence.common_queries {
        let row = text.row(query);
        let most_attended = most_attended(sentence, row, query, view.row(query)[query]);
        sums.argmax += u64::from(sentence.is_rare[most_attended]);
        sums.argmax_profile.add_single_key(query, most_attended);
        sums.mass += sentence.rarest_tokens.iter().map(|&rare| f64::from(row[rare])).sum::<f64>();
        sums.mass_profile.add_text(text, query, 1.0);
    }
    sums
}

/// Position of the visible text token with the largest weight, the query included; the first among equals. `row` has
/// the attention to other text tokens, `own_weight` that to the query.
#[inline]
fn most_attended(sentence: &SentenceFrequencies, row: &[f32], query: usize, own_weight: f32) -> usize {
    let largest_weight = largest(row);
    if own_weight > largest_weight {
        query
    } else if largest_weight > 0.0 {
        let largest_key = first_at_least(row, largest_weight);
        if own_weight < largest_weight { largest_key } else { largest_key.min(query) }
    } else {
        sentence.visible_text_tokens(query)[0]
    }
}

/// The sequence being observed, with the frequencies of its tokens.
#[derive(Debug)]
pub struct FrequencyState {
    block: usize,
    /// Corpus frequencies of the tokens. `None` if the sequence has fewer than two text tokens.
    sentence: Option<SentenceFrequencies>,
}

merge_fields!(FrequencySums[grid, visibility] { blocks });

impl Sums for FrequencySums {
    type SequenceState = FrequencyState;

    fn begin_pass(&mut self, setup: &PassSetup<'_>) {
        self.counts.clone_from(&setup.counts);
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<FrequencyState> {
        let (block, is_first) = (block_of(sequence.family.number), sequence.family.is_first);
        let (visibility, tokens) = (self.visibility, sequence.ids.len());
        let counts = self.counts.as_ref();
        let sentence = counts.and_then(|counts| SentenceFrequencies::new(sequence, visibility, counts));
        if let Some(sentence) = &sentence {
            let FrequencyBlock { exposure, pairs, .. } = &mut self.blocks[block];
            exposure.queries.add(sentence.mean_of_others.iter().flatten().count() as u64, is_first);
            exposure.others.add(sentence.common_queries.len() as u64, is_first);
            exposure.rarest.add(sentence.rarest_tokens.len() as u64, is_first);
            let even = UniformAttention::new(visibility, tokens);
            let text_share = |query: usize| 1.0 / sentence.visible_text_tokens(query).len() as f64;
            let key_share = |query: usize| even.weight(query);
            exposure.argmax += sentence.rare_mass(text_share);
            exposure.mass += sentence.rare_mass(key_share);
            pairs[0].add(sentence.query_key_pairs(text_share));
            pairs[1].add(sentence.query_key_pairs(key_share));
        }
        Some(FrequencyState { block, sentence })
    }

    fn observe(&mut self, FrequencyState { block, sentence }: &mut FrequencyState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        let Some(sentence) = sentence else { return };
        let view = input.attention();
        let head = self.grid.index(view.layer, view.head);
        self.blocks[*block].heads[head].add_sentence(&sum_sentence(sentence, input.text_attention(), view));
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, classes: &LayerClasses) -> bool {
        self.grid == grid
            && classes.visibilities() == [self.visibility]
            && self.blocks.is_valid(|block| {
                block.heads.len() == grid.head_count() && block.pairs.iter().all(|pairs| pairs.target_count() == 1)
            })
    }
}
