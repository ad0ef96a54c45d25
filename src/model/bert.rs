//! BERT's parameters, bottom-up, with the checkpoint's own names
//! (transformers, `models/bert/modeling_bert.py`, `BertModel`).

use anyhow::Result;
use candle_core::Tensor;

use super::config::Config;
use super::weights::Checkpoint;

/// A linear layer.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[outputs, inputs]`
    pub weight: Tensor,
    /// `[outputs]`
    pub bias: Tensor,
}

/// A layer normalisation.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// `[hidden]`
    pub weight: Tensor,
    /// `[hidden]`
    pub bias: Tensor,
}

/// The embeddings: `embeddings` in the checkpoint.
#[derive(Clone, Debug)]
pub struct Embeddings {
    /// `[vocab, hidden]`
    pub words: Tensor,
    /// `[max_positions, hidden]`
    pub positions: Tensor,
    /// `[segments, hidden]`
    pub segments: Tensor,
    /// Over their sum.
    pub norm: LayerNorm,
}

/// One layer: `encoder.layer.N` in the checkpoint.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Query, key and value side by side, `[3 * hidden, hidden]`: one product instead of three.
    pub query_key_value: Linear,
    /// `attention.output.dense`
    pub attention_output: Linear,
    /// `attention.output.LayerNorm`, over the sum with the residual.
    pub attention_norm: LayerNorm,
    /// `intermediate.dense`, before the activation.
    pub intermediate: Linear,
    /// `output.dense`
    pub output: Linear,
    /// `output.LayerNorm`, over the sum with the residual.
    pub output_norm: LayerNorm,
}

/// The parameters of an encoder, without pooler and task heads.
#[derive(Clone, Debug)]
pub struct Bert {
    /// The embeddings.
    pub embeddings: Embeddings,
    /// The layers, bottom-up.
    pub layers: Vec<Layer>,
}

impl Bert {
    /// Loads the parameters that `config` implies.
    ///
    /// # Errors
    ///
    /// If a tensor is missing, has another shape, or holds a value that is not finite.
    pub fn load(checkpoint: &Checkpoint, config: &Config) -> Result<Self> {
        let hidden = config.hidden_size;
        let tensor = |name: String, shape: &[usize]| checkpoint.tensor(&name, shape);
        let linear = |name: String, outputs: usize, inputs: usize| -> Result<Linear> {
            Ok(Linear {
                weight: tensor(format!("{name}.weight"), &[outputs, inputs])?,
                bias: tensor(format!("{name}.bias"), &[outputs])?,
            })
        };
        let norm = |name: String| -> Result<LayerNorm> {
            Ok(LayerNorm {
                weight: tensor(format!("{name}.weight"), &[hidden])?,
                bias: tensor(format!("{name}.bias"), &[hidden])?,
            })
        };
        let embedding =
            |kind: &str, rows: usize| tensor(format!("embeddings.{kind}_embeddings.weight"), &[rows, hidden]);
        let embeddings = Embeddings {
            words: embedding("word", config.vocab_size)?,
            positions: embedding("position", config.max_position_embeddings)?,
            segments: embedding("token_type", config.type_vocab_size)?,
            norm: norm("embeddings.LayerNorm".to_owned())?,
        };
        let layer = |number: usize| -> Result<Layer> {
            let name = |part: &str| format!("encoder.layer.{number}.{part}");
            let projection = |part: &str| linear(name(&format!("attention.self.{part}")), hidden, hidden);
            let (query, key, value) = (projection("query")?, projection("key")?, projection("value")?);
            Ok(Layer {
                query_key_value: Linear {
                    weight: Tensor::cat(&[query.weight, key.weight, value.weight], 0)?,
                    bias: Tensor::cat(&[query.bias, key.bias, value.bias], 0)?,
                },
                attention_output: linear(name("attention.output.dense"), hidden, hidden)?,
                attention_norm: norm(name("attention.output.LayerNorm"))?,
                intermediate: linear(name("intermediate.dense"), config.intermediate_size, hidden)?,
                output: linear(name("output.dense"), hidden, config.intermediate_size)?,
                output_norm: norm(name("output.LayerNorm"))?,
            })
        };
        let layers = (0..config.num_hidden_layers).map(layer).collect::<Result<_>>()?;
        Ok(Self { embeddings, layers })
    }
}
