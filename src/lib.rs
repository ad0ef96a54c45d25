//! headscope: what each attention head of a pretrained BERT does, with the evidence.
//!
//! The pipeline, one direction, each stage's output the next one's input:
//!
//! 1. [`cli`] turns arguments into validated [`options`].
//! 2. [`model`] finds the files, reads the weights and the tokenizer, and says which model this is.
//! 3. [`corpus`] reads sentences, with words and gold trees where the format has them.
//! 4. [`encode`] makes token ids of a sentence, and counts what cannot be encoded and why.
//! 5. [`pack`] lays whole sentences side by side, without padding.
//! 6. [`model::encoder`] runs layer by layer and lends each head's [`attention`] of each sentence.
//! 7. [`observe`] adds what it sees to sums per block of sentences; sums merge by addition.
//! 8. [`metrics`] divides the sums, with [`stats`] to say how sure the ratios are; [`detectors`] turn metrics into
//!    labels by a policy.
//! 9. [`report`] holds the outcome, [`export`] writes it.
//!
//! [`run`] is this list as code: a corpus is observed in sums, an [`observation`], which shards of a corpus add up to;
//! what follows is made of that alone.

pub mod commands;
pub mod corpus;
pub mod export;
pub mod model;
pub mod passes;
pub mod report;
pub mod sequences;
pub mod stats;
pub mod studies;
pub mod system;
