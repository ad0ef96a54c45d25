//! Selects and fetches the files that a model needs.

use std::collections::{BTreeSet, HashMap};
use std::fs::DirEntry;
use std::io;
use std::path::{Component, Path};

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::file::ModelFile;
use super::missing::ModelLocation;
use super::modules::read_pooling;
use super::names::{
    self, ADAPTER_CONFIG, ADAPTER_WEIGHTS, CONFIG, FIRST_MODULE, MAX_CONFIG_BYTES, MAX_INDEX_BYTES, TOKENIZER,
    WEIGHT_FILES,
};
use super::store::{AdapterFiles, FileStore, ModelFiles, Pooling, TokenizerFiles};
use crate::model::families::architecture::Architecture;
use crate::system::errors::ErrorExt;

/// Fetches the files that a model needs. `config.json` is fetched and checked first. Small files precede large ones, so that
/// errors in small files show early.
pub(in crate::model) fn gather_files(
    id: String,
    revision: Option<String>,
    place: &ModelLocation,
    files: &FileStore<'_>,
) -> Result<ModelFiles> {
    let gathered = match find_first_module(files)? {
        Some((folder, first_module_folder)) => {
            fetch_folder(id, revision, &place.subfolder(&folder), &first_module_folder)?
        }
        None => fetch_folder(id, revision, place, files)?,
    };
    // The error is kept and not raised, because few runs need the pooling.
    Ok(ModelFiles { pooling: read_pooling(files).map_err(|error| format!("{error:#}")), ..gathered })
}

/// Lists the names of the regular files in a folder, and of the links that lead to one.
pub(in crate::model) fn files_in(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<String>> + use<>> {
    let name = |entry: io::Result<DirEntry>| match entry {
        Ok(entry) => entry.path().is_file().then(|| Ok(entry.file_name().to_string_lossy().into_owned())),
        Err(error) => Some(Err(error)),
    };
    Ok(folder.read_dir()?.filter_map(name))
}

/// Lists the files in a folder that can be read; none if the folder cannot be read.
pub(in crate::model) fn readable_files(folder: &Path) -> impl Iterator<Item = String> + use<> {
    files_in(folder).into_iter().flatten().filter_map(Result::ok)
}

/// Lists the readable files in a subfolder of `folder`, as paths relative to `folder`.
pub(in crate::model) fn list_subfolder_files(folder: &Path, subfolder: String) -> impl Iterator<Item = String> + use<> {
    readable_files(&folder.join(&subfolder)).map(move |name| format!("{subfolder}/{name}"))
}

/// Lists the subfolders of `folder` whose names mark the first module of a sentence encoder: names that begin with `0_`.
pub(in crate::model) fn list_first_modules(folder: &Path) -> Vec<String> {
    let entries =
        folder.read_dir().into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    entries.filter(|name| name.starts_with(FIRST_MODULE) && folder.join(name).is_dir()).collect()
}

/// Finds the subfolder of a sentence encoder's first module. Returns (its name, its files), or `None` if there is no such
/// subfolder, or a model lies in the outer folder. sentence-transformers before version 2 kept the first module, the
/// transformer, in `0_Transformer/` (before 0.3 in `0_BERT/` and the like). The `config.json` beside such a folder names only
/// the version of sentence-transformers. Fails if the outer `config.json` cannot be read.
fn find_first_module<'a>(files: &'a FileStore<'_>) -> Result<Option<(String, FileStore<'a>)>> {
    let names = &files.names;
    let is_config =
        |name: &&String| name.starts_with(FIRST_MODULE) && name.split_once('/').is_some_and(|(_, file)| file == CONFIG);
    let Some(config) = names.iter().find(is_config) else { return Ok(None) };
    if names.contains(CONFIG) {
        let outer = files.fetch(CONFIG, MAX_CONFIG_BYTES)?.text(MAX_CONFIG_BYTES)?;
        let names_a_model = |outer: Value| ["model_type", "architectures"].iter().any(|key| !outer[*key].is_null());
        // Invalid JSON is left to the reader of `config.json`, which reports it.
        if serde_json::from_str(&outer).map_or(true, names_a_model) {
            return Ok(None);
        }
    }
    let folder = config.trim_end_matches(CONFIG).trim_end_matches('/');
    let within = names.iter().filter_map(|name| name.strip_prefix(folder)?.strip_prefix('/'));
    let names = within.map(str::to_owned).collect();
    let fetch = move |name: &str, most: u64| files.fetch(&format!("{folder}/{name}"), most);
    Ok(Some((folder.to_owned(), FileStore { names, fetch: Box::new(fetch) })))
}

