//! Linear algebra over plain slices: matrix products, factorisations, eigenvalues, and searches in rows of numbers.

pub mod cholesky;
pub mod lanes;
pub mod matmul;
pub mod search;
pub mod spectra;
