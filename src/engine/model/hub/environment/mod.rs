//! Settings of the Hub client from environment variables: [`Environment`], and the access [`Token`] in it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use super::backoff::Backoff;
use crate::system::errors::ErrorExt;
use crate::system::files::input;

#[cfg(test)]
mod tests;

/// Default time limit for a response to begin, and for each further piece of it, as in `huggingface_hub` 2.4.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Hint for an endpoint that does not respond as the Hub does.
pub(super) const ENDPOINT_HINT: &str =
    "set HF_ENDPOINT to the Hub itself, or download the model in another way and give its folder";

/// Settings of the Hub client from environment variables, under the names that `huggingface_hub` gives them.
#[derive(Debug)]
pub(super) struct Environment {
    /// URL of the Hub: `HF_ENDPOINT`, without a slash at its end.
    pub(super) endpoint: String,
    /// Folder of the Hub cache: `HF_HUB_CACHE`, or `hub` in `HF_HOME`.
    pub(super) cache: PathBuf,
    pub(super) token: Option<Token>,
    /// The file that holds the token if no environment variable does.
    pub(super) token_file: PathBuf,
    /// Whether no token is sent, even if one is known: `HF_HUB_DISABLE_IMPLICIT_TOKEN`.
    pub(super) is_token_withheld: bool,
    /// The setting that forbids requests to the Hub, `HF_HUB_OFFLINE` or an option; `None` if requests are allowed.
    pub(super) offline: Option<OfflineSetting>,
    /// Time limit for a connection, and for a response to begin: `HF_HUB_ETAG_TIMEOUT`.
    pub(super) answer_timeout: Duration,
    /// Time limit for each further piece of a response: `HF_HUB_DOWNLOAD_TIMEOUT`.
    pub(super) read_timeout: Duration,
    /// Number of tries and pauses between them; `HEADSCOPE_HUB_WAIT` sets the first pause.
    pub(super) backoff: Backoff,
    /// Name of the environment variable that sets a proxy; `None` if none is set. Messages omit its value, which can hold a
    /// password.
    pub(super) proxy: Option<&'static str>,
}

/// Environment variables that can set a proxy, in the HTTP client's order of precedence.
const PROXY_VARIABLES: [&str; 6] = ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];

/// A token for access to the Hub.
#[derive(Clone)]
pub(super) struct Token {
    pub(super) value: String,
    /// Where the token comes from, for messages, which must never show its value.
    pub(super) origin: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(formatter, "Token from {}", self.origin)
    }
}

/// The setting that forbids requests to the Hub, and a hint how to allow them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OfflineSetting {
    pub(super) setting: &'static str,
    /// How to allow requests, as a hint after an error.
    pub(super) hint: &'static str,
}

