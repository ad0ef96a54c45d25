//! The token for the beginning of text: where its name comes from, and how it is put before a text or taken away.

use tokenizers::{Encoding, TruncationDirection};

use super::bounds::Tokenizer;
use super::config::{TokenizerConfig, named};

/// The tokens before a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Beginning {
    /// The tokens that the tokenizer puts there.
    #[default]
    Own,
    /// This token, unless the tokenizer puts a special one there.
    Token(u32),
    /// No special token.
    Nothing,
}

/// The token for the beginning of text: the one that `bos_token` names, or else that of `bos_token_id`.
pub(super) fn of(tokenizer: &Tokenizer, settings: &TokenizerConfig, rows: usize) -> Option<u32> {
    let by_name = named(&settings.values, "bos_token").and_then(|(name, _)| tokenizer.token_to_id(name));
    let by_id = settings.beginning.filter(|&id| (id as usize) < rows && tokenizer.id_to_token(id).is_some());
    by_name.or(by_id)
}

impl Beginning {
    /// An encoding with its special tokens that begins so.
    pub fn applied(self, mut encoding: Encoding, tokenizer: &Tokenizer) -> Encoding {
        let has_own = encoding.get_special_tokens_mask().first() == Some(&1);
        match self {
            Self::Token(id) if !has_own => {
                let token = tokenizer.id_to_token(id).unwrap_or_default();
                let (one, nothing) = (vec![1], Vec::new());
                let ranges = std::iter::empty().collect();
                let first = Encoding::new(
                    vec![id],
                    vec![0],
                    vec![token],
                    vec![None],
                    vec![(0, 0)],
                    one.clone(),
                    one,
                    nothing,
                    ranges,
                );
                Encoding::merge([first, encoding], false)
            }
            Self::Nothing if has_own => {
                encoding.truncate(encoding.len() - 1, 0, TruncationDirection::Left);
                encoding
            }
            _ => encoding,
        }
    }
}

/// Whether a text that follows another takes a space before it, as a part of its first token.
///
/// Byte-level BPE cuts `a a` into `a` and `Ġa`; a tokenizer that marks the beginning of every text as that of a word, or cuts
/// at white space, needs none.
pub(super) fn joins_by_a_space(tokenizer: &Tokenizer) -> bool {
    let ids =
        |text: &str| tokenizer.encode(text, false).map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default();
    let (alone, spaced, both) = (ids("a"), ids(" a"), ids("a a"));
    let after = |text: Vec<u32>| [alone.clone(), text].concat();
    both != after(alone.clone()) && both == after(spaced)
}
