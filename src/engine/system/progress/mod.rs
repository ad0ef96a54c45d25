//! Progress on standard error; silent where that is no terminal.

pub mod run;

use std::cell::RefCell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::printable::one_line;
use super::terminal::say;

/// Interval at which a bar moves without progress.
const TICK: Duration = Duration::from_millis(120);

/// A spinner with a message, while something takes its time.
pub fn step(message: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(message);
    keep_moving(&bar);
    bar
}

/// A thread redraws a visible bar between updates.
fn keep_moving(bar: &ProgressBar) {
    if !bar.is_hidden() {
        bar.enable_steady_tick(TICK);
    }
}

/// A listener for the progress of downloads, one file after the other. Methods do nothing by default.
pub trait DownloadProgress {
    /// A file of `bytes` bytes begins (0: the server did not say how many).
    fn start(&self, _file: &str, _bytes: u64) {}
    fn advance(&self, _bytes: u64) {}
    /// The download ended, complete or not.
    fn finish(&self) {}
    /// A note for the user meanwhile, such as the reason of a pause.
    fn note(&self, _text: &str) {}
}

/// No listener.
impl DownloadProgress for () {}

/// Downloads, one bar per file.
#[derive(Default)]
pub struct Downloads(RefCell<Option<ProgressBar>>);

impl DownloadProgress for Downloads {
    fn start(&self, file: &str, bytes: u64) {
        let line = "downloading {msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        let style = ProgressStyle::with_template(line).expect("a valid template");
        self.0.replace(Some(ProgressBar::new(bytes).with_message(one_line(file)).with_style(style)));
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
