use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;

use itertools::Itertools as _;

use super::*;
use crate::corpus::{AnnotationOptions, Corpus, CorpusScope, Input, Unit};
use crate::system::errors::ErrorClass;

const CORPUS: &str = "# sent_id = a\n1\tA\t_\t_\t_\t_\t0\troot\t_\t_\n2\tB\t_\t_\t_\t_\t1\tdep\t_\t_\n\n\
                      # sent_id = b\n1\tC\t_\t_\t_\t_\t0\troot\t_\t_\n2\tD\t_\t_\t_\t_\t1\tdep\t_\t_\n3\tE\t_\t_\t_\t_\t1\tdep\t_\t_\n";

/// A folder with a corpus and a file of links.
struct Files {
    folder: tempfile::TempDir,
    corpus: &'static str,
    scope: CorpusScope,
    types: LinkTypeOptions,
}

/// The links of a sentence by type, words counted from 1.
type Found = BTreeMap<String, Vec<(usize, usize)>>;

impl Files {
    fn new(corpus: &'static str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(corpus), text).unwrap();
        Self { folder, corpus, scope: CorpusScope::all_sentences(), types: LinkTypeOptions::default() }
    }

    /// The sentences with the links of a table, or by rules.
    fn read(&self, name: &str, bytes: &[u8]) -> Result<Vec<Sentence>> {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let (mut file, mut rules) = (None, None);
        if path.extension().is_some_and(|end| end == "toml") {
            rules = Some(Arc::new(LinkRules::read(&path)?));
        } else {
            file = Some(Arc::new(LinkFile::read(&path)?));
        }
        let options = LinkOptions { file, rules, types: self.types.clone(), ..LinkOptions::default() };
        let input = Input::parse(&self.folder.path().join(self.corpus), None).unwrap();
        let requested = ["xpos".to_owned()];
        let columns = AnnotationOptions { requested_columns: &requested, links: Some(&options), class_column: None };
        Corpus::open_with(&[input], &self.scope, columns, None)?.collect()
    }

    fn links(&self, table: &str) -> Vec<Found> {
        self.read("links.tsv", table.as_bytes()).unwrap().iter().map(links).collect()
    }

    fn error(&self, name: &str, text: &str) -> String {
        let error = self.read(name, text.as_bytes()).unwrap_err();
        assert_eq!(ErrorClass::from_error(&error), ErrorClass::Input);
        format!("{error:#}").replace(&format!("{}/", self.folder.path().display()), "")
    }
}

fn links(sentence: &Sentence) -> Found {
    let from_1 = |set: &LinkSet| {
        let pairs = set.targets.iter().flat_map(|(from, to)| to.iter().map(move |to| (from + 1, to + 1)));
        (set.link_type.name.to_string(), pairs.collect())
    };
    sentence.links.iter().map(from_1).collect()
}

fn found<const N: usize>(links: [(&str, &[(usize, usize)]); N]) -> Found {
    links.into_iter().map(|(kind, links)| (kind.to_owned(), links.to_vec())).collect()
}

#[test]
fn sentences_are_named_by_ids_and_by_numbers() {
    let files = Files::new("a.conllu", CORPUS);
    let expected = [found([("x", &[(1, 2)])]), found([("x", &[(3, 1)]), ("y", &[(1, 2), (1, 3)])])];
    // A repeated line counts once; columns stand in any order.
    assert_eq!(
        files.links("sentence\tfrom\tto\ttype\na\t1\t2\tx\n\nb\t3\t1\tx\nb\t1\t2\ty\r\nb\t1\t3\ty\nb\t1\t3\ty\n"),
        expected
    );
    assert_eq!(files.links("type,to,from,sentence\nx,2,1,#0\n\"x\",1,3,\"b\"\ny,2,1,#1\ny,3,1,b\n"), expected);
    // JSON lines and proteins have ids, too; a number is an id as text is.
    let json = "{\"id\": 7, \"words\": [\"A\", \"B\"]}\n{\"id\": \"7b\", \"words\": [\"A\", \"B\"], \"links\": {\"x\": [[1, 2]]}}\n";
    let json = Files::new("a.jsonl", json);
    let table = "sentence\tfrom\tto\ttype\n7\t1\t2\tx\n7b\t2\t1\tx\n";
    assert_eq!(json.links(table), [found([("x", &[(1, 2)])]), found([("x", &[(1, 2), (2, 1)])])]);
    let proteins = Files::new("a.fasta", ">P1 made up\nMK\n-TAY\n>P2\nMK\n");
    assert_eq!(proteins.links("sentence\tfrom\tto\ttype\nP1\t1\t5\tc\n"), [found([("c", &[(1, 5)])]), found([])]);
}

