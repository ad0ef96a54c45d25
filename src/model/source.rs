//! Where a model comes from: a folder, the Hub, or the box.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use anyhow::{Context, Result, anyhow, bail};

use super::missing::Place;
use super::tokenizer::{self, TOKENIZER, TokenizerFiles};
use super::weights::files::{READABLE, is_index, shards};
use crate::system::boxed::{self, Unpacked};
use crate::system::progress::DownloadProgress;

pub(super) const CONFIG: &str = "config.json";
pub(super) const WEIGHTS: &str = READABLE[0];

/// A model as it is named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelRef {
    /// A folder with the model's files.
    Folder(PathBuf),
    /// A model that the binary brings along, as [`boxed`] names it.
    InTheBox(String),
    /// A model on the Hub.
    Hub {
        /// `name` or `org/name`.
        id: String,
        /// A branch, a tag or a commit; `None` means `main`.
        revision: Option<String>,
    },
}

/// As it was given, without the revision.
impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::InTheBox(name) | Self::Hub { id: name, .. } => f.write_str(name),
        }
    }
}

/// The files of one model, all on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    /// The Hub id, the name in the box, or the folder's own name; never a path, so that a report does not tell where it was made.
    pub id: String,
    /// The commit on the Hub; `None` for a folder.
    pub revision: Option<String>,
    /// `config.json`.
    pub config: PathBuf,
    /// `tokenizer.json`, or other files that make a tokenizer.
    pub tokenizer: TokenizerFiles,
    /// The files of the weights, in the order of their names.
    pub weights: Vec<PathBuf>,
    /// What keeps them on this machine, if they are of a model of the box.
    pub unpacked: Option<Unpacked>,
}

/// The files of one model, wherever they lie. Each is fetched when it is asked for: which ones are needed can depend
/// on what is in another, as an index names its shards.
pub(super) trait FileStore {
    /// The names of all files that the model has, as paths relative to it; none leads out of it.
    fn names(&self) -> &BTreeSet<String>;

    /// Brings one of the [`names`](Self::names) to this machine and says where it is.
    fn fetch(&self, name: &str) -> Result<PathBuf>;

    /// Where a file is on this machine; `None` if the model has none of this name, whatever lies at such a path.
    fn file(&self, name: &str) -> Result<Option<PathBuf>> {
        self.names().contains(name).then(|| self.fetch(name)).transpose()
    }
}

/// A folder, with the names of the files in it.
struct Folder<'a> {
    path: &'a Path,
    names: BTreeSet<String>,
}

impl FileStore for Folder<'_> {
    fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    fn fetch(&self, name: &str) -> Result<PathBuf> {
        Ok(self.path.join(name))
    }
}

impl ModelRef {
    /// Reads `FOLDER`, `name`, `org/name`, `org/name@revision` or `box:name`.
    ///
    /// What begins with `box:` is in the box. What else exists on disk is meant as such; so is everything that cannot be a Hub id. Nothing is refused here:
    /// [`resolve`](Self::resolve) says what is wrong with a folder that is not there.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if text.starts_with(boxed::PREFIX) {
            return Self::InTheBox(text.to_owned());
        }
        if Path::new(text).exists() {
            return Self::Folder(text.into());
        }
        let (id, revision) = match text.split_once('@') {
            Some((id, revision)) => (id, Some(revision)),
            None => (text, None),
        };
        if !is_hub_id(id) || !revision.is_none_or(is_revision) {
            return Self::Folder(text.into());
        }
        Self::Hub { id: id.to_owned(), revision: revision.map(str::to_owned) }
    }

    /// Finds the model's files, and downloads those of a Hub model that are not in the cache yet.
    ///
    /// The cache is the one Python's `huggingface_hub` uses, in the same place and of the same form. If
    /// `HF_HUB_OFFLINE` is set, or the Hub does not answer, a model is taken from there.
    ///
    /// # Errors
    ///
    /// If a file is missing, the Hub refuses the model, a download breaks off, or a Hub model is asked for in a
    /// build without the feature `hub`.
    pub fn resolve(&self, progress: &dyn DownloadProgress) -> Result<ModelFiles> {
        let outcome = match self {
            Self::Folder(path) => folder(path),
            Self::InTheBox(name) => {
                let unpacked = boxed::unpack(name)?;
                Ok(ModelFiles { id: name.clone(), unpacked: Some(unpacked.clone()), ..folder(unpacked.path())? })
            }
            #[cfg(feature = "hub")]
            Self::Hub { id, revision } => super::hub::resolve(id, revision.as_deref().unwrap_or("main"), progress),
            #[cfg(not(feature = "hub"))]
            Self::Hub { .. } => {
                let _ = progress;
                Err(anyhow!("built without the Hub client (feature `hub`): give a model folder"))
            }
        };
        outcome.map_err(|error| match boxed::meant(&self.to_string()) {
            Some(meant) => anyhow!("{error:#}; or is `{meant}` meant, which is in the binary?"),
            None => error,
        })
    }
}

