//! Sums over the words of a corpus for linear discriminants, and the probing tasks, which assign classes to words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::pack::{PROBE_NEEDS, PackState, RowPlace, WordGroup, WordPack};
use crate::corpus::relation::base_relation;
use crate::corpus::{TreeHead, Upos};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::forward::WordEmbeddings;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Demands, Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Merge, block_of, merge_fields};
use crate::study::instruments::vector_sums::{VectorSums, upper_half_len, upper_products};

/// Maximum number of classes of a probing task. With more classes (lemmas), each has too few words, and the class
/// means would fill memory.
pub const MAX_CLASSES: usize = 100;

/// Bit set of probing tasks: bit `t` is set if a word has a class in task `t`.
type TaskSet = u8;

/// Maximum number of probing tasks. Sums are kept for each set of tasks in which a word can have a class.
pub const MAX_TASKS: usize = 6;

/// Fold of a sentence family (a group of equal or related sentences) by its number: 0 if the family's block is
/// even-numbered, 1 if it is odd-numbered.
pub fn fold_of_sentence_family(family: u64) -> usize {
    block_of(family) % 2
}

/// Sums over the words of one fold that have a class in a probing task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSums {
    /// By the name of the class.
    pub classes: BTreeMap<String, ClassSums>,
    /// Whether the task has more than [`MAX_CLASSES`] classes; then `classes` is empty.
    pub is_crowded: bool,
}

impl TaskSums {
    /// The sums of a class, added if they are new; `None` if the task has too many classes.
    fn class_mut(&mut self, name: &str) -> Option<&mut ClassSums> {
        if self.is_crowded {
            return None;
        }
        if !self.classes.contains_key(name) {
            self.classes.insert(name.to_owned(), ClassSums::default());
            self.drop_if_crowded();
        }
        self.classes.get_mut(name)
    }

    /// Drops all classes and sets `is_crowded` if there are more than [`MAX_CLASSES`].
    fn drop_if_crowded(&mut self) {
        self.is_crowded |= self.classes.len() > MAX_CLASSES;
        if self.is_crowded {
            self.classes.clear();
        }
    }

    /// Number of words of all classes.
    pub fn word_count(&self) -> u64 {
        self.classes.values().map(|class| class.words).sum()
    }
}

impl Merge for TaskSums {
    fn merge(&mut self, other: &Self) {
        self.is_crowded |= other.is_crowded;
        Merge::merge(&mut self.classes, &other.classes);
        self.drop_if_crowded();
    }
}

/// Sums over the words of one fold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldSums {
    /// Sums of feature products, by the set of probing tasks in which the words have a class.
    pub moments: BTreeMap<TaskSet, Moments>,
    /// Sums of each probing task, `[tasks]`.
    pub tasks: Vec<TaskSums>,
}

merge_fields!(FoldSums { moments, tasks });

impl FoldSums {
    /// Sums of feature products of the words that have a class in a task.
    pub fn moments_of_task(&self, task: usize) -> impl Iterator<Item = &Moments> + Clone {
        self.moments.iter().filter(move |(mask, _)| *mask & (1 << task) != 0).map(|(_, moments)| moments)
    }
}

/// Sums over the words of a corpus from which the classifiers are trained.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbeSums {
    pub grid: HeadGrid,
    /// Names of the probing tasks.
    pub tasks: Vec<String>,
    /// Lengths of the feature vectors; `None` until a word was seen.
    pub widths: Option<FeatureWidths>,
    /// Sums over even-numbered and over odd-numbered blocks.
    pub folds: [FoldSums; 2],
    #[serde(skip)]
    buffers: PackBuffers,
}

