//! What the environment says about the Hub: [`Settings`], and the access [`Token`] among them.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// What the environment says about the Hub, under the names that `huggingface_hub` gives its settings.
#[derive(Debug)]
pub(super) struct Settings {
    /// `HF_ENDPOINT`, without a slash at its end.
    pub(super) endpoint: String,
    /// `HF_HUB_CACHE`, or `hub` in `HF_HOME`.
    pub(super) cache: PathBuf,
    pub(super) token: Option<Token>,
    /// Where a token would be read from if no variable gives one.
    pub(super) token_file: PathBuf,
    /// `HF_HUB_OFFLINE`.
    pub(super) offline: bool,
}

#[derive(Clone)]
pub(super) struct Token {
    pub(super) value: String,
    /// For messages; the value itself must never be in one.
    pub(super) origin: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(formatter, "Token from {}", self.origin)
    }
}

impl Settings {
    pub(super) fn from_process() -> Result<Self> {
        Self::read(&|name| std::env::var_os(name), std::env::home_dir())
    }

    /// Reads the variables; an empty one counts as not set.
    fn read(variable: &dyn Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Result<Self> {
        let home = home.filter(|home| !home.as_os_str().is_empty());
        let text = |name: &str| variable(name)?.into_string().ok().filter(|value| !value.is_empty());
        let path = |name: &str| {
            let path = variable(name).filter(|value| !value.is_empty()).map(PathBuf::from)?;
            // No shell has expanded a `~` that was written into a settings file.
            Some(match (path.strip_prefix("~"), &home) {
                (Ok(rest), Some(home)) => home.join(rest),
                _ => path,
            })
        };
        let hf_home = path("HF_HOME")
            .or_else(|| path("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
            .or_else(|| home.as_ref().map(|home| home.join(".cache").join("huggingface")))
            .context("cannot tell where the Hub's cache is, for there is no home folder: set HF_HOME")?;
        let token_file = path("HF_TOKEN_PATH").unwrap_or_else(|| hf_home.join("token"));
        Ok(Self {
            endpoint: text("HF_ENDPOINT")
                .map_or_else(|| "https://huggingface.co".to_owned(), |url| url.trim_end_matches('/').to_owned()),
            cache: path("HF_HUB_CACHE")
                .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
                .unwrap_or_else(|| hf_home.join("hub")),
            token: ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
                .into_iter()
                .find_map(|name| Token::new(&text(name)?, name.to_owned()))
                .or_else(|| {
                    let origin = format!("the file `{}`", token_file.display());
                    Token::new(&fs::read_to_string(&token_file).ok()?, origin)
                }),
            token_file,
            offline: text("HF_HUB_OFFLINE")
                .is_some_and(|value| ["1", "ON", "YES", "TRUE"].contains(&value.to_ascii_uppercase().as_str())),
        })
    }
}

impl Token {
    fn new(text: &str, origin: String) -> Option<Self> {
        let value = text.trim();
        (!value.is_empty()).then(|| Self { value: value.to_owned(), origin })
    }
}

#[cfg(test)]
impl Settings {
    /// Those of somebody whose home is `/home/ada` and who has set `variables`.
    pub(super) fn of(variables: &[(&str, &str)]) -> Self {
        let variable =
            |name: &str| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| OsString::from(value));
        Self::read(&variable, Some(PathBuf::from("/home/ada"))).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_cache_is_where_python_looks_for_it() {
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[], "/home/ada/.cache/huggingface/hub"),
            (&[("XDG_CACHE_HOME", "/var/c")], "/var/c/huggingface/hub"),
            (&[("HF_HOME", "/hf"), ("XDG_CACHE_HOME", "/var/c")], "/hf/hub"),
            (&[("HF_HOME", "~/hf")], "/home/ada/hf/hub"),
            (&[("HF_HOME", "")], "/home/ada/.cache/huggingface/hub"),
            (&[("HUGGINGFACE_HUB_CACHE", "/old"), ("HF_HOME", "/hf")], "/old"),
            (&[("HF_HUB_CACHE", "/new"), ("HUGGINGFACE_HUB_CACHE", "/old")], "/new"),
        ];
        for (variables, expected) in cases {
            assert_eq!(Settings::of(variables).cache, Path::new(expected), "{variables:?}");
        }
    }

    #[test]
    fn without_a_home_folder_the_way_out_is_named() {
        let error = Settings::read(&|_| None, None).unwrap_err().to_string();
        assert_eq!(error, "cannot tell where the Hub's cache is, for there is no home folder: set HF_HOME");
    }

    #[test]
    fn offline_is_what_python_takes_for_true() {
        for (value, expected) in
            [("1", true), ("on", true), ("Yes", true), ("TRUE", true), ("0", false), ("", false), ("offline", false)]
        {
            assert_eq!(Settings::of(&[("HF_HUB_OFFLINE", value)]).offline, expected, "{value:?}");
        }
        assert!(!Settings::of(&[]).offline);
    }

    #[test]
    fn the_endpoint_loses_its_last_slash() {
        assert_eq!(Settings::of(&[]).endpoint, "https://huggingface.co");
        assert_eq!(Settings::of(&[("HF_ENDPOINT", "http://mirror:80/hf/")]).endpoint, "http://mirror:80/hf");
    }

    #[test]
    fn a_token_comes_from_a_variable_before_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        let token = |variables: &[(&str, &str)]| {
            let variables = [variables, &[("HF_HOME", home)]].concat();
            Settings::of(&variables).token.map(|token| (token.value, token.origin))
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
    fn a_token_is_not_printed() {
        let shown = format!("{:?}", Settings::of(&[("HF_TOKEN", "secret")]));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
