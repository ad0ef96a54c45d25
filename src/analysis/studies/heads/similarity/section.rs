//! The section `similarity` of the report.

use super::compare::layers;
use super::report::{Similarity, comparisons};
use super::show::summary;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::study::labels::UNLABELLED;
use crate::study::labels::policy::Policy;
use crate::study::section::{Completion, HeadCard, Neighbour, Section, View, stored};
use crate::system::counted::plural;

pub struct SimilaritySection {
    pub similarity: Similarity,
}

stored!(SimilaritySection { similarity: Similarity });

impl Section for SimilaritySection {
    fn complete(&mut self, known: &Completion<'_>) {
        match known {
            Completion::Labels(labels) => self.name_heads(labels),
            Completion::SharedKeys(heads) => self.compare_groups(*heads),
            Completion::Reading(read) => self.similarity.read = *read,
            _ => {}
        }
    }

    fn view(&self, _: &Policy) -> View<'_> {
        View {
            summary: summary::of(&self.similarity),
            figures: self.grid().map_or_else(Vec::new, |grid| super::show::figure::figures(&self.similarity, grid)),
            ..View::default()
        }
    }

    fn of_head(&self, place: HeadPlace, _: &Policy) -> HeadCard {
        let Some(grid) = self.grid() else { return HeadCard::default() };
        let own = grid.index(place.layer, place.head);
        let distance = |other: &usize| self.similarity.distance[own.max(*other)][own.min(*other)];
        let others = (0..grid.count()).filter(|&other| other != own);
        let nearest = others.min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let neighbour = |how: &'static str, other: usize| Neighbour {
            how,
            place: grid.place(other),
            strength: format!("distance {:.3}", distance(&other)),
        };
        let looks_like = nearest.map(|other| neighbour("looks most like", other));
        let nearest = nearest.map(|other| {
            let cka = self.similarity.cka[own.max(other)][own.min(other)];
            let cka = cka.map_or_else(String::new, |cka| format!(", CKA of what they write {cka:.2}"));
            format!("the head that looks most like it is {}: distance {:.3}{cka}", grid.place(other), distance(&other))
        });
        let cluster = self.similarity.clusters.iter().find(|cluster| cluster.kept && cluster.heads.contains(&place));
        let in_cluster = cluster.iter().flat_map(|cluster| &cluster.heads).filter(|&&head| head != place);
        let in_cluster = in_cluster.map(|head| neighbour("in a cluster with", grid.index(head.layer, head.head)));
        let neighbours = looks_like.into_iter().chain(in_cluster).collect();
        let alike = cluster.map(|cluster| {
            let others = cluster.heads.iter().filter(|&&head| head != place);
            let names: Vec<String> = others.map(ToString::to_string).collect();
            format!("looks where {} {}", names.join(", "), plural(&names.len(), "looks", "look"))
        });
        let cluster = cluster.map(|cluster| {
            let names: Vec<String> = cluster.heads.iter().map(ToString::to_string).collect();
            format!("it is in a cluster that holds: {}", names.join(" "))
        });
        HeadCard { neighbours, ..nearest.into_iter().chain(cluster).collect() }.saying(alike)
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let Similarity { distance, cka, from_even, clusters, closest, map, disagreement, weights, .. } =
            &self.similarity;
        let whole = |lengths: &mut dyn Iterator<Item = usize>| lengths.eq(0..grid.count());
        let empty = distance.is_empty() && cka.is_empty();
        let rows = whole(&mut distance.iter().map(Vec::len)) && whole(&mut cka.iter().map(Vec::len));
        if !empty && !rows {
            return Some("`similarity` does not have each pair of heads once".to_owned());
        }
        let named =
            clusters.iter().flat_map(|cluster| &cluster.heads).chain(closest.iter().flat_map(|pair| &pair.heads));
        if let Some(head) = grid.stray(named.copied()) {
            return Some(format!("`similarity` has {head}, which the model has not"));
        }
        let layers = disagreement.iter().map(|layer| layer.layer);
        let fits = [0, grid.count()].contains(&from_even.len())
            && map.as_ref().is_none_or(|map| map.points.len() == grid.count())
            && (disagreement.is_empty() || layers.eq(0..grid.layers))
            && weights.as_ref().is_none_or(|weights| weights.fits(grid));
        (!fits).then(|| "`similarity` does not have each layer and head of the model once".to_owned())
    }
}

impl SimilaritySection {
    /// Holds pairs of heads that share their keys and values, so many one after the other, against the others of their layer.
    fn compare_groups(&mut self, shared: usize) {
        let Some(grid) = self.grid() else { return };
        let groups: Vec<Option<usize>> = (0..grid.count()).map(|place| Some(place / shared)).collect();
        let Similarity { distance, cka, same_key_value_group, .. } = &mut self.similarity;
        *same_key_value_group = Some(comparisons(&distance.concat(), &cka.concat(), &groups, &layers(grid)));
    }

    fn name_heads(&mut self, labels: &[String]) {
        let grid = self.grid();
        let Similarity { distance, cka, clusters, same_label, .. } = &mut self.similarity;
        let grouped = |label: &String| labels.iter().position(|other| other == label).filter(|_| label != UNLABELLED);
        let groups: Vec<Option<usize>> = labels.iter().map(grouped).collect();
        let Some(heads) = grid else { return };
        *same_label = comparisons(&distance.concat(), &cka.concat(), &groups, &layers(heads));
        for cluster in clusters.iter_mut() {
            let label = |head: &HeadPlace| labels.get(heads.index(head.layer, head.head)).cloned().unwrap_or_default();
            cluster.labels = cluster.heads.iter().map(label).collect();
        }
    }
}

impl SimilaritySection {
    /// The heads that were compared, in layers as the disagreement has them; `None` where nothing was seen.
    pub fn grid(&self) -> Option<HeadGrid> {
        let (layers, heads) = (self.similarity.disagreement.len(), self.similarity.distance.len());
        (layers > 0).then(|| HeadGrid { layers, heads: heads / layers })
    }
}
