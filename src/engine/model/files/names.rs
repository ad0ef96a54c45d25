//! Names of the files of a model, and the largest accepted size of each.

use std::collections::BTreeSet;
use std::path::Path;

pub(in crate::model) const CONFIG: &str = "config.json";
pub(in crate::model) const TOKENIZER: &str = "tokenizer.json";
pub(in crate::model) const WORDPIECE_VOCABULARY: &str = "vocab.txt";
pub(in crate::model) const BPE_VOCABULARY: &str = "vocab.json";
pub(in crate::model) const BPE_MERGES: &str = "merges.txt";
/// File of BPE merges within words, in fastBPE's format; it accompanies a `vocab.txt`.
pub(in crate::model) const BPE_CODES: &str = "bpe.codes";
/// The file names of sentencepiece models in transformers.
pub(in crate::model) const SENTENCEPIECE_FILES: [&str; 5] =
    ["sentencepiece.bpe.model", "spiece.model", "spm.model", "sentencepiece.model", "tokenizer.model"];
pub(in crate::model) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
pub(in crate::model) const SPECIAL_TOKENS: &str = "special_tokens_map.json";
pub(in crate::model) const ADDED_TOKENS: &str = "added_tokens.json";

pub(in crate::model) const MODULES: &str = "modules.json";

/// Prefix of the folder name of a sentence encoder's first module.
pub(in crate::model) const FIRST_MODULE: &str = "0_";

pub(in crate::model) const ADAPTER_CONFIG: &str = "adapter_config.json";
/// File names of an adapter's weights, in peft's order of preference.
pub(in crate::model) const ADAPTER_WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];

/// File names of weights in readable formats, in transformers' order of preference.
pub(in crate::model) const WEIGHT_FILES: [&str; 4] =
    ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"];

/// Sets of files that make a tokenizer, in order of preference: the first complete set is used.
const TOKENIZER_FILE_SETS: [&[&str]; 9] = [
    &[TOKENIZER],
    &[WORDPIECE_VOCABULARY, BPE_CODES],
    &[WORDPIECE_VOCABULARY],
    &[BPE_VOCABULARY, BPE_MERGES],
    &[SENTENCEPIECE_FILES[0]],
    &[SENTENCEPIECE_FILES[1]],
    &[SENTENCEPIECE_FILES[2]],
    &[SENTENCEPIECE_FILES[3]],
    &[SENTENCEPIECE_FILES[4]],
];

/// Optional files with settings and additional tokens of a tokenizer.
const TOKENIZER_SETTINGS_FILES: [&str; 3] = [TOKENIZER_CONFIG, SPECIAL_TOKENS, ADDED_TOKENS];

/// Longest accepted `config.json`, in bytes: 16 MiB. Published ones have a few kilobytes; with thousands of classes, a megabyte.
pub(in crate::model) const MAX_CONFIG_BYTES: u64 = 1 << 24;

/// Longest accepted file of a tokenizer, in bytes: 256 MiB. The largest vocabulary, a million tokens (XLM-V, Liang et al. 2023),
/// has 61 MB.
pub(in crate::model) const MAX_TOKENIZER_BYTES: u64 = 1 << 28;

/// Longest accepted index of weight shards, in bytes: 16 MiB. An entry has about 100 bytes; 1024 layers of sixteen tensors make 2
/// MB.
pub(in crate::model) const MAX_INDEX_BYTES: u64 = 1 << 24;

/// Whether a file name denotes an index of weight shards.
pub(in crate::model) fn is_index(name: &str) -> bool {
    name.ends_with(".index.json")
}

/// Whether a weight file is a pickle, by its extension `.bin`.
pub(in crate::model) fn is_pickle(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "bin")
}

/// Selects the tokenizer files among `names`, the vocabulary first; `None` if no set of tokenizer files is complete.
pub(in crate::model) fn select_tokenizer_files(names: &BTreeSet<String>) -> Option<Vec<&'static str>> {
    let is_present = |name: &&&'static str| names.contains(**name);
    let set = TOKENIZER_FILE_SETS.iter().find(|set| set.iter().all(|name| names.contains(*name)))?;
    Some(set.iter().chain(TOKENIZER_SETTINGS_FILES.iter().filter(is_present)).copied().collect())
}

/// Lists the sets of files that make a tokenizer, for a message.
pub(in crate::model) fn describe_tokenizer_sets() -> String {
    let forms: Vec<String> = TOKENIZER_FILE_SETS.iter().map(|set| set.join(" with ")).collect();
    let (last, others) = forms.split_last().expect("there are some");
    format!("{} or {last}", others.join(", "))
}

/// Returns the names of all parts of weights that are split without an index, such as `model-00001-of-00002.safetensors`. The
/// name of the first part found states their number. `None` if there is no part.
pub(in crate::model) fn numbered_parts(names: &BTreeSet<String>) -> Option<Vec<String>> {
    let forms = [("model-", ".safetensors"), ("pytorch_model-", ".bin")];
    forms.into_iter().find_map(|(stem, extension)| {
        let part_count = |name: &String| {
            let (number, count) = name.strip_prefix(stem)?.strip_suffix(extension)?.split_once("-of-")?;
            let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
            (is_number(number) && is_number(count)).then(|| count.parse().ok())?
        };
        let count: usize = names.iter().find_map(part_count)?;
        Some((1..=count).map(|number| format!("{stem}{number:05}-of-{count:05}{extension}")).collect())
    })
}
