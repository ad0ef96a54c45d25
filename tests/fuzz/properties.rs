//! Properties that hold of any bytes: the fuzz targets, and the tests that replay what they found.

#[path = "saved.rs"]
mod saved;

use std::cell::RefCell;
use std::fmt::Write;
use std::fs;
use std::io::Cursor;
use std::ops::Range;
use std::path::{Path, PathBuf};

use headscope::corpus::{
    Content, Corpus, Format, LinkFile, LinkRules, MAX_SENTENCE_BYTES, MAX_WORDS, Mentions, SEGMENT_SENTENCES, Sentence,
    SentenceGroup, TreeHead, Upos, Word,
};
use headscope::model::Model;
use headscope::model::forward::attention::AttentionView;
use headscope::model::source::ModelRef;
use headscope::sequences::fold::words::{FromToken, WordAttention};
use headscope::sequences::pack::{PACK_TOKENS, Packs};
use headscope::sequences::sequence::{Sequence, TokenKind};
use headscope::sequences::span::WordSpan;
use headscope::studies::registry::default_policy;
use headscope::study::labels::policy::Value;
use headscope::system::printable::{escape_controls, is_unprintable, one_line};

/// Takes any bytes, panics if a property does not hold, and says whether the bytes were what they should be.
pub type Target = fn(&[u8]) -> bool;

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("conllu", conllu),
    ("text", text),
    ("jsonl", jsonl),
    ("fasta", fasta),
    ("rxn", rxn),
    ("pairs", pairs),
    ("links", links),
    ("link-rules", link_rules),
    ("packing", packing),
    ("folding", folding),
    ("config", config),
    ("weights", weights),
    ("index", index),
    ("pickle", pickle),
    ("tokenizer", tokenizer),
    ("policy", policy),
    ("terminal", terminal),
    ("report", saved::report),
    ("crafted-report", saved::crafted),
    ("ledger", saved::ledger),
    ("partial", saved::partial),
    ("corpus-index", saved::corpus_index),
];

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

fn conllu(data: &[u8]) -> bool {
    let (sentences, whole) = read(data, Format::Conllu);
    for sentence in &sentences {
        let Content::Words(words) = &sentence.content else { panic!("CoNLL-U has words") };
        assert!(words.iter().all(|word| !word.form.contains(['\t', '\n'])));
        mentions(words, sentence.entity_fields.as_deref());
    }
    // What was read can be written, and reads as the same.
    let (again, _) = read(write_conllu(&sentences).as_bytes(), Format::Conllu);
    let contents = |sentences: &[Sentence]| sentences.iter().map(|s| s.content.clone()).collect::<Vec<_>>();
    // Comments without a word are a sentence too, of which nothing is written.
    let mut expected = contents(&sentences);
    expected.retain(|content| !matches!(content, Content::Words(words) if words.is_empty()));
    assert_eq!(contents(&again), expected);
    whole
}

/// Every mention has words that there are, in order, and a head among them if it has one.
fn mentions(words: &[Word], fields: Option<&str>) {
    let found = Mentions::parse(words.iter().map(|word| word.annotation.entity.as_deref()), fields);
    for mention in found.mentions {
        assert!(!mention.parts.is_empty() && mention.parts.iter().all(|part| !part.is_empty()));
        assert!(
            mention.parts.is_sorted_by(|a, b| a.end <= b.start)
                && mention.parts.iter().all(|part| part.end <= words.len())
        );
        let head = mention.head(|word| words[word].head);
        assert!(head.is_none_or(|head| mention.parts.iter().any(|part| part.contains(&head))));
    }
}

fn text(data: &[u8]) -> bool {
    let (sentences, whole) = read(data, Format::Text);
    for sentence in sentences {
        let Content::Text(text) = sentence.content else { panic!("plain text has no words") };
        assert!(!text.contains('\n'));
    }
    whole
}

fn jsonl(data: &[u8]) -> bool {
    read(data, Format::Jsonl).1
}

