//! Checks the invariants of docs/ARCHITECTURE.md that can be read from the source text.

#[path = "support/imports.rs"]
mod imports;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use imports::{Imports, module};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn sources(folder: &Path, listed: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, listed);
        } else {
            listed.push(path);
        }
    }
}

/// Every source file except tests, by its path under `src/`, without comments and test modules.
fn code() -> BTreeMap<String, String> {
    let mut all = Vec::new();
    sources(&root(), &mut all);
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
    let is_test_file = |name: &String| {
        let ends = ["tests.rs", "test_support.rs", "simulation.rs"];
        ends.iter().any(|end| name.ends_with(end)) || name.contains("/tests/")
    };
    let text = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        // An inline test module stands at the end of its file; a test module in its own file is declared above the
        // code.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        code.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
    };
    let is_source = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    all.iter().filter(is_source).map(|path| (name(path), text(path))).filter(|(name, _)| !is_test_file(name)).collect()
}

/// The files under `src/` whose code contains `word`.
fn files_with(word: &str) -> Vec<String> {
    code().into_iter().filter(|(_, code)| code.contains(word)).map(|(name, _)| name).collect()
}

fn outside(word: &str, allowed: &[&str]) -> Vec<String> {
    let listed = files_with(word);
    assert!(!listed.is_empty(), "{word} is nowhere: this test looks for the wrong thing");
    listed.into_iter().filter(|name| !allowed.iter().any(|start| name.starts_with(start))).collect()
}

/// The modules that each module imports.
fn imports() -> Imports {
    imports::imports(&code())
}

/// For each folder of `src/`, the folders that it may import from. Every other import is forbidden.
const EDGES: &[(&str, &[&str])] = &[
    ("system", &[]),
    ("linalg", &["system"]),
    ("stats", &["linalg", "system"]),
    ("corpus", &["system"]),
    ("model", &["linalg", "system"]),
    ("sequences", &["corpus", "linalg", "model", "stats", "system"]),
    ("passes", &["corpus", "model", "sequences", "stats", "system"]),
    ("study", &["corpus", "linalg", "model", "passes", "sequences", "stats", "system"]),
    ("studies", &["corpus", "linalg", "model", "passes", "sequences", "stats", "study", "system"]),
    ("evaluation", &["model", "passes", "sequences", "stats", "studies", "study", "system"]),
    ("report", &["corpus", "evaluation", "model", "passes", "sequences", "stats", "studies", "study", "system"]),
    ("export", &["evaluation", "model", "passes", "report", "sequences", "stats", "studies", "study", "system"]),
    (
        "commands",
        &[
            "corpus",
            "evaluation",
            "export",
            "model",
            "passes",
            "report",
            "sequences",
            "stats",
            "studies",
            "study",
            "system",
        ],
    ),
];

