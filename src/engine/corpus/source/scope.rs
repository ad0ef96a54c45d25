//! Scope of a run: which sentences are read, and their sampling unit, decided once by reading the files ahead.
//!
//! Where documents are the sampling unit, a limit takes complete documents spread over the corpus, since neighbours are often
//! alike. Otherwise it takes the first sentences, shared equally among files.

use std::sync::Arc;

use crate::corpus::family::{Unit, UnitMarks};

#[derive(Clone, Debug, Default)]
pub struct CorpusScope {
    /// Approximate number of sentences to read; `None` for all.
    limit: Option<u64>,
    /// Sampling unit that the run asks for; `None` if the corpus decides it.
    unit: Option<Unit>,
    /// Half of the sampling units to read; `None` for all.
    pub(super) half: Option<UnitHalf>,
    /// Sampling unit and part of the corpus to read; `None` before they are decided.
    pub(super) decision: Option<Arc<ScopeDecision>>,
}

/// Half of the sampling units, those with even or those with odd numbers. Units are renumbered within a half, so that they
/// fill all jackknife blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitHalf {
    Even,
    Odd,
}

impl UnitHalf {
    pub const BOTH: [Self; 2] = [Self::Even, Self::Odd];

    pub fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Odd => "odd",
        }
    }

    /// The other half of the units.
    pub fn other(self) -> Self {
        if self == Self::Even { Self::Odd } else { Self::Even }
    }

    /// Whether the sampling unit with this number is in this half.
    pub fn contains(self, unit: u64) -> bool {
        unit % 2 == self as u64
    }

    /// Number of units in this half among the first `units` units.
    pub fn count(self, units: u64) -> u64 {
        (units + 1 - self as u64) / 2
    }
}

/// Sampling unit of the jackknife blocks and part of the corpus to read, both decided before reading begins.
#[derive(Debug)]
pub(super) struct ScopeDecision {
    pub unit: Unit,
    pub part: PartToRead,
}

/// The part of a corpus that is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PartToRead {
    All,
    /// This many sentences from the beginning of the corpus.
    First(u64),
    /// The first sentences of each file; their number per file.
    FirstOfFiles(Vec<u64>),
    /// Complete documents. `taken` has their numbers, ascending; `of` is the number of documents in the corpus; `sentences`
    /// is the number of sentences in the taken documents.
    Documents {
        taken: Vec<u64>,
        of: u64,
        sentences: u64,
    },
}

impl CorpusScope {
    /// Makes a scope of about `limit` sentences, or of all sentences for `None`; `unit` overrides the sampling unit that
    /// the corpus implies.
    pub fn new(limit: Option<u64>, unit: Option<Unit>) -> Self {
        Self { limit, unit, half: None, decision: None }
    }

    pub fn with_half(self, half: Option<UnitHalf>) -> Self {
        Self { half, ..self }
    }

    /// Makes a scope of the complete corpus. Sentences are the sampling unit, so no file needs to be read ahead.
    pub fn all_sentences() -> Self {
        Self::new(None, Some(Unit::Sentences))
    }

    /// Number of sentences to read; `None` if all are read, or before the part to read is decided.
    pub fn sentence_count(&self) -> Option<u64> {
        match self.part()? {
            PartToRead::All => None,
            PartToRead::First(count) => Some(*count),
            PartToRead::FirstOfFiles(shares) => Some(shares.iter().sum()),
            PartToRead::Documents { sentences, .. } => Some(*sentences),
        }
    }

    /// The part of the corpus to read; `None` before it is decided.
    pub(super) fn part(&self) -> Option<&PartToRead> {
        Some(&self.decision.as_deref()?.part)
    }

    /// Scope of the complete corpus; its sampling unit is `own`, unless the run asks for another unit.
    pub(super) fn with_all_sentences(&self, own: Unit) -> Self {
        let unit = self.unit.unwrap_or(own);
        Self { decision: Some(Arc::new(ScopeDecision { unit, part: PartToRead::All })), ..self.clone() }
    }

    /// Whether the run asks for sentences as the sampling unit, even if the corpus marks documents or families.
    pub(super) fn has_sentence_unit(&self) -> bool {
        self.unit == Some(Unit::Sentences)
    }

    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Decides the sampling unit and the part to read. `read_ahead` reads the files ahead, and with `true` goes on to count all
    /// documents. `sentences_per_file` divides a limit among the files.
    pub(super) fn decide(
        &self,
        read_ahead: impl FnOnce(bool) -> ReadAhead,
        sentences_per_file: impl FnOnce(u64) -> Option<Vec<u64>>,
    ) -> Self {
        let ahead = if self.has_sentence_unit() { ReadAhead::default() } else { read_ahead(self.is_limited()) };
        let unit = self.unit.unwrap_or_else(|| ahead.marks.unit());
        let part = match self.limit {
            None => PartToRead::All,
            Some(limit) if unit == Unit::Documents => spread_documents(&ahead.documents, limit),
            Some(limit) => sentences_per_file(limit).map_or(PartToRead::First(limit), PartToRead::FirstOfFiles),
        };
        Self { decision: Some(Arc::new(ScopeDecision { unit, part })), ..self.clone() }
    }
}

