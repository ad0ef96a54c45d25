//! The source of a model: a folder, the Hub, or the binary of this program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use anyhow::{Context, Result, anyhow, bail};

use crate::model::files::names::{CONFIG, TOKENIZER, WEIGHT_FILES};
use crate::model::files::{
    AdapterFiles, FileStore, ModelFile, ModelFiles, ModelLocation, files_in, gather_files, list_first_modules,
    list_subfolder_files,
};
use crate::system::embedded;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::progress::DownloadProgress;

/// A model as the command line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelRef {
    Folder(PathBuf),
    /// A model in the binary of this program, by its name in [`embedded`].
    Bundled(String),
    /// A model with an adapter (LoRA) that is merged into it.
    Adapted {
        base: Box<ModelRef>,
        adapter: PathBuf,
    },
    Hub {
        /// Id of the model on the Hub: `name` or `org/name`.
        id: String,
        /// Branch, tag or commit of the model; `None` means `main`.
        revision: Option<String>,
        /// Whether requests to the Hub are forbidden, regardless of `HF_HUB_OFFLINE`.
        offline: bool,
    },
}

/// Writes the name as it was given, without the revision.
impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Adapted { base, adapter } => write!(f, "{base} with {}", adapter.display()),
            Self::Bundled(name) | Self::Hub { id: name, .. } => f.write_str(name),
        }
    }
}

impl ModelRef {
    /// Parses `box:name` (in the binary), a folder, `name`, `org/name`, `org/name@revision`, or the Hub address of a model. A
    /// name that exists on disk, or cannot be a Hub id, is a folder. Parsing never fails: [`resolve`](Self::resolve) reports a
    /// missing folder.
    pub fn parse(text: &str) -> Self {
        if text.starts_with(embedded::EMBEDDED_PREFIX) {
            return Self::Bundled(text.to_owned());
        }
        if Path::new(text).exists() {
            return Self::Folder(text.into());
        }
        let on_the_hub = model_from_url(text);
        let name = on_the_hub.as_deref().unwrap_or(text);
        let (id, revision) = name.split_once('@').map_or((name, None), |(id, revision)| (id, Some(revision)));
        if !is_hub_id(id) || !revision.is_none_or(is_revision) {
            return Self::Folder(text.into());
        }
        Self::Hub { id: id.to_owned(), revision: revision.map(str::to_owned), offline: false }
    }

    /// Returns this reference with requests to the Hub forbidden.
    pub fn without_network(self) -> Self {
        match self {
            Self::Hub { id, revision, .. } => Self::Hub { id, revision, offline: true },
            Self::Adapted { base, adapter } => Self::Adapted { base: Box::new(base.without_network()), adapter },
            other => other,
        }
    }

    /// Finds the model's files, and downloads missing files of a Hub model into the cache, which is shared with Python's
    /// `huggingface_hub`. If `HF_HUB_OFFLINE` is set, or the Hub does not answer, a model is taken from the cache.
    /// Fails if a file is missing, the Hub refuses the model, a download breaks off, or a build without the feature
    /// `hub` needs a Hub model.
    pub fn resolve(&self, progress: &dyn DownloadProgress) -> Result<ModelFiles> {
        if let Self::Adapted { base, adapter } = self {
            let files = base.resolve(progress)?;
            let adapter = AdapterFiles::open(adapter).class(ErrorClass::Model)?;
            return Ok(ModelFiles { adapter: Some(adapter), ..files });
        }
        let nearby = self.similar_folder_name();
        let outcome = match self {
            Self::Adapted { .. } => unreachable!("it was resolved above"),
            Self::Folder(path) => open_folder(path),
            Self::Bundled(name) => open_bundled(name),
            #[cfg(feature = "hub")]
            Self::Hub { id, revision, offline } => {
                if let Some(suggestion) = &nearby {
                    progress.note(&format!("there is no folder `{id}`: the Hub is asked; or is `{suggestion}` meant?"));
                }
                let revision = revision.as_deref().unwrap_or("main");
                crate::model::hub::resolve(id, revision, *offline, nearby.is_none(), progress)
            }
            #[cfg(not(feature = "hub"))]
            Self::Hub { .. } => {
                let _ = progress;
                Err(anyhow!("built without the Hub client (feature `hub`)").hint("give a model folder"))
            }
        };
        let suggestion = match (embedded::similar_name(&self.to_string()), nearby) {
            (Some(suggestion), _) => format!("or is `{suggestion}` meant, which is in the binary?"),
            (None, Some(suggestion)) => format!("or is the folder `{suggestion}` meant?"),
            (None, None) => return outcome.class(ErrorClass::Model),
        };
        let misspelt = self.to_string().to_ascii_lowercase().starts_with(embedded::EMBEDDED_PREFIX);
        outcome.class(if misspelt { ErrorClass::Usage } else { ErrorClass::Model }).hint_after("; ", suggestion)
    }

