//! The keywords of the language, and which of them are also valid names.
//!
//! Source: `Lexer.g`, `Parser.g` and `reserved_keywords.txt` of Apache Cassandra 5.0.8.

use crate::native_type::NativeType;

/// The kinds of names for which a keyword can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeywordClass {
    /// None.
    Reserved,
    /// All names, including those of user-defined types and functions.
    Basic,
    /// The keyword of a native type: all names except those of user-defined types.
    Type(NativeType),
    /// All names except those of user-defined types and functions.
    Selector,
}

macro_rules! keywords {
    ($($variant:ident $token:literal [$($spelling:literal)+] $class:expr;)*) => {
        /// A keyword's token. Some have more than one spelling.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Keyword {
            $(#[doc = concat!("`", $token, "`")] $variant,)*
        }

        impl Keyword {
            /// The token's name in error messages.
            pub fn token_name(self) -> &'static str {
                match self {
                    $(Keyword::$variant => $token,)*
                }
            }

            /// Returns the kinds of names for which the keyword can be used.
            pub fn class(self) -> KeywordClass {
                use KeywordClass::*;
                match self {
                    $(Keyword::$variant => $class,)*
                }
            }
        }

        /// Every spelling, in lower case.
        const SPELLINGS: &[(&str, Keyword)] = &[$($(($spelling, Keyword::$variant),)+)*];
    };
}

