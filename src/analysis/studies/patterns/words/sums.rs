//! Sums of attention to kinds of words and tokens, per jackknife block of sentences.

use serde::{Deserialize, Serialize};

use super::observe::{
    self, MASS_COUNT, QUERY_SET_COUNT, QuerySet, SAME_TAG_MASS, SAME_TOKEN_MASS, SAME_WORD_MASS, SentenceMasses,
    TAG_COUNT, WordRowBuffers, query_set,
};
use super::sentence::{TaggedWords, TextToken, TextTokens};
use crate::model::forward::WordEmbeddings;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::{Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::even::UniformAttention;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::{ExactSum, add_elementwise};
use crate::study::instruments::position::{PositionPairs, ProfileSums, QueryKeyPair, TargetRates};

/// Sums of one attention head over the sentences of one block. A mass is attention summed over one kind of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WordHeadSums {
    /// Mass on each kind of keys, summed over the queries in the set that `query_set` returns for this mass.
    pub masses: [ExactSum; MASS_COUNT],
    /// Number of queries with attention to keys whose embedding similarity to the query is known.
    pub queries_with_likeness: u64,
    /// Attention by offset from query to key, for each set of queries.
    pub profiles: [ProfileSums; QUERY_SET_COUNT],
}

merge_fields!(WordHeadSums { masses, queries_with_likeness, profiles });

impl WordHeadSums {
    /// Adds the masses of one sentence. `met` says for each query set whether any of its queries is in the sentence.
    fn add_sentence(&mut self, seen: &SentenceMasses, met: [bool; QUERY_SET_COUNT]) {
        add_elementwise(&mut self.masses, &seen.masses);
        self.queries_with_likeness += seen.queries_with_likeness;
        let profiles = self.profiles.iter_mut().zip(&seen.profiles);
        profiles.zip(met).filter(|(_, met)| *met).for_each(|((sums, profile), _)| sums.add(profile));
    }
}

/// Denominators of the metrics. All attention heads share them, since they depend on the sentences alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WordExposure {
    /// Number of queries in each set.
    pub queries: [u64; QUERY_SET_COUNT],
    /// Number of sentences with a query of each set. Related sentences count once.
    pub sentences: [u64; QUERY_SET_COUNT],
    /// Number of words with each UPOS tag.
    pub tags: [u64; TAG_COUNT],
}

merge_fields!(WordExposure { queries, sentences, tags });

impl WordExposure {
    /// Counts `count` queries of one sentence. `is_first` is false for related sentences after the first.
    fn count_queries(&mut self, queries: QuerySet, count: usize, is_first: bool) {
        self.queries[queries as usize] += count as u64;
        self.sentences[queries as usize] += u64::from(count > 0 && is_first);
    }
}

/// Sums over one jackknife block, or over all blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WordsBlock {
    pub exposure: WordExposure,
    /// Each mass under uniform attention to visible keys.
    pub uniform: [ExactSum; MASS_COUNT],
    /// Uniform attention over the query-key pairs of each query set, by offset. A target is a kind of keys whose mass is
    /// averaged over the set.
    pairs: [PositionPairs; QUERY_SET_COUNT],
    /// Sums of each attention head, `[layers * heads]`.
    pub heads: Vec<WordHeadSums>,
}

impl WordsBlock {
    /// Returns for each mass (attention to a kind of keys) the probability, by offset, that a key is of that kind.
    /// Rates are over all blocks, and over all but `block`; `None` leaves no block out.
    pub fn rates(&self, block: Option<&Self>) -> Vec<TargetRates> {
        let rates = |mass: usize| {
            let queries = query_set(mass) as usize;
            let target = if queries == QuerySet::Words as usize { mass } else { 0 };
            self.pairs[queries].rates(target, block.map(|block| &block.pairs[queries]))
        };
        (0..MASS_COUNT).map(rates).collect()
    }
}

merge_fields!(WordsBlock { exposure, uniform, pairs, heads });

