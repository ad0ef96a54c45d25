//! Whether a model can read its corpus: checks of the input, messages about failed checks, and labels that are then not
//! firm.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::answers::Answers;
use crate::support::{fixture, headscope, parts_add_up, path, run};
use crate::vocabularies::{AMINO_ACIDS, CASED, model};
use serde_json::Value;
use tempfile::TempDir;

/// A policy with the loosest thresholds for four checks.
const LOOSE_POLICY: &str =
    "health_unparted = 1\nhealth_foreign_script = 1\nhealth_unknown_tokens = 1\nhealth_tokens_per_word = 99\n";

/// Writes a file of `count` lines.
fn lines(folder: &TempDir, name: &str, count: usize, line: impl Fn(usize) -> String) -> PathBuf {
    let file = folder.path().join(name);
    fs::write(&file, (0..count).map(|number| line(number) + "\n").collect::<String>()).unwrap();
    file
}

/// Six words of a list, which depend on `number`.
fn six_words(words: &str, number: usize) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let word =
        |place: usize| words[(number / words.len().pow(u32::try_from(place % 3).unwrap()) + 5 * place) % words.len()];
    (0..6).map(word).collect::<Vec<_>>().join(" ")
}

fn analyze(model: &str, corpus: &Path, more: &[&str]) -> Value {
    let common = ["analyze", model, "-c", path(corpus), "--no-run-info", "-o", "-"];
    serde_json::from_str(&run(&[&common[..], more].concat()).unwrap()).unwrap()
}

fn failed_checks(report: &Value) -> Vec<&str> {
    let checks = report["corpus"]["health"].as_array().unwrap();
    assert_eq!(checks.len(), 9);
    checks.iter().filter(|check| check["fails"] == true).map(|check| check["id"].as_str().unwrap()).collect()
}

fn value(report: &Value, id: &str) -> f64 {
    let checks = report["corpus"]["health"].as_array().unwrap();
    checks.iter().find(|check| check["id"] == id).unwrap()["value"].as_f64().unwrap()
}

/// The number of firm labels, and the number of all labels.
fn labels(report: &Value) -> [usize; 2] {
    let labels = report["heads"].as_array().unwrap().iter().flat_map(|head| {
        head["labels"].as_array().unwrap().iter().chain(Some(&head["chooses"]).filter(|chooses| !chooses.is_null()))
    });
    let labels: Vec<&Value> = labels.collect();
    [labels.iter().filter(|label| label["borderline"] == false).count(), labels.len()]
}

#[test]
fn readable_corpora_fail_no_check() {
    let gold = fixture("corpus/gold.conllu");
    for model in ["box:small", "box:planted", "box:causal"] {
        let report = analyze(model, &gold, &[]);
        assert_eq!(failed_checks(&report), [""; 0], "{model}: {}", report["corpus"]["health"]);
        assert!(labels(&report)[0] > 0, "{model}");
        run(&["analyze", model, "-c", path(&gold), "--strict", "-q", "-o", "-"]).unwrap();
    }
}

/// An input that a model cannot read, and the checks that it fails.
struct Unread<'a> {
    model: &'a str,
    corpus: PathBuf,
    more: &'a [&'a str],
    fails: &'a [&'a str],
}

