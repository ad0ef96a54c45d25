//! The index of weights that are in several files.

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::file::ModelFile;
use super::names::{LONGEST_INDEX, WEIGHTS};
use crate::system::errors::Facts;

/// The extension of the shards' names that an index lists.
fn extension(index: &Path) -> &'static str {
    let is_safetensors = index.file_name().is_some_and(|name| name == WEIGHTS[1]);
    if is_safetensors { "safetensors" } else { "bin" }
}

/// No file system in use has longer names.
const LONGEST_NAME: usize = 255;

#[derive(Deserialize)]
struct Index {
    /// The file of each tensor.
    weight_map: HashMap<String, String>,
}

/// The names of the files that an index lists, in order.
/// Fails if it cannot be read, lists none, or lists one that does not lie beside it.
pub(super) fn shards(index: &ModelFile) -> Result<Vec<String>> {
    let text = index.text(LONGEST_INDEX)?;
    let path = index.path();
    listed(&text, extension(path)).cannot("use", path.display())
}

fn listed(text: &str, extension: &str) -> Result<Vec<String>> {
    let Index { weight_map } = serde_json::from_str(text).context("not an index of weights")?;
    let names: BTreeSet<String> = weight_map.into_values().collect();
    ensure!(!names.is_empty(), "it lists no files");
    for name in &names {
        ensure!(name.len() <= LONGEST_NAME, "it lists a file whose name has {} bytes", name.len());
        let path = Path::new(name);
        let mut parts = path.components();
        let beside =
            matches!((parts.next(), parts.next()), (Some(Component::Normal(only)), None) if only == name.as_str());
        // The same on every system: a backslash separates folders on Windows, a colon follows a drive.
        ensure!(beside && !name.contains(['\\', ':']), "it lists the file {name:?}, which does not lie beside it");
        ensure!(
            path.extension().is_some_and(|found| found == extension),
            "it lists the file {name:?}, which is no .{extension}"
        );
    }
    Ok(names.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shards_in_order_each_once() {
        let text = r#"{"metadata": {"total_size": 1}, "weight_map": {"a": "2.bin", "b": "1.bin", "c": "2.bin"}}"#;
        assert_eq!(listed(text, "bin").unwrap(), ["1.bin", "2.bin"]);
    }

    #[test]
    fn names_that_leave_the_folder() {
        for name in ["../a.bin", "/etc/a.bin", "a/b.bin", "./a.bin", "a.bin/", "..", ".", "", "a\\\\b.bin", "C:a.bin"] {
            let text = format!(r#"{{"weight_map": {{"x": "1.bin", "y": "{name}"}}}}"#);
            let error = listed(&text, "bin").unwrap_err().to_string();
            assert!(error.starts_with("it lists the file "), "{name}: {error}");
            assert!(error.ends_with(", which does not lie beside it"), "{name}: {error}");
        }
    }

    #[test]
    fn what_is_no_index() {
        let error = |text: &str| format!("{:#}", listed(text, "safetensors").unwrap_err());
        assert_eq!(error("{}"), "not an index of weights: missing field `weight_map` at line 1 column 2");
        assert_eq!(error(r#"{"weight_map": {}}"#), "it lists no files");
        let long = format!(r#"{{"weight_map": {{"x": "{}"}}}}"#, "a".repeat(300));
        assert_eq!(error(&long), "it lists a file whose name has 300 bytes");
        let other = error(r#"{"weight_map": {"x": "config.json\u001b"}}"#);
        assert_eq!(other, r#"it lists the file "config.json\u{1b}", which is no .safetensors"#);
    }

    proptest! {
        #[test]
        fn no_listed_name_leaves_the_folder(name in "[./\\\\:a-z]{0,12}") {
            let text = serde_json::json!({"weight_map": {"x": format!("{name}.bin")}}).to_string();
            if let Ok(names) = listed(&text, "bin") {
                let folder = Path::new("/models/bert");
                let path = folder.join(&names[0]);
                prop_assert_eq!(path.parent(), Some(folder));
                prop_assert!(path.file_name().is_some());
            }
        }
    }
}
