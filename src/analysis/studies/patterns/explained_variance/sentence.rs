//! Cues of a sentence: properties of its queries and keys, equal for all heads.

use std::sync::Arc;

use super::cues::{
    COMMONNESS_CUE, COSINE_CUE, CUE_COUNT, DEPENDENT_CUE, FAR_LEFT_CUE, FIRST_OFFSET_CUE, FIRST_PAIR_CUE,
    FIRST_SPECIAL_CUE, FIRST_TAG_CUE, FIRST_TOKEN_CUE, PAIR_CUE_COUNT, SAME_TAG_CUE, SAME_TOKEN_CUE, SEPARATOR_CUE,
    SIBLING_CUE, SYNTACTIC_HEAD_CUE,
};
use super::least_squares::lower_half_index;
use crate::corpus::Upos;
use crate::linalg::lanes::LANES;
use crate::model::forward::WordEmbeddings;
use crate::model::grid::visibility::Visibility;
use crate::sequences::counts::TokenCounts;
use crate::sequences::fold::roles::{MAX_OFFSET_TOKENS, offset_slot};
use crate::sequences::sequence::{Sequence, TokenKind};
use crate::study::instruments::cosines::cosines;

/// Number of key sets over which attention is explained: all keys, or the text tokens other than the query.
pub const KEY_SET_COUNT: usize = 2;
/// Index of the key set with all keys.
pub const ALL_KEYS: usize = 0;
/// Index of the key set with the text tokens other than the query. Its attention rows are normalised to sum to 1.
pub const TEXT_KEYS: usize = 1;

/// Minimum number of text tokens for rows over text keys alone. With two, each row has a single key with all weight.
const MIN_TEXT_TOKENS: usize = 3;

/// Number of cells in the lower half of the symmetric matrix of products of cues.
pub const CUE_PRODUCT_COUNT: usize = lower_half_index(CUE_COUNT - 1, CUE_COUNT - 1) + 1;

/// Sums of products of each two cues over a sentence's pairs of query and key. Cues are centred within rows.
#[derive(Clone, Debug)]
pub struct CueProducts {
    /// Lower half of the symmetric matrix of products, `[CUE_PRODUCT_COUNT]`.
    pub cells: Vec<f64>,
    /// Number of attention rows.
    pub rows: u64,
    /// Number of keys, summed over rows.
    pub keys: u64,
}

/// Cues of the queries and keys of one sentence.
#[derive(Clone, Debug)]
pub struct SentenceCues {
    /// Positions of the text tokens. Each is the query of one row.
    pub text_tokens: Vec<usize>,
    /// Position of each special token, with the index of its cue. `None` if it has no cue.
    pub special_cues: Vec<(usize, Option<usize>)>,
    /// Index in [`Upos::ALL`] of the part of speech of each token's word.
    pub tags: Vec<Option<usize>>,
    /// Commonness of each token: the share of corpus tokens that are rarer. 0 for special tokens.
    pub commonness: Vec<f64>,
    /// Cosine between the embeddings of each row's query and each key, with rows padded to whole SIMD vectors. 0 unless the
    /// key is a text token of another id.
    pub cosines: Vec<f32>,
    /// Length of a padded row: the number of tokens, rounded up to whole SIMD vectors.
    pub row_width: usize,
    /// Keys with each of the [`PAIR_CUE_COUNT`] pair cues, per row.
    pub keys_by_pair_cue: Vec<[Vec<usize>; PAIR_CUE_COUNT]>,
    /// Number of keys of each row, per key set.
    key_counts: [Vec<usize>; KEY_SET_COUNT],
    /// Mean of each cue over the keys of a row, per key set and row.
    pub cue_means: [Vec<[f64; CUE_COUNT]>; KEY_SET_COUNT],
    /// Sum of `cue_means` over rows, per key set.
    pub cue_mean_sums: [[f64; CUE_COUNT]; KEY_SET_COUNT],
}

