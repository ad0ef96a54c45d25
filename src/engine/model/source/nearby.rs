//! A model folder whose name is much like one that is not there.

use std::path::{Path, PathBuf};

use crate::model::files::names::CONFIG;

/// Below it two names have little in common: `tiny-bert` and `small-gpt` have 0.41.
const ALIKE: f64 = 0.85;

/// The model folder whose name is nearest to a misspelt part of `path`.
pub(super) fn folder(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().skip(1).find(|folder| folder.as_os_str().is_empty() || folder.is_dir())?;
    let mut rest = path.strip_prefix(there).ok()?.components();
    let wrong = rest.next()?.as_os_str().to_str()?.to_lowercase();
    // `./` says that it is a folder and no Hub id.
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    let folders = there.read_dir().ok()?.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        let likeness = strsim::jaro_winkler(&name.to_str()?.to_lowercase(), &wrong);
        let mut folder = there.join(&name);
        folder.extend(rest.clone());
        (likeness >= ALIKE && folder.join(CONFIG).is_file()).then_some((likeness, folder))
    });
    // The first by name of equally near ones.
    let best = folders.max_by(|(a, first), (b, second)| a.total_cmp(b).then_with(|| second.cmp(first)));
    best.map(|(_, folder)| folder)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn one_name_of_a_path_may_be_misspelt() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for folder in ["models/tiny-bert", "models/tiny-berts", "models/other"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join(CONFIG), "{}").unwrap();
        }
        fs::create_dir_all(root.join("models/tiny-bort")).unwrap();
        let suggestion = |path: &str| folder(&root.join(path)).map(|path| path.strip_prefix(root).unwrap().to_owned());
        for wrong in ["models/tiny_bert", "models/Tiny-Bert", "models/tinybert", "model/tiny-bert", "Models/tiny-bert/"]
        {
            assert_eq!(suggestion(wrong).as_deref(), Some(Path::new("models/tiny-bert")), "{wrong}");
        }
        for far in ["models/large-gpt", "modles/tinnybert", "tiny-bert"] {
            assert_eq!(suggestion(far), None, "{far}");
        }
    }
}
