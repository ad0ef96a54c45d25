//! Formulas and explanations of the metrics on kinds of words and tokens. A mass is a head's attention to one kind of
//! keys, such as nouns.

use super::observe::{QuerySet, SAME_TAG_MASS, SAME_TOKEN_MASS, SAME_WORD_MASS, SIMILARITY_MASS, TAG_COUNT, query_set};
use super::sums::{WordHeadSums, WordInputs, WordsBlock, WordsSums};
use crate::corpus::Upos;
use crate::stats::blocks::{BLOCKS, BlocksWithTotal};
use crate::study::instruments::position::TargetRates;
use crate::study::labels::content::{POSITION_FACTOR, expected, over_chance, over_position};
use crate::study::metrics::explanation::{DEFINED_HERE, Explanation};
use crate::study::metrics::metric::{self, Fraction, Metric, MetricKeys};

const BY_TAG: MetricKeys = MetricKeys::Several(TAG_COUNT, |tag| Upos::ALL[tag].tag().to_owned());

impl WordInputs<'_> {
    /// Mean attention to one kind of keys, over the queries that [`query_set`] selects for it. `mass` is an index in
    /// [`WordHeadSums::masses`].
    fn mean_mass(&self, mass: usize) -> Fraction {
        self.mean_over_queries(mass, self.sums.masses[mass].value())
    }

    /// As `mean_mass`, expected from offsets alone: attention at each offset times the probability that the key there
    /// is of this kind.
    fn expected_mass(&self, mass: usize) -> Fraction {
        let [block, corpus] = [self.sums, self.corpus_sums].map(|sums| &sums.profiles[query_set(mass) as usize]);
        self.mean_over_queries(mass, self.rates[mass].expected_score_part(block, corpus))
    }

    /// Difference between `mean_mass` and its value under uniform attention.
    fn lead_over_chance(&self, mass: usize) -> Fraction {
        self.mean_over_queries(mass, self.sums.masses[mass].value() - self.uniform[mass].value())
    }

    /// Difference between `mean_mass` and [`POSITION_FACTOR`] times `expected_mass`.
    fn lead_over_position(&self, mass: usize) -> Fraction {
        let expected = self.expected_mass(mass).numerator();
        self.mean_over_queries(mass, self.sums.masses[mass].value() - POSITION_FACTOR * expected)
    }

    /// Value of `lead_over_position` under uniform attention: `1 - POSITION_FACTOR` times the mass, since uniform attention's
    /// mass equals its `expected_mass`.
    fn uniform_position_lead(&self, mass: usize) -> Fraction {
        self.mean_over_queries(mass, (1.0 - POSITION_FACTOR) * self.sums.masses[mass].value())
    }

    /// Divides a sum by the size of the mass's query set. No value for a tag that the corpus lacks.
    fn mean_over_queries(&self, mass: usize, sum: f64) -> Fraction {
        if mass < TAG_COUNT && self.corpus_exposure.tags[mass] == 0 {
            return Fraction::NONE;
        }
        let set = query_set(mass) as usize;
        let (queries, sentences) = (self.exposure.queries[set], self.exposure.sentences[set]);
        // Similarity is averaged over the rows with attention to keys that have one.
        let denominator = if mass == SIMILARITY_MASS { self.sums.queries_with_likeness } else { queries };
        Fraction::new(sum, denominator as f64).with_evidence(queries, sentences)
    }
}

const SIMILARITY_CAVEATS: &str = "The model's own word embeddings are the only likeness that needs no other resource: \
    they are not everybody's, and alike in spelling and frequency, too.";

type WordMetric = Metric<for<'a> fn(&WordInputs<'a>, usize) -> Fraction>;

