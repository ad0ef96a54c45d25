//! A Hub on this machine that serves one model from a folder, for tests of downloads.
//!
//! It follows what the real one does as far as a client can tell: the weights lie on another host (here: another
//! port) that refuses a request with the Hub's token, small files lead on to another path of the same host, a model
//! that does not exist looks like a private one to those without a token, and a client that takes compressed
//! answers gets neither ranges nor sizes.

#![allow(dead_code, reason = "each test program uses a part of this")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Cursor, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;
use sha2::{Digest, Sha256};
use tiny_http::{Header, Request, Response, Server, StatusCode};

/// The commit that `main` stands for.
pub const MAIN_COMMIT: &str = "1111111111111111111111111111111111111111";
/// The commit that the tag `v1` and the branch `refs/pr/5` stand for; its files are the same.
pub const V1_COMMIT: &str = "2222222222222222222222222222222222222222";

/// What a [`HubServer`] serves, and how.
#[derive(Clone, Debug)]
pub struct Hub {
    id: String,
    folder: PathBuf,
    access: Access,
    fault: Fault,
}

/// Who may read the model.
#[derive(Clone, Debug)]
pub enum Access {
    /// Everybody.
    Public,
    /// Those with this token; others are not even told that it exists.
    Private(String),
    /// Everybody may see what there is, those with this token may read it.
    Gated(String),
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The weights' host sends one byte less than the Hub promised, and says so in its `Content-Length`.
    ShortWeights,
    /// The weights' host sends as many bytes as the Hub promised, but [`change`]s them.
    ChangedWeights,
    /// The weights' host takes seconds for what it sends.
    SlowWeights,
    /// Every answer has this status.
    Status(u16),
    /// Every answer is a web page, as in a network that asks for a login first.
    WebPage,
}

impl Hub {
    /// The model `id` with the files of `folder`, public and in good order.
    pub fn new(id: &str, folder: impl Into<PathBuf>) -> Self {
        Self { id: id.to_owned(), folder: folder.into(), access: Access::Public, fault: Fault::None }
    }

