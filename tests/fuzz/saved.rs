//! What the program reads of its own: reports, partials and indexes, which others may have made.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use headscope::commands::batch::ledger::RunFormat;
use headscope::commands::batch::{BatchOptions, batch};
use headscope::commands::cli::analyze::words::option_syntax;
use headscope::commands::merge::{MergeOptions, MergeOutput, merge};
use headscope::commands::reporting::{OutcomeOutputs, PolicyOptions, ReportOptions};
use headscope::commands::saved::numbers::{NumbersOptions, compare_numbers};
use headscope::commands::saved::sides::SidesOptions;
use headscope::corpus::{Content, Corpus, Index, Input, SEGMENT_SENTENCES};
use headscope::export::json::{Digits, JsonForm};
use headscope::export::summary::Detail;
use headscope::export::svg::Medium;
use headscope::export::{OutputTarget, ReportFormat, TableFormat, card, figures, json, summary};
use headscope::passes::observation::partial;
use headscope::report::Report;
use headscope::studies::registry::default_policy;
use headscope::study::metrics::unit::PerUnit;
use headscope::system::errors::ErrorFormat;
use headscope::system::printable::is_unprintable;
use sha2::{Digest, Sha256};

use super::{check_message, with_bench};

/// A report as `relabel` and `compare` read it: whole, or refused by name.
pub fn report(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let same = check_diff(text);
    let mut report = match json::parse("fuzz.json", text) {
        Ok(report) => report,
        Err(error) => {
            check_message(&error);
            assert!(format!("{error:#}").contains("fuzz.json:"), "no file: {error:#}");
            return false;
        }
    };
    assert_eq!(same, Some(true), "it differs from itself");
    check_whole(&mut report);
    let relabelled = report.relabel(default_policy());
    let written = String::from_utf8(ReportFormat::Json(JsonForm::default()).render(&relabelled).expect("a report"))
        .expect("UTF-8");
    ReportFormat::Csv.render(&relabelled).expect("a table");
    assert!(!summary::render(&relabelled, &[], Detail::Full, Some(80)).is_empty());
    // What was written reads as the same, and the same policy changes nothing.
    let again = json::parse("fuzz.json", &written).expect("what was written").relabel(default_policy());
    assert_eq!(
        String::from_utf8(ReportFormat::Json(JsonForm::default()).render(&again).expect("a report")).expect("UTF-8"),
        written
    );
    true
}

/// A report that somebody crafted, and all that is made of it but JSON: nothing that a terminal obeys, no line or tag that is
/// not the program's, and no number that cannot be drawn.
pub fn crafted(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let report = match json::parse_for_display("fuzz.json", text) {
        Ok(report) => report,
        Err(error) => {
            check_message(&error);
            return false;
        }
    };
    let mut printed = vec![summary::render(&report, &[], Detail::Full, Some(80))];
    printed.extend(report.heads.iter().map(|head| card::head_card(&report, head).to_string()));
    for (_, view) in report.section_views() {
        let tracked = view.relation_scores;
        printed.extend(tracked.iter().map(|tracked| card::relation_card(tracked, 10).to_string()));
    }
    let page = String::from_utf8(ReportFormat::Html.render(&report).expect("a page")).expect("UTF-8");
    let names = [figures::GRID_FIGURE.to_owned(), figures::LAYERS_FIGURE.to_owned()].into_iter();
    let names = names.chain(figures::study_figures(&report).into_iter().map(|figure| figure.name.to_owned()));
    let drawn =
        names.map(|name| figures::draw_named(&report, &name, Medium::StandaloneFile).expect("a figure of the report"));
    for svg in drawn.chain([page]) {
        assert!(!["\"NaN", "\"inf", "\"-inf"].iter().any(|strange| svg.contains(strange)), "{svg}");
        assert_eq!(svg.matches("<script").count(), usize::from(svg.starts_with("<!doctype")), "{svg}");
        printed.push(svg);
    }
    for table in report.section_views().flat_map(|(_, view)| view.tables) {
        TableFormat::Csv.render(&table.table(), "").expect("a table");
    }
    // The colours of the summary are the program's.
    let obeyed = |c: char| is_unprintable(c) && c != '\n' && c != '\u{1b}';
    assert!(!printed.iter().any(|text| text.contains(obeyed)));
    true
}

