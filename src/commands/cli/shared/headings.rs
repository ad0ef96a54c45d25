//! The headings under which the help lists options.

/// The model and the sentences.
pub const INPUT: &str = "Input";
/// Studies of every head.
pub const STUDIES: &str = "Studies";
/// Beside what an answer is read.
pub const CONTROL: &str = "Controls";
/// Parts of a run.
pub const SHARDS: &str = "Shards";
/// Reports and the summary, and how heads are labelled in them.
pub const OUTPUT: &str = "Output";
