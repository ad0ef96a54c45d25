//! Report section `similarity`: its summary, its part of a head's card, and its figures.

use std::fmt::{self, Write};

use comfy_table::Table;
use itertools::Itertools;

use super::compare::{Comparison, layer_strata};
use super::measure::{CUT_SHARE_OF_MEDIAN, tree_joins};
use super::report::{Cluster, Comparisons, LayerDisagreement, Similarity, comparisons};
use super::weights::Spectrum;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::sequences::reading::Context;
use crate::study::Summary;
use crate::study::labels::UNLABELLED;
use crate::study::section::{HeadCard, LateFact, RelatedHead, Section, View, ViewContext, stored};
use crate::study::show::figure::{Chart, Figure, Points, Tree};
use crate::study::show::wording::{aligned_table, counted_sequences, sequence_noun, signed_decimal};
use crate::system::counts::{format_count, plural};

stored!(Similarity as similarity);

impl Section for Similarity {
    fn add_late_fact(&mut self, completion: &LateFact<'_>) {
        if let LateFact::Labels(labels) = completion {
            self.set_labels(labels);
        }
    }

    fn view(&self, ViewContext { run, .. }: ViewContext<'_>) -> View<'_> {
        View {
            summary: Summary::from_writer(|out| write_summary(self, run.read, out)),
            figures: self.grid().map_or_else(Vec::new, |grid| figures(self, grid, run.read)),
            ..View::default()
        }
    }

    fn head_card(&self, place: HeadPlace, _: ViewContext<'_>) -> HeadCard {
        let Some(grid) = self.grid() else { return HeadCard::default() };
        let own = grid.index(place.layer, place.head);
        let distance = |other: &usize| self.distance[own.max(*other)][own.min(*other)];
        let others = (0..grid.head_count()).filter(|&other| other != own);
        let nearest = others.min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let neighbour = |how: &'static str, other: usize| RelatedHead {
            relation: how,
            place: grid.head_place(other),
            strength: format!("distance {:.3}", distance(&other)),
        };
        let looks_like = nearest.map(|other| neighbour("looks most like", other));
        let nearest = nearest.map(|other| {
            let cka = self.cka[own.max(other)][own.min(other)];
            let cka = cka.map_or_else(String::new, |cka| format!(", CKA of what they write {cka:.2}"));
            format!(
                "the head that looks most like it is {}: distance {:.3}{cka}",
                grid.head_place(other),
                distance(&other)
            )
        });
        let cluster = self.clusters.iter().find(|cluster| cluster.kept && cluster.heads.contains(&place));
        let in_cluster = cluster.iter().flat_map(|cluster| &cluster.heads).filter(|&&head| head != place);
        let in_cluster = in_cluster.map(|head| neighbour("in a cluster with", grid.index(head.layer, head.head)));
        let neighbours = looks_like.into_iter().chain(in_cluster).collect();
        let alike = cluster.map(|cluster| {
            let others = cluster.heads.iter().filter(|&&head| head != place).collect_vec();
            format!("looks where {} {}", others.iter().join(", "), plural(&others.len(), "looks", "look"))
        });
        let cluster =
            cluster.map(|cluster| format!("it is in a cluster that holds: {}", cluster.heads.iter().join(" ")));
        HeadCard { neighbours, ..nearest.into_iter().chain(cluster).collect() }.with_clauses(alike)
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let Similarity { distance, cka, from_even, clusters, closest, map, disagreement, .. } = self;
        let whole = |lengths: &mut dyn Iterator<Item = usize>| lengths.eq(0..grid.head_count());
        let empty = distance.is_empty() && cka.is_empty();
        let rows = whole(&mut distance.iter().map(Vec::len)) && whole(&mut cka.iter().map(Vec::len));
        if !empty && !rows {
            return Some("`similarity` does not have each pair of heads once".to_owned());
        }
        let named = clusters.iter().flat_map(|one| &one.heads).chain(closest.iter().flat_map(|pair| &pair.heads));
        let stray = grid.stray_head_defect("similarity", named.copied());
        let layers = disagreement.iter().map(|layer| layer.layer);
        let fits = [0, grid.head_count()].contains(&from_even.len())
            && map.as_ref().is_none_or(|map| map.points.len() == grid.head_count())
            && (disagreement.is_empty() || layers.eq(0..grid.layers))
            && self.weights.as_ref().is_none_or(|weights| weights.fits(grid));
        stray.or_else(|| (!fits).then(|| "`similarity` does not have each layer and head of the model once".to_owned()))
    }
}

