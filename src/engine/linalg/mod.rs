//! Linear algebra over plain slices: matrix products, factorisations, eigenvalues, searches of rows.

pub mod cholesky;
pub mod lanes;
pub mod matmul;
pub mod search;
pub mod spectra;