/// Attention to kinds of words and tokens in each jackknife block, over the layers with one attention mask.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WordsSums {
    grid: HeadGrid,
    visibility: Visibility,
    from: FromToken,
    pub blocks: Blocks<WordsBlock>,
    /// Input embeddings of the model. `None` if the model gives no access to them.
    #[serde(skip)]
    embeddings: Option<WordEmbeddings>,
    #[serde(skip)]
    room: WordRowBuffers,
}

/// Number of masses (kinds of attended keys) that are averaged over the query set with index `queries`.
fn target_count(queries: usize) -> usize {
    if queries == QuerySet::Words as usize { TAG_COUNT } else { 1 }
}

impl WordsSums {
    pub fn new(grid: HeadGrid, visibility: Visibility, from: FromToken) -> Self {
        let empty = WordsBlock {
            exposure: WordExposure::default(),
            uniform: [ExactSum::default(); MASS_COUNT],
            pairs: std::array::from_fn(|queries| PositionPairs::new(target_count(queries))),
            heads: vec![WordHeadSums::default(); grid.head_count()],
        };
        Self { grid, visibility, from, blocks: Blocks::new(empty), embeddings: None, room: WordRowBuffers::default() }
    }

    /// Counts the words of one sentence as queries and keys, without attention.
    fn count_words(&mut self, (block, is_first): (usize, bool), words: &TaggedWords) {
        let TaggedWords { words: tagged, mask_of_word: fellows, .. } = words;
        let tags = &tagged.classes;
        let with_fellows = || (0..tags.len()).filter(|&word| fellows[word].is_some());
        let exposure = &mut self.blocks[block].exposure;
        exposure.count_queries(QuerySet::Words, tags.len(), is_first);
        exposure.count_queries(QuerySet::Tagged, with_fellows().count(), is_first);
        tags.iter().flatten().for_each(|&tag| exposure.tags[tag] += 1);
        let mut uniform = [0.0; MASS_COUNT];
        tagged.add_uniform_masses(&mut uniform);
        for query in with_fellows() {
            let fellows = tagged.other_words(query).filter(|&key| words.have_same_tag(query, key));
            uniform[SAME_TAG_MASS] += fellows.map(|key| tagged.uniform_weight(query, key)).sum::<f64>();
        }
        add_elementwise(&mut self.blocks[block].uniform, &uniform);
        self.blocks[block].pairs[QuerySet::Words as usize].add(tagged.word_pairs());
        let pair = |query: usize, key: usize| {
            let target = words.have_same_tag(query, key).then_some((0, 1.0));
            QueryKeyPair { query, key, weight: tagged.uniform_weight(query, key), target }
        };
        let tagged = with_fellows().flat_map(|query| tagged.other_words(query).map(move |key| pair(query, key)));
        self.blocks[block].pairs[QuerySet::Tagged as usize].add(tagged);
    }

