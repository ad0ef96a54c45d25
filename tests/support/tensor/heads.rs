//! The attention heads of a layer, in tensors.

use anyhow::{Context, Result};
use candle_core::{IndexOp, Module, Tensor};

use super::parts::{Disentangled, Layer, Norm};
use super::{ForwardPass, TensorEncoder, check_finite, flat, softmax};
use headscope::model::config::PositionEmbedding;
use headscope::model::forward::attention::AttentionView;
use headscope::model::forward::batch::BatchInput;
use headscope::model::forward::gates::Gates;
use headscope::model::forward::rows::Rows;
use headscope::model::forward::visitor::{HeadOutput, HeadValues, HeadView, ValueNorms};

impl TensorEncoder {
    /// Self-attention of all sequences of the batch before the output projection, `[tokens, heads * head_dim]`.
    /// The inputs are the residual stream below the layer and the input of the layer's heads, both `[tokens, hidden]`.
    pub(super) fn attend(
        &self,
        number: usize,
        (states, input): (&Tensor, &Tensor),
        pass: &mut ForwardPass<'_>,
        keeps: Option<&Tensor>,
    ) -> Result<Tensor> {
        let tokens = states.dim(0)?;
        let (heads, head_dim) = (self.config.num_attention_heads, self.config.head_dim());
        // [3, heads, tokens, head_dim]
        let layer = &self.layers[self.order[number]];
        let projected = layer
            .query_key_value
            .forward(input)?
            .reshape((tokens, 3, heads, head_dim))?
            .permute((1, 2, 0, 3))?
            .contiguous()?;
        let input_norms = flat(&states.sqr()?.sum(1)?.sqrt()?)?;
        let mut contexts = Vec::with_capacity(pass.batch.inputs.len());
        for (sequence, span) in pass.batch.spans().enumerate() {
            let input = pass.batch.inputs[sequence];
            let part = |which: usize| -> candle_core::Result<Tensor> {
                projected.i(which)?.narrow(1, span.start, span.len())?.contiguous()
            };
            let (query, key, value) = (part(0)?, part(1)?, part(2)?);
            let norms = layer.query_key_norms.as_ref();
            let query = self.prepared(layer, norms.map(|[query_norm, _]| query_norm), query)?;
            let key = self.prepared(layer, norms.map(|[_, key_norm]| key_norm), key)?;
            let in_sentence = || format!("sentence {}", input.sentence_number);
            let own = softmax(&self.visible(number, self.scores(layer, &query, &key)?)?)?;
            let attention = self.patched(number, sequence, own, pass.gates)?;
            let context = self.gate(number, &attention.matmul(&value)?, pass.gates, input, keeps)?;
            let weights = flat(&attention)?;
            check_finite(&weights, number).with_context(in_sentence)?;
            if pass.needs.includes_heads() {
                let input_norms = &input_norms[span.clone()];
                let attention = attention.clone();
                let heads = Heads { weights: &weights, attention, value: &value, context: &context, input_norms };
                self.show_heads(number, sequence, pass, &heads)?;
            }
            if pass.needs.mixing {
                let residual = states.narrow(0, span.start, span.len())?;
                self.show_mixing((number, sequence), pass, &residual, [&attention, &value, &context])?;
            }
            contexts.push(context.transpose(0, 1)?.reshape((span.len(), heads * head_dim))?);
        }
        self.exchanged(number, Tensor::cat(&contexts, 0)?, pass)
    }

    /// The contexts of a layer, `[tokens, heads * head_dim]`, after the swap of exchanged heads between sequences.
    fn exchanged(&self, number: usize, contexts: Tensor, pass: &ForwardPass<'_>) -> Result<Tensor> {
        let head_dim = self.config.head_dim();
        let (tokens, width) = contexts.dims2()?;
        let mut order: Vec<usize> = (0..tokens * width).collect();
        for head in pass.gates.exchanged_heads_in(number) {
            for (here, there) in pass.batch.exchanged_rows().flat_map(|[here, there]| here.zip(there)) {
                for column in head * head_dim..(head + 1) * head_dim {
                    order.swap(here * width + column, there * width + column);
                }
            }
        }
        if order.is_sorted() {
            return Ok(contexts);
        }
        let order = order.into_iter().map(u32::try_from).collect::<Result<Vec<_>, _>>()?;
        let order = Tensor::from_vec(order, tokens * width, &self.device)?;
        Ok(contexts.flatten_all()?.index_select(&order, 0)?.reshape((tokens, width))?)
    }

