//! The lengths of tokens, added ones and parts of them.

use anyhow::{Result, anyhow, ensure};
use tokenizers::AddedToken;

use crate::system::counted::counted;
use crate::system::errors::Facts;
use crate::system::machine::memory;

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

/// The bytes that the library takes for each node of the tree in which it looks for the tokens of a unigram model: a table of the
/// nodes after it (measured; `tokenizers` 0.23, `models/unigram/trie.rs`).
const NODE: u64 = 340;

/// The most nodes of a tree that any vocabulary may have, and the most for each token of a larger vocabulary. Published
/// vocabularies have three to five nodes a token.
const MOST_NODES: (usize, usize) = (1 << 20, 16);

/// Makes sure that the tree of the tokens of a unigram model is no larger than that of any language, and that there is memory for it.
/// It has a node for each different beginning of a token.
/// Fails if it is, or there is not.
pub(in crate::model::tokenizer) fn ensure_small_tree<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut tokens: Vec<&[u8]> = tokens.into_iter().map(str::as_bytes).collect();
    tokens.sort_unstable();
    let mut nodes = tokens.first().map_or(0, |first| first.len());
    nodes += tokens
        .windows(2)
        .map(|pair| pair[1].len() - pair[0].iter().zip(pair[1]).take_while(|(before, byte)| before == byte).count())
        .sum::<usize>();
    let most = MOST_NODES.0.max(MOST_NODES.1.saturating_mul(tokens.len()));
    let needed = (nodes as u64).saturating_mul(NODE);
    ensure!(
        nodes <= most,
        anyhow!(
            "the {} of its vocabulary need {} of memory to be looked for, as they begin in {nodes} ways: at most {most} are read",
            counted(tokens.len(), "token"),
            memory::in_words(needed)
        )
    );
    memory::ensure(needed, || format!("the vocabulary of {}", counted(tokens.len(), "token")))
        .map_err(|error| error.hint(format!("`--memory {}` lets it have as much", memory::limit_for(needed))))
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
