//! A local Hub that serves one model from a folder, for tests of downloads. It misbehaves on request.
//!
//! To a client, this Hub behaves as the real Hub does. The weights lie on another host, here another port, which
//! refuses a request with the Hub's token. Small files redirect to another path of their host. Without a token, a
//! missing model looks like a private model. A client that accepts compressed answers gets no ranges of small files.
//!
//! The server speaks HTTP itself, over plain sockets with one request per connection. No library lets a server commit
//! the [`Fault`]s.

#![allow(dead_code, reason = "each test program uses a part of this")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use headscope::system::files::digest::hex;
use serde_json::json;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The commit that `main` stands for.
pub const MAIN_COMMIT: &str = "1111111111111111111111111111111111111111";
/// The commit that the tag `v1` and the branch `refs/pr/5` stand for. Its files equal the files of `main`.
pub const V1_COMMIT: &str = "2222222222222222222222222222222222222222";

/// A model that a [`HubServer`] serves, with its access rule and its fault.
#[derive(Clone, Debug)]
pub struct Hub {
    id: String,
    folder: PathBuf,
    access: Access,
    fault: Fault,
    plain_info: bool,
}

/// Who may read the model.
#[derive(Clone, Debug)]
pub enum Access {
    /// Everybody.
    Public,
    /// Clients with this token. Others are told that the model does not exist.
    Private(String),
    /// Everybody may list the model; clients with this token may read it.
    Gated(String),
}

