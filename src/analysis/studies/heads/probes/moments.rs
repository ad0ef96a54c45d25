//! Sums of vectors and of products of vectors, exact and mergeable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::task::{BUCKETS, Form};
use crate::stats::blocks::merge_fields;
use crate::stats::exact::Component;

/// Products are summed in 256ths: so the sums reach up to 5.5e11 in steps of 6e-8, where vectors with components of 50 have
/// sums of squares of 2500 a word, which 10^8 words fill.
const UNIT: f64 = 256.0;

/// The widths of the vectors of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Widths {
    /// The width of word embeddings; 0 if the encoder gives no access to them.
    pub embedding: usize,
    /// The width of hidden states.
    pub hidden: usize,
    /// The width of a head's contexts.
    pub head: usize,
}

/// Sums of vectors or of products, empty until something is added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exact(Vec<Component>);

merge_fields!(Exact { 0 });

impl Exact {
    /// Adds vectors at a place, in sums of `len` values.
    pub fn add(&mut self, len: usize, at: usize, values: &[f64]) {
        self.0.resize(len, Component::default());
        self.0[at..].iter_mut().zip(values).for_each(|(sum, &value)| *sum += value);
    }

    /// Adds products, `[rows, columns]`.
    pub fn add_products(&mut self, products: &[f64]) {
        self.0.resize(products.len(), Component::default());
        self.0.iter_mut().zip(products).for_each(|(sum, &value)| *sum += value / UNIT);
    }

    /// Adds products of vectors with themselves, `[size, size]`: the upper half of them is kept.
    pub fn add_squares(&mut self, products: &[f64], size: usize) {
        self.0.resize(half(size), Component::default());
        let rows = products.chunks_exact(size).enumerate();
        let upper = rows.flat_map(|(row, values)| &values[row..]);
        self.0.iter_mut().zip(upper).for_each(|(sum, &value)| *sum += value / UNIT);
    }

    /// Sums of vectors from a place on.
    pub fn values(&self, at: usize, len: usize) -> impl Iterator<Item = f64> {
        self.0[at..at + len].iter().map(|sum| sum.value())
    }

    /// Adds products to `into`.
    pub fn add_products_to(&self, into: &mut [f64]) {
        into.iter_mut().zip(&self.0).for_each(|(sum, more)| *sum += more.value() * UNIT);
    }

    /// Adds products of vectors with themselves to `into`, `[size, size]`, both halves.
    pub fn add_squares_to(&self, into: &mut [f64], size: usize) {
        let mut values = self.0.iter();
        for row in 0..size {
            for column in row..size {
                let Some(value) = values.next() else { return };
                into[row * size + column] += value.value() * UNIT;
                if row != column {
                    into[column * size + row] += value.value() * UNIT;
                }
            }
        }
    }

    fn has(&self, len: usize) -> bool {
        self.0.len() == len
    }
}

/// The cells of the upper half of a square matrix.
fn half(size: usize) -> usize {
    size * (size + 1) / 2
}

/// The words of a class in one fold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassSums {
    /// How many there are.
    pub words: u64,
    /// How many of each form.
    pub forms: BTreeMap<Form, u64>,
    /// The sum of their embeddings.
    pub embeddings: Exact,
    /// The sum of what goes into the layers, `[layers, hidden]`.
    pub inputs: Exact,
    /// The sum of the contexts of all heads, `[layers, heads * head_dim]`.
    pub contexts: Exact,
}

merge_fields!(ClassSums { words, forms, embeddings, inputs, contexts });

impl ClassSums {
    /// Whether the lengths fit such vectors.
    pub fn fits(&self, layers: usize, heads: usize, widths: &Widths) -> bool {
        self.embeddings.has(widths.embedding)
            && self.inputs.has(layers * widths.hidden)
            && self.contexts.has(layers * heads * widths.head)
    }
}

/// The words of a bucket of forms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketSums {
    /// How many there are.
    pub words: u64,
    /// The sum of the contexts of all heads, `[layers, heads * head_dim]`.
    pub contexts: Exact,
}

merge_fields!(BucketSums { words, contexts });

/// Sums over words that have classes of the same tasks, in one fold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moments {
    /// Products of embeddings with themselves: the same for all heads.
    pub embeddings: Exact,
    /// The products of each layer's input with itself.
    pub inputs: Vec<Exact>,
    /// The products of embeddings with the contexts of all heads, for each layer, `[embedding, heads * head_dim]`.
    pub crosses: Vec<Exact>,
    /// The products of each head's contexts with themselves.
    pub contexts: Vec<Exact>,
    /// The words of each bucket of forms.
    pub buckets: BTreeMap<u8, BucketSums>,
}

merge_fields!(Moments { embeddings, inputs, crosses, contexts, buckets });

impl Moments {
    /// Empty sums for this many layers and heads.
    pub fn new(layers: usize, heads: usize) -> Self {
        let none = |count| vec![Exact::default(); count];
        Self { inputs: none(layers), crosses: none(layers), contexts: none(layers * heads), ..Self::default() }
    }

    /// Whether the lengths fit such vectors.
    pub fn fits(&self, layers: usize, heads: usize, widths: &Widths) -> bool {
        let Widths { embedding, hidden, head } = *widths;
        self.embeddings.has(half(embedding))
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
