package stdio

import (
	"bufio"
	"errors"
	"io"
	"sync"
)

// stream takes whole messages of several senders, one after the other.
type stream struct {
	mu sync.Mutex
	to io.Writer
}

// send writes one message. It adds the line break that the message lacks.
func (s *stream) send(message []byte) error {
	if n := len(message); n == 0 || message[n-1] != '\n' {
		message = append(message[:n:n], '\n')
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.to.Write(message)
	return err
}

// sendOn writes the beginning of a message, and the rest of its line as that comes.
func (s *stream) sendOn(begun []byte, from *bufio.Reader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.to.Write(begun)
	for err == nil {
		part, failed := from.ReadSlice('\n')
		if _, err = s.to.Write(part); err == nil && !errors.Is(failed, bufio.ErrBufferFull) {
			return failed
		}
	}
	return err
}

// readLine reads a line with its end. whole is false where it is longer than most says: the rest is unread.
func readLine(from *bufio.Reader, most func() int) (line []byte, whole bool, err error) {
	for {
		part, err := from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) <= most():
		case errors.Is(err, bufio.ErrBufferFull):
			return line, false, nil
		default:
			return line, true, err
		}
	}
}
