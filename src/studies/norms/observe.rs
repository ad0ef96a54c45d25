//! The norms and projections of one head over one sequence (METHODOLOGY, "Norms and sinks").

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

use multiversion::multiversion;

use crate::model::forward::attention::AttentionView;
use crate::model::forward::visitor::{HeadView, Output, ValueNorms, Values};
use crate::sequences::roles::{OFFSETS, REACH, TokenRoles, WINDOW, slot};
use crate::stats::exact::sums_of_a_head;
use crate::system::lanes::{LANES, across, dot};

/// The tokens that may be sinks, in the order of all lists by sink, by the names of their labels.
pub const SINKS: [&str; 3] = ["first-special", "separator", "punctuation"];

/// How many kinds of sinks there are.
pub const SINK_KINDS: usize = SINKS.len();

/// The vectors that are summed for each head: its output, and the part of it that comes from each kind of sink.
pub const VECTORS: usize = 1 + SINK_KINDS;

sums_of_a_head! {
    /// The sums over text queries of one head.
    pub struct NormSums;
    several {
        /// Share by norm of the token at each offset, -8 first.
        offset_mass: OFFSETS,
        /// The same of uniform attention.
        uniform_offset_mass: OFFSETS,
        /// Queries without a share by norm, but with a text token at each offset.
        offset_silent: OFFSETS,
        /// Share by norm of each kind of sink.
        sink_mass: SINK_KINDS,
        /// The same of uniform attention.
        uniform_sink_mass: SINK_KINDS,
        /// `<s_i, o°_i>` of each kind of sink.
        sink_product: SINK_KINDS,
        /// The same of uniform attention.
        uniform_sink_product: SINK_KINDS,
        /// `|s_i|²` of each kind of sink.
        sink_square: SINK_KINDS,
        /// `|mean s|²` within the sentence, for each of its queries.
        sink_mean_square: SINK_KINDS,
    }
    single {
        /// Queries without a share by norm: there is no attention to a value that is not 0.
        silent,
        /// Share by norm of text tokens at most two away, the token itself left out.
        window_mass,
        /// The same of uniform attention.
        uniform_window_mass,
        /// `sum_j A[i,j] |f_j|`
        spent,
        /// The same of uniform attention.
        uniform_spent,
        /// `|o_i|`
        output,
        /// The same of uniform attention.
        uniform_output,
        /// `|o_i| / |x_i|`
        output_ratio,
        /// Queries with an input of 0.
        output_ratio_silent,
        /// `|o°_i|`
        bare_output,
        /// `|o°_i|²`
        square,
        /// The same of uniform attention.
        uniform_square,
        /// `|mean o°|²` within the sentence, for each of its queries.
        mean_square,
    }
}

/// One head at work, with all that is looked at.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    attention: AttentionView<'a>,
    values: Values<'a>,
    norms: &'a [f32],
    output: Output<'a>,
}

impl<'a> Written<'a> {
    /// The parts of a view.
    ///
    /// # Panics
    ///
    /// If one was not asked for.
    #[must_use]
    pub fn new(view: &HeadView<'a>) -> Self {
        let asked = "what was asked for is lent";
        let ValueNorms { norms, .. } = view.value_norms.expect(asked);
        Self { attention: view.attention, values: view.values.expect(asked), norms, output: view.output.expect(asked) }
    }

    /// `[head_dim, head_dim]`: `W_O W_Oᵀ`.
    #[must_use]
    pub fn gram(&self) -> &'a [f32] {
        self.output.gram
    }
}

/// Room for what is worked out of one head, reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    /// `A[i,j] |f_j|` of one query, rounded up to whole vectors by zeros.
    weighted: Vec<f32>,
    /// The same with zeros for all but text, and with [`REACH`] zeros before and after it.
    text: Vec<f32>,
    /// `|f_j|`, rounded up likewise.
    norms: Vec<f32>,
    /// The sums of the norms of all text tokens before each place, `[n + 1]`.
    before: Vec<f64>,
    /// `[sinks, sinks]`: `<f°_j, f°_k>` of the sinks of one kind, one kind after the other.
    inner: Vec<f32>,
    /// The attention of one query to each sink of a kind.
    pulls: Vec<f64>,
    /// That of all queries.
    pulled: Vec<f64>,
    /// A vector, and one times the Gram matrix: `[head_dim]`.
    vector: Vec<f32>,
    product: Vec<f32>,
    /// The value bias times the Gram matrix.
    bias_product: Vec<f32>,
    /// The sum of `z°_i W_O W_Oᵀ`.
    products: Vec<f64>,
    /// `[VECTORS, head_dim]`: the sums of `z°_i`, and of the part of it from each kind of sink.
    vectors: Vec<f64>,
}

