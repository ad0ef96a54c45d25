//! What the environment says about the Hub: [`Settings`], and the access [`Token`] among them.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::patience::Patience;

/// How long to wait for an answer to begin, and for each further piece of it, as in `huggingface_hub` 2.4.
const TIMEOUT: Duration = Duration::from_secs(10);

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
    /// `HF_HUB_DISABLE_IMPLICIT_TOKEN`: no token is sent, though there may be one.
    pub(super) token_withheld: bool,
    /// `HF_HUB_OFFLINE`.
    pub(super) offline: bool,
    /// `HF_HUB_ETAG_TIMEOUT`: how long to wait for a connection, and for an answer to begin.
    pub(super) answer_timeout: Duration,
    /// `HF_HUB_DOWNLOAD_TIMEOUT`: how long to wait for each further piece of an answer.
    pub(super) piece_timeout: Duration,
    /// `HEADSCOPE_HUB_WAIT` is its first pause.
    pub(super) patience: Patience,
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
            let path = variable(name).filter(|value| !value.is_empty())?;
            // No shell has expanded what was written into a settings file.
            let path =
                PathBuf::from(path.into_string().map_or_else(OsString::from, |path| expand(&path, &text).into()));
            Some(match (path.strip_prefix("~"), &home) {
                (Ok(rest), Some(home)) => home.join(rest),
                _ => path,
            })
        };
        let flag = |name: &str| {
            text(name).map(|value| ["1", "ON", "YES", "TRUE"].contains(&value.to_ascii_uppercase().as_str()))
        };
        let seconds = |name: &str, default: Duration| {
            let Some(text) = text(name) else { return Ok(default) };
            let seconds = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            seconds.ok_or_else(|| anyhow!("{name} is `{text}`: give a number of seconds"))
        };
        // As in Python, 0 is no timeout that anybody could mean.
        let timeout = |name| seconds(name, TIMEOUT).map(|value| if value.is_zero() { TIMEOUT } else { value });
        let hf_home = path("HF_HOME")
            .or_else(|| path("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
            .or_else(|| home.as_ref().map(|home| home.join(".cache").join("huggingface")))
            .context("cannot tell where the Hub's cache is, for there is no home folder: set HF_HOME")?;
        let token_file = path("HF_TOKEN_PATH").unwrap_or_else(|| hf_home.join("token"));
        let token_withheld = flag("HF_HUB_DISABLE_IMPLICIT_TOKEN").unwrap_or(false);
        let token = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
            .into_iter()
            .find_map(|name| Token::new(&text(name)?, name.to_owned()))
            .or_else(|| {
                let origin = format!("the file `{}`", token_file.display());
                Token::new(&fs::read_to_string(&token_file).ok()?, origin)
            });
        Ok(Self {
            endpoint: text("HF_ENDPOINT")
                .map_or_else(|| "https://huggingface.co".to_owned(), |url| url.trim_end_matches('/').to_owned()),
            cache: path("HF_HUB_CACHE")
                .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
                .unwrap_or_else(|| hf_home.join("hub")),
            token: token.filter(|_| !token_withheld),
            token_file,
            token_withheld,
            offline: flag("HF_HUB_OFFLINE").or_else(|| flag("TRANSFORMERS_OFFLINE")).unwrap_or(false),
            answer_timeout: timeout("HF_HUB_ETAG_TIMEOUT")?,
            piece_timeout: timeout("HF_HUB_DOWNLOAD_TIMEOUT")?,
            patience: Patience { first: seconds("HEADSCOPE_HUB_WAIT", Patience::DEFAULT.first)?, ..Patience::DEFAULT },
        })
    }

    /// Where a token would be read from, as the end of a sentence that says to put one there.
    pub(super) fn token_places(&self) -> String {
        let places = format!("HF_TOKEN or the file `{}`", self.token_file.display());
        if self.token_withheld {
            return format!("{places}, and unset HF_HUB_DISABLE_IMPLICIT_TOKEN, which keeps it from being sent");
        }
        places
    }
}

/// Puts in the values of `$NAME` and `${NAME}`; a name that is not set stays as it is, as in Python's `expandvars`.
fn expand(path: &str, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let mut parts = path.split('$');
    let mut expanded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let braced = part.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let (name, rest) = braced.unwrap_or_else(|| {
            let end = part.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(part.len());
            part.split_at(end)
        });
        match variable(name).filter(|_| !name.is_empty()) {
            Some(value) => expanded.extend([value.as_str(), rest]),
            None => expanded.extend(["$", part]),
        }
    }
    expanded
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
            (&[("HF_HOME", "$DISK/hf"), ("DISK", "/d")], "/d/hf/hub"),
            (&[("HF_HUB_CACHE", "${DISK}_2/$NONE/$"), ("DISK", "/d")], "/d_2/$NONE/$"),
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
        assert!(Settings::of(&[("TRANSFORMERS_OFFLINE", "1")]).offline);
        assert!(!Settings::of(&[("TRANSFORMERS_OFFLINE", "1"), ("HF_HUB_OFFLINE", "0")]).offline);
    }

    #[test]
    fn times_are_seconds() {
        let settings = Settings::of(&[("HF_HUB_ETAG_TIMEOUT", "3"), ("HEADSCOPE_HUB_WAIT", "0.5")]);
        assert_eq!(settings.answer_timeout, Duration::from_secs(3));
        assert_eq!(settings.piece_timeout, TIMEOUT);
        assert_eq!(settings.patience.first, Duration::from_millis(500));
        for value in ["soon", "-1", "nan", "1e300"] {
            let variable = |name: &str| (name == "HF_HUB_DOWNLOAD_TIMEOUT").then(|| value.into());
            let error = Settings::read(&variable, Some("/home/ada".into())).unwrap_err().to_string();
            assert_eq!(error, format!("HF_HUB_DOWNLOAD_TIMEOUT is `{value}`: give a number of seconds"));
        }
    }

    #[test]
    fn a_token_can_be_withheld() {
        let settings = Settings::of(&[("HF_TOKEN", "secret"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]);
        assert!(settings.token.is_none());
        assert!(
            settings.token_places().ends_with("unset HF_HUB_DISABLE_IMPLICIT_TOKEN, which keeps it from being sent")
        );
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
