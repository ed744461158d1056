//! Files and time behind traits: the real ones, and fakes that fail on command.
