//! Replays the fuzzing corpus, seeds and findings, against the properties that the fuzz targets check (tests/fuzz/run).

#[path = "fuzz/properties.rs"]
mod properties;

use std::fs;
use std::panic;
use std::path::Path;

/// Checks every file of `tests/fuzz/corpus/TARGET`. The target accepts a file unless its name begins with `bad-`. A
/// seed that is rejected at once would fuzz nothing but that rejection.
#[test]
fn targets_accept_exactly_the_good_inputs() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    let mut replayed = Vec::new();
    for folder in fs::read_dir(corpus).unwrap() {
        let folder = folder.unwrap();
        let name = folder.file_name().into_string().unwrap();
        let target = properties::target(&name).unwrap_or_else(|| panic!("there is no target `{name}`"));
        for input in fs::read_dir(folder.path()).unwrap() {
            let input = input.unwrap();
            let data = fs::read(input.path()).unwrap();
            let good = !input.file_name().to_string_lossy().starts_with("bad-");
            let accepted = panic::catch_unwind(|| target(&data));
            assert_eq!(accepted.ok(), Some(good), "{}", input.path().display());
        }
        replayed.push(name);
    }
    replayed.sort();
    let mut all: Vec<&str> = properties::TARGETS.iter().map(|(name, _)| *name).collect();
    all.sort_unstable();
    assert_eq!(replayed, all, "each target has its inputs");
}
