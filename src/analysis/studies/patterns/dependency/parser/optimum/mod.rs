//! Minima of convex functions: smooth ones of few variables and of many, and with an L1 penalty.

pub mod minimise;
pub mod newton;
pub mod proximal;
