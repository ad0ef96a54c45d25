//! Whether a model could read its corpus: checks of the input, what is said where one fails, and the labels that are then not firm.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::answers::Answers;
use crate::support::{fixture, headscope, parts_add_up, path, run};
use crate::vocabularies::{AMINO_ACIDS, CASED, model};
use serde_json::Value;
use tempfile::TempDir;

/// The least share of a corpus that most checks fail at.
const TEXT: &str =
    "health_unparted = 1\nhealth_foreign_script = 1\nhealth_unknown_tokens = 1\nhealth_tokens_per_word = 99\n";

/// A file of this many lines.
fn lines(folder: &TempDir, name: &str, count: usize, line: impl Fn(usize) -> String) -> PathBuf {
    let file = folder.path().join(name);
    fs::write(&file, (0..count).map(|number| line(number) + "\n").collect::<String>()).unwrap();
    file
}

/// Six words of a list, others on each line.
fn six(words: &str, number: usize) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let word =
        |place: usize| words[(number / words.len().pow(u32::try_from(place % 3).unwrap()) + 5 * place) % words.len()];
    (0..6).map(word).collect::<Vec<_>>().join(" ")
}

fn analyze(model: &str, corpus: &Path, more: &[&str]) -> Value {
    let common = ["analyze", model, "-c", path(corpus), "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&common[..], more].concat()).unwrap()).unwrap()
}

fn failing(report: &Value) -> Vec<&str> {
    let checks = report["corpus"]["health"].as_array().unwrap();
    assert_eq!(checks.len(), 9);
    checks.iter().filter(|check| check["fails"] == true).map(|check| check["id"].as_str().unwrap()).collect()
}

fn value(report: &Value, id: &str) -> f64 {
    let checks = report["corpus"]["health"].as_array().unwrap();
    checks.iter().find(|check| check["id"] == id).unwrap()["value"].as_f64().unwrap()
}

/// How many labels are firm, and how many there are.
fn labels(report: &Value) -> [usize; 2] {
    let labels = report["heads"].as_array().unwrap().iter().flat_map(|head| {
        head["labels"].as_array().unwrap().iter().chain(Some(&head["chooses"]).filter(|chooses| !chooses.is_null()))
    });
    let labels: Vec<&Value> = labels.collect();
    [labels.iter().filter(|label| label["borderline"] == false).count(), labels.len()]
}

#[test]
fn what_a_model_can_read_fails_no_check() {
    let gold = fixture("corpus/gold.conllu");
    for model in ["box:small", "box:planted", "box:causal"] {
        let report = analyze(model, &gold, &[]);
        assert_eq!(failing(&report), [""; 0], "{model}: {}", report["corpus"]["health"]);
        assert!(labels(&report)[0] > 0, "{model}");
        run(&["analyze", model, "-c", path(&gold), "--strict", "-q", "-o", "-"]).unwrap();
    }
}

/// An input that a model cannot read, and the checks that fail.
struct Unread<'a> {
    model: &'a str,
    corpus: PathBuf,
    more: &'a [&'a str],
    fails: &'a [&'a str],
}

