//! Similarity functions.

use std::fmt;

use crate::kernels;

/// A similarity function, with Cassandra's name. Greater values are more similar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Similarity {
    /// (1 + cosine) / 2
    #[default]
    Cosine,
    /// (1 + product) / 2
    DotProduct,
    /// 1 / (1 + distance²)
    Euclidean,
}

/// The reason why a vector cannot be compared with others. Cassandra's text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Invalid {
    /// Its cosines are undefined.
    Zero,
    /// An element is infinite or not a number.
    NotFinite(usize, f32),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("Zero vectors cannot be indexed or queried with cosine similarity"),
            Self::NotFinite(index, element) => {
                let element = match element {
                    element if element.is_nan() => "NaN",
                    element if element.is_sign_negative() => "-Infinity",
                    _ => "Infinity",
                };
                write!(f, "non-finite value at vector[{index}]={element}")
            }
        }
    }
}

impl Similarity {
    /// Returns the function called `name`, in any case.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Cosine, Self::DotProduct, Self::Euclidean]
            .into_iter()
            .find(|similarity| similarity.name().eq_ignore_ascii_case(name))
    }

    /// Returns the name in options of indexes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::DotProduct => "dot_product",
            Self::Euclidean => "euclidean",
        }
    }

    /// Checks that a vector can be compared with others.
    ///
    /// # Errors
    /// If an element is not finite, or if all are zero and have no cosine.
    pub fn validate(self, vector: &[f32]) -> Result<(), Invalid> {
        if let Some(index) = vector.iter().position(|element| !element.is_finite()) {
            return Err(Invalid::NotFinite(index, vector[index]));
        }
        if self == Self::Cosine && vector.iter().all(|element| *element == 0.0) {
            return Err(Invalid::Zero);
        }
        Ok(())
    }

    /// Returns the form of a vector between which [`distance`](Self::distance) is defined: for
    /// cosines, of length 1.
    pub fn prepare(self, mut vector: Vec<f32>) -> Vec<f32> {
        if self == Self::Cosine {
            // In doubles, because squares of small and of large floats are not floats.
            let square: f64 = vector.iter().map(|element| f64::from(*element) * f64::from(*element)).sum();
            let length = square.sqrt();
            if length > 0.0 {
                vector.iter_mut().for_each(|element| *element = (f64::from(*element) / length) as f32);
            }
        }
        vector
    }

    /// Returns the distance of two vectors with their [`reciprocal_length`]s: the more similar they
    /// are, the smaller.
    #[inline]
    pub fn distance_of(self, (a, a_reciprocal): (&[f32], f32), (b, b_reciprocal): (&[f32], f32)) -> f32 {
        let distance = self.distance(a, b);
        if self != Self::Cosine {
            return distance;
        }
        let distance = distance * a_reciprocal * b_reciprocal;
        // Products of very large or small elements overflow; such vectors are taken as orthogonal.
        if distance.is_nan() { 0.0 } else { distance }
    }

    /// Returns the distance of two prepared vectors: the more similar they are, the smaller.
    #[inline]
    pub fn distance(self, a: &[f32], b: &[f32]) -> f32 {
        match self {
            Self::Cosine | Self::DotProduct => -kernels::dot(a, b),
            Self::Euclidean => kernels::squared_distance(a, b),
        }
    }
}

/// Returns 1 / the length of a vector; 0 for a zero vector.
pub fn reciprocal_length(vector: &[f32]) -> f32 {
    // In doubles, because squares of small and of large floats are not floats.
    let square: f64 = vector.iter().map(|element| f64::from(*element) * f64::from(*element)).sum();
    if square > 0.0 { square.sqrt().recip() as f32 } else { 0.0 }
}

/// Returns the floats of a serialized vector; `None` if it does not have `dimension` elements.
pub fn floats(bytes: &[u8], dimension: usize) -> Option<Vec<f32>> {
    let (elements, rest) = bytes.as_chunks::<4>();
    let is_whole = rest.is_empty() && elements.len() == dimension;
    is_whole.then(|| elements.iter().map(|element| f32::from_be_bytes(*element)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(Similarity::named("DOT_Product"), Some(Similarity::DotProduct));
        assert_eq!(Similarity::named("Cosine"), Some(Similarity::Cosine));
        assert_eq!(Similarity::named("euclidean"), Some(Similarity::Euclidean));
        assert_eq!(Similarity::named("manhattan"), None);
    }

    #[test]
    fn vectors_that_cannot_be_compared_are_rejected() {
        let cosine = Similarity::Cosine;
        assert_eq!(cosine.validate(&[0.0, -0.0]), Err(Invalid::Zero));
        assert_eq!(cosine.validate(&[0.0, 1e-30]), Ok(()));
        assert_eq!(Similarity::Euclidean.validate(&[0.0, 0.0]), Ok(()));
        let infinite = Similarity::DotProduct.validate(&[1.0, f32::NEG_INFINITY]);
        assert_eq!(infinite.unwrap_err().to_string(), "non-finite value at vector[1]=-Infinity");
    }

    #[test]
    fn distances_order_vectors_as_similarities_do() {
        let of = |similarity: Similarity, a: [f32; 2], b: [f32; 2]| {
            similarity.distance(&similarity.prepare(a.to_vec()), &similarity.prepare(b.to_vec()))
        };
        let cosine = |a, b| of(Similarity::Cosine, a, b);
        assert!(cosine([1.0, 0.0], [5.0, 1.0]) < cosine([1.0, 0.0], [1.0, 1.0]));
        assert!(cosine([1e-30, 0.0], [1e30, 0.0]) < -0.999);
        let euclidean = |a, b| of(Similarity::Euclidean, a, b);
        assert!(euclidean([1.0, 0.0], [5.0, 1.0]) > euclidean([1.0, 0.0], [1.0, 1.0]));
        let product = |a, b| of(Similarity::DotProduct, a, b);
        assert!(product([1.0, 0.0], [5.0, 1.0]) < product([1.0, 0.0], [1.0, 1.0]));
    }

    #[test]
    fn serialized_vectors_of_another_length_are_not_read() {
        let bytes = [1.5f32.to_be_bytes(), (-2f32).to_be_bytes()].concat();
        assert_eq!(floats(&bytes, 2), Some(vec![1.5, -2.0]));
        assert_eq!(floats(&bytes, 3), None);
        assert_eq!(floats(&bytes[..7], 2), None);
    }
}
