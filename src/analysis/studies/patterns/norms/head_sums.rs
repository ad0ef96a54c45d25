//! The sums of one head: over the text queries of a sentence, and exactly over sentences.

use crate::sequences::fold::roles::OFFSETS;
use crate::study::instruments::head_sums::sums_of_a_head;

/// The tokens that may be sinks, in the order of all lists by sink, by the names of their labels.
pub const SINKS: [&str; 4] = ["first-special", "separator", "punctuation", "first-token"];

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
        /// The sum under uniform attention.
        uniform_offset_mass: OFFSETS,
        /// Queries without a share by norm, but with a text token at each offset.
        offset_silent: OFFSETS,
        /// Queries without a share by norm, but that see each kind of sink; of punctuation all of them.
        sink_silent: SINK_KINDS,
        /// Share by norm of each kind of sink.
        sink_mass: SINK_KINDS,
        /// The sum under uniform attention.
        uniform_sink_mass: SINK_KINDS,
        /// `<s_i, o°_i>` of each kind of sink.
        sink_product: SINK_KINDS,
        /// The sum under uniform attention.
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
        /// The sum under uniform attention.
        uniform_window_mass,
        /// `sum_j A[i,j] |f_j|`
        spent,
        /// The sum under uniform attention.
        uniform_spent,
        /// `|o_i|`
        output,
        /// The sum under uniform attention.
        uniform_output,
        /// `|o_i| / |x_i|`
        output_ratio,
        /// Queries with an input of 0.
        output_ratio_silent,
        /// `|o°_i|`
        bare_output,
        /// `|o°_i|²`
        square,
        /// The sum under uniform attention.
        uniform_square,
        /// `|mean o°|²` within the sentence, for each of its queries.
        mean_square,
    }
}
