//! Token-level sums of one attention head: targets, distance and spread of its attention (docs/methodology/attention.md).

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

use multiversion::multiversion;
use serde::{Deserialize, Serialize};

use crate::linalg::lanes::{LANES, reduce_lanes};
use crate::linalg::search::{first_at_least, largest, largest_in_mask};
use crate::model::forward::attention::AttentionView;
use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::even::UniformAttention;
use crate::sequences::fold::roles::{MAX_NEIGHBOUR_DISTANCE, MAX_OFFSET_TOKENS, OFFSET_COUNT, TokenRoles, offset_slot};
use crate::stats::blocks::{Merge, merge_fields};
use crate::stats::exact::ExactSum;
use crate::study::instruments::head_sums::sums_of_a_head;
use crate::study::metrics::metric::EligibleCounts;

#[cfg(test)]
mod tests;

sums_of_a_head! {
    /// Sums over queries of one head's attention: the numerators of the token-level metrics.
    pub struct TokenSums;
    several {
        /// Attention to the text token at each offset from the query, -8 first.
        offset_mass: OFFSET_COUNT,
        /// Number of queries whose most attended key is the text token at each offset, -8 first.
        offset_argmax: OFFSET_COUNT,
    }
    single {
        /// Attention to text tokens one or two positions away.
        window_mass,
        /// Mean distance from query to key of the attention that stays on text, in tokens, summed over queries.
        distance,
        /// Number of queries with attention to text: the denominator of `distance`.
        distance_queries,
        first_special_mass,
        /// Attention to the first token of a decoder's input.
        first_token_mass,
        separator_mass,
        separator_self_mass,
        punctuation_mass,
        /// Entropy of the attention row, in nats, summed over text queries.
        entropy,
        /// Entropy of the first special token's attention row, in nats.
        first_special_entropy,
        /// Largest attention weight on a key other than a separator, summed over text queries.
        confidence,
    }
}

/// Denominators of the token-level metrics. All heads share them, since they depend on the sentences alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenExposure {
    /// Text tokens, each one a query.
    pub queries: EligibleCounts,
    /// Number of queries that see a text token at each offset, -8 first.
    pub offset_queries: [u64; OFFSET_COUNT],
    /// Number of sentences with a query counted in `offset_queries`, per offset. Related sentences count once.
    pub offset_sentences: [u64; OFFSET_COUNT],
    /// Text queries that see the first special token.
    pub first_special_queries: EligibleCounts,
    /// Text queries that see the first token of a decoder's input.
    pub first_token_queries: EligibleCounts,
    /// Text queries that see a separator.
    pub separator_queries: EligibleCounts,
    /// First special tokens of sentences.
    pub first_specials: EligibleCounts,
    /// Separator tokens.
    pub separators: EligibleCounts,
    /// Entropy of uniform attention, `ln v(i)` in nats for a query that sees `v(i)` keys, summed over text queries.
    ///
    /// A sentence of one token adds 0 to this sum and to `entropy`, so it does not change their ratio.
    pub max_entropy: ExactSum,
    /// Entropy of uniform attention, `ln v(i)` in nats, summed over the first special tokens as queries.
    pub first_special_max_entropy: ExactSum,
}

merge_fields!(TokenExposure {
    queries,
    offset_queries,
    offset_sentences,
    first_special_queries,
    first_token_queries,
    separator_queries,
    first_specials,
    separators,
    max_entropy,
    first_special_max_entropy,
});

impl TokenExposure {
    /// Counts the tokens of one sentence.
    pub fn count_sentence(&mut self, roles: &TokenRoles, visibility: Visibility) {
        let even = UniformAttention::new(visibility, roles.tokens);
        let (queries, offset_queries) = (roles.queries().count() as u64, roles.query_counts_by_offset(visibility));
        self.queries.add(queries, roles.is_first_of_family);
        self.offset_queries.merge(&offset_queries);
        self.offset_sentences.merge(&offset_queries.map(|count| u64::from(count > 0 && roles.is_first_of_family)));
        let queries_that_see = |keys: &[usize]| {
            let sees = |query: &usize| keys.iter().any(|&key| visibility.sees(*query, key));
            roles.queries().filter(sees).count() as u64
        };
        self.first_special_queries.add(queries_that_see(roles.first_special.as_slice()), roles.is_first_of_family);
        self.first_token_queries.add(queries_that_see(roles.first_token.as_slice()), roles.is_first_of_family);
        self.separator_queries.add(queries_that_see(&roles.separators), roles.is_first_of_family);
        self.separators.add(roles.separators.len() as u64, roles.is_first_of_family);
        if let Some(first) = roles.first_special {
            self.first_specials.add(1, roles.is_first_of_family);
            self.first_special_max_entropy += even.entropy(first);
        }
        self.max_entropy += if visibility.is_full(roles.tokens) {
            even.entropy(0) * queries as f64
        } else {
            roles.queries().map(|query| even.entropy(query)).sum()
        };
    }
}

