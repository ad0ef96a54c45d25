//! The summary of similarity.

use std::fmt::{self, Write};

use comfy_table::{CellAlignment, Table};

use crate::studies::heads::similarity::compare::Comparison;
use crate::studies::heads::similarity::report::{Cluster, Comparisons, Similarity};
use crate::studies::heads::similarity::weights::Spectrum;
use crate::study::show::summary::Summary;
use crate::study::show::wording::{plain_table, sequence, sequences, signed};
use crate::system::counted::counted;

pub fn of(similarity: &Similarity) -> Summary {
    Summary::written(|out| write(similarity, out))
}

fn write(similarity: &Similarity, out: &mut Summary) -> fmt::Result {
    let Similarity { sentences, read, tokens, batched_tokens, clusters, same_layer, same_label, disagreement, .. } =
        similarity;
    let Some(median) = similarity.median_distance else {
        return writeln!(
            out,
            "No {} had a token of text, or the model has one head: no heads were compared.",
            sequence(*read)
        );
    };
    writeln!(
        out,
        "Similar heads: Hellinger distance of their attention (0 to 1) over {} of {}, and similarity of their outputs (debiased \
         CKA, 1 if equal up to a rotation) over {batched_tokens} of these tokens. Median distance {median:.3}; rank correlation of \
         distance and CKA over pairs {}.",
        counted(*tokens, "token"),
        sequences(*sentences, *read),
        correlation(similarity.distance_with_cka)
    )?;
    let kept = clusters.iter().filter(|cluster| cluster.kept).count();
    let others = clusters.len() - kept;
    writeln!(
        out,
        "Clusters of heads that look alike (cut at half of the median distance): {kept} kept, {others} dropped. A cluster is kept if it \
         holds under resampling and its heads are nearer to each other than to even attention."
    )?;
    if kept > 0 {
        out.blank();
        out.table(table(clusters.iter().filter(|cluster| cluster.kept)));
        out.blank();
    }
    compared(out, "of one layer, against pairs across two neighbouring layers", same_layer)?;
    compared(out, "of one layer with the same first label, against the other pairs of the layer", same_label)?;
    if let Some(found) = &similarity.same_key_value_group {
        compared(out, "of one layer that share keys and values, against the other pairs of the layer", found)?;
        writeln!(out, "Shared values make these heads equal by construction; `subspace` counts that.")?;
    }
    if !disagreement.is_empty() {
        let spectra = similarity.weights.as_ref().map_or(&[][..], |weights| &weights.spectra);
        writeln!(
            out,
            "\nDisagreement of the heads of a layer (Li et al. 2018; -1: all equal), and dimensions that hold 90 % of the spectrum of \
             W_Q W_K^T, for one head (mean) and for all heads of the layer together:\n"
        )?;
        out.table(of_layers(similarity, spectra));
    }
    Ok(())
}

fn correlation(number: Option<f64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| signed(number, 2))
}

fn compared(out: &mut Summary, which: &str, comparisons: &Comparisons) -> fmt::Result {
    let part = |name: &str, found: &Option<Comparison>| {
        found.map(|Comparison { same, others, p, .. }| format!("{name} {same:.3}, others {others:.3} (p {p:.4})"))
    };
    let parts: Vec<String> =
        [part("distance", &comparisons.distance), part("CKA", &comparisons.cka)].into_iter().flatten().collect();
    if parts.is_empty() { Ok(()) } else { writeln!(out, "Pairs of heads {which}: {}.", parts.join("; ")) }
}

fn table<'a>(clusters: impl Iterator<Item = &'a Cluster>) -> Table {
    let mut table = plain_table();
    table.set_header(["heads", "first labels", "widest", "CKA", "together"]);
    for Cluster { heads, labels, widest, mean_cka, together, .. } in clusters {
        let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
        let together = together.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0));
        let labels = by_number(labels);
        table.add_row([heads.join(" "), labels, format!("{widest:.3}"), correlation(*mean_cka), together]);
    }
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// Labels in the order in which they come, with how often where that is more than once.
fn by_number(labels: &[String]) -> String {
    let mut seen: Vec<(&str, usize)> = Vec::new();
    for label in labels {
        match seen.iter_mut().find(|(known, _)| known == label) {
            Some((_, count)) => *count += 1,
            None => seen.push((label, 1)),
        }
    }
    let word = |(label, count): (&str, usize)| if count > 1 { format!("{label} x{count}") } else { label.to_owned() };
    seen.into_iter().map(word).collect::<Vec<_>>().join(", ")
}

fn of_layers(similarity: &Similarity, spectra: &[Spectrum]) -> Table {
    let mut table = plain_table();
    table.set_header(["layer", "subspace", "position", "output", "dimensions of a head", "together"]);
    for layer in &similarity.disagreement {
        let spectrum = spectra.get(layer.layer);
        let mean = |of: &Spectrum| of.heads.iter().sum::<usize>() as f64 / of.heads.len() as f64;
        let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.add_row([
            layer.layer.to_string(),
            format!("{:.3}", layer.subspace),
            format!("{:.3}", layer.position),
            format!("{:.3}", layer.output),
            cell(spectrum.map(|of| format!("{:.1}", mean(of)))),
            cell(spectrum.map(|of| of.concatenated.to_string())),
        ]);
    }
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}
