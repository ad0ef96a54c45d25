//! The stricter null model: untrained weights whose attention is as sharp as in the trained model (docs/methodology/controls.md).

use anyhow::Result;

use crate::model::forward::attention::AttentionView;
use crate::model::forward::batch::Batch;
use crate::model::forward::packed::PackedEncoder;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{HeadView, Needs, Visitor};
use crate::model::forward::{AttentionScratch, Encoder, Positions, QueriesAndKeys, Scratch};
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::model::parameters::{Embeddings, Layer, Linear, Parameters};

/// Relative tolerance for matching a layer's distance from uniform attention to that of the trained layer.
const RELATIVE_TOLERANCE: f64 = 0.005;

/// Largest number of bisection steps on the logarithm of a layer's factor. Further steps fall below the resolution of float32.
const MAX_BISECTION_STEPS: usize = 40;

/// Maximum factor of a layer's queries and keys; the search runs from `1 / MAX_FACTOR` to `MAX_FACTOR`. Scores scale
/// with the square of the factor.
const MAX_FACTOR: f64 = 4096.0;

/// Sequences over which the attention of trained and untrained layers is compared, with the queries that are counted.
pub struct SharpnessSample<'a> {
    pub batch: Batch<'a>,
    /// Positions of the counted queries in each sequence: its text tokens.
    pub rows: &'a [Vec<usize>],
}

/// Scales the queries and keys of each layer of `fresh` by one factor, beginning with the first layer. With this factor, the
/// layer's mean squared Hellinger distance from uniform attention matches that of the trained layer, or comes as near as
/// possible. Layers that share weights get the factor of the first of them. Fails if the sample does not fit the model.
pub fn match_sharpness(
    mut fresh: Parameters,
    trained: &dyn Encoder,
    sample: &SharpnessSample<'_>,
) -> Result<Parameters> {
    let wanted = distances_from_uniform(trained, &fresh, sample)?;
    for (number, &wanted) in wanted.iter().enumerate() {
        let stored = fresh.layer_indices[number];
        if fresh.layer_indices[..number].contains(&stored) {
            continue;
        }
        let inputs = projection_inputs(&fresh, number, &sample.batch)?;
        let scaled = |factor: f32| fresh.layers[stored].scale_queries_and_keys(factor, fresh.config.heads_width());
        let distance = |factor: f32| {
            let encoder = attention_only_encoder(&fresh, scaled(factor));
            layer_distance(&encoder, number, &inputs, sample)
        };
        fresh.layers[stored] = scaled(find_factor(wanted, distance));
    }
    Ok(fresh)
}

/// Computes for each layer the squared Hellinger distance between attention and uniform attention, averaged over heads and
/// queries. Fails if the forward pass fails.
pub fn distances_from_uniform(
    encoder: &dyn Encoder,
    shape: &Parameters,
    sample: &SharpnessSample<'_>,
) -> Result<Vec<f64>> {
    let layers = vec![DistanceSum::default(); shape.config.num_hidden_layers];
    let mut sums = DistanceVisitor { classes: &shape.config.visibility, rows: sample.rows, layers };
    encoder.forward(&sample.batch, &mut Scratch::default(), &mut sums)?;
    Ok(sums.layers.into_iter().map(DistanceSum::mean).collect())
}

/// Sum over attention rows of the squared Hellinger distance from uniform attention, with the number of rows, for the mean.
#[derive(Clone, Default)]
struct DistanceSum {
    sum: f64,
    /// Number of attention rows in the sum.
    rows: usize,
}

impl DistanceSum {
    /// Adds the attention rows of `queries` in one sequence and one head.
    fn add(&mut self, attention: AttentionView<'_>, queries: &[usize], visibility: Visibility) {
        for &query in queries {
            self.sum += distance_from_uniform(attention.row(query), visibility, query);
        }
        self.rows += queries.len();
    }

    /// Mean squared Hellinger distance of the added attention rows from uniform attention; 0 without rows.
    fn mean(self) -> f64 {
        if self.rows == 0 { 0.0 } else { self.sum / self.rows as f64 }
    }
}

/// A visitor that computes each layer's mean squared Hellinger distance from uniform attention.
struct DistanceVisitor<'a> {
    /// Classes of the layers by their visible keys.
    classes: &'a LayerClasses,
    /// Positions of the counted queries in each sequence.
    rows: &'a [Vec<usize>],
    /// Sums of distances of each layer's attention rows, `[layers]`.
    layers: Vec<DistanceSum>,
}

impl Visitor for DistanceVisitor<'_> {
    fn needs(&self) -> Needs {
        Needs::ATTENTION
    }

    fn head(&mut self, sequence: usize, view: &HeadView<'_>) {
        self.layers[view.layer].add(view.attention, &self.rows[sequence], self.classes.layer_visibility(view.layer));
    }
}

/// Computes the squared Hellinger distance of an attention row from uniform attention over the visible keys: `1 - sum √(a / n)`.
fn distance_from_uniform(row: &[f32], visibility: Visibility, query: usize) -> f64 {
    let keys = visibility.visible_keys(query, row.len());
    let uniform = 1.0 / keys.len() as f64;
    1.0 - row[keys].iter().map(|&weight| (f64::from(weight) * uniform).sqrt()).sum::<f64>()
}

