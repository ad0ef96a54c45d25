pub use super::encode::SentenceTokenizer;