/// The ledger of a batch: read or refused by name, and all runs that it knows are shown.
pub fn ledger(data: &[u8]) -> bool {
    const TABLE: &str = "[models]\na = { model = \"absent\" }\nb = { model = \"absent\" }\n\
        [corpora]\nc = { corpus = \"absent.txt\" }\n";
    with_bench(|place| {
        let (folder, table) = (place.join("batch"), place.join("runs.toml"));
        fs::create_dir_all(&folder).expect("a temporary folder");
        fs::write(&table, TABLE).expect("a temporary file");
        fs::write(folder.join("batch.json"), data).expect("a temporary file");
        let options = BatchOptions {
            table: table.clone(),
            folder: folder.clone(),
            run_patterns: vec!["a.c".to_owned()],
            keep_going: true,
            dry_run: false,
            formats: vec![("json", RunFormat::Report(ReportFormat::Json(JsonForm::default())))],
            offline: true,
            quiet: true,
            errors: ErrorFormat::Text,
        };
        let error = batch(&options, &option_syntax()).expect_err("there is no model").to_string();
        let known = folder.join("index.html").exists();
        fs::remove_dir_all(&folder).expect("a temporary folder");
        fs::remove_file(&table).expect("a temporary file");
        assert!(
            if known { error.starts_with("1 of 1 run failed: a.c") } else { error.contains("batch.json") },
            "{error}"
        );
        known
    })
}

/// Every head is there once, in its place, with every metric.
fn check_whole(report: &mut Report) {
    let grid = report.model.grid();
    assert_eq!(report.heads.len(), grid.layers * grid.heads);
    for (place, head) in report.heads.iter().enumerate() {
        assert_eq!(head.place, grid.head_place(place));
    }
    assert_eq!(report.order_metrics(), Ok(()));
}

/// Whether `compare --numbers`, which takes reports of other versions, too, says that a report does not differ from itself; `None` if
/// it is none.
fn check_diff(text: &str) -> Option<bool> {
    with_bench(|place| {
        let path = place.join("saved.json");
        fs::write(&path, text).expect("a temporary file");
        let same = compare_numbers(&NumbersOptions {
            sides: SidesOptions {
                paths: [path.clone(), path.clone()],
                policy: PolicyOptions::default(),
                threads: NonZeroUsize::MIN,
            },
            rate: 0.05,
            tolerances: PerUnit::uniform(0.0),
            printed_parts: Vec::new(),
            outputs: OutcomeOutputs {
                targets: vec![OutputTarget::Stdout(JsonForm::default())],
                printed_detail: Some(Detail::Full),
            },
        });
        fs::remove_file(&path).expect("a temporary file");
        if let Err(error) = &same {
            check_message(error);
            assert!(format!("{error:#}").contains("saved.json"), "no file: {error:#}");
        }
        same.ok()
    })
}

/// A partial. The data are its header and, on the lines that follow, its sums as they are before they are packed; the
/// rest of the file is put around them, or the data would never pass its checksum. Those that begin as a partial are one
/// as they are.
pub fn partial(data: &[u8]) -> bool {
    if data.starts_with(b"headscope partial") {
        return merges(&[data]).is_some();
    }
    let Some(end) = data.iter().position(|&byte| byte == b'\n') else { return false };
    let Ok(header) = std::str::from_utf8(&data[..end]) else { return false };
    let sealed = |header: &str| partial::assemble(header, &data[end + 1..]).expect("a partial");
    if merges(&[&sealed(header)]).is_none() {
        return false;
    }
    assert!(merges(&[&sealed(header), &sealed(header)]).is_none(), "the same shard twice");
    // The same sums as both halves of a corpus add up.
    let halves =
        ["[1,2]", "[2,2]"].map(|half| sealed(&header.replacen("\"shard\":[1,1]", &format!("\"shard\":{half}"), 1)));
    if header.contains("\"shard\":[1,1]") {
        let mut whole = merges(&halves.each_ref().map(Vec::as_slice)).expect("two halves");
        check_whole(&mut whole);
        assert!(!summary::render(&whole, &[], Detail::Full, None).is_empty());
    }
    true
}

