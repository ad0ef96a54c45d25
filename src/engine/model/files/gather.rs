//! The choice of the files that a model needs.

use anyhow::{Result, anyhow};

use super::file::ModelFile;
use super::index;
use super::missing::Place;
use super::modules::pooling;
use super::names::{self, ADAPTER_CONFIG, ADAPTER_WEIGHTS, CONFIG, LONGEST_CONFIG, LONGEST_INDEX, TOKENIZER, WEIGHTS};
use super::nested::Nested;
use super::pooling::Pooling;
use super::store::{AdapterFiles, FileStore, ModelFiles, TokenizerFiles};
use crate::model::families::Architecture;
use crate::system::errors::Facts;

/// Fetches the files that a model needs.
///
/// `config.json` comes first and is checked before anything else is fetched or missed; small files come before large
/// ones, because they fail first.
pub(in crate::model) fn gather(
    id: String,
    revision: Option<String>,
    place: &Place,
    files: &dyn FileStore,
) -> Result<ModelFiles> {
    let gathered = match Nested::of(files)? {
        Some(nested) => of_folder(id, revision, &place.within(&nested.folder), &nested)?,
        None => of_folder(id, revision, place, files)?,
    };
    // Few runs ask how a model pools, and no other one fails for it.
    Ok(ModelFiles { pooling: pooling(files).map_err(|error| format!("{error:#}")), ..gathered })
}

/// The files of a model that are all in one folder.
fn of_folder(id: String, revision: Option<String>, place: &Place, files: &dyn FileStore) -> Result<ModelFiles> {
    let names = files.names();
    if !names.contains(CONFIG) {
        return Err(place.explain_missing(CONFIG, names));
    }
    let config = files.fetch(CONFIG, LONGEST_CONFIG)?;
    let architecture = Architecture::parse(&config.text(LONGEST_CONFIG)?).cannot("use", config.path().display())?;
    let Some(tokenizer) = names::tokenizer(names) else {
        return Err(place.explain_missing(TOKENIZER, names));
    };
    let weights = names::weights(names);
    let parts = weights.is_none().then(|| names::parts(names)).flatten();
    if weights.is_none() && parts.is_none() {
        return Err(place.explain_missing(WEIGHTS[0], names));
    }
    let tokenizer = TokenizerFiles::fetch(&tokenizer, files)?;
    let most = largest(&architecture);
    let weights = match (weights, parts) {
        (_, Some(parts)) => fetch_parts(&parts, "the names of the others count it", most, place, files)?,
        (Some(name), None) if names::is_index(name) => {
            let shards = index::shards(&files.fetch(name, LONGEST_INDEX)?)?;
            fetch_parts(&shards, &format!("{name} lists it"), most, place, files)?
        }
        (name, None) => vec![files.fetch(name.expect("weights without parts"), most)?],
    };
    ensure_plausible(&weights, &architecture)?;
    let adapter = adapter(&id, files)?;
    Ok(ModelFiles { id, revision, config, architecture, tokenizer, weights, adapter, pooling: Ok(Pooling::Text) })
}

/// The adapter that lies beside the weights, if one does: transformers loads it with them.
fn adapter(id: &str, files: &dyn FileStore) -> Result<Option<AdapterFiles>> {
    let weights = ADAPTER_WEIGHTS.into_iter().find(|name| files.names().contains(*name));
    let Some(weights) = weights.filter(|_| files.names().contains(ADAPTER_CONFIG)) else { return Ok(None) };
    let config = files.fetch(ADAPTER_CONFIG, LONGEST_CONFIG)?;
    Ok(Some(AdapterFiles { name: id.to_owned(), config, weights: files.fetch(weights, SMALL)? }))
}

/// Fetches weights in parts, at most `most` bytes together; `known` says, in an error, how the parts are known.
fn fetch_parts(
    shards: &[String],
    known: &str,
    most: u64,
    place: &Place,
    files: &dyn FileStore,
) -> Result<Vec<ModelFile>> {
    if let Some(shard) = shards.iter().find(|shard| !files.names().contains(*shard)) {
        let words = format!("{}, but {known}: the model is not whole", place.lacks(shard));
        return Err(place.missing(shard, words));
    }
    let mut left = most;
    let fetch = |shard: &String| {
        let file = files.fetch(shard, left)?;
        left = left.saturating_sub(file.size());
        Ok(file)
    };
    shards.iter().map(fetch).collect()
}

/// How many times the encoder's size its files may have. The largest real ones hold float64 (twice), a masked-LM head
/// with a vocabulary of its own (twice the embeddings) and the state of an optimiser (three times).
const LARGEST_RATIO: u64 = 16;

/// Files below this size, in bytes, are never too large: tiny models may lie beside something else.
const SMALL: u64 = 1 << 30;

/// The most bytes that the weights of an encoder may have.
fn largest(architecture: &Architecture) -> u64 {
    encoder_bytes(architecture).saturating_mul(LARGEST_RATIO).max(SMALL)
}

/// The bytes of an encoder in float32.
fn encoder_bytes(architecture: &Architecture) -> u64 {
    architecture.config.parameters(architecture.config.num_hidden_layers).saturating_mul(4)
}

/// Refuses weights that are far larger than the encoder that `config.json` describes, before they are hashed and read.
fn ensure_plausible(weights: &[ModelFile], architecture: &Architecture) -> Result<()> {
    let found = weights.iter().map(ModelFile::size).fold(0, u64::saturating_add);
    let (encoder, most) = (encoder_bytes(architecture), largest(architecture));
    if found <= most {
        return Ok(());
    }
    let paths: Vec<String> = weights.iter().map(|file| file.path().display().to_string()).collect();
    let error = anyhow!(
        "the weights, `{}`, have {found} bytes, and config.json describes an encoder of {encoder}: more than {most} are \
         not read",
        paths.join("`, `"),
    );
    Err(error.about(&paths[0]))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::model::families::bert::SMALL;

    #[test]
    fn weights_far_larger_than_the_encoder_are_not_read() {
        let architecture = Architecture::parse(SMALL).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        // It has no blocks on the disk.
        for (size, fits) in [(1 << 30, true), (64 << 30, false)] {
            File::create(&path).unwrap().set_len(size).unwrap();
            let checked = ensure_plausible(&[ModelFile::open(&path).unwrap()], &architecture);
            assert_eq!(checked.is_ok(), fits, "{checked:?}");
        }
    }
}
