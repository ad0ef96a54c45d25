//! Tensors that belong to no family but change a model's computation: adapters, prompts, quantised weights.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    /// Description of the kind of tensor, in words that follow "part of".
    pub what: &'static str,
    pub way_out: &'static str,
}

const MERGE: &str = "merge it into the model (peft: merge_and_unload()) and save that";
const PLAIN: &str = "save the model without it: its heads attend in another way with it";
const UNQUANTISED: &str = "take the unquantised weights, or save them dequantised";

/// (parts of tensor names, as libraries write them; the kind of foreign tensor that each part marks).
const KNOWN: [(&[&str], Foreign); 7] = [
    // peft (lora/layer.py), loralib, and diffusers' `lora.down`.
    (
        &["lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", "lora_down", "lora_up", "lora_magnitude_vector"],
        Foreign { what: "an adapter that is not merged (LoRA)", way_out: MERGE },
    ),
    // peft (loha, lokr, oft, boft, vera, fourierft, randlora).
    (
        &["hada_w1_a", "hada_w2_a", "lokr_w1", "lokr_w2", "oft_r", "boft_R", "vera_lambda_b", "fourierft_spectrum"],
        Foreign { what: "an adapter that is not merged (peft)", way_out: MERGE },
    ),
    (&["ia3_l"], Foreign { what: "an adapter that is not merged (IA³)", way_out: MERGE }),
    // Houlsby et al. 2019, as adapters and adapter-transformers write them.
    (
        &["adapter", "adapters", "adapter_down", "adapter_up", "adapter_layers", "invertible_adapters"],
        Foreign { what: "a bottleneck adapter", way_out: PLAIN },
    ),
    (
        &["prompt_embeddings", "prompt_encoder", "prefix_encoder", "prefix_tuning", "prefix_tunings", "soft_prompt"],
        Foreign { what: "a prompt or prefix that was tuned", way_out: PLAIN },
    ),
    // bitsandbytes, GPTQ, AWQ, fp8.
    (
        &[
            "SCB",
            "qweight",
            "qzeros",
            "g_idx",
            "absmax",
            "quant_map",
            "quant_state",
            "weight_scale",
            "weight_scale_inv",
        ],
        Foreign { what: "quantised weights", way_out: UNQUANTISED },
    ),
    (&["parametrizations"], Foreign { what: "a parametrisation, as of an adapter (LoRA)", way_out: MERGE }),
];

/// Returns the kind of foreign tensor that a tensor name marks; `None` if it marks none.
pub(super) fn of(name: &str) -> Option<Foreign> {
    let is_lora = name.contains("lora.down.") || name.contains("lora.up.");
    let known = |part: &str| KNOWN.iter().find(|(names, _)| names.contains(&part)).map(|(_, foreign)| *foreign);
    if is_lora { Some(KNOWN[0].1) } else { name.split('.').find_map(known) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_adapters_are_told_by_a_part_of_their_name() {
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
            assert!(of(name).is_some(), "{name}");
        }
        for name in ["encoder.layer.0.attention.self.query.weight", "classifier.weight", "flora_Ab.weight", "explora.x"]
        {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