impl Similarity {
    /// Sets the labels of the clusters' heads. Also sets `same_label`, which compares heads with equal first labels
    /// with other heads.
    fn set_labels(&mut self, labels: &[String]) {
        let Some(grid) = self.grid() else { return };
        let Similarity { distance, cka, clusters, same_label, .. } = self;
        let grouped = |label: &String| labels.iter().position(|other| other == label).filter(|_| label != UNLABELLED);
        let groups: Vec<Option<usize>> = labels.iter().map(grouped).collect();
        *same_label = comparisons(&distance.concat(), &cka.concat(), &groups, &layer_strata(grid));
        for cluster in clusters.iter_mut() {
            let label = |head: &HeadPlace| labels.get(grid.index(head.layer, head.head)).cloned().unwrap_or_default();
            cluster.labels = cluster.heads.iter().map(label).collect();
        }
    }

    /// Grid of the compared heads; `disagreement` has one entry per layer. `None` if no token was seen.
    pub fn grid(&self) -> Option<HeadGrid> {
        let (layers, heads) = (self.disagreement.len(), self.distance.len());
        (layers > 0).then(|| HeadGrid { layers, heads: heads / layers })
    }
}

pub(crate) fn figures(similarity: &Similarity, grid: HeadGrid, read: Context) -> Vec<Figure> {
    let Similarity { sentences, tokens, distance, median_distance, map, clusters, .. } = similarity;
    let Some(cut) = median_distance.map(|median| CUT_SHARE_OF_MEDIAN * median) else { return Vec::new() };
    let kept = similarity.kept_clusters(grid);
    let sample = format!("{} of {}", format_count(*tokens, "token"), counted_sequences(*sentences, read));
    let over = format!("The Hellinger distance of their attention over {sample}.");
    let (clusters_kept, hold) = (format_count(kept.len(), "cluster"), plural(&kept.len(), "holds", "hold"));
    let map = map.as_ref().map(|map| {
        let [across, upward] = map.shown.map(|share| format!("{:.0} %", 100.0 * share));
        Figure {
            name: "similarity-map",
            title: "Heads that look alike stand side by side".to_owned(),
            reading: format!(
                "{over} Two axes show {across} and {upward} of the distances: heads that lie together here need not be alike. Lines \
                 join the heads of the {clusters_kept} that {hold}."
            ),
            chart: Chart::Points(Points {
                distance_label: "as far apart as the distance of their attention, as far as a plane shows it".to_owned(),
                points: map.points.clone(),
                groups: kept.clone(),
            }),
        }
    });
    let tree = Figure {
        name: "similarity-tree",
        title: "Heads joined by how alike they look".to_owned(),
        reading: format!(
            "{over} Average linkage; clusters are cut at half of the median distance, {cut:.3} (dashed): {} of {} {hold}: \
             together in 80 % of resamples, and nearer to each other than to even attention.",
            kept.len(),
            clusters.len()
        ),
        chart: Chart::Tree(Tree {
            height_label: "distance at which they are joined".to_owned(),
            cut: Some(cut),
            joins: tree_joins(&distance.concat(), grid.head_count()),
        }),
    };
    map.into_iter().chain([tree]).collect()
}

