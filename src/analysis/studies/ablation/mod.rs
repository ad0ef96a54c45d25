//! Studies of ablation: what the model loses, and how far its output moves, without heads or parts of their attention.

pub mod arc_use;
pub mod band;
pub mod clusters;
pub mod dependence;
pub mod drift;
pub mod drifts;
pub mod effect;
pub mod gradient;
pub mod in_context;
pub mod losses;
pub mod pruning;
pub mod removal;
