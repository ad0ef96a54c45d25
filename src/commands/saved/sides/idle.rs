//! Heads that do nothing on one side: absent, removed, or writing a constant. A role of such a head is lost.

use schemars::JsonSchema;
use serde::Serialize;

use super::Side;
use crate::model::grid::HeadPlace;

/// Why a head does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Idleness {
    /// The checkpoint was saved without the head.
    Absent,
    /// The run removed the head (`--remove`).
    Removed,
    /// The head writes a constant whatever it attends to (`model.constant_heads`).
    WritesConstant,
}

/// A head that does nothing on one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IdleHead {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The side, `a` or `b`.
    pub side: &'static str,
    /// Why it does nothing there.
    pub why: Idleness,
}

impl Idleness {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Removed => "removed",
            Self::WritesConstant => "writes a constant",
        }
    }
}

impl Side {
    /// Why the head at a place does nothing; `None` of others.
    fn idleness(&self, place: usize) -> Option<Idleness> {
        let model = &self.circumstances.model;
        if self.findings.absent.contains(&place) {
            Some(Idleness::Absent)
        } else if self.findings.removed.contains(&place) {
            Some(Idleness::Removed)
        } else {
            model.constant_heads.contains(&model.grid().place(place)).then_some(Idleness::WritesConstant)
        }
    }
}

/// Why a head of the first side and its partner on the second do nothing. A head that writes a constant counts as idle only beside one at
/// work: otherwise both sides are compared by where it attends.
pub fn idleness([(a, place), (b, partner)]: [(&Side, usize); 2]) -> [Option<Idleness>; 2] {
    let both = [a.idleness(place), b.idleness(partner)];
    [0, 1].map(|side| both[side].filter(|why| *why != Idleness::WritesConstant || both[1 - side].is_none()))
}

/// The heads that do nothing on one side and something on the other, by their places on the idle side; each head of the first side has its
/// partner on the second, `[layers * heads]`.
pub fn one_sided(a: &Side, b: &Side, partners: &[usize]) -> Vec<IdleHead> {
    let grid = a.circumstances.model.grid();
    let idle = |(place, &partner): (usize, &usize)| match idleness([(a, place), (b, partner)]) {
        [Some(why), None] => Some(IdleHead { place: grid.place(place), side: "a", why }),
        [None, Some(why)] => Some(IdleHead { place: grid.place(partner), side: "b", why }),
        _ => None,
    };
    partners.iter().enumerate().filter_map(idle).collect()
}

/// The heads in one line, at most so many of a kind by name; `None` without any.
pub fn in_words(idle: &[IdleHead], most: usize) -> Option<String> {
    let kinds = ["a", "b"]
        .into_iter()
        .flat_map(|side| [Idleness::Absent, Idleness::Removed, Idleness::WritesConstant].map(|why| (side, why)));
    let of_kind = |(side, why): (&str, Idleness)| {
        let own = idle.iter().filter(|head| head.side == side && head.why == why);
        let names: Vec<String> = own.map(|head| head.place.to_string()).collect();
        let more = names.len().saturating_sub(most);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let shown = names[..names.len().min(most)].join(", ");
        (!names.is_empty()).then(|| format!("{shown}{more} ({} in {side})", why.words()))
    };
    let told: Vec<String> = kinds.filter_map(of_kind).collect();
    (!told.is_empty()).then(|| format!("Heads that do nothing on one side: {}.", told.join("; ")))
}