    /// The same, for fewer readers.
    pub fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// The same, out of order.
    pub fn with_fault(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    /// Begins to serve, on ports that nobody uses.
    pub fn start(self) -> HubServer {
        let hub = Arc::new(self);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let weights = {
            let (hub, requests) = (Arc::clone(&hub), Arc::clone(&requests));
            Listener::start(move |request| hub.weights_host(&record(&requests, request)))
        };
        let front = {
            let (requests, weights) = (Arc::clone(&requests), weights.url());
            Listener::start(move |request| hub.front(&record(&requests, request), &weights))
        };
        HubServer { front, _weights: weights, requests }
    }

    fn front(&self, asked: &Asked, weights: &str) -> Reply {
        match self.fault {
            Fault::Status(status) => return Reply::new(status, "out of order"),
            Fault::WebPage => return Reply::new(200, "<html>Welcome! Please log in.</html>"),
            _ => {}
        }
        let readable = match &self.access {
            Access::Public => true,
            Access::Private(token) | Access::Gated(token) => asked.token.as_deref() == Some(token),
        };
        let seen = readable || matches!(self.access, Access::Gated(_));
        let paths = [
            format!("/api/models/{}", self.id),
            format!("/{}/resolve/", self.id),
            format!("/api/resolve-cache/models/{}/", self.id),
        ];
        let rests = paths.each_ref().map(|path| asked.path.strip_prefix(path));
        if !seen || rests.iter().all(Option::is_none) {
            let status = if asked.token.is_none() { 401 } else { 404 };
            return Reply::error(status, "RepoNotFound");
        }
        let [info, resolve, small] = rests;
        if let Some(rest) = info {
            let revision = if rest.is_empty() { Some("main") } else { rest.strip_prefix("/revision/") };
            return match revision.and_then(commit) {
                Some(commit) => self.info(commit),
                None => Reply::error(404, "RevisionNotFound"),
            };
        }
        if !readable {
            return Reply::error(if asked.token.is_none() { 401 } else { 403 }, "GatedRepo");
        }
        let (revision, file) = resolve.or(small).and_then(|rest| rest.split_once('/')).unwrap_or_default();
        let Some(commit) = commit(revision) else {
            return Reply::error(404, "RevisionNotFound").with("X-Repo-Commit", MAIN_COMMIT);
        };
        let Some(bytes) = self.read(file) else {
            return Reply::error(404, "EntryNotFound").with("X-Repo-Commit", commit);
        };
        let etag = format!("\"{}\"", etag(file, &bytes));
        if small.is_some() {
            return Reply::file(bytes, asked, !asked.compressed).with("ETag", &etag).with("X-Repo-Commit", commit);
        }
        let (status, location) = if is_weights(file) {
            (302, format!("{weights}/{file}?signature=abc"))
        } else {
            (307, format!("/api/resolve-cache/models/{}/{commit}/{file}?etag=abc", self.id))
        };
        Reply::new(status, "see there")
            .with("Location", &location)
            .with("ETag", "\"of-the-redirect\"")
            .with("X-Repo-Commit", commit)
            .with("X-Linked-Size", &bytes.len().to_string())
            .with("X-Linked-ETag", &etag)
    }

    fn weights_host(&self, asked: &Asked) -> Reply {
        if asked.token.is_some() {
            return Reply::new(400, "only one auth mechanism allowed");
        }
        let Some(mut bytes) = self.read(asked.path.trim_start_matches('/')) else {
            return Reply::new(404, "no such key");
        };
        match self.fault {
            Fault::ShortWeights => drop(bytes.pop()),
            Fault::ChangedWeights => change(&mut bytes),
            _ => {}
        }
        let pace = if self.fault == Fault::SlowWeights { Duration::from_millis(50) } else { Duration::ZERO };
        Reply { pace, ..Reply::file(bytes, asked, true).with("ETag", "\"another-name-for-it\"") }
    }

    /// The only fields that headscope reads, and one it must not mind.
    fn info(&self, commit: &str) -> Reply {
        let names = fs::read_dir(&self.folder)
            .expect("the model's folder can be listed")
            .map(|entry| entry.expect("the model's folder can be listed").file_name().into_string().expect("UTF-8"))
            .collect::<BTreeSet<_>>();
        let siblings = names.iter().map(|name| json!({ "rfilename": name })).collect::<Vec<_>>();
        let info = json!({ "id": self.id, "sha": commit, "siblings": siblings });
        Reply::new(200, info.to_string()).with("Content-Type", "application/json")
    }

    fn read(&self, file: &str) -> Option<Vec<u8>> {
        if file.contains('/') || file.starts_with('.') {
            return None;
        }
        fs::read(self.folder.join(file)).ok()
    }
}

fn is_weights(file: &str) -> bool {
    [".safetensors", ".bin", ".h5"].iter().any(|end| file.ends_with(end))
}

/// The name of a file's bytes. The real Hub takes the git hash of small files (40 digits) and the SHA-256 of large ones;
/// here all have the SHA-256, shortened for small files.
pub fn etag(file: &str, bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    if is_weights(file) { digest } else { digest[..40].to_owned() }
}

/// What [`Fault::ChangedWeights`] does to a file: one bit of its last byte is another one.
pub fn change(bytes: &mut [u8]) {
    *bytes.last_mut().expect("a file that is not empty") ^= 1;
}

/// The commit of a revision as it stands in a URL.
fn commit(revision: &str) -> Option<&'static str> {
    match revision {
        "main" | MAIN_COMMIT => Some(MAIN_COMMIT),
        "v1" | "refs%2Fpr%2F5" | V1_COMMIT => Some(V1_COMMIT),
        _ => None,
    }
}

/// A running [`Hub`]; it stops when dropped.
pub struct HubServer {
    front: Listener,
    _weights: Listener,
    requests: Arc<Mutex<Vec<String>>>,
}

impl HubServer {
    /// For `HF_ENDPOINT`.
    pub fn url(&self) -> String {
        self.front.url()
    }

