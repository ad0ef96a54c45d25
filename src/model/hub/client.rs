//! The Hub's protocol: what a revision holds, where a file's bytes are, and what a refusal means.

use std::collections::BTreeSet;
use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use hf_hub::api::RepoInfo;
use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use hf_hub::{Cache as HubCache, Repo};

use super::cache::{Cache, is_file_name, is_relative_path};
use super::settings::Settings;

/// How often a file's address may lead on to another one.
const HOPS: usize = 5;

/// The longest description of a model that is read, in bytes; one with ten thousand files has about a megabyte.
const LONGEST_INFO: u64 = 1 << 24;

/// Why the Hub did not give what it was asked for.
#[derive(Debug)]
pub(super) enum Failure {
    /// No answer, or one that says "not now": to ask again may help, and the cache may stand in.
    Unavailable {
        error: Error,
        /// How long the Hub asks to wait, if it does.
        wait: Option<Duration>,
    },
    /// An answer that will not change by asking again.
    Refused(Error),
}

/// What may pass, without a word from the Hub on when.
pub(super) fn unavailable(error: Error) -> Failure {
    Failure::Unavailable { error, wait: None }
}

/// Asks the Hub about one revision of one model.
pub(super) struct Client<'a> {
    pub(super) id: &'a str,
    revision: &'a str,
    settings: &'a Settings,
    /// For a model that is not found: one of the same sort that is known.
    cache: &'a Cache,
    /// hf-hub's own connection to the model, with the token and TLS set up.
    repo: ApiRepo,
}

/// The commit that a revision stands for, and the names of its files.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) sha: String,
    pub(super) names: BTreeSet<String>,
}

/// Where a file is, and what is known of it before it comes.
pub(super) struct Remote {
    /// Names the content; a valid file name.
    pub(super) etag: String,
    /// The size the Hub promises, if it does.
    pub(super) bytes: Option<u64>,
    url: String,
    /// The answer with the file, where the Hub sent it without leading on to somewhere else.
    opened: Option<Box<dyn Read>>,
}

/// A file that is coming.
pub(super) struct Incoming {
    /// How many bytes at its beginning are left out.
    pub(super) start: u64,
    pub(super) body: Box<dyn Read>,
}

impl Remote {
    /// The SHA-256 of the content, if it is known: the Hub names large files after it. Those that it keeps in git
    /// are named after their git hash, which is shorter.
    pub(super) fn sha256(&self) -> Option<&str> {
        Some(self.etag.as_str()).filter(|etag| etag.len() == 64 && etag.chars().all(|char| char.is_ascii_hexdigit()))
    }
}

/// An HTTP answer of any status.
struct Answer {
    status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    body: Box<dyn Read>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// How long to wait before asking again: `Retry-After` in seconds, or the `t` of a `RateLimit` header, the seconds
    /// until the Hub counts anew (draft-ietf-httpapi-ratelimit-headers).
    fn wait(&self) -> Option<Duration> {
        let after = self.header("retry-after").and_then(|value| value.trim().parse().ok());
        let reset = || {
            let parameters = self.header("ratelimit")?.split(';');
            parameters.filter_map(|parameter| parameter.trim().strip_prefix("t=")).find_map(|value| value.parse().ok())
        };
        after.or_else(reset).map(Duration::from_secs)
    }

    /// Which byte an answer to a request for a range begins with.
    fn range_start(&self) -> Option<u64> {
        self.header("content-range")?.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
    }
}

impl<'a> Client<'a> {
    pub(super) fn new(settings: &'a Settings, cache: &'a Cache, id: &'a str, revision: &'a str) -> Result<Self> {
        let endpoint = &settings.endpoint;
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            bail!("HF_ENDPOINT is `{endpoint}`: give a URL such as https://huggingface.co");
        }
        let api = ApiBuilder::from_cache(HubCache::new(settings.cache.clone()))
            .with_endpoint(endpoint.clone())
            .with_token(settings.token.as_ref().map(|token| token.value.clone()))
            .with_user_agent(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .with_progress(false)
            .build()
            .context("cannot set up the connection to the Hub")?;
        Ok(Self { id, revision, settings, cache, repo: api.repo(Repo::model(id.to_owned())) })
    }

