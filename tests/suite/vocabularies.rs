//! Vocabularies that a default tokenizer cannot read, and vocabularies of residues, with the real binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::answers::Answers;
use crate::support::{fixture, headscope, outcome, path, run, tiny_bert};
use serde_json::{Value, json};
use tempfile::TempDir;

const SPECIAL: &str = "[PAD] [UNK] [CLS] [SEP] [MASK]";

/// Tokens of reactions: atoms, bonds, rings, and the arrow between both sides.
const REACTIONS: &str = "c C ( ) O 1 2 = N . n Cl >> [C@H] [C@@H] [O-] Br # [nH] [N+] [Na+] Si";

/// The twenty amino acids, and X for an unknown residue.
pub const AMINO_ACIDS: &str = "A C D E F G H I K L M N P Q R S T V W Y X";

/// The tiny BERT with a `vocab.txt` of these tokens instead of its tokenizer, and with other files.
pub fn model(vocabulary: &str, files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(tiny_bert().join(name), folder.path().join(name)).unwrap();
    }
    let tokens: Vec<&str> = SPECIAL.split(' ').chain(vocabulary.split(' ')).collect();
    write(&folder, "vocab.txt", &(tokens.join("\n") + "\n"));
    for (name, text) in files {
        write(&folder, name, text);
    }
    folder
}

fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

/// The count of each token in a corpus, and the notes on standard error.
fn counts(model: &TempDir, corpus: &Path, more: &[&str]) -> (BTreeMap<String, u64>, String) {
    let file = model.path().join("counts.json");
    let arguments = [&["counts", path(model.path()), "-c", path(corpus), "-o", path(&file)], more].concat();
    let output = headscope(&arguments).output().unwrap();
    outcome(&output).unwrap();
    let counts = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    (counts, String::from_utf8(output.stderr).unwrap())
}

/// Counts of tokens, given as `C:2 O:1`.
fn expected(counts: &str) -> BTreeMap<String, u64> {
    let parse_pair = |pair: &str| {
        let (token, count) = pair.rsplit_once(':').unwrap();
        (token.to_owned(), count.parse().unwrap())
    };
    counts.split(' ').map(parse_pair).collect()
}

fn report(model: &TempDir, corpus: &Path, more: &[&str]) -> Value {
    let arguments = [&["analyze", path(model.path()), "-c", path(corpus), "-o", "-", "--no-run-info"], more].concat();
    serde_json::from_str(&run(&arguments).unwrap()).unwrap()
}

/// The error of a command over a model and a corpus.
fn error(command: &[&str], model: &TempDir, corpus: &Path) -> (i32, String) {
    run(&[command, &[path(model.path()), "-c", path(corpus)]].concat()).unwrap_err()
}

#[test]
fn tokenizer_that_loses_its_vocabulary_is_refused_with_hints() {
    let model = model(REACTIONS, &[]);
    let corpus = write(&model, "a.txt", "CC(=O)O>>CC(=O)Cl\n");
    let (counts, maps) = (model.path().join("counts.json"), model.path().join("maps.safetensors"));
    let mut answers = Answers::within(model.path());
    for command in
        [&["analyze"][..], &["counts", "-o", path(&counts)], &["view", "--head", "L0H0"], &["maps", "-o", path(&maps)]]
    {
        answers.refused(command[0], &error(command, &model, &corpus));
    }
    assert!(!maps.exists());
    answers.held("vocabularies-lost");
}

#[test]
fn tokens_as_words_looks_words_up_in_the_vocabulary() {
    let model = model(REACTIONS, &[]);
    let text = "C [C@H] ( = O ) Cl >> C\nc 1 n C ##C [SEP] c\n";
    let words = |line: &str| json!({ "words": line.split(' ').collect::<Vec<_>>() }).to_string() + "\n";
    let lines: String = text.lines().map(words).collect();
    let (text, lines) = (write(&model, "a.txt", text), write(&model, "a.jsonl", &lines));
    let once = "[C@H]:1 (:1 =:1 O:1 ):1 Cl:1 >>:1 1:1 n:1 [UNK]:1 [SEP]:1 C:3 c:2";
    for corpus in [&text, &lines] {
        assert_eq!(counts(&model, corpus, &["--tokens-as-words"]), (expected(once), String::new()));
        let report = report(&model, corpus, &["--tokens-as-words", "--without", "trees,dependency"]);
        assert_eq!(report["settings"]["tokens_as_words"], true);
        assert_eq!((&report["corpus"]["words"], &report["corpus"]["text"]["unknown_tokens"]), (&16.into(), &1.into()));
        let round_trip = &report["model"]["tokenizer"]["round_trip"];
        assert_eq!((&round_trip["entries"], &round_trip["given_back"]), (&22.into(), &9.into()), "{round_trip}");
        assert_eq!(round_trip["example"], json!({ "entry": "O", "tokens": ["[UNK]"] }));
    }
}

