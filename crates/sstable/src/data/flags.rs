//! The flag bytes of rows, markers and cells. Never change these: they are Cassandra's.

/// The end of the partition; nothing follows.
pub const END_OF_PARTITION: u8 = 0x01;
/// A range tombstone marker; alone.
pub const IS_MARKER: u8 = 0x02;
/// The row has liveness.
pub const HAS_TIMESTAMP: u8 = 0x04;
/// The liveness expires.
pub const HAS_TTL: u8 = 0x08;
/// The row is deleted.
pub const HAS_DELETION: u8 = 0x10;
/// All columns of the header are present: no subset follows.
pub const HAS_ALL_COLUMNS: u8 = 0x20;
/// Complex columns begin with a deletion.
pub const HAS_COMPLEX_DELETION: u8 = 0x40;
/// A byte of extended flags follows.
pub const EXTENSION: u8 = 0x80;

/// Extended: the static row.
pub const IS_STATIC: u8 = 0x01;
/// Extended: the row's deletion is shadowable, as views once had.
pub const HAS_SHADOWABLE_DELETION: u8 = 0x02;

/// The cell is a tombstone.
pub const CELL_IS_DELETED: u8 = 0x01;
/// The cell expires.
pub const CELL_IS_EXPIRING: u8 = 0x02;
/// The cell has no value bytes.
pub const CELL_HAS_EMPTY_VALUE: u8 = 0x04;
/// The cell's timestamp is that of the row's liveness.
pub const CELL_USES_ROW_TIMESTAMP: u8 = 0x08;
/// The cell's TTL and expiration are those of the row's liveness.
pub const CELL_USES_ROW_TTL: u8 = 0x10;
/// All flags of cells.
pub const CELL_ALL: u8 = 0x1f;
