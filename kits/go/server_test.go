package cassettetest_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cassette/cassettetest"
)

const patience = time.Minute

const keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};"

// shared is the server of tests that need none for themselves.
var shared *cassettetest.Server

func TestMain(m *testing.M) {
	if os.Getenv("CASSETTETEST_CHILD") != "" {
		runUntilKilled()
	}
	var err error
	if shared, err = cassettetest.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	shared.Stop()
	os.Exit(code)
}

// runUntilKilled prints the address of a server, and never ends by itself.
func runUntilKilled() {
	server, err := cassettetest.Run()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(server.Address())
	time.Sleep(time.Hour)
}

func execute(t *testing.T, server *cassettetest.Server, keyspace, statements string) string {
	t.Helper()
	out, err := server.Execute(keyspace, statements)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func serves(address string) bool {
	connection, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		connection.Close()
	}
	return err == nil
}

func entries(t *testing.T, directory string) int {
	t.Helper()
	found, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

func TestAServerEndsWithItsTestWithoutATrace(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var address string
	t.Run("user", func(t *testing.T) {
		server := cassettetest.Start(t)
		address = server.Address()
		if out := execute(t, server, "", "SELECT release_version FROM system.local"); !strings.Contains(out, "5.0") {
			t.Fatal(out)
		}
		if entries(t, temporary) == 0 {
			t.Fatal("the server has no data")
		}
	})
	if serves(address) {
		t.Fatal("the server still serves")
	}
	if entries(t, temporary) != 0 {
		t.Fatal("the server left data")
	}
}

func TestTheServerEndsWithAProcessThatIsKilled(t *testing.T) {
	temporary := t.TempDir()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "CASSETTETEST_CHILD=1", "TMPDIR="+temporary)
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	address := strings.TrimSpace(line)
	if err != nil || !serves(address) {
		t.Fatal(line, err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	for deadline := time.Now().Add(patience); serves(address) || entries(t, temporary) != 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server outlives the process that started it")
		}
	}
}

func TestKeyspacesOfTestsAreSeparateAndDropped(t *testing.T) {
	var names [2]string
	t.Run("users", func(t *testing.T) {
		for i := range names {
			names[i] = shared.Keyspace(t, filepath.Join("testdata", "users.cql"))
			execute(t, shared, names[i], "INSERT INTO users (id) VALUES (7)")
		}
	})
	if names[0] == names[1] {
		t.Fatal(names)
	}
	if out := execute(t, shared, "", "DESCRIBE KEYSPACES"); strings.Contains(out, names[0]) {
		t.Fatal(out)
	}
}

func TestAllTablesAreTruncated(t *testing.T) {
	server := cassettetest.Start(t)
	if err := server.Truncate(); err != nil {
		t.Fatal(err)
	}
	execute(t, server, "", keyspace+`CREATE TABLE k."T" (k int PRIMARY KEY); INSERT INTO k."T" (k) VALUES (7);`)
	if err := server.Truncate(); err != nil {
		t.Fatal(err)
	}
	if out := execute(t, server, "k", `SELECT k FROM "T"`); !strings.Contains(out, "(0 rows)") {
		t.Fatal(out)
	}
}

func TestAStatementThatFailsIsAnErrorWithItsReason(t *testing.T) {
	if _, err := shared.Execute("", "SELECT * FROM nowhere.t"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Fatal(err)
	}
}

func TestAServerThatDoesNotStartIsAnErrorWithItsLog(t *testing.T) {
	_, err := cassettetest.Run(cassettetest.WithArguments("--wrong"))
	if err == nil || !strings.Contains(err.Error(), "unexpected argument '--wrong'") {
		t.Fatal(err)
	}
}

func TestADirectoryKeepsItsData(t *testing.T) {
	data := cassettetest.WithData(filepath.Join(t.TempDir(), "data"))
	server := cassettetest.Start(t, data)
	execute(t, server, "", keyspace)
	server.Stop()
	if out := execute(t, cassettetest.Start(t, data), "k", "DESCRIBE KEYSPACES"); !strings.Contains(out, "k") {
		t.Fatal(out)
	}
}

func TestAServerInMemoryHasNoFiles(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	server := cassettetest.Start(t, cassettetest.InMemory())
	execute(t, server, "", keyspace)
	if files, err := os.ReadDir(temporary); err != nil || len(files) > 0 {
		t.Fatal(files, err)
	}
}

func TestASeedMakesUuidsAndTimesTheSameInEachRunAndAfterEachTruncation(t *testing.T) {
	written := func(server *cassettetest.Server) string {
		execute(t, server, "k", "INSERT INTO t (k, id, at) VALUES (1, uuid(), toTimestamp(now()))")
		return execute(t, server, "k", "SELECT JSON id, at, writetime(id) FROM t")
	}
	var seen []string
	for _, seed := range []uint64{7, 7, 8} {
		server := cassettetest.Start(t, cassettetest.InMemory(), cassettetest.WithSeed(seed))
		execute(t, server, "", keyspace)
		execute(t, server, "k", "CREATE TABLE t (k int PRIMARY KEY, id uuid, at timestamp)")
		first := written(server)
		if err := server.Truncate(); err != nil {
			t.Fatal(err)
		}
		if again := written(server); again != first {
			t.Fatal(first, again)
		}
		seen = append(seen, first)
	}
	if seen[0] != seen[1] || seen[0] == seen[2] || !strings.Contains(seen[0], "2025-01-01") {
		t.Fatal(seen)
	}
}

func TestAConfigurationFileApplies(t *testing.T) {
	config := filepath.Join(t.TempDir(), "cassandra.yaml")
	if err := os.WriteFile(config, []byte("cluster_name: 'of the file'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := cassettetest.Start(t, cassettetest.WithConfig(config))
	if out := execute(t, server, "", "SELECT cluster_name FROM system.local"); !strings.Contains(out, "of the file") {
		t.Fatal(out)
	}
}

func TestTheBinaryOfTheVariableIsBeforePath(t *testing.T) {
	named, onPath := filepath.Join(t.TempDir(), "named"), filepath.Join(t.TempDir(), "cassette")
	for _, path := range []string{named, onPath} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Dir(onPath))
	t.Setenv(cassettetest.BinaryVariable, named)
	expect := func(expected string) {
		t.Helper()
		if found, err := cassettetest.FindBinary(); found != expected || (err == nil) != (expected != "") {
			t.Fatalf("expected %q, found %q, %v", expected, found, err)
		}
	}
	expect(named)
	t.Setenv(cassettetest.BinaryVariable, "")
	expect(onPath)
	t.Setenv(cassettetest.BinaryVariable, filepath.Dir(onPath))
	expect("")
	t.Setenv(cassettetest.BinaryVariable, "")
	t.Setenv("PATH", "")
	expect("")
}
