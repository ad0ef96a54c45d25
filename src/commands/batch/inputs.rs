//! Content identity of a batch run's inputs: a run with unchanged inputs is skipped.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::table::TableRun;
use crate::commands::analyze::loaded;
use crate::commands::analyze::options::AnalyzeOptions;
use crate::corpus::{CorpusIdentity, Input};
use crate::model::Hashes;
use crate::model::files::ModelFiles;
use crate::passes::observation::identity::Tool;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::digest::hex;
use crate::system::files::input;

/// Everything that a report depends on, except time, machine and speed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInputs {
    pub tool: Tool,
    pub model: ModelInputs,
    pub corpus: CorpusInputs,
    /// Command-line options on which the report depends.
    pub options: Vec<String>,
    /// SHA-256 of each file that an option names, by option.
    pub files: BTreeMap<String, String>,
}

/// Identity of a model: the hashes of its files, and the id that the report shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInputs {
    /// Hub id, name of a built-in model, or folder name.
    pub id: String,
    pub revision: Option<String>,
    /// SHA-256 of `config.json`.
    pub config_sha256: String,
    /// SHA-256 of all weight files together, in the order of their names.
    pub weights_sha256: String,
    /// SHA-256 of each tokenizer file, by file name.
    pub tokenizer_sha256: BTreeMap<String, String>,
}

/// Identity of a corpus: the hashes of its files, and the names that the report shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusInputs {
    pub name: String,
    /// Each file's name and SHA-256, in order.
    pub files: Vec<(String, String)>,
}

impl From<&CorpusIdentity> for CorpusInputs {
    fn from(identity: &CorpusIdentity) -> Self {
        let files = identity.files.iter().map(|file| (file.name.clone(), file.sha256.clone())).collect();
        Self { name: identity.name.clone(), files }
    }
}

/// Size limit in bytes of a file that an option names, such as token counts: 64 MiB. Policies have a smaller limit.
const MAX_FILE_BYTES: u64 = 1 << 26;

impl RunInputs {
    /// Collects the inputs of a run. Fails if a file that an option names cannot be read.
    pub fn new(run: &TableRun, files: &ModelFiles, hashes: &Hashes, corpus: CorpusInputs) -> Result<Self> {
        let model = ModelInputs {
            id: files.id.clone(),
            revision: files.revision.clone(),
            config_sha256: hashes.config.clone(),
            weights_sha256: hashes.weights.clone(),
            tokenizer_sha256: hashes.tokenizer.clone(),
        };
        let digest = |(option, path): (&&'static str, &std::path::PathBuf)| {
            let bytes = input::read(path, MAX_FILE_BYTES).cannot(&format!("read --{option}"), path.display());
            Ok(((*option).to_owned(), hex(&Sha256::digest(bytes.class(ErrorClass::Input)?))))
        };
        let files = run.files.iter().map(digest).collect::<Result<_>>()?;
        Ok(Self { tool: Tool::default(), model, corpus, options: run.report_options.clone(), files })
    }

    /// Fails if the analysed corpus `corpus` differs from the corpus of these inputs.
    pub fn ensure_same_corpus(&self, corpus: &CorpusIdentity) -> Result<()> {
        let error = || anyhow!("corpus `{}` changed while it was analysed", corpus.name).class(ErrorClass::Input);
        ensure!(self.corpus == corpus.into(), error().hint("run again when nothing writes to it"));
        Ok(())
    }

    /// Sentence on the first input that differs from `before`, the inputs of an earlier report; `None` if all are equal.
    pub fn first_change_since(&self, before: &Self) -> Option<String> {
        if self.tool != before.tool {
            return Some(format!("it was made by version {}, this is {}", before.tool.version, self.tool.version));
        }
        if self.model != before.model {
            return Some("the model has changed".to_owned());
        }
        if self.corpus != before.corpus {
            return Some("the corpus has changed".to_owned());
        }
        if self.options != before.options {
            return Some(format!("the options were `{}`, now `{}`", before.options.join(" "), self.options.join(" ")));
        }
        (self.files != before.files).then(|| "a file that an option names has changed".to_owned())
    }
}

/// Cache of corpus identities by input, so that each corpus is read and hashed only once.
#[derive(Default)]
pub struct CorpusInputsCache(Vec<(Vec<Input>, CorpusInputs)>);

impl CorpusInputsCache {
    /// Identity of the corpus of a run, from the cache or by reading the corpus.
    /// Fails if the corpus cannot be read, or can be read only once.
    pub fn corpus_inputs(&mut self, options: &AnalyzeOptions) -> Result<CorpusInputs> {
        if let Some((_, identity)) = self.0.iter().find(|(inputs, _)| *inputs == options.corpus) {
            return Ok(identity.clone());
        }
        if let Some(single_read) = options.corpus.iter().find(|input| !input.can_be_read_again()) {
            let shown = single_read.path().map(|path| path.display().to_string()).unwrap_or_default();
            let error =
                anyhow!("corpus `{shown}` can be read only once, and here it is read to see whether it has changed");
            return Err(error.with_file(shown).hint("name a file").class(ErrorClass::Usage));
        }
        let identity = CorpusInputs::from(&loaded::open_corpus(options)?.into_identity()?);
        self.0.push((options.corpus.clone(), identity.clone()));
        Ok(identity)
    }
}
