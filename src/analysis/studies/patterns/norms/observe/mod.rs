//! The norms and projections of one head over one sequence (docs/methodology/norms.md).

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

mod by_norm;
mod outputs;
mod parts;
mod seen;
mod vectors;

use multiversion::multiversion;

use crate::model::forward::attention::AttentionView;
use crate::model::forward::visitor::{HeadView, Output, ValueNorms, Values};
use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::roles::{OFFSETS, TokenRoles};
use crate::study::instruments::head_sums::sums_of_a_head;

/// The kinds of sinks, by the names of their labels. All lists by sink have this order.
pub const SINKS: [&str; 4] = ["first-special", "separator", "punctuation", "first-token"];

pub const SINK_KINDS: usize = SINKS.len();

/// Vectors summed for each head: its output, and the output's part from each kind of sink.
pub const VECTORS: usize = 1 + SINK_KINDS;

sums_of_a_head! {
    /// The sums over text queries of one head. Fields with `uniform` are sums under uniform attention.
    pub struct NormSums;
    several {
        /// Share by norm of the text token at each offset, -8 first.
        offset_mass: OFFSETS,
        uniform_offset_mass: OFFSETS,
        /// Queries without shares by norm that have a text token at the offset.
        offset_silent: OFFSETS,
        /// Queries without shares by norm that see the kind of sink; for punctuation, all such queries.
        sink_silent: SINK_KINDS,
        /// Share by norm of each kind of sink.
        sink_mass: SINK_KINDS,
        uniform_sink_mass: SINK_KINDS,
        /// `<s_i, o°_i>` of each kind of sink.
        sink_product: SINK_KINDS,
        uniform_sink_product: SINK_KINDS,
        /// `|s_i|²` of each kind of sink.
        sink_square: SINK_KINDS,
        /// `|mean s|²` of the sentence, times its number of queries.
        sink_mean_square: SINK_KINDS,
    }
    single {
        /// Queries without shares by norm, since all values that they attend to are 0.
        silent,
        /// Share by norm of text tokens at most two places away, without the token itself.
        window_mass,
        uniform_window_mass,
        /// `sum_j A[i,j] |f_j|`
        spent,
        uniform_spent,
        /// `|o_i|`
        output,
        uniform_output,
        /// `|o_i| / |x_i|`
        output_ratio,
        /// Queries whose input `x_i` is 0.
        output_ratio_silent,
        /// `|o°_i|`
        bare_output,
        /// `|o°_i|²`
        square,
        uniform_square,
        /// `|mean o°|²` of the sentence, times its number of queries.
        mean_square,
    }
}

/// The attention, values, norms and output of one head over one sequence.
#[derive(Clone, Copy)]
pub struct HeadData<'a> {
    attention: AttentionView<'a>,
    values: Values<'a>,
    norms: ValueNorms<'a>,
    pub output: Output<'a>,
}

impl<'a> HeadData<'a> {
    /// The parts of a view. Panics if one is missing.
    pub fn new(view: &HeadView<'a>) -> Self {
        let asked = "what was asked for is lent";
        Self {
            attention: view.attention,
            values: view.values.expect(asked),
            norms: view.value_norms.expect(asked),
            output: view.output.expect(asked),
        }
    }

    fn head_dim(&self) -> usize {
        self.values.bias.len()
    }
}

/// Buffers reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    by_norm: by_norm::NormBuffers,
    outputs: outputs::OutputBuffers,
    seen: seen::SeenBuffers,
    /// `[VECTORS, head_dim]`: the sums of `z°_i` and of its part from each kind of sink, for the head observed last.
    pub vectors: Vec<f64>,
    /// Products of `vectors` with `W_O W_Oᵀ`.
    products: Vec<f64>,
}

/// Sums the norms and projections of one head over one sequence; the summed vectors stay in `buffers`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn observe<'a>(
    roles: &'a TokenRoles,
    visibility: Visibility,
    head: &'a HeadData<'a>,
    buffers: &'a mut Buffers,
) -> NormSums<f64> {
    let mut sums = NormSums::default();
    let Buffers { by_norm, outputs, seen, vectors, products } = buffers;
    let length = VECTORS * head.head_dim();
    for buffer in [&mut *vectors, products] {
        buffer.clear();
        buffer.resize(length, 0.0);
    }
    by_norm::add(&mut sums, (roles, visibility), head, by_norm);
    if visibility.is_whole(roles.tokens) {
        by_norm::add_uniform(&mut sums, roles, head, by_norm);
        outputs::add_uniform(&mut sums, roles, head, outputs);
    } else {
        seen::add_by_norm(&mut sums, (roles, visibility), head, seen);
        seen::add_outputs(&mut sums, (roles, visibility), head, seen);
    }
    if !roles.text.is_empty() {
        outputs::add(&mut sums, roles, head, outputs);
        parts::add(&mut sums, roles, head, vectors, products);
    }
    sums
}

#[inline(always)]
pub fn places(roles: &TokenRoles) -> [&[usize]; SINK_KINDS] {
    [roles.first_special.as_slice(), &roles.separators, &roles.punctuation, roles.first_token.as_slice()]
}

/// Whether a query sees a sink of this kind. True for punctuation, which a sentence may lack, so that every query counts.
pub fn sees_sink(roles: &TokenRoles, visibility: Visibility, query: usize, kind: usize) -> bool {
    const PUNCTUATION: usize = 2;
    kind == PUNCTUATION || places(roles)[kind].iter().any(|&key| visibility.sees(query, key))
}

#[inline(always)]
fn queries(roles: &TokenRoles) -> f64 {
    let mut count = 0;
    for run in &roles.text {
        count += run.len();
    }
    count as f64
}

#[cfg(test)]
mod tests;
