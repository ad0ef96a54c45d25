//! Tensors that belong to no family and change a model's computation: adapters, prompts, quantised weights.

/// A kind of tensor that no architecture family has: (parts of tensor names that identify it, its description after the
/// words "part of", a remedy).
type ForeignTensorKind = (&'static [&'static str], &'static str, &'static str);

const MERGE_HINT: &str = "merge it into the model (peft: merge_and_unload()) and save that";
const SAVE_WITHOUT_HINT: &str = "save the model without it: its heads attend in another way with it";
const DEQUANTISE_HINT: &str = "take the unquantised weights, or save them dequantised";

/// LoRA adapters.
// peft (lora/layer.py), loralib, and diffusers' `lora.down`.
const LORA_KIND: ForeignTensorKind = (
    &["lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", "lora_down", "lora_up", "lora_magnitude_vector"],
    "an adapter that is not merged (LoRA)",
    MERGE_HINT,
);

const FOREIGN_KINDS: [ForeignTensorKind; 9] = [
    LORA_KIND,
    // peft (loha, lokr, oft, boft, vera, fourierft, randlora).
    (
        &["hada_w1_a", "hada_w2_a", "lokr_w1", "lokr_w2", "oft_r", "boft_R", "vera_lambda_b", "fourierft_spectrum"],
        "an adapter that is not merged (peft)",
        MERGE_HINT,
    ),
    (&["ia3_l"], "an adapter that is not merged (IA³)", MERGE_HINT),
    // Houlsby et al. 2019, as adapters and adapter-transformers write them.
    (
        &["adapter", "adapters", "adapter_down", "adapter_up", "adapter_layers", "invertible_adapters"],
        "a bottleneck adapter",
        SAVE_WITHOUT_HINT,
    ),
    (
        &["prompt_embeddings", "prompt_encoder", "prefix_encoder", "prefix_tuning", "prefix_tunings", "soft_prompt"],
        "a prompt or prefix that was tuned",
        SAVE_WITHOUT_HINT,
    ),
    // bitsandbytes.
    (&["SCB", "absmax", "quant_map", "quant_state"], "quantised weights", DEQUANTISE_HINT),
    // GPTQ, AWQ.
    (&["qweight", "qzeros", "g_idx"], "quantised weights", DEQUANTISE_HINT),
    // fp8.
    (&["weight_scale", "weight_scale_inv"], "quantised weights", DEQUANTISE_HINT),
    (&["parametrizations"], "a parametrisation, as of an adapter (LoRA)", MERGE_HINT),
];

/// Returns (description, remedy) if a tensor's name marks it as part of an adapter, a prompt, quantised weights or a
/// parametrisation; `None` otherwise.
pub(super) fn foreign_kind(name: &str) -> Option<(&'static str, &'static str)> {
    let by_part = |part: &str| FOREIGN_KINDS.iter().find(|(parts, ..)| parts.contains(&part));
    let is_lora = name.contains("lora.down.") || name.contains("lora.up.");
    let kind = if is_lora { Some(&LORA_KIND) } else { name.split('.').find_map(by_part) };
    kind.map(|&(_, description, way_out)| (description, way_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_its_name_marks_a_foreign_tensor() {
        for name in [
            "encoder.layer.0.attention.self.query.lora_A.default.weight",
            "base_model.model.h.0.attn.c_attn.lora_B.weight",
            "wte.lora_embedding_A.default",
            "unet.lora.down.weight",
            "encoder.layer.0.output.adapters.x.adapter_down.0.weight",
            "encoder.layer.1.attention.self.value.ia3_l.default",
            "prompt_encoder.default.embedding.weight",
            "model.layers.0.self_attn.q_proj.qweight",
            "embeddings.parametrizations.weight.original",
        ] {
            assert!(foreign_kind(name).is_some(), "{name}");
        }
        for name in ["encoder.layer.0.attention.self.query.weight", "classifier.weight", "flora_Ab.weight", "explora.x"]
        {
            assert_eq!(foreign_kind(name), None, "{name}");
        }
    }
}
