//! Data of one attention head over one sequence, and its sums over text queries.

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

use crate::model::forward::attention::AttentionView;
use crate::model::forward::visitor::{HeadOutput, HeadValues, HeadView, ValueNorms};
use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::roles::{OFFSET_COUNT, TokenRoles};
use crate::study::instruments::head_sums::sums_of_a_head;

/// Names of the kinds of sinks (tokens to which many heads attend). They are also the names of their labels. All lists by
/// sink have this order.
pub const SINK_NAMES: [&str; 4] = ["first-special", "separator", "punctuation", "first-token"];

/// Number of kinds of sinks.
pub const SINK_KIND_COUNT: usize = SINK_NAMES.len();

/// Number of vectors summed for each head: its output, then the part of the output from each kind of sink.
pub const VECTOR_COUNT: usize = 1 + SINK_KIND_COUNT;

sums_of_a_head! {
    /// Sums of one head over text queries; under uniform attention in fields that begin with `uniform`. Key `j` has the
    /// norm-weighted share `A[i,j] |f_j| / sum_k A[i,k] |f_k|` of query `i`.
    pub struct NormSums;
    several {
        /// Norm-weighted share of the text token at each offset from the query, -8 first.
        offset_mass: OFFSET_COUNT,
        uniform_offset_mass: OFFSET_COUNT,
        /// Number of queries that have a text token at each offset and no norm-weighted shares.
        offset_silent: OFFSET_COUNT,
        /// Number of queries without norm-weighted shares that see each kind of sink. For punctuation, all such queries count.
        sink_silent: SINK_KIND_COUNT,
        /// Norm-weighted share of the sinks of each kind.
        sink_mass: SINK_KIND_COUNT,
        uniform_sink_mass: SINK_KIND_COUNT,
        /// Inner product of the output without value bias and its part from each kind of sink, `<s_i, o°_i>`.
        sink_product: SINK_KIND_COUNT,
        uniform_sink_product: SINK_KIND_COUNT,
        /// Squared norm `|s_i|²` of the output's part from each kind of sink.
        sink_square: SINK_KIND_COUNT,
        /// Sum over sentences of `n |mean s_i|²`, where `s_i` is the output's part from each kind of sink. `n` is the
        /// sentence's number of queries.
        sink_mean_square: SINK_KIND_COUNT,
    }
    single {
        /// Number of queries without norm-weighted shares: their attended values are all 0.
        without_norm,
        /// Norm-weighted share of text tokens one or two positions from the query.
        window_mass,
        uniform_window_mass,
        /// Attention times the norm of projected values, summed over keys: `sum_j A[i,j] |f_j|`.
        spent,
        uniform_spent,
        /// Norm `|o_i|` of the output with value bias.
        output,
        uniform_output,
        /// Output norm divided by input norm, `|o_i| / |x_i|`.
        output_ratio,
        /// Number of queries whose input `x_i` is 0, so that they have no `output_ratio`.
        output_ratio_silent,
        /// Norm `|o°_i|` of the output without value bias.
        bare_output,
        /// Squared norm `|o°_i|²` of the output without value bias.
        square,
        uniform_square,
        /// Sum over sentences of `n |mean o°_i|²`, where `o°_i` is the output without value bias. `n` is the sentence's number
        /// of queries.
        mean_square,
    }
}

/// Attention, values, value norms and output of one head over one sequence.
#[derive(Clone, Copy)]
pub struct HeadActivations<'a> {
    pub(super) attention: AttentionView<'a>,
    pub(super) values: HeadValues<'a>,
    pub(super) norms: ValueNorms<'a>,
    pub output: HeadOutput<'a>,
}

impl<'a> HeadActivations<'a> {
    /// Reads the head's data from a view. Panics if the view lacks values, norms or output.
    pub fn new(view: &HeadView<'a>) -> Self {
        let message = "what was asked for is lent";
        Self {
            attention: view.attention,
            values: view.values.expect(message),
            norms: view.value_norms.expect(message),
            output: view.output.expect(message),
        }
    }

    /// Number of values per vector of the head.
    pub(super) fn head_dim(&self) -> usize {
        self.values.bias.len()
    }
}

/// Positions of the tokens of each kind of sink, in the order of [`SINK_NAMES`].
#[inline(always)]
pub fn sink_positions(roles: &TokenRoles) -> [&[usize]; SINK_KIND_COUNT] {
    [roles.first_special.as_slice(), &roles.separators, &roles.punctuation, roles.first_token.as_slice()]
}

/// Whether a query counts for the kind of sink with this index in [`SINK_NAMES`]: it sees such a sink. For punctuation
/// every query counts, since many sentences lack it and the mean is over all of them.
pub fn sees_sink(roles: &TokenRoles, visibility: Visibility, query: usize, kind: usize) -> bool {
    const PUNCTUATION: usize = 2;
    kind == PUNCTUATION || sink_positions(roles)[kind].iter().any(|&key| visibility.sees(query, key))
}

/// Number of text queries.
#[inline(always)]
pub(super) fn query_count(roles: &TokenRoles) -> f64 {
    let mut count = 0;
    for run in &roles.text_runs {
        count += run.len();
    }
    count as f64
}
