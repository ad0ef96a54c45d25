use super::*;
use crate::model::families::bert::SMALL_CONFIG_JSON;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The part of `acme/tiny-bert` of a cache in `folder`.
fn cache(folder: &Path) -> Cache {
    Cache::new(&Environment::of(&[("HF_HUB_CACHE", folder.to_str().unwrap())]), "acme/tiny-bert")
}

fn write(path: &Path, text: &str) {
    create_parent(path).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_model_is_found_by_branch_and_by_commit() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("models--acme--tiny-bert");
    let snapshot = model.join("snapshots").join(COMMIT);
    for (name, text) in [("config.json", SMALL_CONFIG_JSON), ("tokenizer.json", ""), ("model.safetensors", "")] {
        write(&snapshot.join(name), text);
    }
    write(&model.join("refs/main"), COMMIT);
    write(&model.join("refs/refs/pr/5"), COMMIT);
    for revision in ["main", "refs/pr/5", COMMIT] {
        let Ok(files) = cache(folder.path()).files("acme/tiny-bert", revision) else {
            panic!("not found by {revision}")
        };
        assert_eq!(files.id, "acme/tiny-bert");
        assert_eq!(files.revision.as_deref(), Some(COMMIT));
        assert_eq!(files.weights[0].path(), snapshot.join("model.safetensors"));
        assert_eq!(files.tokenizer.iter().count(), 1);
    }
}

#[test]
fn the_closest_model_is_one_with_much_in_common() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["models--acme--tiny-bert", "models--google-bert--bert-base-uncased", "datasets--acme--tiny-bird"] {
        fs::create_dir_all(folder.path().join(name).join("snapshots")).unwrap();
    }
    // Asked for once and never there.
    fs::create_dir_all(folder.path().join("models--acme--tiny-berts/refs")).unwrap();
    let cache = cache(folder.path());
    for (id, expected) in [
        ("acme/tiny-bret", Some("acme/tiny-bert")),
        ("Acme/Tiny-BERT", Some("acme/tiny-bert")),
        ("bert-base-uncased", Some("google-bert/bert-base-uncased")),
        ("acme/tiny-bert", None),
        ("acme/small-gpt", None),
    ] {
        assert_eq!(cache.closest_id(id).as_deref(), expected, "{id}");
    }
}

#[test]
fn paths_that_lead_elsewhere_are_no_names() {
    for name in ["config.json", "onnx/model.onnx", "a/b/c.d", "..a"] {
        assert!(is_relative_path(name), "{name}");
    }
    for name in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", "C:x", "..\\x", "a\0"] {
        assert!(!is_relative_path(name), "{name:?}");
    }
}

#[test]
fn a_lock_keeps_others_out_until_it_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    let lock = cache.lock("abc", &()).unwrap();
    let path = folder.path().join(".locks/models--acme--tiny-bert/abc.lock");
    let other = File::open(&path).unwrap();
    assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
    drop(lock);
    other.try_lock().unwrap();
}

#[test]
fn a_ref_that_leads_out_of_the_cache_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("models--acme--tiny-bert");
    write(&model.join("refs/main"), "../../..");
    assert!(cache(folder.path()).files("acme/tiny-bert", "main").is_err());
}
