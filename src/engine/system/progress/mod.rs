//! Progress on standard error: bars only if it is a terminal, notes in any case.

pub mod run;

use std::cell::RefCell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::printable::one_line;
use super::terminal::print_to_stderr;

/// Interval at which a progress bar is redrawn, even without progress.
const REDRAW_INTERVAL: Duration = Duration::from_millis(120);

/// Shows a spinner with a message, for a step whose duration is unknown.
pub fn show_spinner(message: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(message);
    enable_redraw(&bar);
    bar
}

/// Lets a thread redraw a visible bar between updates.
fn enable_redraw(bar: &ProgressBar) {
    if !bar.is_hidden() {
        bar.enable_steady_tick(REDRAW_INTERVAL);
    }
}

/// Receives the progress of downloads, which run one after the other. By default, all methods do nothing.
pub trait DownloadProgress {
    /// Called when the download of a file begins. `bytes` is its size, 0 if the server does not tell it.
    fn start(&self, _file: &str, _bytes: u64) {}
    /// Called when this number of further bytes of the file is present, received now or by an earlier try.
    fn advance(&self, _bytes: u64) {}
    /// Called when the download of a file ends, complete or not.
    fn finish(&self) {}
    /// Called with a note for the user, such as the reason for a pause.
    fn note(&self, _text: &str) {}
}

/// Ignores the progress of downloads.
impl DownloadProgress for () {}

/// Shows the progress of downloads, with one bar per file.
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
        let print = || print_to_stderr(&format!("note: {}", one_line(text)));
        match &*self.0.borrow() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}
