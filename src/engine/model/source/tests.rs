//! Tests of where a model comes from.

use std::fs;

use super::*;
use crate::model::families::bert::SMALL_CONFIG_JSON;

fn hub_ref(id: &str, revision: Option<&str>) -> ModelRef {
    ModelRef::Hub { id: id.into(), revision: revision.map(Into::into), offline: false }
}

const SAFETENSORS: &str = WEIGHT_FILES[0];

/// A folder with these files, all but `config.json` empty, under a name of its own.
fn model_folder(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("my-bert");
    fs::create_dir(&folder).unwrap();
    for name in names {
        fs::write(folder.join(name), if *name == CONFIG { SMALL_CONFIG_JSON } else { "" }).unwrap();
    }
    (parent, folder)
}

/// Error for a folder, with `DIR` for its path.
fn folder_error(folder: &Path) -> String {
    let error = ModelRef::Folder(folder.to_owned()).resolve(&()).unwrap_err();
    format!("{error:#}").replace(folder.to_str().unwrap(), "DIR")
}

/// Error for a folder with these files, with `DIR` for its path.
fn error_of(names: &[&str]) -> String {
    folder_error(&model_folder(names).1)
}

#[test]
fn names_of_models_on_the_hub() {
    for (text, expected) in [
        ("bert-base-uncased", hub_ref("bert-base-uncased", None)),
        ("acme/tiny-bert", hub_ref("acme/tiny-bert", None)),
        ("acme/tiny_bert.v1@main", hub_ref("acme/tiny_bert.v1", Some("main"))),
        ("acme/tiny-bert@v1.0", hub_ref("acme/tiny-bert", Some("v1.0"))),
        ("acme/tiny-bert@refs/pr/5", hub_ref("acme/tiny-bert", Some("refs/pr/5"))),
        ("https://huggingface.co/acme/tiny-bert", hub_ref("acme/tiny-bert", None)),
        ("https://huggingface.co/acme/tiny-bert/tree/v1.0", hub_ref("acme/tiny-bert", Some("v1.0"))),
    ] {
        assert_eq!(ModelRef::parse(text), expected);
    }
}

#[test]
fn everything_else_is_meant_as_a_folder() {
    for text in [
        "",
        "./model",
        "../model",
        ".",
        "/model",
        "~/model",
        "models/acme/bert",
        "acme/",
        "my model",
        "-bert",
        "a--b",
        "a/b@",
        "a/b@../c",
        "a/b@/c",
        "a/b@c//d",
        "a/b@c@d",
    ] {
        assert_eq!(ModelRef::parse(text), ModelRef::Folder(text.into()));
    }
}

#[test]
fn what_exists_is_meant_as_it_is() {
    // Tests run in the crate's folder, where both of these would do as Hub ids.
    assert_eq!(ModelRef::parse("model"), ModelRef::Folder("model".into()));
    assert_eq!(ModelRef::parse("Cargo.toml"), ModelRef::Folder("Cargo.toml".into()));
}

#[test]
fn names_in_the_box() {
    let parsed = ModelRef::parse("box:planted");
    assert_eq!(parsed, ModelRef::Bundled("box:planted".to_owned()));
    let files = parsed.resolve(&()).unwrap();
    assert_eq!((files.id.as_str(), files.revision.as_deref()), ("box:planted", None));
    assert_eq!(files.config.path(), Path::new("box:planted/config.json"));
    assert!(files.config.text(1000).unwrap().contains("BertModel"));
    assert_eq!(ModelRef::parse("./box:planted"), ModelRef::Folder("./box:planted".into()));
}