/// Buffers for the words of the current pack.
#[derive(Clone, Debug, Default)]
struct PackBuffers {
    embeddings: Option<WordEmbeddings>,
    /// Words of the current pack, grouped by fold and by the tasks in which they have a class.
    pack: WordPack<(usize, TaskSet)>,
    /// Rows of the pack's words, by fold, task index and class name.
    classes: BTreeMap<(usize, usize, String), Vec<RowPlace>>,
    /// Rows of the pack's words, by (index of the word's group in the pack, hash bucket of the word's form).
    buckets: BTreeMap<(usize, u8), Vec<RowPlace>>,
    /// Buffer for products of features.
    products: Vec<f64>,
}

impl ProbeSums {
    pub fn new(grid: HeadGrid, requested: &[String]) -> Self {
        let tasks = task_names(requested);
        let fold = || FoldSums { tasks: vec![TaskSums::default(); tasks.len()], ..FoldSums::default() };
        let folds = [fold(), fold()];
        Self { grid, tasks, widths: None, folds, buffers: PackBuffers::default() }
    }

    /// Adds the words of the pack in a layer, after the last head of the layer.
    fn add_layer(&mut self, layer: usize) {
        let Self { grid, widths, folds, buffers, .. } = self;
        let PackBuffers { pack, classes, buckets, products, .. } = buffers;
        let Some(first) = pack.groups.iter().find(|group| group.word_count > 0) else { return };
        let widths = *widths.insert(FeatureWidths {
            embedding: first.embeddings.len() / first.kind_count().max(1),
            hidden: first.inputs.len() / first.word_count,
            head: first.contexts.len() / first.word_count / grid.heads,
        });
        for group in &pack.groups {
            let (fold, mask) = group.key;
            let moments = folds[fold].moments.entry(mask).or_insert_with(|| Moments::new(grid.layers, grid.heads));
            add_feature_products(moments, group, (layer, grid.heads), &widths, products);
        }
        let (all_inputs, all_contexts) = (grid.layers * widths.hidden, grid.layers * grid.heads * widths.head);
        for ((fold, task, name), words) in classes {
            let Some(class) = folds[*fold].tasks[*task].class_mut(name) else { continue };
            if layer == 0 {
                let sum = vector_sum(words, widths.embedding, |at| {
                    let group = &pack.groups[at.group];
                    (&group.embeddings, group.kind_of_word.get(at.row).copied().unwrap_or_default())
                });
                class.embeddings.add(widths.embedding, 0, &sum);
                let both = 2 * widths.embedding;
                let sum = vector_sum(words, both, |at| (&pack.groups[at.group].neighbours, at.row));
                class.neighbours.add(both, 0, &sum);
            }
            let sum = vector_sum(words, widths.hidden, |at| (&pack.groups[at.group].inputs, at.row));
            class.inputs.add(all_inputs, layer * widths.hidden, &sum);
            let sum = vector_sum(words, grid.heads * widths.head, |at| (&pack.groups[at.group].contexts, at.row));
            class.contexts.add(all_contexts, layer * grid.heads * widths.head, &sum);
        }
        for ((group, bucket), words) in buckets {
            let (fold, mask) = pack.groups[*group].key;
            let Some(moments) = folds[fold].moments.get_mut(&mask) else { continue };
            let sum = vector_sum(words, grid.heads * widths.head, |at| (&pack.groups[at.group].contexts, at.row));
            let sums = moments.buckets.entry(*bucket).or_default();
            sums.words += if layer == 0 { words.len() as u64 } else { 0 };
            sums.contexts.add(all_contexts, layer * grid.heads * widths.head, &sum);
        }
    }
}

