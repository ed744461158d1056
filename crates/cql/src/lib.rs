//! The language: statements, parser, literals and how values are written; no I/O.
