//! The passes of a study: each with the empty sums of its observer, and with the sums when the pass is over.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use anyhow::Result;

use super::upstream::{NOTHING, UpstreamResults};
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::kept::Keep;
use crate::passes::observer::by_class::ByClass;
use crate::passes::observer::{self, Observer, Sums, observer_of};
use crate::passes::pass::Pass;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;

type ObserverFactory = dyn Fn(&Subject<'_>) -> Box<dyn Observer>;

/// A pass that a study observes, with sums of its own.
pub struct PassSpec {
    pub pass: Pass,
    /// Whether it is of the second stage, whose sums are made from the results of the first stage.
    pub follows: bool,
    /// Activations that a pass of the first stage over the same sequences may keep for this one.
    pub keep: Option<Keep>,
    make: Box<ObserverFactory>,
    restore: fn(&[u8]) -> Result<Box<dyn Observer>>,
}

impl PassSpec {
    pub fn new<S: Sums>(pass: Pass, make: impl Fn(&Subject<'_>) -> S + 'static) -> Self {
        let make = Box::new(move |subject: &Subject<'_>| observer_of(make(subject)));
        Self { pass, follows: false, keep: None, make, restore: observer::restored::<S> }
    }

    /// A pass with sums for each class of layers, made for the keys that its queries see.
    pub fn by_class<S: Sums>(pass: Pass, make: impl Fn(&Subject<'_>, Visibility) -> S + 'static) -> Self {
        Self::new(pass, move |subject| ByClass::new(subject.classes, |visibility| make(subject, visibility)))
    }

    pub fn following(self) -> Self {
        Self { follows: true, ..self }
    }

    /// This pass in the second stage; it needs no more than this of those sequences, so that a pass of the first may keep it.
    pub fn following_kept(self, needs: Needs, of: fn(&Sequence) -> bool) -> Self {
        Self { follows: true, keep: Some(Keep { needs, of }), ..self }
    }

    pub fn observer(&self, subject: &Subject<'_>) -> Box<dyn Observer> {
        (self.make)(subject)
    }

    /// An observer with the sums of a partial.
    /// Fails if the bytes are no such sums.
    pub fn restore(&self, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        (self.restore)(bytes)
    }
}

/// The model and the settings that empty sums are made for.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub grid: HeadGrid,
    pub classes: &'a LayerClasses,
    /// The first layer with the weights of each; empty where each has its own.
    pub first_layers: &'a [usize],
    pub from: FromToken,
    pub token_id: &'a dyn Fn(&str) -> Option<u32>,
    /// The columns and keys of the corpus that are probed for beside UPOS and relation.
    pub probes: &'a [String],
    /// The column or key of the corpus with the class of each word, if one was named.
    pub classes_from: Option<&'a str>,
    /// The results of the first stage, for passes of the second; empty before that.
    pub found: &'a UpstreamResults,
    /// The study's own sums of the first stage, for its passes of the second.
    pub own: Observed<'a>,
    pub threads: NonZeroUsize,
}

impl<'a> Subject<'a> {
    /// A model whose queries see every key, and settings, before anything was observed; no columns are probed for.
    pub fn new(grid: HeadGrid, from: FromToken, token_id: &'a dyn Fn(&str) -> Option<u32>) -> Self {
        static WHOLE: LazyLock<LayerClasses> = LazyLock::new(LayerClasses::default);
        Self {
            grid,
            classes: &WHOLE,
            first_layers: &[],
            from,
            token_id,
            probes: &[],
            classes_from: None,
            found: &NOTHING,
            own: Observed(&[]),
            threads: NonZeroUsize::MIN,
        }
    }
}

/// The sums of a study over its finished passes, in the order of the passes.
#[derive(Clone, Copy)]
pub struct Observed<'a>(pub &'a [ObservedPass<'a>]);

#[derive(Clone, Copy)]
pub struct ObservedPass<'a> {
    pub sums: &'a dyn Observer,
    /// Sentences of the corpus that are in none of the pass's sequences, though they could be encoded.
    pub left_out: u64,
}

impl<'a> Observed<'a> {
    pub fn each<S: Sums>(&self) -> impl Iterator<Item = &'a S> {
        self.0.iter().filter_map(|pass| observer::sums_if(pass.sums))
    }

    /// The sums of this type.
    /// Panics if no pass has sums of this type.
    pub fn sums<S: Sums>(&self) -> &'a S {
        self.each().next().expect("a study gets back the sums that it gave")
    }

    /// Sentences that are in no sequence of the first pass, though they could be encoded.
    pub fn left_out(&self) -> u64 {
        self.0.first().map_or(0, |pass| pass.left_out)
    }
}
