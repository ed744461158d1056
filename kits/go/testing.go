package cassettetest

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// keyspaces counts the keyspaces of this process, for their names.
var keyspaces atomic.Int64

// Start starts a server for a test, which ends with the test. If the server does not start, the test
// fails; if the test fails, it logs what the server has logged.
func Start(t testing.TB, changes ...Option) *Server {
	t.Helper()
	server, err := Run(changes...)
	if err != nil {
		t.Fatalf("cassettetest: %v", err)
	}
	t.Cleanup(func() {
		server.Stop()
		if t.Failed() {
			t.Logf("log of cassette:\n%s", server.Log())
		}
	})
	return server
}

// Keyspace creates a keyspace with the schema of files, and returns its name. It is dropped at the
// end of the test, so tests that share a server can run in parallel.
func (s *Server) Keyspace(t testing.TB, schema ...string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", keyspaces.Add(1))
	s.mustExecute(t, fmt.Sprintf(
		"CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", name))
	t.Cleanup(func() { s.mustExecute(t, "DROP KEYSPACE IF EXISTS "+name) })
	for _, path := range schema {
		if _, err := s.ExecuteFile(name, path); err != nil {
			t.Fatalf("cassettetest: %v", err)
		}
	}
	return name
}

func (s *Server) mustExecute(t testing.TB, statement string) {
	t.Helper()
	if _, err := s.Execute("", statement); err != nil {
		t.Fatalf("cassettetest: %v", err)
	}
}
