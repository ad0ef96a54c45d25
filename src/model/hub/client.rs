//! The Hub's protocol: what a revision holds, where a file's bytes are, and what a refusal means.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use hf_hub::api::RepoInfo;
use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use hf_hub::{Cache as HubCache, Repo};

use super::cache::is_file_name;
use super::settings::{Settings, Token};

/// How long to wait for a connection. Short, for without a network the cache is to answer soon.
const CONNECT: Duration = Duration::from_secs(10);
/// How long to wait for an answer to begin, and for each further piece of it.
const ANSWER: Duration = Duration::from_secs(30);
/// How often a file's address may lead on to another one.
const HOPS: usize = 5;

/// Why the Hub did not give what it was asked for.
#[derive(Debug)]
pub(super) enum Failure {
    /// No answer, or one that says "not now": the cache may stand in.
    Unavailable(Error),
    /// An answer that will not change by asking again.
    Refused(Error),
}

/// Asks the Hub about one revision of one model.
pub(super) struct Client {
    pub(super) id: String,
    revision: String,
    pub(super) endpoint: String,
    token: Option<Token>,
    token_file: PathBuf,
    /// hf-hub's own connection to the model, with the token and TLS set up.
    repo: ApiRepo,
}

/// A file that is about to come.
pub(super) struct Remote {
    /// Names the content; a valid file name.
    pub(super) etag: String,
    /// The size the Hub promises, if it does.
    pub(super) bytes: Option<u64>,
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
}

impl Client {
    pub(super) fn new(settings: &Settings, id: &str, revision: &str) -> Result<Self> {
        if !settings.endpoint.starts_with("http://") && !settings.endpoint.starts_with("https://") {
            bail!("HF_ENDPOINT is `{}`: give a URL such as https://huggingface.co", settings.endpoint);
        }
        let api = ApiBuilder::from_cache(HubCache::new(settings.cache.clone()))
            .with_endpoint(settings.endpoint.clone())
            .with_token(settings.token.as_ref().map(|token| token.value.clone()))
            .with_user_agent(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .with_progress(false)
            .build()
            .context("cannot set up the connection to the Hub")?;
        Ok(Self {
            id: id.to_owned(),
            revision: revision.to_owned(),
            endpoint: settings.endpoint.clone(),
            token: settings.token.clone(),
            token_file: settings.token_file.clone(),
            repo: api.repo(Repo::model(id.to_owned())),
        })
    }

    /// The commit that the revision stands for now, and the names of its files.
    pub(super) fn info(&self) -> Result<RepoInfo, Failure> {
        let revision = self.revision.replace('/', "%2F");
        // A renamed model leads on to its new name.
        let url = format!("{}/api/models/{}/revision/{revision}", self.endpoint, self.id);
        let answer = self.get(&url, true, 10)?;
        if answer.status != 200 {
            return Err(self.failure(&answer));
        }
        let info: RepoInfo = serde_json::from_reader(answer.body)
            .context("it answered with something other than the description of a model")
            .map_err(Failure::Unavailable)?;
        if !is_file_name(&info.sha) {
            let error = anyhow!("{} calls `{}` a commit of `{}`", self.endpoint, info.sha, self.id);
            return Err(Failure::Refused(error));
        }
        Ok(info)
    }

    /// Begins to fetch a file.
    ///
    /// The Hub itself answers for the file's name and size, then sends on to where the bytes are: small files
    /// to another path of its own, large ones to another host, which must not see the token. So redirects are
    /// followed here, one by one. `ApiRepo::download` of hf-hub 0.5 would not do: it insists on a
    /// `Content-Range`, which the Hub leaves out for small files (hf-hub issue 141), and it trusts their size.
    pub(super) fn open(&self, commit: &str, file: &str) -> Result<Remote, Failure> {
        let mut url = format!("{}/{}/resolve/{commit}/{file}", self.endpoint, self.id);
        let (mut etag, mut linked_etag, mut linked_size) = (None, None, None);
        for _ in 0..HOPS {
            let at_home = origin(&url) == origin(&self.endpoint);
            let answer = self.get(&url, at_home, 0)?;
            if at_home {
                // What the Hub says of the bytes themselves, in `X-Linked-`, goes before what it says of an
                // answer that may be no more than a redirect. Another host's word on the name does not count.
                let header = |name| answer.header(name).map(str::to_owned);
                etag = header("etag").or(etag);
                linked_etag = header("x-linked-etag").or(linked_etag);
                linked_size = header("x-linked-size").or(linked_size);
            }
            match answer.status {
                200 => {
                    let etag = linked_etag
                        .or(etag)
                        .map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_owned())
                        .filter(|etag| is_file_name(etag))
                        .with_context(|| format!("{url} came without a usable ETag"))
                        .map_err(Failure::Refused)?;
                    let bytes = linked_size.as_deref().or(answer.header("content-length"));
                    let bytes = bytes.and_then(|bytes| bytes.parse().ok());
                    return Ok(Remote { etag, bytes, body: answer.body });
                }
                301 | 302 | 303 | 307 | 308 => {
                    let location = answer
                        .header("location")
                        .with_context(|| format!("{url} leads on, but does not say where"))
                        .map_err(Failure::Refused)?;
                    url = follow(&url, location);
                }
                404 if at_home => {
                    let error = anyhow!("{url} is not there, though {file} is listed among the files of `{}`", self.id);
                    return Err(Failure::Refused(error));
                }
                _ if at_home => return Err(self.failure(&answer)),
                status => {
                    let error = anyhow!("{} answered {status} for {file} of `{}`", origin(&url), self.id);
                    return Err(Failure::Unavailable(error));
                }
            }
        }
        let error = anyhow!("{file} of `{}` led on {HOPS} times without an end", self.id);
        Err(Failure::Refused(error))
    }