/// Adds the products of the features of a group's words to `moments`.
fn add_feature_products<K>(
    moments: &mut Moments,
    group: &WordGroup<K>,
    (layer, heads): (usize, usize),
    &FeatureWidths { embedding, hidden, head }: &FeatureWidths,
    products: &mut Vec<f64>,
) {
    let (words, kinds, all) = (group.word_count, group.kind_count(), heads * head);
    let [embeddings, inputs, contexts] = [&group.embeddings[..], &group.inputs, &group.contexts].map(to_f64);
    if embedding > 0 {
        let own = Matrix::new(&embeddings, kinds, embedding);
        if layer == 0 {
            let counted = sum_by_kind(&vec![1.0; words], 1, group);
            let rows = embeddings.chunks_exact(embedding).zip(counted);
            let times: Vec<f64> = rows.flat_map(|(row, count)| row.iter().map(move |value| value * count)).collect();
            upper_products(own, Matrix::new(&times, kinds, embedding), products);
            moments.embeddings.add_squares(products, embedding);
            let (both, neighbours) = (2 * embedding, to_f64(&group.neighbours));
            let rows = Matrix::new(&neighbours, words, both);
            upper_products(rows, rows, products);
            moments.neighbours.add_squares(products, both);
            let neighbours = sum_by_kind(&neighbours, both, group);
            products.resize(embedding * both, 0.0);
            multiply(
                MatrixMut::new(products, embedding, both),
                own.transposed(),
                Matrix::new(&neighbours, kinds, both),
            );
            moments.neighbour_crosses.add_products(products);
        }
        // Words of one kind share an embedding, so their contexts are summed before the product.
        let contexts = sum_by_kind(&contexts, all, group);
        products.resize(embedding * all, 0.0);
        multiply(MatrixMut::new(products, embedding, all), own.transposed(), Matrix::new(&contexts, kinds, all));
        moments.crosses[layer].add_products(products);
    }
    let inputs = Matrix::new(&inputs, words, hidden);
    upper_products(inputs, inputs, products);
    moments.inputs[layer].add_squares(products, hidden);
    for own in 0..heads {
        let contexts = Matrix::with_row_stride(&contexts[own * head..], words, head, all);
        upper_products(contexts, contexts, products);
        moments.contexts[layer * heads + own].add_squares(products, head);
    }
}

fn to_f64(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

/// Sums the rows of words that have equal embeddings (words of one kind), giving `[kinds, width]`.
fn sum_by_kind<K>(rows: &[f64], width: usize, group: &WordGroup<K>) -> Vec<f64> {
    let mut sums = vec![0.0; group.kind_count() * width];
    for (row, kind) in rows.chunks_exact(width).zip(&group.kind_of_word) {
        sums[kind * width..][..width].iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    sums
}

/// Sums the vectors of words, `[width]`. `rows` returns, for a word, the matrix with its vector and the index of
/// the vector's row.
fn vector_sum<'a>(words: &[RowPlace], width: usize, rows: impl Fn(&RowPlace) -> (&'a Vec<f32>, usize)) -> Vec<f64> {
    let mut sum = vec![0.0; width];
    for (vectors, row) in words.iter().map(rows) {
        let row = &vectors[row * width..][..width];
        sum.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
    }
    sum
}

merge_fields!(ProbeSums[grid, tasks] { widths, folds });

impl Sums for ProbeSums {
    type SequenceState = PackState;

    fn demands(&self) -> Demands {
        Demands::from_needs(PROBE_NEEDS)
    }