fn fasta(data: &[u8]) -> bool {
    let (sentences, whole) = read(data, Format::Fasta);
    for sentence in &sentences {
        let Content::Text(residues) = &sentence.content else { panic!("a protein is no words") };
        assert!(residues.bytes().all(|residue| residue.is_ascii_uppercase()));
        assert!(residues.len() <= MAX_SENTENCE_BYTES);
    }
    whole
}

fn rxn(data: &[u8]) -> bool {
    let (sentences, whole) = read(data, Format::Rxn);
    for sentence in &sentences {
        let Content::Words(words) = &sentence.content else { panic!("a reaction has words") };
        let arrow = words.iter().position(|word| word.form == ">>").expect("a reaction has two sides");
        for (from, to) in sentence.links.iter().flat_map(|maps| &maps.targets) {
            assert!(*from > arrow && *from < words.len() && to.iter().all(|&to| to < arrow));
            // A link is between atoms of one element.
            assert!(to.iter().all(|&to| words[to].annotation.class == words[*from].annotation.class));
        }
    }
    whole
}

fn pairs(data: &[u8]) -> bool {
    let (sentences, whole) = read(data, Format::Pairs);
    for sentence in &sentences {
        let (Content::Words(words), Some(first)) = (&sentence.content, sentence.first_text_word_count) else {
            panic!("a pair has words")
        };
        assert!((1..words.len()).contains(&first));
        for (from, to) in sentence.links.iter().flat_map(|links| &links.targets) {
            assert!(*from < first && to.iter().all(|to| (first..words.len()).contains(to)));
        }
    }
    whole
}

fn links(data: &[u8]) -> bool {
    match LinkFile::from_reader(Path::new("fuzz"), Box::new(Cursor::new(data.to_vec()))) {
        Ok(file) => file.digest.sha256.len() == 64,
        Err(error) => {
            check_message(&error);
            false
        }
    }
}

fn link_rules(data: &[u8]) -> bool {
    let rules = std::str::from_utf8(data).ok().map(|text| LinkRules::parse(text, Path::new("fuzz")));
    if let Some(Err(error)) = &rules {
        check_message(error);
    }
    matches!(rules, Some(Ok(_)))
}

/// Reads all sentences up to the first error, if there is one, and checks what holds in every format.
fn read(data: &[u8], format: Format) -> (Vec<Sentence>, bool) {
    let mut sentences: Vec<Sentence> = Vec::new();
    let mut families = 0;
    let (mut as_they_begin, mut by_document) = (true, true);
    let lines = data.split(|&byte| byte == b'\n').count() as u64;
    let mut corpus = Corpus::from_bytes("fuzz", data.to_vec(), format);
    for sentence in &mut corpus {
        let sentence = match sentence {
            Ok(sentence) => sentence,
            Err(error) => {
                check_message(&error);
                assert!(format!("{error:#}").contains("fuzz:"), "no place: {error:#}");
                return (sentences, false);
            }
        };
        assert_eq!(sentence.index, sentences.len() as u64);
        let line = sentence.origin.line;
        assert!((1..=lines).contains(&line), "line {line} of {lines}");
        if let Some(before) = sentences.last() {
            assert!(before.origin.line < line);
            // A document is that of the sentence before, or begins here.
            assert!([before.document, sentence.index].contains(&sentence.document));
        } else {
            assert_eq!(sentence.document, 0);
        }
        // Families are numbered as they begin, or, where documents are the units, by the document that they begin in.
        let SentenceGroup { number, is_first } = sentence.family;
        as_they_begin &= is_first == (number == families) && number <= families;
        by_document &= sentence
            .document_number
            .is_some_and(|document| if is_first { number == document } else { number <= document });
        assert!(as_they_begin || by_document, "family {number} at {}", sentence.index);
        families += u64::from(sentence.family.is_first);
        if let Content::Words(words) = &sentence.content {
            check_tree(words);
            check_size(words);
        }
        sentences.push(sentence);
    }
    (sentences, true)
}