/// Embeddings and corpus counts of tokens, as far as known, from which cues are computed.
#[derive(Clone, Debug, Default)]
pub struct TokenLexicon {
    /// Input embeddings of the model. `None` if the model gives no access to them.
    pub embeddings: Option<WordEmbeddings>,
    /// Count of each token in the whole corpus.
    pub counts: Option<Arc<TokenCounts>>,
}

/// Cues of one key for one query: pairs of a cue's index and its value, ascending by index.
type CueWeights = Vec<(usize, f64)>;

impl SentenceCues {
    /// Computes the cues of a sentence, and their products per key set. `None` without attention rows.
    pub fn new(
        sequence: &Sequence,
        visibility: Visibility,
        lexicon: &TokenLexicon,
    ) -> (Self, [Option<CueProducts>; KEY_SET_COUNT]) {
        let mut cues = Self::with_key_cues(sequence, lexicon);
        let words = SentenceWords::new(sequence);
        let (n, count) = (sequence.ids.len(), cues.text_tokens.len());
        let mut sums_by_form = [vec![0.0; CUE_PRODUCT_COUNT], vec![0.0; CUE_PRODUCT_COUNT]];
        let mut key_cues = CueWeights::new();
        for (row, &query) in cues.text_tokens.clone().iter().enumerate() {
            let mut row_sums = [[0.0; CUE_COUNT]; KEY_SET_COUNT];
            let mut keys = [0; KEY_SET_COUNT];
            for key in visibility.visible_keys(query, n) {
                cues.collect_cues(&mut key_cues, &words, sequence, (row, query, key));
                let form = if key == query || sequence.kinds[key].is_special() { ALL_KEYS } else { TEXT_KEYS };
                add_key_products(&key_cues, &mut sums_by_form[form], &mut row_sums[form]);
                keys[form] += 1;
            }
            // Text keys belong to both key sets.
            keys[ALL_KEYS] += keys[TEXT_KEYS];
            let [others, text] = &mut row_sums;
            others.iter_mut().zip(&*text).for_each(|(sum, text)| *sum += text);
            for form in [ALL_KEYS, TEXT_KEYS] {
                let means = row_sums[form].map(|sum| sum / keys[form].max(1) as f64);
                cues.cue_mean_sums[form].iter_mut().zip(means).for_each(|(sum, mean)| *sum += mean);
                cues.cue_means[form].push(means);
                cues.key_counts[form].push(keys[form]);
            }
        }
        // Products of text are equal in both key sets, so they were summed once.
        let [others, text] = sums_by_form;
        let all = others.iter().zip(&text).map(|(a, b)| a + b).collect();
        let products = |form: usize, mut cells: Vec<f64>| {
            let rows = cues.cue_means[form].iter().zip(&cues.key_counts[form]);
            rows.for_each(|(means, &keys)| centre_products(&mut cells, means, keys as f64));
            CueProducts { cells, rows: count as u64, keys: cues.key_counts[form].iter().sum::<usize>() as u64 }
        };
        let products_by_form = [
            (count > 0 && n > 1).then(|| products(ALL_KEYS, all)),
            (count >= MIN_TEXT_TOKENS).then(|| products(TEXT_KEYS, text)),
        ];
        (cues, products_by_form)
    }

