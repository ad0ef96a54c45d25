//! Sums of a head's output without value bias, `o°_i`, and of its part from each kind of sink. The part is
//! `s_i = sum_j A[i,j] f°_j` over the sinks `j`, with the projected value `f°_j`.

use std::ops::Range;

use super::head::{HeadActivations, NormSums, query_count, sink_positions};
use super::vectors::{add_rows, dot_f64};
use crate::linalg::lanes::{LANES, reduce_lanes};
use crate::sequences::fold::roles::TokenRoles;

/// Writes the sums over queries of `z°_i` and of `t_i` (for each kind of sink) to `vectors`, and their products with
/// `W_O W_Oᵀ` to `products`. These are `o°_i` and `s_i` before the output projection. Both
/// are `[VECTOR_COUNT, head_dim]`, 0 at first. `sums` gets squares and inner products.
#[inline(always)]
pub fn add_sink_parts(
    sums: &mut NormSums<f64>,
    roles: &TokenRoles,
    head: &HeadActivations<'_>,
    vectors: &mut [f64],
    products: &mut [f64],
) {
    let width = head.head_dim();
    let queries = query_count(roles);
    let (vector, vectors) = vectors.split_at_mut(width);
    let (product, products) = products.split_at_mut(width);
    add_rows(head.output.contexts, &roles.text_runs, vector);
    add_rows(head.output.products, &roles.text_runs, product);
    sums.mean_square = dot_f64(vector, product) / queries;
    let of_sinks = vectors.chunks_exact_mut(width).zip(products.chunks_exact_mut(width));
    for ((kind, places), (vector, product)) in sink_positions(roles).into_iter().enumerate().zip(of_sinks) {
        if places.is_empty() {
            continue;
        }
        // The sums of `|s_i|²` and of `<s_i, o°_i>`, by lane.
        let mut dots = [[0.0; LANES]; 2];
        let part = SinkPart { head, text: &roles.text_runs, places };
        let whole = width - width % LANES;
        for column in (0..whole).step_by(LANES) {
            part.add_columns::<LANES>(column, &mut dots, vector, product);
        }
        for column in whole..width {
            part.add_columns::<1>(column, &mut dots, vector, product);
        }
        sums.sink_square[kind] = reduce_lanes(dots[0], |a, b| a + b);
        sums.sink_product[kind] = reduce_lanes(dots[1], |a, b| a + b);
        sums.sink_mean_square[kind] = dot_f64(vector, product) / queries;
    }
}

/// Number of queries processed together, so that each value of a sink is loaded once for all. Their partial results take a
/// quarter of the AVX-512 registers. With four, few queries of a short sentence are left over.
const QUERIES_AT_ONCE: usize = 4;

/// Part of a head's outputs that comes from the sinks of one kind.
struct SinkPart<'a> {
    head: &'a HeadActivations<'a>,
    /// Ranges of the text queries.
    text: &'a [Range<usize>],
    /// Positions of the sinks.
    places: &'a [usize],
}

impl SinkPart<'_> {
    /// Sums over text queries `i` in `C` columns from `column` on; the module's comment defines `s_i` and `o°_i`. Adds `|s_i|²`
    /// and `<s_i, o°_i>` to `dots`, and writes `t_i` to `vector` and `t_i W_O W_Oᵀ` to `product`. `t_i` is `s_i` before the
    /// output projection ([`Self::sum_queries`]).
    #[inline(always)]
    fn add_columns<const C: usize>(
        &self,
        column: usize,
        dots: &mut [[f64; LANES]; 2],
        vector: &mut [f64],
        product: &mut [f64],
    ) {
        let (mut square, mut with_output, mut part, mut through) = ([0.0; C], [0.0; C], [0.0; C], [0.0; C]);
        for run in self.text {
            for first in run.clone().step_by(QUERIES_AT_ONCE) {
                let count = QUERIES_AT_ONCE.min(run.end - first);
                let sums = if count == QUERIES_AT_ONCE {
                    self.sum_queries::<QUERIES_AT_ONCE, C>(first, column)
                } else {
                    let mut sums = [[0.0; C]; 4];
                    for query in first..run.end {
                        let own = self.sum_queries::<1, C>(query, column);
                        for lane in 0..C {
                            sums[0][lane] += own[0][lane];
                            sums[1][lane] += own[1][lane];
                            sums[2][lane] += own[2][lane];
                            sums[3][lane] += own[3][lane];
                        }
                    }
                    sums
                };
                for lane in 0..C {
                    square[lane] += f64::from(sums[0][lane]);
                    with_output[lane] += f64::from(sums[1][lane]);
                    part[lane] += f64::from(sums[2][lane]);
                    through[lane] += f64::from(sums[3][lane]);
                }
            }
        }
        let [square_sum, product_sum] = dots;
        for lane in 0..C {
            square_sum[lane] += square[lane];
            product_sum[lane] += with_output[lane];
        }
        vector[column..][..C].copy_from_slice(&part);
        product[column..][..C].copy_from_slice(&through);
    }

    /// Sums `[t_i p_i, t_i q_i, t_i, p_i]` over `Q` queries, separately for `C` columns of `head_dim`. `t_i` is the sinks' part
    /// of the context `z°_i`, `p_i = t_i W_O W_Oᵀ` and `q_i = z°_i W_O W_Oᵀ`. f32 suffices for so few queries.
    #[inline(always)]
    fn sum_queries<const Q: usize, const C: usize>(&self, first: usize, column: usize) -> [[f32; C]; 4] {
        let HeadActivations { attention, values, norms, output } = self.head;
        let rows: [&[f32]; Q] = std::array::from_fn(|query| attention.row(first + query));
        let (mut parts, mut throughs) = ([[0.0; C]; Q], [[0.0; C]; Q]);
        for &place in self.places {
            let value = read_columns::<C>(values.rows.row(place), column);
            let value_product = read_columns::<C>(norms.products.row(place), column);
            for query in 0..Q {
                let weight = rows[query][place];
                for lane in 0..C {
                    parts[query][lane] = weight.mul_add(value[lane], parts[query][lane]);
                    throughs[query][lane] = weight.mul_add(value_product[lane], throughs[query][lane]);
                }
            }
        }
        let mut sums = [[0.0; C]; 4];
        for query in 0..Q {
            let output = read_columns::<C>(output.products.row(first + query), column);
            for lane in 0..C {
                let (part, through) = (parts[query][lane], throughs[query][lane]);
                sums[0][lane] = part.mul_add(through, sums[0][lane]);
                sums[1][lane] = part.mul_add(output[lane], sums[1][lane]);
                sums[2][lane] += part;
                sums[3][lane] += through;
            }
        }
        sums
    }
}

/// Returns `C` values of a row, from a column on.
#[inline(always)]
fn read_columns<const C: usize>(row: &[f32], column: usize) -> &[f32; C] {
    row[column..].first_chunk().expect("columns of the row")
}
