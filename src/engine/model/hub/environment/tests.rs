use std::fs;

use super::*;

impl Environment {
    /// The environment of a user whose home is `/home/ada` and who has set `variables`.
    pub(in crate::model::hub) fn of(variables: &[(&str, &str)]) -> Self {
        let variable =
            |name: &str| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| OsString::from(value));
        Self::read(&variable, Some(PathBuf::from("/home/ada"))).unwrap()
    }
}

#[test]
fn the_cache_is_where_python_looks_for_it() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[], "/home/ada/.cache/huggingface/hub"),
        (&[("XDG_CACHE_HOME", "/var/c")], "/var/c/huggingface/hub"),
        (&[("HF_HOME", "/hf"), ("XDG_CACHE_HOME", "/var/c")], "/hf/hub"),
        (&[("HF_HOME", "~/hf")], "/home/ada/hf/hub"),
        (&[("HF_HOME", "")], "/home/ada/.cache/huggingface/hub"),
        (&[("HF_HOME", "$DISK/hf"), ("DISK", "/d")], "/d/hf/hub"),
        (&[("HF_HUB_CACHE", "${DISK}_2/$NONE/$"), ("DISK", "/d")], "/d_2/$NONE/$"),
        (&[("HUGGINGFACE_HUB_CACHE", "/old"), ("HF_HOME", "/hf")], "/old"),
        (&[("HF_HUB_CACHE", "/new"), ("HUGGINGFACE_HUB_CACHE", "/old")], "/new"),
    ];
    for (variables, expected) in cases {
        assert_eq!(Environment::of(variables).cache, Path::new(expected), "{variables:?}");
    }
}

#[test]
fn without_a_home_folder_the_way_out_is_named() {
    let error = Environment::read(&|_| None, None).unwrap_err().to_string();
    assert_eq!(error, "cannot tell where the Hub's cache is, for there is no home folder: set HF_HOME");
}

#[test]
fn offline_is_what_python_takes_for_true() {
    for (value, expected) in
        [("1", true), ("on", true), ("Yes", true), ("TRUE", true), ("0", false), ("", false), ("offline", false)]
    {
        assert_eq!(Environment::of(&[("HF_HUB_OFFLINE", value)]).offline.is_some(), expected, "{value:?}");
    }
    assert!(Environment::of(&[]).offline.is_none());
    assert!(Environment::of(&[("TRANSFORMERS_OFFLINE", "1")]).offline.is_some());
    assert!(Environment::of(&[("TRANSFORMERS_OFFLINE", "1"), ("HF_HUB_OFFLINE", "0")]).offline.is_none());
}

#[test]
fn times_are_seconds() {
    let settings = Environment::of(&[("HF_HUB_ETAG_TIMEOUT", "3"), ("HEADSCOPE_HUB_WAIT", "0.5")]);
    assert_eq!(settings.answer_timeout, Duration::from_secs(3));
    assert_eq!(settings.read_timeout, DEFAULT_TIMEOUT);
    assert_eq!(settings.backoff.first_pause, Duration::from_millis(500));
    for value in ["soon", "-1", "nan", "1e300"] {
        let variable = |name: &str| (name == "HF_HUB_DOWNLOAD_TIMEOUT").then(|| value.into());
        let error = Environment::read(&variable, Some("/home/ada".into())).unwrap_err().to_string();
        assert_eq!(error, format!("HF_HUB_DOWNLOAD_TIMEOUT is `{value}`: give a number of seconds"));
    }
}

#[test]
fn a_token_can_be_withheld() {
    let settings = Environment::of(&[("HF_TOKEN", "secret"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]);
    assert!(settings.token.is_none());
    insta::assert_snapshot!(settings.token_places(), @"HF_TOKEN or the file `/home/ada/.cache/huggingface/token`, and unset HF_HUB_DISABLE_IMPLICIT_TOKEN, which keeps it from being sent");
}

#[test]
fn the_endpoint_loses_its_last_slash() {
    assert_eq!(Environment::of(&[]).endpoint, "https://huggingface.co");
    assert_eq!(Environment::of(&[("HF_ENDPOINT", "http://mirror:80/hf/")]).endpoint, "http://mirror:80/hf");
}

#[test]
fn a_token_comes_from_a_variable_before_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    let token = |variables: &[(&str, &str)]| {
        let variables = [variables, &[("HF_HOME", home)]].concat();
        Environment::of(&variables).token.map(|token| (token.value, token.origin))
    };
    assert_eq!(token(&[]), None);
    fs::write(folder.path().join("token"), "filed\n").unwrap();
    fs::write(folder.path().join("elsewhere"), " other ").unwrap();
    let elsewhere = format!("{home}/elsewhere");
    let file = |name: &str| format!("the file `{home}/{name}`");
    assert_eq!(token(&[]), Some(("filed".into(), file("token"))));
    assert_eq!(token(&[("HF_TOKEN_PATH", &elsewhere)]), Some(("other".into(), file("elsewhere"))));
    assert_eq!(token(&[("HUGGING_FACE_HUB_TOKEN", "old")]).unwrap().0, "old");
    let both = [("HUGGING_FACE_HUB_TOKEN", "old"), ("HF_TOKEN", "new\n")];
    assert_eq!(token(&both), Some(("new".into(), "HF_TOKEN".into())));
}

#[test]
fn what_is_no_token_is_refused_and_not_shown() {
    let error = |value: &str, file: Option<&Path>| {
        let variable = |name: &str| match (name, file) {
            ("HF_TOKEN", None) => Some(OsString::from(value)),
            ("HF_TOKEN_PATH", Some(path)) => Some(path.as_os_str().to_owned()),
            _ => None,
        };
        format!("{:#}", Environment::read(&variable, Some("/home/ada".into())).unwrap_err())
    };
    let expected = "the access token from HF_TOKEN has a character that no token has: copy it once more";
    for value in ["hf_a\nb", "hf_\u{e9}", "hf a"] {
        assert_eq!(error(value, None), expected);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    fs::write(&path, "a".repeat(5000)).unwrap();
    let errors = [path.as_path(), folder.path()].map(|path| error("", Some(path)));
    insta::assert_snapshot!(errors.join("\n").replace(folder.path().to_str().unwrap(), "DIR"), @"
    cannot read an access token from the file `DIR/token`: remove it or log in again: it has more than 4096 bytes, the most that is read of it
    cannot read an access token from the file `DIR`: remove it or log in again: it is a folder
    ");
}

#[test]
fn a_token_is_not_printed() {
    let shown = format!("{:?}", Environment::of(&[("HF_TOKEN", "secret")]));
    assert!(!shown.contains("secret"), "{shown}");
}
