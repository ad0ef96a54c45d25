//! The forms in which a study shows its results: sentences, lines and tables of the summary, figures, flat tables, terms.

pub mod comparison_terms;
pub mod condition;
pub mod figure;
pub mod in_brief;
pub mod summary;
pub mod table;
pub mod terms;
pub mod wording;
