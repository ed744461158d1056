//! Dot products and squared distances of vectors.
//!
//! The loops have independent sums for 32 elements at a time, which the compiler turns into vector
//! instructions. On x86-64 they are compiled three times, and the widest instructions that the
//! processor has are chosen at run time. Results differ in the last bits between processors.

use std::sync::LazyLock;

/// The number of independent sums.
const LANES: usize = 32;

/// A kernel: vectors of one length to a number. Elements beyond the shorter one are ignored.
type Kernel = fn(&[f32], &[f32]) -> f32;

struct Kernels {
    dot: Kernel,
    squared_distance: Kernel,
}

static KERNELS: LazyLock<Kernels> = LazyLock::new(choose);

/// Returns the sum of the products.
#[inline]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    (KERNELS.dot)(a, b)
}

/// Returns the sum of the squared differences.
#[inline]
pub fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
    (KERNELS.squared_distance)(a, b)
}

/// Lets the processor read the beginning of a vector into its cache. The processor itself reads on
/// from there.
#[inline]
pub fn prefetch(vector: &[f32]) {
    const LINE: usize = 64 / size_of::<f32>();
    const LINES_MAX: usize = 8;
    #[cfg(target_arch = "x86_64")]
    for line in vector.chunks(LINE).take(LINES_MAX) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch neither reads nor writes memory for the program, and cannot fault;
        // every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (vector, LINE, LINES_MAX);
}

#[cfg(target_arch = "x86_64")]
fn choose() -> Kernels {
    if is_x86_feature_detected!("avx512f") {
        return Kernels { dot: wide::dot, squared_distance: wide::squared_distance };
    }
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        return Kernels { dot: fused::dot, squared_distance: fused::squared_distance };
    }
    portable()
}

#[cfg(not(target_arch = "x86_64"))]
fn choose() -> Kernels {
    portable()
}

fn portable() -> Kernels {
    Kernels {
        dot: |a, b| accumulate(a, b, |sum, a, b| sum + a * b),
        squared_distance: |a, b| accumulate(a, b, |sum, a, b| sum + (a - b) * (a - b)),
    }
}

/// Sums `add` over all pairs of elements.
#[inline(always)]
fn accumulate(a: &[f32], b: &[f32], add: impl Fn(f32, f32, f32) -> f32) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] = add(sums[lane], a[lane], b[lane]);
        }
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    a_rest.iter().zip(b_rest).fold(sums[0], |sum, (a, b)| add(sum, *a, *b))
}

/// Defines a module with the kernels compiled for these features of x86-64.
#[cfg(target_arch = "x86_64")]
macro_rules! kernels {
    ($module:ident, $features:literal) => {
        mod $module {
            use super::accumulate;

            #[target_feature(enable = $features)]
            fn featured_dot(a: &[f32], b: &[f32]) -> f32 {
                accumulate(a, b, |sum, a, b| a.mul_add(b, sum))
            }

            #[target_feature(enable = $features)]
            fn featured_squared_distance(a: &[f32], b: &[f32]) -> f32 {
                accumulate(a, b, |sum, a, b| (a - b).mul_add(a - b, sum))
            }

            /// Requires the features, which `choose` has detected before it returns this function.
            pub fn dot(a: &[f32], b: &[f32]) -> f32 {
                // SAFETY: only `choose` refers to this function, and only if the processor has
                // these features. They are the only requirement: the function is safe otherwise.
                unsafe { featured_dot(a, b) }
            }

            /// Requires the features, which `choose` has detected before it returns this function.
            pub fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
                // SAFETY: as for `dot`.
                unsafe { featured_squared_distance(a, b) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernels!(wide, "avx512f,avx2,fma");
#[cfg(target_arch = "x86_64")]
kernels!(fused, "avx2,fma");

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of many lengths, with their exact results.
    fn cases() -> impl Iterator<Item = (Vec<f32>, Vec<f32>, f64, f64)> {
        (0..200usize).map(|length| {
            let element = |i: usize, factor: usize| ((i * factor) % 17) as f32 - 8.0;
            let a: Vec<f32> = (0..length).map(|i| element(i, 7)).collect();
            let b: Vec<f32> = (0..length).map(|i| element(i, 11)).collect();
            let pairs = || a.iter().zip(&b).map(|(a, b)| (f64::from(*a), f64::from(*b)));
            let dot = pairs().map(|(a, b)| a * b).sum();
            let squares = pairs().map(|(a, b)| (a - b) * (a - b)).sum();
            (a, b, dot, squares)
        })
    }

    #[test]
    fn all_kernels_compute_the_same() {
        for kernels in [choose(), portable()] {
            for (a, b, dot, squares) in cases() {
                // Integers of this size are exact.
                assert_eq!(f64::from((kernels.dot)(&a, &b)), dot, "{} elements", a.len());
                assert_eq!(f64::from((kernels.squared_distance)(&a, &b)), squares, "{} elements", a.len());
            }
        }
    }

    #[test]
    fn the_rest_of_a_longer_vector_is_ignored() {
        assert_eq!(dot(&[1.0, 2.0, 3.0], &[4.0]), 4.0);
        assert_eq!(squared_distance(&[], &[4.0]), 0.0);
    }
}
