//! Sums of vectors and of products of vectors, exact and mergeable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::task::{BUCKETS, Form};
use crate::stats::blocks::merge_fields;
use crate::study::instruments::vector_sums::{VectorSums, half};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Widths {
    /// The width of word embeddings; 0 if the encoder gives no access to them.
    pub embedding: usize,
    pub hidden: usize,
    pub head: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassSums {
    pub words: u64,
    pub forms: BTreeMap<Form, u64>,
    pub embeddings: VectorSums,
    /// Summed embeddings of the word before and of the word after, `[2, embedding]`.
    pub neighbours: VectorSums,
    /// The sum of what goes into the layers, `[layers, hidden]`.
    pub inputs: VectorSums,
    /// The sum of the contexts of all heads, `[layers, heads * head_dim]`.
    pub contexts: VectorSums,
}

merge_fields!(ClassSums { words, forms, embeddings, neighbours, inputs, contexts });

impl ClassSums {
    pub fn fits(&self, layers: usize, heads: usize, widths: &Widths) -> bool {
        self.embeddings.has(widths.embedding)
            && self.neighbours.has(2 * widths.embedding)
            && self.inputs.has(layers * widths.hidden)
            && self.contexts.has(layers * heads * widths.head)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketSums {
    pub words: u64,
    /// The sum of the contexts of all heads, `[layers, heads * head_dim]`.
    pub contexts: VectorSums,
}

merge_fields!(BucketSums { words, contexts });

/// Sums over words that have classes of the same tasks, in one fold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moments {
    /// Products of embeddings with themselves: the same for all heads.
    pub embeddings: VectorSums,
    pub neighbours: VectorSums,
    /// Products of each word's embedding with both neighbours' embeddings, `[embedding, 2 * embedding]`.
    pub neighbour_crosses: VectorSums,
    pub inputs: Vec<VectorSums>,
    /// The products of embeddings with the contexts of all heads, for each layer, `[embedding, heads * head_dim]`.
    pub crosses: Vec<VectorSums>,
    pub contexts: Vec<VectorSums>,
    pub buckets: BTreeMap<u8, BucketSums>,
}

merge_fields!(Moments { embeddings, neighbours, neighbour_crosses, inputs, crosses, contexts, buckets });

impl Moments {
    pub fn new(layers: usize, heads: usize) -> Self {
        let none = |count| vec![VectorSums::default(); count];
        Self { inputs: none(layers), crosses: none(layers), contexts: none(layers * heads), ..Self::default() }
    }

    pub fn fits(&self, layers: usize, heads: usize, widths: &Widths) -> bool {
        let Widths { embedding, hidden, head } = *widths;
        self.embeddings.has(half(embedding))
            && self.neighbours.has(half(2 * embedding))
            && self.neighbour_crosses.has(2 * embedding * embedding)
            && (self.inputs.len(), self.crosses.len(), self.contexts.len()) == (layers, layers, layers * heads)
            && self.inputs.iter().all(|sums| sums.has(half(hidden)))
            && self.crosses.iter().all(|sums| sums.has(embedding * heads * head))
            && self.contexts.iter().all(|sums| sums.has(half(head)))
            && self
                .buckets
                .iter()
                .all(|(&bucket, sums)| usize::from(bucket) < BUCKETS && sums.contexts.has(layers * heads * head))
    }
}
