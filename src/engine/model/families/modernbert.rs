//! ModernBERT (Warner et al. 2024), and models with its `model_type`: Ettin's encoders, gte-modernbert, mmBERT,
//! granite-embedding. Layers are pre-norm and have gated linear units, rotary positions and no biases.

use anyhow::{Result, anyhow, ensure};

use super::llama::{add_layer_types, layer_types};
use super::{
    Biases, Family, Intermediate, LayerNames, QueryKeyValue, TensorNames, TokenHeadNames, TransformNames,
    WeightDistribution, WeightInitialisation, bert, ensure_flags,
};
use crate::model::config::{Activation, BlockPlan, Config, ConfigKey, PositionEmbedding, config_value, keys};
use crate::model::grid::visibility::Visibility;
use crate::system::errors::ErrorExt;

pub(super) const MODERN_BERT: Family = Family {
    token_heads: &[HEAD],
    read: |text| read(text, false),
    ..bert::BERT.with_names("modernbert", "ModernBert", "model.")
};

/// Tensor names of ModernBERT's masked-LM head.
pub(super) const HEAD: TokenHeadNames = TokenHeadNames {
    transform: Some(TransformNames { dense: "head.dense", norm: "head.norm", biases: [false, false] }),
    decoder: "decoder.weight",
    bias: Some(["decoder.bias", "decoder.bias"]),
    activation: None,
};

const LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Stacked("attn.Wqkv"),
    attention_output: "attn.Wo",
    attention_norm: "attn_norm",
    intermediate: Intermediate::GateFirst("mlp.Wi"),
    output: "mlp.Wo",
    output_norm: "mlp_norm",
    ..bert::LAYER_WITHOUT_DISTANCES
};

/// Tensor names of a layer of Ettin's decoders.
const DECODER_LAYER: LayerNames =
    LayerNames { query_key_value: QueryKeyValue::Separate(["attn.q_proj", "attn.k_proj", "attn.v_proj"]), ..LAYER };

/// Config keys of ModernBERT. `ModernBertModel` reads `norm_eps`; BERT's key `layer_norm_eps` counts only if `norm_eps` is
/// missing.
const KEYS: &[ConfigKey] =
    keys! { hidden_act: hidden_activation = "gelu", layer_norm_eps: norm_eps | layer_norm_eps = 1e-5 };

/// Reads the config of a ModernBERT encoder or, if `causal`, decoder.
pub(super) fn read(text: &str, causal: bool) -> Result<(Config, TensorNames)> {
    let config = Config::read(text, &[KEYS])?;
    let norm_bias = config_value!(text, norm_bias: bool = false)?;
    let attention_bias = config_value!(text, attention_bias: bool = false)?;
    let mlp_bias = config_value!(text, mlp_bias: bool = false)?;
    let classifier_bias = config_value!(text, classifier_bias: bool = false)?;
    let decoder_bias = config_value!(text, decoder_bias: bool = true)?;
    let classifier_activation = config_value!(text, classifier_activation: Activation = Activation::default())?;
    let window = config_value!(text, local_attention: usize = 128)?;
    let global_every = config_value!(text, global_attn_every_n_layers: usize = 3)?;
    let given_types = config_value!(text, layer_types: Option<Vec<String>> = None)?;
    // Number of standard deviations from 0 at which the distribution of weights before training is truncated; null stands for 3.
    let cutoff = config_value!(text, initializer_cutoff_factor: Option<f64> = Some(2.0))?;
    let flags = [
        ("norm_bias", norm_bias, false),
        ("classifier_bias", classifier_bias, false),
        ("decoder_bias", decoder_bias, true),
    ];
    ensure_flags("modernbert", flags)?;
    ensure!(
        classifier_activation == config.hidden_act,
        "classifier_activation is not hidden_activation, which is not supported for modernbert"
    );
    let config =
        Config { blocks: BlockPlan::Pre, gated: true, position_embedding_type: PositionEmbedding::None, ..config };
    let layer = if causal { &DECODER_LAYER } else { &LAYER };
    let embeddings = ["embeddings.tok_embeddings", ""];
    let (config, names) = TensorNames::pre_norm(config, (layer, "layers"), embeddings, "final_norm")?;
    ensure!(global_every > 0, anyhow!("global_attn_every_n_layers is 0").with_value(0));
    let types =
        layer_types(given_types.as_deref(), config.num_hidden_layers, |layer| layer.is_multiple_of(global_every))?;
    // The window reaches half of `local_attention` in either direction.
    let reach = window / 2;
    ensure!(reach > 0, anyhow!("local_attention is {window}: at least 2 is expected").with_value(reach));
    let visible = if causal {
        // This number of keys includes the query's own (transformers' `ModernBertDecoderConfig`).
        [Visibility::CAUSAL, Visibility::causal_window(reach)]
    } else {
        [Visibility::ALL, Visibility::window(reach)]
    };
    let theta = [("global_rope_theta", 160_000.0), ("local_rope_theta", 10_000.0)];
    let config = add_layer_types(config, text, (&types, visible), theta)?;
    // Output matrices of blocks and of the masked-LM head have a smaller scale, the more layers there are (transformers'
    // `ModernBertPreTrainedModel`).
    let output_scale = config.initializer_range / (2.0 * config.num_hidden_layers as f64).sqrt();
    let initialisation = WeightInitialisation {
        distribution: WeightDistribution::TruncatedNormal(cutoff.unwrap_or(3.0)),
        scales: ["attn.Wo", "mlp.Wo", "head.dense"].map(|part| (part, output_scale)).into(),
        ..WeightInitialisation::default()
    };
    let biases = Biases::from_blocks(attention_bias, mlp_bias);
    let embedding_norm = Some("embeddings.norm");
    Ok((config, TensorNames { initialisation, embedding_norm, biases, has_first_norm: false, ..names }))
}