    /// Computes the cues that depend on one token alone, and the cosines between tokens. `keys_by_pair_cue`, `key_counts` and
    /// `cue_means` have no entries yet.
    fn with_key_cues(sequence: &Sequence, lexicon: &TokenLexicon) -> Self {
        let n = sequence.ids.len();
        let is_text = |token: usize| !sequence.kinds[token].is_special();
        let text: Vec<usize> = (0..n).filter(|&token| is_text(token)).collect();
        let others = (0..n).filter(|&token| !is_text(token));
        let special = others.map(|token| (token, special_cue(sequence.kinds[token]))).collect();
        let mut tags = vec![None; n];
        for (tag, word) in tags.iter_mut().zip(sequence.words_by_token()) {
            let annotation = word.and_then(|word| sequence.annotations.get(word));
            *tag = annotation.and_then(|annotation| annotation.upos).map(|upos: Upos| upos as usize);
        }
        let common =
            |token: usize| lexicon.counts.as_ref().map_or(0.0, |counts| counts.get(sequence.ids[token]).commonness);
        let commonness = (0..n).map(|token| if is_text(token) { common(token) } else { 0.0 }).collect();
        let width = n.next_multiple_of(LANES);
        let listed = vec![<[Vec<usize>; PAIR_CUE_COUNT]>::default(); text.len()];
        let cosines = lexicon.embeddings.as_ref().map_or_else(Vec::new, |embeddings| {
            let ids: Vec<u32> = text.iter().map(|&token| sequence.ids[token]).collect();
            cosine_rows(&cosines(&ids, embeddings), &ids, &text, width)
        });
        let count = text.len();
        let means = [Vec::with_capacity(count), Vec::with_capacity(count)];
        Self {
            text_tokens: text,
            special_cues: special,
            tags,
            commonness,
            cosines,
            row_width: width,
            keys_by_pair_cue: listed,
            key_counts: [Vec::with_capacity(count), Vec::with_capacity(count)],
            cue_means: means,
            cue_mean_sums: [[0.0; CUE_COUNT]; KEY_SET_COUNT],
        }
    }

    /// Writes the cues of one key for one query to `key_cues`, and adds the key to `keys_by_pair_cue`.
    fn collect_cues(
        &mut self,
        key_cues: &mut CueWeights,
        words: &SentenceWords,
        sequence: &Sequence,
        (row, query, key): (usize, usize, usize),
    ) {
        key_cues.clear();
        match sequence.kinds[key] {
            kind if kind.is_special() => key_cues.extend(special_cue(kind).map(|cue| (cue, 1.0))),
            _ => {
                if query.abs_diff(key) <= MAX_OFFSET_TOKENS {
                    key_cues.push((FIRST_OFFSET_CUE + offset_slot(query, key), 1.0));
                } else if key < query {
                    key_cues.push((FAR_LEFT_CUE, 1.0));
                }
                if key != query {
                    let has = [
                        sequence.ids[key] == sequence.ids[query],
                        words.are_different_words(query, key)
                            && self.tags[key].is_some()
                            && self.tags[key] == self.tags[query],
                        words.is_syntactic_head(key, query),
                        words.is_syntactic_head(query, key),
                        words.are_siblings(query, key),
                    ];
                    const _: () = assert!(
                        SAME_TOKEN_CUE == FIRST_PAIR_CUE
                            && SAME_TAG_CUE == FIRST_PAIR_CUE + 1
                            && SYNTACTIC_HEAD_CUE == FIRST_PAIR_CUE + 2
                    );
                    const _: () = assert!(DEPENDENT_CUE == FIRST_PAIR_CUE + 3 && SIBLING_CUE == FIRST_PAIR_CUE + 4);
                    for (list, _) in has.iter().enumerate().filter(|(_, has)| **has) {
                        self.keys_by_pair_cue[row][list].push(key);
                        key_cues.push((FIRST_PAIR_CUE + list, 1.0));
                    }
                }
                if self.commonness[key] != 0.0 {
                    key_cues.push((COMMONNESS_CUE, self.commonness[key]));
                }
                if let Some(&cosine) = self.cosines.get(row * self.row_width + key).filter(|cosine| **cosine != 0.0) {
                    key_cues.push((COSINE_CUE, f64::from(cosine)));
                }
                if let Some(tag) = self.tags[key] {
                    key_cues.push((FIRST_TAG_CUE + tag, 1.0));
                }
            }
        }
    }