/// Fetches the files of a model from one folder; `pooling` of the result is a placeholder. Fails if a needed file is
/// missing or unusable.
fn fetch_folder(
    id: String,
    revision: Option<String>,
    place: &ModelLocation,
    files: &FileStore<'_>,
) -> Result<ModelFiles> {
    let names = &files.names;
    if !names.contains(CONFIG) {
        return Err(place.explain_missing(CONFIG, names));
    }
    let config = files.fetch(CONFIG, MAX_CONFIG_BYTES)?;
    let architecture = Architecture::parse(&config.text(MAX_CONFIG_BYTES)?).cannot("use", config.path().display())?;
    let Some(tokenizer) = names::select_tokenizer_files(names) else {
        return Err(place.explain_missing(TOKENIZER, names));
    };
    let weights = WEIGHT_FILES.into_iter().find(|name| names.contains(*name));
    let parts = weights.is_none().then(|| names::numbered_parts(names)).flatten();
    if weights.is_none() && parts.is_none() {
        return Err(place.explain_missing(WEIGHT_FILES[0], names));
    }
    let tokenizer = TokenizerFiles::fetch(&tokenizer, files)?;
    let most = max_weight_bytes(&architecture);
    let weights = match (weights, parts) {
        (_, Some(parts)) => fetch_parts(&parts, "the names of the others count it", most, place, files)?,
        (Some(name), None) if names::is_index(name) => {
            let shard_names = read_shard_names(&files.fetch(name, MAX_INDEX_BYTES)?)?;
            fetch_parts(&shard_names, &format!("{name} lists it"), most, place, files)?
        }
        (name, None) => vec![files.fetch(name.expect("weights without parts"), most)?],
    };
    ensure_plausible(&weights, &architecture)?;
    let adapter = fetch_adapter(&id, files)?;
    Ok(ModelFiles { id, revision, config, architecture, tokenizer, weights, adapter, pooling: Ok(Pooling::Text) })
}

/// Fetches the LoRA adapter in the folder of the weights, which transformers loads with the model; `None` if there is none.
fn fetch_adapter(id: &str, files: &FileStore<'_>) -> Result<Option<AdapterFiles>> {
    let weights = ADAPTER_WEIGHTS.into_iter().find(|name| files.names.contains(*name));
    let Some(weights) = weights.filter(|_| files.names.contains(ADAPTER_CONFIG)) else { return Ok(None) };
    let config = files.fetch(ADAPTER_CONFIG, MAX_CONFIG_BYTES)?;
    Ok(Some(AdapterFiles { name: id.to_owned(), config, weights: files.fetch(weights, ALWAYS_ACCEPTED_BYTES)? }))
}

/// Fetches the weight files `parts`, at most `most` bytes in total. Fails if a part is missing; `reason` says why it is
/// expected.
fn fetch_parts(
    parts: &[String],
    reason: &str,
    most: u64,
    place: &ModelLocation,
    files: &FileStore<'_>,
) -> Result<Vec<ModelFile>> {
    if let Some(part) = parts.iter().find(|part| !files.names.contains(*part)) {
        let words = format!("{}, but {reason}: the model is not whole", place.describe_missing(part));
        return Err(place.missing_error(part, words));
    }
    let mut remaining = most;
    let fetch = |part: &String| {
        let file = files.fetch(part, remaining)?;
        remaining = remaining.saturating_sub(file.size());
        Ok(file)
    };
    parts.iter().map(fetch).collect()
}

/// Longest accepted file name, in bytes; no file system in use allows longer ones.
const MAX_NAME_BYTES: usize = 255;

/// The index of weights in several files (`model.safetensors.index.json` and the like).
#[derive(Deserialize)]
struct WeightIndex {
    /// Name of the file that holds each tensor, by tensor name.
    weight_map: HashMap<String, String>,
}

/// Returns the file names in a weight index, ascending. Fails if the index cannot be read, lists no file, or lists a file of
/// another format or outside its folder.
fn read_shard_names(index: &ModelFile) -> Result<Vec<String>> {
    let text = index.text(MAX_INDEX_BYTES)?;
    let path = index.path();
    let is_safetensors = path.file_name().is_some_and(|name| name == WEIGHT_FILES[1]);
    parse_shard_names(&text, if is_safetensors { "safetensors" } else { "bin" }).cannot("use", path.display())
}

/// Parses the text of a weight index into the names of its files, which must have `extension`.
fn parse_shard_names(text: &str, extension: &str) -> Result<Vec<String>> {
    let WeightIndex { weight_map } = serde_json::from_str(text).context("not an index of weights")?;
    let names: BTreeSet<String> = weight_map.into_values().collect();
    ensure!(!names.is_empty(), "it lists no files");
    for name in &names {
        ensure!(name.len() <= MAX_NAME_BYTES, "it lists a file whose name has {} bytes", name.len());
        let path = Path::new(name);
        let mut parts = path.components();
        let is_beside =
            matches!((parts.next(), parts.next()), (Some(Component::Normal(only)), None) if only == name.as_str());
        // Refused on every system: a backslash separates folders on Windows, a colon follows a drive.
        ensure!(is_beside && !name.contains(['\\', ':']), "it lists the file {name:?}, which does not lie beside it");
        let is_of_weights = path.extension().is_some_and(|found| found == extension);
        ensure!(is_of_weights, "it lists the file {name:?}, which is no .{extension}");
    }
    Ok(names.into_iter().collect())
}

