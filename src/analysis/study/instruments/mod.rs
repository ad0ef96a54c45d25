//! Computations that several studies share.

pub mod classed_words;
pub mod cosines;
pub mod fold_scores;
pub mod head_sums;
pub mod linked;
pub mod neighbours;
pub mod partners;
pub mod position;
pub mod predictions;
pub mod roots;
pub mod special_tokens;
pub mod vector_sums;
