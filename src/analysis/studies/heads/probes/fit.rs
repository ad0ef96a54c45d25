//! Training of the probes' linear classifiers, for all attention heads and in both folds, from sums over words.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use itertools::Itertools;

use super::classifiers::{
    ClassWordCounts, FactorizedBlock, FeatureBlock, HeadProbes, LayerProbes, LinearClassifier, StackedClassifiers,
};
use super::sums::{BUCKETS, ClassSums, FeatureWidths, FoldSums, FormHash, Moments, ProbeSums};
use crate::study::instruments::vector_sums::VectorSums;
use crate::system::parallel::parallel_map;

/// Minimum number of training words for each feature dimension. With fewer words, a discriminant overfits.
pub const MIN_WORDS_PER_DIMENSION: u64 = 10;

/// Classes of one probing task, and of its control task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskClasses {
    /// Class names of the probing task, ascending.
    pub names: Vec<String>,
    /// Number of words that have a class, in the even-numbered and in the odd-numbered blocks. 0 if a fold has too
    /// many classes.
    pub words: [u64; 2],
    /// Class that the control task assigns to each bucket of word forms, `[BUCKETS]`; empty if no word has a class.
    pub control_classes: Vec<usize>,
}

impl TaskClasses {
    /// The classes of every probing task of the sums.
    pub fn for_all_tasks(sums: &ProbeSums) -> Vec<Self> {
        (0..sums.tasks.len()).map(|task| Self::new(sums, task)).collect()
    }

    fn new(sums: &ProbeSums, task: usize) -> Self {
        let of_folds = sums.folds.each_ref().map(|fold| &fold.tasks[task]);
        let crowded = of_folds.iter().any(|task| task.is_crowded);
        let classes = of_folds.iter().flat_map(|task| &task.classes).filter(|_| !crowded);
        let shares = classes.map(|(name, class)| (name, class.words)).into_grouping_map().sum();
        let (names, words): (Vec<&String>, Vec<u64>) = shares.into_iter().sorted().unzip();
        Self {
            control_classes: control_classes(&words),
            names: names.into_iter().cloned().collect(),
            words: of_folds.map(|task| if crowded { 0 } else { task.word_count() }),
        }
    }

    /// Whether both folds have enough words to train a classifier on this many features, and more words than
    /// classes.
    pub fn can_train(&self, features: usize) -> bool {
        let least = (MIN_WORDS_PER_DIMENSION * features as u64).max(self.names.len() as u64 + 1);
        features > 0 && self.words.iter().all(|&words| words >= least)
    }
}

/// Assigns a control class to each bucket of word forms, `[BUCKETS]`, in proportion to the number of words of each
/// class.
///
/// The buckets divide a line into equal parts, and the classes divide it by their shares. A bucket gets the class
/// at its midpoint.
fn control_classes(words: &[u64]) -> Vec<usize> {
    let total: u64 = words.iter().sum();
    let mut ends = words.iter().scan(0, |end, &words| {
        *end += u128::from(words);
        Some(*end)
    });
    let (mut class, mut end) = (0, ends.next().unwrap_or_default());
    let buckets = BUCKETS as u128;
    let of_bucket = |bucket: u128| {
        // The midpoint is (bucket + 1/2) / buckets * total; both sides are doubled to stay with integers.
        while (2 * bucket + 1) * u128::from(total) >= 2 * buckets * end {
            let Some(next) = ends.next() else { break };
            (class, end) = (class + 1, next);
        }
        class
    };
    if total == 0 { Vec::new() } else { (0..buckets).map(of_bucket).collect() }
}

