//! `headscope batch`: reports equal the reports of `analyze`, unchanged runs are not repeated, and a failed run stops no
//! other.

use std::fs;
use std::path::Path;

use crate::support::answers::Answers;
use crate::support::{headscope, outcome, path, run, tiny_bert};
use serde_json::Value;
use tempfile::TempDir;

const TEXT: &str = "The cat sat on the mat .\nA dog barked at the man .\nThe man saw the dog .\n";

/// A folder with a corpus and a table of runs; reports go to `out`.
struct TestFolder(TempDir);

impl TestFolder {
    fn new(table: &str) -> Self {
        let context = Self(tempfile::tempdir().unwrap());
        context.write("text.txt", TEXT);
        context.write("runs.toml", table);
        context
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    /// The standard output, or the exit status and the errors.
    fn batch(&self, more: &[&str]) -> Result<String, (i32, String)> {
        let arguments = [&["batch", "runs.toml", "-o", "out", "--as", "csv"], more].concat();
        outcome(&headscope(&arguments).current_dir(self.0.path()).output().unwrap())
    }

    /// A copy of the tiny model that tests may change.
    fn model(&self, name: &str) {
        fs::create_dir(self.at(name)).unwrap();
        for file in fs::read_dir(tiny_bert()).unwrap().map(|entry| entry.unwrap().path()).filter(|file| file.is_file())
        {
            fs::copy(&file, self.at(name).join(file.file_name().unwrap())).unwrap();
        }
    }

    fn answers(&self) -> Answers {
        Answers::within(self.0.path())
    }

    /// The paragraph of the overview that counts the runs.
    fn counts(&self) -> String {
        let page = self.read("out/index.html");
        let paragraphs = page.split("<p>").filter_map(|text| Some(text.split_once("</p>")?.0));
        paragraphs.filter(|text| text.contains(" runs: ")).collect()
    }

    /// The cells of a run in the table of all runs, by column.
    fn row(&self, name: &str) -> std::collections::BTreeMap<String, String> {
        let mut reader = csv::Reader::from_path(self.at("out/runs.csv")).unwrap();
        let header = reader.headers().unwrap().clone();
        let rows = reader.records().map(Result::unwrap);
        let row = rows.into_iter().find(|row| &row[0] == name).expect("a row of that name");
        header.iter().map(str::to_owned).zip(row.iter().map(str::to_owned)).collect()
    }
}

const TWO_BY_TWO: &str = "\
[defaults]
no-run-info = true
[models]
tiny = { model = \"tiny\", max-tokens = 40 }
planted = \"box:planted\"
[corpora]
text = \"text.txt\"
gold = { corpus = \"box:gold\", limit = 12 }
";

#[test]
fn reports_equal_those_of_single_runs() {
    let context = TestFolder::new(TWO_BY_TWO);
    context.model("tiny");
    let printed = context.batch(&[]).unwrap();
    assert_eq!(printed.lines().count(), 4, "{printed}");
    let single = context.at("single.json");
    let (tiny, text) = (context.at("tiny"), context.at("text.txt"));
    for (name, arguments) in [
        ("tiny.text", vec![path(&tiny), "--corpus", path(&text), "--max-tokens=40"]),
        ("tiny.gold", vec![path(&tiny), "--corpus", "box:gold", "--limit=12", "--max-tokens=40"]),
        ("planted.text", vec!["box:planted", "--corpus", path(&text)]),
        ("planted.gold", vec!["box:planted", "--corpus", "box:gold", "--limit=12"]),
    ] {
        let more = ["-o", path(&single), "--no-run-info", "--quiet", "--digits=6"];
        run(&[&["analyze"], &arguments[..], &more].concat()).unwrap();
        assert_eq!(context.read(&format!("out/{name}.json")), fs::read_to_string(&single).unwrap(), "{name}");
        assert!(context.at(&format!("out/{name}.csv")).is_file());
        let row = context.row(name);
        let report: Value = serde_json::from_str(&context.read(&format!("out/{name}.json"))).unwrap();
        assert_eq!(row["status"], "done");
        assert_eq!(row["sentences"], report["corpus"]["sentences"].to_string());
        for (family, count) in report["label_counts"].as_object().unwrap() {
            assert_eq!(row[&format!("labels.{family}")], count.to_string());
        }
        let heads = report["heads"].as_array().unwrap().iter();
        let labels = heads.flat_map(|head| head["labels"].as_array().unwrap().iter().chain([&head["chooses"]]));
        let firm: Vec<&str> =
            labels.filter(|label| label["borderline"] == false).map(|label| label["label"].as_str().unwrap()).collect();
        for family in report["label_counts"].as_object().unwrap().keys() {
            // The category `syntactic:<relation>` includes `syntactic:det`.
            let is_in_family = |label: &str| match family.split_once('<') {
                Some((stem, _)) => label.starts_with(stem),
                None => label == family,
            };
            let count = firm.iter().filter(|label| is_in_family(label)).count();
            assert_eq!(row[&format!("firm_labels.{family}")], count.to_string(), "{name} {family}");
        }
    }
    let index = context.read("out/index.html");
    assert!(index.contains("<a href=\"tiny.text.json\">"), "{index}");
    let mut answers = context.answers();
    answers.said("counts", &context.counts());
    answers.held("batch-done");
}

/// Another run needs the masked-LM head, so the model is loaded with it. The numbers of this run stay unchanged.
#[test]
fn one_load_serves_runs_with_and_without_the_prediction_head() {
    let table = "[defaults]\nno-run-info = true\nlimit = 5\n[models]\nm = \"box:small\"\n[corpora]\ng = \"box:gold\"\n\
                 [options]\nplain = {}\neffect = { with = \"effect\", sample = 2 }\n";
    let context = TestFolder::new(table);
    context.batch(&["--quiet"]).unwrap();
    let single = context.at("single.json");
    let analyze = [
        "analyze",
        "box:small",
        "-c",
        "box:gold",
        "--limit=5",
        "--digits=6",
        "--no-run-info",
        "-q",
        "-o",
        path(&single),
    ];
    run(&analyze).unwrap();
    assert_eq!(context.read("out/m.g.plain.json"), fs::read_to_string(&single).unwrap());
    let report: Value = serde_json::from_str(&context.read("out/m.g.effect.json")).unwrap();
    assert!(report["effect"].is_object(), "the study was run: {:?}", report.as_object().unwrap().keys());
}

#[test]
fn only_missing_or_changed_runs_are_done_again() {
    let context = TestFolder::new(TWO_BY_TWO);
    context.model("tiny");
    context.batch(&[]).unwrap();
    let statuses = |more: &[&str]| -> Vec<String> {
        let text = context.batch(more).unwrap();
        // Unchanged runs are reported before the model is loaded, so lines are sorted.
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.into_iter().map(|line| line.split(':').nth(1).unwrap().trim().to_owned()).collect()
    };
    let mut answers = context.answers();
    let mut dry = |title: &str, name: &str| {
        answers.said(title, &context.batch(&["--dry-run", "--only", name]).unwrap());
    };
    assert_eq!(statuses(&[]), ["up to date"; 4]);

    // A new modification time is no change.
    let text = context.read("text.txt");
    context.write("text.txt", &text);
    dry("another date of the corpus", "tiny.text");
    context.write("text.txt", &format!("{text}The end .\n"));
    dry("another corpus", "tiny.text");
    assert_eq!(statuses(&[]), ["up to date", "done", "up to date", "done"]);

    fs::remove_file(context.at("out/tiny.gold.csv")).unwrap();
    dry("a report that is missing", "tiny.gold");
    context.write("out/tiny.gold.csv", "");
    dry("another report", "tiny.gold");
    assert_eq!(statuses(&["--only", "*.gold"]), ["up to date", "from saved report"]);
    assert_eq!(context.row("tiny.text")["status"], "earlier");

    let config = context.read("tiny/config.json");
    context.write("tiny/config.json", &format!("{config}\n"));
    dry("another model", "tiny.gold");
    context.write("runs.toml", &TWO_BY_TWO.replace("limit = 12", "limit = 11"));
    dry("other options", "planted.gold");
    context.write("runs.toml", &TWO_BY_TWO.replace("no-run-info = true", "no-run-info = true\npolicy = \"p.toml\""));
    context.write("p.toml", "entropy_ratio = 0.9\n");
    context.batch(&[]).unwrap();
    dry("the same policy", "planted.gold");
    context.write("p.toml", "entropy_ratio = 0.8\n");
    dry("another policy", "planted.gold");
    answers.held("batch-changes");
}

/// The overview shows changes since the previous run: heads with a firm role, and firm labels per category.
#[test]
fn the_overview_shows_changes_since_the_previous_run() {
    let table = "[defaults]\nno-run-info = true\n[models]\nm = \"box:planted\"\n[corpora]\ng = { corpus = \"box:gold\", limit = 200 }\n";
    let context = TestFolder::new(table);
    context.batch(&[]).unwrap();
    let before = context.row("m.g");
    assert_eq!(before["firm_before"], "");
    assert!(!context.read("out/index.html").contains('\u{2212}'));
    // Ten sentences are too few for any label.
    context.write("runs.toml", &table.replace("limit = 200", "limit = 10"));
    context.batch(&[]).unwrap();
    let after = context.row("m.g");
    assert_eq!((&after["firm_before"], &*after["firm"]), (&before["firm"], "0"));
    assert!(before["firm"] != "0", "{before:?}");
    let page = context.read("out/index.html");
    for (column, count) in before.iter().filter(|(column, count)| column.starts_with("firm_labels.") && *count != "0") {
        let family = column.trim_start_matches("firm_labels.").replace('<', "&lt;").replace('>', "&gt;");
        assert!(page.contains(&format!("{family} \u{2212}{count}")), "{family} {count} {page}");
    }
}

/// Runs may take hours, so an error in the last row is reported before the first run begins.
#[test]
fn impossible_runs_are_reported_before_the_first_run() {
    let context = TestFolder::new("");
    let mut answers = context.answers();
    for last in [
        "{ model = \"box:small\", remove = \"L9H9\" }",
        "{ model = \"box:small\", max-tokens = 9999 }",
        "{ model = \"box:small\", with = \"in-context\" }",
        "\"./not-there\"",
    ] {
        let table = format!("[models]\nfirst = \"box:planted\"\nlast = {last}\n[corpora]\nc = \"text.txt\"\n");
        context.write("runs.toml", &table);
        answers.refused(last, &context.batch(&["--keep-going=false"]).unwrap_err());
        assert!(!context.at("out/first.c.json").exists(), "{last}");
    }
    answers.held("batch-before-the-first");
    // Without `--keep-going=false`, the other runs are done.
    assert_eq!(context.batch(&[]).unwrap_err().0, 4);
    assert!(context.at("out/first.c.json").exists());
}

/// Whatever the run was asked to compute, pages and tables made from its saved report have the run's bytes.
#[test]
fn other_formats_are_made_from_an_unchanged_saved_report() {
    let table = "[defaults]\nlimit = 12\n[models]\nsmall = \"box:small\"\ncausal = \"box:causal\"\nplanted = \"box:planted\"\n\
                 [corpora]\ng = \"box:gold\"\n[options]\nplain = { control = \"random-init\" }\n\
                 more = { with = [\"norms\", \"similarity\", \"examples\", \"probes\"], show-example = true }\n\
                 given = { no-run-info = true, show = \"A \\u001B[1mdog\" }\n";
    let context = TestFolder::new(table);
    let run = |more: &[&str]| context.batch(&[&["--as", "html"], more].concat()).unwrap();
    run(&[]);
    let files = || -> std::collections::BTreeMap<_, _> {
        let name_and_bytes =
            |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
        fs::read_dir(context.at("out")).unwrap().map(|entry| name_and_bytes(entry.unwrap())).collect()
    };
    let before = files();
    let pages: Vec<&String> = before.keys().filter(|name| !name.contains(".json")).collect();
    assert_eq!(pages.len(), 2 * (9 + 1), "{pages:?}");
    for page in pages {
        fs::remove_file(context.at("out").join(page)).unwrap();
    }
    let mut answers = context.answers();
    answers.said("a dry run", &run(&["--dry-run"]));
    answers.said("a run", &run(&[]));
    answers.said("counts", &context.counts());
    assert_eq!(context.row("small.g.more")["status"], "from saved report");
    let after = files();
    for (name, bytes) in &before {
        // The overview states the status of each run, so it may differ.
        assert!(after[name] == *bytes || ["index.html", "runs.csv"].contains(&&**name), "{name} has other bytes");
    }
    answers.said("another run", &run(&[]));
    answers.held("batch-formats");
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}

#[test]
fn a_later_format_needs_no_new_run() {
    let context = TestFolder::new("[models]\na = \"box:planted\"\n[corpora]\nc = \"text.txt\"\n");
    context.batch(&[]).unwrap();
    let (report, mut answers) = (context.read("out/a.c.json"), context.answers());
    answers.said("a format more", &context.batch(&["--as", "json.gz"]).unwrap());
    assert_eq!(context.row("a.c")["reports"], "a.c.csv a.c.json a.c.json.gz");
    // A compressed report serves as well.
    context.write("out/a.c.json", "mine");
    fs::remove_file(context.at("out/a.c.csv")).unwrap();
    answers.said("of the packed report", &context.batch(&[]).unwrap());
    assert_eq!(context.read("out/a.c.json"), report);

    // Without an unmodified saved report, the analysis runs again.
    context.write("out/a.c.json", "mine");
    fs::remove_file(context.at("out/a.c.json.gz")).unwrap();
    answers.said("a dry run without a saved report", &context.batch(&["--dry-run"]).unwrap());
    answers.said("a run without a saved report", &context.batch(&[]).unwrap());
    answers.held("batch-later-formats");
}

#[test]
fn a_compressed_report_can_stand_alone() {
    let context = TestFolder::new(
        "[models]\na = \"box:planted\"\n[corpora]\nc = { corpus = \"text.txt\", no-run-info = true }\n",
    );
    let mut answers = context.answers();
    let mut run = |title: &str, formats: &str| {
        let arguments = ["batch", "runs.toml", "-o", "out", "--as", formats];
        let output = headscope(&arguments).current_dir(context.0.path()).output().unwrap();
        answers.said(title, &outcome(&output).unwrap());
    };
    let reports = || context.row("a.c")["reports"].clone();
    run("packed", "json.gz");
    assert_eq!(reports(), "a.c.json.gz");
    let ledger: Value = serde_json::from_str(&context.read("out/batch.json")).unwrap();
    assert_eq!(ledger["runs"]["a.c"]["reports"].as_object().unwrap().keys().collect::<Vec<_>>(), ["a.c.json.gz"]);
    let single = context.at("single.json");
    let text = context.at("text.txt");
    let analyze =
        ["analyze", "box:planted", "-c", path(&text), "--digits=6", "--no-run-info", "-q", "-o", path(&single)];
    crate::support::run(&analyze).unwrap();
    let compressed = fs::read(context.at("out/a.c.json.gz")).unwrap();
    let mut decompressed = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&compressed[..]), &mut decompressed).unwrap();
    assert_eq!(decompressed, context.read("single.json"));

    // Other formats are made from the compressed report. The plain report is written only if it is asked for or no
    // compressed one is.
    run("packed again", "json.gz");
    run("a table as well", "csv,json.gz");
    assert_eq!(reports(), "a.c.csv a.c.json.gz");
    run("the plain report as well", "json.gz,json");
    assert_eq!(context.read("out/a.c.json"), decompressed);

    // Once it is no longer asked for, a missing plain report is not restored, and no link leads to it.
    fs::remove_file(context.at("out/a.c.json")).unwrap();
    run("without the plain report", "json.gz");
    assert_eq!(reports(), "a.c.csv a.c.json.gz");
    assert!(!context.read("out/index.html").contains("\"a.c.json\""));
    answers.held("batch-packed");
}

#[test]
fn partial_sums_can_be_kept() {
    let context = TestFolder::new(
        "[models]\na = \"box:planted\"\n[corpora]\nc = { corpus = \"text.txt\", no-run-info = true }\n",
    );
    let run =
        |arguments: &[&str]| outcome(&headscope(arguments).current_dir(context.0.path()).output().unwrap()).unwrap();
    let mut answers = context.answers();
    let mut batch = |title: &str, formats: &str| {
        answers.said(title, &run(&["batch", "runs.toml", "-o", "out", "--as", formats]));
    };
    let merged = || {
        run(&["merge", "out/a.c.headscope", "-o", "merged.json", "--digits=6", "--no-run-info", "-q"]);
        context.read("merged.json")
    };
    batch("sums", "headscope");
    assert_eq!(context.row("a.c")["reports"], "a.c.headscope a.c.json");
    let first = merged();
    assert_eq!(context.read("out/a.c.json"), first);
    batch("a table as well", "csv,headscope");

    // Partial sums are renewed with their run. They cannot be made from its report.
    context.write("text.txt", &format!("{TEXT}A cat saw the man .\n"));
    batch("another corpus", "csv");
    assert_ne!(context.read("out/a.c.json"), first);
    assert_eq!(context.read("out/a.c.json"), merged());
    fs::remove_file(context.at("out/a.c.headscope")).unwrap();
    batch("without the sums", "json");
    batch("sums again", "headscope");
    assert_eq!(context.read("out/a.c.json"), merged());
    let dry = ["batch", "runs.toml", "-o", "out", "--as", "headscope", "--dry-run"];
    fs::remove_file(context.at("out/a.c.headscope")).unwrap();
    answers.said("a dry run without the sums", &run(&dry));
    answers.held("batch-sums");
}

/// A report that matches its recorded digest but cannot be parsed is analysed again.
#[test]
fn an_unreadable_saved_report_is_made_again() {
    use headscope::system::files::digest::hex;
    use sha2::{Digest, Sha256};
    let context = TestFolder::new("[models]\na = \"box:planted\"\n[corpora]\nc = \"text.txt\"\n");
    context.batch(&[]).unwrap();
    let digest = |text: &str| hex(&Sha256::digest(text));
    let ledger = context.read("out/batch.json");
    let other = ledger.replace(&digest(&context.read("out/a.c.json")), &digest("{}"));
    assert_ne!(other, ledger);
    context.write("out/batch.json", &other);
    context.write("out/a.c.json", "{}");
    fs::remove_file(context.at("out/a.c.csv")).unwrap();
    let output = headscope(&["batch", "runs.toml", "-o", "out", "--as", "csv"]).current_dir(context.0.path()).output();
    let output = output.unwrap();
    let mut answers = context.answers();
    answers.said("it is run again", &outcome(&output).unwrap());
    answers.said("why", &String::from_utf8(output.stderr).unwrap());
    answers.said("once", &context.batch(&[]).unwrap());
    answers.held("batch-unreadable");
}

#[test]
fn a_dry_run_writes_nothing() {
    let context = TestFolder::new(TWO_BY_TWO);
    context.model("tiny");
    let mut answers = context.answers();
    answers.said("without a report", &context.batch(&["--dry-run"]).unwrap());
    answers.held("batch-dry-run");
    assert!(!context.at("out").exists());
}

#[test]
fn a_failure_stops_no_other_run_unless_asked() {
    let table = "[models]\nabsent = \"./absent\"\ntiny = \"box:planted\"\n[corpora]\nbroken = \"broken.conllu\"\ntext = \"text.txt\"\n";
    let context = TestFolder::new(table);
    context.write("broken.conllu", "1\tThe\n");
    let mut answers = context.answers();
    answers.refused("a model and a corpus, which are no one class", &context.batch(&[]).unwrap_err());
    assert!(context.at("out/tiny.text.json").is_file());
    assert!(!context.at("out/tiny.broken.json").exists());
    assert_eq!(context.row("absent.text")["status"], "failed");

    // Runs that `--only` leaves out keep their rows.
    let failed = context.row("absent.text");
    answers.said("in the table", &failed["message"]);
    // The message counts the two selected runs, not all four.
    answers.refused("--only tiny.*", &context.batch(&["--only", "tiny.*"]).unwrap_err());
    assert_eq!(context.row("absent.text"), failed);
    answers.said("counts", &context.counts());
    assert!(context.read("out/index.html").contains("./absent"));
    assert_eq!(context.batch(&["--only", "absent.*", "--keep-going"]).unwrap_err().0, 4);
    assert_eq!((&*context.row("tiny.broken")["status"], &*context.row("tiny.text")["status"]), ("failed", "earlier"));
    fs::remove_dir_all(context.at("out")).unwrap();
    answers.refused("--keep-going=false", &context.batch(&["--keep-going=false"]).unwrap_err());
    answers.held("batch-failures");
    assert!(!context.at("out/tiny.text.json").exists());

    // After the repair, only the missing runs are done.
    context.write("broken.conllu", "1\tThe\tthe\tDET\t_\t_\t0\troot\t_\t_\n\n");
    context.write("runs.toml", &table.replace("./absent", "box:small"));
    context.batch(&["--only", "tiny.text"]).unwrap();
    context.batch(&[]).unwrap();
    let status = |name| context.row(name)["status"].clone();
    assert_eq!(["absent.broken", "absent.text", "tiny.broken"].map(status), ["done"; 3]);
    assert_eq!(status("tiny.text"), "up to date");
    context.batch(&["--only", "tiny.text"]).unwrap();
    let row = context.row("absent.broken");
    assert_eq!((&*row["status"], &*row["message"]), ("earlier", ""));
}

/// The errors of a batch in JSON.
fn errors(context: &TestFolder) -> Vec<Value> {
    let arguments = ["batch", "here/runs.toml", "-o", "out", "--offline", "--error-format", "json"];
    let folder = context.0.path();
    let output = headscope(&arguments).env("HF_HOME", folder).current_dir(folder).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{text}"))).collect()
}

#[test]
fn missing_inputs_are_named_with_their_line_in_the_table() {
    let context = TestFolder::new("");
    fs::create_dir(context.at("here")).unwrap();
    context.write("here/beside.txt", TEXT);
    let table = "[models]\nm = \"box:planted\"\ngone = { model = \"./gone\" }\nhub = \"acme/gone@v1\"\n\
                 [corpora]\none = \"text.txt\"\nseveral = { limit = 2, corpus = [\n  \"text.txt\",\n  \"gone.txt\",\n] }\n\
                 beside = \"beside.txt\"\nwhole = \"/gone/whole.conllu\"\n";
    context.write("here/runs.toml", table);
    let at = context.0.path().canonicalize().unwrap();
    let mut answers = context.answers().hiding(path(&at), "DIR");
    for error in errors(&context) {
        answers.said(&format!("line {} of {}", error["line"], error["file"]), &format!("{error:#}"));
    }
    answers.held("batch-absent");
    let index = context.read("out/index.html");
    assert!(index.contains("<dd>here/runs.toml:9: "), "{index}");
    // Errors within a file name that file and its line.
    context.write("here/runs.toml", "[models]\nm = \"box:planted\"\n[corpora]\nc = \"broken.conllu\"\n");
    context.write("broken.conllu", "1\tThe\n");
    let broken = &errors(&context)[0];
    assert_eq!((&broken["file"], &broken["line"]), (&"broken.conllu".into(), &1.into()), "{broken:#}");
}

#[test]
fn an_impossible_run_stops_no_other_run_of_its_model() {
    let table =
        "[models]\nm = \"tiny\"\n[corpora]\nt = \"text.txt\"\n[options]\nplain = {}\neffect = { with = \"effect\" }\n";
    let context = TestFolder::new(table);
    context.model("tiny");
    let mut answers = context.answers();
    answers.refused("a head that predicts", &context.batch(&[]).unwrap_err());
    answers.held("batch-cannot-do");
    assert!(context.at("out/m.t.plain.json").is_file());
}

#[test]
fn a_wrong_table_is_wrong_usage() {
    let context = TestFolder::new("");
    let mut answers = context.answers();
    for table in [
        "[models]\nm = \"box:smal\"\n[corpora]\nt = \"text.txt\"\n",
        "[models\n",
        "[models]\nm = \"box:small\"\n",
        "[models]\nm = \"box:small\"\n[corpora]\nt = \"runs.toml\"\n",
        "[defaults]\nlimt = 3\n",
        "[models]\nm = \"box:small\"\n[corpora]\nt = \"-\"\n",
    ] {
        context.write("runs.toml", table);
        answers.refused(table.trim_end(), &context.batch(&[]).unwrap_err());
        assert!(!context.at("out").exists());
    }
    context.write("runs.toml", TWO_BY_TWO);
    answers.refused("a run that is not there", &context.batch(&["--only", "nothing.*"]).unwrap_err());
    answers.held("batch-tables");
    fs::remove_file(context.at("runs.toml")).unwrap();
    assert_eq!(context.batch(&[]).unwrap_err().0, 3);
}

#[test]
fn files_that_a_batch_cannot_use_stay_unchanged() {
    let context = TestFolder::new(TWO_BY_TWO);
    context.model("tiny");
    fs::create_dir(context.at("out")).unwrap();
    context.write("out/batch.json", "{\n\"something\": 1}");
    let mut answers = context.answers();
    answers.refused("another ledger", &context.batch(&[]).unwrap_err());
    assert_eq!(context.read("out/batch.json"), "{\n\"something\": 1}");
    let in_the_way = context.at("file");
    fs::write(&in_the_way, "").unwrap();
    let arguments = ["batch", "runs.toml", "-o", "file"];
    let mut refusal = outcome(&headscope(&arguments).current_dir(context.0.path()).output().unwrap()).unwrap_err();
    // The cause after the last colon depends on the operating system.
    refusal.1.truncate(refusal.1.rfind(": ").unwrap());
    answers.refused("a file in the place of the folder", &refusal);
    answers.held("batch-in-the-way");
    assert!(Path::new(&in_the_way).is_file());
}

/// When a run is done again, its reports in other formats are renewed, except files that somebody changed.
#[test]
fn reports_of_a_run_do_not_contradict_each_other() {
    let context = TestFolder::new("[models]\na = \"box:planted\"\n[corpora]\nc = { corpus = \"text.txt\" }\n");
    let run = |format: &str| {
        let output = headscope(&["batch", "runs.toml", "-o", "out", "--as", format])
            .current_dir(context.0.path())
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    run("html,csv");
    let (page, table) = (context.read("out/a.c.html"), context.read("out/a.c.csv"));
    context.write("out/a.c.csv", "mine\n");
    context.write("text.txt", &format!("{TEXT}A cat saw the man .\n"));
    let messages = run("json.gz");
    assert!(context.at("out/a.c.json.gz").exists());
    assert_ne!(context.read("out/a.c.html"), page);
    assert_eq!(context.read("out/a.c.csv"), "mine\n");
    let mut answers = context.answers();
    answers.said("somebody changed a table", &messages);
    answers.held("batch-contradictions");
    // Formats that are asked for again overwrite changed files.
    run("html,csv");
    assert_ne!(context.read("out/a.c.csv"), table);
    assert_ne!(context.read("out/a.c.csv"), "mine\n");
}