#[expect(clippy::redundant_closure_for_method_calls, reason = "the methods are of one lifetime, the table is of all")]
pub(super) const METRICS: &[WordMetric] = &[
    WordMetric::keyed(BY_TAG, |inputs, tag| inputs.mean_mass(tag)).with_explanation(Explanation {
        name: "tag_mass",
        measures: "How much a word attends to other words of each universal part of speech.",
        formula: "tag_mass[p] = mean over words d of the sum of W[d, v] over v != d with UPOS p",
        chance: "the share of the tokens that are of such words",
        source: "By dependency relation and word class: Clark et al. 2019, section 4; Vig & Belinkov 2019, section \
            4.3.",
        caveats: "Words of sentences in which no word has a UPOS are no queries; `_` is no UPOS.",
    }),
    WordMetric::keyed(BY_TAG, |inputs, tag| inputs.expected_mass(tag))
        .with_chance(|inputs, tag| inputs.mean_mass(tag))
        .with_explanation(expected!("tag_mass")),
    WordMetric::keyed(BY_TAG, |inputs, tag| inputs.lead_over_chance(tag)).with_explanation(over_chance!("tag_mass")),
    WordMetric::keyed(BY_TAG, |inputs, tag| inputs.lead_over_position(tag))
        .with_chance(|inputs, tag| inputs.uniform_position_lead(tag))
        .with_explanation(over_position!("tag_mass")),
    WordMetric::single(|inputs, _| inputs.mean_mass(SAME_TAG_MASS)).with_explanation(Explanation {
        name: "same_tag_mass",
        measures: "How much a word attends to other words of its own part of speech.",
        formula: "mean over words d with another word of their UPOS of the sum of W[d, v] over these v",
        chance: "the share of the tokens that are of such words",
        source: DEFINED_HERE,
        caveats: "A word without another of its UPOS is no query.",
    }),
    WordMetric::single(|inputs, _| inputs.expected_mass(SAME_TAG_MASS))
        .with_chance(|inputs, _| inputs.mean_mass(SAME_TAG_MASS))
        .with_explanation(expected!("same_tag_mass")),
    WordMetric::single(|inputs, _| inputs.lead_over_chance(SAME_TAG_MASS))
        .with_explanation(over_chance!("same_tag_mass")),
    WordMetric::single(|inputs, _| inputs.lead_over_position(SAME_TAG_MASS))
        .with_chance(|inputs, _| inputs.uniform_position_lead(SAME_TAG_MASS))
        .with_explanation(over_position!("same_tag_mass")),
    WordMetric::single(|inputs, _| inputs.mean_mass(SIMILARITY_MASS)).with_explanation(Explanation {
        name: "similarity_gain",
        measures: "How much more alike the query, by the model's word embeddings, the attended tokens are than the \
            others, in standard deviations.",
        formula: "mean over i in T of (sum_j A[i, j] z_ij) / (sum_j A[i, j]), j in T with another id than i; z_ij the \
            cosine of the word embeddings, standardised over the keys j of i",
        chance: "0",
        source: DEFINED_HERE,
        caveats: SIMILARITY_CAVEATS,
    }),
    WordMetric::single(|inputs, _| inputs.expected_mass(SIMILARITY_MASS))
        .with_chance(|inputs, _| inputs.mean_mass(SIMILARITY_MASS))
        .with_explanation(expected!("similarity_gain")),
    WordMetric::single(|inputs, _| inputs.lead_over_chance(SIMILARITY_MASS))
        .with_explanation(over_chance!("similarity_gain")),
    WordMetric::single(|inputs, _| inputs.lead_over_position(SIMILARITY_MASS))
        .with_chance(|inputs, _| inputs.uniform_position_lead(SIMILARITY_MASS))
        .with_explanation(over_position!("similarity_gain")),
    WordMetric::single(|inputs, _| inputs.mean_mass(SAME_TOKEN_MASS)).with_explanation(Explanation {
        name: "same_token_mass",
        measures: "How much a token that is there again attends to its other occurrences.",
        formula: "mean over i in T with id_j = id_i for some other j in T of the sum of A[i, j] over these j",
        chance: "the number of these j over v",
        source: "On text; on repeated random tokens: Olsson et al. 2022.",
        caveats: "Commas and articles are most of what is there again: compare the same without punctuation.",
    }),
    WordMetric::single(|inputs, _| inputs.expected_mass(SAME_TOKEN_MASS))
        .with_chance(|inputs, _| inputs.mean_mass(SAME_TOKEN_MASS))
        .with_explanation(expected!("same_token_mass")),
    WordMetric::single(|inputs, _| inputs.lead_over_chance(SAME_TOKEN_MASS))
        .with_explanation(over_chance!("same_token_mass")),
    WordMetric::single(|inputs, _| inputs.lead_over_position(SAME_TOKEN_MASS))
        .with_chance(|inputs, _| inputs.uniform_position_lead(SAME_TOKEN_MASS))
        .with_explanation(over_position!("same_token_mass")),
    WordMetric::single(|inputs, _| inputs.mean_mass(SAME_WORD_MASS)).with_explanation(Explanation {
        name: "same_word_token_mass",
        measures: "The `same_token_mass` of tokens that are no punctuation.",
        formula: "as same_token_mass, i not in P",
        chance: "the number of these j over v",
        source: DEFINED_HERE,
        caveats: "",
    }),
    WordMetric::single(|inputs, _| inputs.expected_mass(SAME_WORD_MASS))
        .with_chance(|inputs, _| inputs.mean_mass(SAME_WORD_MASS))
        .with_explanation(expected!("same_word_token_mass")),
];

/// Sums over the layers with one attention mask, with the probability that a key at each offset counts for each mass.
pub(super) struct VisibilityClassWords<'a> {
    blocks: BlocksWithTotal<'a, WordsBlock>,
    /// Results of [`WordsBlock::rates`] with each block left out, then over all blocks, `[blocks + 1]`.
    rates: Vec<Vec<TargetRates>>,
}

impl<'a> VisibilityClassWords<'a> {
    pub fn new(sums: &'a WordsSums) -> Self {
        let blocks = sums.blocks.with_total();
        let blocks_left_out = sums.blocks.iter().map(Some).chain([None]);
        let rates = blocks_left_out.map(|block| blocks.total().rates(block)).collect();
        Self { blocks, rates }
    }

    /// Number of queries in a set, over all blocks.
    pub fn query_count(&self, queries: QuerySet) -> u64 {
        self.blocks.total().exposure.queries[queries as usize]
    }

    /// Values of all metrics, of the head with index `place` (`None`: chance levels), in one block (`None`: in all).
    pub fn metric_values(&self, block: Option<usize>, place: Option<usize>) -> Vec<Fraction> {
        let (sums, total, rates) = (self.blocks.sums(block), self.blocks.total(), &self.rates[block.unwrap_or(BLOCKS)]);
        let queries_with_likeness = sums.exposure.queries[QuerySet::WithSimilarity as usize];
        let even = WordHeadSums { masses: sums.uniform, queries_with_likeness, ..WordHeadSums::default() };
        let [head, corpus_head] = [sums, total].map(|sums| place.map_or(&even, |place| &sums.heads[place]));
        let (exposure, corpus, uniform) = (&sums.exposure, &total.exposure, &sums.uniform);
        let inputs =
            WordInputs { exposure, corpus_exposure: corpus, sums: head, corpus_sums: corpus_head, uniform, rates };
        metric::cells(METRICS, |metric, cell| match place {
            Some(_) => (metric.value)(&inputs, cell),
            None => metric.chance.unwrap_or(metric.value)(&inputs, cell),
        })
    }
}
