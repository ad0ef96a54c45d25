//! The imports among the modules of `src/`, read from the sources, and the cycles among these modules.

use std::collections::{BTreeMap, BTreeSet};

/// The modules that each module imports, by path: `studies::registry` is src/analysis/studies/registry.rs.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// The crates below the program, each a folder of `src/`. The crates above name their modules as their own.
const CRATES: [&str; 2] = ["engine/", "analysis/"];

/// The module path of a file.
pub fn module(file: &str) -> String {
    let file = CRATES.iter().find_map(|folder| file.strip_prefix(folder)).unwrap_or(file);
    file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::")
}

/// Every path in a list of imports: `a::{b, c::{d, e}}` gives `a::b`, `a::c::d` and `a::c::e`.
fn paths(prefix: &str, imports: &str, listed: &mut Vec<String>) {
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
                paths(&format!("{prefix}{stem}"), inside, listed);
            }
            None => listed.push(format!("{prefix}{}", item.split(" as ").next().unwrap().trim_end_matches("::self"))),
        }
    }
}

/// The text between `use` and the semicolon in every import of a file.
fn statements(text: &str) -> Vec<&str> {
    let mut listed = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("use ") {
        let line = rest[..start].rsplit('\n').next().unwrap().trim();
        let end = rest[start..].find(';').map_or(rest.len(), |end| start + end);
        // Skips the word `use` inside other text.
        if line.is_empty() || line == "pub" || (line.starts_with("pub(") && line.ends_with(')')) {
            listed.push(&rest[start + 4..end]);
        }
        rest = &rest[start + 4..];
    }
    listed
}

/// Every path of two or more parts in a text: `a::b::c`.
fn in_line(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    text.split(move |c| !is_part(c)).filter(|path| path.contains("::") && !path.starts_with(':'))
}

/// A path in the module `own`, from the root of its crate. `None` if the path begins with no module of `own`.
fn absolute(path: &str, own: &str, is_module: impl Fn(&str) -> bool) -> Option<String> {
    let join = |folder: &str, rest: &str| if folder.is_empty() { rest.to_owned() } else { format!("{folder}::{rest}") };
    if let Some(rest) = path.strip_prefix("crate::") {
        return Some(rest.to_owned());
    }
    let mut folder = own;
    let mut rest = path.strip_prefix("self::").unwrap_or(path);
    while let Some(above) = rest.strip_prefix("super::") {
        folder = folder.rsplit_once("::").map_or("", |(parent, _)| parent);
        rest = above;
    }
    let child = join(own, path.split("::").next()?);
    (rest != path || is_module(&child)).then(|| join(folder, rest))
}

/// The imports of the sources in `code`, keyed by path under `src/`, without comments and tests.
/// A path counts if it is imported, or written inline after `crate`, `self`, `super`, an imported module or a child.
pub fn imports(code: &BTreeMap<String, String>) -> Imports {
    let files: Vec<(String, &String)> = (code.iter())
        .filter(|(name, _)| !name.ends_with("lib.rs") && *name != "main.rs")
        .map(|(name, text)| (module(name), text))
        .collect();
    let modules: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    // The longest prefix of a path that is a module.
    let resolve = |mut path: &str| loop {
        if modules.contains(path) {
            return Some(path.to_owned());
        }
        path = path.rsplit_once("::")?.0;
    };
    let named = |own: &str, text: &str| {
        // `pub(in crate::folder)` names a folder and imports nothing from it.
        let text = text.replace("(in crate::", "(in ");
        let mut imported = Vec::new();
        for statement in statements(&text) {
            paths("", statement, &mut imported);
        }
        let absolute = |path: &str| absolute(path, own, |name| modules.contains(name));
        let imported: Vec<String> = imported.iter().filter_map(|path| absolute(path)).collect();
        let rest = statements(&text).into_iter().fold(text.clone(), |text, statement| text.replace(statement, ""));
        let from_imported = |path: &str| {
            let (first, rest) = path.split_once("::")?;
            let folder = imported.iter().find(|folder| folder.rsplit("::").next() == Some(first))?;
            Some(format!("{folder}::{rest}"))
        };
        let is_rooted = |path: &str| ["crate::", "self::", "super::"].iter().any(|root| path.starts_with(root));
        let in_line = in_line(&rest);
        let in_line = in_line.filter_map(|path| {
            if is_rooted(path) { absolute(path) } else { from_imported(path).or_else(|| absolute(path)) }
        });
        let all = imported.iter().cloned().chain(in_line);
        all.filter_map(|path| resolve(&path)).filter(|other| other != own).collect()
    };
    files.iter().map(|(own, text)| (own.clone(), named(own, text))).collect()
}