keywords! {
    Access "K_ACCESS" ["access"] Basic;
    Add "K_ADD" ["add"] Reserved;
    Aggregate "K_AGGREGATE" ["aggregate"] Basic;
    Aggregates "K_AGGREGATES" ["aggregates"] Basic;
    All "K_ALL" ["all"] Basic;
    Allow "K_ALLOW" ["allow"] Reserved;
    Alter "K_ALTER" ["alter"] Reserved;
    And "K_AND" ["and"] Reserved;
    Ann "K_ANN" ["ann"] Basic;
    Apply "K_APPLY" ["apply"] Reserved;
    As "K_AS" ["as"] Basic;
    Asc "K_ASC" ["asc"] Reserved;
    Ascii "K_ASCII" ["ascii"] Type(NativeType::Ascii);
    Authorize "K_AUTHORIZE" ["authorize"] Reserved;
    Batch "K_BATCH" ["batch"] Reserved;
    Begin "K_BEGIN" ["begin"] Reserved;
    BigInt "K_BIGINT" ["bigint"] Type(NativeType::BigInt);
    Blob "K_BLOB" ["blob"] Type(NativeType::Blob);
    Boolean "K_BOOLEAN" ["boolean"] Type(NativeType::Boolean);
    By "K_BY" ["by"] Reserved;
    Called "K_CALLED" ["called"] Basic;
    Cast "K_CAST" ["cast"] Selector;
    Cidrs "K_CIDRS" ["cidrs"] Basic;
    Cluster "K_CLUSTER" ["cluster"] Basic;
    Clustering "K_CLUSTERING" ["clustering"] Basic;
    ColumnFamily "K_COLUMNFAMILY" ["columnfamily" "table"] Reserved;
    Compact "K_COMPACT" ["compact"] Basic;
    Contains "K_CONTAINS" ["contains"] Basic;
    Count "K_COUNT" ["count"] Selector;
    Counter "K_COUNTER" ["counter"] Type(NativeType::Counter);
    Create "K_CREATE" ["create"] Reserved;
    Custom "K_CUSTOM" ["custom"] Basic;
    Datacenters "K_DATACENTERS" ["datacenters"] Basic;
    Date "K_DATE" ["date"] Type(NativeType::Date);
    Decimal "K_DECIMAL" ["decimal"] Type(NativeType::Decimal);
    Default "K_DEFAULT" ["default"] Basic;
    Delete "K_DELETE" ["delete"] Reserved;
    Desc "K_DESC" ["desc"] Reserved;
    Describe "K_DESCRIBE" ["describe"] Reserved;
    Distinct "K_DISTINCT" ["distinct"] Selector;
    Double "K_DOUBLE" ["double"] Type(NativeType::Double);
    Drop "K_DROP" ["drop"] Reserved;
    Duration "K_DURATION" ["duration"] Type(NativeType::Duration);
    Entries "K_ENTRIES" ["entries"] Reserved;
    Execute "K_EXECUTE" ["execute"] Reserved;
    Exists "K_EXISTS" ["exists"] Basic;
    Filtering "K_FILTERING" ["filtering"] Basic;
    FinalFunc "K_FINALFUNC" ["finalfunc"] Basic;
    Float "K_FLOAT" ["float"] Type(NativeType::Float);
    From "K_FROM" ["from"] Reserved;
    Frozen "K_FROZEN" ["frozen"] Basic;
    Full "K_FULL" ["full"] Reserved;
    Function "K_FUNCTION" ["function"] Basic;
    Functions "K_FUNCTIONS" ["functions"] Basic;
    Grant "K_GRANT" ["grant"] Reserved;
    Group "K_GROUP" ["group"] Basic;
    Hashed "K_HASHED" ["hashed"] Basic;
    Identity "K_IDENTITY" ["identity"] Basic;
    If "K_IF" ["if"] Reserved;
    In "K_IN" ["in"] Reserved;
    Index "K_INDEX" ["index"] Reserved;
    Inet "K_INET" ["inet"] Type(NativeType::Inet);
    Infinity "K_POSITIVE_INFINITY" ["infinity"] Reserved;
    InitCond "K_INITCOND" ["initcond"] Basic;
    Input "K_INPUT" ["input"] Basic;
    Insert "K_INSERT" ["insert"] Reserved;
    Int "K_INT" ["int"] Type(NativeType::Int);
    Internals "K_INTERNALS" ["internals"] Basic;
    Into "K_INTO" ["into"] Reserved;
    Is "K_IS" ["is"] Reserved;
    Json "K_JSON" ["json"] Selector;
    Key "K_KEY" ["key"] Selector;
    Keys "K_KEYS" ["keys"] Basic;
    Keyspace "K_KEYSPACE" ["keyspace"] Reserved;
    Keyspaces "K_KEYSPACES" ["keyspaces"] Basic;
    Language "K_LANGUAGE" ["language"] Basic;
    Like "K_LIKE" ["like"] Basic;
    Limit "K_LIMIT" ["limit"] Reserved;
    List "K_LIST" ["list"] Basic;
    Login "K_LOGIN" ["login"] Basic;
    Map "K_MAP" ["map"] Basic;
    Masked "K_MASKED" ["masked"] Basic;
    Materialized "K_MATERIALIZED" ["materialized"] Reserved;
    MaxWriteTime "K_MAXWRITETIME" ["maxwritetime"] Selector;
    MBean "K_MBEAN" ["mbean"] Basic;
    MBeans "K_MBEANS" ["mbeans"] Basic;
    Modify "K_MODIFY" ["modify"] Reserved;
    NaN "K_POSITIVE_NAN" ["nan"] Reserved;
    NoLogin "K_NOLOGIN" ["nologin"] Basic;
    NoRecursive "K_NORECURSIVE" ["norecursive"] Reserved;
    NoSuperuser "K_NOSUPERUSER" ["nosuperuser"] Basic;
    Not "K_NOT" ["not"] Reserved;
    Null "K_NULL" ["null"] Reserved;
    Of "K_OF" ["of"] Reserved;
    On "K_ON" ["on"] Reserved;
    Only "K_ONLY" ["only"] Basic;
    Options "K_OPTIONS" ["options"] Basic;
    Or "K_OR" ["or"] Reserved;
    Order "K_ORDER" ["order"] Reserved;
    Partition "K_PARTITION" ["partition"] Basic;
    Password "K_PASSWORD" ["password"] Basic;
    Per "K_PER" ["per"] Basic;
    Permission "K_PERMISSION" ["permission"] Basic;
    Permissions "K_PERMISSIONS" ["permissions"] Basic;
    Primary "K_PRIMARY" ["primary"] Reserved;
    Rename "K_RENAME" ["rename"] Reserved;
    Replace "K_REPLACE" ["replace"] Basic;
    Returns "K_RETURNS" ["returns"] Basic;
    Revoke "K_REVOKE" ["revoke"] Reserved;
    Role "K_ROLE" ["role"] Basic;
    Roles "K_ROLES" ["roles"] Basic;
    Schema "K_SCHEMA" ["schema"] Reserved;
    Select "K_SELECT" ["select"] Reserved;
    SelectMasked "K_SELECT_MASKED" ["select_masked"] Basic;
    Set "K_SET" ["set"] Reserved;
    SFunc "K_SFUNC" ["sfunc"] Basic;
    SmallInt "K_SMALLINT" ["smallint"] Type(NativeType::SmallInt);
    Static "K_STATIC" ["static"] Basic;
    Storage "K_STORAGE" ["storage"] Basic;
    SType "K_STYPE" ["stype"] Basic;
    Superuser "K_SUPERUSER" ["superuser"] Basic;
    Tables "K_TABLES" ["tables" "columnfamilies"] Basic;
    Text "K_TEXT" ["text"] Type(NativeType::Text);
    Time "K_TIME" ["time"] Type(NativeType::Time);
    Timestamp "K_TIMESTAMP" ["timestamp"] Type(NativeType::Timestamp);
    TimeUuid "K_TIMEUUID" ["timeuuid"] Type(NativeType::TimeUuid);
    TinyInt "K_TINYINT" ["tinyint"] Type(NativeType::TinyInt);
    To "K_TO" ["to"] Reserved;
    Token "K_TOKEN" ["token"] Reserved;
    Trigger "K_TRIGGER" ["trigger"] Basic;
    Truncate "K_TRUNCATE" ["truncate"] Reserved;
    Ttl "K_TTL" ["ttl"] Selector;
    Tuple "K_TUPLE" ["tuple"] Basic;
    Type "K_TYPE" ["type"] Basic;
    Types "K_TYPES" ["types"] Basic;
    Unlogged "K_UNLOGGED" ["unlogged"] Reserved;
    Unmask "K_UNMASK" ["unmask"] Basic;
    Unset "K_UNSET" ["unset"] Basic;
    Update "K_UPDATE" ["update"] Reserved;
    Use "K_USE" ["use"] Reserved;
    User "K_USER" ["user"] Basic;
    Users "K_USERS" ["users"] Basic;
    Using "K_USING" ["using"] Reserved;
    Uuid "K_UUID" ["uuid"] Type(NativeType::Uuid);
    Values "K_VALUES" ["values"] Basic;
    Varchar "K_VARCHAR" ["varchar"] Type(NativeType::Varchar);
    Varint "K_VARINT" ["varint"] Type(NativeType::Varint);
    Vector "K_VECTOR" ["vector"] Basic;
    View "K_VIEW" ["view"] Reserved;
    Where "K_WHERE" ["where"] Reserved;
    With "K_WITH" ["with"] Reserved;
    WriteTime "K_WRITETIME" ["writetime"] Selector;
}