#[test]
fn folders_import_only_allowed_folders() {
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
fn imports_form_no_cycle() {
    let imports = imports();
    assert!(imports.len() > 50 && imports.values().any(|imported| imported.len() > 3), "imports are found");
    let folders = imports::folder_cycles(&imports);
    assert!(folders.is_empty(), "{folders:#?}");
    assert_eq!(imports::cycles(&imports), [[""; 2]; 0]);
}

/// The largest number of entries of a folder that a reader takes in at a glance.
const MOST_ENTRIES: usize = 14;

#[test]
fn folders_have_at_most_fourteen_entries() {
    fn folders(folder: &Path, listed: &mut Vec<(PathBuf, usize)>) {
        let entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        listed.push((folder.to_owned(), entries.len()));
        entries.iter().filter(|path| path.is_dir()).for_each(|path| folders(path, listed));
    }
    let mut listed = Vec::new();
    folders(&root(), &mut listed);
    listed.retain(|(_, entries)| *entries > MOST_ENTRIES);
    assert_eq!(listed, []);
}

#[test]
fn studies_are_named_in_their_folders_and_in_the_registry() {
    // A study's folder lies two levels below `analysis/studies` and has its own mod.rs.
    let is_study = |path: &Path| {
        let parts: Vec<&str> = path.iter().map(|part| part.to_str().unwrap()).collect();
        matches!(parts[..], ["analysis", "studies", _, _, "mod.rs"])
    };
    let studies: Vec<String> =
        code().into_keys().filter(|name| is_study(Path::new(name))).map(|name| module(&name)).collect();
    assert!(studies.len() >= 20, "{studies:?}");
    let imports = imports();
    for study in studies {
        let is_inside =
            |file: &str| file.strip_prefix(&study).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        let importers =
            imports.iter().filter(|(from, imported)| !is_inside(from) && imported.iter().any(|to| is_inside(to)));
        let importers: Vec<&str> = importers.map(|(from, _)| from.as_str()).collect();
        assert_eq!(importers, ["studies::registry"], "{study}");
    }
}

/// The three traits of a study have at most twelve methods, and docs/ARCHITECTURE.md names each method.
#[test]
fn study_traits_have_at_most_twelve_methods() {
    const CONTRACT: [(&str, &str); 3] = [
        ("analysis/study/mod.rs", "pub trait Study: "),
        ("engine/passes/observer/mod.rs", "pub trait Sums: "),
        ("analysis/study/section.rs", "pub trait Section: "),
    ];
    let code = code();
    let methods = |(file, start): (&str, &str)| -> Vec<String> {
        let trait_body = code[file].split_once(start).expect(start).1.split("\n}\n").next().unwrap();
        let names = trait_body.lines().filter_map(|line| line.strip_prefix("    fn ")?.split('(').next());
        names.map(str::to_owned).collect()
    };
    let names: Vec<String> = CONTRACT.into_iter().flat_map(methods).collect();
    assert!(names.len() <= 12, "{names:?}");
    let page = fs::read_to_string(root().join("../docs/ARCHITECTURE.md")).unwrap();
    let unnamed: Vec<&String> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(unnamed.is_empty(), "{unnamed:?}: methods that docs/ARCHITECTURE.md does not name");
}

#[test]
fn architecture_page_names_existing_files_and_folders() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    ["src", "tests", "docs", "fixtures"].iter().for_each(|folder| sources(&package.join(folder), &mut files));
    let files: Vec<String> =
        files.iter().map(|path| format!("/{}", path.strip_prefix(package).unwrap().display())).collect();
    let page = fs::read_to_string(package.join("docs/ARCHITECTURE.md")).unwrap();
    let named = page.split('`').skip(1).step_by(2).filter(|name| !name.contains(char::is_whitespace));
    let is_file = |name: &str| Path::new(name).extension().is_some_and(|extension| extension == "rs");
    let paths: Vec<&str> = named.filter(|name| is_file(name) || name.ends_with('/')).collect();
    assert!(paths.len() > 50, "{paths:?}");
    let is_there = |path: &&&str| {
        let inside = format!("/{path}");
        files.iter().any(|file| if is_file(path) { file.ends_with(&inside) } else { file.contains(&inside) })
    };
    let absent: Vec<&&str> = paths.iter().filter(|path| !is_there(path)).collect();
    assert_eq!(absent, [&""; 0]);
}

/// The lines of a page outside code blocks.
fn prose(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let mut is_code = false;
    let is_prose = |line: &&str| {
        is_code ^= line.starts_with("```");
        !is_code
    };
    text.lines().filter(is_prose).map(str::to_owned).collect()
}

/// The anchor that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    heading.trim().to_lowercase().chars().filter(is_kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn docs_links_lead_to_files_and_headings() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = Vec::new();
    sources(&package.join("docs"), &mut pages);
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| package.join(name)));
    let has_heading = |page: &Path, heading: &str| {
        prose(page).iter().any(|line| line.starts_with('#') && anchor(line.trim_start_matches('#')) == heading)
    };
    let (mut followed, mut broken) = (0, Vec::new());
    for page in &pages {
        for line in prose(page) {
            let links = line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
            for link in links.filter(|link| !link.contains("://")) {
                let (path, heading) = link.split_once('#').unwrap_or((link, ""));
                let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
                followed += 1;
                if !target.exists() || !heading.is_empty() && !has_heading(&target, heading) {
                    broken.push(format!("{}: {link}", page.display()));
                }
            }
        }
    }
    assert!(followed > 200, "{followed}");
    assert_eq!(broken, [""; 0]);
}

#[test]
fn only_the_hub_client_reaches_the_network() {
    assert_eq!(outside("hf_hub", &["engine/model/hub/"]), [""; 0]);
    assert_eq!(files_with("std::net"), [""; 0]);
}

#[test]
fn only_the_model_knows_tensors() {
    assert_eq!(outside("candle", &["engine/model/"]), [""; 0]);
    assert_eq!(outside("gemm::", &["engine/linalg/matmul.rs"]), [""; 0]);
}

#[test]
fn only_the_command_line_knows_clap() {
    assert_eq!(outside("clap", &["commands/cli/"]), [""; 0]);
}

/// Inputs are opened in `engine/system` alone, so that no output can overwrite an opened input.
#[test]
fn inputs_are_opened_in_one_place() {
    for word in [" File::open(", "(File::open(", "fs::read(", "fs::read_to_string("] {
        assert_eq!(files_with(word).iter().filter(|name| !name.starts_with("engine/system/")).count(), 0, "{word}");
    }
}

#[test]
fn unsafe_code_is_in_one_place() {
    assert_eq!(files_with("unsafe "), ["engine/linalg/matmul.rs"]);
}

