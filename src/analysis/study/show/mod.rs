//! The forms in which a study shows its results: lines and tables of the summary, figures, flat tables, terms.

pub mod figure;
pub mod summary;
pub mod table;
pub mod terms;
pub mod wording;
