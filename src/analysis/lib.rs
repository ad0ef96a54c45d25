//! The analysis of headscope: questions asked of every head, and the report that answers them.
//!
//! A [`study`] is one question, and [`studies`] has them all. [`evaluation`] plans the passes of a run and turns their sums into
//! metrics, intervals and labels. [`report`] is the written result.

use headscope_engine::{corpus, linalg, model, passes, sequences, stats, system};

pub mod evaluation;
pub mod report;
pub mod studies;
pub mod study;