impl Buffers {
    /// The sums of vectors of the head that was observed last, `[VECTORS, head_dim]`.
    #[must_use]
    pub fn vectors(&self) -> &[f64] {
        &self.vectors
    }

    fn fit(&mut self, width: usize, head_dim: usize) {
        for (buffer, length) in [
            (&mut self.weighted, width),
            (&mut self.text, REACH + width + REACH),
            (&mut self.norms, width),
            (&mut self.vector, head_dim),
            (&mut self.product, head_dim),
            (&mut self.bias_product, head_dim),
        ] {
            buffer.clear();
            buffer.resize(length, 0.0);
        }
        for (buffer, length) in [(&mut self.products, head_dim), (&mut self.vectors, VECTORS * head_dim)] {
            buffer.clear();
            buffer.resize(length, 0.0);
        }
    }
}

/// Sums what one head does in one sequence; the sums of vectors stay in `buffers`.
#[must_use]
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub fn observe<'a>(roles: &'a TokenRoles, head: &'a Written<'a>, buffers: &'a mut Buffers) -> NormSums<f64> {
    let mut sums = NormSums::default();
    buffers.fit(roles.is_text.len(), head.values.bias.len());
    by_norm(&mut sums, roles, head, buffers);
    uniform_by_norm(&mut sums, roles, head, buffers);
    outputs(&mut sums, roles, head, buffers);
    sinks(&mut sums, roles, head, buffers);
    uniform_outputs(&mut sums, roles, head, buffers);
    sums
}

/// The places of each kind of sink.
#[inline(always)]
fn places(roles: &TokenRoles) -> [&[usize]; SINK_KINDS] {
    [roles.first_special.as_slice(), &roles.separators, &roles.punctuation]
}

/// Attention weighted by norms: `A[i,j] |f_j|`, and its shares.
#[inline(always)]
fn by_norm(sums: &mut NormSums<f64>, roles: &TokenRoles, head: &Written<'_>, buffers: &mut Buffers) {
    let Buffers { weighted, text, norms, .. } = buffers;
    norms[..head.norms.len()].copy_from_slice(head.norms);
    let width = weighted.len();
    for query in roles.queries() {
        let row = head.attention.row(query);
        for ((weighted, weight), norm) in weighted.iter_mut().zip(row).zip(&*norms) {
            *weighted = weight * norm;
        }
        for ((text, weighted), kept) in text[REACH..REACH + width].iter_mut().zip(&*weighted).zip(&roles.is_text) {
            *text = weighted * kept;
        }
        let spent = total(weighted);
        sums.spent += spent;
        if spent <= 0.0 {
            sums.silent += 1.0;
            for (sum, is_text) in sums.offset_silent.iter_mut().zip(in_reach(&roles.is_text, query)) {
                *sum += f64::from(is_text);
            }
            continue;
        }
        let share = spent.recip();
        // The text begins at REACH, so what is REACH before the query is at the query's own place.
        for (sum, &weight) in sums.offset_mass.iter_mut().zip(&text[query..][..OFFSETS]) {
            *sum += f64::from(weight) * share;
        }
        for (sum, places) in sums.sink_mass.iter_mut().zip(places(roles)) {
            *sum += share * places.iter().map(|&place| f64::from(weighted[place])).sum::<f64>();
        }
    }
    sums.window_mass = window(&sums.offset_mass);
}

/// The values within [`REACH`] of a place, -8 first; 0 beyond the ends.
#[inline(always)]
fn in_reach(values: &[f32], place: usize) -> [f32; OFFSETS] {
    std::array::from_fn(|slot| {
        (place + slot).checked_sub(REACH).and_then(|key| values.get(key)).copied().unwrap_or(0.0)
    })
}

