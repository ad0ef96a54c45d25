//! Ablation studies: how the loss and the output change when heads, or parts of their attention, are removed.

pub mod clusters;
pub mod edges;
pub mod effect;
pub mod gradient;
pub mod in_context;
pub mod knockout;
pub mod losses;
pub mod output_shift;
pub mod output_shifts;
pub mod pruning;
pub mod removal;
pub mod task;
pub mod verdicts;