    /// Whether the model is embedded in the binary or lies in a folder, existing or not, instead of on the Hub. A name such
    /// as `runs/last` means a folder if the folder `runs` exists.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Folder(_) | Self::Bundled(_) => true,
            Self::Adapted { base, .. } => base.is_local(),
            Self::Hub { id, .. } => Path::new(id).parent().is_some_and(Path::is_dir),
        }
    }

    /// Finds an existing model folder with a name similar to a missing folder's or a Hub model's. `None` if no name is similar.
    fn similar_folder_name(&self) -> Option<String> {
        let path = match self {
            Self::Folder(path) if !path.exists() => path.as_path(),
            Self::Hub { id, .. } => Path::new(id),
            Self::Folder(_) | Self::Bundled(_) | Self::Adapted { .. } => return None,
        };
        similar_folder(path).map(|folder| folder.display().to_string())
    }
}

const HUB_HOSTS: [&str; 3] = ["huggingface.co/", "hf.co/", "www.huggingface.co/"];

/// Parts of Hub addresses that lead to one revision of a model: `/org/name/tree/REVISION`.
const REVISION_PAGES: [&str; 5] = ["tree", "blob", "resolve", "raw", "commit"];

/// First parts of Hub addresses that lead to other pages than a model's.
const NON_MODEL_PAGES: [&str; 6] = ["datasets", "spaces", "docs", "models", "papers", "collections"];

/// Returns the model in a web address of the Hub, as `org/name` or `org/name@revision`; `None` if the address leads to no
/// model.
fn model_from_url(address: &str) -> Option<String> {
    let address = ["https://", "http://"].iter().find_map(|scheme| address.strip_prefix(scheme)).unwrap_or(address);
    let path = HUB_HOSTS.iter().find_map(|host| address.strip_prefix(host))?;
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if NON_MODEL_PAGES.contains(parts.first()?) {
        return None;
    }
    // The oldest models have no organisation.
    let page = parts.iter().position(|part| REVISION_PAGES.contains(part)).filter(|page| (1..=2).contains(page));
    let id = parts[..page.unwrap_or(parts.len()).min(2)].join("/");
    // A slash in a revision is encoded.
    let revision = page.and_then(|page| parts.get(page + 1)).map(|revision| revision.replace("%2F", "/"));
    Some(revision.map_or_else(|| id.clone(), |revision| format!("{id}@{revision}")))
}

/// Jaro–Winkler similarity below which two names count as unrelated: `tiny-bert` and `small-gpt` have 0.41.
const MIN_SIMILARITY: f64 = 0.85;

/// Finds the model folder whose name is most similar to a misspelt part of `path`; `None` if no name is similar enough.
fn similar_folder(path: &Path) -> Option<PathBuf> {
    let existing_folder = path.ancestors().skip(1).find(|folder| folder.as_os_str().is_empty() || folder.is_dir())?;
    let mut rest = path.strip_prefix(existing_folder).ok()?.components();
    let misspelt = rest.next()?.as_os_str().to_str()?.to_lowercase();
    // `./` marks a folder, not a Hub id.
    let existing_folder = if existing_folder.as_os_str().is_empty() { Path::new(".") } else { existing_folder };
    let folders = existing_folder.read_dir().ok()?.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        let similarity = strsim::jaro_winkler(&name.to_str()?.to_lowercase(), &misspelt);
        let mut folder = existing_folder.join(&name);
        folder.extend(rest.clone());
        (similarity >= MIN_SIMILARITY && folder.join(CONFIG).is_file()).then_some((similarity, folder))
    });
    // On a tie, the first by name.
    let best = folders.max_by(|(a, first), (b, second)| a.total_cmp(b).then_with(|| second.cmp(first)));
    best.map(|(_, folder)| folder)
}

