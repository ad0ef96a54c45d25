//! An answer of the Hub, whatever it says.

use std::io::Read;
use std::time::Duration;

/// An HTTP answer of any status.
pub(super) struct Answer {
    pub(super) status: u16,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Box<dyn Read>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// How long to wait before asking again: `Retry-After` in seconds, or the `t` of a `RateLimit` header, the seconds
    /// until the Hub counts anew (draft-ietf-httpapi-ratelimit-headers).
    pub(super) fn wait(&self) -> Option<Duration> {
        let after = self.header("retry-after").and_then(|value| value.trim().parse().ok());
        let reset = || {
            let parameters = self.header("ratelimit")?.split(';');
            parameters.filter_map(|parameter| parameter.trim().strip_prefix("t=")).find_map(|value| value.parse().ok())
        };
        after.or_else(reset).map(Duration::from_secs)
    }

    /// The first byte of an answer to a request for a range.
    pub(super) fn range_start(&self) -> Option<u64> {
        self.header("content-range")?.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(name: &str, value: &str) -> Answer {
        Answer { status: 429, headers: vec![(name.to_owned(), value.to_owned())], body: Box::new(std::io::empty()) }
    }

    #[test]
    fn a_server_says_when_to_come_back() {
        for (name, value, expected) in [
            ("retry-after", "7", Some(7)),
            ("ratelimit", "\"api\";r=0;t=55", Some(55)),
            ("retry-after", "soon", None),
            ("ratelimit", "\"api\";r=0", None),
            ("etag", "7", None),
        ] {
            assert_eq!(answer(name, value).wait(), expected.map(Duration::from_secs), "{name}: {value}");
        }
    }

    #[test]
    fn a_range_begins_where_its_header_says() {
        assert_eq!(answer("content-range", "bytes 5-9/10").range_start(), Some(5));
        assert_eq!(answer("content-range", "bytes */10").range_start(), None);
    }
}