/// Everything that was trained on one fold.
#[derive(Clone, Debug)]
pub struct FoldProbes {
    /// Most frequent class of each task, `[tasks]`; `None` if no word has a class.
    pub majority: Vec<Option<usize>>,
    /// Most frequent class of each word form, for each task, `[tasks]`.
    pub forms: Vec<HashMap<FormHash, usize>>,
    /// Classifiers on the word embedding.
    pub embedding: StackedClassifiers,
    /// Classifiers on the embeddings of a word and its two neighbours, stored as a layer with one head.
    ///
    /// `embedding_weights` has the weights of the word's embedding, `[embedding, columns]`.
    /// `heads[0].embedding_and_context` has the weights of both neighbours, on `2 * embedding` features.
    pub neighbours: LayerProbes,
    /// Classifiers on the vectors of each layer, `[layers]`.
    pub layers: Vec<LayerProbes>,
}

/// The trained classifiers of both folds.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    pub tasks: Vec<TaskClasses>,
    /// Classifiers trained on the even-numbered and on the odd-numbered blocks; `None` if no word was seen.
    pub folds: Option<[FoldProbes; 2]>,
}

impl Probes {
    pub fn new(sums: &ProbeSums, threads: NonZeroUsize) -> Self {
        let tasks = TaskClasses::for_all_tasks(sums);
        let train = |widths: FeatureWidths| {
            [0, 1]
                .map(|fold| FoldTraining { sums, tasks: &tasks, widths, fold: &sums.folds[fold] }.fold_probes(threads))
        };
        let folds = sums.widths.map(train);
        Self { tasks, folds }
    }
}

/// The training of all classifiers on one fold.
#[derive(Clone, Copy)]
struct FoldTraining<'a> {
    sums: &'a ProbeSums,
    tasks: &'a [TaskClasses],
    widths: FeatureWidths,
    /// Sums of the fold that is trained on.
    fold: &'a FoldSums,
}

/// Data of one probing task that the task's classifiers share.
struct TrainingTask {
    /// Index of the task.
    number: usize,
    /// Number of training words of each class.
    counts: ClassWordCounts,
    /// Statistics of the embeddings with their factorised covariance. `None` without embeddings, or with too few
    /// words.
    embedding_block: Option<FactorizedBlock>,
}