#[test]
fn what_a_model_cannot_read_is_said_first_and_gives_no_firm_label() {
    let folder = TempDir::new().unwrap();
    let proteins = model(AMINO_ACIDS, &[CASED]);
    let cased = model("the The cat Cat dog Dog a A ferry Ferry left came . ,", &[]);
    let letter = |number: usize| char::from(b"ACDEFGHIKLMNPQRSTVWY"[number % 20]);
    let fasta = lines(&folder, "a.fasta", 100, |number| {
        format!(">p{number}\n{}", (0..40).map(|place| letter(number * place + number / 20 + place)).collect::<String>())
    });
    let bases = |number: usize, length: usize| -> String {
        (0..length).map(|place| char::from(b"ACGT"[(number >> (2 * place)) % 4])).collect()
    };
    let kmers = model(&(0..64).map(|number| bases(number, 3)).collect::<Vec<_>>().join(" "), &[CASED]);
    let dna =
        lines(&folder, "dna.fasta", 100, |number| format!(">d{number}\n{}", bases(number * 0x9_e377_9b97 + 1, 24)));
    let greek = "η γάτα κοιμάται στο παλιό σπίτι και ο σκύλος τρέχει πίσω από τα παιδιά";
    let unread = [
        Unread {
            model: path(proteins.path()),
            corpus: fasta,
            more: &["--residues", "letters"],
            fails: &["unparted", "unknown_tokens", "one_token_sentences"],
        },
        Unread {
            model: path(kmers.path()),
            corpus: dna,
            more: &["--residues", "letters"],
            fails: &["unparted", "unknown_tokens", "one_token_sentences"],
        },
        Unread {
            model: "box:small",
            corpus: lines(&folder, "greek.txt", 120, |number| six(greek, number)),
            more: &[],
            fails: &["foreign_script", "unknown_tokens"],
        },
        Unread {
            model: "box:planted",
            corpus: lines(&folder, "finnish.txt", 120, |number| {
                six("kissa nukkuu vanhassa talossa koira juoksee", number)
            }),
            more: &[],
            fails: &["unknown_tokens"],
        },
        Unread {
            model: "box:small",
            corpus: lines(&folder, "hex.txt", 120, |number| format!("{0:x} {0:o}", 0x9_e377_9b97_f4a7 * number)),
            more: &[],
            fails: &["tokens_per_word"],
        },
        Unread {
            model: path(cased.path()),
            corpus: lines(&folder, "cased.txt", 120, |number| six("the The cat Cat dog Dog left came", number)),
            more: &[],
            fails: &["lower_cased"],
        },
        Unread {
            model: "box:small",
            corpus: fixture("corpus/gold.conllu"),
            more: &["--max-tokens", "12"],
            fails: &["skipped"],
        },
    ];
    let mut answers = Answers::within(folder.path());
    let mut given = 0;
    for Unread { model, corpus, more, fails } in unread {
        let report = analyze(model, &corpus, more);
        let shown = path(&corpus);
        assert_eq!(failing(&report), fails, "{shown}: {}", report["corpus"]["health"]);
        let [firm, all] = labels(&report);
        assert_eq!(firm, 0, "{shown}");
        given += all;
        let first = report["in_brief"][0].as_str().unwrap();
        answers.said(shown, first);
        let brief = report["in_brief"].to_string();
        assert!(!brief.contains("more sentences like these") && !brief.contains("but not significantly"), "{brief}");
        let arguments = [&["analyze", model, "-c", shown], more].concat();
        for summary in ["brief", "full"] {
            let said = run(&[&arguments[..], &["--summary", summary]].concat()).unwrap();
            assert!(said.replace('\n', " ").starts_with(first), "{said}");
            assert_eq!(said.matches("No label is firm").count(), 1, "{said}");
        }
        if report["corpus"]["skipped"]["too_many_tokens"] == 0 {
            let saved = folder.path().join("strict.json");
            let refused = run(&[&arguments[..], &["--strict", "-q", "-o", path(&saved)]].concat()).unwrap_err();
            answers.refused(&format!("{shown} --strict"), &refused);
            assert!(!saved.exists());
        }
    }
    assert!(given > 0, "labels that are not firm");
    answers.held("health-unread");
}

#[test]
fn copies_and_few_units_take_no_firmness_by_themselves() {
    let folder = TempDir::new().unwrap();
    let gold = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let corpus = folder.path().join("copies.conllu");
    fs::write(&corpus, gold.repeat(3)).unwrap();
    let [once, copies] = [&fixture("corpus/gold.conllu"), &corpus].map(|corpus| analyze("box:small", corpus, &[]));
    assert_eq!(failing(&copies), ["repeated"]);
    assert!(labels(&copies)[0] > 0 && labels(&copies)[0] == labels(&once)[0], "{:?}", labels(&copies));
    let mut answers = Answers::new();
    let remark = |more: &[&str]| {
        let said = run(&[&["analyze", "box:small", "-c"], more].concat()).unwrap();
        said.lines().find(|line| line.starts_with("The corpus: ")).unwrap().to_owned()
    };
    answers.said("each sentence three times", &remark(&[path(&corpus)]));
    // A limit takes few documents of fifty sentences.
    let mut documents = String::new();
    for (number, sentence) in gold.split_inclusive("\n\n").enumerate() {
        let plain = sentence.split_inclusive('\n').filter(|line| !line.starts_with("# family"));
        documents.extend([if number % 50 == 0 { "# newdoc\n" } else { "" }].into_iter().chain(plain));
    }
    let corpus = folder.path().join("documents.conllu");
    fs::write(&corpus, documents).unwrap();
    let report = analyze("box:small", &corpus, &["--limit", "200"]);
    assert_eq!((failing(&report), value(&report, "units")), (vec!["units"], 4.0));
    answers.said("few documents", &remark(&[path(&corpus), "--limit", "200"]));
    answers.held("health-copies-and-few-units");
}

