//! Listener, connections, sessions: the native protocol over TCP.
