//! Where a model comes from: a folder, or the Hub. The only file of this crate that reaches the network.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const WEIGHTS: &str = "model.safetensors";

/// A model as it is named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelRef {
    /// A folder with the model's files.
    Folder(PathBuf),
    /// A model on the Hub.
    Hub {
        /// `name` or `org/name`.
        id: String,
        /// A branch, a tag or a commit; `None` means `main`.
        revision: Option<String>,
    },
}

/// The files of one model, all on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    /// The Hub id, or the folder's own name; never a path, so that a report does not tell where it was made.
    pub id: String,
    /// The commit on the Hub; `None` for a folder.
    pub revision: Option<String>,
    /// `config.json`.
    pub config: PathBuf,
    /// `tokenizer.json`.
    pub tokenizer: PathBuf,
    /// `tokenizer_config.json`, which not every model has.
    pub tokenizer_config: Option<PathBuf>,
    /// `model.safetensors`.
    pub weights: PathBuf,
}

/// Told how a download goes on, one file after the other.
pub trait DownloadProgress {
    /// A file of `bytes` bytes begins (0: the server did not say how many).
    fn start(&self, file: &str, bytes: u64);
    /// So many more bytes have come.
    fn advance(&self, bytes: u64);
    /// The file is over, whole or broken off.
    fn finish(&self);
}

/// Nobody watches.
impl DownloadProgress for () {
    fn start(&self, _file: &str, _bytes: u64) {}
    fn advance(&self, _bytes: u64) {}
    fn finish(&self) {}
}

impl ModelRef {
    /// Reads `FOLDER`, `name`, `org/name` or `org/name@revision`.
    ///
    /// What exists on disk is meant as such; so is everything that cannot be a Hub id. Nothing is refused here:
    /// [`resolve`](Self::resolve) says what is wrong with a folder that is not there.
    #[must_use]
    pub fn parse(text: &str) -> Self {
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
        match self {
            Self::Folder(path) => folder(path),
            Self::Hub { id, revision } => hub::resolve(id, revision.as_deref().unwrap_or("main"), progress),
        }
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
    let files = wanted(&Place::Folder(path), &names)?;
    // The given path may end in `.` or `..`; the real one ends in the folder's name, except for the root.
    let real = path.canonicalize().with_context(unreadable)?;
    let id = real.file_name().map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned());
    Ok(model_files(id, None, path, &files))
}

/// Puts the `files` of a model that lie in `folder` in their places.
fn model_files(id: String, revision: Option<String>, folder: &Path, files: &[&str]) -> ModelFiles {
    ModelFiles {
        id,
        revision,
        config: folder.join(CONFIG),
        tokenizer: folder.join(TOKENIZER),
        tokenizer_config: files.contains(&TOKENIZER_CONFIG).then(|| folder.join(TOKENIZER_CONFIG)),
        weights: folder.join(WEIGHTS),
    }
}

/// Which of the files a model has, `names`, are needed; small ones first, for they fail first.
fn wanted(place: &Place, names: &BTreeSet<String>) -> Result<Vec<&'static str>> {
    if let Some(name) = [CONFIG, TOKENIZER, WEIGHTS].into_iter().find(|name| !names.contains(*name)) {
        bail!(place.explain_missing(name, names));
    }
    Ok([CONFIG, TOKENIZER, TOKENIZER_CONFIG, WEIGHTS].into_iter().filter(|name| names.contains(*name)).collect())
}

/// Where files are looked for, in the words of an error message.
enum Place<'a> {
    Folder(&'a Path),
    #[cfg(feature = "hub")]
    Hub {
        id: &'a str,
        revision: &'a str,
    },
}

impl Place<'_> {
    /// Says that `name` is not among `names`, what of use is there instead, and how to make `name` of it.
    fn explain_missing(&self, name: &str, names: &BTreeSet<String>) -> String {
        let lacks = match self {
            Self::Folder(path) => format!("`{}` is missing", path.join(name).display()),
            #[cfg(feature = "hub")]
            Self::Hub { id, revision } => format!("`{id}` has no {name} at revision `{revision}`"),
        };
        if name == TOKENIZER && names.contains("vocab.txt") {
            return format!(
                "{lacks}, but vocab.txt is there. To make {name} of it, run in Python:\n{}",
                self.recipe("AutoTokenizer", "", "")
            );
        }
        if name == WEIGHTS
            && let Some(found) = names.iter().find_map(|name| OtherWeights::of(name))
        {
            return format!("{lacks}, but {} is there, {}", found.name, found.way_out(self));
        }
        format!("{lacks}: a model has the files {CONFIG}, {TOKENIZER} and {WEIGHTS}")
    }

    /// Python that loads what there is with transformers and saves it in the form read here.
    fn recipe(&self, class: &str, load: &str, save: &str) -> String {
        match self {
            Self::Folder(path) => {
                let folder = path.display().to_string();
                format!(
                    "  from transformers import {class}\n  \
                     {class}.from_pretrained({folder:?}{load}).save_pretrained({folder:?}{save})"
                )
            }
            // All of it goes to a new folder then, the tokenizer with the weights.
            #[cfg(feature = "hub")]
            Self::Hub { id, revision } => {
                let folder = id.rsplit('/').next().unwrap_or(id);
                let (load, save) = if class == "AutoModel" { (load, save) } else { ("", "") };
                format!(
                    "  from transformers import AutoModel, AutoTokenizer\n  \
                     AutoModel.from_pretrained({id:?}, revision={revision:?}{load}).save_pretrained({folder:?}{save})\n  \
                     AutoTokenizer.from_pretrained({id:?}, revision={revision:?}).save_pretrained({folder:?})\n\
                     and give `./{folder}` as the model"
                )
            }
        }
    }
}

