//! The tokenizer of a model as a run has it read text.

use std::borrow::Cow;

use anyhow::Result;

use crate::model::Model;
use crate::model::tokenizer::residues::Parting;
use crate::model::tokenizer::{ModelTokenizer, TokenizerOptions};
use crate::system::terminal::say;

/// The tokenizer of a model, by the options of a run; a note says where it may not be the one that the model was trained
/// with.
/// Fails if it cannot read what its own vocabulary is made of.
pub fn of(model: &Model, options: TokenizerOptions) -> Result<Cow<'_, ModelTokenizer>> {
    let tokenizer = model.tokenizer.reading(options)?;
    if let Some(note) = tokenizer.round_trip.note().filter(|_| !tokenizer.looks_up_words) {
        say(&format!("note: {note}"));
    }
    let parting = tokenizer.parting.filter(|parting| *parting != Parting::Letters);
    if let Some(parting) = parting.filter(|_| !tokenizer.looks_up_words) {
        say(&format!(
            "note: the model is one of residues: sequences are parted as `{parting}` (--residues says otherwise)"
        ));
    }
    Ok(tokenizer)
}

/// A model that reads text by the options of a run.
/// Fails as [`of`].
pub fn applied(mut model: Model, options: TokenizerOptions) -> Result<Model> {
    if let Cow::Owned(tokenizer) = of(&model, options)? {
        model.tokenizer = tokenizer;
    }
    Ok(model)
}