/// The sum over the window of what is summed by offset.
#[inline(always)]
fn window(by_offset: &[f64; OFFSETS]) -> f64 {
    by_offset[slot(WINDOW, 0)..=slot(0, WINDOW)].iter().sum::<f64>() - by_offset[slot(0, 0)]
}

/// The same of a head that attends uniformly and has the same values: each key has the share of its norm.
#[inline(always)]
fn uniform_by_norm(sums: &mut NormSums<f64>, roles: &TokenRoles, head: &Written<'_>, buffers: &mut Buffers) {
    let Buffers { norms, before, .. } = buffers;
    let (all, queries) = (total(norms), roles.queries().count() as f64);
    if all <= 0.0 {
        return;
    }
    sums.uniform_spent = queries * all / head.norms.len() as f64;
    before.clear();
    before.push(0.0);
    let mut sum = 0.0;
    for (norm, is_text) in head.norms.iter().zip(&roles.is_text) {
        sum += f64::from(norm * is_text);
        before.push(sum);
    }
    // Queries of one run of text, at one offset from keys of another: the keys are a range.
    for from in &roles.text {
        for to in &roles.text {
            for (slot, sum) in sums.uniform_offset_mass.iter_mut().enumerate() {
                let start = to.start.max((from.start + slot).saturating_sub(REACH));
                let end = to.end.min((from.end + slot).saturating_sub(REACH));
                if start < end {
                    *sum += (before[end] - before[start]) / all;
                }
            }
        }
    }
    sums.uniform_window_mass = window(&sums.uniform_offset_mass);
    for (sum, places) in sums.uniform_sink_mass.iter_mut().zip(places(roles)) {
        *sum = queries * places.iter().map(|&place| f64::from(norms[place])).sum::<f64>() / all;
    }
}

/// What is written: `o_i` with the value bias, `o°_i` without.
#[inline(always)]
fn outputs(sums: &mut NormSums<f64>, roles: &TokenRoles, head: &Written<'_>, buffers: &mut Buffers) {
    let Buffers { bias_product, products, vectors, .. } = buffers;
    let Written { output, values, .. } = head;
    times(values.bias, output.gram, bias_product);
    let vector = &mut vectors[..values.bias.len()];
    for query in roles.queries() {
        let (context, product) = (output.contexts.row(query), output.products.row(query));
        let square = positive(dot(context, product));
        sums.square += square;
        sums.bare_output += square.sqrt();
        let norm = positive(shifted_dot(context, values.bias, product, bias_product)).sqrt();
        sums.output += norm;
        let input = f64::from(output.input_norms[query]);
        if input > 0.0 {
            sums.output_ratio += norm / input;
        } else {
            sums.output_ratio_silent += 1.0;
        }
        add_to(vector, context);
        add_to(products, product);
    }
    let queries = roles.queries().count() as f64;
    if queries > 0.0 {
        sums.mean_square = inner(vector, products) / queries;
    }
}

/// The part of `o°_i` that comes from each kind of sink: `s_i = sum_j A[i,j] f°_j`.
#[inline(always)]
fn sinks(sums: &mut NormSums<f64>, roles: &TokenRoles, head: &Written<'_>, buffers: &mut Buffers) {
    let Buffers { inner, pulls, pulled, product, vectors, .. } = buffers;
    let Written { attention, values, output, .. } = head;
    let head_dim = values.bias.len();
    let queries = roles.queries().count() as f64;
    for (kind, places) in places(roles).into_iter().enumerate() {
        let count = places.len();
        if count == 0 || queries == 0.0 {
            continue;
        }
        inner.clear();
        for &place in places {
            times(values.rows.row(place), output.gram, product);
            inner.extend(places.iter().map(|&other| dot(values.rows.row(other), product)));
        }
        pulled.clear();
        pulled.resize(count, 0.0);
        for query in roles.queries() {
            let (row, product) = (attention.row(query), output.products.row(query));
            pulls.clear();
            pulls.extend(places.iter().map(|&place| f64::from(row[place])));
            for (&place, &pull) in places.iter().zip(&*pulls) {
                sums.sink_product[kind] += pull * f64::from(dot(values.rows.row(place), product));
            }
            sums.sink_square[kind] += quadratic(pulls, inner);
            pulled.iter_mut().zip(&*pulls).for_each(|(sum, pull)| *sum += pull);
        }
        sums.sink_mean_square[kind] = quadratic(pulled, inner) / queries;
        let vector = &mut vectors[(1 + kind) * head_dim..][..head_dim];
        for (&place, &pull) in places.iter().zip(&*pulled) {
            for (sum, &value) in vector.iter_mut().zip(values.rows.row(place)) {
                *sum += pull * f64::from(value);
            }
        }
    }
}