/// Whether `text` can name a model on the Hub: `name` or `org/name`.
fn is_hub_id(text: &str) -> bool {
    // `--` stands for the slash in the names of cache folders, so the Hub allows it in no id.
    text.split('/').count() <= 2
        && text.split('/').all(|part| {
            part.starts_with(|first: char| first.is_ascii_alphanumeric())
                && part.chars().all(|char| char.is_ascii_alphanumeric() || "_.-".contains(char))
                && !part.contains("--")
                && !part.contains("..")
        })
}

/// Whether `text` can name a revision, such as `main`, `v1.0` or `refs/pr/5`. It becomes part of a path in the
/// cache, hence no `..` and no leading slash.
fn is_revision(text: &str) -> bool {
    text.split('/').all(|part| {
        part.chars().all(|char| char.is_ascii_alphanumeric() || "_.+-".contains(char))
            && !part.is_empty()
            && !part.starts_with('.')
    })
}

/// The files of a model in a folder.
fn folder(path: &Path) -> Result<ModelFiles> {
    let shown = path.display();
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("no such model folder: `{shown}`; a model on the Hub is named `org/name` or `org/name@revision`")
        }
        Err(error) => return Err(error).with_context(|| format!("cannot open model folder `{shown}`")),
    };
    if !metadata.is_dir() {
        bail!("`{shown}` is a file: give the folder that holds {CONFIG}, {TOKENIZER} and {WEIGHTS}");
    }
    let unreadable = || format!("cannot read model folder `{shown}`");
    let mut names = BTreeSet::new();
    for entry in path.read_dir().with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        // Follows links, so that one that leads nowhere counts as missing.
        if entry.path().is_file() {
            names.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    // The given path may be `.` or end in `..`; the real one ends in the folder's name, except for the root.
    let real = path.canonicalize().with_context(unreadable)?;
    let name = path.file_name().or(real.file_name());
    let id = name.map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned());
    gather(id, None, &Place::Folder(path), &Folder { path, names })
}

/// Fetches the files of a model that are needed; small ones first, for they fail first.
pub(super) fn gather(id: String, revision: Option<String>, place: &Place, files: &dyn FileStore) -> Result<ModelFiles> {
    let names = files.names();
    // What is missing is plain before anything is fetched.
    if !names.contains(CONFIG) {
        bail!(place.explain_missing(CONFIG, names));
    }
    let Some(tokenizer) = tokenizer::wanted(names) else {
        bail!(place.explain_missing(TOKENIZER, names));
    };
    let Some(weights) = READABLE.into_iter().find(|name| names.contains(*name)) else {
        bail!(place.explain_missing(WEIGHTS, names));
    };
    Ok(ModelFiles {
        id,
        revision,
        config: files.fetch(CONFIG)?,
        tokenizer: TokenizerFiles::fetch(&tokenizer, files)?,
        weights: weight_files(weights, place, files)?,
        unpacked: None,
    })
}

