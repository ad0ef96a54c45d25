//! Norms of one attention head's output over one sequence, and the output's parts from sinks (docs/methodology/norms.md).

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

mod head;
mod norm_shares;
mod outputs;
mod parts;
mod vectors;
mod visible_keys;

use multiversion::multiversion;

use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::roles::TokenRoles;
pub use head::{HeadActivations, NormSums, SINK_KIND_COUNT, SINK_NAMES, VECTOR_COUNT, sees_sink, sink_positions};

/// Buffers of [`sum_norms`], reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct NormsBuffers {
    norm_shares: norm_shares::NormBuffers,
    outputs: outputs::OutputBuffers,
    visible_keys: visible_keys::PrefixSumBuffers,
    /// Vectors of the head last passed to [`sum_norms`], summed over queries before the output projection,
    /// `[VECTOR_COUNT, head_dim]`. The first is the head's output without value bias; the others are the parts of that
    /// output from each kind of sink.
    pub vectors: Vec<f64>,
    /// Products of `vectors` with `W_O W_Oᵀ`.
    products: Vec<f64>,
}

/// Sums norms and inner products of one head's output over one sequence. The summed vectors stay in `buffers`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn sum_norms<'a>(
    roles: &'a TokenRoles,
    visibility: Visibility,
    head: &'a HeadActivations<'a>,
    buffers: &'a mut NormsBuffers,
) -> NormSums<f64> {
    let mut sums = NormSums::default();
    let NormsBuffers { norm_shares, outputs, visible_keys, vectors, products } = buffers;
    let length = VECTOR_COUNT * head.head_dim();
    for buffer in [&mut *vectors, products] {
        buffer.clear();
        buffer.resize(length, 0.0);
    }
    norm_shares::add_norm_shares(&mut sums, (roles, visibility), head, norm_shares);
    if visibility.is_full(roles.tokens) {
        norm_shares::add_uniform_shares(&mut sums, roles, head, norm_shares);
        outputs::add_uniform_outputs(&mut sums, roles, head, outputs);
    } else {
        visible_keys::add_visible_shares(&mut sums, (roles, visibility), head, visible_keys);
        visible_keys::add_visible_outputs(&mut sums, (roles, visibility), head, visible_keys);
    }
    if !roles.text_runs.is_empty() {
        outputs::add_output_norms(&mut sums, roles, head, outputs);
        parts::add_sink_parts(&mut sums, roles, head, vectors, products);
    }
    sums
}

#[cfg(test)]
mod tests;