    /// Counts the text tokens of one sentence of `n` tokens as queries and keys, without attention.
    fn count_tokens(&mut self, (block, is_first): (usize, bool), n: usize, tokens: &TextTokens) {
        let TextTokens { text, similarities: likeness, .. } = tokens;
        let (visibility, even) = (self.visibility, UniformAttention::new(self.visibility, n));
        let repeated = |token: &&TextToken| token.occurrences.len() > 1;
        let repeated_word = |token: &&TextToken| repeated(token) && !token.is_punctuation;
        let sets: [(QuerySet, usize, Vec<&TextToken>); 2] = [
            (QuerySet::Repeated, SAME_TOKEN_MASS, text.iter().filter(repeated).collect()),
            (QuerySet::RepeatedWords, SAME_WORD_MASS, text.iter().filter(repeated_word).collect()),
        ];
        let mut uniform = [0.0; MASS_COUNT];
        for (queries, mass, tokens) in &sets {
            uniform[*mass] =
                tokens.iter().map(|token| (token.occurrences.len() - 1) as f64 * even.weight(token.position)).sum();
            let pairs = tokens.iter().flat_map(|query| {
                let is_other =
                    |key: &&TextToken| key.position != query.position && visibility.sees(query.position, key.position);
                text.iter().filter(is_other).map(move |key| QueryKeyPair {
                    query: query.position,
                    key: key.position,
                    weight: even.weight(query.position),
                    target: query.occurrences.contains(&key.position).then_some((0, 1.0)),
                })
            });
            self.blocks[block].pairs[*queries as usize].add(pairs);
        }
        let queries_with_likeness =
            || text.iter().filter_map(|query| query.similarities_start.map(|start| (query, start)));
        let pairs = queries_with_likeness().flat_map(|(query, start)| {
            let is_key = |key: &&TextToken| {
                !query.occurrences.contains(&key.position) && visibility.sees(query.position, key.position)
            };
            let weight = 1.0 / text.iter().filter(is_key).count() as f64;
            text.iter().filter(is_key).map(move |key| QueryKeyPair {
                query: query.position,
                key: key.position,
                weight,
                target: Some((0, f64::from(likeness[start + key.position]))),
            })
        });
        self.blocks[block].pairs[QuerySet::WithSimilarity as usize].add(pairs);
        add_elementwise(&mut self.blocks[block].uniform, &uniform);
        let exposure = &mut self.blocks[block].exposure;
        sets.iter().for_each(|(queries, _, tokens)| exposure.count_queries(*queries, tokens.len(), is_first));
        exposure.count_queries(QuerySet::WithSimilarity, queries_with_likeness().count(), is_first);
    }
}

/// The sentence being observed, with its words and tokens.
#[derive(Debug)]
pub struct WordState {
    block: usize,
    words: Option<TaggedWords>,
    tokens: TextTokens,
    /// Whether the sentence has a query of each set.
    has_queries: [bool; QUERY_SET_COUNT],
}

merge_fields!(WordsSums[grid, visibility, from] { blocks });

impl Sums for WordsSums {
    type SequenceState = WordState;

    fn begin_pass(&mut self, setup: &PassSetup<'_>) {
        self.embeddings.clone_from(&setup.embeddings);
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<WordState> {
        let block = block_of(sequence.family.number);
        let words = TaggedWords::new(sequence, self.visibility, self.from);
        let tokens = TextTokens::new(sequence, self.visibility, self.embeddings.as_ref());
        let before = self.blocks[block].exposure.queries;
        if let Some(words) = &words {
            self.count_words((block, sequence.family.is_first), words);
        }
        self.count_tokens((block, sequence.family.is_first), sequence.ids.len(), &tokens);
        let after = self.blocks[block].exposure.queries;
        Some(WordState {
            block,
            words,
            tokens,
            has_queries: std::array::from_fn(|queries| after[queries] > before[queries]),
        })
    }

    fn observe(&mut self, state: &mut WordState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        let view = input.attention();
        let head = self.grid.index(view.layer, view.head);
        let mut seen = SentenceMasses::default();
        if let Some(words) = &state.words {
            observe::add_word_masses(words, input.word_attention(self.from), &mut self.room, &mut seen);
        }
        observe::add_token_masses(&state.tokens, input.text_attention(), &mut self.room, &mut seen);
        self.blocks[state.block].heads[head].add_sentence(&seen, state.has_queries);
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        (self.grid, self.from) == (grid, from)
            && classes.visibilities() == [self.visibility]
            && self.blocks.is_valid(|block| {
                let targets = |(queries, pairs): (usize, &PositionPairs)| pairs.target_count() == target_count(queries);
                block.heads.len() == grid.head_count() && block.pairs.iter().enumerate().all(targets)
            })
    }
}

/// Sums of one attention head from which its metrics are computed, in one jackknife block or in all.
pub(super) struct WordInputs<'a> {
    pub exposure: &'a WordExposure,
    /// Denominators over all blocks. If the corpus lacks a tag, its metrics have no value, instead of 0.
    pub corpus_exposure: &'a WordExposure,
    pub sums: &'a WordHeadSums,
    /// Sums of the head over all blocks.
    pub corpus_sums: &'a WordHeadSums,
    pub uniform: &'a [ExactSum; MASS_COUNT],
    pub rates: &'a [TargetRates],
}
