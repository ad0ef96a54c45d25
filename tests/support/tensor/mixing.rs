//! Mixing ratios of the heads of a layer, in tensors (Kobayashi et al. 2021).

use anyhow::Result;
use candle_core::{Module, Tensor};

use super::{ForwardPass, TensorEncoder, flat};
use headscope::model::forward::visitor::MixingRatios;

impl TensorEncoder {
    /// Shows the mixing ratios of a layer over one sequence to the visitor.
    /// `residual` is the residual stream below the layer, `[n, hidden]`. The attention is `[heads, n, n]`. The values
    /// with bias and the contexts after the gates are `[heads, n, head_dim]`.
    pub(super) fn show_mixing(
        &self,
        (number, sequence): (usize, usize),
        pass: &mut ForwardPass<'_>,
        residual: &Tensor,
        [attention, value, context]: [&Tensor; 3],
    ) -> Result<()> {
        let (heads, n, head_dim) = value.dims3()?;
        let output = &self.layers[self.order[number]].attention_output;
        let together = |rows: &Tensor| rows.transpose(0, 1)?.reshape((n, heads * head_dim));
        let keeps = (0..heads).map(|head| pass.gates.get(number, head).map_or(1.0, |gate| gate.keep)).collect();
        let keeps = Tensor::from_vec(keeps, (heads, 1, 1), &self.device)?.to_dtype(self.precision)?;
        let value = value.broadcast_mul(&keeps)?;
        let itself = Tensor::eye(n, self.precision, &self.device)?;
        let parts = |weights: &Tensor| -> Result<[Tensor; 2]> {
            let own = weights.broadcast_mul(&itself)?;
            let others = (weights - &own)?;
            let written = |weights: Tensor| together(&weights.matmul(&value)?)?.matmul(&output.weight().t()?);
            Ok([written(own)?, written(others)?])
        };
        let taken = parts(attention)?;
        let constant = ((output.forward(&together(context)?)? - &taken[0])? - &taken[1])?;
        let visibility = self.config.visibility.layer_visibility(number);
        let weight = |query: usize, key: usize| {
            if visibility.sees(query, key) { 1.0 / visibility.visible_count(query, n) as f32 } else { 0.0 }
        };
        let even = (0..n).flat_map(|query| (0..n).map(move |key| weight(query, key))).collect();
        let even = Tensor::from_vec(even, (1, n, n), &self.device)?.to_dtype(self.precision)?;
        let even = parts(&even.broadcast_as((heads, n, n))?.contiguous()?)?;
        let ratios = self.ratios(number, residual, &taken, &constant)?;
        let even = self.ratios(number, residual, &even, &constant)?;
        pass.visitor.mixing(sequence, number, MixingRatios { ratios: &ratios, uniform_ratios: &even });
        Ok(())
    }

    /// The mixing ratio of each token. `own` is written from the token itself, `others` from other tokens, and
    /// `constant` from neither; each is `[n, hidden]`.
    fn ratios(
        &self,
        number: usize,
        residual: &Tensor,
        [own, others]: &[Tensor; 2],
        constant: &Tensor,
    ) -> Result<Vec<f32>> {
        let layer = &self.layers[self.order[number]];
        let whole = ((own + others)? + constant)?;
        let sum_norm = layer.attention_norm.as_ref().filter(|_| !self.config.blocks.is_pre_norm());
        let [preserved, mixed] = match (&layer.write_norms, sum_norm) {
            (Some([norm, _]), _) => [(residual + norm.of_part(own, &whole)?)?, norm.of_part(others, &whole)?],
            (None, Some(norm)) => {
                let whole = (&whole + residual)?;
                [norm.of_part(&(residual + own)?, &whole)?, norm.of_part(others, &whole)?]
            }
            (None, None) => [(residual + own)?, others.clone()],
        };
        let lengths = |rows: &Tensor| flat(&rows.sqr()?.sum(1)?.sqrt()?);
        let ratio = |(preserved, mixed): (f32, f32)| if mixed > 0.0 { mixed / (mixed + preserved) } else { 0.0 };
        Ok(lengths(&preserved)?.into_iter().zip(lengths(&mixed)?).map(ratio).collect())
    }
}
