//! Sizes filters by Cassandra's table of false positive rates.

/// The size for a false positive chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Bits of the filter per expected key.
    pub bits_per_key: u32,
    /// Bits set per key.
    pub hashes: u32,
}

/// The false positive rate with b bits per key (rows, from b = 2) and k hashes (columns, from k =
/// 1).
///
/// Cassandra's rates, from the analysis of Bloom filters by Pei Cao; they determine sizes on disk:
/// never change them.
#[rustfmt::skip]
const RATES: [&[f64]; 19] = [
    &[0.393, 0.400],
    &[0.283, 0.237, 0.253],
    &[0.221, 0.155, 0.147, 0.160],
    &[0.181, 0.109, 0.092, 0.092, 0.101],
    &[0.154, 0.0804, 0.0609, 0.0561, 0.0578, 0.0638],
    &[0.133, 0.0618, 0.0423, 0.0359, 0.0347, 0.0364],
    &[0.118, 0.0489, 0.0306, 0.024, 0.0217, 0.0216, 0.0229],
    &[0.105, 0.0397, 0.0228, 0.0166, 0.0141, 0.0133, 0.0135, 0.0145],
    &[0.0952, 0.0329, 0.0174, 0.0118, 0.00943, 0.00844, 0.00819, 0.00846],
    &[0.0869, 0.0276, 0.0136, 0.00864, 0.0065, 0.00552, 0.00513, 0.00509],
    &[0.08, 0.0236, 0.0108, 0.00646, 0.00459, 0.00371, 0.00329, 0.00314],
    &[0.074, 0.0203, 0.00875, 0.00492, 0.00332, 0.00255, 0.00217, 0.00199, 0.00194],
    &[0.0689, 0.0177, 0.00718, 0.00381, 0.00244, 0.00179, 0.00146, 0.00129, 0.00121, 0.0012],
    &[0.0645, 0.0156, 0.00596, 0.003, 0.00183, 0.00128, 0.001, 0.000852, 0.000775, 0.000744],
    &[0.0606, 0.0138, 0.005, 0.00239, 0.00139, 0.000935, 0.000702, 0.000574, 0.000505, 0.00047, 0.000459],
    &[0.0571, 0.0123, 0.00423, 0.00193, 0.00107, 0.000692, 0.000499, 0.000394, 0.000335, 0.000302, 0.000287, 0.000284],
    &[0.054, 0.0111, 0.00362, 0.00158, 0.000839, 0.000519, 0.00036, 0.000275, 0.000226, 0.000198, 0.000183, 0.000176],
    &[0.0513, 0.00998, 0.00312, 0.0013, 0.000663, 0.000394, 0.000264, 0.000194, 0.000155, 0.000132, 0.000118, 0.000111,
      0.000109],
    &[0.0488, 0.00906, 0.0027, 0.00108, 0.00053, 0.000303, 0.000196, 0.00014, 0.000108, 8.89e-05, 7.77e-05, 7.12e-05,
      6.79e-05, 6.71e-05],
];

/// The bits per key of the first row of [`RATES`].
const FIRST_BITS: u32 = 2;

/// Returns the smallest size whose rate is at most `chance`, and then the fewest hashes that still
/// reach it.
///
/// A chance below all rates gets the largest size; the engine rejects such a table option.
pub fn spec(chance: f64) -> Spec {
    // Chances that one hash on two bits reaches.
    if chance >= RATES[0][0] {
        return Spec { bits_per_key: 1, hashes: 2 };
    }
    for (row, rates) in RATES.iter().enumerate() {
        let best = best(rates);
        if rates[best] <= chance {
            let fewer = (0..best).rev().take_while(|&k| rates[k] <= chance).last();
            return Spec { bits_per_key: row as u32 + FIRST_BITS, hashes: fewer.unwrap_or(best) as u32 + 1 };
        }
    }
    Spec {
        bits_per_key: RATES.len() as u32 + FIRST_BITS - 1,
        hashes: best(RATES[RATES.len() - 1]) as u32 + 1,
    }
}

/// The smallest rate of the table.
pub fn least_chance() -> f64 {
    let last = RATES[RATES.len() - 1];
    last[best(last)]
}

/// Returns the column of the row's smallest rate; the first of equal ones.
fn best(rates: &[f64]) -> usize {
    (0..rates.len()).reduce(|best, k| if rates[k] < rates[best] { k } else { best }).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_give_cassandras_sizes() {
        for (chance, bits_per_key, hashes) in
            [(0.1, 5, 3), (0.01, 10, 5), (0.001, 15, 7), (0.0001, 20, 10), (0.5, 1, 2)]
        {
            assert_eq!(spec(chance), Spec { bits_per_key, hashes }, "{chance}");
        }
        assert_eq!(spec(1e-9).bits_per_key, 20);
        assert_eq!(least_chance(), 6.71e-5);
    }
}