#[test]
fn options_say_what_types_are() {
    let mut files = Files::new("a.fasta", ">P1\nMKTAY\n");
    files.types.undirected = BTreeSet::from(["c".to_owned()]);
    files.types.min_distance = BTreeMap::from([("c".to_owned(), 6)]);
    let table = "sentence\tfrom\tto\ttype\nP1\t1\t5\tc\nP1\t1\t2\td\n";
    assert_eq!(files.links(table), [found([("c", &[(1, 5), (5, 1)]), ("d", &[(1, 2)])])]);
    let sentences = files.read("links.tsv", table.as_bytes()).unwrap();
    assert_eq!(sentences[0].links[0].link_type.min_distance, 6);
    files.types.undirected.clear();
    files.types.min_distance = BTreeMap::from([("contacts".to_owned(), 6)]);
    assert_eq!(
        files.error("links.tsv", &table.replace("\tc\n", "\tcontact\n")),
        "--min-distance names the type `contacts`, and links are of `contact`, `d`; did you mean `contact`?"
    );
}

#[test]
fn a_limit_leaves_the_numbers_of_sentences_as_they_are() {
    let mut files = Files::new("a.txt", "");
    let folder = files.folder.path().join("corpus");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("1.conllu"), CORPUS).unwrap();
    fs::write(folder.join("2.conllu"), CORPUS.replace("= a", "= c").replace("= b", "= d")).unwrap();
    files.corpus = "corpus";
    // The first sentence of either file: the second is number 2 of the corpus.
    files.scope = CorpusScope::new(Some(2), Some(Unit::Sentences));
    let links = files.links("sentence\tfrom\tto\ttype\n#1\t1\t2\tx\n#2\t2\t1\ty\n");
    assert_eq!(links, [found([]), found([("y", &[(2, 1)])])]);
}

#[test]
fn tables_are_compressed_as_corpora_are() {
    let files = Files::new("a.conllu", CORPUS);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(b"sentence,from,to,type\na,1,2,x\n").unwrap();
    let sentences = files.read("links.csv.gz", &gzip.finish().unwrap()).unwrap();
    assert_eq!(sentences[0].links.len(), 1);
}

