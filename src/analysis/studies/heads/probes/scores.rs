//! Right predictions of the probes: number of words that classifiers trained on one fold get right in the other fold.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::classifiers::{HeadProbes, LayerProbes};
use super::fit::{FoldProbes, Probes, TaskClasses};
use super::pack::{PROBE_NEEDS, PackState, WordPack};
use super::sums::{FormHash, MAX_TASKS, fold_of_sentence_family, task_names, word_classes};
use crate::model::forward::WordEmbeddings;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Demands, Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};

/// Numbers of words that the classifiers on one head's contexts get right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadHits {
    /// Right predictions of the classifier on the context alone.
    pub alone: u64,
    /// Right predictions of the classifier on embedding and context together.
    pub together: u64,
    /// Right predictions of the control task's classifier on the context.
    pub control: u64,
}

/// Numbers of words of one block that each classifier of a task gets right.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskHits {
    /// Number of words with a class.
    pub words: u64,
    /// Number of sentences with a word that has a class, counting one per sentence family (equal or grouped sentences).
    pub sentences: u64,
    /// Right predictions when every word gets the other fold's most frequent class.
    pub majority: u64,
    /// Right predictions when every word gets the most frequent class of its form in the other fold. A form absent
    /// there gets that fold's most frequent class.
    pub form: u64,
    /// Right predictions of the classifier on the word embedding.
    pub embedding: u64,
    /// Right predictions of the classifier on the embeddings of the word and both neighbours.
    pub neighbours: u64,
    /// Right predictions of the classifier on each layer's input, `[layers]`.
    pub inputs: Vec<u64>,
    /// Right predictions of the classifiers on each attention head's contexts, `[layers * heads]`.
    pub heads: Vec<HeadHits>,
}

/// Right predictions of every probing task, `[tasks]`.
pub type HitsByTask = Vec<TaskHits>;

merge_fields!(HeadHits { alone, together, control });

merge_fields!(TaskHits { words, sentences, majority, form, embedding, neighbours, inputs, heads });

/// Right predictions of the trained classifiers, by block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbeScores {
    grid: HeadGrid,
    /// Names of the probing tasks.
    tasks: Vec<String>,
    pub blocks: Blocks<HitsByTask>,
    #[serde(skip)]
    buffers: ScoreBuffers,
}

/// Classifiers, and buffers for the words of the current pack.
#[derive(Clone, Debug, Default)]
struct ScoreBuffers {
    probes: Arc<Probes>,
    embeddings: Option<WordEmbeddings>,
    /// Word vectors of the current pack, grouped by the fold of the words.
    pack: WordPack<usize>,
    /// Words to predict, in the order of the groups (folds) in `pack` and of their words, `[groups][words]`.
    words: Vec<Vec<ScoredWord>>,
    scores: [Vec<f32>; 2],
}

/// A word whose classes are predicted.
#[derive(Clone, Debug)]
struct ScoredWord {
    /// Jackknife block of the word's sentence.
    block: usize,
    /// The word's class in each task; `None` where it has no class.
    classes: Vec<Option<usize>>,
    /// Bucket of the word's form, which determines its control class.
    bucket: usize,
}

impl ProbeScores {
    pub fn new(grid: HeadGrid, requested: &[String], probes: Probes) -> Self {
        let tasks = task_names(requested);
        let none = TaskHits {
            inputs: vec![0; grid.layers],
            heads: vec![HeadHits::default(); grid.head_count()],
            ..TaskHits::default()
        };
        let blocks = Blocks::new(vec![none; tasks.len()]);
        Self { grid, tasks, blocks, buffers: ScoreBuffers { probes: Arc::new(probes), ..ScoreBuffers::default() } }
    }

