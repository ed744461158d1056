//! Hashes of passwords: bcrypt in the form that Cassandra stores.

use std::str::FromStr;

use bcrypt::{HashParts, Version};

use crate::basics::error::{DatabaseError, Result};

/// The binary logarithm of the rounds of a new hash: Cassandra's `auth_bcrypt_gensalt_log2_rounds`.
const COST: u32 = 10;

/// The greatest accepted cost of a hash. Checking a password against it takes 64 times as long as
/// against a new hash.
const COST_MAX: u32 = 16;

/// The least cost of bcrypt.
const COST_MIN: u32 = 4;

/// A hash of no known password: what a login as an unknown role is checked against, so that its
/// answer takes as long as another.
const OF_NO_PASSWORD: &str = "$2a$10$JSJEMFm6GeaW9XxT5JIheuEtPvat6i7uKbnTcxX3c1wshIIsGyUtG";

/// Hashes a password with a new salt. Takes tens of milliseconds of a processor.
pub(crate) fn hash(password: &str) -> Result<String> {
    let hashed = bcrypt::hash_with_result(password, COST);
    let hashed = hashed.map_err(|error| DatabaseError::Server(format!("cannot hash a password: {error}")))?;
    Ok(hashed.format_for_version(Version::TwoA))
}

/// Returns whether `password` has the hash `hashed`. Without a hash, or with one that
/// [`check_hash`] rejects, takes as long and returns `false`: stored hashes can come from files of
/// other programs, and the greatest cost of bcrypt takes days.
pub(crate) fn verify(password: &str, hashed: Option<&str>) -> bool {
    let known = hashed.filter(|hashed| check_hash(hashed).is_ok());
    let matches = bcrypt::verify(password, known.unwrap_or(OF_NO_PASSWORD)).unwrap_or(false);
    matches && known.is_some()
}

/// Checks that a text is a hash that [`verify`] accepts.
pub(crate) fn check_hash(hashed: &str) -> Result<()> {
    match HashParts::from_str(hashed) {
        Err(_) => Err(DatabaseError::invalid("Invalid hashed password value. Please use jBcrypt.")),
        Ok(parts) if !(COST_MIN..=COST_MAX).contains(&parts.get_cost()) => {
            Err(DatabaseError::Invalid(format!(
                "invalid cost of a hashed password: expected {COST_MIN} to {COST_MAX}, found {}",
                parts.get_cost()
            )))
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by Cassandra 5.0.8 for its default superuser.
    const OF_CASSANDRA: &str = "$2a$10$zObOFimTY907Fj4jkmC2oe4PFZS.SkLxNdY8lcd95ki2HSgJoSLRa";

    #[test]
    fn a_stored_hash_of_excessive_cost_is_rejected_without_computing_it() {
        let costly = OF_CASSANDRA.replacen("$10$", "$31$", 1);
        check_hash(&costly).unwrap_err();
        assert!(!verify("cassandra", Some(&costly)));
    }

    #[test]
    fn a_hash_made_by_cassandra_verifies_its_password_alone() {
        assert!(verify("cassandra", Some(OF_CASSANDRA)));
        assert!(!verify("Cassandra", Some(OF_CASSANDRA)));
        assert!(!verify("", Some(OF_CASSANDRA)));
    }

    #[test]
    fn a_new_hash_has_the_form_of_cassandra_and_its_own_salt() {
        let hashed = hash("geheim").unwrap();
        assert!(hashed.starts_with("$2a$10$") && hashed.len() == 60, "{hashed}");
        assert!(verify("geheim", Some(&hashed)));
        assert!(!verify("geheim ", Some(&hashed)));
        assert_ne!(hashed, hash("geheim").unwrap());
    }

    #[test]
    fn no_password_matches_a_missing_or_invalid_hash() {
        for hashed in [None, Some(""), Some("nonsense"), Some("$2a$10$short")] {
            assert!(!verify("", hashed));
            assert!(!verify("cassandra", hashed));
        }
    }

    #[test]
    fn hashes_that_cannot_be_checked_or_take_too_long_are_refused() {
        check_hash(OF_CASSANDRA).unwrap();
        assert!(check_hash("nonsense").is_err());
        let costly = OF_CASSANDRA.replace("$10$", "$31$");
        assert!(check_hash(&costly).unwrap_err().to_string().contains("expected 4 to 16, found 31"));
    }
}