#[test]
fn lower_casing_of_a_cased_vocabulary_gets_a_note() {
    let vocabulary = "the The cat Cat dog Dog a A ferry Ferry left . ,";
    let plain = model(vocabulary, &[]);
    let corpus = write(&plain, "a.txt", "The Cat left.\n");
    let (lower, notes) = counts(&plain, &corpus, &[]);
    assert_eq!(lower, expected("the:1 cat:1 left:1 .:1"));
    let mut answers = Answers::new();
    answers.said("a cased vocabulary", &notes);
    answers.held("vocabularies-cased");
    let cased = model(vocabulary, &[("tokenizer_config.json", r#"{"do_lower_case": false}"#)]);
    assert_eq!(counts(&cased, &corpus, &[]), (expected("The:1 Cat:1 left:1 .:1"), String::new()));
}

#[test]
fn missing_tokenizer_error_names_every_form() {
    let model = model("a", &[("notes.md", "")]);
    fs::remove_file(model.path().join("vocab.txt")).unwrap();
    let mut answers = Answers::within(model.path());
    answers.refused("no tokenizer", &run(&["analyze", path(model.path())]).unwrap_err());
    answers.held("vocabularies-no-tokenizer");
}

#[test]
fn tokens_beyond_the_embedding_are_refused_in_a_text() {
    let words: Vec<String> = (0..191).map(|n| format!("w{n}")).collect();
    // The embedding has 196 rows.
    let model = model(&words.join(" "), &[("added_tokens.json", r#"{"later": 196, "<ent>": 197}"#)]);
    let without = write(&model, "a.txt", "w1 w2 w190\n");
    assert_eq!(counts(&model, &without, &[]).0, expected("w1:1 w2:1 w190:1"));
    let with = write(&model, "b.txt", "w1 w2\nw1 later w2\n");
    let mut answers = Answers::within(model.path());
    answers.refused("an added token", &error(&["analyze"], &model, &with));
    answers.held("vocabularies-beyond-the-embedding");
}

/// The line of a summary about the corpus.
fn corpus_line(summary: &str) -> &str {
    summary.lines().find(|line| line.contains("corpus  ")).unwrap()
}

pub const CASED: (&str, &str) = ("tokenizer_config.json", r#"{"do_lower_case": false}"#);

#[test]
fn proteins_are_split_into_the_residues_of_the_vocabulary() {
    let lower = model(AMINO_ACIDS, &[]);
    let fasta = write(&lower, "a.fasta", ">p\nMKTA\n>q\nmkx\n");
    let mut answers = Answers::within(lower.path());
    answers.refused("lower-cased", &error(&["analyze"], &lower, &fasta));
    let model = model(AMINO_ACIDS, &[CASED]);
    let spaced = write(&model, "b.txt", "M K T A\nM K X\n");
    let letters = write(&model, "c.txt", "MKTA\nMKX\n");
    for corpus in [&fasta, &spaced, &letters] {
        let (actual, notes) = counts(&model, corpus, &[]);
        assert_eq!(actual, expected("M:2 K:2 T:1 A:1 X:1"));
        answers.said(path(corpus), &notes);
    }
    let masked = write(&model, "d.txt", "MK[MASK]A\n");
    assert_eq!(counts(&model, &masked, &[]).0, expected("M:1 K:1 [MASK]:1 A:1"));
    let unparted = expected("[UNK]:2");
    assert_eq!(counts(&model, &fasta, &["--residues", "letters"]), (unparted, String::new()));
    let report = report(&model, &fasta, &[]);
    assert_eq!(
        (&report["model"]["residues"], &report["model"]["tokenizer"]["residues"]),
        (&true.into(), &"spaced".into())
    );
    assert_eq!((&report["corpus"]["sentences"], &report["corpus"]["words"]), (&2.into(), &7.into()));
    let summary = run(&["analyze", "--summary", "full", path(model.path()), "-c", path(&fasta)]).unwrap();
    answers.said("the summary", corpus_line(&summary));
    answers.held("vocabularies-proteins");
    assert!(!summary.contains("not one of proteins"), "{summary}");
}

#[test]
fn sequences_are_split_into_the_k_mers_of_the_vocabulary() {
    let letters = ["A", "C", "G", "T"];
    let word = |n: usize| [letters[n / 16], letters[n / 4 % 4], letters[n % 4]].concat();
    let words: Vec<String> = (0..64).map(word).collect();
    let model = model(&words.join(" "), &[CASED]);
    let corpus = write(&model, "a.fa", ">p\nACGTAC\n");
    let (actual, notes) = counts(&model, &corpus, &[]);
    assert_eq!(actual, expected("ACG:1 CGT:1 GTA:1 TAC:1"));
    let mut answers = Answers::new();
    answers.said("the counts", &notes);
    assert_eq!(counts(&model, &corpus, &["--residues", "kmer:3:3"]).0, expected("ACG:1 TAC:1"));
    let summary = run(&["analyze", "--summary", "full", path(model.path()), "-c", path(&corpus)]).unwrap();
    answers.said("the summary", corpus_line(&summary));
    answers.refused("kmer:0", &error(&["counts", "-o", "x.json", "--residues", "kmer:0"], &model, &corpus));
    answers.held("vocabularies-k-mers");
}

#[test]
fn mask_in_fasta_is_refused_with_a_hint() {
    let model = model(AMINO_ACIDS, &[CASED]);
    let corpus = write(&model, "a.fasta", ">p\nMK<mask>A\n");
    let mut answers = Answers::within(model.path());
    answers.refused("a mask in FASTA", &error(&["analyze"], &model, &corpus));
    answers.held("vocabularies-mask-in-fasta");
}

/// CoNLL-U of sentences that are given as words separated by spaces.
fn conllu(sentences: &[&str]) -> String {
    let word = |(id, form): (usize, &str)| format!("{id}\t{form}\t_\t_\t_\t_\t_\t_\t_\t_\n");
    sentences.iter().map(|words| (1..).zip(words.split(' ')).map(word).collect::<String>() + "\n").collect()
}

#[test]
fn japanese_treebank_words_are_split_into_subwords() {
    let vocabulary = "東京 東 京 は ある 大学 大 ##学 ##た ある ##ます 。 a b 行く 日本 学生 先生";
    let plain = model(vocabulary, &[]);
    let treebank = write(&plain, "a.conllu", &conllu(&["東京 は 大学 東学 。", "ある ｂ 京 新"]));
    // BERT's tokenizer splits Chinese characters.
    let mut answers = Answers::within(plain.path());
    answers.refused("no settings", &error(&["analyze"], &plain, &treebank));
    let settings = r#"{"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab"}"#;
    let unnamed = r#"{"word_tokenizer_type": "mecab", "do_lower_case": false}"#;
    for settings in [settings, unnamed] {
        let model = model(vocabulary, &[("tokenizer_config.json", settings)]);
        let actual = counts(&model, &treebank, &[]).0;
        assert_eq!(actual, expected("東京:1 は:1 大学:1 東:1 ##学:1 。:1 ある:1 b:1 京:1 [UNK]:1"));
        let text = write(&model, "a.txt", "東京は大学。\n");
        answers = answers.hiding(path(model.path()), "DIR");
        answers.refused(settings, &error(&["analyze"], &model, &text));
    }
    answers.held("vocabularies-japanese");
    let characters = r#"{"word_tokenizer_type": "mecab", "subword_tokenizer_type": "character"}"#;
    let character_model = model("東 京 は 大 学 。", &[("tokenizer_config.json", characters)]);
    let actual = counts(&character_model, &treebank, &[]).0;
    assert_eq!(actual, expected("東:2 京:2 は:1 大:1 学:2 。:1 [UNK]:4"));
}

#[test]
fn vietnamese_treebank_words_are_split_by_bpe_codes() {
    let model = TempDir::new().unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(tiny_bert().join(name), model.path().join(name)).unwrap();
    }
    write(&model, "vocab.txt", "tôi 9\nsinh_viên 7\nnh@@ 5\nà 4\nà@@ 3\n. 9\n");
    write(&model, "bpe.codes", "n h 9\nt ô 8\ntô i</w> 7\ns i 5\n");
    let treebank = write(&model, "a.conllu", &conllu(&["tôi nhà .", "à nhz"]));
    // The last piece is not in the vocabulary.
    assert_eq!(counts(&model, &treebank, &[]).0, expected("tôi:1 nh@@:2 à:2 .:1 <unk>:1"));
    let text = write(&model, "a.txt", "tôi nhà .\n");
    let mut answers = Answers::within(model.path());
    answers.refused("running text", &error(&["analyze"], &model, &text));
    answers.held("vocabularies-vietnamese");
    write(&model, "tokenizer_config.json", r#"{"tokenizer_class": "BertweetTokenizer"}"#);
    assert_eq!(counts(&model, &text, &[]).0, expected("tôi:1 nh@@:1 à:1 .:1"));
}

/// The tiny model of a family whose files lack a tokenizer, with the tokenizer of the tiny BERT.
fn family_model(name: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (from, file) in [
        (fixture("models").join(name), "config.json"),
        (fixture("models").join(name), "model.safetensors"),
        (tiny_bert(), "tokenizer.json"),
    ] {
        fs::copy(from.join(file), folder.path().join(file)).unwrap();
    }
    folder
}

#[test]
fn models_without_positions_have_no_maximum_length() {
    let text = "the dog ".repeat(400);
    for name in ["tiny-t5", "tiny-jina-v2"] {
        let model = family_model(name);
        let corpus = write(&model, "a.txt", &text);
        let report = report(&model, &corpus, &["--max-tokens", "1000"]);
        assert_eq!((&report["corpus"]["sentences"], &report["corpus"]["words"]), (&1.into(), &800.into()), "{name}");
    }
    let bert = family_model("tiny-bert");
    let corpus = write(&bert, "a.txt", &text);
    let mut answers = Answers::new();
    answers.refused("--max-tokens 1000", &error(&["analyze", "--max-tokens", "1000"], &bert, &corpus));
    answers.held("vocabularies-positions");
}

#[test]
fn long_text_is_viewed_only_with_truncate() {
    let text = "the dog ".repeat(100);
    let model = tiny_bert();
    let maps = TempDir::new().unwrap();
    let file = maps.path().join("maps.safetensors");
    let view = ["view", path(&model), "--head", "L0H0", "--text", &text];
    let mut answers = Answers::within(maps.path());
    answers.refused("a text", &run(&view).unwrap_err());
    // A corpus with nothing left to analyse gets the hint of a long text, whatever the command.
    let corpus = maps.path().join("long.txt");
    fs::write(&corpus, format!("{text}\n")).unwrap();
    for command in [&["analyze", "-q"][..], &["view", "--head", "L0H0"], &["view", "-o", path(&file)]] {
        let refusal = run(&[command, &[path(&model), "-c", path(&corpus)]].concat()).unwrap_err();
        answers.refused(&command.join(" "), &refusal);
    }
    assert!(run(&[&view[..], &["--truncate"]].concat()).unwrap().contains("dog"));
    run(&["maps", path(&model), "--text", &text, "--truncate", "--max-tokens", "12", "-o", path(&file)]).unwrap();
    let bytes = fs::read(&file).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("\"shape\":[3,4,12,12]"));
    let treebank = run(&["view", path(&model), "--head", "L0H0", "-c", "box:gold", "--truncate"]).unwrap_err();
    answers.refused("a treebank", &treebank);
    answers.held("vocabularies-long-text");
}

#[test]
fn first_module_of_a_sentence_encoder_is_the_model() {
    let folder = TempDir::new().unwrap();
    let module = folder.path().join("0_Transformer");
    fs::create_dir(&module).unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        fs::copy(tiny_bert().join(name), module.join(name)).unwrap();
    }
    let corpus = write(&folder, "a.txt", "the dog\n");
    write(&folder, "config.json", r#"{"__version__": "0.2.6"}"#);
    let outer = report(&folder, &corpus, &[]);
    let id = folder.path().file_name().unwrap().to_str().unwrap();
    assert_eq!((&outer["model"]["id"], &outer["model"]["layers"]), (&id.into(), &3.into()));
    fs::remove_file(folder.path().join("config.json")).unwrap();
    assert_eq!(report(&folder, &corpus, &[])["heads"], outer["heads"]);
    fs::remove_file(module.join("tokenizer.json")).unwrap();
    let mut answers = Answers::within(folder.path());
    answers.refused("of the module", &error(&["analyze"], &folder, &corpus));
    // A model beside the module comes first.
    fs::copy(tiny_bert().join("config.json"), folder.path().join("config.json")).unwrap();
    answers.refused("beside it", &error(&["analyze"], &folder, &corpus));
    answers.held("vocabularies-first-module");
}
