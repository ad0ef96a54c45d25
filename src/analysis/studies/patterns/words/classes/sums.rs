//! Sums of attention to classes of words, per block of sentences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use multiversion::multiversion;
use serde::{Deserialize, Serialize};

use crate::corpus::{Annotation, WordClass};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::{Event, Sums};
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, Merge, block_of, merge_fields};
use crate::stats::exact::ExactSum;
use crate::study::instruments::classed_words::ClassedWords;
use crate::study::instruments::position::{OffsetProfile, PositionPairs, ProfileSums, TargetSums};

/// Maximum number of classes of one kind. Each class takes up to 16 bytes per attention head in every jackknife block.
pub const MAX_CLASSES: usize = 100;

/// Denominators in one jackknife block, which all word classes of one kind (such as `token`) share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassKindBlock {
    /// Number of query words: all words of the sentences in which some word has a class of this kind.
    pub queries: u64,
    /// Number of sentences with a query word. Related sentences count once.
    pub sentences: u64,
    /// Weight of uniform attention from query words to other words, by offset.
    pub pairs: PositionPairs,
    /// Attention of each head from query words by offset to the key, `[layers * heads]`.
    pub profiles: Vec<ProfileSums>,
}

merge_fields!(ClassKindBlock { queries, sentences, pairs, profiles });

/// Sums over one jackknife block for one class of words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassBlock {
    /// Number of words of the class.
    pub words: u64,
    /// Uniform attention to words of the class, summed over query words.
    pub even: ExactSum,
    /// Weight of uniform attention from query words to words of the class, by offset.
    pub targets: TargetSums,
    /// Attention of each head to words of the class, `[layers * heads]`. Empty until the class occurs.
    pub heads: Vec<ExactSum>,
}

merge_fields!(ClassBlock { words, even, targets, heads });

impl ClassBlock {
    /// Attention of one head to words of the class; 0 if the class does not occur.
    pub fn attention_to_class(&self, place: usize) -> f64 {
        self.heads.get(place).map_or(0.0, |sum| sum.value())
    }
}

/// Sums for one kind of word classes, per jackknife block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassKindSums {
    /// Whether the kind has more than [`MAX_CLASSES`] classes. If so, nothing is summed for it.
    pub is_crowded: bool,
    pub blocks: Blocks<ClassKindBlock>,
    pub classes: BTreeMap<Box<str>, Blocks<ClassBlock>>,
}

impl ClassKindSums {
    fn new(heads: usize) -> Self {
        let profiles = vec![ProfileSums::default(); heads];
        let empty = ClassKindBlock { queries: 0, sentences: 0, pairs: PositionPairs::new(0), profiles };
        Self { is_crowded: false, blocks: Blocks::new(empty), classes: BTreeMap::new() }
    }

    /// Drops all sums of the kind if it has more than [`MAX_CLASSES`] classes.
    fn drop_if_crowded(&mut self) {
        if self.is_crowded || self.classes.len() > MAX_CLASSES {
            *self = Self { is_crowded: true, ..Self::new(0) };
        }
    }

    fn fits(&self, heads: usize) -> bool {
        let heads = if self.is_crowded { 0 } else { heads };
        let fits = |block: &ClassBlock| [0, heads].contains(&block.heads.len());
        self.classes.len() <= if self.is_crowded { 0 } else { MAX_CLASSES }
            && self.blocks.is_valid(|block| block.profiles.len() == heads && block.pairs.target_count() == 0)
            && self.classes.values().all(|blocks| blocks.is_valid(fits))
    }
}

impl Merge for ClassKindSums {
    fn merge(&mut self, other: &Self) {
        self.is_crowded |= other.is_crowded;
        Merge::merge(&mut self.blocks, &other.blocks);
        Merge::merge(&mut self.classes, &other.classes);
        self.drop_if_crowded();
    }
}

/// Attention to word classes of each kind, per jackknife block, over the layers with one attention mask.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassesSums {
    grid: HeadGrid,
    visibility: Visibility,
    from: FromToken,
    /// Sums by the name of the kind, such as `token`.
    pub keys: BTreeMap<Box<str>, ClassKindSums>,
    #[serde(skip)]
    columns: Vec<f64>,
}

merge_fields!(ClassesSums[grid, visibility, from] { keys });

impl ClassesSums {
    pub fn new(grid: HeadGrid, visibility: Visibility, from: FromToken) -> Self {
        Self { grid, visibility, from, keys: BTreeMap::new(), columns: Vec::new() }
    }

