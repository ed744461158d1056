// Package cassettetest starts Cassette, a Cassandra-compatible database in one binary, in tests.
//
//	func TestUsers(t *testing.T) {
//		server := cassettetest.Start(t)
//		cluster := gocql.NewCluster(server.Address())
//
// A server starts in milliseconds. Its data is in a temporary directory that it removes at its end.
// It ends with the process that started it, even if that is killed.
package cassettetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// stopTimeout is how long Stop waits: the server waits 10 s for requests and 2 s for files.
const stopTimeout = 15 * time.Second

// ready is the line that the server prints when clients can connect.
var ready = regexp.MustCompile(`listens for CQL on ([^ ,]+:\d+)`)

// Server is a running server.
type Server struct {
	address string
	binary  string
	hasSeed bool
	command *exec.Cmd
	stdin   io.WriteCloser
	log     *log
	ended   chan struct{}
	stop    sync.Once
}

type options struct {
	binary    string
	data      []string
	arguments []string
	hasSeed   bool
	timeout   time.Duration
}

// An Option changes how a server is started.
type Option func(*options)

// WithBinary selects the binary, instead of the one that FindBinary finds.
func WithBinary(path string) Option { return func(o *options) { o.binary = path } }

// WithData keeps the data in a directory, instead of a temporary one.
func WithData(directory string) Option {
	return func(o *options) { o.data = []string{"--data", directory} }
}

// InMemory keeps all files in memory, instead of a temporary directory.
func InMemory() Option { return func(o *options) { o.data = []string{"--in-memory"} } }

// WithConfig selects a configuration file with keys of cassandra.yaml.
func WithConfig(path string) Option { return WithArguments("--config", path) }

// WithArguments adds arguments of `cassette serve`.
func WithArguments(arguments ...string) Option {
	return func(o *options) { o.arguments = append(o.arguments, arguments...) }
}

// WithFaultInjection lets tests add faults with Server.AddFault.
func WithFaultInjection() Option { return WithArguments("--fault-injection") }

// WithNodes presents virtual nodes: a number of them, or their places, as in --nodes.
func WithNodes(nodes string) Option { return WithArguments("--nodes", nodes) }

// WithSeed makes UUIDs and times the same in each run, and after each Truncate.
func WithSeed(seed uint64) Option {
	return func(o *options) {
		o.arguments = append(o.arguments, "--seed", strconv.FormatUint(seed, 10))
		o.hasSeed = true
	}
}

// WithTimeout sets how long to wait for the server; the default is 30 s.
func WithTimeout(timeout time.Duration) Option { return func(o *options) { o.timeout = timeout } }

// Run starts a server on a free port of 127.0.0.1, and returns when clients can connect. The caller
// has to stop it. Use it in TestMain, for a server that several tests share; in a test, use Start.
func Run(changes ...Option) (*Server, error) {
	o := options{data: []string{"--temporary"}, timeout: 30 * time.Second}
	for _, change := range changes {
		change(&o)
	}
	if o.binary == "" {
		found, err := FindBinary()
		if err != nil {
			return nil, err
		}
		o.binary = found
	}
	arguments := []string{"serve", "--listen", "127.0.0.1:0", "--admin", "off", "--stop-with-stdin"}
	arguments = append(append(arguments, o.data...), o.arguments...)
	server := &Server{
		binary:  o.binary,
		hasSeed: o.hasSeed,
		command: exec.Command(o.binary, arguments...),
		log:     &log{},
		ended:   make(chan struct{}),
	}
	if err := server.start(o.timeout); err != nil {
		return nil, err
	}
	return server, nil
}

// Address returns the address of the server, 127.0.0.1 and a port. The data center is datacenter1.
func (s *Server) Address() string { return s.address }

// Log returns what the server has logged.
func (s *Server) Log() string { return s.log.String() }

// Stop stops the server, which removes its temporary data. Later calls do nothing.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.stdin.Close()
		select {
		case <-s.ended:
		case <-time.After(stopTimeout):
			s.command.Process.Kill()
			<-s.ended
		}
	})
}

func (s *Server) start(timeout time.Duration) error {
	stdin, err := s.command.StdinPipe()
	if err != nil {
		return err
	}
	s.stdin = stdin
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		return err
	}
	s.command.Stderr = s.log
	if err := s.command.Start(); err != nil {
		return fmt.Errorf("cannot start Cassette: %w", err)
	}
	address := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if found := ready.FindStringSubmatch(lines.Text()); found != nil {
				address <- found[1]
			}
		}
		// The log contains the reason of the end.
		_ = s.command.Wait()
		close(s.ended)
	}()
	select {
	case s.address = <-address:
		return nil
	case <-s.ended:
		err = errors.New("the server ended: " + s.command.ProcessState.String())
	case <-time.After(timeout):
		err = fmt.Errorf("the server was not ready within %v", timeout)
		s.command.Process.Kill()
		<-s.ended
	}
	return fmt.Errorf("%w\n%s", err, s.log)
}