impl Environment {
    /// Reads the settings from environment variables; an empty variable counts as not set. Fails if a variable is invalid, or
    /// no home folder is known.
    pub(super) fn read(variable: &dyn Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Result<Self> {
        let home = home.filter(|home| !home.as_os_str().is_empty());
        let text = |name: &str| variable(name)?.into_string().ok().filter(|value| !value.is_empty());
        let path = |name: &str| {
            let path = variable(name).filter(|value| !value.is_empty())?;
            // Values from a settings file have not been expanded by a shell.
            let path = PathBuf::from(
                path.into_string().map_or_else(OsString::from, |path| expand_variables(&path, &text).into()),
            );
            let in_home = path.strip_prefix("~").ok().zip(home.as_ref()).map(|(rest, home)| home.join(rest));
            Some(in_home.unwrap_or(path))
        };
        let is_on = |value: String| ["1", "ON", "YES", "TRUE"].contains(&value.to_ascii_uppercase().as_str());
        let flag = |name: &str| text(name).map(is_on);
        let seconds = |name: &str, default: Duration| {
            let Some(text) = text(name) else { return Ok(default) };
            let seconds = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            seconds.ok_or_else(|| anyhow!("{name} is `{text}`").with_value(&text).hint("give a number of seconds"))
        };
        // 0 is no useful timeout, as in Python.
        let timeout =
            |name| seconds(name, DEFAULT_TIMEOUT).map(|value| if value.is_zero() { DEFAULT_TIMEOUT } else { value });
        let hf_home = path("HF_HOME")
            .or_else(|| path("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
            .or_else(|| home.as_ref().map(|home| home.join(".cache").join("huggingface")))
            .context("cannot tell where the Hub's cache is, for there is no home folder")
            .hint("set HF_HOME")?;
        let token_file = path("HF_TOKEN_PATH").unwrap_or_else(|| hf_home.join("token"));
        let token_withheld = flag("HF_HUB_DISABLE_IMPLICIT_TOKEN").unwrap_or(false);
        let from_variable = |name: &str| Some(Token { value: text(name)?, origin: name.to_owned() });
        let token = match ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"].into_iter().find_map(from_variable) {
            Some(token) => token.trimmed()?,
            None if token_withheld => None,
            None => Token::read_file(&token_file)?,
        };
        Ok(Self {
            endpoint: text("HF_ENDPOINT")
                .map_or_else(|| "https://huggingface.co".to_owned(), |url| url.trim_end_matches('/').to_owned()),
            cache: path("HF_HUB_CACHE")
                .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
                .unwrap_or_else(|| hf_home.join("hub")),
            token: token.filter(|_| !token_withheld),
            token_file,
            is_token_withheld: token_withheld,
            offline: flag("HF_HUB_OFFLINE")
                .or_else(|| flag("TRANSFORMERS_OFFLINE"))
                .unwrap_or(false)
                .then_some(OfflineSetting { setting: "HF_HUB_OFFLINE", hint: "unset HF_HUB_OFFLINE" }),
            answer_timeout: timeout("HF_HUB_ETAG_TIMEOUT")?,
            read_timeout: timeout("HF_HUB_DOWNLOAD_TIMEOUT")?,
            proxy: PROXY_VARIABLES.into_iter().find(|name| text(name).is_some()),
            backoff: Backoff {
                first_pause: seconds("HEADSCOPE_HUB_WAIT", Backoff::DEFAULT.first_pause)?,
                ..Backoff::DEFAULT
            },
        })
    }

    /// Names the places where a user can put a token. The text ends a sentence that says to put a token there.
    pub(super) fn token_places(&self) -> String {
        const WITHHELD: &str = ", and unset HF_HUB_DISABLE_IMPLICIT_TOKEN, which keeps it from being sent";
        let also = if self.is_token_withheld { WITHHELD } else { "" };
        format!("HF_TOKEN or the file `{}`{also}", self.token_file.display())
    }
}

/// Replaces `$NAME` and `${NAME}` by the values of variables. Names without a value stay, as in Python's `expandvars`.
fn expand_variables(path: &str, variable: &dyn Fn(&str) -> Option<String>) -> String {
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
    /// Reads the token from the file that a Hub login writes; `None` if the file is missing or blank.
    fn read_file(path: &Path) -> Result<Option<Self>> {
        const WAY_OUT: &str = "remove it or log in again";
        let origin = format!("the file `{}`", path.display());
        // A token has some forty bytes.
        match input::read_to_string(path, 1 << 12) {
            Ok(value) => Self { value, origin }.trimmed().with_file(path.display()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error)
                .with_context(|| format!("cannot read an access token from {origin}: {WAY_OUT}"))
                .with_file(path.display())
                .with_included_hint(WAY_OUT),
        }
    }

    /// Removes white space around the token; `None` if the token is blank. Fails if it has a character that no token has.
    fn trimmed(self) -> Result<Option<Self>> {
        let value = self.value.trim().to_owned();
        // The token becomes part of a header (RFC 6750, section 2.1).
        ensure!(
            value.chars().all(|char| char.is_ascii_graphic()),
            anyhow!("the access token from {} has a character that no token has", self.origin)
                .hint("copy it once more")
        );
        Ok((!value.is_empty()).then_some(Self { value, ..self }))
    }
}
