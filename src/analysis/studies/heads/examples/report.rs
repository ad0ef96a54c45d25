//! The sentences of heads as the report has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drawn::{Drawn, MOST_WORDS};
use super::sums::{Candidate, ExampleSums, HeadCandidates, LEAST_WORDS, Rank};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::study::aim::Aim;
use crate::study::labels::evidence::Direction;
use crate::study::upstream::HeadAim;

/// Sentences of the corpus that show what the labels of heads say, chosen by how much they show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Examples {
    /// Fewest words of a sentence that is chosen.
    pub least_words: usize,
    /// Most words of one.
    pub most_words: usize,
    /// Sentences with so many words, the first of each family alone.
    pub sentences: u64,
    /// The heads with a label that says where they look, each with its sentences.
    pub heads: Vec<HeadExamples>,
}

/// The sentences of one head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadExamples {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The label that is shown: the first of the head's that says where it looks, when the corpus ran.
    pub label: String,
    /// The direction of a label of arcs; null of others.
    pub direction: Option<Direction>,
    /// How much the head does what the label says, over the whole corpus.
    pub mean: f64,
    /// Sentences among which these were chosen.
    pub scored: u64,
    /// One of each rank, as far as there are different ones.
    pub examples: Vec<Example>,
}

/// One sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Example {
    /// How it stands to the others.
    pub rank: Rank,
    /// Its place in the corpus, counted from 0.
    pub sentence: u64,
    /// How much the head does in it what its label says.
    pub score: f64,
    /// The queries of that score: arcs, tokens or words.
    pub queries: u64,
    /// The sentence with the head's attention.
    #[serde(flatten)]
    pub drawn: Drawn,
}

impl Examples {
    pub fn new(sums: &ExampleSums, grid: HeadGrid) -> Self {
        let of_head = |(HeadAim { place, label, aim, mean }, kept): (&HeadAim, &HeadCandidates)| {
            let direction = if let Aim::Partner { direction, .. } = aim { Some(*direction) } else { None };
            let example = |(rank, candidate): (Rank, &Candidate)| {
                let Candidate { sentence, score, queries, drawn } = candidate.clone();
                Example { rank, sentence, score, queries, drawn }
            };
            let examples = kept.chosen().into_iter().map(example).collect();
            HeadExamples {
                place: grid.place(*place),
                label: label.clone(),
                direction,
                mean: *mean,
                scored: kept.scored,
                examples,
            }
        };
        Self {
            least_words: LEAST_WORDS,
            most_words: MOST_WORDS,
            sentences: sums.sentences,
            heads: sums.heads().map(of_head).collect(),
        }
    }

    pub fn of(&self, place: HeadPlace) -> Option<&HeadExamples> {
        self.heads.iter().find(|head| head.place == place)
    }
}