    /// All requests so far, as `METHOD PATH`, in order. Those for weights on their own host have the path `/FILE`.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no request panics").clone()
    }

    /// How many requests so far had this path.
    pub fn count(&self, path: &str) -> usize {
        self.requests().iter().filter(|request| request.split_once(' ').is_some_and(|(_, of)| of == path)).count()
    }
}

/// What of a request matters here.
struct Asked {
    /// Without what follows a `?`.
    path: String,
    token: Option<String>,
    range: Option<String>,
    compressed: bool,
}

/// Notes a request and takes it apart.
fn record(requests: &Mutex<Vec<String>>, request: &Request) -> Asked {
    let header = |name: &'static str| {
        request.headers().iter().find(|header| header.field.equiv(name)).map(|header| header.value.to_string())
    };
    let path = request.url().split('?').next().unwrap_or_default().to_owned();
    requests.lock().expect("no request panics").push(format!("{} {path}", request.method()));
    Asked {
        path,
        token: header("Authorization").map(|value| value.trim_start_matches("Bearer ").to_owned()),
        range: header("Range"),
        compressed: header("Accept-Encoding").is_some_and(|value| value.contains("gzip")),
    }
}

/// An answer before it is sent.
struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// The time that each [`PIECE`] of the body takes.
    pace: Duration,
}

/// As much as `tiny_http` holds back before it sends.
const PIECE: usize = 1024;

impl Reply {
    fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), pace: Duration::ZERO }
    }

    fn error(status: u16, code: &str) -> Self {
        Self::new(status, code).with("X-Error-Code", code)
    }

    /// All of a file, or the range `bytes=FIRST-[LAST]` that was asked for.
    fn file(bytes: Vec<u8>, asked: &Asked, ranges: bool) -> Self {
        let total = bytes.len();
        let Some(range) = asked.range.as_deref().and_then(|range| range.strip_prefix("bytes=")).filter(|_| ranges)
        else {
            return Self::new(200, bytes);
        };
        let (first, last) = range.split_once('-').unwrap_or((range, ""));
        let first = first.parse().unwrap_or(0);
        let end = last.parse().map_or(total, |last: usize| total.min(last + 1));
        if first >= end {
            return Self::new(416, "").with("Content-Range", &format!("bytes */{total}"));
        }
        Self::new(206, &bytes[first..end]).with("Content-Range", &format!("bytes {first}-{}/{total}", end - 1))
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn send(self, request: Request) {
        // In one piece, whatever its size: in chunks an answer would have no Content-Length.
        let length = self.body.len();
        let body = Paced { bytes: Cursor::new(self.body), pace: self.pace };
        let mut response = Response::new(StatusCode(self.status), Vec::new(), body, Some(length), None)
            .with_chunked_threshold(usize::MAX);
        for (name, value) in self.headers {
            response.add_header(Header::from_bytes(name, value).expect("a header in ASCII"));
        }
        // A client that has gone is no fault of the server's.
        let _ = request.respond(response);
    }
}

/// Bytes that come no faster than one [`PIECE`] per `pace`.
struct Paced {
    bytes: Cursor<Vec<u8>>,
    pace: Duration,
}

impl Read for Paced {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        thread::sleep(self.pace);
        let end = buffer.len().min(PIECE);
        self.bytes.read(&mut buffer[..end])
    }
}

/// A port of 127.0.0.1 and the thread that answers there.
struct Listener {
    server: Option<Arc<Server>>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    fn start(answer: impl Fn(&Request) -> Reply + Send + 'static) -> Self {
        let server = Arc::new(Server::http("127.0.0.1:0").expect("127.0.0.1 has a free port"));
        let address = server.server_addr().to_ip().expect("an IP address");
        let thread = thread::spawn({
            let server = Arc::clone(&server);
            move || {
                for request in server.incoming_requests() {
                    answer(&request).send(request);
                }
            }
        });
        Self { server: Some(server), address, thread: Some(thread) }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The thread holds on to the server too: with both gone the port closes, but in a thread of the server's own.
        if let Some(server) = self.server.take() {
            server.unblock();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let deadline = Instant::now() + Duration::from_secs(5);
        while TcpStream::connect(self.address).is_ok() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }
}
