//! What the program reads of its own: reports and partials, which others may have made.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use headscope::commands::diff::diff;
use headscope::commands::merge::merge;
use headscope::commands::options::{DiffOptions, MergeOptions, Merged, PolicyOptions, ReportOptions};
use headscope::export::summary::Detail;
use headscope::export::{Target, Writer, json, summary};
use headscope::passes::partial;
use headscope::report::Report;
use headscope::studies::all::default_policy;

use super::{check_message, with_bench};

/// A report as `relabel` and `diff` read it: whole, or refused by name.
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
    let written = String::from_utf8(Writer::Json.render(&relabelled).expect("a report")).expect("UTF-8");
    Writer::Csv.render(&relabelled).expect("a table");
    assert!(!summary::render(&relabelled, &[], Detail::Full, Some(80)).is_empty());
    // What was written reads as the same, and the same policy changes nothing.
    let again = json::parse("fuzz.json", &written).expect("what was written").relabel(default_policy());
    assert_eq!(String::from_utf8(Writer::Json.render(&again).expect("a report")).expect("UTF-8"), written);
    true
}

/// Every head is there once, in its place, with every metric.
fn check_whole(report: &mut Report) {
    let grid = report.model.grid();
    assert_eq!(report.heads.len(), grid.layers * grid.heads);
    for (place, head) in report.heads.iter().enumerate() {
        assert_eq!((head.layer, head.head), grid.at(place));
    }
    assert_eq!(report.complete(), None);
}

/// Whether `diff`, which takes reports of other versions, too, says that a report does not differ from itself; `None` if
/// it is none.
fn check_diff(text: &str) -> Option<bool> {
    with_bench(|place| {
        let path = place.join("saved.json");
        fs::write(&path, text).expect("a temporary file");
        let same = diff(&DiffOptions {
            a: path.clone(),
            b: path.clone(),
            rate: 0.05,
            tolerance: 0.0,
            only: Vec::new(),
            policy: PolicyOptions::default(),
            full: true,
            json: true,
            outputs: Vec::new(),
            threads: NonZeroUsize::MIN,
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
    let sealed = |header: &str| partial::seal(header, &data[end + 1..]).expect("a partial");
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
                let named = ["part-", "shards are missing", "sentence"].iter().any(|words| message.contains(words));
                assert!(named, "no file: {message}");
                assert!(!saved.exists(), "half of a report");
                None
            }
        }
    })
}

fn options(parts: &[PathBuf], report: &Path) -> MergeOptions {
    let outputs = vec![Target::File(report.to_owned(), Writer::Json)];
    let (policy, threads) = (PolicyOptions::default(), NonZeroUsize::MIN);
    let report = ReportOptions { outputs, summary: None, policy, threads };
    MergeOptions { parts: parts.to_vec(), run_info: true, outcome: Merged::Report(report) }
}