    /// One request. Redirects beyond the allowed number come back as what they are.
    fn get(&self, url: &str, with_token: bool, redirects: u32) -> Result<Answer, Failure> {
        // Compressed, an answer has neither the size nor the ETag of the file.
        let mut request = self.repo.info_request().uri(url).header("Accept-Encoding", "identity");
        if !with_token && let Some(headers) = request.headers_mut() {
            headers.remove("authorization");
        }
        let response = request
            .config()
            .http_status_as_error(false)
            .max_redirects(redirects)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .timeout_per_read(Some(ANSWER))
            .build()
            .call()
            .map_err(|error| Failure::Unavailable(error.into()))?;
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
        let Self { id, revision, endpoint, .. } = self;
        let status = answer.status;
        let code = answer.header("x-error-code").unwrap_or_default();
        if status == 429 || status >= 500 {
            return Failure::Unavailable(anyhow!("{endpoint} answered {status}"));
        }
        let sources = format!("HF_TOKEN or the file `{}`", self.token_file.display());
        Failure::Refused(match (status, code, &self.token) {
            (401 | 403, "GatedRepo", None) => anyhow!(
                "`{id}` is gated ({endpoint} answered {status}): accept its terms at {endpoint}/{id} \
                 and put an access token into {sources}"
            ),
            (401 | 403, "GatedRepo", Some(token)) => anyhow!(
                "`{id}` is gated ({endpoint} answered {status}): accept its terms at {endpoint}/{id} \
                 as the owner of the token from {}",
                token.origin
            ),
            (401, _, None) => anyhow!(
                "cannot read model `{id}` ({endpoint} answered 401): either no folder and no Hub model has this \
                 name, or the model is private or gated and no token was sent; check the name, or put an access \
                 token into {sources}"
            ),
            (401, _, Some(token)) => anyhow!(
                "cannot read model `{id}` ({endpoint} answered 401): either no folder and no Hub model has this \
                 name, or the token from {} is not valid for it; check the name and the token",
                token.origin
            ),
            (403, _, None) => anyhow!(
                "model `{id}` may not be read without a token ({endpoint} answered 403): put an access token \
                 into {sources}"
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
                 `{revision}`): check the name"
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
        let error = Client::new(&settings, "acme/tiny-bert", "main").err().unwrap();
        assert_eq!(error.to_string(), "HF_ENDPOINT is `mirror.example`: give a URL such as https://huggingface.co");
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
