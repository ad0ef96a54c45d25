//! Progress of a run: one bar for all passes, each with an estimate of its work in tokens through all layers. The size of the
//! corpus is known after the first pass. Before, it is estimated by the share of bytes or sentences read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::enable_redraw;
use crate::system::parallel::lock_mutex;
use crate::system::printable::one_line;
use crate::system::terminal::print_to_stderr;

const BAR_STEPS: u64 = 1000;

/// Amount of text that a pass covers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WorkExtent {
    /// All sentences of the corpus.
    Corpus,
    /// A sample of this many sentences, or the complete corpus if it has fewer.
    Sample(f64),
    /// A fixed number of tokens, independent of the corpus.
    Tokens(f64),
}

/// Name and expected work of a pass, for the progress bar.
#[derive(Clone, Debug, PartialEq)]
pub struct PassWork {
    pub name: String,
    pub extent: WorkExtent,
    /// Number of times that each token goes through all layers; fractions stand for some of the layers.
    pub passes_per_token: f64,
}

/// The measure of a pass's progress while the size of the corpus is unknown.
pub enum ProgressMeasure {
    /// Number of sentences in the pass.
    Sentences(u64),
    /// Bytes of the corpus: their total, and the number read so far.
    Bytes(u64, Arc<AtomicU64>),
    Unknown,
}

#[derive(Clone, Copy)]
struct CorpusSize {
    sentences: f64,
    tokens: f64,
}

/// Progress of the current pass.
struct CurrentPass {
    work: PassWork,
    measure: ProgressMeasure,
    sentences: f64,
    tokens: f64,
}

struct ProgressState {
    started_at: Instant,
    /// Passes that have not begun.
    planned: VecDeque<PassWork>,
    /// Number of the current pass, counted from 1.
    pass_number: usize,
    pass_count: usize,
    /// Work of the finished passes, in tokens times passes through all layers.
    finished_work: f64,
    /// Number of tokens so far, over all passes.
    tokens: f64,
    /// Size of the corpus; `None` until a pass over it has ended.
    corpus: Option<CorpusSize>,
    current: Option<CurrentPass>,
}

/// The progress bar of a run.
pub struct RunProgress {
    bar: ProgressBar,
    state: Mutex<ProgressState>,
}

impl PassWork {
    /// Number of tokens that the pass covers, if the corpus has this size.
    fn tokens(&self, corpus: CorpusSize) -> f64 {
        match self.extent {
            WorkExtent::Corpus => corpus.tokens,
            WorkExtent::Sample(sentences) => corpus.tokens * (sentences / corpus.sentences.max(1.0)).min(1.0),
            WorkExtent::Tokens(tokens) => tokens,
        }
    }
}

impl CurrentPass {
    /// Finished share of the pass, from 0 to 1; `None` if it cannot be estimated.
    fn share(&self, corpus: Option<CorpusSize>) -> Option<f64> {
        let known = match self.work.extent {
            WorkExtent::Tokens(tokens) => Some(tokens),
            _ => corpus.map(|corpus| self.work.tokens(corpus)),
        };
        let share = match (known, &self.measure) {
            (Some(tokens), _) => self.tokens / tokens,
            (None, ProgressMeasure::Sentences(all)) => self.sentences / *all as f64,
            (None, ProgressMeasure::Bytes(all, read)) => read.load(Ordering::Relaxed) as f64 / *all as f64,
            (None, ProgressMeasure::Unknown) => return None,
        };
        share.is_finite().then_some(share.min(1.0))
    }
}

impl Default for ProgressState {
    fn default() -> Self {
        Self {
            started_at: Instant::now(),
            planned: VecDeque::new(),
            pass_number: 0,
            pass_count: 0,
            finished_work: 0.0,
            tokens: 0.0,
            corpus: None,
            current: None,
        }
    }
}

