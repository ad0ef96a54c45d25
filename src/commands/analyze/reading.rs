//! How a decoder reads the corpus of a run: by sentences or in windows of documents, and with what a text begins.

use std::borrow::Cow;

use anyhow::{Result, anyhow};

use super::options::AnalyzeOptions;
use crate::commands::text_reader;
use crate::corpus::Unit;
use crate::model::Model;
use crate::model::tokenizer::ModelTokenizer;
use crate::sequences::reading::{Bos, Context, Reading};
use crate::system::errors::Facts;

/// How the model reads a corpus whose units are these, if it is a decoder, and its tokenizer as it does.
///
/// Where the corpus marks documents a decoder reads it in them, unless the options say otherwise.
/// Fails if the options ask an encoder for what is of decoders, or for a token that no file names.
pub(super) fn reading<'a>(
    options: &AnalyzeOptions,
    model: &'a Model,
    unit: Unit,
) -> Result<(Option<Reading>, Cow<'a, ModelTokenizer>)> {
    let own = text_reader::of(model, options.tokenizer)?;
    if !model.is_decoder() {
        let asked = [
            ("context", "document", options.context == Some(Context::Document)),
            ("bos", "always", options.bos == Bos::Always),
            ("bos", "never", options.bos == Bos::Never),
        ];
        return match asked.into_iter().find(|(_, _, asked)| *asked) {
            Some((option, value, _)) => Err(refusal(option, value, &model.id)),
            None => Ok((None, own)),
        };
    }
    let of_corpus = if unit == Unit::Documents { Context::Document } else { Context::Sentence };
    let context = options.context.unwrap_or(of_corpus);
    let tokenizer = match options.bos {
        Bos::Auto => own,
        Bos::Always => {
            let with = own.into_owned().always_beginning();
            Cow::Owned(with.map_err(|error| error.context("--bos always").of_option("bos").of_value("always"))?)
        }
        Bos::Never => Cow::Owned(own.into_owned().never_beginning()),
    };
    let begins_with = tokenizer.begins_with()?;
    Ok((Some(Reading { context, bos: options.bos, begins_with }), tokenizer))
}

/// The refusal of an option of decoders.
fn refusal(option: &str, value: &str, id: &str) -> anyhow::Error {
    let why = if option == "context" {
        "reads each sentence by itself here: windows of documents are for decoders"
    } else {
        "has the special tokens that it was trained with: the option is for decoders"
    };
    anyhow!("--{option} {value}: `{id}` is an encoder, which {why}")
        .of_option(option)
        .of_value(value)
        .hint("leave it out")
}