/// Weights in a form that is not read here.
struct OtherWeights<'a> {
    name: &'a str,
    form: Form,
}

enum Form {
    Shards,
    Pickle,
    TensorFlow,
    Flax,
    Onnx,
}

impl<'a> OtherWeights<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let form = match name {
            "model.safetensors.index.json" => Form::Shards,
            "pytorch_model.bin" | "pytorch_model.bin.index.json" => Form::Pickle,
            "tf_model.h5" => Form::TensorFlow,
            "flax_model.msgpack" => Form::Flax,
            _ if Path::new(name).extension().is_some_and(|extension| extension == "onnx") => Form::Onnx,
            _ => return None,
        };
        Some(Self { name, form })
    }

    fn way_out(&self, place: &Place) -> String {
        let (what, load, save) = match self.form {
            Form::Shards => ("weights in several files, which are not read", "", ", max_shard_size=\"1TB\""),
            Form::Pickle => ("weights as a Python pickle, which is not read", "", ""),
            Form::TensorFlow => ("weights of TensorFlow, which are not read", ", from_tf=True", ""),
            Form::Flax => ("weights of Flax, which are not read", ", from_flax=True", ""),
            Form::Onnx => {
                return "an exported graph, which is not read: take the model it was exported from".to_owned();
            }
        };
        // transformers 5 no longer reads the weights of TensorFlow and Flax.
        let with = if load.is_empty() { "" } else { " with transformers 4" };
        format!("{what}. To convert them, run in Python{with}:\n{}", place.recipe("AutoModel", load, save))
    }
}

#[cfg(not(feature = "hub"))]
mod hub {
    use super::{DownloadProgress, ModelFiles, Result, bail};

    /// Refuses.
    pub(super) fn resolve(_id: &str, _revision: &str, _progress: &dyn DownloadProgress) -> Result<ModelFiles> {
        bail!("built without the Hub client (feature `hub`): give a model folder")
    }
}

/// Models on the Hub, and the cache shared with Python's `huggingface_hub`:
///
/// ```text
/// models--ORG--NAME/refs/REVISION              the commit a branch or tag stood for when last asked
/// models--ORG--NAME/snapshots/COMMIT/FILE      a link to
/// models--ORG--NAME/blobs/ETAG                 the bytes
/// ```
#[cfg(feature = "hub")]
mod hub {
    use std::ffi::OsString;
    use std::fs;
    use std::io::{Read, Write};
    use std::time::Duration;

    use anyhow::{Error, anyhow};
    use hf_hub::api::RepoInfo;
    use hf_hub::api::sync::{ApiBuilder, ApiRepo};
    use hf_hub::{Cache as HubCache, Repo};

    use super::{
        BTreeSet, Context, DownloadProgress, ModelFiles, Path, PathBuf, Place, Result, bail, io, model_files, wanted,
    };

    /// How long to wait for a connection. Short, for without a network the cache is to answer soon.
    const CONNECT: Duration = Duration::from_secs(10);
    /// How long to wait for an answer to begin, and for each further piece of it.
    const ANSWER: Duration = Duration::from_secs(30);
    /// How often a file's address may lead on to another one.
    const HOPS: usize = 5;

    /// The files of a Hub model, as the process's environment says where to look.
    pub(super) fn resolve(id: &str, revision: &str, progress: &dyn DownloadProgress) -> Result<ModelFiles> {
        resolve_in(&HubEnv::from_process()?, id, revision, progress)
    }

    fn resolve_in(env: &HubEnv, id: &str, revision: &str, progress: &dyn DownloadProgress) -> Result<ModelFiles> {
        let cache = Cache::new(env, id);
        if env.offline {
            return cache.files(id, revision).map_err(|lack| {
                anyhow!(
                    "{lack}, and HF_HUB_OFFLINE forbids to ask the Hub: \
                     unset HF_HUB_OFFLINE or download the model first"
                )
            });
        }
        let client = Client::new(env, id, revision)?;
        let info = match client.info() {
            Ok(info) => info,
            Err(Failure::Refused(error)) => return Err(error),
            Err(Failure::Unavailable(error)) => {
                return cache.files(id, revision).map_err(|lack| {
                    error.context(format!(
                        "cannot reach the Hub at {}, and {lack}: check the network and HF_ENDPOINT, \
                         or give a model folder",
                        env.endpoint
                    ))
                });
            }
        };
        let names = info.siblings.into_iter().map(|sibling| sibling.rfilename).collect();
        let files = wanted(&Place::Hub { id, revision }, &names)?;
        let snapshot = cache.snapshot(&info.sha);
        for file in &files {
            if !snapshot.join(file).is_file() {
                download(&client, &cache, &info.sha, file, progress)?;
            }
        }
        // Last of all: what a ref leads to is then always whole.
        cache.write_ref(revision, &info.sha)?;
        Ok(model_files(id.to_owned(), Some(info.sha), &snapshot, &files))
    }

