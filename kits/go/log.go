package cassettetest

import (
	"bytes"
	"sync"
)

// logBytes is how much of a log is kept.
const logBytes = 1 << 20

// log keeps the end of what is written to it.
type log struct {
	mutex sync.Mutex
	text  []byte
}

func (l *log) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.text = append(l.text, text...)
	if len(l.text) > 2*logBytes {
		l.text = bytes.Clone(l.text[len(l.text)-logBytes:])
	}
	return len(text), nil
}

func (l *log) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return string(l.text)
}