impl ProgressState {
    /// Finished share of the run, from 0 to 1; `None` if it cannot be estimated.
    fn share(&self) -> Option<f64> {
        let (mut done, mut left, mut corpus) = (self.finished_work, 0.0, self.corpus);
        if let Some(current) = &self.current {
            let share = current.share(corpus).filter(|share| *share > 0.0)?;
            let own = current.work.passes_per_token * current.tokens;
            done += own;
            left += own * (1.0 - share) / share;
            let so_far = CorpusSize { sentences: current.sentences / share, tokens: current.tokens / share };
            corpus = corpus.or((current.work.extent == WorkExtent::Corpus).then_some(so_far));
        }
        let corpus = corpus?;
        left += self.planned.iter().map(|work| work.passes_per_token * work.tokens(corpus)).sum::<f64>();
        Some(done / (done + left)).filter(|share| share.is_finite())
    }

    /// Adds the work of the current pass to the finished work.
    fn finish_pass(&mut self) {
        let Some(CurrentPass { work, sentences, tokens, .. }) = self.current.take() else { return };
        self.finished_work += work.passes_per_token * tokens;
        if work.extent == WorkExtent::Corpus && self.corpus.is_none() {
            self.corpus = Some(CorpusSize { sentences, tokens });
        }
    }

    /// Text beside the progress bar; `elapsed` is the time since the run began.
    fn status_text(&self, elapsed: Duration) -> String {
        let speed = self.tokens / elapsed.as_secs_f64().max(1e-3);
        let left = self.share().filter(|share| *share > 0.0).map_or_else(String::new, |share| {
            let left = elapsed.mul_f64((1.0 - share) / share);
            format!("{:.0} %, {:#} left: ", 100.0 * share, HumanDuration(left))
        });
        let (name, sentences) = self.current.as_ref().map_or(("", 0.0), |now| (&now.work.name, now.sentences));
        let Self { pass_number: number, pass_count: count, .. } = self;
        format!("{left}pass {number} of {count} ({name}), {sentences} sentences, {speed:.0} tokens/s")
    }
}

impl Default for RunProgress {
    fn default() -> Self {
        Self { bar: ProgressBar::hidden(), state: Mutex::default() }
    }
}

impl RunProgress {
    /// Makes a visible progress bar on standard error.
    pub fn new_visible() -> Self {
        let style = ProgressStyle::with_template("{spinner} [{bar:30}] {msg}").expect("a valid template");
        Self { bar: ProgressBar::new(BAR_STEPS).with_style(style), ..Self::default() }
    }

    /// Replaces the passes that have not begun. If there were none, a new run begins.
    pub fn plan(&self, passes: impl IntoIterator<Item = PassWork>) {
        let mut state = lock_mutex(&self.state);
        if state.planned.is_empty() {
            *state = ProgressState::default();
            self.bar.reset();
        }
        state.planned = passes.into_iter().collect();
        state.pass_count = state.pass_number + state.planned.len();
        enable_redraw(&self.bar);
    }

    /// Moves on to the next pass. Auxiliary passes, which a pass needs first, are not counted.
    pub fn next_pass(&self) {
        lock_mutex(&self.state).pass_number += 1;
    }

    /// Removes the current pass from the planned passes. Called when its own sequences begin, after any auxiliary
    /// passes.
    pub fn start_planned_pass(&self) {
        lock_mutex(&self.state).planned.pop_front();
    }

    /// Begins to measure a pass, which may be an auxiliary pass that another one needs first.
    pub fn begin(&self, work: PassWork, measure: ProgressMeasure) {
        lock_mutex(&self.state).current = Some(CurrentPass { work, measure, sentences: 0.0, tokens: 0.0 });
    }

    /// Prints a note for the user without disturbing the progress bar.
    pub fn note(&self, text: &str) {
        self.bar.suspend(|| print_to_stderr(&format!("note: {}", one_line(text))));
    }

    /// Counts further sentences and tokens of the current pass.
    pub fn advance(&self, sentences: usize, tokens: usize) {
        let mut state = lock_mutex(&self.state);
        state.tokens += tokens as f64;
        if let Some(current) = &mut state.current {
            current.sentences += sentences as f64;
            current.tokens += tokens as f64;
        }
        if !self.bar.is_hidden() {
            self.bar.set_message(state.status_text(state.started_at.elapsed()));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to STEPS")]
            let step = (BAR_STEPS as f64 * state.share().unwrap_or_default()) as u64;
            self.bar.set_position(step);
        }
    }

