//! `headscope counts`: how often each token is in a corpus, for `headscope analyze --counts`.

use anyhow::{Result, anyhow};

use super::options::CountsOptions;
use crate::model::Model;
use crate::passes::run::counting::count;
use crate::passes::run::token_limit;
use crate::system::errors::{Class, Facts};
use crate::system::files::output::Output;
use crate::system::progress::{self, Downloads};

/// Counts the tokens of a corpus by a model's tokenizer and writes them.
/// Fails if the model, the corpus or the output cannot be used, or the corpus has no token.
pub fn counts(options: &CountsOptions) -> Result<()> {
    let mut output = Output::open(&options.output)?;
    let model = Model::load(options.model.resolve(&Downloads::default())?)?;
    let counting = progress::step("counting tokens");
    let (counts, corpus) = count(&options.corpus, &model.tokenizer, token_limit(&model, None)?, true, None)?;
    counting.finish_and_clear();
    if counts.is_empty() {
        return Err(anyhow!("corpus `{}` has no tokens", corpus.name).about(&corpus.name)).class(Class::Input);
    }
    output.write(counts.to_json(&model.tokenizer)?.as_bytes())?;
    output.commit()
}
