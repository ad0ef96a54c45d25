//! Progress on standard error; silent where that is no terminal.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::printable::one_line;
use super::terminal::say;

/// How often a bar moves without news.
const TICK: Duration = Duration::from_millis(120);

/// A spinner with a message, while something takes its time.
pub fn step(message: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(message);
    keep_moving(&bar);
    bar
}

/// Lets a bar move between updates, on a thread of its own; not if the bar is hidden.
fn keep_moving(bar: &ProgressBar) {
    if !bar.is_hidden() {
        bar.enable_steady_tick(TICK);
    }
}

/// A listener for the progress of downloads, one file after the other.
pub trait DownloadProgress {
    /// A file of `bytes` bytes begins (0: the server did not say how many).
    fn start(&self, file: &str, bytes: u64);
    /// So many more bytes have come.
    fn advance(&self, bytes: u64);
    /// The file is over, whole or broken off.
    fn finish(&self);
    /// A note for the user meanwhile, such as the reason of a pause.
    fn note(&self, text: &str);
}

/// No listener.
impl DownloadProgress for () {
    fn start(&self, _file: &str, _bytes: u64) {}
    fn advance(&self, _bytes: u64) {}
    fn finish(&self) {}
    fn note(&self, _text: &str) {}
}

/// Downloads, one bar per file.
#[derive(Default)]
pub struct Downloads(RefCell<Option<ProgressBar>>);

impl DownloadProgress for Downloads {
    fn start(&self, file: &str, bytes: u64) {
        let style = ProgressStyle::with_template(
            "downloading {msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        );
        let bar = ProgressBar::new(bytes).with_message(one_line(file));
        bar.set_style(style.expect("a valid template"));
        self.0.replace(Some(bar));
    }

    fn advance(&self, bytes: u64) {
        if let Some(bar) = &*self.0.borrow() {
            bar.inc(bytes);
        }
    }

    fn finish(&self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }

    fn note(&self, text: &str) {
        let print = || say(&format!("note: {}", one_line(text)));
        match &*self.0.borrow() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

/// Sentences done, tokens per second, time left.
///
/// With a limit the end is known in sentences; without one the bar moves by the bytes of the corpus.
pub struct Analysis {
    bar: ProgressBar,
    by_sentences: bool,
    bytes_read: Arc<AtomicU64>,
    sentences: AtomicU64,
    tokens: Arc<AtomicU64>,
}

impl Analysis {
    /// Progress over `limit` sentences or a corpus of `bytes`, if either is known; `bytes_read` is counted by its reader.
    pub fn new(limit: Option<u64>, bytes: Option<u64>, bytes_read: Arc<AtomicU64>) -> Self {
        let tokens = Arc::new(AtomicU64::new(0));
        let (counted, started) = (Arc::clone(&tokens), Instant::now());
        let speed = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
            let seconds = started.elapsed().as_secs_f64().max(1e-3);
            let speed = counted.load(Ordering::Relaxed) as f64 / seconds;
            // A progress line that cannot be written is no reason to stop.
            let _ = write!(out, "{speed:.0}");
        };
        let (bar, template) = match limit.or(bytes) {
            Some(bytes) => {
                (ProgressBar::new(bytes), "{msg} sentences [{bar:30}] {percent} %, {speed} tokens/s, {eta} left")
            }
            None => (ProgressBar::new_spinner(), "{spinner} {msg} sentences, {speed} tokens/s, {elapsed}"),
        };
        let style = ProgressStyle::with_template(template).expect("a valid template").with_key("speed", speed);
        bar.set_style(style);
        bar.set_message("0");
        keep_moving(&bar);
        Self { bar, by_sentences: limit.is_some(), bytes_read, sentences: AtomicU64::new(0), tokens }
    }

    /// Progress that nobody sees, of a part of what another one shows.
    pub fn silent() -> Self {
        let counters = || (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
        let ((sentences, tokens), bytes_read) = (counters(), Arc::default());
        Self { bar: ProgressBar::hidden(), by_sentences: true, bytes_read, sentences, tokens }
    }

    /// Says something beside the bar.
    pub fn note(&self, text: &str) {
        self.bar.suspend(|| say(&format!("note: {}", one_line(text))));
    }

    /// Counts a pack that is done.
    pub fn advance(&self, sentences: usize, tokens: usize) {
        self.tokens.fetch_add(tokens as u64, Ordering::Relaxed);
        let done = self.sentences.fetch_add(sentences as u64, Ordering::Relaxed) + sentences as u64;
        self.bar.set_message(done.to_string());
        self.bar.set_position(if self.by_sentences { done } else { self.bytes_read.load(Ordering::Relaxed) });
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
