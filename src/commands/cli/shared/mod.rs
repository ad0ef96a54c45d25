//! The arguments that several commands share.

pub mod checks;
pub mod command;
pub mod headings;
pub mod inputs;
pub mod numbers;
pub mod presets;
pub mod report;
pub mod statuses;
pub mod values;
