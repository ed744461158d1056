// Starts a server and executes a query, by the shell and by the driver; prints the times since the start.
package main

import (
	"fmt"
	"log"
	"time"

	"cassette/cassettetest"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

const query = "SELECT release_version FROM system.local"

func main() {
	began := time.Now()
	server, err := cassettetest.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	ready := time.Since(began)
	if _, err := server.Execute("", query); err != nil {
		log.Fatal(err)
	}
	queried := time.Since(began)
	session, err := gocql.NewCluster(server.Address()).CreateSession()
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	var version string
	if err := session.Query(query).Scan(&version); err != nil {
		log.Fatal(err)
	}
	driven := ready + time.Since(began) - queried
	for _, duration := range []time.Duration{ready, queried, driven} {
		fmt.Printf("%.1f ", float64(duration.Microseconds())/1000)
	}
	fmt.Println()
}
