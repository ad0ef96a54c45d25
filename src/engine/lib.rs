//! The engine of headscope: from the files of a model and a corpus to exact sums over every head's attention.
//!
//! [`model`] loads a model, [`corpus`] reads sentences, [`sequences`] makes token ids of them, and [`passes`] runs them through
//! the model and shows each head to observers, whose sums are an [`observation`](passes::observation). [`stats`] and [`linalg`]
//! compute sums and intervals; [`system`] has files, errors and the terminal.

pub mod corpus;
pub mod linalg;
pub mod model;
pub mod passes;
pub mod sequences;
pub mod stats;
pub mod system;

/// The name of the program, in reports and to the Hub.
pub const PROGRAM: &str = "headscope";