impl FoldTraining<'_> {
    /// Trains all classifiers of the fold.
    fn fold_probes(self, threads: NonZeroUsize) -> FoldProbes {
        let trained = parallel_map(threads, 0..self.tasks.len(), |number| self.train_task(number));
        let alone = |task: &TrainingTask| {
            let anchor = task.embedding_block.as_ref()?;
            Some((task.number, task.counts.classes.clone(), anchor.classifier(&task.counts)))
        };
        FoldProbes {
            majority: (0..self.tasks.len()).map(|task| self.most_frequent_class(task)).collect(),
            forms: (0..self.tasks.len()).map(|task| self.majority_by_form(task)).collect(),
            embedding: StackedClassifiers::new(self.widths.embedding, trained.iter().filter_map(alone).collect()),
            neighbours: self.train_neighbours(&trained),
            layers: parallel_map(threads, 0..self.sums.grid.layers, |layer| self.train_layer(layer, &trained)),
        }
    }

    /// Number of words of each class of a task in this fold.
    fn class_word_counts(&self, task: usize) -> ClassWordCounts {
        let classes = &self.fold.tasks[task].classes;
        let words = |name| classes.get(name).map_or(0, |class| class.words);
        ClassWordCounts::new(&self.tasks[task].names.iter().map(words).collect::<Vec<_>>())
    }

    /// Most frequent class of a task in this fold; ties go to the first. `None` if no word has a class.
    fn most_frequent_class(&self, task: usize) -> Option<usize> {
        let ClassWordCounts { classes, words } = self.class_word_counts(task);
        let best = classes.into_iter().zip(words).reduce(|best, other| if other.1 > best.1 { other } else { best });
        best.map(|(class, _)| class)
    }

    /// Most frequent class of each word form in this fold; ties go to the first class.
    fn majority_by_form(&self, task: usize) -> HashMap<FormHash, usize> {
        let mut best: HashMap<FormHash, (u64, usize)> = HashMap::new();
        for (class, name) in self.tasks[task].names.iter().enumerate() {
            let forms = self.fold.tasks[task].classes.get(name).into_iter().flat_map(|class| &class.forms);
            for (&form, &words) in forms {
                let known = best.entry(form).or_insert((words, class));
                if words > known.0 {
                    *known = (words, class);
                }
            }
        }
        best.into_iter().map(|(form, (_, class))| (form, class)).collect()
    }

    /// Sums products of features over all words of a task, `[len]`; `add` adds the products of one [`Moments`] to
    /// the sums.
    fn summed_products(&self, task: usize, len: usize, add: impl Fn(&Moments, &mut [f64])) -> Vec<f64> {
        let mut products = vec![0.0; len];
        self.fold.moments_of_task(task).for_each(|moments| add(moments, &mut products));
        products
    }

    /// Computes the statistics of `width` features over the words of a task. `at` is the index of the first feature
    /// in a class's `sums`.
    fn feature_block(
        &self,
        task: &TrainingTask,
        (width, at): (usize, usize),
        products: impl Fn(&Moments) -> &VectorSums,
        sums: fn(&ClassSums) -> &VectorSums,
    ) -> FeatureBlock {
        let add = |moments: &Moments, into: &mut [f64]| products(moments).add_squares_to(into, width);
        let (names, classes) = (&self.tasks[task.number].names, &self.fold.tasks[task.number].classes);
        let class_sum = |&class: &usize| sums(&classes[&names[class]]).values(at, width).collect();
        let sums: Vec<Vec<f64>> = task.counts.classes.iter().map(class_sum).collect();
        FeatureBlock::new(self.summed_products(task.number, width * width, add), &sums, &task.counts)
    }

    fn train_task(&self, number: usize) -> TrainingTask {
        let mut task = TrainingTask { number, counts: self.class_word_counts(number), embedding_block: None };
        let width = self.widths.embedding;
        if self.tasks[number].can_train(width) {
            let block = self.feature_block(&task, (width, 0), |moments| &moments.embeddings, |class| &class.embeddings);
            task.embedding_block = FactorizedBlock::new(block, &task.counts);
        }
        task
    }

    /// Trains the classifiers on the embeddings of a word and its two neighbours.
    fn train_neighbours(&self, trained: &[TrainingTask]) -> LayerProbes {
        let (embedding, both) = (self.widths.embedding, 2 * self.widths.embedding);
        let (mut own, mut parts) = (Vec::new(), Vec::new());
        for task in trained.iter().filter(|task| self.tasks[task.number].can_train(embedding + both)) {
            let Some(anchor) = &task.embedding_block else { continue };
            let (number, counts) = (task.number, &task.counts);
            let block = self.feature_block(task, (both, 0), |moments| &moments.neighbours, |class| &class.neighbours);
            let crosses = self.summed_products(number, embedding * both, |moments, into| {
                moments.neighbour_crosses.add_products_to(into);
            });
            let lower = anchor.cross_columns(crosses, std::slice::from_ref(&block), counts);
            let (weights, linear) = anchor.joint_classifier(&block, (&lower, both), counts);
            own.push((counts.classes.len(), weights));
            parts.push((number, counts.classes.clone(), linear));
        }
        let head = HeadProbes { embedding_and_context: StackedClassifiers::new(both, parts), ..HeadProbes::default() };
        LayerProbes {
            embedding_weights: concatenate_weights(embedding, &[own]),
            heads: vec![head],
            ..LayerProbes::default()
        }
    }

    /// Trains the classifiers on the input of a layer and on the contexts of its heads.
    fn train_layer(&self, layer: usize, trained: &[TrainingTask]) -> LayerProbes {
        let FeatureWidths { embedding, hidden, head } = self.widths;
        let heads = self.sums.grid.heads;
        let mut inputs = Vec::new();
        let mut of_heads: Vec<[Vec<_>; 3]> = (0..heads).map(|_| Default::default()).collect();
        let mut beside: Vec<Vec<(usize, Vec<f64>)>> = vec![Vec::new(); heads];
        for task in trained {
            let (number, counts, known) = (task.number, &task.counts, &self.tasks[task.number]);
            let classes = || counts.classes.clone();
            if known.can_train(hidden) {
                let at = layer * hidden;
                let block =
                    self.feature_block(task, (hidden, at), |moments| &moments.inputs[layer], |class| &class.inputs);
                inputs.extend(block.classifier(counts).map(|linear| (number, classes(), linear)));
            }
            if !known.can_train(head) {
                continue;
            }
            let block = |place: usize| {
                self.feature_block(
                    task,
                    (head, place * head),
                    |moments| &moments.contexts[place],
                    |class| &class.contexts,
                )
            };
            let blocks: Vec<FeatureBlock> = (layer * heads..(layer + 1) * heads).map(block).collect();
            let anchor = task.embedding_block.as_ref().filter(|_| known.can_train(embedding + head));
            if let Some(anchor) = anchor {
                let columns = heads * head;
                let crosses = self.summed_products(number, embedding * columns, |moments, into| {
                    moments.crosses[layer].add_products_to(into);
                });
                let lower = anchor.cross_columns(crosses, &blocks, counts);
                for (own, block) in blocks.iter().enumerate() {
                    let (weights, linear) = anchor.joint_classifier(block, (&lower[own * head..], columns), counts);
                    beside[own].push((counts.classes.len(), weights));
                    of_heads[own][1].push((number, classes(), linear));
                }
            }
            for (own, block) in blocks.into_iter().enumerate() {
                of_heads[own][0].extend(block.classifier(counts).map(|linear| (number, classes(), linear)));
                of_heads[own][2].extend(self.train_control(number, layer, own));
            }
        }
        let heads = of_heads.into_iter().map(|parts| {
            let [alone, together, control] = parts.map(|parts| StackedClassifiers::new(head, parts));
            HeadProbes { context_only: alone, embedding_and_context: together, control }
        });
        LayerProbes {
            input: StackedClassifiers::new(hidden, inputs),
            embedding_weights: concatenate_weights(embedding, &beside),
            heads: heads.collect(),
        }
    }

    /// Trains the control classifier of a task on a head's contexts, as `(task, classes, classifier)`. `None` if
    /// the covariance is not positive definite.
    fn train_control(&self, task: usize, layer: usize, head: usize) -> Option<(usize, Vec<usize>, LinearClassifier)> {
        let (width, place) = (self.widths.head, layer * self.sums.grid.heads + head);
        let TaskClasses { names, control_classes: control, .. } = &self.tasks[task];
        let (mut words, mut sums) = (vec![0; names.len()], vec![vec![0.0; width]; names.len()]);
        for (&bucket, found) in self.fold.moments_of_task(task).flat_map(|moments| &moments.buckets) {
            let class = control[usize::from(bucket)];
            words[class] += found.words;
            let values = found.contexts.values(place * width, width);
            sums[class].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        let counts = ClassWordCounts::new(&words);
        let sums: Vec<Vec<f64>> = counts.classes.iter().map(|&class| sums[class].clone()).collect();
        let add = |moments: &Moments, into: &mut [f64]| moments.contexts[place].add_squares_to(into, width);
        let linear =
            FeatureBlock::new(self.summed_products(task, width * width, add), &sums, &counts).classifier(&counts)?;
        Some((task, counts.classes, linear))
    }
}

/// Concatenates the weights of all heads and tasks to one matrix, `[features, heads * columns]`. `heads` has
/// `(number of columns, weights)` of each task, for each head.
#[expect(clippy::cast_possible_truncation, reason = "scores are of float32 features")]
fn concatenate_weights(features: usize, heads: &[Vec<(usize, Vec<f64>)>]) -> Vec<f32> {
    let rows = (0..features).flat_map(|feature| {
        let parts = heads.iter().flatten();
        parts.flat_map(move |(columns, weights)| &weights[feature * columns..][..*columns])
    });
    rows.map(|&weight| weight as f32).collect()
}
