//! The invariants of docs/ARCHITECTURE.md that can be read off the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Every source file that is not of tests, by its path under `src/`, without comments and test modules.
fn code() -> BTreeMap<String, String> {
    let mut all = Vec::new();
    sources(&root(), &mut all);
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
    let of_tests =
        |name: &String| ["tests.rs", "test_support.rs", "simulation.rs"].iter().any(|end| name.ends_with(end));
    let text = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        // Test modules in the file stand at its end; one in a file of its own is declared above the code.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        code.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
    };
    all.iter().map(|path| (name(path), text(path))).filter(|(name, _)| !of_tests(name)).collect()
}

/// The files under `src/` in whose code `word` occurs.
fn files_with(word: &str) -> Vec<String> {
    code().into_iter().filter(|(_, code)| code.contains(word)).map(|(name, _)| name).collect()
}

fn outside(word: &str, allowed: &[&str]) -> Vec<String> {
    let found = files_with(word);
    assert!(!found.is_empty(), "{word} is nowhere: this test looks for the wrong thing");
    found.into_iter().filter(|name| !allowed.iter().any(|start| name.starts_with(start))).collect()
}

/// A module as its path: `studies::trees` is src/studies/trees/mod.rs.
fn module(file: &str) -> String {
    file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::")
}

/// Every path that a list of imports names: `a::{b, c::{d, e}}` is `a::b`, `a::c::d` and `a::c::e`.
fn paths(prefix: &str, imports: &str, found: &mut Vec<String>) {
    let (mut depth, mut start) = (0, 0);
    let mut items = Vec::new();
    for (at, c) in imports.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&imports[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&imports[start..]);
    for item in items.into_iter().map(str::trim).filter(|item| !item.is_empty()) {
        match item.split_once('{') {
            Some((stem, rest)) => {
                let inside = rest.rsplit_once('}').expect("braces close").0;
                paths(&format!("{prefix}{stem}"), inside, found);
            }
            None => found.push(format!("{prefix}{}", item.split(" as ").next().unwrap().trim_end_matches("::self"))),
        }
    }
}

/// The text between `use` and the semicolon in every import of a file.
fn statements(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("use ") {
        let line = rest[..start].rsplit('\n').next().unwrap().trim();
        let end = rest[start..].find(';').map_or(rest.len(), |end| start + end);
        // Not the word within a text.
        if line.is_empty() || line == "pub" || (line.starts_with("pub(") && line.ends_with(')')) {
            found.push(&rest[start + 4..end]);
        }
        rest = &rest[start + 4..];
    }
    found
}

/// The modules that each module imports from, or names by a path from `crate`.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let code = code();
    let modules: BTreeSet<String> =
        code.keys().filter(|name| !["lib.rs", "main.rs"].contains(&name.as_str())).map(|name| module(name)).collect();
    // The longest beginning of a path that is a module.
    let resolve = |path: &str| -> Option<String> {
        let mut path = path.to_owned();
        while !modules.contains(&path) {
            path.truncate(path.rfind("::")?);
        }
        Some(path)
    };
    let of = |name: &String, text: &String| {
        let own = module(name);
        let parent = own.rsplit_once("::").map_or("", |(parent, _)| parent);
        let mut named = Vec::new();
        for statement in statements(text) {
            paths("", statement, &mut named);
        }
        let absolute = named.iter().filter_map(|path| {
            let up = path.strip_prefix("super::").map(|rest| format!("{parent}::{rest}"));
            let child = path.split("::").next().map(|first| format!("{own}::{first}"));
            let child = child.filter(|child| modules.contains(child)).map(|_| format!("{own}::{path}"));
            path.strip_prefix("crate::").map(str::to_owned).or(up).or(child).and_then(|path| resolve(&path))
        });
        // What only some folder may see names that folder, and imports nothing from it.
        let text = text.replace("(in crate::", "(in ");
        let text = statements(&text).into_iter().fold(text.clone(), |text, statement| text.replace(statement, ""));
        let in_line: Vec<String> = text
            .split("crate::")
            .skip(1)
            .filter_map(|rest| {
                let end = rest.find(|c: char| !c.is_alphanumeric() && !"_:".contains(c)).unwrap_or(rest.len());
                resolve(&rest[..end])
            })
            .collect();
        let found: BTreeSet<String> = absolute.chain(in_line).filter(|other| *other != own).collect();
        (own, found)
    };
    code.iter().filter(|(name, _)| modules.contains(&module(name))).map(|(name, text)| of(name, text)).collect()
}

/// For each folder of `src/` the folders whose modules it may import. What is not in the table is not allowed.
const EDGES: &[(&str, &[&str])] = &[
    ("system", &[]),
    ("stats", &["system"]),
    ("corpus", &["system"]),
    ("model", &["system"]),
    ("sequences", &["corpus", "model", "stats", "system"]),
    ("passes", &["corpus", "model", "sequences", "stats", "system"]),
    ("studies", &["corpus", "model", "passes", "sequences", "stats", "system"]),
    ("report", &["corpus", "model", "passes", "sequences", "stats", "studies", "system"]),
    ("export", &["model", "passes", "report", "sequences", "stats", "studies", "system"]),
    ("commands", &["corpus", "export", "model", "passes", "report", "sequences", "stats", "studies", "system"]),
];