/// Buffers for one attention row, reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct RowBuffers {
    /// Attention row, padded with zeros to whole SIMD vectors.
    row: Vec<f32>,
    /// Attention row with weights on non-text tokens set to 0, and with [`MAX_OFFSET_TOKENS`] zeros before and after.
    text: Vec<f32>,
    /// `|i - m|` at index `i`, where `m` is half of the length. The distances from a query to the keys start at index
    /// `m - query`.
    distances: Vec<f64>,
}

impl RowBuffers {
    /// Makes room for rows of `width` weights, a multiple of [`LANES`].
    fn resize(&mut self, width: usize) {
        self.row.clear();
        self.row.resize(width, 0.0);
        self.text.clear();
        self.text.resize(MAX_OFFSET_TOKENS + width + MAX_OFFSET_TOKENS, 0.0);
        if self.distances.len() < 2 * width {
            self.distances = (0..2 * width).map(|place| place.abs_diff(width) as f64).collect();
        }
    }
}

/// Sums the attention of one head over the text queries of one sentence.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn sum_token_attention<'a>(
    roles: &'a TokenRoles,
    view: AttentionView<'a>,
    buffers: &'a mut RowBuffers,
) -> TokenSums<f64> {
    let mut sums = TokenSums::default();
    buffers.resize(roles.is_text.len());
    for query in roles.queries() {
        sums.entropy += view.entropy(query);
        add_query_row(&mut sums, roles, query, view.row(query), buffers);
    }
    // Sums by offset contain text only, so the window is a range of offsets.
    let window_slots = offset_slot(MAX_NEIGHBOUR_DISTANCE, 0)..=offset_slot(0, MAX_NEIGHBOUR_DISTANCE);
    sums.window_mass = sums.offset_mass[window_slots].iter().sum::<f64>() - sums.offset_mass[offset_slot(0, 0)];
    for &separator in &roles.separators {
        sums.separator_self_mass += mass_on_keys(view.row(separator), &roles.separators);
    }
    if let Some(first) = roles.first_special {
        sums.first_special_entropy = view.entropy(first);
    }
    sums
}

/// Adds one query's attention row, `weights`, to the sums.
#[inline(always)]
fn add_query_row(
    sums: &mut TokenSums<f64>,
    roles: &TokenRoles,
    query: usize,
    weights: &[f32],
    buffers: &mut RowBuffers,
) {
    let RowBuffers { row, text, distances } = buffers;
    row[..weights.len()].copy_from_slice(weights);
    let width = row.len();
    sums.confidence += f64::from(largest_in_mask(row, &roles.is_not_separator));
    let most_attended = first_at_least(row, largest(row));
    if roles.is_text[most_attended] > 0.0 && most_attended.abs_diff(query) <= MAX_OFFSET_TOKENS {
        sums.offset_argmax[offset_slot(query, most_attended)] += 1.0;
    }

    // A separate loop: the compiler keeps no sums in registers while it writes.
    for ((text, weight), kept) in
        text[MAX_OFFSET_TOKENS..MAX_OFFSET_TOKENS + width].iter_mut().zip(&*row).zip(&roles.is_text)
    {
        *text = weight * kept;
    }
    let (text_mass, moment) = mass_and_moment(
        &text[MAX_OFFSET_TOKENS..MAX_OFFSET_TOKENS + width],
        &distances[distances.len() / 2 - query..][..width],
    );
    // The text begins at index MAX_OFFSET_TOKENS, so index `query` is the token MAX_OFFSET_TOKENS before the query.
    for (sum, &weight) in sums.offset_mass.iter_mut().zip(&text[query..][..OFFSET_COUNT]) {
        *sum += f64::from(weight);
    }
    if text_mass > 0.0 {
        sums.distance += moment / text_mass;
        sums.distance_queries += 1.0;
    }
    if let Some(first) = roles.first_special {
        sums.first_special_mass += f64::from(row[first]);
    }
    if let Some(first) = roles.first_token {
        sums.first_token_mass += f64::from(row[first]);
    }
    sums.separator_mass += mass_on_keys(row, &roles.separators);
    sums.punctuation_mass += mass_on_keys(row, &roles.punctuation);
}

/// Returns the sum of the weights, and the sum of weights times distances. Both lists have a multiple of [`LANES`]
/// elements.
#[inline(always)]
fn mass_and_moment(weights: &[f32], distances: &[f64]) -> (f64, f64) {
    let (mut mass, mut moment) = ([0.0; LANES], [0.0; LANES]);
    for (weights, distances) in weights.as_chunks::<LANES>().0.iter().zip(distances.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            let weight = f64::from(weights[lane]);
            mass[lane] += weight;
            moment[lane] = weight.mul_add(distances[lane], moment[lane]);
        }
    }
    (reduce_lanes(mass, |a, b| a + b), reduce_lanes(moment, |a, b| a + b))
}

/// Returns the sum of an attention row's weights on `keys`.
#[inline(always)]
fn mass_on_keys(row: &[f32], keys: &[usize]) -> f64 {
    keys.iter().map(|&key| f64::from(row[key])).sum()
}