/// Largest accepted ratio of the size of all weight files to the size of the encoder in float32. The largest published files
/// hold float64 (2x), a masked-LM head with a separate vocabulary (2x the embeddings) and optimiser state (3x).
const MAX_WEIGHT_SIZE_RATIO: u64 = 16;

/// Size in bytes up to which weight files are always accepted: files of tiny models may hold far more than the encoder.
const ALWAYS_ACCEPTED_BYTES: u64 = 1 << 30;

/// Returns the largest accepted size of the weight files of an architecture, in bytes.
fn max_weight_bytes(architecture: &Architecture) -> u64 {
    encoder_bytes(architecture).saturating_mul(MAX_WEIGHT_SIZE_RATIO).max(ALWAYS_ACCEPTED_BYTES)
}

/// Returns the size of an encoder's parameters in float32, in bytes.
fn encoder_bytes(architecture: &Architecture) -> u64 {
    architecture.config.parameter_count(architecture.config.num_hidden_layers).saturating_mul(4)
}

/// Fails if weight files are far larger than the encoder that `config.json` describes. Called before these files are hashed and
/// read.
fn ensure_plausible(weights: &[ModelFile], architecture: &Architecture) -> Result<()> {
    let found = weights.iter().map(ModelFile::size).fold(0, u64::saturating_add);
    let (encoder, most) = (encoder_bytes(architecture), max_weight_bytes(architecture));
    if found <= most {
        return Ok(());
    }
    let paths: Vec<String> = weights.iter().map(|file| file.path().display().to_string()).collect();
    let error = anyhow!(
        "the weights, `{}`, have {found} bytes, and config.json describes an encoder of {encoder}: more than {most} are \
         not read",
        paths.join("`, `"),
    );
    Err(error.with_file(&paths[0]))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use proptest::prelude::*;

    use super::*;
    use crate::model::families::bert::SMALL_CONFIG_JSON;

    #[test]
    fn weights_far_larger_than_the_encoder_are_not_read() {
        let architecture = Architecture::parse(SMALL_CONFIG_JSON).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        // It has no blocks on the disk.
        for (size, fits) in [(1 << 30, true), (64 << 30, false)] {
            File::create(&path).unwrap().set_len(size).unwrap();
            let checked = ensure_plausible(&[ModelFile::open(&path).unwrap()], &architecture);
            assert_eq!(checked.is_ok(), fits, "{checked:?}");
        }
    }

    #[test]
    fn shards_in_order_each_once() {
        let text = r#"{"metadata": {"total_size": 1}, "weight_map": {"a": "2.bin", "b": "1.bin", "c": "2.bin"}}"#;
        assert_eq!(parse_shard_names(text, "bin").unwrap(), ["1.bin", "2.bin"]);
    }

    #[test]
    fn names_that_leave_the_folder() {
        let names = ["../a.bin", "/etc/a.bin", "a/b.bin", "./a.bin", "a.bin/", "..", ".", "", "a\\\\b.bin", "C:a.bin"];
        let errors = names.map(|name| {
            let text = format!(r#"{{"weight_map": {{"x": "1.bin", "y": "{name}"}}}}"#);
            parse_shard_names(&text, "bin").unwrap_err().to_string()
        });
        insta::assert_snapshot!(errors.join("\n"), @r#"
        it lists the file "../a.bin", which does not lie beside it
        it lists the file "/etc/a.bin", which does not lie beside it
        it lists the file "a/b.bin", which does not lie beside it
        it lists the file "./a.bin", which does not lie beside it
        it lists the file "a.bin/", which does not lie beside it
        it lists the file "..", which does not lie beside it
        it lists the file ".", which does not lie beside it
        it lists the file "", which does not lie beside it
        it lists the file "a\\b.bin", which does not lie beside it
        it lists the file "C:a.bin", which does not lie beside it
        "#);
    }

    #[test]
    fn what_is_no_index() {
        let error = |text: &str| format!("{:#}", parse_shard_names(text, "safetensors").unwrap_err());
        assert_eq!(error("{}"), "not an index of weights: missing field `weight_map` at line 1 column 2");
        assert_eq!(error(r#"{"weight_map": {}}"#), "it lists no files");
        let long = format!(r#"{{"weight_map": {{"x": "{}"}}}}"#, "a".repeat(300));
        assert_eq!(error(&long), "it lists a file whose name has 300 bytes");
        let other = error(r#"{"weight_map": {"x": "config.json\u001b"}}"#);
        assert_eq!(other, r#"it lists the file "config.json\u{1b}", which is no .safetensors"#);
    }

    proptest! {
        #[test]
        fn no_listed_name_leaves_the_folder(name in "[./\\\\:a-z]{0,12}") {
            let text = serde_json::json!({"weight_map": {"x": format!("{name}.bin")}}).to_string();
            if let Ok(names) = parse_shard_names(&text, "bin") {
                let folder = Path::new("/models/bert");
                let path = folder.join(&names[0]);
                prop_assert_eq!(path.parent(), Some(folder));
                prop_assert!(path.file_name().is_some());
            }
        }
    }
}