    /// Queries or keys of a sequence, `[heads, n, head_dim]`, normalised and rotated by position if the layer does so.
    fn prepared(&self, layer: &Layer, norm: Option<&Norm>, rows: Tensor) -> Result<Tensor> {
        let (heads, n, head_dim) = rows.dims3()?;
        let rows = match norm {
            None => rows,
            Some(norm) if norm.width() == head_dim => norm.forward(&rows)?,
            Some(norm) => {
                let together = rows.transpose(0, 1)?.reshape((n, heads * head_dim))?;
                norm.forward(&together)?.reshape((n, heads, head_dim))?.transpose(0, 1)?.contiguous()?
            }
        };
        let Some(rotary) = &layer.rotary else { return Ok(rows) };
        let pairs = rotary.frequencies.len();
        let angles = (0..n).flat_map(|position| rotary.cosines_and_sines(position));
        let (cosines, sines): (Vec<f32>, Vec<f32>) = angles.unzip();
        let table = |values: Vec<f32>| Tensor::from_vec(values, (1, n, pairs), &self.device)?.to_dtype(self.precision);
        let (cosines, sines) = (table(cosines)?, table(sines)?);
        let (first, second) = (rows.narrow(2, 0, pairs)?, rows.narrow(2, pairs, pairs)?);
        let turned = [
            (first.broadcast_mul(&cosines)? - second.broadcast_mul(&sines)?)?,
            (second.broadcast_mul(&cosines)? + first.broadcast_mul(&sines)?)?,
            rows.narrow(2, 2 * pairs, head_dim - 2 * pairs)?,
        ];
        let there = if head_dim == 2 * pairs { 2 } else { 3 };
        Ok(Tensor::cat(&turned[..there], 2)?)
    }

    /// The scores before the softmax, `[heads, n, n]`, of queries and keys `[heads, n, head_dim]`.
    fn scores(&self, layer: &Layer, query: &Tensor, key: &Tensor) -> Result<Tensor> {
        let (heads, n, head_dim) = query.dims3()?;
        let mut scores = query.matmul(&key.transpose(1, 2)?)?;
        if let Some(distances) = &layer.distances {
            let first = self.config.max_position_embeddings - 1;
            let rows = pairs(n).map(|(query, key)| Ok(u32::try_from(query + first - key)?));
            let embedded = self.rows(distances, rows.collect::<Result<_>>()?)?.reshape((1, n, n, head_dim))?;
            // [heads, n, 1, head_dim] times [1, n, n, head_dim], summed over the last dimension.
            scores = (scores + query.unsqueeze(2)?.broadcast_mul(&embedded)?.sum(3)?)?;
            if self.config.position_embedding_type == PositionEmbedding::RelativeKeyQuery {
                scores = (scores + key.unsqueeze(1)?.broadcast_mul(&embedded)?.sum(3)?)?;
            }
        }
        if let Some(Disentangled { keys, queries, places }) = &layer.disentangled {
            let place = |(query, key): (usize, usize)| places.row(query.cast_signed() - key.cast_signed());
            let index: Vec<u32> = pairs(n).map(|pair| Ok(u32::try_from(place(pair))?)).collect::<Result<_>>()?;
            let index = Tensor::from_vec(index, (1, n, n), &self.device)?.broadcast_as((heads, n, n))?.contiguous()?;
            if let Some(keys) = keys {
                scores = (scores + query.matmul(keys)?.gather(&index, 2)?)?;
            }
            if let Some(queries) = queries {
                // Here, rows are keys and columns are queries.
                let index = index.transpose(1, 2)?.contiguous()?;
                scores = (scores + key.matmul(queries)?.gather(&index, 2)?.transpose(1, 2)?)?;
            }
        }
        scores = (scores * self.config.score_scale())?;
        if let Some(bias) = &layer.position_bias {
            let head_bias = |head| {
                pairs(n)
                    .map(move |(query, key)| bias.score_term((head, heads), key.cast_signed() - query.cast_signed()))
            };
            let bias: Vec<f32> = (0..heads).flat_map(head_bias).collect();
            scores = (scores + Tensor::from_vec(bias, (heads, n, n), &self.device)?.to_dtype(self.precision)?)?;
        }
        if let Some(cap) = self.config.score_cap {
            scores = ((scores / f64::from(cap))?.tanh()? * f64::from(cap))?;
        }
        Ok(scores)
    }

    /// The scores of a layer, `[heads, n, n]`, with minus infinity where the query does not see the key.
    fn visible(&self, number: usize, scores: Tensor) -> Result<Tensor> {
        let (_, n, _) = scores.dims3()?;
        let visibility = self.config.visibility.layer_visibility(number);
        if visibility.is_full(n) {
            return Ok(scores);
        }
        let hidden = |(query, key)| if visibility.sees(query, key) { 0.0 } else { f32::NEG_INFINITY };
        let mask = Tensor::from_vec(pairs(n).map(hidden).collect(), (1, n, n), &self.device)?;
        Ok(scores.broadcast_add(&mask.to_dtype(self.precision)?)?)
    }

    /// The attention of a layer over a sequence, `[heads, n, n]`, with patched rows in place of the heads' own rows.
    fn patched(&self, layer: usize, sequence: usize, own: Tensor, gates: &Gates) -> Result<Tensor> {
        let (heads, n, _) = own.dims3()?;
        let rows_of = |head| gates.patched_rows((layer, head, sequence));
        if (0..heads).all(|head| rows_of(head).next().is_none()) {
            return Ok(own);
        }
        let (mut kept, mut rows) = (vec![1.0_f32; heads * n], vec![0.0_f32; heads * n * n]);
        for head in 0..heads {
            for (query, row) in rows_of(head) {
                kept[head * n + query] = 0.0;
                rows[(head * n + query) * n..][..n].copy_from_slice(row);
            }
        }
        let tensor = |values: Vec<f32>, shape| Tensor::from_vec(values, shape, &self.device)?.to_dtype(self.precision);
        Ok((own.broadcast_mul(&tensor(kept, (heads, n, 1))?)? + tensor(rows, (heads, n, n))?)?)
    }

