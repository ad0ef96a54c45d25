//! Words looked up as entries of the vocabulary, each as it is: the way to read a model whose folder does not say how its
//! text was cut.

use std::borrow::Cow;

use anyhow::{Result, anyhow};
use tokenizers::ModelWrapper;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;

use super::bounds::{BoundedModel, BoundedNormalizer, BoundedPreTokenizer, Tokenizer};
use super::properties::splits_at_spaces;
use super::{ModelTokenizer, TokenizerOptions};
use crate::system::errors::{Class, Facts};

impl ModelTokenizer {
    /// The tokenizer as a run asks for it: words looked up as entries of the vocabulary, or text cut as the files say and
    /// residues parted as the options say.
    /// Fails if text is to be cut and the tokenizer does not give back the entries of its vocabulary.
    pub fn reading(&self, options: TokenizerOptions) -> Result<Cow<'_, Self>> {
        if options.tokens_as_words {
            return self.clone().looking_up_words().map(Cow::Owned);
        }
        if self.round_trip.fails() {
            return Err(self.round_trip.error(&self.path.display().to_string())).class(Class::Model);
        }
        Ok(match options.residues {
            Some(parting) => Cow::Owned(Self { parting: Some(parting), ..self.clone() }),
            None => Cow::Borrowed(self),
        })
    }

    /// Looks up each given word as one entry of the vocabulary; a word that is no entry becomes the unknown token. White space
    /// separates the words of running text.
    /// Fails if there is no such tokenizer.
    fn looking_up_words(self) -> Result<Self> {
        let unknown = self.unknown.and_then(|id| self.text.id_to_token(id)).unwrap_or_default();
        let vocabulary = self.text.get_vocab(false).into_iter().collect();
        let model = WordLevel::builder().vocab(vocabulary).unk_token(unknown).build();
        let model = BoundedModel::from(ModelWrapper::from(model.map_err(|error| anyhow!("{error}"))?));
        let mut words = self.text;
        words.with_model(model);
        words.with_normalizer(None::<BoundedNormalizer>).map_err(|error| anyhow!("{error}"))?;
        words.with_pre_tokenizer(None::<BoundedPreTokenizer>);
        let mut text: Tokenizer = words.clone();
        text.with_pre_tokenizer(Some(BoundedPreTokenizer(WhitespaceSplit.into())));
        Ok(Self {
            splits_at_spaces: splits_at_spaces(&text),
            joins_by_a_space: false,
            looks_up_words: true,
            text,
            words: Some(words),
            ..self
        })
    }

    /// Whether each given word is one entry of the vocabulary.
    pub fn looks_up_words(&self) -> bool {
        self.looks_up_words
    }
}