/// Whether `text` can name a model on the Hub: `name` or `org/name`.
fn is_hub_id(text: &str) -> bool {
    // `--` encodes the slash in the names of cache folders, so the Hub allows it in no id.
    text.split('/').count() <= 2
        && text.split('/').all(|part| {
            part.starts_with(|first: char| first.is_ascii_alphanumeric())
                && part.chars().all(|char| char.is_ascii_alphanumeric() || "_.-".contains(char))
                && !part.contains("--")
                && !part.contains("..")
        })
}

/// Whether `text` can name a revision, such as `main`, `v1.0` or `refs/pr/5`. A revision becomes part of a path in the cache,
/// so it has no `..` and no leading slash.
fn is_revision(text: &str) -> bool {
    text.split('/').all(|part| {
        part.chars().all(|char| char.is_ascii_alphanumeric() || "_.+-".contains(char))
            && !part.is_empty()
            && !part.starts_with('.')
    })
}

/// Opens the files of a model in the binary of this program.
fn open_bundled(name: &str) -> Result<ModelFiles> {
    // A usage error, as for a built-in corpus: the contents of the binary are as fixed as the options.
    let files = embedded::model(name).class(ErrorClass::Usage)?;
    let names = files.iter().map(|(name, _)| (*name).to_owned()).collect();
    let fetch = |file: &str, _: u64| {
        let (_, bytes) = files.iter().find(|(known, _)| *known == file).context("not in the box")?;
        Ok(ModelFile::from_bundled(&format!("{name}/{file}"), bytes))
    };
    let store = FileStore { names, fetch: Box::new(fetch) };
    gather_files(name.to_owned(), None, &ModelLocation::Folder(Path::new(name).into()), &store)
}

/// Opens the files of a model in a folder.
fn open_folder(path: &Path) -> Result<ModelFiles> {
    let shown = path.display();
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(_) if shown.to_string().contains("://") => bail!(
            anyhow!("`{shown}` is an address, and no model on the Hub")
                .with_value(shown)
                .hint("models are folders, or are named `org/name` or `org/name@revision`")
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let missing = anyhow!("no such model folder: `{shown}`").with_file(shown);
            return Err(missing.hint_after("; ", "name a model on the Hub as `org/name` or `org/name@revision`"));
        }
        Err(error) => return Err(error).cannot("open model folder", &shown),
    };
    if !metadata.is_dir() {
        let way_out = format!("give the folder that holds {CONFIG}, {TOKENIZER} and {}", WEIGHT_FILES[0]);
        return Err(anyhow!("`{shown}` is a file").with_file(shown).hint(way_out));
    }
    let unreadable = "read model folder";
    let names: io::Result<BTreeSet<String>> = files_in(path).cannot(unreadable, &shown)?.collect();
    let mut names = names.cannot(unreadable, &shown)?;
    // ONNX files are listed only for messages.
    let subfolders = list_first_modules(path).into_iter().chain([ONNX_FOLDER.to_owned()]);
    names.extend(subfolders.flat_map(|folder| list_subfolder_files(path, folder)));
    // The given path may be `.` or end in `..`; the real one ends in the folder's name, except for the root.
    let real = path.canonicalize().cannot("read model folder", &shown)?;
    let name = path.file_name().or(real.file_name());
    let id = name.map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned());
    let store = FileStore { names, fetch: Box::new(|name, _| ModelFile::open(&path.join(name))) };
    gather_files(id, None, &ModelLocation::Folder(path.into()), &store)
}

/// Name of the folder of exported ONNX graphs.
const ONNX_FOLDER: &str = "onnx";

#[cfg(test)]
mod tests;
