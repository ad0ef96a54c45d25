//! BERT's parameters, bottom-up, with the checkpoint's own names
//! (transformers, `models/bert/modeling_bert.py`, `BertModel`).
//!
//! The one definition of the architecture's parts, for every encoder that runs it.

use anyhow::Result;

use super::config::Config;
use super::weights::Checkpoint;

/// A linear layer.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[outputs, inputs]`
    pub weight: Vec<f32>,
    /// `[outputs]`
    pub bias: Vec<f32>,
}

/// A layer normalisation.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// `[hidden]`
    pub weight: Vec<f32>,
    /// `[hidden]`
    pub bias: Vec<f32>,
}

/// The embeddings: `embeddings` in the checkpoint.
#[derive(Clone, Debug)]
pub struct Embeddings {
    /// `[vocab, hidden]`
    pub words: Vec<f32>,
    /// `[max_positions, hidden]`
    pub positions: Vec<f32>,
    /// `[segments, hidden]`
    pub segments: Vec<f32>,
    /// Over their sum.
    pub norm: LayerNorm,
}

/// One layer: `encoder.layer.N` in the checkpoint.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Query, key and value one after the other, `[3 * hidden, hidden]`: one product instead of three.
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
    /// The sizes that the parameters have.
    pub config: Config,
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
    pub fn load(checkpoint: &mut Checkpoint, config: &Config) -> Result<Self> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let embeddings = Embeddings {
            words: embedding(checkpoint, "word", config.vocab_size, hidden)?,
            positions: embedding(checkpoint, "position", config.max_position_embeddings, hidden)?,
            segments: embedding(checkpoint, "token_type", config.type_vocab_size, hidden)?,
            norm: norm(checkpoint, "embeddings.LayerNorm", hidden)?,
        };
        let mut layer = |number: usize| -> Result<Layer> {
            let name = |part: &str| format!("encoder.layer.{number}.{part}");
            let mut query_key_value = linear(checkpoint, &name("attention.self.query"), hidden, hidden)?;
            for part in ["key", "value"] {
                let next = linear(checkpoint, &name(&format!("attention.self.{part}")), hidden, hidden)?;
                query_key_value.weight.extend(next.weight);
                query_key_value.bias.extend(next.bias);
            }
            Ok(Layer {
                query_key_value,
                attention_output: linear(checkpoint, &name("attention.output.dense"), hidden, hidden)?,
                attention_norm: norm(checkpoint, &name("attention.output.LayerNorm"), hidden)?,
                intermediate: linear(checkpoint, &name("intermediate.dense"), wide, hidden)?,
                output: linear(checkpoint, &name("output.dense"), hidden, wide)?,
                output_norm: norm(checkpoint, &name("output.LayerNorm"), hidden)?,
            })
        };
        let layers = (0..config.num_hidden_layers).map(&mut layer).collect::<Result<_>>()?;
        Ok(Self { config: config.clone(), embeddings, layers })
    }
}

fn embedding(checkpoint: &mut Checkpoint, kind: &str, rows: usize, hidden: usize) -> Result<Vec<f32>> {
    checkpoint.tensor(&format!("embeddings.{kind}_embeddings.weight"), &[rows, hidden])
}

fn linear(checkpoint: &mut Checkpoint, name: &str, outputs: usize, inputs: usize) -> Result<Linear> {
    Ok(Linear {
        weight: checkpoint.tensor(&format!("{name}.weight"), &[outputs, inputs])?,
        bias: checkpoint.tensor(&format!("{name}.bias"), &[outputs])?,
    })
}

fn norm(checkpoint: &mut Checkpoint, name: &str, hidden: usize) -> Result<LayerNorm> {
    Ok(LayerNorm {
        weight: checkpoint.tensor(&format!("{name}.weight"), &[hidden])?,
        bias: checkpoint.tensor(&format!("{name}.bias"), &[hidden])?,
    })
}