#[test]
fn a_policy_judges_the_same_counts_and_firm_labels_come_back() {
    let folder = TempDir::new().unwrap();
    let corpus =
        lines(&folder, "finnish.txt", 120, |number| six("kissa nukkuu vanhassa talossa koira juoksee", number));
    let (saved, policy) = (folder.path().join("a.json"), folder.path().join("policy.toml"));
    fs::write(&policy, TEXT).unwrap();
    run(&["analyze", "box:planted", "-c", path(&corpus), "--no-run-info", "-q", "-o", path(&saved)]).unwrap();
    let relabelled = run(&["relabel", path(&saved), "--policy", path(&policy), "-o", "-"]).unwrap();
    let relabelled: Value = serde_json::from_str(&relabelled).unwrap();
    assert_eq!(relabelled, analyze("box:planted", &corpus, &["--policy", path(&policy)]));
    assert!(failing(&relabelled).is_empty() && labels(&relabelled)[0] > 0);
    // And are taken away again.
    let again = folder.path().join("b.json");
    fs::write(&again, relabelled.to_string()).unwrap();
    fs::write(&policy, "health_unknown_tokens = 0.05\n").unwrap();
    let back: Value =
        serde_json::from_str(&run(&["relabel", path(&again), "--policy", path(&policy), "-o", "-"]).unwrap()).unwrap();
    assert_eq!((labels(&back)[0], failing(&back)), (0, vec!["unknown_tokens"]));
}

#[test]
fn shards_add_up_to_the_same_health() {
    let folder = TempDir::new().unwrap();
    let saved = folder.path().join("whole.json");
    let corpus = lines(&folder, "greek.txt", 600, |number| {
        format!("{} {}", six("η γάτα κοιμάται στο σπίτι", number), six("kissa NUKKUU talossa", number))
    });
    let arguments = ["analyze", "box:small", "--no-run-info", "-q", "-c", path(&corpus)];
    run(&[&arguments[..], &["-o", path(&saved)]].concat()).unwrap();
    parts_add_up(&arguments, &saved);
    let report: Value = serde_json::from_slice(&fs::read(&saved).unwrap()).unwrap();
    assert!((0.3..0.8).contains(&value(&report, "foreign_script")), "{}", report["corpus"]);
    assert!(report["corpus"]["text"]["foreign_letters"]["Greek"].as_u64().unwrap() > 1000);
}

#[test]
fn comparisons_say_which_side_was_not_read_and_call_nothing_lost() {
    let folder = TempDir::new().unwrap();
    let corpus =
        lines(&folder, "finnish.txt", 120, |number| six("kissa nukkuu vanhassa talossa koira juoksee", number));
    let [read, unread] = ["read.json", "unread.json"].map(|name| folder.path().join(name));
    run(&["analyze", "box:planted", "-q", "-o", path(&read)]).unwrap();
    run(&["analyze", "box:planted", "-c", path(&corpus), "-q", "-o", path(&unread)]).unwrap();
    let mut answers = Answers::within(folder.path());
    for numbers in [&[][..], &["--numbers"]] {
        // The status is 1 where numbers changed.
        let output = headscope(&[&["compare", path(&read), path(&unread)], numbers].concat()).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let unread = said.lines().filter(|line| line.contains("No label is firm"));
        answers.said(&format!("compare {numbers:?}"), &unread.collect::<Vec<_>>().join("\n"));
    }
    let outcome: Value =
        serde_json::from_str(&run(&["compare", path(&read), path(&unread), "--json"]).unwrap()).unwrap();
    let counts = &outcome["labels_by_outcome"];
    assert_eq!((&counts["lost"], &counts["gained"], &counts["kept"]), (&0.into(), &0.into(), &0.into()));
    assert_eq!(run(&["gate", path(&read), path(&unread)]).unwrap_err().0, 3);
    // Nothing is confirmed in such a corpus, and nothing can be confirmed of it.
    let said = run(&["confirm", path(&read), path(&unread)]).unwrap();
    answers.said("confirm by it", said.lines().next().unwrap());
    answers.refused("confirm what it has", &run(&["confirm", path(&unread), path(&read)]).unwrap_err());
    answers.held("health-compared");
}
