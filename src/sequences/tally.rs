pub use super::encode::{FileTally, SkipReason, Tally};