#[test]
fn a_folder_is_called_by_its_own_name() {
    let (_parent, folder) = model_folder(&[CONFIG, TOKENIZER, SAFETENSORS, "vocab.txt", "tf_model.h5"]);
    let files = ModelRef::Folder(folder.join("../my-bert/.")).resolve(&()).unwrap();
    assert_eq!((files.id.as_str(), files.revision.as_deref()), ("my-bert", None));
    let tokenizer = |files: &ModelFiles| {
        files.tokenizer.iter().map(|(name, file)| (*name, file.path().to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(tokenizer(&files), [(TOKENIZER, folder.join("../my-bert/./tokenizer.json"))]);
    fs::write(folder.join("tokenizer_config.json"), "").unwrap();
    let files = ModelRef::Folder(folder.clone()).resolve(&()).unwrap();
    assert_eq!(files.config.path(), folder.join("config.json"));
    let expected = [TOKENIZER, "tokenizer_config.json"].map(|name| (name, folder.join(name)));
    assert_eq!(tokenizer(&files), expected);
    assert_eq!(files.weights.iter().map(ModelFile::path).collect::<Vec<_>>(), [folder.join("model.safetensors")]);
}

/// The weights' names in a folder with these files and these texts for indexes.
fn weights(names: &[&str], indexes: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let (_parent, folder) = model_folder(&[&[CONFIG, TOKENIZER], names].concat());
    for (name, text) in indexes {
        fs::write(folder.join(name), text).unwrap();
    }
    let name = |file: ModelFile| file.path().file_name().unwrap().to_str().unwrap().to_owned();
    let files = ModelRef::Folder(folder.clone()).resolve(&()).map_err(|_| folder_error(&folder))?;
    Ok(files.weights.into_iter().map(name).collect())
}

#[test]
fn weights_in_the_order_of_preference_of_transformers() {
    let (safe, other) = ("model.safetensors.index.json", "pytorch_model.bin.index.json");
    let indexes = [
        (safe, r#"{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}"#),
        (other, r#"{"weight_map": {"a": "1.bin", "b": "2.bin"}}"#),
    ];
    let shards = ["1.safetensors", "2.safetensors", "1.bin", "2.bin"];
    let all = [&shards[..], &["pytorch_model.bin", SAFETENSORS]].concat();
    assert_eq!(weights(&all, &indexes).unwrap(), [SAFETENSORS]);
    assert_eq!(weights(&all[..5], &indexes).unwrap(), ["1.safetensors", "2.safetensors"]);
    assert_eq!(weights(&all[..5], &indexes[1..]).unwrap(), ["pytorch_model.bin"]);
    assert_eq!(weights(&all[..4], &indexes[1..]).unwrap(), ["1.bin", "2.bin"]);
}

#[test]
fn an_index_that_lists_what_is_not_there_or_not_beside_it() {
    let error = |file: &str| {
        let text = format!(r#"{{"weight_map": {{"a": "1.safetensors", "b": "{file}"}}}}"#);
        weights(&["1.safetensors"], &[("model.safetensors.index.json", &text)]).unwrap_err()
    };
    assert_eq!(
        error("2.safetensors"),
        "`DIR/2.safetensors` is missing, but model.safetensors.index.json lists it: the model is not whole"
    );
    assert_eq!(
        error("../2.safetensors"),
        "cannot use `DIR/model.safetensors.index.json`: it lists the file \"../2.safetensors\", which does not lie \
         beside it"
    );
}

#[test]
fn a_folder_that_is_not_there() {
    insta::assert_snapshot!(ModelRef::parse("./no/such").resolve(&()).unwrap_err(), @"no such model folder: `./no/such`; name a model on the Hub as `org/name` or `org/name@revision`");
}

#[test]
fn an_address_of_something_else() {
    let addresses = ["https://example.org/acme/tiny-bert", "https://huggingface.co/datasets/acme/words"];
    let errors = addresses.map(|address| ModelRef::parse(address).resolve(&()).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"), @"
    `https://example.org/acme/tiny-bert` is an address, and no model on the Hub: models are folders, or are named `org/name` or `org/name@revision`
    `https://huggingface.co/datasets/acme/words` is an address, and no model on the Hub: models are folders, or are named `org/name` or `org/name@revision`
    ");
}

#[test]
fn a_misspelt_folder_names_the_one_nearby() {
    let (parent, _) = model_folder(&[CONFIG, TOKENIZER, SAFETENSORS]);
    let error = ModelRef::Folder(parent.path().join("my-brt")).resolve(&()).unwrap_err().to_string();
    insta::assert_snapshot!(error.replace(parent.path().to_str().unwrap(), "DIR"), @"no such model folder: `DIR/my-brt`; name a model on the Hub as `org/name` or `org/name@revision`; or is the folder `DIR/my-bert` meant?");
}

#[test]
fn a_file_in_place_of_a_folder() {
    insta::assert_snapshot!(ModelRef::parse("Cargo.toml").resolve(&()).unwrap_err(), @"`Cargo.toml` is a file: give the folder that holds config.json, tokenizer.json and model.safetensors");
}

#[test]
fn the_first_missing_file_is_named() {
    let folders: [&[&str]; 3] = [&[], &[CONFIG, SAFETENSORS], &[CONFIG, TOKENIZER]];
    insta::assert_snapshot!(folders.map(error_of).join("\n"), @"
    `DIR/config.json` is missing: a model has the files config.json, tokenizer.json and model.safetensors
    `DIR/tokenizer.json` is missing: a tokenizer is tokenizer.json, vocab.txt with bpe.codes, vocab.txt, vocab.json with merges.txt, sentencepiece.bpe.model, spiece.model, spm.model, sentencepiece.model or tokenizer.model; there is config.json, model.safetensors
    `DIR/model.safetensors` is missing: a model has the files config.json, tokenizer.json and model.safetensors
    ");
}

#[test]
fn a_vocabulary_in_place_of_a_tokenizer() {
    let found = |names: &[&str]| {
        let (_parent, folder) = model_folder(&[&[CONFIG, SAFETENSORS], names].concat());
        let files = ModelRef::Folder(folder).resolve(&()).unwrap();
        files.tokenizer.iter().map(|(name, _)| *name).collect::<Vec<_>>()
    };
    assert_eq!(found(&["vocab.txt", "vocab.json"]), ["vocab.txt"]);
    assert_eq!(found(&["vocab.txt", "tokenizer.json", "added_tokens.json"]), ["tokenizer.json", "added_tokens.json"]);
    assert_eq!(
        found(&["vocab.json", "merges.txt", "special_tokens_map.json"]),
        ["vocab.json", "merges.txt", "special_tokens_map.json"]
    );
    for name in ["sentencepiece.bpe.model", "spiece.model", "spm.model", "sentencepiece.model", "tokenizer.model"] {
        assert_eq!(found(&[name, "tokenizer_config.json"]), [name, "tokenizer_config.json"]);
        assert_eq!(found(&[name, "tokenizer.json"]), ["tokenizer.json"]);
    }
}

#[test]
fn what_is_no_tokenizer() {
    insta::assert_snapshot!(error_of(&[CONFIG, SAFETENSORS, "vocab.json"]), @"`DIR/tokenizer.json` is missing, but vocab.json is there, which is half a tokenizer: it needs merges.txt too");
}

#[test]
fn weights_in_another_form() {
    let names = ["tf_model.h5", "flax_model.msgpack", "flax_model.msgpack.index.json", "bert.onnx"];
    insta::assert_snapshot!(names.map(|name| error_of(&[CONFIG, TOKENIZER, name])).join("\n"), @r#"
    `DIR/model.safetensors` is missing, but tf_model.h5 is there, weights of TensorFlow, which are not read. To convert them, run in Python with transformers 4:
      from transformers import AutoModel
      AutoModel.from_pretrained("DIR", from_tf=True).save_pretrained("DIR")
    `DIR/model.safetensors` is missing, but flax_model.msgpack is there, weights of Flax, which are not read. To convert them, run in Python with transformers 4:
      from transformers import AutoModel
      AutoModel.from_pretrained("DIR", from_flax=True).save_pretrained("DIR")
    `DIR/model.safetensors` is missing, but flax_model.msgpack.index.json is there, weights of Flax, which are not read. To convert them, run in Python with transformers 4:
      from transformers import AutoModel
      AutoModel.from_pretrained("DIR", from_flax=True).save_pretrained("DIR")
    `DIR/model.safetensors` is missing, but bert.onnx is there, an exported graph, which is not read: take the model it was exported from
    "#);
}

#[test]
fn weights_that_are_there_under_another_name() {
    let folders: [&[&str]; 4] = [
        &[CONFIG, TOKENIZER, "model.fp16.safetensors"],
        &[CONFIG, TOKENIZER, "pytorch_model.fp16.bin"],
        &["adapter_config.json", "adapter_model.safetensors"],
        // Adapters leave the model's own config beside them at times.
        &[CONFIG, TOKENIZER, "adapter_config.json"],
    ];
    insta::assert_snapshot!(folders.map(error_of).join("\n"), @"
    `DIR/model.safetensors` is missing, but model.fp16.safetensors is there, weights under another name: call them model.safetensors
    `DIR/model.safetensors` is missing, but pytorch_model.fp16.bin is there, weights under another name: call them pytorch_model.bin
    `DIR/config.json` is missing, but adapter_config.json is there, which belongs to an adapter (PEFT), not a model: name the model that it was trained on, and this folder with --adapter
    `DIR/model.safetensors` is missing, but adapter_config.json is there, which belongs to an adapter (PEFT), not a model: name the model that it was trained on, and this folder with --adapter
    ");
}

#[test]
fn an_exported_graph_in_its_folder() {
    let (_parent, folder) = model_folder(&[CONFIG, TOKENIZER]);
    fs::create_dir(folder.join("onnx")).unwrap();
    fs::write(folder.join("onnx/model.onnx"), "").unwrap();
    insta::assert_snapshot!(folder_error(&folder), @"`DIR/model.safetensors` is missing, but onnx/model.onnx is there, an exported graph, which is not read: take the model it was exported from");
}

#[test]
fn what_config_json_says_is_judged_before_anything_is_missed() {
    let (_parent, folder) = model_folder(&["pytorch_model.bin"]);
    fs::write(folder.join(CONFIG), r#"{"model_type": "strange"}"#).unwrap();
    let error = folder_error(&folder);
    let expected = "cannot use `DIR/config.json`: model_type \"strange\" is not supported (supported: bert, ";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn a_folder_in_place_of_a_file() {
    let (_parent, folder) = model_folder(&[CONFIG, TOKENIZER]);
    fs::create_dir(folder.join(SAFETENSORS)).unwrap();
    insta::assert_snapshot!(folder_error(&folder), @"`DIR/model.safetensors` is a folder and no file: a model has the files config.json, tokenizer.json and model.safetensors");
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_a_missing_file() {
    let (_parent, folder) = model_folder(&[CONFIG, TOKENIZER]);
    std::os::unix::fs::symlink("nowhere", folder.join(SAFETENSORS)).unwrap();
    insta::assert_snapshot!(folder_error(&folder), @"`DIR/model.safetensors` is a link that leads to no file: a model has the files config.json, tokenizer.json and model.safetensors");
}

#[cfg(not(feature = "hub"))]
#[test]
fn without_the_hub_client_only_folders_load() {
    let error = ModelRef::parse("acme/tiny-bert").resolve(&()).unwrap_err().to_string();
    assert_eq!(error, "built without the Hub client (feature `hub`): give a model folder");
}

#[test]
fn one_name_of_a_path_may_be_misspelt() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    for folder in ["models/tiny-bert", "models/tiny-berts", "models/other"] {
        fs::create_dir_all(root.join(folder)).unwrap();
        fs::write(root.join(folder).join(CONFIG), "{}").unwrap();
    }
    fs::create_dir_all(root.join("models/tiny-bort")).unwrap();
    let suggestion =
        |path: &str| similar_folder(&root.join(path)).map(|path| path.strip_prefix(root).unwrap().to_owned());
    for wrong in ["models/tiny_bert", "models/Tiny-Bert", "models/tinybert", "model/tiny-bert", "Models/tiny-bert/"] {
        assert_eq!(suggestion(wrong).as_deref(), Some(Path::new("models/tiny-bert")), "{wrong}");
    }
    for far in ["models/large-gpt", "modles/tinnybert", "tiny-bert"] {
        assert_eq!(suggestion(far), None, "{far}");
    }
}

#[test]
fn pages_of_a_model_name_it() {
    for (address, expected) in [
        ("https://huggingface.co/acme/tiny-bert", "acme/tiny-bert"),
        ("http://hf.co/acme/tiny-bert/", "acme/tiny-bert"),
        ("huggingface.co/acme/tiny-bert?library=transformers", "acme/tiny-bert"),
        ("https://huggingface.co/acme/tiny-bert/tree/main", "acme/tiny-bert@main"),
        ("https://huggingface.co/acme/tiny-bert/blob/refs%2Fpr%2F5/config.json", "acme/tiny-bert@refs/pr/5"),
        ("https://huggingface.co/acme/tiny-bert/discussions/3#x", "acme/tiny-bert"),
        ("https://huggingface.co/bert-base-uncased", "bert-base-uncased"),
        ("https://huggingface.co/bert-base-uncased/resolve/v1/vocab.txt", "bert-base-uncased@v1"),
    ] {
        assert_eq!(model_from_url(address).as_deref(), Some(expected));
    }
    for other in
        ["acme/tiny-bert", "https://huggingface.co/", "https://huggingface.co/datasets/a/b", "https://example.org/a/b"]
    {
        assert_eq!(model_from_url(other), None);
    }
}
