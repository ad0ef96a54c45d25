//! Errors as text for people and as JSON for programs.

use anyhow::Error;
use serde::Serialize;

use super::class::ErrorClass;
use super::facts;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorFormat {
    #[default]
    Text,
    /// One line of JSON per error.
    Json,
}

/// An error as `--error-format json` prints it, on one line.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct ErrorReport {
    /// The [class](ErrorClass::code), or `interrupted` where a signal ended the run.
    pub code: &'static str,
    pub status: u8,
    /// Complete message, as it is printed without `--error-format json`.
    pub message: String,
    /// File that the error is about, if any.
    pub file: Option<String>,
    /// Line of `file`, counted from 1, if known.
    pub line: Option<u64>,
    /// Unusable value as given, if any, shortened if it is long.
    pub value: Option<String>,
    /// The hint that ends the message, if there is one.
    pub hint: Option<String>,
}

impl ErrorReport {
    /// Collects the facts about an error, with its complete message.
    pub fn new(error: &Error) -> Self {
        let (class, (file, line)) = (ErrorClass::from_error(error), facts::location(error.as_ref()));
        Self {
            code: class.code(),
            status: class.status(),
            message: format!("{error:#}"),
            file: file.map(str::to_owned),
            line,
            value: facts::value(error.as_ref()).map(str::to_owned),
            hint: facts::hint(error.as_ref()),
        }
    }

    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::super::facts::ErrorExt;
    use super::*;

    #[test]
    fn an_error_is_described_with_its_value() {
        let error = anyhow!("`x` is no number").with_value("x").class(ErrorClass::Input).at_line("a", 2);
        assert_eq!(
            ErrorReport::new(&error).json(),
            r#"{"code":"input","status":3,"message":"a:2: `x` is no number","file":"a","line":2,"value":"x","hint":null}"#
        );
        assert_eq!(ErrorReport::new(&anyhow!("bad")).value, None);
        let long = ErrorReport::new(&anyhow!("bad").with_value("x".repeat(5000))).value;
        assert!(long.is_some_and(|value| value.len() < 200 && value.ends_with("...")));
    }
}