/// Returns the keyword spelled by `word` in any case.
pub fn lookup(word: &[u8]) -> Option<Keyword> {
    let key = fold(word)?;
    let mut slot = slot_of(key);
    loop {
        match TABLE[slot] {
            Some((k, keyword)) if k == key => return Some(keyword),
            Some(_) => slot = (slot + 1) % TABLE_SIZE,
            None => return None,
        }
    }
}

/// Words that cannot name a user-defined type unless quoted: they were reserved for future types.
pub const RESERVED_TYPE_NAMES: [&str; 7] =
    ["byte", "complex", "enum", "date", "interval", "macaddr", "bitstring"];

/// Returns whether `name`, written by [`quote_identifier`](crate::quote_identifier), is parsed as a
/// user-defined type of this name.
pub fn is_plain_type_name(name: &str) -> bool {
    let class = lookup(name.as_bytes()).map(|keyword| (keyword, keyword.class()));
    let taken = matches!(class, Some((_, KeywordClass::Type(_))))
        || matches!(class, Some((keyword, KeywordClass::Selector)) if keyword != Keyword::Key);
    !taken && !RESERVED_TYPE_NAMES.contains(&name)
}

/// Returns whether `name`, written by [`quote_identifier`](crate::quote_identifier) before `(`, is
/// parsed as a function of this name.
pub fn is_plain_function_name(name: &str) -> bool {
    let class = lookup(name.as_bytes()).map(|keyword| (keyword, keyword.class()));
    let taken = matches!(class, Some((keyword, KeywordClass::Selector)) if keyword != Keyword::Count);
    !taken && name != "expr"
}

/// Longer than every spelling.
const WORD_MAX: usize = 16;

/// A power of two, about three times the number of spellings, so that probe sequences are short.
const TABLE_SIZE: usize = 512;

/// Packs the word's letters in lower case; `None` if it is too long for a keyword. `_` folds to
/// 0x7F, unlike any letter or digit.
const fn fold(word: &[u8]) -> Option<u128> {
    if word.len() > WORD_MAX {
        return None;
    }
    let mut key = 0u128;
    let mut i = 0;
    while i < word.len() {
        key = (key << 8) | (word[i] | 0x20) as u128;
        i += 1;
    }
    Some(key)
}

/// Fibonacci hashing of both halves; the top nine bits choose among the 512 slots.
const fn slot_of(key: u128) -> usize {
    let mixed = (key as u64) ^ ((key >> 64) as u64).rotate_left(29);
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55) as usize
}

/// Open addressing, filled while compiling.
static TABLE: [Option<(u128, Keyword)>; TABLE_SIZE] = {
    let mut table = [None; TABLE_SIZE];
    let mut i = 0;
    while i < SPELLINGS.len() {
        let (spelling, keyword) = SPELLINGS[i];
        let Some(key) = fold(spelling.as_bytes()) else { panic!("a keyword longer than WORD_MAX") };
        let mut slot = slot_of(key);
        while table[slot].is_some() {
            slot = (slot + 1) % TABLE_SIZE;
        }
        table[slot] = Some((key, keyword));
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_found_in_any_case() {
        for (spelling, keyword) in SPELLINGS {
            assert_eq!(lookup(spelling.as_bytes()), Some(*keyword));
            assert_eq!(lookup(spelling.to_uppercase().as_bytes()), Some(*keyword));
        }
        assert_eq!(lookup(b"selec"), None);
        assert_eq!(lookup(b"selects"), None);
        assert_eq!(lookup(b""), None);
        assert_eq!(lookup(b"a_word_longer_than_every_keyword"), None);
    }

    #[test]
    fn reserved_words_are_those_that_names_are_quoted_for() {
        for (spelling, keyword) in SPELLINGS {
            let reserved = keyword.class() == KeywordClass::Reserved;
            assert_eq!(cassette_rows::types::is_reserved(spelling), reserved, "{spelling}");
        }
    }
}