    fn begin_pass(&mut self, setup: &PassSetup<'_>) {
        self.buffers.embeddings.clone_from(&setup.embeddings);
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<PackState> {
        let Self { tasks, folds, buffers, .. } = self;
        let PackBuffers { embeddings, pack, classes: of_classes, buckets, .. } = buffers;
        let (mut rows, fold) = (Vec::new(), fold_of_sentence_family(sequence.family.number));
        for word in 0..sequence.words.len() {
            let by_task = word_classes(sequence, word).take(tasks.len()).enumerate();
            let named: Vec<(usize, &str)> = by_task.filter_map(|(task, class)| Some((task, class?))).collect();
            let mask = named.iter().fold(0, |mask, (task, _)| mask | 1 << task);
            if mask == 0 {
                continue;
            }
            let row = pack.add_word((fold, mask), embeddings.as_ref(), sequence, word);
            let (at, form) = (row.row_place, FormHash::from_word(sequence, word));
            for (task, class) in named {
                let Some(sums) = folds[fold].tasks[task].class_mut(class) else { continue };
                sums.words += 1;
                *sums.forms.entry(form).or_default() += 1;
                of_classes.entry((fold, task, class.to_owned())).or_default().push(at);
            }
            buckets.entry((at.group, form.bucket())).or_default().push(at);
            rows.push(row);
        }
        pack.begin(rows)
    }

    fn observe(&mut self, state: &mut PackState, event: &mut Event<'_>) {
        if let Event::PackEnd = event {
            self.buffers.pack = WordPack::default();
            self.buffers.classes.clear();
            self.buffers.buckets.clear();
        } else if let Some(layer) = self.buffers.pack.observe(state, event, self.grid) {
            self.add_layer(layer);
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        let (layers, heads) = (grid.layers, grid.heads);
        let of_fold = |fold: &FoldSums| {
            let classes = || fold.tasks.iter().flat_map(|task| task.classes.values());
            fold.tasks.len() == self.tasks.len()
                && fold.tasks.iter().all(|task| task.classes.len() <= MAX_CLASSES)
                && (fold.moments.is_empty() == fold.tasks.iter().all(|task| task.word_count() == 0 && !task.is_crowded))
                && self.widths.map_or(fold.moments.is_empty(), |widths| {
                    classes().all(|class| class.fits(layers, heads, &widths))
                        && fold.moments.values().all(|moments| moments.fits(layers, heads, &widths))
                })
        };
        self.grid == grid && self.tasks.len() <= MAX_TASKS && self.folds.iter().all(of_fold)
    }
}

/// Lengths of the feature vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureWidths {
    /// Length of a word embedding; 0 if the encoder gives no access to embeddings.
    pub embedding: usize,
    /// Length of a layer's input.
    pub hidden: usize,
    /// Length of a head's context vector (`head_dim`).
    pub head: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassSums {
    pub words: u64,
    /// Number of words of each form.
    pub forms: BTreeMap<FormHash, u64>,
    /// Embeddings of the class's words, summed, `[embedding]`.
    pub embeddings: VectorSums,
    /// Summed embeddings of the word before and of the word after, `[2, embedding]`.
    pub neighbours: VectorSums,
    /// Layer inputs of the class's words, summed, `[layers, hidden]`.
    pub inputs: VectorSums,
    /// Contexts of all heads for the class's words, summed, `[layers, heads * head_dim]`.
    pub contexts: VectorSums,
}

merge_fields!(ClassSums { words, forms, embeddings, neighbours, inputs, contexts });

impl ClassSums {
    /// Whether the sums have the lengths that a model with these numbers of layers, heads and features gives.
    pub fn fits(&self, layers: usize, heads: usize, widths: &FeatureWidths) -> bool {
        self.embeddings.has_len(widths.embedding)
            && self.neighbours.has_len(2 * widths.embedding)
            && self.inputs.has_len(layers * widths.hidden)
            && self.contexts.has_len(layers * heads * widths.head)
    }
}

/// Sums over the words whose forms are in one hash bucket, for the control task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketSums {
    pub words: u64,
    /// Contexts of all heads, summed over the words of the hash bucket, `[layers, heads * head_dim]`.
    pub contexts: VectorSums,
}

merge_fields!(BucketSums { words, contexts });

/// Sums of feature products over words of one fold. All these words have classes in exactly the same probing tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moments {
    /// Products of word embeddings with themselves (upper half of the matrix), which all heads share.
    pub embeddings: VectorSums,
    /// Products of the concatenated embeddings of both neighbours with themselves (upper half of the matrix).
    pub neighbours: VectorSums,
    /// Products of each word's embedding with the concatenated embeddings of both neighbours, `[embedding, 2 *
    /// embedding]`.
    pub neighbour_crosses: VectorSums,
    /// Products of each layer's inputs with themselves (upper half of the matrix), `[layers]`.
    pub inputs: Vec<VectorSums>,
    /// Products of word embeddings with the contexts of all heads, `[layers]`, each `[embedding, heads *
    /// head_dim]`.
    pub crosses: Vec<VectorSums>,
    /// Products of each head's contexts with themselves (upper half of the matrix), `[layers * heads]`.
    pub contexts: Vec<VectorSums>,
    /// Sums over the words of each hash bucket of word forms ([`FormHash::bucket`]).
    pub buckets: BTreeMap<u8, BucketSums>,
}

