package cassettetest_test

import (
	"testing"

	"cassette/cassettetest"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

func TestUsers(t *testing.T) {
	server := cassettetest.Start(t)
	cluster := gocql.NewCluster(server.Address())
	cluster.Keyspace = server.Keyspace(t, "testdata/users.cql")
	session, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.Query("INSERT INTO users (id, name) VALUES (?, ?)", 1, "ada").Exec(); err != nil {
		t.Fatal(err)
	}
	var name string
	if err := session.Query("SELECT name FROM users WHERE id = ?", 1).Scan(&name); err != nil || name != "ada" {
		t.Fatalf("expected ada, found %q, %v", name, err)
	}
}
