//! The forms in which a study shows its results: sentences, lines and tables of the summary, figures, flat tables, terms.

pub mod comparison_terms;
pub mod condition;
pub mod figure;
pub mod in_brief;
pub mod summary;
pub mod table;
pub mod terms;
pub mod wording;

pub use figure::{Chart, Figure, Forest, ForestRow, Mark};
pub use in_brief::{InBrief, Shortage};
pub use summary::Summary;
pub use table::TableRows;