/// Heads are words of the sentence, and lead to a root or to where no head is known.
fn check_tree(words: &[Word]) {
    for start in 0..words.len() {
        let mut at = start;
        let mut steps = 0;
        while let TreeHead::Word(head) = words[at].head {
            assert!(head < words.len(), "head {head} of {} words", words.len());
            (at, steps) = (head, steps + 1);
            assert!(steps <= words.len(), "a cycle through word {start}");
        }
    }
}

/// The bounds hold of what is kept of a sentence.
fn check_size(words: &[Word]) {
    let bytes = |Word { form, relation, annotation, .. }: &Word| {
        let others = [&annotation.lemma, &annotation.features, &annotation.entity];
        form.len() + relation.len() + others.into_iter().flatten().map(|text| text.len()).sum::<usize>()
    };
    assert!(words.len() <= MAX_WORDS && words.iter().map(bytes).sum::<usize>() <= MAX_SENTENCE_BYTES);
}

fn write_conllu(sentences: &[Sentence]) -> String {
    let mut text = String::new();
    for sentence in sentences {
        let Content::Words(words) = &sentence.content else { continue };
        for (position, Word { form, head, relation, annotation }) in words.iter().enumerate() {
            let head = match head {
                TreeHead::Root => "0".to_owned(),
                TreeHead::Word(head) => (head + 1).to_string(),
                TreeHead::Unknown => "_".to_owned(),
            };
            let column = |value: &Option<Box<str>>| value.as_deref().unwrap_or("_").to_owned();
            let (mut lemma, features) = (column(&annotation.lemma), column(&annotation.features));
            // The lemma of an underscore would be one; nothing in the column is no lemma.
            if form == "_" && annotation.lemma.is_none() {
                lemma.clear();
            }
            let upos = annotation.upos.map_or("_", Upos::tag);
            // A carriage return at the end of a line is a part of its end, so that the separator closes the value.
            let misc = annotation.entity.as_ref().map_or("_".to_owned(), |entity| format!("Entity={entity}|"));
            let id = position + 1;
            writeln!(text, "{id}\t{form}\t{lemma}\t{upos}\t_\t{features}\t{head}\t{relation}\t_\t{misc}")
                .expect("writing to a string does not fail");
        }
        text.push('\n');
    }
    text
}

/// A message is for a person: not endless, and as it is printed nothing that a terminal obeys.
fn check_message(error: &anyhow::Error) {
    let message = format!("{error:#}");
    assert!(!message.is_empty() && message.len() < 20_000, "{} bytes of message", message.len());
    assert!(!escape_controls(&message).chars().any(|char| char.is_control() && char != '\n'), "{message:?}");
}

/// Packs hold all sentences in order, none more than fit, none across a segment.
fn packing(data: &[u8]) -> bool {
    let mut index = 0;
    let sentences: Vec<Sequence> = data
        .chunks_exact(3)
        .map(|chunk| {
            let tokens = 1 + usize::from(u16::from_le_bytes([chunk[0], chunk[1]]) % 700);
            index += 1 + u64::from(chunk[2]);
            Sequence {
                ids: vec![1; tokens],
                segments: vec![0; tokens],
                kinds: vec![TokenKind::Text; tokens],
                ..empty(index)
            }
        })
        .collect();
    let packs = Packs::new(sentences.iter().cloned().map(Ok::<_, std::convert::Infallible>)).map(Result::unwrap);
    let mut packed = Vec::new();
    for pack in packs {
        assert!(!pack.sequences.is_empty());
        assert!(pack.token_count() <= PACK_TOKENS || pack.sequences.len() == 1);
        let segments: Vec<u64> = pack.sequences.iter().map(|sentence| sentence.index / SEGMENT_SENTENCES).collect();
        assert!(segments.iter().all(|segment| *segment == segments[0]));
        let spans: Vec<Range<usize>> = pack.batch().spans().collect();
        assert_eq!(spans.iter().map(Range::len).sum::<usize>(), pack.token_count());
        assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].start));
        packed.extend(pack.sequences);
    }
    assert_eq!(packed, sentences);
    true
}

