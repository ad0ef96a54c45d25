//! The norms and projections of one head over one sequence (docs/methodology/norms.md).

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

mod by_norm;
mod outputs;
mod parts;
mod seen;
mod vectors;

use multiversion::multiversion;

use super::head_sums::{NormSums, SINK_KINDS, VECTORS};
use crate::model::forward::attention::AttentionView;
use crate::model::forward::visitor::{HeadView, Output, ValueNorms, Values};
use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::roles::TokenRoles;

/// The attention, values, norms and output of one head over one sequence.
#[derive(Clone, Copy)]
pub struct HeadData<'a> {
    attention: AttentionView<'a>,
    values: Values<'a>,
    norms: ValueNorms<'a>,
    output: Output<'a>,
}

impl<'a> HeadData<'a> {
    /// The parts of a view.
    /// Panics if one is missing.
    pub fn new(view: &HeadView<'a>) -> Self {
        let asked = "what was asked for is lent";
        Self {
            attention: view.attention,
            values: view.values.expect(asked),
            norms: view.value_norms.expect(asked),
            output: view.output.expect(asked),
        }
    }

    /// `[head_dim, head_dim]`: `W_O W_Oᵀ`.
    pub fn gram(&self) -> &'a [f32] {
        self.output.gram
    }

    fn head_dim(&self) -> usize {
        self.values.bias.len()
    }
}

/// Buffers for the values of one head, reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    by_norm: by_norm::NormBuffers,
    outputs: outputs::OutputBuffers,
    seen: seen::SeenBuffers,
    /// `[VECTORS, head_dim]`: the sums of `z°_i`, and of the part of it from each kind of sink.
    vectors: Vec<f64>,
    /// Their products with `W_O W_Oᵀ`.
    products: Vec<f64>,
}

impl Buffers {
    /// The sums of vectors of the head that was observed last, `[VECTORS, head_dim]`.
    pub fn vectors(&self) -> &[f64] {
        &self.vectors
    }
}

/// Sums what one head does in one sequence; the sums of vectors stay in `buffers`.
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

/// The places of each kind of sink.
#[inline(always)]
pub fn places(roles: &TokenRoles) -> [&[usize]; SINK_KINDS] {
    [roles.first_special.as_slice(), &roles.separators, &roles.punctuation, roles.first_token.as_slice()]
}

/// Whether a query sees a sink of a kind; punctuation need not be there, so that every query counts.
pub fn sees_sink(roles: &TokenRoles, visibility: Visibility, query: usize, kind: usize) -> bool {
    const PUNCTUATION: usize = 2;
    kind == PUNCTUATION || places(roles)[kind].iter().any(|&key| visibility.sees(query, key))
}

/// The number of text queries.
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
