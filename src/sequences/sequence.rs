pub use super::encode::{GoldArc, Sequence, TokenKind};
