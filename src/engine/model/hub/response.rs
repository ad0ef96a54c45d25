//! An HTTP response of the Hub, of any status, and the target of a redirect.

use std::io::Read;
use std::time::Duration;

/// An HTTP response, whose body has not been read yet.
pub(super) struct Response {
    pub(super) status: u16,
    /// Header names in lower case, with their values.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Box<dyn Read>,
}

impl Response {
    /// Returns the value of a header, by its name in lower case; `None` if it is missing.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// Returns how long the server asks to wait before a retry: `Retry-After` in seconds, or the `t` of a `RateLimit` header.
    /// `t` is the number of seconds until the quota resets (draft-ietf-httpapi-ratelimit-headers). `None` without either.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let after = self.header("retry-after").and_then(|value| value.trim().parse().ok());
        let reset = || {
            let parameters = self.header("ratelimit")?.split(';');
            parameters.filter_map(|parameter| parameter.trim().strip_prefix("t=")).find_map(|value| value.parse().ok())
        };
        after.or_else(reset).map(Duration::from_secs)
    }

    /// Returns the offset of the first byte in a response to a range request; `None` without a valid `Content-Range`.
    pub(super) fn range_start(&self) -> Option<u64> {
        self.header("content-range")?.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
    }
}

/// Returns the origin of a URL, `https://host:port`.
pub(super) fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    &url[..end]
}

/// Resolves a `Location` header relative to `url` (RFC 3986, section 5, for the forms that servers send).
pub(super) fn resolve_location(url: &str, location: &str) -> String {
    let origin = origin(url);
    let is_scheme = |(scheme, _): (&str, &str)| scheme.chars().all(|char| char.is_ascii_alphanumeric());
    if location.split_once("://").is_some_and(is_scheme) {
        location.to_owned()
    } else if location.starts_with("//") {
        let scheme = origin.split("//").next().unwrap_or_default();
        format!("{scheme}{location}")
    } else if location.starts_with('/') {
        format!("{origin}{location}")
    } else {
        let path = url.split(['?', '#']).next().unwrap_or(url);
        let folder = path.rfind('/').filter(|&at| at >= origin.len()).map_or(origin, |at| &path[..at]);
        format!("{folder}/{location}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(name: &str, value: &str) -> Response {
        Response { status: 429, headers: vec![(name.to_owned(), value.to_owned())], body: Box::new(std::io::empty()) }
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
            assert_eq!(answer(name, value).retry_after(), expected.map(Duration::from_secs), "{name}: {value}");
        }
    }

    #[test]
    fn a_range_begins_where_its_header_says() {
        assert_eq!(answer("content-range", "bytes 5-9/10").range_start(), Some(5));
        assert_eq!(answer("content-range", "bytes */10").range_start(), None);
    }

    #[test]
    fn locations_are_taken_relative_to_the_url() {
        let url = "http://hub:80/a/b?c=/d";
        for (location, expected) in [
            ("https://cdn/x", "https://cdn/x"),
            ("//cdn/x", "http://cdn/x"),
            ("/x?to=http://y", "http://hub:80/x?to=http://y"),
            ("x", "http://hub:80/a/x"),
        ] {
            assert_eq!(resolve_location(url, location), expected);
        }
        assert_eq!(resolve_location("http://hub", "x"), "http://hub/x");
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        assert_eq!(origin("http://hub:80/a"), "http://hub:80");
        assert_eq!(origin("http://hub"), "http://hub");
        assert_eq!(origin("http://hub?a=/b"), "http://hub");
        // A host that merely begins like the Hub's is another one.
        assert_ne!(origin("https://hub.evil/a"), origin("https://hub/a"));
    }
}