    /// Counts the right predictions for the words of the pack in a layer, after the last head of the layer.
    fn score_layer(&mut self, layer: usize) {
        let Self { grid, blocks, buffers, .. } = self;
        let ScoreBuffers { probes, pack, words, scores, .. } = buffers;
        let Some(folds) = &probes.folds else { return };
        let [scores, beside] = scores;
        for (group, words) in pack.groups.iter().zip(words) {
            let count = group.word_count;
            let FoldProbes { embedding, neighbours, layers, .. } = &folds[1 - group.key];
            let LayerProbes { input, heads, .. } = &layers[layer];
            let is_right = |task: usize, word: usize, class: usize| words[word].classes[task] == Some(class);
            let width = |vectors: &[f32]| vectors.len() / count;
            let kinds = group.kind_count();
            if layer == 0 && kinds > 0 {
                let rows = (&group.embeddings[..], kinds, group.embeddings.len() / kinds);
                let mut found = vec![Vec::new(); kinds];
                embedding.classify(rows, None, scores, |task, kind, class| found[kind].push((task, class)));
                for (word, &kind) in group.kind_of_word.iter().enumerate() {
                    for &(task, class) in &found[kind] {
                        blocks[words[word].block][task].embedding += u64::from(is_right(task, word, class));
                    }
                }
                neighbours.score_embeddings(&group.embeddings, kinds, beside);
                let own = neighbours.kind_scores(0, beside, &group.kind_of_word);
                let rows = (&group.neighbours[..], count, width(&group.neighbours));
                neighbours.heads[0].embedding_and_context.classify(rows, own, scores, |task, word, class| {
                    blocks[words[word].block][task].neighbours += u64::from(is_right(task, word, class));
                });
            }
            let rows = (&group.inputs[..], count, width(&group.inputs));
            input.classify(rows, None, scores, |task, word, class| {
                blocks[words[word].block][task].inputs[layer] += u64::from(is_right(task, word, class));
            });
            layers[layer].score_embeddings(&group.embeddings, kinds, beside);
            let stride = width(&group.contexts);
            for (head, HeadProbes { context_only: alone, embedding_and_context: together, control }) in
                heads.iter().enumerate()
            {
                let place = grid.index(layer, head);
                let rows = (&group.contexts[head * stride / grid.heads..], count, stride);
                alone.classify(rows, None, scores, |task, word, class| {
                    blocks[words[word].block][task].heads[place].alone += u64::from(is_right(task, word, class));
                });
                let both = layers[layer].kind_scores(head, beside, &group.kind_of_word);
                together.classify(rows, both, scores, |task, word, class| {
                    blocks[words[word].block][task].heads[place].together += u64::from(is_right(task, word, class));
                });
                control.classify(rows, None, scores, |task, word, class| {
                    let ScoredWord { block, classes, bucket } = &words[word];
                    let is_right = classes[task].is_some() && probes.tasks[task].control_classes[*bucket] == class;
                    blocks[*block][task].heads[place].control += u64::from(is_right);
                });
            }
        }
    }
}

merge_fields!(ProbeScores[grid, tasks] { blocks });

impl Sums for ProbeScores {
    type SequenceState = PackState;

    fn demands(&self) -> Demands {
        Demands::from_needs(PROBE_NEEDS)
    }

    fn begin_pass(&mut self, setup: &PassSetup) {
        self.buffers.embeddings.clone_from(&setup.embeddings);
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<PackState> {
        let Self { blocks, buffers, .. } = self;
        let ScoreBuffers { probes, embeddings, pack, words: pack_words, .. } = buffers;
        let (block, fold) = (block_of(sequence.family.number), fold_of_sentence_family(sequence.family.number));
        let trained = &probes.folds.as_ref()?[1 - fold];
        let mut rows = Vec::new();
        let mut has_class = vec![false; probes.tasks.len()];
        for word in 0..sequence.words.len() {
            let class = |(task, class): (&TaskClasses, Option<&str>)| {
                class.and_then(|class| task.names.binary_search_by(|name| name.as_str().cmp(class)).ok())
            };
            let classes: Vec<Option<usize>> =
                probes.tasks.iter().zip(word_classes(sequence, word)).map(class).collect();
            if classes.iter().all(Option::is_none) {
                continue;
            }
            let form = FormHash::from_word(sequence, word);
            for (task, &class) in classes.iter().enumerate().filter(|(_, class)| class.is_some()) {
                let hits = &mut blocks[block][task];
                hits.words += 1;
                hits.majority += u64::from(trained.majority[task] == class);
                let of_form = trained.forms[task].get(&form).copied().or(trained.majority[task]);
                hits.form += u64::from(of_form == class);
                has_class[task] = true;
            }
            let row = pack.add_word(fold, embeddings.as_ref(), sequence, word);
            pack_words.resize_with(pack.groups.len(), Vec::new);
            pack_words[row.row_place.group].push(ScoredWord { block, classes, bucket: form.bucket().into() });
            rows.push(row);
        }
        for (hits, _) in blocks[block].iter_mut().zip(has_class).filter(|(_, has_class)| *has_class) {
            hits.sentences += u64::from(sequence.family.is_first);
        }
        pack.begin(rows)
    }

    fn observe(&mut self, state: &mut PackState, event: &mut Event<'_>) {
        if let Event::PackEnd = event {
            self.buffers.pack = WordPack::default();
            self.buffers.words.clear();
        } else if let Some(layer) = self.buffers.pack.observe(state, event, self.grid) {
            self.score_layer(layer);
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        let of_task = |hits: &TaskHits| (hits.inputs.len(), hits.heads.len()) == (grid.layers, grid.head_count());
        let of_block = |block: &HitsByTask| block.len() == self.tasks.len() && block.iter().all(of_task);
        self.grid == grid && self.tasks.len() <= MAX_TASKS && self.blocks.is_valid(of_block)
    }
}
