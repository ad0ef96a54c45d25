//! Cost of a forward pass: known from the sizes alone, before anything is allocated (docs/BOUNDS.md).

use super::Config;

/// Cost of a forward pass: memory, and number of attention weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes of memory that one worker takes. Buffers per pair of tokens count for one attention head, since heads run in turn.
    pub bytes: u64,
    /// Number of attention weights: pairs of tokens within each sequence, times the attention heads of all layers.
    pub attention_weights: u64,
}

const F32_BYTES: u64 = size_of::<f32>() as u64;

/// Bytes per query–key pair of the longest sequence, for one attention head at a time. The bytes hold attention weights
/// (f32), two arrays of attention between words (f64), and lift factors (f64). Measured: 27 to 31 bytes for 4,000 to
/// 16,000 tokens.
const PAIR_BYTES: u64 = 32;

/// Further bytes per query–key pair of the longest sequence in a backward pass, for one attention head at a time. The
/// bytes hold capped attention scores, and derivatives with respect to scores (both f32).
const DERIVATIVE_PAIR_BYTES: u64 = 2 * F32_BYTES;

/// Multiplies the factors; the product saturates at `u64::MAX`.
fn saturating_product(factors: &[usize]) -> u64 {
    factors.iter().fold(1, |product, &factor| product.saturating_mul(factor as u64))
}

impl Config {
    /// Bytes of an encoder that stores `stored` layers: its parameters, and the Gram matrices of the attention heads'
    /// output projections. Shared keys and values count once per attention head.
    pub fn weight_bytes(&self, stored: usize) -> u64 {
        let (heads, size) = (self.num_attention_heads, self.head_dim());
        let grams = saturating_product(&[stored, heads, size, size]);
        self.parameter_count(stored).saturating_add(grams).saturating_mul(F32_BYTES)
    }

    /// Cost of a forward pass over sequences of these lengths, in tokens, in one batch.
    pub fn pass_cost(&self, lengths: &[usize]) -> Cost {
        let (hidden, heads) = (self.hidden_size, self.heads_width());
        let (states, wide) = (hidden.max(self.embedding_width()), self.feed_forward_width());
        // Residual stream and update; queries, keys and values; contexts; between the linear layers; how heads mix (`Scratch`).
        let values_per_token = 2 * states + 3 * heads + heads.max(hidden) + wide + 3 * heads + 4 * hidden;
        let tokens: usize = lengths.iter().sum();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let distance_bytes = if self.position_embedding_type.is_relative() { 2 * F32_BYTES } else { 0 };
        let pair_bytes = saturating_product(&[longest, longest]).saturating_mul(PAIR_BYTES + distance_bytes);
        let bytes =
            saturating_product(&[tokens, values_per_token]).saturating_mul(F32_BYTES).saturating_add(pair_bytes);
        let pairs =
            lengths.iter().fold(0_u64, |sum, &length| sum.saturating_add(saturating_product(&[length, length])));
        let weights = pairs.saturating_mul(saturating_product(&[self.num_hidden_layers, self.num_attention_heads]));
        Cost { bytes, attention_weights: weights }
    }

    /// Bytes that a forward pass over `tokens` tokens keeps for computing derivatives. Per layer, it keeps the layer's input,
    /// queries, keys and values, the state between the linear layers of the feed-forward block, and the outputs of both blocks.
    pub fn derivative_bytes(&self, tokens: usize) -> u64 {
        let values_per_layer = 3 * self.hidden_size + 3 * self.heads_width() + self.feed_forward_width();
        saturating_product(&[self.num_hidden_layers, values_per_layer])
            .saturating_mul(saturating_product(&[tokens]))
            .saturating_mul(F32_BYTES)
    }

    /// Cost of a forward and backward pass over sequences of these lengths, in tokens. The sequences are split into parts: each
    /// part keeps at most `most` bytes, or is a single sequence.
    pub fn gradient_cost(&self, lengths: &[usize], most: u64) -> Cost {
        let (tokens, longest) = (lengths.iter().sum(), lengths.iter().copied().max().unwrap_or(0));
        let kept = self.derivative_bytes(tokens).min(most.max(self.derivative_bytes(longest)));
        // States between blocks, derivatives by the input of a block; queries, keys and values as they meet (`GradientScratch`).
        let scratch_bytes =
            saturating_product(&[tokens, 2 * self.hidden_size + 3 * self.heads_width()]).saturating_mul(F32_BYTES);
        let pair_bytes = saturating_product(&[longest, longest]).saturating_mul(DERIVATIVE_PAIR_BYTES);
        let Cost { bytes, attention_weights: weights } = self.pass_cost(lengths);
        Cost {
            bytes: [kept, scratch_bytes, pair_bytes].iter().fold(bytes, |sum, more| sum.saturating_add(*more)),
            attention_weights: weights,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(hidden_size: usize, layers: usize, heads: usize, intermediate_size: usize) -> Config {
        Config {
            vocab_size: 32_000,
            hidden_size,
            num_hidden_layers: layers,
            num_attention_heads: heads,
            intermediate_size,
            max_position_embeddings: 8192,
            layer_norm_eps: 1e-12,
            ..Config::default()
        }
    }

    #[test]
    fn a_pass_costs_tokens_times_widths_and_pairs() {
        let cost = encoder(8, 2, 2, 16).pass_cost(&[3, 1]);
        // Of each token 2 * 8 + 3 * 8 + 8 + 16 + 3 * 8 + 4 * 8 values; nine pairs of the longest.
        assert_eq!(cost, Cost { bytes: 4 * 120 * 4 + 9 * 32, attention_weights: 4 * (9 + 1) });
        // Two layers leave 3 * 8 + 3 * 8 + 16 values of each token; 2 * 8 + 3 * 8 are beside, and two for each pair.
        let more = |tokens: u64| 4 * (tokens * 2 * 64 + 4 * 40 + 2 * 9);
        let with_derivatives = |most: u64| encoder(8, 2, 2, 16).gradient_cost(&[3, 1], most).bytes;
        assert_eq!(with_derivatives(1 << 20), cost.bytes + more(4));
        assert_eq!(with_derivatives(0), cost.bytes + more(3), "the longest by itself");
    }

    #[test]
    fn real_models_cost_what_machines_have_and_crafted_ones_do_not() {
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let bert_large = encoder(1024, 24, 16, 4096);
        assert!(gigabytes(bert_large.pass_cost(&[512]).bytes) < 0.05);
        assert!(gigabytes(encoder(1024, 28, 16, 2624).pass_cost(&[8192]).bytes) < 3.0);
        let llama_70b = Config { key_value_heads: Some(8), gated: true, ..encoder(8192, 80, 64, 28_672) };
        assert!(llama_70b.clone().check_sizes().is_ok());
        assert!(gigabytes(llama_70b.pass_cost(&[512]).bytes) < 0.5);
        // 4,096 heads of 1,024 values over one key, 12 sentences of 10 tokens: a file of 32 MB.
        let crafted = Config { key_value_heads: Some(1), head_size: Some(1024), ..encoder(1, 1, 4096, 1) };
        assert!(gigabytes(crafted.pass_cost(&[10; 12]).bytes) > 9.0);
        assert!(gigabytes(crafted.weight_bytes(1)) > 17.0);
        assert_eq!(encoder(1 << 24, 1, 1, 1).pass_cost(&[1 << 40]).attention_weights, u64::MAX);
    }
}