fn write_summary(similarity: &Similarity, read: Context, out: &mut Summary) -> fmt::Result {
    let Similarity { sentences, tokens, batched_tokens, clusters, same_layer, same_label, disagreement, .. } =
        similarity;
    let Some(median) = similarity.median_distance else {
        let what = sequence_noun(read);
        return writeln!(out, "No {what} had a token of text, or the model has one head: no heads were compared.");
    };
    let (tokens, read) = (format_count(*tokens, "token"), counted_sequences(*sentences, read));
    let with_cka = correlation_text(similarity.distance_with_cka);
    writeln!(
        out,
        "Similar heads: Hellinger distance of their attention (0 to 1) over {tokens} of {read}, and similarity of their outputs (debiased \
         CKA, 1 if equal up to a rotation) over {batched_tokens} of these tokens. Median distance {median:.3}; rank correlation of \
         distance and CKA over pairs {with_cka}."
    )?;
    let kept = clusters.iter().filter(|cluster| cluster.kept).count();
    let others = clusters.len() - kept;
    writeln!(
        out,
        "Clusters of heads that look alike (cut at half of the median distance): {kept} kept, {others} dropped. A cluster is kept if it \
         holds under resampling and its heads are nearer to each other than to even attention."
    )?;
    if kept > 0 {
        out.add_blank_line();
        out.add_table(table(clusters.iter().filter(|cluster| cluster.kept)));
        out.add_blank_line();
    }
    write_comparison(out, "of one layer, against pairs across two neighbouring layers", same_layer)?;
    write_comparison(out, "of one layer with the same first label, against the other pairs of the layer", same_label)?;
    if let Some(found) = &similarity.same_key_value_group {
        write_comparison(out, "of one layer that share keys and values, against the other pairs of the layer", found)?;
        writeln!(out, "Shared values make these heads equal by construction; `subspace` counts that.")?;
    }
    if !disagreement.is_empty() {
        let spectra = similarity.weights.as_ref().map_or(&[][..], |weights| &weights.spectra);
        writeln!(
            out,
            "\nDisagreement of the heads of a layer (Li et al. 2018; -1: all equal), and dimensions that hold 90 % of the spectrum of \
             W_Q W_K^T, for one head (mean) and for all heads of the layer together:\n"
        )?;
        out.add_table(layer_table(similarity, spectra));
    }
    Ok(())
}

fn correlation_text(number: Option<f64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| signed_decimal(number, 2))
}

fn write_comparison(out: &mut Summary, which: &str, comparisons: &Comparisons) -> fmt::Result {
    let part = |name: &str, found: &Option<Comparison>| {
        found.map(|Comparison { same, others, p, .. }| format!("{name} {same:.3}, others {others:.3} (p {p:.4})"))
    };
    let parts =
        [part("distance", &comparisons.distance), part("CKA", &comparisons.cka)].into_iter().flatten().join("; ");
    if parts.is_empty() { Ok(()) } else { writeln!(out, "Pairs of heads {which}: {parts}.") }
}

fn table<'a>(clusters: impl Iterator<Item = &'a Cluster>) -> Table {
    let row = |Cluster { heads, labels, widest, mean_cka, together, .. }: &Cluster| {
        let together = together.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0));
        let labels = counted_labels(labels);
        [heads.iter().join(" "), labels, format!("{widest:.3}"), correlation_text(*mean_cka), together]
    };
    aligned_table(["heads", "first labels", "widest", "CKA", "together"], clusters.map(row), 2..)
}

/// Lists each label once, in the order of first occurrence, with its count if that is above 1: `label x2`.
fn counted_labels(labels: &[String]) -> String {
    let counts = labels.iter().counts();
    let word = |label: &String| if counts[label] > 1 { format!("{label} x{}", counts[label]) } else { label.clone() };
    labels.iter().unique().map(word).join(", ")
}

fn layer_table(similarity: &Similarity, spectra: &[Spectrum]) -> Table {
    let row = |layer: &LayerDisagreement| {
        let spectrum = spectra.get(layer.layer);
        let mean = |spectrum: &Spectrum| spectrum.heads.iter().sum::<usize>() as f64 / spectrum.heads.len() as f64;
        let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            layer.layer.to_string(),
            format!("{:.3}", layer.subspace),
            format!("{:.3}", layer.position),
            format!("{:.3}", layer.output),
            cell(spectrum.map(|spectrum| format!("{:.1}", mean(spectrum)))),
            cell(spectrum.map(|spectrum| spectrum.concatenated.to_string())),
        ]
    };
    let header = ["layer", "subspace", "position", "output", "dimensions of a head", "together"];
    aligned_table(header, similarity.disagreement.iter().map(row), ..)
}
