//! Table of all architecture families that can be loaded.

use super::{
    DiscriminatorNames, Family, TokenHeadNames, TransformNames, bert, compact_bert, deberta, gemma, gpt, llama,
    modernbert, post_rotary, roberta, seq2seq,
};
use crate::model::config::{Activation, BlockPlan};

/// All architecture families that can be loaded.
pub const FAMILIES: &[Family] = &[
    bert::BERT,
    roberta::ROBERTA,
    // XLM-RoBERTa (Conneau et al. 2020).
    Family { model_type: "xlm-roberta", class_prefix: "XLMRoberta", ..roberta::ROBERTA },
    // CamemBERT (Martin et al. 2020).
    Family { model_type: "camembert", class_prefix: "Camembert", ..roberta::ROBERTA },
    // DistilBERT (Sanh et al. 2019): BERT without segments, under other names.
    Family {
        token_heads: &[TokenHeadNames::biased(
            ["vocab_transform", "vocab_layer_norm"],
            "vocab_projector.weight",
            ["vocab_projector.bias"; 2],
        )],
        read: compact_bert::read_distilbert,
        ..bert::BERT.with_names("distilbert", "DistilBert", "distilbert.")
    },
    // ELECTRA (Clark et al. 2020), generator and discriminator: narrow embeddings.
    Family {
        // Head of the generator; a discriminator has another head.
        token_heads: &[TokenHeadNames {
            transform: Some(TransformNames::biased("generator_predictions.dense", "generator_predictions.LayerNorm")),
            decoder: "generator_lm_head.weight",
            bias: Some(["generator_lm_head.bias", "generator_lm_head.bias"]),
            activation: Some(Activation::Gelu),
        }],
        discriminator: Some(DiscriminatorNames {
            dense: "discriminator_predictions.dense",
            output: "discriminator_predictions.dense_prediction",
        }),
        read: compact_bert::read_electra,
        ..bert::BERT.with_names("electra", "Electra", "electra.")
    },
    // ALBERT (Lan et al. 2020): narrow embeddings, and layers that share their parameters.
    Family {
        token_heads: &[TokenHeadNames::biased(
            ["predictions.dense", "predictions.LayerNorm"],
            "predictions.decoder.weight",
            ["predictions.bias", "predictions.decoder.bias"],
        )],
        read: compact_bert::read_albert,
        ..bert::BERT.with_names("albert", "Albert", "albert.")
    },
    // MPNet (Song et al. 2020): no segments, and a bias by distance that all layers add to their scores.
    Family { read: roberta::read_mpnet, ..roberta::ROBERTA.with_names("mpnet", "MPNet", "mpnet.") },
    // DPR's encoders of questions and of passages (Karpukhin et al. 2020).
    Family {
        wrapper_prefixes: &["question_encoder.", "ctx_encoder."],
        ..bert::BERT.with_names("dpr", "DPR", "bert_model.")
    },
    // Splinter (Ram et al. 2021), without its selection of spans.
    Family { model_type: "splinter", class_prefix: "Splinter", prefix: "splinter.", ..bert::BERT },
    // VisualBERT (Li et al. 2019) on text alone, without its inputs for regions of images.
    Family {
        ignored_tensors: &["visual_position_embeddings", "visual_token_type_embeddings", "visual_projection"],
        ..bert::BERT.with_names("visual_bert", "VisualBert", "visual_bert.")
    },
    // The encoder of BERT for sequence generation (Rothe et al. 2020): BERT without segments. It was made from a BERT, whose
    // masked-LM head checkpoints leave out.
    Family {
        model_type: "bert-generation",
        class_prefix: "BertGeneration",
        read: bert::read_bert_generation,
        ..bert::BERT
    },
    // BigBird (Zaheer et al. 2020): BERT, up to the length beyond which its attention is sparse.
    Family { model_type: "big_bird", class_prefix: "BigBird", read: bert::read_big_bird, ..bert::BERT },
    // ERNIE (Sun et al. 2020): BERT, whose later versions embed the task. Plain text has the first task.
    Family { model_type: "ernie", class_prefix: "Ernie", prefix: "ernie.", read: bert::read_ernie, ..bert::BERT },
    // LayoutLM (Xu et al. 2020) on text alone: BERT with embeddings of each word's box on the page, whose coordinates are all 0.
    Family { read: bert::read_layoutlm, ..bert::BERT.with_names("layoutlm", "LayoutLM", "layoutlm.") },
    // MarkupLM (Li et al. 2022) on text alone: BERT with positions counted from the padding index, and an embedding of each
    // word's place in a tree of markup. Plain text has the embedding of an empty path.
    Family {
        // A linear layer that transformers' class has and never calls.
        ignored_tensors: &["xpath_unitseq2_embeddings"],
        read: bert::read_markuplm,
        ..bert::BERT.with_names("markuplm", "MarkupLM", "markuplm.")
    },
    // RemBERT (Chung et al. 2021): narrow input embeddings, and separate wide ones for prediction.
    Family {
        token_heads: &[TokenHeadNames {
            transform: Some(TransformNames::biased("cls.predictions.dense", "cls.predictions.LayerNorm")),
            bias: Some(["cls.predictions.decoder.bias", "cls.predictions.decoder.bias"]),
            ..bert::HEAD
        }],
        read: compact_bert::read_rembert,
        ..bert::BERT.with_names("rembert", "RemBert", "rembert.")
    },
    // SqueezeBERT (Iandola et al. 2020): BERT with convolutions in groups in place of linear layers.
    Family {
        read: compact_bert::read_squeezebert,
        ..bert::BERT.with_names("squeezebert", "SqueezeBert", "transformer.")
    },
    // data2vec for text (Baevski et al. 2022).
    Family { model_type: "data2vec-text", class_prefix: "Data2VecText", prefix: "data2vec_text.", ..roberta::ROBERTA },
    // LUKE (Yamada et al. 2020) on words alone: without entities, only its attention from word to word remains.
    Family {
        ignored_tensors: &["entity_embeddings", "w2e_query", "e2w_query", "e2e_query"],
        ..roberta::ROBERTA.with_names("luke", "Luke", "luke.")
    },
    // I-BERT (Kim et al. 2021) before its quantisation.
    Family {
        // Buffers of I-BERT's integer arithmetic; only the float weights beside them are read.
        ignored_tensors: &[
            "act_scaling_factor",
            "bias_integer",
            "fc_scaling_factor",
            "shift",
            "weight_integer",
            "weight_scaling_factor",
            "x_max",
            "x_min",
        ],
        read: roberta::read_ibert,
        ..roberta::ROBERTA.with_names("ibert", "IBert", "ibert.")
    },
    // Longformer (Beltagy et al. 2020): tokens see those around them.
    Family {
        // Projections of tokens with global attention, which no token of plain text has.
        ignored_tensors: &["query_global", "key_global", "value_global"],
        read: roberta::read_longformer,
        ..roberta::ROBERTA.with_names("longformer", "Longformer", "longformer.")
    },
    // RoBERTa-PreLayerNorm (Ott et al. 2019).
    Family {
        read: roberta::read_pre_norm_roberta,
        ..roberta::ROBERTA.with_names("roberta-prelayernorm", "RobertaPreLayerNorm", "roberta_prelayernorm.")
    },
    // Megatron-BERT (Shoeybi et al. 2019): a BERT that is pre-norm.
    Family {
        model_type: "megatron-bert",
        class_prefix: "MegatronBert",
        read: roberta::read_megatron_bert,
        ..bert::BERT
    },
    // XLM-RoBERTa-XL (Goyal et al. 2021).
    Family {
        model_type: "xlm-roberta-xl",
        class_prefix: "XLMRobertaXL",
        read: roberta::read_xlm_roberta_xl,
        ..roberta::ROBERTA
    },
    modernbert::MODERN_BERT,
    Family {
        // As transformers 5 writes it.
        wrapper_prefixes: &["nomic_bert."],
        token_heads: &[post_rotary::NOMIC_HEAD, post_rotary::NATIVE_NOMIC_HEAD],
        read: post_rotary::read_nomic_bert,
        ..bert::BERT.with_names("nomic_bert", "NomicBert", "bert.")
    },
    post_rotary::REMOTE_CODE_GTE,
    Family { read: post_rotary::read_gte, ..post_rotary::REMOTE_CODE_GTE.with_names("gte", "Gte", "gte.") },
    // jina-embeddings-v3 in the form of transformers, in which adapters are merged.
    Family {
        model_type: "jina_embeddings_v3",
        class_prefix: "JinaEmbeddingsV3",
        read: post_rotary::read_jina_embeddings_v3,
        ..roberta::ROBERTA
    },
    Family { model_type: "eurobert", class_prefix: "EuroBert", read: llama::read_euro_bert, ..llama::LLAMA },
    Family {
        model_type: "neobert",
        class_prefix: "NeoBERT",
        token_heads: &[TokenHeadNames {
            decoder: "decoder.weight",
            bias: Some(["decoder.bias", "decoder.bias"]),
            ..TokenHeadNames::LM_HEAD
        }],
        read: llama::read_neo_bert,
        ..llama::LLAMA
    },
    // ESM-2 (Lin et al. 2023) and ESM-1b (Rives et al. 2021), encoders of proteins: pre-norm, with rotary positions or absolute ones.
    Family { model_type: "esm", class_prefix: "Esm", prefix: "esm.", read: roberta::read_esm, ..roberta::ROBERTA },
    seq2seq::T5,
    Family { model_type: "mt5", class_prefix: "MT5", ..seq2seq::T5 },
    // Every layer has its own bias.
    Family {
        model_type: "umt5",
        class_prefix: "UMT5",
        read: |text| seq2seq::read_t5(text, "gated-gelu", true),
        ..seq2seq::T5
    },
    seq2seq::BART,
    // Its layers are pre-norm.
    Family {
        model_type: "mbart",
        class_prefix: "MBart",
        read: |text| seq2seq::read_bart(text, BlockPlan::Pre, Some("encoder.layer_norm")),
        ..seq2seq::BART
    },
    // The first version of DeBERTa: one matrix for the queries, keys and values of each head, a row for each distance, and heads
    // of `hidden_size / num_attention_heads` dimensions.
    Family { model_type: "deberta", class_prefix: "Deberta", read: deberta::read_version_1, ..deberta::DEBERTA_V2 },
    deberta::DEBERTA_V2,
    gemma::GEMMA_3_TEXT,
    // Gemma 2 (Gemma Team 2024) bounds its scores instead of normalising queries and keys.
    Family { model_type: "gemma2", class_prefix: "Gemma2", read: gemma::read_gemma2, ..gemma::GEMMA_3_TEXT },
    gpt::CLIP_TEXT,
    // CLIP of texts and images: `text_config` in its `config.json` describes the text encoder.
    Family { model_type: "clip", class_prefix: "CLIP", read: gpt::read_clip, ..gpt::CLIP_TEXT },
    // The decoders among Ettin's models (Weller et al. 2025).
    Family {
        model_type: "modernbert-decoder",
        class_prefix: "ModernBertDecoder",
        token_heads: &[TokenHeadNames {
            transform: Some(TransformNames { dense: "lm_head.dense", norm: "lm_head.norm", biases: [false, false] }),
            ..modernbert::HEAD
        }],
        read: |text| modernbert::read(text, true),
        ..modernbert::MODERN_BERT
    },
    gpt::GPT_2,
    Family { model_type: "gpt_neo", class_prefix: "GPTNeo", read: gpt::read_gpt_neo, ..gpt::GPT_2 },
    Family {
        token_heads: &[TokenHeadNames { decoder: "embed_out.weight", ..TokenHeadNames::LM_HEAD }],
        read: gpt::read_gpt_neox,
        ..gpt::GPT_2.with_names("gpt_neox", "GPTNeoX", "gpt_neox.")
    },
    // OPT (Zhang et al. 2022): its positions begin at row 2 of their table.
    Family { wrapper_prefixes: &["model."], read: gpt::read_opt, ..gpt::GPT_2.with_names("opt", "OPT", "decoder.") },
    llama::LLAMA,
    Family { model_type: "mistral", class_prefix: "Mistral", read: llama::read_mistral, ..llama::LLAMA },
    Family { model_type: "qwen2", class_prefix: "Qwen2", read: llama::read_qwen2, ..llama::LLAMA },
    Family { model_type: "qwen3", class_prefix: "Qwen3", read: llama::read_qwen3, ..llama::LLAMA },
    Family { model_type: "smollm3", class_prefix: "SmolLM3", read: llama::read_smol_lm3, ..llama::LLAMA },
];
