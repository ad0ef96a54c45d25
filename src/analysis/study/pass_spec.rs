//! The passes of a study: before a run with a factory of empty sums ([`PassSpec`]), afterwards with the sums ([`ObservedPass`]).

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use anyhow::Result;

use super::upstream::{NO_UPSTREAM_RESULTS, UpstreamResults};
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::kept::KeepRequest;
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::observer::{self, Observer, Sums, new_observer};
use crate::passes::pass::Pass;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;

/// A function that makes an observer with empty sums for a model and settings.
type ObserverFactory = dyn Fn(&Subject<'_>) -> Box<dyn Observer>;

/// A pass over the corpus that a study requests, with the function that makes the study's empty sums.
pub struct PassSpec {
    pub pass: Pass,
    /// Whether the pass runs in the second stage. Its sums may then depend on the results of the first stage, such as
    /// labels.
    pub is_second_stage: bool,
    /// Activations that a first-stage pass over the same sequences may keep, so that this pass can be replayed from
    /// them.
    pub keep: Option<KeepRequest>,
    make: Box<ObserverFactory>,
    restore: fn(&[u8]) -> Result<Box<dyn Observer>>,
}

impl PassSpec {
    /// A pass of the first stage; `make` makes its empty sums.
    pub fn new<S: Sums>(pass: Pass, make: impl Fn(&Subject<'_>) -> S + 'static) -> Self {
        let make = Box::new(move |subject: &Subject<'_>| new_observer(make(subject)));
        Self { pass, is_second_stage: false, keep: None, make, restore: observer::restore_observer::<S> }
    }

    /// A pass with separate sums for each class of layers. `make` also takes the class's visibility: which keys its
    /// queries see.
    pub fn new_by_class<S: Sums>(pass: Pass, make: impl Fn(&Subject<'_>, Visibility) -> S + 'static) -> Self {
        Self::new(pass, move |subject| ByLayerClass::new(subject.classes, |visibility| make(subject, visibility)))
    }

    pub fn in_second_stage(self) -> Self {
        Self { is_second_stage: true, ..self }
    }

    /// Moves this pass to the second stage, where activations that the first stage kept may replace forward passes. The pass
    /// needs the activations `needs` of the sequences that `is_needed` selects.
    pub fn in_second_stage_from_kept(self, needs: Needs, is_needed: fn(&Sequence) -> bool) -> Self {
        Self { is_second_stage: true, keep: Some(KeepRequest { needs, applies_to: is_needed }), ..self }
    }

    /// Makes an observer with empty sums for `subject`.
    pub fn make_observer(&self, subject: &Subject<'_>) -> Box<dyn Observer> {
        (self.make)(subject)
    }

    /// Restores an observer from the bytes of its sums in a partial (saved sums of a run). Fails if the bytes are
    /// not sums of this pass's type.
    pub fn restore(&self, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        (self.restore)(bytes)
    }
}

/// Facts about the model and the run that a pass's sums need at their creation.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub grid: HeadGrid,
    pub classes: &'a LayerClasses,
    /// For each layer, the first layer with equal weights; empty if no layers share weights.
    pub first_layers: &'a [usize],
    pub from_token: FromToken,
    /// Returns the id of a token in the vocabulary; `None` if the vocabulary lacks the token.
    pub token_id: &'a dyn Fn(&str) -> Option<u32>,
    /// Names of the probing tasks besides UPOS and relation: columns or keys of the corpus.
    pub probes: &'a [String],
    /// The column or key of the corpus with the class of each word, if one was named.
    pub class_column: Option<&'a str>,
    /// Results of the first stage, for passes of the second stage; empty during the first stage.
    pub upstream: &'a UpstreamResults,
    /// The sums of the study's first-stage passes, for its passes of the second stage.
    pub first_stage_sums: ObservedPasses<'a>,
    pub threads: NonZeroUsize,
}

impl<'a> Subject<'a> {
    /// Makes the subject of a pass before the first stage: the model, and settings without any results. Every query sees
    /// every key, and the corpus has no columns for probing tasks or classes.
    pub fn new(grid: HeadGrid, from: FromToken, token_id: &'a dyn Fn(&str) -> Option<u32>) -> Self {
        static ONE_CLASS: LazyLock<LayerClasses> = LazyLock::new(LayerClasses::default);
        Self {
            grid,
            classes: &ONE_CLASS,
            first_layers: &[],
            from_token: from,
            token_id,
            probes: &[],
            class_column: None,
            upstream: &NO_UPSTREAM_RESULTS,
            first_stage_sums: ObservedPasses(&[]),
            threads: NonZeroUsize::MIN,
        }
    }
}

/// The sums of a study after its passes, in the order of the passes.
#[derive(Clone, Copy)]
pub struct ObservedPasses<'a>(pub &'a [ObservedPass<'a>]);

/// The sums of one finished pass of a study.
#[derive(Clone, Copy)]
pub struct ObservedPass<'a> {
    pub sums: &'a dyn Observer,
    /// Number of sentences of the corpus that could be encoded, but that no sequence of the pass contains.
    pub left_out_sentences: u64,
}

impl<'a> ObservedPasses<'a> {
    /// The sums of the passes whose sums have the type `S`, in the order of the passes.
    pub fn all_sums<S: Sums>(&self) -> impl Iterator<Item = &'a S> {
        self.0.iter().filter_map(|pass| observer::downcast_sums(pass.sums))
    }

    /// The first sums of type `S`.
    /// Panics if no pass has such sums.
    pub fn first_sums<S: Sums>(&self) -> &'a S {
        self.all_sums().next().expect("a study gets back the sums that it gave")
    }

    /// Number of sentences that could be encoded, but that no sequence of the first pass contains.
    pub fn left_out_sentences(&self) -> u64 {
        self.0.first().map_or(0, |pass| pass.left_out_sentences)
    }
}
