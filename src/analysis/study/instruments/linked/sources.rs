//! The scored sources of links in a sequence, with the words that baseline rules choose as targets
//! (docs/methodology/links.md).

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::rules::{ClassChoice, PositionChoices, SAME_CLASS_RULES, first_best};
use crate::corpus::{LinkSet, Upos};
use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::even::UniformAttention;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::study::labels::evidence::Side;

/// Source word of links, with its candidate targets and the candidates that baseline rules choose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSource {
    /// Index of the word.
    pub word: usize,
    /// Candidates that are targets of the source, ascending.
    pub targets: Vec<usize>,
    /// Words among which a target of the source is chosen, ascending.
    pub candidates: Vec<usize>,
    /// Candidates before the restriction to the words that the corpus lists as candidates; empty if it lists none.
    pub seen: Vec<usize>,
    /// Candidates of the source's class; empty unless some, but not all, of them are targets.
    pub of_class: Vec<usize>,
    /// Candidates whose positions exist in the [neighbour](crate::study::instruments::neighbours), a preceding
    /// sequence of similar length. Empty without a neighbour.
    pub elsewhere: Vec<usize>,
    /// Whether all other words of the sequence are candidates, in both directions of attention.
    pub is_free: bool,
    /// Choices of the position rules among the candidates.
    pub places: PositionChoices,
    /// Candidate that each rule of [`SAME_CLASS_RULES`] chooses; `None` where the rule finds none.
    pub same_class: [Option<usize>; SAME_CLASS_RULES.len()],
    /// The source's class, and the class rules that choose a target; `None` without classes.
    pub class: Option<ClassChoice>,
}

impl LinkSource {
    pub fn is_target(&self, word: usize) -> bool {
        self.targets.binary_search(&word).is_ok()
    }

    /// Number of targets among the candidates of the source's class.
    pub fn target_count_in_class(&self) -> usize {
        self.of_class.iter().filter(|&&word| self.is_target(word)).count()
    }

    /// Sets `elsewhere` to the candidates whose indices exist in a neighbouring sequence of `words` words. Does nothing if
    /// the source's index does not exist there.
    pub fn set_neighbour_candidates(&mut self, words: usize) {
        if self.word < words {
            self.elsewhere = self.candidates.iter().copied().filter(|&word| word < words).collect();
        }
    }

    /// Whether candidates are among `words` words, and targets among the candidates. A source read from a file is
    /// untrusted.
    pub fn fits(&self, words: usize) -> bool {
        let is_ascending = |places: &[usize]| places.is_sorted_by(|a, b| a < b);
        let is_candidate = |word: &usize| self.candidates.binary_search(word).is_ok();
        let within = |word: &usize| *word < words && *word != self.word;
        i32::try_from(words).is_ok()
            && self.word < words
            && [&self.candidates, &self.targets].into_iter().all(|places| is_ascending(places))
            && self.candidates.iter().all(within)
            && self.targets.iter().chain(&self.of_class).all(is_candidate)
            && (1..self.candidates.len()).contains(&self.targets.len())
            && self.places.ranks.len() == self.candidates.len()
    }

    /// Share of targets among the candidates, which is the accuracy of a random choice.
    pub fn chance(&self) -> f64 {
        self.targets.len() as f64 / self.candidates.len() as f64
    }
}

/// Sources of a set of links, with the numbers of links and sources that are not scored.
#[derive(Debug, Default, PartialEq)]
pub struct SourcesOfLinkSet {
    /// The scored sources, in ascending order of their words.
    pub scored: Vec<LinkSource>,
    /// Number of links that are not scored because their target is no candidate.
    pub unseen_links: u64,
    /// Number of sources whose candidates are all targets, or have no target among them.
    pub sources_without_choice: u64,
}

/// The words of a sequence between which there are links, with their sentences and classes.
pub struct LinkedWords<'a> {
    sequence: &'a Sequence,
    /// Weights of uniform attention in the sequence.
    uniform: UniformAttention,
    from: FromToken,
    /// For each word, the words of its sentence that take part in links; empty for a word that takes no part.
    sentences: Vec<Range<usize>>,
    /// Class of each word, or its form if it has no class.
    classes: Vec<&'a str>,
    /// Whether any word has a class. Words without a class have their form in its place.
    pub has_classes: bool,
}

impl<'a> LinkedWords<'a> {
    /// Prepares the words of a sequence; `visibility` says which keys each query sees.
    pub fn new(sequence: &'a Sequence, visibility: Visibility, from: FromToken) -> Self {
        let class_of = |word: usize| {
            let annotation = sequence.annotations.get(word)?;
            let class = annotation.class.as_ref().map(|class| &*class.name);
            class.or_else(|| annotation.upos.map(Upos::tag))
        };
        let words = 0..sequence.words.len();
        Self {
            sequence,
            uniform: UniformAttention::new(visibility, sequence.ids.len()),
            from,
            sentences: sequence.syntactic_head_candidates(),
            classes: words.clone().map(|word| class_of(word).unwrap_or_else(|| sequence.form(word))).collect(),
            has_classes: words.clone().any(|word| class_of(word).is_some()),
        }
    }

    /// Class of each word, or its form if it has no class.
    pub fn classes(&self) -> &[&'a str] {
        &self.classes
    }

    /// Classes of the words in the sentence of `word`.
    pub fn sentence_classes(&self, word: usize) -> &[&'a str] {
        &self.classes[self.sentences[word].clone()]
    }

