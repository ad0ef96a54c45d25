//! One head over one sentence: how much of its attention goes to each word class, to words like the query, and to the
//! query's own token elsewhere (METHODOLOGY, "Word classes and meaning").

use multiversion::multiversion;

use super::sentence::{TaggedWords, Tokens};
use crate::corpus::Upos;
use crate::model::forward::attention::AttentionView;
use crate::sequences::words::WordAttention;
use crate::studies::position::Profile;
use crate::system::lanes::moments;

/// How many word classes there are: [`Upos::ALL`].
pub const TAGS: usize = Upos::ALL.len();

/// The sets of queries that metrics are means over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queries {
    /// Words of sentences in which some word has a UPOS.
    Words,
    /// Words with another word of their UPOS.
    Tagged,
    /// Tokens of text whose keys differ in likeness.
    Likened,
    /// Tokens of text that are there again.
    Repeated,
    /// Those of them that are no punctuation.
    RepeatedWords,
}

/// How many sets of queries there are.
pub const QUERIES: usize = 5;

/// How many masses are summed: to each tag, then [`SAME_TAG`] and so on.
pub const MASSES: usize = TAGS + 4;

/// The mass on words of the query's own tag.
pub const SAME_TAG: usize = TAGS;
/// The likeness of what is attended to.
pub const LIKENESS: usize = TAGS + 1;
/// The mass on the token's other occurrences.
pub const SAME_TOKEN: usize = TAGS + 2;
/// The same of tokens that are no punctuation.
pub const SAME_WORD: usize = TAGS + 3;

/// The queries that a mass is of.
#[must_use]
pub fn queries_of(mass: usize) -> Queries {
    match mass {
        SAME_TAG => Queries::Tagged,
        LIKENESS => Queries::Likened,
        SAME_TOKEN => Queries::Repeated,
        SAME_WORD => Queries::RepeatedWords,
        _ => Queries::Words,
    }
}

/// One head's masses in one sentence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The summed attention of the eligible queries.
    pub masses: [f64; MASSES],
    /// Queries with any attention on the keys that likeness is about.
    pub likened: u64,
    /// Attention by offsets, of each set of queries.
    pub profiles: [Profile; QUERIES],
}

/// Room for one row, and for sums over columns; reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct Room {
    row: Vec<f32>,
    columns: Vec<f64>,
}

/// Adds the attention between words.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub(super) fn words(words: &TaggedWords, attention: &WordAttention, room: &mut Room, seen: &mut Observed) {
    let columns = &mut room.columns;
    columns.clear();
    columns.resize(words.tags.len(), 0.0);
    let mut others = Profile::default();
    for (word, fellows) in words.fellows.iter().enumerate() {
        let row = attention.row(word);
        columns.iter_mut().zip(row).for_each(|(sum, weight)| *sum += weight);
        columns[word] -= row[word];
        if let Some(fellows) = fellows {
            let mask = &words.masks[*fellows];
            seen.masses[SAME_TAG] += row.iter().zip(mask).map(|(weight, kept)| weight * kept).sum::<f64>() - row[word];
            seen.profiles[Queries::Tagged as usize].add(row, word, 1.0);
        } else {
            others.add(row, word, 1.0);
        }
    }
    for (tag, mass) in words.tags.iter().zip(columns) {
        if let Some(tag) = tag {
            seen.masses[*tag] += *mass;
        }
    }
    seen.profiles[Queries::Words as usize] = others.and(&seen.profiles[Queries::Tagged as usize]);
}

/// Adds the attention between tokens.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub(super) fn tokens<'a>(tokens: &'a Tokens, view: AttentionView<'a>, room: &'a mut Room, seen: &'a mut Observed) {
    let (width, row) = (tokens.is_text.len(), &mut room.row);
    row.clear();
    row.resize(width, 0.0);
    for token in &tokens.text {
        let repeated = token.same.len() > 1;
        if !repeated && token.likeness.is_none() {
            continue;
        }
        let weights = view.row(token.place);
        for ((kept, &weight), is_text) in row.iter_mut().zip(weights).zip(&tokens.is_text) {
            *kept = weight * is_text;
        }
        if repeated {
            let mass: f64 =
                token.same.iter().map(|&same| f64::from(row[same])).sum::<f64>() - f64::from(row[token.place]);
            seen.masses[SAME_TOKEN] += mass;
            seen.profiles[Queries::Repeated as usize].add(&row[..weights.len()], token.place, 1.0);
            if !token.is_punctuation {
                seen.masses[SAME_WORD] += mass;
                seen.profiles[Queries::RepeatedWords as usize].add(&row[..weights.len()], token.place, 1.0);
            }
        }
        if let Some(start) = token.likeness {
            token.same.iter().for_each(|&same| row[same] = 0.0);
            let (mass, likeness) = moments(row, &tokens.likeness[start..start + width]);
            if mass > 0.0 {
                seen.likened += 1;
                seen.masses[LIKENESS] += likeness / mass;
                seen.profiles[Queries::Likened as usize].add(&row[..weights.len()], token.place, 1.0 / mass);
            }
        }
    }
}