/// A fault of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// The weights' host sends one byte less than the Hub promised, with a matching `Content-Length`.
    ShortWeights,
    /// The weights' host sends one byte more than the Hub promised.
    LongWeights,
    /// The weights' host sends as many bytes as the Hub promised, but [`change`]s them.
    ChangedWeights,
    /// The weights' host pauses before each [`PIECE`] that it sends.
    SlowWeights,
    /// The weights' host ends the connection after the first `after` bytes of an answer.
    CutWeights {
        /// Bytes of the body that are sent.
        after: usize,
        /// Number of answers that are cut.
        times: u32,
        /// How the weights' host answers requests for ranges.
        ranges: Ranges,
    },
    /// The weights' host stops after this number of bytes of its first answer and keeps the connection open.
    StalledWeights(usize),
    /// Every answer has this status.
    Status(u16),
    /// The first answers, up to this number, have this status and this header. Later answers are in order.
    Busy(u32, u16, Option<(&'static str, &'static str)>),
    /// The first requests, up to this number, get no answer, and the connection stays open.
    Silent(u32),
    /// The first requests, up to this number, get an answer that is not HTTP.
    Garbage(u32),
    /// Every answer is a web page, as in a network that asks for a login first.
    WebPage,
    /// The weights' host sends one byte at a time, with this pause after each byte.
    TrickledWeights(Duration),
    /// The Hub gives no size of `tokenizer.json` and ends its first answer after this number of bytes. An HTTP/1.0
    /// proxy that loses its connection does so.
    UnsizedTokenizer(usize),
    /// The description of the model never ends.
    EndlessInfo,
    /// The description of the model gives another size and digest of the weights.
    OtherInfo,
    /// The Hub promises this number of bytes for this file.
    Promise(&'static str, u64),
    /// The description of the model redirects to another port of this machine.
    InfoElsewhere,
    /// The description of the model redirects to this address.
    InfoAt(&'static str),
    /// For every file, the Hub sends only a redirect to another port.
    MovedFiles,
    /// The Hub sends this `ETag` for every file.
    Etag(&'static str),
    /// The description of the model gives this commit.
    Commit(&'static str),
    /// The description of the model lists this file, too.
    Sibling(&'static str),
}

/// How a server answers a request for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// Sends the range.
    Known,
    /// Sends the whole file.
    Unknown,
    /// Sends the whole file and calls it a range.
    Confused,
}

impl Hub {
    /// The model `id` with the files of `folder`, public and without fault.
    pub fn new(id: &str, folder: impl Into<PathBuf>) -> Self {
        Self { id: id.to_owned(), folder: folder.into(), access: Access::Public, fault: Fault::None, plain_info: false }
    }

    /// Restricts the readers.
    pub fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// Adds a fault.
    pub fn with_fault(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    /// Leaves sizes and digests out of the description, as a simple mirror does.
    pub fn with_plain_info(self) -> Self {
        Self { plain_info: true, ..self }
    }

    /// Starts to serve on free ports.
    pub fn start(self) -> HubServer {
        let hub = Arc::new(self);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let faults = Arc::new(AtomicU32::new(0));
        let weights = {
            let (hub, requests, faults) = (Arc::clone(&hub), Arc::clone(&requests), Arc::clone(&faults));
            Listener::start(move |asked| hub.weights_host(&record(&requests, asked), &faults))
        };
        let front = {
            let (requests, weights) = (Arc::clone(&requests), weights.url());
            Listener::start(move |asked| hub.front(&record(&requests, asked), &weights, &faults))
        };
        HubServer { front, _weights: weights, requests }
    }

    /// An answer of the Hub itself. `faults` counts the faults so far.
    fn front(&self, asked: &Asked, weights: &str, faults: &AtomicU32) -> Reply {
        let is_due = |times: u32| faults.fetch_add(1, Ordering::SeqCst) < times;
        match self.fault {
            Fault::Status(status) => return Reply::new(status, "out of order"),
            Fault::WebPage => return Reply::new(200, "<html>Welcome! Please log in.</html>"),
            Fault::Busy(times, status, header) if is_due(times) => {
                let reply = Reply::new(status, "not now");
                return header.into_iter().fold(reply, |reply, (name, value)| reply.with(name, value));
            }
            Fault::Silent(times) if is_due(times) => return Reply::new(200, "").ending(End::Silent),
            Fault::Garbage(times) if is_due(times) => return Reply::new(200, "").ending(End::Garbage),
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
            if self.fault == Fault::InfoElsewhere {
                return Reply::new(307, "see there").with("Location", &format!("{weights}{}", asked.path));
            }
            if let Fault::InfoAt(location) = self.fault {
                return Reply::new(307, "see there").with("Location", location);
            }
            let rest = rest.split('?').next().unwrap_or_default();
            let revision = if rest.is_empty() { Some("main") } else { rest.strip_prefix("/revision/") };
            let tree = rest.strip_prefix("/tree/").and_then(commit);
            return match revision.and_then(commit).or(tree) {
                Some(_) if tree.is_some() => self.tree(),
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
        let etag = match self.fault {
            Fault::Etag(etag) => etag.to_owned(),
            _ => format!("\"{}\"", etag(file, &bytes)),
        };
        if small.is_some() {
            if let Fault::UnsizedTokenizer(after) = self.fault
                && file == "tokenizer.json"
            {
                let end = End::Unsized(if is_due(1) { after } else { bytes.len() });
                return Reply::new(200, bytes).with("ETag", &etag).ending(end);
            }
            return Reply::file(bytes, asked, !asked.compressed).with("ETag", &etag).with("X-Repo-Commit", commit);
        }
        if self.fault == Fault::MovedFiles {
            return Reply::new(308, "see there").with("Location", &format!("{weights}/{file}"));
        }
        let (status, location) = if is_weights(file) {
            (302, format!("{weights}/{file}?signature=abc"))
        } else {
            (307, format!("/api/resolve-cache/models/{}/{commit}/{file}?etag=abc", self.id))
        };
        let reply = Reply::new(status, "see there")
            .with("Location", &location)
            .with("ETag", "\"of-the-redirect\"")
            .with("X-Repo-Commit", commit)
            .with("X-Linked-ETag", &etag);
        if matches!(self.fault, Fault::UnsizedTokenizer(_)) {
            return reply;
        }
        reply.with("X-Linked-Size", &self.promised(file, bytes.len()).to_string())
    }

    /// An answer of the host that stores the weights.
    fn weights_host(&self, asked: &Asked, faults: &AtomicU32) -> Reply {
        if asked.token.is_some() {
            return Reply::new(400, "only one auth mechanism allowed");
        }
        let Some(mut bytes) = self.read(asked.path.trim_start_matches('/')) else {
            return Reply::new(404, "no such key");
        };
        match self.fault {
            Fault::ShortWeights => drop(bytes.pop()),
            Fault::LongWeights => bytes.push(0),
            Fault::ChangedWeights => change(&mut bytes),
            _ => {}
        }
        let is_due = |times: u32| faults.fetch_add(1, Ordering::SeqCst) < times;
        let (ranges, end) = match self.fault {
            Fault::TrickledWeights(pause) => (Ranges::Known, End::Trickled(pause)),
            Fault::SlowWeights => (Ranges::Known, End::Paced(Duration::from_millis(50))),
            Fault::CutWeights { after, times, ranges } => {
                (ranges, if is_due(times) { End::Cut(after) } else { End::Whole })
            }
            Fault::StalledWeights(after) if is_due(1) => (Ranges::Known, End::Stalled(after)),
            _ => (Ranges::Known, End::Whole),
        };
        let total = bytes.len();
        let name = match self.fault {
            Fault::MovedFiles => etag(asked.path.trim_start_matches('/'), &bytes),
            _ => "another-name-for-it".to_owned(),
        };
        let reply = match ranges {
            Ranges::Known => Reply::file(bytes, asked, true),
            Ranges::Unknown => Reply::new(200, bytes),
            Ranges::Confused if asked.range.is_none() => Reply::new(200, bytes),
            Ranges::Confused => Reply::new(206, bytes).with("Content-Range", &format!("bytes 0-{}/{total}", total - 1)),
        };
        reply.with("ETag", &format!("\"{name}\"")).ending(end)
    }

    /// The size that the Hub promises for a file.
    fn promised(&self, file: &str, bytes: usize) -> u64 {
        match self.fault {
            Fault::Promise(name, promised) if name == file => promised,
            _ => bytes as u64,
        }
    }

    fn names(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.folder).expect("the model's folder can be listed");
        entries
            .map(|entry| entry.expect("the model's folder can be listed").file_name().into_string().expect("UTF-8"))
            .collect()
    }

    /// The fields that headscope reads, and one field that it must ignore.
    fn info(&self, commit: &str) -> Reply {
        let mut names = self.names();
        let mut commit = commit;
        match self.fault {
            Fault::Sibling(name) => drop(names.insert(name.to_owned())),
            Fault::Commit(name) => commit = name,
            Fault::EndlessInfo => return Reply::new(200, " ").ending(End::Endless),
            _ => {}
        }
        let sibling = |name: &String| {
            let mut bytes = self.read(name).unwrap_or_default();
            if self.plain_info {
                return json!({ "rfilename": name });
            }
            if self.fault == Fault::OtherInfo && is_weights(name) {
                bytes.push(0);
            }
            let (digest, size) = (etag(name, &bytes), self.promised(name, bytes.len()));
            if is_weights(name) {
                let pointer = "0".repeat(40);
                let lfs = json!({ "sha256": digest, "size": size, "pointerSize": 130 });
                return json!({ "rfilename": name, "size": size, "blobId": pointer, "lfs": lfs });
            }
            json!({ "rfilename": name, "size": size, "blobId": digest })
        };
        let siblings = names.iter().map(sibling).collect::<Vec<_>>();
        let info = json!({ "id": self.id, "sha": commit, "siblings": siblings });
        Reply::new(200, info.to_string()).with("Content-Type", "application/json")
    }

    /// The listing that Python's `snapshot_download` requests: files with their sizes and digests.
    fn tree(&self) -> Reply {
        let entry = |name: &String| {
            let bytes = self.read(name).unwrap_or_default();
            let oid = etag(name, &bytes)[..40].to_owned();
            let mut entry = json!({ "type": "file", "path": name, "size": bytes.len(), "oid": oid });
            if is_weights(name) {
                entry["lfs"] = json!({ "oid": etag(name, &bytes), "size": bytes.len(), "pointerSize": 130 });
            }
            entry
        };
        let entries = self.names().iter().map(entry).collect::<Vec<_>>();
        Reply::new(200, json!(entries).to_string()).with("Content-Type", "application/json")
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

/// The `ETag` of a file, as on the real Hub: the SHA-256 of weights, the git blob hash of other files.
pub fn etag(file: &str, bytes: &[u8]) -> String {
    if is_weights(file) {
        return hex(&Sha256::digest(bytes));
    }
    hex(&Sha1::new_with_prefix(format!("blob {}\0", bytes.len())).chain_update(bytes).finalize())
}

/// Flips one bit of the last byte, as [`Fault::ChangedWeights`] does.
pub fn change(bytes: &mut [u8]) {
    *bytes.last_mut().expect("a file that is not empty") ^= 1;
}

/// The commit of a revision as written in a URL.
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
    /// The address for `HF_ENDPOINT`.
    pub fn url(&self) -> String {
        self.front.url()
    }

    /// All requests so far in order, as `METHOD PATH` or `METHOD PATH RANGE`. Requests to the weights' host have the
    /// path `/FILE`.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no request panics").clone()
    }

    /// The first byte of the range in each request for `path`; `None` for a request of the whole file.
    pub fn ranges(&self, path: &str) -> Vec<Option<u64>> {
        let requests = self.requests();
        let words = requests.iter().map(|request| request.split(' ').collect::<Vec<_>>());
        let asked = words.filter(|words| words[1] == path).map(|words| {
            let range = words.get(2)?.strip_prefix("bytes=")?;
            Some(range.trim_end_matches('-').parse().expect("a number"))
        });
        asked.collect()
    }

    /// Number of requests for `path` so far.
    pub fn count(&self, path: &str) -> usize {
        self.requests().iter().filter(|request| request.split(' ').nth(1) == Some(path)).count()
    }
}

/// The parts of a request that the server uses.
struct Asked {
    method: String,
    /// The path without its query.
    path: String,
    token: Option<String>,
    range: Option<String>,
    compressed: bool,
}

impl Asked {
    /// Reads the head of a request. No request here has a body.
    fn read(stream: &TcpStream) -> io::Result<Self> {
        let mut lines = BufReader::new(stream).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let mut words = first.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let path = words.next().unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
        let mut asked = Self { method, path, token: None, range: None, compressed: false };
        for line in lines {
            let line = line?;
            let Some((name, value)) = line.split_once(':') else { break };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "authorization" => asked.token = Some(value.trim_start_matches("Bearer ").to_owned()),
                "range" => asked.range = Some(value.to_owned()),
                "accept-encoding" => asked.compressed = value.contains("gzip"),
                _ => {}
            }
        }
        Ok(asked)
    }
}

/// Notes a request, with its range if it has one.
fn record(requests: &Mutex<Vec<String>>, asked: Asked) -> Asked {
    let range = asked.range.as_ref().map_or_else(String::new, |range| format!(" {range}"));
    requests.lock().expect("no request panics").push(format!("{} {}{range}", asked.method, asked.path));
    asked
}

/// An answer before it is sent.
struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    end: End,
}

/// How an answer ends.
enum End {
    /// After its last byte.
    Whole,
    /// After its last byte, with this pause before each [`PIECE`].
    Paced(Duration),
    /// After its last byte, with this pause after each byte.
    Trickled(Duration),
    /// After this number of bytes of its body.
    Cut(usize),
    /// After this number of bytes of its body, without a `Content-Length`.
    Unsized(usize),
    /// Never: nothing follows this number of bytes of its body.
    Stalled(usize),
    /// Never: the answer does not begin.
    Silent,
    /// At once, with bytes that are not HTTP.
    Garbage,
    /// Never: its body repeats.
    Endless,
}

/// Number of bytes that a paced answer sends at once.
const PIECE: usize = 1024;

impl Reply {
    fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), end: End::Whole }
    }

    fn error(status: u16, code: &str) -> Self {
        Self::new(status, code).with("X-Error-Code", code)
    }

    /// The whole file, or the requested range `bytes=FIRST-[LAST]`.
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

    fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }

    fn send(&self, stream: &mut TcpStream, method: &str) -> io::Result<()> {
        match self.end {
            End::Silent => return wait_for_the_client(stream),
            End::Garbage => return stream.write_all(b"220 mail.example ESMTP\r\n"),
            _ => {}
        }
        let mut head = Vec::new();
        write!(head, "HTTP/1.1 {} {}\r\nConnection: close\r\n", self.status, self.status)?;
        if !matches!(self.end, End::Endless | End::Unsized(_)) {
            write!(head, "Content-Length: {}\r\n", self.body.len())?;
        }
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n")?;
        }
        head.extend(b"\r\n");
        stream.write_all(&head)?;
        if method == "HEAD" {
            return Ok(());
        }
        match self.end {
            End::Trickled(pause) => self.body.chunks(1).try_for_each(|piece| {
                stream.write_all(piece)?;
                thread::sleep(pause);
                Ok(())
            }),
            End::Cut(after) | End::Unsized(after) => stream.write_all(&self.body[..after.min(self.body.len())]),
            End::Stalled(after) => {
                stream.write_all(&self.body[..after.min(self.body.len())])?;
                wait_for_the_client(stream)
            }
            End::Paced(pace) => self.body.chunks(PIECE).try_for_each(|piece| {
                thread::sleep(pace);
                stream.write_all(piece)
            }),
            End::Endless => {
                let much = self.body.repeat(1 << 16);
                loop {
                    stream.write_all(&much)?;
                }
            }
            _ => stream.write_all(&self.body),
        }
    }
}

/// Reads until the client closes the connection.
fn wait_for_the_client(stream: &mut TcpStream) -> io::Result<()> {
    while stream.read(&mut [0; 64])? > 0 {}
    Ok(())
}

/// A port of 127.0.0.1 and the thread that answers there.
struct Listener {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    fn start(answer: impl Fn(Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("127.0.0.1 has a free port");
        let address = listener.local_addr().expect("the port has a number");
        let stop = Arc::new(AtomicBool::new(false));
        let answer = Arc::new(answer);
        let thread = thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let (Ok(mut stream), answer) = (stream, Arc::clone(&answer)) else { continue };
                    thread::spawn(move || {
                        // A client that has left is no fault of the server.
                        let Ok(asked) = Asked::read(&stream) else { return };
                        let method = asked.method.clone();
                        if !method.is_empty() && answer(asked).send(&mut stream, &method).is_ok() {
                            let _ = stream.shutdown(std::net::Shutdown::Write);
                        }
                    });
                }
            }
        });
        Self { address, stop, thread: Some(thread) }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // The connection wakes the thread, which sees `stop` and frees the port.
        let woken = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take()
            && woken.is_ok()
        {
            let _ = thread.join();
        }
    }
}
