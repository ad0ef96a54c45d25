//! The vectors that are written, `o°_i`, and the part of them that comes from each kind of sink,
//! `s_i = sum_j A[i,j] f°_j`.

use super::vectors::{add_rows, inner};
use super::{NormSums, Written, places, queries};
use crate::sequences::roles::TokenRoles;
use crate::system::lanes::{LANES, across};

/// Sums vectors, and their squares and products; of the vectors, `[VECTORS, head_dim]`, before and after the product with
/// `W_O W_Oᵀ`, both are given as zeros.
#[inline(always)]
pub fn add(
    sums: &mut NormSums<f64>,
    roles: &TokenRoles,
    head: &Written<'_>,
    vectors: &mut [f64],
    products: &mut [f64],
) {
    let width = head.head_dim();
    let queries = queries(roles);
    let (vector, vectors) = vectors.split_at_mut(width);
    let (product, products) = products.split_at_mut(width);
    add_rows(head.output.contexts, &roles.text, vector);
    add_rows(head.output.products, &roles.text, product);
    sums.mean_square = inner(vector, product) / queries;
    let of_sinks = vectors.chunks_exact_mut(width).zip(products.chunks_exact_mut(width));
    for ((kind, places), (vector, product)) in places(roles).into_iter().enumerate().zip(of_sinks) {
        if places.is_empty() {
            continue;
        }
        for run in &roles.text {
            for query in run.clone() {
                let (row, output) = (head.attention.row(query), head.output.products.row(query));
                let (square, with_output) = Query { head, row, output, places }.add(vector, product);
                sums.sink_square[kind] += square;
                sums.sink_product[kind] += with_output;
            }
        }
        sums.sink_mean_square[kind] = inner(vector, product) / queries;
    }
}

/// One text query and the sinks of one kind.
struct Query<'a> {
    head: &'a Written<'a>,
    /// `[n]`: its attention.
    row: &'a [f32],
    /// `[head_dim]`: its output after the product with `W_O W_Oᵀ`.
    output: &'a [f32],
    places: &'a [usize],
}

impl Query<'_> {
    /// `|s_i|²` and `<s_i, o°_i>`; `s_i` is added to the sums of vectors before and after the product, `[head_dim]`.
    #[inline(always)]
    fn add(&self, vector: &mut [f64], product: &mut [f64]) -> (f64, f64) {
        let mut dots = [[0.0; LANES]; 2];
        let width = vector.len();
        let whole = width - width % LANES;
        for column in (0..whole).step_by(LANES) {
            self.add_columns(column, LANES, &mut dots, (vector, product));
        }
        if whole < width {
            self.add_columns(whole, width - whole, &mut dots, (vector, product));
        }
        let [square, with_output] = dots.map(|lanes| f64::from(across(lanes, |a, b| a + b)));
        (square, with_output)
    }

    /// The same of some columns, at most a vector of them; the terms of both dot products by lane.
    #[inline(always)]
    fn add_columns(
        &self,
        first: usize,
        columns: usize,
        dots: &mut [[f32; LANES]; 2],
        (vector, product): (&mut [f64], &mut [f64]),
    ) {
        let (mut part, mut through) = ([0.0; LANES], [0.0; LANES]);
        for &place in self.places {
            let weight = self.row[place];
            let value = &self.head.values.rows.row(place)[first..][..columns];
            let value_product = &self.head.norms.products.row(place)[first..][..columns];
            for lane in 0..columns {
                part[lane] = weight.mul_add(value[lane], part[lane]);
                through[lane] = weight.mul_add(value_product[lane], through[lane]);
            }
        }
        let output = &self.output[first..][..columns];
        let (vector, product) = (&mut vector[first..][..columns], &mut product[first..][..columns]);
        for lane in 0..columns {
            dots[0][lane] = part[lane].mul_add(through[lane], dots[0][lane]);
            dots[1][lane] = part[lane].mul_add(output[lane], dots[1][lane]);
            vector[lane] += f64::from(part[lane]);
            product[lane] += f64::from(through[lane]);
        }
    }
}
