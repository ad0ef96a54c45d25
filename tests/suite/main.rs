//! The tests of the program and its crates in one binary, so that they link once.
//! To run some of them: `cargo test --release --test suite metrics`.

#[path = "../support/clark.rs"]
mod clark;
#[path = "../support/corpora.rs"]
mod corpora;
#[path = "../support/golden.rs"]
mod golden;
#[path = "../support/random.rs"]
mod random;
#[path = "../support/reference.rs"]
mod reference;
#[path = "../support/reference_choice.rs"]
mod reference_choice;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tensor/mod.rs"]
mod tensor;

mod absent;
mod attention_maps;
mod bad_input;
mod batch;
mod candle;
mod checkpoints;
mod choice;
mod clark2019;
mod classes;
mod compare;
mod comparison_outputs;
mod confirm;
mod content;
mod context;
mod controls;
mod coreference;
mod corpus;
mod corpus_files;
mod costly_shapes;
mod costly_tokenizers;
mod counts;
mod crafted_reports;
mod damaged_weights;
mod direct;
mod edges;
mod effect;
mod encoder;
mod examples;
mod explained;
mod families;
mod few_documents;
mod gate;
mod gates;
mod gold_corpus;
mod gradient;
mod gradients;
mod health;
mod held;
mod hostile;
mod hub;
mod in_the_box;
mod index;
mod installed;
mod interchange;
#[cfg(unix)]
mod interrupted;
mod interventions;
mod json_forms;
mod kept;
mod kind_of_text;
mod knockout;
mod link_parser;
mod links;
mod matching;
mod metrics;
mod norms;
mod numbers;
mod outputs;
mod page;
mod paper;
mod parser;
mod planted_causal;
mod policy;
mod probes;
mod prose;
mod pruned;
mod pruning;
mod removal;
mod repeats;
mod replaced;
mod report;
mod resume;
mod rollout;
mod segments;
mod selection;
mod sentences;
mod shards;
mod sharp;
mod show;
mod similarity;
mod specific;
mod statuses;
mod task_options;
mod tasks;
mod tokenizers;
mod variants;
mod view;
mod vocabularies;
mod weights;
mod workflow;
mod written;
