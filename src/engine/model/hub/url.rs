//! Addresses: whose one is, and where a redirect leads.

/// `https://host:port` of a URL.
pub(super) fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    &url[..end]
}

/// The URL that the `Location` of an answer from `url` means (RFC 3986, section 5, as far as servers use it).
pub(super) fn follow(url: &str, location: &str) -> String {
    let origin = origin(url);
    let has_scheme =
        location.split_once("://").is_some_and(|(scheme, _)| scheme.chars().all(|char| char.is_ascii_alphanumeric()));
    if has_scheme {
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

    #[test]
    fn locations_are_taken_relative_to_the_url() {
        let url = "http://hub:80/a/b?c=/d";
        for (location, expected) in [
            ("https://cdn/x", "https://cdn/x"),
            ("//cdn/x", "http://cdn/x"),
            ("/x?to=http://y", "http://hub:80/x?to=http://y"),
            ("x", "http://hub:80/a/x"),
        ] {
            assert_eq!(follow(url, location), expected);
        }
        assert_eq!(follow("http://hub", "x"), "http://hub/x");
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
