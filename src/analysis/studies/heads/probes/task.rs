//! The tasks of probes: which class a word has.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::corpus::relation::base;
use crate::corpus::{TreeHead, Upos};
use crate::sequences::sequence::Sequence;

pub const ALWAYS: [&str; 2] = ["upos", "relation"];

pub fn tasks(requested: &[String]) -> Vec<String> {
    ALWAYS.into_iter().map(str::to_owned).chain(requested.iter().cloned()).collect()
}

/// The class of a word in each task, in the order of [`tasks`]; `None` where it has none.
pub fn classes(sequence: &Sequence, word: usize) -> impl Iterator<Item = Option<&str>> {
    let annotation = sequence.annotations.get(word);
    let upos = annotation.and_then(|annotation| annotation.upos).map(Upos::tag);
    let arc = sequence.tree.as_ref().and_then(|tree| tree.get(word));
    let relation = arc.filter(|arc| arc.head != TreeHead::Unknown).map(|arc| base(&arc.relation));
    let requested = annotation.map(|annotation| &*annotation.requested).unwrap_or_default();
    [upos, relation].into_iter().chain(requested.iter().map(Option::as_deref))
}

/// The buckets of forms: a control task gives all forms of one the same class.
///
/// The classes of a control task have shares that are whole 128ths; twice as many buckets would cost a third more room than
/// all classes of a treebank take.
pub const BUCKETS: usize = 128;

/// A form without its case, as eight bytes of SHA-256: what the control task and the most frequent class of a form know
/// of it. Signed, for it is no count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Form(pub i64);

impl Form {
    /// The form of a word; of no form where the sequence has none.
    pub fn of(sequence: &Sequence, word: usize) -> Self {
        let form = sequence.forms.get(word).map(|form| form.to_lowercase()).unwrap_or_default();
        let hash = Sha256::digest(format!("headscope/probes/0/{form}"));
        Self(i64::from_be_bytes(std::array::from_fn(|byte| hash[byte])))
    }

    pub fn bucket(self) -> u8 {
        u8::try_from(self.0.cast_unsigned() >> (64 - BUCKETS.ilog2())).expect("seven bits")
    }
}