    /// Maps contexts `z`, `[heads, n, head_dim]`, to `r + keep (z - r)`. The heads' replacements are `r`.
    fn gate(
        &self,
        layer: usize,
        context: &Tensor,
        gates: &Gates,
        input: BatchInput<'_>,
        keeps: Option<&Tensor>,
    ) -> Result<Tensor> {
        let (heads, n, head_dim) = context.dims3()?;
        if keeps.is_none() && gates.gates_in(layer).next().is_none() {
            return Ok(context.clone());
        }
        let mut own = vec![1.0_f32; heads];
        let mut replacement = vec![0.0_f32; heads * n * head_dim];
        for (head, gate) in gates.gates_in(layer) {
            own[head] = gate.keep;
            let rows = replacement[head * n * head_dim..][..n * head_dim].chunks_exact_mut(head_dim);
            for (token, row) in rows.enumerate() {
                if let Some(replacement) = gate.replacement_at(input.classes, token) {
                    row.copy_from_slice(replacement);
                }
            }
        }
        let keep = match keeps {
            Some(keeps) => keeps.i(layer)?,
            None => Tensor::from_vec(own, heads, &self.device)?.to_dtype(self.precision)?,
        };
        let replacement =
            Tensor::from_vec(replacement, (heads, n, head_dim), &self.device)?.to_dtype(self.precision)?;
        Ok((&replacement + (context - &replacement)?.broadcast_mul(&keep.reshape((heads, 1, 1))?)?)?)
    }

    /// Shows each head of a layer over one sequence to the visitor.
    fn show_heads(
        &self,
        number: usize,
        sequence: usize,
        pass: &mut ForwardPass<'_>,
        at_work: &Heads<'_>,
    ) -> Result<()> {
        let Heads { weights, attention, value, context, input_norms } = at_work;
        let (heads, n, head_dim) = value.dims3()?;
        let width = heads * head_dim;
        let layer = &self.layers[self.order[number]];
        let bias = layer.query_key_value.bias().narrow(0, 2 * width, width)?;
        let bias = bias.reshape((heads, 1, head_dim))?;
        let bare = value.broadcast_sub(&bias)?;
        let written = attention.matmul(&bare)?;
        let context = flat(context)?;
        for head in 0..heads {
            // [head_dim, hidden]
            let output = layer.attention_output.weight().narrow(1, head * head_dim, head_dim)?.t()?;
            let norms = flat(&value.i(head)?.matmul(&output)?.sqr()?.sum(1)?.sqrt()?)?;
            let gram = output.matmul(&output.t()?)?;
            let through = |rows: &Tensor| flat(&rows.matmul(&gram)?);
            let (written, products) = (flat(&written.i(head)?)?, through(&written.i(head)?)?);
            let (value_products, bias_product) = (through(&bare.i(head)?)?, through(&bias.i(head)?)?);
            let (rows, bias) = (flat(&bare.i(head)?)?, flat(&bias.i(head)?)?);
            let gram = flat(&gram)?;
            let needs = pass.needs;
            let output = HeadOutput {
                contexts: Rows::new(&written, head_dim),
                products: Rows::new(&products, head_dim),
                gram: &gram,
                input_norms,
            };
            let view = HeadView {
                layer: number,
                head,
                attention: AttentionView::new(number, head, n, &weights[head * n * n..][..n * n]),
                values: needs.values.then(|| HeadValues { rows: Rows::new(&rows, head_dim), bias: &bias }),
                value_norms: needs.value_norms.then(|| ValueNorms {
                    norms: &norms,
                    products: Rows::new(&value_products, head_dim),
                    bias_product: &bias_product,
                    gram: &gram,
                }),
                context: needs.contexts.then(|| Rows::new(&context[head * n * head_dim..][..n * head_dim], head_dim)),
                output: needs.outputs.then_some(output),
            };
            pass.visitor.head(sequence, &view);
        }
        Ok(())
    }
}

/// The heads of a layer over one sequence of `n` tokens.
struct Heads<'a> {
    /// `[heads, n, n]`
    weights: &'a [f32],
    /// `[heads, n, n]`: `weights` as a tensor.
    attention: Tensor,
    /// `[heads, n, head_dim]`, with bias.
    value: &'a Tensor,
    /// `[heads, n, head_dim]`, after the heads' gates.
    context: &'a Tensor,
    /// `[n]`: the norms of the residual stream below the layer.
    input_norms: &'a [f32],
}

/// All pairs of query and key of a sentence of `n` tokens.
fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |query| (0..n).map(move |key| (query, key)))
}
