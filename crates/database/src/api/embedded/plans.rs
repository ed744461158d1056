//! Cached plans of the texts that a session has executed, so that repeated texts are parsed once.

use std::sync::{Arc, OnceLock};

use quick_cache::Equivalent;
use quick_cache::sync::Cache;

use crate::api::database::Database;
use crate::basics::error::Result;
use crate::statements::plan::Planned;

/// The maximum number of plans of a session.
const PLANS_MAX: usize = 256;
/// The maximum length of a text whose plan is cached, bytes. With [`PLANS_MAX`], it limits the
/// memory of a session to some megabytes.
const TEXT_LENGTH_MAX: usize = 4096;

/// The plans of one session. Only texts with markers are cached: others are rarely repeated.
#[derive(Debug, Default)]
pub(crate) struct Plans(OnceLock<Cache<Text, Arc<Planned>>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Text {
    keyspace: Option<Box<str>>,
    cql: Box<str>,
}

/// A [`Text`] for look-ups. The same fields in the same order have the same hash.
#[derive(Hash)]
struct TextRef<'a> {
    keyspace: Option<&'a str>,
    cql: &'a str,
}

impl Equivalent<Text> for TextRef<'_> {
    fn equivalent(&self, text: &Text) -> bool {
        self.keyspace == text.keyspace.as_deref() && self.cql == &*text.cql
    }
}

impl Plans {
    /// Returns the plan of `cql` for the current schema.
    pub fn plan(&self, database: &Database, keyspace: Option<&str>, cql: &str) -> Result<Arc<Planned>> {
        let text = TextRef { keyspace, cql };
        if let Some(planned) = self.0.get().and_then(|plans| plans.get(&text))
            && Arc::ptr_eq(&planned.catalog, &database.present_catalog())
        {
            return Ok(planned);
        }
        let planned = Arc::new(database.plan(keyspace, cql)?);
        if !planned.markers.is_empty() && cql.len() <= TEXT_LENGTH_MAX {
            let text = Text { keyspace: keyspace.map(Into::into), cql: cql.into() };
            self.0.get_or_init(|| Cache::new(PLANS_MAX)).insert(text, planned.clone());
        }
        Ok(planned)
    }
}