/// Fetches weights: the file of that name, or the shards that it lists if it is an index.
fn weight_files(name: &str, place: &Place, files: &dyn FileStore) -> Result<Vec<PathBuf>> {
    let path = files.fetch(name)?;
    if !is_index(name) {
        return Ok(vec![path]);
    }
    let shards = shards(&path)?;
    if let Some(shard) = shards.iter().find(|shard| !files.names().contains(*shard)) {
        bail!("{}, but {name} lists it: the model is not whole", place.lacks(shard));
    }
    shards.iter().map(|shard| files.fetch(shard)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn hub_ref(id: &str, revision: Option<&str>) -> ModelRef {
        ModelRef::Hub { id: id.into(), revision: revision.map(Into::into) }
    }

    /// A folder with these files, all empty, under a name of its own.
    fn model_folder(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("my-bert");
        fs::create_dir(&folder).unwrap();
        for name in names {
            fs::write(folder.join(name), "").unwrap();
        }
        (parent, folder)
    }

    /// The error for a folder with these files, with `DIR` for its path.
    fn error_of(names: &[&str]) -> String {
        let (_parent, folder) = model_folder(names);
        let error = ModelRef::Folder(folder.clone()).resolve(&()).unwrap_err();
        format!("{error:#}").replace(folder.to_str().unwrap(), "DIR")
    }

    #[test]
    fn names_of_models_on_the_hub() {
        for (text, expected) in [
            ("bert-base-uncased", hub_ref("bert-base-uncased", None)),
            ("acme/tiny-bert", hub_ref("acme/tiny-bert", None)),
            ("acme/tiny_bert.v1@main", hub_ref("acme/tiny_bert.v1", Some("main"))),
            ("acme/tiny-bert@v1.0", hub_ref("acme/tiny-bert", Some("v1.0"))),
            ("acme/tiny-bert@refs/pr/5", hub_ref("acme/tiny-bert", Some("refs/pr/5"))),
        ] {
            assert_eq!(ModelRef::parse(text), expected);
        }
    }

    #[test]
    fn everything_else_is_meant_as_a_folder() {
        for text in [
            "",
            "./model",
            "../model",
            ".",
            "/model",
            "~/model",
            "models/acme/bert",
            "acme/",
            "my model",
            "-bert",
            "a--b",
            "a/b@",
            "a/b@../c",
            "a/b@/c",
            "a/b@c//d",
            "a/b@c@d",
        ] {
            assert_eq!(ModelRef::parse(text), ModelRef::Folder(text.into()));
        }
    }

    #[test]
    fn what_exists_is_meant_as_it_is() {
        // Tests run in the package's root, where both of these would do as Hub ids.
        assert_eq!(ModelRef::parse("src"), ModelRef::Folder("src".into()));
        assert_eq!(ModelRef::parse("Cargo.toml"), ModelRef::Folder("Cargo.toml".into()));
    }

    #[test]
    fn names_in_the_box() {
        let parsed = ModelRef::parse("box:planted");
        assert_eq!(parsed, ModelRef::InTheBox("box:planted".to_owned()));
        let files = parsed.resolve(&()).unwrap();
        assert_eq!((files.id.as_str(), files.revision.as_deref()), ("box:planted", None));
        let folder = files.config.parent().unwrap().to_owned();
        let clone = files.clone();
        drop(files);
        assert!(fs::read_to_string(&clone.config).unwrap().contains("BertModel"));
        drop(clone);
        assert!(!folder.exists());
        assert_eq!(ModelRef::parse("./box:planted"), ModelRef::Folder("./box:planted".into()));
    }

    #[test]
    fn a_folder_is_called_by_its_own_name() {
        let (_parent, folder) = model_folder(&[CONFIG, TOKENIZER, WEIGHTS, "vocab.txt", "tf_model.h5"]);
        let files = ModelRef::Folder(folder.join("../my-bert/.")).resolve(&()).unwrap();
        assert_eq!((files.id.as_str(), files.revision.as_deref()), ("my-bert", None));
        let tokenizer = |files: &ModelFiles| files.tokenizer.iter().cloned().collect::<Vec<_>>();
        assert_eq!(tokenizer(&files), [(TOKENIZER, folder.join("../my-bert/./tokenizer.json"))]);
        fs::write(folder.join("tokenizer_config.json"), "").unwrap();
        let files = ModelRef::Folder(folder.clone()).resolve(&()).unwrap();
        assert_eq!(files.config, folder.join("config.json"));
        let expected = [TOKENIZER, "tokenizer_config.json"].map(|name| (name, folder.join(name)));
        assert_eq!(tokenizer(&files), expected);
        assert_eq!(files.weights, [folder.join("model.safetensors")]);
    }

    /// The weights' names in a folder with these files and these texts for indexes.
    fn weights(names: &[&str], indexes: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let (_parent, folder) = model_folder(&[&[CONFIG, TOKENIZER], names].concat());
        for (name, text) in indexes {
            fs::write(folder.join(name), text).unwrap();
        }
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        match ModelRef::Folder(folder.clone()).resolve(&()) {
            Ok(files) => Ok(files.weights.into_iter().map(name).collect()),
            Err(error) => Err(format!("{error:#}").replace(folder.to_str().unwrap(), "DIR")),
        }
    }

    #[test]
    fn weights_in_the_order_of_preference_of_transformers() {
        let (safe, other) = ("model.safetensors.index.json", "pytorch_model.bin.index.json");
        let indexes = [
            (safe, r#"{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}"#),
            (other, r#"{"weight_map": {"a": "1.bin", "b": "2.bin"}}"#),
        ];
        let shards = ["1.safetensors", "2.safetensors", "1.bin", "2.bin"];
        let all = [&shards[..], &["pytorch_model.bin", WEIGHTS]].concat();
        assert_eq!(weights(&all, &indexes).unwrap(), [WEIGHTS]);
        assert_eq!(weights(&all[..5], &indexes).unwrap(), ["1.safetensors", "2.safetensors"]);
        assert_eq!(weights(&all[..5], &indexes[1..]).unwrap(), ["pytorch_model.bin"]);
        assert_eq!(weights(&all[..4], &indexes[1..]).unwrap(), ["1.bin", "2.bin"]);
    }

    #[test]
    fn an_index_that_lists_what_is_not_there_or_not_beside_it() {
        let error = |file: &str| {
            let text = format!(r#"{{"weight_map": {{"a": "1.safetensors", "b": "{file}"}}}}"#);
            weights(&["1.safetensors"], &[("model.safetensors.index.json", &text)]).unwrap_err()
        };
        assert_eq!(
            error("2.safetensors"),
            "`DIR/2.safetensors` is missing, but model.safetensors.index.json lists it: the model is not whole"
        );
        assert_eq!(
            error("../2.safetensors"),
            "cannot use `DIR/model.safetensors.index.json`: it lists the file \"../2.safetensors\", which does not lie \
             beside it"
        );
    }

    #[test]
    fn a_folder_that_is_not_there() {
        let error = ModelRef::parse("./no/such").resolve(&()).unwrap_err().to_string();
        assert_eq!(
            error,
            "no such model folder: `./no/such`; a model on the Hub is named `org/name` or `org/name@revision`"
        );
    }

    #[test]
    fn a_file_in_place_of_a_folder() {
        let error = ModelRef::parse("Cargo.toml").resolve(&()).unwrap_err().to_string();
        assert_eq!(
            error,
            "`Cargo.toml` is a file: give the folder that holds config.json, tokenizer.json and model.safetensors"
        );
    }

    #[test]
    fn the_first_missing_file_is_named() {
        let has = "a model has the files config.json, tokenizer.json and model.safetensors";
        assert_eq!(error_of(&[]), format!("`DIR/config.json` is missing: {has}"));
        assert_eq!(error_of(&[CONFIG, WEIGHTS]), format!("`DIR/tokenizer.json` is missing: {has}"));
        assert_eq!(error_of(&[CONFIG, TOKENIZER]), format!("`DIR/model.safetensors` is missing: {has}"));
    }

    #[test]
    fn a_vocabulary_in_place_of_a_tokenizer() {
        let found = |names: &[&str]| {
            let (_parent, folder) = model_folder(&[&[CONFIG, WEIGHTS], names].concat());
            let files = ModelRef::Folder(folder).resolve(&()).unwrap();
            files.tokenizer.iter().map(|(name, _)| *name).collect::<Vec<_>>()
        };
        assert_eq!(found(&["vocab.txt", "vocab.json"]), ["vocab.txt"]);
        assert_eq!(
            found(&["vocab.txt", "tokenizer.json", "added_tokens.json"]),
            ["tokenizer.json", "added_tokens.json"]
        );
        assert_eq!(
            found(&["vocab.json", "merges.txt", "special_tokens_map.json"]),
            ["vocab.json", "merges.txt", "special_tokens_map.json"]
        );
    }

    #[test]
    fn what_is_no_tokenizer() {
        assert_eq!(
            error_of(&[CONFIG, WEIGHTS, "sentencepiece.bpe.model"]),
            "`DIR/tokenizer.json` is missing, but sentencepiece.bpe.model is there, a sentencepiece model, which is not \
             read. To make tokenizer.json of it, run in Python, with sentencepiece and protobuf installed:\n  \
             from transformers import AutoTokenizer\n  \
             AutoTokenizer.from_pretrained(\"DIR\").save_pretrained(\"DIR\")"
        );
        assert!(error_of(&[CONFIG, WEIGHTS, "spiece.model"]).contains("spiece.model is there, a sentencepiece model"));
        assert_eq!(
            error_of(&[CONFIG, WEIGHTS, "vocab.json"]),
            "`DIR/tokenizer.json` is missing, but vocab.json is there, which is half a tokenizer: it needs merges.txt too"
        );
    }

    #[test]
    fn weights_in_another_form() {
        let found = |name: &str| error_of(&[CONFIG, TOKENIZER, name]);
        assert_eq!(
            found("tf_model.h5"),
            "`DIR/model.safetensors` is missing, but tf_model.h5 is there, weights of TensorFlow, which are not read. \
             To convert them, run in Python with transformers 4:\n  \
             from transformers import AutoModel\n  \
             AutoModel.from_pretrained(\"DIR\", from_tf=True).save_pretrained(\"DIR\")"
        );
        assert!(found("flax_model.msgpack").contains("flax_model.msgpack is there, weights of Flax"));
        assert!(found("flax_model.msgpack.index.json").contains("there, weights of Flax"));
        assert!(found("bert.onnx").ends_with(
            "but bert.onnx is there, an exported graph, which is not read: take the model it was exported from"
        ));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_nowhere_is_a_missing_file() {
        let (_parent, folder) = model_folder(&[CONFIG, TOKENIZER]);
        std::os::unix::fs::symlink("nowhere", folder.join(WEIGHTS)).unwrap();
        let error = ModelRef::Folder(folder).resolve(&()).unwrap_err().to_string();
        assert!(error.contains("model.safetensors` is missing"), "{error}");
    }

    #[cfg(not(feature = "hub"))]
    #[test]
    fn without_the_hub_client_only_folders_load() {
        let error = ModelRef::parse("acme/tiny-bert").resolve(&()).unwrap_err().to_string();
        assert_eq!(error, "built without the Hub client (feature `hub`): give a model folder");
    }
}
