package cassettetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BinaryVariable is the environment variable that names the binary to use.
const BinaryVariable = "CASSETTE_BINARY"

// ErrNoBinary is the error if there is no binary of Cassette.
var ErrNoBinary = errors.New("no binary of Cassette: install one on PATH, or set " + BinaryVariable + " to its path")

// FindBinary returns the path of the binary: of the variable CASSETTE_BINARY, else on PATH.
func FindBinary() (string, error) {
	if named := os.Getenv(BinaryVariable); named != "" {
		path, err := filepath.Abs(named)
		if err != nil {
			return "", err
		}
		info, err := os.Stat(path)
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return "", fmt.Errorf("%s: expected a program, found %s", BinaryVariable, named)
		}
		return path, nil
	}
	path, err := exec.LookPath("cassette")
	if err != nil {
		return "", ErrNoBinary
	}
	return filepath.Abs(path)
}