    /// What the environment says about the Hub, under the names that `huggingface_hub` gives its settings.
    #[derive(Debug)]
    struct HubEnv {
        /// `HF_ENDPOINT`, without a slash at its end.
        endpoint: String,
        /// `HF_HUB_CACHE`, or `hub` in `HF_HOME`.
        cache: PathBuf,
        token: Option<Token>,
        /// Where a token would be read from if no variable gives one.
        token_file: PathBuf,
        /// `HF_HUB_OFFLINE`.
        offline: bool,
    }

    #[derive(Clone)]
    struct Token {
        value: String,
        /// For messages; the value itself must never be in one.
        origin: String,
    }

    impl std::fmt::Debug for Token {
        fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
            write!(formatter, "Token from {}", self.origin)
        }
    }

    impl HubEnv {
        fn from_process() -> Result<Self> {
            Self::read(&|name| std::env::var_os(name), std::env::home_dir())
        }

        /// Reads the variables; an empty one counts as not set.
        fn read(variable: &dyn Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Result<Self> {
            let home = home.filter(|home| !home.as_os_str().is_empty());
            let text = |name: &str| variable(name)?.into_string().ok().filter(|value| !value.is_empty());
            let path = |name: &str| {
                let path = variable(name).filter(|value| !value.is_empty()).map(PathBuf::from)?;
                // No shell has expanded a `~` that was written into a settings file.
                Some(match (path.strip_prefix("~"), &home) {
                    (Ok(rest), Some(home)) => home.join(rest),
                    _ => path,
                })
            };
            let hf_home = path("HF_HOME")
                .or_else(|| path("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
                .or_else(|| home.as_ref().map(|home| home.join(".cache").join("huggingface")))
                .context("cannot tell where the Hub's cache is, for there is no home folder: set HF_HOME")?;
            let token_file = path("HF_TOKEN_PATH").unwrap_or_else(|| hf_home.join("token"));
            Ok(Self {
                endpoint: text("HF_ENDPOINT")
                    .map_or_else(|| "https://huggingface.co".to_owned(), |url| url.trim_end_matches('/').to_owned()),
                cache: path("HF_HUB_CACHE")
                    .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
                    .unwrap_or_else(|| hf_home.join("hub")),
                token: ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
                    .into_iter()
                    .find_map(|name| Token::new(&text(name)?, name.to_owned()))
                    .or_else(|| {
                        let origin = format!("the file `{}`", token_file.display());
                        Token::new(&fs::read_to_string(&token_file).ok()?, origin)
                    }),
                token_file,
                offline: text("HF_HUB_OFFLINE")
                    .is_some_and(|value| ["1", "ON", "YES", "TRUE"].contains(&value.to_ascii_uppercase().as_str())),
            })
        }
    }

    impl Token {
        fn new(text: &str, origin: String) -> Option<Self> {
            let value = text.trim();
            (!value.is_empty()).then(|| Self { value: value.to_owned(), origin })
        }
    }

    /// One model's part of the cache.
    struct Cache {
        /// The whole cache, for messages.
        all: PathBuf,
        folder: PathBuf,
    }

    impl Cache {
        fn new(env: &HubEnv, id: &str) -> Self {
            Self { all: env.cache.clone(), folder: env.cache.join(format!("models--{}", id.replace('/', "--"))) }
        }

        fn snapshot(&self, commit: &str) -> PathBuf {
            self.folder.join("snapshots").join(commit)
        }

        /// The model as far as the cache goes, or a clause that says what it lacks.
        fn files(&self, id: &str, revision: &str) -> Result<ModelFiles, String> {
            let shown = self.all.display();
            let absent = || format!("`{id}` (revision `{revision}`) is not in the Hub cache `{shown}`");
            let commit = self.commit(revision).ok_or_else(absent)?;
            let snapshot = self.snapshot(&commit);
            let names = snapshot
                .read_dir()
                .map_err(|_| absent())?
                .filter_map(Result::ok)
                .filter(|entry| entry.path().is_file())
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect::<BTreeSet<_>>();
            match wanted(&Place::Hub { id, revision }, &names) {
                Ok(files) => Ok(model_files(id.to_owned(), Some(commit), &snapshot, &files)),
                Err(_) => Err(format!(
                    "`{id}` (revision `{revision}`) is not complete in the Hub cache `{shown}`: it holds {} of it",
                    if names.is_empty() {
                        "nothing".to_owned()
                    } else {
                        names.into_iter().collect::<Vec<_>>().join(", ")
                    }
                )),
            }
        }

        /// The commit that a branch or tag stood for when last asked, or the revision itself if it is one.
        fn commit(&self, revision: &str) -> Option<String> {
            match fs::read_to_string(self.folder.join("refs").join(revision)) {
                Ok(text) => Some(text.trim().to_owned()).filter(|commit| is_file_name(commit)),
                Err(_) => {
                    is_file_name(revision).then(|| revision.to_owned()).filter(|commit| self.snapshot(commit).is_dir())
                }
            }
        }

        fn write_ref(&self, revision: &str, commit: &str) -> Result<()> {
            if revision == commit {
                return Ok(());
            }
            let path = self.folder.join("refs").join(revision);
            create_parent(&path)?;
            fs::write(&path, commit).with_context(|| cannot_write(&path))
        }

        fn blob(&self, etag: &str) -> PathBuf {
            self.folder.join("blobs").join(etag)
        }

        /// Makes `file` of the snapshot stand for the blob.
        fn link(&self, commit: &str, file: &str, etag: &str) -> Result<()> {
            let path = self.snapshot(commit).join(file);
            create_parent(&path)?;
            // A link that leads nowhere, left by a cache that was tidied up by hand.
            if path.symlink_metadata().is_ok() && !path.is_file() {
                fs::remove_file(&path).with_context(|| cannot_write(&path))?;
            }
            #[cfg(unix)]
            let linked = std::os::unix::fs::symlink(Path::new("../../blobs").join(etag), &path);
            // Elsewhere links may be forbidden; then the file itself moves, as in the Python client.
            #[cfg(not(unix))]
            let linked = fs::rename(self.blob(etag), &path);
            match linked {
                // Another process was as fast.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_file() => Ok(()),
                outcome => outcome.with_context(|| cannot_write(&path)),
            }
        }
    }

    fn create_parent(path: &Path) -> Result<()> {
        match path.parent() {
            Some(parent) => fs::create_dir_all(parent).with_context(|| cannot_write(parent)),
            None => Ok(()),
        }
    }

    fn cannot_write(path: &Path) -> String {
        format!("cannot write `{}` in the Hub cache; HF_HOME can name another place", path.display())
    }

    /// Whether a name sent by a server, an `ETag` or a commit, can be used as a file's name as it is.
    fn is_file_name(name: &str) -> bool {
        name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.chars().all(|char| char.is_ascii_alphanumeric() || "_.-".contains(char))
    }

    /// Fetches one file of a commit into the cache.
    fn download(
        client: &Client,
        cache: &Cache,
        commit: &str,
        file: &str,
        progress: &dyn DownloadProgress,
    ) -> Result<()> {
        let mut remote = client.open(commit, file).map_err(|failure| match failure {
            Failure::Refused(error) => error,
            Failure::Unavailable(error) => {
                error.context(format!("cannot download {file} of `{}` from {}", client.id, client.endpoint))
            }
        })?;
        let blob = cache.blob(&remote.etag);
        // The same bytes may be there already, from another commit.
        let there = blob.metadata().is_ok_and(|blob| remote.bytes == Some(blob.len()));
        if !there {
            create_parent(&blob)?;
            // A name of its own keeps two processes apart, and the blob is never seen half done.
            let partial = cache.blob(&format!("{}.{}.incomplete", remote.etag, std::process::id()));
            progress.start(file, remote.bytes.unwrap_or(0));
            let received = receive(&mut remote, &partial, progress)
                .and_then(|()| fs::rename(&partial, &blob).with_context(|| cannot_write(&blob)));
            progress.finish();
            if let Err(error) = received {
                // It may not exist; the error at hand says more than a second one would.
                let _ = fs::remove_file(&partial);
                return Err(error.context(format!("cannot download {file} of `{}`", client.id)));
            }
        }
        cache.link(commit, file, &remote.etag)
    }

    /// Writes what comes to `path` and holds its size against what was promised.
    fn receive(remote: &mut Remote, path: &Path, progress: &dyn DownloadProgress) -> Result<()> {
        let mut file = fs::File::create(path).with_context(|| cannot_write(path))?;
        let promised = remote.bytes.map_or_else(|| "an unknown number of".to_owned(), |bytes| bytes.to_string());
        let mut chunk = vec![0; 1 << 16];
        let mut got = 0;
        loop {
            let read = match remote.body.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(error).with_context(|| {
                        format!("the connection broke off after {got} of {promised} bytes: try again")
                    });
                }
            };
            file.write_all(&chunk[..read]).with_context(|| cannot_write(path))?;
            got += read as u64;
            progress.advance(read as u64);
        }
        if remote.bytes.is_some_and(|bytes| bytes != got) {
            bail!("{got} bytes came where the Hub promised {promised}, and were thrown away: try again");
        }
        Ok(())
    }

    /// Why the Hub did not give what it was asked for.
    #[derive(Debug)]
    enum Failure {
        /// No answer, or one that says "not now": the cache may stand in.
        Unavailable(Error),
        /// An answer that will not change by asking again.
        Refused(Error),
    }

    /// Asks the Hub about one revision of one model.
    struct Client {
        id: String,
        revision: String,
        endpoint: String,
        token: Option<Token>,
        token_file: PathBuf,
        /// hf-hub's own connection to the model, with the token and TLS set up.
        repo: ApiRepo,
    }

    /// A file that is about to come.
    struct Remote {
        /// Names the content; a valid file name.
        etag: String,
        /// The size the Hub promises, if it does.
        bytes: Option<u64>,
        body: Box<dyn Read>,
    }

    /// An HTTP answer of any status.
    struct Answer {
        status: u16,
        /// Names in lower case.
        headers: Vec<(String, String)>,
        body: Box<dyn Read>,
    }

    impl Answer {
        fn header(&self, name: &str) -> Option<&str> {
            self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
        }
    }

    impl Client {
        fn new(env: &HubEnv, id: &str, revision: &str) -> Result<Self> {
            if !env.endpoint.starts_with("http://") && !env.endpoint.starts_with("https://") {
                bail!("HF_ENDPOINT is `{}`: give a URL such as https://huggingface.co", env.endpoint);
            }
            let api = ApiBuilder::from_cache(HubCache::new(env.cache.clone()))
                .with_endpoint(env.endpoint.clone())
                .with_token(env.token.as_ref().map(|token| token.value.clone()))
                .with_user_agent(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
                .with_progress(false)
                .build()
                .context("cannot set up the connection to the Hub")?;
            Ok(Self {
                id: id.to_owned(),
                revision: revision.to_owned(),
                endpoint: env.endpoint.clone(),
                token: env.token.clone(),
                token_file: env.token_file.clone(),
                repo: api.repo(Repo::model(id.to_owned())),
            })
        }

        /// The commit that the revision stands for now, and the names of its files.
        fn info(&self) -> Result<RepoInfo, Failure> {
            let revision = self.revision.replace('/', "%2F");
            // A renamed model leads on to its new name.
            let url = format!("{}/api/models/{}/revision/{revision}", self.endpoint, self.id);
            let answer = self.get(&url, true, 10)?;
            if answer.status != 200 {
                return Err(self.failure(&answer));
            }
            let info: RepoInfo = serde_json::from_reader(answer.body)
                .context("it answered with something other than the description of a model")
                .map_err(Failure::Unavailable)?;
            if !is_file_name(&info.sha) {
                let error = anyhow!("{} calls `{}` a commit of `{}`", self.endpoint, info.sha, self.id);
                return Err(Failure::Refused(error));
            }
            Ok(info)
        }

        /// Begins to fetch a file.
        ///
        /// The Hub itself answers for the file's name and size, then sends on to where the bytes are: small files
        /// to another path of its own, large ones to another host, which must not see the token. So redirects are
        /// followed here, one by one. `ApiRepo::download` of hf-hub 0.5 would not do: it insists on a
        /// `Content-Range`, which the Hub leaves out for small files (hf-hub issue 141), and it trusts their size.
        fn open(&self, commit: &str, file: &str) -> Result<Remote, Failure> {
            let mut url = format!("{}/{}/resolve/{commit}/{file}", self.endpoint, self.id);
            let (mut etag, mut linked_etag, mut linked_size) = (None, None, None);
            for _ in 0..HOPS {
                let at_home = origin(&url) == origin(&self.endpoint);
                let answer = self.get(&url, at_home, 0)?;
                if at_home {
                    // What the Hub says of the bytes themselves, in `X-Linked-`, goes before what it says of an
                    // answer that may be no more than a redirect. Another host's word on the name does not count.
                    let header = |name| answer.header(name).map(str::to_owned);
                    etag = header("etag").or(etag);
                    linked_etag = header("x-linked-etag").or(linked_etag);
                    linked_size = header("x-linked-size").or(linked_size);
                }
                match answer.status {
                    200 => {
                        let etag = linked_etag
                            .or(etag)
                            .map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_owned())
                            .filter(|etag| is_file_name(etag))
                            .with_context(|| format!("{url} came without a usable ETag"))
                            .map_err(Failure::Refused)?;
                        let bytes = linked_size.as_deref().or(answer.header("content-length"));
                        let bytes = bytes.and_then(|bytes| bytes.parse().ok());
                        return Ok(Remote { etag, bytes, body: answer.body });
                    }
                    301 | 302 | 303 | 307 | 308 => {
                        let location = answer
                            .header("location")
                            .with_context(|| format!("{url} leads on, but does not say where"))
                            .map_err(Failure::Refused)?;
                        url = follow(&url, location);
                    }
                    _ => return Err(self.failure(&answer)),
                }
            }
            let error = anyhow!("{file} of `{}` led on {HOPS} times without an end", self.id);
            Err(Failure::Refused(error))
        }

        /// One request. Redirects beyond the allowed number come back as what they are.
        fn get(&self, url: &str, with_token: bool, redirects: u32) -> Result<Answer, Failure> {
            // Compressed, an answer has neither the size nor the ETag of the file.
            let mut request = self.repo.info_request().uri(url).header("Accept-Encoding", "identity");
            if !with_token && let Some(headers) = request.headers_mut() {
                headers.remove("authorization");
            }
            let response = request
                .config()
                .http_status_as_error(false)
                .max_redirects(redirects)
                .max_redirects_will_error(false)
                .timeout_connect(Some(CONNECT))
                .timeout_recv_response(Some(ANSWER))
                .timeout_per_read(Some(ANSWER))
                .build()
                .call()
                .map_err(|error| Failure::Unavailable(error.into()))?;
            let headers = response.headers().iter();
            Ok(Answer {
                status: response.status().as_u16(),
                headers: headers
                    .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into()))
                    .collect(),
                body: Box::new(response.into_body().into_reader()),
            })
        }

        /// What an answer other than success means.
        fn failure(&self, answer: &Answer) -> Failure {
            let Self { id, revision, endpoint, .. } = self;
            let status = answer.status;
            let code = answer.header("x-error-code").unwrap_or_default();
            if status == 429 || status >= 500 {
                return Failure::Unavailable(anyhow!("{endpoint} answered {status}"));
            }
            let sources = format!("HF_TOKEN or the file `{}`", self.token_file.display());
            Failure::Refused(match (status, code, &self.token) {
                (401 | 403, "GatedRepo", None) => anyhow!(
                    "`{id}` is gated ({endpoint} answered {status}): accept its terms at {endpoint}/{id} \
                     and put an access token into {sources}"
                ),
                (401 | 403, "GatedRepo", Some(token)) => anyhow!(
                    "`{id}` is gated ({endpoint} answered {status}): accept its terms at {endpoint}/{id} \
                     as the owner of the token from {}",
                    token.origin
                ),
                (401, _, None) => anyhow!(
                    "cannot read model `{id}` ({endpoint} answered 401): either no folder and no Hub model has this \
                     name, or the model is private or gated and no token was sent; check the name, or put an access \
                     token into {sources}"
                ),
                (401, _, Some(token)) => anyhow!(
                    "cannot read model `{id}` ({endpoint} answered 401): either no folder and no Hub model has this \
                     name, or the token from {} is not valid for it; check the name and the token",
                    token.origin
                ),
                (403, _, None) => anyhow!(
                    "model `{id}` may not be read without a token ({endpoint} answered 403): put an access token \
                     into {sources}"
                ),
                (403, _, Some(token)) => anyhow!(
                    "model `{id}` may not be read with the token from {} ({endpoint} answered 403): give the token \
                     the right to read it, or use another one",
                    token.origin
                ),
                (404, "RevisionNotFound", _) => anyhow!(
                    "model `{id}` has no revision `{revision}` ({endpoint} answered 404): check what stands after \
                     the `@`; without it, `main` is meant"
                ),
                (404, _, _) => anyhow!(
                    "no folder and no Hub model is named `{id}` ({endpoint} answered 404 for revision \
                     `{revision}`): check the name"
                ),
                _ => anyhow!("{endpoint} answered {status} for model `{id}`, which it should not: check HF_ENDPOINT"),
            })
        }
    }

    /// `https://host:port` of a URL.
    fn origin(url: &str) -> &str {
        let host = url.find("://").map_or(0, |at| at + 3);
        let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
        &url[..end]
    }

    /// The URL that the `Location` of an answer from `url` means (RFC 3986, section 5, as far as servers use it).
    fn follow(url: &str, location: &str) -> String {
        let origin = origin(url);
        let has_scheme = location
            .split_once("://")
            .is_some_and(|(scheme, _)| scheme.chars().all(|char| char.is_ascii_alphanumeric()));
        if has_scheme {
            location.to_owned()
        } else if location.starts_with("//") {
            let scheme = origin.split("//").next().unwrap_or_default();
            format!("{scheme}{location}")
        } else if location.starts_with('/') {
            format!("{origin}{location}")
        } else {
            let path = url.split(['?', '#']).next().unwrap_or(url);
            let folder = path.rfind('/').filter(|&at| at >= origin.len()).map_or(origin, |at| &path[..at]);
            format!("{folder}/{location}")
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

        /// The environment of somebody whose home is `/home/ada` and who has set `variables`.
        fn env(variables: &[(&str, &str)]) -> HubEnv {
            let variable =
                |name: &str| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| OsString::from(value));
            HubEnv::read(&variable, Some(PathBuf::from("/home/ada"))).unwrap()
        }

        /// An environment that is offline and has its cache in `folder`.
        fn offline(folder: &Path) -> HubEnv {
            env(&[("HF_HUB_CACHE", folder.to_str().unwrap()), ("HF_HUB_OFFLINE", "1")])
        }

        fn write(path: &Path, text: &str) {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        #[test]
        fn the_cache_is_where_python_looks_for_it() {
            let cases: &[(&[(&str, &str)], &str)] = &[
                (&[], "/home/ada/.cache/huggingface/hub"),
                (&[("XDG_CACHE_HOME", "/var/c")], "/var/c/huggingface/hub"),
                (&[("HF_HOME", "/hf"), ("XDG_CACHE_HOME", "/var/c")], "/hf/hub"),
                (&[("HF_HOME", "~/hf")], "/home/ada/hf/hub"),
                (&[("HF_HOME", "")], "/home/ada/.cache/huggingface/hub"),
                (&[("HUGGINGFACE_HUB_CACHE", "/old"), ("HF_HOME", "/hf")], "/old"),
                (&[("HF_HUB_CACHE", "/new"), ("HUGGINGFACE_HUB_CACHE", "/old")], "/new"),
            ];
            for (variables, expected) in cases {
                assert_eq!(env(variables).cache, Path::new(expected), "{variables:?}");
            }
        }

        #[test]
        fn without_a_home_folder_the_way_out_is_named() {
            let error = HubEnv::read(&|_| None, None).unwrap_err().to_string();
            assert_eq!(error, "cannot tell where the Hub's cache is, for there is no home folder: set HF_HOME");
        }

        #[test]
        fn offline_is_what_python_takes_for_true() {
            for (value, expected) in [
                ("1", true),
                ("on", true),
                ("Yes", true),
                ("TRUE", true),
                ("0", false),
                ("", false),
                ("offline", false),
            ] {
                assert_eq!(env(&[("HF_HUB_OFFLINE", value)]).offline, expected, "{value:?}");
            }
            assert!(!env(&[]).offline);
        }

        #[test]
        fn the_endpoint_loses_its_last_slash() {
            assert_eq!(env(&[]).endpoint, "https://huggingface.co");
            assert_eq!(env(&[("HF_ENDPOINT", "http://mirror:80/hf/")]).endpoint, "http://mirror:80/hf");
        }

        #[test]
        fn a_token_comes_from_a_variable_before_a_file() {
            let folder = tempfile::tempdir().unwrap();
            let home = folder.path().to_str().unwrap();
            let token = |variables: &[(&str, &str)]| {
                let variables = [variables, &[("HF_HOME", home)]].concat();
                env(&variables).token.map(|token| (token.value, token.origin))
            };
            assert_eq!(token(&[]), None);
            write(&folder.path().join("token"), "filed\n");
            write(&folder.path().join("elsewhere"), " other ");
            let elsewhere = format!("{home}/elsewhere");
            let file = |name: &str| format!("the file `{home}/{name}`");
            assert_eq!(token(&[]), Some(("filed".into(), file("token"))));
            assert_eq!(token(&[("HF_TOKEN_PATH", &elsewhere)]), Some(("other".into(), file("elsewhere"))));
            assert_eq!(token(&[("HUGGING_FACE_HUB_TOKEN", "old")]).unwrap().0, "old");
            let both = [("HUGGING_FACE_HUB_TOKEN", "old"), ("HF_TOKEN", "new\n")];
            assert_eq!(token(&both), Some(("new".into(), "HF_TOKEN".into())));
        }

        #[test]
        fn a_token_is_not_printed() {
            let shown = format!("{:?}", env(&[("HF_TOKEN", "secret")]));
            assert!(!shown.contains("secret"), "{shown}");
        }

        #[test]
        fn offline_a_model_is_found_by_branch_and_by_commit() {
            let folder = tempfile::tempdir().unwrap();
            let model = folder.path().join("models--acme--tiny-bert");
            let snapshot = model.join("snapshots").join(COMMIT);
            for name in ["config.json", "tokenizer.json", "model.safetensors"] {
                write(&snapshot.join(name), "");
            }
            write(&model.join("refs/main"), COMMIT);
            write(&model.join("refs/refs/pr/5"), COMMIT);
            for revision in ["main", "refs/pr/5", COMMIT] {
                let files = resolve_in(&offline(folder.path()), "acme/tiny-bert", revision, &()).unwrap();
                assert_eq!(files.id, "acme/tiny-bert");
                assert_eq!(files.revision.as_deref(), Some(COMMIT));
                assert_eq!(files.weights, snapshot.join("model.safetensors"));
                assert_eq!(files.tokenizer_config, None);
            }
        }

        #[test]
        fn offline_a_model_that_is_not_there_says_where_it_was_looked_for() {
            let folder = tempfile::tempdir().unwrap();
            let error = resolve_in(&offline(folder.path()), "acme/tiny-bert", "v2", &()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "`acme/tiny-bert` (revision `v2`) is not in the Hub cache `{}`, and HF_HUB_OFFLINE forbids to \
                     ask the Hub: unset HF_HUB_OFFLINE or download the model first",
                    folder.path().display()
                )
            );
        }

        #[test]
        fn offline_half_a_model_says_which_half() {
            let folder = tempfile::tempdir().unwrap();
            let model = folder.path().join("models--acme--tiny-bert");
            write(&model.join("refs/main"), COMMIT);
            write(&model.join("snapshots").join(COMMIT).join("config.json"), "");
            let error = resolve_in(&offline(folder.path()), "acme/tiny-bert", "main", &()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "`acme/tiny-bert` (revision `main`) is not complete in the Hub cache `{}`: it holds config.json \
                     of it, and HF_HUB_OFFLINE forbids to ask the Hub: unset HF_HUB_OFFLINE or download the model \
                     first",
                    folder.path().display()
                )
            );
        }

        #[test]
        fn a_ref_that_leads_out_of_the_cache_is_not_followed() {
            let folder = tempfile::tempdir().unwrap();
            let model = folder.path().join("models--acme--tiny-bert");
            write(&model.join("refs/main"), "../../..");
            assert!(resolve_in(&offline(folder.path()), "acme/tiny-bert", "main", &()).is_err());
        }

        #[test]
        fn an_endpoint_that_is_no_url_is_refused() {
            let folder = tempfile::tempdir().unwrap();
            let env = env(&[("HF_HOME", folder.path().to_str().unwrap()), ("HF_ENDPOINT", "mirror.example")]);
            let error = resolve_in(&env, "acme/tiny-bert", "main", &()).unwrap_err().to_string();
            assert_eq!(error, "HF_ENDPOINT is `mirror.example`: give a URL such as https://huggingface.co");
        }

        #[test]
        fn locations_are_taken_relative_to_the_url() {
            let url = "http://hub:80/a/b?c=/d";
            for (location, expected) in [
                ("https://cdn/x", "https://cdn/x"),
                ("//cdn/x", "http://cdn/x"),
                ("/x?to=http://y", "http://hub:80/x?to=http://y"),
                ("x", "http://hub:80/a/x"),
            ] {
                assert_eq!(follow(url, location), expected);
            }
            assert_eq!(follow("http://hub", "x"), "http://hub/x");
        }

        #[test]
        fn an_origin_is_scheme_host_and_port() {
            assert_eq!(origin("http://hub:80/a"), "http://hub:80");
            assert_eq!(origin("http://hub"), "http://hub");
            assert_eq!(origin("http://hub?a=/b"), "http://hub");
            // A host that merely begins like the Hub's is another one.
            assert_ne!(origin("https://hub.evil/a"), origin("https://hub/a"));
        }
    }
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
    fn a_folder_is_called_by_its_own_name() {
        let (_parent, folder) = model_folder(&[CONFIG, TOKENIZER, WEIGHTS, "vocab.txt", "tf_model.h5"]);
        let files = ModelRef::Folder(folder.join("../my-bert/.")).resolve(&()).unwrap();
        assert_eq!((files.id.as_str(), files.revision, files.tokenizer_config), ("my-bert", None, None));
        fs::write(folder.join(TOKENIZER_CONFIG), "").unwrap();
        let files = ModelRef::Folder(folder.clone()).resolve(&()).unwrap();
        assert_eq!(files.config, folder.join("config.json"));
        assert_eq!(files.tokenizer, folder.join("tokenizer.json"));
        assert_eq!(files.tokenizer_config, Some(folder.join("tokenizer_config.json")));
        assert_eq!(files.weights, folder.join("model.safetensors"));
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
        assert_eq!(
            error_of(&[CONFIG, WEIGHTS, "vocab.txt"]),
            "`DIR/tokenizer.json` is missing, but vocab.txt is there. To make tokenizer.json of it, run in Python:\n  \
             from transformers import AutoTokenizer\n  \
             AutoTokenizer.from_pretrained(\"DIR\").save_pretrained(\"DIR\")"
        );
    }

    #[test]
    fn weights_in_another_form() {
        let found = |name: &str| error_of(&[CONFIG, TOKENIZER, name]);
        assert_eq!(
            found("pytorch_model.bin"),
            "`DIR/model.safetensors` is missing, but pytorch_model.bin is there, weights as a Python pickle, which is \
             not read. To convert them, run in Python:\n  \
             from transformers import AutoModel\n  \
             AutoModel.from_pretrained(\"DIR\").save_pretrained(\"DIR\")"
        );
        assert_eq!(
            found("tf_model.h5"),
            "`DIR/model.safetensors` is missing, but tf_model.h5 is there, weights of TensorFlow, which are not read. \
             To convert them, run in Python with transformers 4:\n  \
             from transformers import AutoModel\n  \
             AutoModel.from_pretrained(\"DIR\", from_tf=True).save_pretrained(\"DIR\")"
        );
        assert!(found("flax_model.msgpack").contains("flax_model.msgpack is there, weights of Flax"));
        assert!(found("model.safetensors.index.json").contains(".save_pretrained(\"DIR\", max_shard_size=\"1TB\")"));
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
