//! Questions asked of every head.

pub mod attention;
pub mod clark2019;
pub mod dependency;
pub mod labels;
pub mod metrics;
pub mod observe;
pub mod trees;