merge_fields!(Moments { embeddings, neighbours, neighbour_crosses, inputs, crosses, contexts, buckets });

impl Moments {
    pub fn new(layers: usize, heads: usize) -> Self {
        let none = |count| vec![VectorSums::default(); count];
        Self { inputs: none(layers), crosses: none(layers), contexts: none(layers * heads), ..Self::default() }
    }

    /// Whether the sums have the lengths that a model with these numbers of layers, heads and features gives.
    pub fn fits(&self, layers: usize, heads: usize, widths: &FeatureWidths) -> bool {
        let FeatureWidths { embedding, hidden, head } = *widths;
        self.embeddings.has_len(upper_half_len(embedding))
            && self.neighbours.has_len(upper_half_len(2 * embedding))
            && self.neighbour_crosses.has_len(2 * embedding * embedding)
            && (self.inputs.len(), self.crosses.len(), self.contexts.len()) == (layers, layers, layers * heads)
            && self.inputs.iter().all(|sums| sums.has_len(upper_half_len(hidden)))
            && self.crosses.iter().all(|sums| sums.has_len(embedding * heads * head))
            && self.contexts.iter().all(|sums| sums.has_len(upper_half_len(head)))
            && self.buckets.keys().all(|&bucket| usize::from(bucket) < BUCKETS)
            && self.buckets.values().all(|sums| sums.contexts.has_len(layers * heads * head))
    }
}

/// Probing tasks of every run; requested tasks come after them.
pub const DEFAULT_TASKS: [&str; 2] = ["upos", "relation"];

/// Names of all probing tasks: the default tasks and the requested ones.
pub fn task_names(requested: &[String]) -> Vec<String> {
    DEFAULT_TASKS.into_iter().map(str::to_owned).chain(requested.iter().cloned()).collect()
}

/// Class of a word in each probing task, in the order of [`task_names`]; `None` where the word has no class.
pub fn word_classes(sequence: &Sequence, word: usize) -> impl Iterator<Item = Option<&str>> {
    let annotation = sequence.annotations.get(word);
    let upos = annotation.and_then(|annotation| annotation.upos).map(Upos::tag);
    let arc = sequence.tree.as_ref().and_then(|tree| tree.get(word));
    let relation = arc.filter(|arc| arc.head != TreeHead::Unknown).map(|arc| base_relation(&arc.relation));
    let requested = annotation.map(|annotation| &*annotation.requested).unwrap_or_default();
    [upos, relation].into_iter().chain(requested.iter().map(Option::as_deref))
}

/// Number of hash buckets of word forms. A control task gives all forms of a bucket one class, so shares of control
/// classes are multiples of 1/128.
///
/// The sums of 256 buckets would take a third more memory than the sums of all classes of a treebank.
pub const BUCKETS: usize = 128;

/// Hash of a lower-cased word form (eight bytes of SHA-256), for the control task and for the most frequent class
/// of a form. A signed type keeps it apart from counts, which are unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FormHash(pub i64);

impl FormHash {
    pub fn from_word(sequence: &Sequence, word: usize) -> Self {
        let form = sequence.forms.get(word).map(|form| form.to_lowercase()).unwrap_or_default();
        let hash = Sha256::digest(format!("headscope/probes/0/{form}"));
        Self(i64::from_be_bytes(std::array::from_fn(|byte| hash[byte])))
    }

    /// Hash bucket of the form, from the highest bits of its hash.
    pub fn bucket(self) -> u8 {
        u8::try_from(self.0.cast_unsigned() >> (64 - BUCKETS.ilog2())).expect("seven bits")
    }
}
