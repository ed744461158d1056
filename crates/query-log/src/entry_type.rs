//! The types of audit entries and their categories, with the names of Cassandra 5.0.8.

macro_rules! entry_types {
    ($($variant:ident $code:literal $name:literal $category:ident,)*) => {
        /// What an audit entry records.
        #[expect(missing_docs, reason = "the names are those of Cassandra")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum AuditEntryType {
            $($variant,)*
        }

        impl AuditEntryType {
            /// All types.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name in logs.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns the category.
            pub fn category(self) -> AuditCategory {
                match self {
                    $(Self::$variant => AuditCategory::$category,)*
                }
            }

            /// Returns the number in files.
            pub fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code,)*
                }
            }
        }
    };
}

// The numbers are stored: new types get new ones.
entry_types! {
    Select 1 "SELECT" Query,
    Update 2 "UPDATE" Dml,
    Delete 3 "DELETE" Dml,
    Batch 4 "BATCH" Dml,
    Truncate 5 "TRUNCATE" Ddl,
    CreateKeyspace 6 "CREATE_KEYSPACE" Ddl,
    AlterKeyspace 7 "ALTER_KEYSPACE" Ddl,
    DropKeyspace 8 "DROP_KEYSPACE" Ddl,
    CreateTable 9 "CREATE_TABLE" Ddl,
    AlterTable 10 "ALTER_TABLE" Ddl,
    DropTable 11 "DROP_TABLE" Ddl,
    CreateType 12 "CREATE_TYPE" Ddl,
    AlterType 13 "ALTER_TYPE" Ddl,
    DropType 14 "DROP_TYPE" Ddl,
    CreateIndex 15 "CREATE_INDEX" Ddl,
    DropIndex 16 "DROP_INDEX" Ddl,
    CreateView 17 "CREATE_VIEW" Ddl,
    AlterView 18 "ALTER_VIEW" Ddl,
    DropView 19 "DROP_VIEW" Ddl,
    CreateFunction 20 "CREATE_FUNCTION" Ddl,
    DropFunction 21 "DROP_FUNCTION" Ddl,
    CreateAggregate 22 "CREATE_AGGREGATE" Ddl,
    DropAggregate 23 "DROP_AGGREGATE" Ddl,
    CreateTrigger 24 "CREATE_TRIGGER" Ddl,
    DropTrigger 25 "DROP_TRIGGER" Ddl,
    CreateRole 26 "CREATE_ROLE" Dcl,
    AlterRole 27 "ALTER_ROLE" Dcl,
    DropRole 28 "DROP_ROLE" Dcl,
    Grant 29 "GRANT" Dcl,
    Revoke 30 "REVOKE" Dcl,
    ListRoles 31 "LIST_ROLES" Dcl,
    ListPermissions 32 "LIST_PERMISSIONS" Dcl,
    CreateIdentity 33 "CREATE_IDENTITY" Dcl,
    DropIdentity 34 "DROP_IDENTITY" Dcl,
    UseKeyspace 35 "USE_KEYSPACE" Other,
    Describe 36 "DESCRIBE" Other,
    PrepareStatement 37 "PREPARE_STATEMENT" Prepare,
    RequestFailure 38 "REQUEST_FAILURE" Error,
    UnauthorizedAttempt 39 "UNAUTHORIZED_ATTEMPT" Auth,
    LoginSuccess 40 "LOGIN_SUCCESS" Auth,
    LoginError 41 "LOGIN_ERROR" Auth,
}

impl AuditEntryType {
    /// Returns the type with a number in files.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|entry_type| entry_type.code() == code)
    }
}

/// The category of an audit entry, by which entries are included and excluded.
#[expect(missing_docs, reason = "the names are those of Cassandra")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditCategory {
    Query,
    Dml,
    Ddl,
    Dcl,
    Other,
    Auth,
    Error,
    Prepare,
}

impl AuditCategory {
    /// All categories.
    pub const ALL: [Self; 8] =
        [Self::Query, Self::Dml, Self::Ddl, Self::Dcl, Self::Other, Self::Auth, Self::Error, Self::Prepare];

    /// Returns the name in settings and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Query => "QUERY",
            Self::Dml => "DML",
            Self::Ddl => "DDL",
            Self::Dcl => "DCL",
            Self::Other => "OTHER",
            Self::Auth => "AUTH",
            Self::Error => "ERROR",
            Self::Prepare => "PREPARE",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_type_has_its_own_number_and_is_found_by_it() {
        let codes: BTreeSet<u8> = AuditEntryType::ALL.iter().map(|entry_type| entry_type.code()).collect();
        assert_eq!(codes.len(), AuditEntryType::ALL.len());
        for entry_type in AuditEntryType::ALL {
            assert_eq!(AuditEntryType::of_code(entry_type.code()), Some(*entry_type));
        }
        assert_eq!(AuditEntryType::of_code(0), None);
    }
}