/// Facts about the corpus files from reading them ahead.
#[derive(Default)]
pub(super) struct ReadAhead {
    pub marks: UnitMarks,
    /// Number of sentences in each document, in the order of the corpus.
    pub documents: Vec<u64>,
}

/// Takes complete documents until they have `limit` sentences; `documents` has the number of sentences of each. Documents
/// are taken in the order of the van der Corput sequence (van der Corput 1935), so they are about evenly spaced. A larger
/// limit keeps all documents of a smaller one.
fn spread_documents(documents: &[u64], limit: u64) -> PartToRead {
    let bits = documents.len().next_power_of_two().trailing_zeros();
    let order =
        (0..1_usize << bits).map(|place| if bits == 0 { 0 } else { place.reverse_bits() >> (usize::BITS - bits) });
    let (mut taken, mut sentences) = (Vec::new(), 0);
    for document in order.filter(|&document| document < documents.len()) {
        if sentences >= limit {
            break;
        }
        taken.push(document as u64);
        sentences += documents[document];
    }
    taken.sort_unstable();
    PartToRead::Documents { taken, of: documents.len() as u64, sentences }
}

/// Divides `limit` sentences equally among `files` files. A file with fewer sentences than its share gives all of them;
/// `count(file, most)` counts a file's sentences up to `most`. The remainder goes to the earliest files that have more.
pub(super) fn equal_shares(files: usize, limit: u64, count: impl Fn(usize, u64) -> u64) -> Vec<u64> {
    let mut shares = vec![0; files];
    let (mut left, mut others): (u64, Vec<usize>) = (limit, (0..files).collect());
    loop {
        let Some(share) = left.checked_div(others.len() as u64) else { return shares };
        let counted: Vec<(usize, u64)> = others.iter().map(|&file| (file, count(file, share + 1))).collect();
        let (short, long): (Vec<_>, Vec<_>) = counted.into_iter().partition(|(_, sentences)| *sentences <= share);
        others = long.into_iter().map(|(file, _)| file).collect();
        if short.is_empty() {
            let remainder = left % others.len() as u64;
            others.iter().zip(0..).for_each(|(&file, index)| shares[file] = share + u64::from(index < remainder));
            return shares;
        }
        for (file, sentences) in short {
            (shares[file], left) = (sentences, left - sentences);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(documents: &[u64], limit: u64) -> Vec<u64> {
        let PartToRead::Documents { taken, of, sentences } = spread_documents(documents, limit) else {
            panic!("documents")
        };
        assert_eq!(of, documents.len() as u64);
        let of_taken = documents.iter().zip(0..).filter(|(_, document)| taken.contains(document));
        assert_eq!(sentences, of_taken.map(|(count, _)| count).sum::<u64>());
        taken
    }

    #[test]
    fn every_unit_is_in_one_half() {
        for units in 0..7 {
            let of = UnitHalf::BOTH.map(|half| (0..units).filter(|&unit| half.contains(unit)).count() as u64);
            assert_eq!((of, of[0] + of[1]), (UnitHalf::BOTH.map(|half| half.count(units)), units));
        }
        assert!(UnitHalf::Even.contains(4) && UnitHalf::Odd.contains(5) && UnitHalf::Even.other() == UnitHalf::Odd);
    }

    #[test]
    fn documents_are_taken_whole_and_apart() {
        // The order of eight is 0, 4, 2, 6, 1, 5, 3, 7.
        assert_eq!(taken(&[10; 8], 1), [0]);
        assert_eq!(taken(&[10; 8], 40), [0, 2, 4, 6]);
        assert_eq!(taken(&[10; 8], 41), [0, 1, 2, 4, 6]);
        assert_eq!(taken(&[10; 8], 1000), [0, 1, 2, 3, 4, 5, 6, 7]);
        // Of six the order is 0, 4, 2, 1, 5, 3; the fifth has 25 sentences.
        assert_eq!(taken(&[10, 10, 10, 10, 25, 10], 30), [0, 4]);
        assert_eq!((taken(&[7], 3), taken(&[], 3)), (vec![0], vec![]));
    }

    fn even_shares(sizes: &[u64], limit: u64) -> Vec<u64> {
        equal_shares(sizes.len(), limit, |file, most| sizes[file].min(most))
    }

    #[test]
    fn every_file_gives_as_many_as_it_can() {
        assert_eq!(even_shares(&[9, 9, 9], 6), [2, 2, 2]);
        assert_eq!(even_shares(&[9, 9, 9], 8), [3, 3, 2]);
        // What the second lacks comes from the others, and what those lack from the last.
        assert_eq!(even_shares(&[9, 1, 9], 9), [4, 1, 4]);
        assert_eq!(even_shares(&[3, 0, 1, 9], 10), [3, 0, 1, 6]);
        // Fewer sentences than files, or than are asked for.
        assert_eq!(even_shares(&[9, 9, 9], 2), [1, 1, 0]);
        assert_eq!(even_shares(&[2, 1], 10), [2, 1]);
        assert_eq!(even_shares(&[2, 1], 0), [0, 0]);
    }
}
