package cassettetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"cassette/cassettetest"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

func connect(t *testing.T, server *cassettetest.Server, change func(*gocql.ClusterConfig)) *gocql.Session {
	t.Helper()
	cluster := gocql.NewCluster(server.Address())
	cluster.Consistency = gocql.Quorum
	if change != nil {
		change(cluster)
	}
	session, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

const table = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %};" +
	"CREATE TABLE k.t (k int PRIMARY KEY);"

func TestAFaultIsTheErrorThatTheDriverReports(t *testing.T) {
	server := cassettetest.Start(t, cassettetest.WithFaultInjection())
	execute(t, server, "", strings.ReplaceAll(table, "%", "1"))
	session := connect(t, server, nil)
	id, err := server.AddFault("write_timeout", cassettetest.Columns{
		"table_name": "t", "write_type": "BATCH_LOG", "received": 1, "required": 2, "probability": 1.0, "applied": true})
	if err != nil {
		t.Fatal(err)
	}
	var timeout *gocql.RequestErrWriteTimeout
	if err := session.Query("INSERT INTO k.t (k) VALUES (7)").Exec(); !errors.As(err, &timeout) {
		t.Fatalf("expected a write timeout, found %v", err)
	}
	if timeout.WriteType != "BATCH_LOG" || timeout.Received != 1 || timeout.BlockFor != 2 {
		t.Fatalf("%+v", timeout)
	}
	if err := server.RemoveFault(id); err != nil {
		t.Fatal(err)
	}
	var found int
	if err := session.Query("SELECT k FROM k.t WHERE k = 7").Scan(&found); err != nil || found != 7 {
		t.Fatalf("it was applied: %d, %v", found, err)
	}
	if _, err := server.AddFault("it's", nil); err == nil || !strings.Contains(err.Error(), "effect: expected one of") {
		t.Fatalf("%v", err)
	}
	if err := server.ClearFaults(); err != nil {
		t.Fatal(err)
	}
}

// nodeCounts returns how many requests each node has coordinated, and how many of them as a replica.
func nodeCounts(t *testing.T, server *cassettetest.Server) map[string][2]int {
	t.Helper()
	counts := map[string][2]int{}
	rows := execute(t, server, "", "EXPAND OFF; SELECT JSON address, requests, requests_as_replica FROM system_testing.cassette_nodes")
	for _, line := range strings.Split(rows, "\n") {
		start := strings.Index(line, "{")
		end := strings.LastIndex(line, "}")
		if start < 0 || end < start {
			continue
		}
		var node struct {
			Address  string `json:"address"`
			Requests int    `json:"requests"`
			Replica  int    `json:"requests_as_replica"`
		}
		if err := json.Unmarshal([]byte(line[start:end+1]), &node); err != nil {
			t.Fatal(err)
		}
		counts[node.Address] = [2]int{node.Requests, node.Replica}
	}
	return counts
}

func TestTheTokenMapOfTheDriverIsThatOfTheVirtualNodes(t *testing.T) {
	server := cassettetest.Start(t, cassettetest.WithNodes("3"))
	execute(t, server, "", strings.ReplaceAll(table, "%", "1"))
	session := connect(t, server, func(cluster *gocql.ClusterConfig) {
		cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
		cluster.Keyspace = "k"
	})
	if err := session.AwaitSchemaAgreement(context.Background()); err != nil {
		t.Fatal(err)
	}
	before := nodeCounts(t, server)
	const requests = 300
	for k := 0; k < requests; k++ {
		if err := session.Query("INSERT INTO k.t (k) VALUES (?)", k).Exec(); err != nil {
			t.Fatal(err)
		}
	}
	all, asReplica := 0, 0
	after := nodeCounts(t, server)
	if len(after) != 3 {
		t.Fatalf("%v", after)
	}
	for address, counts := range after {
		own := counts[0] - before[address][0]
		if own == 0 {
			t.Errorf("%s has coordinated nothing: %v", address, after)
		}
		all += own
		asReplica += counts[1] - before[address][1]
	}
	if all != requests || asReplica != requests {
		t.Fatalf("of %d requests, %d were counted, and %d sent to a replica", requests, all, asReplica)
	}
}

func TestANodeThatIsDownMakesALevelUnavailable(t *testing.T) {
	server := cassettetest.Start(t, cassettetest.WithNodes("3"))
	execute(t, server, "", strings.ReplaceAll(table, "%", "3"))
	session := connect(t, server, func(cluster *gocql.ClusterConfig) { cluster.Consistency = gocql.All })
	if err := session.Query("SELECT k FROM k.t").Exec(); err != nil {
		t.Fatal(err)
	}
	if err := server.SetNode("127.0.0.3", "down"); err != nil {
		t.Fatal(err)
	}
	// Until the driver has seen the end of its connections, requests can fail by that.
	var unavailable *gocql.RequestErrUnavailable
	for deadline := time.Now().Add(patience); unavailable == nil; {
		err := session.Query("SELECT k FROM k.t").Exec()
		if !errors.As(err, &unavailable) && time.Now().After(deadline) {
			t.Fatalf("expected Unavailable, found %v", err)
		}
	}
	if unavailable.Required != 3 || unavailable.Alive != 2 {
		t.Fatalf("%+v", unavailable)
	}
	if err := server.SetNode("127.0.0.3", "up"); err != nil {
		t.Fatal(err)
	}
	if err := session.Query("SELECT k FROM k.t").Exec(); err != nil {
		t.Fatal(err)
	}
}
