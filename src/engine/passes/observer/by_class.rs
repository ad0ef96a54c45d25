//! Separate sums for each class of layers: chance levels depend on the keys that a query sees, which differ between classes.

use serde::{Deserialize, Serialize};

use super::{Demands, Event, Sums};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::Merge;

/// One value for each class of layers, such as separate [`Sums`]. Head and mixing events go only to the sums of their
/// layer's class; other events go to the sums of every class. The sums of a class count every sequence, with the keys
/// that queries in that class see.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ByLayerClass<T> {
    classes: LayerClasses,
    /// The value of each class of layers, in the order of [`LayerClasses::visibilities`].
    each: Vec<T>,
}

impl<T> ByLayerClass<T> {
    /// Makes the value of each class of layers with `make`.
    pub fn new(classes: &LayerClasses, make: impl Fn(Visibility) -> T) -> Self {
        Self { classes: classes.clone(), each: classes.visibilities().iter().map(|&kind| make(kind)).collect() }
    }

    /// Makes the single value for a model whose layers form one class, in which queries see every key.
    pub fn single_class(one: T) -> Self {
        Self { classes: LayerClasses::default(), each: vec![one] }
    }

    pub fn classes(&self) -> &LayerClasses {
        &self.classes
    }

    /// The value of each class, in the order of [`LayerClasses::visibilities`].
    pub fn values(&self) -> &[T] {
        &self.each
    }

    /// The value of the class that `layer` belongs to.
    pub fn for_layer(&self, layer: usize) -> &T {
        &self.each[self.classes.class_index(layer)]
    }

    /// Applies `make` to the value of each class.
    pub fn map<'a, U>(&'a self, make: impl FnMut(&'a T) -> U) -> ByLayerClass<U> {
        ByLayerClass { classes: self.classes.clone(), each: self.each.iter().map(make).collect() }
    }
}

impl<T: Merge> Merge for ByLayerClass<T> {
    fn merge(&mut self, other: &Self) {
        assert_eq!(self.classes, other.classes, "sums of one analysis");
        self.each.iter_mut().zip(&other.each).for_each(|(sums, other)| sums.merge(other));
    }
}

impl<S: Sums> Sums for ByLayerClass<S> {
    type SequenceState = Vec<Option<S::SequenceState>>;

    fn demands(&self) -> Demands {
        // Sums from a file may have no class, until [`Sums::fits`] is checked.
        self.each.first().map(S::demands).unwrap_or_default()
    }

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.each.iter_mut().for_each(|sums| sums.begin_pass(known));
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        let states: Vec<_> = self.each.iter_mut().map(|sums| sums.begin(sequence)).collect();
        states.iter().any(Option::is_some).then_some(states)
    }

    fn observe(&mut self, states: &mut Self::SequenceState, event: &mut Event<'_>) {
        let class = event.layer().map(|layer| self.classes.class_index(layer));
        for (index, (sums, state)) in self.each.iter_mut().zip(states).enumerate() {
            if let Some(state) = state.as_mut().filter(|_| class.is_none_or(|class| class == index)) {
                sums.observe(state, event);
            }
        }
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        let class_fits = |(&kind, sums): (&Visibility, &S)| sums.fits(grid, from, &LayerClasses::new(&[kind]));
        self.classes == *classes
            && classes.fits(grid.layers)
            && self.each.len() == classes.visibilities().len()
            && classes.visibilities().iter().zip(&self.each).all(class_fits)
    }
}