/// The report that `merge` makes of partials, unless it refuses them.
fn merges(parts: &[&[u8]]) -> Option<Report> {
    with_bench(|place| {
        let paths: Vec<PathBuf> = (1..=parts.len()).map(|number| place.join(format!("part-{number}"))).collect();
        for (path, part) in paths.iter().zip(parts) {
            fs::write(path, part).expect("a temporary file");
        }
        let saved = place.join("merged.json");
        let merged = merge(&options(&paths, &saved));
        paths.iter().for_each(|path| fs::remove_file(path).expect("a temporary file"));
        match merged {
            Ok(()) => {
                let text = fs::read_to_string(&saved).expect("a report");
                fs::remove_file(&saved).expect("a temporary file");
                Some(json::parse("merged.json", &text).expect("a report that is whole"))
            }
            Err(error) => {
                check_message(&error);
                let message = format!("{error:#}");
                let named = ["part-", "missing", "sentence"].iter().any(|words| message.contains(words));
                assert!(named, "no file: {message}");
                assert!(!saved.exists(), "half of a report");
                None
            }
        }
    })
}

fn options(parts: &[PathBuf], report: &Path) -> MergeOptions {
    let outputs = vec![OutputTarget::File(report.to_owned(), ReportFormat::Json(JsonForm::default()))];
    let (policy, threads) = (PolicyOptions::default(), NonZeroUsize::MIN);
    let report = ReportOptions { outputs, summary_detail: None, policy, threads, digits: Digits::DEFAULT };
    MergeOptions { partial_paths: parts.to_vec(), has_run_info: true, output: MergeOutput::Report(report) }
}

/// The files of which an index is read.
const INDEXED: [(&str, &[u8]); 3] = [
    ("a.conllu", include_bytes!("indexed/a.conllu")),
    ("b.jsonl", include_bytes!("indexed/b.jsonl")),
    ("c.txt.gz", include_bytes!("indexed/c.txt.gz")),
];

/// The index of a corpus. The data are the length of its contents in two bytes, these, and the record of a segment; the
/// rest of the file is put around them, or the data would never pass its digests. Those that begin as an index are one as
/// they are.
pub fn corpus_index(data: &[u8]) -> bool {
    if data.starts_with(b"headscope index") {
        return reads_by(data);
    }
    let Some((length, rest)) = data.split_first_chunk() else { return false };
    let Some((contents, record)) = rest.split_at_checked(u16::from_le_bytes(*length).into()) else { return false };
    let mut index = b"headscope index 2\n".to_vec();
    for sealed in [record, contents] {
        index.extend_from_slice(sealed);
        index.extend_from_slice(&Sha256::digest(sealed));
    }
    index.extend_from_slice(&(contents.len() as u64).to_le_bytes());
    reads_by(&index)
}

/// Whether the files can be read by this index. Each of its segments has sentences of the files, and no more than it may.
fn reads_by(index: &[u8]) -> bool {
    with_bench(|place| {
        let folder = place.join("indexed");
        fs::create_dir_all(&folder).expect("a temporary folder");
        let put = |(name, bytes): &(&str, &[u8])| {
            let path = folder.join(name);
            fs::write(&path, bytes).expect("a temporary file");
            Input::parse(&path, None).expect("a corpus")
        };
        let inputs = INDEXED.each_ref().map(put);
        let path = folder.join("corpus.index");
        fs::write(&path, index).expect("a temporary file");
        let contents = |corpus: Corpus| corpus.map(|sentence| Ok(sentence?.content)).collect::<Result<Vec<Content>>>();
        let all = contents(Corpus::open(&inputs).expect("a corpus")).expect("sentences");
        let read = Index::open(&path).map(Arc::new).and_then(|index| {
            let corpus = || Corpus::open(&inputs)?.with_index(Some(&index));
            let found = contents(corpus()?.with_selected_segments(|_| true))?;
            assert!(found.iter().all(|content| all.contains(content)), "sentences of nobody");
            let of_first = contents(corpus()?.with_selected_segments(|sentences| sentences.start == 0))?;
            assert!(of_first.len() as u64 <= SEGMENT_SENTENCES && found.starts_with(&of_first));
            Ok(())
        });
        fs::remove_dir_all(&folder).expect("a temporary folder");
        read.inspect_err(check_message).is_ok()
    })
}
