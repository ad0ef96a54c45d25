//! Studies of heads side by side: which are alike, what can be read out of their outputs, examples of what they do.

pub mod examples;
pub mod probes;
pub mod similarity;
