//! The Hub's protocol: the files of a revision, the location of a file's bytes, and the meaning of a refusal.

use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use hf_hub::{Cache as HubCache, Repo};

use super::backoff::{Failure, temporary_failure};
use super::cache::{Cache, is_file_name};
use super::commit::Commit;
use super::digest::{Digest, ExpectedFile};
use super::environment::{ENDPOINT_HINT, Environment};
use super::response::{Response, origin, resolve_location};
use crate::system::errors::ErrorExt;

/// Maximum number of redirects that a request follows.
const MAX_REDIRECTS: usize = 5;

/// Time limit for the body of the Hub's description of a model.
const DESCRIPTION_TIMEOUT: Duration = Duration::from_secs(60);

/// A client for one revision of one model on the Hub.
pub(super) struct Client<'a> {
    pub(super) id: &'a str,
    revision: &'a str,
    pub(super) environment: &'a Environment,
    /// The Hub cache, which suggests a similar model if the requested one is not found.
    cache: &'a Cache,
    /// hf-hub's own connection to the model, with the token and TLS set up.
    repo: ApiRepo,
}

/// The location of a file on the Hub, and its expected size and digest.
pub(super) struct RemoteFile {
    /// The file's `ETag`, which names its content; a valid file name.
    pub(super) etag: String,
    pub(super) expected: ExpectedFile,
    /// Address of the file's bytes, after the redirects followed so far.
    url: String,
    /// The open body of the file, if the Hub sent it without a redirect.
    opened: Option<Box<dyn Read>>,
}