    /// Adds empty sums for the kind named by `--classes`, even if no word has a class of this kind.
    pub fn with_key(mut self, key: Option<&str>) -> Self {
        let heads = self.grid.head_count();
        self.keys.extend(key.map(|key| (key.into(), ClassKindSums::new(heads))));
        self
    }
}

/// Words of the observed sequence, with their classes of one kind.
#[derive(Debug)]
pub struct ClassKindState {
    key: Box<str>,
    /// Names of the classes in the sequence. The class numbers in `words` are indices in this list.
    names: Vec<Box<str>>,
    words: ClassedWords,
}

/// The sequence being observed, with the classes of its words.
#[derive(Debug)]
pub struct ClassesState {
    block: usize,
    keys: Vec<ClassKindState>,
}

impl Sums for ClassesSums {
    type SequenceState = ClassesState;

    fn begin(&mut self, sequence: &Sequence) -> Option<ClassesState> {
        let (heads, block) = (self.grid.head_count(), block_of(sequence.family.number));
        let classes = || sequence.annotations.iter().filter_map(|annotation| annotation.class.as_ref());
        let keys: BTreeSet<&Arc<str>> = classes().map(|class| &class.key).collect();
        let mut state = ClassesState { block, keys: Vec::new() };
        for key in keys {
            let is_of_key = |class: &&Arc<WordClass>| class.key == *key;
            let names: BTreeSet<&str> = classes().filter(is_of_key).map(|class| &*class.name).collect();
            let names: Vec<&str> = names.into_iter().collect();
            let number = |annotation: &Annotation| {
                let class = annotation.class.as_ref().filter(is_of_key)?;
                names.binary_search(&&*class.name).ok()
            };
            let words = ClassedWords::new(sequence, self.visibility, self.from, number);
            let sums = self.keys.entry((**key).into()).or_insert_with(|| ClassKindSums::new(heads));
            let Some(words) = words.filter(|_| !sums.is_crowded) else { continue };
            let in_block = &mut sums.blocks[block];
            in_block.queries += words.classes.len() as u64;
            in_block.sentences += u64::from(sequence.family.is_first);
            let mut pairs = PositionPairs::new(names.len());
            pairs.add(words.word_pairs());
            let targets = pairs.take_targets();
            in_block.pairs.merge(&pairs);
            let mut even = vec![0.0; names.len()];
            words.add_uniform_masses(&mut even);
            for (number, (name, targets)) in names.iter().zip(targets).enumerate() {
                let of_class = sums.classes.entry((*name).into());
                let of_class = &mut of_class.or_insert_with(|| Blocks::new(ClassBlock::default()))[block];
                of_class.words += words.classes.iter().filter(|class| **class == Some(number)).count() as u64;
                of_class.even += even[number];
                of_class.targets.merge(&targets);
                of_class.heads.resize(heads, ExactSum::default());
            }
            sums.drop_if_crowded();
            let names = names.into_iter().map(Box::from).collect();
            state.keys.push(ClassKindState { key: (**key).into(), names, words });
        }
        (!state.keys.is_empty()).then_some(state)
    }

    fn observe(&mut self, ClassesState { block, keys }: &mut ClassesState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        let view = input.attention();
        let head = self.grid.index(view.layer, view.head);
        for ClassKindState { key, names, words } in keys {
            let sums = self.keys.get_mut(&**key).expect("a kind that was met has sums");
            if sums.is_crowded {
                continue;
            }
            let mut masses = vec![0.0; names.len()];
            let profile = add_class_masses(words, input.word_attention(self.from), &mut self.columns, &mut masses);
            sums.blocks[*block].profiles[head].add(&profile);
            for (name, mass) in names.iter().zip(masses) {
                let blocks = sums.classes.get_mut(name).expect("a class that was met has sums");
                blocks[*block].heads[head] += mass;
            }
        }
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        (self.grid, self.from) == (grid, from)
            && classes.visibilities() == [self.visibility]
            && self.keys.values().all(|sums| sums.fits(grid.head_count()))
    }
}

/// Adds attention to the mass of each class. Returns the attention by offset. `columns` is a buffer.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn add_class_masses(
    words: &ClassedWords,
    attention: &WordAttention,
    columns: &mut Vec<f64>,
    masses: &mut [f64],
) -> OffsetProfile {
    columns.clear();
    columns.resize(words.classes.len(), 0.0);
    let mut profile = OffsetProfile::default();
    for word in 0..words.classes.len() {
        let row = &attention.row(words.first_word + word)[words.first_word..];
        columns.iter_mut().zip(row).for_each(|(sum, weight)| *sum += weight);
        columns[word] -= row[word];
        profile.add(row, word, 1.0);
    }
    words.add_by_class(columns.iter().copied(), masses);
    profile
}