/// Computes the hidden states that enter the query and key projections of layer `number`, `[tokens, hidden]`.
fn projection_inputs(parameters: &Parameters, number: usize, batch: &Batch<'_>) -> Result<Vec<f32>> {
    let mut below = parameters.clone();
    below.layer_indices.truncate(number + 1);
    below.config.num_hidden_layers = number + 1;
    let mut inputs = LayerInputVisitor { number, rows: Vec::new() };
    PackedEncoder::new(below).forward(batch, &mut Scratch::default(), &mut inputs)?;
    Ok(inputs.rows)
}

/// A visitor that keeps the inputs of the query and key projections of layer `number`, `[tokens, hidden]`.
struct LayerInputVisitor {
    number: usize,
    rows: Vec<f32>,
}

impl Visitor for LayerInputVisitor {
    fn needs(&self) -> Needs {
        Needs { attention_inputs: true, ..Needs::default() }
    }

    fn attention_inputs(&mut self, _: usize, layer: usize, inputs: Rows<'_>) {
        if layer == self.number {
            inputs.iter().for_each(|row| self.rows.extend_from_slice(row));
        }
    }
}

/// Builds an encoder for [`layer_distance`], which needs only attention. Every layer of the encoder is `layer`, with
/// zeros in place of the weights of the output projection and the feed-forward block.
fn attention_only_encoder(parameters: &Parameters, layer: Layer) -> PackedEncoder {
    let Parameters { config, layer_indices, embeddings, .. } = parameters;
    let zero_linear = || Linear { weight: vec![0.0; config.hidden_size], bias: vec![0.0] };
    let layer = Layer { intermediate: zero_linear(), output: zero_linear(), attention_output: zero_linear(), ..layer };
    PackedEncoder::new(Parameters {
        config: config.clone(),
        embeddings: Embeddings { positions: None, ..embeddings.clone() },
        layers: vec![layer],
        layer_indices: vec![0; layer_indices.len()],
        final_norm: None,
        prediction: None,
    })
}

/// Computes the mean squared Hellinger distance of a layer's heads from uniform attention. `inputs` are the inputs of its query
/// and key projections.
fn layer_distance(encoder: &PackedEncoder, number: usize, inputs: &[f32], sample: &SharpnessSample<'_>) -> f64 {
    let config = encoder.config();
    let layer = encoder.layer_attention(number, Positions::Used).expect("the packed encoder has its heads");
    let lengths: Vec<usize> = sample.batch.spans().map(|span| span.len()).collect();
    let (mut queries_keys, mut scratch) = (QueriesAndKeys::default(), AttentionScratch::default());
    layer.project(inputs, &lengths, &mut queries_keys);
    let (visibility, mut sum) = (config.visibility.layer_visibility(number), DistanceSum::default());
    for head in 0..config.num_attention_heads {
        for (span, rows) in sample.batch.spans().zip(sample.rows) {
            sum.add(layer.attention(head, &span, [&queries_keys; 2], &mut scratch), rows, visibility);
        }
    }
    sum.mean()
}

/// Finds the factor at which `distance`, an increasing function, is within [`RELATIVE_TOLERANCE`] of `target`, or the
/// nearest that [`MAX_BISECTION_STEPS`] bisections of the logarithm reach.
#[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
fn find_factor(target: f64, distance: impl Fn(f32) -> f64) -> f32 {
    let (mut low, mut high, mut factor) = (1.0 / MAX_FACTOR, MAX_FACTOR, 1.0_f64);
    for _ in 0..MAX_BISECTION_STEPS {
        let reached = distance(factor as f32);
        if (reached - target).abs() <= RELATIVE_TOLERANCE * target {
            break;
        }
        (low, high) = if reached < target { (factor, high) } else { (low, factor) };
        factor = (low * high).sqrt();
    }
    factor as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_by_hand() {
        // 1 - (√.18 + √.32) of (.36, .64) over two keys; the third is not seen.
        let found = distance_from_uniform(&[0.36, 0.64, 0.0], Visibility::CAUSAL, 1);
        assert!((found - (1.0 - 0.18_f64.sqrt() - 0.32_f64.sqrt())).abs() < 1e-7, "{found}");
        assert!(distance_from_uniform(&[0.25; 4], Visibility::default(), 2).abs() < 1e-12);
    }

    #[test]
    fn the_factor_is_found_by_bisection() {
        // A distance that grows to 1, and is .3 at 2: 1 - .7^(factor / 2).
        let found = find_factor(0.3, |factor| 1.0 - 0.7_f64.powf(f64::from(factor) / 2.0));
        assert!((found - 2.0).abs() < 0.02, "{found}");
        // What no factor reaches has the nearest one.
        assert!(f64::from(find_factor(0.9, |factor| 0.5 * f64::from(factor.min(1.0)))) > MAX_FACTOR / 2.0);
    }
}