/// Folding to words neither makes nor loses attention, whatever words the tokens are.
fn folding(data: &[u8]) -> bool {
    let Some((&first, rest)) = data.split_first() else { return false };
    let tokens = 1 + usize::from(first % 12);
    let Some((borders, raw)) = rest.split_at_checked(tokens) else { return false };
    if raw.len() < tokens * tokens {
        return false;
    }
    // Each token begins a word, goes on with one, or belongs to none.
    let mut spans: Vec<Range<usize>> = Vec::new();
    for (token, border) in borders.iter().enumerate() {
        match (border % 3, spans.last_mut()) {
            (0, Some(word)) if word.end == token => word.end += 1,
            (2, _) => {}
            _ => spans.push(token..token + 1),
        }
    }
    let mut weights: Vec<f32> = raw[..tokens * tokens].iter().map(|&byte| f32::from(byte)).collect();
    for row in weights.chunks_exact_mut(tokens) {
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|weight| *weight = if sum > 0.0 { *weight / sum } else { 1.0 / tokens as f32 });
    }
    let view = AttentionView::new(0, 0, tokens, &weights);
    let mut words = WordAttention::default();
    for from in [FromToken::Mean, FromToken::First] {
        words.fold(view, &WordSpan::whole_words(spans.iter().cloned()), from);
        assert_eq!(words.words(), spans.len());
        for (word, span) in spans.iter().enumerate() {
            let queries = if from == FromToken::Mean { span.clone() } else { span.start..span.start + 1 };
            let kept = |query: usize| {
                spans.iter().flat_map(Clone::clone).map(|key| f64::from(view.row(query)[key])).sum::<f64>()
            };
            let expected = queries.clone().map(kept).sum::<f64>() / queries.len() as f64;
            let mass: f64 = words.row(word).iter().sum();
            assert!((mass - expected).abs() < 1e-9, "word {word}: {mass} where its tokens have {expected}");
            assert!(words.row(word).iter().all(|weight| (0.0..=1.0 + 1e-6).contains(weight)));
        }
    }
    true
}

fn empty(index: u64) -> Sequence {
    Sequence { index, ..Sequence::default() }
}

/// A model folder of which one file holds the data.
fn config(data: &[u8]) -> bool {
    load(&[("config.json", data), ("model.safetensors", WEIGHTS)])
}

fn weights(data: &[u8]) -> bool {
    load(&[("config.json", CONFIG), ("model.safetensors", data)])
}

fn pickle(data: &[u8]) -> bool {
    load(&[("config.json", CONFIG), ("pytorch_model.bin", data)])
}

/// Shards that an index names are files of the model's folder, and of no other: beside it lies one that would do.
fn index(data: &[u8]) -> bool {
    let loaded = load(&[
        ("config.json", CONFIG),
        ("model.safetensors.index.json", data),
        ("model-00001-of-00002.safetensors", SHARDS[0]),
        ("model-00002-of-00002.safetensors", SHARDS[1]),
    ]);
    if loaded {
        let named = String::from_utf8_lossy(data);
        let index: serde_json::Value = serde_json::from_str(&named).expect("a model was loaded by it");
        let files = index["weight_map"].as_object().expect("a model was loaded by it").values();
        let elsewhere = files.filter_map(serde_json::Value::as_str).find(|file| file.contains('/'));
        assert_eq!(elsewhere, None, "a model was loaded with it");
    }
    loaded
}

const CONFIG: &[u8] = include_bytes!("model/config.json");
const TOKENIZER: &[u8] = include_bytes!("model/tokenizer.json");
const WEIGHTS: &[u8] = include_bytes!("model/model.safetensors");
const SHARDS: [&[u8]; 2] = [
    include_bytes!("model/model-00001-of-00002.safetensors"),
    include_bytes!("model/model-00002-of-00002.safetensors"),
];

/// A place for one model folder per thread.
struct TestFolder(PathBuf);

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

thread_local! {
    static BENCH: RefCell<Option<TestFolder>> = const { RefCell::new(None) };
}