#[test]
fn a_line_that_is_no_link_is_refused() {
    let files = Files::new("a.conllu", CORPUS);
    let tables = [
        "",
        "sentence\tfrom\tto\ttype\n",
        "a\t1\t2\tx\n",
        "sentence,from,to\na,1,2\n",
        "sentence,from,to,type,p\na,1,2,x,.5\n",
        "sentence,from,to,type,to\na,1,2,x,3\n",
        "sentence,from,to,type\na,1,2\n",
        "sentence,from,to,type\na,one,2,x\n",
        "sentence,from,to,type\na,1,0,x\n",
        "sentence,from,to,type\n\na,1,2,\n",
        "sentence,from,to,type\n,1,2,x\n",
        "sentence,from,to,type\na,1,3,x\n",
        "sentence,from,to,type\nb,1,2,x\nb,2,2,x\n",
        "sentence,from,to,type\na,1,2,x\nc,1,2,x\n",
        "sentence,from,to,type\nc,1,2,x\n#9,1,2,x\n",
        "sentence,from,to,type\na,1,2,x\n#2,1,2,x\n",
    ];
    let many: Vec<String> = (0..=100).map(|kind| format!("a,1,2,{kind}\n")).collect();
    let many = format!("sentence,from,to,type\n{}", many.concat());
    let mut errors = tables.into_iter().chain([&*many]).map(|table| files.error("links.tsv", table));
    insta::assert_snapshot!(errors.join("\n"), @r"
    `links.tsv` has no link: the first line names the columns sentence, from, to and type, separated by tabs or commas, and each other line a link
    `links.tsv` has no link: the first line names the columns sentence, from, to and type, separated by tabs or commas, and each other line a link
    links.tsv:1: there is no column `sentence`: `a\t1\t2\tx`: the first line names the columns sentence, from, to and type, separated by tabs or commas
    links.tsv:1: there is no column `type`: `sentence,from,to`: the first line names the columns sentence, from, to and type, separated by tabs or commas
    links.tsv:1: column `p` is none of sentence, from, to, type: leave it out
    links.tsv:1: column `to` is given twice: leave it out
    links.tsv:2: the line has 3 fields, and the first line 4: `a,1,2`
    links.tsv:2: `from` is `one`: expected the number of a word, counted from 1
    links.tsv:2: `to` is `0`: expected the number of a word, counted from 1
    links.tsv:3: a type of links has no name: name it, as in `maps`
    links.tsv:2: `sentence` has 0 bytes: an id has 1 to 256
    links.tsv:2: sentence of a.conllu:1: there is no word 3: the sentence has the words 1 to 2
    links.tsv:3: sentence of a.conllu:5: word 2 is linked to itself: leave that link out
    links.tsv:3: the corpus has no sentence `c`; `sentence` is an id (`# sent_id` of CoNLL-U, the first word of a FASTA header, `id` of JSON lines) or #N, the number of a sentence in the corpus, counted from 0
    links.tsv:2: the corpus has no sentence `c`, nor any other sentence of the file; `sentence` is an id (`# sent_id` of CoNLL-U, the first word of a FASTA header, `id` of JSON lines) or #N, the number of a sentence in the corpus, counted from 0
    links.tsv:3: there is no sentence #2: the corpus has 2 sentences, counted from #0; `sentence` is an id (`# sent_id` of CoNLL-U, the first word of a FASTA header, `id` of JSON lines) or #N, the number of a sentence in the corpus, counted from 0
    links.tsv:102: links are of the type `100`, and there are 100 other types before: leave out the types that are no question of yours
    ");
    let text = Files::new("a.txt", "running text\n");
    let errors = ["#0", "x"].map(|name| text.error("links.tsv", &format!("sentence,from,to,type\n{name},1,2,x\n")));
    insta::assert_snapshot!(errors.join("\n"), @"
    links.tsv:2: a.txt:1 is running text, whose words the tokenizer finds: links are between words: give a corpus of words, CoNLL-U or `words` of JSON lines, or FASTA
    links.tsv:2: the corpus has no sentence `x`, nor any other sentence of the file: its sentences have no ids; `sentence` is an id (`# sent_id` of CoNLL-U, the first word of a FASTA header, `id` of JSON lines) or #N, the number of a sentence in the corpus, counted from 0
    ");
    let twice = Files::new("a.conllu", &CORPUS.replace("= b", "= a"));
    assert_eq!(
        twice.error("links.tsv", "sentence,from,to,type\n#0,1,2,x\na,1,2,x\n"),
        "links.tsv:3: two sentences have the id `a`, a.conllu:1 and a.conllu:5: name the sentence by its number, as in `#1`"
    );
}

#[test]
fn names_that_read_as_numbers_are_ids_or_refused() {
    // Digits alone are a number.
    let files = Files::new("a.conllu", CORPUS);
    let error = files.error("links.tsv", "sentence,from,to,type\n#+1,1,2,x\n");
    insta::assert_snapshot!(error, @"links.tsv:2: the corpus has no sentence `#+1`, nor any other sentence of the file; `sentence` is an id (`# sent_id` of CoNLL-U, the first word of a FASTA header, `id` of JSON lines) or #N, the number of a sentence in the corpus, counted from 0");
    let named = Files::new("a.conllu", &CORPUS.replace("= b", "= #0"));
    let error = named.error("links.tsv", "sentence,from,to,type\na,1,2,x\n");
    assert_eq!(
        error,
        "the id `#0` of the sentence of a.conllu:5 reads as the number of a sentence: give the sentence another id, or none and name \
            it `#1`"
    );
}

#[test]
fn types_of_a_single_line_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("links.tsv");
    let single = |table: &str| {
        fs::write(&path, table).unwrap();
        LinkFile::read(&path).unwrap().types_with_one_link().join(" ")
    };
    assert_eq!(single("sentence,from,to,type\na,1,2,x\na,1,3,x\na,1,2,y\n"), "y");
    assert_eq!(single("sentence,from,to,type\na,1,2,x\n"), "");
}

/// Six words: form, lemma, UPOS, feature, head and relation.
const TREE: [[&str; 6]; 6] = [
    ["Cats", "cat", "NOUN", "Number=Plur", "2", "nsubj"],
    ["sleep", "sleep", "VERB", "Number=Plur", "0", "root"],
    [",", ",", "PUNCT", "_", "2", "punct"],
    ["dogs", "dog", "NOUN", "Number=Plur", "5", "nsubj"],
    ["barked", "bark", "VERB", "Tense=Past", "2", "conj"],
    [",", ",", "PUNCT", "_", "5", "punct"],
];

fn tree() -> String {
    let row = |(id, [form, lemma, upos, feats, head, relation]): (usize, [&str; 6])| {
        format!("{id}\t{form}\t{lemma}\t{upos}\tX{id}\t{feats}\t{head}\t{relation}\t_\tGloss={upos}\n")
    };
    (1..).zip(TREE).map(row).collect()
}

#[test]
fn rules_make_links_of_annotations() {
    let files = Files::new("a.conllu", &tree());
    for (rule, expected) in [
        ("from = { upos = 'VERB' }\nto = { form = ',' }\nside = 'right'\nnearest = true", &[(2, 3), (5, 6)][..]),
        ("from = { upos = 'VERB' }\nto = { form = ',' }", &[(2, 3), (2, 6), (5, 3), (5, 6)]),
        ("from = { upos = 'VERB' }\nto = { form = ',' }\nwithin = 2", &[(2, 3), (5, 3), (5, 6)]),
        // Of a comma on either side the nearer one.
        ("from = { upos = 'VERB' }\nto = { form = ',' }\nnearest = true", &[(2, 3), (5, 6)]),
        // Of two that are as near, the left one.
        ("from = { form = ',' }\nto = { lemma = ['sleep', 'dog'] }\nnearest = true", &[(3, 2), (6, 4)]),
        ("from = { upos = 'NOUN' }\nto = { upos = 'NOUN' }\nsame = 'feats.Number'", &[(1, 4), (4, 1)]),
        ("from = { upos = 'NOUN' }\nto = { upos = 'VERB' }\nsame = ['feats.Number']", &[(1, 2), (4, 2)]),
        ("from = { feats.Tense = 'Past' }\nto = { deprel = 'nsubj' }\nside = 'left'", &[(5, 1), (5, 4)]),
        (
            "from = { form = { pattern = '^[A-Z]' } }\nto = { feats.Number = { pattern = '.' }, upos = 'VERB' }",
            &[(1, 2)],
        ),
        ("from = { xpos = 'X6' }\nto = { misc.Gloss = ['VERB', 'X'] }", &[(6, 2), (6, 5)]),
        ("from = { form = { pattern = '.' } }\nto = { form = 'Cats' }\nwithin = 2", &[(2, 1), (3, 1)]),
        ("from = { upos = 'VERB' }\nto = { form = '!' }", &[]),
    ] {
        let sentences = files.read("rules.toml", format!("[r]\n{rule}\n").as_bytes()).unwrap();
        let expected = if expected.is_empty() { found([]) } else { found([("r", expected)]) };
        assert_eq!(links(&sentences[0]), expected, "{rule}");
        // A word keeps the columns of the run, and none of the rules.
        let Content::Words(words) = &sentences[0].content else { panic!("CoNLL-U has words") };
        assert_eq!(words[5].annotation.requested.as_ref(), [Some(Box::from("X6"))]);
    }
}

#[test]
fn what_is_no_rule_is_refused_with_its_line() {
    let files = Files::new("a.conllu", &tree());
    let verb = "from = { upos = 'VERB' }\nto = { form = ',' }\n";
    let rules = [
        String::new(),
        "from = 'VERB'\n".to_owned(),
        "[r\n".to_owned(),
        "[r]\nto = { form = ',' }\n".to_owned(),
        format!("[r]\n{verb}[s]\nfrom = {{ upos = 'VERB' }}\n"),
        "[r]\nfrom = {}\n".to_owned(),
        "[r]\nfrom = { feats = {} }\n".to_owned(),
        "[r]\nfrom = { form = { patern = 'a' } }\n".to_owned(),
        format!("[r]\n{verb}same = []\n"),
        "[r]\nfrom = { upso = 'VERB' }\nto = { form = ',' }\n".to_owned(),
        format!("[r]\n{verb}nearst = true\n"),
        format!("[r]\n{verb}side = 'up'\n"),
        format!("[r]\n{verb}within = 0\n"),
        format!("[r]\n{verb}nearest = 'yes'\n"),
        format!("[r]\n{verb}same = 3\n"),
        "[r]\nfrom = 'VERB'\n".to_owned(),
        "[r]\nfrom = { upos = 3 }\n".to_owned(),
        "[r]\nfrom = { upos = [] }\n".to_owned(),
        "[r]\nfrom = { form = { pattern = '(' } }\n".to_owned(),
        format!("['']\n{verb}"),
    ];
    let errors = rules.map(|rules| files.error("rules.toml", &rules));
    insta::assert_snapshot!(errors.join("\n"), @r#"
    `rules.toml` has no rule: write a table for each type of links
    rules.toml:1: `from` stands in no rule: write the name of a type above it, as in [comma]
    rules.toml:1: unclosed table, expected `]`
    rules.toml:1: rule `r` has no `from`: say which words, as in from = { upos = "VERB" }
    rules.toml:4: rule `s` has no `to`: say which words, as in to = { upos = "VERB" }
    rules.toml:2: `from` of rule `r` must be at least one condition, as { form = { pattern = "." } } of every word
    rules.toml:2: `feats` must be a text, a list of texts or { pattern = "..." }
    rules.toml:2: `form` must be a text, a list of texts or { pattern = "..." }
    rules.toml:4: `same` of rule `r` must be the name of an annotation, or a list of names
    CoNLL-U has no column `upso`: lemma, upos, xpos, feats, deprel, deps, misc, or an entry as in `feats.Number`; did you mean `upos`?
    rules.toml:4: rule `r` has no key `nearst`: from, to, same, side, within, nearest; did you mean `nearest`?
    rules.toml:4: `side` of rule `r` must be "left" or "right"
    rules.toml:4: `within` of rule `r` must be a number of words, 1 or more
    rules.toml:4: `nearest` of rule `r` must be true or false
    rules.toml:4: `same` of rule `r` must be the name of an annotation, or a list of names
    rules.toml:2: `from` of rule `r` must be a table of conditions, as in { upos = "VERB" }
    rules.toml:2: `upos` must be a text, a list of texts or { pattern = "..." }
    rules.toml:2: `upos` must be a text, a list of texts or { pattern = "..." }
    rules.toml:2: `(` is no pattern: Parsing error at position 1: Opening parenthesis without closing parenthesis
    rules.toml:1: a type of links has no name: name it, as in `maps`
    "#);
    // 4,000 words, each with each other: 16 million pairs and no link.
    let words: Vec<String> = (1..=4000).map(|id| format!("{id}\tA\t_\t_\t_\t_\t_\t_\t_\t_\n")).collect();
    let words = words.concat();
    let long = Files::new("a.conllu", &words);
    let all = "[r]\nfrom = { form = 'A' }\nto = { form = 'A' }\nsame = 'lemma'\n";
    insta::assert_snapshot!(long.error("rules.toml", all), @"rules.toml:1: rule `r` has more than 10000000 pairs of words to look at in the sentence of a.conllu:1: add `within`, or split the sentence");
    assert!(long.read("rules.toml", format!("{all}within = 1000\n").as_bytes()).is_ok());
    let text = Files::new("a.txt", "running text\n");
    insta::assert_snapshot!(text.error("rules.toml", &format!("[r]\n{verb}")), @"rules.toml:1: a.txt:1 is running text, whose words the tokenizer finds: rules are about words: give CoNLL-U, or `words` of JSON lines");
}
