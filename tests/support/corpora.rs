//! Helpers that write, compress, open and read test corpora.

#![allow(dead_code, reason = "each test crate uses a part")]

use std::fs;
use std::io::Write;
use std::path::Path;

use headscope::corpus::{Annotation, Content, Corpus, Format, Input, Sentence, TreeHead, Upos, Word};
use tempfile::TempDir;

pub fn word(form: &str, head: TreeHead, relation: &str) -> Word {
    Word::new(form, head, relation)
}

pub fn conllu(words: &[Word]) -> String {
    let line = |(position, word): (usize, &Word)| {
        let head = match word.head {
            TreeHead::Root => "0".to_owned(),
            TreeHead::Word(head) => (head + 1).to_string(),
            TreeHead::Unknown => "_".to_owned(),
        };
        let Word { form, relation, annotation: Annotation { upos, lemma, features, entity, .. }, .. } = word;
        let [lemma, features] = [lemma, features].map(|text| text.as_deref().unwrap_or("_"));
        let upos = upos.map_or("_", Upos::tag);
        let misc = entity.as_ref().map_or("_".to_owned(), |entity| format!("Entity={entity}"));
        let id = position + 1;
        format!("{id}\t{form}\t{lemma}\t{upos}\t_\t{features}\t{head}\t{relation}\t_\t{misc}\n")
    };
    words.iter().enumerate().map(line).collect::<String>() + "\n"
}

pub fn read(text: impl Into<Vec<u8>>, format: Format) -> Vec<Sentence> {
    Corpus::from_bytes("in memory", text.into(), format).map(Result::unwrap).collect()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 0).unwrap()
}

/// A temporary folder with `files`, each a name and its bytes.
pub fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

pub fn open(paths: &[&Path], format: Option<Format>) -> Result<Corpus, String> {
    let inputs = paths.iter().map(|path| Input::parse(path, format)).collect::<Result<Vec<_>, _>>();
    inputs.and_then(|inputs| Corpus::open(&inputs)).map_err(|error| format!("{error:#}"))
}

pub fn texts(corpus: Corpus) -> Vec<(u64, String, String)> {
    corpus
        .map(|sentence| {
            let Sentence { index, origin, content, .. } = sentence.unwrap();
            let text = match content {
                Content::Text(text) => text,
                Content::Words(words) => words.iter().map(|word| word.form.as_str()).collect::<Vec<_>>().join(" "),
            };
            let name = Path::new(&*origin.path).file_name().unwrap().to_string_lossy().into_owned();
            (index, format!("{name}:{}", origin.line), text)
        })
        .collect()
}

pub fn contents(sentences: Vec<Sentence>) -> Vec<Content> {
    sentences.into_iter().map(|sentence| sentence.content).collect()
}

pub fn error(text: impl Into<Vec<u8>>, format: Format) -> String {
    let mut corpus = Corpus::from_bytes("in memory", text.into(), format);
    let error = corpus.find_map(Result::err).expect("an error");
    assert!(corpus.next().is_none(), "a corpus ends after its first error");
    format!("{error:#}")
}

/// The words of a pre-split sentence.
pub fn words(sentence: Sentence) -> Vec<Word> {
    match sentence.content {
        Content::Words(words) => words,
        Content::Text(text) => panic!("running text: {text}"),
    }
}