    /// The words of the sentence that a set of links is about. `None` if the set is empty and the window has
    /// several sentences.
    pub fn sentence_of(&self, links: &LinkSet) -> Option<Range<usize>> {
        let word = links.targets.keys().next().copied();
        let single_sentence = || self.sentences.first().filter(|_| self.sequence.sentence_count() == 1).cloned();
        word.map(|word| self.sentences[word].clone()).or_else(single_sentence).filter(|words| !words.is_empty())
    }

    /// Whether `other` can be a candidate for `word`. In an encoder, each must see the other. In a decoder, where
    /// one `side` is scored, the later word must see the earlier.
    pub fn can_be_candidate(&self, word: usize, other: usize, side: Option<Side>) -> bool {
        let spans = &self.sequence.words;
        let (earlier, later) = (&spans[word.min(other)], &spans[word.max(other)]);
        match side {
            _ if word == other || !self.sentences[word].contains(&other) => false,
            None => self.uniform.see_each_other(earlier, later, self.from),
            Some(side) => {
                Side::from_positions(other, word) == side && self.uniform.word_weight(later, earlier, self.from) > 0.0
            }
        }
    }

    /// The scored sources of a set of links; in a decoder, of the links whose targets stand on one `side`.
    pub fn sources(&self, links: &LinkSet, side: Option<Side>) -> SourcesOfLinkSet {
        let is_on_side = |&(from, to): &(usize, usize)| side.is_none_or(|side| Side::from_positions(to, from) == side);
        let links_of = |from: usize| links.targets[&from].iter().map(move |&to| (from, to)).filter(is_on_side);
        let sources: Vec<usize> =
            links.targets.keys().copied().filter(|&from| links_of(from).next().is_some()).collect();
        let is_source = |word: usize| sources.binary_search(&word).is_ok();
        let mut result = SourcesOfLinkSet { unseen_links: links.dropped_links, ..SourcesOfLinkSet::default() };
        for (number, &word) in sources.iter().enumerate() {
            let is_far = |&other: &usize| other.abs_diff(word) >= links.link_type.min_distance;
            let sentence = self.sentences[word].clone();
            let seen: Vec<usize> =
                sentence.filter(is_far).filter(|&other| self.can_be_candidate(word, other, side)).collect();
            let named = links.candidates.as_ref();
            let candidates: Vec<usize> = match named {
                Some(named) => seen.iter().copied().filter(|other| named.contains(other)).collect(),
                None => seen.clone(),
            };
            let linked_words: BTreeSet<usize> = links_of(word).map(|(_, to)| to).collect();
            let targets: Vec<usize> = candidates.iter().copied().filter(|other| linked_words.contains(other)).collect();
            result.unseen_links += (linked_words.len() - targets.len()) as u64;
            if targets.is_empty() || targets.len() == candidates.len() {
                result.sources_without_choice += 1;
                continue;
            }
            let class = self.classes[word];
            let of_class = |other: &usize| self.classes[*other] == class;
            let earlier_of_class = || sources[..number].iter().filter(|&other| of_class(other)).count();
            let free = || candidates.iter().copied().filter(|&other| !is_source(other));
            let mut source = LinkSource {
                word,
                places: PositionChoices::new(word, (number, sources.len()), &candidates, free().nth(number), |other| {
                    self.sequence.words[other].len()
                }),
                same_class: self.same_class_rule_choices(
                    word,
                    &candidates,
                    free().filter(of_class).nth(earlier_of_class()),
                ),
                class: self.has_classes.then(|| ClassChoice::new(word, &self.classes, &candidates, &targets)),
                of_class: candidates.iter().copied().filter(of_class).collect(),
                elsewhere: Vec::new(),
                is_free: side.is_none() && candidates.len() + 1 == self.classes.len(),
                seen: if named.is_some() { seen } else { Vec::new() },
                targets,
                candidates,
            };
            if [0, source.of_class.len()].contains(&source.target_count_in_class()) {
                source.of_class.clear();
            }
            result.scored.push(source);
        }
        result
    }

    /// Computes the candidate that each rule of [`SAME_CLASS_RULES`] chooses for `word`. `in_order` is the choice of
    /// the rule `class-in-order`.
    fn same_class_rule_choices(
        &self,
        word: usize,
        candidates: &[usize],
        in_order: Option<usize>,
    ) -> [Option<usize>; SAME_CLASS_RULES.len()] {
        let of_class = || candidates.iter().copied().filter(|&other| self.classes[other] == self.classes[word]);
        let left = of_class().take_while(|&other| other < word).last();
        let right = of_class().find(|&other| other > word);
        let nearest = match (left, right) {
            (Some(left), Some(right)) if right - word < word - left => Some(right),
            (left, right) => left.or(right),
        };
        let longest = first_best(of_class(), |&other| self.shared_context_length(word, other) as u64);
        [left, right, nearest, in_order, longest]
    }

    /// Length of the context that two words share: how many words before them, and after them, have pairwise equal
    /// classes. Counting stops at the first difference on each side.
    fn shared_context_length(&self, word: usize, other: usize) -> usize {
        let Range { start, end } = self.sentences[word];
        let equal = |(a, b): &(usize, usize)| self.classes[*a] == self.classes[*b];
        let before = (start..word).rev().zip((start..other).rev()).take_while(equal).count();
        let after = (word + 1..end).zip(other + 1..end).take_while(equal).count();
        before + after
    }
}