#[test]
fn folders_import_from_below() {
    let folder = |module: &str| module.split("::").next().unwrap().to_owned();
    let mut wrong = Vec::new();
    for (from, imported) in imports() {
        let allowed = EDGES.iter().find(|(name, _)| *name == folder(&from));
        let allowed = allowed.unwrap_or_else(|| panic!("{from} is in no folder of the table")).1;
        let others = imported.iter().filter(|to| folder(to) != folder(&from));
        wrong.extend(others.filter(|to| !allowed.contains(&folder(to).as_str())).map(|to| format!("{from} -> {to}")));
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn no_imports_go_in_a_circle() {
    // Taking away, again and again, what imports nothing that is left: what stays is in a circle, or leads to one.
    let mut left = imports();
    assert!(left.len() > 50 && left.values().any(|imported| imported.len() > 3), "imports are found");
    loop {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        left.values_mut().for_each(|imported| imported.retain(|name| names.contains(name)));
        let before = left.len();
        left.retain(|_, imported| !imported.is_empty());
        if left.len() == before {
            break;
        }
    }
    assert_eq!(left, BTreeMap::new());
}

#[test]
fn the_root_is_small() {
    let entries = fs::read_dir(root()).unwrap().count();
    assert!(entries <= 12, "src/ has {entries} entries");
}

#[test]
fn studies_are_named_in_their_folders_and_in_the_table() {
    let studies: Vec<String> = fs::read_dir(root().join("studies"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("mod.rs").is_file())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert!(studies.len() >= 4, "{studies:?}");
    for study in studies {
        let folder = format!("studies::{study}");
        let is_inside =
            |file: &str| file.strip_prefix(&folder).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        let imports = imports();
        let importers =
            imports.iter().filter(|(from, imported)| !is_inside(from) && imported.iter().any(|to| is_inside(to)));
        assert_eq!(importers.map(|(from, _)| from.as_str()).collect::<Vec<_>>(), ["studies::all"], "{study}");
    }
}

#[test]
fn only_the_hub_client_reaches_the_network() {
    assert_eq!(outside("hf_hub", &["model/hub/"]), [""; 0]);
    assert_eq!(files_with("std::net"), [""; 0]);
}

#[test]
fn only_the_model_knows_tensors() {
    assert_eq!(outside("candle", &["model/"]), [""; 0]);
    assert_eq!(outside("gemm", &["model/"]), [""; 0]);
}

#[test]
fn only_the_command_line_knows_clap() {
    assert_eq!(outside("clap", &["commands/cli/"]), [""; 0]);
}

/// An output cannot overwrite what was opened there.
#[test]
fn inputs_are_opened_in_one_place() {
    for word in [" File::open(", "(File::open(", "fs::read(", "fs::read_to_string("] {
        assert_eq!(files_with(word).iter().filter(|name| !name.starts_with("system/")).count(), 0, "{word}");
    }
}

#[test]
fn unsafe_code_is_in_one_place() {
    assert_eq!(files_with("unsafe "), ["model/forward/matmul.rs"]);
}

#[test]
fn only_the_writers_and_readers_know_json_text() {
    // Reports are written by export/ and report/; config.json and tokenizer_config.json are read by model/;
    // corpus/ reads JSON lines, counts.rs files of counts; maps.rs writes metadata, cli/ prints the schema; thresholds and
    // sections of a saved report are read by studies/; partials have a header in JSON, and identities are compared as
    // such; diff/ says what two runs do not share; batch/ remembers what it has done; errors are printed for programs.
    let allowed = [
        "export/",
        "report/",
        "model/",
        "corpus/jsonl.rs",
        "commands/maps.rs",
        "commands/cli/",
        "commands/batch/",
        "system/described.rs",
        "commands/diff/",
        "studies/policy.rs",
        "studies/study.rs",
        "studies/dependency/mod.rs",
        "studies/clark2019/mod.rs",
        "studies/words/mod.rs",
        "studies/frequency/mod.rs",
        "studies/explained/mod.rs",
        "sequences/counts.rs",
        "system/json.rs",
        "studies/repeats/mod.rs",
        "studies/coreference/mod.rs",
        "studies/segments/mod.rs",
        "studies/effect/mod.rs",
        "studies/arc_use/mod.rs",
        "studies/pruning/mod.rs",
        "studies/gradient/mod.rs",
        "studies/drift/mod.rs",
        "studies/dependence/mod.rs",
        "studies/dependence/section.rs",
        "studies/likeness/mod.rs",
        "studies/clusters/mod.rs",
        "studies/table.rs",
        "studies/probes/mod.rs",
        "studies/examples/mod.rs",
        "passes/partial.rs",
        "passes/identity.rs",
        "passes/countable.rs",
    ];
    assert_eq!(outside("serde_json", &allowed), [""; 0]);
}