#[test]
fn unreadable_corpora_are_reported_first_and_give_no_firm_label() {
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
            corpus: lines(&folder, "greek.txt", 120, |number| six_words(greek, number)),
            more: &[],
            fails: &["foreign_script", "unknown_tokens"],
        },
        Unread {
            model: "box:planted",
            corpus: lines(&folder, "finnish.txt", 120, |number| {
                six_words("kissa nukkuu vanhassa talossa koira juoksee", number)
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
            corpus: lines(&folder, "cased.txt", 120, |number| six_words("the The cat Cat dog Dog left came", number)),
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
    let mut label_count = 0;
    for Unread { model, corpus, more, fails } in unread {
        let report = analyze(model, &corpus, more);
        let shown = path(&corpus);
        assert_eq!(failed_checks(&report), fails, "{shown}: {}", report["corpus"]["health"]);
        let [firm, all] = labels(&report);
        assert_eq!(firm, 0, "{shown}");
        label_count += all;
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
    assert!(label_count > 0, "labels that are not firm");
    answers.held("health-unread");
}

#[test]
fn repeated_sentences_and_few_units_are_only_remarks() {
    let folder = TempDir::new().unwrap();
    let gold = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let corpus = folder.path().join("copies.conllu");
    fs::write(&corpus, gold.repeat(3)).unwrap();
    let [once, copies] = [&fixture("corpus/gold.conllu"), &corpus].map(|corpus| analyze("box:small", corpus, &[]));
    assert_eq!(failed_checks(&copies), ["repeated"]);
    assert!(labels(&copies)[0] > 0 && labels(&copies)[0] == labels(&once)[0], "{:?}", labels(&copies));
    let mut answers = Answers::new();
    let remark = |more: &[&str]| {
        let summary = run(&[&["analyze", "box:small", "-c"], more].concat()).unwrap();
        summary.lines().find(|line| line.starts_with("The corpus: ")).unwrap().to_owned()
    };
    answers.said("each sentence three times", &remark(&[path(&corpus)]));
    // A limit takes only a few documents of fifty sentences.
    let mut documents = String::new();
    for (number, sentence) in gold.split_inclusive("\n\n").enumerate() {
        let plain = sentence.split_inclusive('\n').filter(|line| !line.starts_with("# family"));
        documents.extend([if number % 50 == 0 { "# newdoc\n" } else { "" }].into_iter().chain(plain));
    }
    let corpus = folder.path().join("documents.conllu");
    fs::write(&corpus, documents).unwrap();
    let report = analyze("box:small", &corpus, &["--limit", "200"]);
    assert_eq!((failed_checks(&report), value(&report, "units")), (vec!["units"], 4.0));
    answers.said("few documents", &remark(&[path(&corpus), "--limit", "200"]));
    answers.held("health-copies-and-few-units");
}

#[test]
fn relabelling_repeats_the_checks_under_its_policy() {
    let folder = TempDir::new().unwrap();
    let corpus =
        lines(&folder, "finnish.txt", 120, |number| six_words("kissa nukkuu vanhassa talossa koira juoksee", number));
    let (saved, policy) = (folder.path().join("a.json"), folder.path().join("policy.toml"));
    fs::write(&policy, LOOSE_POLICY).unwrap();
    run(&["analyze", "box:planted", "-c", path(&corpus), "--no-run-info", "-q", "-o", path(&saved)]).unwrap();
    let relabelled = run(&["relabel", path(&saved), "--policy", path(&policy), "-o", "-"]).unwrap();
    let relabelled: Value = serde_json::from_str(&relabelled).unwrap();
    assert_eq!(relabelled, analyze("box:planted", &corpus, &["--policy", path(&policy)]));
    assert!(failed_checks(&relabelled).is_empty() && labels(&relabelled)[0] > 0);
    // A stricter policy takes firmness away again.
    let again = folder.path().join("b.json");
    fs::write(&again, relabelled.to_string()).unwrap();
    fs::write(&policy, "health_unknown_tokens = 0.05\n").unwrap();
    let back: Value =
        serde_json::from_str(&run(&["relabel", path(&again), "--policy", path(&policy), "-o", "-"]).unwrap()).unwrap();
    assert_eq!((labels(&back)[0], failed_checks(&back)), (0, vec!["unknown_tokens"]));
}

#[test]
fn shards_change_no_check() {
    let folder = TempDir::new().unwrap();
    let saved = folder.path().join("whole.json");
    let corpus = lines(&folder, "greek.txt", 600, |number| {
        format!("{} {}", six_words("η γάτα κοιμάται στο σπίτι", number), six_words("kissa NUKKUU talossa", number))
    });
    let arguments = ["analyze", "box:small", "--no-run-info", "-q", "-c", path(&corpus)];
    run(&[&arguments[..], &["-o", path(&saved)]].concat()).unwrap();
    parts_add_up(&arguments, &saved);
    let report: Value = serde_json::from_slice(&fs::read(&saved).unwrap()).unwrap();
    assert!((0.3..0.8).contains(&value(&report, "foreign_script")), "{}", report["corpus"]);
    assert!(report["corpus"]["text"]["foreign_letters"]["Greek"].as_u64().unwrap() > 1000);
}

#[test]
fn comparisons_name_the_unread_side_and_report_no_loss() {
    let folder = TempDir::new().unwrap();
    let corpus =
        lines(&folder, "finnish.txt", 120, |number| six_words("kissa nukkuu vanhassa talossa koira juoksee", number));
    let [read, unread] = ["read.json", "unread.json"].map(|name| folder.path().join(name));
    run(&["analyze", "box:planted", "-q", "-o", path(&read)]).unwrap();
    run(&["analyze", "box:planted", "-c", path(&corpus), "-q", "-o", path(&unread)]).unwrap();
    let mut answers = Answers::within(folder.path());
    for numbers in [&[][..], &["--numbers"]] {
        // The status is 1 if numbers changed.
        let output = headscope(&[&["compare", path(&read), path(&unread)], numbers].concat()).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let unread = printed.lines().filter(|line| line.contains("No label is firm"));
        answers.said(&format!("compare {numbers:?}"), &unread.collect::<Vec<_>>().join("\n"));
    }
    let outcome: Value =
        serde_json::from_str(&run(&["compare", path(&read), path(&unread), "--json"]).unwrap()).unwrap();
    let counts = &outcome["labels_by_outcome"];
    assert_eq!((&counts["lost"], &counts["gained"], &counts["kept"]), (&0.into(), &0.into(), &0.into()));
    assert_eq!(run(&["gate", path(&read), path(&unread)]).unwrap_err().0, 3);
    // Such a corpus confirms no label, and has no firm label to confirm.
    let printed = run(&["confirm", path(&read), path(&unread)]).unwrap();
    answers.said("confirm by it", printed.lines().next().unwrap());
    answers.refused("confirm what it has", &run(&["confirm", path(&unread), path(&read)]).unwrap_err());
    answers.held("health-compared");
}