    /// The commit that the revision stands for now.
    pub(super) fn commit(&self) -> Result<Commit, Failure> {
        let endpoint = &self.settings.endpoint;
        let revision = self.revision.replace('/', "%2F");
        // A renamed model leads on to its new name.
        let url = format!("{endpoint}/api/models/{}/revision/{revision}", self.id);
        let answer = self.get(&url, 10, 0)?;
        if answer.status != 200 {
            return Err(self.failure(&answer));
        }
        let RepoInfo { sha, siblings } = serde_json::from_reader(answer.body.take(LONGEST_INFO))
            .context("it answered with something other than the description of a model")
            .map_err(unavailable)?;
        if !is_file_name(&sha) {
            return Err(Failure::Refused(anyhow!("{endpoint} calls `{sha}` a commit of `{}`", self.id)));
        }
        let names = siblings.into_iter().map(|sibling| sibling.rfilename).filter(|name| is_relative_path(name));
        Ok(Commit { sha, names: names.collect() })
    }

    /// Asks where a file is.
    ///
    /// The Hub itself answers for the file's name and size, then sends on to where the bytes are: small files
    /// to another path of its own, large ones to another host, which must not see the token. So redirects are
    /// followed here, one by one. `ApiRepo::download` of hf-hub 0.5 would not do: it insists on a
    /// `Content-Range`, which the Hub leaves out for small files (hf-hub issue 141), and it trusts their size.
    pub(super) fn locate(&self, commit: &str, file: &str) -> Result<Remote, Failure> {
        let mut url = format!("{}/{}/resolve/{commit}/{file}", self.settings.endpoint, self.id);
        let (mut etag, mut linked_etag, mut linked_size) = (None, None, None);
        for _ in 0..HOPS {
            let answer = self.get(&url, 0, 0)?;
            // What the Hub says of the bytes themselves, in `X-Linked-`, goes before what it says of an
            // answer that may be no more than a redirect.
            let header = |name| answer.header(name).map(str::to_owned);
            etag = header("etag").or(etag);
            linked_etag = header("x-linked-etag").or(linked_etag);
            linked_size = header("x-linked-size").or(linked_size);
            let size = match answer.status {
                200 => linked_size.as_deref().or(answer.header("content-length")),
                301 | 302 | 303 | 307 | 308 => {
                    url = self.next(&url, &answer)?;
                    // Another host's word on the name would not count, so it need not be asked.
                    if self.is_home(&url) {
                        continue;
                    }
                    linked_size.as_deref()
                }
                404 => {
                    let error = anyhow!("{url} is not there, though {file} is listed among the files of `{}`", self.id);
                    return Err(Failure::Refused(error));
                }
                _ => return Err(self.failure(&answer)),
            };
            let etag = linked_etag
                .or(etag)
                .map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_owned())
                .filter(|etag| is_file_name(etag))
                .with_context(|| format!("{file} of `{}` came without a usable ETag", self.id))
                .map_err(Failure::Refused)?;
            let bytes = size.and_then(|bytes| bytes.parse().ok());
            let opened = (answer.status == 200).then_some(answer.body);
            return Ok(Remote { etag, bytes, url, opened });
        }
        Err(self.endless(file))
    }

    /// Begins to fetch a file from its byte `start`, or from the beginning if the server knows no ranges.
    pub(super) fn open(&self, remote: &mut Remote, file: &str, mut start: u64) -> Result<Incoming, Failure> {
        if start == 0
            && let Some(body) = remote.opened.take()
        {
            return Ok(Incoming { start, body });
        }
        let mut url = remote.url.clone();
        for _ in 0..HOPS {
            let answer = self.get(&url, 0, start)?;
            match answer.status {
                200 => return Ok(Incoming { start: 0, body: answer.body }),
                206 if answer.range_start() == Some(start) => return Ok(Incoming { start, body: answer.body }),
                // A range that was not asked for, or none where one was: all of the file, then.
                206 | 416 if start > 0 => start = 0,
                301 | 302 | 303 | 307 | 308 => url = self.next(&url, &answer)?,
                _ if self.is_home(&url) => return Err(self.failure(&answer)),
                status => {
                    let error = anyhow!("{} answered {status} for {file} of `{}`", origin(&url), self.id);
                    return Err(Failure::Unavailable { error, wait: answer.wait() });
                }
            }
        }
        Err(self.endless(file))
    }

    fn endless(&self, file: &str) -> Failure {
        Failure::Refused(anyhow!("{file} of `{}` led on {HOPS} times without an end", self.id))
    }

    /// Whether a URL is the Hub's own, which may see the token.
    fn is_home(&self, url: &str) -> bool {
        origin(url) == origin(&self.settings.endpoint)
    }

    /// Where an answer leads on to.
    fn next(&self, url: &str, answer: &Answer) -> Result<String, Failure> {
        let next = || {
            let location =
                answer.header("location").with_context(|| format!("{url} leads on, but does not say where"))?;
            let next = follow(url, location);
            // The endpoint may be a plain one, of a mirror in the house; what is encrypted must stay so.
            let exposed = next.starts_with("http://") && self.settings.endpoint.starts_with("https://");
            ensure!(!exposed, "{} leads on to {}, without encryption", origin(url), origin(&next));
            Ok(next)
        };
        next().map_err(Failure::Refused)
    }

    /// One request, with the token if it goes to the Hub itself, and with a range if it begins beyond 0.
    /// Redirects beyond the allowed number come back as what they are.
    fn get(&self, url: &str, redirects: u32, start: u64) -> Result<Answer, Failure> {
        // Compressed, an answer has neither the size nor the ETag of the file.
        let mut request = self.repo.info_request().uri(url).header("Accept-Encoding", "identity");
        if start > 0 {
            request = request.header("Range", format!("bytes={start}-"));
        }
        if !self.is_home(url)
            && let Some(headers) = request.headers_mut()
        {
            headers.remove("authorization");
        }
        let response = request
            .config()
            .http_status_as_error(false)
            .max_redirects(redirects)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(self.settings.answer_timeout))
            .timeout_connect(Some(self.settings.answer_timeout))
            .timeout_recv_response(Some(self.settings.answer_timeout))
            .timeout_per_read(Some(self.settings.piece_timeout))
            .build()
            .call()
            .map_err(|error| unavailable(error.into()))?;
        let headers = response.headers().iter();
        Ok(Answer {
            status: response.status().as_u16(),
            headers: headers
                .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into()))
                .collect(),
            body: Box::new(response.into_body().into_reader()),
        })
    }

    /// What an answer other than success means.
    fn failure(&self, answer: &Answer) -> Failure {
        let Self { id, revision, .. } = self;
        let Settings { endpoint, token, .. } = self.settings;
        let status = answer.status;
        let code = answer.header("x-error-code").unwrap_or_default();
        if status == 408 || status == 429 || status >= 500 {
            let busy = if status == 429 { " (too many requests)" } else { "" };
            return Failure::Unavailable { error: anyhow!("{endpoint} answered {status}{busy}"), wait: answer.wait() };
        }
        let places = self.settings.token_places();
        let meant = self
            .cache
            .closest(id)
            .map_or_else(String::new, |known| format!("; did you mean `{known}`, which is in the cache?"));
        Failure::Refused(match (status, code, token) {
            (401 | 403, "GatedRepo", None) => anyhow!(
                "`{id}` is gated ({endpoint} answered {status}): accept its terms at {endpoint}/{id} \
                 and put an access token into {places}"
            ),
            (401 | 403, "GatedRepo", Some(token)) => anyhow!(
                "`{id}` is gated ({endpoint} answered {status}): accept its terms at {endpoint}/{id} \
                 as the owner of the token from {}",
                token.origin
            ),
            (401, _, None) => anyhow!(
                "cannot read model `{id}` ({endpoint} answered 401): either no folder and no Hub model has this \
                 name, or the model is private or gated and no token was sent; check the name, or put an access \
                 token into {places}{meant}"
            ),
            (401, _, Some(token)) => anyhow!(
                "cannot read model `{id}` ({endpoint} answered 401): either no folder and no Hub model has this \
                 name, or the token from {} is not valid for it; check the name and the token{meant}",
                token.origin
            ),
            (403, _, None) => anyhow!(
                "model `{id}` may not be read without a token ({endpoint} answered 403): put an access token \
                 into {places}"
            ),
            (403, _, Some(token)) => anyhow!(
                "model `{id}` may not be read with the token from {} ({endpoint} answered 403): give the token \
                 the right to read it, or use another one",
                token.origin
            ),
            (404, "RevisionNotFound", _) => anyhow!(
                "model `{id}` has no revision `{revision}` ({endpoint} answered 404): check what stands after \
                 the `@`; without it, `main` is meant"
            ),
            (404, _, _) => anyhow!(
                "no folder and no Hub model is named `{id}` ({endpoint} answered 404 for revision \
                 `{revision}`): check the name{meant}"
            ),
            _ => anyhow!("{endpoint} answered {status} for model `{id}`, which it should not: check HF_ENDPOINT"),
        })
    }
}

/// `https://host:port` of a URL.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    &url[..end]
}

/// The URL that the `Location` of an answer from `url` means (RFC 3986, section 5, as far as servers use it).
fn follow(url: &str, location: &str) -> String {
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
    fn an_endpoint_that_is_no_url_is_refused() {
        let settings = Settings::of(&[("HF_ENDPOINT", "mirror.example")]);
        let cache = Cache::new(&settings, "acme/tiny-bert");
        let error = Client::new(&settings, &cache, "acme/tiny-bert", "main").err().unwrap();
        assert_eq!(error.to_string(), "HF_ENDPOINT is `mirror.example`: give a URL such as https://huggingface.co");
    }

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
