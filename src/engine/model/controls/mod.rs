//! Models made of a trained one for the controls of a run: nulls that share all with it but what a question is about.

pub mod rotated;
pub mod sharp;