    /// Ends the pass that [`RunProgress::begin`] began. The bar disappears if no pass is planned after it.
    pub fn finish_pass(&self) {
        let mut state = lock_mutex(&self.state);
        state.finish_pass();
        if state.planned.is_empty() {
            self.bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(extent: WorkExtent, factor: f64) -> PassWork {
        PassWork { name: "words".to_owned(), extent, passes_per_token: factor }
    }

    fn share(progress: &RunProgress) -> f64 {
        lock_mutex(&progress.state).share().unwrap()
    }

    /// A corpus of 100 sentences and 1,000 tokens: once as it is, 50 sentences eleven times, 500 other tokens twice.
    #[test]
    fn the_share_of_a_run_is_that_of_the_work_of_all_passes() {
        let progress = RunProgress::default();
        let works =
            [work(WorkExtent::Corpus, 1.0), work(WorkExtent::Sample(50.0), 11.0), work(WorkExtent::Tokens(500.0), 2.0)];
        progress.plan(works.clone());
        let all = 1000.0 + 5500.0 + 1000.0;
        let read = Arc::new(AtomicU64::new(0));
        let [first, second, third] = works;
        progress.next_pass();
        progress.start_planned_pass();
        progress.begin(first, ProgressMeasure::Bytes(4000, Arc::clone(&read)));
        assert_eq!(lock_mutex(&progress.state).share(), None);
        read.store(1000, Ordering::Relaxed);
        progress.advance(25, 250);
        assert!((share(&progress) - 250.0 / all).abs() < 1e-9);
        let words = lock_mutex(&progress.state).status_text(Duration::from_secs(5));
        // 29 times what took five seconds.
        assert_eq!(words, "3 %, 2m left: pass 1 of 3 (words), 25 sentences, 50 tokens/s");
        progress.advance(75, 750);
        progress.finish_pass();
        progress.next_pass();
        // What the pass needs before: two fifths of the corpus, once, that nobody planned.
        progress.begin(work(WorkExtent::Sample(40.0), 1.0), ProgressMeasure::Unknown);
        progress.advance(20, 200);
        assert!((share(&progress) - 1200.0 / (all + 400.0)).abs() < 1e-9);
        progress.advance(20, 200);
        progress.finish_pass();
        progress.start_planned_pass();
        progress.begin(second, ProgressMeasure::Unknown);
        progress.advance(25, 250);
        assert!((share(&progress) - (1400.0 + 2750.0) / (all + 400.0)).abs() < 1e-9);
        progress.advance(25, 250);
        progress.finish_pass();
        progress.next_pass();
        progress.start_planned_pass();
        progress.begin(third, ProgressMeasure::Unknown);
        progress.advance(1, 500);
        assert!((share(&progress) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn passes_that_were_expected_make_way_for_those_that_are_planned() {
        let progress = RunProgress::default();
        progress.plan([work(WorkExtent::Corpus, 1.0), work(WorkExtent::Corpus, 3.0)]);
        progress.next_pass();
        progress.start_planned_pass();
        progress.begin(work(WorkExtent::Corpus, 1.0), ProgressMeasure::Sentences(10));
        progress.advance(10, 100);
        progress.finish_pass();
        assert!((share(&progress) - 0.25).abs() < 1e-9);
        progress.plan([work(WorkExtent::Corpus, 1.0)]);
        assert!((share(&progress) - 0.5).abs() < 1e-9);
        progress.start_planned_pass();
        // Nothing is expected: another run begins.
        progress.plan([work(WorkExtent::Corpus, 1.0)]);
        assert_eq!(lock_mutex(&progress.state).share(), None);
    }

    /// Text from standard input has no end that is known.
    #[test]
    fn nothing_is_said_of_an_end_that_is_not_known() {
        let progress = RunProgress::default();
        progress.plan([work(WorkExtent::Corpus, 1.0)]);
        progress.next_pass();
        progress.start_planned_pass();
        progress.begin(work(WorkExtent::Corpus, 1.0), ProgressMeasure::Unknown);
        progress.advance(3, 30);
        assert_eq!(
            lock_mutex(&progress.state).status_text(Duration::from_secs(1)),
            "pass 1 of 1 (words), 3 sentences, 30 tokens/s"
        );
    }
}
