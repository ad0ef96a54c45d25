//! The analysis of headscope: questions asked of every head, and the report that answers them.
//!
//! A [`study`] is one question; [`studies`] has all of them. [`evaluation`] plans the passes of a run, and makes metrics,
//! intervals and labels of the sums; [`report`] is what is written.

use headscope_engine::{corpus, linalg, model, passes, sequences, stats, system};

pub mod evaluation;
pub mod report;
pub mod studies;
pub mod study;