impl<'a> Client<'a> {
    pub(super) fn new(environment: &'a Environment, cache: &'a Cache, id: &'a str, revision: &'a str) -> Result<Self> {
        let endpoint = &environment.endpoint;
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            let wrong = anyhow!("HF_ENDPOINT is `{endpoint}`").with_value(endpoint);
            bail!(wrong.hint("give a URL such as https://huggingface.co"));
        }
        let api = ApiBuilder::from_cache(HubCache::new(environment.cache.clone()))
            .with_endpoint(endpoint.clone())
            .with_token(environment.token.as_ref().map(|token| token.value.clone()))
            .with_user_agent(crate::PROGRAM, env!("CARGO_PKG_VERSION"))
            .with_progress(false)
            .build()
            .context("cannot set up the connection to the Hub")?;
        Ok(Self { id, revision, environment, cache, repo: api.repo(Repo::model(id.to_owned())) })
    }

    /// Requests the Hub's description of the revision.
    pub(super) fn fetch_commit(&self) -> Result<Commit, Failure> {
        let endpoint = &self.environment.endpoint;
        let revision = self.revision.replace('/', "%2F");
        let mut url = format!("{endpoint}/api/models/{}/revision/{revision}?blobs=true", self.id);
        for _ in 0..MAX_REDIRECTS {
            let answer = self.get(&url, 0, Some(DESCRIPTION_TIMEOUT))?;
            match answer.status {
                200 => return Commit::read(answer.body, endpoint, self.id),
                // A renamed model redirects to its new name.
                301 | 302 | 303 | 307 | 308 => url = self.redirect_target(&url, &answer)?,
                _ => return Err(self.response_failure(&answer)),
            }
        }
        Err(self.too_many_redirects_failure("the description"))
    }

    /// Locates a file of at most `most` bytes. The Hub itself states the file's name and size, then redirects to the bytes.
    /// Small files are on another path of the Hub, large ones on another host, which must not see the token. So this method
    /// follows redirects itself, one by one. `ApiRepo::download` of hf-hub 0.5 requires a `Content-Range`, which the Hub omits
    /// for small files (hf-hub issue 141), and trusts their size.
    pub(super) fn locate(&self, commit: &Commit, file: &str, most: u64) -> Result<RemoteFile, Failure> {
        let mut url = format!("{}/{}/resolve/{}/{file}", self.environment.endpoint, self.id, commit.sha);
        let (mut etag, mut linked_etag, mut linked_size) = (None, None, None);
        for _ in 0..MAX_REDIRECTS {
            let answer = self.get(&url, 0, None)?;
            // `X-Linked-` headers describe the bytes, and take precedence over headers of the response, which may be a redirect.
            let header = |name| answer.header(name).map(str::to_owned);
            etag = header("etag").or(etag);
            linked_etag = header("x-linked-etag").or(linked_etag);
            linked_size = header("x-linked-size").or(linked_size);
            let size = match answer.status {
                200 => linked_size.as_deref().or(answer.header("content-length")),
                301 | 302 | 303 | 307 | 308 => {
                    url = self.redirect_target(&url, &answer)?;
                    // If the digest is known, the other host is not asked for it; a mirror may state only the location.
                    let is_known = linked_etag.is_some() || etag.is_some() || commit.expected_file(file).is_some();
                    if self.is_hub_host(&url) || !is_known {
                        continue;
                    }
                    linked_size.as_deref()
                }
                404 => {
                    let listed = format!("though {file} is listed among the files of `{}`", self.id);
                    return Err(anyhow!("{url} is not there, {listed}").into());
                }
                _ if self.is_hub_host(&url) => return Err(self.response_failure(&answer)),
                status => return Err(self.unavailable_host_failure(&url, status, file, &answer)),
            };
            let described_digest = || commit.digest(file).map(|digest| digest.value.clone());
            let etag = linked_etag
                .or(etag)
                .or_else(described_digest)
                .map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_owned())
                .filter(|etag| is_file_name(etag))
                .with_context(|| format!("{} sent no usable ETag with it", self.environment.endpoint))
                .hint(ENDPOINT_HINT)?;
            let expected = self.expected_file(commit, file, &etag, size.and_then(|bytes| bytes.parse().ok()))?;
            if expected.bytes > most {
                let bytes = expected.bytes;
                return Err(anyhow!("it has {bytes} bytes, and more than {most} are not read").into());
            }
            let opened = (answer.status == 200).then_some(answer.body);
            return Ok(RemoteFile { etag, expected, url, opened });
        }
        Err(self.too_many_redirects_failure(file))
    }

    /// Returns the expected size and digest of a file. They come from the model's description, or else from the response with
    /// the file's location. Fails if neither has them, or their digests differ: a file that cannot be checked never enters the
    /// cache.
    fn expected_file(&self, commit: &Commit, file: &str, etag: &str, bytes: Option<u64>) -> Result<ExpectedFile> {
        let (endpoint, id) = (&self.environment.endpoint, self.id);
        let described = commit.expected_file(file);
        let named = Digest::parse(etag);
        if let (Some(ExpectedFile { digest, .. }), Some(named)) = (described, &named) {
            ensure!(
                digest == named,
                anyhow!("{endpoint} describes {file} of `{id}` as {digest} and sends {named}").hint("try again")
            );
        }
        match (described, named, bytes) {
            (Some(expected), ..) => Ok(expected.clone()),
            (None, Some(digest), Some(bytes)) => Ok(ExpectedFile { bytes, digest }),
            _ => Err(anyhow!(
                "{endpoint} says of {file} of `{id}` neither its size nor its digest, so that it cannot be checked"
            )
            .hint(ENDPOINT_HINT)),
        }
    }

    /// Opens the body of a file at byte `start`, or at 0 if the server does not support ranges. Returns (offset of the body in
    /// the file, body).
    pub(super) fn open_body(
        &self,
        remote: &mut RemoteFile,
        file: &str,
        mut start: u64,
    ) -> Result<(u64, Box<dyn Read>), Failure> {
        if start == 0
            && let Some(body) = remote.opened.take()
        {
            return Ok((start, body));
        }
        let mut url = remote.url.clone();
        for _ in 0..MAX_REDIRECTS {
            let answer = self.get(&url, start, None)?;
            match answer.status {
                200 => return Ok((0, answer.body)),
                206 if answer.range_start() == Some(start) => return Ok((start, answer.body)),
                // The range differs from the requested one, or cannot be satisfied: the whole file is requested.
                206 | 416 if start > 0 => start = 0,
                301 | 302 | 303 | 307 | 308 => url = self.redirect_target(&url, &answer)?,
                _ if self.is_hub_host(&url) => return Err(self.response_failure(&answer)),
                status => return Err(self.unavailable_host_failure(&url, status, file, &answer)),
            }
        }
        Err(self.too_many_redirects_failure(file))
    }

    /// Makes the temporary failure of a download host that responded with `status` to a request for `file`.
    fn unavailable_host_failure(&self, url: &str, status: u16, file: &str, answer: &Response) -> Failure {
        let error = anyhow!("{} answered {status} for {file} of `{}`", origin(url), self.id);
        Failure::Unavailable { error, wait: answer.retry_after() }
    }

    /// Makes the permanent failure of a request for `file` that was redirected too many times.
    fn too_many_redirects_failure(&self, file: &str) -> Failure {
        Failure::Refused(anyhow!("{file} of `{}` led on {MAX_REDIRECTS} times without an end", self.id))
    }

    /// Whether a URL is on the Hub's own host, the only one that may see the access token.
    fn is_hub_host(&self, url: &str) -> bool {
        origin(url) == origin(&self.environment.endpoint)
    }

    /// Returns the URL to which a response redirects. Fails if it is missing, is no web address, or gives up encryption.
    fn redirect_target(&self, url: &str, answer: &Response) -> Result<String> {
        let location = answer.header("location").with_context(|| format!("{url} leads on, but does not say where"))?;
        let redirect_target = resolve_location(url, location);
        let is_web = ["http://", "https://"].iter().any(|scheme| redirect_target.starts_with(scheme));
        ensure!(
            is_web,
            anyhow!("{} leads on to `{}`, which is no address of the web", origin(url), origin(&redirect_target))
                .hint(ENDPOINT_HINT)
        );
        // The endpoint may be unencrypted, for a local mirror; an encrypted one must stay encrypted.
        let exposed = redirect_target.starts_with("http://") && self.environment.endpoint.starts_with("https://");
        ensure!(!exposed, "{} leads on to {}, without encryption", origin(url), origin(&redirect_target));
        Ok(redirect_target)
    }

    /// Sends one request, with a range if `start` is above 0. Only the Hub's own host gets the token. `body` is the time limit
    /// for the body. Redirects are returned, not followed.
    fn get(&self, url: &str, start: u64, body: Option<Duration>) -> Result<Response, Failure> {
        // A compressed response has neither the size nor the ETag of the file.
        let mut request = self.repo.info_request().uri(url).header("Accept-Encoding", "identity");
        if start > 0 {
            request = request.header("Range", format!("bytes={start}-"));
        }
        if !self.is_hub_host(url)
            && let Some(headers) = request.headers_mut()
        {
            headers.remove("authorization");
        }
        let response = request
            .config()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(self.environment.answer_timeout))
            .timeout_connect(Some(self.environment.answer_timeout))
            .timeout_recv_response(Some(self.environment.answer_timeout))
            .timeout_recv_body(body)
            .timeout_per_read(Some(self.environment.read_timeout))
            .build()
            .call()
            .map_err(|error| temporary_failure(error.into()))?;
        let headers = response.headers().iter();
        Ok(Response {
            status: response.status().as_u16(),
            headers: headers
                .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into()))
                .collect(),
            body: Box::new(response.into_body().into_reader()),
        })
    }

    /// Returns the failure that a refusing response of the Hub means: temporary for a busy server, otherwise permanent.
    fn response_failure(&self, answer: &Response) -> Failure {
        let Self { id, revision, .. } = self;
        let Environment { endpoint, token, .. } = self.environment;
        let status = answer.status;
        let code = answer.header("x-error-code").unwrap_or_default();
        if status == 408 || status == 429 || status >= 500 {
            let busy = if status == 429 { " (too many requests)" } else { "" };
            return Failure::Unavailable {
                error: anyhow!("{endpoint} answered {status}{busy}"),
                wait: answer.retry_after(),
            };
        }
        let token_places = self.environment.token_places();
        let suggestion =
            self.cache.closest_id(id).map(|known| format!("; did you mean `{known}`, which is in the cache?"));
        let suggestion = suggestion.unwrap_or_default();
        let answered = format!("{endpoint} answered {status}");
        let cannot_name =
            format!("cannot read model `{id}` ({answered}): either no folder and no Hub model has this name, or");
        Failure::Refused(match (status, code, token) {
            (401 | 403, "GatedRepo", _) => {
                let terms = format!("accept its terms at {endpoint}/{id}");
                anyhow!("`{id}` is gated ({answered})").hint(match token {
                    Some(token) => format!("{terms} as the owner of the token from {}", token.origin),
                    None => format!("{terms} and put an access token into {token_places}"),
                })
            }
            (401, _, None) => anyhow!("{cannot_name} the model is private or gated and no token was sent")
                .with_value(id)
                .hint_after("; ", format!("check the name, or put an access token into {token_places}{suggestion}")),
            (401, _, Some(token)) => anyhow!("{cannot_name} the token from {} is not valid for it", token.origin)
                .with_value(id)
                .hint_after("; ", format!("check the name and the token{suggestion}")),
            (403, _, None) => anyhow!("model `{id}` may not be read without a token ({answered})")
                .hint(format!("put an access token into {token_places}")),
            (403, _, Some(token)) => {
                anyhow!("model `{id}` may not be read with the token from {} ({answered})", token.origin)
                    .hint("give the token the right to read it, or use another one")
            }
            (404, "RevisionNotFound", _) => anyhow!("model `{id}` has no revision `{revision}` ({answered})")
                .with_value(revision)
                .hint("check what stands after the `@`; without it, `main` is meant"),
            (404, _, _) => anyhow!("no folder and no Hub model is named `{id}` ({answered} for revision `{revision}`)")
                .with_value(id)
                .hint(format!("check the name{suggestion}")),
            _ => anyhow!("{answered} for model `{id}`, which it should not").hint("check HF_ENDPOINT"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_is_no_url_is_refused() {
        let environment = Environment::of(&[("HF_ENDPOINT", "mirror.example")]);
        let cache = Cache::new(&environment, "acme/tiny-bert");
        let error = Client::new(&environment, &cache, "acme/tiny-bert", "main").err().unwrap();
        assert_eq!(error.to_string(), "HF_ENDPOINT is `mirror.example`: give a URL such as https://huggingface.co");
    }
}