/// `tokenizer.json`, and what it makes of text that models are not made for.
fn tokenizer(data: &[u8]) -> bool {
    let files = [("config.json", CONFIG), ("model.safetensors", WEIGHTS), ("tokenizer.json", data)];
    let Some(model) = loaded(&files) else { return false };
    let rows = u32::try_from(model.architecture.config.vocab_size).expect("a vocabulary");
    let check = |encoding: anyhow::Result<tokenizers::Encoding>| match encoding {
        Ok(encoding) => assert!(encoding.get_ids().iter().all(|id| *id < rows), "{:?}", encoding.get_ids()),
        Err(error) => check_message(&error),
    };
    for text in ["the dog sees a cat.", "", " \u{1f469}\u{200d}\u{1f52c} \0\u{fffd}\u{301}", "\u{2581}\u{120}ab"] {
        check(model.tokenizer.encode_text(text, true));
        check(model.tokenizer.encode_words(&text.split(' ').collect::<Vec<_>>()));
    }
    true
}

/// A policy file: what it sets is a share or a count, and what refuses it names the file and the line.
fn policy(data: &[u8]) -> bool {
    with_bench(|place| {
        let path = place.join("policy.toml");
        fs::write(&path, data).expect("a temporary file");
        let read = default_policy().with_file(&path);
        fs::remove_file(&path).expect("a temporary file");
        match read {
            Ok(policy) => {
                for (name, value, _) in policy.differences(&default_policy()) {
                    assert!(!matches!(value, Value::Share(share) if !(0.0..=1.0).contains(&share)), "{name} = {value}");
                }
                true
            }
            Err(error) => {
                check_message(&error);
                assert!(format!("{error:#}").contains("policy.toml"), "{error:#}");
                false
            }
        }
    })
}

/// Text shown on a terminal holds nothing that the terminal obeys, and says what was hidden.
fn terminal(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let (line, lines) = (one_line(text), escape_controls(text));
    assert!(!line.contains(is_unprintable));
    assert!(!lines.contains(|c| is_unprintable(c) && c != '\n'));
    assert_eq!(lines.matches('\n').count(), text.matches('\n').count());
    assert!(line.chars().count() >= text.chars().count());
    assert!(text.contains(is_unprintable) || line == text);
    true
}

/// Whether a model with these files can be loaded.
fn load(files: &[(&str, &[u8])]) -> bool {
    loaded(files).is_some()
}

/// Runs in the place of this thread.
fn with_bench<T>(run: impl FnOnce(&Path) -> T) -> T {
    BENCH.with_borrow_mut(|context| {
        let TestFolder(place) = context.get_or_insert_with(|| {
            let id = format!("{}-{:?}", std::process::id(), std::thread::current().id());
            let place = std::env::temp_dir().join(format!("headscope-fuzz-{id}"));
            fs::create_dir_all(place.join("model")).expect("a temporary folder");
            fs::write(place.join("outside.safetensors"), SHARDS[0]).expect("a temporary file");
            TestFolder(place)
        });
        run(place)
    })
}

/// The model with these files, and a good tokenizer if there is none among them. An error has a message, and nothing
/// else is written.
fn loaded(files: &[(&str, &[u8])]) -> Option<Model> {
    with_bench(|place| {
        let folder = place.join("model");
        fs::write(folder.join("tokenizer.json"), TOKENIZER).expect("a temporary file");
        for (name, bytes) in files {
            fs::write(folder.join(name), bytes).expect("a temporary file");
        }
        let model = ModelRef::Folder(folder.clone()).resolve(&()).and_then(Model::load);
        for (name, _) in files.iter().filter(|(name, _)| *name != "tokenizer.json") {
            fs::remove_file(folder.join(name)).expect("a temporary file");
        }
        assert_eq!(names(&folder), ["tokenizer.json"]);
        assert_eq!(names(place), ["model", "outside.safetensors"]);
        match model {
            Ok(model) => {
                let (grid, config) = (model.grid(), &model.architecture.config);
                assert!(grid.layers > 0 && grid.heads > 0);
                assert_eq!(config.head_dim() * config.num_attention_heads, config.hidden_size);
                Some(model)
            }
            Err(error) => {
                check_message(&error);
                None
            }
        }
    })
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a temporary folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("a temporary file").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
