//! Random rotations, of the uniform (Haar) distribution over all of them.

use nalgebra::DMatrix;

/// The columns of a matrix, `[rows, columns]` row-major, turned together by a random rotation or reflection of all directions;
/// `normal` are as many standard normal numbers, and decide it.
///
/// With `M = U R`, `U` of orthonormal columns, `Q M = (Q U) R`: of a uniform `Q` the columns `Q U` are uniform, and so are those of
/// the QR factorisation of normal numbers whose `R` has a positive diagonal (Mezzadri 2007). So no matrix of all directions is made.
/// Panics if there are more columns than rows, or the lists have other lengths.
pub fn rotated(matrix: &[f64], normal: &[f64], [rows, columns]: [usize; 2]) -> Vec<f64> {
    assert!(columns <= rows && matrix.len() == rows * columns && normal.len() == matrix.len(), "as many numbers");
    let triangle = DMatrix::from_row_slice(rows, columns, matrix).qr().r();
    let (mut directions, signs) = DMatrix::from_row_slice(rows, columns, normal).qr().unpack();
    for column in 0..columns {
        if signs[(column, column)] < 0.0 {
            directions.column_mut(column).neg_mut();
        }
    }
    (directions * triangle).transpose().as_slice().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_angles_stay() {
        // Columns (1, 0, 0) and (1, 1, 0): lengths 1 and √2, product 1.
        let normal = [0.3, -1.2, 0.8, 0.1, -0.4, 0.9];
        let turned = rotated(&[1.0, 1.0, 0.0, 1.0, 0.0, 0.0], &normal, [3, 2]);
        let column = |column: usize| [0, 1, 2].map(|row| turned[row * 2 + column]);
        let dot = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (first, second) = (column(0), column(1));
        for (found, expected) in [(dot(first, first), 1.0), (dot(second, second), 2.0), (dot(first, second), 1.0)] {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        // The first column is that of the normal numbers, of length 1.
        let length = (0.3_f64.powi(2) + 0.8_f64.powi(2) + 0.4_f64.powi(2)).sqrt();
        assert!((first[0].abs() - 0.3 / length).abs() < 1e-12, "{first:?}");
        // Nothing stays nothing.
        assert_eq!(rotated(&[0.0; 6], &normal, [3, 2]), [0.0; 6]);
    }

    #[test]
    fn directions_are_uniform() {
        // The mean square of a coordinate of a uniform direction in two dimensions is a half: here of 0, 1, ..., 359 degrees.
        let turned = (0..360).map(|degrees| {
            let (sine, cosine) = f64::from(degrees).to_radians().sin_cos();
            rotated(&[2.0, 0.0], &[cosine, sine], [2, 1])[0]
        });
        let turned: Vec<f64> = turned.collect();
        assert!((turned.iter().map(|x| x * x).sum::<f64>() / 360.0 - 2.0).abs() < 1e-9);
        assert!(turned.iter().sum::<f64>().abs() < 1e-9);
    }
}
