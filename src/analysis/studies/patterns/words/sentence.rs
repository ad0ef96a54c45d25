//! Sentences prepared for the study `words`: all that the metrics need apart from attention.

use std::ops::Range;

use itertools::Itertools;

use crate::corpus::{Annotation, Upos};
use crate::linalg::lanes::LANES;
use crate::model::forward::WordEmbeddings;
use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{Sequence, TokenKind};
use crate::study::instruments::classed_words::ClassedWords;
use crate::study::instruments::cosines::cosines;

/// Words of a sentence in which some word has a UPOS tag.
#[derive(Clone, Debug)]
pub(super) struct TaggedWords {
    /// Words with their classes: each tag is its index in [`Upos::ALL`].
    pub words: ClassedWords,
    /// Index in `masks` of each word's tag. `None` if the word sees no other word with its tag.
    pub mask_of_word: Vec<Option<usize>>,
    /// Mask for each tag that several words have, `[words]`: 1 for words with the tag and 0 for others.
    pub masks: Vec<Vec<f64>>,
}

impl TaggedWords {
    /// Reads the tagged words of a sentence, where `visibility` says which keys a query sees. `None` if no word has a UPOS
    /// tag.
    pub fn new(sequence: &Sequence, visibility: Visibility, from: FromToken) -> Option<Self> {
        let tag = |annotation: &Annotation| annotation.upos.map(|upos| upos as usize);
        let words = ClassedWords::new(sequence, visibility, from, tag)?;
        let tags = &words.classes;
        let (mut masks, mut places) = (Vec::new(), [None; Upos::ALL.len()]);
        for (tag, place) in places.iter_mut().enumerate() {
            let has_tag = |other: &Option<usize>| *other == Some(tag);
            if tags.iter().filter(|other| has_tag(other)).count() > 1 {
                *place = Some(masks.len());
                masks.push(tags.iter().map(|other| f64::from(u8::from(has_tag(other)))).collect());
            }
        }
        let fellows = tags.iter().map(|tag| tag.and_then(|tag| places[tag])).collect();
        let mut found = Self { words, mask_of_word: fellows, masks };
        // Drops words that see no other word of their tag.
        if !found.words.sees_all_words {
            let sees = |query: usize, key: usize| {
                found.have_same_tag(query, key) && found.words.uniform_weight(query, key) > 0.0
            };
            let sees_fellow = |query: usize| found.words.other_words(query).any(|key| sees(query, key));
            for word in (0..found.mask_of_word.len()).filter(|&word| !sees_fellow(word)).collect::<Vec<_>>() {
                found.mask_of_word[word] = None;
            }
        }
        Some(found)
    }

    /// Whether two words have the same UPOS tag.
    pub fn have_same_tag(&self, query: usize, key: usize) -> bool {
        let tags = &self.words.classes;
        tags[query].is_some() && tags[query] == tags[key]
    }
}

/// Text tokens of a sentence, with their similarity to each other.
#[derive(Clone, Debug)]
pub(super) struct TextTokens {
    pub text: Vec<TextToken>,
    /// Embedding similarity of keys to each query, standardised per query, `[queries with similarities, width]`. Rows are
    /// padded to whole SIMD vectors.
    pub similarities: Vec<f32>,
}

/// A text token as a query.
#[derive(Clone, Debug)]
pub(super) struct TextToken {
    /// Position of the token in the sequence.
    pub position: usize,
    /// Range of the keys that the token sees, extended to whole SIMD vectors.
    pub visible_range: Range<usize>,
    /// Positions of the visible text tokens with this token's id, itself included.
    pub occurrences: Vec<usize>,
    pub is_punctuation: bool,
    /// Index at which this query's row of similarities starts. `None` if its keys are too few or do not differ in
    /// similarity.
    pub similarities_start: Option<usize>,
}

/// Minimum number of keys over which similarity is standardised. With two keys, the standardised values are always 1 and
/// -1.
const MIN_SIMILARITY_KEYS: usize = 3;

/// Minimum standard deviation of a query's cosines; smaller ones may be rounding errors.
const MIN_COSINE_DEVIATION: f64 = 1e-9;

impl TextTokens {
    pub fn new(sequence: &Sequence, visibility: Visibility, embeddings: Option<&WordEmbeddings>) -> Self {
        let width = sequence.ids.len().next_multiple_of(LANES);
        let places: Vec<usize> = sequence.text_positions().collect();
        let by_id = places.iter().map(|&place| (sequence.ids[place], place)).into_group_map();
        let vectors = |keys: Range<usize>| keys.start / LANES * LANES..keys.end.next_multiple_of(LANES);
        let mut text: Vec<TextToken> = places
            .iter()
            .map(|&place| TextToken {
                position: place,
                visible_range: vectors(visibility.visible_keys(place, sequence.ids.len())),
                occurrences: by_id[&sequence.ids[place]]
                    .iter()
                    .copied()
                    .filter(|&key| visibility.sees(place, key))
                    .collect(),
                is_punctuation: sequence.kinds[place] == TokenKind::Punctuation,
                similarities_start: None,
            })
            .collect();
        let likeness =
            embeddings.map(|embeddings| fill_similarities(sequence, visibility, (&mut text, width), embeddings));
        Self { text, similarities: likeness.unwrap_or_default() }
    }
}

/// Computes the cosine between the embeddings of each text token and of the visible text tokens with other ids,
/// standardised per query. Rows have `width` entries, 0 for all other keys.
#[expect(clippy::cast_possible_truncation, reason = "weights are f32, and so is what they are multiplied with")]
fn fill_similarities(
    sequence: &Sequence,
    visibility: Visibility,
    (text, width): (&mut [TextToken], usize),
    embeddings: &WordEmbeddings,
) -> Vec<f32> {
    let count = text.len();
    let ids: Vec<u32> = text.iter().map(|token| sequence.ids[token.position]).collect();
    let cosines = cosines(&ids, embeddings);
    let places: Vec<(usize, u32)> = text.iter().map(|token| (token.position, sequence.ids[token.position])).collect();
    let mut likeness = Vec::new();
    for (query, token) in text.iter_mut().enumerate() {
        let row = &cosines[query * count..][..count];
        let (place, own_id) = places[query];
        let is_key = |&(key, id): &(usize, u32)| id != own_id && visibility.sees(place, key);
        let keys = || places.iter().zip(row).filter(|(token, _)| is_key(token));
        let key_count = keys().count();
        if key_count < MIN_SIMILARITY_KEYS {
            continue;
        }
        let mean = keys().map(|(_, cosine)| cosine).sum::<f64>() / key_count as f64;
        let variance = keys().map(|(_, cosine)| (cosine - mean).powi(2)).sum::<f64>() / key_count as f64;
        if variance.sqrt() < MIN_COSINE_DEVIATION {
            continue;
        }
        token.similarities_start = Some(likeness.len());
        let start = likeness.len();
        likeness.resize(start + width, 0.0);
        keys().for_each(|((place, _), cosine)| likeness[start + place] = ((cosine - mean) / variance.sqrt()) as f32);
    }
    likeness
}
