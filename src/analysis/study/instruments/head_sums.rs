//! A macro that declares the sums of one attention head as a list of names.

/// Declares the sums of one attention head: the struct with its fields, and the functions that add all of them.
///
/// `N` is f64 within a sentence and [`ExactSum`] across sentences.
macro_rules! sums_of_a_head {
    (
        $(#[$outer:meta])*
        pub struct $name:ident;
        several { $($(#[$doc:meta])* $several:ident: $count:expr,)* }
        single { $($(#[$single_doc:meta])* $single:ident,)* }
    ) => {
        $(#[$outer])*
        ///
        /// `N` is f64 within a sentence and `ExactSum` across sentences.
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $name<N> {
            $($(#[$doc])* pub $several: [N; $count],)*
            $($(#[$single_doc])* pub $single: N,)*
        }

        impl $name<$crate::stats::exact::ExactSum> {
            /// Adds one sentence's sums.
            pub fn add(&mut self, sentence: &$name<f64>) {
                $($crate::stats::exact::add_elementwise(&mut self.$several, &sentence.$several);)*
                $(self.$single += sentence.$single;)*
            }
        }

        $crate::stats::blocks::merge_fields!($name<$crate::stats::exact::ExactSum> { $($several,)* $($single,)* });
    };
}
pub(crate) use sums_of_a_head;