#[test]
fn only_the_writers_and_readers_know_json_text() {
    // `export/` and `report/` write reports; `model/` reads config.json and tokenizer_config.json; `corpus/` reads JSON
    // lines.
    // `counts.rs` reads files of counts, `maps.rs` writes metadata, and `cli/` prints the schema. `studies/` reads
    // thresholds and sections of a saved report.
    // Partials have a JSON header, and their identities are compared as JSON. `numbers/` lists what differs between two
    // runs, `batch/` remembers finished runs, and `errors/` prints errors for programs.
    let allowed = [
        "export/",
        "commands/sentences/maps.rs",
        "commands/keys.rs",
        "commands/cli/",
        "commands/batch/",
        "commands/saved/numbers/",
        "commands/saved/sides/",
        "analysis/report/",
        "analysis/study/",
        "analysis/studies/",
        "engine/model/",
        "engine/corpus/formats/jsonl.rs",
        "engine/sequences/counts.rs",
        "engine/sequences/derived/task/file.rs",
        "engine/system/json.rs",
        "engine/system/errors/",
        "engine/passes/observation/",
        "engine/passes/observer/mod.rs",
    ];
    assert_eq!(outside("serde_json", &allowed), [""; 0]);
}

/// The name of the type that a line of code declares. Associated types are indented and do not count.
fn declared(line: &str) -> Option<&str> {
    let item = line.trim_start();
    let item = match item.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => item,
    };
    let (kind, rest) = item.strip_prefix("unsafe ").unwrap_or(item).split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "union"].contains(&kind) || (kind == "type" && !line.starts_with(' '));
    // In a macro the name is a variable, `$name`.
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().expect("a part");
    (is_type && !name.is_empty()).then_some(name)
}

#[test]
fn type_name_is_declared_at_most_twice() {
    let code = code();
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, text) in &code {
        text.lines().filter_map(declared).for_each(|name| files.entry(name).or_default().push(file));
    }
    assert!(files.len() > 500, "only {} types were found", files.len());
    let crowded: Vec<_> = files.into_iter().filter(|(_, files)| files.len() > 2).collect();
    assert!(crowded.is_empty(), "one name stands for more than two things: {crowded:#?}");
}

/// Identifiers of a text that stand directly after `before` and directly before `after`.
fn identifiers<'a>(text: &'a str, before: &str, after: &str) -> Vec<&'a str> {
    let name = |rest: &'a str| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        (end > 0 && rest[end..].starts_with(after)).then(|| &rest[..end])
    };
    text.split(before).skip(1).filter_map(name).collect()
}

#[test]
fn worked_example_uses_names_of_the_code() {
    let page = fs::read_to_string(root().join("../CONTRIBUTING.md")).unwrap();
    let example: String = page.split("```rust\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    let code: String = code().into_values().collect();
    let missing = |names: Vec<&str>, declared: &dyn Fn(&str) -> String| -> Vec<String> {
        assert!(!names.is_empty(), "the example has names of each kind");
        names.into_iter().map(declared).filter(|declaration| !code.contains(declaration.as_str())).collect()
    };
    let calls = identifiers(&example, ".", "(")
        .into_iter()
        .filter(|name| !["filter", "all", "map", "map_or", "count"].contains(name));
    assert_eq!(missing(calls.collect(), &|name| format!("fn {name}(")), [""; 0]);
    let card = example.split("Card = Card {").nth(1).unwrap().split("..Card").next().unwrap();
    assert_eq!(missing(identifiers(card, "\n    ", ": "), &|field| format!("pub {field}: ")), [""; 0]);
    let paths = ["metric", "Fraction", "Event"].map(|path| identifiers(&example, &format!("{path}::"), "(")).concat();
    let declared =
        |name: &str| if name.starts_with(char::is_uppercase) { format!("{name}(") } else { format!("fn {name}") };
    assert_eq!(missing(paths, &declared), [""; 0]);
}

/// Names of the functions that stand under an attribute, with at most one more attribute between.
fn functions_under<'a>(code: &'a str, attribute: &str) -> Vec<&'a str> {
    let function = |rest: &'a str| {
        let declaration = rest.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with("#["))?;
        let after =
            declaration.split_once("fn ").filter(|(before, _)| before.is_empty() || before.starts_with("pub"))?.1;
        after.split('(').next()
    };
    code.split(attribute).skip(1).filter_map(function).collect()
}

/// Renaming tools see the code of one system alone.
#[test]
fn functions_for_other_systems_have_a_twin_on_unix() {
    let mut twins = 0;
    for (file, code) in code() {
        let on_unix = functions_under(&code, "#[cfg(unix)]");
        for name in functions_under(&code, "#[cfg(not(unix))]") {
            assert!(on_unix.contains(&name), "{file}: `{name}` has no twin under #[cfg(unix)], which has {on_unix:?}");
            twins += 1;
        }
    }
    assert!(twins >= 2, "only {twins} were found");
}
