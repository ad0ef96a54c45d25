//! Attention of one head in one sentence, summed over kinds of keys. The kinds are word classes, tokens similar to the query,
//! and other occurrences of the query's token (docs/methodology/words.md).

use multiversion::multiversion;

use super::sentence::{TaggedWords, TextTokens};
use crate::corpus::Upos;
use crate::linalg::lanes::{dot, sum_full_lanes};
use crate::sequences::fold::text::TextAttention;
use crate::sequences::fold::words::WordAttention;
use crate::study::instruments::position::OffsetProfile;

/// Number of parts of speech (UPOS tags).
pub const TAG_COUNT: usize = Upos::ALL.len();

/// Sets of queries over which masses are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuerySet {
    /// All words of sentences in which some word has a UPOS.
    Words,
    /// Words that see another word with their UPOS tag.
    Tagged,
    /// Text tokens that see keys with different embedding similarities to the query.
    WithSimilarity,
    /// Text tokens that see another occurrence of their own token id.
    Repeated,
    /// Text tokens other than punctuation that see another occurrence of their own token id.
    RepeatedWords,
}

/// Number of sets of queries: the variants of [`QuerySet`].
pub const QUERY_SET_COUNT: usize = 5;

/// Number of masses (attention summed over a kind of keys) per head: one for each UPOS tag, then those from
/// [`SAME_TAG_MASS`] to [`SAME_WORD_MASS`].
pub const MASS_COUNT: usize = TAG_COUNT + 4;

/// Index of the mass on other words with the query's UPOS tag.
pub const SAME_TAG_MASS: usize = TAG_COUNT;
/// Index, among the masses, of an average that is no mass: the embedding similarity of attended keys to the query.
pub const SIMILARITY_MASS: usize = TAG_COUNT + 1;
/// Index of the mass on other occurrences of the query's token id.
pub const SAME_TOKEN_MASS: usize = TAG_COUNT + 2;
/// Index of the mass on other occurrences of the query's token id, for queries that are not punctuation.
pub const SAME_WORD_MASS: usize = TAG_COUNT + 3;

/// Returns the set of queries over which a mass is averaged, given the index of the mass.
pub fn query_set(mass: usize) -> QuerySet {
    match mass {
        SAME_TAG_MASS => QuerySet::Tagged,
        SIMILARITY_MASS => QuerySet::WithSimilarity,
        SAME_TOKEN_MASS => QuerySet::Repeated,
        SAME_WORD_MASS => QuerySet::RepeatedWords,
        _ => QuerySet::Words,
    }
}

/// Masses of one head in one sentence: attention summed over kinds of keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SentenceMasses {
    /// Each mass, summed over its queries.
    pub masses: [f64; MASS_COUNT],
    /// Number of queries with attention to keys whose embedding similarity to the query is known.
    pub queries_with_likeness: u64,
    /// Attention by offset from query to key, for each set of queries.
    pub profiles: [OffsetProfile; QUERY_SET_COUNT],
}

/// Buffers for one attention row and for column sums, reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct WordRowBuffers {
    /// Attention row of a query, with 0 for other occurrences of its token.
    row: Vec<f32>,
    /// Sum of each column over attention rows.
    columns: Vec<f64>,
}

/// Adds the masses on words: on each UPOS tag, and on the query's own tag.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub(super) fn add_word_masses(
    words: &TaggedWords,
    attention: &WordAttention,
    room: &mut WordRowBuffers,
    seen: &mut SentenceMasses,
) {
    let columns = &mut room.columns;
    columns.clear();
    columns.resize(words.words.classes.len(), 0.0);
    let mut others = OffsetProfile::default();
    for (word, fellows) in words.mask_of_word.iter().enumerate() {
        let first = words.words.first_word;
        let row = &attention.row(first + word)[first..];
        columns.iter_mut().zip(row).for_each(|(sum, weight)| *sum += weight);
        columns[word] -= row[word];
        if let Some(fellows) = fellows {
            let mask = &words.masks[*fellows];
            seen.masses[SAME_TAG_MASS] +=
                row.iter().zip(mask).map(|(weight, kept)| weight * kept).sum::<f64>() - row[word];
            seen.profiles[QuerySet::Tagged as usize].add(row, word, 1.0);
        } else {
            others.add(row, word, 1.0);
        }
    }
    words.words.add_by_class(columns.iter().copied(), &mut seen.masses);
    seen.profiles[QuerySet::Words as usize] = others.sum_with(&seen.profiles[QuerySet::Tagged as usize]);
}

/// Adds attention to other occurrences of each query's token, and the mean similarity of attended keys to the query.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub(super) fn add_token_masses<'a>(
    tokens: &'a TextTokens,
    text: &'a TextAttention,
    room: &'a mut WordRowBuffers,
    seen: &'a mut SentenceMasses,
) {
    for token in &tokens.text {
        let row = text.row(token.position);
        let mut rest = text.row_sum(token.position);
        let repeated = token.occurrences.len() > 1;
        if repeated {
            let mass: f64 = token.occurrences.iter().map(|&same| f64::from(row[same])).sum();
            seen.masses[SAME_TOKEN_MASS] += mass;
            seen.profiles[QuerySet::Repeated as usize].add_text(text, token.position, 1.0);
            if !token.is_punctuation {
                seen.masses[SAME_WORD_MASS] += mass;
                seen.profiles[QuerySet::RepeatedWords as usize].add_text(text, token.position, 1.0);
            }
        }
        let Some(start) = token.similarities_start else { continue };
        let likeness = &tokens.similarities[start..start + row.len()];
        let seen_keys = token.visible_range.clone();
        if repeated {
            // Sums the other keys directly: the rest may be tiny, and a difference would lose it to rounding.
            room.row.clear();
            room.row.extend_from_slice(row);
            token.occurrences.iter().for_each(|&same| room.row[same] = 0.0);
            rest = sum_full_lanes(&room.row[seen_keys.clone()]);
        }
        if rest > 0.0 {
            seen.queries_with_likeness += 1;
            seen.masses[SIMILARITY_MASS] += f64::from(dot(&row[seen_keys.clone()], &likeness[seen_keys])) / rest;
            let profile = &mut seen.profiles[QuerySet::WithSimilarity as usize];
            if repeated {
                profile.add(&room.row[..text.tokens()], token.position, 1.0 / rest);
            } else {
                profile.add_text(text, token.position, 1.0 / rest);
            }
        }
    }
}