/// The imports that lie on a cycle, as pairs of modules.
pub fn cycles(imports: &Imports) -> Vec<[&str; 2]> {
    let reach = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = open.pop() {
            open.extend(imports.get(&module).into_iter().flatten().filter(|to| seen.insert((*to).clone())).cloned());
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<String>> = imports.keys().map(|from| (from.as_str(), reach(from))).collect();
    let edges = imports.iter().flat_map(|(from, imported)| imported.iter().map(move |to| [from.as_str(), to.as_str()]));
    edges.filter(|[from, to]| reached.get(to).is_some_and(|reached| reached.contains(*from))).collect()
}

/// The imports that close a cycle among the entries of a folder, as `from -> to`, keyed by the folder.
/// An entry is a file, or a folder with its contents. A module and its parent count as two files.
pub fn folder_cycles(imports: &Imports) -> BTreeMap<String, Vec<String>> {
    let mut folders: BTreeMap<String, Vec<[&str; 4]>> = BTreeMap::new();
    for (from, to) in imports.iter().flat_map(|(from, imported)| imported.iter().map(move |to| (from, to))) {
        let parts: Vec<&str> = from.split("::").collect();
        let shared = parts.iter().zip(to.split("::")).take_while(|(a, b)| *a == b).count();
        if let (Some(entry), Some(other)) = (parts.get(shared), to.split("::").nth(shared)) {
            folders.entry(parts[..shared].join("::")).or_default().push([entry, other, from, to]);
        }
    }
    let closing = |edges: Vec<[&str; 4]>| -> Vec<String> {
        let mut entries = Imports::new();
        for [from, to, ..] in &edges {
            entries.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        let listed = cycles(&entries);
        edges
            .into_iter()
            .filter(|[a, b, ..]| listed.contains(&[a, b]))
            .map(|[.., a, b]| format!("{a} -> {b}"))
            .collect()
    };
    let closing = folders.into_iter().map(|(folder, edges)| (folder, closing(edges)));
    closing.filter(|(_, edges)| !edges.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports_of(files: &[(&str, &str)]) -> Imports {
        imports(&files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    fn in_cycles(files: &[(&str, &str)]) -> Vec<String> {
        cycles(&imports_of(files)).into_iter().map(|[from, _]| from.to_owned()).collect()
    }

    #[test]
    fn file_cycles_are_found_in_every_form_of_path() {
        let b = ("s/b.rs", "use super::a::A;\npub fn f() {}");
        for a in [
            "use crate::s::b;",
            "use super::b::f;",
            "use super::{b, c};",
            "fn g() { super::b::f() }",
            "fn g() { crate::s::b::f() }",
            "fn g() { super::super::s::b::f() }",
            "use super::super::s;\nfn g() { s::b::f() }",
        ] {
            assert_eq!(in_cycles(&[("s/a.rs", a), b, ("s/mod.rs", "mod a;\nmod b;")]), ["s::a", "s::b"], "{a}");
        }
        assert_eq!(in_cycles(&[("s/a.rs", "fn g() { b::f() }"), b]), [""; 0], "b is no child of a");
    }

    #[test]
    fn module_parent_cycles_are_found() {
        let child = ("s/a.rs", "fn g() { super::f() }");
        for parent in [
            "mod a;\nuse a::g;",
            "mod a;\nuse self::a::g;",
            "mod a;\nfn f() { self::a::g() }",
            "mod a;\nfn f() { a::g() }",
        ] {
            assert_eq!(in_cycles(&[("s/mod.rs", parent), child]), ["s", "s::a"], "{parent}");
        }
        assert_eq!(in_cycles(&[("s/mod.rs", "mod a;\nfn f() {}"), child]), [""; 0]);
    }

    #[test]
    fn folder_cycles_are_found_without_file_cycles() {
        let files = [
            ("s/a/one.rs", "use crate::s::b::one::B;"),
            ("s/a/two.rs", "pub struct A;"),
            ("s/b/one.rs", "pub struct B;"),
            ("s/b/two.rs", "use super::super::a::two::A;"),
        ];
        let imports = imports_of(&files);
        assert_eq!(cycles(&imports), [[""; 2]; 0]);
        let listed = folder_cycles(&imports);
        assert_eq!(listed.keys().collect::<Vec<_>>(), ["s"]);
        assert_eq!(listed["s"], ["s::a::one -> s::b::one", "s::b::two -> s::a::two"]);
        assert_eq!(folder_cycles(&imports_of(&files[..3])), BTreeMap::new());
    }
}
