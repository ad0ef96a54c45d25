//! The lengths of tokens, added ones and parts of them.

use anyhow::{Result, anyhow, ensure};
use tokenizers::AddedToken;

use crate::system::counted::counted;
use crate::system::errors::Facts;

/// The longest token, prefix or suffix, in bytes; sentencepiece models have the same bound. The longest of published
/// vocabularies are runs of 128 spaces, each two bytes.
pub(super) const LONGEST_TOKEN: usize = 1 << 10;

/// The most bytes of all added tokens: 1 MiB. The library takes some 80 bytes for each, to find them in a text.
const MOST_ADDED: usize = 1 << 20;

/// Makes sure that a token, or a part of one, is no longer than any of a language.
/// Fails if it is.
pub(in crate::model::tokenizer) fn ensure_short(what: &str, bytes: usize) -> Result<()> {
    ensure!(
        bytes <= LONGEST_TOKEN,
        anyhow!("{what} has {bytes} bytes, and no more than {LONGEST_TOKEN} are read").of_value(bytes)
    );
    Ok(())
}

/// Makes sure of the same of every token of a vocabulary.
/// Fails if one is longer.
pub(in crate::model::tokenizer) fn ensure_short_tokens<'a>(tokens: impl IntoIterator<Item = &'a String>) -> Result<()> {
    tokens.into_iter().try_for_each(|token| ensure_short("a token of its vocabulary", token.len()))
}

/// Makes sure that added tokens are short, each and all together.
/// Fails if they are not.
pub(in crate::model::tokenizer) fn ensure_few<'a>(added: impl IntoIterator<Item = &'a AddedToken>) -> Result<()> {
    let mut all = 0_usize;
    for token in added {
        ensure_short("an added token", token.content.len())?;
        all += token.content.len();
    }
    ensure!(
        all <= MOST_ADDED,
        anyhow!("its added tokens have {} together, and no more than {MOST_ADDED} are read", counted(all, "byte"))
    );
    Ok(())
}