/// Outputs and sinks of a head that attends uniformly and has the same values.
#[inline(always)]
fn uniform_outputs(sums: &mut NormSums<f64>, roles: &TokenRoles, head: &Written<'_>, buffers: &mut Buffers) {
    let Buffers { vector, product, bias_product, .. } = buffers;
    let Written { values, output, .. } = head;
    let (n, queries) = (values.rows.count() as f64, roles.queries().count() as f64);
    // The mean of all values.
    #[expect(clippy::cast_possible_truncation, reason = "values are f32")]
    let share = n.recip() as f32;
    for row in values.rows.iter() {
        vector.iter_mut().zip(row).for_each(|(sum, value)| *sum = value.mul_add(share, *sum));
    }
    times(vector, output.gram, product);
    sums.uniform_square = queries * positive(dot(vector, product));
    sums.uniform_output = queries * positive(shifted_dot(vector, values.bias, product, bias_product)).sqrt();
    for (sum, places) in sums.uniform_sink_product.iter_mut().zip(places(roles)) {
        *sum = queries / n * places.iter().map(|&place| f64::from(dot(values.rows.row(place), product))).sum::<f64>();
    }
}

/// Rounding can take a square of almost nothing below 0.
#[inline(always)]
fn positive(square: f32) -> f64 {
    f64::from(square.max(0.0))
}

/// The sum of whole vectors of values.
#[inline(always)]
fn total(values: &[f32]) -> f64 {
    let mut partial = [0.0; LANES];
    for values in values.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            partial[lane] += f64::from(values[lane]);
        }
    }
    across(partial, |a, b| a + b)
}

/// `(a + a_shift) · (b + b_shift)`: what is left when a bias cancels most of a vector is not lost in the rounding of
/// larger terms.
#[inline(always)]
fn shifted_dot(a: &[f32], a_shift: &[f32], b: &[f32], b_shift: &[f32]) -> f32 {
    let mut partial = [0.0; LANES];
    let chunks = a.chunks(LANES).zip(a_shift.chunks(LANES)).zip(b.chunks(LANES)).zip(b_shift.chunks(LANES));
    for (((a, a_shift), b), b_shift) in chunks {
        for ((((partial, a), a_shift), b), b_shift) in partial.iter_mut().zip(a).zip(a_shift).zip(b).zip(b_shift) {
            *partial = (a + a_shift).mul_add(b + b_shift, *partial);
        }
    }
    across(partial, |a, b| a + b)
}

/// A row times a symmetric matrix, `[width, width]`.
#[inline(always)]
fn times(row: &[f32], matrix: &[f32], into: &mut [f32]) {
    into.fill(0.0);
    for (value, column) in row.iter().zip(matrix.chunks_exact(row.len())) {
        for (into, entry) in into.iter_mut().zip(column) {
            *into = value.mul_add(*entry, *into);
        }
    }
}

#[inline(always)]
fn add_to(sums: &mut [f64], row: &[f32]) {
    sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
}

#[inline(always)]
fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `w K wᵀ` of a matrix `[w, w]`.
#[inline(always)]
fn quadratic(weights: &[f64], matrix: &[f32]) -> f64 {
    let rows = matrix.chunks_exact(weights.len());
    let row = |row: &[f32]| row.iter().zip(weights).map(|(&entry, weight)| f64::from(entry) * weight).sum::<f64>();
    weights.iter().zip(rows).map(|(weight, entries)| weight * row(entries)).sum()
}

#[cfg(test)]
mod tests;