    /// Weight of each key under uniform attention, in a row over the key set with index `form`.
    pub fn uniform_weight(&self, form: usize, row: usize) -> f64 {
        1.0 / self.key_counts[form][row] as f64
    }
}

/// Index of a special token's cue. `None` for kinds without a cue.
fn special_cue(kind: TokenKind) -> Option<usize> {
    match kind {
        TokenKind::FirstSpecial => Some(FIRST_SPECIAL_CUE),
        TokenKind::First => Some(FIRST_TOKEN_CUE),
        TokenKind::Separator => Some(SEPARATOR_CUE),
        TokenKind::OtherSpecial | TokenKind::Text | TokenKind::Punctuation => None,
    }
}

/// Spreads the cosines between text tokens to rows over all tokens, `[text tokens, width]`. Cosines of tokens with equal
/// ids become 0.
#[expect(clippy::cast_possible_truncation, reason = "weights are f32, and so is what they are multiplied with")]
fn cosine_rows(cosines: &[f64], ids: &[u32], text: &[usize], width: usize) -> Vec<f32> {
    let mut rows = vec![0.0; text.len() * width];
    for (row, cosines) in cosines.chunks_exact(text.len().max(1)).enumerate() {
        for (other, &cosine) in cosines.iter().enumerate().filter(|(other, _)| ids[*other] != ids[row]) {
            rows[row * width + text[other]] = cosine as f32;
        }
    }
    rows
}

/// Adds the cues of one key to the row's sums, and the products of its cues to the lower half of the matrix.
fn add_key_products(key_cues: &CueWeights, products: &mut [f64], row_sums: &mut [f64; CUE_COUNT]) {
    for (place, &(cue, value)) in key_cues.iter().enumerate() {
        row_sums[cue] += value;
        key_cues[..=place]
            .iter()
            .for_each(|&(other, other_value)| products[lower_half_index(cue, other)] += value * other_value);
    }
}

/// Centres the products of cues within a row: subtracts the products of the row's means, times the number of keys.
fn centre_products(products: &mut [f64], means: &[f64; CUE_COUNT], keys: f64) {
    let present: Vec<usize> = (0..CUE_COUNT).filter(|&cue| means[cue] != 0.0).collect();
    for (place, &cue) in present.iter().enumerate() {
        let scaled = keys * means[cue];
        present[..=place].iter().for_each(|&other| products[lower_half_index(cue, other)] -= scaled * means[other]);
    }
}

/// Word of each token, and syntactic head of each word.
struct SentenceWords {
    /// Index of each token's word. `None` for tokens outside words.
    word_of_token: Vec<Option<usize>>,
    heads: Vec<Option<usize>>,
}

impl SentenceWords {
    fn new(sequence: &Sequence) -> Self {
        let word_of_token = sequence.words_by_token();
        let heads = sequence.tree.iter().flatten().map(|arc| arc.head.word()).collect();
        Self { word_of_token, heads }
    }

    /// Whether two tokens belong to different words.
    fn are_different_words(&self, a: usize, b: usize) -> bool {
        self.word_of_token[a] != self.word_of_token[b]
    }

    /// Index of the word that is the syntactic head of a token's word. `None` for roots and where unknown.
    fn syntactic_head(&self, token: usize) -> Option<usize> {
        *self.heads.get(self.word_of_token[token]?)?
    }

    /// Whether the word of `token` is the syntactic head of the word of `dependent`, and the words differ.
    fn is_syntactic_head(&self, token: usize, dependent: usize) -> bool {
        self.word_of_token[token].is_some()
            && self.syntactic_head(dependent) == self.word_of_token[token]
            && self.are_different_words(token, dependent)
    }

    /// Whether two tokens' words differ and have one syntactic head in common.
    fn are_siblings(&self, a: usize, b: usize) -> bool {
        self.are_different_words(a, b)
            && self.syntactic_head(a).is_some()
            && self.syntactic_head(a) == self.syntactic_head(b)
    }
}
